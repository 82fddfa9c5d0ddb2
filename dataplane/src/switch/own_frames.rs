//! Frames that the switch itself sends: frames from the CPU port, and neighbour solicitations of the router.

use super::Switch;
use super::admission::edit_tag;
use super::ingress::FLOOD_PREFIX_BYTES;
use crate::bridge::MacAddress;
use crate::config::InterfaceAttachment;
use crate::egress::{IngressCharge, QueuedFrame};
use crate::frame::{FrameHandle, FrameStore};
use crate::ids::{InterfaceId, LogicalPort, PRIORITIES, PortId, QueueId};
use crate::outputs::Outputs;
use crate::route::ip_header::{self, IpDestination};
use crate::route::{HeldFrame, ResolvedHop};
use xoff_units::Picos;
use xoff_wire::ETHERNET_LEN;
use xoff_wire::parse::{self, Payload};

/// Egress queue of the switch's own frames. SONiC uses queue 7 for network control.
const OWN_FRAMES_QUEUE: u8 = 7;

impl Switch {
    /// Sends a frame through egress queue `queue` of a port. The frame uses no buffer space of a priority
    /// group, because it did not arrive at a port. Valid queues are 0 to 7.
    ///
    /// # Errors
    /// Returns the frame if the port is down, the frame table is full, or the watchdog drops the frames of
    /// the queue.
    pub fn inject_frame<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        queue: u8,
        frame: FrameHandle,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Result<(), FrameHandle> {
        if !self.ports[port.index()].up || self.frames.free_entries() == 0 {
            return Err(frame);
        }
        let queue = usize::from(queue) % PRIORITIES;
        if self.ports[port.index()].dropping_queues & 1 << queue != 0 {
            return Err(frame);
        }
        let id = QueueId::new(port, queue as u8);
        let mac_len = self.ports[port.index()].link.mac_len(store.frame_len(frame));
        let cells = self.mmu.frame_cells(mac_len);
        let Ok(plan) = self.mmu.plan_egress(id, cells, true) else {
            return Err(frame);
        };
        self.mmu.commit_egress(id, plan);
        let mut queued = QueuedFrame::new(frame, mac_len, cells, IngressCharge::None);
        queued.ready_at = now;
        queued.l3_offset = 14;
        let egress = &mut self.ports[port.index()];
        egress.enqueue(&mut self.frames, port, queue, queued);
        self.try_transmit(now, port, store, outputs);
        Ok(())
    }

    /// Sends an untagged Ethernet frame through a router interface. The frame leaves through the port of the
    /// interface, or through one member of its LAG. In a VLAN, the frame leaves through the port behind which
    /// the destination is known. If this port is unknown, all ports of the VLAN send a copy.
    ///
    /// # Errors
    /// Returns the frame if the interface does not exist or is a loopback interface, or if
    /// [`Switch::inject_frame`] refuses the frame at its port. A flooded frame is never returned.
    pub fn send_by_interface<S: FrameStore>(
        &mut self,
        now: Picos,
        interface: InterfaceId,
        frame: FrameHandle,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Result<(), FrameHandle> {
        let Some(out) = self.router.interfaces().get(interface.index()) else {
            return Err(frame);
        };
        match out.attachment {
            InterfaceAttachment::Port(port) => {
                self.send_by_logical_port(now, LogicalPort(port), None, frame, store, outputs)
            }
            InterfaceAttachment::Lag(lag) => self.send_by_logical_port(
                now,
                self.lags.logical_port_of_lag(lag),
                None,
                frame,
                store,
                outputs,
            ),
            InterfaceAttachment::Vlan(vlan) => self.send_in_vlan(now, vlan, frame, store, outputs),
            InterfaceAttachment::Loopback => Err(frame),
        }
    }

    fn send_in_vlan<S: FrameStore>(
        &mut self,
        now: Picos,
        vlan: u16,
        frame: FrameHandle,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Result<(), FrameHandle> {
        let Some((destination, _)) = MacAddress::destination_and_source(store.prefix(frame)) else {
            return Err(frame);
        };
        if let Some(to) = self.fdb.lookup(now, vlan, destination) {
            return self.send_by_logical_port(now, to, Some(vlan), frame, store, outputs);
        }
        for index in 0..self.vlans.members(vlan).len() {
            let to = self.vlans.members(vlan)[index];
            // Ignore copies without a slot or a port, as for any flooded frame.
            if let Some(copy) = store.copy(frame, FLOOD_PREFIX_BYTES)
                && let Err(copy) = self.send_by_logical_port(now, to, Some(vlan), copy, store, outputs)
            {
                store.release(copy);
            }
        }
        store.release(frame);
        Ok(())
    }

    fn send_by_logical_port<S: FrameStore>(
        &mut self,
        now: Picos,
        to: LogicalPort,
        vlan: Option<u16>,
        frame: FrameHandle,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Result<(), FrameHandle> {
        let flow_hash = parse::parse_prefix(store.prefix(frame), store.frame_len(frame) as usize).flow_hash;
        let Some(port) = self.lags.select_member(to, flow_hash) else {
            return Err(frame);
        };
        if let Some(vlan) = vlan {
            let Some(edit) = self.vlans.originated_frame_egress(to, vlan) else {
                return Err(frame);
            };
            edit_tag(edit, frame, ETHERNET_LEN as u8, store);
        }
        self.inject_frame(now, port, OWN_FRAMES_QUEUE, frame, store, outputs)
    }

    /// Routes an IP packet from the switch itself. `frame` begins with an untagged Ethernet header whose
    /// ethertype is set. This method sets the MAC addresses. A packet to a link-local address leaves through
    /// `interface`, if given. If the MAC address of the next hop is unknown, the switch holds the frame until
    /// the address is resolved.
    ///
    /// # Errors
    /// Returns the frame in these cases:
    /// - The frame is not a valid IP packet, or the packet is longer than the MTU.
    /// - No usable route exists, or the destination is the switch itself.
    /// - The egress interface or its port is down.
    /// - No space is left to hold or queue the frame.
    pub fn originate_packet<S: FrameStore>(
        &mut self,
        now: Picos,
        interface: Option<InterfaceId>,
        frame: FrameHandle,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Result<(), FrameHandle> {
        let frame_len = store.frame_len(frame);
        let prefix = store.prefix(frame);
        let parsed = parse::parse_prefix(prefix, frame_len as usize);
        let l3 = prefix.get(ETHERNET_LEN..).unwrap_or(&[]);
        let packet = match parsed.payload {
            Payload::Ipv4 => ip_header::parse_ipv4(l3),
            Payload::Ipv6 => ip_header::parse_ipv6(l3, frame_len - ETHERNET_LEN as u32),
            _ => return Err(frame),
        };
        let Ok(packet) = packet else { return Err(frame) };
        let address = packet.destination.address();
        let hop = match (packet.scope, interface) {
            (ip_header::AddressScope::Link(_), Some(interface))
                if self.router.interface(interface).is_on_link(address) =>
            {
                ResolvedHop::Neighbour(interface, self.router.neighbours.find_or_add(interface, address))
            }
            _ => {
                let entry = match packet.destination {
                    IpDestination::V4(address) => self.router.fib.lookup_v4(address),
                    IpDestination::V6(address) => self.router.fib.lookup_v6(address),
                };
                let Some(entry) = entry else { return Err(frame) };
                self.router.resolve_hop(entry, address, parsed.flow_hash)
            }
        };
        let ResolvedHop::Neighbour(egress, Some(neighbour)) = hop else {
            return Err(frame);
        };
        let out = self.router.interface(egress);
        if !out.up || packet.len > out.mtu {
            return Err(frame);
        }
        let Some(known) = self.router.neighbours.resolved_link(neighbour) else {
            let held = HeldFrame {
                from: None,
                interface,
                frame,
                frame_len,
                parsed,
            };
            if self.router.neighbours.hold_frame(neighbour, held).is_err() {
                return Err(frame);
            }
            self.resolve_neighbour(now, neighbour, store, outputs);
            return Ok(());
        };
        if let Some(addresses) = store.prefix_mut(frame).first_chunk_mut::<12>() {
            addresses[..6].copy_from_slice(&known.mac);
            addresses[6..].copy_from_slice(&out.mac_bytes);
        }
        self.send_by_interface(now, egress, frame, store, outputs)
    }
}
