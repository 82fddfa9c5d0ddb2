//! A device under test (DUT) that is connected to network interfaces of this machine, in real time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use xoff_dataplane::{LinkTiming, Picos};

use super::device::{Dut, TesterPort};
use super::traffic::{FrameSize, StreamDestination, TrafficStream, Trial, check_streams};
use super::trial_result::{LatencyHistogram, PortResult, StreamResult, TrialResult};
use crate::traffic::{self, SendMethod, SendRate, Tester, TesterInterface, TrafficProfile};
use xoff_ports::net::{self, Netns};
use xoff_telemetry::failure::{Exit, Failure};

/// Shortest interval between two latency samples, in nanoseconds.
const SAMPLE_EVERY_NS: u64 = 100_000;
/// Duration of the calibration of the generator.
const CALIBRATION_TIME: Picos = Picos::from_millis(500);
/// Duration of an attempt to find the path of each stream.
const PROBE_TIME: Picos = Picos::from_millis(20);
/// Rate of each stream during an attempt, in frames per second. Any device can forward this rate.
const PROBE_FPS: f64 = 1_000.0;
/// Number of attempts. A bridge may need the first frames to learn addresses.
const PROBE_ATTEMPTS: usize = 3;
/// Largest load that the tester offers, as a share of the calibrated rate.
const USABLE_RATE_SHARE: f64 = 0.9;
/// Largest share of the frames that the generator may fail to send in time. If the share of a trial is
/// larger, the trial is marked as tainted: its result proves nothing.
const LATE_FRAMES_SHARE_MAX: f64 = 0.01;
/// Bytes of the Ethernet header and FCS, which the MTU does not include.
const HEADER_AND_FCS_BYTES: u32 = 18;
/// Speeds of network interfaces in Mb/s.
const SPEED_RANGE_MBPS: std::ops::RangeInclusive<u32> = 10..=800_000;

/// A device under test (DUT) that is connected to network interfaces of this machine. The DUT forwards frames
/// between these interfaces like a bridge.
///
/// For each stream, a thread sends RoCEv2 frames from a packet socket at a constant rate. The receiving
/// interface counts them. Senders do not honour pauses, and the order of frames is not checked.
#[derive(Debug)]
pub struct RealDut {
    netns: Netns,
    tester_ports: Vec<TesterPort>,
    dscp: u8,
    stop: Arc<AtomicBool>,
}

impl RealDut {
    /// Opens the interfaces `devices` in the network namespace of the calling thread. `speed_mbps` is the
    /// speed of their links in Mb/s, 10 to 800000. `dscp` is the DSCP of all frames. When `stop` becomes
    /// true, the next trial fails with [`Exit::Interrupted`].
    ///
    /// # Errors
    /// The speed is out of range, an interface is missing or has no link, or the network namespace cannot
    /// be opened.
    pub fn open(
        devices: &[String],
        speed_mbps: u32,
        dscp: u8,
        stop: Arc<AtomicBool>,
    ) -> Result<RealDut, Failure> {
        if !SPEED_RANGE_MBPS.contains(&speed_mbps) {
            return Err(
                Failure::usage(format!("{speed_mbps} Mb/s is not a speed of a network device")).at("--speed"),
            );
        }
        let port = |name: &String| {
            let missing = |why: String| {
                Failure::environment(format!("no network device \"{name}\" that carries frames"))
                    .at("--ports")
                    .because(why)
                    .fix("list the devices with `ip link`, or give a FILE to use ports of a configuration")
            };
            let link = net::read_link(name).map_err(|error| missing(error.to_string()))?;
            if !link.is_ethernet {
                return Err(missing("it is not an Ethernet device".to_owned()));
            }
            if !link.up || !link.carrier {
                return Err(missing("it is down, or its far end is".to_owned()));
            }
            Ok(TesterPort {
                name: name.clone(),
                link: LinkTiming::ethernet(speed_mbps),
                frame_bytes_max: link.mtu + HEADER_AND_FCS_BYTES,
            })
        };
        Ok(RealDut {
            tester_ports: devices.iter().map(port).collect::<Result<_, _>>()?,
            netns: Netns::current().map_err(|error| Failure::environment(error.to_string()))?,
            dscp,
            stop,
        })
    }

    /// Sends a few frames of each stream, and again if frames are missing, for less than a second. Returns the
    /// streams of which no frame arrived, such as `veth0 to veth1`.
    ///
    /// # Errors
    /// The tester does not support these streams ([`Dut::check`]), or it cannot send.
    pub fn find_silent_streams(&mut self, streams: &[TrafficStream]) -> Result<Vec<String>, Failure> {
        self.check_supported_streams(streams)?;
        let mut silent: Vec<&TrafficStream> = streams.iter().collect();
        for _ in 0..PROBE_ATTEMPTS {
            // All streams are sent each time: a bridge learns addresses from the frames in the other direction.
            let outcomes = self.send_streams(streams, PROBE_TIME, |_| SendRate::Paced(PROBE_FPS))?;
            let arrived = streams
                .iter()
                .zip(&outcomes)
                .filter(|(_, outcome)| outcome.arrivals.frames > 0);
            let arrived: Vec<&TrafficStream> = arrived.map(|(stream, _)| stream).collect();
            silent.retain(|stream| !arrived.iter().any(|arrived| std::ptr::eq(*arrived, *stream)));
            if silent.is_empty() {
                break;
            }
        }
        Ok(silent
            .into_iter()
            .map(|stream| self.stream_name(stream))
            .collect())
    }

    /// Returns the names of the interfaces of a stream, such as `veth0 to veth1`.
    fn stream_name(&self, stream: &TrafficStream) -> String {
        let name = |port: usize| self.tester_ports[port].name.as_str();
        match stream.to {
            StreamDestination::Port(to) => format!("{} to {}", name(stream.from), name(to)),
            StreamDestination::Broadcast => format!("{} to all", name(stream.from)),
        }
    }

    /// Measures for 500 ms how fast the generator can send these streams at the same time. The slowest stream
    /// is the stream with the lowest share of its line rate. Returns two values of the slowest stream: 90 %
    /// of its rate as a share of the line rate, at most 1, and its rate in frames per second.
    ///
    /// # Errors
    /// The tester does not support these streams ([`Dut::check`]), or it cannot send.
    pub fn calibrate(&mut self, streams: &[TrafficStream]) -> Result<(f64, f64), Failure> {
        self.check_supported_streams(streams)?;
        let outcomes = self.send_streams(streams, CALIBRATION_TIME, |_| SendRate::Saturate)?;
        let shares = streams.iter().zip(&outcomes).map(|(stream, outcome)| {
            let fps = outcome.sending.rate_fps();
            (fps / self.line_rate_fps(stream), fps)
        });
        let least = shares.min_by(|one, other| one.0.total_cmp(&other.0));
        let (share, fps) = least.unwrap_or((1.0, 0.0));
        Ok(((share * USABLE_RATE_SHARE).min(1.0), fps))
    }

    fn line_rate_fps(&self, stream: &TrafficStream) -> f64 {
        stream.size.line_rate_fps(&self.tester_ports[stream.from].link)
    }

    fn check_supported_streams(&self, streams: &[TrafficStream]) -> Result<(), Failure> {
        let refused = |why: &str| {
            Failure::usage("a tester at network devices cannot offer that")
                .because(why)
                .fix("choose --pattern pairs or one-way and --sizes in bytes, or give a FILE and measure in virtual time")
        };
        for (index, stream) in streams.iter().enumerate() {
            let shares_a_port = streams[..index]
                .iter()
                .any(|other| other.from == stream.from || other.to == stream.to);
            if shares_a_port {
                return Err(refused("an interface sends one stream and receives one"));
            }
            if stream.frames.is_some()
                || stream.start != Picos::ZERO
                || stream.to == StreamDestination::Broadcast
            {
                return Err(refused("it sends steady unicast streams"));
            }
            if stream.size == FrameSize::Imix {
                return Err(refused("its frames have one length"));
            }
        }
        Ok(())
    }

    /// Sends all streams at the same time, each with its own generator.
    fn send_streams(
        &self,
        streams: &[TrafficStream],
        duration: Picos,
        rate: impl Fn(&TrafficStream) -> SendRate,
    ) -> Result<Vec<traffic::TesterResult>, Failure> {
        let mut testers = streams
            .iter()
            .map(|stream| self.open_tester(stream))
            .collect::<Result<Vec<Tester>, Failure>>()?;
        let trials: Vec<traffic::TrialConfig> = streams
            .iter()
            .map(|stream| traffic::TrialConfig {
                rate: rate(stream),
                duration: Duration::from_nanos(duration.as_nanos()),
                sample_every_ns: Some(SAMPLE_EVERY_NS),
                method: SendMethod::PacketSocket,
                core: None,
            })
            .collect();
        for tester in &mut testers {
            tester.send_learning_frame()?;
        }
        thread::scope(|scope| {
            let running: Vec<_> = testers
                .iter_mut()
                .zip(&trials)
                .map(|(tester, trial)| scope.spawn(|| tester.run_trial(trial)))
                .collect();
            running
                .into_iter()
                .map(|thread| {
                    thread
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect()
        })
    }

    fn open_tester(&self, stream: &TrafficStream) -> Result<Tester, Failure> {
        let StreamDestination::Port(to) = stream.to else {
            return Err(Failure::usage("a broadcast has no sink"));
        };
        let interface = |port: usize| {
            let netns = self.netns.try_clone();
            netns
                .map(|netns| TesterInterface {
                    netns,
                    device: self.tester_ports[port].name.clone(),
                })
                .map_err(|error| Failure::environment(error.to_string()))
        };
        let mut traffic =
            TrafficProfile::new(stream.size.max_bytes() - self.tester_ports[stream.from].link.fcs_bytes);
        traffic.flows = stream.flows;
        traffic.dscp = self.dscp;
        (traffic.src_mac[5], traffic.dst_mac[5]) = (2 * stream.from as u8, 2 * to as u8 + 1);
        Tester::open(interface(stream.from)?, &interface(to)?, &traffic)
    }

    fn trial_result(&self, trial: &Trial, outcomes: &[traffic::TesterResult]) -> TrialResult {
        let groups = trial
            .streams
            .iter()
            .map(|stream| stream.latency_group + 1)
            .max()
            .unwrap_or(0);
        let mut result = TrialResult {
            ports: vec![PortResult::default(); self.tester_ports.len()],
            latencies: vec![LatencyHistogram::default(); groups],
            duration: trial.duration,
            ..TrialResult::default()
        };
        for (stream, outcome) in trial.streams.iter().zip(outcomes) {
            let sending = &outcome.sending;
            // The interface refuses a frame when the device under test has no space for more frames.
            let sent = sending.frames + sending.refused;
            let received = outcome.arrivals.frames;
            let in_time = trial.duration.0 as f64 / 1e3 / sending.elapsed_ns.max(1) as f64;
            result.streams.push(StreamResult {
                wanted: sent + sending.behind,
                sent,
                expected: sent,
                received: received.min(sent),
                received_in_time: (received as f64 * in_time.min(1.0)) as u64,
                ..StreamResult::default()
            });
            for value in outcome.latency_ns.iter_recorded() {
                let span = Picos::from_nanos(value.value_iterated_to());
                result.latencies[stream.latency_group].add_many(span, value.count_at_value());
            }
            let late_share = sending.behind as f64 / (sent + sending.behind).max(1) as f64;
            if late_share > LATE_FRAMES_SHARE_MAX {
                result.tainted.push(format!(
                    "the generator at {} sent less than it was asked to",
                    self.tester_ports[stream.from].name
                ));
            }
        }
        result
    }
}

impl Dut for RealDut {
    fn ports(&self) -> &[TesterPort] {
        &self.tester_ports
    }

    fn is_lossless(&self) -> bool {
        false
    }

    fn restart(&mut self) -> Result<bool, Failure> {
        Ok(false)
    }

    fn check(&self, trial: &Trial) -> Result<(), Failure> {
        check_streams(trial, self.tester_ports.len(), |port| {
            self.tester_ports[port].name.clone()
        })?;
        self.check_supported_streams(&trial.streams)
    }

    fn run(&mut self, trial: &Trial) -> Result<TrialResult, Failure> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Failure::new(Exit::Interrupted, "interrupted between two trials"));
        }
        self.check(trial)?;
        let rate = |stream: &TrafficStream| SendRate::Paced(self.line_rate_fps(stream) * stream.share);
        let outcomes = self.send_streams(&trial.streams, trial.duration, rate)?;
        Ok(self.trial_result(trial, &outcomes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::traffic::TrafficPattern;
    use super::*;

    #[test]
    fn unsupported_streams_are_refused_before_a_trial() {
        let port = |name: &str| TesterPort {
            name: name.to_owned(),
            link: LinkTiming::ethernet(10_000),
            frame_bytes_max: 1_518,
        };
        let device = RealDut {
            netns: Netns::current().unwrap(),
            tester_ports: ["a0", "b0", "c0"].map(port).to_vec(),
            dscp: 26,
            stop: Arc::default(),
        };
        let second = Picos::from_millis(1_000);
        let check = |pattern: TrafficPattern, size| {
            device.check(&Trial {
                streams: pattern.streams(3, size, 1.0, second),
                duration: second,
                phases: None,
            })
        };
        assert!(check(TrafficPattern::Pairs, FrameSize::Fixed(64)).is_ok());
        assert!(check(TrafficPattern::Pairs, FrameSize::Imix).is_err());
        assert!(check(TrafficPattern::ManyToOne, FrameSize::Fixed(64)).is_err());
    }
}
