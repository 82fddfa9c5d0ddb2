//! The thread that answers on a control socket.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::Value;

use super::Target;
use super::address::{Endpoint, trusted};
use super::connection::{Connection, State};
use super::pfc::{pfc_base, pfc_ports};
use super::protocol::{
    COUNTERS_SCHEMA, Counters, ErrorReply, Hello, Op, from_hex, parse_request, response, to_value,
};
use xoff_telemetry::failure::Failure;
use xoff_telemetry::{EventReport, LoadBalancingReport, SwitchReport, SwitchSnapshot};

/// Most clients at once. One more takes the place of the one that has been silent longest.
pub const CLIENTS_MAX: usize = 32;
/// A client that neither sends nor reads for this long is closed.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Pause after an `accept` that failed, so that a shortage of descriptors does not become a busy loop.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// A running server. Dropping it stops the thread, closes all clients and removes the socket's file.
#[derive(Debug)]
pub struct ServerHandle {
    /// Its other end wakes the thread when it closes.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    _endpoint: Arc<Endpoint>,
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed already, and there is nobody to hand it to in a drop.
            let _ = thread.join();
        }
    }
}

/// Answers requests on `endpoint` for `target`, on a thread of its own.
///
/// # Errors
/// The system refuses a thread or a socket.
pub fn serve(endpoint: Endpoint, target: Arc<dyn Target>) -> io::Result<ServerHandle> {
    let (stop, stopped) = UnixStream::pair()?;
    let endpoint = Arc::new(endpoint);
    endpoint.listener().set_nonblocking(true)?;
    let server = Server {
        endpoint: Arc::clone(&endpoint),
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
        _endpoint: endpoint,
    })
}

struct Server {
    endpoint: Arc<Endpoint>,
    stopped: UnixStream,
    target: Arc<dyn Target>,
    clients: Vec<Connection>,
    accept_after: Option<Instant>,
}

/// Which descriptors have something to do.
struct Ready {
    stop: bool,
    accept: bool,
    clients: Vec<bool>,
}

impl Server {
    fn run(mut self) {
        loop {
            let Ok(ready) = self.wait() else { return };
            if ready.stop {
                return;
            }
            let target = self.target.as_ref();
            let mut ready_clients = ready.clients.into_iter();
            self.clients.retain_mut(|client| {
                let ready = ready_clients.next().unwrap_or(false);
                let state = if ready {
                    client.turn(|line| answer(target, line))
                } else {
                    State::Open
                };
                state == State::Open && client.active.elapsed() < SILENCE_MAX
            });
            if ready.accept {
                self.accept();
            }
        }
    }

    fn wait(&self) -> nix::Result<Ready> {
        let accepting = self.accept_after.is_none_or(|time| time <= Instant::now());
        let mut fds = vec![
            PollFd::new(self.stopped.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.endpoint.listener().as_fd(), PollFlags::POLLIN),
        ];
        fds.extend(self.clients.iter().map(|client| {
            PollFd::new(
                client.fd(),
                if client.owes() {
                    PollFlags::POLLOUT
                } else {
                    PollFlags::POLLIN
                },
            )
        }));
        match poll(&mut fds, self.timeout(accepting)) {
            // A signal: every flag is zero, and the next round waits again.
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
        let any = |fd: &PollFd<'_>| fd.any().unwrap_or(true);
        Ok(Ready {
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
            .map(|client| SILENCE_MAX.saturating_sub(client.active.elapsed()))
            .min();
        let wait = if accepting {
            silence
        } else {
            Some(silence.map_or(ACCEPT_RETRY, |s| s.min(ACCEPT_RETRY)))
        };
        let due = self.target.tick();
        let wait = match (wait, due) {
            (Some(wait), Some(due)) => Some(wait.min(due)),
            (wait, due) => wait.or(due),
        };
        // One millisecond more, since the conversion rounds down and would spin through the last one.
        wait.map_or(PollTimeout::NONE, |wait| {
            PollTimeout::try_from(wait + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        })
    }

    fn accept(&mut self) {
        self.accept_after = None;
        let stream = match self.endpoint.listener().accept() {
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
        if !trusted(&stream) {
            return;
        }
        if self.clients.len() >= CLIENTS_MAX
            && let Some(silent) = (0..self.clients.len()).min_by_key(|&at| self.clients[at].active)
        {
            self.clients.remove(silent);
        }
        if let Ok(client) = Connection::new(stream) {
            self.clients.push(client);
        }
    }
}

/// The response to one line.
fn answer(target: &dyn Target, line: &[u8]) -> Vec<u8> {
    let (id, op) = parse_request(line);
    response(id, op.and_then(|op| perform(target, op)))
}

fn counters(snapshot: Option<SwitchSnapshot>) -> Result<Value, Failure> {
    let switch = SwitchReport::new(&running(snapshot)?);
    Ok(to_value(&Counters {
        schema: COUNTERS_SCHEMA.to_owned(),
        switch,
    }))
}

fn snapshot(target: &dyn Target) -> Result<SwitchSnapshot, Failure> {
    running(target.snapshot())
}

fn running(snapshot: Option<SwitchSnapshot>) -> Result<SwitchSnapshot, Failure> {
    snapshot.ok_or_else(|| Failure::environment("the switch is starting or stopping").fix("ask again"))
}

fn events(snapshot: &SwitchSnapshot) -> Vec<EventReport> {
    let ports: Vec<String> = snapshot.ports.iter().map(|port| port.name.clone()).collect();
    let report = |event| EventReport::new(event, &ports);
    snapshot.events.iter().map(report).collect()
}

fn perform(target: &dyn Target, op: Op) -> Result<Value, ErrorReply> {
    match op {
        Op::Ping {} => {
            let xoff_version = env!("CARGO_PKG_VERSION").to_owned();
            Ok(to_value(&Hello {
                xoff_version,
                pid: std::process::id(),
            }))
        }
        Op::Counters {} => Ok(counters(target.snapshot())?),
        Op::ConfigGet {} => Ok(target.config()),
        Op::ConfigApply {
            config,
            dry_run,
            force,
        } => Ok(to_value(&target.apply(config, dry_run, force)?)),
        Op::Watermarks { kind } => Ok(counters(target.watermarks(kind))?),
        Op::ClearWatermarks { kind, part } => {
            target.clear_watermarks(kind, part);
            Ok(Value::Null)
        }
        Op::Buffers { running } => Ok(target.buffers(running)?),
        Op::Taints {} => Ok(to_value(&target.taints())),
        Op::SendMacControl { port, frame } => {
            target.send_mac_control(&port, &from_hex(&frame)?)?;
            Ok(Value::Null)
        }
        Op::MacControl { port } => Ok(to_value(&target.mac_control(&port)?)),
        Op::MacTable {} => Ok(to_value(&target.mac_table()?)),
        Op::Neighbours {} => Ok(to_value(&target.neighbours()?)),
        Op::Routes { family } => Ok(to_value(&target.routes(family)?)),
        Op::Interfaces {} => Ok(to_value(&target.interfaces()?)),
        Op::LoadBalancing {} => {
            let snapshot = snapshot(target)?;
            Ok(to_value(&LoadBalancingReport::new(&snapshot.balancing)))
        }
        Op::Watchdog {} => Ok(to_value(&snapshot(target)?.watchdog)),
        Op::ClearWatchdog {} => {
            target.clear_watchdog()?;
            Ok(Value::Null)
        }
        Op::Events {} => Ok(to_value(&events(&snapshot(target)?))),
        Op::Pfc {} => Ok(to_value(&pfc_ports(&snapshot(target)?, &target.pfc_base()))),
        Op::ClearPfc {} => {
            target.set_pfc_base(pfc_base(&snapshot(target)?))?;
            Ok(Value::Null)
        }
    }
}
