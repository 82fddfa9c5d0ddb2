//! Reads and changes the network configuration of the kernel: namespaces, links and their offloads.
//!
//! All functions are synchronous and act on the network namespace of the calling thread. To act on another
//! namespace, call the function through [`Netns::run`]. Each call opens a new netlink socket. An existing
//! socket could not be used, because a socket stays in the namespace in which it was opened.

mod address;
mod error;
pub mod ethtool;
mod link;
mod link_speed;
mod netlink;
mod netns;
mod peer_namespace;
mod userns;
mod veth;

pub use address::{add_address, add_route, enable_ipv6};
pub use error::{Error, Result};
pub use link::check_name;
pub use link::{
    LinkChange, LinkState, delete_link, disable_ipv6, list_links, move_link, read_link, set_link,
};
pub(crate) use link::{add_alt_name, remove_alt_name};
pub use link_speed::read_link_speed_mbps;
pub use netns::{Netns, NetnsId};
pub use peer_namespace::{PeerNamespace, peer_namespace};
pub use userns::enter_user_namespace;
pub use veth::{PeerChange, add_veth, disable_peer_offloads, enable_inline_peer_tags, restore_peer_features};
