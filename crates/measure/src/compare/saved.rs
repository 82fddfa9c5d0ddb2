//! Results that were not measured in turns: saved ones, and what is run to be held against one.

use std::sync::atomic::AtomicBool;

use super::exact::{Names, both_exact, is_exact, log_ratio, logs};
use super::report::{ComparedFigure, Comparison};
use super::statistics::unpaired;
use super::subject::Subject;
use super::turns::{Settings, comparable, exactly, no_amount, once};
use super::verdict::Plan;
use crate::result::{BenchResult, GOVERNOR_TAINT_PREFIX, MachineMeter, TaintLimits};
use xoff_telemetry::Environment;
use xoff_telemetry::failure::Failure;

/// Compares two sides of which one at least was measured before.
pub(super) fn not_in_turns(
    subjects: [&Subject; 2],
    settings: &Settings,
    stop: &AtomicBool,
    told: &mut impl FnMut(&str),
) -> Result<Comparison, Failure> {
    let meter = MachineMeter::start();
    let mut sides = [once(subjects[0], stop)?, once(subjects[1], stop)?];
    // Before more samples are taken, which can be minutes.
    comparable(&sides[0], &sides[1], subjects)?;
    for (side, subject) in sides.iter_mut().zip(subjects) {
        take_more(side, subject, settings, stop, told)?;
    }
    saved(&sides, subjects, settings, &meter)
}

/// The further samples of a side that is run.
fn take_more(
    whole: &mut BenchResult,
    subject: &Subject,
    settings: &Settings,
    stop: &AtomicBool,
    told: &mut impl FnMut(&str),
) -> Result<(), Failure> {
    let exact = whole.figures.iter().all(|figure| is_exact(whole, figure));
    if exact || matches!(subject, Subject::Saved { .. }) {
        return Ok(());
    }
    for n in 1..settings.pairs_max {
        told(&format!("sample {} of {}", n + 1, settings.pairs_max));
        let next = once(subject, stop)?;
        for figure in &mut whole.figures {
            let more = next
                .figure(&figure.name)
                .map_or(&[][..], |figure| &figure.samples);
            figure.samples.extend_from_slice(more);
        }
    }
    whole.tainted.clear(); // judged over the whole time
    Ok(())
}

fn saved(
    [a, b]: &[BenchResult; 2],
    subjects: [&Subject; 2],
    settings: &Settings,
    meter: &MachineMeter,
) -> Result<Comparison, Failure> {
    let Names { both, lost, new } = comparable(a, b, subjects)?;
    let plan = Plan::new(1, false, both.len());
    let mut comparison = Comparison::new(subjects.map(Subject::name), &a.bench, settings);
    comparison.leave_out(lost, &new);
    let mut noisy = false;
    for name in &both {
        let (of_a, of_b) = (a.figure(name).expect("in both"), b.figure(name).expect("in both"));
        let shift = if both_exact(a, b, name) {
            let (a, b) = (of_a.spread().median, of_b.spread().median);
            exactly(log_ratio(a, b, of_a.better).ok_or_else(|| no_amount(name))?, of_a)
        } else {
            noisy = true;
            let logs = logs(&of_a.samples, &of_b.samples, of_a.better);
            let [log_a, log_b] = logs.ok_or_else(|| no_amount(name))?;
            unpaired(&log_a, &log_b, plan.alpha())
        };
        comparison.figures.push(ComparedFigure::new(
            of_a,
            (&of_a.samples, &of_b.samples),
            &shift,
            &plan,
            settings.gate(),
        ));
    }
    let ran = subjects
        .iter()
        .any(|subject| matches!(subject, Subject::Run { .. }));
    if noisy {
        comparison
            .notes
            .push("not measured in turns: what the machine did between them is in the difference".to_owned());
        comparison.tainted = taints(a, b);
        if ran {
            let (_, tainted) = meter.finish(&TaintLimits::default());
            comparison.tainted.extend(
                tainted
                    .into_iter()
                    .filter(|why| !why.contains(GOVERNOR_TAINT_PREFIX)),
            );
        }
    }
    comparison.environment = b.environment.clone();
    Ok(comparison)
}

fn taints(a: &BenchResult, b: &BenchResult) -> Vec<String> {
    let mut tainted = Vec::new();
    for (side, result) in [("A", a), ("B", b)] {
        tainted.extend(result.tainted.iter().map(|why| format!("{side}: {why}")));
    }
    tainted.extend(one_machine(a, b));
    if let (Some(a), Some(b)) = (&a.environment, &b.environment) {
        tainted.extend(same_machine(a, b));
    }
    tainted
}

/// Why nothing can be said of the machine of both, if one alone names its own.
pub(super) fn one_machine(a: &BenchResult, b: &BenchResult) -> Option<String> {
    let (with, without) = match (&a.environment, &b.environment) {
        (Some(_), None) => ("A", "B"),
        (None, Some(_)) => ("B", "A"),
        _ => return None,
    };
    Some(format!(
        "{with} was measured on a machine, {without} says nothing of its own"
    ))
}

/// In what two machines differ that makes figures others. The version of xoff is what is compared.
fn same_machine(a: &Environment, b: &Environment) -> Option<String> {
    let facts = |of: &Environment| {
        let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "unknown".to_owned());
        [
            ("processor", known(&of.cpu_model)),
            ("cores", of.cores.to_string()),
            ("governor", known(&of.governor)),
            ("kernel", known(&of.kernel)),
            ("clock source", known(&of.clocksource)),
        ]
    };
    let pairs = facts(a).into_iter().zip(facts(b)).filter(|(a, b)| a != b);
    let differing: Vec<String> = pairs
        .map(|((name, a), (_, b))| format!("{name} {a} and {b}"))
        .collect();
    (!differing.is_empty()).then(|| {
        format!(
            "they were measured on different machines: {}",
            differing.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(environment: Option<Environment>) -> BenchResult {
        let mut result = BenchResult::new("core", "x", 1);
        result.environment = environment;
        result
    }

    #[test]
    fn every_fact_of_a_machine_that_makes_figures_others_has_to_agree() {
        let here = Environment {
            cores: 2,
            kernel: Some("6.1".to_owned()),
            ..Environment::default()
        };
        let other = |change: fn(&mut Environment)| {
            let mut there = here.clone();
            change(&mut there);
            taints(&on(Some(here.clone())), &on(Some(there))).join("; ")
        };
        assert_eq!(other(|there| there.xoff_version = "9".to_owned()), "");
        assert_eq!(other(|there| there.steal_percent = Some(0.5)), "");
        for (said, words) in [
            (
                other(|there| there.kernel = Some("6.2".to_owned())),
                "kernel 6.1 and 6.2",
            ),
            (other(|there| there.cores = 64), "cores 2 and 64"),
            (
                other(|there| there.clocksource = Some("hpet".to_owned())),
                "clock source unknown and hpet",
            ),
            (
                other(|there| there.governor = Some("powersave".to_owned())),
                "governor",
            ),
            (other(|there| there.cpu_model = Some("c".to_owned())), "processor"),
        ] {
            assert!(
                said.contains("different machines") && said.contains(words),
                "{words}: {said}"
            );
        }
    }

    #[test]
    fn a_result_without_a_machine_is_not_held_against_one_with() {
        let (with, without) = (on(Some(Environment::default())), on(None));
        assert!(taints(&with, &without)[0].contains("A was measured on a machine, B says nothing"));
        assert!(taints(&without, &with)[0].contains("B was measured on a machine, A says nothing"));
        assert!(taints(&without, &without).is_empty());
    }
}
