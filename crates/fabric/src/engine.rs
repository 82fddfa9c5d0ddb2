//! The fabric itself: what each event does.

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::route::RouteHint;
use xoff_dataplane::{Arrival, Handle, Outputs, Picos, PortId, Store, Switch, TimerId, Transmit, Verdict};
use xoff_wire::parse::ParsedHeaders;

use super::fault::FaultAction;
use super::observer::{FrameView, Observer};
use super::parts::Parts;
use super::pending::Pending;
use super::plan::End;
use super::queue::Event;
use super::store::FabricStore;
use super::wire::Wire;
use xoff_driver::CpuPort;
use xoff_driver::journal::Journal;
use xoff_host::Host;
use xoff_rdma::HopTelemetry;

mod build;
mod changes;
mod hosts;
mod reading;
mod running;

/// Most events without time going on: more are no traffic but a mistake.
pub const EVENTS_AT_ONCE_MAX: u64 = 10_000_000;

/// Sources: wires count up from zero, timers of switches and hosts have a bit each. So have they where it says what an event is, beside
/// the frames that arrive.
const SWITCH: u32 = 1 << 31;
const HOST: u32 = 1 << 30;
/// Beside [`HOST`]: its link is free again. Only where insertion orders events.
const LINK_FREE: u32 = 1 << 29;
/// Beside [`HOST`]: a timer of it that sends nothing by itself. Only where insertion orders events.
const HOST_TIMER: u32 = 1 << 28;
/// Which host, of a source that has [`HOST`].
const HOST_NUMBER: u32 = !(SWITCH | HOST | LINK_FREE | HOST_TIMER);
/// A source of a switch's timer holds the switch above these bits.
const TIMER_BITS: u32 = 16;
const SWITCHES_MAX: usize = 1 << 15;
const HOSTS_MAX: usize = 1 << 24;
/// No wire: the port or NIC has no link.
const NO_WIRE: u32 = u32::MAX;

/// Why a run came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The time it was given has come; what lies later has not happened.
    Time,
    /// A host has completed something: see [`Fabric::take_completions`].
    Completion,
    /// Nothing will ever happen again by itself.
    Idle,
    /// Time does not go on: [`EVENTS_AT_ONCE_MAX`] events at one time.
    Stuck,
    /// All events that it may handle have been: see [`Fabric::set_events_max`].
    Spent,
}

#[derive(Debug)]
struct SwitchNode {
    switch: Switch,
    cpu: CpuPort,
    journal: Journal,
    config: SwitchConfig,
    /// The wire out of each port.
    wires: Vec<u32>,
}

#[derive(Debug)]
struct HostNode {
    host: Host,
    wire: u32,
    /// The earliest event that is out for it.
    armed: Picos,
    /// Its link is busy until that is told. Only where insertion orders events.
    busy: bool,
    /// The earliest event of its timers that is out. Only where insertion orders events, and those of departures stand apart.
    timer_armed: Picos,
}

/// Switches, hosts and links in virtual time.
#[derive(Debug)]
pub struct Fabric {
    now: Picos,
    pending: Pending,
    parts: Parts,
    /// So far the nodes may be apart in time: no frame is faster between two parts, hosts together.
    lookahead: Picos,
    /// Links lead from a host to another: never do groups of hosts go on apart.
    hosts_linked: bool,
    switches: Vec<SwitchNode>,
    hosts: Vec<HostNode>,
    /// Link *n* is wires 2n (from its first end) and 2n + 1.
    wires: Vec<Wire>,
    store: FabricStore,
    outputs: Outputs,
    buffer: Vec<u8>,
    events: u64,
    events_max: u64,
    frame_hops: u64,
    moves: u64,
    seed: u64,
    /// The last insertion's number, where insertion orders events of one time.
    insertions: Option<u32>,
}

impl Fabric {
    /// From now on the events of one time happen in the order of their insertion, as in ns-3, instead of by their places in
    /// the plan; and a link is busy until the event of its release, which is inserted when its transmission begins. For runs
    /// that are held against such a simulator, where chance has it that whole frames leave and arrive in the same nanosecond.
    ///
    /// Insertions are numbered in 32 bits: two events of one time are in order if fewer than 2^32 lie between them.
    pub fn order_by_insertion(&mut self) {
        self.insertions = Some(0);
        // What a link's coming up has sent is under way already.
        for event in self.pending.iter().filter(|event| is_arrival(*event)) {
            self.store.set_wire(Handle(event.what()), event.rank());
        }
        for node in &mut self.switches {
            node.switch.set_links_free_by_deadline(true);
        }
    }

    /// The rank of an event that is inserted now.
    #[inline]
    fn rank(&mut self, source: u32) -> u32 {
        match &mut self.insertions {
            None => source,
            Some(last) => {
                *last = last.wrapping_add(1);
                *last
            }
        }
    }

    #[inline]
    fn push(&mut self, part: usize, at: Picos, source: u32) {
        let rank = self.rank(source);
        self.pending.push(part, Event::new(at, rank, source));
    }

    /// How many events it may handle in its life; without it, as many as there are.
    pub fn set_events_max(&mut self, events_max: u64) {
        self.events_max = events_max;
    }

    /// Lets model time go on to `at`, as far as nothing happens before: after [`Halt::Idle`], for what is to be done later.
    pub fn wait(&mut self, at: Picos) {
        let free = self.next_event().map_or(at, |next| next.min(at));
        self.stand_at(self.now.max(free));
    }

    /// Handles an event. Whether a host has completed something.
    #[inline(always)]
    fn handle(&mut self, event: Event, ahead: RouteHint, observer: &mut impl Observer) -> bool {
        self.events += 1;
        let source = event.what();
        if source & SWITCH != 0 {
            let switch = ((source & !SWITCH) >> TIMER_BITS) as usize;
            let timer = TimerId(source & ((1 << TIMER_BITS) - 1));
            let node = &mut self.switches[switch];
            node.switch
                .expire(self.now, timer, &mut self.store, &mut self.outputs);
            self.drain(switch, observer);
            false
        } else if source & HOST != 0 {
            let host = (source & HOST_NUMBER) as usize;
            if source & LINK_FREE != 0 {
                self.hosts[host].busy = false;
                self.serve_host(host, false, observer)
            } else if source & HOST_TIMER != 0 {
                self.advance_host(host, observer)
            } else {
                self.wake_host(host, observer)
            }
        } else {
            let wire = wire_of(event, self.insertions.is_some(), &self.store);
            self.arrive(wire, Handle(source), ahead, observer)
        }
    }

    /// A frame has arrived over a wire.
    #[inline(always)]
    fn arrive<O: Observer>(&mut self, wire: u32, frame: Handle, ahead: RouteHint, observer: &mut O) -> bool {
        let to = self.wires[wire as usize].to;
        self.frame_hops += 1;
        if O::WATCHES {
            observer.arrived(self.now, to, view(&self.store, frame));
        }
        match to {
            End::Switch { switch, port } => {
                self.arrive_at_switch((switch as usize, PortId(port)), frame, ahead, observer);
                false
            }
            End::Host(host) => self.arrive_at_host(host as usize, frame, observer),
        }
    }

    #[inline]
    fn arrive_at_switch(
        &mut self,
        at: (usize, PortId),
        frame: Handle,
        ahead: RouteHint,
        observer: &mut impl Observer,
    ) {
        match self.store.known(frame) {
            Some(parsed) => self.enter_switch(at, (frame, parsed), ahead, observer),
            None => self.read_and_enter_switch(at, frame, ahead, observer),
        }
    }

    /// As [`Fabric::arrive_at_switch`], of a frame whose headers have not been read. By itself: where what they say may come from two
    /// places, it goes through memory.
    #[inline(never)]
    fn read_and_enter_switch(
        &mut self,
        at: (usize, PortId),
        frame: Handle,
        ahead: RouteHint,
        observer: &mut impl Observer,
    ) {
        let parsed = self.store.parsed(frame);
        self.enter_switch(at, (frame, parsed), ahead, observer);
    }

    #[inline(always)]
    fn enter_switch(
        &mut self,
        (switch, port): (usize, PortId),
        (frame, parsed): (Handle, ParsedHeaders),
        ahead: RouteHint,
        observer: &mut impl Observer,
    ) {
        let arrival = Arrival {
            frame,
            frame_len: self.store.frame_len(frame),
            parsed,
            received_at: self.now,
        };
        let node = &mut self.switches[switch];
        let verdict = node.switch.receive_ahead(
            self.now,
            port,
            &arrival,
            ahead,
            &mut self.store,
            &mut self.outputs,
        );
        self.moves += u64::from(!matches!(verdict, Verdict::Control));
        for port in node.switch.marked_on_arrival() {
            let port = End::Switch {
                switch: switch as u32,
                port: port.0,
            };
            observer.marked(self.now, port);
        }
        observer.decided(self.now, switch as u32, port, &verdict);
        self.drain(switch, observer);
    }

    /// Takes what has come out of a switch.
    #[inline(always)]
    fn drain(&mut self, switch: usize, observer: &mut impl Observer) {
        self.pass_on(switch, observer);
        if self.outputs.punts.is_empty() {
            return;
        }
        self.serve_cpu(switch, observer);
    }

    #[inline(always)]
    fn pass_on(&mut self, switch: usize, observer: &mut impl Observer) {
        for index in 0..self.outputs.deadlines.len() {
            let deadline = self.outputs.deadlines[index];
            self.push(
                self.parts.of_switch(switch),
                deadline.at,
                SWITCH | (switch as u32) << TIMER_BITS | deadline.timer.0,
            );
        }
        self.outputs.deadlines.clear();
        for index in 0..self.outputs.transmits.len() {
            let departure = self.outputs.transmits[index];
            let wire = self.switches[switch].wires[departure.port.index()];
            if self.store.has_telemetry()
                && let Some(telemetry) = self.store.telemetry_mut(departure.frame)
            {
                let node = &self.switches[switch];
                telemetry.push(hop(&node.switch, &node.config, departure));
            }
            if departure.marked {
                let from = End::Switch {
                    switch: switch as u32,
                    port: departure.port.0,
                };
                observer.marked(self.now, from);
            }
            self.launch(wire, departure.end, departure.frame, observer);
        }
        self.outputs.transmits.clear();
        if !self.outputs.events.is_empty() {
            self.tell(switch, observer);
        }
    }

    #[cold]
    fn tell(&mut self, switch: usize, observer: &mut impl Observer) {
        for event in &self.outputs.events {
            observer.told(switch as u32, event);
        }
        let node = &mut self.switches[switch];
        node.journal.take(&mut self.outputs.events, &node.switch);
    }

    #[cold]
    fn serve_cpu(&mut self, switch: usize, observer: &mut impl Observer) {
        let mut cpu = std::mem::take(&mut self.switches[switch].cpu);
        let mut outputs = std::mem::take(&mut self.outputs);
        let mut store = std::mem::take(&mut self.store);
        cpu.take(&mut outputs);
        let mut behind = Outputs::default();
        // The CPU port answers through the switch, so the switch is outside of the fabric meanwhile.
        let Fabric { switches, now, .. } = self;
        cpu.serve(
            *now,
            &mut switches[switch].switch,
            &mut outputs,
            &mut store,
            |outputs, _| {
                behind.transmits.append(&mut outputs.transmits);
                behind.deadlines.append(&mut outputs.deadlines);
            },
        );
        (self.store, self.outputs) = (store, outputs);
        self.outputs.transmits.append(&mut behind.transmits);
        self.outputs.deadlines.append(&mut behind.deadlines);
        self.switches[switch].cpu = cpu;
        self.pass_on(switch, observer);
    }

    /// A frame begins to leave: it is on its wire, unless the link is down or takes it.
    #[inline(always)]
    fn launch<O: Observer>(&mut self, index: u32, end: Picos, frame: Handle, observer: &mut O) {
        let rank = self.rank(index);
        let Some(wire) = self.wires.get_mut(index as usize).filter(|wire| wire.up) else {
            // A port without a link: what leaves by it is nobody's.
            self.store.release(frame);
            return;
        };
        if O::WATCHES {
            observer.departed(self.now, end, wire.from, view(&self.store, frame));
        }
        if !wire.faults.is_empty() {
            match wire.faults.strike(&view(&self.store, frame)) {
                Some(FaultAction::Drop) => {
                    wire.lost_frames += 1;
                    observer.struck(self.now, wire.from, view(&self.store, frame), true);
                    self.store.release(frame);
                    return;
                }
                Some(FaultAction::Corrupt) => {
                    self.store.damage(frame);
                    observer.struck(self.now, wire.from, view(&self.store, frame), false);
                }
                None => {}
            }
        }
        if self.insertions.is_some() {
            self.store.set_wire(frame, index);
        }
        let at = wire.put(end);
        self.pending
            .push(wire.to_part as usize, Event::new(at, rank, frame.0));
    }
}

/// Whether an event is a frame that arrives.
#[inline]
fn is_arrival(event: Event) -> bool {
    event.what() & (SWITCH | HOST) == 0
}

/// The wire over which the frame of an event comes; `inserted`: ranks are numbers of insertion.
#[inline]
fn wire_of(event: Event, inserted: bool, store: &FabricStore) -> u32 {
    match inserted {
        false => event.rank(),
        true => store.wire(Handle(event.what())),
    }
}

/// What a port writes into a frame that leaves by it and collects telemetry.
#[cold]
fn hop(switch: &Switch, config: &SwitchConfig, departure: Transmit) -> HopTelemetry {
    let load = switch.load(departure.port);
    HopTelemetry {
        at: departure.start,
        tx_bytes: load.tx_bytes,
        queue_bytes: load.queued_bytes,
        speed_mbps: config.ports[departure.port.index()].link.speed_mbps,
    }
}

#[inline]
fn view(store: &FabricStore, frame: Handle) -> FrameView<'_> {
    FrameView {
        prefix: store.prefix(frame),
        frame_len: store.frame_len(frame),
        damaged: store.is_damaged(frame),
    }
}
