//! Tests of the built-in presets.

use xoff_dataplane::config::SchedulingMode;
use xoff_units::Picos;

use crate::{PRESETS, ResolveOptions, build_preset, parse, resolve};

fn equal_ports(count: usize, speed: u32) -> Vec<(String, u32)> {
    (0..count).map(|n| (format!("Ethernet{n}"), speed)).collect()
}

fn resolve_options(ports: &[(String, u32)], reaction_budget: Picos) -> ResolveOptions {
    ResolveOptions {
        ports: ports.iter().map(|(name, _)| name.clone()).collect(),
        seed: 0,
        reaction_budget,
        ..ResolveOptions::default()
    }
}

#[test]
fn presets_are_valid_and_equal_after_parsing() {
    for (name, _) in PRESETS {
        for (count, speed, budget) in [
            (0, 1, 0),
            (2, 1_000, 20),
            (64, 400_000, 0),
            (5, 1_000, 2),
            (3, 10_000, 20),
        ] {
            let ports = equal_ports(count, speed);
            let budget = Picos::from_millis(budget);
            let db = build_preset(name, &ports, budget).unwrap();
            assert_eq!(parse(&db.to_json(), name).unwrap(), db);
            let resolved = resolve(&db, &resolve_options(&ports, budget))
                .unwrap_or_else(|problems| panic!("{problems}"));
            // At 10 Gb/s the longest pause is shorter than 20 ms. This is the only expected warning.
            let expected = usize::from(speed == 10_000 && *name == "roce-lossless");
            assert_eq!(
                resolved.warnings.len(),
                expected,
                "{name} {count} {speed}: {:?}",
                resolved.warnings
            );
        }
    }
}

#[test]
fn roce_lossless_has_its_classes_and_enough_headroom() {
    let ports = equal_ports(4, 1_000);
    let budget = Picos::from_millis(20);
    let config = resolve(
        &build_preset("roce-lossless", &ports, budget).unwrap(),
        &resolve_options(&ports, budget),
    )
    .unwrap()
    .config;
    let port = &config.ports[0];
    let class = |dscp: usize| port.classify.dscp_to_tc[dscp];
    assert_eq!((class(26), class(48), class(0), class(63)), (3, 6, 0, 0));
    assert_eq!(
        (port.pfc.enabled, port.queues[6].schedule),
        (1 << 3, SchedulingMode::Strict)
    );
    assert_eq!(port.queues[0].schedule, port.queues[3].schedule);
    assert!(port.queues[3].wred.is_some_and(|wred| wred.ecn));
    let lossless = &config.profiles[usize::from(port.pgs[3])];
    assert!(lossless.xoff_bytes >= 2_500_000);
    let pool = &config.pools[usize::from(lossless.pool)];
    assert!(
        pool.xoff_bytes >= 4 * lossless.xoff_bytes,
        "all ports may be paused at once"
    );
    let egress = &config.profiles[usize::from(port.queues[3].profile)];
    let held = config.pools[usize::from(egress.pool)].size_bytes;
    assert!(
        held >= pool.size_bytes + pool.xoff_bytes,
        "egress holds whatever ingress admits"
    );
}

#[test]
fn roce_lossy_has_no_pfc() {
    let ports = equal_ports(2, 25_000);
    let config = resolve(
        &build_preset("roce-lossy", &ports, Picos::ZERO).unwrap(),
        &resolve_options(&ports, Picos::ZERO),
    )
    .unwrap()
    .config;
    assert!(config.ports.iter().all(|port| port.pfc.enabled == 0));
    assert!(config.profiles.iter().all(|profile| profile.xoff_bytes == 0));
    assert!(config.ports[1].queues[3].wred.is_some());
}

#[test]
fn unknown_preset_error_lists_all_presets() {
    let error = build_preset("roce", &[], Picos::ZERO).unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown preset \"roce\"; available presets: roce-lossless, roce-lossy"
    );
}
