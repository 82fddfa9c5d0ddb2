//! Traffic between hosts over ordinary sockets. A socket belongs to the namespace of the thread
//! that opens it.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, recvfrom, sendto, setsockopt,
    socket, sockopt,
};
use nix::sys::time::TimeVal;
use pnet::util::checksum;
use xoff_ports::net::Netns;

use crate::host::DEVICE;
use crate::support::{check, check_equal};

/// Rate of the test traffic in bytes per second: a tenth of a gigabit per second.
const RATE_BYTES_PER_SECOND: f64 = 12_500_000.0;
/// Bytes of preamble, start delimiter, FCS and inter-frame gap, which a link carries for each frame and a
/// socket does not show.
const LINK_OVERHEAD: usize = 24;
/// Maximum time to wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const PORT: u16 = 7_000;
/// Duration of the UDP traffic.
const UDP_DURATION: Duration = Duration::from_millis(400);
/// A datagram that arrives later than this time counts as lost.
const UDP_LOSS_TIMEOUT: Duration = Duration::from_secs(2);
/// Size of the receive buffer, for a receiver that is late.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// Returns the byte at a position of the test pattern of a seed.
fn pattern_byte(seed: u32, at: usize) -> u8 {
    let mixed = (at as u32 ^ seed).wrapping_mul(0x9e37_79b1);
    (mixed >> 24) as u8
}

/// Opens a raw ICMP socket of an address family in the namespace of the calling thread.
fn icmp_socket(ipv4: bool) -> Result<OwnedFd, Failed> {
    let (family, protocol) = match ipv4 {
        true => (AddressFamily::Inet, SockProtocol::Icmp),
        false => (AddressFamily::Inet6, SockProtocol::IcmpV6),
    };
    let icmp = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    setsockopt(&icmp, sockopt::ReceiveTimeout, &TimeVal::new(0, 100_000))?;
    Ok(icmp)
}

/// Waits for an ICMP message that `accept` accepts. `accept` gets the sender and the bytes of the message.
fn wait_for_icmp<T>(
    icmp: &OwnedFd,
    ipv4: bool,
    what: &str,
    mut is: impl FnMut(IpAddr, &[u8]) -> Option<T>,
) -> Result<T, Failed> {
    let end = Instant::now() + ANSWER_TIMEOUT;
    let mut buffer = vec![0; 1 << 16];
    while Instant::now() < end {
        let (len, from) = match recvfrom::<SockaddrStorage>(icmp.as_raw_fd(), &mut buffer) {
            Ok((len, Some(from))) => (len, from),
            Ok(_) | Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => continue,
            Err(error) => return Err(error.into()),
        };
        let from = match (from.as_sockaddr_in(), from.as_sockaddr_in6()) {
            (Some(from), _) => IpAddr::V4(from.ip()),
            (_, Some(from)) => IpAddr::V6(from.ip()),
            _ => continue,
        };
        // Raw IPv4 sockets pass the IP header to the receiver.
        let header_len = if ipv4 { usize::from(buffer[0] & 15) * 4 } else { 0 };
        if let Some(answer) = buffer[..len]
            .get(header_len..)
            .and_then(|message| is(from, message))
        {
            return Ok(answer);
        }
    }
    Err(format!("waited {ANSWER_TIMEOUT:?} in vain: {what}").into())
}

/// Pings `count` times with packets of `len` bytes, one after the other.
pub(crate) fn ping(from: &Netns, to: IpAddr, len: usize, count: u16) -> Result<(), Failed> {
    let ipv4 = to.is_ipv4();
    let header_len = if ipv4 { 20 } else { 40 };
    from.run(|| -> Result<(), Failed> {
        let icmp = icmp_socket(ipv4)?;
        for number in 0..count {
            let mut message: Vec<u8> = (0..len - header_len)
                .map(|at| pattern_byte(number.into(), at))
                .collect();
            message[..4].copy_from_slice(&[if ipv4 { 8 } else { 128 }, 0, 0, 0]);
            message[6..8].copy_from_slice(&number.to_be_bytes());
            if ipv4 {
                let sum = checksum(&message, 1);
                message[2..4].copy_from_slice(&sum.to_be_bytes());
            }
            let address = SockaddrStorage::from(socket_address(to)?);
            sendto(icmp.as_raw_fd(), &message, &address, MsgFlags::empty())?;
            wait_for_icmp(
                &icmp,
                ipv4,
                &format!("ping {number} of {len} octets to {to}"),
                |who, answer| {
                    let is = answer.len() == message.len()
                        && answer[0] == if ipv4 { 0 } else { 129 }
                        && answer[4..] == message[4..];
                    (is && who == to).then_some(())
                },
            )?;
        }
        Ok(())
    })?
}

/// Sends a UDP datagram that may cross `hops - 1` routers. Returns the sender, type and code of
/// the ICMP answer.
pub(crate) fn send_probe(from: &Netns, to: IpAddr, hops: u8) -> Result<(IpAddr, u8, u8), Failed> {
    let ipv4 = to.is_ipv4();
    from.run(|| -> Result<_, Failed> {
        let icmp = icmp_socket(ipv4)?;
        let udp = UdpSocket::bind(unspecified_address(to, 0))?;
        match ipv4 {
            true => udp.set_ttl(hops.into())?,
            false => setsockopt(&udp, sockopt::Ipv6Ttl, &hops.into())?,
        }
        udp.send_to(b"who is there", SocketAddr::new(to, 33_434))?;
        let question = udp.local_addr()?.port().to_be_bytes();
        wait_for_icmp(
            &icmp,
            ipv4,
            &format!("an error about a probe of {to}"),
            |who, message| {
                // The socket also receives neighbour discovery. An ICMP error contains the IP header and
                // ports of the datagram.
                let error = if ipv4 {
                    matches!(message[0], 3 | 11)
                } else {
                    message[0] < 128
                };
                let ports = if ipv4 { 8 + 20 } else { 8 + 40 };
                let ours = message.get(ports..ports + 2) == Some(&question[..]);
                (error && ours).then_some((who, message[0], message[1]))
            },
        )
    })?
}

/// Checks that a port without a listener refuses TCP by a reset and UDP by an ICMP error.
pub(crate) fn check_closed_port(from: &Netns, by: IpAddr) -> Result<(), Failed> {
    let refusal = |outcome: std::io::Result<()>, what: &str| {
        let kind = outcome.map_err(|error| error.kind());
        check_equal(kind, Err(std::io::ErrorKind::ConnectionRefused), what)
    };
    from.run(|| -> Result<(), Failed> {
        let at = SocketAddr::new(by, PORT);
        refusal(TcpStream::connect_timeout(&at, ANSWER_TIMEOUT).map(drop), "TCP")?;
        let udp = UdpSocket::bind(unspecified_address(by, 0))?;
        udp.connect(at)?;
        udp.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        udp.send(b"anybody?")?;
        refusal(udp.recv(&mut [0]).map(drop), "UDP")
    })?
}

/// Returns the socket address. A link-local address gets the scope of the host's only link.
fn socket_address(address: IpAddr) -> Result<SocketAddr, Failed> {
    Ok(match address {
        IpAddr::V6(address) if address.is_unicast_link_local() => {
            SocketAddrV6::new(address, 0, 0, nix::net::if_::if_nametoindex(DEVICE)?).into()
        }
        other => SocketAddr::new(other, 0),
    })
}

fn unspecified_address(like: IpAddr, port: u16) -> SocketAddr {
    match like {
        IpAddr::V4(_) => SocketAddr::from(([0, 0, 0, 0], port)),
        IpAddr::V6(_) => SocketAddr::from(([0u16; 8], port)),
    }
}

/// Runs sender and receiver at the same time. The receiver signals when it is ready.
fn run_receiver_and_sender(
    receiver: &Netns,
    receive: impl FnOnce(mpsc::Sender<()>) -> Result<(), Failed> + Send,
    sender: &Netns,
    send: impl FnOnce() -> Result<(), Failed> + Send,
) -> Result<(), Failed> {
    let (ready, is_ready) = mpsc::channel();
    thread::scope(|scope| {
        let receiving = scope.spawn(move || receiver.run(|| receive(ready)));
        let sent = match is_ready.recv_timeout(ANSWER_TIMEOUT) {
            Ok(()) => sender.run(send)?,
            Err(_) => Err("the receiver was not ready".into()),
        };
        let received = receiving.join().map_err(|_| "the receiver panicked")??;
        received.and(sent)
    })
}

/// Sends a stream of `len` bytes to `to` and another one back, and compares the bytes.
pub(crate) fn exchange_tcp(client: &Netns, server: &Netns, to: IpAddr, len: usize) -> Result<(), Failed> {
    let listen = |ready: mpsc::Sender<()>| -> Result<(), Failed> {
        let listener = TcpListener::bind(unspecified_address(to, PORT))?;
        // `accept` has the timeout of a read.
        setsockopt(
            &listener,
            sockopt::ReceiveTimeout,
            &TimeVal::new(ANSWER_TIMEOUT.as_secs() as i64, 0),
        )?;
        ready.send(())?;
        let (stream, _) = listener
            .accept()
            .map_err(|error| format!("nobody connects: {error}"))?;
        read_pattern(&stream, 1, len)?;
        write_pattern(&stream, 2, len)
    };
    let connect = || -> Result<(), Failed> {
        let stream = TcpStream::connect_timeout(&SocketAddr::new(to, PORT), ANSWER_TIMEOUT)?;
        write_pattern(&stream, 1, len)?;
        read_pattern(&stream, 2, len)
    };
    run_receiver_and_sender(server, listen, client, connect)
}

/// Sends the bytes of one millisecond every millisecond.
fn write_pattern(mut stream: &TcpStream, seed: u32, len: usize) -> Result<(), Failed> {
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_nodelay(true)?;
    let bytes: Vec<u8> = (0..len).map(|at| pattern_byte(seed, at)).collect();
    let begin = Instant::now();
    let mut said = 0;
    for chunk in bytes.chunks((RATE_BYTES_PER_SECOND / 1_000.0) as usize) {
        stream.write_all(chunk)?;
        said += chunk.len();
        let due = begin + Duration::from_secs_f64(said as f64 / RATE_BYTES_PER_SECOND);
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

fn read_pattern(mut stream: &TcpStream, seed: u32, len: usize) -> Result<(), Failed> {
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes)?;
    let wrong = bytes
        .iter()
        .enumerate()
        .find(|(at, octet)| **octet != pattern_byte(seed, *at));
    check_equal(wrong, None, "the first octet of the stream that is wrong")
}

/// Sends numbered datagrams in packets of `len` bytes at a tenth of a gigabit per second. Fails if one is
/// missing, duplicated or out of order.
pub(crate) fn send_udp(from: &Netns, target: &Netns, to: IpAddr, len: usize) -> Result<(), Failed> {
    let payload_len = len - 8 - if to.is_ipv4() { 20 } else { 40 };
    let interval = Duration::from_secs_f64((len + 14 + LINK_OVERHEAD) as f64 / RATE_BYTES_PER_SECOND);
    let count = UDP_DURATION.div_duration_f64(interval) as u32;
    let receive = |ready: mpsc::Sender<()>| -> Result<(), Failed> {
        let socket = UdpSocket::bind(unspecified_address(to, PORT))?;
        // The kernel limits the size to the maximum of the machine.
        let _ = setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_BUFFER_BYTES);
        socket.set_read_timeout(Some(UDP_DURATION + UDP_LOSS_TIMEOUT))?;
        ready.send(())?;
        let mut buffer = vec![0; payload_len + 1];
        for number in 0..count {
            let got = socket
                .recv(&mut buffer)
                .map_err(|error| format!("datagram {number} of {count} did not come: {error}"))?;
            check_equal(got, payload_len, "length of a datagram")?;
            let [a, b, c, d, content @ ..] = &buffer[..got] else {
                return Err("a datagram without a number".into());
            };
            check_equal(
                u32::from_be_bytes([*a, *b, *c, *d]),
                number,
                "number of a datagram",
            )?;
            let whole = content
                .iter()
                .enumerate()
                .all(|(at, octet)| *octet == pattern_byte(number, at));
            check(whole, || format!("datagram {number} is damaged"))?;
            socket.set_read_timeout(Some(UDP_LOSS_TIMEOUT))?;
        }
        Ok(())
    };
    let send = || -> Result<(), Failed> {
        let socket = UdpSocket::bind(unspecified_address(to, 0))?;
        socket.connect(SocketAddr::new(to, PORT))?;
        let begin = Instant::now();
        for number in 0..count {
            let content = (0..payload_len - 4).map(|at| pattern_byte(number, at));
            let datagram: Vec<u8> = number.to_be_bytes().into_iter().chain(content).collect();
            let due = begin + interval * number;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            socket.send(&datagram)?;
        }
        Ok(())
    };
    run_receiver_and_sender(target, receive, from, send)
}
