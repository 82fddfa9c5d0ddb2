//! The table `DEVICE_METADATA`: name, address and hardware of the switch.

use super::{FieldSchema, KeyPart, TableSchema, ValueKind};

const NOT_IN_XOFF: &str = "it configures parts of SONiC that xoff does not have";

pub(super) const TABLES: &[TableSchema] = &[TableSchema::named(
    "DEVICE_METADATA",
    &[KeyPart::Only("localhost")],
    METADATA_FIELDS,
)];

/// Returns a field without an effect in xoff.
const fn unused_field(name: &'static str) -> FieldSchema {
    FieldSchema::without_effect(name, ValueKind::Any, NOT_IN_XOFF)
}

const METADATA_FIELDS: &[FieldSchema] = &[
    FieldSchema::new("hostname", ValueKind::Text(63)),
    FieldSchema::new("mac", ValueKind::Mac),
    FieldSchema::new("buffer_model", ValueKind::Choice(&["traditional", "dynamic"])),
    FieldSchema::new("default_pfcwd_status", ValueKind::Choice(&["enable", "disable"])),
    FieldSchema::new("hwsku", ValueKind::Any),
    FieldSchema::new("platform", ValueKind::Any),
    FieldSchema::label("type", ValueKind::Any),
    FieldSchema::label("subtype", ValueKind::Any),
    FieldSchema::label("region", ValueKind::Any),
    FieldSchema::label("cloudtype", ValueKind::Any),
    FieldSchema::label("cluster", ValueKind::Any),
    FieldSchema::label("deployment_id", ValueKind::Any),
    FieldSchema::label("timezone", ValueKind::Any),
    FieldSchema::label("chassis_hostname", ValueKind::Any),
    unused_field("anchor_route_source"),
    unused_field("asic_id"),
    unused_field("asic_name"),
    unused_field("bgp_adv_lo_prefix_as_128"),
    unused_field("bgp_asn"),
    unused_field("bgp_router_id"),
    unused_field("create_only_config_db_buffers"),
    unused_field("default_bgp_status"),
    unused_field("dhcp_server"),
    unused_field("docker_routing_config_mode"),
    unused_field("downstream_subrole"),
    unused_field("frr_mgmt_framework_config"),
    unused_field("macsec_support"),
    unused_field("max_cores"),
    unused_field("nexthop_group"),
    unused_field("orch_northbond_route_zmq_enabled"),
    unused_field("peer_switch"),
    unused_field("rack_mgmt_map"),
    unused_field("resource_type"),
    unused_field("ring_thread_enabled"),
    unused_field("slice_type"),
    unused_field("storage_device"),
    unused_field("sub_role"),
    unused_field("supporting_bulk_counter_groups"),
    unused_field("suppress-fib-pending"),
    unused_field("switch_id"),
    unused_field("switch_type"),
    unused_field("synchronous_mode"),
    unused_field("tsa_enabled"),
    unused_field("yang_config_validation"),
];
