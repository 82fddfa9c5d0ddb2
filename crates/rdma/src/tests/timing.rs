//! Tests of pacing, timeouts and round robin.

use super::*;

#[test]
fn packets_are_spaced_by_controller_rate_and_rate_limit() {
    for (rate_bps, rate_bps_max) in [(10_000_000_000, None), (LINE_BPS, Some(10_000_000_000))] {
        let mut link = TestLink::new(|_, _, _| LinkAction::Pass);
        let control = RecordingController::new(rate_bps);
        let qp = link.connect([&control, &RecordingController::new(LINE_BPS)], |config| {
            config.rate_bps_max = rate_bps_max
        });
        link.now = Picos::from_micros(5);
        link.post(0, qp, 1, Verb::Write, 100 * 1024);
        link.run(Picos::from_millis(5));
        let sent = control.calls().sent;
        assert_eq!(
            sent[0],
            (Picos::from_micros(5), 1024 + HEADER_BYTES),
            "at once when idle"
        );
        let interval = u64::from(1024 + HEADER_BYTES) * 800;
        assert!(sent.windows(2).all(|pair| pair[1].0.0 - pair[0].0.0 == interval));
        assert_eq!(sent.len(), 100);
    }
}

#[test]
fn the_round_trip_is_measured_from_departure_to_acknowledgement() {
    let (mut link, qp, control) = connect_without_faults(|_| {});
    link.post(0, qp, 1, Verb::Write, 3 * 1024);
    link.run(SECOND);
    let packet = u64::from(1024 + HEADER_BYTES) * 80;
    let expected = Picos(packet + u64::from(HEADER_BYTES) * 80 + 2 * LATENCY.0);
    assert_eq!(
        control.calls().acks.iter().map(|ack| ack.3).collect::<Vec<_>>(),
        [Some(expected); 3]
    );
}

#[test]
fn a_retransmitted_packet_gives_no_round_trip_time() {
    let script = |end: usize, n: u64, _: &Packet| {
        if end == 0 && n == 1 {
            LinkAction::Drop
        } else {
            LinkAction::Pass
        }
    };
    for recovery in [Recovery::GoBackN, Recovery::SelectiveRepeat] {
        let (mut link, qp, control) = connect_with_script(script, |config| config.recovery = recovery);
        link.post(0, qp, 1, Verb::Write, 3 * 1024);
        link.run(SECOND);
        let acks = control.calls().acks;
        let rtts: Vec<bool> = acks
            .iter()
            .filter(|ack| ack.1 > 0)
            .map(|ack| ack.3.is_some())
            .collect();
        let expected: &[bool] = match recovery {
            Recovery::SelectiveRepeat => &[true, true],
            _ => &[true, false, false],
        };
        assert_eq!(rtts, expected, "{recovery:?}");
    }
}

#[test]
fn timeouts_repeat_until_the_retries_are_used() {
    let (mut link, qp, control) = connect_with_script(
        |end, _, _| {
            if end == 0 {
                LinkAction::Drop
            } else {
                LinkAction::Pass
            }
        },
        |config| config.retry_cnt = 3,
    );
    link.post(0, qp, 1, Verb::Write, 10);
    link.post(0, qp, 2, Verb::Write, 10);
    link.run(SECOND);
    assert_eq!(
        link.failed(0),
        [(1, FailReason::RetriesExceeded), (2, FailReason::Flushed)]
    );
    let counters = link.ends[0].counters();
    assert_eq!(
        (
            counters.local_ack_timeout_err,
            counters.req_transport_retries_exceeded
        ),
        (4, 1)
    );
    assert_eq!(control.calls().timed_out, 3);
    // 4.096 us x 2^4, four times, each from the first packet sent.
    let end = link.completions[0][0].at;
    assert_eq!(end, Picos::from_nanos(4 * 65_536));
    assert_eq!(counters.tx_packets, 8);
    assert_eq!(link.ends[0].next_deadline(), Picos::NEVER);
}

#[test]
fn without_a_timeout_a_lost_last_packet_is_not_resent() {
    let script = |end: usize, n: u64, _: &Packet| {
        if end == 0 && n == 0 {
            LinkAction::Drop
        } else {
            LinkAction::Pass
        }
    };
    let (mut link, qp, _) = connect_with_script(script, |config| config.ack_timeout = 0);
    link.post(0, qp, 1, Verb::Write, 10);
    link.run(SECOND);
    assert!(link.completions[0].is_empty());
    assert_eq!(link.ends[0].next_deadline(), Picos::NEVER);
}

#[test]
fn queue_pairs_alternate_and_respect_windows() {
    let mut link = TestLink::new(|_, _, _| LinkAction::Pass);
    let mut control = RecordingController::new(LINE_BPS);
    control.window_bytes = Some(4 * 1024);
    let qps: Vec<QpIndex> = (0..5)
        .map(|_| link.connect([&control, &control], |_| {}))
        .collect();
    for qp in &qps {
        link.post(0, *qp, 1, Verb::Write, 40 * 1024);
    }
    link.run(SECOND);
    let data: Vec<u32> = link
        .log
        .iter()
        .filter(|(_, end, _)| *end == 0)
        .map(|(_, _, p)| p.dst_qp)
        .collect();
    assert_eq!(data.len(), 200);
    for turn in data.chunks(5) {
        let mut sorted = turn.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, [0x11, 0x13, 0x15, 0x17, 0x19]);
    }
    assert!(control.calls().acks.iter().all(|ack| ack.2 <= 4 * 1024));
}

#[test]
fn an_idle_queue_pair_uses_little_memory() {
    let bytes = size_of::<crate::queue_pair::QueuePair>();
    assert!(bytes <= 1024, "{bytes} bytes");
}

/// With round robin the NIC polls only at events. A timeout is such an event.
#[test]
fn with_round_robin_a_timeout_causes_a_poll() {
    let mut endpoint = Endpoint::new();
    endpoint.enable_round_robin();
    let qp = endpoint.create_queue_pair(
        QpConfig::new(16, 17),
        Box::new(RecordingController::new(LINE_BPS)),
    );
    let class = endpoint.config(qp).unwrap().data_class;
    let earliest = |endpoint: &Endpoint| endpoint.earliest_departures()[usize::from(class)];
    let request = WorkRequest {
        id: 1,
        verb: Verb::Write,
        bytes: 1024,
    };
    endpoint.begin_event(Picos::ZERO);
    endpoint.post(Picos::ZERO, qp, request).unwrap();
    endpoint.end_event(Picos::ZERO);
    assert!(endpoint.pop_packet(Picos::ZERO, class).is_some());
    endpoint.set_link_free_at(Picos::from_nanos(100));
    assert_eq!(earliest(&endpoint), Picos::NEVER, "all is sent");
    let timeout = endpoint.next_deadline();
    endpoint.advance(timeout);
    assert_eq!(earliest(&endpoint), timeout);
    assert!(endpoint.pop_packet(timeout, class).is_some(), "sent again");
}
