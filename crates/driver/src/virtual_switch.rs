//! One switch in virtual time.

use std::convert::Infallible;

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{
    ForwardingResult, FrameStore, Outputs, Picos, PortId, PuntedFrame, ReceivedFrame, Switch, SwitchEvent,
    Transmit,
};
use xoff_telemetry::SwitchSnapshot;

use crate::cpu_port::CpuPort;
use crate::event_queue::{Event, EventQueue, TimeOrder};
use crate::journal::Journal;
use crate::snapshot::{PortFacts, snapshot};

/// Outputs of the switch that fit without a further allocation.
const OUTPUTS_CAPACITY: usize = 256;

/// The result of [`VirtualSwitch::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<E> {
    /// No event is due.
    Idle,
    /// The switch has handled one of its deadlines.
    Deadline,
    /// An event that the caller scheduled is due now.
    Event(E),
}

/// What becomes of the frames that the switch punts to its CPU port.
#[derive(Debug)]
enum Punts {
    /// The router stack answers them.
    Cpu(Box<CpuPort>),
    /// They are kept for [`VirtualSwitch::take_punts`].
    Keep(Vec<PuntedFrame>),
}

/// A switch, its frames, and its event queue: time is a number that events advance.
///
/// The caller hands in frames ([`receive`](VirtualSwitch::receive)), changes the switch ([`change`](VirtualSwitch::change)), and
/// schedules its own events, such as arrivals. [`step`](VirtualSwitch::step) handles the next event. Departures collect until
/// the caller takes them. The same calls give the same results on every machine.
///
/// `E` is the type of the caller's events; `Q` is the event queue.
#[derive(Debug)]
pub struct VirtualSwitch<S, E = Infallible, Q = TimeOrder<E>> {
    switch: Switch,
    store: S,
    outputs: Outputs,
    now: Picos,
    queue: Q,
    punts: Punts,
    journal: Journal,
    events_of: std::marker::PhantomData<E>,
}

impl<S: FrameStore, E: Ord> VirtualSwitch<S, E> {
    /// A switch at time zero with every link down. Frames for its own addresses go to a router stack behind the CPU port.
    pub fn new(config: &SwitchConfig, store: S) -> VirtualSwitch<S, E> {
        VirtualSwitch::with_queue(config, store, TimeOrder::default())
    }
}

impl<S: FrameStore, E, Q: EventQueue<E>> VirtualSwitch<S, E, Q> {
    /// As [`VirtualSwitch::new`], with another event queue.
    pub fn with_queue(config: &SwitchConfig, store: S, queue: Q) -> VirtualSwitch<S, E, Q> {
        let mut switch = Switch::new(config);
        let mut cpu_port = CpuPort::default();
        cpu_port.reconfigure(&mut switch, &config.routing);
        VirtualSwitch {
            switch,
            store,
            outputs: Outputs::with_capacity(OUTPUTS_CAPACITY),
            now: Picos::ZERO,
            queue,
            punts: Punts::Cpu(Box::new(cpu_port)),
            journal: Journal::with_capacity(OUTPUTS_CAPACITY),
            events_of: std::marker::PhantomData,
        }
    }

    /// Detaches the router stack from the CPU port. Punted frames are kept for [`VirtualSwitch::take_punts`].
    pub fn keep_punts(&mut self) {
        if let Punts::Cpu(cpu_port) = &mut self.punts {
            cpu_port.attach(&mut self.switch, None);
            self.punts = Punts::Keep(Vec::with_capacity(OUTPUTS_CAPACITY));
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

    /// Model time.
    #[inline(always)]
    pub fn now(&self) -> Picos {
        self.now
    }

    /// Advances model time to `time`, unless it is there already. Every event before `time` must have been handled.
    #[inline]
    pub fn advance_to(&mut self, time: Picos) {
        debug_assert!(self.queue.next_time().is_none_or(|next| next >= time));
        self.now = self.now.max(time);
    }

    /// Advances model time past pending events. The switch then handles them late, as in real time after a late wake-up.
    pub fn advance_past_events(&mut self, time: Picos) {
        self.now = self.now.max(time);
    }

    /// The switch, for reading.
    #[inline(always)]
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// The switch, for settings that need no time and have no outputs. [`change`](VirtualSwitch::change) is for all others.
    pub fn switch_mut(&mut self) -> &mut Switch {
        &mut self.switch
    }

    /// The frame store.
    #[inline(always)]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The frame store, for changing.
    #[inline(always)]
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Changes the switch now, through one of its methods. The outputs of the call are collected.
    #[inline]
    pub fn change<R>(&mut self, change: impl FnOnce(&mut Switch, Picos, &mut S, &mut Outputs) -> R) -> R {
        let result = change(&mut self.switch, self.now, &mut self.store, &mut self.outputs);
        self.collect();
        result
    }

    /// Hands the switch a frame whose last bit arrives now.
    #[inline(always)]
    pub fn receive(&mut self, port: PortId, arrival: &ReceivedFrame) -> ForwardingResult {
        let verdict = self
            .switch
            .receive(self.now, port, arrival, &mut self.store, &mut self.outputs);
        self.collect();
        verdict
    }

    /// Adds an event of the caller.
    pub fn schedule(&mut self, at: Picos, event: E) {
        self.queue.push(at, Event::Scheduled(event));
    }

    /// Time of the next event, of the switch or of the caller; `None` if none is pending.
    #[inline]
    pub fn next_event(&self) -> Option<Picos> {
        self.queue.next_time()
    }

    /// Handles the next event if its time is at most `until`, and advances model time to it.
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
                self.collect();
                Step::Deadline
            }
        }
    }

    /// Transmissions that have started since they were last taken, in their order. The caller owns their frames and
    /// releases them.
    #[inline(always)]
    pub fn departures(&self) -> &[Transmit] {
        &self.outputs.transmits
    }

    /// Takes the departures.
    #[inline(always)]
    pub fn take_departures(&mut self, mut take: impl FnMut(Transmit, &mut S)) {
        for departure in self.outputs.transmits.drain(..) {
            take(departure, &mut self.store);
        }
    }

    /// Takes the departures and releases their frames.
    pub fn release_departures(&mut self) {
        self.take_departures(|departure, store| store.release(departure.frame));
    }

    /// Takes the frames that were punted since they were last taken. The caller owns and releases them. There are none unless
    /// [`VirtualSwitch::keep_punts`] was called.
    pub fn take_punts(&mut self, mut take: impl FnMut(PuntedFrame, &mut S)) {
        if let Punts::Keep(punts) = &mut self.punts {
            for punt in punts.drain(..) {
                take(punt, &mut self.store);
            }
        }
    }

    /// Takes the events that the switch has reported since they were last taken, oldest first. Up to 8 192 are kept.
    pub fn take_events(&mut self) -> impl Iterator<Item = SwitchEvent> + '_ {
        self.journal.drain()
    }

    /// A copy of the state of the switch. `config` is its configuration; `delayed_frames` counts the frames of a port that were
    /// delayed by the speed of its link.
    pub fn snapshot(&self, config: &SwitchConfig, delayed_frames: impl Fn(PortId) -> u64) -> SwitchSnapshot {
        let facts = vec![PortFacts::default(); config.ports.len()];
        snapshot(
            &self.switch,
            &self.journal,
            delayed_frames,
            config,
            &facts,
            self.now,
        )
    }

    /// Sorts the outputs of a call: deadlines into the event queue, punted frames to the CPU port, events into the journal.
    #[inline(always)]
    fn collect(&mut self) {
        debug_assert!(
            self.outputs
                .deadlines
                .iter()
                .all(|deadline| deadline.at >= self.now)
        );
        self.queue.push_deadlines(&mut self.outputs.deadlines);
        if !self.outputs.punts.is_empty() {
            self.pass_on_punts();
        }
        self.journal.take(&mut self.outputs.events, &self.switch);
    }

    #[cold]
    fn pass_on_punts(&mut self) {
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
            Punts::Keep(punts) => punts.append(&mut outputs.punts),
            Punts::Cpu(cpu_port) => {
                cpu_port.take(outputs);
                cpu_port.serve(*now, switch, outputs, store, |outputs, _| {
                    queue.push_deadlines(&mut outputs.deadlines);
                });
            }
        }
    }
}
