//! Sequences of packets on the link.

use xoff_wire::{Aeth, NakCode, Reth, Syndrome};

use super::*;

#[test]
fn a_message_is_divided_into_first_middle_and_last_packet() {
    let (mut link, qp, _) = connect_without_faults(|config| config.first_psn = 0xff_fffe);
    link.post(0, qp, 1, Verb::Write, 2500);
    link.post(0, qp, 2, Verb::Send, 1024);
    link.post(0, qp, 3, Verb::Write, 0);
    link.run(SECOND);
    let expected = [
        (Opcode::RcWriteFirst, 0xff_fffe),
        (Opcode::RcWriteMiddle, 0xff_ffff),
        (Opcode::RcWriteLast, 0),
        (Opcode::RcSendOnly, 1),
        (Opcode::RcWriteOnly, 2),
    ];
    assert_eq!(link.sent_by(0), expected);
    let data: Vec<Packet> = link
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
        ExtensionHeader::Reth(Reth {
            dma_len,
            ..Reth::default()
        })
    };
    assert_eq!(
        (data[0].header, data[1].header, data[4].header),
        (reth(2500), ExtensionHeader::None, reth(0))
    );
    // One acknowledgement per packet. The MSN counts messages.
    let acks = link
        .log
        .iter()
        .filter(|(_, end, _)| *end == 1)
        .map(|(_, _, p)| (p.psn, p.header));
    let ack = |psn, msn| {
        let syndrome = Syndrome::ACK;
        (psn, ExtensionHeader::Aeth(Aeth { syndrome, msn }))
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
    assert_eq!(link.acked(0), [1, 2, 3]);
    assert_eq!(
        link.received(1),
        [(0, 2500, Verb::Write), (1, 1024, Verb::Send), (2, 0, Verb::Write)]
    );
}

#[test]
fn the_last_packet_of_a_message_is_always_acknowledged() {
    let (mut link, qp, control) = connect_without_faults(|config| config.ack_every = 4);
    link.post(0, qp, 1, Verb::Write, 10 * 1024);
    link.run(SECOND);
    let acks: Vec<u32> = link.sent_by(1).iter().map(|(_, psn)| *psn).collect();
    assert_eq!(acks, [3, 7, 9]);
    let calls = control.calls();
    assert_eq!(
        calls.acks.iter().map(|ack| ack.1).collect::<Vec<_>>(),
        [4096, 4096, 2048]
    );
    assert_eq!(calls.acks.last().unwrap().2, 0, "nothing remains in flight");
    assert_eq!(link.acked(0), [1]);
}

#[test]
fn a_full_window_requests_an_acknowledgement() {
    let (mut link, qp, _) = connect_without_faults(|config| {
        config.ack_every = 64;
        config.window_packets = Some(3);
        config.ack_timeout = 0;
    });
    link.post(0, qp, 1, Verb::Write, 10 * 1024);
    link.run(SECOND);
    assert_eq!(link.acked(0), [1]);
    assert_eq!(link.ends[0].counters().retransmitted_packets, 0);
}

#[test]
fn a_gap_gets_one_nak_and_sending_resumes_there() {
    let (mut link, qp, control) = connect_with_script(
        |end, n, _| {
            if end == 0 && n == 2 {
                LinkAction::Drop
            } else {
                LinkAction::Pass
            }
        },
        |config| config.first_psn = 100,
    );
    link.post(0, qp, 1, Verb::Write, 50 * 1024);
    link.run(SECOND);
    let naks: Vec<(u32, ExtensionHeader)> = link
        .log
        .iter()
        .filter_map(|(_, _, p)| match p.header {
            ExtensionHeader::Aeth(Aeth {
                syndrome: Syndrome::Nak(_),
                ..
            }) => Some((p.psn, p.header)),
            _ => None,
        })
        .collect();
    let syndrome = Syndrome::Nak(NakCode::PsnSequenceError);
    assert_eq!(naks, [(102, ExtensionHeader::Aeth(Aeth { syndrome, msn: 0 }))]);
    let counters = link.ends[0].counters();
    assert_eq!((counters.packet_seq_err, counters.local_ack_timeout_err), (1, 0));
    assert_eq!(
        link.ends[1].counters().out_of_sequence,
        counters.retransmitted_packets - 1
    );
    assert_eq!(control.calls().missed, 1);
    assert_eq!(link.received(1), [(0, 50 * 1024, Verb::Write)]);
}

#[test]
fn selective_repeat_resends_only_missing_packets() {
    let (mut link, qp, _) = connect_with_script(
        |end, n, _| {
            if end == 0 && [2, 3, 7].contains(&n) {
                LinkAction::Drop
            } else {
                LinkAction::Pass
            }
        },
        |config| config.recovery = Recovery::SelectiveRepeat,
    );
    link.post(0, qp, 1, Verb::Write, 100 * 1024);
    link.run(SECOND);
    assert_eq!(link.acked(0), [1]);
    let counters = link.ends[0].counters();
    assert_eq!((counters.retransmitted_packets, counters.packet_seq_err), (3, 3));
    assert_eq!((counters.local_ack_timeout_err, counters.tx_packets), (0, 103));
    assert_eq!(link.received(1), [(0, 100 * 1024, Verb::Write)]);
}

#[test]
fn only_a_lasting_gap_gets_a_nak() {
    let script = |end: usize, n: u64, _: &Packet| match (end, n) {
        (0, n) if n < 100 && n % 3 == 0 => LinkAction::Delay(Picos::from_nanos(700)),
        (0, 150) => LinkAction::Drop,
        _ => LinkAction::Pass,
    };
    let (mut link, qp, _) =
        connect_with_script(script, |config| config.out_of_order = Some(Picos::from_micros(5)));
    link.post(0, qp, 1, Verb::Write, 100 * 1024);
    link.run(SECOND);
    assert_eq!(link.ends[0].counters().packet_seq_err, 0);
    assert!(link.ends[1].counters().out_of_sequence > 30);
    link.post(0, qp, 2, Verb::Write, 100 * 1024);
    link.run(SECOND);
    let counters = link.ends[0].counters();
    assert_eq!((counters.packet_seq_err, counters.local_ack_timeout_err), (1, 0));
    assert_eq!(
        link.received(1),
        [(0, 100 * 1024, Verb::Write), (1, 100 * 1024, Verb::Write)]
    );
}

#[test]
fn ud_packets_are_independent_messages() {
    let (mut link, qp, _) = connect_with_script(
        |_, n, _| {
            if n == 1 {
                LinkAction::Drop
            } else {
                LinkAction::Pass
            }
        },
        |config| config.transport = Transport::Ud,
    );
    for id in 0..3 {
        link.post(0, qp, id, Verb::Send, 100 + id);
    }
    let too_long = WorkRequest {
        id: 9,
        verb: Verb::Send,
        bytes: 1025,
    };
    let refused = link.ends[0].post(Picos::ZERO, qp, too_long);
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
        link.ends[0].post(Picos::ZERO, qp, write),
        Err(PostError::Unsupported)
    );
    link.run(SECOND);
    assert_eq!(link.acked(0), [0, 1, 2], "they are done when they leave");
    assert_eq!(link.received(1), [(0, 100, Verb::Send), (1, 102, Verb::Send)]);
    assert_eq!(link.sent_by(1), []);
    let source = link.log.iter().map(|(_, _, packet)| packet.header).next();
    assert!(matches!(source, Some(ExtensionHeader::Deth(deth)) if deth.source_qp == 0x10));
}
