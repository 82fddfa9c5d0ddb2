//! The measurements of one forwarder in one round.

use std::time::Duration;

use xoff_measure::traffic::{SendMethod, SendRate, Tester, TesterResult, TrafficProfile, TrialConfig};

use crate::Failure;
use crate::bed::TestBed;
use crate::forwarders::Forwarder;
use crate::ping::{WaitMethod, round_trip};
use crate::soaker::Soaker;

/// Frames per second that every forwarder carries, for a check that it forwards.
const FIRST_FPS: f64 = 2_000.0;
/// Minimum share of these frames that must arrive.
const FIRST_SHARE_MIN: f64 = 0.9;
/// Interval between samples of latency.
const SAMPLE_EVERY_NS: u64 = 50_000;
/// Minimum loss at which a forwarder counts as saturated.
const SATURATED_LOSS_MIN: f64 = 0.02;

/// Durations and numbers of repetitions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeasurementPlan {
    pub(crate) seconds: f64,
    pub(crate) pings: u16,
    pub(crate) method: SendMethod,
}

/// The results of one round of one forwarder with frames of one length.
#[derive(Clone, Debug)]
pub(crate) struct ForwarderMeasurement {
    /// Frames per second that the forwarder forwards at the highest rate of the generator.
    pub(crate) rate_fps: f64,
    /// Frames per second that the generator offered during this measurement.
    pub(crate) offered_fps: f64,
    /// Processor time of the forwarder per frame in nanoseconds, when the forwarder has half a core
    /// and is saturated.
    pub(crate) cpu_ns: f64,
    /// Share of frames that were lost during the measurement of `cpu_ns`.
    pub(crate) cpu_loss: f64,
    /// Latency at half of `rate_fps` in nanoseconds: p50, p90, p99, p99.9, p99.99.
    pub(crate) latency_ns: [f64; 5],
    /// Number of latency samples.
    pub(crate) samples: u64,
    /// Share of frames that were lost at half of `rate_fps`.
    pub(crate) half_loss: f64,
    /// Median round trip of a ping, in nanoseconds, of a receiver that sleeps.
    pub(crate) ping_ns: Option<f64>,
    /// Median round trip of a ping, in nanoseconds, of a receiver that polls.
    pub(crate) ping_awake_ns: Option<f64>,
}

impl ForwarderMeasurement {
    /// Returns true if the forwarder was busy during the whole measurement of its cost.
    pub(crate) fn was_saturated(&self) -> bool {
        self.cpu_loss >= SATURATED_LOSS_MIN
    }
}

pub(crate) const QUANTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// Returns the MTU of cables for frames of this length.
pub(crate) fn mtu_for(frame_bytes: u32) -> u32 {
    frame_bytes.max(1_500)
}

/// Starts a forwarder and measures it. The error states why it cannot be measured.
pub(crate) fn measure(
    bed: &TestBed,
    forwarder: Forwarder,
    frame_bytes: u32,
    plan: MeasurementPlan,
) -> Result<ForwarderMeasurement, Failure> {
    let cables = bed.connect_cables(mtu_for(frame_bytes))?;
    let running = forwarder.start(bed, &cables)?;
    if plan.method == SendMethod::KernelFrames {
        cables.poll_at_forwarder()?;
    }
    let mut tester = cables.tester(&TrafficProfile::new(frame_bytes))?;
    wait_until_forwarding(&mut tester, bed)?;
    let duration = Duration::from_secs_f64(plan.seconds);
    let flood = TrialConfig {
        method: plan.method,
        core: Some(bed.cores.tester),
        ..TrialConfig::new(SendRate::Saturate, duration)
    };
    let saturated = run(&mut tester, &flood, || 0)?;
    let rate_fps = saturated.window.rate_fps();
    let under_share = {
        let soaker = Soaker::start(bed.cores.forwarder);
        run(&mut tester, &flood, || {
            running.cpu_ns().unwrap_or_else(|| soaker.taken_ns())
        })?
    };
    let half = TrialConfig {
        sample_every_ns: Some(SAMPLE_EVERY_NS),
        rate: SendRate::Paced(rate_fps / 2.0),
        method: SendMethod::PacketSocket,
        ..flood
    };
    let at_half = run(&mut tester, &half, || 0)?;
    let ping = |method| round_trip(bed, plan.pings, Duration::from_millis(2), method);
    Ok(ForwarderMeasurement {
        rate_fps,
        offered_fps: saturated.sending.rate_fps(),
        cpu_ns: under_share.window.observed as f64 / under_share.window.frames.max(1) as f64,
        cpu_loss: lost_share(&under_share),
        latency_ns: QUANTILES.map(|(_, q)| at_half.latency_ns.value_at_quantile(q) as f64),
        samples: at_half.latency_ns.len(),
        half_loss: lost_share(&at_half),
        ping_ns: ping(WaitMethod::Sleeps)?,
        ping_awake_ns: ping(WaitMethod::Polls)?,
    })
}

/// Checks that frames pass after bridges have learnt the addresses.
pub(crate) fn wait_until_forwarding(tester: &mut Tester, bed: &TestBed) -> Result<(), Failure> {
    let trial = TrialConfig {
        core: Some(bed.cores.tester),
        ..TrialConfig::new(SendRate::Paced(FIRST_FPS), Duration::from_millis(100))
    };
    let mut last = (0, 0);
    for _ in 0..10 {
        tester
            .send_learning_frame()
            .map_err(|failure| failure.to_string())?;
        let outcome = run(tester, &trial, || 0)?;
        last = (outcome.arrivals.frames, outcome.sending.frames);
        if last.0 as f64 >= FIRST_SHARE_MIN * last.1 as f64 && last.1 > 0 {
            // The second attempt follows because a switch whose port came up late has flooded the first
            // frames.
            tester
                .send_learning_frame()
                .map_err(|failure| failure.to_string())?;
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Err(format!("it forwards {} of {} frames", last.0, last.1))
}

pub(crate) fn run(
    tester: &mut Tester,
    trial: &TrialConfig,
    observe: impl FnMut() -> u64,
) -> Result<TesterResult, Failure> {
    tester
        .run_trial_observing(trial, observe)
        .map_err(|failure| failure.to_string())
}

/// Returns the share of lost frames, including frames that the generator's interface refused.
pub(crate) fn lost_share(outcome: &TesterResult) -> f64 {
    let offered = outcome.sending.frames + outcome.sending.refused;
    (outcome.lost_frames() + outcome.sending.refused) as f64 / offered.max(1) as f64
}
