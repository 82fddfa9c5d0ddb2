//! `xoff bench rfc2889`: the benchmarks of RFC 2889 for LAN switches.

use crate::choice::named_choices;
use xoff_units::Picos;

use super::dut::{Destination, Dut, FrameSize, Pattern, Stream, Trial};
use super::latency;
use super::result::Better;
use super::rfc8239::Innocent;
use super::suite::{Rate, Suite, refused};
use xoff_telemetry::failure::{Exit, Failure};

/// Loads between throughput and line rate at which the largest forwarding rate is looked for, in steps of this share.
const STEP: f64 = 0.05;
/// Most addresses that are tried: RFC 2889 leaves it open.
const ADDRESSES_MAX: u32 = 1 << 20;

named_choices! {
    /// A benchmark of RFC 2889.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Test {
        Mesh = "mesh": "5.1: every port to all others",
        One2many = "one2many": "5.2: one port to all others",
        Many2one = "many2one": "5.2: all ports to one",
        Congestion = "congestion": "5.5: what an overloaded port costs one that is not; pauses",
        ForwardPressure = "forward-pressure": "5.6: whether gaps are shortened under overload; not measured",
        MaxFwd = "max-fwd": "5.3: the largest forwarding rate",
        AddrCache = "addr-cache": "5.7: how many addresses are known",
        AddrRate = "addr-rate": "5.8: how fast they are learnt; not measured",
        Errored = "errored": "5.9: errored frames; not measured",
        Broadcast = "broadcast": "5.10, 5.11: broadcasts",
    }
}

impl Test {
    /// Those that are measured.
    pub const ALL: [Test; 7] = [
        Test::Mesh,
        Test::One2many,
        Test::Many2one,
        Test::Congestion,
        Test::MaxFwd,
        Test::AddrCache,
        Test::Broadcast,
    ];

    fn ports_min(self) -> usize {
        match self {
            Test::Congestion => 4,
            Test::Broadcast | Test::MaxFwd | Test::Mesh => 2,
            _ => 3,
        }
    }
}

/// Refuses a benchmark that is not measured at so many ports.
///
/// # Errors
/// It is none that is measured, or needs more ports.
pub fn check(test: Test, ports: usize) -> Result<(), Failure> {
    let name = test.name();
    match test {
        Test::ForwardPressure => {
            return Err(refused(
                name,
                "a tester in virtual time sends no gap shorter than Ethernet's",
            ));
        }
        Test::AddrRate => {
            return Err(refused(
                name,
                "the switch learns in virtual time as fast as frames come",
            ));
        }
        Test::Errored => return Err(refused(name, "a tester in virtual time sends no broken frames")),
        _ => {}
    }
    if ports < test.ports_min() {
        let why = format!("it needs {} ports, and there are {ports}", test.ports_min());
        return Err(refused(name, &why));
    }
    Ok(())
}

/// Measures one benchmark, for all sizes where they matter.
///
/// # Errors
/// As [`Dut::run`] and [`check`].
pub fn run<D: Dut>(suite: &mut Suite<'_, D>, test: Test) -> Result<(), Failure> {
    check(test, suite.dut.ports().len())?;
    let name = test.name();
    if test == Test::AddrCache {
        return address_cache(suite);
    }
    for size in suite.sizes.clone() {
        match test {
            Test::One2many => forwarding(suite, size, Pattern::OneToMany, name)?,
            Test::Many2one => forwarding(suite, size, Pattern::ManyToOne, name)?,
            Test::Congestion => {
                let mut innocent = Innocent::default();
                innocent.measure(suite, size, [0, 1, 2, 3])?;
                innocent.figures(suite, &format!("{}/{name}", size.name()));
            }
            Test::MaxFwd => max_forwarding(suite, size)?,
            Test::Broadcast => broadcast(suite, size)?,
            _ => forwarding(suite, size, Pattern::Mesh, name)?,
        }
    }
    Ok(())
}

/// Throughput; loss and forwarding rate at the largest load (RFC 2285 3.6.2).
fn forwarding<D: Dut>(
    suite: &mut Suite<'_, D>,
    size: FrameSize,
    pattern: Pattern,
    name: &str,
) -> Result<(), Failure> {
    let prefix = format!("{}/{name}", size.name());
    let rate = suite.throughput(pattern, size)?;
    suite.rate(&format!("{prefix}/throughput"), rate);
    let duration = suite.trial_time(pattern, size);
    let streams = pattern.streams(suite.dut.ports().len(), size, 1.0, duration);
    let outcome = suite.offer(streams, duration)?;
    let prefix = format!("{prefix}/full-load");
    suite.figure(
        format!("{prefix}/forwarded"),
        "frames/s",
        Better::Bigger,
        outcome.forwarded_fps(),
    );
    suite.shortfall(&prefix, &outcome);
    Ok(())
}

/// RFC 2285 3.6.3: the largest of the forwarding rates at loads from the throughput to the line rate.
fn max_forwarding<D: Dut>(suite: &mut Suite<'_, D>, size: FrameSize) -> Result<(), Failure> {
    let pattern = suite.pattern;
    let throughput = suite.throughput(pattern, size)?.share;
    let duration = suite.trial_time(pattern, size);
    let ports = suite.dut.ports().len();
    let steps = (0..)
        .map(|step| throughput + f64::from(step) * STEP)
        .take_while(|share| *share < 1.0);
    let mut best = (0.0, 0.0);
    for share in steps.chain([1.0]).collect::<Vec<_>>() {
        let outcome = suite.offer(pattern.streams(ports, size, share, duration), duration)?;
        if outcome.forwarded_fps() > best.0 {
            best = (outcome.forwarded_fps(), share);
        }
    }
    let prefix = format!("{}/max-forwarding", size.name());
    suite.figure(format!("{prefix}/rate"), "frames/s", Better::Bigger, best.0);
    suite.figure(
        format!("{prefix}/offered"),
        "percent",
        Better::Bigger,
        best.1 * 100.0,
    );
    Ok(())
}

/// From the first port to all others.
fn broadcast<D: Dut>(suite: &mut Suite<'_, D>, size: FrameSize) -> Result<(), Failure> {
    let stream = |share, duration| Stream {
        to: Destination::Broadcast,
        ..Stream::steady(0, 1, size, share, duration)
    };
    let goal = suite.goal(Pattern::OneToMany, size);
    let found = suite.find(goal, |share, duration, number| Trial {
        streams: vec![stream(share, duration)],
        duration,
        phases: Some(number),
    })?;
    let share = found.lower.unwrap_or(0.0);
    let fps = size.line_rate_fps(&suite.dut.ports()[0].link) * share;
    let rate = Rate {
        fps,
        bps: fps * size.mean_bytes() * 8.0,
        share,
    };
    let prefix = format!("{}/broadcast", size.name());
    suite.rate(&format!("{prefix}/throughput"), rate);
    let outcome = suite.offer(vec![stream(share, goal.full)], goal.full)?;
    let latencies = outcome.all_latencies();
    suite
        .result
        .figures
        .extend(latency::figures(&format!("{prefix}/latency"), &latencies));
    Ok(())
}

/// How many stations behind the second port are known at once: frames to them from the first port are not flooded to the third.
fn address_cache<D: Dut>(suite: &mut Suite<'_, D>) -> Result<(), Failure> {
    let (mut known, mut next) = (0, 1_024);
    let mut is_open = false;
    while all_known(suite, next)? {
        known = next;
        is_open = next == ADDRESSES_MAX;
        if is_open {
            break;
        }
        next = (next * 2).min(ADDRESSES_MAX);
    }
    while next - known > 1 && !is_open {
        let middle = known + (next - known) / 2;
        match all_known(suite, middle)? {
            true => known = middle,
            false => next = middle,
        }
    }
    if is_open {
        suite.result.notes.push(format!(
            "address-cache: more than {ADDRESSES_MAX} addresses were not tried"
        ));
    }
    suite.figure(
        "address-cache/stations".to_owned(),
        "addresses",
        Better::Bigger,
        f64::from(known),
    );
    Ok(())
}

fn all_known<D: Dut>(suite: &mut Suite<'_, D>, stations: u32) -> Result<bool, Failure> {
    if !suite.dut.restart()? {
        return Err(Failure::new(
            Exit::Environment,
            "the device cannot be told to forget its addresses",
        ));
    }
    let size = FrameSize::Fixed(64);
    // A tenth of the line rate: no buffer has a part in this.
    let share = 0.1;
    let once = |from: usize, to: usize| Stream {
        share,
        ..Stream::burst(from, to, size, u64::from(stations))
    };
    let span = f64::from(stations) * 1e12 / (size.line_rate_fps(&suite.dut.ports()[0].link) * share);
    let duration = Picos(span as u64 + 1);
    let learning = Stream {
        sources: stations,
        ..once(1, 0)
    };
    suite.offer_at_once(vec![learning], duration)?;
    let testing = Stream {
        targets: stations,
        ..once(0, 1)
    };
    let outcome = suite.offer_at_once(vec![testing], duration)?;
    Ok(outcome.streams[0].stray == 0 && outcome.streams[0].lost() == 0)
}
