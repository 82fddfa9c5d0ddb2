//! How a switch's worker reaches its ports: itself, or through I/O workers.
//!
//! An I/O worker owns ports: it receives, restores tags, checks and parses, and it transmits. Bursts of handles
//! pass over single-producer rings; slots go the other way, so that all of them belong to the switch's worker.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender};
use rtrb::{Consumer, Producer, RingBuffer};
use xoff_dataplane::{FrameHandle, FrameStore, Picos, PortId};

use super::arrived::{Arrived, RING};
use super::clock::monotonic_ns;
use super::idle::{Idle, IdlePolicy, Rest, sleep_on};
use super::portset::{BURST, Intake, PortEvent, PortSet};
use xoff_ports::{ArenaStore, Bell, Received, SlotCache, SlotClass, SlotSource};

/// Of so many frames behind the one that is taken is fetched what a switch reads first.
const AHEAD: usize = 32;
/// Empty slots an I/O worker is kept supplied with, per class.
const STOCK: usize = 1_024;

/// From the switch's worker to an I/O worker.
#[derive(Clone, Copy, Debug)]
enum Down {
    /// A frame, and when it is due: see [`PortSet::queue`].
    Transmit {
        index: u16,
        frame: FrameHandle,
        due: Picos,
    },
    Slot(FrameHandle),
}

/// The switch's worker's end of an I/O worker. What goes over a ring is told in batches: each word about it moves a cache line from one
/// core to the other.
#[derive(Debug)]
pub(crate) struct Remote {
    up: Consumer<Arrived>,
    /// Frames that the devices are done with.
    done: Consumer<FrameHandle>,
    events: Receiver<PortEvent>,
    down: Producer<Down>,
    /// What goes down next.
    staged: Vec<Down>,
    /// How much of that has room, as far as this side knows.
    room: usize,
    bell: Bell,
    /// Slots the I/O worker holds, by class, as far as this side knows.
    supplied: [usize; 2],
}

/// The I/O worker itself.
#[derive(Debug)]
pub(crate) struct IoWorker {
    ports: PortSet,
    slots: SlotCache,
    up: Producer<Arrived>,
    done: Producer<FrameHandle>,
    /// Frames that the devices are done with and that are not in the ring yet; empty between bursts.
    finished: Vec<FrameHandle>,
    events: Sender<PortEvent>,
    down: Consumer<Down>,
    bell: Bell,
    switch_bell: Bell,
    idle: IdlePolicy,
    stop: Arc<AtomicBool>,
}

/// Joins an I/O worker for `ports` to a switch's worker. Its ports hold up to `held` small slots, which it gets at once
/// and beside its stock.
pub(crate) fn pair(
    mut ports: PortSet,
    store: &mut ArenaStore,
    held: usize,
    switch_bell: Bell,
    idle: Idle,
    stop: Arc<AtomicBool>,
) -> std::io::Result<(Remote, IoWorker)> {
    let (up_in, up_out) = RingBuffer::new(RING);
    let (done_in, done_out) = RingBuffer::new(RING);
    let (events_in, events_out) = crossbeam_channel::unbounded();
    let (down_in, down_out) = RingBuffer::new(RING);
    let bell = Bell::new()?;
    ports.wake_by(&bell);
    let remote = Remote {
        up: up_out,
        done: done_out,
        events: events_out,
        down: down_in,
        staged: Vec::with_capacity(RING),
        room: RING,
        bell: bell.clone(),
        supplied: [0; 2],
    };
    let mut slots = SlotCache::new(store.shared_arena(), 2 * STOCK + held, 2 * STOCK);
    for _ in 0..held {
        if let Some(slot) = store.take_class(SlotClass::Small) {
            slots.put(slot);
        }
    }
    let idle = IdlePolicy::new(idle);
    Ok((
        remote,
        IoWorker {
            ports,
            slots,
            up: up_in,
            done: done_in,
            finished: Vec::with_capacity(RING),
            events: events_in,
            down: down_out,
            bell,
            switch_bell,
            idle,
            stop,
        },
    ))
}

impl Remote {
    /// Takes what the I/O worker has received, as far as the intake has room, what its devices are done with, and what it has to say. How
    /// much it was.
    pub(crate) fn take_in(
        &mut self,
        store: &mut ArenaStore,
        events: &mut Vec<PortEvent>,
        intake: &mut impl Intake,
    ) -> usize {
        // Counted before its words are heard: what it said before it sent these frames is heard before they are taken.
        let waiting = self.up.slots();
        let mut work = self.take_back(store, events);
        let Ok(frames) = self.up.read_chunk(waiting) else {
            return work;
        };
        let mut taken = 0;
        let (first, second) = frames.as_slices();
        let arena = SlotSource::arena(store);
        let mut ahead = first.iter().chain(second);
        for arrived in ahead.by_ref().take(AHEAD) {
            arena.fetch(arrived.frame);
        }
        for arrived in first.iter().chain(second) {
            if intake.room(arrived.port) == 0 {
                break;
            }
            if let Some(arrived) = ahead.next() {
                arena.fetch(arrived.frame);
            }
            // Not by its length: a short frame lies in a large slot when small ones had run out.
            let supplied = &mut self.supplied[arena.class(arrived.frame) as usize];
            *supplied = supplied.saturating_sub(1);
            intake.take(arrived.port, &[arrived.received()]);
            taken += 1;
        }
        frames.commit(taken);
        work += taken;
        work
    }

    /// Gives the slots of frames that have been sent back, and hears what the I/O worker has to say.
    fn take_back(&mut self, store: &mut ArenaStore, events: &mut Vec<PortEvent>) -> usize {
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

    /// Whether something waits that has come from the I/O worker.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.up.is_empty() || !self.done.is_empty() || !self.events.is_empty()
    }

    /// Has a frame sent down by the next [`Remote::hand_down`]; gives it back if it would find no room.
    pub(crate) fn transmit(&mut self, index: u16, frame: FrameHandle, due: Picos) -> Result<(), FrameHandle> {
        if self.staged.len() >= self.room {
            return Err(frame);
        }
        self.staged.push(Down::Transmit { index, frame, due });
        Ok(())
    }

    /// Sends down what is to go there, brings the I/O worker's stock of empty slots up, and wakes it if there is anything for it.
    pub(crate) fn hand_down(&mut self, store: &mut ArenaStore) {
        // What is known of the ring may be old, and stays so as long as nothing is sent.
        if self.room <= RING / 2 {
            self.room = self.down.slots();
        }
        for class in [SlotClass::Small, SlotClass::Large] {
            // Refilled by halves: a ring entry per slot is cheap, a wake-up per slot is not.
            if self.supplied[class as usize] > STOCK / 2 {
                continue;
            }
            while self.supplied[class as usize] < STOCK && self.room > self.staged.len() + RING / 2 {
                let Some(slot) = store.take_class(class) else {
                    break;
                };
                self.staged.push(Down::Slot(slot));
                self.supplied[class as usize] += 1;
            }
        }
        if self.staged.is_empty() {
            return;
        }
        let sent = self.down.push_entire_slice(&self.staged);
        debug_assert!(sent.is_ok(), "room was checked");
        self.staged.clear();
        self.room = self.down.slots();
        self.bell.ring();
    }

    /// Takes what the I/O worker, which has been told to stop, still has to say, until it is gone.
    pub(crate) fn close(&mut self, store: &mut ArenaStore, events: &mut Vec<PortEvent>) {
        self.bell.ring();
        loop {
            // Asked first: all that it said before its end is in the rings then.
            let gone = self.up.is_abandoned();
            while let Ok(last) = self.up.pop() {
                store.release(last.frame);
            }
            self.take_back(store, events);
            if gone {
                return;
            }
            std::thread::yield_now();
        }
    }
}

impl IoWorker {
    /// Runs until told to stop.
    pub(crate) fn run(mut self) {
        let mut watched_ns = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let now_ns = monotonic_ns();
            let mut work = self.take_down();
            work += self.receive();
            work += self.flush();
            if now_ns.saturating_sub(watched_ns) > super::WATCH_NS {
                watched_ns = now_ns;
                self.tell();
            }
            if work > 0 {
                self.switch_bell.ring();
                self.idle.worked(now_ns, work);
            } else {
                self.rest(now_ns);
            }
        }
        // Losses of the last moments count.
        self.tell();
    }

    fn take_down(&mut self) -> usize {
        let Ok(entries) = self.down.read_chunk(self.down.slots().min(BURST * 4)) else {
            return 0;
        };
        let taken = entries.len();
        let (first, second) = entries.as_slices();
        for &entry in first.iter().chain(second) {
            match entry {
                Down::Transmit { index, frame, due } => self.ports.queue(usize::from(index), frame, due),
                Down::Slot(slot) => self.slots.put(slot),
            }
        }
        entries.commit_all();
        taken
    }

    fn receive(&mut self) -> usize {
        // A frame that finds no room in the ring would be lost without a word, so none is taken that might not.
        let ports = self.ports.ids().count();
        if self.up.slots() < ports * BURST * 2 {
            return 0;
        }
        self.ports.receive(&mut self.slots, &mut Ring(&mut self.up))
    }

    /// Sends what waits, and tells what the devices are done with, waiting for room: the switch's worker empties the ring until this one
    /// is gone.
    fn flush(&mut self) -> usize {
        let finished = &mut self.finished;
        let flushed = self.ports.flush(self.slots.arena(), |frame| finished.push(frame));
        let mut rest = &self.finished[..];
        loop {
            (_, rest) = self.done.push_partial_slice(rest);
            if rest.is_empty() || self.done.is_abandoned() {
                break;
            }
            self.switch_bell.ring();
            std::thread::yield_now();
        }
        self.finished.clear();
        flushed
    }

    /// Says what the ports have to say. Nobody hears it once the switch's worker is gone.
    fn tell(&mut self) {
        for event in self.ports.watch() {
            let _ = self.events.send(event);
        }
    }

    fn rest(&mut self, now_ns: u64) {
        let rest = self.idle.rest(now_ns, self.ports.next_due_ns());
        self.idle.give_way(now_ns);
        let limit = match rest {
            Rest::Sleep(limit) => limit,
            Rest::Look if self.idle.spins() => return std::hint::spin_loop(),
            Rest::Look | Rest::Yield => return std::thread::yield_now(),
        };
        self.bell.about_to_sleep();
        let mut rung = false;
        if self.down.is_empty() && !self.ports.waiting() && !self.stop.load(Ordering::Relaxed) {
            let limit = if self.ports.all_wake() {
                limit
            } else {
                limit.min(super::POLLED_SLEEP)
            };
            rung = sleep_on(self.ports.fds(), Some(self.bell.fd()), limit);
        }
        self.bell.awake(rung);
    }
}

/// The ring as a place for received frames; its room was checked before.
struct Ring<'a>(&'a mut Producer<Arrived>);

impl Intake for Ring<'_> {
    fn room(&self, _: PortId) -> usize {
        BURST
    }

    fn take(&mut self, port: PortId, frames: &[Received]) {
        let room = self.0.write_chunk_uninit(frames.len());
        let arrived = frames.iter().map(|received| Arrived::new(port, received));
        let sent = room.map(|room| room.fill_from_iter(arrived));
        debug_assert_eq!(sent, Ok(frames.len()), "room was checked");
    }
}

/// A switch's worker's way to its ports.
#[derive(Debug)]
pub(crate) enum Io {
    /// It owns them.
    Inline(PortSet),
    /// I/O workers do.
    Remote(Vec<Remote>),
}

impl Io {
    /// What wakes the switch's worker when a frame comes; I/O workers ring its bell instead.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let own = match self {
            Io::Inline(ports) => Some(ports.fds()),
            Io::Remote(_) => None,
        };
        own.into_iter().flatten()
    }

    /// Whether something wakes it for every frame.
    pub(crate) fn all_wake(&self) -> bool {
        match self {
            Io::Inline(ports) => ports.all_wake(),
            Io::Remote(_) => true,
        }
    }

    /// When the next frame is due that waits here for its time, in wall time.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        match self {
            Io::Inline(ports) => ports.next_due_ns(),
            Io::Remote(_) => None,
        }
    }

    /// Whether something waits in a ring.
    pub(crate) fn waiting(&self) -> bool {
        match self {
            Io::Inline(ports) => ports.waiting(),
            Io::Remote(remotes) => remotes.iter().any(Remote::is_waiting),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workers::clock::ModelClock;
    use xoff_ports::Arena;

    /// What lies in the ring down, taken out: frames, and slots, which go back.
    fn empty(worker: &mut IoWorker, store: &mut ArenaStore) -> (usize, usize) {
        let (mut frames, mut slots) = (0, 0);
        while let Ok(entry) = worker.down.pop() {
            match entry {
                Down::Transmit { .. } => frames += 1,
                Down::Slot(slot) => {
                    store.release(slot);
                    slots += 1;
                }
            }
        }
        (frames, slots)
    }

    #[test]
    fn what_finds_room_goes_down_and_a_stock_is_brought_up_however_full_the_ring_was() {
        let mut store = ArenaStore::new(Arena::new(2 * STOCK, 2 * STOCK).unwrap());
        let clock = ModelClock::new(0, 1);
        let (lost, _kept) = crossbeam_channel::unbounded();
        let (_kept, opened) = crossbeam_channel::unbounded();
        let ports = PortSet::new(Vec::new(), |_| Picos::ZERO, clock, lost, opened);
        let (bell, stop) = (Bell::new().unwrap(), Arc::default());
        let (mut remote, mut worker) = pair(ports, &mut store, 0, bell, Idle::Spin, stop).unwrap();
        for frames in (0..RING).step_by(127).chain(RING / 2 - 2..=RING / 2 + 2) {
            remote.supplied = [STOCK; 2];
            for n in 0..frames {
                assert_eq!(remote.transmit(0, FrameHandle(n as u32), Picos::ZERO), Ok(()));
            }
            remote.hand_down(&mut store);
            assert_eq!(empty(&mut worker, &mut store), (frames, 0));
            remote.supplied = [0; 2];
            remote.hand_down(&mut store);
            remote.hand_down(&mut store);
            let supplied = remote.supplied;
            assert!(
                supplied.iter().all(|slots| *slots > STOCK / 2),
                "{supplied:?} after {frames} frames"
            );
            assert_eq!(
                empty(&mut worker, &mut store),
                (0, supplied.iter().sum()),
                "after {frames} frames"
            );
            // The next round begins with a ring that is known to be empty.
            remote.room = remote.down.slots();
        }
        let refused =
            (0..RING as u32 + 1).find(|n| remote.transmit(0, FrameHandle(*n), Picos::ZERO).is_err());
        assert_eq!(refused, Some(RING as u32));
    }
}
