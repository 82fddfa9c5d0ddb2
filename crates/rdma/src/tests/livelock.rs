//! "RDMA over Commodity Ethernet at Scale" (SIGCOMM 2016), section 4.1: every 256th packet is lost.

use super::*;

const PACKETS: u64 = 4096;

/// Four messages of 4096 packets, each 256th data packet lost; how long the connection took, or `None` if it did not finish in
/// 20 ms, and what it repeated.
fn transfer(recovery: Recovery, window_packets: u32) -> (Option<Picos>, Counters, usize) {
    let script = |end, n, _: &Packet| {
        if end == 0 && n % 256 == 255 {
            Fate::Drop
        } else {
            Fate::Pass
        }
    };
    let (mut pipe, qp, _) = scripted(script, |config| {
        config.recovery = recovery;
        config.window_packets = Some(window_packets);
    });
    pipe.keep_log = false;
    for id in 0..4 {
        pipe.post(0, qp, id, Verb::Write, PACKETS * 1024);
    }
    pipe.run(Picos::from_millis(20));
    let done = pipe.acked(0).len() == 4;
    let last = pipe.completions[0].last().map(|completion| completion.at);
    (
        last.filter(|_| done),
        pipe.ends[0].counters(),
        pipe.received(1).len(),
    )
}

#[test]
fn go_back_0_never_completes_a_message() {
    let (done, counters, received) = transfer(Recovery::GoBackZero, 64);
    assert_eq!((done, received), (None, 0));
    // The link was busy all the time: 20 ms of it are some 230 000 packets.
    assert!(counters.tx_packets > 150_000, "{counters:?}");
    assert_eq!(counters.req_transport_retries_exceeded, 0);
}

#[test]
fn go_back_n_loses_a_window_per_loss() {
    let (done, counters, received) = transfer(Recovery::GoBackN, 1024);
    let packet_ps = f64::from((1024 + HEADER_BYTES) * 80);
    let lossless = 4.0 * PACKETS as f64 * packet_ps;
    // What is in flight when a NAK comes back is sent in vain: a round trip's worth, the lost packet itself among it.
    let round_trip_ps = 2.0 * LATENCY.0 as f64 + 2.0 * packet_ps + f64::from(HEADER_BYTES * 80);
    let wasted = (round_trip_ps / packet_ps).ceil();
    // 256 packets of the link carry 256 - wasted of the stream.
    let expected = lossless / (1.0 - wasted / 256.0);
    let took = done.unwrap().0 as f64;
    assert!(
        (took / expected - 1.0).abs() < 0.03,
        "took {took}, closed form {expected}, {counters:?}"
    );
    assert_eq!(received, 4);
    assert_eq!(counters.local_ack_timeout_err, 0);
}

#[test]
fn selective_repeat_loses_the_lost_packets_only() {
    let (done, counters, received) = transfer(Recovery::SelectiveRepeat, 1024);
    let took = done.unwrap().0 as f64;
    let expected = 4.0 * PACKETS as f64 * f64::from((1024 + HEADER_BYTES) * 80) * 256.0 / 255.0;
    assert!(
        (took / expected - 1.0).abs() < 0.01,
        "took {took}, closed form {expected}"
    );
    assert_eq!(received, 4);
    assert!(
        counters.retransmitted_packets <= 4 * PACKETS / 255 + 1,
        "{counters:?}"
    );
}
