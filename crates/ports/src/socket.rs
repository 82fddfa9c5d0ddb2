//! The packet socket and its options; setting and reading options of any socket.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// How much may be under way inside the kernel: what a device with a queue holds back before we are told to wait.
const SEND_BUFFER_BYTES: libc::c_int = 8 * 1024 * 1024;
/// The default holds 256 small frames, or 24 of 4 KiB.
const RECEIVE_BUFFER_BYTES: libc::c_int = 32 * 1024 * 1024;

/// A packet socket that hears nothing yet: with a protocol it would hear every interface until it is bound.
pub(super) fn create() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is passed.
    match unsafe { libc::socket(libc::AF_PACKET, kind, 0) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: a new descriptor that nobody else has.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

/// `TPACKET_V2` of `linux/if_packet.h`.
const TPACKET_V2: libc::c_int = 1;

/// Everything but the ring, before the socket is bound.
pub(super) fn configure(socket: &OwnedFd) -> io::Result<()> {
    set(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &TPACKET_V2)?;
    // What we send is not to come back as received.
    set(socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
    enlarge_send_buffer(socket)
}

/// A packet socket that only sends, once it is bound to a device (without a protocol); past the device's queueing discipline if `bypass`
/// says so.
pub(super) fn create_sender(bypass: bool) -> io::Result<OwnedFd> {
    let socket = create()?;
    enlarge_send_buffer(&socket)?;
    if bypass {
        set(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1)?;
    }
    Ok(socket)
}

/// Lets much be under way.
pub(super) fn enlarge_send_buffer(socket: &OwnedFd) -> io::Result<()> {
    // The first takes CAP_NET_ADMIN, the second is cut off at net.core.wmem_max: then bursts are shorter.
    set(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER_BYTES)
        .or_else(|_| set(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, &SEND_BUFFER_BYTES))
}

/// What the simple reference needs: no ring, but a large receive buffer.
pub(super) fn configure_without_ring(socket: &OwnedFd) -> io::Result<()> {
    set(socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
    set(
        socket,
        libc::SOL_SOCKET,
        libc::SO_RCVBUFFORCE,
        &RECEIVE_BUFFER_BYTES,
    )
    .or_else(|_| set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &RECEIVE_BUFFER_BYTES))
}

/// Gives the socket a receive ring.
pub(super) fn set_receive_ring(
    socket: &OwnedFd,
    block_bytes: usize,
    frame_bytes: usize,
    bytes: usize,
) -> io::Result<()> {
    set_ring(socket, libc::PACKET_RX_RING, block_bytes, frame_bytes, bytes)
}

/// Gives the socket a transmit ring, in which each frame follows a `virtio_net_hdr`.
pub(super) fn set_send_ring(
    socket: &OwnedFd,
    block_bytes: usize,
    frame_bytes: usize,
    bytes: usize,
) -> io::Result<()> {
    set(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &TPACKET_V2)?;
    set(socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)?;
    set_ring(socket, libc::PACKET_TX_RING, block_bytes, frame_bytes, bytes)
}

fn set_ring(
    socket: &OwnedFd,
    which: libc::c_int,
    block_bytes: usize,
    frame_bytes: usize,
    bytes: usize,
) -> io::Result<()> {
    let request = libc::tpacket_req {
        tp_block_size: block_bytes as u32,
        tp_block_nr: (bytes / block_bytes) as u32,
        tp_frame_size: frame_bytes as u32,
        tp_frame_nr: (bytes / frame_bytes) as u32,
    };
    set(socket, libc::SOL_PACKET, which, &request)
}

/// Lets the socket hear one device, all of its frames.
pub(super) fn bind(socket: &OwnedFd, index: u32) -> io::Result<()> {
    listen_to_all(socket, index)?;
    bind_protocol(socket, index, libc::ETH_P_ALL as u16)
}

/// Binds the socket to a device for frames of a protocol; 0 is none of them, for a socket that only sends.
pub(super) fn bind_protocol(socket: &OwnedFd, index: u32, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `address` is a live `sockaddr_ll` of that length.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) })
}

/// Makes a device take frames to whatever address, as long as the socket lives.
pub(super) fn listen_to_all(socket: &OwnedFd, index: u32) -> io::Result<()> {
    // A membership, not the device's flag: it ends with the socket, however the process ends.
    let promiscuous = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(
        socket,
        libc::SOL_PACKET,
        libc::PACKET_ADD_MEMBERSHIP,
        &promiscuous,
    )
}

/// Lets through only what a classic BPF program accepts (`Documentation/networking/filter.rst`); the kernel checks it.
pub(super) fn set_filter(socket: &OwnedFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        // The kernel reads the program only.
        filter: program.as_ptr().cast_mut(),
    };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Frames that found the ring full since the last call.
pub(super) fn take_drops(socket: &OwnedFd) -> io::Result<u32> {
    let none = libc::tpacket_stats {
        tp_packets: 0,
        tp_drops: 0,
    };
    get(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, none).map(|stats| stats.tp_drops)
}

/// The error that waits on the socket, which is cleared.
pub(super) fn take_error(socket: &OwnedFd) -> io::Result<Option<io::Error>> {
    let errno = get(socket, libc::SOL_SOCKET, libc::SO_ERROR, 0)?;
    Ok((errno != 0).then(|| io::Error::from_raw_os_error(errno)))
}

/// Sets an option to a value of the type that the kernel has for it.
pub(super) fn set<T>(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads at most `len` octets of `value`, which is borrowed for the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            len,
        )
    })
}

/// Reads an option that is a plain C value of type `T`: every caller's is made of integers.
pub(super) fn get<T>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    mut value: T,
) -> io::Result<T> {
    let mut len = size_of::<T>() as libc::socklen_t;
    let at = (&raw mut value).cast();
    // SAFETY: the kernel writes at most `len` octets of `value`, which is ours, and any octets are valid integers.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, at, &raw mut len) })?;
    Ok(value)
}

pub(super) fn check(result: libc::c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
