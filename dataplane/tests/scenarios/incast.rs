//! An incast of four senders to one receiver in virtual time.

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{DropReason, Picos};
use xoff_wire::Ecn;

use crate::support::frames::udp_frame;
use crate::support::sender::{Flow, Sender, frame_number};
use crate::support::{Harness, config};

const RECEIVER: u16 = 4;
const RUN_TIME: Picos = Picos::from_millis(250);
/// 1082 bytes without FCS: 1106 bytes on the link, 8848 ns at 1 Gb/s.
const FRAME_LEN: usize = 1_082;
const FRAME_NS: u64 = 8_848;

/// Runs the incast. Each sender offers its full rate in class 3 and 40 % of its rate in class 0.
fn run_incast(config: &SwitchConfig) -> Harness {
    let mut harness = Harness::with_learnt_addresses(config);
    let until = harness.now() + RUN_TIME;
    for port in 0..4 {
        let frame = |class| udp_frame(port, RECEIVER as u8, class, Ecn::NotEct, FRAME_LEN);
        let lossy_interval = Picos::from_nanos(FRAME_NS * 10 / 4);
        let flows = vec![
            Flow::new(3, frame(3), Picos::ZERO, until),
            Flow::new(0, frame(0), lossy_interval, until),
        ];
        harness.connect_peer(u16::from(port), Sender::new(config::GIGABIT, flows));
    }
    harness.run_until(until);
    harness
}

/// Returns the frame numbers of one sender and class, in the order of their transmission to the receiver.
fn received_frame_numbers(harness: &Harness, sender: u8, class: u8) -> Vec<u32> {
    let sent = harness.sent(RECEIVER).iter();
    sent.filter(|s| s.bytes[11] == sender && s.bytes[15] >> 2 == class)
        .map(|s| frame_number(&s.bytes))
        .collect()
}

#[test]
fn an_incast_of_lossless_flows_loses_no_frame_and_shares_the_link() {
    let mut harness = run_incast(&config::bridge_config(5));
    let counts: Vec<usize> = (0..4)
        .map(|n| received_frame_numbers(&harness, n, 3).len())
        .collect();
    let lossy: usize = (0..4).map(|n| received_frame_numbers(&harness, n, 0).len()).sum();
    let lossless: usize = counts.iter().sum();
    let share = lossy as f64 / (lossy + lossless) as f64;
    assert!((0.49..=0.51).contains(&share), "lossy share {share}");
    for count in &counts {
        let of_mean = *count as f64 * 4.0 / lossless as f64;
        assert!((0.95..=1.05).contains(&of_mean), "{counts:?}");
    }
    let counters = harness.counters(RECEIVER);
    let elapsed = counters.tx_last_ps - harness.sent(RECEIVER)[0].start.0;
    let busy: u64 = harness
        .sent(RECEIVER)
        .iter()
        .map(|s| s.end.since(s.start).0)
        .sum();
    assert_eq!(elapsed, busy, "the link was never idle");

    harness.run();
    for n in 0..4 {
        let sent = harness.peer(u16::from(n)).flows()[0].sent;
        let expected: Vec<u32> = (0..sent).collect();
        assert!(
            received_frame_numbers(&harness, n, 3) == expected,
            "sender {n}: lost or reordered"
        );
        let lossy = received_frame_numbers(&harness, n, 0);
        assert!(lossy.windows(2).all(|pair| pair[0] < pair[1]));
        assert!((lossy.len() as u32) < harness.peer(u16::from(n)).flows()[1].sent);
        let pfc = harness.counters(u16::from(n)).pfc_tx;
        assert!(pfc[3] > 10, "{pfc:?}");
        assert_eq!(pfc.iter().sum::<u64>(), pfc[3], "PFC for class 3 only");
        assert_eq!(
            harness.drop_count(u16::from(n), DropReason::PriorityGroupDropped),
            0
        );
    }
    harness.assert_empty();
}

#[test]
fn without_pfc_the_incast_drops_lossless_frames_at_ingress() {
    let mut config = config::bridge_config(5);
    config.ports.iter_mut().for_each(|port| port.pfc.enabled = 0);
    let mut harness = run_incast(&config);
    harness.run();
    for n in 0..4 {
        let sent = u64::from(harness.peer(n).flows()[0].sent);
        let received = received_frame_numbers(&harness, n as u8, 3).len() as u64;
        let dropped = harness.drop_count(n, DropReason::PriorityGroupDropped);
        assert!(dropped > 0);
        assert_eq!(sent, received + dropped, "sender {n}");
        assert_eq!(harness.counters(n).pfc_tx_frames, 0);
    }
}

#[test]
fn pause_times_of_sender_and_receiver_agree() {
    let harness = run_incast(&config::bridge_config(5));
    for port in 0..4 {
        let counters = harness.counters(port);
        let asked = counters.tx_pause_ps[3] as f64 / RUN_TIME.0 as f64;
        // A sender gets one eighth of its link for class 3, next to 40 % of lossy frames, so it is paused
        // most of the time.
        assert!((0.7..0.9).contains(&asked), "{asked}");
    }
}
