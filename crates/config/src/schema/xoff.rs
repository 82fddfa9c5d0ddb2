//! What SONiC has no place for. Every scalar is a string, as in SONiC's own tables.
//!
//! `XOFF_SWITCH|localhost`: the switch as a whole.
//!
//! | field | meaning | unit | range | default |
//! |---|---|---|---|---|
//! | `cell_size` | buffer cell; a frame takes whole cells (SAI `SHARED_BUFFER_CELL_SIZE`) | bytes | 1 to 16384 | that of the chip (`asic`, or `platform` and `hwsku` of DEVICE_METADATA: docs/chips.md); 256 if the chip is not known, 128 in the dynamic buffer model |
//! | `pipeline_latency` | from the last bit of a frame to the earliest start of its departure | ns | 0 to 1000000000 | 0 |
//! | `mark_point` | where the queue length that decides on ECN and WRED is read, and frames are marked | - | `dequeue`, `enqueue` | `dequeue` |
//! | `seed` | of every random decision | - | 0 to 2^64-1 | the command line's |
//! | `fdb_ageing` | age after which a learnt MAC address is forgotten; 0: never | s | 0 to 1000000 | 600 |
//! | `fdb_entries` | most MAC addresses learnt | - | 1 to 1048576 | 65536 |
//! | `frames` | most frames in the switch at once | - | 64 to 1048576 | one per egress cell, 1024 to 131072 |
//! | `pause_quanta` | quanta in an XOFF frame, of 512 bit times each | quanta | 1 to 65535 | 65535 |
//! | `pause_refresh` | from one XOFF frame to the next while a group stays congested | ns | 1 to 1000000000 | half the pause, or the pause less the reaction budget if that is shorter |
//! | `hash_seed` | of the choice among equal-cost next hops and members of a LAG; switches with the same seed choose alike | - | 0 to 2^64-1 | follows from `seed` and the base MAC address |
//! | `resilient_buckets` | buckets of a next-hop group whose flows stay where they are when other members come and go; 0: plain hashing | - | 0 to 32768 (4096 are exact to 1 % with 32 members) | 0 |
//! | `neighbours` | most neighbours known at once, those of `NEIGH` included | - | 1 to 65536 | 4096 |
//! | `neighbour_hold` | most frames that wait for one neighbour's address; all together at most 1024 | frames | 0 to 1024 | 16 |
//! | `asic` | chip whose cell size and latencies are used | - | a name of docs/chips.md, such as `th2` or `spectrum3` | that of `platform` and `hwsku`, else `vs` |
//! | `asic_cell_size` | its buffer cell, in place of the chip's; `cell_size` is this one's where it is not given and headroom is computed | bytes | 1 to 16384 | the chip's: docs/chips.md |
//! | `asic_pipeline_latency` | what arrives before XOFF is sent, in place of the chip's | bytes | 0 to 2^32-1 | the chip's: docs/chips.md |
//! | `asic_mac_phy_delay` | what is on its way in MAC and PHY, in place of the chip's | bytes | 0 to 2^32-1 | 0.8 KiB |
//! | `asic_peer_response_time` | what a peer sends until it reacts, in place of the standard's value for the speed | bytes | 0 to 2^32-1 | the standard's; 3.8 KiB at speeds without one |
//! | `gearbox_delay` | delay of a gearbox between the chip and each cable; 0: none | ns | 0 to 1000000 | 0 |
//! | `buffer_size` | the whole buffer, of which the dynamic buffer model computes pools without a size | bytes | 1 to 2^32-1 | `egress_lossless_pool`'s size, or 33554432 |
//! | `icmp_rate` | most ICMP errors per second, of all kinds together; also the burst; 0: none | - | 0 to 1000000 | 100 |
//!
//! `XOFF_PORT|<port>`: one port. Other values than Ethernet's exist to be held against simulators that model
//! links otherwise.
//!
//! | field | meaning | unit | range | default |
//! |---|---|---|---|---|
//! | `overhead_bytes` | what a link spends on each frame beside the frame: preamble, start delimiter, gap | bytes | 0 to 1000 | 20 |
//! | `fcs_bytes` | what a link appends to what a socket sees | bytes | 0 to 64 | 4 |
//! | `min_frame_bytes` | smallest frame on the link, with its FCS | bytes | 1 to 9216 | 64 |
//! | `rounding_ps` | serialisation times are cut off to a multiple of this | ps | 1 to 1000000 | 1 |
//! | `pause_quanta` | as above, for this port | quanta | 1 to 65535 | the switch's |
//! | `pause_refresh` | as above, for this port | ns | 1 to 1000000000 | the switch's |
//! | `flow_control` | 802.3x pauses of the whole port, while it has no PFC: obeyed (`rx`), sent (`tx`), `both`, or neither | - | `off`, `rx`, `tx`, `both` | `rx` |
//!
//! `XOFF_PFC_WD|GLOBAL`: the PFC watchdog of the switch; the rest of it is in `PFC_WD`.
//!
//! | field | meaning | unit | range | default |
//! |---|---|---|---|---|
//! | `rule` | whose rule says when a paused queue is stormed in which nothing waits. `broadcom`: XOFF frames keep coming. `nvidia`: never. `vs`, SONiC's virtual switch: paused for more than four fifths of every poll interval | - | `broadcom`, `nvidia`, `vs` | `broadcom` |
//!
//! `XOFF_ROUTE|<prefix>`: what `STATIC_ROUTE` cannot say of the route to this prefix.
//!
//! | field | meaning | unit | range | default |
//! |---|---|---|---|---|
//! | `weight` | share of each next hop relative to the others: a list in step with those of `STATIC_ROUTE`; an empty item is 1 | - | 1 to 255 | 1 |

use super::{BYTES_MAX, Field, Fields, Kind, Part, Table};

/// A latency of a chip, as bytes at the speed of a port.
const CHIP_BYTES: Kind = Kind::number(0, u32::MAX as i128, "bytes");
use crate::headroom::ASIC_NAMES;

pub(super) const TABLES: &[Table] = &[
    Table {
        name: "XOFF_SWITCH",
        key: &[Part::Only("localhost")],
        fields: Fields::Named(SWITCH),
    },
    Table {
        name: "XOFF_PORT",
        key: &[Part::Port],
        fields: Fields::Named(PORT),
    },
    Table {
        name: "XOFF_PFC_WD",
        key: &[Part::Only(super::GLOBAL)],
        fields: Fields::Named(PFC_WD),
    },
    Table {
        name: "XOFF_ROUTE",
        key: &[Part::Prefix],
        fields: Fields::Named(ROUTE),
    },
];

const QUANTA: Kind = Kind::number(1, 65_535, "quanta");
const SECOND_IN_NS: i128 = 1_000_000_000;

const SWITCH: &[Field] = &[
    Field::new("cell_size", Kind::number(1, 16_384, "bytes")),
    Field::new("pipeline_latency", Kind::number(0, SECOND_IN_NS, "ns")),
    Field::new("mark_point", Kind::Choice(&["dequeue", "enqueue"])),
    Field::new("seed", Kind::number(0, u64::MAX as i128, "")),
    Field::new("fdb_ageing", Kind::number(0, 1_000_000, "s")),
    Field::new("fdb_entries", Kind::number(1, 1 << 20, "")),
    Field::new("frames", Kind::number(64, 1 << 20, "")),
    Field::new("pause_quanta", QUANTA),
    Field::new("pause_refresh", Kind::number(1, SECOND_IN_NS, "ns")),
    Field::new("hash_seed", Kind::number(0, u64::MAX as i128, "")),
    Field::new("resilient_buckets", Kind::number(0, 32_768, "")),
    Field::new("neighbours", Kind::number(1, 65_536, "")),
    Field::new("neighbour_hold", Kind::number(0, 1_024, "frames")),
    Field::new("asic", Kind::Choice(ASIC_NAMES)),
    Field::new("asic_cell_size", Kind::number(1, 16_384, "bytes")),
    Field::new("asic_pipeline_latency", CHIP_BYTES),
    Field::new("asic_mac_phy_delay", CHIP_BYTES),
    Field::new("asic_peer_response_time", CHIP_BYTES),
    Field::new("gearbox_delay", Kind::number(0, 1_000_000, "ns")),
    Field::new("buffer_size", Kind::number(1, BYTES_MAX as i128, "bytes")),
    Field::new("icmp_rate", Kind::number(0, 1_000_000, "per second")),
];

const PFC_WD: &[Field] = &[Field::new("rule", Kind::Choice(&["broadcom", "nvidia", "vs"]))];

const ROUTE: &[Field] = &[Field::required("weight", Kind::Each(&Kind::number(1, 255, "")))];

const PORT: &[Field] = &[
    Field::new("overhead_bytes", Kind::number(0, 1_000, "bytes")),
    Field::new("fcs_bytes", Kind::number(0, 64, "bytes")),
    Field::new("min_frame_bytes", Kind::number(1, 9_216, "bytes")),
    Field::new("rounding_ps", Kind::number(1, 1_000_000, "ps")),
    Field::new("pause_quanta", QUANTA),
    Field::new("pause_refresh", Kind::number(1, SECOND_IN_NS, "ns")),
    Field::new("flow_control", Kind::Choice(&["off", "rx", "tx", "both"])),
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
                assert!(
                    include_str!("xoff.rs").contains(&row),
                    "{} {}",
                    table.name,
                    field.name
                );
            }
        }
    }
}
