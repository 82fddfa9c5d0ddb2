//! The switch worker owns a switch. It processes each event of the switch when wall time reaches the time of
//! the event. The worker runs in a [`SwitchThread`](super::switch_thread::SwitchThread).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender};
use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{
    DropReason, FrameHandle, FrameStore, LinkTiming, Picos, PortId, ReceivedFrame, Transmit,
};

use super::clock::{ModelClock, monotonic_ns, realtime_ns};
use super::command::Command;
use super::device_watcher::DeviceRequest;
use super::event_printer::NumberedEvent;
use super::port_io::PortIo;
use super::port_set::{FrameSink, PortEvent};
use super::taint_ledger::TaintLog;
use xoff_capture::Direction;
use xoff_capture::recorder::Recorder;
use xoff_driver::engine::Engine;
use xoff_driver::snapshot::PortDeviceInfo;
use xoff_ports::{Arena, ArenaStore, Port, PortFrame, SlotSource, StreamCounts};
use xoff_telemetry::{StreamReport, SwitchSnapshot, count_noun};

/// Smallest detected step of the real-time clock, in nanoseconds. At each check, the worker compares the
/// real-time clock with the monotonic clock. If the difference between these clocks has changed by more than
/// this limit, the real-time clock was set.
const CLOCK_STEP_NS: u64 = 50_000_000;

/// The link of a port, and the worker that owns the port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PortLink {
    /// Two numbers: the I/O worker that owns the port, and the index of the port at this I/O worker. If the
    /// switch worker owns the port, the first number is 0. `None` if the port has no device.
    pub(crate) location: Option<(usize, u16)>,
    /// The one-way delay of the link in model time.
    pub(crate) delay: Picos,
    /// Whether the far end is a switch of the same process. Such a switch gets the arrival time of
    /// each frame.
    pub(crate) is_in_memory: bool,
}

impl PortLink {
    /// Returns the model time at which a frame must be passed to the device. For an in-memory link, returns
    /// the time at which the last bit of the frame arrives.
    #[inline]
    fn due_time(&self, transmit: &Transmit, link: &LinkTiming) -> Picos {
        match self.is_in_memory {
            true => transmit.end.since(link.gap_duration()).saturating_add(self.delay),
            false => transmit.start.saturating_add(self.delay),
        }
    }
}

/// The result of a switch worker. As long as this value exists, the in-memory links of the switch stay up.
#[derive(Debug)]
pub(crate) struct WorkerResult {
    pub(crate) snapshot: SwitchSnapshot,
    pub(crate) retained_ports: RetainedPorts,
}

/// Ports whose worker has ended, and the frame slots that they use.
#[derive(Debug)]
pub(crate) struct RetainedPorts {
    _ports: Vec<Port>,
    _store: ArenaStore,
}

/// A switch, with its frames, its ports and its clock.
#[derive(Debug)]
pub(crate) struct SwitchWorker {
    pub(crate) engine: Engine,
    pub(crate) store: ArenaStore,
    pub(crate) io: PortIo,
    pub(crate) clock: ModelClock,
    pub(crate) ledger: TaintLog,
    pub(crate) commands: Receiver<Command>,
    /// Reaction budget: the largest permitted lateness of a frame or a deadline, in nanoseconds of wall time.
    /// A larger lateness taints the run, which means that the run proves nothing.
    pub(crate) stall_ns: u64,
    pub(crate) config: SwitchConfig,
    pub(crate) facts: Vec<PortDeviceInfo>,
    /// The link of each port, by port index.
    pub(crate) port_links: Vec<PortLink>,
    pub(crate) stop: Arc<AtomicBool>,
    /// The MTU in bytes with which each device was opened, by port index. `None` if the device is not opened
    /// again for a larger MTU: the session did not open the device, or the device is a tap of xoff.
    pub(crate) opened_mtus: Vec<Option<u32>>,
    /// Channel to the device watcher.
    pub(crate) device_requests: Sender<DeviceRequest>,
    /// Channel for the result of the worker.
    pub(crate) result: Sender<WorkerResult>,
    /// Wall time of the last check of clocks and slots. `clock_difference_ns` was the difference between the
    /// two wall clocks at this time.
    pub(crate) last_check_ns: u64,
    pub(crate) clock_difference_ns: u64,
    /// Frames that the switch has started to transmit, and that no device or ring has taken yet.
    pub(crate) departures: VecDeque<Transmit>,
    /// Frames that the devices have sent, and whose slots are not free yet. Empty between bursts.
    pub(crate) sent_frames: Vec<FrameHandle>,
    pub(crate) events: Vec<PortEvent>,
    /// Recorder of frames. `None` if no recording was requested.
    pub(crate) recorder: Option<Recorder>,
    /// Channel to the event printer.
    pub(crate) event_printer: Sender<NumberedEvent>,
    /// Number of journal events that were sent to the event printer.
    pub(crate) printed_events: u64,
    /// Wall time in nanoseconds that the thread has spent in turns with work. `was_busy` is true if the last
    /// turn had work.
    pub(crate) busy_ns: u64,
    pub(crate) was_busy: bool,
}

/// Passes received frames to the engine, which is the event queue of the switch.
struct EngineSink<'a> {
    engine: &'a mut Engine,
    port_links: &'a [PortLink],
    clock: ModelClock,
    now_ns: u64,
    oldest_ns: u64,
}

impl FrameSink for EngineSink<'_> {
    fn free_frames(&self, port: PortId) -> usize {
        self.engine.free_ingress_frames(port)
    }

    fn accept_frames(&mut self, port: PortId, frames: &[PortFrame]) {
        for received in frames {
            self.accept_frame(port, received);
        }
    }
}

impl EngineSink<'_> {
    #[inline]
    fn accept_frame(&mut self, port: PortId, received: &PortFrame) {
        // A time stamp after the present comes from a clock that was read too early.
        let stamp_ns = received.received_ns.min(self.now_ns);
        self.oldest_ns = self.oldest_ns.min(stamp_ns);
        let received_frame = |received_at| ReceivedFrame {
            frame: received.frame,
            frame_len: received.frame_len,
            parsed: received.parsed,
            received_at,
        };
        match received.arrival {
            Some(at) => self.engine.receive_after_link_delay(port, received_frame(at)),
            None => {
                let at = self
                    .clock
                    .model_time(stamp_ns)
                    .saturating_add(self.port_links[port.index()].delay);
                self.engine.receive_paced(port, received_frame(at));
            }
        }
    }
}

/// Records each received frame, and then passes it to the engine.
struct RecordingSink<'a, 'b> {
    engine_sink: &'a mut EngineSink<'b>,
    recorder: &'a mut Recorder,
    arena: Arc<Arena>,
}

impl FrameSink for RecordingSink<'_, '_> {
    fn free_frames(&self, port: PortId) -> usize {
        self.engine_sink.free_frames(port)
    }

    fn accept_frames(&mut self, port: PortId, frames: &[PortFrame]) {
        for received in frames {
            let (head, tail) = self.arena.segments(received.frame);
            let at_ns = match received.arrival {
                Some(at) => self.engine_sink.clock.wall_ns(at),
                None => received.received_ns,
            };
            self.recorder
                .record_frame(port, Direction::Inbound, at_ns, [head, tail]);
        }
        self.engine_sink.accept_frames(port, frames);
    }
}

fn add_stream_counts(stream: &mut StreamReport, counts: StreamCounts) {
    stream.connections += counts.connections;
    stream.refused_connections += counts.refused_connections;
    stream.wrong_lengths += counts.wrong_lengths;
    stream.truncated_frames += counts.truncated_frames;
    stream.stops += counts.stops;
    stream.stopped_ns += counts.stopped_ns;
}

/// Processes the input from ports and I/O workers. Returns the number of processed entries.
fn drain_received(
    io: &mut PortIo,
    store: &mut ArenaStore,
    events: &mut Vec<PortEvent>,
    sink: &mut impl FrameSink,
) -> usize {
    match io {
        PortIo::Direct(ports) => ports.receive(store, sink),
        PortIo::IoWorkers(remotes) => remotes
            .iter_mut()
            .map(|remote| remote.drain_received(store, events, sink))
            .sum(),
    }
}

impl SwitchWorker {
    /// Runs one turn: receives frames, switches them, sends departing frames and executes commands. Returns
    /// the amount of work. The amount is 0 if the turn had nothing to do.
    pub(crate) fn run_once(&mut self, began_ns: u64) -> usize {
        if began_ns.saturating_sub(self.last_check_ns) > super::WATCH_INTERVAL_NS {
            self.last_check_ns = began_ns;
            self.check_clocks();
            self.check_slots();
            self.recorder.iter_mut().for_each(Recorder::flush);
            if let PortIo::Direct(ports) = &mut self.io {
                self.events.append(&mut ports.poll_events());
            }
        }
        // Reading ports takes time, so the present time is read again after it. With I/O workers a turn is
        // short and uses the time of its start.
        let now_ns = |io: &PortIo| match io {
            PortIo::Direct(_) => monotonic_ns(),
            PortIo::IoWorkers(_) => began_ns,
        };
        let mut work = self.receive_frames(now_ns(&self.io));
        work += self.advance_switch(now_ns(&self.io));
        work += self.send_departures();
        while let Ok(command) = self.commands.try_recv() {
            self.execute(command);
            work += 1;
        }
        self.print_events();
        self.was_busy = work > 0;
        work
    }

    /// Adds the duration of the last turn to the busy time if this turn had work.
    #[inline]
    pub(crate) fn add_busy_time(&mut self, turn_ns: u64) {
        if self.was_busy {
            self.busy_ns += turn_ns;
        }
    }

    /// Returns a snapshot of the switch.
    pub(super) fn snapshot(&self, now: Picos) -> SwitchSnapshot {
        let mut snapshot = self.engine.snapshot(&self.config, &self.facts, now);
        snapshot.report.worker_busy_ns = Some(self.busy_ns);
        snapshot
    }

    /// Returns whether the switch has been asked to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns whether work waits that no descriptor reports.
    pub(crate) fn has_input(&self) -> bool {
        !self.commands.is_empty() || self.io.has_input() || self.is_stopped()
    }

    /// Returns whether departing frames wait for room at a device.
    pub(crate) fn has_waiting_departures(&self) -> bool {
        !self.departures.is_empty()
    }

    /// Returns the wall time of the next event of the engine or the next delayed frame, whichever is earlier.
    /// Returns `None` if there is neither.
    pub(crate) fn next_event_ns(&self) -> Option<u64> {
        let event_ns = self.engine.next_event().map(|at| self.clock.wall_ns(at));
        event_ns.into_iter().chain(self.io.next_due_ns()).min()
    }

    /// Passes received frames to the engine.
    fn receive_frames(&mut self, now_ns: u64) -> usize {
        let mut engine_sink = EngineSink {
            engine: &mut self.engine,
            port_links: &self.port_links,
            clock: self.clock,
            now_ns,
            oldest_ns: now_ns,
        };
        let (io, store, events) = (&mut self.io, &mut self.store, &mut self.events);
        let work = match &mut self.recorder {
            None => drain_received(io, store, events, &mut engine_sink),
            Some(recorder) => {
                let arena = store.shared_arena();
                let mut recording_sink = RecordingSink {
                    engine_sink: &mut engine_sink,
                    recorder,
                    arena,
                };
                drain_received(io, store, events, &mut recording_sink)
            }
        };
        let age_ns = now_ns - engine_sink.oldest_ns;
        self.check_stall(now_ns, age_ns, "a frame");
        work
    }

    /// Processes all events of the switch up to a wall time. Returns the number of frames that leave
    /// the switch.
    fn advance_switch(&mut self, now_ns: u64) -> usize {
        let now = self.clock.model_time(now_ns);
        let first_departure = self.departures.len();
        let departures = &mut self.departures;
        let mut transmit = |transmit| departures.push_back(transmit);
        let mut opened_ports = Vec::new();
        for event in self.events.drain(..) {
            match event {
                PortEvent::Link { port, up } => self.engine.with_switch(
                    now,
                    &mut self.store,
                    &mut transmit,
                    |switch, at, store, outputs| switch.set_link(at, port, up, store, outputs),
                ),
                PortEvent::Dropped {
                    port,
                    reason,
                    priority,
                    frames,
                } => {
                    let fields = (priority.dscp, priority.pcp);
                    self.engine
                        .with_switch(now, &mut self.store, &mut transmit, |switch, _, _, _| {
                            switch.add_backend_drops(port, reason, fields, frames)
                        });
                    // A frame that exceeds the MTU, or whose link has just gone down, is dropped by the model. All
                    // other drops of a backend are losses outside the model.
                    if !matches!(reason, DropReason::Oversized | DropReason::PortFlushed) {
                        let name = &self.config.ports[port.index()].name;
                        let what = reason.name();
                        let cause =
                            format!("the backend of {name} dropped frames as {what} ({frames} at first)");
                        self.ledger.add_taint(now.as_nanos(), cause);
                    }
                }
                // Each note appears once per port and cause. No journal keeps notes for the report.
                PortEvent::Note(note) => log::warn!("{note}"),
                PortEvent::Opened { port, backend, mtu } => {
                    self.facts[port.index()].backend = Some(backend.to_owned());
                    if let Some(opened_mtu) = &mut self.opened_mtus[port.index()] {
                        *opened_mtu = mtu;
                        opened_ports.push(port);
                    }
                }
                PortEvent::Stream { port, counts } => {
                    let name = &self.config.ports[port.index()].name;
                    if counts.wrong_lengths > 0 {
                        let cause = format!(
                            "the peer of {name} sent a wrong frame length, and its stream was closed"
                        );
                        self.ledger.add_taint(now.as_nanos(), cause);
                    }
                    let stream = self.facts[port.index()].stream.get_or_insert_default();
                    add_stream_counts(stream, counts);
                }
                PortEvent::Lost { port, frames } => {
                    let facts = &mut self.facts[port.index()];
                    facts.lost += frames;
                    let name = &self.config.ports[port.index()].name;
                    let cause =
                        format!("the host lost frames of {name} outside the switch ({frames} at first)");
                    self.ledger.add_taint(now.as_nanos(), cause);
                }
            }
        }
        self.engine.run_until(now, &mut self.store, &mut transmit);
        let late_ns = self
            .clock
            .wall_ns(self.engine.take_max_event_delay())
            .saturating_sub(self.clock.wall_ns(Picos::ZERO));
        self.check_stall(now_ns, late_ns, "a deadline");
        // The MTU of a port can have changed while its device was opened.
        opened_ports
            .into_iter()
            .for_each(|port| self.reopen_for_larger_mtu(port));
        self.record_departures(first_departure);
        self.departures.len() - first_departure
    }

    /// Sends new events to the event printer without waiting. If the channel is full, the event is not
    /// printed. The report still contains it.
    #[inline]
    fn print_events(&mut self) {
        let (count, latest_missed) = self.engine.journal().event_count();
        if count == self.printed_events {
            return;
        }
        let entries = self.engine.journal().entries();
        for (index, entry) in entries.iter().enumerate().skip(self.printed_events as usize) {
            let _ = self.event_printer.try_send((index as u64 + 1, entry.event));
        }
        // The journal is full. The event printer gets the latest event, and its number shows how many events
        // are missing before it.
        if let Some(event) = latest_missed {
            let _ = self.event_printer.try_send((count, event));
        }
        self.printed_events = count;
    }

    /// Passes departing frames to the devices or the I/O workers. Returns the number of these frames.
    fn send_departures(&mut self) -> usize {
        let mut work = 0;
        match &mut self.io {
            PortIo::Direct(ports) => {
                for transmit in self.departures.drain(..) {
                    let port = transmit.port.index();
                    let port_link = &self.port_links[port];
                    match port_link.location {
                        Some((_, index)) => {
                            let due_time = port_link.due_time(&transmit, &self.config.ports[port].link);
                            ports.queue_frame(usize::from(index), transmit.frame, due_time);
                        }
                        None => self.store.release(transmit.frame),
                    }
                }
                let mut sent_frames: Vec<FrameHandle> = std::mem::take(&mut self.sent_frames);
                work += ports.flush(SlotSource::arena(&self.store), |frame| sent_frames.push(frame));
                sent_frames.drain(..).for_each(|frame| self.store.release(frame));
                self.sent_frames = sent_frames;
            }
            PortIo::IoWorkers(remotes) => {
                while let Some(transmit) = self.departures.pop_front() {
                    let port = transmit.port.index();
                    let port_link = &self.port_links[port];
                    let Some((worker, index)) = port_link.location else {
                        self.store.release(transmit.frame);
                        continue;
                    };
                    let due_time = port_link.due_time(&transmit, &self.config.ports[port].link);
                    if remotes[worker]
                        .queue_transmit(index, transmit.frame, due_time)
                        .is_err()
                    {
                        self.departures.push_front(transmit);
                        break;
                    }
                    work += 1;
                }
                for remote in remotes {
                    remote.flush_commands(&mut self.store);
                }
            }
        }
        work
    }

    /// Records the departing frames from index `first_departure` of the list on.
    pub(super) fn record_departures(&mut self, first_departure: usize) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        let arena = SlotSource::arena(&self.store);
        for departure in self.departures.range(first_departure..) {
            let (head, tail) = arena.segments(departure.frame);
            let at_ns = self.clock.wall_ns(departure.start);
            recorder.record_frame(departure.port, Direction::Outbound, at_ns, [head, tail]);
        }
    }

    fn check_stall(&self, now_ns: u64, late_ns: u64, subject: &str) {
        if late_ns > self.stall_ns {
            let late_ms = late_ns as f64 / 1e6;
            let budget_ms = self.stall_ns as f64 / 1e6;
            let cause = format!(
                "the host stalled the switch: {subject} was late (by {late_ms:.1} ms, more than {budget_ms:.1} ms)"
            );
            self.ledger
                .add_taint(self.clock.model_time(now_ns).as_nanos(), cause);
        }
    }

    /// Taints the run (the run proves nothing) if frames were dropped for lack of a free frame slot or a free
    /// entry in the frame table. The modelled switch does not have these two limits of xoff.
    fn check_slots(&self) {
        let frames = self.engine.switch().dropped_frames_for(DropReason::NoBufferSpace);
        if frames > 0 {
            let cause = format!(
                "the switch ran out of frame slots, a limit of the host ({} at first)",
                count_noun(frames, "frame")
            );
            self.ledger
                .add_taint(self.clock.model_time(monotonic_ns()).as_nanos(), cause);
        }
    }

    /// Taints the run (the run proves nothing) if the real-time clock was set. Kernel time stamps are wrong
    /// after such a change.
    fn check_clocks(&mut self) {
        let monotonic = monotonic_ns();
        let now = realtime_ns().wrapping_sub(monotonic);
        let step_ns = now.wrapping_sub(self.clock_difference_ns) as i64;
        self.clock_difference_ns = now;
        if step_ns.unsigned_abs() > CLOCK_STEP_NS {
            let cause = format!("the machine's clock was set (by {:.1} ms)", step_ns as f64 / 1e6);
            self.ledger
                .add_taint(self.clock.model_time(monotonic).as_nanos(), cause);
        }
    }

    /// Ends the worker and sends its result.
    pub(crate) fn finish(mut self) {
        match &mut self.io {
            PortIo::Direct(ports) => self.events.append(&mut ports.poll_events()),
            PortIo::IoWorkers(remotes) => {
                for remote in remotes {
                    remote.close(&mut self.store, &mut self.events);
                }
            }
        }
        // The last losses count. Links that go down at the end do not.
        self.events
            .retain(|event| !matches!(event, PortEvent::Link { .. }));
        self.advance_switch(monotonic_ns());
        self.send_departures();
        self.print_events();
        self.check_slots();
        if let Some(recorder) = self.recorder.take() {
            let missed = recorder.finish(monotonic_ns());
            for (facts, missed) in self.facts.iter_mut().zip(missed) {
                facts.pcap_missed = missed;
            }
        }
        let snapshot = self.snapshot(self.clock.model_time(monotonic_ns()));
        let ports = match self.io {
            PortIo::Direct(ports) => ports.into_ports().collect(),
            PortIo::IoWorkers(_) => Vec::new(),
        };
        let result = WorkerResult {
            snapshot,
            retained_ports: RetainedPorts {
                _ports: ports,
                _store: self.store,
            },
        };
        // A failed send is ignored: the owner does not wait for the result.
        let _ = self.result.send(result);
    }
}
