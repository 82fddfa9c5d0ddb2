//! Measures the reaction times of a switch at the ends of its cables with kernel timestamps:
//!
//! - `xoff`: from the system call that sends the frame that reaches the XOFF threshold to the PFC frame at
//!   the sender interface;
//! - `pause`: from the system call that sends a PFC frame to the last data frame of the class at the
//!   interface that sent the PFC frame;
//! - `delay`: the delay of a frame through the switch minus the delay over a single cable.
//!
//! The bench measures without other traffic and with frames of another class through the same ports.

use std::io;
use std::time::Duration;

use hdrhistogram::Histogram;
use xoff_measure::result::{BenchFigure, BenchResult, ImprovementDirection};
use xoff_measure::traffic::{SendRate, Tester, TesterInterface, TrafficProfile, TrialConfig};
use xoff_ports::net::Netns;
use xoff_ports::tester::{FrameListener, FrameSender};
use xoff_runtime::workers::clock::monotonic_ns;
use xoff_wire::mac_control::FRAME_LEN;
use xoff_wire::{MacControl, Pfc};

use crate::bed::{FORWARDER_DEVICES, TestBed};
use crate::forwarders::Switch;
use crate::measure::{mtu_for, wait_until_forwarding};
use crate::{Failure, Run};

const FRAME_BYTES: u32 = 1_082;
/// Model speed. A pause of 65535 quanta lasts 13 ms, and a frame lasts 3.5 us.
const SPEED_MBPS: u32 = 2_500;
/// The lossless class and its DSCP in the preset.
const CLASS: usize = 3;
const DSCP: u8 = 26;
/// Frames per second of the other class under load.
const LOAD_FPS: f64 = 100_000.0;
/// Frames per second of the paused class. Their distance of 10 us is the resolution of a measured stop.
const DATA_FPS: f64 = 100_000.0;
/// Upper limit of the frames that fit below the threshold.
const FILL_MAX: usize = 256;
/// All frames in flight have arrived after this time.
const SETTLE_NS: u64 = 400_000;
/// A longer reaction time counts as no reaction.
const REACTION_TIMEOUT_NS: u64 = 100_000_000;
/// Interval of repeated pauses.
const REFRESH_NS: u64 = 1_000_000;
/// Number of frames of the stream before and after a pause. A switch that passes all frames after the pause
/// ignores it.
const BEFORE_PAUSE: usize = 32;
const BEHIND_PAUSE: usize = 96;
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
/// Number of repetitions per second of `--seconds`.
const REPETITIONS_PER_SECOND: f64 = 250.0;

/// Adds the figures of both idle modes, with and without load.
pub(crate) fn measure(run: &Run<'_>, result: &mut BenchResult) -> Result<(), Failure> {
    for backend in ["packet", "xdp"] {
        for idle in ["spin", "adaptive"] {
            for (load, fps) in [("idle", 0.0), ("loaded", LOAD_FPS)] {
                let mut figures = ReactionQuantiles::default();
                for round in 0..run.rounds {
                    if let Err(why) = figures.measure_round(run, backend, idle, fps) {
                        let subject = format!("reaction/{backend}/{idle}/{load}");
                        result
                            .notes
                            .push(format!("{subject}: skipped in round {}: {why}", round + 1));
                        break;
                    }
                    eprintln!("round {}: reaction/{backend}/{idle}/{load}", round + 1);
                    if run.is_interrupted() {
                        return Ok(());
                    }
                }
                figures.add_figures(&format!("reaction/{backend}/{idle}/{load}"), result);
            }
        }
    }
    Ok(())
}

/// Quantiles of `xoff`, `pause` and `delay` of each round.
#[derive(Debug, Default)]
struct ReactionQuantiles([[Vec<f64>; QUANTILES.len()]; 3]);

impl ReactionQuantiles {
    fn measure_round(
        &mut self,
        run: &Run<'_>,
        backend: &str,
        idle: &str,
        load_fps: f64,
    ) -> Result<(), Failure> {
        let cables = run.bed.connect_cables(mtu_for(FRAME_BYTES))?;
        let cable = measure_delays(run, &mut open_cable_tester(run.bed)?, load_fps)?;
        let switch = Switch {
            speed_mbps: SPEED_MBPS,
            small_group: true,
            ..Switch::fast(backend, idle)
        };
        let _running = switch.start(run.bed, &cables)?;
        // Frames of another class are not paused.
        let mut traffic = TrafficProfile::new(FRAME_BYTES);
        traffic.dscp = 0;
        let mut tester = cables.tester(&traffic)?;
        wait_until_forwarding(&mut tester, run.bed)?;
        let through = measure_delays(run, &mut tester, load_fps)?;
        drop(tester);
        let mut hands = ReactionProbe::new(run.bed, load_fps)?;
        let repetitions = (run.seconds * REPETITIONS_PER_SECOND) as u32;
        let xoff = hands.measure_xoff_times(repetitions)?;
        let pause = hands.measure_pause_times(repetitions)?;
        for (n, (_, q)) in QUANTILES.iter().enumerate() {
            let [of_xoff, of_pause, of_delay] = &mut self.0;
            of_xoff[n].push(xoff.value_at_quantile(*q) as f64);
            of_pause[n].push(pause.value_at_quantile(*q) as f64);
            let added = through.value_at_quantile(*q) as f64 - cable.value_at_quantile(*q) as f64;
            of_delay[n].push(added);
        }
        Ok(())
    }

    fn add_figures(self, path: &str, result: &mut BenchResult) {
        for (name, quantiles) in ["xoff", "pause", "delay"].iter().zip(self.0) {
            for ((quantile, _), samples) in QUANTILES.iter().zip(quantiles) {
                if !samples.is_empty() {
                    let name = format!("{path}/{name}/{quantile}");
                    result.figures.push(BenchFigure::new(
                        name,
                        "ns",
                        ImprovementDirection::Smaller,
                        samples,
                    ));
                }
            }
        }
    }
}

/// Opens a tester at both ends of the first cable, without a forwarder.
fn open_cable_tester(bed: &TestBed) -> Result<Tester, Failure> {
    let [from, _] = bed.ends()?;
    let to = TesterInterface {
        netns: Netns::current().map_err(|error| error.to_string())?,
        device: FORWARDER_DEVICES[0].to_owned(),
    };
    Tester::open(from, &to, &TrafficProfile::new(FRAME_BYTES)).map_err(|failure| failure.to_string())
}

/// Returns latencies of single frames or of frames under load.
fn measure_delays(run: &Run<'_>, tester: &mut Tester, load_fps: f64) -> Result<Histogram<u64>, Failure> {
    let trial = TrialConfig {
        sample_every_ns: Some(100_000),
        core: Some(run.bed.cores.tester),
        ..TrialConfig::new(
            SendRate::Paced(load_fps.max(1_000.0)),
            Duration::from_secs_f64(run.seconds / 2.0),
        )
    };
    let outcome = tester.run_trial(&trial).map_err(|failure| failure.to_string())?;
    match outcome.latency_ns.len() {
        0 => Err("no frame arrived whose latency was to be measured".to_owned()),
        _ => Ok(outcome.latency_ns),
    }
}

/// Senders at both ends, a listener for pauses at one end and a listener for data at the other.
#[derive(Debug)]
struct ReactionProbe {
    source: FrameSender,
    sink: FrameSender,
    /// PFC frames that reach the source, and when.
    pauses: FrameListener,
    /// Data frames of the lossless class that reach the sink.
    data: FrameListener,
    /// A frame of the lossless class, and one of another.
    lossless: Vec<u8>,
    load: Vec<u8>,
    load_fps: f64,
    /// Since when load is sent, and how many frames.
    load_began_ns: u64,
    loaded: u64,
}

impl ReactionProbe {
    fn new(bed: &TestBed, load_fps: f64) -> Result<ReactionProbe, Failure> {
        let frame = |dscp| {
            let mut traffic = TrafficProfile::new(FRAME_BYTES);
            (traffic.dscp, traffic.flows) = (dscp, 1);
            let frames = traffic
                .build_frame_bytes()
                .map_err(|failure| failure.to_string())?;
            frames.into_iter().next().ok_or_else(|| "no frame".to_owned())
        };
        let mut hands = ReactionProbe {
            source: bed.run_in_namespace(0, FrameSender::open)?,
            sink: bed.run_in_namespace(1, FrameSender::open)?,
            pauses: bed.run_in_namespace(0, |device| FrameListener::open(device, &mac_control_filter()))?,
            data: bed.run_in_namespace(1, |device| FrameListener::open(device, &class_filter()))?,
            lossless: frame(DSCP)?,
            load: frame(0)?,
            load_fps,
            load_began_ns: monotonic_ns(),
            loaded: 0,
        };
        let hello = TrafficProfile::new(FRAME_BYTES).learning_frame();
        hands.sink.send(&[&hello]).map_err(send_failure)?;
        hands.wait_and_send_load(SETTLE_NS)?;
        Ok(hands)
    }

    /// Waits, and sends the load that is due.
    fn wait_and_send_load(&mut self, span_ns: u64) -> Result<(), Failure> {
        let end_ns = monotonic_ns() + span_ns;
        loop {
            let now_ns = monotonic_ns();
            if self.load_fps > 0.0 {
                let due = (self.load_fps * (now_ns - self.load_began_ns) as f64 / 1e9) as u64;
                if due > self.loaded {
                    // A late load is not made up for, because a burst would be another load.
                    self.loaded = due;
                    self.source.send(&[&self.load]).map_err(send_failure)?;
                }
            }
            if now_ns >= end_ns {
                return Ok(());
            }
            std::hint::spin_loop();
        }
    }

    /// Pauses (65535 quanta) or resumes (0) the class at the switch port of the sink.
    fn pause_sink(&mut self, quanta: u16) -> Result<(), Failure> {
        let mut pfc = Pfc {
            enable: 1 << CLASS,
            ..Pfc::default()
        };
        pfc.quanta[CLASS] = quanta;
        let frame: [u8; FRAME_LEN] = MacControl::Pfc(pfc).to_frame([0x02, 0x58, 0x4f, 0x10, 0, 3]);
        self.sink.send(&[&frame]).map(drop).map_err(send_failure)
    }

    /// Returns the time of the next unread XOFF.
    fn read_xoff_time(&mut self) -> Option<u64> {
        let mut first = None;
        self.pauses.receive(|heard| {
            if let Ok(MacControl::Pfc(pfc)) = MacControl::parse(heard.bytes)
                && pfc.is_xoff()
            {
                first = first.or(Some(heard.captured_ns));
            }
        });
        first
    }

    fn send_lossless(&mut self) -> Result<(), Failure> {
        let sent = self.source.send(&[&self.lossless]).map_err(send_failure)?;
        match sent.sent {
            1 => Ok(()),
            _ => Err("the source's interface takes no frame".to_owned()),
        }
    }

    /// Returns the number of frames that the group holds until XOFF.
    fn frames_to_xoff(&mut self) -> Result<usize, Failure> {
        self.drain_switch()?;
        self.pause_sink(u16::MAX)?;
        self.wait_and_send_load(SETTLE_NS)?;
        for sent in 1..=FILL_MAX {
            self.pause_sink(u16::MAX)?;
            self.send_lossless()?;
            self.wait_and_send_load(SETTLE_NS)?;
            if self.read_xoff_time().is_some() {
                return Ok(sent);
            }
        }
        Err(format!("no XOFF after {FILL_MAX} frames"))
    }

    /// Lets the switch send its queued frames and discards the received PFC frames.
    fn drain_switch(&mut self) -> Result<(), Failure> {
        self.pause_sink(0)?;
        self.wait_and_send_load(SETTLE_NS)?;
        self.pauses.receive(|_| {});
        self.data.receive(|_| {});
        Ok(())
    }

    /// Measures the time from the frame that reaches the threshold to XOFF.
    fn measure_xoff_times(&mut self, repetitions: u32) -> Result<Histogram<u64>, Failure> {
        let frames = self.frames_to_xoff()?;
        let mut times = new_histogram();
        for _ in 0..repetitions {
            self.drain_switch()?;
            self.pause_sink(u16::MAX)?;
            self.wait_and_send_load(SETTLE_NS)?;
            for _ in 1..frames {
                self.send_lossless()?;
            }
            self.wait_and_send_load(SETTLE_NS)?;
            self.pause_sink(u16::MAX)?;
            if self.read_xoff_time().is_some() {
                // A pause expired or the machine stalled, so this filling gives no result.
                continue;
            }
            let began_ns = monotonic_ns();
            self.send_lossless()?;
            // Without an XOFF, a pause expired during a stall of the machine and the group has emptied.
            if let Some(at_ns) = self.wait_for_xoff(began_ns)? {
                times.saturating_record(at_ns.saturating_sub(began_ns));
            }
        }
        require_results(times, repetitions)
    }

    /// Returns the time of the XOFF, if one arrives. The sink's port stays paused meanwhile.
    fn wait_for_xoff(&mut self, began_ns: u64) -> Result<Option<u64>, Failure> {
        let mut refresh_ns = began_ns + REFRESH_NS;
        loop {
            self.wait_and_send_load(10_000)?;
            if let Some(at_ns) = self.read_xoff_time() {
                return Ok(Some(at_ns));
            }
            let now_ns = monotonic_ns();
            if now_ns - began_ns > REACTION_TIMEOUT_NS {
                return Ok(None);
            }
            if now_ns > refresh_ns {
                refresh_ns = now_ns + REFRESH_NS;
                self.pause_sink(u16::MAX)?;
            }
        }
    }

    /// Measures the time from the PFC frame to the last frame of the class.
    fn measure_pause_times(&mut self, repetitions: u32) -> Result<Histogram<u64>, Failure> {
        let mut times = new_histogram();
        let every_ns = (1e9 / DATA_FPS) as u64;
        let mut unheeded = 0;
        for _ in 0..repetitions {
            self.drain_switch()?;
            // Send a stream, and a pause in the middle of it.
            for _ in 0..BEFORE_PAUSE {
                self.send_lossless()?;
                self.wait_and_send_load(every_ns)?;
            }
            let began_ns = monotonic_ns();
            self.pause_sink(u16::MAX)?;
            for _ in 0..BEHIND_PAUSE {
                self.send_lossless()?;
                self.wait_and_send_load(every_ns)?;
            }
            self.wait_and_send_load(SETTLE_NS)?;
            let mut last_ns = began_ns;
            let mut count = 0;
            self.data.receive(|heard| {
                count += 1;
                last_ns = last_ns.max(heard.captured_ns);
            });
            times.saturating_record(last_ns - began_ns);
            unheeded += u32::from(count == BEFORE_PAUSE + BEHIND_PAUSE);
        }
        match unheeded > repetitions / 100 {
            true => Err(format!(
                "the switch heeded no pause in {unheeded} of {repetitions} repetitions"
            )),
            false => Ok(times),
        }
    }
}

/// Checks that at least half of the repetitions gave a result.
fn require_results(times: Histogram<u64>, repetitions: u32) -> Result<Histogram<u64>, Failure> {
    match times.len() >= u64::from(repetitions / 2).max(1) {
        true => Ok(times),
        false => Err(format!(
            "only {} of {repetitions} repetitions gave a time",
            times.len()
        )),
    }
}

fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 1_000_000_000, 3).expect("bounds and digits are constant and valid")
}

fn send_failure(error: io::Error) -> Failure {
    format!("cannot send: {error}")
}

const LOAD_H: u16 = 0x28;
const LOAD_B: u16 = 0x30;
const AND: u16 = 0x54;
const JEQ: u16 = 0x15;
const RETURN: u16 = 0x06;

fn filter_instruction(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

/// Returns a socket filter for frames with ethertype 0x8808.
fn mac_control_filter() -> [libc::sock_filter; 4] {
    [
        filter_instruction(LOAD_H, 0, 0, 12),
        filter_instruction(JEQ, 0, 1, 0x8808),
        filter_instruction(RETURN, 0, 0, 64),
        filter_instruction(RETURN, 0, 0, 0),
    ]
}

/// Returns a socket filter for IPv4 packets with the DSCP of the lossless class.
fn class_filter() -> [libc::sock_filter; 7] {
    [
        filter_instruction(LOAD_H, 0, 0, 12),
        filter_instruction(JEQ, 0, 4, 0x0800),
        filter_instruction(LOAD_B, 0, 0, 15),
        filter_instruction(AND, 0, 0, 0xfc),
        filter_instruction(JEQ, 0, 1, u32::from(DSCP) << 2),
        filter_instruction(RETURN, 0, 0, 64),
        filter_instruction(RETURN, 0, 0, 0),
    ]
}
