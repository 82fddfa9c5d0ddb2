//! Single stages of a frame's way. Here are those until it is known where a frame goes; those of queues are in `queueing.rs`, and
//! `worker_ring.rs` has the ring between workers.

mod lookup;
mod queueing;
mod worker_ring;

use std::hint::black_box;
use std::sync::Arc;

use xoff_dataplane::route::{Fib, FibEntry, PathTable, seeded_hash};
use xoff_wire::parse::parse;

use crate::{many_to_one, route_table};
use lookup::{Classifying, MacLookup};
use queueing::{Admission, Marking, Scheduling};
use worker_ring::WorkerRing;
use xoff_measure::frame_cost::BURST;
use xoff_measure::frame_cost::{Load, run_bursts};

/// A stage that can be asked for by name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    /// `stage-parse`.
    pub(super) name: &'static str,
    /// What it is, in a line.
    pub(super) about: &'static str,
    /// Builds its load.
    pub(super) build: fn() -> Box<dyn Load>,
}

/// All of them, in the order in which a frame comes by.
pub(super) const STAGES: [Stage; 9] = [
    Stage {
        name: "stage-ring",
        about: "a frame goes over the ring from an I/O worker, in bursts",
        build: || Box::new(WorkerRing::new()),
    },
    Stage {
        name: "stage-parse",
        about: "headers of a frame are read",
        build: || Box::new(Parsing::new()),
    },
    Stage {
        name: "stage-classify",
        about: "header to traffic class, priority group and queue",
        build: || Box::new(Classifying::new()),
    },
    Stage {
        name: "stage-mac",
        about: "a source is learnt, a destination looked up, among 1000 addresses",
        build: || Box::new(MacLookup::new()),
    },
    Stage {
        name: "stage-route",
        about: "a route is looked up among 1000",
        build: || Box::new(RouteLookup::new()),
    },
    Stage {
        name: "stage-path",
        about: "a next hop of a group is chosen",
        build: || Box::new(PathChoice::new()),
    },
    Stage {
        name: "stage-admit",
        about: "a frame is charged to its group and queue, another given back",
        build: || Box::new(Admission::new()),
    },
    Stage {
        name: "stage-schedule",
        about: "whose turn it is: a strict queue, or DWRR between two",
        build: || Box::new(Scheduling::new()),
    },
    Stage {
        name: "stage-mark",
        about: "WRED draws for a frame, every second one is marked as CE",
        build: || Box::new(Marking::new()),
    },
];

/// Routes of the table.
const ROUTES: u32 = 1_000;
/// Destinations and frames that take turns.
const FLOWS: u32 = 64;

/// Reads the headers of 64 frames in turn.
#[derive(Debug)]
pub(super) struct Parsing {
    frames: Vec<Vec<u8>>,
}

impl Parsing {
    /// Frames of 1082 octets.
    pub(super) fn new() -> Parsing {
        let frame = |n| {
            many_to_one::frame(
                n as u16 % 4,
                n,
                many_to_one::ForwardingMode::Routed { routes: ROUTES },
            )
        };
        Parsing {
            frames: (0..FLOWS).map(frame).collect(),
        }
    }
}

impl Load for Parsing {
    fn run(&mut self, frames: u64) -> u64 {
        let mut at = 0;
        run_bursts(frames, || {
            for frame in &self.frames[at..at + BURST] {
                black_box(parse(black_box(frame)));
            }
            at = (at + BURST) % self.frames.len();
        })
    }

    fn check(&self) -> Result<(), String> {
        match self.frames.iter().all(|frame| parse(frame).dscp().is_some()) {
            true => Ok(()),
            false => Err("a frame is no IP".to_owned()),
        }
    }
}

/// Looks up the routes of 64 destinations in turn.
#[derive(Debug)]
pub(super) struct RouteLookup {
    fib: Arc<Fib>,
    destinations: Vec<u32>,
}

impl RouteLookup {
    /// 1000 routes.
    pub(super) fn new() -> RouteLookup {
        RouteLookup {
            fib: route_table::config(ROUTES).fib,
            destinations: destinations(),
        }
    }
}

impl Load for RouteLookup {
    fn run(&mut self, frames: u64) -> u64 {
        let mut at = 0;
        run_bursts(frames, || {
            for &destination in &self.destinations[at..at + BURST] {
                black_box(self.fib.lookup_v4(black_box(destination)));
            }
            at = (at + BURST) % self.destinations.len();
        })
    }

    fn check(&self) -> Result<(), String> {
        match self
            .destinations
            .iter()
            .all(|&to| self.fib.lookup_v4(to).is_some())
        {
            true => Ok(()),
            false => Err("a destination has no route".to_owned()),
        }
    }
}

/// Chooses among four equal-cost next hops by hash.
#[derive(Debug)]
pub(super) struct PathChoice {
    table: PathTable,
    choices: Vec<(xoff_dataplane::GroupId, u32)>,
}

impl PathChoice {
    /// Groups of 1000 routes.
    pub(super) fn new() -> PathChoice {
        let fib = route_table::config(ROUTES).fib;
        let group = |entry| match entry {
            Some(FibEntry::Group(group)) => Some(group),
            _ => None,
        };
        let groups: Vec<_> = (0..ROUTES)
            .filter_map(|n| group(fib.lookup_v4(route_table::first_address(n))))
            .collect();
        let hash = |n: u32| n.wrapping_mul(0x9e37_79b9);
        PathChoice {
            table: PathTable::new(&fib, None, |_| true),
            choices: (0..FLOWS)
                .map(|n| (groups[n as usize * 7 % groups.len()], hash(n)))
                .collect(),
        }
    }
}

impl Load for PathChoice {
    fn run(&mut self, frames: u64) -> u64 {
        let mut at = 0;
        run_bursts(frames, || {
            for &(group, hash) in &self.choices[at..at + BURST] {
                black_box(
                    self.table
                        .select(black_box(group), seeded_hash(black_box(hash), 7)),
                );
            }
            at = (at + BURST) % self.choices.len();
        })
    }

    fn check(&self) -> Result<(), String> {
        let chosen = |&(group, hash): &_| self.table.select(group, seeded_hash(hash, 7)).is_some();
        match self.choices.iter().all(chosen) {
            true => Ok(()),
            false => Err("a group has no next hop".to_owned()),
        }
    }
}

fn destinations() -> Vec<u32> {
    let destination = |n: u32| route_table::destination(ROUTES, n as u16 % 4, (n / 4) as u8).to_bits();
    (0..FLOWS).map(destination).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_find_what_they_look_for() {
        for stage in STAGES {
            let mut load = (stage.build)();
            // Short runs follow each other, as criterion has them.
            for frames in [100, 20, 50_000] {
                assert!(load.run(frames) >= frames, "{}", stage.name);
                load.check().unwrap_or_else(|why| panic!("{}: {why}", stage.name));
            }
        }
    }
}
