//! A data plane of ours between the ports of a tester, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use xoff_dataplane::config::{SwitchConfig, Trust};
use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::parse::parse_prefix;
use xoff_dataplane::wire::mac_control::MacControl;
use xoff_dataplane::{Arrival, Handle, Outputs, Picos, PortId, Store, Switch, TimerId, Transmit};

use super::facts::{frames_max, is_lossless, priorities};
use super::frames::{alone, classes, hello, preamble, station};
use super::outcome::{Backlog, Latencies, Outcome, PortOutcome};
use super::sink::{Came, Received};
use super::source::{Headers, Next, Sending, Source};
use super::traffic::{Trial, check};
use super::{Dut, TesterPort};
use crate::failure::{Exit, Failure};
use crate::replay::{CaptureStore, Origin};

/// Bits of a frame's number that count within its stream.
const NUMBER_BITS: u32 = 40;
/// A frame that belongs to no stream.
const OF_NO_STREAM: u64 = u64::MAX;
/// A trial has ended so long after its last frame was sent, or never will.
const PATIENCE: Picos = Picos::from_millis(10_000);
/// Frames of a trial beyond which it would take hours.
const FRAMES_PER_TRIAL: f64 = 2e9;
/// After so many events an interrupt is looked for.
const EVENTS_BETWEEN_LOOKS: u32 = 4_096;

/// How the tester stands towards the switch.
#[derive(Clone, Debug)]
pub struct VirtualOptions {
    /// Indices of the switch's ports that the tester is at.
    pub ports: Vec<usize>,
    /// Traffic class of all frames.
    pub class: u8,
    /// Senders obey pauses.
    pub is_obeying: bool,
    /// Propagation of each cable.
    pub delay: Picos,
    /// Draws phases of streams.
    pub seed: u64,
    /// Becomes true when the run is to end.
    pub stop: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A deadline of the switch.
    Timer(TimerId),
    /// The last bit of a stream's frame is at the switch.
    Arrive { frame: u32, stream: u32, template: u32 },
    /// A port of the tester may send.
    Send(u16),
}

/// A trial in progress.
#[derive(Debug, Default)]
struct Running {
    begin: Picos,
    end: Picos,
    sending: Vec<Sending>,
    received: Vec<Received>,
    latencies: Vec<Latencies>,
    ports: Vec<PortOutcome>,
    /// Frames that each port has sent.
    sent: Vec<u64>,
}

/// A switch in virtual time, and a tester at some of its ports.
///
/// It has the buffers, classes and flow control of its configuration. Its ports form one bridge, whatever the configuration connects
/// them by; its watchdog is off. One switch goes through all trials, drained between them.
#[derive(Debug)]
pub struct VirtualSwitch {
    config: SwitchConfig,
    switch: Switch,
    store: CaptureStore,
    outputs: Outputs,
    now: Picos,
    events: BinaryHeap<Reverse<(Picos, u64, Event)>>,
    created: u64,
    tester: Vec<TesterPort>,
    sources: Vec<Source>,
    /// Index of the tester's port at each port of the switch.
    at_port: Vec<Option<usize>>,
    options: VirtualOptions,
    /// DSCP or priority of the class at each port of the tester, and whether frames are tagged for it.
    codes: Vec<(u8, bool)>,
    is_lossless: bool,
    running: Running,
    looked: u32,
}

impl VirtualSwitch {
    /// A switch with this configuration.
    ///
    /// # Errors
    /// No header leads to the class at a port.
    pub fn new(config: &SwitchConfig, options: VirtualOptions) -> Result<VirtualSwitch, Failure> {
        let mut alone = alone(config, &options.ports);
        alone.frames_max = frames_max(config) as usize;
        let mut codes = Vec::new();
        let mut at_port = vec![None; config.ports.len()];
        for (index, &port) in options.ports.iter().enumerate() {
            at_port[port] = Some(index);
            let of = &config.ports[port];
            let Some((_, code)) = classes(of).into_iter().find(|(tc, _)| *tc == options.class) else {
                return Err(Failure::usage(format!(
                    "no frame that comes in on {} has traffic class {}",
                    of.name, options.class
                ))
                .because("its DSCP_TO_TC_MAP or DOT1P_TO_TC_MAP leads nowhere to that class")
                .fix("choose another --class"));
            };
            codes.push((code, of.classify.trust == Trust::Pcp));
        }
        let tester = options.ports.iter().map(|&port| TesterPort {
            name: config.ports[port].name.clone(),
            link: config.ports[port].link,
            // Ethernet header, tag and FCS.
            frame_bytes_max: config.ports[port].mtu + 18 + tag(config, port),
        });
        let source = |&port: &usize| {
            let priorities = priorities(config, port, options.class);
            Source::new(config.ports[port].link, priorities, options.is_obeying)
        };
        let mut this = VirtualSwitch {
            config: config.clone(),
            switch: Switch::new(&alone),
            store: CaptureStore::default(),
            outputs: Outputs::default(),
            now: Picos::ZERO,
            events: BinaryHeap::new(),
            created: 0,
            tester: tester.collect(),
            sources: options.ports.iter().map(source).collect(),
            at_port,
            codes,
            is_lossless: options.is_obeying
                && options
                    .ports
                    .iter()
                    .all(|&port| is_lossless(config, port, options.class)),
            options,
            running: Running::default(),
            looked: 0,
        };
        this.connect()?;
        Ok(this)
    }

    /// Brings the links up, and lets the switch learn where the stations are.
    fn connect(&mut self) -> Result<(), Failure> {
        let ports = self.options.ports.clone();
        for &port in &ports {
            let (now, port) = (self.now, PortId(port as u16));
            self.switch
                .set_link(now, port, true, &mut self.store, &mut self.outputs);
            self.drain();
        }
        for &port in &ports {
            let data: Rc<[u8]> = hello(station(port as u16)).into();
            let parsed = parse_prefix(&data, data.len());
            let (port, len) = (PortId(port as u16), data.len() as u32);
            let frame = self.store.insert(self.origin(OF_NO_STREAM, port, data, len));
            self.receive(
                port,
                Arrival {
                    frame,
                    frame_len: len,
                    parsed,
                    received_at: self.now,
                },
            );
            self.rest()?;
        }
        Ok(())
    }

    fn origin(&self, number: u64, port: PortId, data: Rc<[u8]>, len: u32) -> Origin {
        Origin {
            number,
            port,
            at: self.now,
            tc: 0,
            pg: 0,
            ecn: 0,
            data,
            len,
        }
    }

    fn push(&mut self, at: Picos, event: Event) {
        self.created += 1;
        self.events.push(Reverse((at, self.created, event)));
    }

    fn receive(&mut self, port: PortId, arrival: Arrival) {
        self.switch
            .receive(self.now, port, &arrival, &mut self.store, &mut self.outputs);
        self.drain();
    }

    fn drain(&mut self) {
        let mut outputs = std::mem::take(&mut self.outputs);
        for deadline in outputs.deadlines.drain(..) {
            self.push(deadline.at, Event::Timer(deadline.timer));
        }
        for transmit in outputs.transmits.drain(..) {
            self.hear(&transmit);
            self.store.release(transmit.frame);
        }
        for punt in outputs.punts.drain(..) {
            self.store.release(punt.frame);
        }
        outputs.events.clear();
        self.store.reclaim();
        self.outputs = outputs;
    }

    /// A frame comes out of the switch.
    fn hear(&mut self, transmit: &Transmit) {
        let Some(port) = self.at_port[transmit.port.index()] else {
            return;
        };
        let gap = self.tester[port].link.gap();
        let at = Picos(transmit.end.0 - gap.0).saturating_add(self.options.delay);
        let Some(origin) = self.store.origin(transmit.frame) else {
            self.hear_control(port, transmit.frame, at);
            return;
        };
        if origin.number == OF_NO_STREAM || self.store.frame_len(transmit.frame) < origin.len {
            return; // A trimmed frame is not whole: it counts as lost.
        }
        let stream = (origin.number >> NUMBER_BITS) as usize;
        let from = self.running.sending[stream].stream.from;
        let came = Came {
            port,
            number: origin.number & ((1 << NUMBER_BITS) - 1),
            span: at.since(origin.at.saturating_add(preamble(&self.tester[from].link))),
            in_time: at <= self.running.end,
        };
        self.running.received[stream].take(&came, &mut self.running.latencies);
    }

    /// A frame of the switch's own reaches a port of the tester at `at`.
    fn hear_control(&mut self, port: usize, frame: Handle, at: Picos) {
        let (enable, quanta) = match MacControl::parse(self.store.prefix(frame)) {
            Ok(MacControl::Pfc(pfc)) => (pfc.enable, pfc.quanta),
            Ok(MacControl::Pause { quanta }) => (0xff, [quanta; PRIORITIES]),
            Err(_) => return,
        };
        let named = (0..PRIORITIES).filter(|n| enable & 1 << n != 0);
        let stops = named.clone().any(|n| quanta[n] != 0);
        if let Some(told) = self.running.ports.get_mut(port) {
            told.xoff_frames += u64::from(stops);
            told.xon_frames += u64::from(named.clone().any(|n| quanta[n] == 0));
            if stops {
                let since = at.since(self.running.begin);
                told.first_xoff = told.first_xoff.or(Some(since));
                told.last_xoff = Some(since);
            }
        }
        self.sources[port].hear(at, enable, quanta);
        self.push(at, Event::Send(port as u16));
    }

    /// A port of the tester sends what is due, and says when it is to be asked again.
    fn send(&mut self, port: usize) {
        let index = match self.sources[port].next(self.now, &mut self.running.sending) {
            Next::Idle => return,
            Next::Wait(at) => return self.arm(port, at),
            Next::Send(index) => index,
        };
        let sending = &mut self.running.sending[index];
        let (template, span) = sending.next();
        let number = (index as u64) << NUMBER_BITS | sending.sent;
        sending.take();
        let of = &sending.templates[template];
        let (data, len) = (Rc::clone(&of.octets), of.frame_len);
        let from = PortId(self.options.ports[port] as u16);
        let frame = self.store.insert(self.origin(number, from, data, len));
        self.sources[port].sent(self.now, span);
        self.running.sent[port] += 1;
        let free = self.now.saturating_add(span);
        let last_bit = Picos(free.0 - self.tester[port].link.gap().0).saturating_add(self.options.delay);
        let arrive = Event::Arrive {
            frame: frame.0,
            stream: index as u32,
            template: template as u32,
        };
        self.push(last_bit, arrive);
        self.arm(port, free);
    }

    /// The port is asked at `at`, unless that is already so.
    fn arm(&mut self, port: usize, at: Picos) {
        let source = &mut self.sources[port];
        if at == Picos::NEVER || (source.armed > self.now && source.armed <= at) {
            return;
        }
        source.armed = at;
        self.push(at, Event::Send(port as u16));
    }

    /// Everything that happens until `until`, or until nothing is left to happen.
    fn run_until(&mut self, until: Picos, is_done: impl Fn(&Self) -> bool) -> Result<(), Failure> {
        while !is_done(self) {
            match self.events.peek() {
                Some(Reverse((at, ..))) if *at <= until => {}
                _ => break,
            }
            let Some(Reverse((at, _, event))) = self.events.pop() else {
                break;
            };
            self.now = self.now.max(at);
            self.happen(event);
            self.looked = self.looked.wrapping_add(1);
            if self.looked.is_multiple_of(EVENTS_BETWEEN_LOOKS) && self.options.stop.load(Ordering::Relaxed) {
                return Err(Failure::new(Exit::Interrupted, "interrupted during a trial"));
            }
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Timer(timer) => {
                self.switch
                    .expire(self.now, timer, &mut self.store, &mut self.outputs);
                self.drain();
            }
            Event::Arrive {
                frame,
                stream,
                template,
            } => {
                let sending = &self.running.sending[stream as usize];
                let of = &sending.templates[template as usize];
                let arrival = Arrival {
                    frame: Handle(frame),
                    frame_len: of.frame_len,
                    parsed: of.parsed,
                    received_at: self.now,
                };
                let port = PortId(self.options.ports[sending.stream.from] as u16);
                self.receive(port, arrival);
            }
            Event::Send(port) => {
                let port = usize::from(port);
                if self.sources[port].armed <= self.now {
                    self.sources[port].armed = Picos::NEVER;
                }
                self.send(port);
            }
        }
    }

    /// Lets time pass until no frame is in the switch or on a wire.
    fn rest(&mut self) -> Result<(), Failure> {
        let latest = self.now.saturating_add(PATIENCE);
        self.run_until(latest, |this| this.store.in_use() == 0)?;
        if self.store.in_use() == 0 {
            return self.be_let_go();
        }
        Err(Failure::new(Exit::Inconclusive, "the trial does not end")
            .because(format!(
                "{} frames are still in the switch {} s after the last one was sent",
                self.store.in_use(),
                PATIENCE.0 / 1_000_000_000_000
            ))
            .fix(
                "look for a shaper (SCHEDULER pir) that is too slow, or ports that pause each other for ever",
            ))
    }

    /// Until no pause holds a port of the tester: the next trial begins unpaused.
    fn be_let_go(&mut self) -> Result<(), Failure> {
        loop {
            let now = self.now;
            let latest = self
                .sources
                .iter_mut()
                .filter_map(|source| source.held_until(now))
                .min();
            let Some(at) = latest else {
                return Ok(());
            };
            self.run_until(at, |_| false)?;
            self.now = self.now.max(at);
        }
    }

    /// Refuses what would be refused frame by frame, or takes hours.
    fn check(&self, trial: &Trial) -> Result<(), Failure> {
        check(trial, self.tester.len(), |port| self.tester[port].name.clone())?;
        let frames = |stream: &super::Stream| {
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
            begin: self.now,
            end: self.now.saturating_add(trial.duration),
            received: trial
                .streams
                .iter()
                .map(|stream| Received::new(stream, ports))
                .collect(),
            latencies: vec![Latencies::default(); groups],
            ports: vec![PortOutcome::default(); ports],
            sent: vec![0; ports],
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
            let sending = Sending::new(stream, (self.now, phase), &headers, source.link());
            self.running.sending.push(sending);
        }
        for port in 0..ports {
            if !self.sources[port].streams.is_empty() {
                self.push(self.now, Event::Send(port as u16));
            }
        }
    }

    /// Bursts have no end but their last frame: until then.
    fn send_all(&mut self) -> Result<(), Failure> {
        let latest = self.now.saturating_add(PATIENCE);
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

impl Dut for VirtualSwitch {
    fn ports(&self) -> &[TesterPort] {
        &self.tester
    }

    fn is_lossless(&self) -> bool {
        self.is_lossless
    }

    fn restart(&mut self) -> Result<bool, Failure> {
        *self = VirtualSwitch::new(&self.config, self.options.clone())?;
        Ok(true)
    }

    fn run(&mut self, trial: &Trial) -> Result<Outcome, Failure> {
        self.check(trial)?;
        let before: Vec<Picos> = self
            .sources
            .iter_mut()
            .map(|source| source.paused(self.now))
            .collect();
        self.begin(trial);
        let (begin, end) = (self.now, self.running.end);
        let half = Picos(begin.0 + trial.duration.0 / 2);
        let sent = |this: &Self| this.running.sent.iter().sum::<u64>();
        self.run_until(half, |_| false)?;
        let (half_in, half_sent) = (self.store.in_use() as u64, sent(self));
        self.run_until(end, |_| false)?;
        self.now = self.now.max(end);
        let backlog = Backlog {
            half: half_in,
            end: self.store.in_use() as u64,
            sent_between: sent(self) - half_sent,
            noise: (trial.streams.len() + self.tester.len()) as u64,
        };
        let paused: Vec<Picos> = self
            .sources
            .iter_mut()
            .zip(before)
            .map(|(source, before)| source.paused(end).since(before))
            .collect();
        self.send_all()?;
        self.rest()?;
        Ok(self.finish(&paused, backlog, trial.duration))
    }
}

/// Octets of the tag that frames of a port have.
fn tag(config: &SwitchConfig, port: usize) -> u32 {
    if config.ports[port].classify.trust == Trust::Pcp {
        4
    } else {
        0
    }
}
