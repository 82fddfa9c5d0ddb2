//! What the test suites of RFC 2544, RFC 2889 and RFC 8239 have in common.

use xoff_units::Picos;

use super::dut::{Dut, FrameSize, Outcome, Pattern, Stream, StreamOutcome, Trial};
use super::ndr::{Durations, Found, Goal, LOAD_MAX, Offer, find_by, nothing_came_out, trial_time};
use super::result::{BenchResult, Better, Figure};
use xoff_telemetry::failure::{Exit, Failure};

/// A device, what is offered to it, and where figures go.
#[derive(Debug)]
pub struct Suite<'a, D> {
    /// The device.
    pub dut: &'a mut D,
    /// Lengths of frames.
    pub sizes: Vec<FrameSize>,
    /// Who sends to whom, where the test leaves that open.
    pub pattern: Pattern,
    /// Largest burst that is tried, in frames of each sender.
    pub burst_max: u64,
    /// Figures, notes and taints.
    pub result: &'a mut BenchResult,
    trials: u64,
}

/// A rate, in the three units of the field.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Frames a second, of all senders.
    pub fps: f64,
    /// Bits a second with FCS, without preamble and gap.
    pub bps: f64,
    /// Share of each sender's line rate, 0 to 1.
    pub share: f64,
}

impl<'a, D: Dut> Suite<'a, D> {
    /// A suite that writes into `result`.
    pub fn new(
        dut: &'a mut D,
        sizes: Vec<FrameSize>,
        pattern: Pattern,
        burst_max: u64,
        result: &'a mut BenchResult,
    ) -> Suite<'a, D> {
        Suite {
            dut,
            sizes,
            pattern,
            burst_max,
            result,
            trials: 0,
        }
    }

    /// Adds a figure of one value.
    pub fn figure(&mut self, name: String, unit: &str, better: Better, value: f64) {
        self.figures(name, unit, better, vec![value]);
    }

    /// Adds a figure.
    pub fn figures(&mut self, name: String, unit: &str, better: Better, samples: Vec<f64>) {
        self.result.figures.push(Figure::new(name, unit, better, samples));
    }

    /// Adds rate, bandwidth and share under a prefix.
    pub fn rate(&mut self, prefix: &str, rate: Rate) {
        self.figure(format!("{prefix}/rate"), "frames/s", Better::Bigger, rate.fps);
        self.figure(
            format!("{prefix}/bandwidth"),
            "Gb/s",
            Better::Bigger,
            rate.bps / 1e9,
        );
        self.figure(
            format!("{prefix}/share"),
            "percent",
            Better::Bigger,
            rate.share * 100.0,
        );
    }

    /// Adds what came of a trial at a load: frames lost, time paused if that is what this device has instead, backlog grown.
    pub fn shortfall(&mut self, prefix: &str, outcome: &Outcome) {
        self.figure(
            format!("{prefix}/lost"),
            "percent",
            Better::Smaller,
            outcome.loss_ratio() * 100.0,
        );
        if self.dut.is_lossless() {
            self.figure(
                format!("{prefix}/paused"),
                "percent",
                Better::Smaller,
                outcome.paused_ratio() * 100.0,
            );
        }
    }

    /// Offers streams that draw other phases than those before.
    ///
    /// # Errors
    /// As [`Dut::run`].
    pub fn offer(&mut self, streams: Vec<Stream>, duration: Picos) -> Result<Outcome, Failure> {
        self.trials += 1;
        let phases = Some(self.trials);
        self.run(Trial {
            streams,
            duration,
            phases,
        })
    }

    /// Offers streams that begin at once.
    ///
    /// # Errors
    /// As [`Dut::run`].
    pub fn offer_at_once(&mut self, streams: Vec<Stream>, duration: Picos) -> Result<Outcome, Failure> {
        self.run(Trial {
            streams,
            duration,
            phases: None,
        })
    }

    fn run(&mut self, trial: Trial) -> Result<Outcome, Failure> {
        let outcome = self.dut.run(&trial)?;
        for why in &outcome.tainted {
            if !self.result.tainted.contains(why) {
                self.result.tainted.push(why.clone());
            }
        }
        Ok(outcome)
    }

    /// How long a trial lasts.
    pub fn trial_time(&self, pattern: Pattern, size: FrameSize) -> Picos {
        trial_time(self.dut, pattern, size)
    }

    /// The loss-free rate of a pattern.
    ///
    /// # Errors
    /// As [`Dut::run`]; no load is free of loss.
    pub fn throughput(&mut self, pattern: Pattern, size: FrameSize) -> Result<Rate, Failure> {
        let ports = self.dut.ports().len();
        let offer = Offer {
            pattern,
            size,
            flows: 1,
        };
        let goal = self.goal(pattern, size);
        let found = self.find(goal, |share, duration, number| {
            offer.trial(ports, share, duration, number)
        })?;
        let share = found.lower.unwrap_or(0.0);
        let (fps, bps) = offer.rate(self.dut, share);
        Ok(Rate { fps, bps, share })
    }

    /// The goal of no loss.
    pub fn goal(&self, pattern: Pattern, size: FrameSize) -> Goal {
        Durations::virtual_time(self.dut, pattern, size).goals()[0]
    }

    /// The highest share that meets a goal.
    ///
    /// # Errors
    /// As [`Dut::run`]; no load meets it, or nothing comes out at any.
    pub fn find(&mut self, goal: Goal, trial: impl Fn(f64, Picos, u64) -> Trial) -> Result<Found, Failure> {
        let rates = find_by(self.dut, &[goal], LOAD_MAX, trial)?;
        let found = rates.found[0];
        self.result.tainted.extend(rates.tainted);
        if rates.received == 0 {
            return Err(nothing_came_out());
        }
        match found.lower {
            Some(_) => Ok(found),
            None => Err(Failure::new(
                Exit::Inconclusive,
                "no load is free of loss, so there is no throughput",
            )
            .because("frames were lost or senders paused at the smallest load that is tried")
            .fix("see with `xoff bench probe` whether frames of this class pass at all")),
        }
    }

    /// Whether a trial lost nothing and, where that is what this device has instead, paused nobody.
    pub fn is_clean(&self, outcome: &Outcome) -> bool {
        let paused = self.dut.is_lossless() && outcome.ports.iter().any(|port| port.xoff_frames > 0);
        outcome.total(StreamOutcome::lost) == 0 && !paused
    }

    /// The longest burst of every sender, in frames, with which a trial is clean; the second value: longer ones than allowed were
    /// clean too.
    ///
    /// # Errors
    /// As [`Dut::run`].
    pub fn longest_burst(&mut self, streams: impl Fn(u64) -> Vec<Stream>) -> Result<(u64, bool), Failure> {
        let clean = |suite: &mut Self, frames: u64| -> Result<bool, Failure> {
            let streams = streams(frames);
            let duration = burst_time(suite.dut, &streams);
            let outcome = suite.offer_at_once(streams, duration)?;
            Ok(suite.is_clean(&outcome))
        };
        let (mut longest, mut next) = (0, 1);
        while clean(self, next)? {
            longest = next;
            if next == self.burst_max {
                return Ok((longest, true));
            }
            next = (next * 2).min(self.burst_max);
        }
        while next - longest > 1 {
            let middle = longest + (next - longest) / 2;
            match clean(self, middle)? {
                true => longest = middle,
                false => next = middle,
            }
        }
        Ok((longest, false))
    }

    /// Notes that a burst could have been longer.
    pub fn note_open(&mut self, name: &str) {
        let most = self.burst_max;
        self.result.notes.push(format!(
            "{name}: longer bursts than {most} frames would do too (--burst-max)"
        ));
    }
}

/// How long the longest of these bursts takes.
fn burst_time(dut: &impl Dut, streams: &[Stream]) -> Picos {
    let longest = streams.iter().map(|stream| {
        let rate = stream.size.line_rate_fps(&dut.ports()[stream.from].link) * stream.share;
        (stream.frames.unwrap_or(0) as f64 * 1e12 / rate) as u64
    });
    Picos(longest.max().unwrap_or(0).max(1))
}

/// Says by name that a test is not made, and why.
pub fn refused(test: &str, why: &str) -> Failure {
    Failure::usage(format!("{test} is not measured here"))
        .because(why)
        .fix("name other tests, or none for all that are measured")
}

#[cfg(test)]
mod tests;
