//! The fabric itself: what each event does.

use xoff_dataplane::config::{PortWatchdog, SwitchConfig, WatchdogAction};
use xoff_dataplane::parse::{Payload, parse_prefix};
use xoff_dataplane::{
    ApplyError, Arrival, Handle, Outputs, Picos, PortId, Store, Switch, TimerId, Transmit, Verdict,
};

use super::fault::{Fault, FaultAction};
use super::observer::{FrameView, Observer};
use super::plan::{End, FabricPlan, PlanError};
use super::queue::{Event, EventQueue, Source};
use super::store::FabricStore;
use super::wire::Wire;
use crate::driver::engine::CpuPort;
use crate::driver::journal::Journal;
use crate::driver::snapshot::{PortFacts, snapshot};
use crate::host::{Host, Inbound};
use crate::rdma::{Completion, HopTelemetry};
use crate::report::SwitchSnapshot;

/// Most events without time going on: more are no traffic but a mistake.
pub const EVENTS_AT_ONCE_MAX: u64 = 10_000_000;

/// Sources: wires count up from zero, timers of switches and hosts have a bit each.
const SWITCH: u32 = 1 << 31;
const HOST: u32 = 1 << 30;
/// Beside [`HOST`]: its link is free again. Only where insertion orders events.
const LINK_FREE: u32 = 1 << 29;
/// Beside [`HOST`]: a timer of it that sends nothing by itself. Only where insertion orders events.
const HOST_TIMER: u32 = 1 << 28;
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
    queue: EventQueue,
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
    /// A fabric at time zero, every link up. `seed` is for faults that draw; switches have seeds of their own.
    ///
    /// # Errors
    /// An end of a link that is not there or used twice, too many of something, a host that cannot be.
    pub fn new(plan: FabricPlan, seed: u64) -> Result<Fabric, PlanError> {
        check_counts(&plan)?;
        let links = plan.links.len();
        let mut fabric = Fabric {
            now: Picos::ZERO,
            queue: EventQueue::default(),
            switches: Vec::with_capacity(plan.switches.len()),
            hosts: Vec::with_capacity(plan.hosts.len()),
            wires: Vec::with_capacity(2 * links),
            store: FabricStore::default(),
            outputs: Outputs::with_capacity(64),
            buffer: Vec::new(),
            events: 0,
            events_max: u64::MAX,
            frame_hops: 0,
            moves: 0,
            seed,
            insertions: None,
        };
        for config in plan.switches {
            fabric.add_switch(config);
        }
        for config in &plan.hosts {
            let host = Host::new(config)?;
            fabric.hosts.push(HostNode {
                host,
                wire: NO_WIRE,
                armed: Picos::NEVER,
                busy: false,
                timer_armed: Picos::NEVER,
            });
        }
        for link in &plan.links {
            fabric.add_link(&link.name, link.ends, link.delay)?;
        }
        for link in 0..links {
            fabric.set_link(link, true, &mut ());
        }
        Ok(fabric)
    }

    /// From now on the events of one time happen in the order of their insertion, as in ns-3, instead of by their places in
    /// the plan; and a link is busy until the event of its release, which is inserted when its transmission begins. For runs
    /// that are held against such a simulator, where chance has it that whole frames leave and arrive in the same nanosecond.
    ///
    /// Insertions are numbered in 32 bits: two events of one time are in order if fewer than 2^32 lie between them.
    pub fn order_by_insertion(&mut self) {
        self.insertions = Some(0);
        for node in &mut self.switches {
            node.switch.set_links_free_by_deadline(true);
        }
    }

    /// The number of an insertion.
    #[inline]
    fn next_order(&mut self) -> u32 {
        match &mut self.insertions {
            None => 0,
            Some(last) => {
                *last = last.wrapping_add(1);
                *last
            }
        }
    }

    #[inline]
    fn push(&mut self, at: Picos, source: u32) {
        let order = self.next_order();
        self.queue.push(Event {
            at,
            order,
            source: Source(source),
        });
    }

    fn add_switch(&mut self, config: SwitchConfig) {
        let mut node = SwitchNode {
            switch: Switch::new(&config),
            cpu: CpuPort::default(),
            journal: Journal::default(),
            wires: vec![NO_WIRE; config.ports.len()],
            config,
        };
        node.cpu.reconfigure(&mut node.switch, &node.config.routing);
        self.switches.push(node);
    }

    fn add_link(&mut self, name: &str, ends: [End; 2], delay: Picos) -> Result<(), PlanError> {
        for (direction, (from, to)) in [(ends[0], ends[1]), (ends[1], ends[0])].into_iter().enumerate() {
            let index = self.wires.len() as u32;
            let no_such_end = || PlanError::NoSuchEnd {
                link: name.to_owned(),
                end: from,
            };
            let (wire, timing) = match from {
                End::Switch { switch, port } => {
                    let node = self.switches.get_mut(switch as usize).ok_or_else(no_such_end)?;
                    let config = node.config.ports.get(usize::from(port)).ok_or_else(no_such_end)?;
                    (&mut node.wires[usize::from(port)], config.link)
                }
                End::Host(host) => {
                    let node = self.hosts.get_mut(host as usize).ok_or_else(no_such_end)?;
                    (&mut node.wire, *node.host.link())
                }
            };
            if *wire != NO_WIRE {
                return Err(PlanError::EndInUse {
                    link: name.to_owned(),
                    end: from,
                });
            }
            *wire = index;
            debug_assert_eq!(index as usize % 2, direction);
            self.wires.push(Wire::new(from, to, delay, timing));
        }
        Ok(())
    }

    /// Handles events in their order until `until`, and those at `until`. It comes back earlier when a host completes
    /// something, and when nothing is left to happen.
    pub fn run(&mut self, until: Picos, observer: &mut impl Observer) -> Halt {
        let mut at_once = 0;
        loop {
            let Some(event) = self.queue.peek(until) else {
                if self.queue.len() == 0 {
                    return Halt::Idle;
                }
                self.now = self.now.max(until);
                return Halt::Time;
            };
            at_once = if event.at > self.now { 0 } else { at_once + 1 };
            if at_once > EVENTS_AT_ONCE_MAX {
                return Halt::Stuck;
            }
            if self.events >= self.events_max {
                return Halt::Spent;
            }
            self.now = event.at;
            self.events += 1;
            if self.handle(event, observer) {
                return Halt::Completion;
            }
        }
    }

    /// How many events it may handle in its life; without it, as many as there are.
    pub fn set_events_max(&mut self, events_max: u64) {
        self.events_max = events_max;
    }

    /// Lets model time go on to `at`, as far as nothing happens before: after [`Halt::Idle`], for what is to be done later.
    pub fn wait(&mut self, at: Picos) {
        let free = self.next_event().map_or(at, |next| next.min(at));
        self.now = self.now.max(free);
    }

    /// Handles the earliest event, which is still in the queue. Whether a host has completed something.
    #[inline]
    fn handle(&mut self, event: Event, observer: &mut impl Observer) -> bool {
        let source = event.source.0;
        if source & SWITCH != 0 {
            self.queue.pop();
            let switch = ((source & !SWITCH) >> TIMER_BITS) as usize;
            let timer = TimerId(source & ((1 << TIMER_BITS) - 1));
            let node = &mut self.switches[switch];
            node.switch
                .expire(self.now, timer, &mut self.store, &mut self.outputs);
            self.drain(switch, observer);
            false
        } else if source & HOST != 0 {
            self.queue.pop();
            let host = (source & !HOST & !LINK_FREE & !HOST_TIMER) as usize;
            if source & LINK_FREE != 0 {
                self.hosts[host].busy = false;
                self.serve_host(host, observer)
            } else if source & HOST_TIMER != 0 {
                self.advance_host(host, observer)
            } else {
                self.wake_host(host, observer)
            }
        } else {
            self.arrive(source as usize, observer)
        }
    }

    /// The frame at the head of a wire has arrived.
    #[inline]
    fn arrive<O: Observer>(&mut self, index: usize, observer: &mut O) -> bool {
        self.queue.pop();
        let (frame, next) = self.wires[index].take(self.now);
        if let Some((at, order, behind)) = next {
            self.store.prefetch(behind);
            self.queue.push(Event {
                at,
                order,
                source: Source(index as u32),
            });
        }
        let Some(frame) = frame else { return false };
        self.frame_hops += 1;
        let to = self.wires[index].to;
        if O::WATCHES {
            observer.arrived(self.now, to, view(&self.store, frame));
        }
        match to {
            End::Switch { switch, port } => {
                self.arrive_at_switch(switch as usize, PortId(port), frame, observer);
                false
            }
            End::Host(host) => self.arrive_at_host(host as usize, frame, observer),
        }
    }

    #[inline]
    fn arrive_at_switch(&mut self, switch: usize, port: PortId, frame: Handle, observer: &mut impl Observer) {
        let frame_len = self.store.frame_len(frame);
        let arrival = Arrival {
            frame,
            frame_len,
            parsed: parse_prefix(self.store.prefix(frame), frame_len as usize),
            received_at: self.now,
        };
        let node = &mut self.switches[switch];
        let verdict = node
            .switch
            .receive(self.now, port, &arrival, &mut self.store, &mut self.outputs);
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

    #[inline]
    fn arrive_at_host(&mut self, host: usize, frame: Handle, observer: &mut impl Observer) -> bool {
        let frame_len = self.store.frame_len(frame);
        let prefix = self.store.prefix(frame);
        let parsed = parse_prefix(prefix, frame_len as usize);
        self.moves += u64::from(parsed.payload != Payload::MacControl);
        let inbound = Inbound {
            prefix,
            frame_len,
            parsed: &parsed,
            damaged: self.store.is_damaged(frame),
            telemetry: self.store.telemetry(frame),
        };
        self.hosts[host].host.receive_virtual(self.now, &inbound);
        self.store.release(frame);
        self.serve_host(host, observer)
    }

    /// An event of a host: its own deadline, unless an earlier one has overtaken it.
    fn wake_host(&mut self, host: usize, observer: &mut impl Observer) -> bool {
        let node = &mut self.hosts[host];
        if node.armed > self.now {
            return false;
        }
        node.armed = Picos::NEVER;
        self.serve_host(host, observer)
    }

    /// A timer of a host. If an event of its next departure is due as well, that comes in its own order.
    #[cold]
    fn advance_host(&mut self, host: usize, observer: &mut impl Observer) -> bool {
        let node = &mut self.hosts[host];
        if node.timer_armed > self.now {
            return false;
        }
        node.timer_armed = Picos::NEVER;
        node.host.advance(self.now);
        if node.armed > self.now {
            return self.serve_host(host, observer);
        }
        self.arm_timer(host);
        self.hosts[host].host.has_completions()
    }

    #[cold]
    fn arm_timer(&mut self, host: usize) {
        let node = &mut self.hosts[host];
        let at = node.host.next_timer().max(self.now);
        if at < node.timer_armed {
            node.timer_armed = at;
            self.push(at, HOST | HOST_TIMER | host as u32);
        }
    }

    /// Lets a host send what it may, and sees to it that it is called again when it may send more.
    fn serve_host(&mut self, host: usize, observer: &mut impl Observer) -> bool {
        let index = self.hosts[host].wire;
        let up = self.wires.get(index as usize).is_some_and(|wire| wire.up);
        while up && !self.hosts[host].busy {
            let node = &mut self.hosts[host];
            let at = match self.insertions {
                None => node.host.next_deadline(),
                Some(_) => node.host.next_departure(),
            };
            if at > self.now {
                if at < node.armed {
                    node.armed = at;
                    self.push(at, HOST | host as u32);
                }
                break;
            }
            let longest = node.host.frame_len_max();
            if self.buffer.len() < longest {
                self.buffer.resize(longest, 0);
            }
            let Some(emitted) = node.host.transmit_virtual(self.now, &mut self.buffer) else {
                if node.host.next_deadline() > self.now {
                    continue;
                }
                // It has something due that it does not send: it is asked again when anything happens to it.
                break;
            };
            let link = node.host.link();
            let end = self.now + link.duration(link.wire_len(link.mac_len(emitted.frame_len as u32)));
            let frame = self
                .store
                .insert(&self.buffer[..emitted.stored], emitted.frame_len as u32);
            if let Some(telemetry) = emitted.telemetry {
                self.store.set_telemetry(frame, telemetry);
            }
            if self.insertions.is_some() {
                self.hosts[host].busy = true;
                self.push(end, HOST | LINK_FREE | host as u32);
            }
            self.launch(index, end, frame, observer);
        }
        if up && self.insertions.is_some() {
            self.arm_timer(host);
        }
        observer.served(self.now, host as u32, &self.hosts[host].host);
        self.hosts[host].host.has_completions()
    }

    /// Takes what has come out of a switch.
    #[inline]
    fn drain(&mut self, switch: usize, observer: &mut impl Observer) {
        self.pass_on(switch, observer);
        if self.outputs.punts.is_empty() {
            return;
        }
        self.serve_cpu(switch, observer);
    }

    #[inline]
    fn pass_on(&mut self, switch: usize, observer: &mut impl Observer) {
        for index in 0..self.outputs.deadlines.len() {
            let deadline = self.outputs.deadlines[index];
            self.push(
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
    #[inline]
    fn launch<O: Observer>(&mut self, index: u32, end: Picos, frame: Handle, observer: &mut O) {
        let order = self.next_order();
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
        if let Some(at) = wire.put(end, frame, order) {
            self.queue.push(Event {
                at,
                order,
                source: Source(index),
            });
        }
    }
}

/// What a script or a driver does to a fabric between two runs.
impl Fabric {
    /// Brings a link up or down, by its index in the plan. What is on a link that goes down is lost.
    pub fn set_link(&mut self, link: usize, up: bool, observer: &mut impl Observer) {
        for index in [2 * link, 2 * link + 1] {
            let Some(wire) = self.wires.get_mut(index) else {
                return;
            };
            wire.up = up;
            if !up {
                for frame in wire.clear() {
                    self.store.release(frame);
                }
            }
        }
        observer.link_changed(self.now, link, up);
        for index in [2 * link, 2 * link + 1] {
            match self.wires[index].from {
                End::Switch { switch, port } => {
                    self.change_switch(switch as usize, observer, |switch, now, store, outputs| {
                        switch.set_link(now, PortId(port), up, store, outputs)
                    });
                }
                End::Host(host) => drop(self.serve_host(host as usize, observer)),
            }
        }
    }

    /// Changes a switch now, through one of its methods.
    pub fn change_switch<R>(
        &mut self,
        switch: usize,
        observer: &mut impl Observer,
        change: impl FnOnce(&mut Switch, Picos, &mut FabricStore, &mut Outputs) -> R,
    ) -> R {
        let node = &mut self.switches[switch];
        let result = change(&mut node.switch, self.now, &mut self.store, &mut self.outputs);
        self.drain(switch, observer);
        result
    }

    /// Gives a running switch another configuration; the speeds of its ports are those of their wires from then on.
    ///
    /// # Errors
    /// One that a running switch cannot take; then nothing has changed.
    pub fn configure_switch(
        &mut self,
        switch: usize,
        config: SwitchConfig,
        observer: &mut impl Observer,
    ) -> Result<(), ApplyError> {
        self.change_switch(switch, observer, |switch, now, store, outputs| {
            switch.apply(now, &config, store, outputs)
        })?;
        let node = &mut self.switches[switch];
        for (wire, port) in node.wires.iter().zip(&config.ports) {
            if let Some(wire) = self.wires.get_mut(*wire as usize) {
                wire.set_timing(port.link);
            }
        }
        node.config = config;
        node.cpu.reconfigure(&mut node.switch, &node.config.routing);
        Ok(())
    }

    /// Changes a host now, and lets it send what it then may.
    pub fn change_host<R>(
        &mut self,
        host: usize,
        observer: &mut impl Observer,
        change: impl FnOnce(&mut Host, Picos) -> R,
    ) -> R {
        let result = change(&mut self.hosts[host].host, self.now);
        self.serve_host(host, observer);
        result
    }

    /// Takes what the hosts have completed since the last call: in the order of hosts, and of each in its own order.
    pub fn take_completions(&mut self, mut take: impl FnMut(usize, Completion)) {
        for (index, node) in self.hosts.iter_mut().enumerate() {
            if node.host.has_completions() {
                node.host
                    .completions()
                    .for_each(|completion| take(index, completion));
            }
        }
    }

    /// Puts a frame on the wire out of `from` at once, as if a device there sent it beside its own traffic: pauses of a
    /// misbehaving peer, bad frames. False if there is no link or it is down.
    pub fn inject(&mut self, from: End, frame: &[u8], observer: &mut impl Observer) -> bool {
        let Some(index) = self.wire_from(from).filter(|index| self.wires[*index].up) else {
            return false;
        };
        let link = *self.wires[index].timing();
        let end = self.now + link.duration(link.wire_len(link.mac_len(frame.len() as u32)));
        let frame = self.store.insert(frame, frame.len() as u32);
        self.launch(index as u32, end, frame, observer);
        true
    }

    /// Adds a fault to the wire out of `from`; false if there is none.
    pub fn add_fault(&mut self, from: End, fault: Fault) -> bool {
        let Some(index) = self.wire_from(from) else {
            return false;
        };
        let seed = self.seed ^ (index as u64) << 32;
        self.wires[index].faults.add(fault, seed);
        true
    }

    /// Takes the faults of the wire out of `from` away.
    pub fn clear_faults(&mut self, from: End) {
        if let Some(index) = self.wire_from(from) {
            self.wires[index].faults.clear();
        }
    }

    fn wire_from(&self, from: End) -> Option<usize> {
        self.wires.iter().position(|wire| wire.from == from)
    }
}

/// What can be read between two runs.
impl Fabric {
    /// Model time: that of the latest event, or the time until which it ran.
    pub fn now(&self) -> Picos {
        self.now
    }

    /// When something happens next; `None`: never, by itself.
    pub fn next_event(&self) -> Option<Picos> {
        self.queue.earliest()
    }

    /// A switch, by its index in the plan.
    pub fn switch(&self, switch: usize) -> &Switch {
        &self.switches[switch].switch
    }

    /// What a switch was told to be.
    pub fn switch_config(&self, switch: usize) -> &SwitchConfig {
        &self.switches[switch].config
    }

    /// A copy of a switch's state.
    pub fn snapshot(&self, switch: usize) -> SwitchSnapshot {
        let node = &self.switches[switch];
        let facts = vec![PortFacts::default(); node.config.ports.len()];
        snapshot(&node.switch, &node.journal, |_| 0, &node.config, &facts, self.now)
    }

    /// How long it may take until a watchdog does something about a queue that stands; zero where none would.
    pub fn watchdog_patience(&self) -> Picos {
        let acts = |port: &PortWatchdog| port.queues != 0 && port.action != WatchdogAction::Alert;
        let longest = |config: &SwitchConfig| {
            let watched = config.ports.iter().filter_map(|port| port.watchdog);
            let detection = watched.filter(acts).map(|watchdog| watchdog.detection).max();
            // Up to a poll until it is declared, and another one for what has to come about.
            detection.map(|detection| detection.saturating_add(Picos(2 * config.watchdog.poll.0)))
        };
        let switches = self.switches.iter().filter_map(|node| longest(&node.config));
        switches.max().unwrap_or(Picos::ZERO)
    }

    /// How many switches there are.
    pub fn switch_count(&self) -> usize {
        self.switches.len()
    }

    /// A host, by its index in the plan.
    pub fn host(&self, host: usize) -> &Host {
        &self.hosts[host].host
    }

    /// How many hosts there are.
    pub fn host_count(&self) -> usize {
        self.hosts.len()
    }

    /// Where the other end of `end`'s link is.
    pub fn peer(&self, end: End) -> Option<End> {
        self.wire_from(end).map(|index| self.wires[index].to)
    }

    /// Frames that a link lost, in both directions: it went down, or a fault took them.
    pub fn lost_frames(&self, link: usize) -> u64 {
        let wires = self.wires.get(2 * link..2 * link + 2).unwrap_or_default();
        wires.iter().map(|wire| wire.lost_frames).sum()
    }

    /// Whether a link is up.
    pub fn link_up(&self, link: usize) -> bool {
        self.wires.get(2 * link).is_some_and(|wire| wire.up)
    }

    /// Frames that have left their sender and not arrived yet.
    pub fn frames_on_wires(&self) -> usize {
        self.wires.iter().map(Wire::on_it).sum()
    }

    /// Frames anywhere: on wires and in switches.
    pub fn frames_under_way(&self) -> usize {
        self.store.in_use()
    }

    /// Most frames that were under way at once.
    pub fn frames_under_way_max(&self) -> usize {
        self.store.in_use_max()
    }

    /// Frames that have arrived anywhere, MAC control frames not counted: whether anything moves.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// Frames in the queues of switches.
    pub fn frames_queued(&self) -> usize {
        self.switches.iter().map(|node| node.switch.frames_queued()).sum()
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Events that are pending.
    pub fn events_pending(&self) -> usize {
        self.queue.len()
    }

    /// Frames that have arrived at the end of a link, counted at each link they passed.
    pub fn frame_hops(&self) -> u64 {
        self.frame_hops
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

fn check_counts(plan: &FabricPlan) -> Result<(), PlanError> {
    let ports_max = plan.switches.iter().map(|s| s.ports.len()).max().unwrap_or(0);
    for (what, count, max) in [
        ("switches", plan.switches.len(), SWITCHES_MAX),
        ("hosts", plan.hosts.len(), HOSTS_MAX),
        ("links", plan.links.len(), HOST as usize / 2),
        // Four timers a port, and two of the switch itself.
        ("ports at one switch", ports_max, (1 << TIMER_BITS) / 4 - 1),
    ] {
        if count > max {
            return Err(PlanError::TooMany { what, count, max });
        }
    }
    Ok(())
}
