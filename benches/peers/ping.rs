//! Round trips of pings between the kernels at both ends.

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, recv, sendto, setsockopt, socket,
};
use nix::sys::time::TimeVal;

use crate::Failure;
use crate::bed::{ADDRESSES, Bed};

/// Octets of an ICMP echo, header included: as many as ping(8) sends.
const ECHO_BYTES: usize = 64;
const ECHO_REQUEST: u8 = 8;
const IPV4_HEADER_BYTES: usize = 20;
/// An echo that takes longer is lost.
const PATIENCE: Duration = Duration::from_millis(500);

/// What who asks does until the answer is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// It sleeps, as ping(8) does: the round trip has in it how long the machine takes to wake its core.
    Sleeps,
    /// It looks again and again: what is left is forwarding, and the kernels' work at both ends.
    Looks,
}

/// Median round trip in nanoseconds of `count` pings, `pause` apart; those that were lost are missing. The first one, which asks for the
/// link address, does not count.
pub(crate) fn round_trip(
    bed: &Bed,
    count: u16,
    pause: Duration,
    asker: Asker,
) -> Result<Option<f64>, Failure> {
    let mut trips = match count {
        0 => Vec::new(),
        count => round_trips(bed, count, pause, asker)?,
    };
    trips.sort_unstable();
    Ok(trips.get(trips.len() / 2).map(|&trip| trip as f64))
}

fn round_trips(bed: &Bed, count: u16, pause: Duration, asker: Asker) -> Result<Vec<u64>, Failure> {
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
            &TimeVal::new(0, PATIENCE.as_micros() as i64),
        )?;
        let [a, b, c, d] = ADDRESSES[1];
        let to = SockaddrIn::new(a, b, c, d, 0);
        let mut trips = Vec::with_capacity(usize::from(count));
        for sequence in 0..=count {
            let echo = echo(sequence);
            let began = Instant::now();
            sendto(socket.as_raw_fd(), &echo, &to, MsgFlags::empty())?;
            if answered(socket.as_raw_fd(), sequence, began, asker) && sequence > 0 {
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

/// Waits for the answer.
fn answered(socket: i32, sequence: u16, began: Instant, asker: Asker) -> bool {
    let mut packet = [0; IPV4_HEADER_BYTES + ECHO_BYTES];
    let flags = match asker {
        Asker::Sleeps => MsgFlags::empty(),
        Asker::Looks => MsgFlags::MSG_DONTWAIT,
    };
    while began.elapsed() < PATIENCE {
        let len = recv(socket, &mut packet, flags).unwrap_or(0);
        // A reply (type 0) with our number behind a header without options.
        if len == packet.len()
            && packet[IPV4_HEADER_BYTES] == 0
            && packet[IPV4_HEADER_BYTES + 6..IPV4_HEADER_BYTES + 8] == sequence.to_be_bytes()
        {
            return true;
        }
    }
    false
}

/// An echo request (RFC 792).
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
