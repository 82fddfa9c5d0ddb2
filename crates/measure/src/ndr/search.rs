//! Searches for the highest load that meets a goal, by the rules of MLRsearch
//! (draft-ietf-bmwg-mlrsearch). A search can have several goals, such as "no loss" and "at most 0.5 %
//! loss", and trials of different durations. All goals use the same trials. All trials at a load together
//! decide whether the load meets a goal.

use std::collections::BTreeMap;

use xoff_units::Picos;

use xoff_telemetry::failure::Failure;

/// The conditions that a load must meet, such as no loss (search goal of MLRsearch,
/// draft-ietf-bmwg-mlrsearch). The result of a search is the highest load that meets the conditions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchGoal {
    /// Name of the goal in the names of benchmark figures, such as `ndr`.
    pub name: &'static str,
    /// Largest shortfall of a good trial, 0 to 1
    /// ([`TrialResult::shortfall`](crate::dut::TrialResult::shortfall)). A trial with a larger shortfall
    /// is bad.
    pub loss_ratio: f64,
    /// Duration of the first trials, at most `full`. The first trials only narrow the range of loads.
    pub initial: Picos,
    /// Duration of the trials that decide the result (full trials), at least `initial`.
    pub full: Picos,
    /// Total duration of full trials at a load after which the search decides about this load.
    pub sum: Picos,
    /// Permitted share of bad trials in the total duration of the full trials at a load, at least 0 and
    /// below 1.
    pub exceed_ratio: f64,
    /// Largest permitted distance between the lower and the upper bound of the result, as a share of the
    /// upper bound.
    pub width: f64,
}

/// The measured result of one trial, as the search needs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialScore {
    /// Shortfall of the trial, 0 to 1 ([`TrialResult::shortfall`](crate::dut::TrialResult::shortfall)).
    pub ratio: f64,
    /// Forwarding rate in frames per second, as the sum over all receivers.
    pub forwarded_fps: f64,
}

/// The bounds of the highest load that meets a goal, by the rules of MLRsearch (draft-ietf-bmwg-mlrsearch).
/// Loads are shares of the line rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadBounds {
    /// The highest load that meets the goal (relevant lower bound), or `None` if no load meets it.
    pub lower: Option<f64>,
    /// The lowest load above `lower` that does not meet the goal (relevant upper bound), or `None` if the
    /// largest load meets the goal.
    pub upper: Option<f64>,
    /// Median forwarding rate of the full trials at `lower`, in frames per second. 0 if `lower` is `None`.
    pub forwarded_fps: f64,
}

/// The largest load: the line rate. Loads are shares of the line rate.
pub const LOAD_MAX: f64 = 1.0;
/// Smallest load that the search tries, as a share of the line rate.
pub const LOAD_MIN: f64 = 0.0005;
/// Factor by which the search reduces the width of the goal, so that rounding errors do not matter.
const WIDTH_MARGIN: f64 = 0.99;

#[derive(Clone, Copy, Debug)]
struct TrialRecord {
    duration: Picos,
    score: TrialScore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoadClass {
    MeetsGoal,
    FailsGoal,
    Undecided,
}

/// All trials so far, sorted by load. The key is the bit pattern of the load, because the bit patterns of
/// positive floats have the same order as the floats.
#[derive(Debug, Default)]
struct TrialRecords(BTreeMap<u64, Vec<TrialRecord>>);

impl TrialRecords {
    fn records_at(&self, load: f64) -> &[TrialRecord] {
        self.0.get(&load.to_bits()).map_or(&[], Vec::as_slice)
    }

    /// Returns the highest load that meets the goal, and the lowest load that does not meet the goal. Loads
    /// above this lowest failed load are ignored.
    fn load_bounds(&self, goal: &SearchGoal) -> (Option<f64>, Option<f64>) {
        let mut lower = None;
        for (bits, records) in &self.0 {
            let load = f64::from_bits(*bits);
            match classify_load(goal, records) {
                LoadClass::MeetsGoal => lower = Some(load),
                LoadClass::FailsGoal => return (lower, Some(load)),
                LoadClass::Undecided => {}
            }
        }
        (lower, None)
    }
}

/// Classifies a load by the rules of the draft, from the durations of good and bad trials. Bad trials that
/// are shorter than the goal requires are tolerated in proportion to the good short trials. Only further bad
/// trials count against the load. The class is undecided while missing trials can still change the class.
fn classify_load(goal: &SearchGoal, records: &[TrialRecord]) -> LoadClass {
    let seconds = |is_full: bool, is_good: bool| -> f64 {
        let matches = |record: &&TrialRecord| {
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
        LoadClass::FailsGoal
    } else if bad + missing <= whole * goal.exceed_ratio {
        LoadClass::MeetsGoal
    } else {
        LoadClass::Undecided
    }
}

/// Finds, for each goal, the highest load up to `load_max`, by the rules of MLRsearch
/// (draft-ietf-bmwg-mlrsearch). Loads are shares of the line rate. `measure` runs a trial with a load and a
/// duration. The first trial is a warm-up at `load_max`, and its result is discarded. The result has the
/// order of `goals`.
///
/// # Errors
/// The errors of `measure`.
pub fn search_loads(
    goals: &[SearchGoal],
    load_max: f64,
    mut measure: impl FnMut(f64, Picos) -> Result<TrialScore, Failure>,
) -> Result<Vec<LoadBounds>, Failure> {
    let mut trials = TrialRecords::default();
    if let Some(first) = goals.first() {
        measure(load_max, first.initial)?;
    }
    let mut found = Vec::with_capacity(goals.len());
    for goal in goals {
        for target in intermediate_goals(goal) {
            narrow_bounds(&target, load_max, &mut trials, &mut measure)?;
        }
        let (lower, upper) = trials.load_bounds(goal);
        let mut rates: Vec<f64> = trials
            .records_at(lower.unwrap_or(0.0))
            .iter()
            .filter(|record| record.duration >= goal.full)
            .map(|record| record.score.forwarded_fps)
            .collect();
        rates.sort_by(f64::total_cmp);
        found.push(LoadBounds {
            lower,
            upper,
            forwarded_fps: rates.get(rates.len() / 2).copied().unwrap_or(0.0),
        });
    }
    Ok(found)
}

/// Returns a list of goals that ends with the given goal. The earlier goals have shorter trials and wider
/// bounds. From each goal to the next, the trial duration doubles and the width is halved.
fn intermediate_goals(goal: &SearchGoal) -> Vec<SearchGoal> {
    let mut goals = vec![*goal];
    while let Some(last) = goals.last().copied().filter(|last| last.full > goal.initial) {
        let full = Picos((last.full.0 / 2).max(goal.initial.0));
        goals.push(SearchGoal {
            full,
            sum: full,
            width: last.width * 2.0,
            ..last
        });
    }
    goals.reverse();
    goals
}

/// Runs trials until the bounds are as close as the goal requires.
fn narrow_bounds(
    target: &SearchGoal,
    load_max: f64,
    trials: &mut TrialRecords,
    measure: &mut impl FnMut(f64, Picos) -> Result<TrialScore, Failure>,
) -> Result<(), Failure> {
    let mut classify_by_trials = |trials: &mut TrialRecords, load: f64| -> Result<LoadClass, Failure> {
        loop {
            let class = classify_load(target, trials.records_at(load));
            if class != LoadClass::Undecided {
                return Ok(class);
            }
            let score = measure(load, target.full)?;
            let record = TrialRecord {
                duration: target.full,
                score,
            };
            trials.0.entry(load.to_bits()).or_default().push(record);
        }
    };
    if classify_by_trials(trials, load_max)? == LoadClass::MeetsGoal && trials.load_bounds(target).1.is_none()
    {
        return Ok(());
    }
    let width = target.width * WIDTH_MARGIN;
    let mut step = width;
    loop {
        let (lower, upper) = trials.load_bounds(target);
        let Some(upper) = upper else { return Ok(()) };
        let load = match lower {
            Some(lower) if upper - lower <= target.width * upper => return Ok(()),
            // The next load is slightly above a load that meets the goal. This load usually comes from the
            // hint, so it is already near the result.
            Some(lower) => (lower * (1.0 + step)).min((lower + upper) / 2.0),
            None if upper <= LOAD_MIN => return Ok(()),
            None if upper == load_max => load_hint(trials, load_max, width).unwrap_or(upper / 2.0),
            None => upper * (1.0 - step.min(0.5)),
        };
        classify_by_trials(trials, load.max(LOAD_MIN.min(load_max)))?;
        step *= 2.0;
    }
}

/// Estimates the highest load without loss from the loss at the largest load. Returns `None` if the estimate
/// is too close to 0 or to the largest load.
fn load_hint(trials: &TrialRecords, load_max: f64, width: f64) -> Option<f64> {
    let worst = trials
        .records_at(load_max)
        .iter()
        .map(|record| record.score.ratio)
        .fold(0.0, f64::max);
    let through = load_max * (1.0 - worst) * (1.0 - width / 4.0);
    (through > LOAD_MIN && through < load_max * (1.0 - width / 8.0)).then_some(through)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal_with_loss(loss_ratio: f64) -> SearchGoal {
        SearchGoal {
            name: "ndr",
            loss_ratio,
            initial: Picos::from_millis(1_000),
            full: Picos::from_millis(1_000),
            sum: Picos::from_millis(21_000),
            exceed_ratio: 0.5,
            width: 0.005,
        }
    }

    fn trial_record(seconds: u64, ratio: f64) -> TrialRecord {
        TrialRecord {
            duration: Picos::from_millis(seconds * 1_000),
            score: TrialScore {
                ratio,
                forwarded_fps: 0.0,
            },
        }
    }

    /// Simulates a device that forwards `capacity` and loses the rest.
    fn lossy_device(capacity: f64) -> impl FnMut(f64, Picos) -> Result<TrialScore, Failure> {
        move |load, _| {
            Ok(TrialScore {
                ratio: (1.0 - capacity / load).max(0.0),
                forwarded_fps: load.min(capacity) * 1e6,
            })
        }
    }

    #[test]
    fn a_load_is_classified_when_missing_trials_cannot_change_the_class() {
        // Of 21 trials of one second, 11 bad ones are more than half. After 11 good ones, at most 10 can be
        // bad.
        let good = |n: usize| vec![trial_record(1, 0.0); n];
        let bad = |n: usize| vec![trial_record(1, 0.1); n];
        let class_of = |good: Vec<TrialRecord>, bad: Vec<TrialRecord>| {
            classify_load(&goal_with_loss(0.0), &[good, bad].concat())
        };
        assert_eq!(class_of(good(10), bad(10)), LoadClass::Undecided);
        assert_eq!(class_of(good(11), bad(10)), LoadClass::MeetsGoal);
        assert_eq!(class_of(good(10), bad(11)), LoadClass::FailsGoal);
        assert_eq!(class_of(good(0), bad(0)), LoadClass::Undecided);
    }

    #[test]
    fn short_bad_trials_count_beyond_the_share_that_short_good_trials_permit() {
        let mut goal = goal_with_loss(0.0);
        goal.full = Picos::from_millis(2_000);
        goal.sum = Picos::from_millis(2_000);
        assert_eq!(
            classify_load(&goal, &[trial_record(1, 0.1), trial_record(1, 0.1)]),
            LoadClass::FailsGoal
        );
        assert_eq!(
            classify_load(
                &goal,
                &[trial_record(1, 0.1), trial_record(1, 0.1), trial_record(1, 0.0)]
            ),
            LoadClass::Undecided
        );
    }

    #[test]
    fn bounds_enclose_the_capacity_of_a_device_within_the_width() {
        for capacity in [0.03, 0.25, 0.5, 0.77, 0.999] {
            let found = search_loads(
                &[goal_with_loss(0.0), goal_with_loss(0.005)],
                LOAD_MAX,
                lossy_device(capacity),
            )
            .unwrap();
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
    fn devices_that_forward_everything_or_nothing_have_one_bound() {
        let all = search_loads(&[goal_with_loss(0.0)], LOAD_MAX, lossy_device(1.0)).unwrap();
        assert_eq!((all[0].lower, all[0].upper), (Some(1.0), None));
        let none = search_loads(&[goal_with_loss(0.0)], LOAD_MAX, |_, _| {
            Ok(TrialScore {
                ratio: 1.0,
                forwarded_fps: 0.0,
            })
        })
        .unwrap();
        assert_eq!(none[0].lower, None);
    }

    #[test]
    fn the_loss_of_a_trial_guides_the_search_and_the_first_trial_is_discarded() {
        let mut goal = goal_with_loss(0.0);
        goal.sum = goal.full;
        let mut device = lossy_device(0.5);
        let mut loads = Vec::new();
        search_loads(&[goal], LOAD_MAX, |load, duration| {
            loads.push(load);
            device(load, duration)
        })
        .unwrap();
        assert_eq!(loads[..2], [1.0, 1.0]);
        assert!(loads.len() <= 5, "{loads:?}");
    }

    #[test]
    fn trial_durations_never_decrease() {
        let mut goal = goal_with_loss(0.0);
        goal.full = Picos::from_millis(4_000);
        let mut device = lossy_device(0.3);
        let mut durations = Vec::new();
        let found = search_loads(&[goal], LOAD_MAX, |load, duration| {
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
