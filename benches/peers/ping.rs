//! Round trips of pings between the kernels at both ends.

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, recv, sendto, setsockopt, socket,
};
use nix::sys::time::TimeVal;

use crate::Failure;
use crate::bed::{ADDRESSES, TestBed};

/// Bytes of an ICMP echo with its header, as in ping(8).
const ECHO_BYTES: usize = 64;
const ECHO_REQUEST: u8 = 8;
const IPV4_HEADER_BYTES: usize = 20;
/// An echo counts as lost after this time.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The waiting method of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitMethod {
    /// The receiver sleeps, like ping(8). The round trip includes the wake-up time of the core.
    Sleeps,
    /// The receiver polls. The round trip consists of forwarding and of kernel time at both ends.
    Polls,
}

/// Returns the median round trip in nanoseconds of `count` pings with the interval `pause`. Lost pings are
/// not counted. The first ping, which resolves the link address, is not counted either.
pub(crate) fn round_trip(
    bed: &TestBed,
    count: u16,
    pause: Duration,
    method: WaitMethod,
) -> Result<Option<f64>, Failure> {
    let mut trips = match count {
        0 => Vec::new(),
        count => round_trips(bed, count, pause, method)?,
    };
    trips.sort_unstable();
    Ok(trips.get(trips.len() / 2).map(|&trip| trip as f64))
}

fn round_trips(bed: &TestBed, count: u16, pause: Duration, method: WaitMethod) -> Result<Vec<u64>, Failure> {
    let ping = || -> nix::Result<Vec<u64>> {
        let socket = socket(
            AddressFamily::Inet,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::Icmp,
        )?;
        setsockopt(
            &socket,
            ReceiveTimeout,
            &TimeVal::new(0, TIMEOUT.as_micros() as i64),
        )?;
        let [a, b, c, d] = ADDRESSES[1];
        let to = SockaddrIn::new(a, b, c, d, 0);
        let mut trips = Vec::with_capacity(usize::from(count));
        for sequence in 0..=count {
            let echo = echo(sequence);
            let began = Instant::now();
            sendto(socket.as_raw_fd(), &echo, &to, MsgFlags::empty())?;
            if answered(socket.as_raw_fd(), sequence, began, method) && sequence > 0 {
                trips.push(began.elapsed().as_nanos() as u64);
            }
            std::thread::sleep(pause);
        }
        Ok(trips)
    };
    bed.sending()
        .run(ping)
        .map_err(|error| error.to_string())?
        .map_err(|errno| format!("cannot ping: {errno}"))
}

/// Waits for the reply. Returns false if the reply is late.
fn answered(socket: i32, sequence: u16, began: Instant, method: WaitMethod) -> bool {
    let mut packet = [0; IPV4_HEADER_BYTES + ECHO_BYTES];
    let flags = match method {
        WaitMethod::Sleeps => MsgFlags::empty(),
        WaitMethod::Polls => MsgFlags::MSG_DONTWAIT,
    };
    while began.elapsed() < TIMEOUT {
        let len = recv(socket, &mut packet, flags).unwrap_or(0);
        // A reply (type 0) with the right number, after an IP header without options.
        if len == packet.len()
            && packet[IPV4_HEADER_BYTES] == 0
            && packet[IPV4_HEADER_BYTES + 6..IPV4_HEADER_BYTES + 8] == sequence.to_be_bytes()
        {
            return true;
        }
    }
    false
}

/// Returns an echo request (RFC 792).
fn echo(sequence: u16) -> [u8; ECHO_BYTES] {
    let mut echo = [0; ECHO_BYTES];
    echo[0] = ECHO_REQUEST;
    echo[6..8].copy_from_slice(&sequence.to_be_bytes());
    let words = echo
        .chunks_exact(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    echo[2..4].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    echo
}
