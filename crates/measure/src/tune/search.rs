//! The smallest sizes that lose nothing.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use xoff_units::Picos;

use super::closed_form::headroom_cells;
use super::pattern::{Pattern, Traffic};
use super::phases::phases;
use super::rig::{Loss, Phase, Seen, prepare, run};
use super::subject::{Candidate, Subject};
use xoff_lab::{PoolResult, run_in_parallel};
use xoff_telemetry::failure::{Exit, Failure};

/// What is searched with.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is tuned.
    pub subject: Subject,
    /// Frames and links.
    pub traffic: Traffic,
    /// The patterns that must lose nothing.
    pub patterns: Vec<Pattern>,
    /// Seeds of random phases.
    pub seeds: Vec<u64>,
    /// Runs at the same time.
    pub jobs: usize,
}

/// A configuration in all phases.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Its sizes.
    pub candidate: Candidate,
    /// What came of each phase, in their order.
    pub seen: Vec<Seen>,
}

impl Trial {
    /// Frames of the class that were dropped, over all phases.
    pub fn dropped(&self) -> u64 {
        self.seen.iter().map(|seen| seen.dropped).sum()
    }

    /// Most headroom that a group held, in cells.
    pub fn headroom_cells(&self) -> u32 {
        self.seen
            .iter()
            .map(|seen| seen.headroom_cells)
            .max()
            .unwrap_or(0)
    }

    /// The phase that lost the most, and its first loss.
    pub fn worst(&self) -> Option<(usize, Loss)> {
        let lost = self.seen.iter().enumerate().filter(|(_, seen)| seen.dropped > 0);
        let (number, seen) = lost.max_by_key(|(number, seen)| (seen.dropped, usize::MAX - number))?;
        Some((number, seen.first_drop?))
    }
}

/// What the search has found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The phases.
    pub phases: Vec<Phase>,
    /// The configuration as it was given.
    pub given: Trial,
    /// The smallest that loses nothing.
    pub smallest: Trial,
    /// The same with a cell of headroom less.
    pub below: Trial,
    /// Neighbours, in cells of headroom, and whether they lost frames: what shows that more headroom never loses more.
    pub neighbours: Vec<(u32, bool)>,
    /// Headroom of the worst phase by arithmetic, in cells.
    pub closed_form_cells: u32,
}

/// Searches. `stop` ends it early; `progress` hears what is done.
///
/// # Errors
/// A pattern that has too many senders; a buffer that does not fill; answers that contradict each other; an interrupt.
pub fn search(plan: &Plan, stop: &AtomicBool, mut progress: impl FnMut(&str)) -> Result<Found, Failure> {
    let Plan { subject, traffic, .. } = plan;
    check(plan)?;
    let given = subject.given();
    let closed_form = headroom_cells(subject, traffic);
    // What arrives after XOFF does not hang on what was reserved before: the smallest has no reserve.
    let least = Candidate { reserved: 0, ..given };
    let generous = Candidate {
        headroom: given.headroom.max(2 * closed_form + 1),
        ..least
    };
    let all = phases(subject, traffic, &plan.patterns, &plan.seeds);
    progress(&format!("{} phases", all.len()));
    let mut bench = Bench::new(plan, all.clone(), generous, stop)?;
    let first = bench.all(generous)?;
    if first.dropped() > 0 {
        return Err(undecided(
            "even twice the headroom that arithmetic asks for loses frames",
            &first,
        ));
    }
    bench.order = order(&first);
    let peak = first.headroom_cells();
    progress(&format!("at most {peak} cells of headroom are used"));
    let with = |headroom: u32| Candidate { headroom, ..least };
    let Some(headroom) = bench.smallest(1, generous.headroom, Some(peak.max(1)), with)? else {
        return Err(undecided("no headroom was found", &first));
    };
    progress(&format!("{headroom} cells of headroom: verifying"));
    // With a reserve XOFF comes later, and so does the frame in its way.
    let as_given = match given.reserved {
        0 => bench.all(given)?,
        _ => Bench::new(plan, all, given, stop)?.all(given)?,
    };
    verified(&bench, as_given, with(headroom), generous.headroom, closed_form)
}

/// Runs the found configuration, the one below and neighbours through all phases.
fn verified(
    bench: &Bench<'_>,
    given: Trial,
    found: Candidate,
    most: u32,
    closed_form_cells: u32,
) -> Result<Found, Failure> {
    let Traffic { frame_bytes, .. } = bench.plan.traffic;
    let frame = frame_bytes.div_ceil(bench.plan.subject.config.cell_bytes);
    let with = |headroom: u32| Candidate { headroom, ..found };
    let smallest = bench.all(found)?;
    if smallest.dropped() > 0 {
        return Err(undecided(
            "the found configuration lost frames when it was run again",
            &smallest,
        ));
    }
    // One cell of headroom is the least there is: below, the class would not be lossless at all.
    let below = match found.headroom {
        1 => smallest.clone(),
        cells => bench.all(with(cells - 1))?,
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
        let lost = bench.loses(with(cells))?;
        neighbours.push((cells, lost));
        if lost != loses {
            let trial = bench.all(with(cells))?;
            return Err(undecided("more headroom loses frames, or less does not", &trial));
        }
    }
    Ok(Found {
        phases: bench.phases.to_vec(),
        given,
        smallest,
        below,
        neighbours,
        closed_form_cells,
    })
}

fn undecided(what: &str, trial: &Trial) -> Failure {
    Failure::new(Exit::Inconclusive, what).because(format!(
        "{} cells of headroom lost {} frames",
        trial.candidate.headroom,
        trial.dropped()
    ))
}

fn check(plan: &Plan) -> Result<(), Failure> {
    let ports = plan.subject.ports.len();
    for pattern in &plan.patterns {
        if pattern.senders() >= ports {
            return Err(
                Failure::usage(format!("{pattern} takes {} ports", pattern.senders() + 1))
                    .at(format!("--pattern {pattern}"))
                    .because(format!(
                        "{ports} ports have the lossless profile and speed of the first one"
                    ))
                    .fix(format!("let at most {} send", ports - 1)),
            );
        }
    }
    Ok(())
}

/// Which phases are run first: those that take the most headroom, so that what loses is soon seen to.
fn order(trial: &Trial) -> Vec<usize> {
    let mut order: Vec<usize> = (0..trial.seen.len()).collect();
    order.sort_by_key(|number| (u32::MAX - trial.seen[*number].headroom_cells, *number));
    order
}

/// The phases with the frame in the way of XOFF in its place.
fn prepared(
    plan: &Plan,
    all: Vec<Phase>,
    candidate: Candidate,
    stop: &AtomicBool,
) -> Result<Vec<Phase>, Failure> {
    let (subject, traffic) = (plan.subject.clone(), plan.traffic);
    let count = all.len();
    let work = move |number: usize| {
        let mut phase = all[number].clone();
        prepare(&subject, &traffic, &candidate, &mut phase)?;
        Ok(phase)
    };
    pooled(run_in_parallel(count, plan.jobs, work, stop, |_| ())?)
}

fn pooled<T>(pooled: PoolResult<T>) -> Result<Vec<T>, Failure> {
    match pooled {
        PoolResult::Done(all) => Ok(all),
        PoolResult::Interrupted(_) => Err(Failure::new(Exit::Interrupted, "interrupted: nothing is written")),
    }
}

struct Bench<'a> {
    plan: &'a Plan,
    phases: Arc<Vec<Phase>>,
    order: Vec<usize>,
    stop: &'a AtomicBool,
}

impl<'a> Bench<'a> {
    /// The frames in the way of XOFF are placed for this candidate, whatever its headroom.
    fn new(
        plan: &'a Plan,
        all: Vec<Phase>,
        candidate: Candidate,
        stop: &'a AtomicBool,
    ) -> Result<Bench<'a>, Failure> {
        Ok(Bench {
            order: (0..all.len()).collect(),
            phases: Arc::new(prepared(plan, all, candidate, stop)?),
            plan,
            stop,
        })
    }

    /// A configuration in all phases.
    fn all(&self, candidate: Candidate) -> Result<Trial, Failure> {
        let numbers: Vec<usize> = (0..self.phases.len()).collect();
        let seen = self.some(candidate, numbers)?;
        Ok(Trial { candidate, seen })
    }

    /// Whether a configuration loses frames in any phase.
    fn loses(&self, candidate: Candidate) -> Result<bool, Failure> {
        for part in self.order.chunks(self.plan.jobs.max(1) * 4) {
            let seen = self.some(candidate, part.to_vec())?;
            if seen.iter().any(|seen| seen.dropped > 0) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn some(&self, candidate: Candidate, numbers: Vec<usize>) -> Result<Vec<Seen>, Failure> {
        let (subject, traffic) = (self.plan.subject.clone(), self.plan.traffic);
        let (phases, count) = (Arc::clone(&self.phases), numbers.len());
        let work = move |at: usize| run(&subject, &traffic, &candidate, &phases[numbers[at]]);
        pooled(run_in_parallel(count, self.plan.jobs, work, self.stop, |_| ())?)
    }

    /// The smallest number from `least` to `most` with which nothing is lost, by bisection from a guess on: `most` is known to lose
    /// nothing. `None`: even that loses.
    fn smallest(
        &self,
        least: u32,
        most: u32,
        guess: Option<u32>,
        with: impl Fn(u32) -> Candidate,
    ) -> Result<Option<u32>, Failure> {
        bisect(least, most, guess, |cells| self.loses(with(cells)))
    }
}

/// Bisects: the smallest number from `least` to `most` that does not lose. `None`: `most` loses.
fn bisect(
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

/// A phase in words.
pub fn describe(phase: &Phase) -> String {
    let begins = match phase.begins.iter().all(|begin| *begin == phase.begins[0]) {
        true => "all senders at once".to_owned(),
        false => "senders apart".to_owned(),
    };
    let own = match phase.own_frame_gone {
        None => String::new(),
        Some(Picos::ZERO) => ", own frame just begun".to_owned(),
        Some(gone) => format!(
            ", own frame {} on its way",
            xoff_telemetry::format_nanos(gone.as_nanos())
        ),
    };
    format!(
        "phase {}, {}, {begins}, {} cells of the pool held by others{own}",
        phase.number, phase.pattern, phase.others_cells
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bisection_finds_the_step_from_any_guess() {
        for step in 1..40u32 {
            for guess in (0..45).map(Some).chain([None]) {
                let mut asked = 0;
                let found = bisect(1, 40, guess, |cells| {
                    asked += 1;
                    Ok(cells < step)
                });
                assert_eq!(found.unwrap(), Some(step), "{guess:?}");
                assert!(asked <= 9, "{asked} questions for {step} from {guess:?}");
            }
        }
        assert_eq!(bisect(1, 40, Some(3), |_| Ok(true)).unwrap(), None);
    }
}
