//! The access of a switch worker to its ports: directly, or through I/O workers.
//!
//! An I/O worker is a thread that owns ports. An I/O worker receives and sends frames, restores VLAN tags,
//! and checks and parses frames. Bursts of frame handles pass between threads over single-producer rings. All
//! frame slots belong to the switch worker, which sends empty slots to the I/O workers.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender};
use rtrb::{Consumer, Producer, RingBuffer};
use xoff_dataplane::{FrameHandle, FrameStore, LinkTiming, Picos, PortId};

use super::clock::monotonic_ns;
use super::idle::{IdleAction, IdleMode, IdlePolicy, sleep_on};
use super::port_set::{BURST_FRAMES, FrameSink, PortEvent, PortSet};
use super::received_entry::{RING_ENTRIES, ReceivedEntry};
use xoff_ports::{ArenaStore, PortFrame, SlotCache, SlotClass, SlotSource, ThreadWaker};

/// Prefetch distance in frames. While a frame is processed, the headers of the frame that comes this number
/// of frames later are loaded into the CPU cache.
const PREFETCH_FRAMES: usize = 32;
/// Number of empty slots of each class that an I/O worker gets in stock.
const SLOT_STOCK: usize = 1_024;

/// A message from a switch worker to an I/O worker.
#[derive(Clone, Copy, Debug)]
enum IoCommand {
    /// Queue a frame for transmission (see [`PortSet::queue_frame`]).
    Transmit {
        index: u16,
        frame: FrameHandle,
        due: Picos,
    },
    /// Use an empty slot for received frames.
    AddSlot(FrameHandle),
    /// Close the device of a port, and open the device again (see [`PortSet::reopen`]).
    Reopen { index: u16 },
    /// Change the link of a stream port (see [`PortSet::change_stream_link`]).
    ChangeStreamLink {
        index: u16,
        speed_mbps: u32,
        overhead_bytes: u32,
    },
}

/// The handle with which the switch worker uses an I/O worker. Each update of a ring index moves a cache line
/// from one core to another core. The indices are therefore updated only once for each burst.
#[derive(Debug)]
pub(crate) struct IoWorkerHandle {
    received: Consumer<ReceivedEntry>,
    /// Frames that the devices have sent. Their slots can be freed.
    done: Consumer<FrameHandle>,
    events: Receiver<PortEvent>,
    commands: Producer<IoCommand>,
    /// Messages that the next flush sends.
    staged: Vec<IoCommand>,
    /// Number of free entries in the command ring at the time when the ring was last read.
    free_commands: usize,
    waker: ThreadWaker,
    /// Number of slots of each class that the I/O worker holds, as the switch worker counts them.
    supplied: [usize; 2],
}

/// An I/O worker: a thread that owns some ports of a switch.
#[derive(Debug)]
pub(crate) struct IoWorker {
    ports: PortSet,
    slots: SlotCache,
    received: Producer<ReceivedEntry>,
    done: Producer<FrameHandle>,
    /// Frames that the devices have sent, and that are not yet in the ring to the switch worker. Empty
    /// between bursts.
    sent_frames: Vec<FrameHandle>,
    events: Sender<PortEvent>,
    commands: Consumer<IoCommand>,
    waker: ThreadWaker,
    switch_waker: ThreadWaker,
    idle: IdlePolicy,
    stop: Arc<AtomicBool>,
}

/// Creates an I/O worker for `ports`, and the handle for its switch worker. `held_slots` is the number of
/// small slots that the ports hold in the kernel. The I/O worker gets this number of slots at once, in
/// addition to its stock of empty slots.
pub(crate) fn create_io_worker(
    mut ports: PortSet,
    store: &mut ArenaStore,
    held_slots: usize,
    switch_waker: ThreadWaker,
    idle: IdleMode,
    stop: Arc<AtomicBool>,
) -> std::io::Result<(IoWorkerHandle, IoWorker)> {
    let (received_in, received_out) = RingBuffer::new(RING_ENTRIES);
    let (done_in, done_out) = RingBuffer::new(RING_ENTRIES);
    let (events_in, events_out) = crossbeam_channel::unbounded();
    let (commands_in, commands_out) = RingBuffer::new(RING_ENTRIES);
    let waker = ThreadWaker::new()?;
    ports.set_waker(&waker);
    let remote = IoWorkerHandle {
        received: received_out,
        done: done_out,
        events: events_out,
        commands: commands_in,
        staged: Vec::with_capacity(RING_ENTRIES),
        free_commands: RING_ENTRIES,
        waker: waker.clone(),
        supplied: [0; 2],
    };
    let mut slots = SlotCache::new(store.shared_arena(), 2 * SLOT_STOCK + held_slots, 2 * SLOT_STOCK);
    for _ in 0..held_slots {
        if let Some(slot) = store.take_slot_of(SlotClass::Small) {
            slots.return_slot(slot);
        }
    }
    let idle = IdlePolicy::new(idle);
    Ok((
        remote,
        IoWorker {
            ports,
            slots,
            received: received_in,
            done: done_in,
            sent_frames: Vec::with_capacity(RING_ENTRIES),
            events: events_in,
            commands: commands_out,
            waker,
            switch_waker,
            idle,
            stop,
        },
    ))
}

impl IoWorkerHandle {
    /// Processes the sent frames, events and received frames of the I/O worker. Received frames are taken
    /// only as long as the sink has room. Returns the number of processed entries.
    pub(crate) fn drain_received(
        &mut self,
        store: &mut ArenaStore,
        events: &mut Vec<PortEvent>,
        sink: &mut impl FrameSink,
    ) -> usize {
        // The frames are counted before the events are read, so events that precede a frame are processed
        // before it.
        let waiting = self.received.slots();
        let mut work = self.drain_sent(store, events);
        let Ok(frames) = self.received.read_chunk(waiting) else {
            return work;
        };
        let mut taken = 0;
        let (first, second) = frames.as_slices();
        let arena = SlotSource::arena(store);
        let mut prefetch = first.iter().chain(second);
        for entry in prefetch.by_ref().take(PREFETCH_FRAMES) {
            arena.prefetch_headers(entry.frame);
        }
        for entry in first.iter().chain(second) {
            if sink.free_frames(entry.port) == 0 {
                break;
            }
            if let Some(entry) = prefetch.next() {
                arena.prefetch_headers(entry.frame);
            }
            // The class of the slot counts, not the length of the frame. A short frame is in a large slot if
            // no small slot was free.
            let supplied = &mut self.supplied[arena.slot_class(entry.frame) as usize];
            *supplied = supplied.saturating_sub(1);
            sink.accept_frames(entry.port, &[entry.received()]);
            taken += 1;
        }
        frames.commit(taken);
        work += taken;
        work
    }

    /// Releases the slots of sent frames, and collects the events of the I/O worker. Returns their number.
    fn drain_sent(&mut self, store: &mut ArenaStore, events: &mut Vec<PortEvent>) -> usize {
        let mut work = 0;
        while let Ok(event) = self.events.try_recv() {
            events.push(event);
            work += 1;
        }
        if let Ok(frames) = self.done.read_chunk(self.done.slots()) {
            let (first, second) = frames.as_slices();
            for &frame in first.iter().chain(second) {
                store.release(frame);
            }
            work += frames.len();
            frames.commit_all();
        }
        work
    }

    /// Returns whether messages from the I/O worker wait.
    pub(crate) fn has_input(&self) -> bool {
        !self.received.is_empty() || !self.done.is_empty() || !self.events.is_empty()
    }

    /// Queues a frame for the next [`IoWorkerHandle::flush_commands`]. `index` is the index of the port at
    /// the I/O worker. If the ring has no room, the frame is returned to the caller.
    pub(crate) fn queue_transmit(
        &mut self,
        index: u16,
        frame: FrameHandle,
        due: Picos,
    ) -> Result<(), FrameHandle> {
        if self.staged.len() >= self.free_commands {
            return Err(frame);
        }
        self.staged.push(IoCommand::Transmit { index, frame, due });
        Ok(())
    }

    /// Queues a request to open the device of a port again. The next [`IoWorkerHandle::flush_commands`] sends
    /// the request. `index` is the index of the port at the I/O worker. Returns false if the ring has no room.
    pub(crate) fn queue_reopen(&mut self, index: u16) -> bool {
        let has_room = self.staged.len() < self.free_commands;
        if has_room {
            self.staged.push(IoCommand::Reopen { index });
        }
        has_room
    }

    /// Queues a change of the link of a stream port. If the ring has no room, the port keeps the old link until the
    /// next change. `index` is the index of the port at the I/O worker.
    fn queue_stream_link(&mut self, index: u16, speed_mbps: u32, overhead_bytes: u32) {
        if self.staged.len() < self.free_commands {
            self.staged.push(IoCommand::ChangeStreamLink {
                index,
                speed_mbps,
                overhead_bytes,
            });
        }
    }

    /// Sends the queued messages to the I/O worker and wakes it. Also refills the stock of empty slots of the
    /// I/O worker.
    pub(crate) fn flush_commands(&mut self, store: &mut ArenaStore) {
        // The known number of free entries may be out of date. It is read again only when it is low.
        if self.free_commands <= RING_ENTRIES / 2 {
            self.free_commands = self.commands.slots();
        }
        for class in [SlotClass::Small, SlotClass::Large] {
            // The stock is refilled when half of it is used. A ring entry per slot is cheap, but a wake-up
            // per slot is not.
            if self.supplied[class as usize] > SLOT_STOCK / 2 {
                continue;
            }
            while self.supplied[class as usize] < SLOT_STOCK
                && self.free_commands > self.staged.len() + RING_ENTRIES / 2
            {
                let Some(slot) = store.take_slot_of(class) else {
                    break;
                };
                self.staged.push(IoCommand::AddSlot(slot));
                self.supplied[class as usize] += 1;
            }
        }
        if self.staged.is_empty() {
            return;
        }
        let sent = self.commands.push_entire_slice(&self.staged);
        debug_assert!(sent.is_ok(), "room was checked");
        self.staged.clear();
        self.free_commands = self.commands.slots();
        self.waker.wake();
    }

    /// Waits for the end of an I/O worker that was asked to stop. Collects the last events of this worker and
    /// releases its last frames.
    pub(crate) fn close(&mut self, store: &mut ArenaStore, events: &mut Vec<PortEvent>) {
        self.waker.wake();
        loop {
            // Checked first: everything that the I/O worker sent before its end is then in the rings.
            let has_ended = self.received.is_abandoned();
            while let Ok(last) = self.received.pop() {
                store.release(last.frame);
            }
            self.drain_sent(store, events);
            if has_ended {
                return;
            }
            std::thread::yield_now();
        }
    }
}

impl IoWorker {
    /// Runs until the I/O worker is asked to stop.
    pub(crate) fn run(mut self) {
        let mut last_check_ns = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let now_ns = monotonic_ns();
            let mut work = self.process_commands();
            work += self.receive_frames();
            work += self.flush_ports();
            if now_ns.saturating_sub(last_check_ns) > super::WATCH_INTERVAL_NS {
                last_check_ns = now_ns;
                self.report_events();
            }
            if work > 0 {
                self.switch_waker.wake();
                self.idle.record_work(now_ns, work);
            } else {
                self.wait_for_work(now_ns);
            }
        }
        // The last losses count too.
        self.report_events();
    }

    fn process_commands(&mut self) -> usize {
        let Ok(entries) = self
            .commands
            .read_chunk(self.commands.slots().min(BURST_FRAMES * 4))
        else {
            return 0;
        };
        let taken = entries.len();
        let (first, second) = entries.as_slices();
        for &entry in first.iter().chain(second) {
            match entry {
                IoCommand::Transmit { index, frame, due } => {
                    self.ports.queue_frame(usize::from(index), frame, due)
                }
                IoCommand::AddSlot(slot) => self.slots.return_slot(slot),
                IoCommand::Reopen { index } => self.ports.reopen(usize::from(index)),
                IoCommand::ChangeStreamLink {
                    index,
                    speed_mbps,
                    overhead_bytes,
                } => self
                    .ports
                    .change_stream_link(usize::from(index), speed_mbps, overhead_bytes),
            }
        }
        entries.commit_all();
        taken
    }

    fn receive_frames(&mut self) -> usize {
        // Frames are only received if the ring has room for all of them. A frame without room would be
        // lost silently.
        let ports = self.ports.port_ids().count();
        if self.received.slots() < ports * BURST_FRAMES * 2 {
            return 0;
        }
        self.ports
            .receive(&mut self.slots, &mut ReceivedRing(&mut self.received))
    }

    /// Sends waiting frames to the devices, and returns sent frames to the switch worker. If the ring to the
    /// switch worker is full, the function waits. The switch worker empties the ring, so the wait ends.
    fn flush_ports(&mut self) -> usize {
        let sent_frames = &mut self.sent_frames;
        let flushed = self
            .ports
            .flush(self.slots.arena(), |frame| sent_frames.push(frame));
        let mut rest = &self.sent_frames[..];
        loop {
            (_, rest) = self.done.push_partial_slice(rest);
            if rest.is_empty() || self.done.is_abandoned() {
                break;
            }
            self.switch_waker.wake();
            std::thread::yield_now();
        }
        self.sent_frames.clear();
        flushed
    }

    /// Sends the events of the ports to the switch worker. After the end of the switch worker, the events
    /// are lost.
    fn report_events(&mut self) {
        for event in self.ports.poll_events() {
            let _ = self.events.send(event);
        }
    }

    fn wait_for_work(&mut self, now_ns: u64) {
        let rest = self.idle.next_action(now_ns, self.ports.next_due_ns());
        self.idle.update_sched_policy(now_ns);
        let limit = match rest {
            IdleAction::Sleep(limit) => limit,
            IdleAction::KeepCore if self.idle.is_spinning() => return std::hint::spin_loop(),
            IdleAction::KeepCore | IdleAction::Yield => return std::thread::yield_now(),
        };
        self.waker.prepare_sleep();
        let mut was_woken = false;
        if self.commands.is_empty() && !self.ports.has_input() && !self.stop.load(Ordering::Relaxed) {
            let limit = if self.ports.has_wakeup_for_all_ports() {
                limit
            } else {
                limit.min(super::POLLED_SLEEP_MAX)
            };
            was_woken = sleep_on(self.ports.fds(), Some(self.waker.fd()), limit);
        }
        self.waker.finish_sleep(was_woken);
    }
}

/// The sink of received frames at an I/O worker. Before each burst, the caller must check that the ring
/// has room.
struct ReceivedRing<'a>(&'a mut Producer<ReceivedEntry>);

impl FrameSink for ReceivedRing<'_> {
    fn free_frames(&self, _: PortId) -> usize {
        BURST_FRAMES
    }

    fn accept_frames(&mut self, port: PortId, frames: &[PortFrame]) {
        let chunk = self.0.write_chunk_uninit(frames.len());
        let entries = frames.iter().map(|received| ReceivedEntry::new(port, received));
        let sent = chunk.map(|chunk| chunk.fill_from_iter(entries));
        debug_assert_eq!(sent, Ok(frames.len()), "room was checked");
    }
}

/// The access of a switch worker to its ports.
#[derive(Debug)]
pub(crate) enum PortIo {
    /// The switch worker owns the ports.
    Direct(PortSet),
    /// I/O workers own the ports.
    IoWorkers(Vec<IoWorkerHandle>),
}

impl PortIo {
    /// Returns the descriptors that wake the switch worker when a frame arrives. The result is empty if
    /// I/O workers own the ports. An I/O worker needs no descriptor, because it wakes the switch worker
    /// with a waker.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let own = match self {
            PortIo::Direct(ports) => Some(ports.fds()),
            PortIo::IoWorkers(_) => None,
        };
        own.into_iter().flatten()
    }

    /// Returns whether every arriving frame wakes the switch worker.
    pub(crate) fn has_wakeup_for_all_ports(&self) -> bool {
        match self {
            PortIo::Direct(ports) => ports.has_wakeup_for_all_ports(),
            PortIo::IoWorkers(_) => true,
        }
    }

    /// Returns the wall time in nanoseconds at which the next delayed frame is due at a port of the switch
    /// worker. Returns `None` if no delayed frame waits or I/O workers own the ports.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        match self {
            PortIo::Direct(ports) => ports.next_due_ns(),
            PortIo::IoWorkers(_) => None,
        }
    }

    /// Changes the link of the stream port at `location`: the number of its I/O worker, and the index of the port
    /// there.
    pub(crate) fn change_stream_link(&mut self, location: (usize, u16), link: LinkTiming) {
        let (worker, index) = location;
        let (speed_mbps, overhead_bytes) = (link.speed_mbps, link.overhead_bytes);
        match self {
            PortIo::Direct(ports) => ports.change_stream_link(usize::from(index), speed_mbps, overhead_bytes),
            PortIo::IoWorkers(remotes) => {
                remotes[worker].queue_stream_link(index, speed_mbps, overhead_bytes)
            }
        }
    }

    /// Returns whether a ring or an in-memory link has input.
    pub(crate) fn has_input(&self) -> bool {
        match self {
            PortIo::Direct(ports) => ports.has_input(),
            PortIo::IoWorkers(remotes) => remotes.iter().any(IoWorkerHandle::has_input),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workers::clock::ModelClock;
    use xoff_ports::Arena;

    /// Empties the command ring and releases the slots in it. Returns the number of frames and the number of
    /// slots that were in the ring.
    fn empty_command_ring(worker: &mut IoWorker, store: &mut ArenaStore) -> (usize, usize) {
        let (mut frames, mut slots) = (0, 0);
        while let Ok(entry) = worker.commands.pop() {
            match entry {
                IoCommand::Transmit { .. } => frames += 1,
                IoCommand::AddSlot(slot) => {
                    store.release(slot);
                    slots += 1;
                }
                IoCommand::Reopen { .. } | IoCommand::ChangeStreamLink { .. } => {}
            }
        }
        (frames, slots)
    }

    #[test]
    fn commands_pass_and_the_slot_stock_is_refilled_at_every_fill_level_of_the_ring() {
        let mut store = ArenaStore::new(Arena::new(2 * SLOT_STOCK, 2 * SLOT_STOCK).unwrap());
        let clock = ModelClock::new(0, 1);
        let (requests, _request_end) = crossbeam_channel::unbounded();
        let (_opened_end, opened) = crossbeam_channel::unbounded();
        let ports = PortSet::new(Vec::new(), |_| Picos::ZERO, clock, requests, opened);
        let (waker, stop) = (ThreadWaker::new().unwrap(), Arc::default());
        let (mut remote, mut worker) =
            create_io_worker(ports, &mut store, 0, waker, IdleMode::Spin, stop).unwrap();
        for frames in (0..RING_ENTRIES)
            .step_by(127)
            .chain(RING_ENTRIES / 2 - 2..=RING_ENTRIES / 2 + 2)
        {
            remote.supplied = [SLOT_STOCK; 2];
            for n in 0..frames {
                assert_eq!(
                    remote.queue_transmit(0, FrameHandle(n as u32), Picos::ZERO),
                    Ok(())
                );
            }
            remote.flush_commands(&mut store);
            assert_eq!(empty_command_ring(&mut worker, &mut store), (frames, 0));
            remote.supplied = [0; 2];
            remote.flush_commands(&mut store);
            remote.flush_commands(&mut store);
            let supplied = remote.supplied;
            assert!(
                supplied.iter().all(|slots| *slots > SLOT_STOCK / 2),
                "{supplied:?} after {frames} frames"
            );
            assert_eq!(
                empty_command_ring(&mut worker, &mut store),
                (0, supplied.iter().sum()),
                "after {frames} frames"
            );
            // The next iteration starts with an empty ring.
            remote.free_commands = remote.commands.slots();
        }
        let refused = (0..RING_ENTRIES as u32 + 1)
            .find(|n| remote.queue_transmit(0, FrameHandle(*n), Picos::ZERO).is_err());
        assert_eq!(refused, Some(RING_ENTRIES as u32));
    }
}
