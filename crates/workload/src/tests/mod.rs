//! Workloads over an ideal network: every NIC a pipe of its line rate, and a fixed latency between any two.

mod collectives;
mod flows;
mod spec;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use xoff_units::Picos;

use super::split::duration;
use super::{Connection, JobKind, JobSpec, MessageId, Post, Results, Spec, Workload};

/// Line rate of all hosts: a byte lasts 20 ps.
const RATE_BPS: u64 = 400_000_000_000;
/// From the sender's pipe to the receiver's, and of an acknowledgement back.
const LATENCY: Picos = Picos::from_nanos(1_000);
/// Indices from here on are no hosts.
const HOSTS: u32 = 4096;

fn rate(host: u32) -> u64 {
    if host < HOSTS { RATE_BPS } else { 0 }
}

/// What a message takes alone.
fn alone(bytes: u64) -> Picos {
    duration(bytes, RATE_BPS) + LATENCY
}

fn ideal(_connection: &Connection, bytes: u64) -> Option<Picos> {
    Some(alone(bytes))
}

/// What happens to a message on its way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Its first bit reaches the receiver's link.
    Head {
        dst: u32,
        lasts: Picos,
    },
    Received,
    Acknowledged,
}

type Event = Reverse<(Picos, u64, Stage, MessageId)>;

/// The network and what it has carried.
struct Ideal {
    workload: Workload,
    sending_until: Vec<Picos>,
    receiving_until: Vec<Picos>,
    events: BinaryHeap<Event>,
    count: u64,
    /// Every post with its time.
    posts: Vec<(Picos, Post)>,
}

impl Ideal {
    fn new(spec: &Spec, seed: u64) -> Ideal {
        Ideal {
            workload: Workload::new(spec, seed, &rate).unwrap(),
            sending_until: vec![Picos::ZERO; HOSTS as usize],
            receiving_until: vec![Picos::ZERO; HOSTS as usize],
            events: BinaryHeap::new(),
            count: 0,
            posts: Vec::new(),
        }
    }

    /// Takes messages: first come, first served at both ends, cut through between them.
    fn take(&mut self, now: Picos, posts: &mut Vec<Post>) {
        for post in posts.drain(..) {
            let Connection { src, dst, .. } = self.workload.connections()[post.connection as usize];
            let sending = &mut self.sending_until[src as usize];
            let lasts = duration(post.bytes, RATE_BPS);
            let leaves = now.max(*sending);
            *sending = leaves + lasts;
            self.push(leaves + LATENCY, Stage::Head { dst, lasts }, post.message);
            self.posts.push((now, post));
        }
    }

    fn push(&mut self, at: Picos, stage: Stage, message: MessageId) {
        self.count += 1;
        self.events.push(Reverse((at, self.count, stage, message)));
    }

    fn happen(&mut self, now: Picos, stage: Stage, message: MessageId, out: &mut Vec<Post>) {
        match stage {
            Stage::Head { dst, lasts } => {
                let receiving = &mut self.receiving_until[dst as usize];
                *receiving = now.max(*receiving) + lasts;
                let end = *receiving;
                self.push(end, Stage::Received, message);
                self.push(end + LATENCY, Stage::Acknowledged, message);
            }
            Stage::Received => self.workload.received(now, message, out),
            Stage::Acknowledged => self.workload.acknowledged(now, message, out),
        }
    }

    /// Runs to the end, and says when that was.
    fn run(&mut self) -> Picos {
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
        }
        assert!(
            self.workload.is_finished(),
            "{}",
            self.workload.pending_description()
        );
        assert_eq!(self.workload.pending_description(), "");
        now
    }

    fn results(&self) -> Results {
        self.workload.results(&ideal)
    }
}

fn one(kind: JobKind) -> Spec {
    Spec {
        jobs: vec![JobSpec::new("job", kind)],
    }
}

/// Runs one job and gives what it posted and what came of it.
fn run(kind: JobKind) -> (Vec<(Picos, Post)>, Results) {
    let mut network = Ideal::new(&one(kind), 1);
    network.run();
    let results = network.results();
    (network.posts, results)
}
