//! Layer-2 forwarding: VLANs, MAC addresses and the forwarding database.

mod fdb;
mod mac;
mod mac_moves;
mod vlan;

pub(crate) use fdb::DeterministicHasher;
pub use fdb::Fdb;
pub use mac::MacAddress;
pub(crate) use mac_moves::FrequentMove;
pub(crate) use vlan::{VlanTable, VlanTagAction};
