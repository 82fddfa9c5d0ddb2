//! Test traffic over a single cable: nobody between loses or delays anything.

use std::time::Duration;

use libtest_mimic::Failed;
use xoff_measure::traffic::{End, Means, Outcome, Rate, Tester, Traffic, Trial};
use xoff_ports::net::{Netns, add_veth, ethtool};
use xoff_ports::tester::{FrameSender, Redirects};

use crate::support::{Needing, Needs, check, same};

pub(crate) const TESTS: &[Needing] = &[
    ("traffic_arrives_at_its_rate_and_is_timed", Needs::Netns, arrives),
    ("traffic_of_others_is_not_counted", Needs::Netns, strangers),
    (
        "traffic_that_a_device_cannot_carry_is_refused",
        Needs::Netns,
        refused,
    ),
    ("traffic_made_by_the_kernel_passes_redirects", Needs::Xdp, live),
];

/// A tester at both ends of the cable between `g` and `s`, which are in this namespace.
fn tester(traffic: &Traffic) -> Result<Tester, Failed> {
    add_veth("s", "g", None, 1_500)?;
    open("g", "s", traffic)
}

fn open(from: &str, to: &str, traffic: &Traffic) -> Result<Tester, Failed> {
    let end = |device: &str| -> Result<End, Failed> {
        Ok(End {
            netns: Netns::current()?,
            device: device.to_owned(),
        })
    };
    Tester::open(end(from)?, &end(to)?, traffic).map_err(|failure| failure.to_string().into())
}

fn trial(tester: &mut Tester, trial: &Trial) -> Result<Outcome, Failed> {
    tester.trial(trial).map_err(|failure| failure.to_string().into())
}

fn paced() -> Trial {
    Trial {
        sample_every_ns: Some(1_000_000),
        ..Trial::new(Rate::Paced(5_000.0), Duration::from_millis(200))
    }
}

fn arrives() -> Result<(), Failed> {
    let mut tester = tester(&Traffic::new(1_082))?;
    let outcome = trial(&mut tester, &paced())?;
    check(outcome.sending.frames > 0, || "nothing was sent".to_owned())?;
    check(outcome.sending.frames <= 1_000, || {
        format!("{:?}", outcome.sending)
    })?;
    same(outcome.lost(), 0, "frames lost")?;
    same(
        outcome.arrivals.frames,
        outcome.sending.frames,
        "frames that arrived",
    )?;
    same(outcome.arrivals.strangers, 0, "frames of others")?;
    check(!outcome.latency_ns.is_empty(), || "no latency".to_owned())?;
    check(outcome.latency_ns.min() > 0, || "a frame took no time".to_owned())?;
    // A second trial begins anew.
    let again = trial(&mut tester, &paced())?;
    same(again.lost(), 0, "frames lost in the second trial")
}

fn strangers() -> Result<(), Failed> {
    let mut tester = tester(&Traffic::new(64))?;
    let mut other = FrameSender::open("g")?;
    let stranger = Traffic::new(64).hello();
    let mut sent = 0;
    let outcome = tester
        .trial_observing(&paced(), || {
            sent += other.send(&[&stranger]).map_or(0, |sent| sent.taken as u64);
            sent
        })
        .map_err(|failure| failure.to_string())?;
    check(sent > 0, || "no stranger was sent".to_owned())?;
    same(outcome.arrivals.strangers, sent, "frames of others")?;
    same(outcome.lost(), 0, "frames lost")?;
    check(outcome.window.observed < sent, || format!("{:?}", outcome.window))
}

fn refused() -> Result<(), Failed> {
    add_veth("s", "g", None, 1_500)?;
    let mut too_long = open("g", "s", &Traffic::new(2_000))?;
    let failure = too_long
        .trial(&paced())
        .err()
        .ok_or("a frame beyond the MTU was sent")?;
    check(failure.to_string().contains("cannot be sent"), || {
        failure.to_string()
    })?;
    let missing = open("g", "nowhere", &Traffic::new(64)).err();
    let missing = missing.ok_or("a sink without an interface")?;
    check(
        missing.message().is_some_and(|text| text.contains("nowhere")),
        || format!("{missing:?}"),
    )
}

fn live() -> Result<(), Failed> {
    // g0 - f0 = f1 - s1; frames of XDP programs go to ends that poll only.
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
    let _redirects = Redirects::between(["f0", "f1"])?;
    let mut tester = open("g0", "s1", &Traffic::new(1_082))?;
    let flood = Trial {
        means: Means::Live,
        ..Trial::new(Rate::Saturate, Duration::from_millis(100))
    };
    let outcome = trial(&mut tester, &flood)?;
    check(outcome.arrivals.frames > 0, || format!("{:?}", outcome.sending))?;
    check(outcome.arrivals.frames <= outcome.sending.frames, || {
        format!("{:?}", outcome.arrivals)
    })
}
