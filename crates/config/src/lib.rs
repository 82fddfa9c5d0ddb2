//! A switch's configuration: SONiC's `config_db.json`, read, checked and resolved for the data plane.
//!
//! ```text
//! text ──parse──▶ ConfigDb ──merge (layers)──▶ ConfigDb ──resolve──▶ SwitchConfig + warnings
//!                    ▲  │                         │
//!                 preset └─ to_json             diff
//! ```
//!
//! Names, types, units and ranges are SONiC's (its YANG models); what SONiC has no place for is in tables
//! whose names begin with `XOFF_`, documented in `schema/xoff.rs`. Nothing is ignored in silence:
//!
//! - a table, key or field that SONiC has and this switch does not act on is named in a warning, with the
//!   reason (fields that only describe, such as `alias` or `lanes`, pass without one);
//! - a name that nobody knows, a value out of range, a reference to nothing and a contradiction are
//!   [`Problems`]: all of them, sorted, one line each, [exit code 4](Problems::EXIT_CODE).
//!
//! Defaults, where the file says nothing: `{}` and some ports on the command line are a working switch.
//!
//! | what | default | source |
//! |---|---|---|
//! | `PORT.speed` | 1000 Mb/s | what two cores forward in real time |
//! | `PORT.mtu` | 1500 | what a veth is born with; SONiC's images write 9100 into the file |
//! | `PORT.admin_status` | up on the command line, else down | SONiC: down |
//! | no map bound in `PORT_QOS_MAP` | class 0, queue 0, group 0; PFC maps identity | SAI: no map |
//! | an entry missing in a map | 0; PFC maps identity | SAI |
//! | no `BUFFER_PG`, `BUFFER_QUEUE` entry | lossy profile of a built-in pool of 16 MiB | - |
//! | no `QUEUE` entry | DWRR, weight 1 | SAI |
//! | no VLAN, no INTERFACE, no PORTCHANNEL_INTERFACE | one bridge that does not look at tags | - |
//! | MTU of an interface | of its port; of the smallest member of its LAG or VLAN | SONiC: 9100 |
//! | MAC address of an interface | `DEVICE_METADATA.mac` | SONiC |
//! | IPv6 on an interface | with a link-local address that follows from the MAC address | RFC 4291 |
//! | `STATIC_ROUTE.distance` | 1, also for 0 | FRR |

mod asic;
pub mod balancing;
mod chip;
mod db;
mod diff;
mod follow_up;
mod headroom;
mod invariants;
mod json;
mod merge;
mod natural;
mod pg_profiles;
mod preset;
mod problem;
mod read;
mod resolve;
mod schema;
mod unused;

#[cfg(test)]
mod tests;

pub use db::ConfigDb;
pub use diff::{Change, diff};
pub use merge::merge;
pub use natural::compare as natural_order;
pub use pg_profiles::PgProfiles;
pub use preset::{PRESETS, UnknownPreset, preset};
pub use problem::{Problem, Problems};
pub use read::parse_valid_part;
pub use read::{parse, parse_asic, parse_layers};
pub use resolve::{Attachment, Loaded, PORTS_MAX, Resolve, Resolved, StaticRoute, hash_seed, load, resolve};
