//! Model hosts in real time. One thread drives several hosts, and moves frames between each host and the
//! network device of the host.
//!
//! The thread can run in any network namespace, because each [`Port`] was opened in the namespace of its
//! device. All hosts and switches of a run use the same [`ModelClock`]. The NIC of a host decides by model
//! time alone when it sends a frame.

mod application;
mod attachment;
mod host_worker;
mod idle_policy;
pub mod standalone;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::workers::clock::{ModelClock, monotonic_ns};
use crate::workers::{IdleMode, TaintLog};
pub use application::{Application, HostAccess};
use attachment::AttachedHostState;
use host_worker::HostWorker;
use xoff_host::{Host, HostResults};
use xoff_ports::{Arena, ArenaStore, Port};
use xoff_rdma::Counters;

/// Number of frame slots for each host: space for received bursts and a burst to send.
const SLOTS_PER_HOST: usize = 256;

/// A model host, and its device.
#[derive(Debug)]
pub struct AttachedHost {
    /// The model host.
    pub host: Host,
    /// The open device of the host.
    pub port: Port,
}

/// Options of a thread that drives model hosts.
#[derive(Clone, Debug)]
pub struct HostThreadOptions {
    /// Name of the thread. The kernel keeps only the first 15 bytes.
    pub name: String,
    /// The clock of model time that all hosts and switches of a run share.
    pub clock: ModelClock,
    /// The core to which the thread is pinned. `None` means that the thread is not pinned. If the kernel
    /// refuses the core, the thread logs a warning and runs on any core.
    pub core: Option<usize>,
    /// The way in which the thread waits for work.
    pub idle: IdleMode,
    /// Longest stall of the thread in wall time that does not taint the run. A tainted run proves nothing.
    pub reaction_budget: Duration,
    /// The ledger that collects the taints of the run: facts, such as stalls and lost frames, for which the
    /// run proves nothing.
    pub ledger: TaintLog,
}

/// The results of a host after a run.
#[derive(Clone, Debug)]
pub struct HostRunResult {
    /// Results and counters of the host.
    pub results: HostResults,
    /// Counters of all queue pairs of the host together.
    pub queue_pairs: Counters,
    /// Name of the network device.
    pub device: String,
    /// Number of frames that the kernel lost on the device or that the port backend dropped. Such a loss
    /// taints the run, which means that the run proves nothing.
    pub lost_frames: u64,
    /// Number of frames that the NIC had sent in the model, and that the device had not accepted at the end.
    /// Such frames taint the run, which means that the run proves nothing.
    pub unaccepted_frames: u64,
    /// Notes for the user about the device.
    pub notes: Vec<String>,
    /// The error after which the device could not be used any more. `None` if no such error occurred.
    pub error: Option<String>,
}

/// Progress of all hosts of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostProgress {
    /// Number of frames that the flows have sent.
    pub sent_frames: u64,
    /// Number of frames of flows that the hosts have received.
    pub received_frames: u64,
    /// Wall time of the last activity in nanoseconds of `CLOCK_MONOTONIC`. 0 if there was no activity. An
    /// activity is a received frame or a timed start of the application.
    pub last_arrival_ns: u64,
    /// Whether a started flow has frames left to send.
    pub is_sending: bool,
    /// Whether the application has work, now or later.
    pub is_working: bool,
    /// Wall time of the next timed start of the application, in nanoseconds of `CLOCK_MONOTONIC`. `u64::MAX`
    /// means that no start is planned.
    pub next_start_ns: u64,
    /// Number of destinations whose MAC address is not yet known.
    pub unresolved: u64,
}

/// The phases of the thread. A phase never changes to an earlier phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum ThreadPhase {
    /// Announce the addresses of the hosts, answer requests and receive frames.
    Ready = 0,
    /// Also send the frames of the flows.
    Sending = 1,
    /// Stop the flows and receive the frames in flight.
    Draining = 2,
    /// End the thread.
    Stopped = 3,
}

/// The state that the thread shares with its [`RunningHosts`].
#[derive(Debug, Default)]
struct SharedThreadState {
    phase: AtomicU8,
    sent_frames: AtomicU64,
    received_frames: AtomicU64,
    last_arrival_ns: AtomicU64,
    is_sending: AtomicBool,
    is_working: AtomicBool,
    next_start_ns: AtomicU64,
    unresolved: AtomicU64,
    /// The phase that the thread has entered.
    reached: AtomicU8,
}

/// Running hosts of one thread, and their application. Dropping the value ends the thread.
#[derive(Debug)]
pub struct RunningHosts<A = ()> {
    shared: Arc<SharedThreadState>,
    thread: Option<JoinHandle<(Vec<HostRunResult>, A)>>,
}

/// Starts a thread that drives these hosts. The hosts announce their addresses and start to receive at once.
/// They send flows only after [`RunningHosts::start_sending`].
///
/// # Errors
/// Returns an error if the kernel refuses memory or a thread, or if a port cannot use the memory.
pub fn spawn_hosts(hosts: Vec<AttachedHost>, options: HostThreadOptions) -> io::Result<RunningHosts> {
    spawn_hosts_with_application(hosts, (), options)
}

/// Starts a thread that drives these hosts and an application. The application starts together with the
/// flows, in [`RunningHosts::start_sending`].
///
/// # Errors
/// Returns an error if the kernel refuses memory or a thread, or if a port cannot use the memory.
pub fn spawn_hosts_with_application<A: Application>(
    mut hosts: Vec<AttachedHost>,
    application: A,
    options: HostThreadOptions,
) -> io::Result<RunningHosts<A>> {
    let longest = hosts
        .iter()
        .map(|attached| attached.host.frame_len_max())
        .max()
        .unwrap_or_default();
    let slots = SLOTS_PER_HOST * hosts.len().max(1);
    // Received frames may be longer than sent frames, so a few large slots exist in any case.
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
    let shared = Arc::new(SharedThreadState::default());
    // The initial value holds until the thread publishes its own. An early reader must not conclude that all
    // destinations are known.
    let unresolved: usize = hosts
        .iter()
        .map(|attached| attached.host.unresolved().count())
        .sum();
    shared.unresolved.store(unresolved as u64, Ordering::Relaxed);
    let attachments = hosts.into_iter().map(AttachedHostState::new).collect();
    let worker = HostWorker::new(
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
    /// Starts the flows and the application, and waits for the start, at most one second. If the thread has
    /// not started them by then or has died, the call returns without an error ([`RunningHosts::is_dead`]).
    /// Calls after the first one or after [`RunningHosts::stop_sending`] have no effect.
    pub fn start_sending(&self) {
        self.advance_and_wait(ThreadPhase::Sending);
    }

    /// Stops all flows without sending their remaining frames, and waits for the stop, at most one second. If
    /// the thread has died or has not stopped the flows within this second, the call returns without an error
    /// ([`RunningHosts::is_dead`]). The application continues.
    pub fn stop_sending(&self) {
        self.advance_and_wait(ThreadPhase::Draining);
    }

    /// Asks the thread to enter a phase. Waits until the thread has entered this phase, at most one second.
    fn advance_and_wait(&self, phase: ThreadPhase) {
        self.request_phase(phase);
        for _ in 0..1_000 {
            if self.shared.reached.load(Ordering::Acquire) >= phase as u8 || self.is_dead() {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns the progress of the hosts as of their last turn.
    pub fn progress(&self) -> HostProgress {
        let shared = &self.shared;
        HostProgress {
            sent_frames: shared.sent_frames.load(Ordering::Relaxed),
            received_frames: shared.received_frames.load(Ordering::Relaxed),
            last_arrival_ns: shared.last_arrival_ns.load(Ordering::Relaxed),
            is_sending: shared.is_sending.load(Ordering::Relaxed),
            is_working: shared.is_working.load(Ordering::Relaxed),
            next_start_ns: shared.next_start_ns.load(Ordering::Relaxed),
            unresolved: shared.unresolved.load(Ordering::Relaxed),
        }
    }

    /// Returns whether the thread has ended, although no end was requested.
    pub fn is_dead(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the thread and returns the results of the hosts, in the order in which they were passed. Returns
    /// `None` if the thread died.
    pub fn stop(self) -> Option<Vec<HostRunResult>> {
        self.stop_with_application().map(|(results, _)| results)
    }

    /// Ends the thread and returns the results of the hosts, in the order in which they were passed, and the
    /// application. Returns `None` if the thread died.
    pub fn stop_with_application(mut self) -> Option<(Vec<HostRunResult>, A)> {
        self.request_phase(ThreadPhase::Stopped);
        self.thread.take()?.join().ok()
    }

    fn request_phase(&self, phase: ThreadPhase) {
        self.shared.phase.fetch_max(phase as u8, Ordering::AcqRel);
    }
}

impl<A> Drop for RunningHosts<A> {
    fn drop(&mut self) {
        self.request_phase(ThreadPhase::Stopped);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has already printed the reason.
            let _ = thread.join();
        }
    }
}

/// Stops all flows and waits for the frames in flight. Returns true as soon as no frame has arrived for the
/// time `quiet`. Returns false if this takes longer than `limit`, or if `cancel` is set. Both times are
/// wall time.
pub fn drain_hosts<A>(
    running: &[&RunningHosts<A>],
    quiet: Duration,
    limit: Duration,
    cancel: &AtomicBool,
) -> bool {
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
