//! Tests of settings that change while a host runs.

use xoff_wire::lldp::{EtsTables, SelectionAlgorithm};

use super::*;

/// Returns the times at which `host` sends between two times.
fn sent_between(host: &mut Host, from: Picos, end: Picos) -> Vec<Picos> {
    run_single_host(host, from, end)
        .iter()
        .map(|frame| frame.at)
        .collect()
}

/// Returns a started host with one flow of class 3, which is paused for 33 ms at 1 ms.
fn paused_host() -> (Host, Picos) {
    let mut host = sender(vec![flow(3, 3)]);
    host.start(Picos::ZERO);
    let at = Picos::from_millis(1);
    run_single_host(&mut host, Picos::ZERO, at);
    deliver_pfc(&mut host, at, 1 << 3, [0xffff; 8]);
    let paused = at + Picos::from_millis(1);
    assert!(
        sent_between(&mut host, at, paused)
            .iter()
            .all(|sent| *sent <= at + RESPONSE)
    );
    (host, paused)
}

#[test]
fn a_class_resumes_when_its_pfc_is_disabled_and_ignores_later_pauses() {
    let (mut host, now) = paused_host();
    host.set_pfc(now, !(1 << 3));
    let end = now + Picos::from_millis(1);
    assert_eq!(sent_between(&mut host, now, end)[0], now);
    deliver_pfc(&mut host, end, 1 << 3, [0xffff; 8]);
    let resumed = sent_between(&mut host, end, end + Picos::from_millis(1));
    assert!(resumed.len() > 100, "{} frames", resumed.len());
    // Enabled again, the class pauses.
    let again = end + Picos::from_millis(1);
    host.set_pfc(again, 0xff);
    deliver_pfc(&mut host, again, 1 << 3, [0xffff; 8]);
    assert!(sent_between(&mut host, again, again + Picos::from_millis(1)).len() <= 1);
}

#[test]
fn the_link_honours_802_3x_only_while_it_is_set() {
    let mut host = sender(vec![flow(0, 0)]);
    host.start(Picos::ZERO);
    let pause = MacControl::Pause { quanta: 0xffff }.to_frame(mac(9));
    let mut now = Picos::ZERO;
    for is_honoured in [false, true, false] {
        host.set_pfc(now, 0);
        host.set_pause_honoured(now, is_honoured);
        host.receive(now, 0, &pause, &parse(&pause));
        let end = now + Picos::from_millis(1);
        let sent = sent_between(&mut host, now, end).len();
        assert_eq!(sent < 3, is_honoured, "{sent} frames");
        now = end;
    }
}

#[test]
fn a_new_rate_applies_from_the_next_frame_on() {
    let mut host = sender(vec![flow(3, 3)]);
    assert!(host.set_flow_rate(3, FlowRate::LinkShare(100_000)));
    assert!(!host.set_flow_rate(4, FlowRate::LINK));
    host.start(Picos::ZERO);
    let sent = sent_between(&mut host, Picos::ZERO, Picos(FRAME_TIME.0 * 1_000));
    assert!((99..=101).contains(&sent.len()), "{} frames", sent.len());
}

#[test]
fn frames_of_unread_classes_stay_in_the_buffer_until_they_are_read() {
    let mut config = host_config(2);
    let mut buffer = ReceiveBuffer::at_link_speed(100_000, 20, 10, &GIGABIT);
    buffer.dscp_to_class[26] = 3;
    config.nic.receive_buffer = Some(buffer);
    let mut slow = Host::new(&config).unwrap();
    slow.set_unread_classes(Picos::ZERO, 1 << 3);
    let mut source = sender(vec![flow(3, 3)]);
    source.start(Picos::ZERO);
    let mut cable = Cable::new([source, slow], |_, frame| vec![frame]);
    cable.run(Picos::from_millis(5));
    let paused = cable.hosts[0].sent_frames();
    let xoffs = cable.hosts[1].results(cable.now).nic.pfc_tx[3];
    assert!((1..=2).contains(&xoffs), "{xoffs} PFC frames");
    cable.run(Picos::from_millis(10));
    assert_eq!(cable.hosts[0].sent_frames(), paused);
    let now = cable.now;
    cable.hosts[1].set_unread_classes(now, 0);
    cable.run_and_drain(Picos::from_millis(30));
    assert!(cable.hosts[0].sent_frames() > paused + 500);
    assert_eq!(cable.hosts[1].received_frames(), cable.hosts[0].sent_frames());
    assert_eq!(cable.hosts[1].rx_dropped_frames(), 0);
}

#[test]
fn the_trusted_field_determines_the_class_of_a_received_frame() {
    for (trust, class) in [(ClassTrust::Dscp, 3), (ClassTrust::Pcp, 5)] {
        let mut config = host_config(2);
        config.nic.receive_buffer = Some(ReceiveBuffer::at_link_speed(100_000, 20, 10, &GIGABIT));
        let mut host = Host::new(&config).unwrap();
        host.set_class_trust(trust);
        host.set_unread_classes(Picos::ZERO, 0xff);
        let tagged = FlowConfig {
            vlan: Some(xoff_wire::VlanTag::dot1q(5, 0)),
            ..flow(1, 0)
        };
        let mut source = sender(vec![tagged]);
        source.start(Picos::ZERO);
        let mut cable = Cable::new([source, host], |_, frame| vec![frame]);
        cable.run(Picos::from_millis(2));
        let nic = cable.hosts[1].results(cable.now).nic;
        assert_eq!(
            std::array::from_fn(|n| nic.pfc_tx[n] > 0),
            std::array::from_fn::<_, 8, _>(|n| n == class)
        );
    }
}

#[test]
fn a_reset_keeps_the_settings_and_ends_all_pauses() {
    let (mut host, now) = paused_host();
    host.set_pfc(now, 1 << 3);
    host.reset(now).unwrap();
    let end = now + Picos::from_millis(1);
    let sent = sent_between(&mut host, now, end);
    assert!(
        (now..now + FRAME_TIME).contains(&sent[0]),
        "the announcement is first"
    );
    assert_eq!(host.results(end).nic.pfc_rx_frames, 0);
    deliver_pfc(&mut host, end, 0xff, [0xffff; 8]);
    let after = sent_between(&mut host, end, end + Picos::from_millis(1));
    assert!(after.len() <= 1, "{} frames", after.len());
}

#[test]
fn the_nic_shares_its_link_by_its_traffic_classes() {
    // Priorities 0 and 1 are one class with 20 %, priority 3 is a class with 80 %, priority 6 is strict.
    let mut ets = EtsTables {
        traffic_class: [0, 0, 0, 1, 0, 0, 2, 0],
        ..EtsTables::default()
    };
    ets.algorithm[..2].fill(SelectionAlgorithm::Ets);
    ets.bandwidth_percent[..2].copy_from_slice(&[20, 80]);
    let mut config = host_config(1);
    config.flows = [0, 1, 3, 6].map(|class| flow(class.into(), class)).to_vec();
    config.flows[3].rate = FlowRate::LinkShare(500_000);
    config.nic.ets = Some(ets);
    let mut host = Host::new(&config).unwrap();
    host.start(Picos::ZERO);
    let end = Picos::from_millis(50);
    run_single_host(&mut host, Picos::ZERO, end);
    let sent = host.results(end).nic.tx_frames;
    let all: u64 = sent.iter().sum();
    let rest = all - sent[6];
    assert!(sent[6].abs_diff(all / 2) <= 20, "{sent:?}");
    assert!(sent[3].abs_diff(rest * 4 / 5) <= 20, "{sent:?}");
    assert!(sent[0].abs_diff(sent[1]) <= 1, "{sent:?}");
    assert_eq!(host.negotiated_ets(), None);
}
