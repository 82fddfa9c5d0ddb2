//! RDMA READ.

use super::*;
use xoff_testing::random_generator;

#[test]
fn responses_take_the_sequence_numbers_after_their_request() {
    let (mut pipe, qp, _) = plain(|config| config.first_psn = 0xff_fffe);
    pipe.post(0, qp, 1, Verb::Read, 3 * 1024 + 1);
    pipe.post(0, qp, 2, Verb::Write, 10);
    pipe.post(0, qp, 3, Verb::Read, 0);
    pipe.run(SECOND);
    assert_eq!(
        pipe.sent_by(0),
        [
            (Opcode::RcReadRequest, 0xff_fffe),
            (Opcode::RcWriteOnly, 2),
            (Opcode::RcReadRequest, 3)
        ]
    );
    assert_eq!(
        pipe.sent_by(1),
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
    assert_eq!(pipe.acked(0), [1, 2, 3]);
    assert_eq!(pipe.ends[1].counters().rx_read_requests, 2);
    assert_eq!(pipe.received(1), [(0, 10, Verb::Write)]);
}

#[test]
fn a_lost_response_is_asked_for_again_from_where_it_is_missing() {
    let script = |end: usize, n: u64, _: &Packet| {
        if end == 1 && n == 3 {
            Fate::Drop
        } else {
            Fate::Pass
        }
    };
    let (mut pipe, qp, _) = scripted(script, |_| {});
    pipe.post(0, qp, 1, Verb::Read, 10 * 1024);
    pipe.run(SECOND);
    assert_eq!(pipe.acked(0), [1]);
    let requests: Vec<Packet> = pipe
        .log
        .iter()
        .filter(|(_, end, _)| *end == 0)
        .map(|(_, _, p)| *p)
        .collect();
    let asked = requests.iter().map(|p| match p.header {
        Header::Reth(reth) => (p.psn, reth.virtual_address, reth.dma_len),
        other => panic!("{other:?}"),
    });
    assert_eq!(
        asked.collect::<Vec<_>>(),
        [(0, 0, 10 * 1024), (3, 3 * 1024, 7 * 1024)]
    );
    let counters = pipe.ends[0].counters();
    assert_eq!(
        (counters.implied_nak_seq_err, counters.local_ack_timeout_err),
        (1, 0)
    );
    assert_eq!(pipe.ends[1].counters().duplicate_request, 1);
}

#[test]
fn a_lost_request_shows_by_the_answer_to_what_follows() {
    let script = |end: usize, n: u64, _: &Packet| {
        if end == 0 && n == 0 {
            Fate::Drop
        } else {
            Fate::Pass
        }
    };
    for recovery in [Recovery::GoBackN, Recovery::GoBackZero, Recovery::SelectiveRepeat] {
        let (mut pipe, qp, _) = scripted(script, |config| config.recovery = recovery);
        pipe.post(0, qp, 1, Verb::Read, 10 * 1024);
        pipe.post(0, qp, 2, Verb::Write, 5 * 1024);
        pipe.run(SECOND);
        assert_eq!(pipe.acked(0), [1, 2], "{recovery:?}");
        assert_eq!(pipe.ends[0].counters().local_ack_timeout_err, 0, "{recovery:?}");
    }
}

#[test]
fn responses_are_paced_by_the_responder_and_share_with_its_requests() {
    let mut pipe = Pipe::new(|_, _, _| Fate::Pass);
    let slow = Fixed::new(10_000_000_000);
    let qp = pipe.connect([&Fixed::new(LINE_BPS), &slow], |_| {});
    pipe.post(0, qp, 1, Verb::Read, 50 * 1024);
    pipe.post(1, qp, 2, Verb::Write, 50 * 1024);
    pipe.run(SECOND);
    assert_eq!((pipe.acked(0), pipe.acked(1)), (vec![1], vec![2]));
    let data: Vec<(Picos, bool)> = pipe
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
    assert_eq!(slow.told().sent.len(), 100);
}

#[test]
fn no_more_reads_are_outstanding_than_allowed() {
    let (mut pipe, qp, _) = plain(|config| config.reads_max = 2);
    for id in 0..6 {
        pipe.post(0, qp, id, Verb::Read, 1024);
    }
    pipe.run(Picos::from_nanos(500));
    assert_eq!(pipe.sent_by(0).len(), 2);
    pipe.run(SECOND);
    assert_eq!(pipe.acked(0), [0, 1, 2, 3, 4, 5]);
    let too_long = WorkRequest {
        id: 9,
        verb: Verb::Read,
        bytes: MESSAGE_BYTES_MAX + 1,
    };
    assert!(pipe.ends[0].post(pipe.now, qp, too_long).is_err());
}

/// READs, WRITEs and SENDs in random order, over a pipe whose packets overtake each other.
fn mixed_messages(
    seed: u64,
    script: impl FnMut(usize, u64, &Packet) -> Fate + 'static,
    recovery: Recovery,
) -> Pipe {
    let (mut pipe, qp, control) = scripted(script, |config| {
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
        pipe.post(0, qp, id, verb, bytes);
    }
    pipe.run(SECOND);
    assert_eq!(
        pipe.acked(0),
        (0..20).collect::<Vec<_>>(),
        "{recovery:?}, seed {seed}"
    );
    let acked_bytes: u64 = control.told().acks.iter().map(|ack| ack.1).sum();
    assert_eq!(acked_bytes, posted_bytes, "{recovery:?}, seed {seed}");
    pipe
}

#[test]
fn responses_out_of_order_are_kept_while_a_gap_is_tolerated() {
    for seed in 0..50 {
        let mut below = random_generator(seed ^ 0x5555);
        let pipe = mixed_messages(
            seed,
            move |_, _, _| Fate::Delay(Picos::from_nanos(below(3_000))),
            Recovery::GoBackN,
        );
        let counters = pipe.ends[0].counters();
        assert_eq!(
            (
                counters.implied_nak_seq_err,
                counters.retransmitted_packets,
                counters.local_ack_timeout_err
            ),
            (0, 0, 0),
            "seed {seed}"
        );
        assert_eq!(pipe.ends[1].counters().duplicate_request, 0, "seed {seed}");
    }
}

#[test]
fn lost_responses_are_asked_for_again_whatever_arrives_behind_them() {
    for recovery in [Recovery::GoBackN, Recovery::SelectiveRepeat, Recovery::GoBackZero] {
        for seed in 0..50 {
            let mut below = random_generator(seed ^ 0xaaaa);
            // Go-back-0 ends only where losses are rare.
            let loss = if recovery == Recovery::GoBackZero { 200 } else { 20 };
            let script = move |_, _, _: &Packet| match below(loss) {
                0 => Fate::Drop,
                1 => Fate::Delay(Picos::from_micros(2)),
                _ => Fate::Pass,
            };
            mixed_messages(seed, script, recovery);
        }
    }
}

#[test]
fn a_gap_of_responses_is_named_after_the_time_that_is_tolerated() {
    let script = |end: usize, n: u64, _: &Packet| {
        if end == 1 && n == 3 {
            Fate::Drop
        } else {
            Fate::Pass
        }
    };
    let (mut pipe, qp, _) = scripted(script, |config| {
        config.out_of_order = Some(Picos::from_micros(10));
        config.ack_timeout = 8;
    });
    pipe.post(0, qp, 1, Verb::Read, 10 * 1024);
    pipe.run(SECOND);
    assert_eq!(pipe.acked(0), [1]);
    let requests = pipe.log.iter().filter(|(_, end, _)| *end == 0);
    let requests: Vec<(u64, u32)> = requests
        .map(|(at, _, packet)| (at.0 / 1_000, packet.psn))
        .collect();
    // Two ways of 1 us, six packets that occupy the link; then 10 us.
    let [(0, 0), (again_ns, 3)] = requests[..] else {
        panic!("{requests:?}")
    };
    assert!((12_000..13_000).contains(&again_ns), "{again_ns}");
    let counters = pipe.ends[0].counters();
    assert_eq!((counters.out_of_sequence, counters.implied_nak_seq_err), (6, 1));
}
