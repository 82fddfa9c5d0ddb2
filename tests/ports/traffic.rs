//! Test traffic over a single cable, which loses and delays nothing.

use std::time::Duration;

use libtest_mimic::Failed;
use xoff_measure::traffic::{
    SendMethod, SendRate, Tester, TesterInterface, TesterResult, TrafficProfile, TrialConfig,
};
use xoff_ports::net::{Netns, add_veth, ethtool};
use xoff_ports::tester::{FrameSender, XdpForwarder};

use crate::support::{KernelFeatures, PrivilegedTest, check, check_equal};

pub(crate) const TESTS: &[PrivilegedTest] = &[
    (
        "traffic_arrives_at_its_rate_with_timestamps",
        KernelFeatures::Netns,
        check_rate_and_latency,
    ),
    (
        "foreign_frames_are_not_counted_as_traffic",
        KernelFeatures::Netns,
        check_frames_of_other_senders,
    ),
    (
        "traffic_beyond_the_limits_of_a_device_is_refused",
        KernelFeatures::Netns,
        check_refused_traffic,
    ),
    (
        "traffic_of_the_kernel_generator_passes_redirects",
        KernelFeatures::Xdp,
        check_kernel_frames,
    ),
];

/// Opens a tester at both ends of the cable between `g` and `s`, which are in this namespace.
fn open_cable_tester(traffic: &TrafficProfile) -> Result<Tester, Failed> {
    add_veth("s", "g", None, 1_500)?;
    open_tester("g", "s", traffic)
}

fn open_tester(from_device: &str, to_device: &str, traffic: &TrafficProfile) -> Result<Tester, Failed> {
    let interface = |device: &str| -> Result<TesterInterface, Failed> {
        Ok(TesterInterface {
            netns: Netns::current()?,
            device: device.to_owned(),
        })
    };
    Tester::open(interface(from_device)?, &interface(to_device)?, traffic)
        .map_err(|failure| failure.to_string().into())
}

fn run_trial(tester: &mut Tester, trial: &TrialConfig) -> Result<TesterResult, Failed> {
    tester
        .run_trial(trial)
        .map_err(|failure| failure.to_string().into())
}

fn paced_trial() -> TrialConfig {
    TrialConfig {
        sample_every_ns: Some(1_000_000),
        ..TrialConfig::new(SendRate::Paced(5_000.0), Duration::from_millis(200))
    }
}

fn check_rate_and_latency() -> Result<(), Failed> {
    let mut tester = open_cable_tester(&TrafficProfile::new(1_082))?;
    let outcome = run_trial(&mut tester, &paced_trial())?;
    check(outcome.sending.frames > 0, || "nothing was sent".to_owned())?;
    check(outcome.sending.frames <= 1_000, || {
        format!("{:?}", outcome.sending)
    })?;
    check_equal(outcome.lost_frames(), 0, "frames lost")?;
    check_equal(
        outcome.arrivals.frames,
        outcome.sending.frames,
        "frames that arrived",
    )?;
    check_equal(outcome.arrivals.other_frames, 0, "frames of others")?;
    check(!outcome.latency_ns.is_empty(), || "no latency".to_owned())?;
    check(outcome.latency_ns.min() > 0, || "a frame took no time".to_owned())?;
    // A second trial starts with empty counters.
    let again = run_trial(&mut tester, &paced_trial())?;
    check_equal(again.lost_frames(), 0, "frames lost in the second trial")
}

fn check_frames_of_other_senders() -> Result<(), Failed> {
    let mut tester = open_cable_tester(&TrafficProfile::new(64))?;
    let mut other = FrameSender::open("g")?;
    let stranger = TrafficProfile::new(64).learning_frame();
    let mut sent = 0;
    let outcome = tester
        .run_trial_observing(&paced_trial(), || {
            sent += other.send(&[&stranger]).map_or(0, |counts| counts.sent as u64);
            sent
        })
        .map_err(|failure| failure.to_string())?;
    check(sent > 0, || "no stranger was sent".to_owned())?;
    check_equal(outcome.arrivals.other_frames, sent, "frames of others")?;
    check_equal(outcome.lost_frames(), 0, "frames lost")?;
    check(outcome.window.observed < sent, || format!("{:?}", outcome.window))
}

fn check_refused_traffic() -> Result<(), Failed> {
    add_veth("s", "g", None, 1_500)?;
    let mut too_long = open_tester("g", "s", &TrafficProfile::new(2_000))?;
    let failure = too_long
        .run_trial(&paced_trial())
        .err()
        .ok_or("a frame beyond the MTU was sent")?;
    check(failure.to_string().contains("cannot be sent"), || {
        failure.to_string()
    })?;
    let missing = open_tester("g", "nowhere", &TrafficProfile::new(64)).err();
    let missing = missing.ok_or("a sink without an interface")?;
    check(
        missing.message().is_some_and(|text| text.contains("nowhere")),
        || format!("{missing:?}"),
    )
}

fn check_kernel_frames() -> Result<(), Failed> {
    // XDP programs can send only to interfaces that poll.
    for (near, far) in [("f0", "g0"), ("f1", "s1")] {
        add_veth(near, far, None, 1_500)?;
        for end in [near, far] {
            ethtool::set_offloads(
                end,
                &ethtool::Offloads {
                    gro: true,
                    ..ethtool::Offloads::OFF
                },
            )?;
        }
    }
    let _redirects = XdpForwarder::between(["f0", "f1"])?;
    let mut tester = open_tester("g0", "s1", &TrafficProfile::new(1_082))?;
    let flood = TrialConfig {
        method: SendMethod::KernelFrames,
        ..TrialConfig::new(SendRate::Saturate, Duration::from_millis(100))
    };
    let outcome = run_trial(&mut tester, &flood)?;
    check(outcome.arrivals.frames > 0, || format!("{:?}", outcome.sending))?;
    check(outcome.arrivals.frames <= outcome.sending.frames, || {
        format!("{:?}", outcome.arrivals)
    })
}
