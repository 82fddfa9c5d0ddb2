//! `xoff bench rfc8239`: the data-centre benchmarks of RFC 8239 (terms: RFC 8238).
//!
//! Where the class is lossless and its senders obey pauses, a buffer is at its limit when it asks for the first pause.

use crate::choice::named_choices;
use xoff_units::Picos;

use super::dut::{Dut, FrameSize, Outcome, Pattern, Stream};
use super::latency;
use super::result::Better;
use super::suite::{Suite, refused};
use xoff_telemetry::failure::Failure;

/// Line rate with an allowance for clocks that differ (RFC 8239, 2.2).
const LINE_RATE: f64 = 0.9998;
/// By how much a port is over-subscribed (3.2).
const EXCESS: f64 = 0.01;
/// An over-subscription lasts so many frames at first, at line rate, and twice as many each time.
const EXCESS_FRAMES: u64 = 1 << 14;
/// The longest that is tried, in frames at line rate.
const EXCESS_FRAMES_MAX: u64 = 1 << 25;

named_choices! {
    /// A benchmark of RFC 8239.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Test {
        Linerate = "linerate": "2: pairs and a full mesh at 99.98 % of the line rate",
        Buffer = "buffer": "3: what the buffer takes of an over-subscription by 1 %",
        Microburst = "microburst": "4: the longest simultaneous bursts, by number of senders and receivers",
        Hol = "hol": "5: what an over-subscribed port costs one that is not",
        Incast = "incast": "6: stateful beside stateless traffic; not measured",
    }
}

impl Test {
    /// Those that are measured.
    pub const ALL: [Test; 4] = [Test::Linerate, Test::Buffer, Test::Microburst, Test::Hol];

    fn ports_min(self) -> usize {
        match self {
            Test::Linerate => 2,
            Test::Buffer | Test::Microburst => 3,
            Test::Hol | Test::Incast => 4,
        }
    }
}

/// Refuses a benchmark that is not measured at so many ports.
///
/// # Errors
/// It is none that is measured, or needs more ports.
pub fn check(test: Test, ports: usize) -> Result<(), Failure> {
    if test == Test::Incast {
        return Err(refused("incast", "the tester has no stateful (TCP) traffic"));
    }
    if ports < test.ports_min() {
        return Err(refused(
            &format!("{test:?}").to_lowercase(),
            &format!("it needs {} ports, and there are {ports}", test.ports_min()),
        ));
    }
    Ok(())
}

/// Measures one benchmark for all sizes.
///
/// # Errors
/// As [`Dut::run`] and [`check`].
pub fn run<D: Dut>(suite: &mut Suite<'_, D>, test: Test) -> Result<(), Failure> {
    check(test, suite.dut.ports().len())?;
    match test {
        Test::Linerate => linerate(suite),
        Test::Buffer => buffer(suite),
        Test::Microburst => microburst(suite),
        Test::Hol => head_of_line(suite),
        Test::Incast => Ok(()),
    }
}

fn linerate<D: Dut>(suite: &mut Suite<'_, D>) -> Result<(), Failure> {
    let ports = suite.dut.ports().len();
    for size in suite.sizes.clone() {
        for pattern in [Pattern::Pairs, Pattern::Mesh] {
            let duration = suite.trial_time(pattern, size);
            let outcome = suite.offer(pattern.streams(ports, size, LINE_RATE, duration), duration)?;
            let prefix = format!("{}/line-rate/{}", size.name(), pattern.name());
            suite.figure(
                format!("{prefix}/forwarded"),
                "frames/s",
                Better::Bigger,
                outcome.forwarded_fps(),
            );
            suite.shortfall(&prefix, &outcome);
            let latencies = outcome.all_latencies();
            suite
                .result
                .figures
                .extend(latency::figures(&format!("{prefix}/latency"), &latencies));
            let variation = latencies.max_ns() - latencies.min_ns();
            suite.figure(format!("{prefix}/jitter"), "ns", Better::Smaller, variation);
        }
    }
    Ok(())
}

/// 3.2: A for each size, the best of which is used for each port (B), for two pairs of ports at once (C), and for all to one (D).
fn buffer<D: Dut>(suite: &mut Suite<'_, D>) -> Result<(), Failure> {
    let ports = suite.dut.ports().len();
    let mut best: Option<(f64, FrameSize)> = None;
    for size in suite.sizes.clone() {
        let bytes = over_subscribe(suite, size, &[[0, 1, 2]])?;
        suite.figure(
            format!("{}/buffer/two-to-one", size.name()),
            "bytes",
            Better::Bigger,
            bytes,
        );
        if best.is_none_or(|(most, _)| bytes > most) {
            best = Some((bytes, size));
        }
    }
    let Some((_, size)) = best else { return Ok(()) };
    let name = size.name();
    suite.result.notes.push(format!(
        "buffer: most efficient with frames of {name} bytes, used for the other figures"
    ));
    let each: Vec<f64> = (0..ports)
        .map(|port| over_subscribe(suite, size, &[[(port + 1) % ports, port, (port + 2) % ports]]))
        .collect::<Result<_, _>>()?;
    suite.figures(format!("{name}/buffer/each-port"), "bytes", Better::Bigger, each);
    if ports >= 6 {
        let bytes = over_subscribe(suite, size, &[[0, 1, 2], [3, 4, 5]])?;
        suite.figure(format!("{name}/buffer/two-ports"), "bytes", Better::Bigger, bytes);
    }
    let streams = |duration| {
        let share = (1.0 + EXCESS) / (ports - 1) as f64;
        (0..ports - 1)
            .map(|from| Stream::steady(from, ports - 1, size, share, duration))
            .collect()
    };
    let line = size.line_rate_fps(&suite.dut.ports()[ports - 1].link);
    let bytes = absorbed(suite, size, line * EXCESS, streams)?;
    suite.figure(
        format!("{name}/buffer/all-to-one"),
        "bytes",
        Better::Bigger,
        bytes,
    );
    Ok(())
}

/// What is absorbed where in each of these groups the first port sends to the second at line rate and the third adds 1 %.
fn over_subscribe<D: Dut>(
    suite: &mut Suite<'_, D>,
    size: FrameSize,
    groups: &[[usize; 3]],
) -> Result<f64, Failure> {
    let streams = |duration| {
        let of = |group: &[usize; 3]| {
            let [full, to, excess] = *group;
            [
                Stream::steady(full, to, size, 1.0, duration),
                Stream::steady(excess, to, size, EXCESS, duration),
            ]
        };
        groups.iter().flat_map(of).collect()
    };
    let rate = size.line_rate_fps(&suite.dut.ports()[groups[0][2]].link) * EXCESS * groups.len() as f64;
    absorbed(suite, size, rate, streams)
}

/// Bytes of over-subscribing frames, which come at `excess_fps`, until the first loss or pause; the whole of what was tried if there
/// is none, with a note.
fn absorbed<D: Dut>(
    suite: &mut Suite<'_, D>,
    size: FrameSize,
    excess_fps: f64,
    streams: impl Fn(Picos) -> Vec<Stream>,
) -> Result<f64, Failure> {
    let line = size.line_rate_fps(&suite.dut.ports()[0].link);
    let mut frames = EXCESS_FRAMES;
    loop {
        let duration = Picos((frames as f64 * 1e12 / line) as u64);
        let outcome = suite.offer_at_once(streams(duration), duration)?;
        let full = first_sign(&outcome, suite.dut.is_lossless());
        if full.is_none() && frames < EXCESS_FRAMES_MAX {
            frames *= 2;
            continue;
        }
        if full.is_none() {
            let most = (excess_fps * duration.0 as f64 / 1e12 * size.mean_bytes()) as u64;
            suite.result.notes.push(format!(
                "{}/buffer: nothing was full after {most} bytes",
                size.name()
            ));
        }
        let at = full.unwrap_or(duration);
        return Ok((excess_fps * at.0 as f64 / 1e12).floor() * size.mean_bytes());
    }
}

/// When the first frame was lost or, where that comes first, a pause asked for.
fn first_sign(outcome: &Outcome, is_lossless: bool) -> Option<Picos> {
    let lost = outcome
        .streams
        .iter()
        .filter_map(|stream| stream.first_lost)
        .map(|loss| loss.at);
    let paused = outcome
        .ports
        .iter()
        .filter_map(|port| port.first_xoff.filter(|_| is_lossless));
    lost.chain(paused).min()
}

/// 4.2: from all to one over all but two to two, as far as receivers are fewer than senders.
fn microburst<D: Dut>(suite: &mut Suite<'_, D>) -> Result<(), Failure> {
    let ports = suite.dut.ports().len();
    for size in suite.sizes.clone() {
        for receivers in (1..ports).take_while(|receivers| ports - receivers > *receivers) {
            let senders = ports - receivers;
            let burst = |frames: u64| -> Vec<Stream> {
                (0..senders)
                    .map(|from| Stream::burst(from, senders + from % receivers, size, frames))
                    .collect()
            };
            let (frames, is_open) = suite.longest_burst(burst)?;
            let prefix = format!("{}/microburst/{senders}-to-{receivers}", size.name());
            suite.figure(
                format!("{prefix}/frames"),
                "frames",
                Better::Bigger,
                frames as f64,
            );
            let bytes = frames as f64 * senders as f64 * size.mean_bytes();
            suite.figure(format!("{prefix}/all-bytes"), "bytes", Better::Bigger, bytes);
            if is_open {
                suite.note_open(&prefix);
            }
        }
    }
    Ok(())
}

/// 5.2: in groups of four the first port sends half to the third and half to the fourth, the second all to the fourth, which is thereby
/// over-subscribed by half. The groups move on by a port each time.
fn head_of_line<D: Dut>(suite: &mut Suite<'_, D>) -> Result<(), Failure> {
    let ports = suite.dut.ports().len();
    for size in suite.sizes.clone() {
        let mut innocent = Innocent::default();
        for shift in 0..ports {
            let at = |n: usize| (shift + n) % ports;
            innocent.measure(suite, size, [at(0), at(1), at(2), at(3)])?;
        }
        innocent.figures(suite, &format!("{}/head-of-line", size.name()));
    }
    Ok(())
}

/// What becomes of the traffic to a port that is not over-subscribed; samples by group of ports.
#[derive(Debug, Default)]
pub(crate) struct Innocent {
    lost: Vec<f64>,
    withheld: Vec<f64>,
    pauses: Vec<f64>,
}

impl Innocent {
    /// One group: half of the first port's load goes to the third, half to the fourth, all of the second's to the fourth.
    pub(crate) fn measure<D: Dut>(
        &mut self,
        suite: &mut Suite<'_, D>,
        size: FrameSize,
        [first, second, free, full]: [usize; 4],
    ) -> Result<(), Failure> {
        let duration = suite.trial_time(Pattern::ManyToOne, size);
        // What a queue can hold of half a link's load must be over well before the end.
        let duration = Picos(duration.0 * 8);
        let streams = vec![
            Stream::steady(first, free, size, 0.5, duration),
            Stream::steady(first, full, size, 0.5, duration),
            Stream::steady(second, full, size, 1.0, duration),
        ];
        let outcome = suite.offer(streams, duration)?;
        let of = outcome.streams[0];
        self.lost
            .push(of.lost() as f64 * 100.0 / of.expected.max(1) as f64);
        self.withheld
            .push((of.wanted - of.sent) as f64 * 100.0 / of.wanted.max(1) as f64);
        let pauses: u64 = outcome.ports.iter().map(|port| port.xoff_frames).sum();
        self.pauses.push(pauses as f64);
        Ok(())
    }

    /// Adds them under a prefix.
    pub(crate) fn figures<D: Dut>(self, suite: &mut Suite<'_, D>, prefix: &str) {
        suite.figures(
            format!("{prefix}/innocent-lost"),
            "percent",
            Better::Smaller,
            self.lost,
        );
        suite.figures(
            format!("{prefix}/innocent-withheld"),
            "percent",
            Better::Smaller,
            self.withheld,
        );
        suite.figures(format!("{prefix}/pauses"), "frames", Better::Smaller, self.pauses);
    }
}
