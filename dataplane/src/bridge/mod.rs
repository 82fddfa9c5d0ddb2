//! Layer-2 forwarding: which VLAN a frame is in, where its destination lives, how it leaves.

mod fdb;
mod mac;
mod vlan;

pub use fdb::Fdb;
pub(crate) use fdb::FixedHasher;
pub use mac::Mac;
pub(crate) use vlan::{TagEdit, VlanTable};
