//! The result of a headroom search, as figures (measured quantities) and notes.

use super::headroom_search::{CandidateTrial, TuningPlan, TuningResult, describe_phase};
use super::phase_run::{PhaseResult, TrafficPhase};
use super::profile_variants::ProfileVariant;
use super::tuning_target::BufferMemory;
use crate::result::{BenchFigure, BenchResult, ImprovementDirection};
use xoff_telemetry::{count_noun, format_nanos, group_thousands};

/// Builds the result of `xoff bench tune-buffers`: the buffer memory before and after the search, the trials
/// that prove the result, and the measured quantities (figures) of the profile `variants`. `subject` names
/// the tuned switch, such as the path of its configuration.
pub fn build_result(
    subject: &str,
    plan: &TuningPlan,
    found: &TuningResult,
    variants: &[ProfileVariant],
) -> BenchResult {
    let seed = plan.seeds.first().copied().unwrap_or(0);
    let mut result = BenchResult::new("tune-buffers", subject, seed);
    let (before, after) = (
        plan.subject.memory_of(&found.given.candidate),
        plan.subject.memory_of(&found.smallest.candidate),
    );
    result.figures = memory_figures(&before, &after);
    result.figures.extend(candidate_trial_figures(plan, found));
    result.figures.extend(variants.iter().flat_map(variant_figures));
    result.notes = build_notes(plan, found, &before, &after);
    result
}

fn single_figure(name: &str, unit: &str, better: ImprovementDirection, value: f64) -> BenchFigure {
    BenchFigure::new(name, unit, better, vec![value])
}

/// Returns the reduction from `before` to `after` in percent. It is negative for an increase.
fn saved_percent(before: u64, after: u64) -> f64 {
    (before as f64 - after as f64) * 100.0 / before.max(1) as f64
}

/// Returns the reduction from `before` to `after` as text, such as `12.5 % less`.
fn format_saving(before: u64, after: u64) -> String {
    let percent = saved_percent(before, after);
    format!(
        "{:.1} % {}",
        percent.abs(),
        if percent < 0.0 { "more" } else { "less" }
    )
}

fn memory_figures(before: &BufferMemory, after: &BufferMemory) -> Vec<BenchFigure> {
    let mut figures = Vec::new();
    for (name, before, after) in [
        ("group_headroom", before.group, after.group),
        ("headroom", before.headroom, after.headroom),
        ("buffer", before.total, after.total),
    ] {
        let smaller = ImprovementDirection::Smaller;
        figures.push(single_figure(
            &format!("{name}/given"),
            "bytes",
            smaller,
            before as f64,
        ));
        figures.push(single_figure(
            &format!("{name}/found"),
            "bytes",
            smaller,
            after as f64,
        ));
        // The savings become smaller when the given configuration improves, so they do not gate a comparison.
        let saved = before as f64 - after as f64;
        let bigger = ImprovementDirection::Bigger;
        figures.push(single_figure(&format!("{name}/saved"), "bytes", bigger, saved).as_diagnostic());
        let percent = saved_percent(before, after);
        figures.push(
            single_figure(&format!("{name}/saved_percent"), "percent", bigger, percent).as_diagnostic(),
        );
    }
    figures
}

/// Returns the results of the trials that prove the headroom, and the headroom by the formula.
fn candidate_trial_figures(plan: &TuningPlan, found: &TuningResult) -> Vec<BenchFigure> {
    let cell = f64::from(plan.subject.config.cell_bytes);
    let of = |trial: &CandidateTrial, name: &str| {
        let headroom = worst_phase(&trial.seen, |seen| f64::from(seen.headroom_cells) * cell);
        let used = single_figure(
            &format!("{name}/headroom_used_worst"),
            "bytes",
            ImprovementDirection::Smaller,
            headroom,
        );
        let [losing, dropped] = loss_figures(name, &trial.seen);
        [losing, dropped, used]
    };
    let mut figures: Vec<BenchFigure> = Vec::new();
    figures.extend(of(&found.given, "given"));
    figures.extend(of(&found.smallest, "found"));
    if found.below.candidate != found.smallest.candidate {
        // A control run, which must lose frames.
        figures.extend(of(&found.below, "cell_less").map(BenchFigure::as_diagnostic));
    }
    let closed_form = f64::from(found.closed_form_cells) * cell;
    let closed_form = single_figure("closed_form", "bytes", ImprovementDirection::Smaller, closed_form);
    figures.push(closed_form.as_diagnostic());
    figures
}

/// Returns the number of phases that lose frames, and the lost frames of the worst phase. A median over the
/// phases would hide a loss in less than half of the phases, and a single lost frame disproves a headroom.
fn loss_figures(name: &str, seen: &[PhaseResult]) -> [BenchFigure; 2] {
    let losing = seen.iter().filter(|seen| seen.dropped > 0).count();
    let smaller = ImprovementDirection::Smaller;
    [
        single_figure(
            &format!("{name}/phases_with_loss"),
            "phases",
            smaller,
            losing as f64,
        ),
        single_figure(
            &format!("{name}/dropped_worst"),
            "frames",
            smaller,
            worst_phase(seen, |seen| seen.dropped as f64),
        ),
    ]
}

/// Returns the largest value of all phases.
fn worst_phase(seen: &[PhaseResult], value: impl Fn(&PhaseResult) -> f64) -> f64 {
    seen.iter().map(value).fold(0.0, f64::max)
}

fn variant_figures(variant: &ProfileVariant) -> Vec<BenchFigure> {
    type Value = fn(&PhaseResult) -> f64;
    let of_phases: [(&str, &str, ImprovementDirection, Value); 4] = [
        ("utilisation", "percent", ImprovementDirection::Bigger, |seen| {
            seen.utilisation * 100.0
        }),
        ("latency_p999", "ns", ImprovementDirection::Smaller, |seen| {
            seen.latency_p999_ns as f64
        }),
        ("pauses", "frames/ms", ImprovementDirection::Smaller, |seen| {
            seen.pauses_per_ms
        }),
        ("shared_used", "cells", ImprovementDirection::Smaller, |seen| {
            f64::from(seen.shared_cells)
        }),
    ];
    let mut figures = loss_figures(&variant.name, &variant.seen).to_vec();
    figures.extend(of_phases.map(|(name, unit, better, value)| {
        let samples = variant.seen.iter().map(value).collect();
        BenchFigure::new(format!("{}/{name}", variant.name), unit, better, samples)
    }));
    // The variants show the effect of parameters that the result does not use.
    figures.into_iter().map(BenchFigure::as_diagnostic).collect()
}

/// Formats a number of buffer cells.
fn cells(count: u32) -> String {
    count_noun(u64::from(count), "cell")
}

fn build_notes(
    plan: &TuningPlan,
    found: &TuningResult,
    before: &BufferMemory,
    after: &BufferMemory,
) -> Vec<String> {
    let (subject, traffic) = (&plan.subject, &plan.traffic);
    let cell = subject.config.cell_bytes;
    let own = match traffic.own_frame_bytes {
        0 => "no own frame delays XOFF".to_owned(),
        bytes => format!("own frames of {bytes} bytes delay XOFF"),
    };
    let mut notes = vec![
        format!(
            "profile {}, traffic class {}, cells of {cell} bytes; frames of {} bytes, {own}, cable {} one way, peers honour pauses after {}",
            subject.profile().name,
            subject.class,
            traffic.frame_bytes,
            format_nanos(traffic.delay.as_nanos()),
            format_nanos(traffic.response_ns),
        ),
        format!(
            "headroom of a group {} bytes instead of {} ({}); of the pool {} instead of {}; buffer {} instead of {} ({})",
            group_thousands(after.group),
            group_thousands(before.group),
            format_saving(before.group, after.group),
            group_thousands(after.headroom),
            group_thousands(before.headroom),
            group_thousands(after.total),
            group_thousands(before.total),
            format_saving(before.total, after.total),
        ),
        format!(
            "proof: {} of headroom lost 0 frames in {}; the formula gives {} for the worst phase",
            cells(found.smallest.candidate.headroom),
            count_noun(found.phases.len() as u64, "phase"),
            cells(found.closed_form_cells),
        ),
    ];
    notes.push(match found.below.worst_phase() {
        Some(_) => format!(
            "proof: {}",
            describe_loss("one cell less", plan, &found.phases, &found.below)
        ),
        None => "one cell is the smallest headroom of a lossless profile".to_owned(),
    });
    if found.given.candidate.reserved > 0 {
        notes.push(format!(
            "reserved space is 0 instead of {}: losses do not depend on it, but a group has no space of its own when others fill the pool",
            cells(found.given.candidate.reserved)
        ));
    }
    notes.push(
        "valid for links and peers that do not stall, so not for veth and tap ports in real time".to_owned(),
    );
    if found.given.dropped() > 0 {
        notes.push(describe_loss(
            "the given configuration",
            plan,
            &found.phases,
            &found.given,
        ));
    }
    let lost =
        |(cells, lost): &(u32, bool)| format!("{cells} {}", if *lost { "loses" } else { "does not lose" });
    let neighbours: Vec<String> = found.neighbours.iter().map(lost).collect();
    notes.push(format!(
        "verified that more headroom does not lose more frames, at cells: {}",
        neighbours.join(", ")
    ));
    notes
}

/// Describes the worst loss of a trial: the number of frames, the port and the buffer limit.
fn describe_loss(who: &str, plan: &TuningPlan, phases: &[TrafficPhase], trial: &CandidateTrial) -> String {
    let phases_lost = trial.seen.iter().filter(|seen| seen.dropped > 0).count();
    let Some((number, first)) = trial.worst_phase() else {
        return format!("{who} loses nothing");
    };
    let limit = match first.refusal {
        Some(refusal) => format!(
            "the {} ({} of {} in use, {} wanted)",
            refusal.limit.name(),
            refusal.used_cells,
            count_noun(u64::from(refusal.limit_cells), "cell"),
            refusal.wanted_cells
        ),
        None => "no buffer limit".to_owned(),
    };
    format!(
        "{who} ({}) loses {} in {phases_lost} of {}, the first at {} after {} by {limit}; {}",
        cells(trial.candidate.headroom),
        count_noun(trial.dropped(), "frame"),
        count_noun(trial.seen.len() as u64, "phase"),
        plan.subject.config.ports[first.port.index()].name,
        format_nanos(first.at.as_nanos()),
        describe_phase(&phases[number]),
    )
}
