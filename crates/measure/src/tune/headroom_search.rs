//! Searches for the smallest headroom without loss.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use xoff_units::Picos;

use super::closed_form::headroom_cells;
use super::phase_run::{PhaseDrop, PhaseResult, TrafficPhase, run_phase, set_xoff_delaying_frame_time};
use super::phases::build_phases;
use super::traffic_pattern::{TrafficParameters, TrafficPattern};
use super::tuning_target::{BufferCandidate, TuningTarget};
use xoff_lab::{ParallelRunsResult, run_in_parallel};
use xoff_telemetry::count_noun;
use xoff_telemetry::failure::{Exit, Failure};

/// The parameters of a headroom search.
#[derive(Clone, Debug)]
pub struct TuningPlan {
    /// The switch and its lossless traffic class.
    pub subject: TuningTarget,
    /// Lengths of the frames, delay of the cables, and response time of the senders.
    pub traffic: TrafficParameters,
    /// The traffic patterns that must not lose frames.
    pub patterns: Vec<TrafficPattern>,
    /// Seeds of the random phases. A phase is one arrangement of start times and buffer use.
    pub seeds: Vec<u64>,
    /// Largest number of runs at the same time. 0 counts as 1.
    pub jobs: usize,
}

/// The results of one candidate (set of buffer sizes) in all phases.
#[derive(Clone, Debug, PartialEq)]
pub struct CandidateTrial {
    /// Buffer sizes of the candidate.
    pub candidate: BufferCandidate,
    /// Result of each phase, in the order of [`TuningResult::phases`].
    pub seen: Vec<PhaseResult>,
}

impl CandidateTrial {
    /// Returns the number of dropped frames of the lossless class, as the sum over all phases.
    pub fn dropped(&self) -> u64 {
        self.seen.iter().map(|seen| seen.dropped).sum()
    }

    /// Returns the largest headroom that a priority group used in any phase, in cells.
    pub fn headroom_cells(&self) -> u32 {
        self.seen
            .iter()
            .map(|seen| seen.headroom_cells)
            .max()
            .unwrap_or(0)
    }

    /// Returns the index of the phase that lost the most frames, and its first drop. Returns `None` if no
    /// phase lost a frame.
    pub fn worst_phase(&self) -> Option<(usize, PhaseDrop)> {
        let lost = self.seen.iter().enumerate().filter(|(_, seen)| seen.dropped > 0);
        let (number, seen) = lost.max_by_key(|(number, seen)| (seen.dropped, usize::MAX - number))?;
        Some((number, seen.first_drop?))
    }
}

/// The result of a headroom search.
#[derive(Clone, Debug)]
pub struct TuningResult {
    /// All phases of the search.
    pub phases: Vec<TrafficPhase>,
    /// Results of the configured buffer sizes.
    pub given: CandidateTrial,
    /// Results of the smallest candidate without loss.
    pub smallest: CandidateTrial,
    /// Results with one cell of headroom less than `smallest`. If `smallest` has only one cell of headroom,
    /// this field is a copy of `smallest`.
    pub below: CandidateTrial,
    /// Results of candidates with slightly more or less headroom. Each entry has the headroom in cells, and
    /// whether frames were lost. These results show that more headroom does not lose more frames.
    pub neighbours: Vec<(u32, bool)>,
    /// Headroom of the worst case by the formula of [`headroom_cells`], in cells.
    pub closed_form_cells: u32,
}

/// Searches for the smallest headroom without loss, and verifies it. If `stop` becomes true, the search ends
/// with an error. `progress` receives status messages.
///
/// # Errors
/// A pattern has too many senders, a buffer does not fill, two results contradict each other, or the search
/// was interrupted.
pub fn search_headroom(
    plan: &TuningPlan,
    stop: &AtomicBool,
    mut progress: impl FnMut(&str),
) -> Result<TuningResult, Failure> {
    let TuningPlan { subject, traffic, .. } = plan;
    check_sender_counts(plan)?;
    let given = subject.configured_candidate();
    let closed_form = headroom_cells(subject, traffic);
    // The frames that arrive after XOFF do not depend on the reserved space, so the smallest
    // candidate reserves nothing.
    let least = BufferCandidate { reserved: 0, ..given };
    let generous = BufferCandidate {
        headroom: given.headroom.max(2 * closed_form + 1),
        ..least
    };
    let all = build_phases(subject, traffic, &plan.patterns, &plan.seeds);
    progress(&count_noun(all.len() as u64, "phase"));
    let mut bench = PhaseRunner::new(plan, all.clone(), generous, stop)?;
    let first = bench.run_all_phases(generous)?;
    if first.dropped() > 0 {
        return Err(inconclusive_error(
            "frames are lost with twice the headroom of the formula",
            &first,
        ));
    }
    bench.order = order_by_headroom(&first);
    let peak = first.headroom_cells();
    progress(&format!(
        "the phases use at most {} of headroom",
        count_noun(u64::from(peak), "cell")
    ));
    let with = |headroom: u32| BufferCandidate { headroom, ..least };
    let Some(headroom) = bench.find_smallest_headroom(1, generous.headroom, Some(peak.max(1)), with)? else {
        return Err(inconclusive_error("no headroom was found", &first));
    };
    progress(&format!(
        "{} of headroom: verifying",
        count_noun(u64::from(headroom), "cell")
    ));
    // With reserved space, XOFF comes later. Then the own frame, which delays XOFF, must also come later.
    let as_given = match given.reserved {
        0 => bench.run_all_phases(given)?,
        _ => PhaseRunner::new(plan, all, given, stop)?.run_all_phases(given)?,
    };
    verify_candidate(&bench, as_given, with(headroom), generous.headroom, closed_form)
}

/// Runs three kinds of candidates (headroom sizes) in all phases: the size that the search has found, the
/// size below it by one cell, and sizes with slightly more or less headroom.
fn verify_candidate(
    bench: &PhaseRunner<'_>,
    given: CandidateTrial,
    found: BufferCandidate,
    most: u32,
    closed_form_cells: u32,
) -> Result<TuningResult, Failure> {
    let TrafficParameters { frame_bytes, .. } = bench.plan.traffic;
    let frame = frame_bytes.div_ceil(bench.plan.subject.config.cell_bytes);
    let with = |headroom: u32| BufferCandidate { headroom, ..found };
    let smallest = bench.run_all_phases(found)?;
    if smallest.dropped() > 0 {
        return Err(inconclusive_error(
            "the found configuration lost frames in a second run",
            &smallest,
        ));
    }
    // A lossless class has at least one cell of headroom.
    let below = match found.headroom {
        1 => smallest.clone(),
        cells => bench.run_all_phases(with(cells - 1))?,
    };
    let mut neighbours = Vec::new();
    for (cells, loses) in [
        (found.headroom.saturating_sub(frame), true),
        (found.headroom.saturating_sub(2), true),
        (found.headroom + 1, false),
        (found.headroom + frame, false),
        (most, false),
    ] {
        if cells == 0 {
            continue;
        }
        let lost = bench.loses_frames(with(cells))?;
        neighbours.push((cells, lost));
        if lost != loses {
            let trial = bench.run_all_phases(with(cells))?;
            return Err(inconclusive_error(
                "more headroom loses frames, or less does not",
                &trial,
            ));
        }
    }
    Ok(TuningResult {
        phases: bench.phases.to_vec(),
        given,
        smallest,
        below,
        neighbours,
        closed_form_cells,
    })
}

fn inconclusive_error(what: &str, trial: &CandidateTrial) -> Failure {
    Failure::new(Exit::Inconclusive, what).because(format!(
        "{} of headroom lost {}",
        count_noun(u64::from(trial.candidate.headroom), "cell"),
        count_noun(trial.dropped(), "frame")
    ))
}

fn check_sender_counts(plan: &TuningPlan) -> Result<(), Failure> {
    let ports = plan.subject.ports.len();
    for pattern in &plan.patterns {
        if pattern.senders() >= ports {
            return Err(
                Failure::usage(format!("{pattern} needs {} ports", pattern.senders() + 1))
                    .at(format!("--pattern {pattern}"))
                    .because(format!(
                        "only {} with the lossless profile and speed of the first port",
                        count_noun(ports as u64, "port")
                    ))
                    .fix(format!("use at most {}", count_noun(ports as u64 - 1, "sender"))),
            );
        }
    }
    Ok(())
}

/// Returns the order in which phases run. Phases that use more headroom come first, so that the search finds
/// a loss early.
fn order_by_headroom(trial: &CandidateTrial) -> Vec<usize> {
    let mut order: Vec<usize> = (0..trial.seen.len()).collect();
    order.sort_by_key(|number| (u32::MAX - trial.seen[*number].headroom_cells, *number));
    order
}

/// Sets, in all phases, the time of the own frame that delays XOFF.
fn set_xoff_delaying_frame_times(
    plan: &TuningPlan,
    all: Vec<TrafficPhase>,
    candidate: BufferCandidate,
    stop: &AtomicBool,
) -> Result<Vec<TrafficPhase>, Failure> {
    let (subject, traffic) = (plan.subject.clone(), plan.traffic);
    let count = all.len();
    let work = move |number: usize| {
        let mut phase = all[number].clone();
        set_xoff_delaying_frame_time(&subject, &traffic, &candidate, &mut phase)?;
        Ok(phase)
    };
    require_complete_results(run_in_parallel(count, plan.jobs, work, stop, |_| ())?)
}

fn require_complete_results<T>(pooled: ParallelRunsResult<T>) -> Result<Vec<T>, Failure> {
    match pooled {
        ParallelRunsResult::Done(all) => Ok(all),
        ParallelRunsResult::Interrupted(_) => {
            Err(Failure::new(Exit::Interrupted, "interrupted: nothing is written"))
        }
    }
}

struct PhaseRunner<'a> {
    plan: &'a TuningPlan,
    phases: Arc<Vec<TrafficPhase>>,
    order: Vec<usize>,
    stop: &'a AtomicBool,
}

impl<'a> PhaseRunner<'a> {
    /// Creates a runner. For each phase, computes when the receiver sends its own frame. The switch forwards
    /// this frame to the sender of the test traffic, and XOFF must wait until the frame has left. The time of
    /// the own frame does not depend on the headroom.
    fn new(
        plan: &'a TuningPlan,
        all: Vec<TrafficPhase>,
        candidate: BufferCandidate,
        stop: &'a AtomicBool,
    ) -> Result<PhaseRunner<'a>, Failure> {
        Ok(PhaseRunner {
            order: (0..all.len()).collect(),
            phases: Arc::new(set_xoff_delaying_frame_times(plan, all, candidate, stop)?),
            plan,
            stop,
        })
    }

    /// Runs a candidate in all phases.
    fn run_all_phases(&self, candidate: BufferCandidate) -> Result<CandidateTrial, Failure> {
        let numbers: Vec<usize> = (0..self.phases.len()).collect();
        let seen = self.run_phases(candidate, numbers)?;
        Ok(CandidateTrial { candidate, seen })
    }

    /// Returns whether a candidate loses frames in any phase.
    fn loses_frames(&self, candidate: BufferCandidate) -> Result<bool, Failure> {
        for part in self.order.chunks(self.plan.jobs.max(1) * 4) {
            let seen = self.run_phases(candidate, part.to_vec())?;
            if seen.iter().any(|seen| seen.dropped > 0) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn run_phases(
        &self,
        candidate: BufferCandidate,
        numbers: Vec<usize>,
    ) -> Result<Vec<PhaseResult>, Failure> {
        let (subject, traffic) = (self.plan.subject.clone(), self.plan.traffic);
        let (phases, count) = (Arc::clone(&self.phases), numbers.len());
        let work = move |at: usize| run_phase(&subject, &traffic, &candidate, &phases[numbers[at]]);
        require_complete_results(run_in_parallel(count, self.plan.jobs, work, self.stop, |_| ())?)
    }

    /// Finds the smallest headroom without loss, by bisection between `least` and `most` cells. The search
    /// starts at `guess`. Returns `None` if `most` cells lose frames.
    fn find_smallest_headroom(
        &self,
        least: u32,
        most: u32,
        guess: Option<u32>,
        with: impl Fn(u32) -> BufferCandidate,
    ) -> Result<Option<u32>, Failure> {
        bisect_smallest(least, most, guess, |cells| self.loses_frames(with(cells)))
    }
}

/// Finds, by bisection, the smallest number of cells between `least` and `most` that does not lose frames.
/// Returns `None` if `most` loses frames.
fn bisect_smallest(
    least: u32,
    most: u32,
    guess: Option<u32>,
    mut loses: impl FnMut(u32) -> Result<bool, Failure>,
) -> Result<Option<u32>, Failure> {
    let (mut low, mut high) = (least, None);
    if let Some(guess) = guess.filter(|guess| (least..most).contains(guess)) {
        match loses(guess)? {
            true => low = guess + 1,
            false => {
                high = Some(guess);
                if guess > least && loses(guess - 1)? {
                    return Ok(high);
                }
            }
        }
    }
    let mut high = match high {
        Some(high) => high,
        None if loses(most)? => return Ok(None),
        None => most,
    };
    while low < high {
        let middle = low + (high - low) / 2;
        match loses(middle)? {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    Ok(Some(high))
}

/// Describes a phase in words, for notes and messages.
pub fn describe_phase(phase: &TrafficPhase) -> String {
    let begins = match phase.begins.iter().all(|begin| *begin == phase.begins[0]) {
        true => "all senders at once".to_owned(),
        false => "senders at different times".to_owned(),
    };
    let own = match phase.own_frame_elapsed {
        None => String::new(),
        Some(Picos::ZERO) => ", own frame just started".to_owned(),
        Some(gone) => format!(
            ", own frame started {} before",
            xoff_telemetry::format_nanos(gone.as_nanos())
        ),
    };
    format!(
        "phase {}, {}, {begins}, others hold {} of the pool{own}",
        phase.number,
        phase.pattern,
        count_noun(u64::from(phase.others_cells), "cell")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bisection_finds_the_threshold_from_any_guess() {
        for step in 1..40u32 {
            for guess in (0..45).map(Some).chain([None]) {
                let mut asked = 0;
                let found = bisect_smallest(1, 40, guess, |cells| {
                    asked += 1;
                    Ok(cells < step)
                });
                assert_eq!(found.unwrap(), Some(step), "{guess:?}");
                assert!(asked <= 9, "{asked} questions for {step} from {guess:?}");
            }
        }
        assert_eq!(bisect_smallest(1, 40, Some(3), |_| Ok(true)).unwrap(), None);
    }
}
