//! The part of a report for labs in real time.

use serde::{Deserialize, Serialize};

use super::link_report::{LinkBalanceReport, LinkReport};
use super::virtual_section::{HostReport, ReorderedConnectionReport};

/// The part of a report that exists only for labs in real time. For virtual time,
/// [`VirtualRunReport`](crate::VirtualRunReport) has similar fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RealTimeRunReport {
    /// Model time between the start of the workload and the end of its flows and jobs, in nanoseconds.
    pub model_time_ns: u64,
    /// Dilation: the factor by which model time ran slower than wall time, at least 1.
    pub dilate: u32,
    /// Queue pair counters of each model host, with the names of the Linux `hw_counters`.
    pub hosts: Vec<HostReport>,
    /// Traffic of the links, in the order of the lab. A link has two entries: first the direction from its
    /// first end to its second end, then the other direction.
    pub links: Vec<LinkReport>,
    /// Load balance of those links between switches that the workload could use. `None` if these links
    /// carried no traffic or do not exist.
    pub balance: Option<LinkBalanceReport>,
    /// Connections on which packets arrived out of order, in the order of the jobs.
    pub reordered: Vec<ReorderedConnectionReport>,
}
