//! Groups that balance load by a scheme.

mod global;
mod interface;
mod missing_ways;
mod three_tiers;

use xoff_dataplane::Picos;
use xoff_dataplane::Verdict;
use xoff_dataplane::config::{SchemeConfig, SwitchConfig};

use crate::routing::introduce;
use crate::support::Harness;
use crate::support::config;
use crate::support::packets::{refresh_checksum, to_router, udp4};

/// Four next hops behind ports 1 to 4; packets come in on port 0.
const HOPS: [(u16, &str); 4] = [(1, "10.0.1.9"), (2, "10.0.2.9"), (3, "10.0.3.9"), (4, "10.0.4.9")];

/// Five ports, a route to 198.51.100.0/24 over four of them, balanced by `scheme`.
fn balanced(scheme: SchemeConfig) -> SwitchConfig {
    let mut config = config::routed(5);
    config::routes(&mut config, &[("198.51.100.0/24", config::via(&HOPS))]);
    config.balancing.schemes = vec![scheme];
    config.balancing.default_scheme = Some(0);
    config.balancing.moves_kept = 1_024;
    config
}

/// The switch with all its neighbours known.
fn up(config: &SwitchConfig) -> Harness {
    let mut harness = Harness::new(config);
    (0..5).for_each(|port| introduce(&mut harness, port));
    harness.run_for(Picos::from_millis(10));
    harness.clear_sent();
    harness
}

/// A frame of a UDP flow, by its source port.
fn flow(source_port: u16) -> Vec<u8> {
    let mut packet = udp4("10.0.0.9", "198.51.100.7", 64, 40);
    packet[20..22].copy_from_slice(&source_port.to_be_bytes());
    refresh_checksum(&mut packet);
    to_router(0, 0x0800, &packet)
}

/// A frame of a RoCEv2 queue pair; all have the same source port.
fn queue_pair(destination_qp: u32, opcode: u8, psn: u32) -> Vec<u8> {
    let mut packet = udp4("10.0.0.9", "198.51.100.7", 64, 40);
    packet[20..22].copy_from_slice(&50_000u16.to_be_bytes());
    packet[22..24].copy_from_slice(&4_791u16.to_be_bytes());
    packet[28..40].fill(0);
    packet[28] = opcode;
    packet[32..36].copy_from_slice(&destination_qp.to_be_bytes());
    packet[36..40].copy_from_slice(&psn.to_be_bytes());
    refresh_checksum(&mut packet);
    to_router(0, 0x0800, &packet)
}

/// The port that a frame leaves by, alone.
fn way(harness: &mut Harness, frame: &[u8]) -> u16 {
    harness.clear_sent();
    assert_eq!(harness.receive(0, frame), Verdict::Forwarded { copies: 1 });
    harness.run_for(Picos::from_micros(10));
    (1..5)
        .find(|&port| !harness.data_sent(port).is_empty())
        .expect("it left")
}
