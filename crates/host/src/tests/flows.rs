//! Tests of sent frames and sending rates.

use xoff_wire::{Ecn, Opcode, RoceView, VlanTag};

use super::reference::has_valid_icrc;
use super::*;

fn opcodes(frames: &[SentFrame]) -> Vec<Opcode> {
    frames
        .iter()
        .map(|frame| RoceView::new_checked(&frame.bytes).unwrap().bth().opcode())
        .collect()
}

#[test]
fn messages_have_consecutive_psns_across_the_wrap() {
    let mut long = flow(7, 3);
    long.message_bytes = 4 * 1024;
    long.first_psn = 0x00ff_fffd;
    let mut host = sender(vec![long]);
    host.start(Picos::ZERO);
    let frames = run_single_host(&mut host, Picos::ZERO, Picos::from_millis(1));
    assert!(frames.len() > 100);

    assert_eq!(
        opcodes(&frames[..5]),
        [
            Opcode::RcWriteFirst,
            Opcode::RcWriteMiddle,
            Opcode::RcWriteMiddle,
            Opcode::RcWriteLast,
            Opcode::RcWriteFirst
        ]
    );
    for (n, frame) in frames.iter().enumerate() {
        let view = RoceView::new_checked(&frame.bytes).unwrap();
        let bth = view.bth();
        assert_eq!(bth.psn(), (0x00ff_fffd + n as u32) & 0x00ff_ffff);
        assert_eq!(bth.ack_req(), n % 4 == 3);
        assert_eq!(bth.dest_qp(), 0x12 + 14);
        assert_eq!(frame.bytes.len(), if n % 4 == 0 { 1098 } else { 1082 });
        assert_eq!(frame.stamp().unwrap().sequence, n as u64);
        assert!(has_valid_icrc(&frame.bytes), "frame {n}");
        let reth = view.extensions().next();
        assert_eq!(reth.is_some(), n % 4 == 0);
    }
}

#[test]
fn a_message_of_one_frame_has_opcode_only_and_is_padded() {
    let mut only = flow(1, 3);
    only.message_bytes = 61;
    let mut tail = flow(2, 4);
    tail.message_bytes = 1024 + 41;
    tail.frames_max = Some(2);
    let mut host = sender(vec![only, tail]);
    host.start(Picos::ZERO);
    let frames = run_single_host(&mut host, Picos::ZERO, Picos::from_micros(100));
    let by_flow = |id: u32| -> Vec<SentFrame> {
        frames
            .iter()
            .filter(|f| f.stamp().unwrap().flow == id)
            .cloned()
            .collect()
    };
    assert!(opcodes(&by_flow(1)).iter().all(|op| *op == Opcode::RcWriteOnly));
    let tail = by_flow(2);
    assert_eq!(opcodes(&tail), [Opcode::RcWriteFirst, Opcode::RcWriteLast]);
    let view = RoceView::new_checked(&tail[1].bytes).unwrap();
    assert_eq!((view.payload().len(), view.bth().pad()), (41, 3));
    assert!(frames.iter().all(|frame| has_valid_icrc(&frame.bytes)));
}

#[test]
fn headers_match_the_flow_configuration() {
    for (v6, tagged) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut marked = flow(0, 5);
        marked.dst_ip = if v6 { ipv6(2).into() } else { ipv4(2).into() };
        marked.dscp = 46;
        marked.ecn = Ecn::Ect1;
        marked.ttl = 17;
        marked.vlan = tagged.then_some(VlanTag::dot1q(5, 100));
        let mut host = sender(vec![marked.with_frame_len(1082).unwrap()]);
        host.start(Picos::ZERO);
        let frames = run_single_host(&mut host, Picos::ZERO, Picos::from_micros(50));
        let frame = &frames[1].bytes;
        assert_eq!(frame.len(), 1082);
        assert!(has_valid_icrc(frame));
        let parsed = parse(frame);
        assert_eq!(parsed.tos, 46 << 2 | 1);
        assert_eq!(
            parsed.tag.map(|tag| (tag.pcp(), tag.vid())),
            tagged.then_some((5, 100))
        );
        let l3 = usize::from(parsed.l3_offset);
        assert_eq!(frame[l3 + if v6 { 7 } else { 8 }], 17);
        // Queue pairs 0x11 and 0x12: the published example of the flow label formula.
        assert_eq!(RoceView::new_checked(frame).unwrap().udp().src_port(), 0xc132);
    }
}

#[test]
fn rates_are_exact_to_a_frame_over_a_second() {
    let rates = [
        FlowRate::LINK,
        FlowRate::LinkShare(400_000),
        FlowRate::LinkShare(333_333),
        FlowRate::WireBitsPerSecond(7_654_321),
    ];
    for rate in rates {
        for (message_bytes, path_mtu) in [(64, 1024), (64 << 20, 1024), (64 << 20, 4096), (1500, 1024)] {
            let mut timed = flow(0, 3);
            (timed.rate, timed.message_bytes, timed.path_mtu) = (rate, message_bytes, path_mtu);
            let mut host = sender(vec![timed]);
            host.start(Picos::ZERO);
            count_frames_of_single_host(&mut host, Picos::from_millis(1_000));
            let nic = host.results(Picos::ZERO).nic;
            let wire_bits = 8 * (nic.tx_bytes[3] + 20 * nic.tx_frames[3]);
            let longest = 8 * u64::from(GIGABIT.wire_len(GIGABIT.mac_len(host.frame_len_max() as u32)));
            // The announcements of the host use a part of a full link.
            let offered =
                rate.bits_per_second(&GIGABIT) - if rate == FlowRate::LINK { 3 * 8 * 110 } else { 0 };
            assert!(
                wire_bits.abs_diff(offered) <= longest,
                "{rate:?} {message_bytes}: {wire_bits}"
            );
        }
    }
}

#[test]
fn a_full_and_a_forty_percent_class_share_the_link_sixty_to_forty() {
    let mut lossy = FlowConfig::lossy(2, ipv4(2).into(), Some(mac(2)));
    lossy.rate = FlowRate::LinkShare(400_000);
    let mut host = sender(vec![flow(1, 3), lossy]);
    host.start(Picos::ZERO);
    count_frames_of_single_host(&mut host, Picos::from_millis(1_000));
    let bytes = host.results(Picos::ZERO).nic.tx_bytes;
    let share = bytes[3] as f64 / (bytes[0] + bytes[3]) as f64;
    assert!((share - 0.6).abs() < 0.001, "{share}");
}

#[test]
fn flows_of_one_class_share_it_evenly() {
    let mut host = sender((0..4).map(|id| flow(id, 3)).collect());
    host.start(Picos::ZERO);
    let sent = count_frames_of_single_host(&mut host, Picos::from_millis(100));
    let results = host.results(Picos::ZERO);
    for flow in &results.sent {
        assert!(flow.sent_frames.abs_diff(sent / 4) <= 1, "{flow:?}");
    }
    // When a flow is alone again, it catches up only a few frames and never exceeds the link speed.
    let link_frames = Picos::from_millis(100).0 / FRAME_TIME.0;
    assert!(
        sent <= link_frames + 1,
        "{sent} frames, the link carries {link_frames}"
    );
}

#[test]
fn a_flow_starts_at_its_time_and_ends_after_frames_max() {
    let mut late = flow(1, 3);
    late.start = Picos::from_micros(300);
    late.frames_max = Some(5);
    let mut host = sender(vec![late]);
    host.start(Picos::from_micros(100));
    assert!(host.is_sending());
    let frames = run_single_host(&mut host, Picos::from_micros(100), Picos::from_millis(5));
    assert_eq!(frames.len(), 5);
    assert_eq!(frames[0].at, Picos::from_micros(400));
    assert!(!host.is_sending());
}

#[test]
fn a_stopped_host_counts_only_sent_frames() {
    let mut host = sender(vec![flow(1, 3)]);
    host.start(Picos::ZERO);
    let frames = run_single_host(&mut host, Picos::ZERO, Picos::from_millis(1));
    host.stop();
    let mut buf = [0; 2048];
    assert_eq!(host.transmit(Picos::from_millis(2), 0, &mut buf), None);
    assert_eq!(host.results(Picos::ZERO).sent[0].sent_frames, frames.len() as u64);
}

#[test]
fn a_late_call_catches_up_thirty_two_frames_and_records_the_rest() {
    let mut host = sender(vec![flow(1, 3)]);
    host.start(Picos::ZERO);
    run_single_host(&mut host, Picos::ZERO, Picos::from_millis(1));
    let before = host.sent_frames();
    let late = Picos::from_millis(3);
    let mut buf = [0; 2048];
    let mut burst = 0;
    while host.transmit(late, wall_ns(late), &mut buf).is_some() {
        burst += 1;
    }
    assert_eq!(burst, CATCH_UP_FRAMES);
    let deficit = host.results(late).nic.tx_deficit_ns;
    // 2 ms late, of which 31 frames are caught up.
    let expected = 2_000_000 - 31 * FRAME_TIME.as_nanos();
    assert!(
        deficit.abs_diff(expected) <= 2 * FRAME_TIME.as_nanos(),
        "{deficit}"
    );
    assert!(host.results(late).late_ns().abs_diff(expected) <= 6 * FRAME_TIME.as_nanos());
    let next = host.next_deadline();
    assert!(next > late && next <= late + FRAME_TIME);
    assert_eq!(host.sent_frames(), before + burst);
}

#[test]
fn calls_that_are_a_little_late_send_the_same_frames() {
    let config = || {
        vec![
            flow(1, 3),
            FlowConfig {
                rate: FlowRate::LinkShare(250_000),
                ..flow(2, 0)
            },
        ]
    };
    let (mut punctual, mut sluggish) = (sender(config()), sender(config()));
    punctual.start(Picos::ZERO);
    sluggish.start(Picos::ZERO);
    let end = Picos::from_millis(20);
    let sequence = |frames: Vec<SentFrame>| -> Vec<(u32, u64)> {
        frames
            .iter()
            .filter_map(SentFrame::stamp)
            .map(|s| (s.flow, s.sequence))
            .collect()
    };
    let exact = sequence(run_single_host(&mut punctual, Picos::ZERO, end));
    let mut late = Vec::new();
    let mut buf = [0; 2048];
    for tick in 0..=100 {
        let now = Picos::from_micros(200 * tick);
        while let Some(len) = sluggish.transmit(now, wall_ns(now), &mut buf) {
            late.push(SentFrame {
                at: now,
                bytes: buf[..len].to_vec(),
            });
        }
    }
    let late = sequence(late);
    let merged = exact.len().min(late.len());
    assert!(merged > 2_000);
    assert_eq!(exact[..merged], late[..merged]);
    assert_eq!(sluggish.results(end).nic.tx_deficit_ns, 0);
    assert_eq!(sluggish.results(end).late_ns(), 0);
}

#[test]
fn a_manual_flow_is_started_and_stopped_by_its_number() {
    let waiting = FlowConfig {
        waits: true,
        ..flow(2, 0)
    };
    let mut host = sender(vec![flow(1, 3), waiting]);
    host.start(Picos::ZERO);
    let flows = |frames: &[SentFrame], id: u32| {
        let of = |frame: &&SentFrame| frame.stamp().is_some_and(|stamp| stamp.flow == id);
        frames.iter().filter(of).count()
    };
    let ms = Picos::from_millis;
    let before = run_single_host(&mut host, Picos::ZERO, ms(1));
    assert!(flows(&before, 1) > 100 && flows(&before, 2) == 0);
    assert!(host.start_flow(ms(1), 2) && !host.start_flow(ms(1), 9));
    // A second start has no effect.
    assert!(host.start_flow(ms(1), 2));
    let merged = run_single_host(&mut host, ms(1), ms(2));
    assert!(
        flows(&merged, 1).abs_diff(flows(&merged, 2)) <= 1,
        "{}",
        flows(&merged, 2)
    );
    assert!(host.stop_flow(1) && !host.stop_flow(9));
    let after = run_single_host(&mut host, ms(2), ms(3));
    assert_eq!(flows(&after, 1), 0);
    assert!(flows(&after, 2) > 100);
    assert_eq!(
        host.sent_flow(2).map(|sent| sent.sent_frames),
        Some((flows(&merged, 2) + flows(&after, 2)) as u64)
    );
}

#[test]
fn send_frames_have_equal_lengths() {
    let sends = FlowConfig {
        operation: FlowOperation::Send,
        message_bytes: 1024,
        frames_max: Some(5),
        ..flow(1, 3)
    };
    let mut host = sender(vec![sends]);
    host.start(Picos::ZERO);
    let frames = run_single_host(&mut host, Picos::ZERO, Picos::from_millis(1));
    assert_eq!(opcodes(&frames), [Opcode::RcSendOnly; 5]);
    assert!(frames.iter().all(|frame| frame.bytes.len() == 1082));
    assert!(!host.is_sending());
}

#[test]
fn a_sent_pfc_frame_leaves_before_data() {
    let mut host = sender(vec![flow(1, 3)]);
    host.start(Picos::ZERO);
    let mut buf = vec![0; host.frame_len_max()];
    let now = Picos::from_millis(1);
    while host.transmit(now, wall_ns(now), &mut buf).is_some() {}
    let pause = MacControl::Pause { quanta: 7 };
    assert!((0..64).all(|_| host.send_mac_control(now, pause).is_ok()));
    assert_eq!(host.send_mac_control(now, pause), Err(SendFrameError::QueueFull));
    assert_eq!(host.nic_counters(now).tx_dropped_frames, 1);
    let next = host.next_deadline();
    let len = host.transmit(next, wall_ns(next), &mut buf).unwrap();
    assert_eq!(MacControl::parse(&buf[..len]), Ok(pause));
}

#[test]
fn each_sent_control_frame_is_counted() {
    let mut host = sender(Vec::new());
    let now = Picos::from_millis(1);
    let pfc = MacControl::Pfc(Pfc {
        enable: 0b1000,
        quanta: [0xffff; 8],
    });
    host.send_mac_control(now, MacControl::Pause { quanta: 7 })
        .unwrap();
    host.send_mac_control(now, MacControl::Pause { quanta: 0 })
        .unwrap();
    host.send_mac_control(now, pfc).unwrap();
    let mut unknown_opcode = MacControl::Pause { quanta: 7 }.to_frame(mac(1)).to_vec();
    unknown_opcode[14..16].copy_from_slice(&[0xab, 0xcd]);
    host.send_frame(now, &unknown_opcode).unwrap();
    let mut buf = vec![0; host.frame_len_max()];
    let until = Picos::from_millis(2);
    let mut frames = 0;
    while host.next_deadline() < until {
        let at = host.next_deadline();
        frames += u64::from(host.transmit(at, wall_ns(at), &mut buf).is_some());
    }
    let nic = host.nic_counters(until);
    assert_eq!(
        (nic.tx_control_frames, nic.pause_tx_frames, nic.pfc_tx[3]),
        (4, 2, 1)
    );
    assert_eq!(frames, 4 + nic.tx_other_frames);
}
