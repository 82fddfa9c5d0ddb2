//! ACL rules that exclude packets from load balancing (`DISABLE_ARS_FORWARDING`).

use xoff_dataplane::config::{AclRule, AclTable, SchemeConfig, SchemeKind};

use super::{balanced_config, egress_port, flow_frame, harness_with_neighbours, packets_per_member};

#[test]
fn exempt_packets_are_hashed_and_not_counted() {
    let hashed = {
        let mut harness =
            harness_with_neighbours(&balanced_config(SchemeConfig::new("hash", SchemeKind::Hash)));
        egress_port(&mut harness, &flow_frame(4_000))
    };
    let mut config = balanced_config(SchemeConfig::new("tested", SchemeKind::RoundRobin));
    let rule = |source_port, exempts| AclRule {
        source_ports: Some((source_port, source_port)),
        exempts,
        ..AclRule::default()
    };
    config.balancing.exempt = vec![AclTable {
        ports: vec![0],
        rules: vec![rule(4_001, false), rule(4_000, true), rule(4_001, true)],
    }];
    let mut harness = harness_with_neighbours(&config);
    for _ in 0..8 {
        assert_eq!(
            egress_port(&mut harness, &flow_frame(4_000)),
            hashed,
            "as the router hashes it"
        );
    }
    assert_eq!(packets_per_member(&harness), [0; 4]);
    // The first rule protects the packet from the second rule.
    for _ in 0..8 {
        egress_port(&mut harness, &flow_frame(4_001));
    }
    assert_eq!(packets_per_member(&harness), [2; 4]);
}

#[test]
fn rules_of_other_ports_do_not_apply() {
    let mut config = balanced_config(SchemeConfig::new("tested", SchemeKind::RoundRobin));
    config.balancing.exempt = vec![AclTable {
        ports: vec![1],
        rules: vec![AclRule {
            exempts: true,
            ..AclRule::default()
        }],
    }];
    let mut harness = harness_with_neighbours(&config);
    for _ in 0..4 {
        egress_port(&mut harness, &flow_frame(4_000));
    }
    assert_eq!(packets_per_member(&harness), [1; 4]);
}
