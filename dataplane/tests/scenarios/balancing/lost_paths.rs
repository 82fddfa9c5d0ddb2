//! Path loss behind the next switch: which switches learn of it, which flows move, and which frames are lost.

use xoff_dataplane::config::{SchemeConfig, SchemeKind};
use xoff_dataplane::{DropReason, Picos, PortId};
use xoff_wire::LinkQuality;

use super::quality_messages::{frames_at_host, frames_per_uplink, send_between_hosts};
use crate::support::net::{self, LeafSpineFabric, TestNetwork};

/// The cable between leaf 1 and spine 0, of four spines.
const REMOTE_CABLE: usize = 4;

/// Creates two leaves and four spines.
fn fabric_with_four_spines(scheme: Option<SchemeKind>, loads: bool) -> LeafSpineFabric {
    LeafSpineFabric {
        scheme: scheme.map(|kind| SchemeConfig::new("test", kind)),
        advertises_loads: loads,
        ..LeafSpineFabric::new(2, 4)
    }
}

fn drops_with_reason(net: &TestNetwork, reason: DropReason) -> u64 {
    let switches = net.switches.iter();
    switches
        .map(|switch| switch.switch().dropped_frames_for(reason))
        .sum()
}

/// Returns the number of frames that were dropped because they had no path.
pub(super) fn drops_without_path(net: &TestNetwork) -> u64 {
    drops_with_reason(net, DropReason::L3EgressLinkDown)
}

/// Frames to leaf 1 that were in flight to spine 0 when the message about the lost path was sent.
const LATE_MAX: u64 = 30;

fn check_link_failure_and_recovery(scheme: Option<SchemeKind>, loads: bool) {
    let mut net = fabric_with_four_spines(scheme, loads).build_network();
    let sent = send_between_hosts(&mut net, (0, 1), 12, Picos::from_micros(600));
    net.run_for(Picos::from_micros(200));
    net.set_cable_state(REMOTE_CABLE, false);
    net.run_for(Picos::from_micros(10));
    let (counts, late) = (frames_per_uplink(&net, 0), drops_without_path(&net));
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    net.run_for(Picos::from_micros(190));
    let after = frames_per_uplink(&net, 0);
    assert_eq!(after[0], counts[0]);
    assert!((1..4).all(|spine| after[spine] > counts[spine]), "{after:?}");
    assert_eq!(drops_without_path(&net), late);
    net.set_cable_state(REMOTE_CABLE, true);
    net.run_for(Picos::from_millis(1));
    assert!(frames_per_uplink(&net, 0)[0] > after[0], "it is used again");
    let late = late + drops_with_reason(&net, DropReason::PortFlushed);
    assert!(late <= LATE_MAX, "{late}");
    assert!(frames_at_host(&net, 1) as u64 + late + 2 >= sent as u64);
    net.run_until_idle(Picos::from_millis(20));
    net.switches.iter().for_each(|switch| switch.assert_empty());
}

#[test]
fn every_scheme_avoids_a_spine_without_a_path_until_recovery() {
    for loads in [false, true] {
        check_link_failure_and_recovery(None, loads);
        check_link_failure_and_recovery(Some(SchemeKind::RoundRobin), loads);
    }
}

/// Returns the spine of each of 200 flows.
fn spines_of_flows(net: &mut TestNetwork) -> Vec<usize> {
    let way = |source_port: u16| {
        let before = frames_per_uplink(net, 0);
        net.switches[0].receive(0, &net::flow_frame(0, 1, source_port, 100));
        net.run_for(Picos::from_micros(1));
        let after = frames_per_uplink(net, 0);
        (0..4)
            .find(|&spine| after[spine] > before[spine])
            .expect("it left")
    };
    (0..200).map(way).collect()
}

/// With static hashing, flows of other spines do not move, in plain and in resilient groups.
#[test]
fn a_lost_path_moves_only_flows_of_that_spine() {
    for resilient in [None, Some(64)] {
        let fabric = fabric_with_four_spines(None, false);
        let mut configs = fabric.configs();
        for config in &mut configs {
            config.routing.resilient_buckets = resilient;
        }
        let mut net = TestNetwork::new(&configs, fabric.cables());
        let before = spines_of_flows(&mut net);
        net.set_cable_state(REMOTE_CABLE, false);
        net.run_for(Picos::from_micros(5));
        let after = spines_of_flows(&mut net);
        let pairs = || before.iter().zip(&after);
        assert!(pairs().all(|(before, after)| (*before == 0) == (before != after)));
        let spread = |spine: usize| pairs().filter(|pair| *pair == (&0, &spine)).count();
        assert!(
            (1..4).all(|spine| spread(spine) > 5),
            "they spread over the others"
        );
        net.set_cable_state(REMOTE_CABLE, true);
        net.run_for(Picos::from_micros(5));
        assert_eq!(spines_of_flows(&mut net), before);
    }
}

#[test]
fn a_lost_path_is_advertised_four_times_and_no_event_remains() {
    let mut net = fabric_with_four_spines(None, false).build_network();
    net.run_for(Picos::from_micros(100));
    net.set_cable_state(REMOTE_CABLE, false);
    net.run_until_idle(Picos::from_micros(200));
    let sent_messages: Vec<_> = net
        .quality_messages
        .iter()
        .map(|(from, sent)| (*from, sent.start.as_nanos()))
        .collect();
    let spine = 2;
    assert_eq!(
        sent_messages,
        [100_000, 120_000, 140_000, 160_000].map(|at| ((spine, 0), at)),
        "by spine 0 to leaf 0, every interval"
    );
    let message = LinkQuality::parse(&net.quality_messages[0].1.bytes).expect("a message");
    let entries: Vec<_> = message
        .entries()
        .map(|entry| (entry.site, entry.capacity_mbps))
        .collect();
    assert_eq!(entries, [(2, 0)]);
}

#[test]
fn a_spine_without_a_path_repeats_its_advertisement_to_senders() {
    let mut net = fabric_with_four_spines(Some(SchemeKind::RoundRobin), false).build_network();
    net.cables_losing_messages.extend(0..8);
    net.set_cable_state(REMOTE_CABLE, false);
    net.run_until_idle(Picos::from_millis(1));
    net.cables_losing_messages.clear();
    net.run_for(Picos::from_millis(1));
    send_between_hosts(&mut net, (0, 1), 1, Picos::from_micros(200));
    net.run_for(Picos::from_millis(1));
    assert!(
        (1..=3).contains(&drops_without_path(&net)),
        "{}",
        drops_without_path(&net)
    );
    assert!(frames_per_uplink(&net, 0)[0] <= 3);
    net.run_until_idle(Picos::from_millis(1));
}

/// The link to the spine flaps while the spine has no path. The spine repeats its advertisement.
#[test]
fn a_neighbour_that_comes_up_receives_current_advertisements() {
    let mut net = fabric_with_four_spines(Some(SchemeKind::RoundRobin), false).build_network();
    net.set_cable_state(REMOTE_CABLE, false);
    net.run_for(Picos::from_micros(200));
    let missing = |net: &TestNetwork| {
        let mut advertisements = net.switches[0]
            .switch()
            .remote_advertisements(net.now(), PortId(1));
        advertisements.any(|advertisement| advertisement.site == 2 && advertisement.capacity_mbps == 0)
    };
    assert!(missing(&net));
    net.set_cable_state(0, false);
    net.run_for(Picos::from_micros(200));
    assert!(!missing(&net));
    net.set_cable_state(0, true);
    net.run_for(Picos::from_micros(5));
    assert!(missing(&net));
    send_between_hosts(&mut net, (0, 1), 1, Picos::from_micros(100));
    net.run_for(Picos::from_millis(1));
    assert_eq!((frames_per_uplink(&net, 0)[0], drops_without_path(&net)), (0, 0));
}

/// If no spine has a path, packets use their old path and are dropped and reported at its end.
#[test]
fn all_spines_are_used_when_none_has_a_path() {
    let mut net = fabric_with_four_spines(Some(SchemeKind::RoundRobin), true).build_network();
    for spine in 0..4 {
        net.set_cable_state(REMOTE_CABLE + spine, false);
    }
    net.run_for(Picos::from_micros(5));
    let sent = send_between_hosts(&mut net, (0, 1), 1, Picos::from_micros(100));
    net.run_for(Picos::from_millis(1));
    let counts = frames_per_uplink(&net, 0);
    assert!(counts.iter().all(|count| *count >= sent as u64 / 4), "{counts:?}");
    assert_eq!(drops_without_path(&net), sent as u64);
    let views = net.switches[0].switch().balanced_groups(net.now());
    assert!(views[0].members.iter().all(|member| member.usable));
}
