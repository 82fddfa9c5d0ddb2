//! Fetches the memory of the next partitions of a window.
//!
//! A window of a large fabric has events of thousands of hosts and switches, with a few events for each of them. Their
//! memory is in no cache, and each access would wait for it. The partitions of a window are known when it begins, so a
//! shard fetches the memory of the next partitions while it processes the events of one partition. Each step reads only
//! memory that the step before has fetched, and the list of receivers.

use xoff_dataplane::{FrameHandle, Picos, PortId, TimerId, prefetch};

use super::shard::{HostNode, Shard, is_arrival};
use super::{HOST_INDEX_MASK, TIMER_BITS};
use crate::event_queue::time_of_key;
use crate::partitions::HOSTS_PER_GROUP;
use crate::plan::LinkEnd;

/// Number of partitions between two steps.
const STEP: usize = 2;
/// Number of hosts and switches below which fetching costs more instructions than it saves: the caches hold most of
/// their memory.
const NODES_MIN: usize = 400;

impl Shard {
    /// Returns whether the shard is so large that fetching makes it faster.
    pub(super) fn exceeds_caches(&self) -> bool {
        self.hosts.len() + self.switches.len() >= NODES_MIN
    }

    /// Fetches memory for the partitions after the first one of `due`. `limit` is the key of the first event after the
    /// window. `position` counts the partitions of the window. Far events are few, and their memory is not fetched.
    #[inline]
    pub(super) fn prefetch_partitions(
        &self,
        due: &[u32],
        limit: u128,
        position: usize,
        active: &mut ActiveHosts,
    ) {
        let end = time_of_key(limit);
        let partition = |steps: usize| due.get(steps * STEP).map(|partition| *partition as usize);
        if let Some(partition) = partition(5) {
            self.pending.prefetch(partition);
        }
        if let Some(partition) = partition(4) {
            self.pending.prefetch_events(partition);
            self.prefetch_node(partition);
        }
        if let Some(partition) = partition(3) {
            let hosts = match partition < self.partitions.host_group_count() {
                true => self.prefetch_events_of_hosts(partition, end),
                false => self.prefetch_arrivals_at_switch(partition, end),
            };
            active.set(position + 3 * STEP, hosts);
        }
        if let Some(partition) = partition(2) {
            self.for_active_hosts(partition, active.get(position + 2 * STEP), |node| {
                node.host.prefetch_queue_pairs();
                if let Some(direction) = self.directions.get(node.direction as usize) {
                    prefetch(direction);
                }
            });
        }
        if let Some(partition) = partition(1) {
            self.for_active_hosts(partition, active.get(position + STEP), |node| {
                node.host.prefetch_controllers();
            });
        }
    }

    /// Fetches the beginning of a switch.
    fn prefetch_node(&self, partition: usize) {
        let switch = partition.checked_sub(self.partitions.host_group_count());
        if let Some(node) = switch.and_then(|switch| self.switches.get(switch)) {
            node.switch.prefetch();
        }
    }

    /// Fetches the frames that arrive at a group of hosts before `end`, and the hosts with events. Returns a bit mask
    /// of these hosts. The list of receivers is read at once: it has a few bytes for each link, and the second-level
    /// cache holds most of it.
    fn prefetch_events_of_hosts(&self, partition: usize, end: Picos) -> u8 {
        let first = self.partitions.hosts_in_group(partition, self.hosts.len()).start as u32;
        let mut active = 0;
        for event in self.pending.near_events(partition) {
            if event.at >= end {
                continue;
            }
            let source = event.payload();
            let host = if is_arrival(*event) {
                self.store.prefetch(FrameHandle(source), true);
                match self.receivers[event.rank() as usize].to {
                    LinkEnd::Host(host) => host,
                    LinkEnd::Switch { .. } => continue,
                }
            } else {
                source & HOST_INDEX_MASK
            };
            active |= 1 << (host - first);
        }
        self.for_active_hosts(partition, active, |node| {
            prefetch(node);
            node.host.prefetch();
        });
        active
    }

    /// Fetches the frames that arrive at a switch before `end`, and their ports. Returns a mask of no host.
    fn prefetch_arrivals_at_switch(&self, partition: usize, end: Picos) -> u8 {
        let Some(node) = self.switches.get(partition - self.partitions.host_group_count()) else {
            return 0;
        };
        for event in self.pending.near_events(partition) {
            if event.at >= end {
                continue;
            }
            let source = event.payload();
            if !is_arrival(*event) {
                let timer = TimerId(source & ((1 << TIMER_BITS) - 1));
                node.switch.prefetch_port_of_timer(timer);
                continue;
            }
            self.store.prefetch(FrameHandle(source), false);
            if let LinkEnd::Switch { port, .. } = self.receivers[event.rank() as usize].to {
                node.switch.prefetch_ingress_port(PortId(port));
            }
        }
        0
    }

    /// Calls `visit` with the hosts of a partition whose bits are set in `active`.
    #[inline]
    fn for_active_hosts(&self, partition: usize, active: u8, mut visit: impl FnMut(&HostNode)) {
        let first = self.partitions.hosts_in_group(partition, self.hosts.len()).start;
        let mut left = active;
        while left != 0 {
            if let Some(node) = self.hosts.get(first + left.trailing_zeros() as usize) {
                visit(node);
            }
            left &= left - 1;
        }
    }
}

/// The hosts with events in each of the next partitions, as bit masks. A switch has none.
#[derive(Default)]
pub(super) struct ActiveHosts([u8; ActiveHosts::POSITIONS]);

impl ActiveHosts {
    /// A power of two that is larger than the distance between the first and the last step.
    const POSITIONS: usize = 8;

    fn set(&mut self, position: usize, hosts: u8) {
        self.0[position % Self::POSITIONS] = hosts;
    }

    fn get(&self, position: usize) -> u8 {
        self.0[position % Self::POSITIONS]
    }
}

const _: () = assert!(3 * STEP < ActiveHosts::POSITIONS && HOSTS_PER_GROUP <= u8::BITS as usize);
