//! Link quality messages between switches, and their effect on path selection.

use xoff_dataplane::balance::{MemberChoice, Packet, PathChoice, Paths};
use xoff_dataplane::config::{CustomScheme, SchemeConfig, SchemeKind};
use xoff_dataplane::{DropReason, ForwardingResult, Picos, PortId};
use xoff_wire::LinkQuality;
use xoff_wire::link_quality::{self, PathLoad, SiteEntry};

use crate::support::net::{LeafSpineFabric, TestNetwork, flow_frame};

/// The rule by which the test scheme selects a member: the first of the best members, without random choice.
#[derive(Clone, Copy, Debug)]
enum SelectionRule {
    OwnQueue,
    WeightedSum(u8),
    BusiestLink,
}

impl PathChoice for SelectionRule {
    fn choose(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> MemberChoice {
        let all = paths.usable().to_vec();
        let load = |member: &u16| match *self {
            SelectionRule::OwnQueue => u32::from(paths.quality(packet, *member).load),
            SelectionRule::WeightedSum(percent) => {
                u32::from(paths.path_quality(packet, *member, percent).load)
            }
            SelectionRule::BusiestLink => paths.path_load(packet, *member),
        };
        MemberChoice::unchanged(all.into_iter().min_by_key(load).expect("a member"))
    }

    fn members_changed(&mut self, _: &[Option<u16>], _: &mut Paths<'_>) {}
}

fn scheme_with_rule(rule: SelectionRule) -> Option<SchemeConfig> {
    let own = CustomScheme::new(move || Box::new(rule));
    Some(SchemeConfig::new("test", SchemeKind::Custom(own)))
}

/// Creates three leaves and two spines. Traffic from leaf 2 to leaf 1 loads the link from spine 0 to leaf 1.
fn network_with_busy_downlink(rule: SelectionRule) -> TestNetwork {
    let shape = LeafSpineFabric {
        scheme: scheme_with_rule(rule),
        ..LeafSpineFabric::new(3, 2)
    };
    let mut configs = shape.configs();
    // Leaf 2 has only one path.
    configs[2].balancing.default_scheme = None;
    let via = crate::support::config::equal_cost_target(&[(1, "172.16.2.1")]);
    crate::support::net::set_leaf_routes(&mut configs[2], [(1, via)].into_iter());
    TestNetwork::new(&configs, shape.cables())
}

/// Sends from the host of a leaf to another host at `sixteenths`/16 of 100 Gb/s. Returns the
/// number of frames.
pub(super) fn send_between_hosts(
    net: &mut TestNetwork,
    (from, to): (usize, usize),
    sixteenths: u64,
    span: Picos,
) -> usize {
    let payload = 1_250 - 28 - 14 - 24;
    let every = Picos(100_000 * 16 / sixteenths);
    let mut at = net.now();
    let mut port = 0;
    while at < net.now() + span {
        at += every;
        port += 1;
        net.switches[from].receive_at(at, 0, flow_frame(from, to, port, payload));
    }
    usize::from(port)
}

/// Returns the number of frames that reached the host of a leaf.
pub(super) fn frames_at_host(net: &TestNetwork, leaf: usize) -> usize {
    net.frames_out
        .iter()
        .filter(|(place, _)| *place == (leaf, 0))
        .count()
}

/// Returns the number of frames that a leaf sent to each spine.
pub(super) fn frames_per_uplink(net: &TestNetwork, leaf: usize) -> Vec<u64> {
    let ports = net.switches[leaf].switch().port_count() as u16;
    (1..ports)
        .map(|port| net.switches[leaf].counters(port).tx_packets)
        .collect()
}

fn frames_per_uplink_under_load(rule: SelectionRule) -> Vec<u64> {
    let mut net = network_with_busy_downlink(rule);
    send_between_hosts(&mut net, (2, 1), 15, Picos::from_micros(600));
    net.run_for(Picos::from_micros(200));
    send_between_hosts(&mut net, (0, 1), 1, Picos::from_micros(300));
    net.run_for(Picos::from_millis(2));
    frames_per_uplink(&net, 0)
}

#[test]
fn quality_messages_steer_traffic_away_from_a_busy_downlink() {
    let own = frames_per_uplink_under_load(SelectionRule::OwnQueue);
    assert_eq!(own[1], 0, "the own links are equally idle: {own:?}");
    for rule in [
        SelectionRule::WeightedSum(50),
        SelectionRule::WeightedSum(100),
        SelectionRule::BusiestLink,
    ] {
        let counts = frames_per_uplink_under_load(rule);
        assert!(counts[0] * 50 <= counts[1], "{rule:?}: {counts:?}");
    }
    assert_eq!(frames_per_uplink_under_load(SelectionRule::WeightedSum(0))[1], 0);
}

#[test]
fn quality_messages_carry_downlink_load_and_capacity() {
    let mut net = network_with_busy_downlink(SelectionRule::OwnQueue);
    send_between_hosts(&mut net, (2, 1), 15, Picos::from_micros(400));
    net.run_for(Picos::from_micros(300));
    let advertisements = |net: &TestNetwork, port| -> Vec<_> {
        net.switches[0]
            .switch()
            .remote_advertisements(net.now(), PortId(port))
            .collect()
    };
    let busy = advertisements(&net, 1);
    assert_eq!(
        busy.iter()
            .map(|advertisement| advertisement.site)
            .collect::<Vec<_>>(),
        [2, 3]
    );
    let load = busy[0].load.expect("a recent load");
    assert!((900..=1_000).contains(&load.utilisation), "{load:?}");
    assert!(
        (400..=600).contains(&load.load),
        "past load in full, none waits: {load:?}"
    );
    assert_eq!(busy[1].load, Some(PathLoad::default()));
    assert!(
        busy.iter()
            .all(|advertisement| advertisement.capacity_mbps == 100_000)
    );
    assert!(
        advertisements(&net, 2).is_empty(),
        "spine 1 is idle and says nothing"
    );
    let leaf_says = net
        .quality_messages
        .iter()
        .filter(|((switch, _), _)| *switch < 2)
        .count();
    assert_eq!(leaf_says, 0, "nobody goes through a leaf");
}

#[test]
fn an_idle_fabric_sends_no_messages_and_has_no_deadline() {
    let mut net = network_with_busy_downlink(SelectionRule::BusiestLink);
    net.run_until_idle(Picos::from_millis(1));
    assert!(net.quality_messages.is_empty(), "links that come up are no news");
    send_between_hosts(&mut net, (2, 1), 15, Picos::from_micros(400));
    net.run_for(Picos::from_micros(500));
    net.run_until_idle(Picos::from_millis(20));
    let last = |port: u16| {
        net.quality_messages
            .iter()
            .rev()
            .find(|(from, _)| *from == (3, port))
    };
    let (_, sent) = last(0).expect("spine 0 sent a message to leaf 0");
    let message = LinkQuality::parse(&sent.bytes).expect("a message");
    assert!(
        message
            .entries()
            .all(|entry| entry.load == Some(PathLoad::default())),
        "the last advertisement is that all is idle: {message}"
    );
    let sent_before = net.quality_messages.len();
    send_between_hosts(&mut net, (2, 1), 15, Picos::from_micros(100));
    net.run_for(Picos::from_micros(200));
    assert!(net.quality_messages.len() > sent_before, "it wakes up again");
    let at_most = 2 * 200 / 20 * 3;
    assert!(
        net.quality_messages.len() <= sent_before + at_most,
        "{}",
        net.quality_messages.len() - sent_before
    );
}

#[test]
fn quality_messages_precede_data_and_have_their_own_counters() {
    let mut net = network_with_busy_downlink(SelectionRule::OwnQueue);
    send_between_hosts(&mut net, (2, 1), 15, Picos::from_micros(400));
    net.run_for(Picos::from_millis(5));
    let sent = net.switches[3].counters(0);
    let heard = net.switches[0].counters(1);
    assert!(sent.link_quality_tx >= 15, "{}", sent.link_quality_tx);
    assert_eq!(sent.link_quality_tx, heard.link_quality_rx);
    assert_eq!(
        (sent.tx_packets, heard.rx_packets, heard.dropped_frames()),
        (0, 0, 0)
    );
    let received: u64 = (0..3).map(|port| net.switches[3].counters(port).rx_packets).sum();
    let forwarded: u64 = (0..3).map(|port| net.switches[3].counters(port).tx_packets).sum();
    assert_eq!(received, forwarded);
    net.switches.iter().for_each(|switch| switch.assert_empty());
}

#[test]
fn traffic_passes_when_all_quality_messages_are_lost() {
    let mut net = network_with_busy_downlink(SelectionRule::BusiestLink);
    net.cables_losing_messages.extend(0..6);
    let sent = send_between_hosts(&mut net, (2, 1), 15, Picos::from_micros(400))
        + send_between_hosts(&mut net, (0, 1), 1, Picos::from_micros(400));
    net.run_for(Picos::from_millis(5));
    assert_eq!(frames_at_host(&net, 1), sent);
    assert_eq!(net.switches[0].counters(1).link_quality_rx, 0);
}

#[test]
fn an_advertisement_expires_unless_it_is_repeated() {
    let mut net = network_with_busy_downlink(SelectionRule::BusiestLink);
    send_between_hosts(&mut net, (2, 1), 15, Picos::from_micros(1_000));
    net.run_for(Picos::from_micros(400));
    let load = |net: &TestNetwork| {
        net.switches[0]
            .switch()
            .remote_advertisements(net.now(), PortId(1))
            .next()
            .expect("an advertisement")
            .load
    };
    assert!(load(&net).is_some());
    net.cables_losing_messages.extend(0..6);
    net.run_for(Picos::from_micros(50));
    assert!(load(&net).is_some(), "it holds for four intervals");
    net.run_for(Picos::from_micros(50));
    assert_eq!(load(&net), None);
}

/// Creates a link quality message with the capacity of each site, in Mb/s.
fn quality_message(entries: &[(u16, u32)]) -> Vec<u8> {
    let entries = entries.iter().map(|&(site, capacity_mbps)| SiteEntry {
        site,
        load: None,
        capacity_mbps,
    });
    let mut frame = vec![0; link_quality::frame_len(entries.len())];
    link_quality::emit(&mut frame, [2; 6], 1, 200, entries);
    frame
}

#[test]
fn malformed_and_unexpected_quality_messages_are_dropped_by_reason() {
    let mut net = network_with_busy_downlink(SelectionRule::BusiestLink);
    let leaf = &mut net.switches[0];
    let good = quality_message(&[(2, 10)]);
    let mut version = good.clone();
    version[16] = 9;
    let drop_of = |verdict| match verdict {
        ForwardingResult::Dropped(drop) => Some(drop.reason),
        _ => None,
    };
    assert_eq!(leaf.receive(1, &good), ForwardingResult::Control);
    for (port, frame, reason) in [
        (1, &version[..], DropReason::LinkQualityMalformed),
        (1, &good[..41], DropReason::LinkQualityMalformed),
        (0, &good[..], DropReason::LinkQualityUnexpected),
        (0, &version[..], DropReason::LinkQualityUnexpected),
    ] {
        assert_eq!(drop_of(leaf.receive(port, frame)), Some(reason));
    }
    assert_eq!(leaf.drop_count(1, DropReason::LinkQualityMalformed), 2);
    assert_eq!(leaf.drop_count(0, DropReason::LinkQualityUnexpected), 2);
    let mut other = good.clone();
    other[15] = 0;
    assert_eq!(
        drop_of(leaf.receive(1, &other)),
        Some(DropReason::DmacReserved),
        "another experiment"
    );
    assert_eq!(leaf.counters(1).link_quality_rx, 1);
    assert_eq!(
        (leaf.counters(0).rx_packets, leaf.counters(0).dropped_frames()),
        (2, 2)
    );
    assert!(leaf.switch().fdb_entries(leaf.now()).is_empty());
    leaf.assert_empty();
}

#[test]
fn equal_input_gives_equal_output_of_the_network() {
    let run = || {
        let mut net = network_with_busy_downlink(SelectionRule::BusiestLink);
        send_between_hosts(&mut net, (2, 1), 15, Picos::from_micros(200));
        send_between_hosts(&mut net, (0, 1), 3, Picos::from_micros(300));
        net.run_for(Picos::from_micros(150));
        net.set_cable_state(1, false);
        net.run_for(Picos::from_millis(1));
        net.switches
            .iter()
            .map(|switch| switch.digest())
            .collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}
