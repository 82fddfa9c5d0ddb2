//! A switch's worker: it owns the switch and drives it with the wall clock. A [`Crew`](super::crew::Crew) is the thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender};
use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{
    DropReason, FrameHandle, FrameStore, LinkTiming, Picos, PortId, ReceivedFrame, SwitchEvent, Transmit,
};

use super::clock::{ModelClock, monotonic_ns, realtime_ns};
use super::command::Command;
use super::io::Io;
use super::ledger::Ledger;
use super::portset::{Intake, PortEvent};
use xoff_capture::Direction;
use xoff_capture::live::Recorder;
use xoff_driver::engine::Engine;
use xoff_driver::snapshot::PortFacts;
use xoff_ports::{Arena, ArenaStore, Port, Received, SlotSource};
use xoff_telemetry::SwitchSnapshot;

/// The wall clocks may drift apart by this much between two looks before it counts as a step.
const CLOCK_STEP_NS: u64 = 50_000_000;

/// How frames reach the far end of a port's link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Way {
    /// Which I/O worker has the port (0 for the worker itself), and its index there; `None` without a device.
    pub(crate) place: Option<(usize, u16)>,
    /// How long a bit is under way.
    pub(crate) delay: Picos,
    /// The far end is a switch of this process, which is told when a frame arrives.
    pub(crate) in_memory: bool,
}

impl Way {
    /// When a frame is to be handed to the device, or, of a link in memory, when its last bit arrives.
    #[inline]
    fn due(&self, transmit: &Transmit, link: &LinkTiming) -> Picos {
        match self.in_memory {
            true => transmit.end.since(link.gap_duration()).saturating_add(self.delay),
            false => transmit.start.saturating_add(self.delay),
        }
    }
}

/// What a worker leaves. The far ends of links in memory see them go down when this is dropped, not before.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) snapshot: SwitchSnapshot,
    pub(crate) kept: Kept,
}

/// Ports that nobody serves any more, and where their frames lie.
#[derive(Debug)]
pub(crate) struct Kept {
    _ports: Vec<Port>,
    _store: ArenaStore,
}

/// A switch and all that drives it.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) engine: Engine,
    pub(crate) store: ArenaStore,
    pub(crate) io: Io,
    pub(crate) clock: ModelClock,
    pub(crate) ledger: Ledger,
    pub(crate) commands: Receiver<Command>,
    /// Wall time a frame or a deadline may be late before that taints the run.
    pub(crate) stall_ns: u64,
    pub(crate) config: SwitchConfig,
    pub(crate) facts: Vec<PortFacts>,
    /// For each port.
    pub(crate) ways: Vec<Way>,
    pub(crate) stop: Arc<AtomicBool>,
    /// Takes what the worker leaves.
    pub(crate) end: Sender<End>,
    /// When clocks and slots were looked at last, and how far apart the wall clocks were then.
    pub(crate) watched_ns: u64,
    pub(crate) clocks_apart: u64,
    /// Frames whose transmission has started and that no device or ring has taken yet.
    pub(crate) leaving: VecDeque<Transmit>,
    /// Frames the devices are done with, before their slots are freed; empty between bursts.
    pub(crate) done: Vec<FrameHandle>,
    pub(crate) events: Vec<PortEvent>,
    /// Records what passes, if that is asked for.
    pub(crate) recorder: Option<Recorder>,
    /// To the thread that shows events as they happen.
    pub(crate) teller: Sender<SwitchEvent>,
    /// Events of the engine's journal that have been handed to it.
    pub(crate) told: usize,
    /// Wall time of the thread's turns in which there was work, and whether there was some in the last one.
    pub(crate) busy_ns: u64,
    pub(crate) was_busy: bool,
}

/// The engine as a place for received frames.
struct Wires<'a> {
    engine: &'a mut Engine,
    ways: &'a [Way],
    clock: ModelClock,
    now_ns: u64,
    oldest_ns: u64,
}

impl Intake for Wires<'_> {
    fn room(&self, port: PortId) -> usize {
        self.engine.ingress_room(port)
    }

    fn take(&mut self, port: PortId, frames: &[Received]) {
        for received in frames {
            self.take_one(port, received);
        }
    }
}

impl Wires<'_> {
    #[inline]
    fn take_one(&mut self, port: PortId, received: &Received) {
        // A stamp from the future is a clock that was read too early.
        let stamp_ns = received.received_ns.min(self.now_ns);
        self.oldest_ns = self.oldest_ns.min(stamp_ns);
        let arrival = |received_at| ReceivedFrame {
            frame: received.frame,
            frame_len: received.frame_len,
            parsed: received.parsed,
            received_at,
        };
        match received.arrives {
            Some(at) => self.engine.deliver(port, arrival(at)),
            None => {
                let at = self
                    .clock
                    .at(stamp_ns)
                    .saturating_add(self.ways[port.index()].delay);
                self.engine.offer(port, arrival(at));
            }
        }
    }
}

/// The wires, with every frame recorded on its way to them.
struct Recorded<'a, 'b> {
    wires: &'a mut Wires<'b>,
    recorder: &'a mut Recorder,
    arena: Arc<Arena>,
}

impl Intake for Recorded<'_, '_> {
    fn room(&self, port: PortId) -> usize {
        self.wires.room(port)
    }

    fn take(&mut self, port: PortId, frames: &[Received]) {
        for received in frames {
            let (head, tail) = self.arena.segments(received.frame);
            let at_ns = match received.arrives {
                Some(at) => self.wires.clock.wall_ns(at),
                None => received.received_ns,
            };
            self.recorder
                .record_frame(port, Direction::Inbound, at_ns, [head, tail]);
        }
        self.wires.take(port, frames);
    }
}

/// Takes what has arrived from ports and I/O workers. How much it was.
fn take_in(
    io: &mut Io,
    store: &mut ArenaStore,
    events: &mut Vec<PortEvent>,
    intake: &mut impl Intake,
) -> usize {
    match io {
        Io::Inline(ports) => ports.receive(store, intake),
        Io::Remote(remotes) => remotes
            .iter_mut()
            .map(|remote| remote.take_in(store, events, intake))
            .sum(),
    }
}

impl Worker {
    /// Receives, switches, sends and obeys, once. How much there was to do.
    pub(crate) fn step(&mut self, began_ns: u64) -> usize {
        if began_ns.saturating_sub(self.watched_ns) > super::WATCH_NS {
            self.watched_ns = began_ns;
            self.watch_clocks();
            self.watch_slots();
            self.recorder.iter_mut().for_each(Recorder::flush);
            if let Io::Inline(ports) = &mut self.io {
                self.events.append(&mut ports.watch());
            }
        }
        // Ports take their time. With I/O workers a turn is short, and does what was there when it began.
        let now_ns = |io: &Io| match io {
            Io::Inline(_) => monotonic_ns(),
            Io::Remote(_) => began_ns,
        };
        let mut work = self.receive(now_ns(&self.io));
        work += self.turn(now_ns(&self.io));
        work += self.send();
        while let Ok(command) = self.commands.try_recv() {
            self.obey(command);
            work += 1;
        }
        self.tell();
        self.was_busy = work > 0;
        work
    }

    /// The thread's last turn took so long.
    #[inline]
    pub(crate) fn account(&mut self, turn_ns: u64) {
        if self.was_busy {
            self.busy_ns += turn_ns;
        }
    }

    /// A copy of what can be read.
    pub(super) fn snapshot(&self, now: Picos) -> SwitchSnapshot {
        SwitchSnapshot {
            worker_busy_ns: Some(self.busy_ns),
            ..self.engine.snapshot(&self.config, &self.facts, now)
        }
    }

    /// Whether it has been told to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether there is something to do now that no descriptor tells of.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.commands.is_empty() || self.io.waiting() || self.is_stopped()
    }

    /// Whether frames wait for room on their way to a device.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// When there is something to do by time alone, in wall time.
    pub(crate) fn next_event_ns(&self) -> Option<u64> {
        let event_ns = self.engine.next_event().map(|at| self.clock.wall_ns(at));
        event_ns.into_iter().chain(self.io.next_due_ns()).min()
    }

    /// Puts what has arrived on the wires.
    fn receive(&mut self, now_ns: u64) -> usize {
        let mut wires = Wires {
            engine: &mut self.engine,
            ways: &self.ways,
            clock: self.clock,
            now_ns,
            oldest_ns: now_ns,
        };
        let (io, store, events) = (&mut self.io, &mut self.store, &mut self.events);
        let work = match &mut self.recorder {
            None => take_in(io, store, events, &mut wires),
            Some(recorder) => {
                let arena = store.shared_arena();
                let mut recorded = Recorded {
                    wires: &mut wires,
                    recorder,
                    arena,
                };
                take_in(io, store, events, &mut recorded)
            }
        };
        let age_ns = now_ns - wires.oldest_ns;
        self.note_stall(now_ns, age_ns, "a frame");
        work
    }

    /// Drives the switch up to a wall time.
    fn turn(&mut self, now_ns: u64) -> usize {
        let now = self.clock.at(now_ns);
        let before = self.leaving.len();
        let leaving = &mut self.leaving;
        let mut transmit = |transmit| leaving.push_back(transmit);
        for event in self.events.drain(..) {
            match event {
                PortEvent::Link { port, up } => self.engine.with_switch(
                    now,
                    &mut self.store,
                    &mut transmit,
                    |switch, at, store, outputs| switch.set_link(at, port, up, store, outputs),
                ),
                PortEvent::Dropped { port, reason, frames } => {
                    self.engine
                        .with_switch(now, &mut self.store, &mut transmit, |switch, _, _, _| {
                            switch.add_backend_drops(port, reason, frames)
                        })
                }
                // Once per port and cause, and no journal is kept that could say it later.
                PortEvent::Note(note) => eprintln!("warning: {note}"),
                PortEvent::Opened { port, backend } => {
                    self.facts[port.index()].backend = Some(backend.to_owned());
                }
                PortEvent::Lost { port, frames } => {
                    let facts = &mut self.facts[port.index()];
                    facts.lost += frames;
                    let name = &self.config.ports[port.index()].name;
                    let cause =
                        format!("the host lost frames of {name} outside the switch ({frames} at first)");
                    self.ledger.taint(now.as_nanos(), cause);
                }
            }
        }
        self.engine.turn(now, &mut self.store, &mut transmit);
        let late_ns = self
            .clock
            .wall_ns(self.engine.take_lateness())
            .saturating_sub(self.clock.wall_ns(Picos::ZERO));
        self.note_stall(now_ns, late_ns, "a deadline");
        self.record_departures(before);
        self.leaving.len() - before
    }

    /// Has new events shown. Nobody waits for the terminal: an event that finds no room is in the report all the same.
    #[inline]
    fn tell(&mut self) {
        let entries = self.engine.journal().entries();
        for entry in &entries[self.told..] {
            let _ = self.teller.try_send(entry.event);
        }
        self.told = entries.len();
    }

    /// Hands departures to the devices or the I/O workers.
    fn send(&mut self) -> usize {
        let mut work = 0;
        match &mut self.io {
            Io::Inline(ports) => {
                for transmit in self.leaving.drain(..) {
                    let port = transmit.port.index();
                    let way = &self.ways[port];
                    match way.place {
                        Some((_, index)) => {
                            let due = way.due(&transmit, &self.config.ports[port].link);
                            ports.queue(usize::from(index), transmit.frame, due);
                        }
                        None => self.store.release(transmit.frame),
                    }
                }
                let mut done: Vec<FrameHandle> = std::mem::take(&mut self.done);
                work += ports.flush(SlotSource::arena(&self.store), |frame| done.push(frame));
                done.drain(..).for_each(|frame| self.store.release(frame));
                self.done = done;
            }
            Io::Remote(remotes) => {
                while let Some(transmit) = self.leaving.pop_front() {
                    let port = transmit.port.index();
                    let way = &self.ways[port];
                    let Some((worker, index)) = way.place else {
                        self.store.release(transmit.frame);
                        continue;
                    };
                    let due = way.due(&transmit, &self.config.ports[port].link);
                    if remotes[worker].transmit(index, transmit.frame, due).is_err() {
                        self.leaving.push_front(transmit);
                        break;
                    }
                    work += 1;
                }
                for remote in remotes {
                    remote.hand_down(&mut self.store);
                }
            }
        }
        work
    }

    /// Records the frames that have begun to leave since there were `before` of them waiting.
    pub(super) fn record_departures(&mut self, before: usize) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        let arena = SlotSource::arena(&self.store);
        for departure in self.leaving.range(before..) {
            let (head, tail) = arena.segments(departure.frame);
            let at_ns = self.clock.wall_ns(departure.start);
            recorder.record_frame(departure.port, Direction::Outbound, at_ns, [head, tail]);
        }
    }

    fn note_stall(&self, now_ns: u64, late_ns: u64, what: &str) {
        if late_ns > self.stall_ns {
            let late_ms = late_ns as f64 / 1e6;
            let budget_ms = self.stall_ns as f64 / 1e6;
            let cause = format!(
                "the host stalled the switch: {what} was late (by {late_ms:.1} ms, more than {budget_ms:.1} ms)"
            );
            self.ledger.taint(self.clock.at(now_ns).as_nanos(), cause);
        }
    }

    /// A frame that found no slot or no place in the frame table was lost to a limit of this program.
    fn watch_slots(&self) {
        let frames = self.engine.switch().dropped_frames_for(DropReason::NoBufferSpace);
        if frames > 0 {
            let cause =
                format!("the switch ran out of frame slots, a limit of the host ({frames} frames at first)");
            self.ledger.taint(self.clock.at(monotonic_ns()).as_nanos(), cause);
        }
    }

    /// A step of the real-time clock makes kernel time stamps lie.
    fn watch_clocks(&mut self) {
        let monotonic = monotonic_ns();
        let now = realtime_ns().wrapping_sub(monotonic);
        let step_ns = now.wrapping_sub(self.clocks_apart) as i64;
        self.clocks_apart = now;
        if step_ns.unsigned_abs() > CLOCK_STEP_NS {
            let cause = format!("the machine's clock was set (by {:.1} ms)", step_ns as f64 / 1e6);
            self.ledger.taint(self.clock.at(monotonic).as_nanos(), cause);
        }
    }

    /// Ends: what the switch has counted goes to who waits for it.
    pub(crate) fn finish(mut self) {
        match &mut self.io {
            Io::Inline(ports) => self.events.append(&mut ports.watch()),
            Io::Remote(remotes) => {
                for remote in remotes {
                    remote.close(&mut self.store, &mut self.events);
                }
            }
        }
        // Losses of the last moments count; links that go down now do not.
        self.events
            .retain(|event| !matches!(event, PortEvent::Link { .. }));
        self.turn(monotonic_ns());
        self.send();
        self.tell();
        self.watch_slots();
        if let Some(recorder) = self.recorder.take() {
            let missed = recorder.finish(monotonic_ns());
            for (facts, missed) in self.facts.iter_mut().zip(missed) {
                facts.pcap_missed = missed;
            }
        }
        let snapshot = self.snapshot(self.clock.at(monotonic_ns()));
        let ports = match self.io {
            Io::Inline(ports) => ports.into_ports().collect(),
            Io::Remote(_) => Vec::new(),
        };
        let end = End {
            snapshot,
            kept: Kept {
                _ports: ports,
                _store: self.store,
            },
        };
        // Who does not wait for it does not want it.
        let _ = self.end.send(end);
    }
}
