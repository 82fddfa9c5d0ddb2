//! Tests of loss, reordering, duplicates and damage at the receiver.

use std::net::IpAddr;

use xoff_wire::{Addresses, BthFields, FlowHeaders, Opcode, RocePacket};

use super::*;

/// Sends flow 3 for 10 ms over a link on which `tamper` changes each frame. `tamper` also gets the number of
/// the frame.
fn run_with_tampering(mut tamper: impl FnMut(u64, Vec<u8>) -> Vec<Vec<u8>>) -> (HostResults, HostResults) {
    let mut number = 0;
    let count = |side: usize, frame: Vec<u8>| {
        let stamped = SentFrame {
            at: Picos::ZERO,
            bytes: frame.clone(),
        }
        .stamp()
        .is_some();
        if side != 0 || !stamped {
            return vec![frame];
        }
        number += 1;
        tamper(number - 1, frame)
    };
    let mut cable = Cable::new([sender(vec![flow(3, 3)]), receiver()], count);
    cable.hosts[0].start(Picos::ZERO);
    cable.run_and_drain(Picos::from_millis(10));
    (
        cable.hosts[0].results(cable.now),
        cable.hosts[1].results(cable.now),
    )
}

fn flow_report_of((left, right): &(HostResults, HostResults)) -> xoff_telemetry::FlowReport {
    flow_report(
        &left.name,
        &right.name,
        true,
        &left.sent[0],
        right.received.first(),
    )
}

#[test]
fn a_lossless_cable_carries_the_link_rate() {
    let results = run_with_tampering(|_, frame| vec![frame]);
    let report = flow_report_of(&results);
    assert_eq!(
        (report.src.as_str(), report.dst.as_str(), report.class),
        ("h1", "h2", 3)
    );
    assert_eq!(report.received_frames, report.sent_frames);
    assert!(report.sent_frames > 1_100);
    assert_eq!(
        (report.lost_frames, report.reordered_frames, report.icrc_errors),
        (0, 0, 0)
    );
    assert_eq!(report.duplicate_frames, 0);
    let expected = 1_000_000_000 * 1024 / 1106;
    assert!(
        report.goodput_bps.abs_diff(expected) < expected / 1000,
        "{}",
        report.goodput_bps
    );
    // The stamp is written at the start of the transmission, one frame time before the arrival. The histogram
    // stores two digits.
    let exact = FRAME_TIME.as_nanos();
    assert!(
        report.latency_ns.p50.abs_diff(exact) <= exact / 50,
        "{:?}",
        report.latency_ns
    );
    assert!(
        report.latency_ns.max >= report.latency_ns.p999 && report.latency_ns.p999 >= report.latency_ns.p50
    );
    assert_eq!(results.1.received[0].psn_errors, 0);
}

#[test]
fn lost_frames_are_counted_including_the_last_ones() {
    let results = run_with_tampering(|n, frame| {
        if n % 10 == 7 || n > 1_000 {
            vec![]
        } else {
            vec![frame]
        }
    });
    let report = flow_report_of(&results);
    assert_eq!(report.received_frames, 901);
    assert_eq!(report.lost_frames, report.sent_frames - 901);
    assert_eq!((report.reordered_frames, report.duplicate_frames), (0, 0));
    assert_eq!(
        results.1.received[0].missing_frames(),
        100,
        "what a lone receiver can know"
    );
}

#[test]
fn a_flow_without_arrivals_is_reported_as_lost() {
    let results = run_with_tampering(|_, _| vec![]);
    let report = flow_report_of(&results);
    assert!(report.sent_frames > 1_000);
    assert_eq!(
        (report.received_frames, report.lost_frames),
        (0, report.sent_frames)
    );
}

#[test]
fn swapped_frames_are_reordered_not_lost() {
    let mut held: Option<Vec<u8>> = None;
    let results = run_with_tampering(|n, frame| match n % 100 {
        50 => {
            held = Some(frame);
            vec![]
        }
        53 => vec![frame, held.take().unwrap()],
        _ => vec![frame],
    });
    let report = flow_report_of(&results);
    assert_eq!(report.lost_frames, u64::from(held.is_some()));
    assert_eq!(
        report.reordered_frames,
        report.sent_frames.saturating_sub(54) / 100 + 1
    );
}

#[test]
fn duplicates_are_counted_and_do_not_hide_losses() {
    let results = run_with_tampering(|n, frame| match n % 100 {
        10 => vec![frame.clone(), frame],
        20 => vec![],
        _ => vec![frame],
    });
    let report = flow_report_of(&results);
    let hundreds = |offset: u64| (report.sent_frames + 99 - offset) / 100;
    assert_eq!(report.duplicate_frames, hundreds(10));
    assert_eq!(report.lost_frames, hundreds(20));
    assert_eq!(report.reordered_frames, 0);
}

#[test]
fn damaged_frames_are_icrc_errors_and_lost() {
    let results = run_with_tampering(|n, mut frame| {
        if n % 50 == 49 {
            let at = 60 + (n as usize * 7) % 1000;
            frame[at] ^= 1 << (n % 8);
        }
        vec![frame]
    });
    let report = flow_report_of(&results);
    assert_eq!(report.icrc_errors, report.sent_frames / 50);
    assert_eq!(report.lost_frames, report.icrc_errors);
}

#[test]
fn changed_dscp_and_ecn_keep_the_icrc_valid() {
    let results = run_with_tampering(|n, mut frame| {
        let parsed = parse(&frame);
        if n % 4 == 0 {
            xoff_wire::mark_ce(&mut frame[usize::from(parsed.l3_offset)..], parsed.payload);
        }
        vec![frame]
    });
    assert_eq!(flow_report_of(&results).icrc_errors, 0);
    assert_eq!(
        results.1.received[0].ce_marked_frames,
        results.0.sent[0].sent_frames.div_ceil(4)
    );
}

#[test]
fn frames_of_another_run_are_stale_unless_any_token_is_accepted() {
    let run = |accept_any_token: bool| {
        let mut other = host_config(2);
        other.token = 99;
        other.accept_any_token = accept_any_token;
        let mut cable = Cable::new([sender(vec![flow(3, 3)]), Host::new(&other).unwrap()], |_, f| {
            vec![f]
        });
        cable.hosts[0].start(Picos::ZERO);
        cable.run_and_drain(Picos::from_millis(1));
        (cable.hosts[0].sent_frames(), cable.hosts[1].results(cable.now))
    };
    let (sent, strict) = run(false);
    assert_eq!((strict.totals.stale_frames, strict.received.len()), (sent, 0));
    let (sent, open) = run(true);
    assert_eq!(
        (open.totals.stale_frames, open.received[0].received_frames),
        (0, sent)
    );
}

#[test]
fn latency_is_in_model_time_with_dilation() {
    let mut dilated = host_config(2);
    dilated.dilate = 10;
    let mut to = Host::new(&dilated).unwrap();
    let mut from = sender(vec![flow(3, 3)]);
    from.start(Picos::ZERO);
    for frame in run_single_host(&mut from, Picos::ZERO, Picos::from_millis(1)) {
        to.receive(
            frame.at,
            wall_ns(frame.at) + 50_000,
            &frame.bytes,
            &parse(&frame.bytes),
        );
    }
    let results = to.results(Picos::ZERO);
    let p99 = results.received[0].latency_ns.p99;
    assert!(p99.abs_diff(5_000) <= 50, "{p99}");
    assert_eq!(results.received[0].clock_errors, 0);
}

#[test]
fn frames_for_other_hosts_count_as_flooded() {
    let mut elsewhere = flow(3, 3);
    elsewhere.dst_mac = Some(mac(77));
    let mut cable = Cable::new([sender(vec![elsewhere]), receiver()], |_, f| vec![f]);
    cable.hosts[0].start(Picos::ZERO);
    cable.run_and_drain(Picos::from_millis(1));
    let results = cable.hosts[1].results(cable.now);
    assert_eq!(results.totals.flooded_frames, cable.hosts[0].sent_frames());
    assert!(results.received.is_empty());
}

#[test]
fn other_roce_senders_are_checked_by_their_psns() {
    let path = FlowHeaders::new(
        mac(1),
        mac(2),
        Addresses::V4 {
            src: ipv4(1),
            dst: ipv4(2),
        },
    );
    let mut host = receiver();
    let mut send = |opcode: Opcode, psn: u32, damage: bool| {
        let mut frame = [0; 256];
        let packet = RocePacket {
            headers: &path,
            bth: BthFields::new(opcode, 0x55, psn),
            extensions: &[],
        };
        let len = packet.emit(&mut frame, 64, |payload| payload.fill(7)).unwrap();
        frame[len - 10] ^= u8::from(damage);
        host.receive(Picos::ZERO, 0, &frame[..len], &parse(&frame[..len]));
    };
    // In order across the PSN wrap, two missing, one of them late, one repeated, one damaged.
    for psn in [0x00ff_fffe, 0x00ff_ffff, 0, 3, 2, 3] {
        send(Opcode::RcSendMiddle, psn, false);
    }
    send(Opcode::RcSendMiddle, 4, true);
    send(Opcode::RcReadResponseMiddle, 1_000, false);
    let results = host.results(Picos::ZERO);
    let expected = UnstampedFlow {
        src_ip: IpAddr::V4(ipv4(1)),
        dst_qp: 0x55,
        frames: 7,
        requests: 6,
        missing_psns: 2,
        out_of_order: 2,
        icrc_errors: 1,
    };
    assert_eq!(results.foreign, [expected]);
    assert_eq!(host.rdma_counters().rx_unknown_qp, 7);
    assert_eq!(results.totals.unattributed_icrc_errors, 0);
}
