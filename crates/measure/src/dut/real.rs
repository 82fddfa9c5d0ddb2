//! A device between network devices of this machine, in real time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use xoff_dataplane::{LinkTiming, Picos};

use super::outcome::{Latencies, Outcome, PortOutcome, StreamOutcome};
use super::traffic::{Destination, FrameSize, Stream, Trial, check};
use super::{Dut, TesterPort};
use crate::traffic::{self, End, Means, Rate, Tester, Traffic};
use xoff_ports::net::{self, Netns};
use xoff_telemetry::failure::{Exit, Failure};

/// A frame's latency is measured at most this often.
const SAMPLE_EVERY_NS: u64 = 100_000;
/// How long the generator shows what it can do.
const CALIBRATION: Picos = Picos::from_millis(500);
/// Loads are offered up to this part of what it did.
const SURE: f64 = 0.9;
/// A generator that falls this far behind has not offered what was asked for.
const BEHIND: f64 = 0.01;
/// Ethernet header and FCS.
const BESIDE_MTU: u32 = 18;
/// What hardware has at most.
const SPEED_MBPS: std::ops::RangeInclusive<u32> = 10..=800_000;

/// Network devices of this machine, whose far ends belong to the device under test, which forwards between them as a bridge does.
///
/// Frames are RoCEv2 out of packet sockets, paced by a thread that spins, and counted by the receiving interface. Senders do not obey
/// pauses, and order is not looked at.
#[derive(Debug)]
pub struct RealDevice {
    netns: Netns,
    tester: Vec<TesterPort>,
    dscp: u8,
    stop: Arc<AtomicBool>,
}

impl RealDevice {
    /// Devices of the calling thread's namespace, with links of this speed.
    ///
    /// # Errors
    /// A device that is not there or down, a namespace that cannot be told.
    pub fn open(
        devices: &[String],
        speed_mbps: u32,
        dscp: u8,
        stop: Arc<AtomicBool>,
    ) -> Result<RealDevice, Failure> {
        if !SPEED_MBPS.contains(&speed_mbps) {
            return Err(
                Failure::usage(format!("{speed_mbps} Mb/s is no speed of a network device")).at("--speed"),
            );
        }
        let port = |name: &String| {
            let missing = |why: String| {
                Failure::environment(format!("no network device \"{name}\" that carries frames"))
                    .at("--ports")
                    .because(why)
                    .fix("list the devices with `ip link`; give a FILE if ports of a configuration are meant")
            };
            let link = net::link(name).map_err(|error| missing(error.to_string()))?;
            if !link.up || !link.carrier {
                return Err(missing("it is down, or its far end is".to_owned()));
            }
            Ok(TesterPort {
                name: name.clone(),
                link: LinkTiming::ethernet(speed_mbps),
                frame_bytes_max: link.mtu + BESIDE_MTU,
            })
        };
        Ok(RealDevice {
            tester: devices.iter().map(port).collect::<Result<_, _>>()?,
            netns: Netns::current().map_err(|error| Failure::environment(error.to_string()))?,
            dscp,
            stop,
        })
    }

    /// The share of the line rate that the generator can send of these streams, at most 1; and what was measured, in frames a second of
    /// the slowest stream.
    ///
    /// # Errors
    /// As [`Dut::run`].
    pub fn calibrate(&mut self, streams: &[Stream]) -> Result<(f64, f64), Failure> {
        self.check_streams(streams)?;
        let outcomes = self.offer(streams, CALIBRATION, |_| Rate::Saturate)?;
        let shares = streams.iter().zip(&outcomes).map(|(stream, outcome)| {
            let fps = outcome.sending.rate_fps();
            (fps / self.line_rate(stream), fps)
        });
        let least = shares.min_by(|one, other| one.0.total_cmp(&other.0));
        let (share, fps) = least.unwrap_or((1.0, 0.0));
        Ok(((share * SURE).min(1.0), fps))
    }

    fn line_rate(&self, stream: &Stream) -> f64 {
        stream.size.line_rate_fps(&self.tester[stream.from].link)
    }

    fn check_streams(&self, streams: &[Stream]) -> Result<(), Failure> {
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
            if stream.frames.is_some() || stream.start != Picos::ZERO || stream.to == Destination::Broadcast {
                return Err(refused("it sends steady unicast streams"));
            }
            if stream.size == FrameSize::Imix {
                return Err(refused("its frames have one length"));
            }
        }
        Ok(())
    }

    /// All streams at once, a generator each.
    fn offer(
        &self,
        streams: &[Stream],
        duration: Picos,
        rate: impl Fn(&Stream) -> Rate,
    ) -> Result<Vec<traffic::Outcome>, Failure> {
        let mut testers = streams
            .iter()
            .map(|stream| self.open_tester(stream))
            .collect::<Result<Vec<Tester>, Failure>>()?;
        let trials: Vec<traffic::Trial> = streams
            .iter()
            .map(|stream| traffic::Trial {
                rate: rate(stream),
                duration: Duration::from_nanos(duration.as_nanos()),
                sample_every_ns: Some(SAMPLE_EVERY_NS),
                means: Means::Packet,
                core: None,
            })
            .collect();
        for tester in &mut testers {
            tester.say_hello()?;
        }
        thread::scope(|scope| {
            let running: Vec<_> = testers
                .iter_mut()
                .zip(&trials)
                .map(|(tester, trial)| scope.spawn(|| tester.trial(trial)))
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

    fn open_tester(&self, stream: &Stream) -> Result<Tester, Failure> {
        let Destination::Port(to) = stream.to else {
            return Err(Failure::usage("a broadcast has no sink"));
        };
        let end = |port: usize| {
            let netns = self.netns.try_clone();
            netns
                .map(|netns| End {
                    netns,
                    device: self.tester[port].name.clone(),
                })
                .map_err(|error| Failure::environment(error.to_string()))
        };
        let mut traffic = Traffic::new(stream.size.max_bytes() - self.tester[stream.from].link.fcs_bytes);
        traffic.flows = stream.flows;
        traffic.dscp = self.dscp;
        (traffic.src_mac[5], traffic.dst_mac[5]) = (2 * stream.from as u8, 2 * to as u8 + 1);
        Tester::open(end(stream.from)?, &end(to)?, &traffic)
    }

    fn outcome(&self, trial: &Trial, outcomes: &[traffic::Outcome]) -> Outcome {
        let groups = trial
            .streams
            .iter()
            .map(|stream| stream.group + 1)
            .max()
            .unwrap_or(0);
        let mut result = Outcome {
            ports: vec![PortOutcome::default(); self.tester.len()],
            latencies: vec![Latencies::default(); groups],
            duration: trial.duration,
            ..Outcome::default()
        };
        for (stream, outcome) in trial.streams.iter().zip(outcomes) {
            let sending = &outcome.sending;
            // What the interface refused had no room behind it: the device under test was full.
            let sent = sending.frames + sending.refused;
            let received = outcome.arrivals.frames;
            let in_time = trial.duration.0 as f64 / 1e3 / sending.elapsed_ns.max(1) as f64;
            result.streams.push(StreamOutcome {
                wanted: sent + sending.behind,
                sent,
                expected: sent,
                received: received.min(sent),
                received_in_time: (received as f64 * in_time.min(1.0)) as u64,
                ..StreamOutcome::default()
            });
            for value in outcome.latency_ns.iter_recorded() {
                let span = Picos::from_nanos(value.value_iterated_to());
                result.latencies[stream.group].add_many(span, value.count_at_value());
            }
            let behind = sending.behind as f64 / (sent + sending.behind).max(1) as f64;
            if behind > BEHIND {
                result.tainted.push(format!(
                    "the generator at {} sent less than it was asked to",
                    self.tester[stream.from].name
                ));
            }
        }
        result
    }
}

impl Dut for RealDevice {
    fn ports(&self) -> &[TesterPort] {
        &self.tester
    }

    fn is_lossless(&self) -> bool {
        false
    }

    fn restart(&mut self) -> Result<bool, Failure> {
        Ok(false)
    }

    fn check(&self, trial: &Trial) -> Result<(), Failure> {
        check(trial, self.tester.len(), |port| self.tester[port].name.clone())?;
        self.check_streams(&trial.streams)
    }

    fn run(&mut self, trial: &Trial) -> Result<Outcome, Failure> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Failure::new(Exit::Interrupted, "interrupted between two trials"));
        }
        self.check(trial)?;
        let rate = |stream: &Stream| Rate::Paced(self.line_rate(stream) * stream.share);
        let outcomes = self.offer(&trial.streams, trial.duration, rate)?;
        Ok(self.outcome(trial, &outcomes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::traffic::Pattern;
    use super::*;

    #[test]
    fn what_it_cannot_send_is_refused_without_a_trial() {
        let port = |name: &str| TesterPort {
            name: name.to_owned(),
            link: LinkTiming::ethernet(10_000),
            frame_bytes_max: 1_518,
        };
        let device = RealDevice {
            netns: Netns::current().unwrap(),
            tester: ["a0", "b0", "c0"].map(port).to_vec(),
            dscp: 26,
            stop: Arc::default(),
        };
        let second = Picos::from_millis(1_000);
        let check = |pattern: Pattern, size| {
            device.check(&Trial {
                streams: pattern.streams(3, size, 1.0, second),
                duration: second,
                phases: None,
            })
        };
        assert!(check(Pattern::Pairs, FrameSize::Fixed(64)).is_ok());
        assert!(check(Pattern::Pairs, FrameSize::Imix).is_err());
        assert!(check(Pattern::ManyToOne, FrameSize::Fixed(64)).is_err());
    }
}
