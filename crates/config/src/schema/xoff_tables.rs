//! Tables of xoff for settings that SONiC does not have. All scalar values are strings, as in SONiC's tables.
//!
//! `docs/xoff-tables.md` is generated from these schemas.

use super::{BYTES_MAX, FieldSchema, KeyPart, TableSchema, ValueKind};
use crate::headroom::ASIC_NAMES;

/// A latency of a chip, as the number of bytes that a port receives during this time.
const CHIP_BYTES: ValueKind = ValueKind::number(0, u32::MAX as i128, "bytes");

pub(super) const TABLES: &[TableSchema] = &[
    TableSchema::named("XOFF_SWITCH", &[KeyPart::Only("localhost")], SWITCH_FIELDS)
        .documented("The whole switch."),
    TableSchema::named("XOFF_PORT", &[KeyPart::Port], PORT_FIELDS).documented("One port. The defaults are those of Ethernet. Other values allow a comparison with simulators that model links\n\
         differently."),
    TableSchema::named("XOFF_PFC_WD", &[KeyPart::Only(super::GLOBAL)], WATCHDOG_FIELDS)
        .documented("The PFC watchdog of the switch."),
    TableSchema::named("XOFF_ROUTE", &[KeyPart::Prefix], ROUTE_FIELDS)
        .documented("Additional fields of a route in `STATIC_ROUTE`."),
];

const QUANTA: ValueKind = ValueKind::number(1, 65_535, "quanta");
const SECOND_IN_NS: i128 = 1_000_000_000;

const SWITCH_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("cell_size", ValueKind::number(1, 16_384, "bytes")).documented(
        "the cell size of the chip",
        "208",
        "Size of a buffer cell in bytes (SAI `SHARED_BUFFER_CELL_SIZE`). A frame occupies whole \
         cells. The chip follows from `asic`, or from `platform` and `hwsku` of `DEVICE_METADATA` \
         (docs/chips.md). For an unknown chip, the default is 256, or 128 in the dynamic buffer \
         model.",
    ),
    FieldSchema::new("pipeline_latency", ValueKind::number(0, SECOND_IN_NS, "ns")).documented(
        "0",
        "600",
        "Time from the last bit of a received frame to the earliest start of its transmission.",
    ),
    FieldSchema::new("mark_point", ValueKind::Choice(&["dequeue", "enqueue"])).documented(
        "`dequeue`",
        "enqueue",
        "Point at which the switch reads the queue length for ECN and WRED, and marks frames.",
    ),
    FieldSchema::new("seed", ValueKind::number(0, u64::MAX as i128, "")).documented(
        "the seed of the command line",
        "7",
        "Seed of all random decisions.",
    ),
    FieldSchema::new("fdb_ageing", ValueKind::number(0, 1_000_000, "s")).documented(
        "600",
        "300",
        "Age after which a learned MAC address is forgotten. With 0, addresses are never \
         forgotten.",
    ),
    FieldSchema::new("fdb_entries", ValueKind::number(1, 1 << 20, "")).documented(
        "65536",
        "8192",
        "Largest number of learned MAC addresses.",
    ),
    FieldSchema::new("frames", ValueKind::number(64, 1 << 20, "")).documented(
        "one frame for each egress cell, but at least 1024 and at most 131072",
        "32768",
        "Largest number of frames in the switch.",
    ),
    FieldSchema::new("pause_quanta", QUANTA).documented(
        "65535",
        "65535",
        "Pause time in an XOFF frame, in quanta of 512 bit times.",
    ),
    FieldSchema::new("pause_refresh", ValueKind::number(1, SECOND_IN_NS, "ns")).documented(
        "half the pause time, or the pause time less the reaction budget if this is shorter",
        "200000",
        "Time between two XOFF frames while a priority group is in XOFF.",
    ),
    FieldSchema::new("hash_seed", ValueKind::number(0, u64::MAX as i128, "")).documented(
        "derived from `seed` and the base MAC address",
        "42",
        "Seed of the hash that selects next hops and members of a LAG. Switches with the same \
         seed select the same members.",
    ),
    FieldSchema::new("resilient_buckets", ValueKind::number(0, 32_768, "")).documented(
        "0",
        "4096",
        "Number of buckets of a resilient load balancing group, in which flows keep their member \
         when other members change. With 0, the hash selects the member directly. With 4096 \
         buckets and 32 members, the distribution is exact to 1 %.",
    ),
    FieldSchema::new("neighbours", ValueKind::number(1, 65_536, "")).documented(
        "4096",
        "1024",
        "Largest number of neighbours, including those of `NEIGH`.",
    ),
    FieldSchema::new("neighbour_hold", ValueKind::number(0, 1_024, "frames")).documented(
        "16",
        "16",
        "Largest number of frames that wait for the address of one neighbour. At most 1024 frames \
         wait for all neighbours together.",
    ),
    FieldSchema::new("asic", ValueKind::Choice(ASIC_NAMES)).documented(
        "the chip of `platform` and `hwsku`, or `vs`",
        "th5",
        "Name of the chip with the cell size and latencies of the switch, such as `th2` or \
         `spectrum3` (docs/chips.md).",
    ),
    FieldSchema::new("asic_cell_size", ValueKind::number(1, 16_384, "bytes")).documented(
        "the cell size of the chip",
        "254",
        "Cell size for computed headroom, instead of the cell size of the chip. It is also the \
         default of `cell_size` if headroom is computed.",
    ),
    FieldSchema::new("asic_pipeline_latency", CHIP_BYTES).documented(
        "the value of the chip",
        "18432",
        "Bytes that arrive before the switch sends XOFF, instead of the value of the chip.",
    ),
    FieldSchema::new("asic_mac_phy_delay", CHIP_BYTES).documented(
        "0.8 KiB",
        "819",
        "Bytes in flight in MAC and PHY, instead of the value of the chip.",
    ),
    FieldSchema::new("asic_peer_response_time", CHIP_BYTES).documented(
        "the value of the standard, or 3.8 KiB at speeds without a value",
        "3890",
        "Bytes that a peer sends before it reacts, instead of the value of IEEE 802.3 for the \
         speed.",
    ),
    FieldSchema::new("gearbox_delay", ValueKind::number(0, 1_000_000, "ns")).documented(
        "0",
        "0",
        "Delay of a gearbox between the chip and each cable. With 0, there is no gearbox.",
    ),
    FieldSchema::new("buffer_size", ValueKind::number(1, BYTES_MAX as i128, "bytes")).documented(
        "the size of `egress_lossless_pool`, or 33554432",
        "67108864",
        "Size of the whole buffer in bytes. The dynamic buffer model derives the sizes of pools \
         from it.",
    ),
    FieldSchema::new("icmp_rate", ValueKind::number(0, 1_000_000, "errors per second")).documented(
        "100",
        "100",
        "Largest number of ICMP errors per second of all kinds, and the largest burst. With 0, \
         the switch sends no ICMP errors.",
    ),
];

const WATCHDOG_FIELDS: &[FieldSchema] =
    &[
        FieldSchema::new("rule", ValueKind::Choice(&["broadcom", "nvidia", "vs"])).documented(
            "`broadcom`",
            "nvidia",
            "Rule for a storm of a paused queue without waiting frames. With `broadcom`, XOFF frames \
         must keep arriving. With `nvidia`, such a queue is never in a storm. With `vs`, SONiC's \
         virtual switch, the queue must be paused for more than 80 % of every poll interval.",
        ),
    ];

const ROUTE_FIELDS: &[FieldSchema] =
    &[
        FieldSchema::required("weight", ValueKind::Each(&ValueKind::number(1, 255, ""))).documented(
            "",
            "1,2",
            "List of the relative weights of the next hops, in the order of `STATIC_ROUTE`. An empty \
         item is 1.",
        ),
    ];

const PORT_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("overhead_bytes", ValueKind::number(0, 1_000, "bytes")).documented(
        "20",
        "20",
        "Bytes on the link for each frame in addition to the frame: preamble, start delimiter and \
         gap.",
    ),
    FieldSchema::new("fcs_bytes", ValueKind::number(0, 64, "bytes")).documented(
        "4",
        "4",
        "Bytes that the link appends to the frame that a socket sees.",
    ),
    FieldSchema::new("min_frame_bytes", ValueKind::number(1, 9_216, "bytes")).documented(
        "64",
        "64",
        "Length of the smallest frame on the link, with its FCS.",
    ),
    FieldSchema::new("rounding_ps", ValueKind::number(1, 1_000_000, "ps")).documented(
        "1",
        "1",
        "Serialisation times are rounded down to a multiple of this time.",
    ),
    FieldSchema::new("pause_quanta", QUANTA).documented(
        "the value of the switch",
        "65535",
        "Pause time in an XOFF frame of this port, in quanta of 512 bit times.",
    ),
    FieldSchema::new("pause_refresh", ValueKind::number(1, SECOND_IN_NS, "ns")).documented(
        "the value of the switch",
        "200000",
        "Time between two XOFF frames of this port while a priority group is in XOFF.",
    ),
    FieldSchema::new("flow_control", ValueKind::Choice(&["off", "rx", "tx", "both"])).documented(
        "`rx`",
        "rx",
        "Use of 802.3x pauses on a port without PFC. The port honours them (`rx`), sends them \
         (`tx`), does both (`both`) or neither (`off`).",
    ),
];
