//! The kernel's side of a port: namespaces, links and their offloads.
//!
//! Everything here is synchronous and acts on the network namespace of the calling thread, with a fresh
//! netlink socket per call: set-up is rare, and a socket kept open would belong to the namespace it was
//! opened in rather than to the one the caller is in now. To act elsewhere, use [`Netns::run`].

mod address;
mod error;
pub mod ethtool;
mod link;
mod netlink;
mod netns;
mod reach;
mod userns;
mod veth;

pub use address::{add_address, add_route, enable_ipv6};
pub use error::{Error, Result};
pub use link::check_name;
pub use link::{LinkChange, LinkFacts, delete_link, disable_ipv6, link, links, move_link, set_link};
pub use netns::{Netns, NetnsId};
pub use reach::peer_namespace;
pub use userns::enter_user_namespace;
pub use veth::{PeerOffloads, add_veth, clear_peer_offloads, inline_peer_tags};
