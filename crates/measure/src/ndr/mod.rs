//! `xoff bench ndr`: finds the highest rate without loss (non-drop rate, NDR) and the highest rate with at
//! most 0.5 % loss (partial drop rate, PDR).

mod search;

pub use search::{LOAD_MAX, LOAD_MIN, LoadBounds, SearchGoal, TrialScore, search_loads};

use xoff_units::Picos;

use super::dut::{AnyDut, Dut, FrameSize, TrafficPattern, Trial, TrialResult};
use super::result::{BenchFigure, ImprovementDirection};
use xoff_telemetry::failure::{Exit, Failure};

/// Permitted share of lost frames for PDR, as in the tests of the FD.io project CSIT.
const PDR_LOSS_RATIO: f64 = 0.005;
/// Permitted share of bad trials, and relative width of the bounds, for NDR and PDR. The values are those of
/// the FD.io project CSIT.
const EXCEED_RATIO: f64 = 0.5;
const RELATIVE_WIDTH: f64 = 0.005;
/// Smallest duration of a trial in virtual time, as the number of frames that the slowest port sends at
/// line rate.
const MIN_FRAMES_PER_TRIAL: u64 = 10_000;
/// Smallest number of frames for each stream and port. If the rate is too high by a fifth of the goal's
/// width, a trial with this number of frames detects the growing backlog.
const MIN_FRAMES_PER_STREAM_AND_PORT: u64 = 2_000;
/// Number of trials at each load in virtual time. In each trial, the streams start at different random times.
const TRIALS_PER_LOAD: u64 = 3;
/// Smallest number of frames of each stream at the largest load. A stream with fewer than two frames
/// has no rate.
const MIN_FRAMES_PER_STREAM: f64 = 2.0;

/// Durations of the trials of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialDurations {
    /// Duration of the first trials, at most `full`. The first trials only narrow the range of loads.
    pub initial: Picos,
    /// Duration of the trials that decide the result (full trials).
    pub full: Picos,
    /// Total duration of full trials after which the search decides about a load.
    pub sum: Picos,
}

impl TrialDurations {
    /// Durations for devices in real time, as in the FD.io project CSIT: all trials last 1 s, and trials of
    /// 21 s in total decide about a load.
    pub const REAL_TIME: TrialDurations = TrialDurations {
        initial: Picos::from_millis(1_000),
        full: Picos::from_millis(1_000),
        sum: Picos::from_millis(21_000),
    };

    /// Returns durations for a device in virtual time. At each load, there are three trials of the duration
    /// [`virtual_trial_duration`], which is long enough to show a growing backlog.
    pub fn for_virtual_time(dut: &impl Dut, pattern: TrafficPattern, size: FrameSize) -> TrialDurations {
        let trial = virtual_trial_duration(dut, pattern, size);
        TrialDurations {
            initial: trial,
            full: trial,
            sum: Picos(trial.0 * TRIALS_PER_LOAD),
        }
    }

    /// Returns two goals with these durations: first NDR (no loss), then PDR (at most 0.5 % loss).
    pub fn ndr_and_pdr_goals(self) -> [SearchGoal; 2] {
        let goal = |name, loss_ratio| SearchGoal {
            name,
            loss_ratio,
            initial: self.initial,
            full: self.full,
            sum: self.sum,
            exceed_ratio: EXCEED_RATIO,
            width: RELATIVE_WIDTH,
        };
        [goal("ndr", 0.0), goal("pdr", PDR_LOSS_RATIO)]
    }
}

/// Returns the duration of a trial in virtual time. It is long enough to show a backlog that grows
/// because the load is slightly too high. In this time, the slowest port can send at least 10 000 frames
/// at line rate.
pub fn virtual_trial_duration(dut: &impl Dut, pattern: TrafficPattern, size: FrameSize) -> Picos {
    let ports = dut.ports();
    let pairs = pattern.sender_receiver_loads(ports.len());
    let mut receivers: Vec<usize> = pairs.iter().map(|(_, to, _)| *to).collect();
    receivers.sort_unstable();
    receivers.dedup();
    let noise = (pairs.len() + ports.len()) as u64 * size.backlog_variation_frames();
    let turns = MIN_FRAMES_PER_STREAM_AND_PORT * noise / receivers.len().max(1) as u64;
    let slowest = ports
        .iter()
        .map(|port| size.line_rate_fps(&port.link))
        .fold(f64::INFINITY, f64::min);
    Picos((MIN_FRAMES_PER_TRIAL.max(turns) as f64 * 1e12 / slowest) as u64)
}

/// The traffic that the tester sends during a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OfferedTraffic {
    /// The pairs of sending and receiving ports.
    pub pattern: TrafficPattern,
    /// Frame length of all streams.
    pub size: FrameSize,
    /// Number of flows (UDP source ports) of each stream, at least 1.
    pub flows: u16,
}

impl OfferedTraffic {
    /// Creates a trial in which every sender sends at `load` times its line rate. `load` is above 0 and at
    /// most 1. `phase_number` is the seed of the random start times of the streams.
    pub fn trial_at_load(&self, port_count: usize, load: f64, duration: Picos, phase_number: u64) -> Trial {
        let mut streams = self.pattern.streams(port_count, self.size, load, duration);
        for stream in &mut streams {
            stream.flows = self.flows;
        }
        Trial {
            streams,
            duration,
            phases: Some(phase_number),
        }
    }

    /// Returns the sum of all send rates in frames per second and in bits per second (with FCS). Each sender
    /// sends at `share` times its line rate.
    pub fn offered_rate(&self, dut: &impl Dut, share: f64) -> (f64, f64) {
        let ports = dut.ports();
        let line = |from: usize| self.size.line_rate_fps(&ports[from].link);
        let pairs = self.pattern.sender_receiver_loads(ports.len());
        let fps: f64 = pairs
            .iter()
            .map(|(from, _, part)| line(*from) * part * share)
            .sum();
        (fps, fps * self.size.mean_bytes() * 8.0)
    }
}

/// The results of a search for one frame size.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredRates {
    /// Bounds of the highest load that meets a goal. The list has the order of the goals.
    pub bounds: Vec<LoadBounds>,
    /// Forwarding rate in frames per second at the largest load. CSIT calls this value the maximum receive
    /// rate (MRR).
    pub at_max_fps: f64,
    /// Share of the sending time, 0 to 1, for which a sender was paused at the largest load. If several
    /// senders were paused, this is the share of the sender that was paused longest.
    pub paused_at_max: f64,
    /// Number of trials, including the warm-up trial.
    pub trials: u64,
    /// Number of frames that were received in all trials together.
    pub received: u64,
    /// Facts that can have changed a rate. Empty for a valid measurement.
    pub tainted: Vec<String>,
}

/// Checks that the tester can send the trials of a search with the loads up to `load_max`, a share of the
/// line rate. Each stream must send at least two frames in a trial, because one frame alone has no rate.
///
/// # Errors
/// The errors of [`Dut::check`]. Also fails if a stream would send fewer than two frames at the largest load.
pub fn check_trials(
    dut: &impl Dut,
    offer: &OfferedTraffic,
    goals: &[SearchGoal],
    load_max: f64,
) -> Result<(), Failure> {
    let ports = dut.ports().len();
    check_trials_with(dut, goals, load_max, |share, duration, number| {
        offer.trial_at_load(ports, share, duration, number)
    })
}

fn check_trials_with(
    dut: &impl Dut,
    goals: &[SearchGoal],
    load_max: f64,
    make_trial: impl Fn(f64, Picos, u64) -> Trial,
) -> Result<(), Failure> {
    for goal in goals {
        dut.check(&make_trial(load_max, goal.full, 0))?;
        check_frames_per_stream(dut, goal, &make_trial(load_max, goal.initial, 0))?;
    }
    Ok(())
}

fn check_frames_per_stream(dut: &impl Dut, goal: &SearchGoal, trial: &Trial) -> Result<(), Failure> {
    let rates = trial.streams.iter().map(|stream| {
        let line = stream.size.line_rate_fps(&dut.ports()[stream.from].link);
        line * stream.share
    });
    let slowest = rates.fold(f64::INFINITY, f64::min);
    let frames = slowest * trial.duration.0 as f64 / 1e12;
    // The margin allows for rounding to picoseconds.
    if frames > MIN_FRAMES_PER_STREAM - 0.001 {
        return Ok(());
    }
    let option = if goal.initial < goal.full {
        "--trial-initial"
    } else {
        "--trial-duration"
    };
    let least = (MIN_FRAMES_PER_STREAM * 1e9 / slowest).ceil();
    // For a very small load, no permitted duration is long enough.
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

/// Returns the failure for a device that forwarded no frame at any load, with [`Exit::Inconclusive`].
pub fn no_frame_forwarded_failure() -> Failure {
    Failure::new(Exit::Inconclusive, "no frame came out at any load")
        .because(
            "the device does not forward between these ports, or drops all frames of this class and length",
        )
        .fix(
            "check the order of the ports, links, VLANs and MTU; for a configuration, run `xoff bench probe`",
        )
}

/// Checks with a few frames that a device in real time forwards each stream of the offered traffic. Without this
/// check, a search over a path that does not exist takes up to 100 s. A device in virtual time passes at once.
///
/// # Errors
/// Fails with [`Exit::Inconclusive`] if no frame of a stream arrives. Also fails with the errors of
/// [`RealDut::find_silent_streams`](super::dut::RealDut::find_silent_streams).
pub fn check_paths(dut: &mut AnyDut, offer: &OfferedTraffic) -> Result<(), Failure> {
    let AnyDut::Real(device) = dut else {
        return Ok(());
    };
    // The streams of a probe have their own rate.
    let probe = offer.trial_at_load(device.ports().len(), LOAD_MAX, Picos::from_millis(1), 0);
    let silent = device.find_silent_streams(&probe.streams)?;
    match silent.is_empty() {
        true => Ok(()),
        false => Err(silent_streams_failure(offer.size, &silent)),
    }
}

/// Returns the failure for streams of which no frame arrives. `silent` has the names of the streams.
fn silent_streams_failure(size: FrameSize, silent: &[String]) -> Failure {
    Failure::new(Exit::Inconclusive, format!("no frame arrives from {}", silent.join(", from ")))
        .at(format!("frames of {} bytes", size.name()))
        .because("the device under test does not forward between these interfaces, or nothing connects them")
        .fix("connect the far ends of the interfaces with a switch, such as `xoff switch run`; check links, VLANs and MTU")
}

/// Finds the highest load that meets each goal. `load_max` is the largest load to try, as a share of the
/// line rate.
///
/// # Errors
/// See [`check_trials`] and [`Dut::run`].
pub fn find_rates(
    dut: &mut impl Dut,
    offer: &OfferedTraffic,
    goals: &[SearchGoal],
    load_max: f64,
) -> Result<MeasuredRates, Failure> {
    let ports = dut.ports().len();
    find_rates_with(dut, goals, load_max, |share, duration, number| {
        offer.trial_at_load(ports, share, duration, number)
    })
}

/// Works like [`find_rates`], but the caller creates the trials. `make_trial` receives a load (share of the
/// line rate), a duration and the seed of the random start times.
///
/// # Errors
/// See [`check_trials`] and [`Dut::run`].
pub fn find_rates_with(
    dut: &mut impl Dut,
    goals: &[SearchGoal],
    load_max: f64,
    make_trial: impl Fn(f64, Picos, u64) -> Trial,
) -> Result<MeasuredRates, Failure> {
    check_trials_with(dut, goals, load_max, &make_trial)?;
    let mut rates = MeasuredRates {
        bounds: Vec::new(),
        at_max_fps: 0.0,
        paused_at_max: 0.0,
        trials: 0,
        received: 0,
        tainted: Vec::new(),
    };
    let is_lossless = dut.is_lossless();
    let bounds = search_loads(goals, load_max, |share, duration| {
        rates.trials += 1;
        let outcome = dut.run(&make_trial(share, duration, rates.trials))?;
        if share == load_max {
            (rates.at_max_fps, rates.paused_at_max) = (outcome.forwarded_fps(), outcome.paused_ratio());
        }
        rates.received += outcome.sum_over_streams(|s| s.received);
        add_new_taints(&mut rates.tainted, &outcome);
        // A trial at a very small load can be too short for a frame. Such a trial counts as bad.
        let is_empty = outcome.sum_over_streams(|s| s.wanted) == 0;
        Ok(TrialScore {
            ratio: if is_empty {
                1.0
            } else {
                outcome.shortfall(is_lossless)
            },
            forwarded_fps: outcome.forwarded_fps(),
        })
    })?;
    rates.bounds = bounds;
    Ok(rates)
}

fn add_new_taints(tainted: &mut Vec<String>, outcome: &TrialResult) {
    for why in &outcome.tainted {
        if !tainted.contains(why) {
            tainted.push(why.clone());
        }
    }
}

/// Returns the figures of one frame size. A figure is one measured quantity. There are three figures for each
/// goal (`SIZE/GOAL/rate`, `bandwidth` and `share`), the figure `SIZE/full-load/rate`, and for a lossless
/// device also `SIZE/full-load/paused`.
pub fn rate_figures(
    dut: &impl Dut,
    offer: &OfferedTraffic,
    goals: &[SearchGoal],
    rates: &MeasuredRates,
) -> Vec<BenchFigure> {
    let size = offer.size.name();
    let mut figures = Vec::new();
    for (goal, bounds) in goals.iter().zip(&rates.bounds) {
        let share = bounds.lower.unwrap_or(0.0);
        let (fps, bps) = offer.offered_rate(dut, share);
        let figure_name = |part: &str| format!("{size}/{}/{part}", goal.name);
        figures.push(BenchFigure::new(
            figure_name("rate"),
            "frames/s",
            ImprovementDirection::Bigger,
            vec![fps],
        ));
        figures.push(BenchFigure::new(
            figure_name("bandwidth"),
            "Gb/s",
            ImprovementDirection::Bigger,
            vec![bps / 1e9],
        ));
        figures.push(BenchFigure::new(
            figure_name("share"),
            "percent",
            ImprovementDirection::Bigger,
            vec![share * 100.0],
        ));
    }
    let figure_name = |part: &str| format!("{size}/full-load/{part}");
    figures.push(BenchFigure::new(
        figure_name("rate"),
        "frames/s",
        ImprovementDirection::Bigger,
        vec![rates.at_max_fps],
    ));
    if dut.is_lossless() {
        let paused = vec![rates.paused_at_max * 100.0];
        figures.push(BenchFigure::new(
            figure_name("paused"),
            "percent",
            ImprovementDirection::Smaller,
            paused,
        ));
    }
    figures
}

#[cfg(test)]
mod tests;
