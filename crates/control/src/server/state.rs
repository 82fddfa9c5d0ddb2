//! The state that all connections share: the switches, the limits and the counters.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit};
use nix::time::{ClockId, clock_gettime};
use tokio::sync::{Notify, Semaphore};
use tokio::time::sleep_until;

use super::rate::RateLimit;
use crate::access::TcpAccess;
use crate::error::{ErrorCode, ErrorReply};
use crate::resources::REQUEST_BYTES_MAX;
use crate::target::ControlTarget;
use xoff_telemetry::ControlApiReport;

/// Unit of the memory for request bodies, in bytes.
const BODY_UNIT_BYTES: usize = 1 << 10;
/// Bodies up to this length need no reservation of memory.
const SMALL_BODY_BYTES: usize = 16 << 10;
/// Largest memory for request bodies that are longer than [`SMALL_BODY_BYTES`], in bytes.
const BODIES_BYTES_MAX: usize = 4 * REQUEST_BYTES_MAX;
/// Number of reads of switches at the same time.
pub(super) const READS_MAX: usize = 4;
/// Number of changes of different switches at the same time.
pub(super) const CHANGES_MAX: usize = 2;
/// Largest number of connections. A process with few descriptors serves fewer connections.
pub(super) const CONNECTIONS_MAX: usize = 128;
/// Number of changes that may wait at one switch.
const CHANGES_WAITING_MAX: usize = 16;

/// The largest number of connections, and the rates of the server per second.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Number of connections.
    pub(crate) connections: usize,
    /// Bytes that a connection may send.
    pub(crate) connection_bytes: u64,
    pub(crate) connection_bytes_burst: u64,
    /// Bytes that all connections together may send.
    pub(crate) bytes: u64,
    pub(crate) bytes_burst: u64,
    /// Requests of a connection that are answered. Further requests get 429.
    pub(crate) connection_requests: u64,
    pub(crate) connection_requests_burst: u64,
    /// Requests of all connections that are answered. Further requests wait.
    pub(crate) requests: u64,
    /// Responses 429 to all connections. Further ones wait.
    pub(crate) refusals: u64,
    /// Changes of all connections that are made. Further changes get 429.
    pub(crate) changes: u64,
    /// Connections that are accepted. Further connections wait in the backlog of the kernel.
    pub(crate) accepts: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: connection_limit(),
            connection_bytes: 1 << 20,
            connection_bytes_burst: 1 << 20,
            bytes: 8 << 20,
            bytes_burst: 8 << 20,
            connection_requests: 250,
            connection_requests_burst: 250,
            requests: 1_000,
            refusals: 1_000,
            changes: 200,
            accepts: 2_000,
        }
    }
}

/// Returns the largest number of connections: at most half of the free descriptors.
fn connection_limit() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(1_024, |(soft, _)| soft);
    let free = usize::try_from(limit.saturating_sub(open)).unwrap_or(usize::MAX);
    (free / 2).clamp(4, CONNECTIONS_MAX)
}

/// A switch of the server.
pub(crate) struct ServedSwitch {
    pub(crate) name: String,
    pub(crate) target: Arc<dyn ControlTarget>,
    /// Held during a change.
    changing: tokio::sync::Mutex<()>,
    waiting_changes: AtomicUsize,
    /// Notified after each change.
    pub(super) changed: Notify,
}

impl ServedSwitch {
    /// Returns the number of changes that wait or run.
    #[cfg(test)]
    pub(crate) fn unfinished_changes(&self) -> usize {
        self.waiting_changes.load(Ordering::Relaxed)
    }
}

/// The state that all connections share.
pub(crate) struct ServerState {
    pub(crate) switches: Vec<Arc<ServedSwitch>>,
    pub(crate) tcp: Option<TcpAccess>,
    pub(super) limits: Limits,
    pub(super) bytes: Mutex<RateLimit>,
    requests: Mutex<RateLimit>,
    refusals: Mutex<RateLimit>,
    changes: Mutex<RateLimit>,
    reads_running: Semaphore,
    changes_running: Semaphore,
    bodies: Arc<Semaphore>,
    pub(super) counts: ServerCounts,
}

/// Counters of the server.
#[derive(Debug, Default)]
pub(super) struct ServerCounts {
    pub(super) requests: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) connections: AtomicU64,
    /// Number of open connections.
    pub(super) open: AtomicU64,
    pub(super) accept_errors: AtomicU64,
    /// CPU time of the thread of the server.
    pub(super) server_cpu_ns: AtomicU64,
    /// CPU time of requests in other threads.
    pub(super) blocking_cpu_ns: AtomicU64,
    /// Number of times that the thread of the server had nothing to do.
    pub(super) parks: AtomicU64,
}

impl ServerState {
    pub(super) fn new(
        targets: Vec<Arc<dyn ControlTarget>>,
        tcp: Option<TcpAccess>,
        limits: Limits,
    ) -> ServerState {
        let switch = |target: Arc<dyn ControlTarget>| {
            Arc::new(ServedSwitch {
                name: target.name(),
                target,
                changing: tokio::sync::Mutex::new(()),
                waiting_changes: AtomicUsize::new(0),
                changed: Notify::new(),
            })
        };
        ServerState {
            switches: targets.into_iter().map(switch).collect(),
            tcp,
            bytes: Mutex::new(RateLimit::new(limits.bytes, limits.bytes_burst)),
            // A burst of one request spreads the work of a crowd evenly.
            requests: Mutex::new(RateLimit::new(limits.requests, 1)),
            refusals: Mutex::new(RateLimit::new(limits.refusals, 1)),
            changes: Mutex::new(RateLimit::new(limits.changes, limits.changes / 4)),
            limits,
            reads_running: Semaphore::new(READS_MAX),
            changes_running: Semaphore::new(CHANGES_MAX),
            bodies: Arc::new(Semaphore::new(BODIES_BYTES_MAX / BODY_UNIT_BYTES)),
            counts: ServerCounts::default(),
        }
    }

    /// Returns the use of the API so far.
    pub(super) fn report(&self) -> ControlApiReport {
        let counts = &self.counts;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ControlApiReport {
            cpu_ns: read(&counts.server_cpu_ns) + read(&counts.blocking_cpu_ns),
            requests: read(&counts.requests),
            refused: read(&counts.refused),
            connections: read(&counts.connections),
            accept_errors: read(&counts.accept_errors),
        }
    }

    /// Waits until a request may be answered. Requests are answered in the order of their arrival.
    pub(super) async fn wait_for_turn(&self) {
        self.counts.requests.fetch_add(1, Ordering::Relaxed);
        wait(&self.requests).await;
    }

    /// Waits until a response 429 may be sent, and returns it.
    pub(super) async fn refuse_excess(&self) -> ErrorReply {
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
        wait(&self.refusals).await;
        ErrorReply::new(
            ErrorCode::TooManyRequests,
            "this connection sends too many requests",
        )
        .because(format!(
            "{} requests a second are answered for each connection",
            self.limits.connection_requests
        ))
        .fix("wait as `Retry-After` states, or read several values with one request")
    }

    /// Calls `read` with a switch in a thread that may wait for the switch, and returns its result.
    pub(crate) async fn read<R: Send + 'static>(
        self: &Arc<Self>,
        switch: &Arc<ServedSwitch>,
        read: impl FnOnce(&dyn ControlTarget) -> Result<R, ErrorReply> + Send + 'static,
    ) -> Result<R, ErrorReply> {
        let _permit = self.reads_running.acquire().await.map_err(|_| stopping())?;
        self.run_blocking(switch, read).await
    }

    /// Calls `change` with a switch. The changes of a switch run one after another, and a change that has
    /// begun ends even if its client has gone.
    pub(crate) async fn change<R: Send + 'static>(
        self: &Arc<Self>,
        switch: &Arc<ServedSwitch>,
        change: impl FnOnce(&dyn ControlTarget) -> Result<R, ErrorReply> + Send + 'static,
    ) -> Result<R, ErrorReply> {
        let waiting = WaitingChange::enter(switch);
        let is_full = waiting.number > CHANGES_WAITING_MAX;
        if is_full || !lock(&self.changes).try_take(Instant::now()) {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            return Err(
                ErrorReply::new(ErrorCode::TooManyRequests, "the switch gets too many changes")
                    .because(format!(
                        "at most {} changes a second are made",
                        self.limits.changes
                    ))
                    .fix("wait as `Retry-After` states, or combine changes in one request"),
            );
        }
        let (server, switch) = (Arc::clone(self), Arc::clone(switch));
        // The task is independent of the connection.
        let task = tokio::spawn(async move {
            let _turn = switch.changing.lock().await;
            let _permit = server.changes_running.acquire().await.map_err(|_| stopping())?;
            let result = server.run_blocking(&switch, change).await;
            drop(waiting);
            switch.changed.notify_one();
            result
        });
        task.await.unwrap_or_else(|_| Err(stopping()))
    }

    async fn run_blocking<R: Send + 'static>(
        self: &Arc<Self>,
        switch: &Arc<ServedSwitch>,
        call: impl FnOnce(&dyn ControlTarget) -> Result<R, ErrorReply> + Send + 'static,
    ) -> Result<R, ErrorReply> {
        let (server, switch) = (Arc::clone(self), Arc::clone(switch));
        let task = tokio::task::spawn_blocking(move || {
            let start_ns = thread_cpu_ns();
            let result = call(switch.target.as_ref());
            let cpu_ns = thread_cpu_ns().saturating_sub(start_ns);
            server.counts.blocking_cpu_ns.fetch_add(cpu_ns, Ordering::Relaxed);
            result
        });
        let failed = |_| {
            ErrorReply::new(ErrorCode::Internal, "the request failed by a bug in xoff")
                .fix("report it with the error output of the switch")
        };
        task.await.map_err(failed)?
    }

    /// Reserves memory for a request body of `bytes` bytes. `None` means that the length is unknown.
    pub(crate) fn reserve_body(&self, bytes: Option<usize>) -> Result<BodyMemory, ErrorReply> {
        let bytes = bytes.unwrap_or(REQUEST_BYTES_MAX).min(REQUEST_BYTES_MAX);
        if bytes <= SMALL_BODY_BYTES {
            return Ok(BodyMemory(None));
        }
        let units = bytes.div_ceil(BODY_UNIT_BYTES) as u32;
        match Arc::clone(&self.bodies).try_acquire_many_owned(units) {
            Ok(permit) => Ok(BodyMemory(Some(permit))),
            Err(_) => {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                Err(
                    ErrorReply::new(ErrorCode::TooManyRequests, "other clients send long requests")
                        .because(format!(
                            "at most {BODIES_BYTES_MAX} bytes of requests are in memory"
                        ))
                        .fix("wait as `Retry-After` states"),
                )
            }
        }
    }
}

/// Memory that is reserved for the body of a request.
pub(crate) struct BodyMemory(
    #[allow(dead_code, reason = "the value is held until the end of the request")]
    Option<tokio::sync::OwnedSemaphorePermit>,
);

/// A change that waits for the end of another change, or runs.
struct WaitingChange {
    switch: Arc<ServedSwitch>,
    /// Number of the changes that wait, including this one.
    number: usize,
}

impl WaitingChange {
    fn enter(switch: &Arc<ServedSwitch>) -> WaitingChange {
        let before = switch.waiting_changes.fetch_add(1, Ordering::Relaxed);
        WaitingChange {
            switch: Arc::clone(switch),
            number: before + 1,
        }
    }
}

impl Drop for WaitingChange {
    fn drop(&mut self) {
        self.switch.waiting_changes.fetch_sub(1, Ordering::Relaxed);
    }
}

fn stopping() -> ErrorReply {
    ErrorReply::new(ErrorCode::Unavailable, "the server is stopping").fix("start the switch again")
}

/// Waits until a limit permits one more unit.
pub(super) async fn wait(limit: &Mutex<RateLimit>) {
    let start_at = lock(limit).charge(Instant::now(), 1);
    if let Some(time) = start_at {
        sleep_until(time.into()).await;
    }
}

/// Locks a mutex. The values behind these locks are valid after each statement.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the CPU time of the calling thread.
pub(super) fn thread_cpu_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map(Duration::from)
        .map_or(0, |time| time.as_nanos() as u64)
}
