//! Progress of a sweep, written to standard error while its runs execute.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::super::virtual_run::ProgressFormat;

/// Time between two lines of JSON.
const JSON_INTERVAL: Duration = Duration::from_secs(1);

/// The progress of a sweep: a bar, or lines of JSON with the number of finished runs.
pub(super) struct SweepProgress {
    lab: String,
    runs: usize,
    started: Instant,
    output: SweepProgressOutput,
}

enum SweepProgressOutput {
    Bar(ProgressBar),
    Lines {
        write_line: fn(&str),
        /// Time since the start of the sweep at which the latest line was written. `None` before the first line.
        latest: Option<Duration>,
    },
}

/// One line of progress.
#[derive(Debug, Serialize)]
struct SweepProgressLine<'a> {
    schema: &'static str,
    lab: &'a str,
    /// Always `sweep`.
    phase: &'static str,
    /// Seconds since the start of the sweep.
    elapsed_s: f64,
    /// Finished runs in percent.
    percent: f64,
    /// Number of finished runs.
    finished_runs: usize,
    /// Number of runs of the sweep, or of its part with `--shard`.
    runs: usize,
    /// Estimated seconds until the end of the sweep. `None` before the first run is finished.
    remaining_s: Option<f64>,
}

impl SweepProgress {
    /// Starts to write the progress of `runs` runs of a lab.
    pub(super) fn start(format: ProgressFormat, lab: &str, runs: usize) -> SweepProgress {
        let output = match format {
            ProgressFormat::Json(write_line) => SweepProgressOutput::Lines {
                write_line,
                latest: None,
            },
            ProgressFormat::Bar => SweepProgressOutput::Bar(create_progress_bar(runs)),
            ProgressFormat::Hidden => {
                let bar = create_progress_bar(runs);
                bar.set_draw_target(ProgressDrawTarget::hidden());
                SweepProgressOutput::Bar(bar)
            }
        };
        let mut progress = SweepProgress {
            lab: lab.to_owned(),
            runs,
            started: Instant::now(),
            output,
        };
        progress.update(0);
        progress
    }

    /// Shows the number of finished runs. Lines of JSON are written once a second, and for the last run.
    pub(super) fn update(&mut self, finished_runs: usize) {
        let elapsed = self.started.elapsed();
        let line = self.line(finished_runs, elapsed);
        match &mut self.output {
            SweepProgressOutput::Bar(bar) => bar.set_position(finished_runs as u64),
            SweepProgressOutput::Lines { write_line, latest } => {
                let is_due = latest.is_none_or(|latest| elapsed.saturating_sub(latest) >= JSON_INTERVAL);
                if is_due || finished_runs == self.runs {
                    *latest = Some(elapsed);
                    write_line(&line);
                }
            }
        }
    }

    /// Removes the bar.
    pub(super) fn finish(self) {
        if let SweepProgressOutput::Bar(bar) = self.output {
            bar.finish_and_clear();
        }
    }

    fn line(&self, finished_runs: usize, elapsed: Duration) -> String {
        let elapsed_s = elapsed.as_secs_f64();
        let part = match self.runs {
            0 => 1.0,
            runs => finished_runs as f64 / runs as f64,
        };
        let line = SweepProgressLine {
            schema: "xoff.progress/1",
            lab: &self.lab,
            phase: "sweep",
            elapsed_s,
            percent: part * 100.0,
            finished_runs,
            runs: self.runs,
            remaining_s: (part > 0.0).then(|| elapsed_s * (1.0 - part) / part),
        };
        serde_json::to_string(&line).unwrap_or_default()
    }
}

/// Creates a progress bar for a number of runs. The bar is hidden if standard error is not a terminal.
pub(crate) fn create_progress_bar(runs: usize) -> ProgressBar {
    let bar = ProgressBar::new(runs as u64);
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar.set_style(
        ProgressStyle::with_template("runs: {pos} of {len} {wide_bar} {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_finished_runs_percent_and_time_left() {
        let progress = SweepProgress::start(ProgressFormat::Json(|_| ()), "ring", 8);
        let line = progress.line(2, Duration::from_secs(3));
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            line,
            serde_json::json!({
                "schema": "xoff.progress/1", "lab": "ring", "phase": "sweep", "elapsed_s": 3.0,
                "percent": 25.0, "finished_runs": 2, "runs": 8, "remaining_s": 9.0,
            })
        );
        let first: serde_json::Value = serde_json::from_str(&progress.line(0, Duration::ZERO)).unwrap();
        assert!(
            first["remaining_s"].is_null() && first["percent"] == 0.0,
            "{first}"
        );
        let last: serde_json::Value =
            serde_json::from_str(&progress.line(8, Duration::from_secs(9))).unwrap();
        assert!(last["remaining_s"] == 0.0 && last["percent"] == 100.0, "{last}");
    }
}
