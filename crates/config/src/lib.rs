//! The configuration of a switch: SONiC's `config_db.json`, parsed, checked and resolved for the data plane.
//!
//! [`load`] does all steps at once. The function parses and merges several layers of JSON text, checks the
//! result, and applies defaults. It returns the [`SwitchConfig`] of the data plane with all warnings.
//!
//! ```
//! use xoff_config::{ResolveOptions, load};
//!
//! let text = r#"{
//!     "PORT": {
//!         "Ethernet0": {"speed": "100000", "mtu": "9100", "admin_status": "up"},
//!         "Ethernet4": {"speed": "100000", "mtu": "9100", "admin_status": "up"}
//!     },
//!     "PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3,4"}}
//! }"#;
//! let loaded = load(&[("config_db.json", text)], &ResolveOptions::default())?;
//!
//! let ethernet0 = &loaded.resolved.config.ports[0];
//! assert_eq!(ethernet0.name, "Ethernet0");
//! assert_eq!(ethernet0.mtu, 9_100);
//! assert_eq!(ethernet0.pfc.enabled, 0b0001_1000);
//! # Ok::<(), xoff_config::Problems>(())
//! ```
//!
//! The steps are also available as separate functions:
//!
//! - [`parse`], [`parse_asic_part`] and [`parse_layers`] convert text into a [`ConfigDb`].
//! - [`merge_layers`] merges several layers as JSON merge patches, and [`diff_configs`] lists the changes
//!   between two configurations.
//! - [`resolve`] converts a [`ConfigDb`] into a [`ResolvedConfig`].
//! - [`build_preset`] creates a complete configuration, such as `roce-lossless`.
//!
//! Names, types, units and ranges are those of SONiC's YANG models. Tables with names that begin with `XOFF_`
//! contain settings that SONiC does not have. `docs/xoff-tables.md` describes the fields of these tables.
//!
//! # Errors and warnings
//!
//! Unknown names, values out of range, invalid references and contradictions are errors. [`Problems`]
//! contains all errors of a configuration, sorted by their location. A program that stops because of these
//! errors ends with the [exit code 4](Problems::EXIT_CODE).
//!
//! Some tables and fields of SONiC have no effect in xoff. A warning lists them with the reason. Fields that
//! only describe an object, such as `alias` and `lanes`, cause no warning.
//!
//! # Defaults
//!
//! A switch works with the empty configuration `{}` if the command line names its ports.
//!
//! | setting | default | source |
//! |---|---|---|
//! | `PORT.speed` | 1000 Mb/s | the speed that two CPU cores forward in real time |
//! | `PORT.mtu` | in `xoff switch run`, the MTU of the network device (68 to 9216), as soon as the device exists; otherwise 1500 | the MTU of a new veth device is 1500; the images of SONiC write 9100 into the file |
//! | `PORT.admin_status` | up for ports on the command line, otherwise down | SONiC: down |
//! | missing map in `PORT_QOS_MAP` | class 0, queue 0, priority group 0; identity for PFC maps | SAI: no map |
//! | missing entry in a map | 0; identity for PFC maps | SAI |
//! | missing `BUFFER_PG` or `BUFFER_QUEUE` entry | lossy profile of a built-in pool of 16 MiB | - |
//! | missing `QUEUE` entry | DWRR, weight 1 | SAI |
//! | no VLAN, INTERFACE or PORTCHANNEL_INTERFACE | one bridge that ignores VLAN tags | - |
//! | MTU of an interface | MTU of its port, or the smallest MTU of the members of its LAG or VLAN | SONiC: 9100 |
//! | MAC address of an interface | `DEVICE_METADATA.mac` | SONiC |
//! | IPv6 on an interface | a link-local address that is derived from the MAC address | RFC 4291 |
//! | `STATIC_ROUTE.distance` | 1, also for 0 | FRR |
//!
//! [`SwitchConfig`]: xoff_dataplane::config::SwitchConfig

pub mod balancing;
mod chip;
mod db;
mod diff;
mod headroom;
mod invariants;
mod json;
mod memory;
mod merge;
mod multi_asic;
mod natural;
mod pg_profile_lookup;
mod preset;
mod problem;
mod queue_filter;
mod read;
mod resolve;
mod root_cause;
mod schema;

#[cfg(test)]
mod tests;

pub use db::ConfigDb;
pub use diff::{FieldChange, diff_configs};
pub use invariants::PORTS_MAX;
pub use memory::estimate_memory;
pub use merge::merge_layers;
pub use natural::compare_naturally;
pub use pg_profile_lookup::PgProfileLookup;
pub use preset::{PRESETS, UnknownPreset, build_preset};
pub use problem::{Problem, Problems};
pub use read::parse_valid_entries;
pub use read::{parse, parse_asic_part, parse_layers};
pub use resolve::{
    ComputedRoutes, DeviceDefaults, DeviceMtu, LoadedConfig, PORT_LINK, PORT_MTU_MAX, PORT_OPTION,
    PortAttachment, ResolveOptions, ResolvedConfig, StaticRoute, SwitchTemplate, describe_lost_frames,
    hash_seed, load, proposes_dilation, resolve,
};
pub use schema::xoff_tables_markdown;
