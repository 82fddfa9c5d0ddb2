//! Tables of SONiC that this switch accepts and does not act on.

const PROTOCOLS: &str = "no routing protocol runs here; STATIC_ROUTE does what it says";
const NAT: &str = "address translation is not implemented";
const VRFS: &str = "VRFs are not implemented, every interface is in the default one";
const SUB: &str = "sub-interfaces are not implemented";
const MCLAG: &str = "a LAG has the ports of one switch";
const FINE_GRAINED: &str =
    "fine-grained groups are not implemented; XOFF_SWITCH resilient_buckets holds for all groups";
const POLICY: &str = "policy-based hashing is not implemented";
const SRV6: &str = "segment routing is not implemented";
const GATEWAYS: &str = "VRRP is not implemented";
const COUNTERS: &str = "every counter is always on and exact";
const REMARKING: &str = "frames are not re-marked";
const MPLS: &str = "MPLS and class-based forwarding are not implemented";
const MIRRORING: &str = "mirroring and drop monitors are not implemented";
const ACL: &str = "access lists are not implemented, but for tables with a rule whose action is DISABLE_TRIM or DISABLE_ARS_FORWARDING";
const POLICERS: &str = "policers are not implemented";
const OVERLAY: &str = "tunnels and overlays are not implemented";
const L2: &str = "beyond plain VLANs, bridging protocols are not implemented";
const SYSTEM: &str = "it configures the host system of a SONiC device";

/// Name, and why it has no effect here. Sorted by name.
const TABLES: &[(&str, &str)] = &[
    ("AAA", SYSTEM),
    ("ACL_RULE", ACL),
    ("ACL_TABLE", ACL),
    ("ACL_TABLE_TYPE", ACL),
    ("ASIC_SENSORS", SYSTEM),
    ("AUTO_TECHSUPPORT", SYSTEM),
    ("AUTO_TECHSUPPORT_FEATURE", SYSTEM),
    ("BANNER_MESSAGE", SYSTEM),
    ("BGP_AGGREGATE_ADDRESS", PROTOCOLS),
    ("BGP_ALLOWED_PREFIXES", PROTOCOLS),
    ("BGP_BBR", PROTOCOLS),
    ("BGP_DEVICE_GLOBAL", PROTOCOLS),
    ("BGP_GLOBALS", PROTOCOLS),
    ("BGP_GLOBALS_AF", PROTOCOLS),
    ("BGP_GLOBALS_AF_AGGREGATE_ADDR", PROTOCOLS),
    ("BGP_GLOBALS_AF_NETWORK", PROTOCOLS),
    ("BGP_GLOBALS_LISTEN_PREFIX", PROTOCOLS),
    ("BGP_INTERNAL_NEIGHBOR", PROTOCOLS),
    ("BGP_MONITORS", PROTOCOLS),
    ("BGP_NEIGHBOR", PROTOCOLS),
    ("BGP_NEIGHBOR_AF", PROTOCOLS),
    ("BGP_PEER_GROUP", PROTOCOLS),
    ("BGP_PEER_GROUP_AF", PROTOCOLS),
    ("BGP_PEER_RANGE", PROTOCOLS),
    ("BGP_SENTINELS", PROTOCOLS),
    ("BGP_VOQ_CHASSIS_NEIGHBOR", PROTOCOLS),
    ("BREAKOUT_CFG", SYSTEM),
    ("CHASSIS_MODULE", SYSTEM),
    ("CONSOLE_PORT", SYSTEM),
    ("CONSOLE_SWITCH", SYSTEM),
    ("COPP_GROUP", POLICERS),
    ("COPP_TRAP", POLICERS),
    ("CRM", SYSTEM),
    ("DEBUG_COUNTER", COUNTERS),
    ("DEBUG_COUNTER_DROP_REASON", COUNTERS),
    ("DEBUG_DROP_MONITOR", MIRRORING),
    ("DEVICE_NEIGHBOR", SYSTEM),
    ("DEVICE_NEIGHBOR_METADATA", SYSTEM),
    ("DHCPV4_RELAY", SYSTEM),
    ("DHCP_RELAY", SYSTEM),
    ("DHCP_SERVER", SYSTEM),
    ("DHCP_SERVER_IPV4", SYSTEM),
    ("DNS_NAMESERVER", SYSTEM),
    ("DSCP_TO_FC_MAP", MPLS),
    ("EXP_TO_FC_MAP", MPLS),
    ("FABRIC_MONITOR", SYSTEM),
    ("FABRIC_PORT", SYSTEM),
    ("FC_TO_NHG_INDEX_MAP", MPLS),
    ("FEATURE", SYSTEM),
    ("FG_NHG", FINE_GRAINED),
    ("FG_NHG_MEMBER", FINE_GRAINED),
    ("FG_NHG_PREFIX", FINE_GRAINED),
    ("FLEX_COUNTER_TABLE", COUNTERS),
    ("GNMI", SYSTEM),
    ("GNMI_CLIENT_CERT", SYSTEM),
    ("GRPCCLIENT", SYSTEM),
    ("HEARTBEAT", SYSTEM),
    ("HIGH_FREQUENCY_TELEMETRY_GROUP", COUNTERS),
    ("HIGH_FREQUENCY_TELEMETRY_PROFILE", COUNTERS),
    ("KDUMP", SYSTEM),
    ("KUBERNETES_MASTER", SYSTEM),
    ("LDAP", SYSTEM),
    ("LDAP_SERVER", SYSTEM),
    ("LLDP", SYSTEM),
    ("LLDP_PORT", SYSTEM),
    ("LOGGER", SYSTEM),
    ("MACSEC_PROFILE", L2),
    ("MCLAG_DOMAIN", MCLAG),
    ("MCLAG_INTERFACE", MCLAG),
    ("MCLAG_UNIQUE_IP", MCLAG),
    ("MEMORY_STATISTICS", SYSTEM),
    ("MGMT_INTERFACE", SYSTEM),
    ("MGMT_PORT", SYSTEM),
    ("MGMT_VRF_CONFIG", SYSTEM),
    ("MID_PLANE_BRIDGE", SYSTEM),
    ("MIRROR_SESSION", MIRRORING),
    ("MPLS_TC_TO_TC_MAP", MPLS),
    ("MUX_CABLE", SYSTEM),
    ("MUX_LINKMGR", SYSTEM),
    ("NAT_BINDINGS", NAT),
    ("NAT_GLOBAL", NAT),
    ("NAT_POOL", NAT),
    ("NTP", SYSTEM),
    ("NTP_KEY", SYSTEM),
    ("NTP_SERVER", SYSTEM),
    ("NVGRE_TUNNEL", OVERLAY),
    ("NVGRE_TUNNEL_MAP", OVERLAY),
    ("PASSW_HARDENING", SYSTEM),
    ("PASS_THROUGH_ROUTE_TABLE", PROTOCOLS),
    ("PBH_HASH", POLICY),
    ("PBH_HASH_FIELD", POLICY),
    ("PBH_RULE", POLICY),
    ("PBH_TABLE", POLICY),
    ("PEER_SWITCH", SYSTEM),
    ("POLICER", POLICERS),
    ("PORT_STORM_CONTROL", POLICERS),
    ("PREFIX_LIST", PROTOCOLS),
    ("PREFIX_SET", PROTOCOLS),
    ("RADIUS", SYSTEM),
    ("RADIUS_SERVER", SYSTEM),
    ("RESTAPI", SYSTEM),
    ("ROUTE_MAP", PROTOCOLS),
    ("ROUTE_MAP_SET", PROTOCOLS),
    ("ROUTE_REDISTRIBUTE", PROTOCOLS),
    ("SERIAL_CONSOLE", SYSTEM),
    ("SFLOW", MIRRORING),
    ("SFLOW_COLLECTOR", MIRRORING),
    ("SFLOW_SESSION", MIRRORING),
    ("SNMP", SYSTEM),
    ("SNMP_AGENT_ADDRESS_CONFIG", SYSTEM),
    ("SNMP_COMMUNITY", SYSTEM),
    ("SNMP_USER", SYSTEM),
    ("SRV6_MY_LOCATORS", SRV6),
    ("SRV6_MY_SIDS", SRV6),
    ("SSH_SERVER", SYSTEM),
    ("STORMOND_CONFIG", SYSTEM),
    ("STP", L2),
    ("STP_PORT", L2),
    ("STP_VLAN", L2),
    ("STP_VLAN_PORT", L2),
    ("SUPPRESS_VLAN_NEIGH", OVERLAY),
    ("SYSLOG_CONFIG", SYSTEM),
    ("SYSLOG_CONFIG_FEATURE", SYSTEM),
    ("SYSLOG_SERVER", SYSTEM),
    ("SYSTEM_DEFAULTS", SYSTEM),
    ("SYSTEM_PORT", SYSTEM),
    ("TACPLUS", SYSTEM),
    ("TACPLUS_SERVER", SYSTEM),
    ("TAM_FEATURES", MIRRORING),
    ("TC_TO_DOT1P_MAP", REMARKING),
    ("TELEMETRY", SYSTEM),
    ("TELEMETRY_CLIENT", SYSTEM),
    ("TUNNEL", OVERLAY),
    ("VERSIONS", SYSTEM),
    ("VLAN_SUB_INTERFACE", SUB),
    ("VNET", OVERLAY),
    ("VNET_ROUTE_TUNNEL", OVERLAY),
    ("VOQ_INBAND_INTERFACE", SYSTEM),
    ("VRF", VRFS),
    ("VRRP", GATEWAYS),
    ("VRRP6", GATEWAYS),
    ("VXLAN_EVPN_NVO", OVERLAY),
    ("VXLAN_TUNNEL", OVERLAY),
    ("VXLAN_TUNNEL_MAP", OVERLAY),
    ("WARM_RESTART", SYSTEM),
    ("ZTP", SYSTEM),
];

/// Why a table that SONiC knows has no effect; `None` if SONiC does not know it or the switch acts on it.
pub(crate) fn why_no_effect(table: &str) -> Option<&'static str> {
    let found = TABLES.binary_search_by_key(&table, |(name, _)| name).ok()?;
    Some(TABLES[found].1)
}

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_and_disjoint_from_what_is_implemented() {
        assert!(TABLES.is_sorted_by(|a, b| a.0 < b.0));
        for (name, _) in TABLES {
            assert!(crate::config::schema::table(name).is_none(), "{name}");
        }
    }
}
