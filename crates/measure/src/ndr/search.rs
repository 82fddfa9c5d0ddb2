//! The search for the highest load that meets a goal, in the manner of MLRsearch (draft-ietf-bmwg-mlrsearch): trials of several durations are
//! shared by several goals, and a load is judged by all trials made at it.

use std::collections::BTreeMap;

use xoff_units::Picos;

use xoff_telemetry::failure::Failure;

/// What a load has to meet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Its part of a figure's name.
    pub name: &'static str,
    /// A trial that falls short by no more than this is good; 0 to 1.
    pub loss_ratio: f64,
    /// Trials are this long at first,
    pub initial: Picos,
    /// and this long for the answer.
    pub full: Picos,
    /// So much time of full trials decides on a load.
    pub sum: Picos,
    /// The share of that time that may be bad; 0 to 1, below 1.
    pub exceed_ratio: f64,
    /// The answer's bounds are this close, relative to the upper one.
    pub width: f64,
}

/// One trial, judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// By how much it fell short, 0 to 1.
    pub ratio: f64,
    /// Frames a second that came out.
    pub forwarded_fps: f64,
}

/// What the search found for one goal; loads as shares of the line rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The highest load that meets the goal (relevant lower bound); `None`: not even the lowest one does.
    pub lower: Option<f64>,
    /// The lowest load above it that does not; `None`: the largest load meets the goal.
    pub upper: Option<f64>,
    /// Median of what came out in trials at `lower`, frames a second.
    pub forwarded_fps: f64,
}

/// All that a link carries.
pub const LOAD_MAX: f64 = 1.0;
/// Below this there is nothing to be found.
pub const LOAD_MIN: f64 = 0.0005;
/// Bounds come closer than the goal's width by this factor, so that rounding does not decide.
const CLOSER: f64 = 0.99;

#[derive(Clone, Copy, Debug)]
struct Record {
    duration: Picos,
    score: Score,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Lower,
    Upper,
    Undecided,
}

/// All trials so far, by load. Bits of positive floats are in the order of the floats.
#[derive(Debug, Default)]
struct Trials(BTreeMap<u64, Vec<Record>>);

impl Trials {
    fn at(&self, load: f64) -> &[Record] {
        self.0.get(&load.to_bits()).map_or(&[], Vec::as_slice)
    }

    /// The highest load that meets the goal below the lowest one that does not, and that one.
    fn bounds(&self, goal: &Goal) -> (Option<f64>, Option<f64>) {
        let mut lower = None;
        for (bits, records) in &self.0 {
            let load = f64::from_bits(*bits);
            match judge(goal, records) {
                Verdict::Lower => lower = Some(load),
                Verdict::Upper => return (lower, Some(load)),
                Verdict::Undecided => {}
            }
        }
        (lower, None)
    }
}

/// A load's class, by the draft's rules: short trials count only by the surplus of bad ones over what good ones allow for; what has
/// not been measured yet may be good or bad.
fn judge(goal: &Goal, records: &[Record]) -> Verdict {
    let seconds = |is_full: bool, is_good: bool| -> f64 {
        let matches = |record: &&Record| {
            (record.duration >= goal.full) == is_full && (record.score.ratio <= goal.loss_ratio) == is_good
        };
        records
            .iter()
            .filter(matches)
            .map(|record| record.duration.0 as f64)
            .sum()
    };
    let balance = seconds(false, true) * goal.exceed_ratio / (1.0 - goal.exceed_ratio);
    let bad = seconds(true, false) + (seconds(false, false) - balance).max(0.0);
    let measured = seconds(true, true) + bad;
    let whole = measured.max(goal.sum.0 as f64);
    let missing = whole - measured;
    if bad > whole * goal.exceed_ratio {
        Verdict::Upper
    } else if bad + missing <= whole * goal.exceed_ratio {
        Verdict::Lower
    } else {
        Verdict::Undecided
    }
}

/// Finds for each goal the highest load up to `load_max` that meets it. `measure` makes a trial at a load; a first one at the
/// largest load is discarded.
///
/// # Errors
/// What `measure` says.
pub fn search(
    goals: &[Goal],
    load_max: f64,
    mut measure: impl FnMut(f64, Picos) -> Result<Score, Failure>,
) -> Result<Vec<Found>, Failure> {
    let mut trials = Trials::default();
    if let Some(first) = goals.first() {
        measure(load_max, first.initial)?;
    }
    let mut found = Vec::with_capacity(goals.len());
    for goal in goals {
        for target in targets(goal) {
            approach(&target, load_max, &mut trials, &mut measure)?;
        }
        let (lower, upper) = trials.bounds(goal);
        let mut rates: Vec<f64> = trials
            .at(lower.unwrap_or(0.0))
            .iter()
            .filter(|record| record.duration >= goal.full)
            .map(|record| record.score.forwarded_fps)
            .collect();
        rates.sort_by(f64::total_cmp);
        found.push(Found {
            lower,
            upper,
            forwarded_fps: rates.get(rates.len() / 2).copied().unwrap_or(0.0),
        });
    }
    Ok(found)
}

/// The goal and what leads to it: trials from the initial duration on, each twice as long and half as wide as those before.
fn targets(goal: &Goal) -> Vec<Goal> {
    let mut targets = vec![*goal];
    while let Some(last) = targets.last().copied().filter(|last| last.full > goal.initial) {
        let full = Picos((last.full.0 / 2).max(goal.initial.0));
        targets.push(Goal {
            full,
            sum: full,
            width: last.width * 2.0,
            ..last
        });
    }
    targets.reverse();
    targets
}

/// Trials until the bounds are as close as the target asks.
fn approach(
    target: &Goal,
    load_max: f64,
    trials: &mut Trials,
    measure: &mut impl FnMut(f64, Picos) -> Result<Score, Failure>,
) -> Result<(), Failure> {
    let mut decide = |trials: &mut Trials, load: f64| -> Result<Verdict, Failure> {
        loop {
            let verdict = judge(target, trials.at(load));
            if verdict != Verdict::Undecided {
                return Ok(verdict);
            }
            let score = measure(load, target.full)?;
            let record = Record {
                duration: target.full,
                score,
            };
            trials.0.entry(load.to_bits()).or_default().push(record);
        }
    };
    if decide(trials, load_max)? == Verdict::Lower && trials.bounds(target).1.is_none() {
        return Ok(());
    }
    let width = target.width * CLOSER;
    let mut step = width;
    loop {
        let (lower, upper) = trials.bounds(target);
        let Some(upper) = upper else { return Ok(()) };
        let load = match lower {
            Some(lower) if upper - lower <= target.width * upper => return Ok(()),
            // Close above a good load first: hints are good.
            Some(lower) => (lower * (1.0 + step)).min((lower + upper) / 2.0),
            None if upper <= LOAD_MIN => return Ok(()),
            None if upper == load_max => hint(trials, load_max, width).unwrap_or(upper / 2.0),
            None => upper * (1.0 - step.min(0.5)),
        };
        decide(trials, load.max(LOAD_MIN.min(load_max)))?;
        step *= 2.0;
    }
}

/// The load that came through when the largest one was offered.
fn hint(trials: &Trials, load_max: f64, width: f64) -> Option<f64> {
    let worst = trials
        .at(load_max)
        .iter()
        .map(|record| record.score.ratio)
        .fold(0.0, f64::max);
    let through = load_max * (1.0 - worst) * (1.0 - width / 4.0);
    (through > LOAD_MIN && through < load_max * (1.0 - width / 8.0)).then_some(through)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(loss_ratio: f64) -> Goal {
        Goal {
            name: "ndr",
            loss_ratio,
            initial: Picos::from_millis(1_000),
            full: Picos::from_millis(1_000),
            sum: Picos::from_millis(21_000),
            exceed_ratio: 0.5,
            width: 0.005,
        }
    }

    fn record(seconds: u64, ratio: f64) -> Record {
        Record {
            duration: Picos::from_millis(seconds * 1_000),
            score: Score {
                ratio,
                forwarded_fps: 0.0,
            },
        }
    }

    /// A device that carries `capacity` and loses the rest.
    fn loses(capacity: f64) -> impl FnMut(f64, Picos) -> Result<Score, Failure> {
        move |load, _| {
            Ok(Score {
                ratio: (1.0 - capacity / load).max(0.0),
                forwarded_fps: load.min(capacity) * 1e6,
            })
        }
    }

    #[test]
    fn a_load_is_decided_when_the_missing_trials_could_not_change_it() {
        // 21 trials of a second: 11 bad ones are more than half, 11 good ones leave 10 at most.
        let good = |n: usize| vec![record(1, 0.0); n];
        let bad = |n: usize| vec![record(1, 0.1); n];
        let of = |good: Vec<Record>, bad: Vec<Record>| judge(&goal(0.0), &[good, bad].concat());
        assert_eq!(of(good(10), bad(10)), Verdict::Undecided);
        assert_eq!(of(good(11), bad(10)), Verdict::Lower);
        assert_eq!(of(good(10), bad(11)), Verdict::Upper);
        assert_eq!(of(good(0), bad(0)), Verdict::Undecided);
    }

    #[test]
    fn short_bad_trials_count_beyond_what_short_good_ones_allow() {
        let mut goal = goal(0.0);
        goal.full = Picos::from_millis(2_000);
        goal.sum = Picos::from_millis(2_000);
        assert_eq!(judge(&goal, &[record(1, 0.1), record(1, 0.1)]), Verdict::Upper);
        assert_eq!(
            judge(&goal, &[record(1, 0.1), record(1, 0.1), record(1, 0.0)]),
            Verdict::Undecided
        );
    }

    #[test]
    fn rates_of_known_devices_are_found_to_the_width() {
        for capacity in [0.03, 0.25, 0.5, 0.77, 0.999] {
            let found = search(&[goal(0.0), goal(0.005)], LOAD_MAX, loses(capacity)).unwrap();
            let (lower, upper) = (found[0].lower.unwrap(), found[0].upper.unwrap());
            assert!(lower <= capacity && capacity < upper, "{capacity}: {found:?}");
            assert!(upper - lower <= 0.005 * upper, "{capacity}: {found:?}");
            let pdr = found[1].lower.unwrap();
            assert!(
                1.0 - capacity / pdr <= 0.005 && pdr >= lower,
                "{capacity}: {found:?}"
            );
        }
    }

    #[test]
    fn a_device_that_carries_all_or_nothing_has_one_bound() {
        let all = search(&[goal(0.0)], LOAD_MAX, loses(1.0)).unwrap();
        assert_eq!((all[0].lower, all[0].upper), (Some(1.0), None));
        let none = search(&[goal(0.0)], LOAD_MAX, |_, _| {
            Ok(Score {
                ratio: 1.0,
                forwarded_fps: 0.0,
            })
        })
        .unwrap();
        assert_eq!(none[0].lower, None);
    }

    #[test]
    fn a_hint_saves_most_of_the_trials_and_the_first_one_is_discarded() {
        let mut goal = goal(0.0);
        goal.sum = goal.full;
        let mut device = loses(0.5);
        let mut loads = Vec::new();
        search(&[goal], LOAD_MAX, |load, duration| {
            loads.push(load);
            device(load, duration)
        })
        .unwrap();
        assert_eq!(loads[..2], [1.0, 1.0]);
        assert!(loads.len() <= 5, "{loads:?}");
    }

    #[test]
    fn longer_trials_come_after_shorter_ones() {
        let mut goal = goal(0.0);
        goal.full = Picos::from_millis(4_000);
        let mut device = loses(0.3);
        let mut durations = Vec::new();
        let found = search(&[goal], LOAD_MAX, |load, duration| {
            durations.push(duration.0 / 1_000_000_000_000);
            device(load, duration)
        })
        .unwrap();
        assert!(durations.is_sorted(), "{durations:?}");
        assert_eq!((durations[0], durations[durations.len() - 1]), (1, 4));
        let (lower, upper) = (found[0].lower.unwrap(), found[0].upper.unwrap());
        assert!(lower <= 0.3 && 0.3 < upper && upper - lower <= 0.005 * upper);
    }
}
