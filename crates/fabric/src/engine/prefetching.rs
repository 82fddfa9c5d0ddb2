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
        fetched: &mut FetchedHosts,
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
            fetched.set(position + 3 * STEP, hosts);
        }
        if let Some(partition) = partition(2) {
            let hosts = fetched.get(position + 2 * STEP);
            if hosts != 0 {
                let senders = self.prefetch_queue_pairs(partition, end, hosts);
                fetched.set(position + 2 * STEP, senders);
            }
        }
        if let Some(partition) = partition(1) {
            self.for_hosts(partition, fetched.get(position + STEP), |node| {
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
    /// of these hosts.
    fn prefetch_events_of_hosts(&self, group: usize, end: Picos) -> u8 {
        let mut active = 0;
        self.for_host_events(group, end, |host, arriving| {
            if let Some(frame) = arriving {
                self.store.prefetch(frame, true);
            }
            active |= host;
        });
        self.for_hosts(group, active, |node| {
            prefetch(node);
            node.host.prefetch();
        });
        active
    }

    /// Fetches the queue pairs that the events of a group of hosts before `end` need. The other ones stay where they
    /// are: a queue pair has many cache lines. `active` contains the hosts with events. Returns a bit mask of the hosts
    /// that can send or schedule a data packet.
    fn prefetch_queue_pairs(&self, group: usize, end: Picos, active: u8) -> u8 {
        let mut senders = 0;
        self.for_host_events(group, end, |host, arriving| {
            let Some(frame) = arriving else {
                senders |= host;
                return;
            };
            let is_acknowledge = self.store.unstored_bytes(frame) == 0;
            if let Some(number) = self.store.destination_qp(frame) {
                self.for_hosts(group, host, |node| {
                    node.host.prefetch_receiver(number, is_acknowledge);
                });
            }
            // After a complete message, the host may send the next one.
            if is_acknowledge || !self.store.completes_no_message(frame) {
                senders |= host;
            }
        });
        self.for_hosts(group, senders, |node| node.host.prefetch_senders());
        self.for_hosts(group, active, |node| {
            if let Some(direction) = self.directions.get(node.direction as usize) {
                prefetch(direction);
            }
        });
        senders
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

    /// Calls `visit` for each event of a group of hosts before `end`, with the bit of the host, and with the frame if
    /// one arrives. The list of receivers is read at once: it has a few bytes for each link, and the second-level cache
    /// holds most of it.
    #[inline]
    fn for_host_events(&self, group: usize, end: Picos, mut visit: impl FnMut(u8, Option<FrameHandle>)) {
        let first = self.partitions.hosts_in_group(group, self.hosts.len()).start as u32;
        for event in self.pending.near_events(group) {
            if event.at >= end {
                continue;
            }
            let source = event.payload();
            let (host, arriving) = if is_arrival(*event) {
                match self.receivers[event.rank() as usize].to {
                    LinkEnd::Host(host) => (host, Some(FrameHandle(source))),
                    LinkEnd::Switch { .. } => continue,
                }
            } else {
                (source & HOST_INDEX_MASK, None)
            };
            visit(1 << (host - first), arriving);
        }
    }

    /// Calls `visit` with the hosts of a group whose bits are set in `hosts`.
    #[inline]
    fn for_hosts(&self, group: usize, hosts: u8, mut visit: impl FnMut(&HostNode)) {
        let first = self.partitions.hosts_in_group(group, self.hosts.len()).start;
        let mut left = hosts;
        while left != 0 {
            if let Some(node) = self.hosts.get(first + left.trailing_zeros() as usize) {
                visit(node);
            }
            left &= left - 1;
        }
    }
}

/// The hosts of each of the next partitions that the next step visits, as bit masks: those with events, and later those
/// that can send data. A switch has none.
#[derive(Default)]
pub(super) struct FetchedHosts([u8; FetchedHosts::POSITIONS]);

impl FetchedHosts {
    /// A power of two that is larger than the distance between the first and the last step.
    const POSITIONS: usize = 8;

    fn set(&mut self, position: usize, hosts: u8) {
        self.0[position % Self::POSITIONS] = hosts;
    }

    fn get(&self, position: usize) -> u8 {
        self.0[position % Self::POSITIONS]
    }
}

const _: () = assert!(3 * STEP < FetchedHosts::POSITIONS && HOSTS_PER_GROUP <= u8::BITS as usize);
