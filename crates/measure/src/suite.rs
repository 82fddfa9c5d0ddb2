//! Common parts of the benchmark suites of RFC 2544, RFC 2889 and RFC 8239.

use xoff_units::Picos;

use super::dut::{Dut, FrameSize, StreamResult, TrafficPattern, TrafficStream, Trial, TrialResult};
use super::ndr::{
    LOAD_MAX, LoadBounds, OfferedTraffic, SearchGoal, TrialDurations, find_rates_with,
    no_frame_forwarded_failure, virtual_trial_duration,
};
use super::result::{BenchFigure, BenchResult, ImprovementDirection};
use xoff_telemetry::failure::{Exit, Failure};

/// A device under test (DUT) with the settings of its benchmarks (RFC 2544, RFC 2889 and RFC 8239). The
/// benchmarks add their figures (measured quantities) to `result`.
#[derive(Debug)]
pub struct BenchmarkSuite<'a, D> {
    /// The device under test.
    pub dut: &'a mut D,
    /// Frame sizes. A benchmark measures each of them, unless its documentation says otherwise.
    pub sizes: Vec<FrameSize>,
    /// Traffic pattern of benchmarks that do not prescribe one.
    pub pattern: TrafficPattern,
    /// Largest burst that a search tries, in frames per sender, at least 1 (`--burst-max`).
    pub burst_max: u64,
    /// The result to which the benchmarks add figures, notes and taints.
    pub result: &'a mut BenchResult,
    trials: u64,
}

/// The highest load without loss, in three units.
#[derive(Clone, Copy, Debug)]
pub struct Throughput {
    /// Frames per second, as the sum over all senders.
    pub fps: f64,
    /// Bits per second, as the sum over all senders. The frames count with FCS, and without preamble and gap.
    pub bps: f64,
    /// Load of each sender as a share of its line rate, 0 to 1.
    pub share: f64,
}

impl<'a, D: Dut> BenchmarkSuite<'a, D> {
    /// Creates a suite that adds its figures to `result`.
    pub fn new(
        dut: &'a mut D,
        sizes: Vec<FrameSize>,
        pattern: TrafficPattern,
        burst_max: u64,
        result: &'a mut BenchResult,
    ) -> BenchmarkSuite<'a, D> {
        BenchmarkSuite {
            dut,
            sizes,
            pattern,
            burst_max,
            result,
            trials: 0,
        }
    }

    /// Adds a figure with one sample to the result.
    pub fn add_figure(&mut self, name: String, unit: &str, better: ImprovementDirection, value: f64) {
        self.add_samples(name, unit, better, vec![value]);
    }

    /// Adds a figure with several samples to the result.
    ///
    /// # Panics
    /// `samples` is empty.
    pub fn add_samples(&mut self, name: String, unit: &str, better: ImprovementDirection, samples: Vec<f64>) {
        self.result
            .figures
            .push(BenchFigure::new(name, unit, better, samples));
    }

    /// Adds the figures `PREFIX/rate`, `PREFIX/bandwidth` and `PREFIX/share` of a throughput.
    pub fn add_throughput(&mut self, prefix: &str, throughput: Throughput) {
        self.add_figure(
            format!("{prefix}/rate"),
            "frames/s",
            ImprovementDirection::Bigger,
            throughput.fps,
        );
        self.add_figure(
            format!("{prefix}/bandwidth"),
            "Gb/s",
            ImprovementDirection::Bigger,
            throughput.bps / 1e9,
        );
        self.add_figure(
            format!("{prefix}/share"),
            "percent",
            ImprovementDirection::Bigger,
            throughput.share * 100.0,
        );
    }

    /// Adds the figure `PREFIX/lost`, the share of lost frames in a trial. For a lossless device, also adds
    /// `PREFIX/paused`, the share of the paused time ([`TrialResult::paused_ratio`]).
    pub fn add_loss_figures(&mut self, prefix: &str, outcome: &TrialResult) {
        self.add_figure(
            format!("{prefix}/lost"),
            "percent",
            ImprovementDirection::Smaller,
            outcome.loss_ratio() * 100.0,
        );
        if self.dut.is_lossless() {
            self.add_figure(
                format!("{prefix}/paused"),
                "percent",
                ImprovementDirection::Smaller,
                outcome.paused_ratio() * 100.0,
            );
        }
    }

    /// Runs a trial with new random start times of the streams. `duration` is the sending time
    /// ([`Trial::duration`]). Taints of the trial (facts that can have changed a measured value) are also
    /// added to the benchmark result of this suite.
    ///
    /// # Errors
    /// See [`Dut::run`].
    pub fn run_with_new_phases(
        &mut self,
        streams: Vec<TrafficStream>,
        duration: Picos,
    ) -> Result<TrialResult, Failure> {
        self.trials += 1;
        let phases = Some(self.trials);
        self.run_trial(Trial {
            streams,
            duration,
            phases,
        })
    }

    /// Runs a trial in which each stream starts exactly at its [`TrafficStream::start`]. `duration` is the
    /// sending time ([`Trial::duration`]). Taints of the trial (facts that can have changed a measured value)
    /// are also added to the benchmark result of this suite.
    ///
    /// # Errors
    /// See [`Dut::run`].
    pub fn run_simultaneously(
        &mut self,
        streams: Vec<TrafficStream>,
        duration: Picos,
    ) -> Result<TrialResult, Failure> {
        self.run_trial(Trial {
            streams,
            duration,
            phases: None,
        })
    }

    fn run_trial(&mut self, trial: Trial) -> Result<TrialResult, Failure> {
        let outcome = self.dut.run(&trial)?;
        for why in &outcome.tainted {
            if !self.result.tainted.contains(why) {
                self.result.tainted.push(why.clone());
            }
        }
        Ok(outcome)
    }

    /// Returns the duration of a trial with this pattern and frame size ([`virtual_trial_duration`]).
    pub fn trial_duration(&self, pattern: TrafficPattern, size: FrameSize) -> Picos {
        virtual_trial_duration(self.dut, pattern, size)
    }

    /// Measures the highest load of a pattern without loss. For a lossless device, a pause of a sender also
    /// counts as loss.
    ///
    /// # Errors
    /// See [`Dut::run`]. Also fails if frames are lost at every load.
    pub fn measure_throughput(
        &mut self,
        pattern: TrafficPattern,
        size: FrameSize,
    ) -> Result<Throughput, Failure> {
        let ports = self.dut.ports().len();
        let offer = OfferedTraffic {
            pattern,
            size,
            flows: 1,
        };
        let goal = self.loss_free_goal(pattern, size);
        let bounds = self.find_load(goal, |share, duration, number| {
            offer.trial_at_load(ports, share, duration, number)
        })?;
        let share = bounds.lower.unwrap_or(0.0);
        let (fps, bps) = offer.offered_rate(self.dut, share);
        Ok(Throughput { fps, bps, share })
    }

    /// Returns the goal of a search for the highest load without loss (NDR).
    pub fn loss_free_goal(&self, pattern: TrafficPattern, size: FrameSize) -> SearchGoal {
        TrialDurations::for_virtual_time(self.dut, pattern, size).ndr_and_pdr_goals()[0]
    }

    /// Finds the bounds of the highest load that meets a goal. `make_trial` receives a load (share of the
    /// line rate), a duration and the seed of the random start times.
    ///
    /// # Errors
    /// See [`Dut::run`]. Also fails if no load meets the goal or no frame is received.
    pub fn find_load(
        &mut self,
        goal: SearchGoal,
        make_trial: impl Fn(f64, Picos, u64) -> Trial,
    ) -> Result<LoadBounds, Failure> {
        let rates = find_rates_with(self.dut, &[goal], LOAD_MAX, make_trial)?;
        let bounds = rates.bounds[0];
        self.result.tainted.extend(rates.tainted);
        if rates.received == 0 {
            return Err(no_frame_forwarded_failure());
        }
        match bounds.lower {
            Some(_) => Ok(bounds),
            None => Err(Failure::new(
                Exit::Inconclusive,
                "no load is free of loss, so there is no throughput",
            )
            .because("frames were lost or senders paused at the smallest load that is tried")
            .fix("check with `xoff bench probe` whether the switch forwards frames of this class")),
        }
    }

    /// Returns whether a trial lost no frame. For a lossless device, the trial must also contain no pause.
    pub fn is_loss_free(&self, outcome: &TrialResult) -> bool {
        let paused = self.dut.is_lossless() && outcome.ports.iter().any(|port| port.xoff_frames > 0);
        outcome.sum_over_streams(StreamResult::lost_frames) == 0 && !paused
    }

    /// Finds the longest burst without loss. `streams` receives the length of a burst in frames per sender,
    /// and returns the streams of a trial. The result is the length of the longest burst without loss, 0 if
    /// there is none. The second value is true if a burst of `burst_max` frames had no loss.
    ///
    /// # Errors
    /// See [`Dut::run`].
    pub fn find_longest_burst(
        &mut self,
        streams: impl Fn(u64) -> Vec<TrafficStream>,
    ) -> Result<(u64, bool), Failure> {
        let has_no_loss = |suite: &mut Self, frames: u64| -> Result<bool, Failure> {
            let streams = streams(frames);
            let duration = longest_burst_duration(suite.dut, &streams);
            let outcome = suite.run_simultaneously(streams, duration)?;
            Ok(suite.is_loss_free(&outcome))
        };
        let (mut longest, mut next) = (0, 1);
        while has_no_loss(self, next)? {
            longest = next;
            if next == self.burst_max {
                return Ok((longest, true));
            }
            next = (next * 2).min(self.burst_max);
        }
        while next - longest > 1 {
            let middle = longest + (next - longest) / 2;
            match has_no_loss(self, middle)? {
                true => longest = middle,
                false => next = middle,
            }
        }
        Ok((longest, false))
    }

    /// Adds a note that bursts longer than `burst_max` were not tried. `name` is the start of the note.
    pub fn note_burst_limit(&mut self, name: &str) {
        let most = self.burst_max;
        self.result.notes.push(format!(
            "{name}: longer bursts than {} were not tried (--burst-max)",
            xoff_telemetry::count_noun(most, "frame")
        ));
    }
}

/// Returns the time that the slowest burst needs: the largest value of frames divided by send rate.
fn longest_burst_duration(dut: &impl Dut, streams: &[TrafficStream]) -> Picos {
    let longest = streams.iter().map(|stream| {
        let rate = stream.size.line_rate_fps(&dut.ports()[stream.from].link) * stream.share;
        (stream.frames.unwrap_or(0) as f64 * 1e12 / rate) as u64
    });
    Picos(longest.max().unwrap_or(0).max(1))
}

/// Returns the usage error for a benchmark that xoff does not measure. `why` is the reason.
pub fn unsupported_test_failure(test: &str, why: &str) -> Failure {
    Failure::usage(format!("{test} is not measured here"))
        .because(why)
        .fix("name other tests, or none for all that are measured")
}

#[cfg(test)]
mod tests;
