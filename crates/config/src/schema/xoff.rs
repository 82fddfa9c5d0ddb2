//! Tables of xoff for settings that SONiC does not have. All scalar values are strings, as in SONiC's tables.
//!
//! # `XOFF_SWITCH|localhost`: the whole switch
//!
//! - `cell_size`: Size of a buffer cell in bytes (SAI `SHARED_BUFFER_CELL_SIZE`). A frame occupies whole
//!   cells. Range: 1 to 16384. Default: the cell size of the chip. The chip follows from `asic`, or from
//!   `platform` and `hwsku` of `DEVICE_METADATA` (docs/chips.md). For an unknown chip, the default is 256,
//!   or 128 in the dynamic buffer model.
//! - `pipeline_latency`: Time from the last bit of a received frame to the earliest start of its
//!   transmission. Unit: ns. Range: 0 to 1000000000. Default: 0.
//! - `mark_point`: Point at which the switch reads the queue length for ECN and WRED, and marks frames.
//!   Values: `dequeue`, `enqueue`. Default: `dequeue`.
//! - `seed`: Seed of all random decisions. Range: 0 to 2^64-1. Default: the seed of the command line.
//! - `fdb_ageing`: Age after which a learned MAC address is forgotten. With 0, addresses are never
//!   forgotten. Unit: s. Range: 0 to 1000000. Default: 600.
//! - `fdb_entries`: Largest number of learned MAC addresses. Range: 1 to 1048576. Default: 65536.
//! - `frames`: Largest number of frames in the switch. Range: 64 to 1048576. Default: one frame for each
//!   egress cell, but at least 1024 and at most 131072.
//! - `pause_quanta`: Pause time in an XOFF frame, in quanta of 512 bit times. Range: 1 to 65535. Default:
//!   65535.
//! - `pause_refresh`: Time between two XOFF frames while a priority group is in XOFF. Unit: ns. Range: 1 to
//!   1000000000. Default: half the pause time, or the pause time less the reaction budget if this is
//!   shorter.
//! - `hash_seed`: Seed of the hash that selects next hops and members of a LAG. Switches with the same seed
//!   select the same members. Range: 0 to 2^64-1. Default: derived from `seed` and the base MAC address.
//! - `resilient_buckets`: Number of buckets of a resilient load balancing group, in which flows keep their
//!   member when other members change. With 0, the hash selects the member directly. Range: 0 to 32768.
//!   With 4096 buckets and 32 members, the distribution is exact to 1 %. Default: 0.
//! - `neighbours`: Largest number of neighbours, including those of `NEIGH`. Range: 1 to 65536. Default:
//!   4096.
//! - `neighbour_hold`: Largest number of frames that wait for the address of one neighbour. At most 1024
//!   frames wait for all neighbours together. Range: 0 to 1024. Default: 16.
//! - `asic`: Name of the chip with the cell size and latencies of the switch, such as `th2` or `spectrum3`
//!   (docs/chips.md). Default: the chip of `platform` and `hwsku`, or `vs`.
//! - `asic_cell_size`: Cell size for computed headroom, instead of the chip's cell size. It is also the
//!   default of `cell_size` if headroom is computed. Unit: bytes. Range: 1 to 16384.
//! - `asic_pipeline_latency`: Bytes that arrive before the switch sends XOFF, instead of the chip's value.
//!   Range: 0 to 2^32-1.
//! - `asic_mac_phy_delay`: Bytes in flight in MAC and PHY, instead of the chip's value. Range: 0 to 2^32-1.
//!   Default: 0.8 KiB.
//! - `asic_peer_response_time`: Bytes that a peer sends before it reacts, instead of the value of IEEE
//!   802.3 for the speed. Range: 0 to 2^32-1. Default: the value of the standard, or 3.8 KiB at speeds
//!   without a value.
//! - `gearbox_delay`: Delay of a gearbox between the chip and each cable. With 0, there is no gearbox.
//!   Unit: ns. Range: 0 to 1000000. Default: 0.
//! - `buffer_size`: Size of the whole buffer in bytes. The dynamic buffer model derives the sizes of pools
//!   from it. Range: 1 to 2^48. Default: the size of `egress_lossless_pool`, or 33554432.
//! - `icmp_rate`: Largest number of ICMP errors per second of all kinds, and the largest burst. With 0, the
//!   switch sends no ICMP errors. Range: 0 to 1000000. Default: 100.
//!
//! # `XOFF_PORT|<port>`: one port
//!
//! The defaults are those of Ethernet. Other values allow a comparison with simulators that model links
//! differently.
//!
//! - `overhead_bytes`: Bytes on the link for each frame in addition to the frame: preamble, start delimiter
//!   and gap. Range: 0 to 1000. Default: 20.
//! - `fcs_bytes`: Bytes that the link appends to the frame that a socket sees. Range: 0 to 64. Default: 4.
//! - `min_frame_bytes`: Length of the smallest frame on the link, with its FCS. Range: 1 to 9216. Default:
//!   64.
//! - `rounding_ps`: Serialisation times are rounded down to a multiple of this time. Unit: ps. Range: 1 to
//!   1000000. Default: 1.
//! - `pause_quanta`: As in `XOFF_SWITCH`, for this port. Default: the value of the switch.
//! - `pause_refresh`: As in `XOFF_SWITCH`, for this port. Default: the value of the switch.
//! - `flow_control`: Use of 802.3x pauses on a port without PFC. The port honours them (`rx`), sends them
//!   (`tx`), does both (`both`) or neither (`off`). Default: `rx`.
//!
//! # `XOFF_PFC_WD|GLOBAL`: the PFC watchdog of the switch
//!
//! - `rule`: Rule for a storm of a paused queue without waiting frames. With `broadcom`, XOFF frames must
//!   keep arriving. With `nvidia`, such a queue is never in a storm. With `vs`, SONiC's virtual switch, the
//!   queue must be paused for more than 80 % of every poll interval. Default: `broadcom`.
//!
//! # `XOFF_ROUTE|<prefix>`: additional fields of a route in `STATIC_ROUTE`
//!
//! - `weight`: List of the relative weights of the next hops, in the order of `STATIC_ROUTE`. An empty item
//!   is 1. Range: 1 to 255. Default: 1.

use super::{BYTES_MAX, FieldSchema, KeyPart, TableSchema, ValueKind};

/// A latency of a chip in bytes at the speed of the port.
const CHIP_BYTES: ValueKind = ValueKind::number(0, u32::MAX as i128, "bytes");
use crate::headroom::ASIC_NAMES;

pub(super) const TABLES: &[TableSchema] = &[
    TableSchema::named("XOFF_SWITCH", &[KeyPart::Only("localhost")], SWITCH_FIELDS),
    TableSchema::named("XOFF_PORT", &[KeyPart::Port], PORT_FIELDS),
    TableSchema::named("XOFF_PFC_WD", &[KeyPart::Only(super::GLOBAL)], WATCHDOG_FIELDS),
    TableSchema::named("XOFF_ROUTE", &[KeyPart::Prefix], ROUTE_FIELDS),
];

const QUANTA: ValueKind = ValueKind::number(1, 65_535, "quanta");
const SECOND_IN_NS: i128 = 1_000_000_000;

const SWITCH_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("cell_size", ValueKind::number(1, 16_384, "bytes")),
    FieldSchema::new("pipeline_latency", ValueKind::number(0, SECOND_IN_NS, "ns")),
    FieldSchema::new("mark_point", ValueKind::Choice(&["dequeue", "enqueue"])),
    FieldSchema::new("seed", ValueKind::number(0, u64::MAX as i128, "")),
    FieldSchema::new("fdb_ageing", ValueKind::number(0, 1_000_000, "s")),
    FieldSchema::new("fdb_entries", ValueKind::number(1, 1 << 20, "")),
    FieldSchema::new("frames", ValueKind::number(64, 1 << 20, "")),
    FieldSchema::new("pause_quanta", QUANTA),
    FieldSchema::new("pause_refresh", ValueKind::number(1, SECOND_IN_NS, "ns")),
    FieldSchema::new("hash_seed", ValueKind::number(0, u64::MAX as i128, "")),
    FieldSchema::new("resilient_buckets", ValueKind::number(0, 32_768, "")),
    FieldSchema::new("neighbours", ValueKind::number(1, 65_536, "")),
    FieldSchema::new("neighbour_hold", ValueKind::number(0, 1_024, "frames")),
    FieldSchema::new("asic", ValueKind::Choice(ASIC_NAMES)),
    FieldSchema::new("asic_cell_size", ValueKind::number(1, 16_384, "bytes")),
    FieldSchema::new("asic_pipeline_latency", CHIP_BYTES),
    FieldSchema::new("asic_mac_phy_delay", CHIP_BYTES),
    FieldSchema::new("asic_peer_response_time", CHIP_BYTES),
    FieldSchema::new("gearbox_delay", ValueKind::number(0, 1_000_000, "ns")),
    FieldSchema::new("buffer_size", ValueKind::number(1, BYTES_MAX as i128, "bytes")),
    FieldSchema::new("icmp_rate", ValueKind::number(0, 1_000_000, "per second")),
];

const WATCHDOG_FIELDS: &[FieldSchema] = &[FieldSchema::new(
    "rule",
    ValueKind::Choice(&["broadcom", "nvidia", "vs"]),
)];

const ROUTE_FIELDS: &[FieldSchema] = &[FieldSchema::required(
    "weight",
    ValueKind::Each(&ValueKind::number(1, 255, "")),
)];

const PORT_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("overhead_bytes", ValueKind::number(0, 1_000, "bytes")),
    FieldSchema::new("fcs_bytes", ValueKind::number(0, 64, "bytes")),
    FieldSchema::new("min_frame_bytes", ValueKind::number(1, 9_216, "bytes")),
    FieldSchema::new("rounding_ps", ValueKind::number(1, 1_000_000, "ps")),
    FieldSchema::new("pause_quanta", QUANTA),
    FieldSchema::new("pause_refresh", ValueKind::number(1, SECOND_IN_NS, "ns")),
    FieldSchema::new("flow_control", ValueKind::Choice(&["off", "rx", "tx", "both"])),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_documented() {
        super::super::assert_fields_are_listed(TABLES, include_str!("xoff.rs"));
    }
}
