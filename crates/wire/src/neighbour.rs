//! ARP (RFC 826) and neighbour discovery (RFC 4861): received messages, and frames to send.
//!
//! [`NeighbourMessage`] is a received ARP packet, neighbour solicitation or neighbour advertisement. The
//! caller decides which senders to accept. [`NeighbourFrame`] is a request, a reply or an announcement
//! to send.

mod frame;
mod message;

pub use frame::{NeighbourFrame, solicited_node_address};
pub use message::NeighbourMessage;

#[cfg(test)]
mod tests;
