//! Tests of RDMA READ.

use super::*;
use xoff_testing::random_generator;

#[test]
fn responses_take_the_sequence_numbers_after_their_request() {
    let (mut link, qp, _) = connect_without_faults(|config| config.first_psn = 0xff_fffe);
    link.post(0, qp, 1, Verb::Read, 3 * 1024 + 1);
    link.post(0, qp, 2, Verb::Write, 10);
    link.post(0, qp, 3, Verb::Read, 0);
    link.run(SECOND);
    assert_eq!(
        link.sent_by(0),
        [
            (Opcode::RcReadRequest, 0xff_fffe),
            (Opcode::RcWriteOnly, 2),
            (Opcode::RcReadRequest, 3)
        ]
    );
    assert_eq!(
        link.sent_by(1),
        [
            (Opcode::RcReadResponseFirst, 0xff_fffe),
            (Opcode::RcReadResponseMiddle, 0xff_ffff),
            (Opcode::RcReadResponseMiddle, 0),
            (Opcode::RcReadResponseLast, 1),
            (Opcode::RcAcknowledge, 2),
            (Opcode::RcReadResponseOnly, 3),
        ],
        "the acknowledgement waits for the responses before it"
    );
    assert_eq!(link.acked(0), [1, 2, 3]);
    assert_eq!(link.ends[1].counters().rx_read_requests, 2);
    assert_eq!(link.received(1), [(0, 10, Verb::Write)]);
}

#[test]
fn a_lost_response_is_requested_again_from_the_missing_packet() {
    let script = |end: usize, n: u64, _: &Packet| {
        if end == 1 && n == 3 {
            LinkAction::Drop
        } else {
            LinkAction::Pass
        }
    };
    let (mut link, qp, _) = connect_with_script(script, |_| {});
    link.post(0, qp, 1, Verb::Read, 10 * 1024);
    link.run(SECOND);
    assert_eq!(link.acked(0), [1]);
    let requests: Vec<Packet> = link
        .log
        .iter()
        .filter(|(_, end, _)| *end == 0)
        .map(|(_, _, p)| *p)
        .collect();
    let asked = requests.iter().map(|p| match p.header {
        ExtensionHeader::Reth(reth) => (p.psn, reth.virtual_address, reth.dma_len),
        other => panic!("{other:?}"),
    });
    assert_eq!(
        asked.collect::<Vec<_>>(),
        [(0, 0, 10 * 1024), (3, 3 * 1024, 7 * 1024)]
    );
    let counters = link.ends[0].counters();
    assert_eq!(
        (counters.implied_nak_seq_err, counters.local_ack_timeout_err),
        (1, 0)
    );
    assert_eq!(link.ends[1].counters().duplicate_request, 1);
}

#[test]
fn a_later_response_reveals_a_lost_request() {
    let script = |end: usize, n: u64, _: &Packet| {
        if end == 0 && n == 0 {
            LinkAction::Drop
        } else {
            LinkAction::Pass
        }
    };
    for recovery in [Recovery::GoBackN, Recovery::GoBackZero, Recovery::SelectiveRepeat] {
        let (mut link, qp, _) = connect_with_script(script, |config| config.recovery = recovery);
        link.post(0, qp, 1, Verb::Read, 10 * 1024);
        link.post(0, qp, 2, Verb::Write, 5 * 1024);
        link.run(SECOND);
        assert_eq!(link.acked(0), [1, 2], "{recovery:?}");
        assert_eq!(link.ends[0].counters().local_ack_timeout_err, 0, "{recovery:?}");
    }
}

#[test]
fn responses_are_paced_and_alternate_with_requests() {
    let mut link = TestLink::new(|_, _, _| LinkAction::Pass);
    let slow = RecordingController::new(10_000_000_000);
    let qp = link.connect([&RecordingController::new(LINE_BPS), &slow], |_| {});
    link.post(0, qp, 1, Verb::Read, 50 * 1024);
    link.post(1, qp, 2, Verb::Write, 50 * 1024);
    link.run(SECOND);
    assert_eq!((link.acked(0), link.acked(1)), (vec![1], vec![2]));
    let data: Vec<(Picos, bool)> = link
        .log
        .iter()
        .filter(|(_, end, p)| *end == 1 && p.payload_len > 0)
        .map(|(at, _, p)| (*at, matches!(p.opcode.code(), 0x0d..=0x10)))
        .collect();
    assert_eq!(data.len(), 100);
    let interval = u64::from(1024 + HEADER_BYTES) * 800;
    assert!(
        data.windows(2).all(|pair| pair[1].0.0 - pair[0].0.0 == interval),
        "{data:?}"
    );
    let both = &data[1..90];
    let turns = both.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
    assert!(turns >= 87, "they take turns: {turns}");
    assert_eq!(slow.calls().sent.len(), 100);
}

#[test]
fn outstanding_reads_are_limited() {
    let (mut link, qp, _) = connect_without_faults(|config| config.reads_max = 2);
    for id in 0..6 {
        link.post(0, qp, id, Verb::Read, 1024);
    }
    link.run(Picos::from_nanos(500));
    assert_eq!(link.sent_by(0).len(), 2);
    link.run(SECOND);
    assert_eq!(link.acked(0), [0, 1, 2, 3, 4, 5]);
    let too_long = WorkRequest {
        id: 9,
        verb: Verb::Read,
        bytes: MESSAGE_BYTES_MAX + 1,
    };
    assert!(link.ends[0].post(link.now, qp, too_long).is_err());
}

/// Sends READs, WRITEs and SENDs in random order over a link that reorders packets.
fn mixed_messages(
    seed: u64,
    script: impl FnMut(usize, u64, &Packet) -> LinkAction + 'static,
    recovery: Recovery,
) -> TestLink {
    let (mut link, qp, control) = connect_with_script(script, |config| {
        config.recovery = recovery;
        config.out_of_order = (recovery == Recovery::GoBackN).then_some(Picos::from_micros(40));
        config.ack_timeout = 8;
        config.ack_every = 1 + seed as u32 % 5;
    });
    let mut below = random_generator(seed);
    let mut posted_bytes = 0;
    for id in 0..20 {
        let verb = [Verb::Read, Verb::Read, Verb::Write, Verb::Send][below(4) as usize];
        let bytes = below(30_000);
        posted_bytes += if verb == Verb::Read { 0 } else { bytes };
        link.post(0, qp, id, verb, bytes);
    }
    link.run(SECOND);
    assert_eq!(
        link.acked(0),
        (0..20).collect::<Vec<_>>(),
        "{recovery:?}, seed {seed}"
    );
    let acked_bytes: u64 = control.calls().acks.iter().map(|ack| ack.1).sum();
    assert_eq!(acked_bytes, posted_bytes, "{recovery:?}, seed {seed}");
    link
}

#[test]
fn reordered_responses_are_stored_while_a_gap_is_tolerated() {
    for seed in 0..50 {
        let mut below = random_generator(seed ^ 0x5555);
        let link = mixed_messages(
            seed,
            move |_, _, _| LinkAction::Delay(Picos::from_nanos(below(3_000))),
            Recovery::GoBackN,
        );
        let counters = link.ends[0].counters();
        assert_eq!(
            (
                counters.implied_nak_seq_err,
                counters.retransmitted_packets,
                counters.local_ack_timeout_err
            ),
            (0, 0, 0),
            "seed {seed}"
        );
        assert_eq!(link.ends[1].counters().duplicate_request, 0, "seed {seed}");
    }
}

#[test]
fn lost_responses_are_requested_again() {
    for recovery in [Recovery::GoBackN, Recovery::SelectiveRepeat, Recovery::GoBackZero] {
        for seed in 0..50 {
            let mut below = random_generator(seed ^ 0xaaaa);
            // Go-back-zero only finishes if losses are rare.
            let loss = if recovery == Recovery::GoBackZero { 200 } else { 20 };
            let script = move |_, _, _: &Packet| match below(loss) {
                0 => LinkAction::Drop,
                1 => LinkAction::Delay(Picos::from_micros(2)),
                _ => LinkAction::Pass,
            };
            mixed_messages(seed, script, recovery);
        }
    }
}

#[test]
fn a_missing_response_is_requested_after_the_tolerated_time() {
    let script = |end: usize, n: u64, _: &Packet| {
        if end == 1 && n == 3 {
            LinkAction::Drop
        } else {
            LinkAction::Pass
        }
    };
    let (mut link, qp, _) = connect_with_script(script, |config| {
        config.out_of_order = Some(Picos::from_micros(10));
        config.ack_timeout = 8;
    });
    link.post(0, qp, 1, Verb::Read, 10 * 1024);
    link.run(SECOND);
    assert_eq!(link.acked(0), [1]);
    let requests = link.log.iter().filter(|(_, end, _)| *end == 0);
    let requests: Vec<(u64, u32)> = requests
        .map(|(at, _, packet)| (at.0 / 1_000, packet.psn))
        .collect();
    // Two propagation delays of 1 us and six packet times, then 10 us.
    let [(0, 0), (again_ns, 3)] = requests[..] else {
        panic!("{requests:?}")
    };
    assert!((12_000..13_000).contains(&again_ns), "{again_ns}");
    let counters = link.ends[0].counters();
    assert_eq!((counters.out_of_sequence, counters.implied_nak_seq_err), (6, 1));
}
