//! The table `PORT`.

use super::{FieldSchema, KeyPart, TableSchema, ValueKind};

/// Lowest speed of a port in Mb/s: that of the slowest Ethernet. At lower speeds, the time of a byte is not always a
/// whole number of picoseconds.
const SPEED_MBPS_MIN: i128 = 10;
/// Highest speed of a port in Mb/s.
const SPEED_MBPS_MAX: i128 = 1_600_000;

const NO_TRANSCEIVER: &str = "these ports have no transceiver";
const NO_CHASSIS: &str = "this switch is not a chassis";

pub(super) const TABLES: &[TableSchema] = &[TableSchema::named("PORT", &[KeyPart::Object], PORT_FIELDS)];

const PORT_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("speed", ValueKind::number(SPEED_MBPS_MIN, SPEED_MBPS_MAX, "Mb/s")),
    FieldSchema::new("admin_status", ValueKind::Choice(&["up", "down"])),
    FieldSchema::new("mtu", ValueKind::number(68, 9216, "bytes")),
    FieldSchema::new("pfc_asym", ValueKind::Choice(&["on", "off"])),
    FieldSchema::new("tpid", ValueKind::Tpid),
    // SONiC does not have this field: the response time of the port to a pause.
    FieldSchema::new("pause_response_quanta", ValueKind::NumberOr(65_535, "standard")),
    FieldSchema::label("lanes", ValueKind::Any),
    FieldSchema::label("alias", ValueKind::Text(128)),
    FieldSchema::label("index", ValueKind::Any),
    FieldSchema::label("description", ValueKind::Text(255)),
    FieldSchema::without_effect(
        "fec",
        ValueKind::Choice(&["rs", "fc", "none", "auto"]),
        NO_TRANSCEIVER,
    ),
    // Old files use 1 and 0.
    FieldSchema::without_effect(
        "autoneg",
        ValueKind::Choice(&["on", "off", "1", "0"]),
        NO_TRANSCEIVER,
    ),
    FieldSchema::without_effect("valid_speeds", ValueKind::Any, NO_TRANSCEIVER),
    FieldSchema::without_effect("adv_speeds", ValueKind::Any, NO_TRANSCEIVER),
    FieldSchema::without_effect("adv_interface_types", ValueKind::Any, NO_TRANSCEIVER),
    FieldSchema::without_effect("interface_type", ValueKind::Any, NO_TRANSCEIVER),
    FieldSchema::without_effect("link_training", ValueKind::Choice(&["on", "off"]), NO_TRANSCEIVER),
    FieldSchema::without_effect("media_type", ValueKind::Any, NO_TRANSCEIVER),
    FieldSchema::without_effect("laser_freq", ValueKind::Any, NO_TRANSCEIVER),
    FieldSchema::without_effect("tx_power", ValueKind::Any, NO_TRANSCEIVER),
    FieldSchema::without_effect("coreId", ValueKind::Any, NO_CHASSIS),
    FieldSchema::without_effect("corePortId", ValueKind::Any, NO_CHASSIS),
    FieldSchema::without_effect("core_id", ValueKind::Any, NO_CHASSIS),
    FieldSchema::without_effect("core_port_id", ValueKind::Any, NO_CHASSIS),
    FieldSchema::without_effect("num_voq", ValueKind::Any, NO_CHASSIS),
    FieldSchema::without_effect("numVoq", ValueKind::Any, NO_CHASSIS),
    FieldSchema::without_effect("asic_port_name", ValueKind::Any, NO_CHASSIS),
    FieldSchema::without_effect(
        "subport",
        ValueKind::number(0, 8, ""),
        "breakout is not implemented",
    ),
    FieldSchema::fixed_value(
        "role",
        ValueKind::Choice(&["Ext", "Int", "Inb", "Rec", "Dpc"]),
        "Ext",
        "every port is an external port",
    ),
    FieldSchema::without_effect(
        "mode",
        ValueKind::Choice(&["routed", "access", "trunk"]),
        "VLAN_MEMBER alone defines the membership",
    ),
    FieldSchema::without_effect("mux_cable", ValueKind::Any, "dual-ToR is not implemented"),
    FieldSchema::without_effect("macsec", ValueKind::Any, "MACsec is not implemented"),
    FieldSchema::without_effect("dhcp_rate_limit", ValueKind::Any, "DHCP is not handled"),
    FieldSchema::without_effect(
        "pt_interface_id",
        ValueKind::Any,
        "packet tracing is not implemented",
    ),
    FieldSchema::without_effect(
        "pt_timestamp_template",
        ValueKind::Any,
        "packet tracing is not implemented",
    ),
];
