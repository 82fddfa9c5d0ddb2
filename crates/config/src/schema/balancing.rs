//! Tables for load balancing that SONiC does not have. All scalar values are strings, as in SONiC's tables.
//!
//! `docs/xoff-tables.md` is generated from these schemas.

use super::{FieldSchema, KeyPart, TableSchema, ValueKind};

/// Key of the entries of `XOFF_LB` and `XOFF_LB_LOAD`, which concern the whole switch.
pub(crate) const LB_GLOBAL: &str = "global";

pub(super) const TABLES: &[TableSchema] = &[
    TableSchema::named("XOFF_LB", &[KeyPart::Only(LB_GLOBAL)], GLOBAL_FIELDS)
        .documented("Load balancing of the switch."),
    TableSchema::named("XOFF_LB_SCHEME", &[KeyPart::Object], SCHEME_FIELDS).documented("A scheme with its own parameters. An entry with the name of a built-in scheme changes this scheme.\n\
         `docs/load-balancing.md` lists the fields of each scheme and their defaults."),
    TableSchema::named("XOFF_LB_GROUP", &[KeyPart::Prefix], GROUP_FIELDS).documented("Routes within a prefix. The entry with the longest prefix that contains a route applies."),
    TableSchema::named("XOFF_LB_SITE", &[KeyPart::Prefix], SITE_FIELDS)
        .documented("Location of the destinations within a prefix."),
    TableSchema::named("XOFF_LB_PORTCHANNEL", &[KeyPart::LagReference], LAG_FIELDS)
        .documented("Load balancing of a LAG."),
    TableSchema::named("XOFF_LB_LOAD", &[KeyPart::Only(LB_GLOBAL)], LOAD_FIELDS).documented("Measurement of the load of ports. The load is the weighted mean of three measures and determines the quality band. The\n\
         measures are the average of the sent bytes (`past`), the average of the queued bytes (`future`) and the bytes in the\n\
         queue now (`current`). Limits are in permille of the bytes that the port can send in a sampling interval."),
];

const GLOBAL_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("scheme", ValueKind::Scheme).documented(
        "`ecmp`, or the scheme of `ARS_PROFILE`",
        "flowlet",
        "Scheme of all load balancing groups without a scheme of their own. `XOFF_LB_GROUP` takes \
         precedence, followed by the schemes of the members (`ARS_NEXTHOPS`, `ARS_INTERFACES`).",
    ),
    FieldSchema::new("moves_kept", ValueKind::number(0, 1 << 16, "")).documented(
        "256",
        "256",
        "Number of recent flow moves that the switch keeps with their reasons. With 0, moves are \
         only counted.",
    ),
    FieldSchema::new("reordering_flows", ValueKind::number(0, 1 << 20, "")).documented(
        "0",
        "1024",
        "Number of queue pairs whose packets are checked for reordering on arrival.",
    ),
    FieldSchema::new("advertise", ValueKind::Choice(&["auto", "on", "ways", "off"])).documented(
        "`auto`",
        "auto",
        "Information for the switches behind `advertise_ports`. `ways` sends the sites that the \
         switch cannot reach. `on` also sends the load of its paths. `auto` is `on` if a scheme \
         of the switch uses the load of other switches, and `ways` otherwise.",
    ),
    FieldSchema::new("advertise_interval", ValueKind::number(1, 1_000_000, "us")).documented(
        "16",
        "16",
        "Time between two link quality messages, if there is something to send.",
    ),
    FieldSchema::new("advertise_ports", ValueKind::Ports).documented(
        "none",
        "Ethernet0,Ethernet4",
        "List of the ports that connect to other switches.",
    ),
];

const SCHEME_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("scheme", ValueKind::BuiltInScheme).documented(
        "the scheme with the name of the entry",
        "flowlet",
        "The built-in scheme on which this scheme is based.",
    ),
    FieldSchema::new(
        "hash_fields",
        ValueKind::Choice(&["five-tuple", "five-tuple-qp", "symmetric"]),
    )
    .documented(
        "that of the built-in scheme",
        "five-tuple-qp",
        "The header fields that identify a flow. `five-tuple-qp` adds the destination queue pair \
         of RoCEv2. `symmetric` gives the same hash in both directions.",
    ),
    FieldSchema::new("idle_time", ValueKind::number(0, 10_000_000, "us")).documented(
        "that of the built-in scheme",
        "64",
        "Idle time after which a flow may use another path. With 0, every packet may use another \
         path. The scheme `cluster` forgets a queue pair after this time.",
    ),
    FieldSchema::new("flowset_size", ValueKind::number(256, 32_768, "")).documented(
        "4096",
        "4096",
        "Number of entries of the flow table of each group, a power of two. Flows with the same \
         entry use the same path.",
    ),
    FieldSchema::new("quality_delta", ValueKind::number(0, 7, "bands")).documented(
        "0",
        "2",
        "Gain in quality bands that moves a flow before its idle time. With 0, such moves never \
         happen.",
    ),
    FieldSchema::new("probability", ValueKind::number(1, 100, "percent")).documented(
        "1",
        "1",
        "Probability that a packet moves its flow for such a gain.",
    ),
    FieldSchema::new("samples", ValueKind::number(1, 32, "")).documented(
        "2",
        "2",
        "Number of random members that a packet compares.",
    ),
    FieldSchema::new("memory", ValueKind::number(0, 32, "")).documented(
        "1",
        "1",
        "Number of members that are compared again because they had the shortest queues.",
    ),
    FieldSchema::new("remote_weight", ValueKind::number(0, 100, "percent")).documented(
        "50",
        "50",
        "Weight of the quality that other switches advertise, compared with the own link.",
    ),
    FieldSchema::new("flows_max", ValueKind::number(1, 1 << 20, "")).documented(
        "131072",
        "131072",
        "Largest number of queue pairs in a group. Packets of further queue pairs are hashed.",
    ),
    FieldSchema::new("primary_threshold", ValueKind::number(0, 16, "")).documented(
        "16",
        "16",
        "A primary member is used if its quality band is below this value. It is also used if its \
         band exceeds that of an alternate member by more than `alternate_cost` (SAI). With 16, \
         only primary members are used.",
    ),
    FieldSchema::new("alternate_cost", ValueKind::number(0, 16, "")).documented(
        "0",
        "0",
        "Advantage in quality bands that an alternate member needs.",
    ),
];

const GROUP_FIELDS: &[FieldSchema] = &[FieldSchema::required("scheme", ValueKind::Scheme).documented(
    "",
    "per-packet",
    "Scheme of the load balancing groups of these routes.",
)];

const LAG_FIELDS: &[FieldSchema] =
    &[FieldSchema::required("scheme", ValueKind::Scheme).documented("", "flowlet", "Scheme of the LAG.")];

const SITE_FIELDS: &[FieldSchema] =
    &[
        FieldSchema::required("site", ValueKind::number(1, u16::MAX as i128, "")).documented(
            "",
            "1",
            "Number of the leaf switch behind which the destinations are, unique in the fabric. \
         Routes to different sites have separate groups if a scheme other than a hash is used.",
        ),
    ];

const WEIGHT: ValueKind = ValueKind::number(0, u16::MAX as i128, "");
const LIMIT_MIN: ValueKind = ValueKind::number(0, 100_000, "permille");
const LIMIT_MAX: ValueKind = ValueKind::number(1, 100_000, "permille");

const LOAD_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("sampling_interval", ValueKind::number(1, 1_000_000, "us")).documented(
        "16",
        "16",
        "Time between two samples.",
    ),
    FieldSchema::new("exponent", ValueKind::number(0, 16, "")).documented(
        "2",
        "2",
        "A sample changes the average by 2^-exponent of their difference.",
    ),
    FieldSchema::new("instant_drop", ValueKind::Choice(&["true", "false"])).documented(
        "`false`",
        "false",
        "Whether a sample below the average replaces the average (SAI `PORT_LOAD_CURRENT`).",
    ),
    FieldSchema::new("past_weight", WEIGHT).documented(
        "16",
        "16",
        "Weight of the sent bytes. At least one of the three weights is not 0.",
    ),
    FieldSchema::new("past_min", LIMIT_MIN).documented(
        "200",
        "200",
        "Largest average of the sent bytes that counts as no load.",
    ),
    FieldSchema::new("past_max", LIMIT_MAX).documented(
        "800",
        "800",
        "Smallest average of the sent bytes that counts as full load.",
    ),
    FieldSchema::new("future_weight", WEIGHT).documented(
        "16",
        "16",
        "Weight of the average of the queued bytes.",
    ),
    FieldSchema::new("future_min", LIMIT_MIN).documented(
        "200",
        "200",
        "Largest average of the queued bytes that counts as no load.",
    ),
    FieldSchema::new("future_max", LIMIT_MAX).documented(
        "800",
        "800",
        "Smallest average of the queued bytes that counts as full load.",
    ),
    FieldSchema::new("current_weight", WEIGHT).documented("0", "0", "Weight of the bytes in the queue now."),
    FieldSchema::new("current_min", LIMIT_MIN).documented(
        "200",
        "200",
        "Largest number of bytes in the queue that counts as no load.",
    ),
    FieldSchema::new("current_max", LIMIT_MAX).documented(
        "800",
        "800",
        "Smallest number of bytes in the queue that counts as full load.",
    ),
];
