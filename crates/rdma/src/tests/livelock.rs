//! Livelock of "RDMA over Commodity Ethernet at Scale" (SIGCOMM 2016), section 4.1: every 256th
//! packet is lost.

use super::*;

const PACKETS: u64 = 4096;

/// Sends four messages of 4096 packets and drops each 256th data packet. Returns the duration, or `None`
/// after 20 ms, the counters and the number of retransmitted packets.
fn transfer(recovery: Recovery, window_packets: u32) -> (Option<Picos>, Counters, usize) {
    let script = |end, n, _: &Packet| {
        if end == 0 && n % 256 == 255 {
            LinkAction::Drop
        } else {
            LinkAction::Pass
        }
    };
    let (mut link, qp, _) = connect_with_script(script, |config| {
        config.recovery = recovery;
        config.window_packets = Some(window_packets);
    });
    link.keep_log = false;
    for id in 0..4 {
        link.post(0, qp, id, Verb::Write, PACKETS * 1024);
    }
    link.run(Picos::from_millis(20));
    let done = link.acked(0).len() == 4;
    let last = link.completions[0].last().map(|completion| completion.at);
    (
        last.filter(|_| done),
        link.ends[0].counters(),
        link.received(1).len(),
    )
}

#[test]
fn go_back_0_never_completes_a_message() {
    let (done, counters, received) = transfer(Recovery::GoBackZero, 64);
    assert_eq!((done, received), (None, 0));
    // The link is busy all the time: 20 ms are about 230 000 packets.
    assert!(counters.tx_packets > 150_000, "{counters:?}");
    assert_eq!(counters.req_transport_retries_exceeded, 0);
}

#[test]
fn go_back_n_wastes_a_round_trip_per_loss() {
    let (done, counters, received) = transfer(Recovery::GoBackN, 1024);
    let packet_ps = f64::from((1024 + HEADER_BYTES) * 80);
    let lossless = 4.0 * PACKETS as f64 * packet_ps;
    // The data in flight when a NAK arrives are discarded: a round trip of packets, including the
    // lost packet.
    let round_trip_ps = 2.0 * LATENCY.0 as f64 + 2.0 * packet_ps + f64::from(HEADER_BYTES * 80);
    let wasted = (round_trip_ps / packet_ps).ceil();
    // 256 packets on the link carry 256 - wasted packets of new data.
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
fn selective_repeat_resends_only_lost_packets() {
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
