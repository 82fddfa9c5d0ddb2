//! Counters, buffers and tables of a switch, for use between two calls.

use std::sync::Arc;

use super::{PortTraffic, Switch, timers};
use crate::bits::iter_set_bits;
use crate::counters::{PgBuffers, PoolBuffers, PortCounters, QueueBuffers, TrimCounters};
use crate::drops::DropReason;
use crate::ids::{InterfaceId, LogicalPort, PgId, PortId, QueueId, TimerId};
use crate::mmu::BufferRefusal;
use crate::route::{Fib, NeighbourEntry};
use xoff_units::Picos;

/// State of the switch, for use between two calls.
impl Switch {
    /// Returns the host name of the switch ([`SwitchConfig::name`](crate::config::SwitchConfig::name)).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of ports.
    pub fn port_count(&self) -> usize {
        self.ports.len()
    }

    /// Returns true if the link of a port is up and the port is administratively up.
    pub fn is_up(&self, port: PortId) -> bool {
        self.ports[port.index()].up
    }

    /// Returns the counters of a port. Current pauses are included up to `now`.
    pub fn port_counters(&self, now: Picos, port: PortId) -> PortCounters {
        self.ports[port.index()].counters_at(now)
    }

    /// Returns the sent and the queued bytes of a port.
    pub fn port_load(&self, port: PortId) -> PortTraffic {
        PortTraffic {
            tx_bytes: self.ports[port.index()].tx_bytes,
            queued_bytes: self.frames.port_queued_bytes(port.index()),
        }
    }

    /// Returns the ingress priority groups of the frames in a queue. The group of the first frame comes
    /// first. The list is empty if no frame waits. This method visits every frame of the queue.
    pub fn priority_groups_in(&self, queue: QueueId) -> Vec<PgId> {
        let mut groups = Vec::new();
        let fifo = &self.ports[queue.port().index()].fifos[usize::from(queue.number())];
        for group in self.frames.priority_groups_in(fifo) {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups
    }

    /// Returns the total time by which the driver has delayed transmissions of a port, since the creation of
    /// the switch or the last [`Switch::restart_utilisation`].
    pub fn total_transmit_delay(&self, port: PortId) -> Picos {
        Picos(self.ports[port.index()].tx_deficit_ps)
    }

    /// Returns the buffer limit that caused the latest drop of a port for `reason`. Returns `None` if no
    /// buffer limit has caused a drop for this reason.
    pub fn last_refusal(&self, port: PortId, reason: DropReason) -> Option<BufferRefusal> {
        self.ports[port.index()].refusals[reason as usize]
    }

    /// Returns the number of frames dropped for one reason, on all ports and in all traffic classes.
    pub fn dropped_frames_for(&self, reason: DropReason) -> u64 {
        self.ports
            .iter()
            .flat_map(|port| port.counters.drops[reason as usize])
            .sum()
    }

    /// Returns the counters of trimmed frames, summed over all ports.
    pub fn trim_counters(&self) -> TrimCounters {
        let ports = self.ports.iter().map(|port| port.counters.trim_counters());
        ports.fold(TrimCounters::default(), |sum, port| TrimCounters {
            trimmed: sum.trimmed + port.trimmed,
            sent: sum.sent + port.sent,
            dropped: sum.dropped + port.dropped,
        })
    }

    /// Adds `frames` to the drops of a port for `reason`. These are frames that the port backend dropped before
    /// they reached the switch. `dscp` is the DSCP of their IP header, 0 to 63, and `pcp` is the priority of
    /// their VLAN tag, 0 to 7. The two values select the traffic class, as for frames that the switch receives.
    /// Without both, the class is 0.
    pub fn add_backend_drops(
        &mut self,
        port: PortId,
        reason: DropReason,
        (dscp, pcp): (Option<u8>, Option<u8>),
        frames: u64,
    ) {
        let port = &mut self.ports[port.index()];
        let tc = port.rules.classify.traffic_class_of(dscp, pcp);
        port.counters.drops[reason as usize][usize::from(tc)] += frames;
    }

    /// Returns a bit mask. Bit *n* is set if priority group *n* of this port is in the XOFF state, in which
    /// it pauses its peer.
    pub fn xoff_groups(&self, port: PortId) -> u8 {
        iter_set_bits(0xff)
            .filter(|&n| self.mmu.is_in_xoff(PgId::new(port, n as u8)))
            .fold(0, |mask, n| mask | 1 << n)
    }

    /// Returns true if a priority group is lossless: it has headroom, or it follows the buffer rules of the HPCC
    /// simulator.
    pub fn is_lossless_group(&self, pg: PgId) -> bool {
        self.mmu.is_lossless(pg)
    }

    /// Returns the buffer use of a priority group.
    pub fn pg_buffers(&self, pg: PgId) -> PgBuffers {
        self.mmu.pg_buffers(pg)
    }

    /// Returns the buffer use of a queue.
    pub fn queue_buffers(&self, queue: QueueId) -> QueueBuffers {
        self.mmu.queue_buffers(queue)
    }

    /// Returns the buffer use of a pool. `pool` is the index in
    /// [`SwitchConfig::pools`](crate::config::SwitchConfig::pools).
    pub fn pool_buffers(&self, pool: usize) -> PoolBuffers {
        self.mmu.pool_buffers(pool)
    }

    /// Resets all buffer watermarks to the current use.
    pub fn clear_watermarks(&mut self) {
        self.mmu.clear_watermarks();
    }

    /// Returns the learnt addresses, sorted by VLAN and address. Each entry is a tuple of VLAN, address,
    /// port or LAG, and age. The age is the time since the latest frame of the station. VLAN 0 is the
    /// transparent bridge.
    pub fn fdb_entries(&self, now: Picos) -> Vec<(u16, [u8; 6], LogicalPort, Picos)> {
        self.fdb.entries(now)
    }

    /// Returns the neighbours, sorted by interface and address.
    pub fn neighbour_entries(&self, now: Picos) -> Vec<NeighbourEntry> {
        self.router.neighbours.entries(now)
    }

    /// Returns the current version (generation) of the routes, which the last call of [`Switch::set_fib`] or
    /// [`Switch::apply_config`] has set.
    pub fn fib(&self) -> &Arc<Fib> {
        &self.router.fib
    }

    /// Returns true if a router interface is up. An interface is up if its port or LAG is up, or if at least
    /// one port or LAG of its VLAN is up. A loopback interface is always up.
    pub fn is_interface_up(&self, interface: InterfaceId) -> bool {
        self.router.interface(interface).up
    }

    /// Returns true if a LAG is up: it is administratively up, and enough of its members are up
    /// ([`min_links`](crate::config::LagConfig::min_links)). `lag` is the index in
    /// [`SwitchConfig::lags`](crate::config::SwitchConfig::lags).
    pub fn is_lag_up(&self, lag: usize) -> bool {
        self.lags.is_lag_up(lag)
    }

    /// Returns the number of frames that wait for the link address of a neighbour.
    pub fn held_frames(&self) -> usize {
        self.router.neighbours.held_frames()
    }

    /// Returns the port of a transmit timer. Returns `None` if the timer is not a transmit timer. A driver
    /// that is late uses this port to limit the number of frames that the port sends at once to catch up.
    pub fn port_of_transmit_timer(&self, timer: TimerId) -> Option<PortId> {
        let port = timers::port_of_transmit_timer(timer).filter(|port| *port < self.ports.len());
        port.map(|port| PortId(port as u16))
    }

    /// Returns the egress ports at which the latest received frame was marked CE on arrival. The list is empty unless
    /// the switch uses [`EcnMarkPoint::Enqueue`](crate::config::EcnMarkPoint::Enqueue). For frames marked at departure,
    /// see [`Transmit::marked`](crate::Transmit::marked).
    pub fn ports_marking_ce_on_arrival(&self) -> &[PortId] {
        &self.marked_on_arrival
    }

    /// Returns the number of frames in egress queues. Each copy of a flooded frame is counted.
    pub fn queued_frames(&self) -> usize {
        self.frames.in_use()
    }

    /// Checks the buffer accounting, for tests ([`Mmu::assert_consistent`](crate::mmu::Mmu::assert_consistent)). The
    /// check visits every queue and priority group.
    ///
    /// # Panics
    /// Panics if the cells of the queues, priority groups, ports and pools do not add up, or if the list of
    /// groups in XOFF is wrong.
    pub fn assert_consistent(&self) {
        self.mmu.assert_consistent();
    }
}
