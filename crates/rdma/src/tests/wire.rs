//! What packets look like.

use xoff_wire::{Aeth, NakCode, Reth, Syndrome};

use super::*;

#[test]
fn a_message_is_cut_into_first_middle_last() {
    let (mut pipe, qp, _) = plain(|config| config.first_psn = 0xff_fffe);
    pipe.post(0, qp, 1, Verb::Write, 2500);
    pipe.post(0, qp, 2, Verb::Send, 1024);
    pipe.post(0, qp, 3, Verb::Write, 0);
    pipe.run(SECOND);
    let expected = [
        (Opcode::RcWriteFirst, 0xff_fffe),
        (Opcode::RcWriteMiddle, 0xff_ffff),
        (Opcode::RcWriteLast, 0),
        (Opcode::RcSendOnly, 1),
        (Opcode::RcWriteOnly, 2),
    ];
    assert_eq!(pipe.sent_by(0), expected);
    let data: Vec<Packet> = pipe
        .log
        .iter()
        .filter(|(_, end, _)| *end == 0)
        .map(|(_, _, p)| *p)
        .collect();
    assert_eq!(
        data.iter().map(|p| p.payload_len).collect::<Vec<_>>(),
        [1024, 1024, 452, 1024, 0]
    );
    assert_eq!(
        data.iter().map(|p| p.ack_req).collect::<Vec<_>>(),
        [false, false, true, true, true]
    );
    let reth = |dma_len| {
        Header::Reth(Reth {
            dma_len,
            ..Reth::default()
        })
    };
    assert_eq!(
        (data[0].header, data[1].header, data[4].header),
        (reth(2500), Header::None, reth(0))
    );
    // One acknowledgement a packet; the message sequence number counts messages.
    let acks = pipe
        .log
        .iter()
        .filter(|(_, end, _)| *end == 1)
        .map(|(_, _, p)| (p.psn, p.header));
    let ack = |psn, msn| {
        let syndrome = Syndrome::ACK;
        (psn, Header::Aeth(Aeth { syndrome, msn }))
    };
    assert_eq!(
        acks.collect::<Vec<_>>(),
        [
            ack(0xff_fffe, 0),
            ack(0xff_ffff, 0),
            ack(0, 1),
            ack(1, 2),
            ack(2, 3)
        ]
    );
    assert_eq!(pipe.acked(0), [1, 2, 3]);
    assert_eq!(
        pipe.received(1),
        [(0, 2500, Verb::Write), (1, 1024, Verb::Send), (2, 0, Verb::Write)]
    );
}

#[test]
fn acknowledgements_coalesce_but_for_the_last_packet_of_a_message() {
    let (mut pipe, qp, control) = plain(|config| config.ack_every = 4);
    pipe.post(0, qp, 1, Verb::Write, 10 * 1024);
    pipe.run(SECOND);
    let acks: Vec<u32> = pipe.sent_by(1).iter().map(|(_, psn)| *psn).collect();
    assert_eq!(acks, [3, 7, 9]);
    let told = control.told();
    assert_eq!(
        told.acks.iter().map(|ack| ack.1).collect::<Vec<_>>(),
        [4096, 4096, 2048]
    );
    assert_eq!(told.acks.last().unwrap().2, 0, "nothing remains in flight");
    assert_eq!(pipe.acked(0), [1]);
}

#[test]
fn a_window_smaller_than_the_coalescing_asks_for_its_acknowledgements() {
    let (mut pipe, qp, _) = plain(|config| {
        config.ack_every = 64;
        config.window_packets = Some(3);
        config.ack_timeout = 0;
    });
    pipe.post(0, qp, 1, Verb::Write, 10 * 1024);
    pipe.run(SECOND);
    assert_eq!(pipe.acked(0), [1]);
    assert_eq!(pipe.ends[0].counters().retransmitted_packets, 0);
}

#[test]
fn a_gap_is_named_once_and_sending_resumes_there() {
    let (mut pipe, qp, control) = scripted(
        |end, n, _| {
            if end == 0 && n == 2 {
                Fate::Drop
            } else {
                Fate::Pass
            }
        },
        |config| config.first_psn = 100,
    );
    pipe.post(0, qp, 1, Verb::Write, 50 * 1024);
    pipe.run(SECOND);
    let naks: Vec<(u32, Header)> = pipe
        .log
        .iter()
        .filter_map(|(_, _, p)| match p.header {
            Header::Aeth(Aeth {
                syndrome: Syndrome::Nak(_),
                ..
            }) => Some((p.psn, p.header)),
            _ => None,
        })
        .collect();
    let syndrome = Syndrome::Nak(NakCode::PsnSequenceError);
    assert_eq!(naks, [(102, Header::Aeth(Aeth { syndrome, msn: 0 }))]);
    let counters = pipe.ends[0].counters();
    assert_eq!((counters.packet_seq_err, counters.local_ack_timeout_err), (1, 0));
    assert_eq!(
        pipe.ends[1].counters().out_of_sequence,
        counters.retransmitted_packets - 1
    );
    assert_eq!(control.told().missed, 1);
    assert_eq!(pipe.received(1), [(0, 50 * 1024, Verb::Write)]);
}

#[test]
fn selective_repeat_repeats_what_is_missing_only() {
    let (mut pipe, qp, _) = scripted(
        |end, n, _| {
            if end == 0 && [2, 3, 7].contains(&n) {
                Fate::Drop
            } else {
                Fate::Pass
            }
        },
        |config| config.recovery = Recovery::SelectiveRepeat,
    );
    pipe.post(0, qp, 1, Verb::Write, 100 * 1024);
    pipe.run(SECOND);
    assert_eq!(pipe.acked(0), [1]);
    let counters = pipe.ends[0].counters();
    assert_eq!((counters.retransmitted_packets, counters.packet_seq_err), (3, 3));
    assert_eq!((counters.local_ack_timeout_err, counters.tx_packets), (0, 103));
    assert_eq!(pipe.received(1), [(0, 100 * 1024, Verb::Write)]);
}

#[test]
fn tolerated_reordering_makes_no_nak_and_a_lasting_gap_makes_one() {
    let script = |end: usize, n: u64, _: &Packet| match (end, n) {
        (0, n) if n < 100 && n % 3 == 0 => Fate::Delay(Picos::from_nanos(700)),
        (0, 150) => Fate::Drop,
        _ => Fate::Pass,
    };
    let (mut pipe, qp, _) = scripted(script, |config| config.out_of_order = Some(Picos::from_micros(5)));
    pipe.post(0, qp, 1, Verb::Write, 100 * 1024);
    pipe.run(SECOND);
    assert_eq!(pipe.ends[0].counters().packet_seq_err, 0);
    assert!(pipe.ends[1].counters().out_of_sequence > 30);
    pipe.post(0, qp, 2, Verb::Write, 100 * 1024);
    pipe.run(SECOND);
    let counters = pipe.ends[0].counters();
    assert_eq!((counters.packet_seq_err, counters.local_ack_timeout_err), (1, 0));
    assert_eq!(
        pipe.received(1),
        [(0, 100 * 1024, Verb::Write), (1, 100 * 1024, Verb::Write)]
    );
}

#[test]
fn datagrams_stand_alone() {
    let (mut pipe, qp, _) = scripted(
        |_, n, _| if n == 1 { Fate::Drop } else { Fate::Pass },
        |config| config.transport = Transport::Ud,
    );
    for id in 0..3 {
        pipe.post(0, qp, id, Verb::Send, 100 + id);
    }
    let too_long = WorkRequest {
        id: 9,
        verb: Verb::Send,
        bytes: 1025,
    };
    let refused = pipe.ends[0].post(Picos::ZERO, qp, too_long);
    assert_eq!(
        refused,
        Err(PostError::TooLong {
            bytes: 1025,
            bytes_max: 1024
        })
    );
    let write = WorkRequest {
        id: 9,
        verb: Verb::Write,
        bytes: 1,
    };
    assert_eq!(
        pipe.ends[0].post(Picos::ZERO, qp, write),
        Err(PostError::Unsupported)
    );
    pipe.run(SECOND);
    assert_eq!(pipe.acked(0), [0, 1, 2], "they are done when they leave");
    assert_eq!(pipe.received(1), [(0, 100, Verb::Send), (1, 102, Verb::Send)]);
    assert_eq!(pipe.sent_by(1), []);
    let source = pipe.log.iter().map(|(_, _, packet)| packet.header).next();
    assert!(matches!(source, Some(Header::Deth(deth)) if deth.source_qp == 0x10));
}
