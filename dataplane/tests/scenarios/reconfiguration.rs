//! Link changes and new configurations under traffic.

use xoff_dataplane::config::{
    BridgingConfig, BufferThreshold, SchedulingMode, TaggingMode, VlanConfig, VlanMemberConfig,
};
use xoff_dataplane::{ApplyError, DropReason, ForwardingResult, LinkTiming, Outputs, Picos, PortId, Switch};
use xoff_wire::Ecn;

use crate::support::frames::{insert_vlan_tag, shortest_udp_frame, udp_frame};
use crate::support::sender::{Flow, Sender};
use crate::support::{Harness, config};
use xoff_dataplane::store::VecStore;

#[test]
fn queued_frames_of_a_port_that_goes_down_are_dropped_and_counted() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(3));
    harness.set_tx_enabled(1, false);
    harness.receive_many(50, 0, &shortest_udp_frame(0, 1, 3));
    harness.receive_many(20, 2, &shortest_udp_frame(2, 1, 0));
    harness.set_link(1, false);
    let flushed = harness.counters(1).drops[DropReason::PortFlushed as usize];
    assert_eq!((flushed[3], flushed[0]), (50, 20));
    harness.assert_empty();
}

#[test]
fn flushing_the_last_copy_of_a_flooded_frame_releases_its_cells() {
    let mut harness = Harness::new(&config::bridge_config(3));
    harness.set_tx_enabled(1, false);
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    harness.run();
    harness.set_link(1, false);
    harness.assert_empty();
}

#[test]
fn addresses_of_a_port_that_goes_down_are_removed() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(4));
    harness.set_link(1, false);
    assert_eq!(
        harness.receive(0, &shortest_udp_frame(0, 1, 0)),
        ForwardingResult::Forwarded { copies: 2 }
    );
    harness.set_link(1, true);
    assert_eq!(
        harness.receive(0, &shortest_udp_frame(0, 1, 0)),
        ForwardingResult::Forwarded { copies: 3 }
    );
}

#[test]
fn a_port_that_goes_down_ends_xoff_of_its_senders() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    harness.set_tx_enabled(1, false);
    harness.receive_many(2_060, 0, &shortest_udp_frame(0, 1, 3));
    assert_eq!(harness.switch().xoff_groups(PortId(0)), 1 << 3);
    harness.set_link(1, false);
    harness.run_for(Picos::from_micros(1));
    assert_eq!(harness.switch().xoff_groups(PortId(0)), 0);
    assert_eq!(harness.pfc_sent(0).last().unwrap().1.quanta, [0; 8]);
}

#[test]
fn traffic_continues_after_a_link_flap_during_a_frame() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    let frame = udp_frame(0, 1, 3, Ecn::NotEct, 9_000);
    harness.receive_many(3, 0, &frame);
    harness.run_for(Picos::from_micros(1));
    harness.set_link(1, false);
    harness.set_link(1, true);
    harness.receive(1, &shortest_udp_frame(1, 0, 0));
    harness.receive_many(3, 0, &frame);
    harness.run();
    assert_eq!(harness.sent(1).len(), 4, "two were flushed");
    harness.assert_empty();
}

#[test]
fn changes_of_ports_or_cell_size_are_refused() {
    let config = config::bridge_config(2);
    let mut switch = Switch::new(&config);
    let mut apply = |config: &_| {
        switch.apply_config(
            Picos::ZERO,
            config,
            &mut VecStore::new(1),
            &mut Outputs::default(),
        )
    };
    assert_eq!(apply(&config::bridge_config(3)), Err(ApplyError::PortsDiffer));
    let mut renamed = config.clone();
    renamed.ports[0].name = "Ethernet9".into();
    assert_eq!(apply(&renamed), Err(ApplyError::PortsDiffer));
    let mut cell = config.clone();
    cell.cell_bytes = 208;
    assert_eq!(apply(&cell), Err(ApplyError::CellSizeDiffers));
    assert_eq!(apply(&config), Ok(()));
}

#[test]
fn weight_changes_under_traffic_lose_no_frame() {
    let mut config = config::bridge_config(3);
    let mut harness = Harness::with_learnt_addresses(&config);
    let (until, mut sent_before) = (harness.now() + Picos::from_millis(20), 0);
    for (port, class) in [(0, 3), (1, 4)] {
        let frame = udp_frame(port, 2, class, Ecn::NotEct, 1_078);
        let flow = Flow::new(class, frame, Picos::ZERO, until);
        harness.connect_peer(u16::from(port), Sender::new(config::GIGABIT, vec![flow]));
    }
    for weight in [1, 3] {
        config.ports[2].queues[4].schedule = SchedulingMode::Dwrr { weight };
        harness.apply(&config);
        harness.run_for(Picos::from_millis(5)); // until queues of both classes are filled
        harness.clear_sent();
        harness.run_for(Picos::from_millis(5));
        let of_class = |n: u8| harness.sent(2).iter().filter(|s| s.bytes[15] >> 2 == n).count();
        let ratio = of_class(4) as f64 / of_class(3) as f64;
        assert!((ratio - f64::from(weight)).abs() < 0.05, "{weight}: {ratio}");
        sent_before += harness.sent(2).len();
    }
    assert!(sent_before > 1_100, "the link was never idle");
    harness.run();
    assert_eq!(
        (0..3).map(|p| harness.counters(p).dropped_frames()).sum::<u64>(),
        0
    );
    harness.assert_empty();
}

#[test]
fn threshold_changes_cause_xoff_at_the_next_frame_and_xon_at_once() {
    let mut config = config::bridge_config(2);
    let mut harness = Harness::with_learnt_addresses(&config);
    harness.set_tx_enabled(1, false);
    harness.receive_many(1_000, 0, &shortest_udp_frame(0, 1, 3));
    config.profiles[config::LOSSLESS].threshold = BufferThreshold::Dynamic(-3);
    harness.apply(&config);
    assert_eq!(harness.switch().xoff_groups(PortId(0)), 0, "decided on arrival");
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    assert_eq!(harness.switch().xoff_groups(PortId(0)), 1 << 3);
    // Headroom is in use, so the group must drain one frame first.
    harness.set_tx_enabled(1, true);
    harness.set_tx_enabled(1, false);
    config.profiles[config::LOSSLESS].threshold = BufferThreshold::Dynamic(0);
    harness.apply(&config);
    assert_eq!(harness.switch().xoff_groups(PortId(0)), 0);
    harness.run_for(Picos::from_millis(1));
    assert_eq!(harness.pfc_sent(0).last().unwrap().1.quanta, [0; 8], "XON");
}

#[test]
fn disabling_pfc_ends_pauses_on_both_sides() {
    let mut config = config::bridge_config(2);
    let mut harness = Harness::with_learnt_addresses(&config);
    harness.receive_pfc(1, 1 << 3, [0xffff; 8]);
    harness.receive_many(2_053, 0, &shortest_udp_frame(0, 1, 3));
    harness.run_for(Picos::from_millis(1));
    assert_eq!((harness.pfc_sent(0).len(), harness.sent(1).len()), (1, 0));
    config.ports.iter_mut().for_each(|port| port.pfc.enabled = 0);
    harness.apply(&config);
    harness.run();
    assert_eq!(harness.pfc_sent(0).last().unwrap().1.quanta, [0; 8], "XON");
    assert_eq!(harness.sent(1).len(), 2_053, "the pause no longer counts");
    harness.assert_empty();
}

#[test]
fn enabling_pfc_sends_xoff_of_congested_groups() {
    let mut off = config::bridge_config(2);
    off.ports[0].pfc.enabled = 0;
    let mut harness = Harness::with_learnt_addresses(&off);
    harness.set_tx_enabled(1, false);
    harness.receive_many(2_060, 0, &shortest_udp_frame(0, 1, 3));
    assert!(harness.sent(0).is_empty());
    harness.apply(&config::bridge_config(2));
    assert_eq!(harness.pfc_sent(0)[0].1.quanta[3], 0xffff);
}

#[test]
fn a_port_forwards_again_after_shutdown_and_startup() {
    let mut config = config::bridge_config(2);
    let mut harness = Harness::with_learnt_addresses(&config);
    harness.set_tx_enabled(1, false);
    harness.receive_many(5, 0, &shortest_udp_frame(0, 1, 0));
    config.ports[1].admin_up = false;
    harness.apply(&config);
    assert_eq!(harness.drop_count(1, DropReason::PortFlushed), 5);
    assert!(
        matches!(harness.receive(1, &shortest_udp_frame(1, 0, 0)), ForwardingResult::Dropped(d) if d.reason == DropReason::PortDown)
    );
    harness.set_tx_enabled(1, true);
    config.ports[1].admin_up = true;
    harness.apply(&config);
    harness.receive(0, &shortest_udp_frame(0, 1, 0));
    assert_eq!(harness.sent(1).len(), 1);
    harness.run();
    harness.assert_empty();
}

#[test]
fn a_new_port_speed_applies_from_the_next_frame() {
    let mut config = config::bridge_config(2);
    let mut harness = Harness::with_learnt_addresses(&config);
    let start = harness.now();
    harness.receive_many(3, 0, &udp_frame(0, 1, 0, Ecn::NotEct, 976));
    config.ports[1].link = LinkTiming::ethernet(10_000);
    harness.apply(&config);
    harness.run();
    let ends: Vec<u64> = harness
        .sent(1)
        .iter()
        .map(|s| s.end.since(start).as_nanos())
        .collect();
    assert_eq!(ends, [8_000, 8_800, 9_600]);
}

#[test]
fn learnt_addresses_are_kept_unless_vlans_change() {
    let mut config = config::bridge_config(3);
    let mut harness = Harness::with_learnt_addresses(&config);
    config.ports[1].queues[0].wred = Some(config::wred_marking_above(1_000));
    harness.apply(&config);
    assert_eq!(
        harness.receive(0, &shortest_udp_frame(0, 1, 0)),
        ForwardingResult::Forwarded { copies: 1 }
    );
    let member = |port, tagging| VlanMemberConfig { port, tagging };
    config.bridging = BridgingConfig::Vlans(vec![VlanConfig {
        id: 10,
        members: vec![
            member(0, TaggingMode::Untagged),
            member(1, TaggingMode::Tagged),
            member(2, TaggingMode::Untagged),
        ],
    }]);
    harness.apply(&config);
    harness.clear_sent();
    assert_eq!(
        harness.receive(0, &shortest_udp_frame(0, 1, 0)),
        ForwardingResult::Forwarded { copies: 2 }
    );
    harness.run();
    assert_eq!(
        harness.sent(1)[0].bytes,
        insert_vlan_tag(&shortest_udp_frame(0, 1, 0), 0x8100, 10)
    );
}
