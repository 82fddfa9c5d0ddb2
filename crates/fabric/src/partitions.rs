//! Partitions of a fabric. A partition is a single switch or a small group of hosts. Each partition processes
//! short time windows separately.

use super::plan::LinkEnd;

/// Number of hosts in a group. The state of these hosts and the frames of a window together fit into the
/// first-level cache.
pub(super) const HOSTS_PER_GROUP: usize = 2;

/// Division of a fabric into partitions. The groups of hosts have the partition numbers from 0. Each switch
/// is a partition, with a number after those of the host groups.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Partitions {
    groups: usize,
}

impl Partitions {
    /// Creates the partitions of a fabric with `hosts` hosts.
    pub(super) fn new(hosts: usize) -> Partitions {
        Partitions {
            groups: hosts.div_ceil(HOSTS_PER_GROUP),
        }
    }

    /// Returns the number of the partition that contains a link end.
    #[inline]
    pub(super) fn partition_of(self, end: LinkEnd) -> usize {
        match end {
            LinkEnd::Switch { switch, .. } => self.switch_partition(switch as usize),
            LinkEnd::Host(host) => self.host_partition(host as usize),
        }
    }

    /// Returns the partition of a switch.
    #[inline]
    pub(super) fn switch_partition(self, switch: usize) -> usize {
        self.groups + switch
    }

    /// Returns the partition of a host.
    #[inline]
    pub(super) fn host_partition(self, host: usize) -> usize {
        host / HOSTS_PER_GROUP
    }

    /// Returns the number of host groups.
    #[inline]
    pub(super) fn host_group_count(self) -> usize {
        self.groups
    }

    /// Returns the indices of the hosts in a group. `hosts` is the number of hosts in the fabric.
    #[inline]
    pub(super) fn hosts_in_group(self, group: usize, hosts: usize) -> std::ops::Range<usize> {
        group * HOSTS_PER_GROUP..((group + 1) * HOSTS_PER_GROUP).min(hosts)
    }
}
