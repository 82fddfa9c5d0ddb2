//! A trial of a switch in virtual time, from its check to its outcome.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use xoff_units::Picos;

use super::super::outcome::{Backlog, Latencies, Outcome, PortOutcome};
use super::super::sink::Received;
use super::super::source::{Headers, Sending};
use super::super::traffic::{Stream, Trial, check};
use super::super::{Dut, TesterPort};
use super::{Event, Running, VirtualDut};
use xoff_telemetry::failure::{Exit, Failure};

/// A trial has ended so long after its last frame was sent, or never will.
const PATIENCE: Picos = Picos::from_millis(10_000);
/// Frames of a trial beyond which it would take hours.
const FRAMES_PER_TRIAL: f64 = 2e9;

/// The switch at a moment of a trial.
#[derive(Clone, Copy, Debug)]
struct Stock {
    /// Frames in it.
    held: u64,
    /// Frames that have come to it.
    entered: u64,
}

impl VirtualDut {
    /// Lets time pass until no frame is in the switch or on a wire.
    pub(super) fn rest(&mut self) -> Result<(), Failure> {
        let latest = self.after_cables(self.switch.now(), 2).saturating_add(PATIENCE);
        self.run_until(latest, |this| this.switch.store().in_use() == 0)?;
        if self.switch.store().in_use() == 0 {
            return self.be_let_go();
        }
        Err(Failure::new(Exit::Inconclusive, "the trial does not end")
            .because(format!(
                "{} frames are still in the switch {} s after the last one was sent",
                self.switch.store().in_use(),
                PATIENCE.0 / 1_000_000_000_000
            ))
            .fix(
                "look for a shaper (SCHEDULER pir) that is too slow, or ports that pause each other for ever",
            ))
    }

    /// Until no pause holds a port of the tester: the next trial begins unpaused.
    fn be_let_go(&mut self) -> Result<(), Failure> {
        loop {
            let now = self.switch.now();
            let latest = self
                .sources
                .iter_mut()
                .filter_map(|source| source.held_until(now))
                .min();
            let Some(at) = latest else {
                return Ok(());
            };
            self.run_until(at, |_| false)?;
            self.switch.advance_to(at);
        }
    }

    /// Everything that happens until `at`, which it is then.
    fn pass_until(&mut self, at: Picos) -> Result<(), Failure> {
        self.run_until(at, |_| false)?;
        self.switch.advance_to(at);
        Ok(())
    }

    /// What the switch holds at `at`. Frames on cables are none of it: a long one would hide how many wait.
    fn stock_at(&mut self, at: Picos) -> Result<Stock, Failure> {
        self.pass_until(at)?;
        Ok(Stock {
            held: self.switch.store().in_use() as u64 - self.on_wires,
            entered: self.running.entered,
        })
    }

    /// How long each port of the tester has been paused, ever.
    fn paused(&mut self, at: Picos) -> Vec<Picos> {
        let sources = self.sources.iter_mut();
        sources.map(|source| source.paused(at)).collect()
    }

    /// Refuses frames that would be refused one by one, or take hours.
    fn check_frames(&self, trial: &Trial) -> Result<(), Failure> {
        let frames = |stream: &Stream| {
            let rate = stream.size.line_rate_fps(&self.tester[stream.from].link) * stream.share;
            let span = stream.until.min(trial.duration).since(stream.start);
            stream
                .frames
                .map_or(rate * span.0 as f64 / 1e12, |frames| frames as f64)
        };
        let all: f64 = trial.streams.iter().map(frames).sum();
        if all > FRAMES_PER_TRIAL {
            return Err(Failure::usage(format!("a trial of {all:.1e} frames takes hours"))
                .fix("choose a shorter --trial-duration"));
        }
        let longest = trial
            .streams
            .iter()
            .map(|stream| stream.size.max_bytes())
            .max()
            .unwrap_or(0);
        let most = self
            .tester
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

    fn begin(&mut self, trial: &Trial) {
        let ports = self.tester.len();
        let groups = trial
            .streams
            .iter()
            .map(|stream| stream.group + 1)
            .max()
            .unwrap_or(0);
        let mut phases = trial
            .phases
            .map(|phase| Xoshiro256PlusPlus::seed_from_u64(self.options.seed.wrapping_add(phase)));
        // Nothing of an earlier trial is on its way any more; timers of the switch are.
        self.running = Running {
            begin: self.switch.now(),
            end: self.switch.now().saturating_add(trial.duration),
            received: trial
                .streams
                .iter()
                .map(|stream| Received::new(stream, ports))
                .collect(),
            latencies: vec![Latencies::default(); groups],
            ports: vec![PortOutcome::default(); ports],
            entered: 0,
            sending: Vec::with_capacity(trial.streams.len()),
        };
        for source in &mut self.sources {
            source.streams.clear();
        }
        for (index, stream) in trial.streams.iter().enumerate() {
            let phase = match &mut phases {
                // 53 bits: what a float holds.
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
            let (code, is_tagged) = self.codes[stream.from];
            let at = |port: usize| self.options.ports[port] as u16;
            let headers = Headers {
                at: &at,
                code,
                is_tagged,
            };
            let source = &mut self.sources[stream.from];
            source.streams.push(index);
            let sending = Sending::new(stream, (self.switch.now(), phase), &headers, source.link());
            self.running.sending.push(sending);
        }
        for port in 0..ports {
            if !self.sources[port].streams.is_empty() {
                self.switch.schedule(self.switch.now(), Event::Send(port as u16));
            }
        }
    }

    /// Bursts have no end but their last frame: until then.
    fn send_all(&mut self) -> Result<(), Failure> {
        let latest = self.switch.now().saturating_add(PATIENCE);
        self.run_until(latest, |this| this.running.sending.iter().all(Sending::is_over))
    }

    fn finish(&mut self, paused: &[Picos], backlog: Backlog, duration: Picos) -> Outcome {
        let mut running = std::mem::take(&mut self.running);
        for (port, told) in running.ports.iter_mut().enumerate() {
            told.paused = paused[port];
        }
        for source in &mut self.sources {
            source.streams.clear();
        }
        let streams = running
            .received
            .into_iter()
            .zip(&running.sending)
            .map(|(received, sending)| {
                let stream = &sending.stream;
                let rate = stream.size.line_rate_fps(&self.tester[stream.from].link) * stream.share;
                // Where a frame is lost it was sent on time: senders that are paused lose none.
                let at = |number: u64| Picos(stream.start.0 + (number as f64 * 1e12 / rate) as u64);
                received.finish((sending.sent, sending.wanted()), stream.from, at)
            });
        Outcome {
            streams: streams.collect(),
            ports: running.ports,
            latencies: running.latencies,
            duration,
            backlog: Some(backlog),
            tainted: Vec::new(),
        }
    }
}

impl Dut for VirtualDut {
    fn ports(&self) -> &[TesterPort] {
        &self.tester
    }

    fn is_lossless(&self) -> bool {
        self.is_lossless
    }

    fn restart(&mut self) -> Result<bool, Failure> {
        *self = VirtualDut::new(&self.config, self.options.clone())?;
        Ok(true)
    }

    fn check(&self, trial: &Trial) -> Result<(), Failure> {
        check(trial, self.tester.len(), |port| self.tester[port].name.clone())?;
        self.check_frames(trial)
    }

    fn run(&mut self, trial: &Trial) -> Result<Outcome, Failure> {
        self.check(trial)?;
        let before: Vec<Picos> = self.paused(self.switch.now());
        self.begin(trial);
        let end = self.running.end;
        // What was sent by a time is in the switch only when it has passed the cable.
        let half = self.after_cables(Picos(self.switch.now().0 + trial.duration.0 / 2), 1);
        let mut at_half = None;
        if half <= end {
            at_half = Some(self.stock_at(half)?);
        }
        self.pass_until(end)?;
        let paused = self.paused(end).into_iter().zip(before);
        let paused: Vec<Picos> = paused.map(|(paused, before)| paused.since(before)).collect();
        let at_half = match at_half {
            Some(stock) => stock,
            None => self.stock_at(half)?,
        };
        let at_end = self.stock_at(self.after_cables(end, 1))?;
        let unevenness = trial.streams.iter().map(|stream| stream.size.unevenness());
        let backlog = Backlog {
            half: at_half.held,
            end: at_end.held,
            sent_between: at_end.entered - at_half.entered,
            noise: (trial.streams.len() + self.tester.len()) as u64 * unevenness.max().unwrap_or(1),
        };
        self.send_all()?;
        self.rest()?;
        Ok(self.finish(&paused, backlog, trial.duration))
    }
}
