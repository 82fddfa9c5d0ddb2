//! A switch in virtual time: the engine's event queue is all there is to time, so nothing is ever late.
//!
//! Whoever drives it hands in arrivals with their times, lets it run from event to event, and takes what has come out
//! after each step. Nothing here reads a clock or depends on how fast it is run: the same arrivals give the same events.

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{Arrival, Picos, PortId, Store, Switch, Transmit};

use super::engine::{Engine, Witness};
use super::snapshot::PortFacts;
use xoff_telemetry::SwitchSnapshot;

/// A switch, its frames, and what has left it since that was last taken.
#[derive(Debug)]
pub struct VirtualSwitch<S> {
    engine: Engine,
    store: S,
    config: SwitchConfig,
    now: Picos,
    departures: Vec<Transmit>,
}

impl<S: Store> VirtualSwitch<S> {
    /// A switch at time zero, every link up.
    pub fn new(config: SwitchConfig, store: S) -> VirtualSwitch<S> {
        let links: Vec<_> = config.ports.iter().map(|port| port.link).collect();
        let mut switch = VirtualSwitch {
            engine: Engine::new(Switch::new(&config), &links),
            store,
            config,
            now: Picos::ZERO,
            departures: Vec::new(),
        };
        switch.engine.reconfigure_cpu(&switch.config.routing);
        for port in 0..links.len() as u16 {
            switch.change(|s, now, store, outputs| s.set_link(now, PortId(port), true, store, outputs));
        }
        switch
    }

    /// Changes the switch now, through one of its methods.
    pub fn change<R>(
        &mut self,
        change: impl FnOnce(&mut Switch, Picos, &mut S, &mut xoff_dataplane::Outputs) -> R,
    ) -> R {
        let departures = &mut self.departures;
        let mut transmit = |departure| departures.push(departure);
        self.engine
            .with_switch(self.now, &mut self.store, &mut transmit, change)
    }

    /// Model time: that of the latest event.
    pub fn now(&self) -> Picos {
        self.now
    }

    /// The switch, to be read.
    pub fn switch(&self) -> &Switch {
        self.engine.switch()
    }

    /// Where frames are.
    pub fn store(&mut self) -> &mut S {
        &mut self.store
    }

    /// What the switch was told to be.
    pub fn config(&self) -> &SwitchConfig {
        &self.config
    }

    /// How many more frames may be on their way to a port.
    pub fn room(&self, port: PortId) -> usize {
        self.engine.wire_room(port)
    }

    /// Puts a frame on the link to a port: it arrives at `arrival.received_at`, or when the link has carried what is
    /// before it, whichever is later.
    pub fn offer(&mut self, port: PortId, arrival: Arrival) {
        self.engine.offer(port, arrival);
    }

    /// When something happens next; `None`: never, by itself.
    pub fn next_event(&self) -> Option<Picos> {
        self.engine.next_event()
    }

    /// Handles everything that happens at the time of the next event. False if there is none.
    pub fn step(&mut self, witness: &mut impl Witness) -> bool {
        let Some(at) = self.engine.next_event() else {
            return false;
        };
        self.now = self.now.max(at);
        let departures = &mut self.departures;
        let mut transmit = |departure| departures.push(departure);
        self.engine
            .turn_watched(self.now, &mut self.store, &mut transmit, witness);
        true
    }

    /// Hands over the transmissions that have started since the last call, in their order. The frames are the taker's:
    /// it releases them.
    pub fn take_departures(&mut self, mut take: impl FnMut(Transmit, &mut S)) {
        for departure in self.departures.drain(..) {
            take(departure, &mut self.store);
        }
    }

    /// Frames that have left their sender and not arrived yet.
    pub fn on_wires(&self) -> usize {
        let ports = 0..self.config.ports.len() as u16;
        ports
            .map(|port| super::engine::WIRE_FRAMES_MAX - self.engine.wire_room(PortId(port)))
            .sum()
    }

    /// A copy of the switch's state.
    pub fn snapshot(&self) -> SwitchSnapshot {
        let facts = vec![PortFacts::default(); self.config.ports.len()];
        self.engine.snapshot(&self.config, &facts, self.now)
    }
}
