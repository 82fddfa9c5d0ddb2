//! The connections, messages and timers that a job creates.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use xoff_units::Picos;

use super::latency::LatencyHistogram;
use super::messages::{InFlightMessage, InFlightMessages, MessageId, TransferTag};
use super::spec::{JobSpec, MessageSpread, Verb};

/// Value of [`InFlightMessage::record`] for a message without a flow record.
pub(super) const NO_RECORD: u32 = u32::MAX;

/// One direction between two hosts of a job. All messages of the job from `src` to `dst` use this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Index of the sending host in the host list of the driver.
    pub src: u32,
    /// Index of the receiving host in the host list of the driver.
    pub dst: u32,
    /// Number of queue pairs, at least 1.
    pub qps: u16,
    /// How the queue pairs share the messages of the connection.
    pub spread: MessageSpread,
    /// Index of the transport options in a list of the driver ([`JobSpec::transport`]).
    pub transport: usize,
    /// Index of the job in [`WorkloadSpec::jobs`](super::WorkloadSpec::jobs).
    pub job: usize,
}

/// A message that the driver must post now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagePost {
    /// Identifier of the message. The driver passes it to [`Workload::received`](super::Workload::received)
    /// and [`Workload::acknowledged`](super::Workload::acknowledged).
    pub message: MessageId,
    /// Index of the connection in [`Workload::connections`](super::Workload::connections).
    pub connection: u32,
    /// Payload in bytes. A message of 0 bytes is one packet without payload.
    pub bytes: u64,
    /// The RDMA operation of the message.
    pub verb: Verb,
}

/// The record of one message of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowRecord {
    pub(super) connection: u32,
    pub(super) bytes: u64,
    /// Time at which the message was due. The driver may post it later.
    pub(super) start: Picos,
    /// Time at which the receiver had all bytes. [`Picos::NEVER`] before this time.
    pub(super) received: Picos,
    /// Time at which the sender had the last acknowledgement. [`Picos::NEVER`] before this time.
    pub(super) acknowledged: Picos,
}

pub(super) type Timer = Reverse<(Picos, u64, u32, TransferTag)>;

/// The messages, timers and due events of all jobs.
#[derive(Debug, Default)]
pub(super) struct PendingWork {
    pub(super) messages: InFlightMessages,
    pub(super) timers: BinaryHeap<Timer>,
    /// Number of timers set so far. Timers with equal times expire in the order of this number.
    pub(super) timers_set: u64,
    pub(super) ready: VecDeque<(u32, TransferTag)>,
    /// Time that skipped steps would have taken. Results contain it, and times of the driver do not.
    pub(super) skipped: Picos,
}

impl PendingWork {
    /// Changes the tags of all timers and due events of a job.
    pub(super) fn change_tags(&mut self, job: u32, change: impl Fn(&mut TransferTag)) {
        self.change_timers(|_, of_job, tag| {
            if of_job == job {
                change(tag);
            }
        });
        let due = self.ready.iter_mut().filter(|(of_job, _)| *of_job == job);
        due.for_each(|(_, tag)| change(tag));
    }

    /// Calls `change` with the time, the job and the tag of each timer.
    pub(super) fn change_timers(&mut self, mut change: impl FnMut(&mut Picos, u32, &mut TransferTag)) {
        let mut timers = std::mem::take(&mut self.timers).into_vec();
        for Reverse((at, _, job, tag)) in &mut timers {
            change(at, *job, tag);
        }
        self.timers = timers.into();
    }
}

/// The actions that a job can take while it handles one event.
pub(super) struct JobContext<'a> {
    pub(super) now: Picos,
    pub(super) job: u32,
    pub(super) verb: Verb,
    pub(super) counts: &'a mut JobCounts,
    pub(super) queues: &'a mut PendingWork,
    pub(super) out: &'a mut Vec<MessagePost>,
}

impl JobContext<'_> {
    /// Returns the current time as results contain it: with the time of skipped steps.
    pub(super) fn recorded_now(&self) -> Picos {
        self.now.saturating_add(self.queues.skipped)
    }

    /// Schedules a call of the job with `tag` at a time that contains the time of skipped steps.
    pub(super) fn schedule_recorded_time(&mut self, at: Picos, tag: TransferTag) {
        let at = match at {
            Picos::NEVER => Picos::NEVER,
            at => Picos(at.0.saturating_sub(self.queues.skipped.0)),
        };
        self.schedule_job_timer(at, tag);
    }

    /// Posts a message. `start` is the time at which the message was due. If `record` is true, the message
    /// gets a flow record.
    pub(super) fn post(&mut self, connection: u32, bytes: u64, tag: TransferTag, start: Picos, record: bool) {
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
        let message = self.queues.messages.insert(InFlightMessage {
            job: self.job,
            connection,
            bytes,
            posted: self.now,
            tag,
            record: index,
            unreceived: 1,
            unacknowledged: 1,
        });
        self.out.push(MessagePost {
            message,
            connection,
            bytes,
            verb: self.verb,
        });
    }

    /// Schedules a call of the job with `tag` at the time `at`. If `at` is not later than the current time,
    /// the call follows after the current event.
    pub(super) fn schedule_job_timer(&mut self, at: Picos, tag: TransferTag) {
        if at <= self.now {
            self.queues.ready.push_back((self.job, tag));
        } else {
            self.queues.timers_set += 1;
            let entry = (at, self.queues.timers_set, self.job, tag);
            self.queues.timers.push(Reverse(entry));
        }
    }
}

/// Counters of one job.
#[derive(Debug)]
pub(super) struct JobCounts {
    /// Start time of the job, in the time of the driver.
    pub(super) start: Picos,
    /// Time at which the last message was received.
    pub(super) last_received: Picos,
    pub(super) posted_messages: u64,
    pub(super) posted_bytes: u64,
    pub(super) received_messages: u64,
    pub(super) received_bytes: u64,
    pub(super) records: Vec<FlowRecord>,
    /// Latencies of messages without a flow record: from posting to reception.
    pub(super) latencies: LatencyHistogram,
}

/// Creates the connections of one job.
pub(super) struct ConnectionBuilder<'a> {
    pub(super) job: usize,
    pub(super) spec: &'a JobSpec,
    pub(super) connections: &'a mut Vec<Connection>,
}

impl ConnectionBuilder<'_> {
    /// Adds a connection and returns its index.
    pub(super) fn add_connection(&mut self, src: u32, dst: u32) -> u32 {
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
