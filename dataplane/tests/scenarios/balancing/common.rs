//! Behaviour common to all schemes: members, counters, and custom schemes.

use std::sync::Arc;

use xoff_dataplane::balance::{FlowPlacement, GroupKey, MemberChoice, MoveReason, Packet, PathChoice, Paths};
use xoff_dataplane::config::{
    CustomScheme, HashFields, MemberSelection, SchemeConfig, SchemeKind, SwitchConfig,
};
use xoff_dataplane::{ForwardingResult, GroupId};

use super::{
    balanced_config, egress_port, flow_frame, harness_with_neighbours, packets_per_member, queue_pair_frame,
};

const WRITE_ONLY: u8 = 0x0a;

#[test]
fn round_robin_uses_members_in_turn() {
    let mut harness = harness_with_neighbours(&balanced_config(SchemeConfig::new(
        "spray",
        SchemeKind::RoundRobin,
    )));
    let ways: Vec<_> = (0..8)
        .map(|_| egress_port(&mut harness, &flow_frame(1)))
        .collect();
    assert_eq!(ways, [1, 2, 3, 4, 1, 2, 3, 4]);
    let views = harness.switch().balanced_groups(harness.now());
    assert_eq!(views.len(), 1);
    assert_eq!(views[0].group, GroupKey::NextHops(GroupId(0)));
    let packets: Vec<_> = views[0].members.iter().map(|member| member.packets).collect();
    assert_eq!(packets, [2, 2, 2, 2]);
}

#[test]
fn round_robin_skips_links_that_are_down_and_drops_without_links() {
    let mut harness = harness_with_neighbours(&balanced_config(SchemeConfig::new(
        "spray",
        SchemeKind::RoundRobin,
    )));
    harness.set_link(2, false);
    let ways: Vec<_> = (0..6)
        .map(|_| egress_port(&mut harness, &flow_frame(1)))
        .collect();
    assert_eq!(ways, [1, 3, 4, 1, 3, 4]);
    for port in [1, 3, 4] {
        harness.set_link(port, false);
    }
    assert!(matches!(
        harness.receive(0, &flow_frame(1)),
        ForwardingResult::Dropped(_)
    ));
    let views = harness.switch().balanced_groups(harness.now());
    assert!(views[0].members.iter().all(|member| !member.usable));
}

#[test]
fn queue_pairs_spread_when_the_hash_includes_their_number() {
    let spread = |hash| {
        let scheme = SchemeConfig {
            hash,
            ..SchemeConfig::new("hash", SchemeKind::Hash)
        };
        let mut harness = harness_with_neighbours(&balanced_config(scheme));
        let mut counts = [0; 5];
        for qp in 0..200 {
            counts[usize::from(egress_port(&mut harness, &queue_pair_frame(qp, WRITE_ONLY, 0)))] += 1;
        }
        counts
    };
    assert_eq!(
        spread(HashFields::FiveTuple)
            .iter()
            .filter(|&&count| count > 0)
            .count(),
        1
    );
    let counts = spread(HashFields::FiveTupleQp);
    assert!(
        counts[1..].iter().all(|count| (23..=77).contains(count)),
        "{counts:?}"
    );
}

/// A custom scheme that always selects the last member and reports one flow move.
#[derive(Debug, Default)]
struct LastMemberScheme(bool);

impl PathChoice for LastMemberScheme {
    fn choose(&mut self, _: &Packet<'_>, paths: &mut Paths<'_>) -> MemberChoice {
        let member = *paths.usable().last().expect("there is one");
        let placed = FlowPlacement {
            reason: MoveReason::New,
            from: None,
        };
        MemberChoice {
            member,
            placed: (!core::mem::replace(&mut self.0, true)).then_some(placed),
        }
    }

    fn members_changed(&mut self, _: &[Option<u16>], _: &mut Paths<'_>) {}
}

/// Builds the next generation of the current routes, as a running switch does.
fn set_following_routes(config: &mut SwitchConfig) {
    let routes = config.routing.fib.routes().map(|(route, _)| route.clone());
    let next = config
        .routing
        .fib
        .build_successor(routes)
        .expect("the same routes");
    config.routing.fib = Arc::new(next);
}

#[test]
fn groups_with_an_unchanged_scheme_keep_their_flows() {
    let fixed = SchemeConfig::new(
        "fixed",
        SchemeKind::Fixed {
            pick: MemberSelection::Random,
        },
    );
    let mut config = balanced_config(fixed.clone());
    let mut harness = harness_with_neighbours(&config);
    let flows: Vec<u16> = (4_000..4_032).collect();
    let before: Vec<u16> = flows
        .iter()
        .map(|port| egress_port(&mut harness, &flow_frame(*port)))
        .collect();
    // Another scheme is added with a lower index. A LAG or a route may use it.
    config.balancing.schemes = vec![SchemeConfig::new("turns", SchemeKind::RoundRobin), fixed];
    config.balancing.default_scheme = Some(1);
    set_following_routes(&mut config);
    harness.apply(&config);
    let after: Vec<u16> = flows
        .iter()
        .map(|port| egress_port(&mut harness, &flow_frame(*port)))
        .collect();
    assert_eq!(before, after);
    assert_eq!(
        harness.switch().balanced_groups(harness.now())[0].moves[0],
        32,
        "each was placed once"
    );
    // The scheme of the group itself has changed to round robin.
    config.balancing.default_scheme = Some(0);
    set_following_routes(&mut config);
    harness.apply(&config);
    assert_eq!(packets_per_member(&harness), [0; 4], "it begins anew");
    flows.iter().for_each(|port| {
        egress_port(&mut harness, &flow_frame(*port));
    });
    assert_eq!(packets_per_member(&harness), [8; 4]);
}

#[test]
fn a_custom_scheme_selects_members_and_reports_moves() {
    let own = CustomScheme::new(|| Box::new(LastMemberScheme::default()));
    let mut harness = harness_with_neighbours(&balanced_config(SchemeConfig::new(
        "last",
        SchemeKind::Custom(own),
    )));
    assert_eq!(
        (
            egress_port(&mut harness, &flow_frame(1)),
            egress_port(&mut harness, &flow_frame(2))
        ),
        (4, 4)
    );
    harness.set_link(4, false);
    assert_eq!(egress_port(&mut harness, &flow_frame(2)), 3);
    let moves: Vec<_> = harness.switch().flow_moves().collect();
    assert_eq!(moves.len(), 1);
    assert_eq!(
        (moves[0].from, moves[0].to, moves[0].reason),
        (None, 3, MoveReason::New)
    );
    let views = harness.switch().balanced_groups(harness.now());
    assert_eq!(views[0].moves[MoveReason::New as usize], 1);
}
