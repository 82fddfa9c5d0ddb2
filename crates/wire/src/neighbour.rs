//! ARP (RFC 826) and neighbour discovery (RFC 4861): received messages, and frames to send.
//!
//! [`NeighbourMessage`] is a received ARP packet, neighbour solicitation or neighbour advertisement. The
//! caller decides which senders it accepts. [`NeighbourFrame`] is a request, a reply or an announcement to
//! send.

mod frame;
mod message;

pub use frame::NeighbourFrame;
pub use message::NeighbourMessage;

use core::net::Ipv6Addr;

/// Hop limit of neighbour discovery. A packet with another hop limit has crossed a router (RFC 4861 7.1).
const NDISC_HOP_LIMIT: u8 = 255;

/// Returns the solicited-node multicast address of an address: ff02::1:ff00:0/104 with the low 24 bits of the
/// address (RFC 4291 2.7.1).
pub const fn solicited_node_address(address: Ipv6Addr) -> Ipv6Addr {
    const GROUP: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    Ipv6Addr::from_bits(GROUP | address.to_bits() & 0x00ff_ffff)
}

#[cfg(test)]
mod tests;
