//! The thread that answers requests on a control socket.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::Value;

use super::ControlTarget;
use super::address::{ControlListener, is_trusted_peer};
use super::connection::{Connection, ConnectionState};
use super::pfc::{pfc_ports_since, read_pfc_ports};
use super::protocol::{
    COUNTERS_SCHEMA, CountersReply, ErrorReply, Operation, PingReply, parse_hex_bytes, parse_request,
    response_line, to_value,
};
use xoff_telemetry::failure::Failure;
use xoff_telemetry::{EventReport, SwitchSnapshot};

/// Largest number of clients. A further client replaces the client that has been silent for the longest time.
pub const CLIENTS_MAX: usize = 32;
/// Time without a transfer after which the server closes a client.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Wait time after a failed `accept`. When no descriptors are left, `accept` fails at once. Without this
/// wait, the server would then use a whole core.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// A running server. Dropping the handle stops the thread, closes all clients and removes the socket file.
#[derive(Debug)]
pub struct ServerHandle {
    /// Closing this end of the socket pair wakes the thread.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    _listener: Arc<ControlListener>,
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been printed.
            let _ = thread.join();
        }
    }
}

/// Starts a thread that answers the requests on `listener`. The thread calls the methods of `target`.
///
/// # Errors
/// Returns an error if the kernel refuses a thread or a socket.
pub fn serve_control(listener: ControlListener, target: Arc<dyn ControlTarget>) -> io::Result<ServerHandle> {
    let (stop, stopped) = UnixStream::pair()?;
    let listener = Arc::new(listener);
    listener.socket().set_nonblocking(true)?;
    let server = Server {
        listener: Arc::clone(&listener),
        stopped,
        target,
        clients: Vec::new(),
        accept_after: None,
    };
    let thread = std::thread::Builder::new()
        .name("xoff-control".to_owned())
        .spawn(move || server.run())?;
    Ok(ServerHandle {
        stop: Some(stop),
        thread: Some(thread),
        _listener: listener,
    })
}

/// The state of the server thread.
struct Server {
    listener: Arc<ControlListener>,
    stopped: UnixStream,
    target: Arc<dyn ControlTarget>,
    clients: Vec<Connection>,
    accept_after: Option<Instant>,
}

/// Tells which descriptors have input or room for output.
struct ReadyDescriptors {
    stop: bool,
    accept: bool,
    clients: Vec<bool>,
}

impl Server {
    /// Runs until the handle is dropped.
    fn run(mut self) {
        loop {
            let Ok(ready) = self.wait_for_input() else { return };
            if ready.stop {
                return;
            }
            let target = self.target.as_ref();
            let mut ready_clients = ready.clients.into_iter();
            self.clients.retain_mut(|client| {
                let ready = ready_clients.next().unwrap_or(false);
                let state = if ready {
                    client.serve_requests(|line| answer_line(target, line))
                } else {
                    ConnectionState::Open
                };
                state == ConnectionState::Open && client.last_activity.elapsed() < SILENCE_MAX
            });
            if ready.accept {
                self.accept_client();
            }
        }
    }

    fn wait_for_input(&self) -> nix::Result<ReadyDescriptors> {
        let accepting = self.accept_after.is_none_or(|time| time <= Instant::now());
        let mut fds = vec![
            PollFd::new(self.stopped.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.listener.socket().as_fd(), PollFlags::POLLIN),
        ];
        fds.extend(self.clients.iter().map(|client| {
            PollFd::new(
                client.fd(),
                if client.has_unsent_output() {
                    PollFlags::POLLOUT
                } else {
                    PollFlags::POLLIN
                },
            )
        }));
        match poll(&mut fds, self.timeout(accepting)) {
            // After a signal all flags are zero, and the next iteration waits again.
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
        let any = |fd: &PollFd<'_>| fd.any().unwrap_or(true);
        Ok(ReadyDescriptors {
            stop: any(&fds[0]),
            accept: accepting && any(&fds[1]),
            clients: self
                .clients
                .iter()
                .zip(&fds[2..])
                .map(|(client, fd)| client.has_request() || any(fd))
                .collect(),
        })
    }

    fn timeout(&self, accepting: bool) -> PollTimeout {
        if self.clients.iter().any(Connection::has_request) {
            return PollTimeout::ZERO;
        }
        let silence = self
            .clients
            .iter()
            .map(|client| SILENCE_MAX.saturating_sub(client.last_activity.elapsed()))
            .min();
        let wait = if accepting {
            silence
        } else {
            Some(silence.map_or(ACCEPT_RETRY, |s| s.min(ACCEPT_RETRY)))
        };
        let due = self.target.run_due_tasks();
        let wait = match (wait, due) {
            (Some(wait), Some(due)) => Some(wait.min(due)),
            (wait, due) => wait.or(due),
        };
        // One millisecond is added, because the conversion rounds down and the loop would spin during the
        // last millisecond.
        wait.map_or(PollTimeout::NONE, |wait| {
            PollTimeout::try_from(wait + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        })
    }

    fn accept_client(&mut self) {
        self.accept_after = None;
        let stream = match self.listener.socket().accept() {
            Ok((stream, _)) => stream,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                return;
            }
            Err(_) => {
                self.accept_after = Some(Instant::now() + ACCEPT_RETRY);
                return;
            }
        };
        if !is_trusted_peer(&stream) {
            return;
        }
        if self.clients.len() >= CLIENTS_MAX
            && let Some(silent) =
                (0..self.clients.len()).min_by_key(|&index| self.clients[index].last_activity)
        {
            self.clients.remove(silent);
        }
        if let Ok(client) = Connection::new(stream) {
            self.clients.push(client);
        }
    }
}

/// Returns the response to one line.
fn answer_line(target: &dyn ControlTarget, line: &[u8]) -> Vec<u8> {
    let (id, op) = parse_request(line);
    response_line(id, op.and_then(|op| execute(target, op)))
}

/// Returns the result of a counters request.
fn counters_value(snapshot: Option<SwitchSnapshot>) -> Result<Value, Failure> {
    let switch = require_snapshot(snapshot)?.into_report();
    Ok(to_value(&CountersReply {
        schema: COUNTERS_SCHEMA.to_owned(),
        switch,
    }))
}

fn current_snapshot(target: &dyn ControlTarget) -> Result<SwitchSnapshot, Failure> {
    require_snapshot(target.snapshot())
}

/// Returns the snapshot. `snapshot` is `None` while the switch starts or stops. In this case, returns
/// an error.
fn require_snapshot(snapshot: Option<SwitchSnapshot>) -> Result<SwitchSnapshot, Failure> {
    snapshot
        .ok_or_else(|| Failure::environment("the switch is starting or stopping").fix("repeat the request"))
}

/// Returns the events of a switch in the form of a report.
fn event_reports(snapshot: &SwitchSnapshot) -> Vec<EventReport> {
    let ports: Vec<String> = snapshot
        .report
        .ports
        .iter()
        .map(|port| port.name.clone())
        .collect();
    let report = |event| EventReport::new(event, &ports);
    snapshot.events.iter().map(report).collect()
}

/// Executes a request and returns its result.
fn execute(target: &dyn ControlTarget, op: Operation) -> Result<Value, ErrorReply> {
    match op {
        Operation::Ping {} => {
            let xoff_version = env!("CARGO_PKG_VERSION").to_owned();
            Ok(to_value(&PingReply {
                xoff_version,
                pid: std::process::id(),
            }))
        }
        Operation::Counters {} => Ok(counters_value(target.snapshot())?),
        Operation::ConfigGet {} => Ok(target.config()),
        Operation::ConfigApply {
            config,
            dry_run,
            force,
        } => Ok(to_value(&target.apply_config(config, dry_run, force)?)),
        Operation::Watermarks { kind } => Ok(counters_value(target.watermarks(kind))?),
        Operation::ClearWatermarkCommand { kind, part } => {
            target.clear_watermarks(kind, part);
            Ok(Value::Null)
        }
        Operation::Buffers { running } => Ok(target.buffers(running)?),
        Operation::Taints {} => Ok(to_value(&target.taints())),
        Operation::SendMacControl { port, frame } => {
            target.send_mac_control(&port, &parse_hex_bytes(&frame)?)?;
            Ok(Value::Null)
        }
        Operation::MacControl { port } => Ok(to_value(&target.mac_control(&port)?)),
        Operation::MacTable {} => Ok(to_value(&target.mac_table()?)),
        Operation::Neighbours {} => Ok(to_value(&target.neighbours()?)),
        Operation::Routes { family } => Ok(to_value(&target.routes(family)?)),
        Operation::Interfaces {} => Ok(to_value(&target.interfaces()?)),
        Operation::LoadBalancing {} => Ok(to_value(&current_snapshot(target)?.into_report().load_balancing)),
        Operation::Watchdog {} => Ok(to_value(&current_snapshot(target)?.report.pfc_watchdog)),
        Operation::ClearWatchdog {} => {
            target.clear_watchdog()?;
            Ok(Value::Null)
        }
        Operation::Events {} => Ok(to_value(&event_reports(&current_snapshot(target)?))),
        Operation::Pfc {} => Ok(to_value(&pfc_ports_since(
            &current_snapshot(target)?.report,
            &target.pfc_baseline(),
        ))),
        Operation::ClearPfcCommand {} => {
            target.set_pfc_baseline(read_pfc_ports(&current_snapshot(target)?.report))?;
            Ok(Value::Null)
        }
    }
}
