//! The switch and its event queue, in model time, without a clock: what a worker does between two readings.

mod agenda;

use xoff_dataplane::config::{RoutingConfig, SwitchConfig};
use xoff_dataplane::{
    Deadline, FrameStore, LinkTiming, Outputs, Picos, PortId, ReceivedFrame, Switch, TimerId, Transmit,
};

use agenda::Agenda;

use crate::cpu::Cpu;
use crate::cpu_port::CpuPort;
use crate::ingress_pacer::{IN_FLIGHT_FRAMES_MAX, IngressPacer};
use crate::journal::Journal;
use crate::snapshot::{PortFacts, snapshot};
use xoff_telemetry::SwitchSnapshot;

/// Departures of one port that may be made up for at once after the worker was late. More would be a burst that
/// no link of this speed could have carried; what is left is recorded as the port's deficit.
pub const CATCH_UP_FRAMES_MAX: u32 = 32;

/// Headers are prefetched for the frame that is this many frames behind the one that arrives. A burst of frames does not
/// stay in the first-level cache after parsing.
const PREFETCH_DISTANCE: usize = 4;

/// Bit of the timer ids of the engine itself: the next arrival at a port. No timer id of the switch has it.
const ARRIVAL_TIMER: u32 = 1 << 31;

/// A switch with its pending events.
#[derive(Debug)]
pub struct Engine {
    switch: Switch,
    cpu_port: CpuPort,
    outputs: Outputs,
    journal: Journal,
    events: Agenda,
    pacer: IngressPacer,
    caught_up: Vec<u32>,
    /// Time of the latest event: the switch is never driven backwards.
    time: Picos,
    /// The largest lateness of a deadline since it was last asked for.
    late: Picos,
}

impl Engine {
    /// An engine at time zero around a fresh switch whose ports have these links.
    pub fn new(switch: Switch, links: &[LinkTiming]) -> Engine {
        Engine {
            switch,
            cpu_port: CpuPort::default(),
            outputs: Outputs::with_capacity(IN_FLIGHT_FRAMES_MAX),
            journal: Journal::default(),
            events: Agenda::with_capacity(links.len() * 8 + 64),
            pacer: IngressPacer::new(links.iter().copied()),
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

    /// How many more frames may be in flight to a port.
    pub fn ingress_room(&self, port: PortId) -> usize {
        self.pacer.room(port)
    }

    /// Frames of a port that came faster than its link and were delayed.
    pub fn delayed_frames(&self, port: PortId) -> u64 {
        self.pacer.delayed_frames(port)
    }

    /// A copy of the switch's state.
    pub fn snapshot(&self, config: &SwitchConfig, facts: &[PortFacts], now: Picos) -> SwitchSnapshot {
        let delayed_frames = |port| self.delayed_frames(port);
        snapshot(&self.switch, &self.journal, delayed_frames, config, facts, now)
    }

    /// Takes new link parameters of a port.
    pub fn set_link_timing(&mut self, port: PortId, link: LinkTiming) {
        self.pacer.set_link_timing(port, link);
    }

    /// Puts a received frame on the link of its port. The switch gets the frame at `arrival.received_at` or when the link has
    /// carried it, whichever is later.
    #[inline(always)]
    pub fn offer(&mut self, port: PortId, arrival: ReceivedFrame) {
        if let Some(at) = self.pacer.offer(self.time, port, arrival) {
            self.schedule_arrival(port, at);
        }
    }

    /// Puts a frame behind the others of its port that the link has carried already. The switch gets it at
    /// `arrival.received_at`, which may be in the future.
    #[inline]
    pub fn deliver(&mut self, port: PortId, arrival: ReceivedFrame) {
        if let Some(at) = self.pacer.deliver(self.time, port, arrival) {
            self.schedule_arrival(port, at);
        }
    }

    #[inline(always)]
    fn schedule_arrival(&mut self, port: PortId, at: Picos) {
        self.events.push(Deadline {
            at,
            timer: TimerId(ARRIVAL_TIMER | u32::from(port.0)),
        });
    }

    /// Handles every event up to `now`, in order. `transmit` gets the frames that start to leave. Frames for the CPU go to the
    /// stack behind the CPU port, if one is attached.
    pub fn turn<S: FrameStore>(&mut self, now: Picos, store: &mut S, transmit: &mut impl FnMut(Transmit)) {
        self.caught_up.fill(0);
        while let Some(event) = self.events.take_due(now) {
            if event.timer.0 & ARRIVAL_TIMER != 0 {
                let port = PortId((event.timer.0 & !ARRIVAL_TIMER) as u16);
                self.arrive(now, port, store, transmit);
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
    pub fn with_switch<S: FrameStore, R>(
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

    /// Hands the switch the frames that have arrived at a port, as long as no other event is due before them. Departures that
    /// follow are passed on together at the end: the switch has just written them, and an earlier read would wait for its stores.
    fn arrive<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        store: &mut S,
        transmit: &mut impl FnMut(Transmit),
    ) {
        let timer = TimerId(ARRIVAL_TIMER | u32::from(port.0));
        while let Some(&(at, arrival)) = self.pacer.first(port) {
            let next = Deadline { at, timer };
            if at > now || self.events.first().is_some_and(|other| other < next) {
                self.events.push(next);
                break;
            }
            if let Some((_, later)) = self.pacer.nth(port, PREFETCH_DISTANCE) {
                store.prefetch_frame(later.frame);
            }
            self.pacer.pop(port);
            self.time = self.time.max(at);
            self.switch
                .receive(self.time, port, &arrival, store, &mut self.outputs);
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

    fn expire<S: FrameStore>(
        &mut self,
        now: Picos,
        event: Deadline,
        store: &mut S,
        transmit: &mut impl FnMut(Transmit),
    ) {
        self.late = self.late.max(now.since(event.at));
        if event.at < now
            && let Some(port) = self.switch.port_of_transmit_timer(event.timer)
            && self.caught_up[port.index()] >= CATCH_UP_FRAMES_MAX
        {
            // Held, and not only postponed: an arrival of the past would start a departure of the past otherwise.
            self.switch.keep_link_idle(port, event.at, now);
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

    fn drain<S: FrameStore>(&mut self, now: Picos, store: &mut S, transmit: &mut impl FnMut(Transmit)) {
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
