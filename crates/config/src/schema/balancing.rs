//! Tables for load balancing beyond SONiC's tables. All scalar values are strings, as in SONiC's tables.
//!
//! # `XOFF_LB|global`: load balancing of the switch
//!
//! - `scheme`: Scheme of all load balancing groups without a scheme of their own. `XOFF_LB_GROUP` takes
//!   precedence, followed by the schemes of the members (`ARS_NEXTHOPS`, `ARS_INTERFACES`). Values: a
//!   built-in scheme or an entry of `XOFF_LB_SCHEME`. Default: `ecmp`, or the scheme of `ARS_PROFILE`.
//! - `moves_kept`: Number of recent flow moves that the switch keeps with their reasons. With 0, moves are
//!   only counted. Range: 0 to 65536. Default: 256.
//! - `reordering_flows`: Number of queue pairs whose packets are checked for reordering on arrival. Range:
//!   0 to
//!   1048576. Default: 0.
//! - `advertise`: Information for the switches behind `advertise_ports`. `ways` sends the sites that the
//!   switch cannot reach. `on` also sends the load of its paths. `auto` is `on` if a scheme of the switch
//!   uses the load of other switches, and `ways` otherwise. Values: `auto`, `on`, `ways`, `off`. Default:
//!   `auto`.
//! - `advertise_interval`: Time between two link quality messages, if there is something to send. Unit: us.
//!   Range: 1 to
//!   1000000. Default: 16.
//! - `advertise_ports`: List of the ports that connect to other switches. Default: none.
//!
//! # `XOFF_LB_SCHEME|<name>`: a scheme with its own parameters
//!
//! An entry with the name of a built-in scheme changes this scheme. `docs/load-balancing.md` lists the
//! fields of each scheme and their defaults.
//!
//! - `scheme`: The built-in scheme on which this scheme is based. Default: the scheme with the name of the
//!   entry.
//! - `hash_fields`: The header fields that identify a flow. `five-tuple-qp` adds the destination queue pair
//!   of RoCEv2. `symmetric` gives the same hash in both directions. Values: `five-tuple`, `five-tuple-qp`,
//!   `symmetric`.
//! - `idle_time`: Idle time after which a flow may use another path. With 0, every packet may use another
//!   path. For `cluster`: idle time after which a queue pair is forgotten. Unit: us. Range: 0 to 10000000.
//! - `flowset_size`: Number of entries of the flow table of each group, a power of two. Flows with the same
//!   entry use the same path. Range: 256 to 32768. Default: 4096.
//! - `quality_delta`: Gain in quality bands that moves a flow before its idle time. With 0, such moves
//!   never happen. Range: 0 to 7. Default: 0.
//! - `probability`: Probability that a packet moves its flow for such a gain. Unit: percent. Range: 1 to
//!   100. Default: 1.
//! - `samples`: Number of random members that a packet compares. Range: 1 to 32. Default: 2.
//! - `memory`: Number of members that are compared again because they had the shortest queues. Range: 0 to
//!   32. Default: 1.
//! - `remote_weight`: Weight of the quality that other switches advertise, compared with the own link.
//!   Unit: percent. Range: 0 to 100. Default: 50.
//! - `flows_max`: Largest number of queue pairs in a group. Packets of further queue pairs are hashed.
//!   Range: 1 to
//!   1048576. Default: 131072.
//! - `primary_threshold`: A primary member is used if its quality band is below this value. It is also used
//!   if its band exceeds that of an alternate member by more than `alternate_cost` (SAI). With 16, only
//!   primary members are used. Range: 0 to 16. Default: 16.
//! - `alternate_cost`: Advantage in quality bands that an alternate member needs. Range: 0 to 16. Default: 0.
//!
//! # `XOFF_LB_GROUP|<prefix>`: routes within a prefix
//!
//! The entry with the longest prefix that contains a route applies.
//!
//! - `scheme`: Scheme of the load balancing groups of these routes.
//!
//! # `XOFF_LB_SITE|<prefix>`: location of the destinations within a prefix
//!
//! - `site`: Number of the leaf switch behind which the destinations are, unique in the fabric. Routes to
//!   different sites have separate groups if a scheme other than a hash is used. Range: 1 to 65535.
//!   Default: none.
//!
//! # `XOFF_LB_PORTCHANNEL|<LAG>`: load balancing of a LAG
//!
//! - `scheme`: Scheme of the LAG. Default: `ecmp`, or the scheme of `ARS_PROFILE`.
//!
//! # `XOFF_LB_LOAD|global`: measurement of the load of ports
//!
//! The load is the weighted mean of three measures and determines the quality band. The measures are the
//! average of the sent bytes (`past`), the average of the queued bytes (`future`) and the bytes in the
//! queue now (`current`). Limits are in permille of the bytes that the port can send in a sampling
//! interval.
//!
//! - `sampling_interval`: Time between two samples. Unit: us. Range: 1 to 1000000. Default: 16.
//! - `exponent`: A sample changes the average by 2^-exponent of their difference. Range: 0 to 16. Default: 2.
//! - `instant_drop`: Whether a sample below the average replaces the average (SAI `PORT_LOAD_CURRENT`).
//!   Values: `true`, `false`. Default: `false`.
//! - `past_weight`: Weight of the sent bytes. At least one of the three weights is not 0. Range: 0 to
//!   65535. Default: 16.
//! - `past_min`: Largest value that counts as no load. Unit: permille. Range: 0 to 100000. Default: 200.
//! - `past_max`: Smallest value that counts as full load. Unit: permille. Range: 1 to 100000. Default: 800.
//! - `future_weight`: Weight of the average of the queued bytes. Range: 0 to 65535. Default: 16.
//! - `future_min`: As `past_min`. Default: 200.
//! - `future_max`: As `past_max`. Default: 800.
//! - `current_weight`: Weight of the bytes in the queue now. Range: 0 to 65535. Default: 0.
//! - `current_min`: As `past_min`. Default: 200.
//! - `current_max`: As `past_max`. Default: 800.

use super::{FieldSchema, KeyPart, TableSchema, ValueKind};

/// Key of the entries that concern the whole switch.
pub(crate) const LB_GLOBAL: &str = "global";

pub(super) const TABLES: &[TableSchema] = &[
    TableSchema::named("XOFF_LB", &[KeyPart::Only(LB_GLOBAL)], GLOBAL_FIELDS),
    TableSchema::named("XOFF_LB_SCHEME", &[KeyPart::Object], SCHEME_FIELDS),
    TableSchema::named("XOFF_LB_GROUP", &[KeyPart::Prefix], SCHEME_NAME_FIELDS),
    TableSchema::named("XOFF_LB_SITE", &[KeyPart::Prefix], SITE_FIELDS),
    TableSchema::named(
        "XOFF_LB_PORTCHANNEL",
        &[KeyPart::LagReference],
        SCHEME_NAME_FIELDS,
    ),
    TableSchema::named("XOFF_LB_LOAD", &[KeyPart::Only(LB_GLOBAL)], LOAD_FIELDS),
];

const GLOBAL_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("scheme", ValueKind::Scheme),
    FieldSchema::new("moves_kept", ValueKind::number(0, 1 << 16, "")),
    FieldSchema::new("reordering_flows", ValueKind::number(0, 1 << 20, "")),
    FieldSchema::new("advertise", ValueKind::Choice(&["auto", "on", "ways", "off"])),
    FieldSchema::new("advertise_interval", ValueKind::number(1, 1_000_000, "us")),
    FieldSchema::new("advertise_ports", ValueKind::Ports),
];

const SCHEME_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("scheme", ValueKind::BuiltInScheme),
    FieldSchema::new(
        "hash_fields",
        ValueKind::Choice(&["five-tuple", "five-tuple-qp", "symmetric"]),
    ),
    FieldSchema::new("idle_time", ValueKind::number(0, 10_000_000, "us")),
    FieldSchema::new("flowset_size", ValueKind::number(256, 32_768, "")),
    FieldSchema::new("quality_delta", ValueKind::number(0, 7, "bands")),
    FieldSchema::new("probability", ValueKind::number(1, 100, "percent")),
    FieldSchema::new("samples", ValueKind::number(1, 32, "")),
    FieldSchema::new("memory", ValueKind::number(0, 32, "")),
    FieldSchema::new("remote_weight", ValueKind::number(0, 100, "percent")),
    FieldSchema::new("flows_max", ValueKind::number(1, 1 << 20, "")),
    FieldSchema::new("primary_threshold", ValueKind::number(0, 16, "")),
    FieldSchema::new("alternate_cost", ValueKind::number(0, 16, "")),
];

const SCHEME_NAME_FIELDS: &[FieldSchema] = &[FieldSchema::required("scheme", ValueKind::Scheme)];

const SITE_FIELDS: &[FieldSchema] = &[FieldSchema::required(
    "site",
    ValueKind::number(1, u16::MAX as i128, ""),
)];

const WEIGHT: ValueKind = ValueKind::number(0, u16::MAX as i128, "");
const LIMIT_MIN: ValueKind = ValueKind::number(0, 100_000, "permille");
const LIMIT_MAX: ValueKind = ValueKind::number(1, 100_000, "permille");

const LOAD_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("sampling_interval", ValueKind::number(1, 1_000_000, "us")),
    FieldSchema::new("exponent", ValueKind::number(0, 16, "")),
    FieldSchema::new("instant_drop", ValueKind::Choice(&["true", "false"])),
    FieldSchema::new("past_weight", WEIGHT),
    FieldSchema::new("past_min", LIMIT_MIN),
    FieldSchema::new("past_max", LIMIT_MAX),
    FieldSchema::new("future_weight", WEIGHT),
    FieldSchema::new("future_min", LIMIT_MIN),
    FieldSchema::new("future_max", LIMIT_MAX),
    FieldSchema::new("current_weight", WEIGHT),
    FieldSchema::new("current_min", LIMIT_MIN),
    FieldSchema::new("current_max", LIMIT_MAX),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_documented() {
        super::super::assert_fields_are_listed(TABLES, include_str!("balancing.rs"));
    }
}
