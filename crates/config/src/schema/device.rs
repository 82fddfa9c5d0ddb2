//! The table `DEVICE_METADATA`: name, address and hardware of the switch.

use super::{Field, Fields, Kind, Part, Table};

const NOT_HERE: &str = "it configures parts of SONiC that this switch does not have";

pub(super) const TABLES: &[Table] = &[Table {
    name: "DEVICE_METADATA",
    key: &[Part::Only("localhost")],
    fields: Fields::Named(FIELDS),
}];

/// A field without an effect in xoff.
const fn other(name: &'static str) -> Field {
    Field::without_effect(name, Kind::Any, NOT_HERE)
}

const FIELDS: &[Field] = &[
    Field::new("hostname", Kind::Text(63)),
    Field::new("mac", Kind::Mac),
    Field::new("buffer_model", Kind::Choice(&["traditional", "dynamic"])),
    Field::new("default_pfcwd_status", Kind::Choice(&["enable", "disable"])),
    Field::new("hwsku", Kind::Any),
    Field::new("platform", Kind::Any),
    Field::label("type", Kind::Any),
    Field::label("subtype", Kind::Any),
    Field::label("region", Kind::Any),
    Field::label("cloudtype", Kind::Any),
    Field::label("cluster", Kind::Any),
    Field::label("deployment_id", Kind::Any),
    Field::label("timezone", Kind::Any),
    Field::label("chassis_hostname", Kind::Any),
    other("anchor_route_source"),
    other("asic_id"),
    other("asic_name"),
    other("bgp_adv_lo_prefix_as_128"),
    other("bgp_asn"),
    other("bgp_router_id"),
    other("create_only_config_db_buffers"),
    other("default_bgp_status"),
    other("dhcp_server"),
    other("docker_routing_config_mode"),
    other("downstream_subrole"),
    other("frr_mgmt_framework_config"),
    other("macsec_support"),
    other("max_cores"),
    other("nexthop_group"),
    other("orch_northbond_route_zmq_enabled"),
    other("peer_switch"),
    other("rack_mgmt_map"),
    other("resource_type"),
    other("ring_thread_enabled"),
    other("slice_type"),
    other("storage_device"),
    other("sub_role"),
    other("supporting_bulk_counter_groups"),
    other("suppress-fib-pending"),
    other("switch_id"),
    other("switch_type"),
    other("synchronous_mode"),
    other("tsa_enabled"),
    other("yang_config_validation"),
];
