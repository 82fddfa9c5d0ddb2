//! Receivers that are not ready.

use super::*;

fn unready(rnr_retry: u8) -> (Pipe, QpIndex) {
    let (pipe, qp, _) = plain(|config| {
        config.receive_queue = ReceiveQueue::Posted;
        config.min_rnr_timer = 5; // 60 us
        config.rnr_retry = rnr_retry;
    });
    (pipe, qp)
}

#[test]
fn the_sender_waits_as_long_as_it_is_told() {
    let (mut pipe, qp) = unready(7);
    pipe.post(0, qp, 1, Verb::Write, 1000);
    pipe.post(0, qp, 2, Verb::Send, 3000);
    pipe.post(0, qp, 3, Verb::Write, 1000);
    pipe.run(Picos::from_micros(30));
    assert_eq!(pipe.acked(0), [1], "the RNR NAK acknowledges what was before");
    pipe.ends[1].post_receives(pipe.now, qp, 1);
    pipe.run(SECOND);
    assert_eq!(pipe.acked(0), [1, 2, 3]);
    assert_eq!(
        pipe.received(1),
        [
            (0, 1000, Verb::Write),
            (1, 3000, Verb::Send),
            (2, 1000, Verb::Write)
        ]
    );
    let firsts = pipe
        .log
        .iter()
        .filter(|(_, _, p)| p.opcode == Opcode::RcSendFirst);
    let at: Vec<Picos> = firsts.map(|(at, _, _)| *at).collect();
    assert_eq!(at.len(), 2);
    let wait = at[1].since(at[0]);
    // 60 us from the arrival of the NAK, a round trip after the first attempt.
    assert!(
        wait > Picos::from_micros(62) && wait < Picos::from_micros(63),
        "{wait:?}"
    );
    assert_eq!(pipe.ends[0].counters().rnr_nak_retry_err, 1);
    assert_eq!(pipe.ends[1].counters().out_of_buffer, 1);
}

#[test]
fn patience_ends_after_rnr_retry_or_never() {
    let (mut pipe, qp) = unready(3);
    pipe.post(0, qp, 1, Verb::Send, 10);
    pipe.post(0, qp, 2, Verb::Write, 10);
    pipe.run(SECOND);
    assert_eq!(
        pipe.failed(0),
        [(1, FailReason::RnrRetriesExceeded), (2, FailReason::Flushed)]
    );
    let counters = pipe.ends[0].counters();
    assert_eq!(
        (counters.rnr_nak_retry_err, counters.req_rnr_retries_exceeded),
        (4, 1)
    );
    let request = WorkRequest {
        id: 3,
        verb: Verb::Write,
        bytes: 1,
    };
    assert_eq!(pipe.ends[0].post(pipe.now, qp, request), Err(PostError::Failed));

    let (mut pipe, qp) = unready(7);
    pipe.post(0, qp, 1, Verb::Send, 10);
    pipe.run(Picos::from_millis(10));
    assert!(pipe.failed(0).is_empty());
    assert!(pipe.ends[0].counters().rnr_nak_retry_err > 150);
    pipe.ends[1].post_receives(pipe.now, qp, 1);
    pipe.run(SECOND);
    assert_eq!(pipe.acked(0), [1]);
}

#[test]
fn an_unreliable_send_without_a_receive_entry_is_lost() {
    let (mut pipe, qp, _) = plain(|config| {
        config.receive_queue = ReceiveQueue::Posted;
        config.transport = Transport::Uc;
    });
    pipe.post(0, qp, 1, Verb::Send, 3000);
    pipe.run(SECOND);
    pipe.ends[1].post_receives(pipe.now, qp, 1);
    pipe.post(0, qp, 2, Verb::Send, 2000);
    pipe.run(SECOND);
    assert_eq!(pipe.received(1), [(0, 2000, Verb::Send)]);
    assert_eq!(pipe.ends[1].counters().out_of_buffer, 1);
}
