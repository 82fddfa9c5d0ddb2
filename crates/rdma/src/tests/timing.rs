//! Pacing, timeouts, turns.

use super::*;

#[test]
fn packets_are_spaced_by_the_rate_and_the_limiter() {
    for (rate_bps, rate_bps_max) in [(10_000_000_000, None), (LINE_BPS, Some(10_000_000_000))] {
        let mut pipe = Pipe::new(|_, _, _| Fate::Pass);
        let control = Fixed::new(rate_bps);
        let qp = pipe.connect([&control, &Fixed::new(LINE_BPS)], |config| {
            config.rate_bps_max = rate_bps_max
        });
        pipe.now = Picos::from_micros(5);
        pipe.post(0, qp, 1, Verb::Write, 100 * 1024);
        pipe.run(Picos::from_millis(5));
        let sent = control.told().sent;
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
    let (mut pipe, qp, control) = plain(|_| {});
    pipe.post(0, qp, 1, Verb::Write, 3 * 1024);
    pipe.run(SECOND);
    let packet = u64::from(1024 + HEADER_BYTES) * 80;
    let expected = Picos(packet + u64::from(HEADER_BYTES) * 80 + 2 * LATENCY.0);
    assert_eq!(
        control.told().acks.iter().map(|ack| ack.3).collect::<Vec<_>>(),
        [Some(expected); 3]
    );
}

#[test]
fn a_repeated_packet_gives_no_round_trip() {
    let script = |end: usize, n: u64, _: &Packet| {
        if end == 0 && n == 1 {
            Fate::Drop
        } else {
            Fate::Pass
        }
    };
    for recovery in [Recovery::GoBackN, Recovery::SelectiveRepeat] {
        let (mut pipe, qp, control) = scripted(script, |config| config.recovery = recovery);
        pipe.post(0, qp, 1, Verb::Write, 3 * 1024);
        pipe.run(SECOND);
        let acks = control.told().acks;
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
fn timeouts_come_at_their_time_and_end_with_the_retries() {
    let (mut pipe, qp, control) = scripted(
        |end, _, _| if end == 0 { Fate::Drop } else { Fate::Pass },
        |config| config.retry_cnt = 3,
    );
    pipe.post(0, qp, 1, Verb::Write, 10);
    pipe.post(0, qp, 2, Verb::Write, 10);
    pipe.run(SECOND);
    assert_eq!(
        pipe.failed(0),
        [(1, FailReason::RetriesExceeded), (2, FailReason::Flushed)]
    );
    let counters = pipe.ends[0].counters();
    assert_eq!(
        (
            counters.local_ack_timeout_err,
            counters.req_transport_retries_exceeded
        ),
        (4, 1)
    );
    assert_eq!(control.told().timed_out, 3);
    // 4.096 us x 2^4, four times, each from the first packet sent.
    let end = pipe.completions[0][0].at;
    assert_eq!(end, Picos::from_nanos(4 * 65_536));
    assert_eq!(counters.tx_packets, 8);
    assert_eq!(pipe.ends[0].next_deadline(), Picos::NEVER);
}

#[test]
fn without_a_timeout_a_lost_packet_stays_lost() {
    let script = |end: usize, n: u64, _: &Packet| {
        if end == 0 && n == 0 {
            Fate::Drop
        } else {
            Fate::Pass
        }
    };
    let (mut pipe, qp, _) = scripted(script, |config| config.ack_timeout = 0);
    pipe.post(0, qp, 1, Verb::Write, 10);
    pipe.run(SECOND);
    assert!(pipe.completions[0].is_empty());
    assert_eq!(pipe.ends[0].next_deadline(), Picos::NEVER);
}

#[test]
fn queue_pairs_take_turns_and_windows_hold() {
    let mut pipe = Pipe::new(|_, _, _| Fate::Pass);
    let mut control = Fixed::new(LINE_BPS);
    control.window_bytes = Some(4 * 1024);
    let qps: Vec<QpIndex> = (0..5)
        .map(|_| pipe.connect([&control, &control], |_| {}))
        .collect();
    for qp in &qps {
        pipe.post(0, *qp, 1, Verb::Write, 40 * 1024);
    }
    pipe.run(SECOND);
    let data: Vec<u32> = pipe
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
    assert!(control.told().acks.iter().all(|ack| ack.2 <= 4 * 1024));
}

#[test]
fn an_idle_queue_pair_is_small() {
    let bytes = size_of::<crate::queue_pair::QueuePair>();
    assert!(bytes <= 1024, "{bytes} bytes");
}

/// Where queue pairs take turns, the NIC looks for a packet only when something happens: a timeout is one of these.
#[test]
fn in_turns_a_timeout_makes_the_nic_look() {
    let mut endpoint = Endpoint::new();
    endpoint.take_turns();
    let qp = endpoint.create(QpConfig::new(16, 17), Box::new(Fixed::new(LINE_BPS)));
    let class = endpoint.config(qp).unwrap().data_class;
    let earliest = |endpoint: &Endpoint| endpoint.earliest()[usize::from(class)];
    let request = WorkRequest {
        id: 1,
        verb: Verb::Write,
        bytes: 1024,
    };
    endpoint.begin_event(Picos::ZERO);
    endpoint.post(Picos::ZERO, qp, request).unwrap();
    endpoint.end_event(Picos::ZERO);
    assert!(endpoint.pop(Picos::ZERO, class).is_some());
    endpoint.link_free_at(Picos::from_nanos(100));
    assert_eq!(earliest(&endpoint), Picos::NEVER, "all is sent");
    let timeout = endpoint.next_deadline();
    endpoint.advance(timeout);
    assert_eq!(earliest(&endpoint), timeout);
    assert!(endpoint.pop(timeout, class).is_some(), "sent again");
}
