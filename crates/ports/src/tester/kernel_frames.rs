//! A sender of frames that the kernel builds itself, and a forwarder that consists only of XDP programs.
//!
//! The sender and the forwarder need CAP_BPF and CAP_NET_ADMIN in the initial user namespace. A veth delivers
//! the frames of an XDP program only if the far end of the veth polls. The far end polls if it has an XDP
//! program or GRO.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::af_xdp::bpf::{self, Instruction, instruction, load_map_address};

/// Offsets of the start and the end of the frame in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
/// Two values for an untagged IPv4 frame, in bytes: the offset of the UDP source port, and the length of the
/// shortest frame that contains this port.
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

/// Returns an XDP program that redirects each frame to a device.
fn redirect_program(device_index: u32) -> [Instruction; 4] {
    [
        instruction(MOV_K, 1, 0, 0, device_index.cast_signed()),
        instruction(MOV_K, 2, 0, 0, 0),
        instruction(CALL, 0, 0, 0, BPF_FUNC_REDIRECT),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

/// Returns an XDP program that counts frames, writes the UDP source port, and redirects the frame to a
/// device. The source port takes `flows` values in turn, which is a power of two.
fn generator_program(counter: &OwnedFd, flows: u32, device_index: u32) -> Vec<Instruction> {
    let [low, high] = load_map_address(4, counter.as_raw_fd(), true);
    let mut program = vec![
        instruction(LOAD_W, 2, 1, DATA, 0),
        instruction(LOAD_W, 3, 1, DATA_END, 0),
        instruction(MOV_X, 5, 2, 0, 0),
        instruction(ADD_K, 5, 0, 0, HEADERS_BYTES),
        // A frame that is too short for a UDP port is sent unchanged.
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
    program.extend(redirect_program(device_index));
    program
}

/// Sends frames that the kernel builds (`BPF_PROG_TEST_RUN` with live frames, Linux 5.18). The sender needs
/// no socket and no copy from user space.
#[derive(Debug)]
pub struct KernelFrameSender {
    program: OwnedFd,
    _counter: OwnedFd,
    frame: Vec<u8>,
}

impl KernelFrameSender {
    /// Prepares the sending of copies of `frame` through the device `device` of the calling thread's
    /// namespace. `frame` is an untagged IPv4 frame with UDP, without FCS. Its UDP source port takes `flows`
    /// values from 0xc000 on. `flows` is rounded up to a power of two, at most 8192. The calls of
    /// [`send`](KernelFrameSender::send) must come from the same namespace.
    ///
    /// # Errors
    /// Returns an error if the device does not exist, a capability is missing, or the kernel has no BPF.
    pub fn open(device: &str, frame: &[u8], flows: u32) -> io::Result<KernelFrameSender> {
        let index = nix::net::if_::if_nametoindex(device)?;
        let counter = bpf::create_counter()?;
        let flows = flows.clamp(1, 1 << 13).next_power_of_two();
        Ok(KernelFrameSender {
            program: bpf::load_program(&generator_program(&counter, flows, index), b"xoff_generate")?,
            _counter: counter,
            frame: frame.to_owned(),
        })
    }

    /// Sends `count` copies of the frame. If the far end of the device has no space, frames are lost.
    ///
    /// # Errors
    /// Returns an error if the frame is longer than about 3.4 KB, or if the kernel cannot send live frames.
    pub fn send(&mut self, count: u32) -> io::Result<()> {
        bpf::send_live_frames(&self.program, &self.frame, count)
    }
}

/// A forwarder between two devices. Each device redirects all received frames to the other device, in the
/// receive path of its driver.
#[derive(Debug)]
pub struct XdpForwarder {
    _links: [OwnedFd; 2],
}

impl XdpForwarder {
    /// Connects two devices of the calling thread's namespace. The devices stay connected until the value
    /// is dropped.
    ///
    /// # Errors
    /// Returns an error if a device does not exist, a capability is missing, the kernel has no BPF, or a
    /// device already has an XDP program.
    pub fn between(devices: [&str; 2]) -> io::Result<XdpForwarder> {
        let [first, second] = devices.map(nix::net::if_::if_nametoindex);
        let (first, second) = (first?, second?);
        let redirect = |from, to| {
            bpf::attach_program(&bpf::load_program(&redirect_program(to), b"xoff_redirect")?, from)
        };
        Ok(XdpForwarder {
            _links: [redirect(first, second)?, redirect(second, first)?],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_without_udp_port_is_redirected_unchanged() {
        let counter = OwnedFd::from(std::fs::File::open("/dev/null").expect("always there"));
        let program = generator_program(&counter, 64, 7);
        // The jump of instruction 4 leads to the redirect.
        let target = 4 + 1 + 9;
        let redirect = redirect_program(7);
        assert_eq!(program.len() - target, redirect.len());
        assert_eq!(format!("{:?}", program[target]), format!("{:?}", redirect[0]));
    }
}
