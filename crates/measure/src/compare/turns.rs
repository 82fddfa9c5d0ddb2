//! Takes turns between the sides until there is enough to say.

use std::sync::atomic::AtomicBool;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::exact::{Names, both_exact, log_ratio, names};
use super::quiet::counted;
use super::report::{ComparedFigure, Comparison};
use super::saved::{not_in_turns, one_machine};
use super::statistics::{Shift, paired};
use super::subject::{Subject, result_of};
use super::verdict::{Plan, Verdict};
use crate::result::{BenchFigure, BenchResult, GOVERNOR_TAINT_PREFIX, MachineMeter, TaintLimits};
use xoff_telemetry::failure::Failure;
use xoff_telemetry::{Environment, StealMeter, StealTicks};

/// How is compared.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Percent by which B may be worse.
    pub gate_percent: Option<f64>,
    /// Most pairs.
    pub pairs_max: usize,
    /// Seed of the order within pairs.
    pub seed: u64,
}

impl Settings {
    pub(super) fn gate(&self) -> Option<f64> {
        self.gate_percent.map(|percent| (percent / 100.0).ln_1p())
    }
}

/// The samples of both sides: one of each for a pair.
#[derive(Default)]
struct Sides {
    a: Vec<BenchResult>,
    b: Vec<BenchResult>,
    /// What passed meanwhile, for each pair.
    ticks: Vec<StealTicks>,
}

/// The bench whose loads take the same every time: nanoseconds a frame.
const STEADY: &str = "core";

/// What the pairs so far show.
struct Judged {
    figures: Vec<ComparedFigure>,
    /// Whether each pair counts for some figure.
    counted: Vec<bool>,
    notes: Vec<String>,
}

/// Compares B with A.
///
/// # Errors
/// A side that cannot be run or is of another bench; nothing in common; an interruption.
pub fn compare(
    [a, b]: [&Subject; 2],
    settings: &Settings,
    stop: &AtomicBool,
    mut told: impl FnMut(&str),
) -> Result<Comparison, Failure> {
    match (a, b) {
        (Subject::Run { .. }, Subject::Run { .. }) => in_turns([a, b], settings, stop, &mut told),
        _ => not_in_turns([a, b], settings, stop, &mut told),
    }
}

fn in_turns(
    subjects: [&Subject; 2],
    settings: &Settings,
    stop: &AtomicBool,
    told: &mut impl FnMut(&str),
) -> Result<Comparison, Failure> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(settings.seed);
    let meter = MachineMeter::start();
    let mut sides = Sides::default();
    one_pair(&mut sides, subjects, true, stop)?;
    let Names { both, lost, new } = comparable(&sides.a[0], &sides.b[0], subjects)?;
    let exact = both.iter().all(|name| both_exact(&sides.a[0], &sides.b[0], name));
    let mut plan = Plan::new(settings.pairs_max, settings.gate_percent.is_some(), both.len());
    if exact {
        plan.looks = vec![1];
    }
    let mut a_first = false;
    let mut judged = None;
    for (n, &look) in plan.looks.iter().enumerate() {
        while sides.a.len() < look {
            // Of each two pairs one begins with A and one with B; which one, is drawn.
            a_first = if sides.a.len() % 2 == 1 {
                !a_first
            } else {
                random.next_u64() >> 63 == 0
            };
            one_pair(&mut sides, subjects, a_first, stop)?;
            told(&format!(
                "pair {} of {} at most",
                sides.a.len(),
                settings.pairs_max
            ));
        }
        let so_far = judge(&both, &sides, &plan, settings)?;
        let undecided = so_far
            .figures
            .iter()
            .any(|figure| figure.verdict == Verdict::Undecided);
        judged = Some(so_far);
        if !undecided || n + 1 == plan.looks.len() {
            break;
        }
        told("undecided so far");
    }
    let judged = judged.expect("there is a look");
    let ticks = sides.ticks.iter().zip(&judged.counted);
    let counted = ticks.filter_map(|(ticks, counts)| counts.then_some(*ticks));
    let steal = counted.fold(StealTicks::default(), StealTicks::plus).percent();
    let (environment, tainted) = machine(&meter, steal, exact, [&sides.a, &sides.b]);
    let mut comparison = Comparison::new(subjects.map(Subject::name), &sides.a[0].bench, settings);
    comparison.pairs = Some(sides.a.len());
    comparison.environment = Some(environment);
    comparison.tainted = tainted;
    if !exact {
        comparison.tainted.extend(one_machine(&sides.a[0], &sides.b[0]));
    }
    comparison.leave_out(lost, &new);
    comparison.notes.extend(judged.notes);
    comparison.figures = judged.figures;
    Ok(comparison)
}

fn one_pair(
    sides: &mut Sides,
    [a, b]: [&Subject; 2],
    a_first: bool,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let meter = StealMeter::start();
    if a_first {
        sides.a.push(once(a, stop)?);
        sides.b.push(once(b, stop)?);
    } else {
        sides.b.push(once(b, stop)?);
        sides.a.push(once(a, stop)?);
    }
    sides.ticks.push(meter.ticks_since_start());
    Ok(())
}

pub(super) fn once(subject: &Subject, stop: &AtomicBool) -> Result<BenchResult, Failure> {
    match subject {
        Subject::Run { name, command } => result_of(name, command, stop),
        Subject::Saved { result, .. } => Ok((**result).clone()),
    }
}

/// The differences of each figure, and what they show.
fn judge(names: &[String], sides: &Sides, plan: &Plan, settings: &Settings) -> Result<Judged, Failure> {
    let mut judged = Judged {
        figures: Vec::with_capacity(names.len()),
        counted: vec![false; sides.a.len()],
        notes: Vec::new(),
    };
    for name in names {
        let medians = |results: &[BenchResult]| -> Vec<f64> {
            let median = |result: &BenchResult| {
                result
                    .figure(name)
                    .map_or(f64::NAN, |figure| figure.spread().median)
            };
            results.iter().map(median).collect()
        };
        let (a, b) = (medians(&sides.a), medians(&sides.b));
        let figure = sides.a[0].figure(name).expect("in both");
        let pairs = a.iter().zip(&b).map(|(a, b)| log_ratio(*a, *b, figure.better));
        let Some(differences) = pairs.collect::<Option<Vec<f64>>>() else {
            return Err(no_amount(name));
        };
        let exact = both_exact(&sides.a[0], &sides.b[0], name);
        let counts = match exact || sides.a[0].bench != STEADY {
            true => vec![true; a.len()],
            false => {
                let costs = |values: &[f64]| -> Vec<f64> { values.iter().map(|value| value.ln()).collect() };
                counted(&costs(&a), &costs(&b))
            }
        };
        let of = |values: &[f64]| -> Vec<f64> {
            let kept = values.iter().zip(&counts).filter(|(_, counts)| **counts);
            kept.map(|(value, _)| *value).collect()
        };
        let differences = of(&differences);
        let shift = match exact {
            true => exactly(differences[0], figure),
            false => paired(&differences, plan.alpha()),
        };
        if differences.len() < a.len() {
            judged.notes.push(format!(
                "{name}: {} of {} pairs count; in the others the machine was slow",
                differences.len(),
                a.len()
            ));
        }
        for (some, counts) in judged.counted.iter_mut().zip(&counts) {
            *some |= counts;
        }
        let figure = ComparedFigure::new(figure, (&of(&a), &of(&b)), &shift, plan, settings.gate());
        judged.figures.push(figure);
    }
    Ok(judged)
}

/// Without noise the difference is what it is; of instructions, what is below half a thousandth hangs on where the stack begins, which
/// the names of programs and their surroundings change.
pub(super) fn exactly(difference: f64, figure: &BenchFigure) -> Shift {
    const STACK: f64 = 5e-4;
    let difference = match figure.unit == "instructions" && difference.abs() < STACK {
        true => 0.0,
        false => difference,
    };
    Shift {
        estimate: difference,
        low: difference,
        high: difference,
        p: if difference == 0.0 { 1.0 } else { 0.0 },
    }
}

pub(super) fn no_amount(name: &str) -> Failure {
    Failure::configuration(format!(
        "the figure {name} is no amount, so there is no ratio of it"
    ))
    .because("a value is negative or not finite")
}

/// What can be compared, and what cannot.
pub(super) fn comparable(
    a: &BenchResult,
    b: &BenchResult,
    subjects: [&Subject; 2],
) -> Result<Names, Failure> {
    let place = format!("{} and {}", subjects[0].name(), subjects[1].name());
    if a.bench != b.bench {
        return Err(Failure::usage(format!(
            "results of different benches: {} and {}",
            a.bench, b.bench
        ))
        .at(place)
        .fix("compare two of the same bench"));
    }
    let names = names(a, b);
    if names.both.is_empty() {
        return Err(Failure::usage("the two have no figure in common")
            .at(place)
            .fix("compare results of the same workloads, frame lengths and units"));
    }
    Ok(names)
}

/// The machine, and what taints a comparison in turns: what it did meanwhile, and what every run of a side complained of.
fn machine(
    meter: &MachineMeter,
    steal: Option<f64>,
    exact: bool,
    sides: [&[BenchResult]; 2],
) -> (Environment, Vec<String>) {
    let (environment, mut tainted) = meter.finish_with(&TaintLimits::default(), steal);
    for (side, results) in ["A", "B"].iter().zip(sides) {
        let always = !results.is_empty() && results.iter().all(|result| !result.tainted.is_empty());
        if let Some(last) = results.last().filter(|_| always) {
            tainted.extend(
                last.tainted
                    .iter()
                    .map(|why| format!("{side}, in every run: {why}")),
            );
        }
    }
    // Both sides meet the same governor, in turns.
    tainted.retain(|why| !why.contains(GOVERNOR_TAINT_PREFIX));
    if exact {
        tainted.clear();
    }
    (environment, tainted)
}
