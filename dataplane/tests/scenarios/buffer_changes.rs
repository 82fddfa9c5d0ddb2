//! Changes of thresholds, profiles, pools and maps at line rate. Classes that stay lossless lose no frame,
//! and counters continue.

use xoff_dataplane::config::{BufferProfile, BufferThreshold, NO_PROFILE, PortProfile, SwitchConfig};
use xoff_dataplane::counters::PortCounters;
use xoff_dataplane::{DropReason, ForwardingResult, PgId, Picos, PortId};
use xoff_wire::Ecn;

use crate::support::frames::{shortest_udp_frame, udp_frame};
use crate::support::sender::{Flow, Sender, frame_number};
use crate::support::{Harness, config};

const RECEIVER: u16 = 3;
const RUN_TIME: Picos = Picos::from_millis(60);
const CHANGE_INTERVAL: Picos = Picos::from_micros(500);
const FRAME_LEN: usize = 1_082;

fn cells_to_bytes(count: u64) -> u64 {
    count * u64::from(config::CELL_BYTES)
}

/// Runs three senders at line rate in classes 3 and 4 to one receiver. `change` is called every 0.5 ms.
fn run_under_load(
    mut config: SwitchConfig,
    mut change: impl FnMut(u64, &Harness, &mut SwitchConfig),
) -> Harness {
    let mut harness = Harness::with_learnt_addresses(&config);
    let until = harness.now() + RUN_TIME;
    for port in 0..RECEIVER as u8 {
        let flow = |class| {
            let frame = udp_frame(port, RECEIVER as u8, class, Ecn::NotEct, FRAME_LEN);
            Flow::new(class, frame, Picos::ZERO, until)
        };
        harness.connect_peer(
            u16::from(port),
            Sender::new(config::GIGABIT, vec![flow(3), flow(4)]),
        );
    }
    let before: Vec<PortCounters> = (0..=RECEIVER).map(|port| harness.counters(port)).collect();
    let mut last = frame_totals(&harness);
    for step in 0..RUN_TIME.0 / CHANGE_INTERVAL.0 {
        change(step, &harness, &mut config);
        let (seen, peaks) = (frame_totals(&harness), group_watermarks(&harness));
        harness.apply(&config);
        assert_eq!(
            frame_totals(&harness)[..2],
            seen[..2],
            "step {step}: a change counts nothing"
        );
        assert!(
            peaks
                .iter()
                .zip(self::group_watermarks(&harness))
                .all(|(old, new)| *old <= new),
            "step {step}: peaks stay"
        );
        harness.run_for(CHANGE_INTERVAL);
        let now = frame_totals(&harness);
        assert!(
            now.iter().zip(&last).all(|(now, last)| now >= last),
            "step {step}: {last:?} {now:?}"
        );
        last = now;
    }
    harness.run();
    assert_no_loss(&harness, &before);
    harness
}

/// Returns the received frames, sent frames and sent PFC frames of all ports.
fn frame_totals(harness: &Harness) -> [u64; 3] {
    let of_ports =
        |value: fn(&PortCounters) -> u64| (0..=RECEIVER).map(|port| value(&harness.counters(port))).sum();
    [
        of_ports(|counters| counters.rx_packets),
        of_ports(|counters| counters.tx_packets),
        of_ports(|counters| counters.pfc_tx_frames),
    ]
}

/// Returns the watermarks of the senders' lossless groups.
fn group_watermarks(harness: &Harness) -> Vec<u32> {
    let of_group = |port, group| {
        harness
            .switch()
            .pg_buffers(PgId::new(PortId(port), group))
            .total
            .peak_cells
    };
    (0..RECEIVER)
        .flat_map(|port| [of_group(port, 3), of_group(port, 4)])
        .collect()
}

fn assert_no_loss(harness: &Harness, before: &[PortCounters]) {
    for port in 0..=RECEIVER {
        assert_eq!(
            harness.counters(port).dropped_frames(),
            0,
            "port {port}: {:?}",
            harness.dropped
        );
    }
    let mut sent = 0;
    for port in 0..RECEIVER {
        for flow in harness.peer(port).flows() {
            let of_flow = |s: &&crate::support::SentFrame| {
                s.bytes[11] == port as u8 && s.bytes[15] >> 2 == flow.priority
            };
            let numbers: Vec<u32> = harness
                .data_sent(RECEIVER)
                .iter()
                .filter(of_flow)
                .map(|s| frame_number(&s.bytes))
                .collect();
            assert!(flow.sent > 0);
            assert_eq!(
                numbers,
                (0..flow.sent).collect::<Vec<_>>(),
                "each once and in order"
            );
            sent += u64::from(flow.sent);
        }
    }
    let received = harness.counters(RECEIVER).tx_packets - before[usize::from(RECEIVER)].tx_packets;
    assert_eq!(received, sent, "what was counted is what was sent");
    // The link to the receiver was never idle. Each frame occupies 1106 bytes.
    let carried = received * 1_106 * 8 * 1_000;
    assert!(carried as f64 > 0.98 * RUN_TIME.0 as f64, "{received} frames");
    harness.assert_empty();
}

#[test]
fn alpha_changes_at_line_rate_lose_no_lossless_frame() {
    let mut pauses = Vec::new();
    let harness = run_under_load(config::bridge_config(4), |step, harness, config| {
        let alpha = [0, -8, 3, -2, 7, -5][step as usize % 6];
        config.profiles[config::LOSSLESS].threshold = match step % 7 {
            6 => BufferThreshold::Static(cells_to_bytes(100)),
            _ => BufferThreshold::Dynamic(alpha),
        };
        pauses.push(frame_totals(harness)[2]);
    });
    assert!(harness.counters(0).pfc_tx[3] > 2, "{pauses:?}");
}

#[test]
fn profile_changes_at_line_rate_lose_no_lossless_frame() {
    let mut config = config::bridge_config(4);
    let other = BufferProfile {
        name: "other".into(),
        size_bytes: cells_to_bytes(100 + 200),
        xoff_bytes: cells_to_bytes(200),
        xon_bytes: cells_to_bytes(4),
        xon_offset_bytes: 0,
        threshold: BufferThreshold::Dynamic(-3),
        ..config.profiles[config::LOSSLESS].clone()
    };
    config.profiles.push(other);
    run_under_load(config, |step, _, config| {
        let profile = if step % 2 == 0 { 4 } else { config::LOSSLESS as u16 };
        for port in &mut config.ports {
            port.pgs[3 + (step / 2 % 2) as usize] = profile;
        }
        config.profiles[4].xon_bytes = cells_to_bytes(step % 20);
    });
}

#[test]
fn pool_changes_above_current_use_lose_no_lossless_frame() {
    run_under_load(config::bridge_config(4), |step, harness, config| {
        let used = u64::from(
            harness
                .switch()
                .pool_buffers(config::INGRESS_POOL)
                .shared
                .current_cells,
        );
        config.pools[config::INGRESS_POOL].size_bytes = match step % 3 {
            0 => cells_to_bytes(used + 1),
            1 => cells_to_bytes(used * 2 + 100),
            _ => cells_to_bytes(4_096),
        };
        // Private headroom becomes shared and private again. The pool has enough headroom for all groups.
        config.pools[config::INGRESS_POOL].xoff_bytes = if step % 4 < 2 { cells_to_bytes(8 * 64) } else { 0 };
    });
}

#[test]
fn map_changes_at_line_rate_lose_no_lossless_frame() {
    run_under_load(config::bridge_config(4), |step, _, config| {
        let group = 3 + (step % 2) as u8;
        for port in &mut config.ports {
            // Class 3 uses the group of class 4, and its priority signals that group.
            port.classify.tc_to_pg[3] = group;
            port.pfc.priority_to_pg[3] = group;
        }
    });
}

#[test]
fn adding_and_removing_port_limits_loses_no_lossless_frame() {
    let mut config = config::bridge_config(4);
    let of_port = BufferProfile {
        threshold: BufferThreshold::Dynamic(-2),
        ..config.profiles[config::LOSSY].clone()
    };
    config.profiles.push(of_port);
    run_under_load(config, |step, _, config| {
        config.profiles[4].threshold = BufferThreshold::Dynamic([-2, 0, -4, 1][step as usize % 4]);
        config.port_profiles = match step % 3 {
            0 => Vec::new(),
            _ => (0..4).map(|port| PortProfile { port, profile: 4 }).collect(),
        };
    });
}

/// With alpha 1 for the group and for the port, the group gets one third of the pool instead of one half.
#[test]
fn a_port_profile_list_lowers_the_xoff_point_of_all_groups_of_the_port() {
    let mut config = config::bridge_config(2);
    let of_port = BufferProfile {
        threshold: BufferThreshold::Dynamic(0),
        ..config.profiles[config::LOSSY].clone()
    };
    config.profiles.push(of_port);
    config.port_profiles = vec![PortProfile { port: 0, profile: 4 }];
    let mut harness = Harness::with_learnt_addresses(&config);
    harness.set_tx_enabled(1, false);
    // Reserve of 4, then u >= (4096 - u) - u: 1366 cells.
    harness.receive_many(4 + 1_365, 0, &shortest_udp_frame(0, 1, 3));
    assert_eq!(harness.switch().xoff_groups(PortId(0)), 0);
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    assert_eq!(harness.switch().xoff_groups(PortId(0)), 1 << 3);
    // The other group gets its reserve, and one cell that puts it into XOFF as well.
    harness.receive_many(4, 0, &shortest_udp_frame(0, 1, 4));
    assert_eq!(
        harness.switch().xoff_groups(PortId(0)) & 1 << 4,
        0,
        "the reserve is its own"
    );
    while harness.switch().xoff_groups(PortId(0)) & 1 << 4 == 0 {
        assert!(!matches!(
            harness.receive(0, &shortest_udp_frame(0, 1, 4)),
            ForwardingResult::Dropped(_)
        ));
    }
    harness.switch().assert_consistent();
    // Lossless groups also have their headroom, to the cell.
    assert_eq!(harness.receive_many(64, 0, &shortest_udp_frame(0, 1, 3)), 0);
    assert!(matches!(
        harness.receive(0, &shortest_udp_frame(0, 1, 3)),
        ForwardingResult::Dropped(_)
    ));
    harness.set_tx_enabled(1, true);
    harness.run();
    assert_eq!(harness.pfc_sent(0).last().expect("PFC").1.quanta, [0; 8], "XON");
    harness.assert_empty();
}

#[test]
fn a_group_without_a_buffer_drops_only_its_own_frames() {
    let mut config = config::bridge_config(2);
    let mut harness = Harness::with_learnt_addresses(&config);
    config.ports[0].pgs[3] = NO_PROFILE;
    config.ports[1].queues[0].profile = NO_PROFILE;
    harness.apply(&config);
    harness.receive_many(5, 0, &shortest_udp_frame(0, 1, 3));
    harness.receive_many(5, 0, &shortest_udp_frame(0, 1, 4));
    harness.receive_many(5, 0, &shortest_udp_frame(0, 1, 0));
    harness.run();
    assert_eq!(harness.drop_count(0, DropReason::PriorityGroupDropped), 5);
    assert_eq!(harness.drop_count(1, DropReason::QueueDropped), 5);
    assert_eq!(harness.sent(1).len(), 5);
    harness.assert_empty();
}
