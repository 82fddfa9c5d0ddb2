//! The accept loop.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Notify;
use tokio::time::{sleep, sleep_until};

use super::connection::serve_connection;
use super::connection_state::ConnectionState;
use super::limited_io::Socket;
use super::rate::RateLimit;
use super::state::{ServerState, lock, wait};
use crate::access::is_trusted_peer;

/// Wait time after a failed `accept`. When no descriptors are left, `accept` fails at once. Without this wait,
/// the server would then use a whole core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Shortest time without activity after which another client may take the place of a client.
const SILENCE_MIN: Duration = Duration::from_millis(50);

/// A listening socket.
pub(super) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Accepts a client. `None` means that the client may not use the server.
    async fn accept(&self) -> io::Result<Option<Socket>> {
        Ok(match self {
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                is_trusted_peer(&stream, None).then_some(Socket::Unix(stream))
            }
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Without this option, small responses would wait for acknowledgements.
                stream.set_nodelay(true)?;
                Some(Socket::Tcp(stream))
            }
        })
    }
}

/// The open connections, and their largest number.
pub(super) struct Connections {
    limit: usize,
    open: Mutex<Vec<Arc<ConnectionState>>>,
    /// Notified when a connection has ended.
    ended: Notify,
    accepts: Mutex<RateLimit>,
}

impl Connections {
    pub(super) fn new(server: &ServerState) -> Connections {
        let limit = server.limits.connections;
        Connections {
            limit,
            open: Mutex::default(),
            ended: Notify::new(),
            accepts: Mutex::new(RateLimit::new(server.limits.accepts, limit as u64)),
        }
    }

    /// Waits until a further connection fits. Closes the client that has been silent for the longest time, if
    /// that is necessary. Clients with a request in progress are not closed.
    async fn make_room(&self) {
        loop {
            if lock(&self.open).len() < self.limit {
                return;
            }
            match self.close_longest_silent() {
                None => self.ended.notified().await,
                Some(wait_until) => tokio::select! {
                    () = self.ended.notified() => {}
                    () = sleep_until(wait_until.into()) => {}
                },
            }
        }
    }

    /// Closes the client that has been silent for the longest time. Returns the time at which the caller
    /// should look again. Returns `None` if all clients have a request in progress.
    fn close_longest_silent(&self) -> Option<Instant> {
        let open = lock(&self.open);
        let idle = open.iter().filter(|connection| !connection.is_busy());
        let silent = idle.min_by_key(|connection| connection.active_at())?;
        let closable_at = silent.active_at() + SILENCE_MIN;
        let now = Instant::now();
        if closable_at > now {
            return Some(closable_at);
        }
        silent.close.notify_one();
        Some(now + SILENCE_MIN)
    }
}

/// Removes a connection from the list at its end.
struct OpenConnection {
    state: Arc<ConnectionState>,
    connections: Arc<Connections>,
    server: Arc<ServerState>,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        lock(&self.connections.open).retain(|open| !Arc::ptr_eq(open, &self.state));
        self.server.counts.open.fetch_sub(1, Ordering::Relaxed);
        self.connections.ended.notify_waiters();
    }
}

/// Accepts clients until the runtime ends.
pub(super) async fn accept_clients(
    listener: Listener,
    server: Arc<ServerState>,
    connections: Arc<Connections>,
    router: Router,
) {
    loop {
        // The listener is polled only if a client can be accepted now.
        wait(&connections.accepts).await;
        connections.make_room().await;
        let socket = match listener.accept().await {
            Ok(Some(socket)) => socket,
            Ok(None) => continue,
            // The client has gone before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(_) => {
                server.counts.accept_errors.fetch_add(1, Ordering::Relaxed);
                connections.close_longest_silent();
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        server.counts.connections.fetch_add(1, Ordering::Relaxed);
        server.counts.open.fetch_add(1, Ordering::Relaxed);
        let state = Arc::new(ConnectionState::new(&server));
        lock(&connections.open).push(Arc::clone(&state));
        let open = OpenConnection {
            state: Arc::clone(&state),
            connections: Arc::clone(&connections),
            server: Arc::clone(&server),
        };
        let (server, router) = (Arc::clone(&server), router.clone());
        tokio::spawn(async move {
            serve_connection(socket, state, server, router).await;
            drop(open);
        });
    }
}
