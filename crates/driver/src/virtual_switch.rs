//! One switch in virtual time.

use std::convert::Infallible;

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{
    ForwardingResult, FrameStore, Outputs, Picos, PortId, PuntedFrame, ReceivedFrame, Switch, SwitchEvent,
    Transmit,
};
use xoff_telemetry::SwitchSnapshot;

use crate::cpu_port::CpuPort;
use crate::event_queue::{Event, EventQueue, TimeOrderedQueue};
use crate::journal::Journal;
use crate::snapshot::{PortDeviceInfo, take_snapshot};

/// Number of outputs of each kind that fit into the buffers before they grow.
const OUTPUTS_CAPACITY: usize = 256;

/// Result of [`VirtualSwitch::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<E> {
    /// No event is due until the given time.
    Idle,
    /// The switch has handled one of its deadlines.
    Deadline,
    /// An event that the caller scheduled is due now.
    Event(E),
}

/// Treatment of the frames that the switch punts to its CPU port.
#[derive(Debug)]
enum PuntHandling {
    /// The CPU stack answers the frames.
    Cpu(Box<CpuPort>),
    /// The frames wait for [`VirtualSwitch::take_punts`].
    Keep(Vec<PuntedFrame>),
}

/// A switch with its frames and its event queue in virtual time. Model time advances from event to event.
///
/// The caller passes frames to the switch ([`receive`](VirtualSwitch::receive)), changes the switch
/// ([`change`](VirtualSwitch::change)) and schedules its own events, such as arrivals.
/// [`step`](VirtualSwitch::step) handles the next event. Departures are collected until the caller takes
/// them. Equal calls give equal results on every machine. The switch does not use LLDP, whatever its configuration is,
/// so it sends no frames that the caller did not cause.
///
/// `E` is the type of the caller's events, and `Q` is the event queue.
#[derive(Debug)]
pub struct VirtualSwitch<S, E = Infallible, Q = TimeOrderedQueue<E>> {
    switch: Switch,
    store: S,
    outputs: Outputs,
    now: Picos,
    queue: Q,
    punts: PuntHandling,
    journal: Journal,
    event_type: std::marker::PhantomData<E>,
}

impl<S: FrameStore, E> VirtualSwitch<S, E> {
    /// Creates a switch at model time zero. All links are down. If the switch has router interfaces, a CPU
    /// stack answers frames for their addresses.
    pub fn new(config: &SwitchConfig, store: S) -> VirtualSwitch<S, E> {
        VirtualSwitch::with_queue(config, store, TimeOrderedQueue::default())
    }
}

impl<S: FrameStore, E, Q: EventQueue<E>> VirtualSwitch<S, E, Q> {
    /// Creates a switch like [`VirtualSwitch::new`], with `queue` as its event queue.
    pub fn with_queue(config: &SwitchConfig, store: S, queue: Q) -> VirtualSwitch<S, E, Q> {
        let mut switch = Switch::new(config);
        switch.reserve_memory();
        let mut cpu_port = CpuPort::default();
        cpu_port.reconfigure(&mut switch, &config.routing);
        VirtualSwitch {
            switch,
            store,
            outputs: Outputs::with_capacity(OUTPUTS_CAPACITY),
            now: Picos::ZERO,
            queue,
            punts: PuntHandling::Cpu(Box::new(cpu_port)),
            journal: Journal::with_capacity(OUTPUTS_CAPACITY),
            event_type: std::marker::PhantomData,
        }
    }

    /// Detaches the CPU stack from the CPU port. Frames for the CPU then wait for
    /// [`VirtualSwitch::take_punts`].
    pub fn store_punted_frames(&mut self) {
        if let PuntHandling::Cpu(cpu_port) = &mut self.punts {
            cpu_port.attach(&mut self.switch, None);
            self.punts = PuntHandling::Keep(Vec::with_capacity(OUTPUTS_CAPACITY));
        }
    }

    /// Brings up the links of all ports.
    pub fn set_links_up(&mut self) {
        for port in 0..self.switch.port_count() as u16 {
            self.set_link(PortId(port), true);
        }
    }

    /// Brings the link of a port up or down.
    pub fn set_link(&mut self, port: PortId, is_up: bool) {
        self.change(|switch, now, store, outputs| switch.set_link(now, port, is_up, store, outputs));
    }

    /// Returns the model time.
    #[inline(always)]
    pub fn now(&self) -> Picos {
        self.now
    }

    /// Advances model time to `time`. An earlier time has no effect. Every event before `time` must have been
    /// handled. Debug builds panic if such an event is pending.
    #[inline]
    pub fn advance_to(&mut self, time: Picos) {
        debug_assert!(self.queue.next_time().is_none_or(|next| next >= time));
        self.now = self.now.max(time);
    }

    /// Advances model time to `time`, past pending events. An earlier time has no effect. The switch then
    /// handles the passed events late, as after a late wake-up in real time.
    pub fn advance_past_events(&mut self, time: Picos) {
        self.now = self.now.max(time);
    }

    /// Returns the switch for reading.
    #[inline(always)]
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// Returns the switch for changes. Use this method only for settings that need no model time and have no
    /// outputs. For changes that need model time or have outputs, use [`change`](VirtualSwitch::change).
    pub fn switch_mut(&mut self) -> &mut Switch {
        &mut self.switch
    }

    /// Returns the frame store for reading.
    #[inline(always)]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the frame store for changes.
    #[inline(always)]
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Calls `change` with the switch at the current model time, and returns the result of `change`. The
    /// outputs of the switch are collected.
    #[inline]
    pub fn change<R>(&mut self, change: impl FnOnce(&mut Switch, Picos, &mut S, &mut Outputs) -> R) -> R {
        let result = change(&mut self.switch, self.now, &mut self.store, &mut self.outputs);
        self.collect_outputs();
        result
    }

    /// Passes a frame to the switch. The last bit of the frame arrives at the current model time.
    #[inline(always)]
    pub fn receive(&mut self, port: PortId, arrival: &ReceivedFrame) -> ForwardingResult {
        let result = self
            .switch
            .receive(self.now, port, arrival, &mut self.store, &mut self.outputs);
        self.collect_outputs();
        result
    }

    /// Adds an event of the caller at the model time `at`. [`step`](VirtualSwitch::step) returns it
    /// as [`Step::Event`].
    pub fn schedule(&mut self, at: Picos, event: E) {
        self.queue.push(at, Event::Scheduled(event));
    }

    /// Returns the model time of the next event of the switch or the caller. Returns `None` if no event
    /// is pending.
    #[inline]
    pub fn next_event(&self) -> Option<Picos> {
        self.queue.next_time()
    }

    /// Handles the next event if its time is at most `until`, and advances model time to the event. Returns
    /// [`Step::Idle`] if no event is due until then. Model time does not change in this case.
    #[inline(always)]
    pub fn step(&mut self, until: Picos) -> Step<E> {
        let Some((at, event)) = self.queue.pop_until(until) else {
            return Step::Idle;
        };
        self.now = self.now.max(at);
        match event {
            Event::Scheduled(event) => Step::Event(event),
            Event::Deadline(timer) => {
                self.switch
                    .expire(self.now, timer, &mut self.store, &mut self.outputs);
                self.collect_outputs();
                Step::Deadline
            }
        }
    }

    /// Returns the departures: the started transmissions that were not taken yet, in order. The caller owns
    /// the frames of these transmissions and must release them.
    #[inline(always)]
    pub fn departures(&self) -> &[Transmit] {
        &self.outputs.transmits
    }

    /// Removes the departures and calls `handle` for each. `handle` owns the frame of the departure and must
    /// release it.
    #[inline(always)]
    pub fn take_departures(&mut self, mut handle: impl FnMut(Transmit, &mut S)) {
        for &departure in &self.outputs.transmits {
            handle(departure, &mut self.store);
        }
        self.outputs.transmits.clear();
    }

    /// Removes the departures and releases their frames in the frame store.
    pub fn release_departures(&mut self) {
        self.take_departures(|departure, store| store.release(departure.frame));
    }

    /// Removes the frames for the CPU port and calls `handle` for each frame. The caller owns these frames
    /// and must release them. The list is empty unless [`VirtualSwitch::store_punted_frames`] was called.
    pub fn take_punts(&mut self, mut handle: impl FnMut(PuntedFrame, &mut S)) {
        if let PuntHandling::Keep(punts) = &mut self.punts {
            for punt in punts.drain(..) {
                handle(punt, &mut self.store);
            }
        }
    }

    /// Removes and returns the events that the switch has reported, oldest first. Between two calls, the
    /// journal stores at most 8192 events and only counts later events.
    pub fn take_events(&mut self) -> impl Iterator<Item = SwitchEvent> + '_ {
        self.journal.drain_events()
    }

    /// Copies the state of the switch. `config` is the configuration of the switch. `delayed_frames` returns
    /// the number of delayed frames of a port
    /// ([`IngressPacer::delayed_frames`](crate::IngressPacer::delayed_frames)). Without an ingress pacer,
    /// this number is 0.
    pub fn snapshot(&self, config: &SwitchConfig, delayed_frames: impl Fn(PortId) -> u64) -> SwitchSnapshot {
        let facts = vec![PortDeviceInfo::default(); config.ports.len()];
        take_snapshot(
            &self.switch,
            &self.journal,
            |port| self.switch.port_counters(self.now, port),
            delayed_frames,
            config,
            &facts,
            self.now,
        )
    }

    /// Distributes the outputs of a call. Deadlines go to the event queue, frames for the CPU go to the CPU
    /// port, and events go to the journal.
    #[inline(always)]
    fn collect_outputs(&mut self) {
        debug_assert!(
            self.outputs
                .deadlines
                .iter()
                .all(|deadline| deadline.at >= self.now)
        );
        self.queue.push_deadlines(&mut self.outputs.deadlines);
        if !self.outputs.punts.is_empty() {
            self.forward_punts();
        }
        self.journal.record_events(&mut self.outputs.events, &self.switch);
    }

    #[cold]
    fn forward_punts(&mut self) {
        let VirtualSwitch {
            switch,
            store,
            outputs,
            now,
            queue,
            punts,
            ..
        } = self;
        match punts {
            PuntHandling::Keep(punts) => punts.append(&mut outputs.punts),
            PuntHandling::Cpu(cpu_port) => {
                cpu_port.take_punts(outputs);
                cpu_port.answer_punts(*now, switch, outputs, store, |outputs, _| {
                    queue.push_deadlines(&mut outputs.deadlines);
                });
            }
        }
    }
}
