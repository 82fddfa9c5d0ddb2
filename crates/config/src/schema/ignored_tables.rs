//! SONiC tables that have no effect in xoff, and the reasons.

const PROTOCOLS: &str = "xoff runs no routing protocol; STATIC_ROUTE defines routes";
const NAT: &str = "address translation is not implemented";
const VRFS: &str = "VRFs are not implemented, and every interface is in the default VRF";
const SUB_INTERFACES: &str = "sub-interfaces are not implemented";
const MCLAG: &str = "a LAG has ports of one switch only";
const FINE_GRAINED: &str =
    "fine-grained groups are not implemented; XOFF_SWITCH resilient_buckets applies to all groups";
const POLICY: &str = "policy-based hashing is not implemented";
const SRV6: &str = "segment routing is not implemented";
const GATEWAYS: &str = "gateways shared by several switches are not implemented";
const STATIC_MACS: &str = "MAC addresses are learned, and static entries are not implemented";
const COUNTERS: &str = "every counter is always on and exact";
const REMARKING: &str = "frames are not re-marked";
const MPLS: &str = "MPLS and class-based forwarding are not implemented";
const MIRRORING: &str = "mirroring and drop monitors are not implemented";
const ACL: &str = "access lists are implemented only for tables with a rule whose action is DISABLE_TRIM or DISABLE_ARS_FORWARDING";
const POLICERS: &str = "policers are not implemented";
const OVERLAY: &str = "tunnels and overlays are not implemented";
const BRIDGING_PROTOCOLS: &str = "bridging protocols other than VLANs are not implemented";
const OUTSIDE_DATA_PATH: &str = "outside the data path of a switch";

/// Prefixes of table names, each with the reason for tables with this prefix. The first matching
/// prefix applies.
const REASONS: &[(&str, &str)] = &[
    ("ACL_", ACL),
    ("AS_PATH_SET", PROTOCOLS),
    ("BFD_", PROTOCOLS),
    ("BGP_", PROTOCOLS),
    ("COMMUNITY_SET", PROTOCOLS),
    ("COPP_", POLICERS),
    ("DEBUG_COUNTER", COUNTERS),
    ("DEBUG_DROP_MONITOR", MIRRORING),
    ("DSCP_TO_FC_MAP", MPLS),
    ("DTEL", MIRRORING),
    ("EVPN_", OVERLAY),
    ("EXP_TO_FC_MAP", MPLS),
    ("EXTENDED_COMMUNITY_SET", PROTOCOLS),
    ("FC_TO_NHG_INDEX_MAP", MPLS),
    ("FDB", STATIC_MACS),
    ("FG_NHG", FINE_GRAINED),
    ("FLEX_COUNTER_TABLE", COUNTERS),
    ("HIGH_FREQUENCY_TELEMETRY", COUNTERS),
    ("IGMP_", PROTOCOLS),
    ("MACSEC_PROFILE", BRIDGING_PROTOCOLS),
    ("MAC_MOVE_GUARD", BRIDGING_PROTOCOLS),
    ("MCLAG_", MCLAG),
    ("MIRROR_SESSION", MIRRORING),
    ("MPLS_TC_TO_TC_MAP", MPLS),
    ("NAT_", NAT),
    ("NEIGHBOR_SET", PROTOCOLS),
    ("NEXTHOP_SET", PROTOCOLS),
    ("NVGRE_", OVERLAY),
    ("OSPF", PROTOCOLS),
    ("PASS_THROUGH_ROUTE_TABLE", PROTOCOLS),
    ("PBH_", POLICY),
    ("PIM_", PROTOCOLS),
    ("POLICER", POLICERS),
    ("PORT_STORM_CONTROL", POLICERS),
    ("PREFIX", PROTOCOLS),
    ("ROUTE_", PROTOCOLS),
    ("SAG", GATEWAYS),
    ("SFLOW", MIRRORING),
    ("SRV6_", SRV6),
    ("STATIC_NA", NAT),
    ("STP", BRIDGING_PROTOCOLS),
    ("SUBNET_DECAP", OVERLAY),
    ("SUPPRESS_VLAN_NEIGH", OVERLAY),
    ("TAG_SET", PROTOCOLS),
    ("TAM_", MIRRORING),
    ("TC_TO_DOT1P_MAP", REMARKING),
    ("TUNNEL", OVERLAY),
    ("VLAN_STACKING", BRIDGING_PROTOCOLS),
    ("VLAN_SUB_INTERFACE", SUB_INTERFACES),
    ("VLAN_TRANSLATION", BRIDGING_PROTOCOLS),
    ("VNET", OVERLAY),
    ("VRF", VRFS),
    ("VRRP", GATEWAYS),
    ("VXLAN_", OVERLAY),
];

/// Returns the reason for which a SONiC table has no effect in xoff.
pub(crate) fn ignored_table_reason(table: &str) -> &'static str {
    let reason = REASONS.iter().find(|(prefix, _)| table.starts_with(prefix));
    reason.map_or(OUTSIDE_DATA_PATH, |(_, why)| why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{find_table, sonic_names};

    #[test]
    fn reasons_match_only_tables_without_effect() {
        for (prefix, _) in REASONS {
            let of_reason: Vec<_> = sonic_names::table_names()
                .filter(|name| name.starts_with(prefix))
                .collect();
            assert!(!of_reason.is_empty(), "{prefix}");
            for name in of_reason {
                assert!(find_table(name).is_none(), "{name}");
            }
        }
    }
}
