//! Runs variants of the profile that the search has found. The variants differ from this profile in the
//! shared limit (`dynamic_th`) and in `xon_offset`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use xoff_dataplane::config::BufferThreshold;

use super::headroom_search::TuningPlan;
use super::phase_run::{PhaseResult, TrafficPhase, run_phase};
use super::tuning_target::BufferCandidate;
use xoff_lab::{ParallelRunsResult, run_in_parallel};
use xoff_telemetry::failure::{Exit, Failure};

/// Number of values of `dynamic_th` above and below the configured one.
const DYNAMIC_TH_STEPS: i8 = 3;
/// Valid values of `dynamic_th`.
const DYNAMIC_TH_RANGE: std::ops::RangeInclusive<i8> = -8..=7;
/// Number of phases in which each variant runs.
const VARIANT_PHASES: usize = 8;

/// A variant of the found profile, with its results in several incast phases.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileVariant {
    /// Name, such as `dynamic_th=-1` or `xon_offset=4352`.
    pub name: String,
    /// Results of up to 8 incast phases. All variants run in the same phases.
    pub seen: Vec<PhaseResult>,
}

/// Runs variants of the profile `found` in up to 8 of the incast phases in `phases`. Returns an empty list if
/// no phase is an incast.
///
/// # Errors
/// The run was interrupted, or a buffer does not fill.
pub fn run_variants(
    plan: &TuningPlan,
    found: &BufferCandidate,
    phases: &[TrafficPhase],
    stop: &AtomicBool,
) -> Result<Vec<ProfileVariant>, Failure> {
    let flowing = phases
        .iter()
        .filter(|phase| matches!(phase.pattern, super::TrafficPattern::Incast(_)));
    let flowing: Vec<TrafficPhase> = flowing.cloned().collect();
    if flowing.is_empty() {
        return Ok(Vec::new());
    }
    // The last phases of an incast are those with random seeds.
    let step = flowing.len().div_ceil(VARIANT_PHASES);
    let chosen: Arc<Vec<TrafficPhase>> = Arc::new(
        flowing
            .into_iter()
            .rev()
            .step_by(step)
            .map(|phase| TrafficPhase {
                // This time depends on the time of XOFF, and these parameters change it.
                own_frame_at: None,
                ..phase
            })
            .collect(),
    );
    let mut variants = Vec::new();
    for (name, candidate) in variant_candidates(plan, found) {
        let (subject, traffic, phases) = (plan.subject.clone(), plan.traffic, Arc::clone(&chosen));
        let work = move |at: usize| run_phase(&subject, &traffic, &candidate, &phases[at]);
        let seen = match run_in_parallel(chosen.len(), plan.jobs, work, stop, |_| ())? {
            ParallelRunsResult::Done(seen) => seen,
            ParallelRunsResult::Interrupted(_) => {
                return Err(Failure::new(Exit::Interrupted, "interrupted: nothing is written"));
            }
        };
        variants.push(ProfileVariant { name, seen });
    }
    Ok(variants)
}

fn variant_candidates(plan: &TuningPlan, found: &BufferCandidate) -> Vec<(String, BufferCandidate)> {
    let mut all = Vec::new();
    if let BufferThreshold::Dynamic(given) = found.threshold {
        for exponent in (given - DYNAMIC_TH_STEPS)..=(given + DYNAMIC_TH_STEPS) {
            if DYNAMIC_TH_RANGE.contains(&exponent) {
                let threshold = BufferThreshold::Dynamic(exponent);
                all.push((
                    format!("dynamic_th={exponent}"),
                    BufferCandidate { threshold, ..*found },
                ));
            }
        }
    }
    let cell = u64::from(plan.subject.config.cell_bytes);
    let frame = u64::from(plan.traffic.frame_bytes).next_multiple_of(cell);
    let mut offsets = vec![frame, 2 * frame, 4 * frame, 8 * frame, found.xon_offset_bytes];
    offsets.retain(|offset| *offset > 0);
    offsets.sort_unstable();
    offsets.dedup();
    for offset in offsets {
        let candidate = BufferCandidate {
            xon_offset_bytes: offset,
            ..*found
        };
        all.push((format!("xon_offset={offset}"), candidate));
    }
    all
}
