//! The reader of RoCEv2 frames.

use core::fmt;

use crate::bth::{self, Bth};
use crate::ext::Extension;
use crate::roce_layout::RoceLayout;
use crate::{Error, IPV6_LEN, Ipv4Packet, Ipv6Packet, UdpPacket, icrc, require_len};

/// A whole RoCEv2 frame: Ethernet, VLAN tags, IPv4 or IPv6, UDP, BTH, extension headers, payload,
/// pad and ICRC.
///
/// The view has checked all lengths and layers, but not the ICRC. [`RoceView::icrc_is_valid`] checks
/// the ICRC.
#[derive(Clone, Copy, Debug)]
pub struct RoceView<'a> {
    frame: &'a [u8],
    layout: RoceLayout,
    payload: (usize, usize),
}

impl<'a> RoceView<'a> {
    /// Checks that a frame is RoCEv2 from its Ethernet header to its ICRC.
    ///
    /// # Errors
    ///
    /// Returns the error of the first layer that is not valid RoCEv2.
    pub fn new_checked(frame: &'a [u8]) -> Result<RoceView<'a>, Error> {
        let layout = RoceLayout::of_frame(frame)?;
        let behind_bth = &frame[layout.bth + bth::LEN..layout.icrc];
        let bth = Bth::new_unchecked(&frame[layout.bth..layout.icrc]);
        let extensions_len = bth.opcode().extensions_len();
        require_len("extension headers", behind_bth, extensions_len)?;
        let available = behind_bth.len() - extensions_len;
        let pad = bth.pad();
        if usize::from(pad) > available || !available.is_multiple_of(4) {
            return Err(Error::Padding { pad, available });
        }
        let start = layout.bth + bth::LEN + extensions_len;
        Ok(RoceView {
            frame,
            layout,
            payload: (start, layout.icrc - usize::from(pad)),
        })
    }

    /// Returns the base transport header of the packet.
    pub fn bth(&self) -> Bth<&'a [u8]> {
        Bth::new_unchecked(&self.frame[self.layout.bth..self.layout.icrc])
    }

    /// Returns the extension headers in the order of the frame.
    pub fn extensions(&self) -> impl Iterator<Item = Extension> + use<'a> {
        let mut rest = &self.frame[self.layout.bth + bth::LEN..self.payload.0];
        self.bth().opcode().extensions().iter().map_while(move |&kind| {
            let extension = Extension::parse(kind, rest).ok()?;
            rest = &rest[kind.header_len()..];
            Some(extension)
        })
    }

    /// Returns the payload of the packet, without pad bytes and ICRC.
    pub fn payload(&self) -> &'a [u8] {
        &self.frame[self.payload.0..self.payload.1]
    }

    /// Returns the UDP datagram: the UDP header and all bytes up to and including the ICRC.
    pub fn udp(&self) -> UdpPacket<&'a [u8]> {
        UdpPacket::new_unchecked(&self.frame[self.layout.udp..self.layout.icrc + crate::ICRC_LEN])
    }

    /// Returns the offset of the IP header in the frame, in bytes.
    pub fn ip_offset(&self) -> usize {
        self.layout.ip
    }

    /// Returns the traffic class byte of IP: DSCP (6 bits) and ECN (2 bits).
    pub fn tos(&self) -> u8 {
        let ip = &self.frame[self.layout.ip..];
        if self.is_ipv6() {
            ip[0] << 4 | ip[1] >> 4
        } else {
            ip[1]
        }
    }

    /// Returns whether the packet is IPv6 instead of IPv4.
    pub fn is_ipv6(&self) -> bool {
        self.layout.udp - self.layout.ip == IPV6_LEN
    }

    /// Returns whether the ICRC at the end of the frame is equal to the ICRC computed from the frame (IBTA
    /// annex A17).
    pub fn icrc_is_valid(&self) -> bool {
        icrc::is_stored_icrc_valid(self.frame, &self.layout)
    }
}

impl fmt::Display for RoceView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ip = &self.frame[self.layout.ip..];
        let (from, to) = (self.udp().src_port(), self.udp().dst_port());
        if self.is_ipv6() {
            let ip = Ipv6Packet::new_unchecked(ip);
            write!(f, "IP6 {}.{from} > {}.{to}", ip.src_addr(), ip.dst_addr())?;
        } else {
            let ip = Ipv4Packet::new_unchecked(ip);
            write!(f, "IP {}.{from} > {}.{to}", ip.src_addr(), ip.dst_addr())?;
        }
        write!(f, ": RoCEv2 tos {:#04x}, {}", self.tos(), self.bth())?;
        for extension in self.extensions() {
            write!(f, ", {extension}")?;
        }
        write!(f, ", length {}", self.payload().len())?;
        if !self.icrc_is_valid() {
            write!(f, ", bad ICRC")?;
        }
        Ok(())
    }
}
