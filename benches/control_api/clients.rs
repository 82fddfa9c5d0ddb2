//! The hostile clients. They run in a process of their own at nice 19.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::Failure;

/// First argument of this program as clients: the kind, the name of the socket and the milliseconds follow.
const CLIENTS_ARGUMENT: &str = "__clients";
/// The kinds of clients, in the order of a run.
pub(crate) const KINDS: [&str; 6] = [
    "garbage",
    "slow-loris",
    "pipelining",
    "connections",
    "non-readers",
    "changes",
];
/// Number of clients of a kind.
const CLIENTS: usize = 16;
/// Number of connections of the kind `connections`.
const CONNECTIONS: usize = 1_000;
/// Number of changes per second that all clients of the kind `changes` offer.
const CHANGES_PER_SECOND: f64 = 1_000.0;
const PING: &[u8] = b"GET /v1 HTTP/1.1\r\nHost: x\r\n\r\n";
const COUNTERS: &[u8] = b"GET /v1/counters HTTP/1.1\r\nHost: x\r\n\r\n";

/// Starts the clients of a kind. The number of refused changes is on their standard output.
pub(crate) fn start(kind: &str, socket: &str, time: Duration) -> Result<Child, Failure> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    Command::new("nice")
        .args(["-n", "19"])
        .arg(program)
        .args([CLIENTS_ARGUMENT, kind, socket, &time.as_millis().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start the clients: {error}"))
}

/// Runs the clients if this process was started by [`start`].
pub(crate) fn run_child() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, first, kind, socket, millis] = arguments.as_slice() else {
        return None;
    };
    if first != CLIENTS_ARGUMENT {
        return None;
    }
    let end = Instant::now() + Duration::from_millis(millis.parse().ok()?);
    let address = SocketAddr::from_abstract_name(socket).ok()?;
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard.min(4_096), hard);
    }
    if kind == "connections" {
        hold_connections(&address, end);
        return Some(ExitCode::SUCCESS);
    }
    let refused: u64 = std::thread::scope(|scope| {
        let (address, kind) = (&address, kind.as_str());
        let clients: Vec<_> = (0..CLIENTS)
            .map(|n| scope.spawn(move || run_client(kind, n, address, end)))
            .collect();
        clients.into_iter().map(|client| client.join().unwrap_or(0)).sum()
    });
    println!("{refused}");
    Some(ExitCode::SUCCESS)
}

/// Runs one client until the end. It connects again whenever the server closes its connection.
fn run_client(kind: &str, number: usize, address: &SocketAddr, end: Instant) -> u64 {
    let mut refused = 0;
    while Instant::now() < end {
        let Ok(mut stream) = UnixStream::connect_addr(address) else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        let limit = Some(Duration::from_millis(100));
        if stream.set_read_timeout(limit).is_err() || stream.set_write_timeout(limit).is_err() {
            continue;
        }
        match kind {
            "garbage" => send_garbage(&mut stream, number as u64, end),
            "slow-loris" => send_slowly(&mut stream, end),
            "pipelining" => send_pipelined(&mut stream, end),
            "non-readers" => send_without_reading(&mut stream, end),
            _ => refused += offer_changes(&mut stream, number, end),
        }
    }
    refused
}

fn send_garbage(stream: &mut UnixStream, seed: u64, end: Instant) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while Instant::now() < end {
        let bytes: Vec<u8> = (0..4_096)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        let text = [b"\r\n\r\n".repeat(500), bytes].concat();
        if stream.write_all(&text).is_err() {
            return;
        }
    }
}

fn send_slowly(stream: &mut UnixStream, end: Instant) {
    for byte in b"GET /v1 HTTP/1.1\r\n".iter().chain(b"X: y\r\n".iter().cycle()) {
        if Instant::now() >= end || stream.write_all(&[*byte]).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn send_pipelined(stream: &mut UnixStream, end: Instant) {
    let requests = PING.repeat(200);
    let mut buffer = vec![0; 64 << 10];
    while Instant::now() < end {
        let is_closed = |error: &std::io::Error| error.kind() != std::io::ErrorKind::WouldBlock;
        if stream.write(&requests).as_ref().is_err_and(is_closed) {
            return;
        }
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Err(error) if is_closed(&error) => return,
            _ => {}
        }
    }
}

fn send_without_reading(stream: &mut UnixStream, end: Instant) {
    while Instant::now() < end {
        match stream.write_all(&COUNTERS.repeat(100)) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
            Ok(()) => {}
        }
    }
}

/// Offers changes at a fixed rate, and returns the number of those that were refused.
fn offer_changes(stream: &mut UnixStream, number: usize, end: Instant) -> u64 {
    let interval = Duration::from_secs_f64(CLIENTS as f64 / CHANGES_PER_SECOND);
    let (mut refused, mut next, mut count) = (0, Instant::now(), 0_u64);
    let mut buffer = vec![0; 64 << 10];
    while next < end {
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        next += interval;
        count += 1;
        let body = format!("{{\"PORT\": {{\"Ethernet0\": {{\"alias\": \"c{number}-{count}\"}}}}}}");
        let request = format!(
            "PATCH /v1/config HTTP/1.1\r\nHost: x\r\nContent-Type: application/merge-patch+json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        if stream.write_all(request.as_bytes()).is_err() {
            return refused;
        }
        match stream.read(&mut buffer) {
            Ok(0) => return refused,
            Ok(length) => {
                let refusals = buffer[..length]
                    .windows(12)
                    .filter(|text| *text == b"HTTP/1.1 429");
                refused += refusals.count() as u64;
            }
            Err(_) => {}
        }
    }
    refused
}

/// Keeps many connections open, and replaces those that the server closes.
fn hold_connections(address: &SocketAddr, end: Instant) {
    let mut open: Vec<UnixStream> = Vec::new();
    while Instant::now() < end {
        open.retain_mut(|stream| {
            let mut byte = [0];
            matches!(stream.read(&mut byte), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        });
        while open.len() < CONNECTIONS && Instant::now() < end {
            match UnixStream::connect_addr(address) {
                Ok(stream) if stream.set_nonblocking(true).is_ok() => open.push(stream),
                _ => break,
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("0");
}
