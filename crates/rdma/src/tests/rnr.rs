//! Tests of RNR NAKs.

use super::*;

fn connect_without_receive_entries(rnr_retry: u8) -> (TestLink, QpIndex) {
    let (link, qp, _) = connect_without_faults(|config| {
        config.receive_queue = ReceiveQueue::Posted;
        config.min_rnr_timer = 5; // 60 us
        config.rnr_retry = rnr_retry;
    });
    (link, qp)
}

#[test]
fn the_requester_waits_for_the_rnr_timer() {
    let (mut link, qp) = connect_without_receive_entries(7);
    link.post(0, qp, 1, Verb::Write, 1000);
    link.post(0, qp, 2, Verb::Send, 3000);
    link.post(0, qp, 3, Verb::Write, 1000);
    link.run(Picos::from_micros(30));
    assert_eq!(link.acked(0), [1], "the RNR NAK acknowledges what was before");
    link.ends[1].post_receives(link.now, qp, 1);
    link.run(SECOND);
    assert_eq!(link.acked(0), [1, 2, 3]);
    assert_eq!(
        link.received(1),
        [
            (0, 1000, Verb::Write),
            (1, 3000, Verb::Send),
            (2, 1000, Verb::Write)
        ]
    );
    let firsts = link
        .log
        .iter()
        .filter(|(_, _, p)| p.opcode == Opcode::RcSendFirst);
    let at: Vec<Picos> = firsts.map(|(at, _, _)| *at).collect();
    assert_eq!(at.len(), 2);
    let wait = at[1].since(at[0]);
    // 60 us after the arrival of the NAK, which is one round trip after the first attempt.
    assert!(
        wait > Picos::from_micros(62) && wait < Picos::from_micros(63),
        "{wait:?}"
    );
    assert_eq!(link.ends[0].counters().rnr_nak_retry_err, 1);
    assert_eq!(link.ends[1].counters().out_of_buffer, 1);
}

#[test]
fn the_queue_pair_fails_after_rnr_retry() {
    let (mut link, qp) = connect_without_receive_entries(3);
    link.post(0, qp, 1, Verb::Send, 10);
    link.post(0, qp, 2, Verb::Write, 10);
    link.run(SECOND);
    assert_eq!(
        link.failed(0),
        [(1, FailReason::RnrRetriesExceeded), (2, FailReason::Flushed)]
    );
    let counters = link.ends[0].counters();
    assert_eq!(
        (counters.rnr_nak_retry_err, counters.req_rnr_retries_exceeded),
        (4, 1)
    );
    let request = WorkRequest {
        id: 3,
        verb: Verb::Write,
        bytes: 1,
    };
    assert_eq!(link.ends[0].post(link.now, qp, request), Err(PostError::Failed));

    let (mut link, qp) = connect_without_receive_entries(7);
    link.post(0, qp, 1, Verb::Send, 10);
    link.run(Picos::from_millis(10));
    assert!(link.failed(0).is_empty());
    assert!(link.ends[0].counters().rnr_nak_retry_err > 150);
    link.ends[1].post_receives(link.now, qp, 1);
    link.run(SECOND);
    assert_eq!(link.acked(0), [1]);
}

#[test]
fn an_unreliable_send_without_a_receive_entry_is_lost() {
    let (mut link, qp, _) = connect_without_faults(|config| {
        config.receive_queue = ReceiveQueue::Posted;
        config.transport = Transport::Uc;
    });
    link.post(0, qp, 1, Verb::Send, 3000);
    link.run(SECOND);
    link.ends[1].post_receives(link.now, qp, 1);
    link.post(0, qp, 2, Verb::Send, 2000);
    link.run(SECOND);
    assert_eq!(link.received(1), [(0, 2000, Verb::Send)]);
    assert_eq!(link.ends[1].counters().out_of_buffer, 1);
}
