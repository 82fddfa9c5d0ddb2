//! Windows with coalesced acknowledgements.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use crate::congestion::{Algorithm, CongestionConfig, ControllerContext};

const MTU: u64 = 1024;
/// Time of a full packet on the link.
const PACKET_PS: u64 = (MTU + HEADER_BYTES as u64) * 80;
/// Time from the first bit of a full packet to the arrival of its acknowledgement.
const ROUND_TRIP_PS: u64 = PACKET_PS + HEADER_BYTES as u64 * 80 + 2 * LATENCY.0;

/// Use of the window by a requester. Each packet has [`MTU`] bytes of payload.
#[derive(Clone, Debug, Default)]
struct WindowUse {
    sent_bytes: u64,
    acked_bytes: u64,
    /// Packets sent with a full window since the last acknowledgement.
    beyond_window: u32,
    /// Largest value of this count.
    beyond_window_max: u32,
    timeouts: u32,
}

/// A controller that measures the use of its window. `window_bytes` is the smallest window
/// of the configuration.
#[derive(Debug)]
struct WindowObserver {
    control: Box<dyn CongestionControl>,
    window_bytes: u64,
    seen: Arc<Mutex<WindowUse>>,
}

impl CongestionControl for WindowObserver {
    fn name(&self) -> &'static str {
        self.control.name()
    }
    fn rate_bps(&self) -> u64 {
        self.control.rate_bps()
    }
    fn window_bytes(&self) -> Option<u64> {
        self.control.window_bytes()
    }
    fn telemetry_format(&self) -> Option<TelemetryFormat> {
        self.control.telemetry_format()
    }
    fn on_packet_sent(&mut self, now: Picos, packet_bytes: u32) {
        let window = self
            .control
            .window_bytes()
            .unwrap_or(u64::MAX)
            .min(self.window_bytes);
        let mut seen = self.seen.lock().unwrap();
        if seen.sent_bytes - seen.acked_bytes >= window {
            seen.beyond_window += 1;
            seen.beyond_window_max = seen.beyond_window_max.max(seen.beyond_window);
        }
        let telemetry_bytes = self
            .control
            .telemetry_format()
            .map_or(0, |format| u32::from(format.bytes));
        seen.sent_bytes += u64::from(packet_bytes - HEADER_BYTES - telemetry_bytes);
        self.control.on_packet_sent(now, packet_bytes);
    }
    fn on_ack(&mut self, now: Picos, ack: &Ack<'_>) {
        let mut seen = self.seen.lock().unwrap();
        seen.acked_bytes += ack.acked_bytes;
        if ack.acked_bytes > 0 {
            seen.beyond_window = 0;
        }
        self.control.on_ack(now, ack);
    }
    fn on_cnp(&mut self, now: Picos) {
        self.control.on_cnp(now);
    }
    fn on_timeout(&mut self, now: Picos) {
        self.seen.lock().unwrap().timeouts += 1;
        self.control.on_timeout(now);
    }
    fn next_deadline(&self) -> Picos {
        self.control.next_deadline()
    }
    fn on_deadline(&mut self, now: Picos) {
        self.control.on_deadline(now);
    }
}

/// A connection with its window and congestion control.
#[derive(Clone, Debug)]
struct ConnectionSetup {
    algorithm: Algorithm,
    base_rtt_us: u64,
    ack_every: u32,
    window_packets: Option<u32>,
    window_bytes: Option<u64>,
    selective: bool,
    packets: u64,
}

fn setup() -> impl Strategy<Value = ConnectionSetup> {
    (
        proptest::sample::select(Algorithm::ALL.to_vec()),
        1_u64..20,
        1_u32..=64,
        proptest::option::of(1_u32..100),
        proptest::option::of(1_u64..100_000),
        any::<bool>(),
        1_u64..400,
    )
        .prop_map(|tuple| ConnectionSetup {
            algorithm: tuple.0,
            base_rtt_us: tuple.1,
            ack_every: tuple.2,
            window_packets: tuple.3,
            window_bytes: tuple.4,
            selective: tuple.5,
            packets: tuple.6,
        })
}

/// Sends one message without loss. Returns the time of its acknowledgement and the use of the window.
fn send(
    setup: &ConnectionSetup,
    script: impl FnMut(usize, u64, &Packet) -> LinkAction + 'static,
) -> (Picos, WindowUse) {
    let choice = CongestionConfig::new(setup.algorithm);
    let context = ControllerContext {
        line_rate_bps: LINE_BPS,
        base_rtt: Picos::from_micros(setup.base_rtt_us),
        packet_bytes: MTU as u32 + HEADER_BYTES,
        seed: 1,
    };
    let factory = choice.factory().unwrap();
    let seen = Arc::default();
    let in_bytes = setup.window_packets.map(|packets| u64::from(packets) * MTU);
    let observed = WindowObserver {
        control: factory.make(&context),
        window_bytes: in_bytes
            .unwrap_or(u64::MAX)
            .min(setup.window_bytes.unwrap_or(u64::MAX)),
        seen: Arc::clone(&seen),
    };
    let mut link = TestLink::new(script);
    let qp = link.connect_with([Box::new(observed), factory.make(&context)], |config| {
        config.ack_every = setup.ack_every;
        config.window_packets = setup.window_packets;
        config.window_bytes = setup.window_bytes;
        config.feedback = choice.default_feedback();
        if setup.selective {
            config.recovery = Recovery::SelectiveRepeat;
        }
    });
    link.post(0, qp, 1, Verb::Write, setup.packets * MTU);
    link.run(Picos::from_millis(100_000));
    let done: Vec<Picos> = link.completions[0]
        .iter()
        .map(|completion| completion.at)
        .collect();
    assert_eq!(done.len(), 1, "the message is acknowledged");
    assert_eq!(
        link.ends[0].timeouts(),
        0,
        "nothing was lost, so nothing times out"
    );
    let seen = seen.lock().unwrap().clone();
    (done[0], seen)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(30),
        ..ProptestConfig::default()
    })]

    /// Marks and late acknowledgements change the windows of all controllers. No packet is lost.
    #[test]
    fn at_most_one_packet_exceeds_the_window(setup in setup(), marks in 0_u64..8, delay_ns in 0_u64..10_000) {
        let script = move |end: usize, n: u64, _: &Packet| match end {
            0 if n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61 < marks => LinkAction::Mark,
            0 => LinkAction::Pass,
            _ => LinkAction::Delay(Picos::from_nanos(delay_ns * (n % 5))),
        };
        let (_, seen) = send(&setup, script);
        prop_assert_eq!(seen.acked_bytes, setup.packets * MTU);
        prop_assert_eq!(seen.timeouts, 0);
        let beyond_max = match setup.algorithm {
            // These controllers have no window of their own. A constant window needs no packet beyond it.
            Algorithm::None | Algorithm::Dcqcn | Algorithm::DcqcnNic | Algorithm::Timely => 0,
            Algorithm::Dctcp | Algorithm::Hpcc | Algorithm::Swift => u32::from(setup.ack_every > 1),
        };
        prop_assert!(seen.beyond_window_max <= beyond_max, "{} packets beyond the window", seen.beyond_window_max);
    }

    /// An acknowledgement covers `min(ack_every, window)` packets, so the window opens when the last of them
    /// has arrived.
    #[test]
    fn a_constant_window_gives_the_computed_duration(
        window in 1_u32..80,
        ack_every in 1_u32..=64,
        in_bytes in any::<bool>(),
        selective in any::<bool>(),
    ) {
        let packets = 4_000;
        let setup = ConnectionSetup {
            algorithm: Algorithm::None,
            base_rtt_us: 2,
            ack_every,
            window_packets: (!in_bytes).then_some(window),
            // Rounded up to whole packets: a packet is sent while less than the window is in flight.
            window_bytes: in_bytes.then_some(u64::from(window - 1) * MTU + 1),
            selective,
            packets,
        };
        let (done, seen) = send(&setup, |_, _, _| LinkAction::Pass);
        prop_assert_eq!(seen.beyond_window_max, 0);
        let group = u64::from(ack_every.min(window));
        let turn_ps = ROUND_TRIP_PS + (group - 1) * PACKET_PS;
        let windows_ps = turn_ps as f64 * packets as f64 / f64::from(window);
        let line_ps = (packets * PACKET_PS + ROUND_TRIP_PS) as f64;
        let expected = windows_ps.max(line_ps);
        let error = done.0 as f64 / expected - 1.0;
        prop_assert!(error.abs() < 0.01, "{} ps, expected {expected}: {error:+.4}", done.0);
    }
}

/// A gap between packets is not a silent responder. It owes no acknowledgement until `ack_every`
/// packets have arrived.
#[test]
fn slow_packets_do_not_time_out() {
    let mut link = TestLink::new(|_, _, _| LinkAction::Pass);
    let slow = RecordingController::new(100_000_000);
    // One packet per 87 us, a timeout of 65 us, and one acknowledgement for 16 packets.
    let qp = link.connect([&slow, &RecordingController::new(LINE_BPS)], |config| {
        config.ack_every = 16
    });
    link.post(0, qp, 1, Verb::Write, 40 * MTU);
    link.run(SECOND);
    assert_eq!(link.acked(0), [1]);
    assert_eq!((link.ends[0].timeouts(), link.sent[0], link.sent[1]), (0, 40, 3));
}

/// A controller whose window shrinks while the responder owes no acknowledgement.
#[derive(Debug)]
struct ShrinkingWindow {
    sent: u64,
}

impl CongestionControl for ShrinkingWindow {
    fn name(&self) -> &'static str {
        "shrinking"
    }
    fn rate_bps(&self) -> u64 {
        LINE_BPS
    }
    fn window_bytes(&self) -> Option<u64> {
        Some(if self.sent < 10 { 20 * MTU } else { 5 * MTU })
    }
    fn on_packet_sent(&mut self, _: Picos, _: u32) {
        self.sent += 1;
    }
}

#[test]
fn a_shrinking_window_sends_one_probe_packet() {
    let mut link = TestLink::new(|_, _, _| LinkAction::Pass);
    let fixed: Box<dyn CongestionControl> = Box::new(RecordingController::new(LINE_BPS));
    let qp = link.connect_with([Box::new(ShrinkingWindow { sent: 0 }), fixed], |config| {
        config.ack_every = 64
    });
    link.post(0, qp, 1, Verb::Write, 30 * MTU);
    link.run(SECOND);
    assert_eq!((link.acked(0), link.ends[0].timeouts()), (vec![1], 0));
    let asking: Vec<u32> = link
        .log
        .iter()
        .filter(|(_, end, packet)| *end == 0 && packet.ack_req)
        .map(|(_, _, packet)| packet.psn)
        .collect();
    // Ten packets of the large window, the probe, then windows of five.
    assert_eq!(asking, [10, 15, 20, 25, 29]);
}
