//! A data plane of ours between the ports of a tester, in virtual time.

mod trial;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use xoff_dataplane::config::{SwitchConfig, TrustMode};
use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{FrameHandle, FrameStore, Picos, PortId, ReceivedFrame, Transmit};
use xoff_driver::{Step, VirtualSwitch};
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
pub struct VirtualDut {
    config: SwitchConfig,
    switch: VirtualSwitch<CaptureStore, Event>,
    /// Departures that are being handled; empty between calls.
    departures: Vec<Transmit>,
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

impl VirtualDut {
    /// A switch with this configuration.
    ///
    /// # Errors
    /// No header leads to the class at a port.
    pub fn new(config: &SwitchConfig, options: VirtualOptions) -> Result<VirtualDut, Failure> {
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
            codes.push((code, of.classify.trust == TrustMode::Pcp));
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
        let mut this = VirtualDut {
            config: config.clone(),
            switch: VirtualSwitch::new(&alone, CaptureStore::default()),
            departures: Vec::new(),
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
            self.switch.set_link(PortId(port as u16), true);
            self.drain();
        }
        for &port in &ports {
            let data: Rc<[u8]> = hello(station(port as u16)).into();
            let parsed = parse_prefix(&data, data.len());
            let (port, len) = (PortId(port as u16), data.len() as u32);
            let frame = self.insert(OF_NO_STREAM, port, data, len);
            self.receive(
                port,
                ReceivedFrame {
                    frame,
                    frame_len: len,
                    parsed,
                    received_at: self.switch.now(),
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
            at: self.switch.now(),
            tc: 0,
            pg: 0,
            ecn: 0,
            data,
            len,
        }
    }

    fn insert(&mut self, number: u64, port: PortId, data: Rc<[u8]>, len: u32) -> FrameHandle {
        let origin = self.origin(number, port, data, len);
        self.switch.store_mut().insert(origin)
    }

    /// What leaves at `at` is at the end of so many cables then.
    fn after_cables(&self, at: Picos, cables: u64) -> Picos {
        at.saturating_add(Picos(self.options.delay.0.saturating_mul(cables)))
    }

    fn receive(&mut self, port: PortId, arrival: ReceivedFrame) {
        self.switch.receive(port, &arrival);
        self.drain();
    }

    fn drain(&mut self) {
        let mut departures = std::mem::take(&mut self.departures);
        self.switch
            .take_departures(|departure, _| departures.push(departure));
        for departure in departures.drain(..) {
            self.hear(&departure);
            self.switch.store_mut().release(departure.frame);
        }
        self.switch.store_mut().reclaim();
        self.departures = departures;
    }

    /// A frame comes out of the switch.
    fn hear(&mut self, transmit: &Transmit) {
        let Some(port) = self.at_port[transmit.port.index()] else {
            return;
        };
        let gap = self.tester[port].link.gap_duration();
        let at = Picos(transmit.end.0 - gap.0).saturating_add(self.options.delay);
        let Some(origin) = self.switch.store().origin(transmit.frame) else {
            self.hear_control(port, transmit.frame, at);
            return;
        };
        if origin.number == OF_NO_STREAM || self.switch.store().frame_len(transmit.frame) < origin.len {
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
    fn hear_control(&mut self, port: usize, frame: FrameHandle, at: Picos) {
        let (enable, quanta) = match MacControl::parse(self.switch.store().prefix(frame)) {
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
        self.switch.schedule(at, Event::Send(port as u16));
    }

    /// A port of the tester sends what is due, and says when it is to be asked again.
    fn send(&mut self, port: usize) {
        let index = match self.sources[port].next(self.switch.now(), &mut self.running.sending) {
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
        let frame = self.insert(number, from, data, len);
        self.sources[port].sent(self.switch.now(), span);
        let free = self.switch.now().saturating_add(span);
        let last_bit =
            Picos(free.0 - self.tester[port].link.gap_duration().0).saturating_add(self.options.delay);
        let arrive = Event::Arrive {
            frame: frame.0,
            stream: index as u32,
            template: template as u32,
        };
        self.switch.schedule(last_bit, arrive);
        self.on_wires += 1;
        self.arm(port, free);
    }

    /// The port is asked at `at`, unless that is already so.
    fn arm(&mut self, port: usize, at: Picos) {
        let source = &mut self.sources[port];
        if at == Picos::NEVER || (source.armed > self.switch.now() && source.armed <= at) {
            return;
        }
        source.armed = at;
        self.switch.schedule(at, Event::Send(port as u16));
    }

    /// Everything that happens until `until`, or until nothing is left to happen.
    fn run_until(&mut self, until: Picos, is_done: impl Fn(&Self) -> bool) -> Result<(), Failure> {
        while !is_done(self) {
            match self.switch.step(until) {
                Step::Idle => break,
                Step::Deadline => self.drain(),
                Step::Event(event) => self.handle(event),
            }
            self.looked = self.looked.wrapping_add(1);
            if self.looked.is_multiple_of(EVENTS_BETWEEN_LOOKS) && self.options.stop.load(Ordering::Relaxed) {
                return Err(Failure::new(Exit::Interrupted, "interrupted during a trial"));
            }
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive {
                frame,
                stream,
                template,
            } => {
                let sending = &self.running.sending[stream as usize];
                let of = &sending.templates[template as usize];
                let arrival = ReceivedFrame {
                    frame: FrameHandle(frame),
                    frame_len: of.frame_len,
                    parsed: of.parsed,
                    received_at: self.switch.now(),
                };
                let port = PortId(self.options.ports[sending.stream.from] as u16);
                self.on_wires -= 1;
                self.running.entered += 1;
                self.receive(port, arrival);
            }
            Event::Send(port) => {
                let port = usize::from(port);
                if self.sources[port].armed <= self.switch.now() {
                    self.sources[port].armed = Picos::NEVER;
                }
                self.send(port);
            }
        }
    }
}

/// Octets of the tag that frames of a port have.
fn tag(config: &SwitchConfig, port: usize) -> u32 {
    if config.ports[port].classify.trust == TrustMode::Pcp {
        4
    } else {
        0
    }
}
