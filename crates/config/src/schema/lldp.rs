//! LLDP: SONiC's tables `LLDP` and `LLDP_PORT`, and xoff's table of DCBX.

use super::{FieldSchema, GLOBAL, KeyPart, TableSchema, ValueKind};

pub(super) const TABLES: &[TableSchema] = &[
    TableSchema::named("LLDP", &[KeyPart::Only(GLOBAL)], GLOBAL_FIELDS),
    TableSchema::named("LLDP_PORT", &[KeyPart::Port], PORT_FIELDS),
    TableSchema::named("XOFF_DCBX", &[KeyPart::Port], DCBX_FIELDS).documented(
        "DCBX of a port (IEEE 802.1Qaz). A port with an entry sends the DCBX TLVs in its LLDP frames and uses those of its\n\
         neighbour. LLDP must be on (`LLDP|GLOBAL`).",
    ),
];

const BOOLEAN: ValueKind = ValueKind::Choice(&["true", "false"]);
const MODE: FieldSchema = FieldSchema::new("mode", ValueKind::Choice(&["RECEIVE", "TRANSMIT"]));

const GLOBAL_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("enabled", BOOLEAN),
    MODE,
    FieldSchema::new("hello_time", ValueKind::number(5, 254, "s")),
    FieldSchema::new("multiplier", ValueKind::number(1, 10, "")),
    FieldSchema::new("system_name", ValueKind::Text(255)),
    FieldSchema::new("system_description", ValueKind::Text(255)),
    FieldSchema::new("supp_mgmt_address_tlv", BOOLEAN),
    FieldSchema::new("supp_system_capabilities_tlv", BOOLEAN),
];

const PORT_FIELDS: &[FieldSchema] = &[FieldSchema::new("enabled", BOOLEAN), MODE];

const DCBX_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("pfc_willing", BOOLEAN).documented(
        "`false`",
        "true",
        "Whether the port accepts the PFC configuration of its neighbour. A configured \
         `PORT_QOS_MAP` `pfc_enable` wins: such a port is not willing.",
    ),
    FieldSchema::new("pfc_default", ValueKind::Priorities).documented(
        "none",
        "3,4",
        "Priorities with PFC of a willing port until its neighbour configures PFC. If both ends are willing, the end with \
         the lower MAC address configures both.",
    ),
    FieldSchema::new("pfc_capability", ValueKind::number(0, 8, "priorities")).documented(
        "8",
        "2",
        "Number of priorities that can have PFC at the same time. The port does not accept a \
         configuration with more priorities.",
    ),
    FieldSchema::new("ets_willing", BOOLEAN).documented(
        "`false`",
        "true",
        "Whether the port accepts the ETS recommendation of its neighbour. A configured `QUEUE` `scheduler` of the port \
         wins: such a port is not willing.",
    ),
    FieldSchema::new("ets_default", ValueKind::Text(255)).documented(
        "weight 1 for each queue",
        "0:20,3:80,6:strict",
        "Schedulers of a willing port until its neighbour configures ETS: queue and weight, or queue and `strict`, \
         separated by colons. The items are separated by commas. The weights are 1 to 100, and queues without an item \
         have weight 1. The port also recommends this configuration.",
    ),
    FieldSchema::new("ets_capability", ValueKind::number(1, 8, "traffic classes")).documented(
        "8",
        "8",
        "Number of traffic classes of the port in its TLV.",
    ),
    FieldSchema::new("ets_recommendation", BOOLEAN).documented(
        "`true`",
        "false",
        "Whether the port recommends its own ETS configuration to its neighbour. The configuration \
         follows from the schedulers of the queues.",
    ),
    FieldSchema::new("applications", ValueKind::Text(1_024)).documented(
        "none",
        "udp:4791:3",
        "List of the priorities of applications: selector, protocol and priority, separated by \
         colons. The items are separated by commas. The selectors are `ethertype`, `tcp`, `udp`, \
         `any` (TCP or UDP port) and `dscp`.",
    ),
];
