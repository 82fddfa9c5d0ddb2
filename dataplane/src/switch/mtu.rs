//! The MTU checks of the switch: frames that are too long for a port or for a router interface.
//!
//! A frame that is longer than the MTU of a port is dropped with the reason
//! [`ExceedsL2Mtu`](DropReason::ExceedsL2Mtu), at the ingress port and at the egress port. A packet that is
//! longer than the MTU of the egress router interface is dropped with the reason
//! [`ExceedsL3Mtu`](DropReason::ExceedsL3Mtu). If the packet must not be fragmented, its sender receives an
//! ICMP error with the MTU (RFC 1191, RFC 8201).

use super::ingress::FrameContext;
use super::port::Port;
use crate::drops::DropReason;
use crate::outputs::PuntReason;
use crate::route::ip_header::IpHeaderFields;

impl Port {
    /// Returns true if the frame is longer than the MTU of the port. The MTU (`PORT.mtu`) does not include the
    /// Ethernet header and VLAN tags, which are the first `l3_offset` bytes of the frame.
    #[inline(always)]
    pub(super) fn exceeds_mtu(&self, frame_len: u32, l3_offset: u8) -> bool {
        frame_len > self.mtu + u32::from(l3_offset)
    }
}

/// Checks a routed packet against the MTU of its egress interface. If the packet is too long and must not be
/// fragmented, the sender will receive an ICMP error.
#[inline(always)]
pub(super) fn check_routed_mtu(
    context: &mut FrameContext,
    packet: &IpHeaderFields,
    interface_mtu: u32,
) -> Result<(), DropReason> {
    if packet.len <= interface_mtu {
        return Ok(());
    }
    context.icmp_error = packet
        .dont_fragment
        .then_some(PuntReason::TooBig { mtu: interface_mtu });
    Err(DropReason::ExceedsL3Mtu)
}
