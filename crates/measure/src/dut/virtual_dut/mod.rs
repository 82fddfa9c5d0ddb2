//! A switch with xoff's data plane between the ports of a tester, in virtual time.

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

use super::config_queries::{frame_capacity, is_lossless, pausing_priorities};
use super::device::TesterPort;
use super::frames::{
    isolated_switch_config, learning_frame, preamble_duration, reachable_classes, station_mac,
};
use super::receiver::{FrameArrival, StreamReceiver};
use super::sender::{PortSender, SendAction, StreamSender};
use super::trial_result::{LatencyHistogram, PortResult};
use crate::replay::{CaptureStore, FrameOrigin};
use xoff_telemetry::failure::{Exit, Failure};

/// Width in bits of the frame counter in a frame number. A frame number has the counter in its low bits and
/// the index of the stream in its high bits.
const FRAME_NUMBER_BITS: u32 = 40;
/// Number of a frame that belongs to no stream.
const NO_STREAM: u64 = u64::MAX;
/// Number of events between two checks for an interrupt.
const EVENTS_PER_STOP_CHECK: u32 = 4_096;

/// Settings of a tester that is connected to a switch in virtual time.
#[derive(Clone, Debug)]
pub struct VirtualDutOptions {
    /// Switch ports of the tester, as indices in [`SwitchConfig::ports`]. Element *n* is the switch port of
    /// tester port *n*.
    pub ports: Vec<usize>,
    /// Traffic class of all frames, 0 to 7.
    pub class: u8,
    /// True if the senders stop when the switch pauses them.
    pub honours_pauses: bool,
    /// Propagation delay of each cable between tester and switch.
    pub delay: Picos,
    /// Seed of the random start times of streams. [`Trial::phases`](super::Trial::phases) is added to
    /// this seed.
    pub seed: u64,
    /// When this value becomes true, the current trial fails with [`Exit::Interrupted`].
    pub stop: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TesterEvent {
    /// The last bit of a frame arrives at the switch.
    FrameArrival { frame: u32, stream: u32, template: u32 },
    /// A port of the tester can send its next frame.
    Send(u16),
}

/// The state of a trial in progress.
#[derive(Debug, Default)]
struct TrialState {
    begin: Picos,
    end: Picos,
    stream_senders: Vec<StreamSender>,
    receivers: Vec<StreamReceiver>,
    latencies: Vec<LatencyHistogram>,
    ports: Vec<PortResult>,
    /// Frames of the tester that have arrived at the switch.
    entered: u64,
}

/// A switch in virtual time, with a tester at some of its ports.
///
/// The switch has the buffers, traffic classes and PFC settings of its configuration. The ports of the tester
/// form one bridge, and the PFC watchdog is off. All trials use the same switch, which is empty at the start
/// of each trial.
#[derive(Debug)]
pub struct VirtualDut {
    config: SwitchConfig,
    switch: VirtualSwitch<CaptureStore, TesterEvent>,
    /// Buffer for departures. Empty between two calls.
    departures: Vec<Transmit>,
    tester_ports: Vec<TesterPort>,
    port_senders: Vec<PortSender>,
    /// Index of the tester port at each switch port.
    tester_port_at: Vec<Option<usize>>,
    options: VirtualDutOptions,
    /// DSCP or PCP of the traffic class at each tester port. The flag is true if the frames carry a VLAN tag.
    class_codes: Vec<(u8, bool)>,
    is_lossless: bool,
    trial: TrialState,
    /// Frames on the cables from the tester to the switch.
    frames_on_cables: u64,
    handled_events: u32,
}

impl VirtualDut {
    /// Creates a switch with the configuration `config` and connects the tester. The switch learns the
    /// station addresses of the tester.
    ///
    /// # Errors
    /// A port maps no DSCP (or PCP) to the traffic class, or the run is interrupted.
    pub fn new(config: &SwitchConfig, options: VirtualDutOptions) -> Result<VirtualDut, Failure> {
        let mut isolated = isolated_switch_config(config, &options.ports);
        isolated.frames_max = frame_capacity(config) as usize;
        let mut class_codes = Vec::new();
        let mut tester_port_at = vec![None; config.ports.len()];
        for (index, &port) in options.ports.iter().enumerate() {
            tester_port_at[port] = Some(index);
            let port_config = &config.ports[port];
            let Some((_, code)) = reachable_classes(port_config)
                .into_iter()
                .find(|(tc, _)| *tc == options.class)
            else {
                return Err(Failure::usage(format!(
                    "no frame received at {} gets traffic class {}",
                    port_config.name, options.class
                ))
                .because("its DSCP_TO_TC_MAP or DOT1P_TO_TC_MAP has no entry for that class")
                .fix("choose another --class"));
            };
            class_codes.push((code, port_config.classify.trust == TrustMode::Pcp));
        }
        let tester_ports = options.ports.iter().map(|&port| TesterPort {
            name: config.ports[port].name.clone(),
            link: config.ports[port].link,
            // Ethernet header, tag and FCS.
            frame_bytes_max: config.ports[port].mtu + 18 + tag_bytes(config, port),
        });
        let sender = |&port: &usize| {
            let priorities = pausing_priorities(config, port, options.class);
            PortSender::new(config.ports[port].link, priorities, options.honours_pauses)
        };
        let mut this = VirtualDut {
            config: config.clone(),
            switch: VirtualSwitch::new(&isolated, CaptureStore::default()),
            departures: Vec::new(),
            tester_ports: tester_ports.collect(),
            port_senders: options.ports.iter().map(sender).collect(),
            tester_port_at,
            class_codes,
            is_lossless: options.honours_pauses
                && options
                    .ports
                    .iter()
                    .all(|&port| is_lossless(config, port, options.class)),
            options,
            trial: TrialState::default(),
            frames_on_cables: 0,
            handled_events: 0,
        };
        this.connect()?;
        Ok(this)
    }

    /// Brings the links up and sends a frame from each station. From these frames, the switch learns the
    /// ports of the stations.
    fn connect(&mut self) -> Result<(), Failure> {
        let ports = self.options.ports.clone();
        for &port in &ports {
            self.switch.set_link(PortId(port as u16), true);
            self.handle_departures();
        }
        for &port in &ports {
            let data: Rc<[u8]> = learning_frame(station_mac(port as u16)).into();
            let parsed = parse_prefix(&data, data.len());
            let (port, len) = (PortId(port as u16), data.len() as u32);
            let frame = self.store_frame(NO_STREAM, port, data, len);
            self.deliver_to_switch(
                port,
                ReceivedFrame {
                    frame,
                    frame_len: len,
                    parsed,
                    received_at: self.switch.now(),
                },
            );
            self.wait_until_empty()?;
        }
        Ok(())
    }

    fn frame_origin(&self, number: u64, port: PortId, data: Rc<[u8]>, len: u32) -> FrameOrigin {
        FrameOrigin {
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

    fn store_frame(&mut self, number: u64, port: PortId, data: Rc<[u8]>, len: u32) -> FrameHandle {
        let origin = self.frame_origin(number, port, data, len);
        self.switch.store_mut().insert(origin)
    }

    /// Returns `at` plus the propagation delay of `cable_count` cables.
    fn add_cable_delay(&self, at: Picos, cable_count: u64) -> Picos {
        at.saturating_add(Picos(self.options.delay.0.saturating_mul(cable_count)))
    }

    fn deliver_to_switch(&mut self, port: PortId, frame: ReceivedFrame) {
        self.switch.receive(port, &frame);
        self.handle_departures();
    }

    fn handle_departures(&mut self) {
        let mut departures = std::mem::take(&mut self.departures);
        self.switch
            .take_departures(|departure, _| departures.push(departure));
        for departure in departures.drain(..) {
            self.handle_departure(&departure);
            self.switch.store_mut().release(departure.frame);
        }
        self.switch.store_mut().reclaim_released();
        self.departures = departures;
    }

    /// Handles a frame that leaves the switch.
    fn handle_departure(&mut self, transmit: &Transmit) {
        let Some(port) = self.tester_port_at[transmit.port.index()] else {
            return;
        };
        let gap = self.tester_ports[port].link.gap_duration();
        let at = Picos(transmit.end.0 - gap.0).saturating_add(self.options.delay);
        let Some(origin) = self.switch.store().origin(transmit.frame) else {
            self.handle_control_frame(port, transmit.frame, at);
            return;
        };
        if origin.number == NO_STREAM || self.switch.store().frame_len(transmit.frame) < origin.len {
            return; // A trimmed frame counts as lost.
        }
        let stream = (origin.number >> FRAME_NUMBER_BITS) as usize;
        let from = self.trial.stream_senders[stream].stream.from;
        let arrival = FrameArrival {
            port,
            number: origin.number & ((1 << FRAME_NUMBER_BITS) - 1),
            latency: at.since(
                origin
                    .at
                    .saturating_add(preamble_duration(&self.tester_ports[from].link)),
            ),
            // The receive window is as long as the sending time. It starts when the first frame can have
            // passed both cables.
            is_in_time: at <= self.add_cable_delay(self.trial.end, 2),
        };
        self.trial.receivers[stream].record_frame(&arrival, &mut self.trial.latencies);
    }

    /// Handles a MAC control frame of the switch that arrives at a tester port at `at`.
    fn handle_control_frame(&mut self, port: usize, frame: FrameHandle, at: Picos) {
        let (enable, quanta) = match MacControl::parse(self.switch.store().prefix(frame)) {
            Ok(MacControl::Pfc(pfc)) => (pfc.enable, pfc.quanta),
            Ok(MacControl::Pause { quanta }) => (0xff, [quanta; PRIORITIES]),
            Err(_) => return,
        };
        let named = (0..PRIORITIES).filter(|n| enable & 1 << n != 0);
        let stops = named.clone().any(|n| quanta[n] != 0);
        if let Some(pauses) = self.trial.ports.get_mut(port) {
            pauses.xoff_frames += u64::from(stops);
            pauses.xon_frames += u64::from(named.clone().any(|n| quanta[n] == 0));
            if stops {
                let since = at.since(self.trial.begin);
                pauses.first_xoff = pauses.first_xoff.or(Some(since));
                pauses.last_xoff = Some(since);
            }
        }
        self.port_senders[port].receive_pause(at, enable, quanta);
        self.switch.schedule(at, TesterEvent::Send(port as u16));
    }

    /// Sends the due frame of a tester port and schedules the next call.
    fn send_due_frame(&mut self, port: usize) {
        let index =
            match self.port_senders[port].next_action(self.switch.now(), &mut self.trial.stream_senders) {
                SendAction::Idle => return,
                SendAction::Wait(at) => return self.schedule_send(port, at),
                SendAction::Send(index) => index,
            };
        let sender = &mut self.trial.stream_senders[index];
        let (template, span) = sender.next_template();
        let number = (index as u64) << FRAME_NUMBER_BITS | sender.sent;
        sender.count_sent_frame();
        let frame_template = &sender.templates[template];
        let (data, len) = (Rc::clone(&frame_template.bytes), frame_template.frame_len);
        let from = PortId(self.options.ports[port] as u16);
        let frame = self.store_frame(number, from, data, len);
        self.port_senders[port].occupy_link(self.switch.now(), span);
        let free = self.switch.now().saturating_add(span);
        let last_bit =
            Picos(free.0 - self.tester_ports[port].link.gap_duration().0).saturating_add(self.options.delay);
        let arrive = TesterEvent::FrameArrival {
            frame: frame.0,
            stream: index as u32,
            template: template as u32,
        };
        self.switch.schedule(last_bit, arrive);
        self.frames_on_cables += 1;
        self.schedule_send(port, free);
    }

    /// Schedules a send event for a tester port, unless an earlier event is pending.
    fn schedule_send(&mut self, port: usize, at: Picos) {
        let sender = &mut self.port_senders[port];
        if at == Picos::NEVER || (sender.scheduled_at > self.switch.now() && sender.scheduled_at <= at) {
            return;
        }
        sender.scheduled_at = at;
        self.switch.schedule(at, TesterEvent::Send(port as u16));
    }

    /// Handles events up to the time `until`. Returns earlier if no event is left or if `is_done`
    /// returns true.
    fn run_until(&mut self, until: Picos, is_done: impl Fn(&Self) -> bool) -> Result<(), Failure> {
        while !is_done(self) {
            match self.switch.step(until) {
                Step::Idle => break,
                Step::Deadline => self.handle_departures(),
                Step::Event(event) => self.handle_event(event),
            }
            self.handled_events = self.handled_events.wrapping_add(1);
            if self.handled_events.is_multiple_of(EVENTS_PER_STOP_CHECK)
                && self.options.stop.load(Ordering::Relaxed)
            {
                return Err(Failure::new(Exit::Interrupted, "interrupted during a trial"));
            }
        }
        Ok(())
    }

    fn handle_event(&mut self, event: TesterEvent) {
        match event {
            TesterEvent::FrameArrival {
                frame,
                stream,
                template,
            } => {
                let sender = &self.trial.stream_senders[stream as usize];
                let frame_template = &sender.templates[template as usize];
                let arrival = ReceivedFrame {
                    frame: FrameHandle(frame),
                    frame_len: frame_template.frame_len,
                    parsed: frame_template.parsed,
                    received_at: self.switch.now(),
                };
                let port = PortId(self.options.ports[sender.stream.from] as u16);
                self.frames_on_cables -= 1;
                self.trial.entered += 1;
                self.deliver_to_switch(port, arrival);
            }
            TesterEvent::Send(port) => {
                let port = usize::from(port);
                if self.port_senders[port].scheduled_at <= self.switch.now() {
                    self.port_senders[port].scheduled_at = Picos::NEVER;
                }
                self.send_due_frame(port);
            }
        }
    }
}

/// Returns the bytes of the 802.1Q tag of a port's frames, 0 or 4.
fn tag_bytes(config: &SwitchConfig, port: usize) -> u32 {
    if config.ports[port].classify.trust == TrustMode::Pcp {
        4
    } else {
        0
    }
}
