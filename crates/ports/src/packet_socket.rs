//! Opens packet sockets and sets their options. Also contains helpers for the options of any socket.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Size of the send buffer of a socket in bytes. A device with a queue can hold this amount of data. After
/// that, the next send must wait.
const SEND_BUFFER_BYTES: libc::c_int = 8 * 1024 * 1024;
/// Size of the receive buffer of a socket in bytes. The default size of the kernel holds only 256 small
/// frames, or 24 frames of 4 KiB.
const RECEIVE_BUFFER_BYTES: libc::c_int = 32 * 1024 * 1024;

/// Opens a packet socket without a protocol. A socket with a protocol would receive the frames of all
/// interfaces until it is bound to one interface.
pub(super) fn open_packet_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call passes no memory.
    match unsafe { libc::socket(libc::AF_PACKET, kind, 0) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the descriptor is new, and no other value owns it.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

/// `TPACKET_V2` of `linux/if_packet.h`.
const TPACKET_V2: libc::c_int = 1;

/// Sets all options of a receive socket, except the receive ring. The caller calls this function before it
/// binds the socket.
pub(super) fn configure_receiver(socket: &OwnedFd) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &TPACKET_V2)?;
    // Frames that this machine sends must not return as received frames.
    set_option(socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
    enlarge_send_buffer(socket)
}

/// Opens a packet socket that only sends frames. The caller binds the socket to a device, without a protocol.
/// If `bypass_qdisc` is true, sent frames skip the queueing discipline of the device.
pub(super) fn open_send_socket(bypass_qdisc: bool) -> io::Result<OwnedFd> {
    let socket = open_packet_socket()?;
    enlarge_send_buffer(&socket)?;
    if bypass_qdisc {
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1)?;
    }
    Ok(socket)
}

/// Enlarges the send buffer of a socket to [`SEND_BUFFER_BYTES`].
pub(super) fn enlarge_send_buffer(socket: &OwnedFd) -> io::Result<()> {
    // The first option needs CAP_NET_ADMIN. The second is limited by net.core.wmem_max, so bursts
    // are shorter.
    set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER_BYTES)
        .or_else(|_| set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, &SEND_BUFFER_BYTES))
}

/// Sets the options of a receive socket without a receive ring. The socket gets a large receive
/// buffer instead.
pub(super) fn configure_without_ring(socket: &OwnedFd) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
    set_option(
        socket,
        libc::SOL_SOCKET,
        libc::SO_RCVBUFFORCE,
        &RECEIVE_BUFFER_BYTES,
    )
    .or_else(|_| set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &RECEIVE_BUFFER_BYTES))
}

/// Adds a receive ring of `bytes` bytes to the socket. An entry of the ring has `frame_bytes` bytes. The
/// kernel allocates the ring in blocks of `block_bytes` bytes.
pub(super) fn set_receive_ring(
    socket: &OwnedFd,
    block_bytes: usize,
    frame_bytes: usize,
    bytes: usize,
) -> io::Result<()> {
    set_ring(socket, libc::PACKET_RX_RING, block_bytes, frame_bytes, bytes)
}

/// Adds a transmit ring of `bytes` bytes to the socket. In the ring, a `virtio_net_hdr` precedes each frame.
/// The remaining arguments have the same meaning as for [`set_receive_ring`].
pub(super) fn set_send_ring(
    socket: &OwnedFd,
    block_bytes: usize,
    frame_bytes: usize,
    bytes: usize,
) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &TPACKET_V2)?;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)?;
    set_ring(socket, libc::PACKET_TX_RING, block_bytes, frame_bytes, bytes)
}

fn set_ring(
    socket: &OwnedFd,
    option: libc::c_int,
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
    set_option(socket, libc::SOL_PACKET, option, &request)
}

/// Binds the socket to a device. The socket then receives all frames of the device, with any
/// destination address.
pub(super) fn bind_promiscuous(socket: &OwnedFd, device_index: u32) -> io::Result<()> {
    enable_promiscuous_mode(socket, device_index)?;
    bind_protocol(socket, device_index, libc::ETH_P_ALL as u16)
}

/// Binds the socket to a device. The socket then receives the frames of one protocol. With protocol 0, it
/// receives no frames.
pub(super) fn bind_protocol(socket: &OwnedFd, device_index: u32, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: device_index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `address` is a live `sockaddr_ll` of length `len`.
    check_result(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) })
}

/// Makes a device accept frames to any destination address, as long as the socket is open.
pub(super) fn enable_promiscuous_mode(socket: &OwnedFd, device_index: u32) -> io::Result<()> {
    // A membership of the socket ends with the process, even after a crash. A flag of the device would stay.
    let promiscuous = libc::packet_mreq {
        mr_ifindex: device_index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(
        socket,
        libc::SOL_PACKET,
        libc::PACKET_ADD_MEMBERSHIP,
        &promiscuous,
    )
}

/// Attaches a classic BPF program to the socket (`Documentation/networking/filter.rst`). The program selects
/// the frames that the socket receives.
pub(super) fn set_filter(socket: &OwnedFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        // The kernel only reads the program.
        filter: program.as_ptr().cast_mut(),
    };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Returns the number of frames that were lost since the last call. A frame is lost if the ring or the
/// receive buffer is full.
pub(super) fn take_ring_drops(socket: &OwnedFd) -> io::Result<u32> {
    let none = libc::tpacket_stats {
        tp_packets: 0,
        tp_drops: 0,
    };
    get_option(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, none).map(|stats| stats.tp_drops)
}

/// Returns the pending error of the socket and clears it. Returns `None` if no error is pending.
pub(super) fn take_error(socket: &OwnedFd) -> io::Result<Option<io::Error>> {
    let errno = get_option(socket, libc::SOL_SOCKET, libc::SO_ERROR, 0)?;
    Ok((errno != 0).then(|| io::Error::from_raw_os_error(errno)))
}

/// Sets a socket option. `T` is the type that the kernel expects for the value of this option.
pub(super) fn set_option<T>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads at most `len` bytes of `value`, which is borrowed for the call.
    check_result(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            len,
        )
    })
}

/// Reads a socket option. `T` is the C structure of the kernel for this option. All members of this structure
/// must be integers. `value` is the initial content of the structure.
pub(super) fn get_option<T>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    mut value: T,
) -> io::Result<T> {
    let mut len = size_of::<T>() as libc::socklen_t;
    let address = (&raw mut value).cast();
    // SAFETY: the kernel writes at most `len` bytes of `value`, which this function owns. Every bit pattern
    // is a valid integer.
    check_result(unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, address, &raw mut len) })?;
    Ok(value)
}

/// Converts the return value of a system call to a result. 0 means success. If the value is not 0, the
/// function returns the error in `errno`.
pub(super) fn check_result(return_value: libc::c_int) -> io::Result<()> {
    match return_value {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
