//! A data plane of ours between the ports of a tester, in virtual time.

mod trial;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use xoff_dataplane::config::{SwitchConfig, Trust};
use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{Arrival, Handle, Outputs, Picos, PortId, Store, Switch, TimerId, Transmit};
use xoff_wire::mac_control::MacControl;
use xoff_wire::parse::parse_prefix;

use super::TesterPort;
use super::facts::{frames_max, is_lossless, priorities};
use super::frames::{alone, classes, hello, preamble, station};
use super::outcome::{Latencies, PortOutcome};
use super::sink::{Came, Received};
use super::source::{Next, Sending, Source};
use crate::replay::{CaptureStore, Origin};
use xoff_telemetry::failure::{Exit, Failure};

/// Bits of a frame's number that count within its stream.
const NUMBER_BITS: u32 = 40;
/// A frame that belongs to no stream.
const OF_NO_STREAM: u64 = u64::MAX;
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
    /// Frames of the tester that have come to the switch.
    entered: u64,
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
    /// Frames on their way from the tester to the switch.
    on_wires: u64,
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
            on_wires: 0,
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

    /// What leaves at `at` is at the end of so many cables then.
    fn after_cables(&self, at: Picos, cables: u64) -> Picos {
        at.saturating_add(Picos(self.options.delay.0.saturating_mul(cables)))
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
        let gap = self.tester[port].link.gap_duration();
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
            // As long as was sent, from when a first frame can have gone both ways on.
            in_time: at <= self.after_cables(self.running.end, 2),
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
        let free = self.now.saturating_add(span);
        let last_bit =
            Picos(free.0 - self.tester[port].link.gap_duration().0).saturating_add(self.options.delay);
        let arrive = Event::Arrive {
            frame: frame.0,
            stream: index as u32,
            template: template as u32,
        };
        self.push(last_bit, arrive);
        self.on_wires += 1;
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
                self.on_wires -= 1;
                self.running.entered += 1;
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
}

/// Octets of the tag that frames of a port have.
fn tag(config: &SwitchConfig, port: usize) -> u32 {
    if config.ports[port].classify.trust == Trust::Pcp {
        4
    } else {
        0
    }
}
