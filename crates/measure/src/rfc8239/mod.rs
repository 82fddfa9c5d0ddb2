//! `xoff bench rfc8239`: the data-centre benchmarks of RFC 8239. RFC 8238 defines their terms.
//!
//! For a lossless traffic class with senders that honour pauses, the buffer counts as full when the device
//! sends the first pause. For a lossy class, or for senders that ignore pauses, the buffer counts as full
//! when the first frame is lost.

use crate::choice::named_choices;
use xoff_units::Picos;

use super::dut::{Dut, FrameSize, TrafficPattern, TrafficStream, TrialResult};
use super::latency;
use super::result::ImprovementDirection;
use super::suite::{BenchmarkSuite, unsupported_test_failure};
use xoff_telemetry::failure::Failure;

/// Load of the line-rate benchmark as a share of the line rate. It is below 1 to allow for clock differences
/// (RFC 8239 section 2.2).
const LINE_RATE_LOAD: f64 = 0.9998;
/// Excess load of an over-subscribed port, as a share of the line rate (RFC 8239 section 3.2).
const EXCESS_SHARE: f64 = 0.01;
/// Duration of the first over-subscription trial, as the number of frames at line rate. Each further trial is
/// twice as long.
const EXCESS_FRAMES: u64 = 1 << 14;
/// Duration of the longest over-subscription trial, as the number of frames at line rate.
const EXCESS_FRAMES_MAX: u64 = 1 << 25;

named_choices! {
    /// A benchmark of RFC 8239.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Rfc8239Test {
        Linerate = "linerate": "2: pairs and a full mesh at 99.98 % of the line rate",
        Buffer = "buffer": "3: the buffer that an over-subscription by 1 % fills",
        Microburst = "microburst": "4: the longest simultaneous bursts, by number of senders and receivers",
        Hol = "hol": "5: effect of an over-subscribed port on a port without over-subscription",
        Incast = "incast": "6: stateful and stateless traffic together; not measured",
    }
}

impl Rfc8239Test {
    /// The benchmarks that xoff measures: all except [`Rfc8239Test::Incast`].
    pub const ALL: [Rfc8239Test; 4] = [
        Rfc8239Test::Linerate,
        Rfc8239Test::Buffer,
        Rfc8239Test::Microburst,
        Rfc8239Test::Hol,
    ];

    fn min_port_count(self) -> usize {
        match self {
            Rfc8239Test::Linerate => 2,
            Rfc8239Test::Buffer | Rfc8239Test::Microburst => 3,
            Rfc8239Test::Hol | Rfc8239Test::Incast => 4,
        }
    }
}

/// Checks that xoff measures a benchmark, and that the tester has enough ports.
///
/// # Errors
/// xoff does not measure the benchmark, or the benchmark needs more than `port_count` ports.
pub fn check_test(test: Rfc8239Test, port_count: usize) -> Result<(), Failure> {
    if test == Rfc8239Test::Incast {
        return Err(unsupported_test_failure(
            "incast",
            "the tester has no stateful (TCP) traffic",
        ));
    }
    if port_count < test.min_port_count() {
        return Err(unsupported_test_failure(
            &format!("{test:?}").to_lowercase(),
            &format!(
                "it needs {} ports, and there are {port_count}",
                test.min_port_count()
            ),
        ));
    }
    Ok(())
}

/// Measures one benchmark for all frame sizes and adds the measured quantities (figures) to the result
/// of `suite`.
///
/// # Errors
/// The errors of [`check_test`] and [`Dut::run`].
pub fn run_test<D: Dut>(suite: &mut BenchmarkSuite<'_, D>, test: Rfc8239Test) -> Result<(), Failure> {
    check_test(test, suite.dut.ports().len())?;
    match test {
        Rfc8239Test::Linerate => measure_line_rate(suite),
        Rfc8239Test::Buffer => measure_buffer(suite),
        Rfc8239Test::Microburst => measure_microburst(suite),
        Rfc8239Test::Hol => measure_head_of_line_blocking(suite),
        Rfc8239Test::Incast => Ok(()),
    }
}

fn measure_line_rate<D: Dut>(suite: &mut BenchmarkSuite<'_, D>) -> Result<(), Failure> {
    let ports = suite.dut.ports().len();
    for size in suite.sizes.clone() {
        for pattern in [TrafficPattern::Pairs, TrafficPattern::Mesh] {
            let duration = suite.trial_duration(pattern, size);
            let outcome = suite
                .run_with_new_phases(pattern.streams(ports, size, LINE_RATE_LOAD, duration), duration)?;
            let prefix = format!("{}/line-rate/{}", size.name(), pattern.name());
            suite.add_figure(
                format!("{prefix}/forwarded"),
                "frames/s",
                ImprovementDirection::Bigger,
                outcome.forwarded_fps(),
            );
            suite.add_loss_figures(&prefix, &outcome);
            let latencies = outcome.all_latencies();
            suite
                .result
                .figures
                .extend(latency::latency_figures(&format!("{prefix}/latency"), &latencies));
            let variation = latencies.max_ns() - latencies.min_ns();
            suite.add_figure(
                format!("{prefix}/jitter"),
                "ns",
                ImprovementDirection::Smaller,
                variation,
            );
        }
    }
    Ok(())
}

/// Measures the buffer by the procedures of RFC 8239 section 3.2:
///
/// - Procedure A over-subscribes one port. The procedure is repeated for each frame size. The procedures
///   after A use only the frame size with the largest result of procedure A.
/// - Procedure B over-subscribes one port after the other.
/// - Procedure C over-subscribes two ports at the same time.
/// - Procedure D over-subscribes one port from all other ports.
fn measure_buffer<D: Dut>(suite: &mut BenchmarkSuite<'_, D>) -> Result<(), Failure> {
    let ports = suite.dut.ports().len();
    let mut best: Option<(f64, FrameSize)> = None;
    for size in suite.sizes.clone() {
        let bytes = measure_over_subscribed_ports(suite, size, &[[0, 1, 2]])?;
        suite.add_figure(
            format!("{}/buffer/two-to-one", size.name()),
            "bytes",
            ImprovementDirection::Bigger,
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
        .map(|port| {
            measure_over_subscribed_ports(suite, size, &[[(port + 1) % ports, port, (port + 2) % ports]])
        })
        .collect::<Result<_, _>>()?;
    suite.add_samples(
        format!("{name}/buffer/each-port"),
        "bytes",
        ImprovementDirection::Bigger,
        each,
    );
    if ports >= 6 {
        let bytes = measure_over_subscribed_ports(suite, size, &[[0, 1, 2], [3, 4, 5]])?;
        suite.add_figure(
            format!("{name}/buffer/two-ports"),
            "bytes",
            ImprovementDirection::Bigger,
            bytes,
        );
    }
    let streams = |duration| {
        let share = (1.0 + EXCESS_SHARE) / (ports - 1) as f64;
        (0..ports - 1)
            .map(|from| TrafficStream::at_constant_rate(from, ports - 1, size, share, duration))
            .collect()
    };
    let line = size.line_rate_fps(&suite.dut.ports()[ports - 1].link);
    let bytes = measure_absorbed_bytes(suite, size, line * EXCESS_SHARE, streams)?;
    suite.add_figure(
        format!("{name}/buffer/all-to-one"),
        "bytes",
        ImprovementDirection::Bigger,
        bytes,
    );
    Ok(())
}

/// Measures the buffer of one or more over-subscribed ports. Each group has three ports: the first port sends
/// to the second port at line rate, and the third port sends to the second port at 1 % of the line rate.
fn measure_over_subscribed_ports<D: Dut>(
    suite: &mut BenchmarkSuite<'_, D>,
    size: FrameSize,
    groups: &[[usize; 3]],
) -> Result<f64, Failure> {
    let streams = |duration| {
        let group_streams = |group: &[usize; 3]| {
            let [full, to, excess] = *group;
            [
                TrafficStream::at_constant_rate(full, to, size, 1.0, duration),
                TrafficStream::at_constant_rate(excess, to, size, EXCESS_SHARE, duration),
            ]
        };
        groups.iter().flat_map(group_streams).collect()
    };
    let rate = size.line_rate_fps(&suite.dut.ports()[groups[0][2]].link) * EXCESS_SHARE * groups.len() as f64;
    measure_absorbed_bytes(suite, size, rate, streams)
}

/// Returns the excess bytes that the buffer absorbs before the first loss or pause. The excess frames arrive
/// at `excess_fps` frames per second. If no frame is lost and no pause is sent, the function returns all
/// excess bytes of the longest trial and adds a note to the result.
fn measure_absorbed_bytes<D: Dut>(
    suite: &mut BenchmarkSuite<'_, D>,
    size: FrameSize,
    excess_fps: f64,
    streams: impl Fn(Picos) -> Vec<TrafficStream>,
) -> Result<f64, Failure> {
    let line = size.line_rate_fps(&suite.dut.ports()[0].link);
    let mut frames = EXCESS_FRAMES;
    loop {
        let duration = Picos((frames as f64 * 1e12 / line) as u64);
        let outcome = suite.run_simultaneously(streams(duration), duration)?;
        let full = first_loss_or_pause(&outcome, suite.dut.is_lossless());
        if full.is_none() && frames < EXCESS_FRAMES_MAX {
            frames *= 2;
            continue;
        }
        if full.is_none() {
            let most = (excess_fps * duration.0 as f64 / 1e12 * size.mean_bytes()) as u64;
            suite.result.notes.push(format!(
                "{}/buffer: no buffer was full after {most} bytes",
                size.name()
            ));
        }
        let at = full.unwrap_or(duration);
        return Ok((excess_fps * at.0 as f64 / 1e12).floor() * size.mean_bytes());
    }
}

/// Returns the time of the first lost frame. For a lossless device, returns the time of the first pause if
/// the pause is earlier. Returns `None` if nothing was lost or paused.
fn first_loss_or_pause(outcome: &TrialResult, is_lossless: bool) -> Option<Picos> {
    let lost = outcome
        .streams
        .iter()
        .filter_map(|stream| stream.first_lost)
        .map(|frame| frame.sent_at);
    let paused = outcome
        .ports
        .iter()
        .filter_map(|port| port.first_xoff.filter(|_| is_lossless));
    lost.chain(paused).min()
}

/// Measures the longest simultaneous bursts by the procedure of RFC 8239 section 4.2. The first trial has one
/// receiver, and each further trial has one more. The measurement ends before the number of receivers reaches
/// the number of senders.
fn measure_microburst<D: Dut>(suite: &mut BenchmarkSuite<'_, D>) -> Result<(), Failure> {
    let ports = suite.dut.ports().len();
    for size in suite.sizes.clone() {
        for receivers in (1..ports).take_while(|receivers| ports - receivers > *receivers) {
            let senders = ports - receivers;
            let burst = |frames: u64| -> Vec<TrafficStream> {
                (0..senders)
                    .map(|from| TrafficStream::burst(from, senders + from % receivers, size, frames))
                    .collect()
            };
            let (frames, is_limited) = suite.find_longest_burst(burst)?;
            let prefix = format!("{}/microburst/{senders}-to-{receivers}", size.name());
            suite.add_figure(
                format!("{prefix}/frames"),
                "frames",
                ImprovementDirection::Bigger,
                frames as f64,
            );
            let bytes = frames as f64 * senders as f64 * size.mean_bytes();
            suite.add_figure(
                format!("{prefix}/all-bytes"),
                "bytes",
                ImprovementDirection::Bigger,
                bytes,
            );
            if is_limited {
                suite.note_burst_limit(&prefix);
            }
        }
    }
    Ok(())
}

/// Measures head-of-line blocking by the procedure of RFC 8239 section 5.2. Each trial uses a group of two
/// senders and two receivers, as described at [`VictimFlow::measure`]. Each further trial uses the next port
/// for all four members of the group.
fn measure_head_of_line_blocking<D: Dut>(suite: &mut BenchmarkSuite<'_, D>) -> Result<(), Failure> {
    let ports = suite.dut.ports().len();
    for size in suite.sizes.clone() {
        let mut victim = VictimFlow::default();
        for shift in 0..ports {
            let at = |n: usize| (shift + n) % ports;
            victim.measure(suite, size, [at(0), at(1), at(2), at(3)])?;
        }
        victim.add_figures(suite, &format!("{}/head-of-line", size.name()));
    }
    Ok(())
}

/// Results of the victim flow. The destination port of this flow is not over-subscribed, but the flow can
/// suffer from the over-subscription of a different port. Each measured group of ports gives one sample.
#[derive(Debug, Default)]
pub(crate) struct VictimFlow {
    lost: Vec<f64>,
    withheld: Vec<f64>,
    pauses: Vec<f64>,
}

impl VictimFlow {
    /// Measures one group of ports. The first sender sends half of its load to `free_receiver` and half to
    /// `full_receiver`. The second sender sends its whole load to `full_receiver`. This port is therefore
    /// over-subscribed: its load is 1.5 times the line rate.
    pub(crate) fn measure<D: Dut>(
        &mut self,
        suite: &mut BenchmarkSuite<'_, D>,
        size: FrameSize,
        [first_sender, second_sender, free_receiver, full_receiver]: [usize; 4],
    ) -> Result<(), Failure> {
        let duration = suite.trial_duration(TrafficPattern::ManyToOne, size);
        // A queue that fills at half of the line rate must be full long before the end of the trial.
        let duration = Picos(duration.0 * 8);
        let streams = vec![
            TrafficStream::at_constant_rate(first_sender, free_receiver, size, 0.5, duration),
            TrafficStream::at_constant_rate(first_sender, full_receiver, size, 0.5, duration),
            TrafficStream::at_constant_rate(second_sender, full_receiver, size, 1.0, duration),
        ];
        let outcome = suite.run_with_new_phases(streams, duration)?;
        let victim = outcome.streams[0];
        self.lost
            .push(victim.lost_frames() as f64 * 100.0 / victim.expected.max(1) as f64);
        self.withheld
            .push((victim.wanted - victim.sent) as f64 * 100.0 / victim.wanted.max(1) as f64);
        let pauses: u64 = outcome.ports.iter().map(|port| port.xoff_frames).sum();
        self.pauses.push(pauses as f64);
        Ok(())
    }

    /// Adds the figures `PREFIX/innocent-lost`, `PREFIX/innocent-withheld` and `PREFIX/pauses`.
    pub(crate) fn add_figures<D: Dut>(self, suite: &mut BenchmarkSuite<'_, D>, prefix: &str) {
        suite.add_samples(
            format!("{prefix}/innocent-lost"),
            "percent",
            ImprovementDirection::Smaller,
            self.lost,
        );
        suite.add_samples(
            format!("{prefix}/innocent-withheld"),
            "percent",
            ImprovementDirection::Smaller,
            self.withheld,
        );
        suite.add_samples(
            format!("{prefix}/pauses"),
            "frames",
            ImprovementDirection::Smaller,
            self.pauses,
        );
    }
}
