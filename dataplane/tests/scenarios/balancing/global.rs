//! Link quality messages between switches, and their effect on path selection.

use xoff_dataplane::balance::{MemberChoice, Packet, PathChoice, Paths};
use xoff_dataplane::config::{CustomScheme, SchemeConfig, SchemeKind};
use xoff_dataplane::{DropReason, ForwardingResult, Picos, PortId};
use xoff_wire::LinkQuality;
use xoff_wire::link_quality::{self, PathLoad, SiteEntry};

use crate::support::net::{Net, Shape, flow};

/// Selection in these tests: the first of the best members, without random draws.
#[derive(Clone, Copy, Debug)]
enum By {
    Own,
    Weighed(u8),
    Busiest,
}

impl PathChoice for By {
    fn choose(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> MemberChoice {
        let all = paths.usable().to_vec();
        let load = |member: &u16| match *self {
            By::Own => u32::from(paths.quality(packet, *member).load),
            By::Weighed(percent) => u32::from(paths.path_quality(packet, *member, percent).load),
            By::Busiest => paths.path_load(packet, *member),
        };
        MemberChoice::unchanged(all.into_iter().min_by_key(load).expect("a member"))
    }

    fn members_changed(&mut self, _: &[Option<u16>], _: &mut Paths<'_>) {}
}

fn scheme(by: By) -> Option<SchemeConfig> {
    let own = CustomScheme::new(move || Box::new(by));
    Some(SchemeConfig::new("test", SchemeKind::Custom(own)))
}

/// Three leaves and two spines. Traffic from leaf 2 to leaf 1 loads the link from spine 0 to leaf 1.
fn one_busy_downlink(by: By) -> Net {
    let shape = Shape {
        scheme: scheme(by),
        ..Shape::new(3, 2)
    };
    let mut configs = shape.configs();
    // Leaf 2 has only one path.
    configs[2].balancing.default_scheme = None;
    let via = crate::support::config::via(&[(1, "172.16.2.1")]);
    crate::support::net::routes(&mut configs[2], [(1, via)].into_iter());
    Net::new(&configs, shape.cables())
}

/// Sends from the host of a leaf to another host at `part`/16 of 100 Gb/s. Returns the number of frames.
pub(super) fn send(net: &mut Net, (from, to): (usize, usize), sixteenths: u64, span: Picos) -> usize {
    let payload = 1_250 - 28 - 14 - 24;
    let every = Picos(100_000 * 16 / sixteenths);
    let mut at = net.now();
    let mut port = 0;
    while at < net.now() + span {
        at += every;
        port += 1;
        net.switches[from].receive_at(at, 0, flow(from, to, port, payload));
    }
    usize::from(port)
}

/// Frames that reached the host of a leaf.
pub(super) fn arrived(net: &Net, leaf: usize) -> usize {
    net.out.iter().filter(|(place, _)| *place == (leaf, 0)).count()
}

/// Frames that a leaf sent to each spine.
pub(super) fn uplinks(net: &Net, leaf: usize) -> Vec<u64> {
    let ports = net.switches[leaf].switch().port_count() as u16;
    (1..ports)
        .map(|port| net.switches[leaf].counters(port).tx_packets)
        .collect()
}

fn split(by: By) -> Vec<u64> {
    let mut net = one_busy_downlink(by);
    send(&mut net, (2, 1), 15, Picos::from_micros(600));
    net.run_for(Picos::from_micros(200));
    send(&mut net, (0, 1), 1, Picos::from_micros(300));
    net.run_for(Picos::from_millis(2));
    uplinks(&net, 0)
}

#[test]
fn a_busy_link_beyond_the_spine_is_avoided_by_those_who_listen() {
    let own = split(By::Own);
    assert_eq!(own[1], 0, "the own links are equally idle: {own:?}");
    for by in [By::Weighed(50), By::Weighed(100), By::Busiest] {
        let counts = split(by);
        assert!(counts[0] * 50 <= counts[1], "{by:?}: {counts:?}");
    }
    assert_eq!(split(By::Weighed(0))[1], 0);
}

#[test]
fn what_is_told_is_the_load_beyond_and_the_capacity() {
    let mut net = one_busy_downlink(By::Own);
    send(&mut net, (2, 1), 15, Picos::from_micros(400));
    net.run_for(Picos::from_micros(300));
    let words = |net: &Net, port| -> Vec<_> {
        net.switches[0]
            .switch()
            .remote_advertisements(net.now(), PortId(port))
            .collect()
    };
    let busy = words(&net, 1);
    assert_eq!(busy.iter().map(|word| word.site).collect::<Vec<_>>(), [2, 3]);
    let load = busy[0].load.expect("told lately");
    assert!((900..=1_000).contains(&load.utilisation), "{load:?}");
    assert!(
        (400..=600).contains(&load.load),
        "past load in full, none waits: {load:?}"
    );
    assert_eq!(busy[1].load, Some(PathLoad::default()));
    assert!(busy.iter().all(|word| word.capacity_mbps == 100_000));
    assert!(words(&net, 2).is_empty(), "spine 1 is idle and says nothing");
    let leaf_says = net.told.iter().filter(|((switch, _), _)| *switch < 2).count();
    assert_eq!(leaf_says, 0, "nobody goes through a leaf");
}

#[test]
fn an_idle_fabric_falls_silent_and_has_no_deadline() {
    let mut net = one_busy_downlink(By::Busiest);
    net.run_until_idle(Picos::from_millis(1));
    assert!(net.told.is_empty(), "links that come up are no news");
    send(&mut net, (2, 1), 15, Picos::from_micros(400));
    net.run_for(Picos::from_micros(500));
    net.run_until_idle(Picos::from_millis(20));
    let last = |port: u16| net.told.iter().rev().find(|(from, _)| *from == (3, port));
    let (_, sent) = last(0).expect("spine 0 has told leaf 0");
    let message = LinkQuality::parse(&sent.bytes).expect("a message");
    assert!(
        message
            .entries()
            .all(|entry| entry.load == Some(PathLoad::default())),
        "the last word is that all is idle: {message}"
    );
    let told = net.told.len();
    send(&mut net, (2, 1), 15, Picos::from_micros(100));
    net.run_for(Picos::from_micros(200));
    assert!(net.told.len() > told, "it wakes up again");
    let at_most = 2 * 200 / 20 * 3;
    assert!(net.told.len() <= told + at_most, "{}", net.told.len() - told);
}

#[test]
fn messages_go_ahead_of_data_and_are_counted_apart() {
    let mut net = one_busy_downlink(By::Own);
    send(&mut net, (2, 1), 15, Picos::from_micros(400));
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
fn nobody_hears_anything_and_nothing_breaks() {
    let mut net = one_busy_downlink(By::Busiest);
    net.deaf.extend(0..6);
    let sent = send(&mut net, (2, 1), 15, Picos::from_micros(400))
        + send(&mut net, (0, 1), 1, Picos::from_micros(400));
    net.run_for(Picos::from_millis(5));
    assert_eq!(arrived(&net, 1), sent);
    assert_eq!(net.switches[0].counters(1).link_quality_rx, 0);
}

#[test]
fn a_word_that_is_not_repeated_is_forgotten() {
    let mut net = one_busy_downlink(By::Busiest);
    send(&mut net, (2, 1), 15, Picos::from_micros(1_000));
    net.run_for(Picos::from_micros(400));
    let load = |net: &Net| {
        net.switches[0]
            .switch()
            .remote_advertisements(net.now(), PortId(1))
            .next()
            .expect("a word")
            .load
    };
    assert!(load(&net).is_some());
    net.deaf.extend(0..6);
    net.run_for(Picos::from_micros(50));
    assert!(load(&net).is_some(), "it holds for four intervals");
    net.run_for(Picos::from_micros(50));
    assert_eq!(load(&net), None);
}

/// The test itself sends the message about the lost path.
fn message(entries: &[(u16, u32)]) -> Vec<u8> {
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
fn what_is_malformed_or_unexpected_is_dropped_by_reason() {
    let mut net = one_busy_downlink(By::Busiest);
    let leaf = &mut net.switches[0];
    let good = message(&[(2, 10)]);
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
    assert_eq!(leaf.drops(1, DropReason::LinkQualityMalformed), 2);
    assert_eq!(leaf.drops(0, DropReason::LinkQualityUnexpected), 2);
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
fn the_same_input_gives_the_same_output() {
    let run = || {
        let mut net = one_busy_downlink(By::Busiest);
        send(&mut net, (2, 1), 15, Picos::from_micros(200));
        send(&mut net, (0, 1), 3, Picos::from_micros(300));
        net.run_for(Picos::from_micros(150));
        net.set_cable(1, false);
        net.run_for(Picos::from_millis(1));
        net.switches
            .iter()
            .map(|switch| switch.digest())
            .collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}
