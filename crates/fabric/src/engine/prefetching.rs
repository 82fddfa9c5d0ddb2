//! Fetches the memory of the next partitions of a window.
//!
//! A window of a large fabric has events of thousands of hosts and switches, with a few events for each of them. Their
//! memory is in no cache, and each access would wait for it. The partitions of a window are known when it begins, so a
//! shard fetches the memory of the next partitions while it processes the events of one partition. Each step reads only
//! memory that the step before has fetched, and the list of receivers.

use xoff_dataplane::{FrameHandle, PortId, TimerId, prefetch};

use super::shard::{HostNode, Shard, is_arrival};
use super::{HOST_INDEX_MASK, SWITCH_FLAG, TIMER_BITS};
use crate::event_queue::{Event, time_of_key};
use crate::plan::LinkEnd;

/// Number of partitions between two steps.
const STEP: usize = 2;
/// Number of hosts and switches below which fetching costs more instructions than it saves: the caches hold most of
/// their memory.
const NODES_MIN: usize = 1_000;

impl Shard {
    /// Returns whether the shard is so large that fetching makes it faster.
    pub(super) fn exceeds_caches(&self) -> bool {
        self.hosts.len() + self.switches.len() >= NODES_MIN
    }

    /// Fetches memory for the partitions after the first one of `due`. `limit` is the key of the first event after the
    /// window. Far events are few, and their memory is not fetched.
    #[inline]
    pub(super) fn prefetch_partitions(&self, due: &[u32], limit: u128) {
        let end = time_of_key(limit);
        let partition = |steps: usize| due.get(steps * STEP).map(|partition| *partition as usize);
        if let Some(partition) = partition(4) {
            self.pending.prefetch(partition);
        }
        if let Some(partition) = partition(3) {
            self.pending.prefetch_events(partition);
            self.prefetch_node(partition);
        }
        if let Some(partition) = partition(2) {
            let is_host_group = partition < self.partitions.host_group_count();
            let mut fetched = FetchedPorts::default();
            for event in self.pending.near_events(partition) {
                if event.at < end {
                    self.prefetch_event(*event, is_host_group, &mut fetched);
                }
            }
        }
        if let Some(partition) = partition(1) {
            for node in self.hosts_of_partition(partition) {
                node.host.prefetch_queue_pairs();
            }
        }
    }

    /// Returns the hosts of a partition. A switch has none.
    fn hosts_of_partition(&self, partition: usize) -> &[HostNode] {
        let hosts = self.partitions.hosts_in_group(partition, self.hosts.len());
        self.hosts.get(hosts).unwrap_or_default()
    }

    /// Fetches the beginning of a switch.
    fn prefetch_node(&self, partition: usize) {
        let switch = partition.checked_sub(self.partitions.host_group_count());
        if let Some(node) = switch.and_then(|switch| self.switches.get(switch)) {
            node.switch.prefetch();
        }
    }

    /// Fetches the frame of an event, and the host or the switch port. The list of receivers is read at once: it has a
    /// few bytes for each link, and the second-level cache holds most of it.
    ///
    /// Most traffic has answers, so a port that receives a frame usually sends another one in the same window. The
    /// egress port of a frame itself is not known yet.
    fn prefetch_event(&self, event: Event, is_host_group: bool, fetched: &mut FetchedPorts) {
        let source = event.payload();
        if is_arrival(event) {
            self.store.prefetch(FrameHandle(source), is_host_group);
            match self.receivers[event.rank() as usize].to {
                LinkEnd::Host(host) => self.prefetch_host(host),
                LinkEnd::Switch { switch, port } => {
                    if fetched.insert(port) {
                        self.prefetch_port(switch, port);
                    }
                }
            }
        } else if source & SWITCH_FLAG != 0 {
            let switch = ((source & !SWITCH_FLAG) >> TIMER_BITS) as usize;
            let timer = TimerId(source & ((1 << TIMER_BITS) - 1));
            self.switches[switch].switch.prefetch_port_of_timer(timer);
        } else {
            self.prefetch_host(source & HOST_INDEX_MASK);
        }
    }

    fn prefetch_port(&self, switch: u32, port: u16) {
        let node = &self.switches[switch as usize];
        node.switch.prefetch_port(PortId(port));
        let direction = node.directions.get(usize::from(port));
        if let Some(direction) = direction.and_then(|index| self.directions.get(*index as usize)) {
            prefetch(direction);
        }
    }

    fn prefetch_host(&self, host: u32) {
        if let Some(node) = self.hosts.get(host as usize) {
            prefetch(node);
            node.host.prefetch();
        }
    }
}

/// Ports of a switch whose memory has been fetched. Two ports with the same number modulo 1024 count as one.
#[derive(Default)]
struct FetchedPorts([u64; 16]);

impl FetchedPorts {
    /// Adds a port. Returns whether it is new.
    #[inline]
    fn insert(&mut self, port: u16) -> bool {
        let (word, bit) = (&mut self.0[usize::from(port) / 64 % 16], 1 << (port % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}
