//! Invariant of all schemes: a packet leaves by a member that is up, and is not dropped while such
//! a member exists.

use proptest::prelude::*;
use xoff_dataplane::config::{HashFields, MemberSelection, RebalanceRule, SchemeConfig, SchemeKind};
use xoff_dataplane::{ForwardingResult, Picos};

use super::{
    balanced_config, flow_frame, harness_with_neighbours, packets_per_member, send_arp_request_from,
};

/// An event between packets.
#[derive(Clone, Copy, Debug)]
enum PacketOrEvent {
    Packet(u16),
    Link(u16, bool),
    Wait(u32),
    Pause(u16, u16),
}

fn random_events() -> impl Strategy<Value = PacketOrEvent> {
    prop_oneof![
        8 => (0u16..400).prop_map(PacketOrEvent::Packet),
        1 => (1u16..5, any::<bool>()).prop_map(|(port, up)| PacketOrEvent::Link(port, up)),
        3 => (0u32..200).prop_map(PacketOrEvent::Wait),
        1 => (1u16..5, any::<u16>()).prop_map(|(port, quanta)| PacketOrEvent::Pause(port, quanta)),
    ]
}

fn random_selections() -> impl Strategy<Value = MemberSelection> {
    prop_oneof![
        Just(MemberSelection::Random),
        Just(MemberSelection::Quality),
        Just(MemberSelection::PathLoad),
        (0u8..=255).prop_map(|remote_percent| MemberSelection::Global { remote_percent }),
    ]
}

fn random_scheme_kinds() -> impl Strategy<Value = SchemeKind> {
    let rebalance =
        proptest::option::of(
            (0u8..9, any::<u32>()).prop_map(|(quality_delta, probability)| RebalanceRule {
                quality_delta,
                probability,
            }),
        );
    prop_oneof![
        (0u64..300, random_selections(), rebalance).prop_map(|(idle, pick, rebalance)| SchemeKind::Flowlet {
            idle: Picos::from_micros(idle),
            pick,
            rebalance,
        }),
        random_selections().prop_map(|pick| SchemeKind::PerPacket { pick }),
        random_selections().prop_map(|pick| SchemeKind::Fixed { pick }),
        Just(SchemeKind::RoundRobin),
        (any::<u8>(), any::<u8>()).prop_map(|(samples, memory)| SchemeKind::Drill { samples, memory }),
    ]
}

fn random_schemes() -> impl Strategy<Value = SchemeConfig> {
    let hash = prop_oneof![
        Just(HashFields::FiveTuple),
        Just(HashFields::FiveTupleQp),
        Just(HashFields::Symmetric),
    ];
    (
        random_scheme_kinds(),
        hash,
        any::<u32>(),
        any::<u8>(),
        any::<u8>(),
    )
        .prop_map(
            |(kind, hash, flowset_entries, primary_threshold, alternate_cost)| SchemeConfig {
                name: "any".into(),
                hash,
                kind,
                flowset_entries,
                primary_threshold,
                alternate_cost,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_packet_leaves_by_a_member_that_is_up(scheme in random_schemes(), steps in prop::collection::vec(random_events(), 1..200)) {
        let mut harness = harness_with_neighbours(&balanced_config(scheme));
        let mut alive = [true; 4];
        for step in steps {
            match step {
                PacketOrEvent::Packet(source_port) => {
                    let before = packets_per_member(&harness);
                    let verdict = harness.receive(0, &flow_frame(source_port));
                    let after = packets_per_member(&harness);
                    let taken: Vec<_> = (0..4).filter(|&member| after[member] > before[member]).collect();
                    if alive.contains(&true) {
                        prop_assert_eq!(verdict, ForwardingResult::Forwarded { copies: 1 });
                        prop_assert_eq!(taken.len(), 1);
                        prop_assert!(alive[taken[0]]);
                    } else {
                        prop_assert!(matches!(verdict, ForwardingResult::Dropped(_)));
                        prop_assert!(taken.is_empty());
                    }
                }
                PacketOrEvent::Link(port, link_up) => {
                    harness.set_link(port, link_up);
                    if link_up {
                        send_arp_request_from(&mut harness, port as u8);
                    }
                    alive[usize::from(port) - 1] = link_up;
                }
                PacketOrEvent::Wait(micros) => harness.run_for(Picos::from_micros(micros.into())),
                PacketOrEvent::Pause(port, quanta) => {
                    harness.receive_pfc(port, 1, [quanta; 8]);
                }
            }
        }
        let view = &harness.switch().balanced_groups(harness.now())[0];
        let usable: Vec<_> = view.members.iter().map(|member| member.usable).collect();
        prop_assert_eq!(usable, alive.to_vec());
        if let Some(table) = view.table {
            prop_assert!(table.flows <= table.flows_max);
        }
        let moved = harness.switch().flow_moves().all(|entry| entry.from != Some(entry.to) && entry.to < 4);
        prop_assert!(moved);
    }
}
