//! What a virtual run has to say.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::jobs;
use super::super::model_hosts::flow_reports;
use super::build::VirtualLab;
use super::links::{BalanceReport, LinkReport};
use crate::report::Report;
use xoff_fabric::LastingDeadlock;
use xoff_host::NicCounters;
use xoff_rdma::Counters;
use xoff_telemetry::{self, Environment};
use xoff_workload::WorkloadResults;

/// The part of a report that only virtual time has. A run in virtual time is never tainted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VirtualReport {
    /// Model time of the workload, in nanoseconds.
    pub model_time_ns: u64,
    /// Events handled, those before the workload included.
    pub events: u64,
    /// Frames that arrived at the end of a link, counted at each link they passed.
    pub frame_hops: u64,
    /// Most frames that were under way at once.
    pub frames_under_way_max: u64,
    /// Frames that links lost: they went down, or a fault took them.
    pub link_lost_frames: u64,
    /// Circles of ports that paused each other for 10 ms or more.
    #[serde(default)]
    pub deadlocks: Vec<DeadlockReport>,
    /// What the queue pairs of each host counted, under the names of Linux `hw_counters`.
    pub hosts: Vec<HostReport>,
    /// What each link carried, first from its first end to its second, then back.
    #[serde(default)]
    pub links: Vec<LinkReport>,
    /// How evenly links between switches were used; `None`: there was no choice to make.
    #[serde(default)]
    pub balance: Option<BalanceReport>,
    /// Connections of jobs whose packets arrived out of order, in the order of the jobs.
    #[serde(default)]
    pub reordered: Vec<ReorderedReport>,
}

/// A connection of a job, all its queue pairs together, whose packets arrived out of order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReorderedReport {
    /// Name of the job.
    pub job: String,
    /// The host that has the data.
    pub src: String,
    /// The host that gets it.
    pub dst: String,
    /// Packets with data that arrived, repetitions included.
    pub data_packets: u64,
    /// Those that arrived behind a gap.
    pub out_of_order_packets: u64,
}

/// Ports that paused each other in a circle. Times are those of the event log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeadlockReport {
    /// When it was first seen, in nanoseconds; it is looked for every millisecond.
    pub since_ns: u64,
    /// When it was seen to be gone, in nanoseconds; null: it is still there.
    pub until_ns: Option<u64>,
    /// The circle, as `switch:port`: each waits for the next, the last for the first.
    pub ports: Vec<String>,
    /// The queue that stands still on the first of them.
    pub queue: u8,
}

/// What the queue pairs of a host counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    /// Name of the host.
    pub name: String,
    /// Counters that are not zero.
    pub counters: BTreeMap<String, u64>,
    /// PFC frames it received, by priority.
    pub pfc_rx: [u64; 8],
    /// Time each class was paused, in nanoseconds.
    pub paused_ns: [u64; 8],
}

impl HostReport {
    pub(crate) fn new(name: &str, queue_pairs: &Counters, nic: &NicCounters) -> HostReport {
        let counters = queue_pairs.named_values().into_iter();
        HostReport {
            name: name.to_owned(),
            counters: counters
                .filter(|(_, value)| *value > 0)
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            pfc_rx: nic.pfc_rx,
            paused_ns: nic.paused_ns,
        }
    }
}

fn deadlock_report(lasting: &LastingDeadlock) -> DeadlockReport {
    DeadlockReport {
        since_ns: lasting.since.as_nanos(),
        until_ns: lasting.until.map(|at| at.as_nanos()),
        ports: lasting.deadlock.ports.clone(),
        queue: lasting.deadlock.queue,
    }
}

impl VirtualLab {
    /// Everything counted, as of now.
    pub fn report(&self) -> Report {
        let fabric = &self.simulation.fabric;
        let hosts: Vec<_> = (0..fabric.host_count())
            .map(|host| fabric.host(host).results(fabric.now()))
            .collect();
        let flows = flow_reports(&self.plan, &hosts.iter().collect::<Vec<_>>());
        let snapshots: Vec<_> = (0..fabric.switch_count()).map(|s| fabric.snapshot(s)).collect();
        let mut report = crate::report::build(
            Environment::read(),
            self.options.seed,
            &snapshots,
            flows,
            Vec::new(),
        );
        let host_report = |(index, results): (usize, &xoff_host::HostResults)| {
            HostReport::new(&results.name, &fabric.host(index).rdma_counters(), &results.nic)
        };
        report.warnings.clone_from(&self.ineffective);
        for host in 0..fabric.host_count() {
            report.count_queue_pairs(&fabric.host(host).rdma_counters());
        }
        for (index, results) in hosts.iter().enumerate() {
            report.add_receiver(results, self.plan.expects_lossless(index));
        }
        let links = self.link_reports();
        let jobs = &self.simulation.jobs;
        report.virtual_time = Some(VirtualReport {
            balance: BalanceReport::of(&links),
            links,
            reordered: jobs::reordered(&self.plan, jobs, &jobs.received_packets(|host| fabric.host(host))),
            model_time_ns: self.elapsed().as_nanos(),
            events: fabric.events(),
            frame_hops: fabric.frame_hops(),
            frames_under_way_max: fabric.frames_in_flight_max() as u64,
            link_lost_frames: (0..self.plan.links.len())
                .map(|link| fabric.lost_frames(link))
                .sum(),
            deadlocks: self.simulation.deadlocks().iter().map(deadlock_report).collect(),
            hosts: hosts.iter().enumerate().map(host_report).collect(),
        });
        report.jobs = Some(self.results()).filter(|results| !results.jobs.is_empty());
        report
    }

    /// What became of the jobs.
    pub fn results(&self) -> WorkloadResults {
        jobs::results(&self.simulation.jobs)
    }
}
