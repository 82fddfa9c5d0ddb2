//! Frames that the kernel itself makes, and a forwarder that is nothing but an XDP program. Both take CAP_BPF and CAP_NET_ADMIN outside user
//! namespaces, and a far end that polls (an XDP program or GRO on it): a veth takes redirected frames from no other.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::xdp::bpf::{self, Instruction, instruction, load_map};

/// `struct xdp_md`: where the frame begins and ends.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
/// Where the UDP source port of an untagged IPv4 frame lies, and how much of a frame has to be there to write it.
const UDP_SOURCE_PORT: i16 = 34;
const HEADERS_BYTES: i32 = 42;
const FIRST_SOURCE_PORT: i32 = 0xc000;

const LOAD_W: u8 = 0x61;
const LOAD_DW: u8 = 0x79;
const STORE_H: u8 = 0x6b;
const STORE_DW: u8 = 0x7b;
const MOV_K: u8 = 0xb7;
const MOV_X: u8 = 0xbf;
const ADD_K: u8 = 0x07;
const AND_K: u8 = 0x57;
const JGT_X: u8 = 0x2d;
const TO_BIG_ENDIAN: u8 = 0xdc;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const BPF_FUNC_REDIRECT: i32 = 23;

/// `return redirect(device)`
fn redirect(device_index: u32) -> [Instruction; 4] {
    [
        instruction(MOV_K, 1, 0, 0, device_index.cast_signed()),
        instruction(MOV_K, 2, 0, 0, 0),
        instruction(CALL, 0, 0, 0, BPF_FUNC_REDIRECT),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

/// Counts frames, writes a UDP source port that goes round over `flows` (a power of two), and redirects.
fn numbered(counter: &OwnedFd, flows: u32, device_index: u32) -> Vec<Instruction> {
    let [low, high] = load_map(4, counter.as_raw_fd(), true);
    let mut program = vec![
        instruction(LOAD_W, 2, 1, DATA, 0),
        instruction(LOAD_W, 3, 1, DATA_END, 0),
        instruction(MOV_X, 5, 2, 0, 0),
        instruction(ADD_K, 5, 0, 0, HEADERS_BYTES),
        // A frame too short for the port is sent as it is.
        instruction(JGT_X, 5, 3, 9, 0),
        low,
        high,
        instruction(LOAD_DW, 5, 4, 0, 0),
        instruction(ADD_K, 5, 0, 0, 1),
        instruction(STORE_DW, 4, 5, 0, 0),
        instruction(AND_K, 5, 0, 0, flows.cast_signed() - 1),
        instruction(ADD_K, 5, 0, 0, FIRST_SOURCE_PORT),
        instruction(TO_BIG_ENDIAN, 5, 0, 0, 16),
        instruction(STORE_H, 2, 5, UDP_SOURCE_PORT, 0),
    ];
    program.extend(redirect(device_index));
    program
}

/// Has the kernel make frames and send them through a device (`BPF_PROG_TEST_RUN` with live frames, Linux 5.18): no copy from
/// user space, and no socket.
#[derive(Debug)]
pub struct LiveFrames {
    program: OwnedFd,
    _counter: OwnedFd,
    frame: Vec<u8>,
}

impl LiveFrames {
    /// Frames of these octets through a device of the calling thread's namespace, over `flows` UDP source ports from 0xc000 on, rounded up
    /// to a power of two. [`send`](LiveFrames::send) has to be called in the same namespace.
    ///
    /// # Errors
    /// No such device, no privilege, no BPF.
    pub fn open(device: &str, frame: &[u8], flows: u32) -> io::Result<LiveFrames> {
        let index = nix::net::if_::if_nametoindex(device)?;
        let counter = bpf::create_counter()?;
        let flows = flows.clamp(1, 1 << 13).next_power_of_two();
        Ok(LiveFrames {
            program: bpf::load(&numbered(&counter, flows, index), b"xoff_generate")?,
            _counter: counter,
            frame: frame.to_owned(),
        })
    }

    /// Has `count` frames made. Those that the far end has no room for are lost.
    ///
    /// # Errors
    /// A frame that is too long for a page, a kernel that makes no live frames.
    pub fn send(&mut self, count: u32) -> io::Result<()> {
        bpf::run_live(&self.program, &self.frame, count)
    }
}

/// Two devices, each of which has all its frames sent out by the other in its driver's receive path.
#[derive(Debug)]
pub struct Redirects {
    _links: [OwnedFd; 2],
}

impl Redirects {
    /// Joins two devices of the calling thread's namespace until the value is dropped.
    ///
    /// # Errors
    /// No such device, no privilege, no BPF, a program on it already.
    pub fn between(devices: [&str; 2]) -> io::Result<Redirects> {
        let [one, other] = devices.map(nix::net::if_::if_nametoindex);
        let (one, other) = (one?, other?);
        let join = |from, to| bpf::attach(&bpf::load(&redirect(to), b"xoff_redirect")?, from);
        Ok(Redirects {
            _links: [join(one, other)?, join(other, one)?],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_frame_is_sent_as_it_is() {
        let counter = OwnedFd::from(std::fs::File::open("/dev/null").expect("always there"));
        let program = numbered(&counter, 64, 7);
        // The jump at 4 leads to what redirects.
        let target = 4 + 1 + 9;
        assert_eq!(program.len() - target, redirect(7).len());
        assert_eq!(format!("{:?}", program[target]), format!("{:?}", redirect(7)[0]));
    }
}
