//! The table `PORT`.

use super::{Field, Fields, Kind, Part, Table};

/// Highest speed of a port in Mb/s.
const SPEED_MAX: i128 = 1_600_000;

const NO_PHY: &str = "these ports have no transceiver";
const NO_CHASSIS: &str = "this switch is not a chassis";

pub(super) const TABLES: &[Table] = &[Table {
    name: "PORT",
    key: &[Part::Object],
    fields: Fields::Named(FIELDS),
}];

const FIELDS: &[Field] = &[
    Field::new("speed", Kind::number(1, SPEED_MAX, "Mb/s")),
    Field::new("admin_status", Kind::Choice(&["up", "down"])),
    Field::new("mtu", Kind::number(68, 9216, "bytes")),
    Field::new("pfc_asym", Kind::Choice(&["on", "off"])),
    Field::new("tpid", Kind::Tpid),
    // This field is not part of SONiC: the response time of the port to a pause.
    Field::new("pause_response_quanta", Kind::NumberOr(65_535, "standard")),
    Field::label("lanes", Kind::Any),
    Field::label("alias", Kind::Text(128)),
    Field::label("index", Kind::Any),
    Field::label("description", Kind::Text(255)),
    Field::without_effect("fec", Kind::Choice(&["rs", "fc", "none", "auto"]), NO_PHY),
    // Old files use 1 and 0.
    Field::without_effect("autoneg", Kind::Choice(&["on", "off", "1", "0"]), NO_PHY),
    Field::without_effect("valid_speeds", Kind::Any, NO_PHY),
    Field::without_effect("adv_speeds", Kind::Any, NO_PHY),
    Field::without_effect("adv_interface_types", Kind::Any, NO_PHY),
    Field::without_effect("interface_type", Kind::Any, NO_PHY),
    Field::without_effect("link_training", Kind::Choice(&["on", "off"]), NO_PHY),
    Field::without_effect("media_type", Kind::Any, NO_PHY),
    Field::without_effect("laser_freq", Kind::Any, NO_PHY),
    Field::without_effect("tx_power", Kind::Any, NO_PHY),
    Field::without_effect("coreId", Kind::Any, NO_CHASSIS),
    Field::without_effect("corePortId", Kind::Any, NO_CHASSIS),
    Field::without_effect("core_id", Kind::Any, NO_CHASSIS),
    Field::without_effect("core_port_id", Kind::Any, NO_CHASSIS),
    Field::without_effect("num_voq", Kind::Any, NO_CHASSIS),
    Field::without_effect("numVoq", Kind::Any, NO_CHASSIS),
    Field::without_effect("asic_port_name", Kind::Any, NO_CHASSIS),
    Field::without_effect("subport", Kind::number(0, 8, ""), "breakout is not implemented"),
    Field::only_as(
        "role",
        Kind::Choice(&["Ext", "Int", "Inb", "Rec", "Dpc"]),
        "Ext",
        "every port is an external port",
    ),
    Field::without_effect(
        "mode",
        Kind::Choice(&["routed", "access", "trunk"]),
        "membership follows from VLAN_MEMBER alone",
    ),
    Field::without_effect("mux_cable", Kind::Any, "dual-ToR is not implemented"),
    Field::without_effect("macsec", Kind::Any, "MACsec is not implemented"),
    Field::without_effect("dhcp_rate_limit", Kind::Any, "DHCP is not handled"),
    Field::without_effect("pt_interface_id", Kind::Any, "packet tracing is not implemented"),
    Field::without_effect(
        "pt_timestamp_template",
        Kind::Any,
        "packet tracing is not implemented",
    ),
];
