//! The state of a connection that other parts of the server read.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::rate::RateLimit;
use super::state::ServerState;

/// Longest time without progress of a response.
const WRITE_STALL_MAX: Duration = Duration::from_secs(10);
/// Longest time without progress of an event stream.
const STREAM_STALL_MAX: Duration = Duration::from_secs(600);

/// The part of a connection that the accept loop reads.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    start: Instant,
    /// Time of the last complete request or progress of a response, in nanoseconds since `start`.
    active_ns: AtomicU64,
    /// Number of requests in progress.
    pub(super) requests_running: AtomicUsize,
    /// Whether the response is an event stream.
    is_stream: AtomicBool,
    pub(super) requests: Mutex<RateLimit>,
    /// Closes the connection.
    pub(super) close: Notify,
}

impl ConnectionState {
    pub(super) fn new(server: &ServerState) -> ConnectionState {
        let limits = &server.limits;
        ConnectionState {
            start: Instant::now(),
            active_ns: AtomicU64::new(0),
            requests_running: AtomicUsize::new(0),
            is_stream: AtomicBool::new(false),
            requests: Mutex::new(RateLimit::new(
                limits.connection_requests,
                limits.connection_requests_burst,
            )),
            close: Notify::new(),
        }
    }

    /// Records that the client has done something useful.
    pub(super) fn touch(&self) {
        let now_ns = self.start.elapsed().as_nanos() as u64;
        self.active_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Returns the time of the last complete request or progress of a response. Bytes of an incomplete request
    /// do not count, since a client can send them slowly without end.
    pub(super) fn active_at(&self) -> Instant {
        self.start + Duration::from_nanos(self.active_ns.load(Ordering::Relaxed))
    }

    /// Returns whether a request is in progress.
    pub(super) fn is_busy(&self) -> bool {
        self.requests_running.load(Ordering::Relaxed) > 0
    }

    /// Marks the connection as an event stream, which may stand still for longer.
    pub(crate) fn mark_as_stream(&self) {
        self.is_stream.store(true, Ordering::Relaxed);
    }

    pub(super) fn write_stall_limit(&self) -> Duration {
        match self.is_stream.load(Ordering::Relaxed) {
            true => STREAM_STALL_MAX,
            false => WRITE_STALL_MAX,
        }
    }
}
