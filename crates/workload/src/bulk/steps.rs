//! Steps of a bulk-synchronous job: how far the job is, and how it skips steps.

use xoff_units::Picos;

use super::{BEGIN_ITERATION, BulkJob, Iteration, LOCAL_EDGE};
use crate::job_context::{FlowRecord, JobCounts, NO_RECORD, PendingWork};
use crate::messages::{InFlightMessage, TransferTag};
use crate::pattern::{Pattern, RingPattern, Transfer};
use crate::step_times::StepTimes;

/// With fewer iterations of a size, an iteration is no step.
const ITERATIONS_MIN: u32 = 4;
/// With at least so many steps, the steps of a ring within an iteration are skipped, and not iterations.
const RING_STEPS_MIN: u64 = 64;

/// The part of a job that repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepUnit {
    /// A step of a ring: each rank receives one chunk.
    RingStep,
    /// An iteration of the job.
    Iteration,
}

/// Steps of a job whose times are recorded.
#[derive(Debug)]
pub(crate) struct RecordedSteps {
    unit: StepUnit,
    pub(super) times: StepTimes,
    /// Number of transfers that have arrived, without skipped ones.
    pub(super) arrived_transfers: u64,
    /// Index of the first flow record of the previous and of the running iteration.
    pub(super) record_starts: [usize; 2],
}

impl RecordedSteps {
    /// Handles a transfer that has arrived ([`Pattern::handle_arrival`]), and records the steps that it completes.
    pub(super) fn handle_arrival(
        &mut self,
        pattern: &mut Pattern,
        tag: TransferTag,
        (now, latency, iteration): (Picos, Picos, u64),
        sends: &mut Vec<Transfer>,
    ) {
        self.arrived_transfers += 1;
        let step = match self.unit {
            StepUnit::RingStep => pattern.ring().map_or(0, |ring| ring.step_of(tag.sequence)),
            // The start of the next iteration ends the step.
            StepUnit::Iteration => iteration + 1,
        };
        self.times.record_latency(step, latency);
        let completed = |pattern: &Pattern| pattern.ring().map_or(0, |ring| ring.completed_steps(tag.edge));
        let before = completed(pattern);
        pattern.handle_arrival(tag.edge, tag.sequence, sends);
        if self.unit == StepUnit::RingStep {
            (before..completed(pattern)).for_each(|step| self.times.record(step, now));
        }
    }
}

impl BulkJob {
    /// Records the times of the steps from now on. Without repeated steps, the call has no effect.
    pub(crate) fn record_steps(&mut self) {
        let ring_steps = self.ring_step_count();
        let iterations = self.schedule.iterations_per_size;
        let unit = match ring_steps {
            Some(steps) if steps >= RING_STEPS_MIN => StepUnit::RingStep,
            _ if iterations >= ITERATIONS_MIN => StepUnit::Iteration,
            _ => return,
        };
        let parts = match unit {
            StepUnit::RingStep => self.pattern.edges().len() as u32,
            StepUnit::Iteration => 1,
        };
        self.steps = Some(Box::new(RecordedSteps {
            unit,
            times: StepTimes::new(parts),
            arrived_transfers: 0,
            record_starts: [0; 2],
        }));
    }

    /// Returns the unit of the recorded steps. Returns `None` if the job records no steps.
    pub(crate) fn step_unit(&self) -> Option<StepUnit> {
        self.steps.as_ref().map(|steps| steps.unit)
    }

    /// Returns the times of the recorded steps.
    pub(crate) fn step_times(&self) -> Option<&StepTimes> {
        self.steps.as_ref().map(|steps| &steps.times)
    }

    /// Returns the number of transfers that have arrived since the steps are recorded.
    pub(crate) fn arrived_transfers(&self) -> u64 {
        self.steps.as_ref().map_or(0, |steps| steps.arrived_transfers)
    }

    /// Returns the number of transfers of a step.
    pub(crate) fn transfers_per_step(&self) -> u64 {
        let edges = 0..self.pattern.edges().len() as u32;
        let of_iteration = || edges.map(|edge| self.pattern.transfer_count(edge)).sum();
        match (self.step_unit(), self.ring_step_count()) {
            (Some(StepUnit::RingStep), Some(steps)) => of_iteration() / steps.max(1),
            _ => of_iteration(),
        }
    }

    /// Returns the number of steps of an iteration. Returns `None` if the job is no ring.
    fn ring_step_count(&self) -> Option<u64> {
        self.pattern.ring().map(RingPattern::step_count)
    }

    /// Returns whether the job has begun its first iteration.
    pub(crate) fn has_begun(&self) -> bool {
        self.running.is_some() || !self.done.is_empty()
    }

    /// Returns the number of steps that can be skipped: the running step takes the place of a later one. Visits all
    /// edges.
    pub(crate) fn steps_left(&self) -> u64 {
        match self.step_unit() {
            Some(StepUnit::RingStep) if self.running.is_some() => {
                self.pattern.ring().map_or(0, RingPattern::steps_left)
            }
            Some(StepUnit::Iteration) => {
                let rounds = u64::from(self.schedule.iterations_per_size).max(1);
                let number = self.done.len() as u64;
                rounds - 1 - number % rounds
            }
            _ => 0,
        }
    }

    /// Forgets the times of all earlier steps.
    pub(crate) fn restart_steps(&mut self) {
        let next = match (self.step_unit(), self.pattern.ring()) {
            (Some(StepUnit::RingStep), Some(ring)) => {
                let edges = 0..self.pattern.edges().len() as u32;
                // An edge that is ahead of the others has already reported its next steps.
                edges.map(|edge| ring.completed_steps(edge)).max().unwrap_or(0)
            }
            _ => self.done.len() as u64 + u64::from(self.running.is_some()),
        };
        if let Some(steps) = &mut self.steps {
            steps.times.restart(next);
        }
    }

    /// Returns the size of the running iteration, or of the next one, in bytes.
    pub(crate) fn iteration_bytes(&self) -> u64 {
        let rounds = (self.schedule.iterations_per_size as usize).max(1);
        let size = self
            .running
            .map_or(self.done.len() / rounds, |running| running.size);
        self.schedule.sizes.get(size).copied().unwrap_or(0)
    }

    /// Prepares the recorded steps for a new iteration.
    pub(super) fn record_iteration(&mut self, now: Picos, counts: &JobCounts) {
        let Some(steps) = &mut self.steps else {
            return;
        };
        let rounds = (self.schedule.iterations_per_size as usize).max(1);
        let number = self.done.len();
        match steps.unit {
            StepUnit::RingStep => steps.times.restart(0),
            StepUnit::Iteration => {
                if number.is_multiple_of(rounds) {
                    steps.times.restart(number as u64);
                }
                steps.times.record(number as u64, now);
            }
        }
        steps.record_starts = [steps.record_starts[1], counts.records.len()];
    }

    /// Skips `steps` steps, which take the time `skipped`: all messages and timers of the running step belong to a
    /// later step from now on. Counts the messages of the skipped steps. The caller must skip at most
    /// [`BulkJob::steps_left`] steps, and at least one.
    pub(crate) fn skip_steps(
        &mut self,
        (job, steps): (u32, u64),
        skipped: Picos,
        counts: &mut JobCounts,
        queues: &mut PendingWork,
    ) {
        match self.step_unit() {
            Some(StepUnit::RingStep) => self.skip_ring_steps((job, steps), counts, queues),
            Some(StepUnit::Iteration) => self.skip_iterations((job, steps), skipped, counts, queues),
            None => return,
        }
        if let Some(recorded) = &mut self.steps {
            recorded.times.skip(steps);
        }
    }

    fn skip_ring_steps(
        &mut self,
        (job, steps): (u32, u64),
        counts: &mut JobCounts,
        queues: &mut PendingWork,
    ) {
        let Some(ring) = self.pattern.ring_mut() else {
            return;
        };
        let (transfers, changed_bytes) = ring.skip_steps(steps);
        for message in queues.messages.iter_mut().filter(|message| message.job == job) {
            message.tag.sequence += transfers;
            // Chunks can differ by a byte.
            message.bytes = ring.transfer(message.tag.edge, message.tag.sequence).bytes;
        }
        for (index, [posted, received]) in changed_bytes.into_iter().enumerate() {
            let to = self.pattern.edges()[index].to as usize;
            self.missing_transfers[to] = self.missing_transfers[to].saturating_sub(transfers);
            self.unposted_transfers = self.unposted_transfers.saturating_sub(transfers);
            if self.connections[index] != LOCAL_EDGE {
                counts.posted_messages += transfers;
                counts.received_messages += transfers;
                counts.posted_bytes = counts.posted_bytes.saturating_add(posted);
                counts.received_bytes = counts.received_bytes.saturating_add(received);
            }
        }
        queues.change_tags(job, |tag| {
            if *tag != BEGIN_ITERATION {
                tag.sequence += transfers;
            }
        });
    }

    /// Skips iterations. The results of a skipped iteration are those of the latest complete iteration.
    fn skip_iterations(
        &mut self,
        (job, iterations): (u32, u64),
        skipped: Picos,
        counts: &mut JobCounts,
        queues: &mut PendingWork,
    ) {
        let Some(latest) = self.done.last().copied() else {
            return;
        };
        let rounds = (self.schedule.iterations_per_size as usize).max(1);
        for step in 1..=iterations {
            let number = self.done.len();
            self.done.push(Iteration {
                warmup: number % rounds < self.schedule.warmup as usize,
                ..latest.later_by(share(skipped, step, iterations))
            });
        }
        if let Some(running) = &mut self.running {
            *running = running.later_by(skipped);
            let number = self.done.len();
            running.warmup = number % rounds < self.schedule.warmup as usize;
        }
        let edges = 0..self.connections.len() as u32;
        for edge in edges.filter(|edge| self.connections[*edge as usize] != LOCAL_EDGE) {
            let messages = self.pattern.transfer_count(edge) * iterations;
            let size = self.schedule.sizes[latest.size];
            let bytes = self.pattern.bytes_on_edge(edge, size).saturating_mul(iterations);
            counts.posted_messages += messages;
            counts.received_messages += messages;
            counts.posted_bytes = counts.posted_bytes.saturating_add(bytes);
            counts.received_bytes = counts.received_bytes.saturating_add(bytes);
        }
        self.repeat_flow_records(
            (job, iterations),
            skipped,
            counts,
            &mut queues.messages.iter_mut(),
        );
    }

    /// Adds the flow records of skipped iterations before those of the running iteration.
    fn repeat_flow_records(
        &mut self,
        (job, iterations): (u32, u64),
        skipped: Picos,
        counts: &mut JobCounts,
        messages: &mut dyn Iterator<Item = &mut InFlightMessage>,
    ) {
        let Some(steps) = self.steps.as_mut().filter(|_| self.has_flow_records) else {
            return;
        };
        // In the gap between two iterations, the latest complete iteration is the running one.
        let [from, to] = match self.running {
            Some(_) => steps.record_starts,
            None => [steps.record_starts[1], counts.records.len()],
        };
        // Acknowledgements of the latest messages can be missing. They take as long as those one iteration earlier.
        for index in from..to {
            if counts.records[index].acknowledged == Picos::NEVER
                && let Some(earlier) = index.checked_sub(to - from)
            {
                let earlier = counts.records[earlier];
                let wait = earlier.acknowledged.since(earlier.received);
                let record = &mut counts.records[index];
                record.acknowledged = record.received.saturating_add(wait);
            }
        }
        let latest = counts.records[from..to].to_vec();
        let running = counts.records.split_off(to);
        for step in 1..=iterations {
            let time = share(skipped, step, iterations);
            counts
                .records
                .extend(latest.iter().map(|record| record.later_by(time)));
        }
        let added = counts.records.len() - to;
        let latest_start = counts.records.len() - latest.len();
        counts
            .records
            .extend(running.iter().map(|record| record.later_by(skipped)));
        for message in messages.filter(|message| message.job == job && message.record != NO_RECORD) {
            // A message of the previous iteration can still wait for its acknowledgement.
            if message.record as usize >= to {
                message.record += added as u32;
            }
        }
        steps.record_starts = match self.running {
            Some(_) => [latest_start, to + added],
            None => [steps.record_starts[0], latest_start],
        };
    }
}

impl Iteration {
    fn later_by(&self, time: Picos) -> Iteration {
        Iteration {
            start: self.start.saturating_add(time),
            end: later(self.end, time),
            first_rank_end: later(self.first_rank_end, time),
            ..*self
        }
    }
}

impl FlowRecord {
    fn later_by(&self, time: Picos) -> FlowRecord {
        FlowRecord {
            start: self.start.saturating_add(time),
            received: later(self.received, time),
            acknowledged: later(self.acknowledged, time),
            ..*self
        }
    }
}

/// Returns `time` times `part` divided by `parts`.
fn share(time: Picos, part: u64, parts: u64) -> Picos {
    Picos((u128::from(time.0) * u128::from(part) / u128::from(parts)) as u64)
}

/// Returns a time later by `span`. A time that is not known yet stays [`Picos::NEVER`].
fn later(time: Picos, span: Picos) -> Picos {
    match time {
        Picos::NEVER => Picos::NEVER,
        known => known.saturating_add(span),
    }
}
