//! Loads that execute single stages of the packet path.
//!
//! The stages are in these files:
//!
//! - `stages.rs`: parsing, route lookup and next-hop selection
//! - `lookup.rs`: classification and MAC address lookup
//! - `queueing.rs`: buffer admission, scheduling and ECN marking
//! - `worker_ring.rs`: the ring between worker threads

mod lookup;
mod queueing;
mod worker_ring;

use std::hint::black_box;
use std::sync::Arc;

use xoff_dataplane::route::{Fib, FibEntry, PathTable, seeded_hash};
use xoff_wire::parse::parse;

use crate::{many_to_one_load, route_table};
use lookup::{ClassificationLoad, MacLookupLoad};
use queueing::{AdmissionLoad, SchedulerLoad, WredMarkingLoad};
use worker_ring::WorkerRingLoad;
use xoff_measure::frame_cost::BURST_FRAMES;
use xoff_measure::frame_cost::{FrameLoad, run_bursts};

/// A workload for one stage of the packet path.
#[derive(Clone, Copy, Debug)]
pub(super) struct StageWorkload {
    /// Name of the workload, such as `stage-parse`.
    pub(super) name: &'static str,
    /// Description in one line.
    pub(super) summary: &'static str,
    /// Builds the load of the stage.
    pub(super) build: fn() -> Box<dyn FrameLoad>,
}

/// All stage workloads, in the order in which a frame passes the stages.
pub(super) const STAGE_WORKLOADS: [StageWorkload; 9] = [
    StageWorkload {
        name: "stage-ring",
        summary: "pass frames through the ring from an I/O worker, in bursts",
        build: || Box::new(WorkerRingLoad::new()),
    },
    StageWorkload {
        name: "stage-parse",
        summary: "parse the headers of a frame",
        build: || Box::new(ParseLoad::new()),
    },
    StageWorkload {
        name: "stage-classify",
        summary: "map headers to traffic class, priority group and queue",
        build: || Box::new(ClassificationLoad::new()),
    },
    StageWorkload {
        name: "stage-mac",
        summary: "learn a source and look up a destination among 1000 addresses",
        build: || Box::new(MacLookupLoad::new()),
    },
    StageWorkload {
        name: "stage-route",
        summary: "look up a route among 1000 routes",
        build: || Box::new(RouteLookupLoad::new()),
    },
    StageWorkload {
        name: "stage-path",
        summary: "select a next hop of a group",
        build: || Box::new(NextHopSelectionLoad::new()),
    },
    StageWorkload {
        name: "stage-admit",
        summary: "charge a frame to its priority group and queue, release another frame",
        build: || Box::new(AdmissionLoad::new()),
    },
    StageWorkload {
        name: "stage-schedule",
        summary: "select a queue: one strict queue and two DWRR queues",
        build: || Box::new(SchedulerLoad::new()),
    },
    StageWorkload {
        name: "stage-mark",
        summary: "make a WRED decision for each frame and mark half of the frames",
        build: || Box::new(WredMarkingLoad::new()),
    },
];

/// Number of routes in the table.
const ROUTES: u32 = 1_000;
/// Number of frames, destinations or flows that a stage uses in turn.
const FLOWS: u32 = 64;

/// Parses the headers of 64 frames in turn.
#[derive(Debug)]
pub(super) struct ParseLoad {
    frames: Vec<Vec<u8>>,
}

impl ParseLoad {
    /// Creates a load with frames of 1082 bytes.
    pub(super) fn new() -> ParseLoad {
        let frame = |n| {
            many_to_one_load::build_frame(
                n as u16 % 4,
                n,
                many_to_one_load::ForwardingMode::Routed { routes: ROUTES },
            )
        };
        ParseLoad {
            frames: (0..FLOWS).map(frame).collect(),
        }
    }
}

impl FrameLoad for ParseLoad {
    fn run(&mut self, frames: u64) -> u64 {
        let mut first = 0;
        run_bursts(frames, || {
            for frame in &self.frames[first..first + BURST_FRAMES] {
                black_box(parse(black_box(frame)));
            }
            first = (first + BURST_FRAMES) % self.frames.len();
        })
    }

    fn check(&self) -> Result<(), String> {
        match self.frames.iter().all(|frame| parse(frame).dscp().is_some()) {
            true => Ok(()),
            false => Err("a frame is not an IP packet".to_owned()),
        }
    }
}

/// Looks up the routes of 64 destinations in turn.
#[derive(Debug)]
pub(super) struct RouteLookupLoad {
    fib: Arc<Fib>,
    destinations: Vec<u32>,
}

impl RouteLookupLoad {
    /// Creates a load with 1000 routes.
    pub(super) fn new() -> RouteLookupLoad {
        RouteLookupLoad {
            fib: route_table::routing_config(ROUTES).fib,
            destinations: flow_destinations(),
        }
    }
}

impl FrameLoad for RouteLookupLoad {
    fn run(&mut self, frames: u64) -> u64 {
        let mut first = 0;
        run_bursts(frames, || {
            for &destination in &self.destinations[first..first + BURST_FRAMES] {
                black_box(self.fib.lookup_v4(black_box(destination)));
            }
            first = (first + BURST_FRAMES) % self.destinations.len();
        })
    }

    fn check(&self) -> Result<(), String> {
        match self
            .destinations
            .iter()
            .all(|&destination| self.fib.lookup_v4(destination).is_some())
        {
            true => Ok(()),
            false => Err("a destination has no route".to_owned()),
        }
    }
}

/// Selects one of four equal-cost next hops by a hash.
#[derive(Debug)]
pub(super) struct NextHopSelectionLoad {
    table: PathTable,
    /// Pairs of a next-hop group and a flow hash. The load selects a next hop for each pair in turn.
    selections: Vec<(xoff_dataplane::GroupId, u32)>,
}

impl NextHopSelectionLoad {
    /// Creates a load with the next-hop groups of 1000 routes.
    pub(super) fn new() -> NextHopSelectionLoad {
        let fib = route_table::routing_config(ROUTES).fib;
        let group = |entry| match entry {
            Some(FibEntry::Group(group)) => Some(group),
            _ => None,
        };
        let groups: Vec<_> = (0..ROUTES)
            .filter_map(|n| group(fib.lookup_v4(route_table::first_address(n))))
            .collect();
        let hash = |n: u32| n.wrapping_mul(0x9e37_79b9);
        NextHopSelectionLoad {
            table: PathTable::new(&fib, None, |_| true),
            selections: (0..FLOWS)
                .map(|n| (groups[n as usize * 7 % groups.len()], hash(n)))
                .collect(),
        }
    }
}

impl FrameLoad for NextHopSelectionLoad {
    fn run(&mut self, frames: u64) -> u64 {
        let mut first = 0;
        run_bursts(frames, || {
            for &(group, hash) in &self.selections[first..first + BURST_FRAMES] {
                black_box(
                    self.table
                        .select(black_box(group), seeded_hash(black_box(hash), 7)),
                );
            }
            first = (first + BURST_FRAMES) % self.selections.len();
        })
    }

    fn check(&self) -> Result<(), String> {
        let has_next_hop = |&(group, hash): &_| self.table.select(group, seeded_hash(hash, 7)).is_some();
        match self.selections.iter().all(has_next_hop) {
            true => Ok(()),
            false => Err("a group has no next hop".to_owned()),
        }
    }
}

fn flow_destinations() -> Vec<u32> {
    let destination = |n: u32| route_table::flow_destination(ROUTES, n as u16 % 4, (n / 4) as u8).to_bits();
    (0..FLOWS).map(destination).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_passes_its_check_after_several_runs() {
        for stage in STAGE_WORKLOADS {
            let mut load = (stage.build)();
            // Criterion executes several short runs of one load.
            for frames in [100, 20, 50_000] {
                assert!(load.run(frames) >= frames, "{}", stage.name);
                load.check().unwrap_or_else(|why| panic!("{}: {why}", stage.name));
            }
        }
    }
}
