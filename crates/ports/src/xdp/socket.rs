//! An AF_XDP socket: its memory, its rings, and what it has counted.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use super::ring::{Consumer, Producer};
use crate::Arena;
use crate::arena::SMALL_SLOT_BYTES;
use crate::socket::{check, enlarge_send_buffer, get, set};

/// Frames a port keeps while nobody looks: 4 ms of what a veth sender can reach, many times that at the speeds of a lab. The
/// kernel fills slots in turn, so a frame lies in memory that was used as many frames ago; with twice as many these no longer
/// stay in the share of the last cache that a virtual machine has (`benches/README.md`).
pub(super) const RECEIVE_ENTRIES: u32 = 2_048;
/// Empty slots: the kernel shows what it has received a moment before it says that it has taken the slots for it, so that
/// for this moment there are more than are posted.
const FILL_ENTRIES: u32 = 2 * RECEIVE_ENTRIES;
/// More than any burst puts in.
pub(super) const TRANSMIT_ENTRIES: u32 = 1_024;
/// Frames that may be under way between us and the far end's stack.
const COMPLETION_ENTRIES: u32 = 4_096;

/// The rings of a socket.
#[derive(Debug)]
pub(super) struct Rings {
    /// Empty chunks for the kernel to receive into.
    pub(super) fill: Producer<u64>,
    pub(super) receive: Consumer<libc::xdp_desc>,
    pub(super) transmit: Producer<libc::xdp_desc>,
    /// Chunks that the kernel has done with after sending.
    pub(super) completion: Consumer<u64>,
}

/// A socket that hears nothing yet. Takes CAP_NET_RAW.
pub(super) fn create() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is passed.
    match unsafe { libc::socket(libc::AF_XDP, kind, 0) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: a new descriptor that nobody else has.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

/// Makes the small slots of an arena the socket's memory, a chunk each. The kernel pins all of them.
pub(super) fn register(socket: &OwnedFd, arena: &Arena) -> io::Result<()> {
    let region = arena.small_region();
    let registration = libc::xdp_umem_reg {
        addr: region.cast::<u8>() as u64,
        len: region.len() as u64,
        chunk_size: SMALL_SLOT_BYTES as u32,
        // The kernel leaves 256 octets of its own in front of a frame: the headroom of the arena.
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    set(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)?;
    enlarge_send_buffer(socket)
}

/// Gives the socket its four rings.
pub(super) fn make_rings(socket: &OwnedFd) -> io::Result<Rings> {
    let sizes = [
        (libc::XDP_UMEM_FILL_RING, FILL_ENTRIES),
        (libc::XDP_UMEM_COMPLETION_RING, COMPLETION_ENTRIES),
        (libc::XDP_RX_RING, RECEIVE_ENTRIES),
        (libc::XDP_TX_RING, TRANSMIT_ENTRIES),
    ];
    for (option, entries) in sizes {
        set(socket, libc::SOL_XDP, option, &(entries as libc::c_int))?;
    }
    let nowhere = libc::xdp_ring_offset {
        producer: 0,
        consumer: 0,
        desc: 0,
        flags: 0,
    };
    let none = libc::xdp_mmap_offsets {
        rx: nowhere,
        tx: nowhere,
        fr: nowhere,
        cr: nowhere,
    };
    let at = get(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, none)?;
    let (fill, completion) = (
        libc::XDP_UMEM_PGOFF_FILL_RING as i64,
        libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64,
    );
    Ok(Rings {
        fill: Producer::map(socket, fill, &at.fr, FILL_ENTRIES)?,
        completion: Consumer::map(socket, completion, &at.cr, COMPLETION_ENTRIES)?,
        receive: Consumer::map(socket, libc::XDP_PGOFF_RX_RING, &at.rx, RECEIVE_ENTRIES)?,
        transmit: Producer::map(socket, libc::XDP_PGOFF_TX_RING, &at.tx, TRANSMIT_ENTRIES)?,
    })
}

/// Binds the socket to queue 0 of a device, to copy, with frames of more than one chunk.
pub(super) fn bind(socket: &OwnedFd, device_index: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_COPY | libc::XDP_USE_SG,
        sxdp_ifindex: device_index,
        sxdp_queue_id: 0,
        sxdp_shared_umem_fd: 0,
    };
    let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: `address` is a live `sockaddr_xdp` of that length.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) })
}

/// Makes the kernel send what is in the transmit ring: as much as it can, 32 chunks at most.
pub(super) fn kick(socket: &OwnedFd) -> io::Result<()> {
    // SAFETY: no memory is passed.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            ptr::null(),
            0,
            libc::MSG_DONTWAIT,
            ptr::null(),
            0,
        )
    };
    match sent {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What the socket has counted since it was made.
pub(super) fn statistics(socket: &OwnedFd) -> io::Result<libc::xdp_statistics> {
    let none = libc::xdp_statistics {
        rx_dropped: 0,
        rx_invalid_descs: 0,
        tx_invalid_descs: 0,
        rx_ring_full: 0,
        rx_fill_ring_empty_descs: 0,
        tx_ring_empty_descs: 0,
    };
    get(socket, libc::SOL_XDP, libc::XDP_STATISTICS, none)
}
