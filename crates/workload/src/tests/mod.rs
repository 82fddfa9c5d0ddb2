//! Tests over an ideal network: every NIC sends at its line rate, and the latency between any two
//! hosts is constant.

mod collectives;
mod flows;
mod skipping;
mod spec;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use xoff_units::Picos;

use super::split::transmission_time;
use super::{
    CompletionScope, Connection, JobKind, JobSpec, MessageId, MessagePost, Workload, WorkloadResults,
    WorkloadSpec,
};

/// Line rate of all hosts. A byte takes 20 ps.
const RATE_BPS: u64 = 400_000_000_000;
/// Latency from the sending link to the receiving link, and of an acknowledgement.
const LATENCY: Picos = Picos::from_nanos(1_000);
/// Smallest index without a host.
const HOSTS: u32 = 4096;

fn rate(host: u32) -> u64 {
    if host < HOSTS { RATE_BPS } else { 0 }
}

/// Completion time of a message without other traffic.
fn alone(bytes: u64) -> Picos {
    transmission_time(bytes, RATE_BPS) + LATENCY
}

fn ideal(_connection: &Connection, bytes: u64) -> Option<Picos> {
    Some(alone(bytes))
}

/// A stage of a message in the network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// The first bit arrives at the link of the receiver.
    Head {
        dst: u32,
        lasts: Picos,
    },
    Received,
    Acknowledged,
}

type Event = Reverse<(Picos, u64, Stage, MessageId)>;

/// The ideal network and the workload that uses it.
struct Ideal {
    workload: Workload,
    sending_until: Vec<Picos>,
    receiving_until: Vec<Picos>,
    events: BinaryHeap<Event>,
    count: u64,
    /// All posted messages with their times.
    posts: Vec<(Picos, MessagePost)>,
    /// Connection of each message.
    connections: HashMap<MessageId, u32>,
    /// Number of completions whose reactions stayed at the host of the completion, as the workload had announced.
    local_completions: usize,
}

impl Ideal {
    fn new(spec: &WorkloadSpec, seed: u64) -> Ideal {
        Ideal {
            workload: Workload::new(spec, seed, &rate).unwrap(),
            sending_until: vec![Picos::ZERO; HOSTS as usize],
            receiving_until: vec![Picos::ZERO; HOSTS as usize],
            events: BinaryHeap::new(),
            count: 0,
            posts: Vec::new(),
            connections: HashMap::new(),
            local_completions: 0,
        }
    }

    /// Sends messages: first come, first served at both links, cut-through between them.
    fn take(&mut self, now: Picos, posts: &mut Vec<MessagePost>) {
        for post in posts.drain(..) {
            let Connection { src, dst, .. } = self.workload.connections()[post.connection as usize];
            let sending = &mut self.sending_until[src as usize];
            let lasts = transmission_time(post.bytes, RATE_BPS);
            let leaves = now.max(*sending);
            *sending = leaves + lasts;
            self.push(leaves + LATENCY, Stage::Head { dst, lasts }, post.message);
            self.connections.insert(post.message, post.connection);
            self.posts.push((now, post));
        }
    }

    fn push(&mut self, at: Picos, stage: Stage, message: MessageId) {
        self.count += 1;
        self.events.push(Reverse((at, self.count, stage, message)));
    }

    fn happen(&mut self, now: Picos, stage: Stage, message: MessageId, out: &mut Vec<MessagePost>) {
        match stage {
            Stage::Head { dst, lasts } => {
                let receiving = &mut self.receiving_until[dst as usize];
                *receiving = now.max(*receiving) + lasts;
                let end = *receiving;
                self.push(end, Stage::Received, message);
                self.push(end + LATENCY, Stage::Acknowledged, message);
            }
            Stage::Received | Stage::Acknowledged => self.complete(now, stage, message, out),
        }
    }

    /// Reports a completion. If the workload has announced that it acts only at the host of the completion, checks
    /// that no other host gets work, that no job ends and that no timer is set.
    fn complete(&mut self, now: Picos, stage: Stage, message: MessageId, out: &mut Vec<MessagePost>) {
        let Connection { src, dst, .. } = self.workload.connections()[self.connections[&message] as usize];
        let acts_locally = match self.workload.completion_scope() {
            CompletionScope::AllHosts => false,
            CompletionScope::CompletingHost => true,
            CompletionScope::CompletingHostUntilStepEnds => {
                let received = |host| u64::from(stage == Stage::Received && host == dst);
                self.workload
                    .no_step_ends(0, |host, messages| Some(received(host) < messages))
            }
        };
        let next_start = self.workload.next_start();
        let jobs = 0..self.workload.jobs.len();
        let ended = jobs.clone().filter(|job| self.workload.is_over(*job)).count();
        assert!(out.is_empty());
        match stage {
            Stage::Received => self.workload.received(now, message, out),
            _ => self.workload.acknowledged(now, message, out),
        }
        if !acts_locally {
            return;
        }
        self.local_completions += 1;
        let host = if stage == Stage::Received { dst } else { src };
        for post in out.iter() {
            let posted = self.workload.connections()[post.connection as usize];
            assert_eq!(posted.src, host, "{post:?} after {message:?}");
        }
        assert_eq!(self.workload.next_start(), next_start);
        assert_eq!(jobs.filter(|job| self.workload.is_over(*job)).count(), ended);
        assert!(!self.workload.is_finished());
    }

    /// Runs to the end and returns the time of the last event.
    fn run(&mut self) -> Picos {
        self.run_with(|_| ())
    }

    /// Runs to the end and calls `act` after each event. Returns the time of the last event.
    fn run_with(&mut self, mut act: impl FnMut(&mut Workload)) -> Picos {
        let mut out = Vec::new();
        let mut now = Picos::ZERO;
        self.workload.start(now, &mut out);
        loop {
            self.take(now, &mut out);
            let event = self.events.peek().map_or(Picos::NEVER, |Reverse(event)| event.0);
            let next = event.min(self.workload.next_start());
            if next == Picos::NEVER {
                break;
            }
            assert!(next >= now, "time runs forward");
            now = next;
            if event > now {
                self.workload.advance(now, &mut out);
            } else if let Some(Reverse((_, _, stage, message))) = self.events.pop() {
                self.happen(now, stage, message, &mut out);
            }
            act(&mut self.workload);
        }
        assert!(
            self.workload.is_finished(),
            "{}",
            self.workload.pending_description(|_| "")
        );
        assert_eq!(self.workload.pending_description(|_| ""), "");
        now
    }

    fn results(&self) -> WorkloadResults {
        self.workload.results(&ideal)
    }
}

fn one(kind: JobKind) -> WorkloadSpec {
    WorkloadSpec {
        jobs: vec![JobSpec::new("job", kind)],
    }
}

/// Runs one job. Returns its posted messages and its results.
fn run(kind: JobKind) -> (Vec<(Picos, MessagePost)>, WorkloadResults) {
    let mut network = Ideal::new(&one(kind), 1);
    network.run();
    let results = network.results();
    (network.posts, results)
}
