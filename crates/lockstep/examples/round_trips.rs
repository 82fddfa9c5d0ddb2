//! Measures round trips of frames in lock step, and of a bare ping-pong over the same transport, in turns.
//!
//! A round trip is a frame of 64 bytes and a grant in each direction. The bare ping-pong exchanges the same number of
//! bytes without messages. Both sides poll without sleeping. The first argument is the transport, `socket` or `memory`.
//! The other arguments are the path of a socket and a program that connects to it as the peer; without them, the peer
//! is a thread.
//!
//!     cargo run --release -p xoff-lockstep --example round_trips -- socket|memory [SOCKET PROGRAM ARGUMENT...]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use xoff_lockstep::{
    Connection, Frame, Hello, LinkError, Message, SocketListener, VERSION, WaitOptions,
    connect_shared_memory, connect_socket,
};

/// Number of round trips in a measurement.
const ROUND_TRIPS: u64 = 100_000;
/// Number of measurements of each kind.
const TURNS: usize = 5;
/// Bytes of a frame with FCS.
const FRAME_BYTES: usize = 64;
/// Bytes of a frame and a grant.
const BYTES: usize = 96 + 32;
/// Length of a ring of the bare ping-pong in words.
const RING_WORDS: usize = (1 << 16) / size_of::<u64>();
/// Time between two frames of one side, in picoseconds.
const INTERVAL_PS: u64 = 2_000_000;
/// Time of a frame of 64 bytes at 1 Gb/s, in picoseconds.
const FRAME_PS: u64 = 576_000;

fn spinning() -> WaitOptions {
    WaitOptions {
        spin: Duration::MAX,
        ..WaitOptions::default()
    }
}

fn hello(name: &str) -> Hello {
    Hello {
        version: VERSION,
        flags: 0,
        speed_bps: 1_000_000_000,
        name: name.to_owned(),
    }
}

fn frame(first_bit_ps: u64) -> Message {
    Message::Frame(Frame {
        first_bit_ps,
        last_bit_ps: first_bit_ps + FRAME_PS,
        has_error: false,
        bytes: vec![0; FRAME_BYTES],
    })
}

/// Waits for a frame and the grant after it.
fn await_frame(connection: &mut Connection) -> Result<(), LinkError> {
    while !matches!(connection.receive()?, Message::Frame(_)) {}
    while !matches!(connection.receive()?, Message::Grant(_)) {}
    Ok(())
}

/// Sends a frame at each interval, and waits for the answer of the peer.
fn send_frames(connection: &mut Connection) -> Result<Duration, LinkError> {
    let started = Instant::now();
    for number in 0..ROUND_TRIPS {
        let first_bit_ps = number * INTERVAL_PS;
        connection.send(&frame(first_bit_ps))?;
        connection.grant_until(first_bit_ps + INTERVAL_PS)?;
        await_frame(connection)?;
    }
    Ok(started.elapsed())
}

/// Answers each frame by a frame after its last bit.
fn answer_frames(mut connection: Connection) -> Result<(), LinkError> {
    for number in 0.. {
        await_frame(&mut connection)?;
        let first_bit_ps = number * INTERVAL_PS + FRAME_PS;
        connection.send(&frame(first_bit_ps))?;
        connection.grant_until(first_bit_ps + INTERVAL_PS)?;
    }
    Ok(())
}

/// Reads or writes all bytes without sleeping.
fn repeat(mut step: impl FnMut(usize) -> std::io::Result<usize>) -> std::io::Result<()> {
    let mut done = 0;
    while done < BYTES {
        match step(done) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Measures the bare ping-pong.
fn measure_bare() -> std::io::Result<Duration> {
    let (mut near, mut far) = UnixStream::pair()?;
    near.set_nonblocking(true)?;
    far.set_nonblocking(true)?;
    let exchange = move |stream: &mut UnixStream, writes_first: bool| {
        let mut bytes = [0; BYTES];
        for turn in [writes_first, !writes_first] {
            match turn {
                true => repeat(|done| stream.write(&bytes[done..]))?,
                false => repeat(|done| stream.read(&mut bytes[done..]))?,
            }
        }
        std::io::Result::Ok(())
    };
    std::thread::scope(|scope| {
        scope.spawn(move || (0..ROUND_TRIPS).try_for_each(|_| exchange(&mut far, false)));
        let started = Instant::now();
        (0..ROUND_TRIPS).try_for_each(|_| exchange(&mut near, true))?;
        Ok(started.elapsed())
    })
}

/// A number in a cache line of its own.
#[repr(align(64))]
struct Position(AtomicU64);

/// A ring of the bare ping-pong, laid out as a ring of the shared memory: one cache line for each position, and 64 KiB
/// of data. The time of a round trip depends on the cache lines that pass between the CPUs.
struct BareRing {
    written: Position,
    /// Nobody reads this position here, as a writer of the shared memory reads it only if its ring seems full.
    read: Position,
    words: Vec<AtomicU64>,
    /// Index of the first word at the start of a cache line.
    start: usize,
}

impl BareRing {
    fn new() -> BareRing {
        let words: Vec<AtomicU64> = (0..RING_WORDS + 8).map(|_| AtomicU64::new(0)).collect();
        let start = (0..8).find(|&at| (&raw const words[at]).addr().is_multiple_of(64));
        BareRing {
            written: Position(AtomicU64::new(0)),
            read: Position(AtomicU64::new(0)),
            start: start.unwrap_or(0),
            words,
        }
    }

    /// Returns the words of a round, counted from 1.
    fn words(&self, round: u64) -> &[AtomicU64] {
        let at = (round - 1) as usize * (BYTES / 8) % RING_WORDS;
        &self.words[self.start + at..][..BYTES / 8]
    }

    fn write(&self, round: u64) {
        for word in self.words(round) {
            word.store(round, Ordering::Relaxed);
        }
        self.written.0.store(round, Ordering::Release);
    }

    fn read(&self, round: u64) -> u64 {
        while self.written.0.load(Ordering::Acquire) < round {
            std::hint::spin_loop();
        }
        let words = self.words(round).iter();
        let sum = words.map(|word| word.load(Ordering::Relaxed)).sum();
        self.read.0.store(round, Ordering::Release);
        sum
    }
}

/// Measures the bare ping-pong in memory.
fn measure_bare_memory() -> Duration {
    let [there, back] = [BareRing::new(), BareRing::new()];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUND_TRIPS {
                std::hint::black_box(there.read(round));
                back.write(round);
            }
        });
        let started = Instant::now();
        for round in 1..=ROUND_TRIPS {
            there.write(round);
            std::hint::black_box(back.read(round));
        }
        started.elapsed()
    })
}

/// A peer, and what must end after the connection.
enum Peer {
    Program(std::process::Child),
    Thread(std::thread::JoinHandle<Result<(), LinkError>>),
}

/// Starts a peer: a program that connects to a socket, or a thread.
fn start_peer(
    uses_memory: bool,
    arguments: &[String],
) -> Result<(Connection, Peer), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir();
    let own_path = folder.join(format!("xoff-round-trips-{}", std::process::id()));
    let path = arguments.first().map_or(own_path, PathBuf::from);
    let mut listener = SocketListener::bind(&path)?;
    let peer = match arguments.get(1..) {
        Some([program, rest @ ..]) => Peer::Program(Command::new(program).args(rest).spawn()?),
        _ => Peer::Thread(std::thread::spawn(move || {
            let transport = match uses_memory {
                true => connect_shared_memory(&path, spinning())?,
                false => connect_socket(&path, spinning())?,
            };
            Connection::open(Box::new(transport), &hello("peer")).and_then(answer_frames)
        })),
    };
    let transport = listener.accept(spinning())?;
    let connection = Connection::open(Box::new(transport), &hello("round trips"))?;
    Ok((connection, peer))
}

/// Measures lock step with a new peer, so that no peer polls while the bare ping-pong is measured.
fn measure_lockstep(uses_memory: bool, arguments: &[String]) -> Result<Duration, Box<dyn std::error::Error>> {
    let (mut connection, peer) = start_peer(uses_memory, arguments)?;
    let span = send_frames(&mut connection)?;
    connection.close("");
    match peer {
        Peer::Program(mut child) => {
            child.wait()?;
        }
        // The thread ends with the connection.
        Peer::Thread(thread) => drop(thread.join()),
    }
    Ok(span)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let uses_memory = match arguments.first().map(String::as_str) {
        Some("socket") => false,
        Some("memory") => true,
        _ => return Err("the first argument is `socket` or `memory`".into()),
    };
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        let lockstep = measure_lockstep(uses_memory, &arguments[1..])?;
        let bare = match uses_memory {
            true => measure_bare_memory(),
            false => measure_bare()?,
        };
        for (kind, span) in [lockstep, bare].into_iter().enumerate() {
            rates[kind].push(ROUND_TRIPS as f64 / span.as_secs_f64());
        }
    }
    let [lockstep, bare] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[TURNS / 2]
    });
    let ratio = lockstep / bare;
    writeln!(
        std::io::stdout(),
        "round trips per second, median of {TURNS}: lock step {lockstep:.0}, bare {bare:.0}, ratio {ratio:.2}"
    )?;
    Ok(())
}
