//! The engine of a workload. The engine handles events and returns the messages that the driver must post.

use std::cmp::Reverse;

use xoff_units::Picos;

use super::arrivals;
use super::bulk::BulkJob;
use super::job_context::{Connection, ConnectionBuilder, JobContext, JobCounts, MessagePost, PendingWork};
use super::latency::LatencyHistogram;
use super::list::FlowListJob;
use super::messages::{InFlightMessage, MessageId, TransferTag};
use super::random::RandomStream;
use super::spec::{JobKind, JobSpec, SpecError, Verb, WorkloadSpec};

mod counted_state;
mod outstanding;
mod skipping;

use counted_state::CountedState;
pub use skipping::StepMark;

#[derive(Debug)]
pub(super) enum JobRunner {
    List(FlowListJob),
    Bulk(Box<BulkJob>),
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) spec: JobSpec,
    pub(super) runner: JobRunner,
    pub(super) counts: JobCounts,
    /// Whether the job is stopped and posts no more messages. A background job is stopped when all other jobs
    /// have ended, and [`Workload::stop_job`] stops any job.
    pub(super) stopped: bool,
    /// Whether the job waits for [`Workload::start_job`].
    held: bool,
    /// State of the job when it was counted last.
    counted: CountedState,
}

impl Job {
    pub(super) fn is_over(&self) -> bool {
        match &self.runner {
            JobRunner::List(list) => list.is_over(),
            JobRunner::Bulk(bulk) => bulk.is_over(),
        }
    }
}

/// The jobs of a run, their connections and their progress.
///
/// The driver calls [`Workload::start`] once. Later it calls:
///
/// - [`Workload::advance`] at the time [`Workload::next_start`],
/// - [`Workload::received`] and [`Workload::acknowledged`] for each message.
///
/// Each of these calls appends messages to `out`. The driver must post these messages immediately. `now` is
/// the time of the driver and must not decrease from call to call.
#[derive(Debug)]
pub struct Workload {
    pub(super) jobs: Vec<Job>,
    pub(super) connections: Vec<Connection>,
    /// Line rate of each host in bits per second. The value is 0 for a host that no job uses.
    pub(super) line_rates_bps: Vec<u64>,
    queues: PendingWork,
    started: bool,
    /// The time of [`Workload::start`]. 0 before this call.
    start: Picos,
    /// Number of jobs that are not in the background and not over.
    foreground: usize,
    /// Number of jobs in each [`CountedState`].
    jobs_by_state: [usize; CountedState::COUNT],
}

impl Workload {
    /// Checks a specification and makes its connections. `line_rate_bps` returns the line rate of a host
    /// in bits per second, or 0 if the host does not exist. Offered loads and rooflines depend on the
    /// line rates.
    ///
    /// # Errors
    ///
    /// Returns the first problem of the first invalid job.
    pub fn new(
        spec: &WorkloadSpec,
        seed: u64,
        line_rate_bps: &dyn Fn(u32) -> u64,
    ) -> Result<Workload, SpecError> {
        let mut workload = Workload {
            jobs: Vec::with_capacity(spec.jobs.len()),
            connections: Vec::new(),
            line_rates_bps: Vec::new(),
            queues: PendingWork::default(),
            started: false,
            start: Picos::ZERO,
            foreground: 0,
            jobs_by_state: [0; CountedState::COUNT],
        };
        for (index, job) in spec.jobs.iter().enumerate() {
            job.check(line_rate_bps)?;
            let random = RandomStream::new(seed, index as u64);
            workload.add_job(index, job, random, line_rate_bps)?;
        }
        for index in 0..workload.connections.len() {
            let Connection { src, dst, .. } = workload.connections[index];
            for host in [src, dst] {
                let length = workload.line_rates_bps.len().max(host as usize + 1);
                workload.line_rates_bps.resize(length, 0);
                workload.line_rates_bps[host as usize] = line_rate_bps(host);
            }
        }
        Ok(workload)
    }

    fn add_job(
        &mut self,
        index: usize,
        spec: &JobSpec,
        random: RandomStream,
        line_rate_bps: &dyn Fn(u32) -> u64,
    ) -> Result<(), SpecError> {
        let mut connect = ConnectionBuilder {
            job: index,
            spec,
            connections: &mut self.connections,
        };
        let runner = match &spec.kind {
            JobKind::Flows(flows) | JobKind::Replay(flows) => {
                JobRunner::List(FlowListJob::new(flows, &mut connect))
            }
            JobKind::Poisson(poisson) => {
                let flows = arrivals::draw_flows(poisson, random, line_rate_bps)
                    .map_err(|problem| spec.spec_error(problem))?;
                JobRunner::List(FlowListJob::new(&flows, &mut connect))
            }
            JobKind::Permutation(permutation) => {
                JobRunner::Bulk(Box::new(BulkJob::permutation(permutation, random, &mut connect)))
            }
            JobKind::Incast(incast) => JobRunner::Bulk(Box::new(BulkJob::incast(incast, &mut connect))),
            JobKind::Collective(collective) => {
                JobRunner::Bulk(Box::new(BulkJob::collective(collective, &mut connect)))
            }
        };
        self.jobs.push(Job {
            // Lists of flows are long, and the runner already has them.
            spec: JobSpec {
                kind: match &spec.kind {
                    JobKind::Flows(_) => JobKind::Flows(Vec::new()),
                    JobKind::Replay(_) => JobKind::Replay(Vec::new()),
                    kind => kind.clone(),
                },
                ..spec.clone()
            },
            runner,
            counts: JobCounts {
                start: Picos::NEVER,
                last_received: Picos::ZERO,
                posted_messages: 0,
                posted_bytes: 0,
                received_messages: 0,
                received_bytes: 0,
                records: Vec::new(),
                latencies: LatencyHistogram::default(),
            },
            stopped: false,
            held: false,
            counted: CountedState::Ended,
        });
        self.jobs_by_state[CountedState::Ended.index()] += 1;
        self.count_job(index);
        Ok(())
    }

    /// Returns the connections of all jobs. They do not change after [`Workload::new`].
    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }

    /// Returns the host of each rank of a collective. `job` is an index in [`WorkloadSpec::jobs`]. Returns
    /// `None` if the job is not a collective, or if no job has this index.
    pub fn ranks(&self, job: usize) -> Option<&[u32]> {
        match &self.jobs.get(job)?.spec.kind {
            JobKind::Collective(collective) => Some(&collective.ranks),
            _ => None,
        }
    }

    /// Returns the RDMA operation of the messages of the job with this index. Returns the default,
    /// [`Verb::Write`], if no job has this index.
    pub fn job_verb(&self, job: usize) -> Verb {
        self.jobs.get(job).map_or(Verb::default(), |job| job.spec.verb)
    }

    /// Starts all jobs that are not held ([`Workload::hold_job`]). The start times of the jobs count from
    /// `now`. A second call has no effect.
    pub fn start(&mut self, now: Picos, out: &mut Vec<MessagePost>) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        self.start = now;
        self.foreground = self
            .jobs
            .iter()
            .filter(|job| !job.spec.background && !job.is_over())
            .count();
        for index in 0..self.jobs.len() {
            if !self.jobs[index].held {
                self.begin_job(index, now, out);
            }
        }
        self.advance(now, out);
    }

    fn begin_job(&mut self, index: usize, now: Picos, out: &mut Vec<MessagePost>) {
        let start = self
            .recorded_time(now)
            .saturating_add(self.jobs[index].spec.start);
        self.jobs[index].counts.start = start;
        self.handle_event(index, now, out, |runner, context| match runner {
            JobRunner::List(list) => list.start(start, context),
            JobRunner::Bulk(bulk) => bulk.start(start, context),
        });
    }

    /// Holds the job with this index: [`Workload::start`] does not start the job, but [`Workload::start_job`]
    /// does. The call has no effect after [`Workload::start`] or if no job has this index.
    pub fn hold_job(&mut self, job: usize) {
        if let Some(job) = self.jobs.get_mut(job).filter(|_| !self.started) {
            job.held = true;
        }
    }

    /// Starts a held job. The start time of the job counts from `now`. If [`Workload::start`] was not called
    /// yet, the call only ends the hold. The call has no effect if the job is not held.
    pub fn start_job(&mut self, now: Picos, job: usize, out: &mut Vec<MessagePost>) {
        let Some(held) = self.jobs.get_mut(job).filter(|job| job.held) else {
            return;
        };
        held.held = false;
        if self.started {
            self.begin_job(job, now, out);
            self.advance(now, out);
        }
    }

    /// Stops the job with this index: the job posts no more messages. Messages in flight continue. The call
    /// has no effect if the job is over or already stopped.
    pub fn stop_job(&mut self, job: usize) {
        let Some(stopped) = self
            .jobs
            .get_mut(job)
            .filter(|job| !job.stopped && !job.is_over())
        else {
            return;
        };
        stopped.stopped = true;
        let is_foreground = !stopped.spec.background;
        self.count_job(job);
        if is_foreground && self.started {
            self.foreground -= 1;
            if self.foreground == 0 {
                self.stop_background();
            }
        }
        self.remove_events_of_stopped_jobs();
    }

    /// Returns whether the job with this index is over: all its messages or iterations are complete. Returns
    /// false if no job has this index.
    pub fn is_over(&self, job: usize) -> bool {
        self.jobs.get(job).is_some_and(Job::is_over)
    }

    /// Returns the next time at which the driver must call [`Workload::advance`]. Returns [`Picos::NEVER`] if
    /// no job has set a timer.
    pub fn next_start(&self) -> Picos {
        self.queues
            .timers
            .peek()
            .map_or(Picos::NEVER, |Reverse(entry)| entry.0)
    }

    /// Handles all timers that are due at `now`.
    pub fn advance(&mut self, now: Picos, out: &mut Vec<MessagePost>) {
        self.handle_ready(now, out);
        while let Some(Reverse((at, ..))) = self.queues.timers.peek()
            && *at <= now
        {
            if let Some(Reverse((_, _, job, tag))) = self.queues.timers.pop() {
                self.handle_timer(job, tag, now, out);
            }
            self.handle_ready(now, out);
        }
    }

    /// Divides a message into several requests. [`Workload::received`] and [`Workload::acknowledged`] must then be
    /// called once for each request. A message is one request unless the driver divides it. The call has no effect if
    /// the message is unknown.
    pub fn divide_message(&mut self, message: MessageId, requests: u32) {
        if let Some(message) = self.queues.messages.get_mut(message) {
            (message.unreceived, message.unacknowledged) = (requests, requests);
        }
    }

    /// Reports that the receiver has received all bytes of a message, or of one of its requests
    /// ([`Workload::divide_message`]). Further reports of the same message have no effect, and neither has a report of
    /// an unknown message.
    pub fn received(&mut self, now: Picos, message: MessageId, out: &mut Vec<MessagePost>) {
        let Some(under_way) = self.queues.messages.get_mut(message) else {
            return;
        };
        if under_way.unreceived != 1 {
            under_way.unreceived = under_way.unreceived.saturating_sub(1);
            return;
        }
        under_way.unreceived = 0;
        let copy = *under_way;
        let recorded_now = self.recorded_time(now);
        let job = &mut self.jobs[copy.job as usize];
        job.counts.received_messages += 1;
        job.counts.received_bytes = job.counts.received_bytes.saturating_add(copy.bytes);
        job.counts.last_received = job.counts.last_received.max(recorded_now);
        if let Some(record) = job.counts.records.get_mut(copy.record as usize) {
            record.received = recorded_now;
        } else {
            job.counts.latencies.add(now.since(copy.posted));
        }
        self.handle_event(copy.job as usize, now, out, |runner, context| {
            if let JobRunner::Bulk(bulk) = runner {
                bulk.handle_arrival(copy.tag, now.since(copy.posted), context);
            }
        });
        self.remove_if_complete(now, message, copy, out);
    }

    /// Reports that the sender has received the last acknowledgement of a message, or of one of its requests
    /// ([`Workload::divide_message`]). Further reports of the same message have no effect, and neither has a report of
    /// an unknown message.
    pub fn acknowledged(&mut self, now: Picos, message: MessageId, out: &mut Vec<MessagePost>) {
        let Some(under_way) = self.queues.messages.get_mut(message) else {
            return;
        };
        if under_way.unacknowledged != 1 {
            under_way.unacknowledged = under_way.unacknowledged.saturating_sub(1);
            return;
        }
        under_way.unacknowledged = 0;
        let copy = *under_way;
        let recorded_now = self.recorded_time(now);
        let records = &mut self.jobs[copy.job as usize].counts.records;
        if let Some(record) = records.get_mut(copy.record as usize) {
            // A skip has estimated the time of a message that was waiting.
            record.acknowledged = record.acknowledged.min(recorded_now);
        }
        self.remove_if_complete(now, message, copy, out);
    }

    /// Returns the payload that all jobs transfer between hosts, in bytes, without background jobs and without
    /// transfers inside a node. Jobs that are stopped early transfer less.
    pub fn total_bytes(&self) -> u64 {
        let foreground = self.jobs.iter().filter(|job| !job.spec.background);
        let bytes = foreground.map(|job| match &job.runner {
            JobRunner::List(list) => list.total_bytes(),
            JobRunner::Bulk(bulk) => bulk.total_bytes(),
        });
        bytes.fold(0, u64::saturating_add)
    }

    /// Returns whether the workload has started, all jobs are over or stopped, and no message is in flight.
    pub fn is_finished(&self) -> bool {
        self.started
            && self.queues.messages.len() == 0
            && self.jobs.iter().all(|job| job.stopped || job.is_over())
    }

    /// If a message is both received and acknowledged, removes the message and notifies its job. Then handles
    /// all events that are due.
    fn remove_if_complete(
        &mut self,
        now: Picos,
        id: MessageId,
        copy: InFlightMessage,
        out: &mut Vec<MessagePost>,
    ) {
        if copy.unreceived == 0 && copy.unacknowledged == 0 {
            self.queues.messages.remove(id);
            self.handle_event(copy.job as usize, now, out, |runner, context| {
                if let JobRunner::List(list) = runner {
                    list.handle_completion(copy.tag, context);
                }
            });
        }
        self.handle_ready(now, out);
    }

    /// Handles all events that are due now.
    fn handle_ready(&mut self, now: Picos, out: &mut Vec<MessagePost>) {
        while let Some((job, tag)) = self.queues.ready.pop_front() {
            self.handle_timer(job, tag, now, out);
        }
    }

    fn handle_timer(&mut self, job: u32, tag: TransferTag, now: Picos, out: &mut Vec<MessagePost>) {
        self.handle_event(job as usize, now, out, |runner, context| match runner {
            JobRunner::List(list) => list.handle_timer(tag, context),
            JobRunner::Bulk(bulk) => bulk.handle_timer(tag, context),
        });
    }

    /// Passes an event to a job that is not stopped. Then checks whether the job has ended.
    fn handle_event(
        &mut self,
        index: usize,
        now: Picos,
        out: &mut Vec<MessagePost>,
        handle: impl FnOnce(&mut JobRunner, &mut JobContext<'_>),
    ) {
        let job = &mut self.jobs[index];
        if job.stopped {
            return;
        }
        let was_over = job.is_over();
        let mut context = JobContext {
            now,
            job: index as u32,
            verb: job.spec.verb,
            counts: &mut job.counts,
            queues: &mut self.queues,
            out,
        };
        handle(&mut job.runner, &mut context);
        if !was_over && job.is_over() && !job.spec.background {
            self.foreground -= 1;
            if self.foreground == 0 {
                self.stop_background();
            }
        }
        self.count_job(index);
    }

    fn stop_background(&mut self) {
        for index in 0..self.jobs.len() {
            let job = &mut self.jobs[index];
            job.stopped |= job.spec.background && !job.is_over();
            self.count_job(index);
        }
        self.remove_events_of_stopped_jobs();
    }

    fn remove_events_of_stopped_jobs(&mut self) {
        let jobs = &self.jobs;
        self.queues
            .timers
            .retain(|Reverse(entry)| !jobs[entry.2 as usize].stopped);
        self.queues.ready.retain(|(job, _)| !jobs[*job as usize].stopped);
    }
}

impl JobSpec {
    /// Returns the source host and the destination host of each connection of a job, in the order of
    /// [`Workload::connections`]. Returns `None` for permutations and random arrivals. The connections of
    /// these jobs depend on the seed.
    ///
    /// Ranks of one node exchange data over NVLink and have no connection.
    ///
    /// # Errors
    ///
    /// Returns the error of [`JobSpec::check`] if the job is not valid.
    pub fn fixed_pairs(
        &self,
        line_rate_bps: &dyn Fn(u32) -> u64,
    ) -> Result<Option<Vec<(u32, u32)>>, SpecError> {
        self.check(line_rate_bps)?;
        let mut connections = Vec::new();
        let mut connect = ConnectionBuilder {
            job: 0,
            spec: self,
            connections: &mut connections,
        };
        match &self.kind {
            JobKind::Permutation(_) | JobKind::Poisson(_) => return Ok(None),
            JobKind::Flows(flows) | JobKind::Replay(flows) => {
                FlowListJob::new(flows, &mut connect);
            }
            JobKind::Incast(incast) => {
                BulkJob::incast(incast, &mut connect);
            }
            JobKind::Collective(collective) => {
                BulkJob::collective(collective, &mut connect);
            }
        }
        let pairs = connections
            .iter()
            .map(|connection| (connection.src, connection.dst));
        Ok(Some(pairs.collect()))
    }
}
