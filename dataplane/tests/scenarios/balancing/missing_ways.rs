//! Path loss behind the next switch: which switches learn of it, which flows move, and which frames are lost.

use xoff_dataplane::config::{SchemeConfig, SchemeKind};
use xoff_dataplane::{DropReason, Picos, PortId};
use xoff_wire::LinkQuality;

use super::global::{arrived, send, uplinks};
use crate::support::net::{self, Net, Shape};

/// The cable between leaf 1 and spine 0, of four spines.
const BEYOND: usize = 4;

/// Two leaves and four spines.
fn shape(scheme: Option<SchemeKind>, loads: bool) -> Shape {
    Shape {
        scheme: scheme.map(|kind| SchemeConfig::new("test", kind)),
        loads,
        ..Shape::new(2, 4)
    }
}

fn dropped(net: &Net, reason: DropReason) -> u64 {
    let switches = net.switches.iter();
    switches
        .map(|switch| switch.switch().dropped_frames_for(reason))
        .sum()
}

/// Frames dropped because they had no path.
pub(super) fn lost(net: &Net) -> u64 {
    dropped(net, DropReason::L3EgressLinkDown)
}

/// Frames to leaf 1 that were already on their way to spine 0 when the message about the lost path was sent.
const LATE_MAX: u64 = 30;

fn fail_and_mend(scheme: Option<SchemeKind>, loads: bool) {
    let mut net = shape(scheme, loads).net();
    let sent = send(&mut net, (0, 1), 12, Picos::from_micros(600));
    net.run_for(Picos::from_micros(200));
    net.set_cable(BEYOND, false);
    net.run_for(Picos::from_micros(10));
    let (counts, late) = (uplinks(&net, 0), lost(&net));
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    net.run_for(Picos::from_micros(190));
    let after = uplinks(&net, 0);
    assert_eq!(after[0], counts[0]);
    assert!((1..4).all(|spine| after[spine] > counts[spine]), "{after:?}");
    assert_eq!(lost(&net), late);
    net.set_cable(BEYOND, true);
    net.run_for(Picos::from_millis(1));
    assert!(uplinks(&net, 0)[0] > after[0], "it is used again");
    let late = late + dropped(&net, DropReason::PortFlushed);
    assert!(late <= LATE_MAX, "{late}");
    assert!(arrived(&net, 1) as u64 + late + 2 >= sent as u64);
    net.run_until_idle(Picos::from_millis(20));
    net.switches.iter().for_each(|switch| switch.assert_empty());
}

#[test]
fn every_scheme_leaves_a_spine_that_has_no_way_at_once_and_comes_back() {
    for loads in [false, true] {
        fail_and_mend(None, loads);
        fail_and_mend(Some(SchemeKind::RoundRobin), loads);
    }
}

/// The spine of each of 200 flows.
fn ways(net: &mut Net) -> Vec<usize> {
    let way = |source_port: u16| {
        let before = uplinks(net, 0);
        net.switches[0].receive(0, &net::flow(0, 1, source_port, 100));
        net.run_for(Picos::from_micros(1));
        let after = uplinks(net, 0);
        (0..4)
            .find(|&spine| after[spine] > before[spine])
            .expect("it left")
    };
    (0..200).map(way).collect()
}

/// With static hashing, flows of other spines do not move, in plain and in resilient groups.
#[test]
fn a_detour_moves_the_flows_of_that_spine_only() {
    for resilient in [None, Some(64)] {
        let shape = shape(None, false);
        let mut configs = shape.configs();
        for config in &mut configs {
            config.routing.resilient_buckets = resilient;
        }
        let mut net = Net::new(&configs, shape.cables());
        let before = ways(&mut net);
        net.set_cable(BEYOND, false);
        net.run_for(Picos::from_micros(5));
        let after = ways(&mut net);
        let pairs = || before.iter().zip(&after);
        assert!(pairs().all(|(before, after)| (*before == 0) == (before != after)));
        let spread = |spine: usize| pairs().filter(|pair| *pair == (&0, &spine)).count();
        assert!(
            (1..4).all(|spine| spread(spine) > 5),
            "they spread over the others"
        );
        net.set_cable(BEYOND, true);
        net.run_for(Picos::from_micros(5));
        assert_eq!(ways(&mut net), before);
    }
}

#[test]
fn it_is_told_four_times_and_then_nothing_is_left_to_happen() {
    let mut net = shape(None, false).net();
    net.run_for(Picos::from_micros(100));
    net.set_cable(BEYOND, false);
    net.run_until_idle(Picos::from_micros(200));
    let told: Vec<_> = net
        .told
        .iter()
        .map(|(from, sent)| (*from, sent.start.as_nanos()))
        .collect();
    let spine = 2;
    assert_eq!(
        told,
        [100_000, 120_000, 140_000, 160_000].map(|at| ((spine, 0), at)),
        "by spine 0 to leaf 0, every interval"
    );
    let message = LinkQuality::parse(&net.told[0].1.bytes).expect("a message");
    let entries: Vec<_> = message
        .entries()
        .map(|entry| (entry.site, entry.capacity_mbps))
        .collect();
    assert_eq!(entries, [(2, 0)]);
}

#[test]
fn what_was_not_heard_is_told_again_to_who_sends_there() {
    let mut net = shape(Some(SchemeKind::RoundRobin), false).net();
    net.deaf.extend(0..8);
    net.set_cable(BEYOND, false);
    net.run_until_idle(Picos::from_millis(1));
    net.deaf.clear();
    net.run_for(Picos::from_millis(1));
    send(&mut net, (0, 1), 1, Picos::from_micros(200));
    net.run_for(Picos::from_millis(1));
    assert!((1..=3).contains(&lost(&net)), "{}", lost(&net));
    assert!(uplinks(&net, 0)[0] <= 3);
    net.run_until_idle(Picos::from_millis(1));
}

/// The link to the spine flaps while the spine has no path. The spine repeats its advertisement.
#[test]
fn a_switch_that_comes_up_is_told_what_it_has_missed() {
    let mut net = shape(Some(SchemeKind::RoundRobin), false).net();
    net.set_cable(BEYOND, false);
    net.run_for(Picos::from_micros(200));
    let missing = |net: &Net| {
        let mut words = net.switches[0]
            .switch()
            .remote_advertisements(net.now(), PortId(1));
        words.any(|word| word.site == 2 && word.capacity_mbps == 0)
    };
    assert!(missing(&net));
    net.set_cable(0, false);
    net.run_for(Picos::from_micros(200));
    assert!(!missing(&net));
    net.set_cable(0, true);
    net.run_for(Picos::from_micros(5));
    assert!(missing(&net));
    send(&mut net, (0, 1), 1, Picos::from_micros(100));
    net.run_for(Picos::from_millis(1));
    assert_eq!((uplinks(&net, 0)[0], lost(&net)), (0, 0));
}

/// If no spine has a path, packets use their old path and are dropped and reported at its end.
#[test]
fn if_no_spine_has_a_way_all_are_used() {
    let mut net = shape(Some(SchemeKind::RoundRobin), true).net();
    for spine in 0..4 {
        net.set_cable(BEYOND + spine, false);
    }
    net.run_for(Picos::from_micros(5));
    let sent = send(&mut net, (0, 1), 1, Picos::from_micros(100));
    net.run_for(Picos::from_millis(1));
    let counts = uplinks(&net, 0);
    assert!(counts.iter().all(|count| *count >= sent as u64 / 4), "{counts:?}");
    assert_eq!(lost(&net), sent as u64);
    let views = net.switches[0].switch().balanced_groups(net.now());
    assert!(views[0].members.iter().all(|member| member.usable));
}
