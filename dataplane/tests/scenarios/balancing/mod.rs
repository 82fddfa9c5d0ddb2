//! Tests of load balancing groups with a scheme.

mod assigned_flows;
mod cluster;
mod common;
mod drill;
mod exemption;
mod flowlet;
mod lost_paths;
mod per_packet;
mod quality_messages;
mod reordering;
mod three_tiers;
mod unequal_members;
mod usable_members;

use xoff_dataplane::balance::{FlowMove, MoveReason};
use xoff_dataplane::config::{SchemeConfig, SchemeKind, SwitchConfig};
use xoff_dataplane::{ForwardingResult, Picos};

use crate::routing::send_arp_request_from;
use crate::support::Harness;
use crate::support::config;
use crate::support::packets::{frame_to_router, refresh_checksum, udp_ipv4_packet};

/// Next hops behind ports 1 to 4. Packets arrive on port 0.
const NEXT_HOPS: [(u16, &str); 4] = [(1, "10.0.1.9"), (2, "10.0.2.9"), (3, "10.0.3.9"), (4, "10.0.4.9")];

/// Creates a switch with five ports and a route to 198.51.100.0/24 with four next hops, balanced by `scheme`.
fn balanced_config(scheme: SchemeConfig) -> SwitchConfig {
    let mut config = config::router_config(5);
    config::set_static_routes(
        &mut config,
        &[("198.51.100.0/24", config::equal_cost_target(&NEXT_HOPS))],
    );
    config.balancing.schemes = vec![scheme];
    config.balancing.default_scheme = Some(0);
    config.balancing.moves_kept = 4_096;
    // The buffer is large enough to avoid drops.
    config.pools.iter_mut().for_each(|pool| pool.size_bytes = 1 << 26);
    config
}

/// Creates a switch with all neighbours resolved.
fn harness_with_neighbours(config: &SwitchConfig) -> Harness {
    let mut harness = Harness::new(config);
    (0..5).for_each(|port| send_arp_request_from(&mut harness, port));
    harness.run_for(Picos::from_millis(10));
    harness.clear_sent();
    harness
}

/// Returns a UDP frame with this source port.
fn flow_frame(source_port: u16) -> Vec<u8> {
    let mut packet = udp_ipv4_packet("10.0.0.9", "198.51.100.7", 64, 40);
    packet[20..22].copy_from_slice(&source_port.to_be_bytes());
    refresh_checksum(&mut packet);
    frame_to_router(0, 0x0800, &packet)
}

/// Returns a RoCEv2 frame of this queue pair. All queue pairs have the same source port.
fn queue_pair_frame(destination_qp: u32, opcode: u8, psn: u32) -> Vec<u8> {
    let mut packet = udp_ipv4_packet("10.0.0.9", "198.51.100.7", 64, 40);
    packet[20..22].copy_from_slice(&50_000u16.to_be_bytes());
    packet[22..24].copy_from_slice(&4_791u16.to_be_bytes());
    packet[28..40].fill(0);
    packet[28] = opcode;
    packet[32..36].copy_from_slice(&destination_qp.to_be_bytes());
    packet[36..40].copy_from_slice(&psn.to_be_bytes());
    refresh_checksum(&mut packet);
    frame_to_router(0, 0x0800, &packet)
}

/// Sends one frame and returns its egress port.
fn egress_port(harness: &mut Harness, frame: &[u8]) -> u16 {
    harness.clear_sent();
    assert_eq!(
        harness.receive(0, frame),
        ForwardingResult::Forwarded { copies: 1 }
    );
    harness.run_for(Picos::from_micros(10));
    (1..5)
        .find(|&port| !harness.data_sent(port).is_empty())
        .expect("it left")
}

/// Creates a switch with resolved neighbours and a scheme of this kind.
fn harness_with_scheme(kind: SchemeKind) -> Harness {
    harness_with_neighbours(&balanced_config(SchemeConfig::new("tested", kind)))
}

/// Returns the number of packets of each member. Member *n* uses port *n* + 1.
fn packets_per_member(harness: &Harness) -> Vec<u64> {
    let views = harness.switch().balanced_groups(harness.now());
    views[0].members.iter().map(|member| member.packets).collect()
}

/// Returns the egress port of a frame, whether the frame leaves now or waits.
fn selected_port(harness: &mut Harness, frame: &[u8]) -> u16 {
    let before = packets_per_member(harness);
    assert_eq!(
        harness.receive(0, frame),
        ForwardingResult::Forwarded { copies: 1 }
    );
    let after = packets_per_member(harness);
    let taken = before
        .iter()
        .zip(&after)
        .position(|(before, after)| before < after);
    taken.expect("a member took it") as u16 + 1
}

/// Queues frames of 1 000 bytes (8 us each) at a port, without load balancing.
fn fill_egress_queue(harness: &mut Harness, port: u16, frames: usize) {
    let packet = udp_ipv4_packet("10.0.0.9", &format!("10.0.{port}.9"), 64, 958);
    assert_eq!(
        harness.receive_many(frames, 0, &frame_to_router(0, 0x0800, &packet)),
        0
    );
}

/// Returns the flow placements and moves since `from`: old member, new member, reason.
fn moves_since(harness: &Harness, from: usize) -> Vec<(Option<u16>, u16, MoveReason)> {
    let told = |entry: &FlowMove| (entry.from, entry.to, entry.reason);
    harness.switch().flow_moves().skip(from).map(told).collect()
}
