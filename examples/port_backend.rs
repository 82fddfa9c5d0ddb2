//! A port backend of your own: each port of the switch is a UDP socket, and each datagram carries one
//! Ethernet frame.
//!
//!     cargo run --example port_backend
//!
//! The program starts a switch with two such ports in real time, and sends a frame through it over the
//! loopback interface.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its results"
)]

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use xoff_config::{ResolveOptions, build_preset, load};
use xoff_dataplane::{FrameHandle, Picos, PortId};
use xoff_ports::{Arena, Backend, OpenedPort, Port, PortBackend, PortFrame, PortSpec, SlotSource};
use xoff_runtime::workers::clock::monotonic_ns;
use xoff_runtime::workers::{AttachedPort, TaintLog, WorkerOptions, start_switch};
use xoff_wire::parse::parse;

const FRAME_BYTES_MAX: usize = 9_236;

/// A port whose frames travel in UDP datagrams.
#[derive(Debug)]
struct UdpPort {
    socket: UdpSocket,
    name: String,
    buffer: Vec<u8>,
}

impl UdpPort {
    /// Creates a port and the socket of its peer. Both sockets are connected to each other.
    fn connect(name: &str) -> io::Result<(UdpPort, UdpSocket)> {
        let (socket, peer) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        socket.connect(peer.local_addr()?)?;
        peer.connect(socket.local_addr()?)?;
        socket.set_nonblocking(true)?;
        let (name, buffer) = (name.to_owned(), vec![0; FRAME_BYTES_MAX]);
        Ok((UdpPort { socket, name, buffer }, peer))
    }
}

impl PortBackend for UdpPort {
    fn receive(
        &mut self,
        slots: &mut dyn SlotSource,
        max: usize,
        out: &mut Vec<PortFrame>,
    ) -> io::Result<usize> {
        for received in 0..max {
            let Ok(len) = self.socket.recv(&mut self.buffer) else {
                return Ok(received);
            };
            let bytes = &self.buffer[..len];
            let Some(frame) = slots.store_frame(bytes) else {
                return Ok(received);
            };
            out.push(PortFrame {
                frame,
                frame_len: len as u32,
                parsed: parse(bytes),
                received_ns: monotonic_ns(),
                arrival: None,
            });
        }
        Ok(max)
    }

    fn transmit(&mut self, arena: &Arena, frames: &[FrameHandle]) -> io::Result<usize> {
        for (sent, frame) in frames.iter().enumerate() {
            // Copies of a flooded frame share their bytes, so a frame can have two segments.
            let Some(bytes) = arena.gather_into(*frame, &mut self.buffer) else {
                continue;
            };
            if self.socket.send(bytes).is_err() {
                return Ok(sent);
            }
        }
        Ok(frames.len())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
    fn is_link_up(&mut self) -> bool {
        true
    }
    fn backend_name(&self) -> &'static str {
        "udp"
    }
    fn device_name(&self) -> &str {
        &self.name
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let names = ["Ethernet0", "Ethernet1"];
    let ports = names.map(|name| (name.to_owned(), 1_000));
    let config_db = build_preset("roce-lossless", &ports, Picos::from_millis(20))?.to_json();
    let config = load(&[("preset", &config_db)], &ResolveOptions::default())?
        .resolved
        .config;

    let (mut attached, mut peers) = (Vec::new(), Vec::new());
    for (id, name) in (0..).map(PortId).zip(names) {
        let (backend, peer) = UdpPort::connect(name)?;
        peer.set_read_timeout(Some(Duration::from_millis(100)))?;
        peers.push(peer);
        let spec = PortSpec {
            name: name.to_owned(),
            device: name.to_owned(),
            backend: Backend::Auto,
            mtu: 9_100,
        };
        let opened = OpenedPort {
            port: Port::Custom(Box::new(backend)),
            notes: Vec::new(),
        };
        let (netns, delay) = (None, Picos::ZERO);
        attached.push((
            AttachedPort {
                id,
                spec,
                netns,
                delay,
                adopts_mtu: false,
                awaits_mtu: false,
            },
            Some(opened),
        ));
    }
    let switch = start_switch(config, attached, &WorkerOptions::default(), TaintLog::default())?;

    // The links come up after the start, so the sender repeats its broadcast until it arrives.
    let mut frame = [0_u8; 60];
    frame[..12].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1]);
    let mut received = [0; FRAME_BYTES_MAX];
    let len = (0..100).find_map(|_| {
        peers[0].send(&frame).ok()?;
        peers[1].recv(&mut received).ok()
    });
    switch.stop();
    let len = len.ok_or("the frame did not arrive")?;
    println!("{len} bytes arrived from Ethernet0 at Ethernet1");
    assert_eq!(received[..len], frame);
    Ok(())
}
