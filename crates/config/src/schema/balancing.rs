//! Load balancing beyond SONiC's tables. Every scalar is a string, as in SONiC's own tables.
//!
//! `XOFF_LB|global`: load balancing of the switch.
//!
//! | field | meaning | unit | range | default |
//! |---|---|---|---|---|
//! | `scheme` | scheme of every group of next hops for which nothing else names one: that of `XOFF_LB_GROUP` first, then that of its members (`ARS_NEXTHOPS`, `ARS_INTERFACES`), then this | - | a built-in scheme or an entry of `XOFF_LB_SCHEME` | `ecmp`, or what `ARS_PROFILE` says |
//! | `moves_kept` | latest flows placed or moved that are kept with their reasons; 0: they are only counted | - | 0 to 65536 | 256 |
//! | `reordering_flows` | queue pairs whose packets are looked at for reordering as they arrive; 0: none | - | 0 to 1048576 | 0 |
//! | `advertise` | what the switch tells the switches behind `advertise_ports`. `ways`: which sites it has no way to any more. `on`: that, and the load of its ways. `auto`: `on` if one of its own schemes weighs what others tell, else `ways` | - | `auto`, `on`, `ways`, `off` | `auto` |
//! | `advertise_interval` | time between two messages while there is something to tell | us | 1 to 1000000 | 16 |
//! | `advertise_ports` | ports towards other switches: a list | - | ports | none |
//!
//! `XOFF_LB_SCHEME|<name>`: a scheme with figures of its own; the name of a built-in one changes that one. Which scheme has which
//! field, and the built-in figures, are in `docs/load-balancing.md`.
//!
//! | field | meaning | unit | range | default |
//! |---|---|---|---|---|
//! | `scheme` | the built-in scheme that it is | - | a built-in scheme | the entry's name |
//! | `hash_fields` | what tells flows apart; `five-tuple-qp` adds the destination queue pair of RoCEv2, `symmetric` is the same in both directions | - | `five-tuple`, `five-tuple-qp`, `symmetric` | the scheme's |
//! | `idle_time` | silence after which a flow may take another path; 0: every packet may. Of `cluster`: silence after which a queue pair gives up its place | us | 0 to 10000000 | the scheme's |
//! | `flowset_size` | entries of each group's flow table: a power of two; flows that share one share their path | - | 256 to 32768 | 4096 |
//! | `quality_delta` | quality bands to be gained for a flow to move although it was not silent; 0: it never does | - | 0 to 7 | 0 |
//! | `probability` | chance that a packet that finds such a gain moves its flow | percent | 1 to 100 | 1 |
//! | `samples` | members that a packet looks at by chance | - | 1 to 32 | 2 |
//! | `memory` | members that are looked at again because they were the emptiest | - | 0 to 32 | 1 |
//! | `remote_weight` | part of other switches' word in the quality of a path | percent | 0 to 100 | 50 |
//! | `flows_max` | most queue pairs that a group knows; beyond, packets are hashed | - | 1 to 1048576 | 131072 |
//! | `primary_threshold` | primary members are taken if their band is below this, or better than an alternate one's by more than `alternate_cost` (SAI); 16: always | - | 0 to 16 | 16 |
//! | `alternate_cost` | what alternate members must be better by | - | 0 to 16 | 0 |
//!
//! `XOFF_LB_GROUP|<prefix>`: routes within this prefix, the longest that contains them deciding.
//!
//! | field | meaning | unit | range | default |
//! |---|---|---|---|---|
//! | `scheme` | scheme of the groups of next hops of these routes | - | as above | - |
//!
//! `XOFF_LB_SITE|<prefix>`: where the destinations of this prefix are.
//!
//! | field | meaning | unit | range | default |
//! |---|---|---|---|---|
//! | `site` | the number, in the whole fabric, of the switch behind which they are; routes to different sites have groups of their own, if any scheme but hashing is used | - | 1 to 65535 | none |
//!
//! `XOFF_LB_PORTCHANNEL|<LAG>`: a LAG.
//!
//! | field | meaning | unit | range | default |
//! |---|---|---|---|---|
//! | `scheme` | how it chooses among its members | - | as above | `ecmp`, or what `ARS_PROFILE` says |
//!
//! `XOFF_LB_LOAD|global`: how the load of ports is measured. Each of three measures (`past`: what was sent, average; `future`: what
//! was queued, average; `current`: what is queued now) is placed between its limits; the weighted mean is the load, from which the
//! quality band follows. Permille are of what the port sends in a sampling interval.
//!
//! | field | meaning | unit | range | default |
//! |---|---|---|---|---|
//! | `sampling_interval` | time between samples | us | 1 to 1000000 | 16 |
//! | `exponent` | a sample changes the average by 2^-exponent of their difference | - | 0 to 16 | 2 |
//! | `instant_drop` | a sample below the average replaces it (SAI `PORT_LOAD_CURRENT`) | - | `true`, `false` | `false` |
//! | `past_weight` | weight of what was sent; all three weights must not be 0 | - | 0 to 65535 | 16 |
//! | `past_min` | up to this it counts as nothing | permille | 0 to 100000 | 200 |
//! | `past_max` | from this on it counts in full | permille | 1 to 100000 | 800 |
//! | `future_weight` | weight of what was queued | - | 0 to 65535 | 16 |
//! | `future_min` | as `past_min` | permille | 0 to 100000 | 200 |
//! | `future_max` | as `past_max` | permille | 1 to 100000 | 800 |
//! | `current_weight` | weight of what is queued now | - | 0 to 65535 | 0 |
//! | `current_min` | as `past_min` | permille | 0 to 100000 | 200 |
//! | `current_max` | as `past_max` | permille | 1 to 100000 | 800 |

use super::{Field, Fields, Kind, Part, Table};

/// The key of what holds for the whole switch.
pub(crate) const LB_GLOBAL: &str = "global";

pub(super) const TABLES: &[Table] = &[
    table("XOFF_LB", &[Part::Only(LB_GLOBAL)], WHOLE),
    table("XOFF_LB_SCHEME", &[Part::Object], SCHEME),
    table("XOFF_LB_GROUP", &[Part::Prefix], NAMED),
    table("XOFF_LB_SITE", &[Part::Prefix], SITE),
    table("XOFF_LB_PORTCHANNEL", &[Part::LagReference], NAMED),
    table("XOFF_LB_LOAD", &[Part::Only(LB_GLOBAL)], LOAD),
];

const fn table(name: &'static str, key: &'static [Part], fields: &'static [Field]) -> Table {
    Table {
        name,
        key,
        fields: Fields::Named(fields),
    }
}

const WHOLE: &[Field] = &[
    Field::new("scheme", Kind::Scheme),
    Field::new("moves_kept", Kind::number(0, 1 << 16, "")),
    Field::new("reordering_flows", Kind::number(0, 1 << 20, "")),
    Field::new("advertise", Kind::Choice(&["auto", "on", "ways", "off"])),
    Field::new("advertise_interval", Kind::number(1, 1_000_000, "us")),
    Field::new("advertise_ports", Kind::Ports),
];

const SCHEME: &[Field] = &[
    Field::new("scheme", Kind::BuiltInScheme),
    Field::new(
        "hash_fields",
        Kind::Choice(&["five-tuple", "five-tuple-qp", "symmetric"]),
    ),
    Field::new("idle_time", Kind::number(0, 10_000_000, "us")),
    Field::new("flowset_size", Kind::number(256, 32_768, "")),
    Field::new("quality_delta", Kind::number(0, 7, "bands")),
    Field::new("probability", Kind::number(1, 100, "percent")),
    Field::new("samples", Kind::number(1, 32, "")),
    Field::new("memory", Kind::number(0, 32, "")),
    Field::new("remote_weight", Kind::number(0, 100, "percent")),
    Field::new("flows_max", Kind::number(1, 1 << 20, "")),
    Field::new("primary_threshold", Kind::number(0, 16, "")),
    Field::new("alternate_cost", Kind::number(0, 16, "")),
];

const NAMED: &[Field] = &[Field::required("scheme", Kind::Scheme)];

const SITE: &[Field] = &[Field::required("site", Kind::number(1, u16::MAX as i128, ""))];

const WEIGHT: Kind = Kind::number(0, u16::MAX as i128, "");
const LIMIT_MIN: Kind = Kind::number(0, 100_000, "permille");
const LIMIT_MAX: Kind = Kind::number(1, 100_000, "permille");

const LOAD: &[Field] = &[
    Field::new("sampling_interval", Kind::number(1, 1_000_000, "us")),
    Field::new("exponent", Kind::number(0, 16, "")),
    Field::new("instant_drop", Kind::Choice(&["true", "false"])),
    Field::new("past_weight", WEIGHT),
    Field::new("past_min", LIMIT_MIN),
    Field::new("past_max", LIMIT_MAX),
    Field::new("future_weight", WEIGHT),
    Field::new("future_min", LIMIT_MIN),
    Field::new("future_max", LIMIT_MAX),
    Field::new("current_weight", WEIGHT),
    Field::new("current_min", LIMIT_MIN),
    Field::new("current_max", LIMIT_MAX),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables above are what users read: a field that is missing there does not exist for them.
    #[test]
    fn every_field_is_documented() {
        for table in TABLES {
            let Fields::Named(fields) = table.fields else {
                panic!("{} is no map", table.name)
            };
            for field in fields {
                let row = format!("//! | `{}` |", field.name);
                let text = include_str!("balancing.rs");
                assert!(text.contains(&row), "{} {}", table.name, field.name);
            }
        }
    }
}
