//! The parts of a fabric that go through a short time apart from each other: small groups of hosts, and each switch.

use super::plan::End;

/// Hosts of a group: as many as stay in the first-level cache together, with what arrives there in a window.
const HOSTS_PER_GROUP: usize = 2;

/// How a fabric is parted. Groups of hosts have the first numbers, then come the switches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parts {
    groups: usize,
}

impl Parts {
    /// Of a fabric of so many hosts.
    pub(super) fn new(hosts: usize) -> Parts {
        Parts {
            groups: hosts.div_ceil(HOSTS_PER_GROUP),
        }
    }

    /// The part that a node belongs to.
    #[inline]
    pub(super) fn of(self, end: End) -> usize {
        match end {
            End::Switch { switch, .. } => self.of_switch(switch as usize),
            End::Host(host) => self.of_host(host as usize),
        }
    }

    /// The part that a switch is.
    #[inline]
    pub(super) fn of_switch(self, switch: usize) -> usize {
        self.groups + switch
    }

    /// The part that a host belongs to.
    #[inline]
    pub(super) fn of_host(self, host: usize) -> usize {
        host / HOSTS_PER_GROUP
    }

    /// How many groups of hosts there are.
    #[inline]
    pub(super) fn groups(self) -> usize {
        self.groups
    }

    /// The hosts of a group, of `hosts` in all.
    #[inline]
    pub(super) fn hosts_of(self, group: usize, hosts: usize) -> std::ops::Range<usize> {
        group * HOSTS_PER_GROUP..((group + 1) * HOSTS_PER_GROUP).min(hosts)
    }
}
