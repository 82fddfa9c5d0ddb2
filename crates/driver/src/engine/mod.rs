//! The switch and its event queue, in model time, without a clock: what a worker does between two readings.

mod agenda;
mod cpu_port;

use std::collections::VecDeque;

use xoff_dataplane::config::{RoutingConfig, SwitchConfig};
use xoff_dataplane::{
    Arrival, Deadline, Line, LinkTiming, Outputs, Picos, PortId, Store, Switch, TimerId, Transmit, Verdict,
};

use agenda::Agenda;
pub use cpu_port::CpuPort;

use super::journal::Journal;
use super::snapshot::{PortFacts, snapshot};
use crate::cpu::Cpu;
use xoff_telemetry::SwitchSnapshot;

/// Departures of one port that may be made up for at once after the worker was late. More would be a burst that
/// no link of this speed could have carried; what is left is recorded as the port's deficit.
pub const CATCH_UP_FRAMES_MAX: u32 = 32;

/// Frames that may wait on one port's wire. A port whose wire is full is not read; its device's queue is the next
/// bound, and what that loses taints the run.
pub const WIRE_FRAMES_MAX: usize = 1_024;

/// So many frames behind the one that arrives are fetched: their headers have been read, and a burst of them is more than stays near.
const AHEAD: usize = 4;

/// Timer ids of the engine's own: the head of a port's wire. Far above any id of the switch.
const WIRE_TIMER: u32 = 1 << 31;

/// Frames that have left their sender but, at the model's speed, not yet arrived.
#[derive(Debug)]
struct Wire {
    frames: VecDeque<(Picos, Arrival)>,
    /// When the link has carried what is on it.
    next_free: Picos,
    link: Line,
    waits: u64,
}

/// Hears what becomes of each arrival, in the moment it is decided. The frame may be gone by then.
pub trait Witness {
    /// `arrival` reached the switch on `port` at `at`.
    fn arrived(&mut self, at: Picos, port: PortId, arrival: &Arrival, verdict: &Verdict, switch: &Switch);
}

/// Nobody asks.
impl Witness for () {
    #[inline]
    fn arrived(&mut self, _: Picos, _: PortId, _: &Arrival, _: &Verdict, _: &Switch) {}
}

/// A switch with its pending events.
#[derive(Debug)]
pub struct Engine {
    switch: Switch,
    cpu_port: CpuPort,
    outputs: Outputs,
    journal: Journal,
    events: Agenda,
    wires: Vec<Wire>,
    caught_up: Vec<u32>,
    /// Time of the latest event: the switch is never driven backwards.
    time: Picos,
    /// The largest lateness of a deadline since it was last asked for.
    late: Picos,
}

impl Engine {
    /// An engine at time zero around a fresh switch whose ports have these links.
    pub fn new(switch: Switch, links: &[LinkTiming]) -> Engine {
        let wire = |link: &LinkTiming| Wire {
            frames: VecDeque::with_capacity(WIRE_FRAMES_MAX),
            next_free: Picos::ZERO,
            link: Line::new(*link),
            waits: 0,
        };
        Engine {
            switch,
            cpu_port: CpuPort::default(),
            outputs: Outputs::with_capacity(WIRE_FRAMES_MAX),
            journal: Journal::default(),
            events: Agenda::with_capacity(links.len() * 8 + 64),
            wires: links.iter().map(wire).collect(),
            caught_up: vec![0; links.len()],
            time: Picos::ZERO,
            late: Picos::ZERO,
        }
    }

    /// The switch, to be read.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// What the switch has told its operator.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// How many more frames a port's wire takes.
    pub fn wire_room(&self, port: PortId) -> usize {
        WIRE_FRAMES_MAX.saturating_sub(self.wires[port.index()].frames.len())
    }

    /// Frames of a port that came faster than its link and had to wait.
    pub fn wire_waits(&self, port: PortId) -> u64 {
        self.wires[port.index()].waits
    }

    /// A copy of the switch's state.
    pub fn snapshot(&self, config: &SwitchConfig, facts: &[PortFacts], now: Picos) -> SwitchSnapshot {
        let wire_waits = |port| self.wire_waits(port);
        snapshot(&self.switch, &self.journal, wire_waits, config, facts, now)
    }

    /// Takes new link parameters of a port.
    pub fn set_link_timing(&mut self, port: PortId, link: LinkTiming) {
        self.wires[port.index()].link = Line::new(link);
    }

    /// Puts a received frame on its port's wire. `arrival.received_at` is when the backend got it; the switch
    /// gets it then, or when the link would have carried it, whichever is later.
    #[inline(always)]
    pub fn offer(&mut self, port: PortId, arrival: Arrival) {
        let wire = &mut self.wires[port.index()];
        let at = arrival.received_at.max(self.time);
        let gated = at.max(wire.next_free);
        wire.waits += u64::from(gated > at);
        let mac_len = wire.link.mac_len(arrival.frame_len);
        wire.next_free = gated.saturating_add(wire.link.occupied(mac_len));
        self.put(port, gated, arrival);
    }

    /// Puts a frame on its port's wire that the link has carried already: the switch gets it at `arrival.received_at`, which may
    /// lie ahead, and behind those that came before it.
    #[inline]
    pub fn deliver(&mut self, port: PortId, arrival: Arrival) {
        let wire = &mut self.wires[port.index()];
        let before = wire.frames.back().map_or(self.time, |(at, _)| *at);
        let at = arrival.received_at.max(before);
        wire.next_free = wire.next_free.max(at);
        self.put(port, at, arrival);
    }

    /// Puts a frame behind those on a wire; the first of them has an event. Inlined, so that the arrival is made there and not copied
    /// there, which would wait for what has just been written of it.
    #[inline(always)]
    fn put(&mut self, port: PortId, at: Picos, arrival: Arrival) {
        let wire = &mut self.wires[port.index()];
        if wire.frames.is_empty() {
            self.events.push(Deadline {
                at,
                timer: TimerId(WIRE_TIMER | u32::from(port.0)),
            });
        }
        wire.frames.push_back((at, arrival));
    }

    /// Handles every event up to `now`, in order. Frames to transmit go to `transmit`, frames for the CPU to what stands
    /// behind the CPU port, if anything does.
    pub fn turn<S: Store>(&mut self, now: Picos, store: &mut S, transmit: &mut impl FnMut(Transmit)) {
        self.turn_watched(now, store, transmit, &mut ());
    }

    /// As [`Engine::turn`], with a witness of the arrivals.
    pub fn turn_watched<S: Store>(
        &mut self,
        now: Picos,
        store: &mut S,
        transmit: &mut impl FnMut(Transmit),
        witness: &mut impl Witness,
    ) {
        self.caught_up.fill(0);
        while let Some(event) = self.events.take_due(now) {
            if event.timer.0 & WIRE_TIMER != 0 {
                let port = PortId((event.timer.0 & !WIRE_TIMER) as u16);
                self.arrive(now, port, store, transmit, witness);
            } else {
                self.expire(now, event, store, transmit);
            }
        }
    }

    /// When something happens next by itself.
    pub fn next_event(&self) -> Option<Picos> {
        self.events.first().map(|event| event.at)
    }

    /// The largest lateness of a deadline since the last call.
    pub fn take_lateness(&mut self) -> Picos {
        std::mem::take(&mut self.late)
    }

    /// Changes the switch at `now` through one of its methods, and drains what comes out.
    pub fn with_switch<S: Store, R>(
        &mut self,
        now: Picos,
        store: &mut S,
        transmit: &mut impl FnMut(Transmit),
        change: impl FnOnce(&mut Switch, Picos, &mut S, &mut Outputs) -> R,
    ) -> R {
        self.time = self.time.max(now);
        let result = change(&mut self.switch, self.time, store, &mut self.outputs);
        self.drain(now, store, transmit);
        result
    }

    /// Hands over the frames at the head of a wire, as long as nothing else is due before them. Departures that follow are passed
    /// on together at the end, when what the switch has written of them can be read without waiting for it.
    fn arrive<S: Store>(
        &mut self,
        now: Picos,
        port: PortId,
        store: &mut S,
        transmit: &mut impl FnMut(Transmit),
        witness: &mut impl Witness,
    ) {
        let timer = TimerId(WIRE_TIMER | u32::from(port.0));
        while let Some(&(at, arrival)) = self.wires[port.index()].frames.front() {
            let next = Deadline { at, timer };
            if at > now || self.events.first().is_some_and(|other| other < next) {
                self.events.push(next);
                break;
            }
            let frames = &mut self.wires[port.index()].frames;
            if let Some((_, later)) = frames.get(AHEAD) {
                store.fetch(later.frame);
            }
            frames.pop_front();
            self.time = self.time.max(at);
            let verdict = self
                .switch
                .receive(self.time, port, &arrival, store, &mut self.outputs);
            witness.arrived(self.time, port, &arrival, &verdict, &self.switch);
            let Outputs {
                deadlines,
                punts,
                events,
                ..
            } = &self.outputs;
            if !(deadlines.is_empty() && punts.is_empty() && events.is_empty()) {
                self.drain(now, store, transmit);
            }
        }
        self.drain(now, store, transmit);
    }

    fn expire<S: Store>(
        &mut self,
        now: Picos,
        event: Deadline,
        store: &mut S,
        transmit: &mut impl FnMut(Transmit),
    ) {
        self.late = self.late.max(now.since(event.at));
        if event.at < now
            && let Some(port) = self.switch.transmitter_of(event.timer)
            && self.caught_up[port.index()] >= CATCH_UP_FRAMES_MAX
        {
            // Held, and not only postponed: an arrival of the past would start a departure of the past otherwise.
            self.switch.hold_link(port, event.at, now);
            self.events.push(Deadline {
                at: now,
                timer: event.timer,
            });
            return;
        }
        self.time = self.time.max(event.at);
        self.switch
            .expire(self.time, event.timer, store, &mut self.outputs);
        self.drain(now, store, transmit);
    }

    fn drain<S: Store>(&mut self, now: Picos, store: &mut S, transmit: &mut impl FnMut(Transmit)) {
        let Engine {
            switch,
            cpu_port,
            outputs,
            journal,
            events,
            caught_up,
            ..
        } = self;
        let mut pass_on = |outputs: &mut Outputs, _: &mut S| {
            for &deadline in &outputs.deadlines {
                events.push(deadline);
            }
            outputs.deadlines.clear();
            for &departure in &outputs.transmits {
                caught_up[departure.port.index()] += u32::from(departure.start < now);
                transmit(departure);
            }
            outputs.transmits.clear();
        };
        pass_on(outputs, store);
        if !outputs.punts.is_empty() {
            cpu_port.take(outputs);
            cpu_port.serve(self.time, switch, outputs, store, pass_on);
        }
        journal.take(&mut outputs.events, switch);
    }

    /// Puts something behind the CPU port, or nothing.
    pub fn attach_cpu(&mut self, cpu: Option<Cpu>) {
        self.cpu_port.attach(&mut self.switch, cpu);
    }

    /// What stands behind the CPU port.
    pub fn cpu(&self) -> Option<&Cpu> {
        self.cpu_port.cpu()
    }

    /// Follows a configuration that the switch has taken: a switch with router interfaces has a CPU.
    pub fn reconfigure_cpu(&mut self, config: &RoutingConfig) {
        self.cpu_port.reconfigure(&mut self.switch, config);
    }
}

#[cfg(test)]
mod tests;
