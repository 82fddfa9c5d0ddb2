//! An AF_XDP socket with its memory, its rings and its statistics.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use super::ring::{Consumer, Producer};
use crate::Arena;
use crate::arena::SMALL_SLOT_BYTES;
use crate::packet_socket::{check_result, enlarge_send_buffer, get_option, set_option};

/// Number of received frames that can wait in the socket. At the highest rate of a veth sender, this number
/// of frames arrives in 4 ms. At the lower rates of a lab, it takes much longer.
///
/// The kernel fills the slots in turn, so a slot is used again after this number of frames. With twice as
/// many slots, the slots would not fit in the last-level cache of a virtual machine (`benches/README.md`).
pub(super) const RECEIVE_ENTRIES: u32 = 2_048;
/// Number of entries in the fill ring, which contains empty slots for received frames. The kernel publishes a
/// received frame shortly before it releases the entry of the frame's slot. The ring therefore needs more
/// entries than there are posted slots.
const FILL_ENTRIES: u32 = 2 * RECEIVE_ENTRIES;
/// Number of descriptors in the transmit ring. No burst needs more.
pub(super) const TRANSMIT_ENTRIES: u32 = 1_024;
/// Number of entries in the completion ring. This is the largest number of frames in flight to the network
/// stack of the far end.
const COMPLETION_ENTRIES: u32 = 4_096;

/// The four rings of a socket.
#[derive(Debug)]
pub(super) struct Rings {
    /// Empty slots for received frames.
    pub(super) fill: Producer<u64>,
    pub(super) receive: Consumer<libc::xdp_desc>,
    pub(super) transmit: Producer<libc::xdp_desc>,
    /// Slots whose frames the kernel has sent.
    pub(super) completion: Consumer<u64>,
}

/// Opens an AF_XDP socket that receives no frames yet. The call needs CAP_NET_RAW.
pub(super) fn open_xdp_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call passes no memory.
    match unsafe { libc::socket(libc::AF_XDP, kind, 0) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the descriptor is new, and no other value owns it.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

/// Registers the small slots of an arena as the memory of the socket. Each slot is one chunk. The kernel pins
/// the whole memory.
pub(super) fn register_arena(socket: &OwnedFd, arena: &Arena) -> io::Result<()> {
    let region = arena.small_region();
    let registration = libc::xdp_umem_reg {
        addr: region.cast::<u8>() as u64,
        len: region.len() as u64,
        chunk_size: SMALL_SLOT_BYTES as u32,
        // The kernel leaves 256 bytes before a frame. They are the headroom of the arena.
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    set_option(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)?;
    enlarge_send_buffer(socket)
}

/// Creates the four rings of the socket.
pub(super) fn create_rings(socket: &OwnedFd) -> io::Result<Rings> {
    let sizes = [
        (libc::XDP_UMEM_FILL_RING, FILL_ENTRIES),
        (libc::XDP_UMEM_COMPLETION_RING, COMPLETION_ENTRIES),
        (libc::XDP_RX_RING, RECEIVE_ENTRIES),
        (libc::XDP_TX_RING, TRANSMIT_ENTRIES),
    ];
    for (option, entries) in sizes {
        set_option(socket, libc::SOL_XDP, option, &(entries as libc::c_int))?;
    }
    let zero = libc::xdp_ring_offset {
        producer: 0,
        consumer: 0,
        desc: 0,
        flags: 0,
    };
    let zeros = libc::xdp_mmap_offsets {
        rx: zero,
        tx: zero,
        fr: zero,
        cr: zero,
    };
    let offsets = get_option(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, zeros)?;
    let (fill, completion) = (
        libc::XDP_UMEM_PGOFF_FILL_RING as i64,
        libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64,
    );
    Ok(Rings {
        fill: Producer::map(socket, fill, &offsets.fr, FILL_ENTRIES)?,
        completion: Consumer::map(socket, completion, &offsets.cr, COMPLETION_ENTRIES)?,
        receive: Consumer::map(socket, libc::XDP_PGOFF_RX_RING, &offsets.rx, RECEIVE_ENTRIES)?,
        transmit: Producer::map(socket, libc::XDP_PGOFF_TX_RING, &offsets.tx, TRANSMIT_ENTRIES)?,
    })
}

/// Binds the socket to queue 0 of a device. The socket uses copy mode, and a frame may occupy several slots.
pub(super) fn bind_to_first_queue(socket: &OwnedFd, device_index: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_COPY | libc::XDP_USE_SG,
        sxdp_ifindex: device_index,
        sxdp_queue_id: 0,
        sxdp_shared_umem_fd: 0,
    };
    let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: `address` is a live `sockaddr_xdp` of length `len`.
    check_result(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) })
}

/// Makes the kernel send the frames of the transmit ring. One call handles at most 32 descriptors.
pub(super) fn start_transmission(socket: &OwnedFd) -> io::Result<()> {
    // SAFETY: the call passes no memory.
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

/// Returns the statistics of the socket since its creation.
pub(super) fn read_statistics(socket: &OwnedFd) -> io::Result<libc::xdp_statistics> {
    let none = libc::xdp_statistics {
        rx_dropped: 0,
        rx_invalid_descs: 0,
        tx_invalid_descs: 0,
        rx_ring_full: 0,
        rx_fill_ring_empty_descs: 0,
        tx_ring_empty_descs: 0,
    };
    get_option(socket, libc::SOL_XDP, libc::XDP_STATISTICS, none)
}
