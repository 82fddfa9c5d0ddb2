//! The server: one thread with its own runtime, which answers all clients of a process.

mod accept;
mod connection;
mod connection_state;
mod limited_io;
mod rate;
mod state;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::{Pid, getpid};
use tokio::sync::oneshot;

pub(crate) use connection_state::ConnectionState;
pub(crate) use state::{BodyMemory, Limits, ServedSwitch, ServerState};

use crate::access::TcpAccess;
use crate::address::ControlListener;
use crate::target::ControlTarget;
use accept::{Connections, Listener, accept_clients};
use state::thread_cpu_ns;
use xoff_telemetry::ControlApiReport;
use xoff_telemetry::failure::Failure;

/// Nice value of the threads of the server. Threads of switches have the value 0.
const NICE: i32 = 10;
/// Longest wait for the end of running changes when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The options of a server.
#[derive(Debug, Default)]
pub struct ServerOptions {
    /// The access over a loopback TCP address. `None` means that the server has no TCP address.
    pub tcp: Option<TcpAccess>,
    /// The cores of worker threads. The server runs on other cores if there are any.
    pub worker_cores: Vec<usize>,
}

/// A running server. Dropping the handle stops the server, closes all clients and removes the socket file.
#[derive(Debug)]
pub struct ServerHandle {
    /// Dropping this sender stops the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    state: Arc<ServerState>,
    tcp_address: Option<std::net::SocketAddr>,
    /// The socket file is removed after the end of the thread.
    _listener: ControlListener,
}

impl std::fmt::Debug for ServerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerState").finish_non_exhaustive()
    }
}

impl ServerHandle {
    /// Returns the address of the TCP listener. `None` if the server has none.
    pub fn tcp_address(&self) -> Option<std::net::SocketAddr> {
        self.tcp_address
    }

    /// Returns the use of the API so far.
    pub fn report(&self) -> ControlApiReport {
        self.state.report()
    }

    /// Stops the server and returns the use of the API.
    pub fn stop(mut self) -> ControlApiReport {
        self.join();
        self.state.report()
    }

    /// Returns the number of changes of the first switch that wait or run.
    #[cfg(test)]
    pub(crate) fn unfinished_changes(&self) -> usize {
        self.state.switches[0].unfinished_changes()
    }

    /// Returns the number of open connections.
    #[cfg(test)]
    pub(crate) fn open_connections(&self) -> u64 {
        self.state.counts.open.load(Ordering::Relaxed)
    }

    /// Returns the number of times that the thread of the server had nothing to do. A server without clients
    /// does not increase this number.
    #[cfg(test)]
    pub(crate) fn parks(&self) -> u64 {
        self.state.counts.parks.load(Ordering::Relaxed)
    }

    fn join(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been printed.
            let _ = thread.join();
        }
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.join();
    }
}

/// Returns the router for the state of a server.
pub(crate) type RouterBuilder = fn(Arc<ServerState>) -> Router;

/// Starts the thread of a server. See `serve_control`.
pub(crate) fn start_server(
    listener: ControlListener,
    targets: Vec<Arc<dyn ControlTarget>>,
    options: ServerOptions,
    limits: Limits,
    build_router: RouterBuilder,
) -> Result<ServerHandle, Failure> {
    let failure = |error: io::Error| Failure::environment("the control API cannot be served").because(error);
    let tcp = options.tcp.as_ref().map(bind_tcp).transpose()?;
    let tcp_address = tcp.as_ref().and_then(|listener| listener.local_addr().ok());
    let unix = listener.socket().try_clone().map_err(failure)?;
    unix.set_nonblocking(true).map_err(failure)?;
    let state = Arc::new(ServerState::new(targets, options.tcp, limits));
    let (stop, stopped) = oneshot::channel::<()>();
    let (ready_in, ready) = std::sync::mpsc::channel();
    let server = Arc::clone(&state);
    let thread = std::thread::Builder::new()
        .name("xoff-control".to_owned())
        .spawn(move || {
            lower_priority(&options.worker_cores);
            let runtime = match build_runtime(&server) {
                Ok(runtime) => runtime,
                Err(error) => {
                    let _ = ready_in.send(Err(error));
                    return;
                }
            };
            let started = runtime.block_on(async { start_tasks(unix, tcp, &server, build_router) });
            let is_started = started.is_ok();
            let _ = ready_in.send(started);
            if is_started {
                // The result is an error, since the sender is dropped.
                let _ = runtime.block_on(stopped);
            }
            runtime.shutdown_timeout(STOP_TIMEOUT);
            server
                .counts
                .server_cpu_ns
                .store(thread_cpu_ns(), Ordering::Relaxed);
        });
    let mut handle = ServerHandle {
        stop: Some(stop),
        thread: Some(thread.map_err(failure)?),
        state,
        tcp_address,
        _listener: listener,
    };
    match ready.recv() {
        Ok(Ok(())) => Ok(handle),
        Ok(Err(error)) => {
            handle.join();
            Err(failure(error))
        }
        Err(_) => Err(Failure::environment("the thread of the control API died")),
    }
}

/// Binds the TCP address.
fn bind_tcp(access: &TcpAccess) -> Result<TcpListener, Failure> {
    let place = format!("--api-tcp {}", access.address);
    if !access.address.ip().is_loopback() {
        return Err(
            Failure::usage("the TCP address of the control API is not a loopback address")
                .at(place)
                .because("another machine could reach it")
                .fix("use 127.0.0.1:PORT or [::1]:PORT, and a tunnel such as `ssh -L` from another machine"),
        );
    }
    let bind = || {
        let listener = TcpListener::bind(access.address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    bind().map_err(|error: io::Error| {
        Failure::environment("the TCP address of the control API cannot be bound")
            .at(place)
            .because(error)
            .fix("choose another port; port 0 takes any free port")
    })
}

fn build_runtime(server: &Arc<ServerState>) -> io::Result<tokio::runtime::Runtime> {
    let state = Arc::clone(server);
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .thread_name("xoff-control")
        // One further thread runs the periodic tasks of the switches.
        .max_blocking_threads(state::READS_MAX + state::CHANGES_MAX + 1)
        .on_thread_park(move || {
            state.counts.parks.fetch_add(1, Ordering::Relaxed);
            state
                .counts
                .server_cpu_ns
                .store(thread_cpu_ns(), Ordering::Relaxed);
        })
        .build()
}

fn start_tasks(
    unix: std::os::unix::net::UnixListener,
    tcp: Option<TcpListener>,
    server: &Arc<ServerState>,
    build_router: RouterBuilder,
) -> io::Result<()> {
    let mut listeners = vec![Listener::Unix(tokio::net::UnixListener::from_std(unix)?)];
    if let Some(tcp) = tcp {
        listeners.push(Listener::Tcp(tokio::net::TcpListener::from_std(tcp)?));
    }
    let router = build_router(Arc::clone(server));
    let connections = Arc::new(Connections::new(server));
    for listener in listeners {
        let (server, connections) = (Arc::clone(server), Arc::clone(&connections));
        tokio::spawn(accept_clients(listener, server, connections, router.clone()));
    }
    for switch in &server.switches {
        tokio::spawn(run_due_tasks(Arc::clone(switch)));
    }
    Ok(())
}

/// Runs the periodic tasks of a switch.
async fn run_due_tasks(switch: Arc<ServedSwitch>) {
    loop {
        let target = Arc::clone(&switch.target);
        let next = tokio::task::spawn_blocking(move || target.run_due_tasks()).await;
        match next {
            Ok(Some(wait)) => tokio::select! {
                () = tokio::time::sleep(wait) => {}
                // The configuration contains the period of the tasks.
                () = switch.changed.notified() => {}
            },
            Ok(None) | Err(_) => return,
        }
    }
}

/// Lowers the priority of the calling thread below the threads of switches, and takes it from the cores of
/// worker threads if other cores are permitted. Threads that this thread starts inherit both.
fn lower_priority(worker_cores: &[usize]) {
    // A server with the usual priority works, too.
    let _ = rustix::process::setpriority_process(None, NICE);
    // The mask of the process is that of its main thread. The thread that starts the server may be pinned.
    let Ok(allowed) = sched_getaffinity(getpid()) else {
        return;
    };
    let mut free = CpuSet::new();
    let mut is_any_free = false;
    for core in 0..CpuSet::count() {
        if allowed.is_set(core).unwrap_or(false) && !worker_cores.contains(&core) {
            is_any_free |= free.set(core).is_ok();
        }
    }
    let _ = sched_setaffinity(Pid::from_raw(0), if is_any_free { &free } else { &allowed });
}
