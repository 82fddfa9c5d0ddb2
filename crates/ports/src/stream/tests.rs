//! Tests of stream ports with a client that speaks the protocol.

use std::io::{ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use xoff_dataplane::{FrameHandle, FrameStore};
use xoff_wire::mac_control::Pfc;

use super::*;
use crate::{ArenaStore, Backend};

const MTU: u32 = 1_500;

/// A stream port with an abstract address of its own, and its frames.
struct TestPort {
    port: Port,
    store: ArenaStore,
    name: String,
}

fn spec(device: &str) -> PortSpec {
    PortSpec {
        name: "Ethernet0".to_owned(),
        device: device.to_owned(),
        backend: Backend::Stream,
        mtu: MTU,
    }
}

fn open(device: &str) -> Result<Port, String> {
    Port::open(&spec(device))
        .map(|opened| opened.port)
        .map_err(|error| error.to_string())
}

impl TestPort {
    fn new() -> TestPort {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("xoff-stream-test-{}-{number}", std::process::id());
        TestPort {
            port: open(&format!("stream:@{name}")).expect("a free name"),
            store: ArenaStore::new(Arena::new(512, 8).expect("a small arena")),
            name,
        }
    }

    /// Connects a client, without telling the port.
    fn dial(&self) -> UnixStream {
        let address = SocketAddr::from_abstract_name(&self.name).expect("a short name");
        UnixStream::connect_addr(&address).expect("the port listens")
    }

    /// Connects a client and brings the link up.
    fn connect(&mut self) -> UnixStream {
        let client = self.dial();
        assert!(self.receive().is_empty());
        assert!(self.port.is_link_up());
        client
    }

    /// Receives one burst.
    fn receive(&mut self) -> Vec<Vec<u8>> {
        let mut received = Vec::new();
        self.port
            .receive(&mut self.store, crate::BURST_FRAMES, &mut received)
            .expect("a stream port has no errors");
        let frames = received.iter().map(|received| {
            let (own, rest) = self.store.arena().segments(received.frame);
            assert_eq!(received.frame_len as usize, own.len());
            [own, rest].concat()
        });
        let frames = frames.collect();
        for received in received {
            self.store.release(received.frame);
        }
        frames
    }

    fn store(&mut self, frame: &[u8]) -> FrameHandle {
        self.store.store_frame(frame).expect("a free slot")
    }

    /// Passes frames to the port as a worker does. Returns the number of finished frames.
    fn transmit(&mut self, frames: &[FrameHandle]) -> usize {
        let arena = self.store.shared_arena();
        if self.port.honours_pauses() {
            frames
                .iter()
                .for_each(|frame| self.port.honour_pause(&arena, *frame));
        }
        self.port
            .transmit(&arena, frames)
            .expect("a stream port has no errors")
    }

    fn send_pause(&mut self, priority: usize, quanta: u16) {
        let frame = self.store(&pause(priority, quanta));
        assert_eq!(self.transmit(&[frame]), 1);
        self.store.release(frame);
    }

    /// Returns whether the descriptor of the port is readable, so that a worker would not sleep.
    fn is_readable(&self) -> bool {
        let fd = self.port.fd().expect("a descriptor");
        let mut polled = [PollFd::new(fd, PollFlags::POLLIN)];
        poll(&mut polled, PollTimeout::ZERO).expect("poll") > 0
    }

    /// Waits for the link to go down after the end of the peer: the first report is still that it is up.
    fn assert_link_goes_down(&mut self) {
        assert!(self.port.is_link_up(), "the last frames pass first");
        assert!(!self.port.is_link_up());
    }
}

/// Returns a frame of `frame_len` bytes that differs from other numbers.
fn frame(number: u32, frame_len: usize) -> Vec<u8> {
    let mut bytes = vec![2; 12];
    bytes.extend([0x88, 0xb5]);
    bytes.extend(number.to_be_bytes());
    bytes.resize(frame_len, number as u8);
    bytes
}

/// Returns a frame with its length, as in the stream.
fn encode(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_be_bytes()[..], frame].concat()
}

fn pause(priority: usize, quanta: u16) -> Vec<u8> {
    let mut pfc = Pfc {
        enable: 1 << priority,
        ..Pfc::default()
    };
    pfc.quanta[priority] = quanta;
    MacControl::Pfc(pfc).to_frame([2; 6]).to_vec()
}

/// Reads the next frame of the stream.
fn read_frame(client: &mut UnixStream) -> Vec<u8> {
    let mut length = [0; 4];
    client.read_exact(&mut length).expect("a length");
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    client.read_exact(&mut frame).expect("a frame");
    frame
}

/// Writes until the socket is full. Returns the number of written bytes of `bytes`, which are repeated.
fn fill(client: &mut UnixStream, bytes: &[u8]) -> usize {
    client.set_nonblocking(true).expect("a socket");
    let mut written = 0;
    loop {
        match client.write(&bytes[written % bytes.len()..]) {
            Ok(count) => written += count,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                client.set_nonblocking(false).expect("a socket");
                return written;
            }
        }
    }
}

#[test]
fn frames_pass_in_both_directions_wherever_the_stream_is_split() {
    let mut test = TestPort::new();
    let mut client = test.connect();
    let frames: Vec<Vec<u8>> = [60, 14, 1_522, 61].map(|len| frame(len as u32, len)).to_vec();
    let bytes: Vec<u8> = frames.iter().flat_map(|frame| encode(frame)).collect();
    for split in (0..bytes.len()).step_by(97).chain(0..20) {
        client.write_all(&bytes[..split]).expect("room");
        let mut received = test.receive();
        client.write_all(&bytes[split..]).expect("room");
        received.extend(test.receive());
        assert_eq!(received, frames, "split at byte {split}");
    }
    let handles: Vec<FrameHandle> = frames.iter().map(|frame| test.store(frame)).collect();
    let copy = test.store.copy(handles[2], 64).expect("a free slot");
    assert_eq!(test.transmit(&[&handles[..], &[copy]].concat()), 5);
    for expected in frames.iter().chain([&frames[2]]) {
        assert_eq!(&read_frame(&mut client), expected);
    }
}

#[test]
fn a_full_socket_keeps_frames_whole_and_in_order() {
    let mut test = TestPort::new();
    let mut client = test.connect();
    let frames: Vec<Vec<u8>> = (0..400).map(|n| frame(n, 1_000 + n as usize)).collect();
    let handles: Vec<FrameHandle> = frames.iter().map(|frame| test.store(frame)).collect();
    let mut finished = 0;
    let mut was_full = false;
    for expected in &frames {
        loop {
            let taken = test.transmit(&handles[finished..]);
            finished += taken;
            if taken == 0 {
                break;
            }
        }
        was_full |= finished < handles.len();
        assert_eq!(&read_frame(&mut client), expected);
        // The worker calls `receive` in each turn, which sends the rest of a frame.
        assert!(test.receive().is_empty());
    }
    assert!(
        was_full,
        "the socket holds all frames, so the test proves nothing"
    );
    assert_eq!(finished, frames.len());
    assert!(!test.is_readable(), "no work waits");
}

#[test]
fn a_full_socket_wakes_the_worker_when_it_has_room() {
    let mut test = TestPort::new();
    let mut client = test.connect();
    let handle = test.store(&frame(1, 1_500));
    while test.transmit(&[handle]) == 1 {}
    assert!(!test.is_readable());
    let mut bytes = vec![0; 1 << 20];
    assert!(client.read(&mut bytes).expect("bytes wait") > 0);
    assert!(test.is_readable(), "the socket has room");
    assert!(test.receive().is_empty());
    assert!(!test.is_readable(), "all bytes were sent");
}

#[test]
fn a_wrong_length_closes_the_connection_and_a_new_peer_is_accepted() {
    let mut test = TestPort::new();
    for length in [0, STREAM_FRAME_BYTES_MAX as u32 + 1] {
        let mut client = test.connect();
        client.write_all(&encode(&frame(1, 60))).expect("room");
        client.write_all(&length.to_be_bytes()).expect("room");
        assert_eq!(test.receive(), [frame(1, 60)]);
        assert_eq!(
            client.read(&mut [0]).expect("the end"),
            0,
            "the port has closed it"
        );
        test.assert_link_goes_down();
    }
    let drops = test.port.take_drops();
    assert_eq!((drops.stream.connections, drops.stream.wrong_lengths), (2, 2));
    assert_eq!(drops.notes.len(), 1, "one note for each cause: {:?}", drops.notes);
    assert!(
        drops.notes[0].starts_with("Ethernet0 (stream:@"),
        "{}",
        drops.notes[0]
    );
    assert!(drops.notes[0].contains("frame length 0"), "{}", drops.notes[0]);
}

#[test]
fn a_peer_that_ends_brings_the_link_down_and_the_next_one_brings_it_up() {
    let mut test = TestPort::new();
    assert!(!test.port.is_link_up());
    let mut client = test.connect();
    client.write_all(&encode(&frame(1, 60))).expect("room");
    client.write_all(&encode(&frame(2, 60))[..30]).expect("room");
    drop(client);
    assert_eq!(test.receive(), [frame(1, 60)]);
    // The next peer is already there, and the link still goes down.
    let mut next = test.dial();
    next.write_all(&encode(&frame(3, 60))).expect("room");
    assert!(test.receive().is_empty());
    test.assert_link_goes_down();
    assert!(
        test.receive().is_empty(),
        "the switch does not know that the link is up"
    );
    assert!(test.port.is_link_up());
    assert_eq!(test.receive(), [frame(3, 60)]);
    let drops = test.port.take_drops();
    assert_eq!(drops.stream.truncated_frames, 1);
    assert_eq!(drops.stream.connections, 2);
    assert!(
        drops.notes[0].contains("inside a frame, after 30 bytes"),
        "{:?}",
        drops.notes
    );
}

#[test]
fn a_second_connection_is_refused() {
    let mut test = TestPort::new();
    let mut client = test.connect();
    for _ in 0..3 {
        let mut second = test.dial();
        assert!(test.is_readable());
        assert!(test.receive().is_empty());
        assert_eq!(second.read(&mut [0]).expect("the end"), 0);
    }
    client.write_all(&encode(&frame(1, 60))).expect("room");
    assert_eq!(test.receive(), [frame(1, 60)]);
    let drops = test.port.take_drops();
    assert_eq!(
        (drops.stream.connections, drops.stream.refused_connections),
        (1, 3)
    );
    assert_eq!(drops.notes.len(), 1);
}

#[test]
fn a_paused_port_does_not_read_and_the_peer_has_to_wait() {
    let mut test = TestPort::new();
    // A pause of 65535 quanta lasts 33 s at this speed.
    test.port.set_stream_link(LinkTiming::ethernet(1), 1);
    let mut client = test.connect();
    test.send_pause(3, 65_535);
    let bytes = encode(&frame(1, 60));
    let frames = fill(&mut client, &bytes).div_ceil(bytes.len());
    assert!(test.receive().is_empty());
    assert!(!test.is_readable(), "a worker may sleep while the port is paused");
    // A pause of another priority that ends does not end this one.
    test.send_pause(4, 0);
    assert!(test.receive().is_empty());
    test.send_pause(3, 0);
    // From now on the link is fast enough for all frames.
    test.port.set_stream_link(LinkTiming::ethernet(1_600_000), 1);
    let mut received = 0;
    while received < frames - 1 {
        let burst = test.receive();
        assert!(burst.iter().all(|received| *received == frame(1, 60)));
        received += burst.len();
    }
    let drops = test.port.take_drops();
    assert_eq!(drops.stream.stops, 1);
    assert!(drops.stream.stopped_ns > 0);
    assert_eq!(drops.by_reason, []);
}

#[test]
fn pauses_are_honoured_behind_frames_that_a_full_socket_refuses() {
    let mut test = TestPort::new();
    test.port.set_stream_link(LinkTiming::ethernet(1), 1);
    let mut client = test.connect();
    let (data, xoff) = (test.store(&frame(1, 1_500)), test.store(&pause(3, 65_535)));
    while test.transmit(&[data]) == 1 {}
    assert_eq!(test.transmit(&[data, xoff]), 0);
    client.write_all(&encode(&frame(1, 60))).expect("room");
    assert!(test.receive().is_empty());
    assert_eq!(test.port.take_drops().stream.stops, 1);
}

#[test]
fn a_peer_that_ends_while_the_port_is_paused_can_be_replaced() {
    let mut test = TestPort::new();
    test.port.set_stream_link(LinkTiming::ethernet(1), 1);
    let mut client = test.connect();
    test.send_pause(0, 65_535);
    client.write_all(&encode(&frame(1, 60))).expect("room");
    drop(client);
    assert!(test.receive().is_empty());
    assert!(
        !test.is_readable(),
        "the end of the peer does not keep a worker awake"
    );
    assert!(test.port.is_link_up(), "its frames wait for the end of the pause");
    let mut next = test.dial();
    assert!(test.receive().is_empty());
    test.assert_link_goes_down();
    next.write_all(&encode(&frame(2, 60))).expect("room");
    assert!(test.port.is_link_up());
    test.send_pause(0, 0);
    assert_eq!(test.receive(), [frame(2, 60)]);
}

#[test]
fn pauses_reach_the_peer_only_if_the_port_has_no_link() {
    let mut test = TestPort::new();
    let mut client = test.connect();
    test.send_pause(3, 7);
    assert_eq!(read_frame(&mut client), pause(3, 7));
    test.port.set_stream_link(LinkTiming::ethernet(1_000), 1);
    let handles = [&pause(3, 7), &frame(1, 60), &pause(3, 0)].map(|bytes| test.store(bytes));
    assert_eq!(test.transmit(&handles), 3);
    assert_eq!(read_frame(&mut client), frame(1, 60));
    client.set_nonblocking(true).expect("a socket");
    let error = client.read(&mut [0]).expect_err("nothing else was sent");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

#[test]
fn frames_that_cannot_be_forwarded_are_dropped_and_the_next_one_arrives() {
    let mut test = TestPort::new();
    let mut client = test.connect();
    for len in [1_523, 13, STREAM_FRAME_BYTES_MAX, 60] {
        let bytes = encode(&frame(1, 2_000)[..len.min(13)]);
        let mut bytes = bytes;
        bytes[..4].copy_from_slice(&(len as u32).to_be_bytes());
        bytes.resize(4 + len, 1);
        client.write_all(&bytes).expect("room");
    }
    assert_eq!(test.receive().iter().map(Vec::len).collect::<Vec<_>>(), [60]);
    let drops = test.port.take_drops();
    let expected = [(DropReason::Oversized, 2), (DropReason::Truncated, 1)];
    assert!(
        expected.iter().all(|count| drops.by_reason.contains(count)),
        "{drops:?}"
    );
}

#[test]
fn frames_without_a_slot_wait() {
    let mut test = TestPort::new();
    let mut client = test.connect();
    let mut taken = Vec::new();
    while let Some(slot) = test.store.take_slot(60) {
        taken.push(slot);
    }
    client.write_all(&encode(&frame(1, 60))).expect("room");
    assert!(test.receive().is_empty());
    taken.into_iter().for_each(|slot| test.store.return_slot(slot));
    assert_eq!(test.receive(), [frame(1, 60)]);
    assert_eq!(test.port.take_drops().by_reason, []);
}

#[test]
fn frames_to_a_missing_peer_are_counted() {
    let mut test = TestPort::new();
    let handle = test.store(&frame(1, 60));
    assert_eq!(test.transmit(&[handle, handle]), 2);
    assert_eq!(test.port.take_drops().by_reason, [(DropReason::PortFlushed, 2)]);
}

#[test]
fn frames_to_a_peer_that_left_are_counted() {
    let mut test = TestPort::new();
    drop(test.connect());
    // The port has not read the end of the stream yet.
    let handle = test.store(&frame(1, 60));
    assert_eq!(test.transmit(&[handle, handle]), 2);
    assert_eq!(test.port.take_drops().by_reason, [(DropReason::PortFlushed, 2)]);
}

#[test]
fn the_socket_file_is_private_and_is_removed_with_the_port() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("vm1.sock");
    let device = format!("stream:{}", path.display());
    let port = open(&device).expect("a new socket");
    let mode = path.symlink_metadata().expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let error = open(&device).expect_err("the first port listens");
    assert!(error.contains("another process listens there"), "{error}");
    assert!(UnixStream::connect(&path).is_ok(), "the first port still listens");
    drop(port);
    assert!(!path.exists());
    drop(UnixListener::bind(&path).expect("a free path"));
    assert!(path.exists(), "a stale socket");
    drop(open(&device).expect("a stale socket is replaced"));
    std::fs::write(&path, "text").expect("a file");
    let error = open(&device).expect_err("a file that is not a socket");
    assert!(error.contains("not a socket; choose another path"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), "text");
    let error = open(&format!("stream:{}/no/x", folder.path().display())).expect_err("no folder");
    assert!(error.contains("create the folder first"), "{error}");
    let error = open("eth0").expect_err("no address");
    assert!(error.contains("write stream:PATH"), "{error}");
}

#[test]
fn a_loopback_address_carries_the_same_stream() {
    // The kernel chooses a free port for the first listener.
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let address = free.expect("a free port");
    let mut test = TestPort::new();
    test.port = open(&format!("stream:{address}")).expect("the port is free");
    let mut client = std::net::TcpStream::connect(address).expect("the port listens");
    while !test.port.is_link_up() {
        assert!(test.receive().is_empty());
    }
    client.write_all(&encode(&frame(1, 60))).expect("room");
    let mut received = Vec::new();
    while received.is_empty() {
        received = test.receive();
    }
    assert_eq!(received, [frame(1, 60)]);
}
