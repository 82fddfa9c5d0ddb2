//! The far end of a port under test. The sender uses `pnet::datalink`. The receiver is a packet socket that
//! reads the VLAN tag from the auxiliary data. Neither shares code with the ports.

use std::collections::VecDeque;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libtest_mimic::Failed;
use pnet::datalink::{self, Channel, Config, DataLinkSender};
use xoff_ports::net::Netns;

/// The far end of a device, in its own namespace.
pub(crate) struct FarEnd {
    sender: Box<dyn DataLinkSender>,
    receiver: OwnedFd,
    received: VecDeque<Vec<u8>>,
}

impl FarEnd {
    /// Opens `device` in `netns`.
    pub(crate) fn open(netns: &Netns, device: &str) -> Result<FarEnd, Failed> {
        netns.run(|| -> Result<FarEnd, Failed> {
            let interface = datalink::interfaces()
                .into_iter()
                .find(|found| found.name == device);
            let interface = interface.ok_or("the far end is not there")?;
            let config = Config {
                write_buffer_size: 20_000,
                ..Config::default()
            };
            let Channel::Ethernet(sender, _) = datalink::channel(&interface, config)? else {
                return Err("pnet gave another kind of channel".into());
            };
            Ok(FarEnd {
                sender,
                receiver: open_receiver(interface.index)?,
                received: VecDeque::new(),
            })
        })?
    }

    /// Sends one frame.
    pub(crate) fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.sender
            .send_to(frame, None)
            .unwrap_or_else(|| Err(io::ErrorKind::InvalidInput.into()))
    }

    /// Reads all frames that wait in the socket. The socket buffer is small if the test has no privilege to
    /// enlarge it.
    pub(crate) fn read_socket(&mut self) -> io::Result<()> {
        loop {
            match receive_with_tag(&self.receiver) {
                Ok(frame) => self.received.push_back(frame),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the number of frames that the socket has dropped since the last call, because its buffer was
    /// full.
    #[allow(dead_code)] // not every test binary counts them
    pub(crate) fn take_socket_drops(&mut self) -> u64 {
        let mut statistics = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: `statistics` and `len` are live, and `len` is the size of `statistics`.
        let read = unsafe {
            libc::getsockopt(
                self.receiver.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut len,
            )
        };
        if read == 0 {
            u64::from(statistics.tp_drops)
        } else {
            0
        }
    }

    /// Returns the next received frame, with its VLAN tag.
    pub(crate) fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.read_socket()?;
        Ok(self.received.pop_front())
    }
}

fn open_receiver(index: u32) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the call passes no memory.
    let fd = match unsafe { libc::socket(libc::AF_PACKET, kind, 0) } {
        -1 => return Err(io::Error::last_os_error()),
        // SAFETY: the descriptor is new and has no other owner.
        fd => unsafe { OwnedFd::from_raw_fd(fd) },
    };
    for option in [libc::PACKET_AUXDATA, libc::PACKET_IGNORE_OUTGOING] {
        let value: libc::c_int = 1;
        let len = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: `value` is a live integer of that length.
        let set = unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_PACKET,
                option,
                (&raw const value).cast(),
                len,
            )
        };
        if set != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // A larger buffer needs a privilege. Without the privilege, the buffer keeps its size.
    let buffer_bytes: libc::c_int = 32 << 20;
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `buffer_bytes` is a live integer of that length.
    let _ = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            (&raw const buffer_bytes).cast(),
            len,
        )
    };
    let promiscuous = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    let len = size_of::<libc::packet_mreq>() as libc::socklen_t;
    let at = (&raw const promiscuous).cast();
    // SAFETY: `promiscuous` is a live `packet_mreq` of that length.
    if unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            at,
            len,
        )
    } != 0
    {
        return Err(io::Error::last_os_error());
    }
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `address` is a live `sockaddr_ll` of that length.
    match unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) } {
        0 => Ok(fd),
        _ => Err(io::Error::last_os_error()),
    }
}

fn receive_with_tag(socket: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 20_000];
    let mut control = [0u64; 16];
    let mut part = libc::iovec {
        iov_base: frame.as_mut_ptr().cast(),
        iov_len: frame.len(),
    };
    // SAFETY: a zeroed message header is valid and has no parts.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the message points to two live buffers and contains their lengths.
    let len = match unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) } {
        -1 => return Err(io::Error::last_os_error()),
        len => len as usize,
    };
    frame.truncate(len);
    // SAFETY: the kernel has filled the control buffer, which is live.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    if header.is_null() {
        return Ok(frame);
    }
    // SAFETY: this is the first control message, and its data is the requested `tpacket_auxdata`.
    let aux: libc::tpacket_auxdata = unsafe {
        libc::CMSG_DATA(header)
            .cast::<libc::tpacket_auxdata>()
            .read_unaligned()
    };
    if aux.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
        let tag = [aux.tp_vlan_tpid.to_be_bytes(), aux.tp_vlan_tci.to_be_bytes()].concat();
        frame.splice(12..12, tag);
    }
    Ok(frame)
}
