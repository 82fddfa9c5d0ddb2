//! ACL rules that exclude packets from load balancing (`DISABLE_ARS_FORWARDING`).

use xoff_dataplane::config::{AclRule, AclTable, SchemeConfig, SchemeKind};

use super::{balanced, flow, packets, up, way};

#[test]
fn packets_of_a_rule_are_hashed_and_not_counted() {
    let hashed = {
        let mut harness = up(&balanced(SchemeConfig::new("hash", SchemeKind::Hash)));
        way(&mut harness, &flow(4_000))
    };
    let mut config = balanced(SchemeConfig::new("tested", SchemeKind::RoundRobin));
    let rule = |source_port, exempts| AclRule {
        source_ports: Some((source_port, source_port)),
        exempts,
        ..AclRule::default()
    };
    config.balancing.exempt = vec![AclTable {
        ports: vec![0],
        rules: vec![rule(4_001, false), rule(4_000, true), rule(4_001, true)],
    }];
    let mut harness = up(&config);
    for _ in 0..8 {
        assert_eq!(way(&mut harness, &flow(4_000)), hashed, "as the router hashes it");
    }
    assert_eq!(packets(&harness), [0; 4]);
    // The first rule protects the packet from the second rule.
    for _ in 0..8 {
        way(&mut harness, &flow(4_001));
    }
    assert_eq!(packets(&harness), [2; 4]);
}

#[test]
fn rules_of_other_ports_do_not_concern_it() {
    let mut config = balanced(SchemeConfig::new("tested", SchemeKind::RoundRobin));
    config.balancing.exempt = vec![AclTable {
        ports: vec![1],
        rules: vec![AclRule {
            exempts: true,
            ..AclRule::default()
        }],
    }];
    let mut harness = up(&config);
    for _ in 0..4 {
        way(&mut harness, &flow(4_000));
    }
    assert_eq!(packets(&harness), [1; 4]);
}
