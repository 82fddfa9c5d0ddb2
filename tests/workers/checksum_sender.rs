//! A sender that leaves checksums to hardware, like a kernel with its usual offloads. Its packet socket tells
//! the kernel the position of the checksum.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libtest_mimic::Failed;
use xoff_ports::net::Netns;

/// `PACKET_VNET_HDR` of `linux/if_packet.h`.
const PACKET_VNET_HDR: libc::c_int = 15;
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM` of `linux/virtio_net.h`.
const NEEDS_CHECKSUM: u8 = 1;

/// A packet socket that sends frames whose checksum is not finished.
pub(crate) struct UnfinishedChecksumSender {
    socket: OwnedFd,
    index: u32,
}

impl UnfinishedChecksumSender {
    /// Opens the socket on `device` in `netns`.
    pub(crate) fn open(netns: &Netns, device: &str) -> Result<UnfinishedChecksumSender, Failed> {
        netns.run(|| -> Result<UnfinishedChecksumSender, Failed> {
            let index = nix::net::if_::if_nametoindex(device)?;
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
            // SAFETY: the call passes no memory.
            let socket = match unsafe { libc::socket(libc::AF_PACKET, kind, 0) } {
                -1 => return Err(io::Error::last_os_error().into()),
                // SAFETY: the descriptor is new and has no other owner.
                fd => unsafe { OwnedFd::from_raw_fd(fd) },
            };
            let (fd, on): (_, libc::c_int) = (socket.as_raw_fd(), 1);
            let len = size_of::<libc::c_int>() as libc::socklen_t;
            // SAFETY: `on` is a live integer of that length.
            let set = unsafe {
                libc::setsockopt(fd, libc::SOL_PACKET, PACKET_VNET_HDR, (&raw const on).cast(), len)
            };
            match set {
                0 => Ok(UnfinishedChecksumSender { socket, index }),
                _ => Err(io::Error::last_os_error().into()),
            }
        })?
    }

    /// Sends a frame. The checksum of the bytes from `start` on belongs at `start + offset`.
    pub(crate) fn send(&self, frame: &[u8], start: u16, offset: u16) -> io::Result<()> {
        let mut message = vec![NEEDS_CHECKSUM, 0, 0, 0, 0, 0];
        message.extend(start.to_ne_bytes());
        message.extend(offset.to_ne_bytes());
        message.extend(frame);
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: u16::from_ne_bytes([frame[12], frame[13]]),
            sll_ifindex: self.index as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 6,
            sll_addr: [0; 8],
        };
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        let (at, fd) = ((&raw const address).cast(), self.socket.as_raw_fd());
        // SAFETY: message and address are live and of these lengths.
        let sent = unsafe { libc::sendto(fd, message.as_ptr().cast(), message.len(), 0, at, len) };
        match sent {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}
