//! Groups that balance load by a scheme.

mod always;
mod cluster;
mod drill;
mod exempt;
mod fixed;
mod flowlet;
mod global;
mod interface;
mod missing_ways;
mod per_packet;
mod reorder;
mod three_tiers;
mod unequal;

use xoff_dataplane::balance::{FlowMove, MoveReason};
use xoff_dataplane::config::{SchemeConfig, SchemeKind, SwitchConfig};
use xoff_dataplane::{Picos, Verdict};

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
    config.balancing.moves_kept = 4_096;
    // Nothing is dropped here for want of room.
    config.pools.iter_mut().for_each(|pool| pool.size_bytes = 1 << 26);
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

/// [`up`] with a scheme of this kind.
fn with(kind: SchemeKind) -> Harness {
    up(&balanced(SchemeConfig::new("tested", kind)))
}

/// Packets that each member has taken; member *n* leads over port *n* + 1.
fn packets(harness: &Harness) -> Vec<u64> {
    let views = harness.switch().balanced_groups(harness.now());
    views[0].members.iter().map(|member| member.packets).collect()
}

/// The port that a frame is to leave by, whether it can leave now or has to wait.
fn chosen(harness: &mut Harness, frame: &[u8]) -> u16 {
    let before = packets(harness);
    assert_eq!(harness.receive(0, frame), Verdict::Forwarded { copies: 1 });
    let after = packets(harness);
    let taken = before
        .iter()
        .zip(&after)
        .position(|(before, after)| before < after);
    taken.expect("a member took it") as u16 + 1
}

/// Puts frames of 1 000 octets (8 us each) into the queue of a port, past all groups.
fn occupy(harness: &mut Harness, port: u16, frames: usize) {
    let packet = udp4("10.0.0.9", &format!("10.0.{port}.9"), 64, 958);
    assert_eq!(harness.receive_many(frames, 0, &to_router(0, 0x0800, &packet)), 0);
}

/// The flows that were placed or moved since `from`: where they were, where they are, and why.
fn moves(harness: &Harness, from: usize) -> Vec<(Option<u16>, u16, MoveReason)> {
    let told = |entry: &FlowMove| (entry.from, entry.to, entry.reason);
    harness.switch().moves().skip(from).map(told).collect()
}
