//! Trials of a switch in virtual time: checking, running and collecting the result.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use xoff_units::Picos;

use super::super::device::{Dut, TesterPort};
use super::super::receiver::StreamReceiver;
use super::super::sender::{HeaderSettings, StreamSender};
use super::super::traffic::{TrafficStream, Trial, check_streams};
use super::super::trial_result::{Backlog, LatencyHistogram, PortResult, TrialResult};
use super::{TesterEvent, TrialState, VirtualDut};
use xoff_telemetry::failure::{Exit, Failure};

/// Longest time that the switch may need to become empty after the last frame. After this time, the
/// trial fails.
const DRAIN_TIME_MAX: Picos = Picos::from_millis(10_000);
/// Largest number of frames of a trial. More frames would take hours.
const FRAMES_PER_TRIAL_MAX: f64 = 2e9;

/// Frames in the switch at one time of a trial.
#[derive(Clone, Copy, Debug)]
struct SwitchOccupancy {
    /// Frames in the switch.
    frames: u64,
    /// Frames that have arrived at the switch since the start of the trial.
    entered_frames: u64,
}

impl VirtualDut {
    /// Runs until no frame is in the switch or on a cable.
    pub(super) fn wait_until_empty(&mut self) -> Result<(), Failure> {
        let latest = self
            .add_cable_delay(self.switch.now(), 2)
            .saturating_add(DRAIN_TIME_MAX);
        self.run_until(latest, |this| this.switch.store().in_use() == 0)?;
        if self.switch.store().in_use() == 0 {
            return self.wait_until_unpaused();
        }
        Err(Failure::new(Exit::Inconclusive, "the trial does not end")
            .because(format!(
                "the switch still has {} {} s after the last one was sent",
                xoff_telemetry::count_noun(self.switch.store().in_use() as u64, "frame"),
                DRAIN_TIME_MAX.0 / 1_000_000_000_000
            ))
            .fix("look for a shaper (SCHEDULER pir) that is too slow, or for a PFC deadlock"))
    }

    /// Runs until the switch pauses no port of the tester, so that the next trial starts without pauses.
    fn wait_until_unpaused(&mut self) -> Result<(), Failure> {
        loop {
            let now = self.switch.now();
            let latest = self
                .port_senders
                .iter_mut()
                .filter_map(|sender| sender.next_pause_change(now))
                .min();
            let Some(at) = latest else {
                return Ok(());
            };
            self.run_until(at, |_| false)?;
            self.switch.advance_to(at);
        }
    }

    /// Handles all events until `at` and advances the time of the switch to `at`.
    fn advance_to(&mut self, at: Picos) -> Result<(), Failure> {
        self.run_until(at, |_| false)?;
        self.switch.advance_to(at);
        Ok(())
    }

    /// Returns the number of frames in the switch at `at`. Frames on the cables are not counted, because many
    /// frames on a long cable would hide the growth of the backlog.
    fn occupancy_at(&mut self, at: Picos) -> Result<SwitchOccupancy, Failure> {
        self.advance_to(at)?;
        Ok(SwitchOccupancy {
            frames: self.switch.store().in_use() as u64 - self.frames_on_cables,
            entered_frames: self.trial.entered,
        })
    }

    /// Returns the total paused time of each tester port until `at`.
    fn paused_times(&mut self, at: Picos) -> Vec<Picos> {
        let senders = self.port_senders.iter_mut();
        senders.map(|sender| sender.paused_time(at)).collect()
    }

    /// Refuses frames that are longer than the MTU, and trials that would take hours.
    fn check_frames(&self, trial: &Trial) -> Result<(), Failure> {
        let frames = |stream: &TrafficStream| {
            let rate = stream.size.line_rate_fps(&self.tester_ports[stream.from].link) * stream.share;
            let span = stream.until.min(trial.duration).since(stream.start);
            stream
                .frames
                .map_or(rate * span.0 as f64 / 1e12, |frames| frames as f64)
        };
        let all: f64 = trial.streams.iter().map(frames).sum();
        if all > FRAMES_PER_TRIAL_MAX {
            return Err(Failure::usage(format!("a trial of {all:.1e} frames takes hours"))
                .fix("choose a shorter trial, larger frames or slower ports"));
        }
        let longest = trial
            .streams
            .iter()
            .map(|stream| stream.size.max_bytes())
            .max()
            .unwrap_or(0);
        let most = self
            .tester_ports
            .iter()
            .map(|port| port.frame_bytes_max)
            .min()
            .unwrap_or(0);
        if longest > most {
            return Err(Failure::usage(format!(
                "frames of {longest} bytes are longer than the {most} that the ports' MTU allows"
            ))
            .fix("choose smaller --sizes, or a larger PORT.mtu"));
        }
        Ok(())
    }

    fn start_trial(&mut self, trial: &Trial) {
        let ports = self.tester_ports.len();
        let groups = trial
            .streams
            .iter()
            .map(|stream| stream.latency_group + 1)
            .max()
            .unwrap_or(0);
        let mut phases = trial
            .phases
            .map(|phase| Xoshiro256PlusPlus::seed_from_u64(self.options.seed.wrapping_add(phase)));
        // Frames of earlier trials have left. Only timers of the switch remain.
        self.trial = TrialState {
            begin: self.switch.now(),
            end: self.switch.now().saturating_add(trial.duration),
            receivers: trial
                .streams
                .iter()
                .map(|stream| StreamReceiver::new(stream, ports))
                .collect(),
            latencies: vec![LatencyHistogram::default(); groups],
            ports: vec![PortResult::default(); ports],
            entered: 0,
            stream_senders: Vec::with_capacity(trial.streams.len()),
        };
        for sender in &mut self.port_senders {
            sender.streams.clear();
        }
        for (index, stream) in trial.streams.iter().enumerate() {
            let phase = match &mut phases {
                // An `f64` has 53 significant bits.
                Some(random) if stream.frames.is_none() => {
                    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
                }
                _ => 0.0,
            };
            let mut stream = *stream;
            stream.until = stream.until.min(match stream.frames {
                Some(_) => stream.until,
                None => trial.duration,
            });
            let (class_code, is_tagged) = self.class_codes[stream.from];
            let switch_port = |port: usize| self.options.ports[port] as u16;
            let headers = HeaderSettings {
                switch_port: &switch_port,
                class_code,
                is_tagged,
            };
            let sender = &mut self.port_senders[stream.from];
            sender.streams.push(index);
            let stream_sender =
                StreamSender::new(stream, (self.switch.now(), phase), &headers, sender.link());
            self.trial.stream_senders.push(stream_sender);
        }
        for port in 0..ports {
            if !self.port_senders[port].streams.is_empty() {
                self.switch
                    .schedule(self.switch.now(), TesterEvent::Send(port as u16));
            }
        }
    }

    /// Runs until every stream has sent its last frame. A burst has no end time: it ends after a given number
    /// of frames.
    fn send_remaining_frames(&mut self) -> Result<(), Failure> {
        let latest = self.switch.now().saturating_add(DRAIN_TIME_MAX);
        self.run_until(latest, |this| {
            this.trial.stream_senders.iter().all(StreamSender::is_over)
        })
    }

    fn collect_result(&mut self, paused: &[Picos], backlog: Backlog, duration: Picos) -> TrialResult {
        let mut state = std::mem::take(&mut self.trial);
        for (port, pauses) in state.ports.iter_mut().enumerate() {
            pauses.paused = paused[port];
        }
        for sender in &mut self.port_senders {
            sender.streams.clear();
        }
        let streams = state
            .receivers
            .into_iter()
            .zip(&state.stream_senders)
            .map(|(receiver, sender)| {
                let stream = &sender.stream;
                let rate = stream.size.line_rate_fps(&self.tester_ports[stream.from].link) * stream.share;
                // A lost frame was sent at its due time, because paused senders lose nothing.
                let sent_at = |number: u64| Picos(stream.start.0 + (number as f64 * 1e12 / rate) as u64);
                receiver.into_result((sender.sent, sender.wanted_frames()), stream.from, sent_at)
            });
        TrialResult {
            streams: streams.collect(),
            ports: state.ports,
            latencies: state.latencies,
            duration,
            backlog: Some(backlog),
            tainted: Vec::new(),
        }
    }
}

impl Dut for VirtualDut {
    fn ports(&self) -> &[TesterPort] {
        &self.tester_ports
    }

    fn is_lossless(&self) -> bool {
        self.is_lossless
    }

    fn restart(&mut self) -> Result<bool, Failure> {
        *self = VirtualDut::new(&self.config, self.options.clone())?;
        Ok(true)
    }

    fn check(&self, trial: &Trial) -> Result<(), Failure> {
        check_streams(trial, self.tester_ports.len(), |port| {
            self.tester_ports[port].name.clone()
        })?;
        self.check_frames(trial)
    }

    fn run(&mut self, trial: &Trial) -> Result<TrialResult, Failure> {
        self.check(trial)?;
        let before: Vec<Picos> = self.paused_times(self.switch.now());
        self.start_trial(trial);
        let end = self.trial.end;
        // A frame is in the switch only after it has passed the cable.
        let half = self.add_cable_delay(Picos(self.switch.now().0 + trial.duration.0 / 2), 1);
        let mut at_half = None;
        if half <= end {
            at_half = Some(self.occupancy_at(half)?);
        }
        self.advance_to(end)?;
        let paused = self.paused_times(end).into_iter().zip(before);
        let paused: Vec<Picos> = paused.map(|(paused, before)| paused.since(before)).collect();
        let at_half = match at_half {
            Some(occupancy) => occupancy,
            None => self.occupancy_at(half)?,
        };
        let at_end = self.occupancy_at(self.add_cable_delay(end, 1))?;
        let variation = trial
            .streams
            .iter()
            .map(|stream| stream.size.backlog_variation_frames());
        let backlog = Backlog {
            frames_at_half: at_half.frames,
            frames_at_end: at_end.frames,
            entered_in_second_half: at_end.entered_frames - at_half.entered_frames,
            noise_frames: (trial.streams.len() + self.tester_ports.len()) as u64
                * variation.max().unwrap_or(1),
        };
        self.send_remaining_frames()?;
        self.wait_until_empty()?;
        Ok(self.collect_result(&paused, backlog, trial.duration))
    }
}
