//! The run of a workload: events in, messages out.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt::Write;

use xoff_units::Picos;

use super::arrivals;
use super::bulk::Bulk;
use super::latency::Latencies;
use super::list::List;
use super::messages::{Message, MessageId, Messages, Tag};
use super::random::Draws;
use super::spec::{JobKind, JobSpec, Spec, SpecError, Spread, Verb};

/// How many outstanding messages [`Workload::pending_description`] names.
const PENDING_SHOWN: usize = 5;
/// A message without a flow record.
pub(super) const NO_RECORD: u32 = u32::MAX;

/// One direction between two hosts, for one job. All messages from `src` to `dst` of the job use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Host that has the data.
    pub src: u32,
    /// Host that gets it.
    pub dst: u32,
    /// Queue pairs, at least 1.
    pub qps: u16,
    /// How they share messages.
    pub spread: Spread,
    /// [`JobSpec::transport`].
    pub transport: usize,
    /// Index of the job in [`Spec::jobs`].
    pub job: usize,
}

/// A message to be posted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post {
    /// Its identity, for what is reported of it.
    pub message: MessageId,
    /// Index into [`Workload::connections`].
    pub connection: u32,
    /// Payload; may be 0.
    pub bytes: u64,
    /// How it is carried.
    pub verb: Verb,
}

/// What became of one message of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowRecord {
    pub(super) connection: u32,
    pub(super) bytes: u64,
    /// When it was due, which a driver may be behind of.
    pub(super) start: Picos,
    /// [`Picos::NEVER`] until then.
    pub(super) received: Picos,
    /// [`Picos::NEVER`] until then.
    pub(super) acknowledged: Picos,
}

type Timer = Reverse<(Picos, u64, u32, Tag)>;

/// What jobs share: messages, timers, what is due at once.
#[derive(Debug, Default)]
struct Queues {
    messages: Messages,
    timers: BinaryHeap<Timer>,
    /// Orders timers of the same time by when they were set.
    timers_set: u64,
    ready: VecDeque<(u32, Tag)>,
}

/// What a job does things with, while it handles one event.
pub(super) struct Context<'a> {
    pub(super) now: Picos,
    job: u32,
    verb: Verb,
    counts: &'a mut Counts,
    queues: &'a mut Queues,
    out: &'a mut Vec<Post>,
}

impl Context<'_> {
    /// Posts a message; `start` is when it was due.
    pub(super) fn post(&mut self, connection: u32, bytes: u64, tag: Tag, start: Picos, record: bool) {
        let records = &mut self.counts.records;
        let index = if record { records.len() as u32 } else { NO_RECORD };
        if record {
            records.push(FlowRecord {
                connection,
                bytes,
                start,
                received: Picos::NEVER,
                acknowledged: Picos::NEVER,
            });
        }
        self.counts.posted_messages += 1;
        self.counts.posted_bytes = self.counts.posted_bytes.saturating_add(bytes);
        let message = self.queues.messages.insert(Message {
            job: self.job,
            connection,
            bytes,
            posted: self.now,
            tag,
            record: index,
            received: false,
            acknowledged: false,
        });
        self.out.push(Post {
            message,
            connection,
            bytes,
            verb: self.verb,
        });
    }

    /// Has the job called with `tag` at a time, at once if it is not later than now.
    pub(super) fn later(&mut self, at: Picos, tag: Tag) {
        if at <= self.now {
            self.queues.ready.push_back((self.job, tag));
        } else {
            self.queues.timers_set += 1;
            let entry = (at, self.queues.timers_set, self.job, tag);
            self.queues.timers.push(Reverse(entry));
        }
    }
}

/// What is counted of every job.
#[derive(Debug)]
pub(super) struct Counts {
    /// When it started or will, in the driver's time.
    pub(super) start: Picos,
    /// When its last message was received.
    pub(super) last_received: Picos,
    pub(super) posted_messages: u64,
    pub(super) posted_bytes: u64,
    pub(super) received_messages: u64,
    pub(super) received_bytes: u64,
    pub(super) records: Vec<FlowRecord>,
    /// From posting to whole at the receiver, of messages that have no record.
    pub(super) latencies: Latencies,
}

#[derive(Debug)]
pub(super) enum Runner {
    List(List),
    Bulk(Box<Bulk>),
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) spec: JobSpec,
    pub(super) runner: Runner,
    pub(super) counts: Counts,
    /// It posts no more, though it is not over: all that are not in the background are, or it was told so.
    pub(super) stopped: bool,
    /// It does not start with the others.
    held: bool,
}

impl Job {
    pub(super) fn is_over(&self) -> bool {
        match &self.runner {
            Runner::List(list) => list.is_over(),
            Runner::Bulk(bulk) => bulk.is_over(),
        }
    }
}

/// Jobs, and how far they are.
///
/// Call [`Workload::start`] once, then [`Workload::advance`] when [`Workload::next_start`] has come, and the two
/// reports for each message. Each call adds the messages that are to be posted now. Times must not fall from call to
/// call.
#[derive(Debug)]
pub struct Workload {
    pub(super) jobs: Vec<Job>,
    pub(super) connections: Vec<Connection>,
    /// Line rate by host, bits per second; 0 where no job uses the host.
    pub(super) line_rates_bps: Vec<u64>,
    queues: Queues,
    started: bool,
    /// Jobs not in the background that are not over.
    foreground: usize,
}

impl Workload {
    /// Checks a specification and makes its connections. `line_rate_bps` is the speed of a host's link in bits per
    /// second, 0 if there is no such host; it matters for offered loads and rooflines.
    ///
    /// # Errors
    ///
    /// The first job that cannot be.
    pub fn new(spec: &Spec, seed: u64, line_rate_bps: &dyn Fn(u32) -> u64) -> Result<Workload, SpecError> {
        let mut workload = Workload {
            jobs: Vec::with_capacity(spec.jobs.len()),
            connections: Vec::new(),
            line_rates_bps: Vec::new(),
            queues: Queues::default(),
            started: false,
            foreground: 0,
        };
        for (index, job) in spec.jobs.iter().enumerate() {
            job.check(line_rate_bps)?;
            let draws = Draws::new(seed, index as u64);
            workload.add(index, job, draws, line_rate_bps)?;
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

    fn add(
        &mut self,
        index: usize,
        spec: &JobSpec,
        draws: Draws,
        line_rate_bps: &dyn Fn(u32) -> u64,
    ) -> Result<(), SpecError> {
        let mut connect = Connect {
            job: index,
            spec,
            connections: &mut self.connections,
        };
        let runner = match &spec.kind {
            JobKind::Flows(flows) | JobKind::Replay(flows) => Runner::List(List::new(flows, &mut connect)),
            JobKind::Poisson(poisson) => {
                let flows =
                    arrivals::draw(poisson, draws, line_rate_bps).map_err(|problem| spec.error(problem))?;
                Runner::List(List::new(&flows, &mut connect))
            }
            JobKind::Permutation(permutation) => {
                Runner::Bulk(Box::new(Bulk::permutation(permutation, draws, &mut connect)))
            }
            JobKind::Incast(incast) => Runner::Bulk(Box::new(Bulk::incast(incast, &mut connect))),
            JobKind::Collective(collective) => {
                Runner::Bulk(Box::new(Bulk::collective(collective, &mut connect)))
            }
        };
        self.jobs.push(Job {
            // Lists of flows are long, and the runner has them.
            spec: JobSpec {
                kind: match &spec.kind {
                    JobKind::Flows(_) => JobKind::Flows(Vec::new()),
                    JobKind::Replay(_) => JobKind::Replay(Vec::new()),
                    kind => kind.clone(),
                },
                ..spec.clone()
            },
            runner,
            counts: Counts {
                start: Picos::NEVER,
                last_received: Picos::ZERO,
                posted_messages: 0,
                posted_bytes: 0,
                received_messages: 0,
                received_bytes: 0,
                records: Vec::new(),
                latencies: Latencies::default(),
            },
            stopped: false,
            held: false,
        });
        Ok(())
    }

    /// All connections, known before the start.
    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }

    /// The host of each rank of a collective job, by its index; `None` if it is no collective.
    pub fn ranks(&self, job: usize) -> Option<&[u32]> {
        match &self.jobs.get(job)?.spec.kind {
            JobKind::Collective(collective) => Some(&collective.ranks),
            _ => None,
        }
    }

    /// How the messages of a job are carried, by its index.
    pub fn job_verb(&self, job: usize) -> Verb {
        self.jobs.get(job).map_or(Verb::default(), |job| job.spec.verb)
    }

    /// Starts all jobs that are not held, each at its time from `now` on. A second call does nothing.
    pub fn start(&mut self, now: Picos, out: &mut Vec<Post>) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        self.foreground = self
            .jobs
            .iter()
            .filter(|job| !job.spec.background && !job.is_over())
            .count();
        for index in 0..self.jobs.len() {
            if !self.jobs[index].held {
                self.begin(index, now, out);
            }
        }
        self.advance(now, out);
    }

    fn begin(&mut self, index: usize, now: Picos, out: &mut Vec<Post>) {
        let start = now.saturating_add(self.jobs[index].spec.start);
        self.jobs[index].counts.start = start;
        self.with(index, now, out, |runner, context| match runner {
            Runner::List(list) => list.start(start, context),
            Runner::Bulk(bulk) => bulk.start(start, context),
        });
    }

    /// Keeps a job, by its index, from starting with the others: it waits for [`Workload::start_job`]. To be called before
    /// [`Workload::start`].
    pub fn hold(&mut self, job: usize) {
        if let Some(job) = self.jobs.get_mut(job).filter(|_| !self.started) {
            job.held = true;
        }
    }

    /// Starts a job that is held; its start time counts from `now`. Others do not notice.
    pub fn start_job(&mut self, now: Picos, job: usize, out: &mut Vec<Post>) {
        let Some(held) = self.jobs.get_mut(job).filter(|job| job.held) else {
            return;
        };
        held.held = false;
        if self.started {
            self.begin(job, now, out);
            self.advance(now, out);
        }
    }

    /// Has a job post no more. What is under way goes on.
    pub fn stop_job(&mut self, job: usize) {
        let Some(stopped) = self
            .jobs
            .get_mut(job)
            .filter(|job| !job.stopped && !job.is_over())
        else {
            return;
        };
        stopped.stopped = true;
        if !stopped.spec.background && self.started {
            self.foreground -= 1;
            if self.foreground == 0 {
                self.stop_background();
            }
        }
        self.forget_stopped();
    }

    /// Whether a job, by its index, is over.
    pub fn is_over(&self, job: usize) -> bool {
        self.jobs.get(job).is_some_and(Job::is_over)
    }

    /// When [`Workload::advance`] has something to do, [`Picos::NEVER`] if it waits for messages only.
    pub fn next_start(&self) -> Picos {
        self.queues
            .timers
            .peek()
            .map_or(Picos::NEVER, |Reverse(entry)| entry.0)
    }

    /// Does what is due by `now`.
    pub fn advance(&mut self, now: Picos, out: &mut Vec<Post>) {
        self.settle(now, out);
        while let Some(Reverse((at, ..))) = self.queues.timers.peek()
            && *at <= now
        {
            if let Some(Reverse((_, _, job, tag))) = self.queues.timers.pop() {
                self.called(job, tag, now, out);
            }
            self.settle(now, out);
        }
    }

    /// The receiver has a whole message. A second report of the same one does nothing.
    pub fn received(&mut self, now: Picos, message: MessageId, out: &mut Vec<Post>) {
        let Some(under_way) = self.queues.messages.get_mut(message) else {
            return;
        };
        if std::mem::replace(&mut under_way.received, true) {
            return;
        }
        let copy = *under_way;
        let job = &mut self.jobs[copy.job as usize];
        job.counts.received_messages += 1;
        job.counts.received_bytes = job.counts.received_bytes.saturating_add(copy.bytes);
        job.counts.last_received = now;
        if let Some(record) = job.counts.records.get_mut(copy.record as usize) {
            record.received = now;
        } else {
            job.counts.latencies.add(now.since(copy.posted));
        }
        self.with(copy.job as usize, now, out, |runner, context| {
            if let Runner::Bulk(bulk) = runner {
                bulk.arrived(copy.tag, context);
            }
        });
        self.close(now, message, copy, out);
    }

    /// The sender has the last acknowledgement of a message. A second report of the same one does nothing.
    pub fn acknowledged(&mut self, now: Picos, message: MessageId, out: &mut Vec<Post>) {
        let Some(under_way) = self.queues.messages.get_mut(message) else {
            return;
        };
        if std::mem::replace(&mut under_way.acknowledged, true) {
            return;
        }
        let copy = *under_way;
        let records = &mut self.jobs[copy.job as usize].counts.records;
        if let Some(record) = records.get_mut(copy.record as usize) {
            record.acknowledged = now;
        }
        self.close(now, message, copy, out);
    }

    /// Whether all jobs are over (those in the background: stopped) and nothing is under way.
    pub fn is_finished(&self) -> bool {
        self.started
            && self.queues.messages.len() == 0
            && self.jobs.iter().all(|job| job.stopped || job.is_over())
    }

    /// For a run that came to no end: which jobs are not over, and the first messages that they wait for.
    pub fn pending_description(&self) -> String {
        let mut text = String::new();
        for (index, job) in self.jobs.iter().enumerate() {
            let of_job = |message: &&Message| message.job as usize == index;
            let outstanding = self.queues.messages.iter().filter(of_job).count();
            if outstanding == 0 && (job.stopped || job.is_over()) {
                continue;
            }
            let progress = match &job.runner {
                Runner::List(list) => list.progress(),
                Runner::Bulk(bulk) => bulk.progress(),
            };
            let _ = writeln!(
                text,
                "job `{}`: {progress}; {outstanding} messages outstanding",
                job.spec.name
            );
            for message in self.queues.messages.iter().filter(of_job).take(PENDING_SHOWN) {
                let Connection { src, dst, .. } = self.connections[message.connection as usize];
                let missing = match message.received {
                    true => "not acknowledged",
                    false => "not received",
                };
                let _ = writeln!(
                    text,
                    "  host {src} to host {dst}: {} bytes, posted at {} ns, {missing}",
                    message.bytes,
                    message.posted.as_nanos()
                );
            }
        }
        text
    }

    /// A message of which both reports are there is over.
    fn close(&mut self, now: Picos, id: MessageId, copy: Message, out: &mut Vec<Post>) {
        if copy.received && copy.acknowledged {
            self.queues.messages.remove(id);
            self.with(copy.job as usize, now, out, |runner, context| {
                if let Runner::List(list) = runner {
                    list.completed(copy.tag, context);
                }
            });
        }
        self.settle(now, out);
    }

    /// Handles all that is due at once.
    fn settle(&mut self, now: Picos, out: &mut Vec<Post>) {
        while let Some((job, tag)) = self.queues.ready.pop_front() {
            self.called(job, tag, now, out);
        }
    }

    fn called(&mut self, job: u32, tag: Tag, now: Picos, out: &mut Vec<Post>) {
        self.with(job as usize, now, out, |runner, context| match runner {
            Runner::List(list) => list.called(tag, context),
            Runner::Bulk(bulk) => bulk.called(tag, context),
        });
    }

    /// Lets a job handle an event, unless it is stopped, and sees whether that was its last.
    fn with(
        &mut self,
        index: usize,
        now: Picos,
        out: &mut Vec<Post>,
        handle: impl FnOnce(&mut Runner, &mut Context<'_>),
    ) {
        let job = &mut self.jobs[index];
        if job.stopped {
            return;
        }
        let was_over = job.is_over();
        let mut context = Context {
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
    }

    fn stop_background(&mut self) {
        for job in &mut self.jobs {
            job.stopped |= job.spec.background && !job.is_over();
        }
        self.forget_stopped();
    }

    fn forget_stopped(&mut self) {
        let jobs = &self.jobs;
        self.queues
            .timers
            .retain(|Reverse(entry)| !jobs[entry.2 as usize].stopped);
        self.queues.ready.retain(|(job, _)| !jobs[*job as usize].stopped);
    }
}

impl JobSpec {
    /// Source and destination of each connection that a job makes whatever the seed is, in the order of
    /// [`Workload::connections`]. `None` for permutations and random arrivals: their seed decides who sends to whom.
    ///
    /// Ranks of one node exchange data over NVLink and have no connection.
    ///
    /// # Errors
    /// A job that [`JobSpec::check`] refuses.
    pub fn fixed_pairs(
        &self,
        line_rate_bps: &dyn Fn(u32) -> u64,
    ) -> Result<Option<Vec<(u32, u32)>>, SpecError> {
        self.check(line_rate_bps)?;
        let mut connections = Vec::new();
        let mut connect = Connect {
            job: 0,
            spec: self,
            connections: &mut connections,
        };
        match &self.kind {
            JobKind::Permutation(_) | JobKind::Poisson(_) => return Ok(None),
            JobKind::Flows(flows) | JobKind::Replay(flows) => {
                List::new(flows, &mut connect);
            }
            JobKind::Incast(incast) => {
                Bulk::incast(incast, &mut connect);
            }
            JobKind::Collective(collective) => {
                Bulk::collective(collective, &mut connect);
            }
        }
        let pairs = connections
            .iter()
            .map(|connection| (connection.src, connection.dst));
        Ok(Some(pairs.collect()))
    }
}

/// Makes the connections of one job.
pub(super) struct Connect<'a> {
    job: usize,
    spec: &'a JobSpec,
    connections: &'a mut Vec<Connection>,
}

impl Connect<'_> {
    /// A new connection's index.
    pub(super) fn add(&mut self, src: u32, dst: u32) -> u32 {
        self.connections.push(Connection {
            src,
            dst,
            qps: self.spec.qps_per_connection,
            spread: self.spec.spread,
            transport: self.spec.transport,
            job: self.job,
        });
        self.connections.len() as u32 - 1
    }
}
