//! Times of frames, life of neighbours, events.

use super::*;
use crate::lldp::{RawTlv, kind, write_tlvs};

const SECOND: u64 = 1_000_000_000;

fn settings(last: u8, willing_pfc: bool, priorities: u8) -> LldpPortSettings {
    let mac = [2, 0, 0, 0, 0, last];
    let mut dcbx = DcbxConfiguration::default();
    (dcbx.pfc.is_willing, dcbx.pfc.enabled) = (willing_pfc, priorities);
    LldpPortSettings {
        dcbx: Some(dcbx),
        ..LldpPortSettings::new(mac, ChassisId::mac(mac), PortId::interface_name("Ethernet0"))
    }
}

fn port_up(settings: LldpPortSettings) -> LldpPort {
    let mut port = LldpPort::new(settings);
    port.set_link(0, true);
    port
}

fn events(port: &mut LldpPort) -> Vec<LldpEvent> {
    std::iter::from_fn(|| port.poll_event()).collect()
}

/// Returns the times of the frames that a port sends up to `until_ns`.
fn send_times(port: &mut LldpPort, until_ns: u64) -> Vec<u64> {
    let mut times = Vec::new();
    while port.next_deadline_ns() <= until_ns {
        let now = port.next_deadline_ns();
        port.advance(now);
        while port.poll_frame(now).is_some() {
            times.push(now / SECOND);
        }
    }
    times
}

#[test]
fn a_port_sends_at_its_interval_and_faster_after_a_new_neighbour() {
    let mut port = port_up(settings(1, false, 0));
    assert_eq!(send_times(&mut port, 65 * SECOND), [0, 30, 60]);
    let frame = port_up(settings(2, false, 0)).poll_frame(0).expect("a frame");
    port.receive(65 * SECOND, &frame);
    assert_eq!(send_times(&mut port, 100 * SECOND), [65, 66, 67, 68, 98]);
    assert_eq!(port.counters().frames_sent, 8);
}

#[test]
fn the_time_to_live_is_the_interval_times_hold_plus_one() {
    let mut slow = settings(1, false, 0);
    assert_eq!(slow.ttl_s(), 121);
    (slow.interval_s, slow.hold) = (10_000, 10);
    let frame = port_up(slow).poll_frame(0).expect("a frame");
    assert_eq!(Lldpdu::parse(&frame).expect("valid").pdu.ttl_s, u16::MAX);
}

#[test]
fn five_frames_at_once_use_up_the_credit() {
    let mut port = port_up(settings(1, false, 0));
    let mut sent = Vec::new();
    for change in 0..8 {
        let mut changed = settings(1, false, 0);
        changed.information.system_name = Some(format!("name {change}"));
        port.set_settings(0, changed);
        sent.extend(port.poll_frame(0));
    }
    assert_eq!(sent.len(), 5);
    // The last change waits for one credit.
    assert_eq!(port.next_deadline_ns(), SECOND);
    let frame = port.poll_frame(SECOND).expect("a frame");
    let pdu = Lldpdu::parse(&frame).expect("valid").pdu;
    assert_eq!(pdu.system_name.as_deref(), Some("name 7"));
    assert_eq!(port.next_deadline_ns(), 31 * SECOND);
}

#[test]
fn a_port_that_only_receives_or_only_sends() {
    let mut receiver = settings(1, false, 0);
    receiver.transmits = false;
    let mut receiver = port_up(receiver);
    let mut sender = settings(2, false, 0);
    sender.receives = false;
    let mut sender = port_up(sender);
    let frame = sender.poll_frame(0).expect("a frame");
    receiver.receive(0, &frame);
    assert_eq!((receiver.poll_frame(0), receiver.neighbours().len()), (None, 1));
    sender.receive(0, &frame);
    assert_eq!(
        (sender.neighbours().len(), sender.counters().frames_received),
        (0, 0)
    );
}

#[test]
fn neighbours_end_with_their_time_to_live_a_shutdown_and_the_link() {
    let mut port = port_up(settings(1, true, 0));
    let mut peer = port_up(settings(2, false, 1 << 3));
    let frame = peer.poll_frame(0).expect("a frame");
    let adopted = [LldpEvent::NeighbourAdded, LldpEvent::PfcChanged(1 << 3)];
    let ended = [LldpEvent::NeighbourRemoved, LldpEvent::PfcChanged(0)];
    port.receive(0, &frame);
    assert_eq!(events(&mut port), adopted);
    port.advance(121 * SECOND - 1);
    assert_eq!(events(&mut port), []);
    port.advance(121 * SECOND);
    assert_eq!((events(&mut port), port.counters().ageouts), (ended.to_vec(), 1));

    port.receive(130 * SECOND, &frame);
    assert_eq!(port.neighbours()[0].number, 2);
    assert_eq!(events(&mut port), adopted);
    port.receive(131 * SECOND, &peer.shutdown_frame().expect("a frame"));
    assert_eq!((events(&mut port), port.neighbours().len()), (ended.to_vec(), 0));

    port.receive(140 * SECOND, &frame);
    assert_eq!(events(&mut port), adopted);
    port.set_link(141 * SECOND, false);
    assert_eq!(events(&mut port), ended);
    assert_eq!(port.next_deadline_ns(), NEVER_NS);
    port.receive(142 * SECOND, &frame);
    assert_eq!(port.neighbours(), []);
}

#[test]
fn the_table_of_neighbours_is_limited() {
    let mut port = port_up(settings(1, false, 0));
    for last in 10..30 {
        let frame = port_up(settings(last, false, 0)).poll_frame(0).expect("a frame");
        port.receive(0, &frame);
    }
    assert_eq!(port.neighbours().len(), NEIGHBOURS_MAX);
    assert_eq!(port.counters().frames_discarded, 4);
}

#[test]
fn a_problem_is_reported_once_and_a_rejected_tlv_has_no_effect() {
    let mut port = port_up(settings(1, true, 0));
    let mandatory = |last: u8| {
        vec![
            RawTlv {
                kind: kind::CHASSIS_ID,
                value: vec![4, 2, 0, 0, 0, 0, last],
            },
            RawTlv {
                kind: kind::PORT_ID,
                value: b"\x05eth0".to_vec(),
            },
            RawTlv {
                kind: kind::TIME_TO_LIVE,
                value: vec![0, 120],
            },
        ]
    };
    let mut tlvs = mandatory(2);
    // PFC on four priorities exceeds the capability of two.
    tlvs.push(RawTlv::organisation(crate::lldp::OUI_IEEE_8021, 0x0b, &[2, 0x0f]));
    let frame = write_tlvs([2, 0, 0, 0, 0, 2], &tlvs);
    for now in [0, 1] {
        port.receive(now, &frame);
    }
    let seen = events(&mut port);
    assert_eq!(
        seen,
        [
            LldpEvent::NeighbourAdded,
            LldpEvent::Rejected("PFC configuration")
        ]
    );
    let problem = port.neighbours()[0].rejected[0];
    assert_eq!(
        problem.to_string(),
        "PFC configuration: number of enabled priorities is 4, expected at most the PFC capability of the TLV \
         (IEEE 802.1Q-2018 D.2.10)"
    );
    assert_eq!(
        port.operational().map(|operational| operational.pfc_enabled),
        Some(0)
    );
    assert_eq!(port.neighbours()[0].rejected, [problem]);
    assert_eq!(
        (port.counters().tlvs_discarded, port.counters().frames_with_errors),
        (2, 2)
    );

    let truncated = &frame[..20];
    port.receive(2, truncated);
    port.receive(3, truncated);
    assert!(matches!(events(&mut port)[..], [LldpEvent::Rejected(_)]));
    assert_eq!(port.counters().frames_discarded, 2);
    assert!(port.last_problem().is_some());
}

#[test]
fn a_mismatch_is_reported_when_it_begins_and_when_it_ends() {
    let mut port = port_up(settings(1, false, 1 << 3));
    let mut peer = port_up(settings(2, false, 1 << 4));
    port.receive(0, &peer.poll_frame(0).expect("a frame"));
    port.receive(1, &peer.frame(121).expect("a frame"));
    let mismatch = Mismatch::PfcPriorities {
        local: 1 << 3,
        peer: 1 << 4,
    };
    assert_eq!(
        events(&mut port),
        [LldpEvent::NeighbourAdded, LldpEvent::Mismatch(mismatch)]
    );
    peer.set_settings(2, settings(2, false, 1 << 3));
    port.receive(2, &peer.poll_frame(2).expect("a changed port sends at once"));
    assert_eq!(events(&mut port), [LldpEvent::MismatchesEnded]);
}

#[test]
fn dcbx_that_starts_later_uses_the_known_neighbours() {
    let mut without = settings(1, true, 0);
    let dcbx = without.dcbx.take();
    let mut port = port_up(without.clone());
    let frame = port_up(settings(2, false, 1 << 3))
        .poll_frame(0)
        .expect("a frame");
    port.receive(0, &frame);
    assert_eq!(port.operational(), None);
    port.set_settings(
        SECOND,
        LldpPortSettings {
            dcbx,
            ..without.clone()
        },
    );
    assert_eq!(
        port.operational().map(|operational| operational.pfc_enabled),
        Some(1 << 3)
    );
    port.set_settings(SECOND, without);
    assert_eq!(events(&mut port).last(), Some(&LldpEvent::PfcChanged(0)));
}
