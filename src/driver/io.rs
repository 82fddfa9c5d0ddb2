//! How a switch's worker reaches its ports: itself, or through I/O workers.
//!
//! An I/O worker owns ports: it receives, restores tags, checks and parses, and it transmits. Bursts of handles
//! pass over single-producer rings; slots go the other way, so that all of them belong to the switch's worker.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};
use xoff_dataplane::{Handle, Picos, PortId, Store};

use super::clock::monotonic_ns;
use super::idle::{Idle, IdlePolicy, Rest, sleep_on};
use super::portset::{BURST, Intake, PortEvent, PortSet};
use crate::ports::{Arena, ArenaStore, Bell, Received, SlotCache, SlotClass, SlotSource};

/// Entries of each ring. Enough for a stall of some milliseconds at a million frames a second.
const RING: usize = 8_192;
/// Empty slots an I/O worker is kept supplied with, per class.
const STOCK: usize = 1_024;

/// From an I/O worker to the switch's worker.
#[derive(Debug)]
pub(crate) enum Up {
    Received { port: PortId, frame: Received },
    Done(Handle),
    Event(PortEvent),
}

/// From the switch's worker to an I/O worker.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Down {
    /// A frame, and when it is due: see [`PortSet::queue`].
    Transmit {
        index: u16,
        frame: Handle,
        due: Picos,
    },
    Slot(Handle),
}

/// The switch's worker's end of an I/O worker.
#[derive(Debug)]
pub(crate) struct Remote {
    up: Consumer<Up>,
    down: Producer<Down>,
    bell: Bell,
    /// Slots the I/O worker holds, by class, as far as this side knows.
    supplied: [usize; 2],
    rang: bool,
}

/// The I/O worker itself.
#[derive(Debug)]
pub(crate) struct IoWorker {
    ports: PortSet,
    slots: SlotCache,
    up: Producer<Up>,
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
    let (down_in, down_out) = RingBuffer::new(RING);
    let bell = Bell::new()?;
    ports.wake_by(&bell);
    let remote = Remote {
        up: up_out,
        down: down_in,
        bell: bell.clone(),
        supplied: [0; 2],
        rang: false,
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
            down: down_out,
            bell,
            switch_bell,
            idle,
            stop,
        },
    ))
}

impl Remote {
    /// Takes the next entry.
    pub(crate) fn take(&mut self, arena: &Arena) -> Option<Up> {
        let message = self.up.pop().ok()?;
        if let Up::Received { frame, .. } = &message {
            // Not by its length: a short frame lies in a large slot when small ones had run out.
            let class = arena.class(frame.frame);
            let supplied = &mut self.supplied[class as usize];
            *supplied = supplied.saturating_sub(1);
        }
        Some(message)
    }

    /// The next entry, left where it is.
    pub(crate) fn peek(&self) -> Option<&Up> {
        self.up.peek().ok()
    }

    /// Sends a frame down; gives it back if the ring is full.
    pub(crate) fn transmit(&mut self, index: u16, frame: Handle, due: Picos) -> Result<(), Handle> {
        self.rang = true;
        let entry = Down::Transmit { index, frame, due };
        self.down.push(entry).map_err(|_| frame)
    }

    /// Brings the I/O worker's stock of empty slots up, and wakes it if there is anything for it.
    pub(crate) fn supply(&mut self, store: &mut ArenaStore) {
        for class in [SlotClass::Small, SlotClass::Large] {
            // Refilled by halves: a ring entry per slot is cheap, a wake-up per slot is not.
            if self.supplied[class as usize] > STOCK / 2 {
                continue;
            }
            while self.supplied[class as usize] < STOCK && self.down.slots() > RING / 2 {
                let Some(slot) = store.take_class(class) else {
                    break;
                };
                if self.down.push(Down::Slot(slot)).is_err() {
                    store.release(slot);
                    break;
                }
                self.supplied[class as usize] += 1;
                self.rang = true;
            }
        }
        if std::mem::take(&mut self.rang) {
            self.bell.ring();
        }
    }

    /// Takes what the I/O worker, which has been told to stop, still has to say, until it is gone.
    pub(crate) fn close(&mut self, store: &mut ArenaStore, events: &mut Vec<PortEvent>) {
        self.bell.ring();
        loop {
            // Asked first: all that it said before its end is in the ring then.
            let gone = self.up.is_abandoned();
            while let Ok(last) = self.up.pop() {
                match last {
                    Up::Received { frame, .. } => store.release(frame.frame),
                    Up::Done(frame) => store.release(frame),
                    Up::Event(event) => events.push(event),
                }
            }
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
                for event in self.ports.watch() {
                    self.send(Up::Event(event));
                }
            }
            if work > 0 {
                self.switch_bell.ring();
                self.idle.worked(now_ns, work);
            } else {
                self.rest(now_ns);
            }
        }
        // Losses of the last moments count.
        for event in self.ports.watch() {
            self.send(Up::Event(event));
        }
    }

    fn take_down(&mut self) -> usize {
        let mut taken = 0;
        while taken < BURST * 4 {
            match self.down.pop() {
                Ok(Down::Transmit { index, frame, due }) => self.ports.queue(usize::from(index), frame, due),
                Ok(Down::Slot(slot)) => self.slots.put(slot),
                Err(_) => break,
            }
            taken += 1;
        }
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

    fn flush(&mut self) -> usize {
        let up = &mut self.up;
        let mut stuck = Vec::new();
        let flushed = self.ports.flush(self.slots.arena(), |frame| {
            if up.push(Up::Done(frame)).is_err() {
                stuck.push(frame);
            }
        });
        stuck.into_iter().for_each(|frame| self.send(Up::Done(frame)));
        flushed
    }

    /// Puts an entry in the ring, waiting for room: the switch's worker empties it until this one is gone.
    fn send(&mut self, mut message: Up) {
        while let Err(rtrb::PushError::Full(back)) = self.up.push(message) {
            if self.up.is_abandoned() {
                return;
            }
            message = back;
            self.switch_bell.ring();
            std::thread::yield_now();
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
struct Ring<'a>(&'a mut Producer<Up>);

impl Intake for Ring<'_> {
    fn room(&self, _: PortId) -> usize {
        BURST
    }
    fn take(&mut self, port: PortId, frame: Received) {
        let sent = self.0.push(Up::Received { port, frame });
        debug_assert!(sent.is_ok(), "room was checked");
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
            Io::Remote(remotes) => remotes.iter().any(|r| r.peek().is_some()),
        }
    }
}
