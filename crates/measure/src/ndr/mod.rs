//! `xoff bench ndr`: the highest rates without loss (NDR) and with at most 0.5 % of it (PDR).

mod search;

pub use search::{Found, Goal, LOAD_MAX, LOAD_MIN, Score, search};

use xoff_units::Picos;

use super::dut::{Dut, FrameSize, Outcome, Pattern, Trial};
use super::result::{Better, Figure};
use xoff_telemetry::failure::{Exit, Failure};

/// PDR's share of loss, as CSIT has it.
const PDR_LOSS: f64 = 0.005;
/// Both goals' exceed ratio and width, as CSIT has them.
const EXCEED_RATIO: f64 = 0.5;
const WIDTH: f64 = 0.005;
/// Fewest frames of a trial in virtual time, counted at a port's line rate,
const FRAMES_PER_TRIAL: u64 = 10_000;
/// and for each stream and port, so that the device's backlog shows a rate that is too high by a fifth of the width.
const FRAMES_PER_TURN: u64 = 2_000;
/// Trials that decide on a load in virtual time, each with other phases of the streams.
const TRIALS: u64 = 3;
/// Fewest frames of each stream at the largest load: with one or none there is no rate.
const FRAMES_PER_STREAM: f64 = 2.0;

/// Durations of trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durations {
    /// At first.
    pub initial: Picos,
    /// For the answer.
    pub full: Picos,
    /// Of the trials that decide on a load.
    pub sum: Picos,
}

impl Durations {
    /// CSIT's, for devices in real time: 1 s, 1 s, 21 s.
    pub const REAL: Durations = Durations {
        initial: Picos::from_millis(1_000),
        full: Picos::from_millis(1_000),
        sum: Picos::from_millis(21_000),
    };

    /// For a device in virtual time, where a trial needs only frames enough to show a backlog that grows: three of equal length.
    pub fn virtual_time(dut: &impl Dut, pattern: Pattern, size: FrameSize) -> Durations {
        let trial = trial_time(dut, pattern, size);
        Durations {
            initial: trial,
            full: trial,
            sum: Picos(trial.0 * TRIALS),
        }
    }

    /// Both goals with these durations.
    pub fn goals(self) -> [Goal; 2] {
        let goal = |name, loss_ratio| Goal {
            name,
            loss_ratio,
            initial: self.initial,
            full: self.full,
            sum: self.sum,
            exceed_ratio: EXCEED_RATIO,
            width: WIDTH,
        };
        [goal("ndr", 0.0), goal("pdr", PDR_LOSS)]
    }
}

/// How long a trial in virtual time lasts.
pub fn trial_time(dut: &impl Dut, pattern: Pattern, size: FrameSize) -> Picos {
    let ports = dut.ports();
    let pairs = pattern.pairs(ports.len());
    let mut receivers: Vec<usize> = pairs.iter().map(|(_, to, _)| *to).collect();
    receivers.sort_unstable();
    receivers.dedup();
    let noise = (pairs.len() + ports.len()) as u64 * size.unevenness();
    let turns = FRAMES_PER_TURN * noise / receivers.len().max(1) as u64;
    let slowest = ports
        .iter()
        .map(|port| size.line_rate_fps(&port.link))
        .fold(f64::INFINITY, f64::min);
    Picos((FRAMES_PER_TRIAL.max(turns) as f64 * 1e12 / slowest) as u64)
}

/// What is offered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// Who sends to whom.
    pub pattern: Pattern,
    /// How long frames are.
    pub size: FrameSize,
    /// UDP source ports of each stream.
    pub flows: u16,
}

impl Offer {
    /// A trial in which every sender has this share of its line rate. `number` draws its phases.
    pub fn trial(&self, ports: usize, share: f64, duration: Picos, number: u64) -> Trial {
        let mut streams = self.pattern.streams(ports, self.size, share, duration);
        for stream in &mut streams {
            stream.flows = self.flows;
        }
        Trial {
            streams,
            duration,
            phases: Some(number),
        }
    }

    /// Frames a second and bits a second that a share of the senders' line rates is, summed over all senders.
    pub fn rate(&self, dut: &impl Dut, share: f64) -> (f64, f64) {
        let ports = dut.ports();
        let line = |from: usize| self.size.line_rate_fps(&ports[from].link);
        let pairs = self.pattern.pairs(ports.len());
        let fps: f64 = pairs
            .iter()
            .map(|(from, _, part)| line(*from) * part * share)
            .sum();
        (fps, fps * self.size.mean_bytes() * 8.0)
    }
}

/// The rates of one frame size.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// For each goal.
    pub found: Vec<Found>,
    /// What came of the discarded trial's load, the largest: frames a second that came out (CSIT's MRR),
    pub at_max_fps: f64,
    /// and the share of time for which a sender was paused, 0 to 1.
    pub paused_at_max: f64,
    /// Trials it took.
    pub trials: u64,
    /// Frames that came out in all of them.
    pub received: u64,
    /// Facts that can have changed an answer.
    pub tainted: Vec<String>,
}

/// Refuses trials in which a stream sends too little to have a rate, and those that the device's tester cannot offer.
///
/// # Errors
/// As [`Dut::check`]; a duration or a largest load that is too small.
pub fn check(dut: &impl Dut, offer: &Offer, goals: &[Goal], load_max: f64) -> Result<(), Failure> {
    let ports = dut.ports().len();
    check_by(dut, goals, load_max, |share, duration, number| {
        offer.trial(ports, share, duration, number)
    })
}

fn check_by(
    dut: &impl Dut,
    goals: &[Goal],
    load_max: f64,
    trial: impl Fn(f64, Picos, u64) -> Trial,
) -> Result<(), Failure> {
    for goal in goals {
        dut.check(&trial(load_max, goal.full, 0))?;
        check_frames(dut, goal, &trial(load_max, goal.initial, 0))?;
    }
    Ok(())
}

fn check_frames(dut: &impl Dut, goal: &Goal, trial: &Trial) -> Result<(), Failure> {
    let rates = trial.streams.iter().map(|stream| {
        let line = stream.size.line_rate_fps(&dut.ports()[stream.from].link);
        line * stream.share
    });
    let slowest = rates.fold(f64::INFINITY, f64::min);
    let frames = slowest * trial.duration.0 as f64 / 1e12;
    // What rounding to picoseconds takes is not missing.
    if frames > FRAMES_PER_STREAM - 0.001 {
        return Ok(());
    }
    let option = if goal.initial < goal.full {
        "--trial-initial"
    } else {
        "--trial-duration"
    };
    let least = (FRAMES_PER_STREAM * 1e9 / slowest).ceil();
    // No time that can be given is as long as a load of next to nothing would take.
    let fix = if least < 1e12 {
        format!("choose a {option} of at least {least} ns, or a larger --load-max")
    } else {
        "choose a larger --load-max".to_owned()
    };
    Err(
        Failure::usage("a trial is too short for two frames of each stream at the largest load")
            .at(format!("{option}, --load-max"))
            .because(format!(
                "at that load there is room for {frames:.3} frames in {} ns",
                trial.duration.as_nanos()
            ))
            .fix(fix),
    )
}

/// Says that nothing passed the device.
pub fn nothing_came_out() -> Failure {
    Failure::new(Exit::Inconclusive, "no frame came out at any load")
        .because("the device does not forward between these ports, or drops all frames of this class and length")
        .fix("see whether a single frame passes: the ports' order, links, VLANs and MTU; `xoff bench probe` for a configuration")
}

/// Finds the rates of both goals.
///
/// # Errors
/// As [`check`] and [`Dut::run`].
pub fn find(dut: &mut impl Dut, offer: &Offer, goals: &[Goal], load_max: f64) -> Result<Rates, Failure> {
    let ports = dut.ports().len();
    find_by(dut, goals, load_max, |share, duration, number| {
        offer.trial(ports, share, duration, number)
    })
}

/// As [`find`], with trials made by `trial` of a share, a duration and a number that draws phases.
///
/// # Errors
/// As [`check`] and [`Dut::run`].
pub fn find_by(
    dut: &mut impl Dut,
    goals: &[Goal],
    load_max: f64,
    trial: impl Fn(f64, Picos, u64) -> Trial,
) -> Result<Rates, Failure> {
    check_by(dut, goals, load_max, &trial)?;
    let mut rates = Rates {
        found: Vec::new(),
        at_max_fps: 0.0,
        paused_at_max: 0.0,
        trials: 0,
        received: 0,
        tainted: Vec::new(),
    };
    let is_lossless = dut.is_lossless();
    let found = search(goals, load_max, |share, duration| {
        rates.trials += 1;
        let outcome = dut.run(&trial(share, duration, rates.trials))?;
        if share == load_max {
            (rates.at_max_fps, rates.paused_at_max) = (outcome.forwarded_fps(), outcome.paused_ratio());
        }
        rates.received += outcome.total(|s| s.received);
        keep_new(&mut rates.tainted, &outcome);
        // Far below the largest load a trial may have no frame: it shows nothing, so it is not free of loss.
        let is_empty = outcome.total(|s| s.wanted) == 0;
        Ok(Score {
            ratio: if is_empty {
                1.0
            } else {
                outcome.shortfall(is_lossless)
            },
            forwarded_fps: outcome.forwarded_fps(),
        })
    })?;
    rates.found = found;
    Ok(rates)
}

fn keep_new(tainted: &mut Vec<String>, outcome: &Outcome) {
    for why in &outcome.tainted {
        if !tainted.contains(why) {
            tainted.push(why.clone());
        }
    }
}

/// The figures of one frame size.
pub fn figures(dut: &impl Dut, offer: &Offer, goals: &[Goal], rates: &Rates) -> Vec<Figure> {
    let size = offer.size.name();
    let mut figures = Vec::new();
    for (goal, found) in goals.iter().zip(&rates.found) {
        let share = found.lower.unwrap_or(0.0);
        let (fps, bps) = offer.rate(dut, share);
        let of = |part: &str| format!("{size}/{}/{part}", goal.name);
        figures.push(Figure::new(of("rate"), "frames/s", Better::Bigger, vec![fps]));
        figures.push(Figure::new(
            of("bandwidth"),
            "Gb/s",
            Better::Bigger,
            vec![bps / 1e9],
        ));
        figures.push(Figure::new(
            of("share"),
            "percent",
            Better::Bigger,
            vec![share * 100.0],
        ));
    }
    let of = |part: &str| format!("{size}/full-load/{part}");
    figures.push(Figure::new(
        of("rate"),
        "frames/s",
        Better::Bigger,
        vec![rates.at_max_fps],
    ));
    if dut.is_lossless() {
        let paused = vec![rates.paused_at_max * 100.0];
        figures.push(Figure::new(of("paused"), "percent", Better::Smaller, paused));
    }
    figures
}

#[cfg(test)]
mod tests;
