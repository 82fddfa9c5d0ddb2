//! What the other parameters of the profile do, with the found headroom: limit of shared use, and hysteresis.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use xoff_dataplane::config::BufferThreshold;

use super::rig::{Phase, Seen, run};
use super::search::Plan;
use super::subject::Candidate;
use xoff_lab::{PoolResult, run_in_parallel};
use xoff_telemetry::failure::{Exit, Failure};

/// Steps of `dynamic_th` on either side of the configured one.
const STEPS: i8 = 3;
/// What `dynamic_th` may be.
const RANGE: std::ops::RangeInclusive<i8> = -8..=7;
/// Phases that each variant is run in.
const PHASES: usize = 8;

/// A variant of the found profile, in some incasts.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// `dynamic_th=-1`, `xon_offset=4352`.
    pub name: String,
    /// What came of each phase.
    pub seen: Vec<Seen>,
}

/// Runs variants of a profile through phases with a receiver that takes frames. None without such a pattern.
///
/// # Errors
/// An interrupt, or a buffer that does not fill.
pub fn sweep(
    plan: &Plan,
    found: &Candidate,
    phases: &[Phase],
    stop: &AtomicBool,
) -> Result<Vec<Variant>, Failure> {
    let flowing = phases
        .iter()
        .filter(|phase| matches!(phase.pattern, super::Pattern::Incast(_)));
    let flowing: Vec<Phase> = flowing.cloned().collect();
    if flowing.is_empty() {
        return Ok(Vec::new());
    }
    // The last ones of an incast are those of seeds.
    let step = flowing.len().div_ceil(PHASES);
    let chosen: Arc<Vec<Phase>> = Arc::new(
        flowing
            .into_iter()
            .rev()
            .step_by(step)
            .map(|phase| Phase {
                // Its place hangs on when XOFF comes, which these parameters change.
                own_frame_at: None,
                ..phase
            })
            .collect(),
    );
    let mut variants = Vec::new();
    for (name, candidate) in candidates(plan, found) {
        let (subject, traffic, phases) = (plan.subject.clone(), plan.traffic, Arc::clone(&chosen));
        let work = move |at: usize| run(&subject, &traffic, &candidate, &phases[at]);
        let seen = match run_in_parallel(chosen.len(), plan.jobs, work, stop, |_| ())? {
            PoolResult::Done(seen) => seen,
            PoolResult::Interrupted(_) => {
                return Err(Failure::new(Exit::Interrupted, "interrupted: nothing is written"));
            }
        };
        variants.push(Variant { name, seen });
    }
    Ok(variants)
}

fn candidates(plan: &Plan, found: &Candidate) -> Vec<(String, Candidate)> {
    let mut all = Vec::new();
    if let BufferThreshold::Dynamic(given) = found.threshold {
        for exponent in (given - STEPS)..=(given + STEPS) {
            if RANGE.contains(&exponent) {
                let threshold = BufferThreshold::Dynamic(exponent);
                all.push((
                    format!("dynamic_th={exponent}"),
                    Candidate { threshold, ..*found },
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
        let candidate = Candidate {
            xon_offset_bytes: offset,
            ..*found
        };
        all.push((format!("xon_offset={offset}"), candidate));
    }
    all
}
