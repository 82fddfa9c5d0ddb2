//! Progress of a run in virtual time, written to standard error while the run lasts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender};
use indicatif::{FormattedDuration, ProgressBar, ProgressStyle};
use serde::Serialize;
use xoff_telemetry::format_nanos;
use xoff_units::Picos;

/// Length of the progress bar: its position is in thousandths of the run.
const BAR_LEN: u64 = 1000;
/// Time between two updates of the progress bar.
const BAR_INTERVAL: Duration = Duration::from_millis(100);
/// Time between two lines of JSON.
const JSON_INTERVAL: Duration = Duration::from_secs(1);
/// Value of [`SharedState::completed_millionths`] if the completed part of the run is unknown.
const UNKNOWN: u64 = u64::MAX;

/// How the progress of a run appears.
#[derive(Clone, Copy, Debug, Default)]
pub enum ProgressFormat {
    /// No progress is written.
    #[default]
    Hidden,
    /// A bar on standard error, for a terminal.
    Bar,
    /// A JSON object per second. The function writes it as a line.
    Json(fn(&str)),
}

/// The end of a run, as far as it is known before the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpectedEnd {
    /// Model time at which the run ends at the latest. `None`: no such time is known.
    pub(super) time_limit: Option<Picos>,
    /// Model time before which the run does not end, because its flows last until then. Used only with jobs.
    pub(super) flows_end: Picos,
    /// Payload that all jobs transfer, in bytes. The run ends after this payload. `None`: the run has no jobs.
    pub(super) payload_bytes: Option<u64>,
}

impl ExpectedEnd {
    /// Returns the completed part of a run, from 0 to 1. `model_time` is the time since the start of the workload,
    /// and `payload_bytes` is the payload that has arrived at hosts. Returns `None` if no end is known.
    fn completed_part(self, model_time: Picos, payload_bytes: u64) -> Option<f64> {
        let by_limit = self.time_limit.map(|end| part_of(model_time.0, end.0));
        let by_workload = self.payload_bytes.map(|all| {
            let by_flows = part_of(model_time.0, self.flows_end.0);
            part_of(payload_bytes, all).min(by_flows)
        });
        // The run ends when its workload is complete or the limit is reached.
        by_limit.into_iter().chain(by_workload).reduce(f64::max)
    }
}

fn part_of(done: u64, all: u64) -> f64 {
    match all {
        0 => 1.0,
        all => (done as f64 / all as f64).min(1.0),
    }
}

/// State that the run writes and the progress thread reads.
#[derive(Debug)]
struct SharedState {
    is_running: AtomicBool,
    model_time_ps: AtomicU64,
    events: AtomicU64,
    completed_millionths: AtomicU64,
}

/// The progress of a run. A thread writes it at regular intervals, also while the fabric is built. The last value
/// disappears when this object is dropped.
#[derive(Debug)]
pub(crate) struct RunProgress {
    shared: Arc<SharedState>,
    /// The thread ends when this sender is dropped.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// The bar, if there is one.
    bar: Option<ProgressBar>,
}

impl RunProgress {
    /// Starts to write progress. `name` is the name of the lab or of its file.
    pub(crate) fn start(format: ProgressFormat, name: &str) -> RunProgress {
        let shared = Arc::new(SharedState {
            is_running: AtomicBool::new(false),
            model_time_ps: AtomicU64::new(0),
            events: AtomicU64::new(0),
            completed_millionths: AtomicU64::new(UNKNOWN),
        });
        let (stop, stopped) = crossbeam_channel::bounded::<()>(0);
        let mut writer = ProgressWriter {
            name: name.to_owned(),
            shared: Arc::clone(&shared),
            started: Instant::now(),
            rate: EventRate::default(),
        };
        let (interval, output) = match format {
            ProgressFormat::Hidden => {
                return RunProgress {
                    shared,
                    stop: None,
                    thread: None,
                    bar: None,
                };
            }
            ProgressFormat::Bar => (BAR_INTERVAL, ProgressOutput::Bar(create_bar())),
            ProgressFormat::Json(write_line) => (JSON_INTERVAL, ProgressOutput::Lines(write_line)),
        };
        let bar = match &output {
            ProgressOutput::Bar(bar) => Some(bar.clone()),
            ProgressOutput::Lines(_) => None,
        };
        let thread = std::thread::Builder::new().name("xoff-progress".to_owned());
        let write_until_stopped = move || {
            loop {
                output.show(&writer.read());
                if stopped.recv_timeout(interval) == Err(RecvTimeoutError::Disconnected) {
                    break;
                }
            }
            output.finish(&writer.read());
        };
        // A run without progress is better than no run.
        let thread = thread.spawn(write_until_stopped).ok();
        RunProgress {
            shared,
            stop: Some(stop),
            thread,
            bar,
        }
    }

    /// Calls `write` while no bar is on the terminal, so that the lines that `write` writes are not mixed with it.
    pub(super) fn suspend(&self, write: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Records the state of a run. `events` counts from the start of the run. See
    /// [`ExpectedEnd::completed_part`] for the other arguments.
    pub(super) fn update(&self, end: ExpectedEnd, model_time: Picos, events: u64, payload_bytes: u64) {
        let part = end.completed_part(model_time, payload_bytes);
        let millionths = part.map_or(UNKNOWN, |part| (part * 1e6) as u64);
        let shared = &self.shared;
        shared.model_time_ps.store(model_time.0, Ordering::Relaxed);
        shared.events.store(events, Ordering::Relaxed);
        shared.completed_millionths.store(millionths, Ordering::Relaxed);
        shared.is_running.store(true, Ordering::Relaxed);
    }
}

impl Drop for RunProgress {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is already on standard error.
            let _ = thread.join();
        }
    }
}

/// The place where the thread writes progress.
enum ProgressOutput {
    Bar(ProgressBar),
    Lines(fn(&str)),
}

impl ProgressOutput {
    fn show(&self, progress: &Progress) {
        match self {
            ProgressOutput::Bar(bar) => progress.show_in(bar),
            ProgressOutput::Lines(write_line) => {
                if let Ok(line) = serde_json::to_string(progress) {
                    write_line(&line);
                }
            }
        }
    }

    /// Removes the bar, or writes the last line.
    fn finish(&self, progress: &Progress) {
        match self {
            ProgressOutput::Bar(bar) => bar.finish_and_clear(),
            ProgressOutput::Lines(_) => self.show(progress),
        }
    }
}

/// Reads the state of the run for the thread.
struct ProgressWriter {
    name: String,
    shared: Arc<SharedState>,
    started: Instant,
    rate: EventRate,
}

impl ProgressWriter {
    fn read(&mut self) -> Progress {
        let elapsed = self.started.elapsed();
        let shared = &self.shared;
        let events = shared.events.load(Ordering::Relaxed);
        let completed = match shared.completed_millionths.load(Ordering::Relaxed) {
            UNKNOWN => None,
            millionths => Some(millionths as f64 / 1e6),
        };
        let is_running = shared.is_running.load(Ordering::Relaxed);
        if !is_running {
            self.rate.begin(elapsed);
        }
        Progress {
            schema: "xoff.progress/1",
            lab: self.name.clone(),
            phase: if is_running { "running" } else { "building" },
            elapsed_s: elapsed.as_secs_f64(),
            percent: completed.map(|part| part * 100.0),
            model_time_ns: shared.model_time_ps.load(Ordering::Relaxed) / 1000,
            events,
            events_per_second: self.rate.measure(elapsed, events),
            remaining_s: self.rate.remaining_s(elapsed, completed),
        }
    }
}

/// Rate of events in the last second, and the time left.
#[derive(Debug, Default)]
struct EventRate {
    /// Time at which the run began, after the fabric was built.
    began: Duration,
    /// Time and number of events at the start of the current measurement.
    since: (Duration, u64),
    rate: f64,
}

impl EventRate {
    fn begin(&mut self, now: Duration) {
        self.began = now;
        self.since = (now, 0);
    }

    /// Returns the number of events per second. A measurement lasts at least one second. Before its end, the
    /// result is the rate since the start of the run.
    fn measure(&mut self, now: Duration, events: u64) -> f64 {
        let span = now.saturating_sub(self.since.0);
        let rate = |events: u64| match span.as_secs_f64() {
            0.0 => 0.0,
            seconds => events as f64 / seconds,
        };
        if span >= Duration::from_secs(1) {
            self.rate = rate(events - self.since.1);
            self.since = (now, events);
        } else if self.rate == 0.0 {
            return rate(events - self.since.1);
        }
        self.rate
    }

    /// Returns the estimated number of seconds until the end of the run, or `None` if nothing is known yet.
    fn remaining_s(&self, now: Duration, completed: Option<f64>) -> Option<f64> {
        let completed = completed.filter(|part| *part > 0.0)?;
        Some(now.saturating_sub(self.began).as_secs_f64() * (1.0 - completed) / completed)
    }
}

/// One line of progress.
#[derive(Debug, Serialize)]
struct Progress {
    schema: &'static str,
    lab: String,
    /// `building` or `running`.
    phase: &'static str,
    /// Seconds since the start of the command.
    elapsed_s: f64,
    /// Completed part of the run in percent. `None` if the end of the run is unknown.
    percent: Option<f64>,
    model_time_ns: u64,
    events: u64,
    events_per_second: f64,
    /// Estimated seconds until the end of the run. `None` if nothing is known yet.
    remaining_s: Option<f64>,
}

impl Progress {
    fn show_in(&self, bar: &ProgressBar) {
        bar.set_position((self.percent.unwrap_or(0.0) / 100.0 * BAR_LEN as f64) as u64);
        bar.set_message(self.describe());
    }

    /// Describes the progress for a person.
    fn describe(&self) -> String {
        if self.phase == "building" {
            return format!("{}: building", self.lab);
        }
        let percent = self.percent.map(|percent| format!(" {percent:.0} %,"));
        let left = self.remaining_s.map(|seconds| {
            let seconds = seconds.clamp(0.0, 1e9).round();
            format!(
                ", {} left",
                FormattedDuration(Duration::from_secs(seconds as u64))
            )
        });
        format!(
            "{}:{} {} of model time, {:.1} M events/s{}",
            self.lab,
            percent.unwrap_or_default(),
            format_nanos(self.model_time_ns),
            self.events_per_second / 1e6,
            left.unwrap_or_default()
        )
    }
}

fn create_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {elapsed}");
    ProgressBar::new(BAR_LEN).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_end_determines_the_completed_part() {
        let end = |time_limit: Option<u64>, payload_bytes| ExpectedEnd {
            time_limit: time_limit.map(Picos::from_micros),
            flows_end: Picos::ZERO,
            payload_bytes,
        };
        let at = Picos::from_micros(1);
        assert_eq!(end(None, None).completed_part(at, 5), None);
        assert_eq!(end(Some(4), None).completed_part(at, 5), Some(0.25));
        assert_eq!(end(None, Some(50)).completed_part(at, 5), Some(0.1));
        assert_eq!(end(Some(2), Some(50)).completed_part(at, 5), Some(0.5));
        // Retransmissions can deliver more than the payload of the jobs.
        assert_eq!(end(None, Some(50)).completed_part(at, 60), Some(1.0));
        assert_eq!(end(None, Some(0)).completed_part(at, 0), Some(1.0));
        // A run with jobs and flows ends with the later of both.
        let with_flows = ExpectedEnd {
            flows_end: Picos::from_micros(10),
            ..end(None, Some(50))
        };
        assert_eq!(with_flows.completed_part(at, 45), Some(0.1));
        assert_eq!(with_flows.completed_part(Picos::from_micros(9), 5), Some(0.1));
    }

    #[test]
    fn the_rate_is_that_of_the_last_second() {
        let mut rate = EventRate::default();
        let at = Duration::from_millis;
        rate.begin(at(5_000));
        assert_eq!(rate.measure(at(5_500), 100), 200.0);
        assert_eq!(rate.measure(at(6_000), 300), 300.0);
        assert_eq!(rate.measure(at(6_500), 900), 300.0, "a second has not passed");
        assert_eq!(rate.measure(at(8_000), 1_300), 500.0);
        // 40 % took three seconds.
        let left = rate
            .remaining_s(at(8_000), Some(0.4))
            .expect("a part is complete");
        assert!((left - 4.5).abs() < 1e-9, "{left}");
        assert_eq!(rate.remaining_s(at(8_000), Some(0.0)), None);
    }

    #[test]
    fn a_person_reads_percent_rate_and_time_left() {
        let mut progress = Progress {
            schema: "xoff.progress/1",
            lab: "ring".to_owned(),
            phase: "running",
            elapsed_s: 10.0,
            percent: Some(42.4),
            model_time_ns: 1_500_000,
            events: 52_000_000,
            events_per_second: 5_200_000.0,
            remaining_s: Some(61.2),
        };
        assert_eq!(
            progress.describe(),
            "ring: 42 %, 1.50 ms of model time, 5.2 M events/s, 00:01:01 left"
        );
        (progress.percent, progress.remaining_s) = (None, None);
        assert_eq!(progress.describe(), "ring: 1.50 ms of model time, 5.2 M events/s");
        progress.phase = "building";
        assert_eq!(progress.describe(), "ring: building");
    }
}
