//! The part of a report for runs in virtual time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use xoff_host::NicCounters;
use xoff_rdma::Counters;

use super::link_report::{LinkBalanceReport, LinkReport};

/// The part of a report that exists only for runs in virtual time. The load of the machine does not affect
/// these runs, so their verdict is never "tainted".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VirtualRunReport {
    /// Model time from the start of the workload to the end of the run, in nanoseconds.
    pub model_time_ns: u64,
    /// Number of events of the simulation, including those before the start of the workload.
    pub events: u64,
    /// Number of frame arrivals at the ends of links. A frame that crosses three links counts three times.
    pub frame_hops: u64,
    /// Largest number of frames in flight at the same time.
    pub frames_under_way_max: u64,
    /// Frames that links lost because a link went down or a script configured a fault.
    pub link_lost_frames: u64,
    /// PFC deadlocks that lasted 10 ms of model time or more, in the order of their detection. At most 64.
    #[serde(default)]
    pub deadlocks: Vec<DeadlockReport>,
    /// Queue pair counters of each host, with the names of the Linux `hw_counters`.
    pub hosts: Vec<HostReport>,
    /// Traffic of the links, in the order of the lab. A link has two entries: first the direction from its
    /// first end to its second end, then the other direction.
    #[serde(default)]
    pub links: Vec<LinkReport>,
    /// Load balance of those links between switches that the workload could use. `None` if these links
    /// carried no traffic or do not exist.
    #[serde(default)]
    pub balance: Option<LinkBalanceReport>,
    /// Connections on which packets arrived out of order, in the order of the jobs.
    #[serde(default)]
    pub reordered: Vec<ReorderedConnectionReport>,
    /// Skipped steps of a run with `--accelerate`. `None` for an exact run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acceleration: Option<AccelerationReport>,
}

/// What an accelerated run has skipped. The times and counts of skipped steps are estimates from simulated steps.
/// `events`, `frame_hops` and `reordered` contain simulated frames only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccelerationReport {
    /// Model time of all skipped steps, in nanoseconds.
    pub skipped_time_ns: u64,
    /// Number of skips.
    pub skips: u64,
    /// One entry for each job, in the order of the lab file.
    pub jobs: Vec<JobAccelerationReport>,
    /// Number of observed windows after which nothing was skipped, by reason.
    pub rejected_windows: BTreeMap<String, u64>,
}

/// The skipped steps of one job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobAccelerationReport {
    /// Name of the job.
    pub job: String,
    /// What counts as a step: `ring_step` or `iteration`. `None`: the job has no steps that repeat.
    pub unit: Option<String>,
    /// Number of skipped steps.
    pub skipped_steps: u64,
    /// Number of simulated steps. A step counts when all its messages have arrived.
    pub simulated_steps: u64,
    /// Largest relative difference between the time of a step after a skip and before it: an estimate of the error of
    /// the skipped time, and no bound. `None`: no step was simulated after a skip.
    pub step_time_error: Option<f64>,
}

/// A connection of a job on which packets arrived out of order. The counters are sums over all queue pairs of
/// the connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReorderedConnectionReport {
    /// Name of the job.
    pub job: String,
    /// Name of the host that sends the data.
    pub src: String,
    /// Name of the host that receives the data.
    pub dst: String,
    /// Data packets of the connection that arrived, including retransmissions.
    pub data_packets: u64,
    /// Data packets that arrived while an earlier packet was missing. At least 1.
    pub out_of_order_packets: u64,
}

/// A PFC deadlock: a cycle of ports in which each port is paused by the next. Times are in model time, as in
/// the event log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeadlockReport {
    /// Time of the check that detected the deadlock, in nanoseconds. A check runs every millisecond of
    /// model time.
    pub since_ns: u64,
    /// Time of the first check without the deadlock, in nanoseconds. `None` (null) if the deadlock lasted
    /// until the end of the run.
    pub until_ns: Option<u64>,
    /// The ports of the cycle as `switch:port`. Each port is paused by the next port of the list, and the
    /// last port is paused by the first port.
    pub ports: Vec<String>,
    /// The blocked egress queue of the first port, 0 to 7.
    pub queue: u8,
}

/// Counters of the queue pairs and the NIC of a host, as sums over its queue pairs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    /// Name of the host.
    pub name: String,
    /// Counters of the queue pairs by name. Counters with the value 0 are omitted.
    pub counters: BTreeMap<String, u64>,
    /// Number of received PFC frames for each priority. A frame for several priorities counts once for
    /// each priority.
    pub pfc_rx: [u64; 8],
    /// Time for which PFC paused each priority, in nanoseconds of model time.
    pub paused_ns: [u64; 8],
    /// Number of received 802.3x PAUSE frames.
    #[serde(default)]
    pub pause_rx_frames: u64,
    /// Time for which 802.3x PAUSE frames paused all classes, in nanoseconds of model time.
    #[serde(default)]
    pub global_paused_ns: u64,
    /// Number of sent PFC frames for each priority. A frame for several priorities counts once for each
    /// priority.
    #[serde(default)]
    pub pfc_tx: [u64; 8],
    /// Number of sent 802.3x PAUSE frames.
    #[serde(default)]
    pub pause_tx_frames: u64,
    /// Number of sent MAC control frames: PFC, 802.3x PAUSE and all others.
    #[serde(default)]
    pub tx_control_frames: u64,
}

impl HostReport {
    /// Creates the report of a host from the counters of its queue pairs and its NIC.
    pub fn new(name: &str, queue_pairs: &Counters, nic: &NicCounters) -> HostReport {
        let counters = queue_pairs.named_values().into_iter();
        HostReport {
            name: name.to_owned(),
            counters: counters
                .filter(|(_, value)| *value > 0)
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            pfc_rx: nic.pfc_rx,
            paused_ns: nic.paused_ns,
            pause_rx_frames: nic.pause_rx_frames,
            global_paused_ns: nic.global_paused_ns,
            pfc_tx: nic.pfc_tx,
            pause_tx_frames: nic.pause_tx_frames,
            tx_control_frames: nic.tx_control_frames,
        }
    }
}
