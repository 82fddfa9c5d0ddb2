//! Hosts in real time: one thread moves the frames of several hosts between them and their devices.
//!
//! The thread needs no namespace: a [`Port`] was opened in the one of its device. Model time is that of the
//! [`ModelClock`], shared with the switches of a run; a host's NIC decides by it alone when a frame leaves.

mod application;
mod attachment;
mod nap;
pub mod standalone;
mod worker;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::workers::clock::{ModelClock, monotonic_ns};
use crate::workers::{IdleMode, TaintLedger};
pub use application::{Application, HostsAt};
use attachment::Attachment;
use worker::Worker;
use xoff_host::{Host, HostResults};
use xoff_ports::{Arena, ArenaStore, Port};
use xoff_rdma::Counters;

/// Frames that a host has in slots at most: a burst that arrives and one that leaves.
const SLOTS_PER_HOST: usize = 256;

/// A host and the device in front of it.
#[derive(Debug)]
pub struct AttachedHost {
    /// The host.
    pub host: Host,
    /// Its device, opened in its namespace.
    pub port: Port,
}

/// How hosts are driven.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// Name of the thread (15 characters are kept).
    pub name: String,
    /// Model time, the same for all hosts and switches of a run.
    pub clock: ModelClock,
    /// The core that the thread is bound to.
    pub core: Option<usize>,
    /// What the thread does when there is nothing to do.
    pub idle: IdleMode,
    /// What the thread may stall in wall time before the run is tainted.
    pub reaction_budget: Duration,
    /// Where that is entered, and losses outside the model.
    pub ledger: TaintLedger,
}

/// What a host leaves.
#[derive(Clone, Debug)]
pub struct HostOutcome {
    /// What it counted.
    pub results: HostResults,
    /// What its queue pairs counted.
    pub queue_pairs: Counters,
    /// Its device.
    pub device: String,
    /// Frames that the kernel lost on the device, or that the device refused. Each taints the run.
    pub lost_outside: u64,
    /// Frames that the NIC had put on the wire and the device never took. They taint the run.
    pub not_taken: u64,
    /// What a person should know of the device.
    pub notes: Vec<String>,
    /// Why the device could not be used any more.
    pub error: Option<String>,
}

/// How far the hosts of a thread are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Frames that their flows have sent.
    pub sent_frames: u64,
    /// Frames of flows that they have received.
    pub received_frames: u64,
    /// When a frame arrived or the application did something by time alone, in nanoseconds of CLOCK_MONOTONIC; 0: never.
    pub last_arrival_ns: u64,
    /// Whether some flow has still something to send.
    pub is_sending: bool,
    /// Whether the application has something to do, now or later.
    pub is_working: bool,
    /// When it will do that by itself, if it waits for a time, in nanoseconds of CLOCK_MONOTONIC; else `u64::MAX`.
    pub next_start_ns: u64,
    /// Destinations whose MAC address is asked for and not known yet.
    pub unresolved: u64,
}

/// What the thread is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Phase {
    /// Announce, answer, receive.
    Ready = 0,
    /// Send, too.
    Sending = 1,
    /// Receive what is still on its way.
    Draining = 2,
    /// End.
    Stopped = 3,
}

/// What both sides see.
#[derive(Debug, Default)]
struct Shared {
    phase: AtomicU8,
    sent_frames: AtomicU64,
    received_frames: AtomicU64,
    last_arrival_ns: AtomicU64,
    is_sending: AtomicBool,
    is_working: AtomicBool,
    next_start_ns: AtomicU64,
    unresolved: AtomicU64,
    /// Set when the phase of the thread has caught up with `phase`.
    reached: AtomicU8,
}

/// Hosts that run, and what runs on them.
#[derive(Debug)]
pub struct RunningHosts<A = ()> {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<(Vec<HostOutcome>, A)>>,
}

/// Starts a thread for these hosts. They announce themselves and receive at once; they send when told to.
///
/// # Errors
/// The kernel refuses memory or a thread.
pub fn spawn(hosts: Vec<AttachedHost>, options: RuntimeOptions) -> io::Result<RunningHosts> {
    spawn_with(hosts, (), options)
}

/// As [`spawn`], with an application, which starts with the flows.
///
/// # Errors
/// As [`spawn`].
pub fn spawn_with<A: Application>(
    mut hosts: Vec<AttachedHost>,
    application: A,
    options: RuntimeOptions,
) -> io::Result<RunningHosts<A>> {
    let longest = hosts
        .iter()
        .map(|attached| attached.host.frame_len_max())
        .max()
        .unwrap_or_default();
    let slots = SLOTS_PER_HOST * hosts.len().max(1);
    // What arrives may be longer than what is sent, so there are some large slots in any case.
    let large = if longest > xoff_ports::arena::SMALL_FRAME_BYTES {
        slots
    } else {
        SLOTS_PER_HOST
    };
    let held: usize = hosts.iter().map(|attached| attached.port.reserved_slots()).sum();
    let store = ArenaStore::new(Arena::new(slots + held, large)?);
    for attached in &mut hosts {
        attached
            .port
            .attach(&store.shared_arena())
            .map_err(io::Error::other)?;
    }
    let shared = Arc::new(Shared::default());
    // Until the thread says so itself: who asks too early is not to find that all are known.
    let unresolved: usize = hosts
        .iter()
        .map(|attached| attached.host.unresolved().count())
        .sum();
    shared.unresolved.store(unresolved as u64, Ordering::Relaxed);
    let attachments = hosts.into_iter().map(Attachment::new).collect();
    let worker = Worker::new(
        attachments,
        application,
        store,
        Arc::clone(&shared),
        options.clone(),
    );
    let thread = thread::Builder::new()
        .name(options.name)
        .spawn(move || worker.run())?;
    Ok(RunningHosts {
        shared,
        thread: Some(thread),
    })
}

impl<A> RunningHosts<A> {
    /// Starts the flows and the application. Later calls do nothing.
    pub fn start_sending(&self) {
        self.reach(Phase::Sending);
    }

    /// Stops the flows; what they have not sent is not sent any more. The application goes on.
    pub fn stop_sending(&self) {
        self.reach(Phase::Draining);
    }

    /// Returns when the thread is in this phase, or after a second.
    fn reach(&self, phase: Phase) {
        self.advance(phase);
        for _ in 0..1_000 {
            if self.shared.reached.load(Ordering::Acquire) >= phase as u8 || self.is_dead() {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// How far they are.
    pub fn progress(&self) -> Progress {
        let shared = &self.shared;
        Progress {
            sent_frames: shared.sent_frames.load(Ordering::Relaxed),
            received_frames: shared.received_frames.load(Ordering::Relaxed),
            last_arrival_ns: shared.last_arrival_ns.load(Ordering::Relaxed),
            is_sending: shared.is_sending.load(Ordering::Relaxed),
            is_working: shared.is_working.load(Ordering::Relaxed),
            next_start_ns: shared.next_start_ns.load(Ordering::Relaxed),
            unresolved: shared.unresolved.load(Ordering::Relaxed),
        }
    }

    /// Whether the thread has ended without being told to.
    pub fn is_dead(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the thread; what the hosts counted, in their order. `None` if the thread died.
    pub fn stop(self) -> Option<Vec<HostOutcome>> {
        self.stop_with().map(|(outcomes, _)| outcomes)
    }

    /// As [`RunningHosts::stop`], with the application.
    pub fn stop_with(mut self) -> Option<(Vec<HostOutcome>, A)> {
        self.advance(Phase::Stopped);
        self.thread.take()?.join().ok()
    }

    fn advance(&self, phase: Phase) {
        self.shared.phase.fetch_max(phase as u8, Ordering::AcqRel);
    }
}

impl<A> Drop for RunningHosts<A> {
    fn drop(&mut self) {
        self.advance(Phase::Stopped);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}

/// Stops the flows of all and waits until nothing has arrived anywhere for `quiet`, for `limit` at most; true if
/// it became quiet. `cancel` ends the waiting. Times are of the wall.
pub fn drain<A>(running: &[&RunningHosts<A>], quiet: Duration, limit: Duration, cancel: &AtomicBool) -> bool {
    running.iter().for_each(|hosts| hosts.stop_sending());
    let begun_ns = monotonic_ns();
    loop {
        let now_ns = monotonic_ns();
        let last = running
            .iter()
            .map(|hosts| hosts.progress().last_arrival_ns)
            .max()
            .unwrap_or_default();
        let silent_ns = now_ns.saturating_sub(last.max(begun_ns));
        if silent_ns >= quiet.as_nanos() as u64 {
            return true;
        }
        if now_ns - begun_ns >= limit.as_nanos() as u64 || cancel.load(Ordering::Relaxed) {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}
