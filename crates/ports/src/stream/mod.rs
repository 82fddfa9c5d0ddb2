//! Backend on a stream socket with the protocol of QEMU's `-netdev stream` and `-netdev socket`: the length of a frame
//! as a big-endian number of 4 bytes, then the frame.
//!
//! The port listens, and has at most one peer. A frame that the port has not read waits in the socket and in the queue
//! of the peer, so nothing is lost before the switch.
//!
//! A switch sets the link of the port ([`Port::set_stream_link`]). The port is then the link partner of the switch: it
//! honours the pauses of the switch, instead of the peer, which would ignore them. While a priority is paused, the port
//! does not read. One stream carries all classes, so all classes wait. The port also reads no faster than the link, so
//! only frames of a limited time arrive after a pause.
//!
//! Without a link, the port passes all frames to the peer, with pauses, and reads as fast as its caller.

mod address;
mod connection;
mod frame_decoder;
mod listener;
mod read_gate;
mod readiness;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use xoff_dataplane::{DropReason, FrameHandle, LinkTiming};
use xoff_units::count_noun;
use xoff_wire::mac_control::MacControl;
use xoff_wire::parse::parse;

use super::clock::monotonic_ns;
use super::drop_counts::{DropCounts, FramePriority, StreamCounts};
use super::{
    Arena, ETHERNET_HEADER_BYTES, OpenedPort, Port, PortDrops, PortError, PortFrame, PortSpec, SlotSource,
    frame_len_max,
};
pub use address::{InvalidStreamAddress, StreamAddress};
use connection::{Connection, ReadResult};
use frame_decoder::{STREAM_FRAME_BYTES_MAX, WrongLength};
use listener::{ListenError, StreamListener};
use read_gate::{ReadGate, StreamLink};
use readiness::{Interest, Readiness};

/// Time in nanoseconds after which the port looks for free frame slots again.
const SLOT_RETRY_NS: u64 = 1_000_000;
/// Time in nanoseconds for which the events stay as they are. The two system calls that change them and the timer take
/// about as long as the worker needs to look at the port a few times.
const SHORT_WAIT_NS: u64 = 20_000;
/// Largest number of new connections that one call handles.
const ACCEPTED_MAX: usize = 8;
/// Position of the ethertype in a frame without tags.
const ETHERTYPE: std::ops::Range<usize> = 12..14;

/// A port on a stream socket.
#[derive(Debug)]
pub struct StreamPort {
    port_name: String,
    device_name: String,
    listener: StreamListener,
    readiness: Readiness,
    connection: Option<Connection>,
    link_state: LinkState,
    gate: ReadGate,
    frame_len_max: u32,
    drops: DropCounts,
    counts: StreamCounts,
    notes: Vec<String>,
    /// The kinds of notes that were reported.
    reported: ReportedNotes,
}

/// The state of the link, as [`StreamPort::is_link_up`] reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    Down,
    /// The caller knows that the link is up, so the port may deliver frames.
    Up,
    /// The peer has just closed the connection. Its last frames can still be on their way to the switch, so the next
    /// report is still that the link is up.
    Ending,
    /// The next report is that the link is down, also if a new peer has connected.
    Ended,
}

/// Each kind of note is reported once, so that a peer that connects again and again does not fill the log.
#[derive(Debug, Default)]
struct ReportedNotes {
    has_refused: bool,
    has_wrong_length: bool,
    has_truncated: bool,
}

/// The reason why a port closes its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CloseReason {
    /// The peer has closed the connection, or the connection failed.
    Peer,
    WrongLength(u32),
}

impl StreamPort {
    pub(super) fn open(spec: &PortSpec) -> Result<OpenedPort, PortError> {
        let address: StreamAddress = spec
            .device
            .parse()
            .map_err(|error: InvalidStreamAddress| stream_error(spec, error, "write stream:PATH"))?;
        let listener = StreamListener::bind(&address).map_err(|error| listen_error(spec, error))?;
        let readiness = Readiness::new(&listener).map_err(|error| listen_error(spec, error.into()))?;
        let notes = vec![format!(
            "{}: waits for a peer; QEMU connects with `-netdev {}`",
            spec.name,
            address.qemu_netdev("n0")
        )];
        let port = StreamPort {
            port_name: spec.name.clone(),
            device_name: spec.device.clone(),
            listener,
            readiness,
            connection: None,
            link_state: LinkState::Down,
            gate: ReadGate::default(),
            frame_len_max: frame_len_max(spec.mtu),
            drops: DropCounts::new(),
            counts: StreamCounts::default(),
            notes: Vec::new(),
            reported: ReportedNotes::default(),
        };
        let port = Port::Stream(Box::new(port));
        Ok(OpenedPort { port, notes })
    }

    /// Sets the link of the port, see [`Port::set_stream_link`].
    pub(super) fn set_link(&mut self, timing: LinkTiming, dilation: u32) {
        let dilation = u64::from(dilation.max(1));
        self.gate.set_link(StreamLink { timing, dilation });
    }

    /// Changes the speed in Mb/s and the overhead in bytes of the link.
    pub(super) fn change_link(&mut self, speed_mbps: u32, overhead_bytes: u32) {
        if let Some(mut link) = self.gate.link() {
            link.timing.speed_mbps = speed_mbps;
            link.timing.overhead_bytes = overhead_bytes;
            self.gate.set_link(link);
        }
    }

    /// Returns whether the port honours the pauses of its switch.
    pub(super) fn is_link_partner(&self) -> bool {
        self.gate.link().is_some()
    }

    /// Honours a frame of the switch that is a pause, see [`Port::honour_pause`].
    pub(super) fn honour_pause(&mut self, arena: &Arena, frame: FrameHandle) {
        let bytes = arena.segments(frame).0;
        if is_mac_control(bytes)
            && let Ok(pause) = MacControl::parse(bytes)
        {
            let now_ns = monotonic_ns();
            self.gate.apply_pause(now_ns, pause);
            self.wait_for_events(now_ns);
        }
    }

    pub(super) fn receive(
        &mut self,
        slots: &mut impl SlotSource,
        max: usize,
        out: &mut Vec<PortFrame>,
    ) -> io::Result<usize> {
        let ready = self.readiness.poll();
        if ready.has_new_connection {
            self.accept_connections();
        }
        if ready.is_writable {
            self.send_rest();
        }
        let now_ns = monotonic_ns();
        let mut received = 0;
        let mut needs_slot = false;
        // A burst of oversized frames ends, too.
        for _ in 0..max {
            if self.link_state != LinkState::Up || self.gate.next_read_ns() > now_ns {
                break;
            }
            match self.read_frame(slots, now_ns) {
                FrameRead::Frame(frame) => {
                    out.push(frame);
                    received += 1;
                }
                FrameRead::Dropped => {}
                FrameRead::NoSlot => {
                    needs_slot = true;
                    break;
                }
                FrameRead::Empty => break,
                FrameRead::Closed(reason) => {
                    self.close_connection(reason);
                    break;
                }
            }
        }
        self.wait_for_events(now_ns);
        if needs_slot {
            // The frame waits here, where no event reports it.
            let _ = self.readiness.set_timer(Some(now_ns + SLOT_RETRY_NS));
        }
        Ok(received)
    }

    /// Reads the next frame of the stream.
    fn read_frame(&mut self, slots: &mut impl SlotSource, now_ns: u64) -> FrameRead {
        let Some(connection) = &mut self.connection else {
            return FrameRead::Empty;
        };
        loop {
            match connection.decoder.first_frame() {
                Err(WrongLength(length)) => return FrameRead::Closed(CloseReason::WrongLength(length)),
                Ok(Some(_)) => break,
                Ok(None) => match connection.read() {
                    ReadResult::Bytes => {}
                    ReadResult::Empty => return FrameRead::Empty,
                    ReadResult::Closed => return FrameRead::Closed(CloseReason::Peer),
                },
            }
        }
        let Ok(Some(bytes)) = connection.decoder.first_frame() else {
            return FrameRead::Empty;
        };
        let frame_len = bytes.len();
        let drop_reason = match frame_len {
            _ if frame_len > self.frame_len_max as usize => Some(DropReason::Oversized),
            _ if frame_len < ETHERNET_HEADER_BYTES as usize => Some(DropReason::Truncated),
            _ => None,
        };
        if let Some(reason) = drop_reason {
            self.drops
                .add_received(reason, FramePriority::of_frame(bytes, None));
            connection.decoder.remove_frame(frame_len);
            self.gate.record_frame(now_ns, frame_len as u32);
            return FrameRead::Dropped;
        }
        let Some(frame) = slots.store_frame(bytes) else {
            return FrameRead::NoSlot;
        };
        let parsed = parse(bytes);
        connection.decoder.remove_frame(frame_len);
        FrameRead::Frame(PortFrame {
            frame,
            frame_len: frame_len as u32,
            parsed,
            received_ns: self.gate.record_frame(now_ns, frame_len as u32),
            arrival: None,
        })
    }

    pub(super) fn transmit(&mut self, arena: &Arena, frames: &[FrameHandle]) -> io::Result<usize> {
        let is_link_partner = self.is_link_partner();
        // `honour_pause` has applied the pauses. The peer does not get them.
        let stays = |frame: &FrameHandle| is_link_partner && is_mac_control(arena.segments(*frame).0);
        let mut finished = 0;
        while let Some(frame) = frames.get(finished) {
            if stays(frame) {
                finished += 1;
                continue;
            }
            let run = frames[finished..]
                .iter()
                .take_while(|frame| !stays(frame))
                .count();
            let burst = &frames[finished..finished + run];
            match self.connection.as_mut().map(|peer| peer.send(arena, burst)) {
                Some(Ok(sent)) => finished += sent,
                // A closed connection is found by the next read, after the frames that still wait in it. Until then,
                // the switch sends to a link that is already down.
                Some(Err(_)) | None => {
                    self.drops.add(DropReason::PortFlushed);
                    finished += 1;
                }
            }
            if self.connection.as_ref().is_some_and(|peer| peer.is_full) {
                break;
            }
        }
        self.wait_for_events(monotonic_ns());
        Ok(finished)
    }

    /// Sends the rest of the last frame.
    fn send_rest(&mut self) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        // A closed connection is found by the next read, after the frames that still wait in it.
        if connection.send_rest().is_err() {
            connection.is_full = false;
        }
    }

    /// Accepts a peer. A further connection is closed at once, unless the peer has hung up.
    fn accept_connections(&mut self) {
        for _ in 0..ACCEPTED_MAX {
            let Some(socket) = self.listener.accept() else {
                return;
            };
            if self.connection.as_ref().is_some_and(Connection::is_hung_up) {
                self.close_connection(CloseReason::Peer);
            }
            match self.connection {
                None => self.connect_peer(socket),
                Some(_) => self.refuse_peer(socket),
            }
        }
    }

    fn connect_peer(&mut self, socket: OwnedFd) {
        self.counts.connections += 1;
        self.connection = Some(Connection::new(socket));
    }

    fn refuse_peer(&mut self, socket: OwnedFd) {
        drop(socket);
        self.counts.refused_connections += 1;
        if !std::mem::replace(&mut self.reported.has_refused, true) {
            let note = "refused a second connection: a stream has one peer. Start the second program with another stream";
            self.add_note(note);
        }
    }

    fn close_connection(&mut self, reason: CloseReason) {
        let Some(connection) = self.connection.take() else {
            return;
        };
        self.readiness.forget_connection(connection.as_fd());
        match reason {
            CloseReason::WrongLength(length) => {
                self.counts.wrong_lengths += 1;
                if !std::mem::replace(&mut self.reported.has_wrong_length, true) {
                    self.add_note(&format!(
                        "closed the stream: its peer sent the frame length {length}; frames have 1 to \
                         {STREAM_FRAME_BYTES_MAX} bytes. Connect a program with QEMU's protocol: 4 bytes of length, \
                         high byte first, then the frame"
                    ));
                }
            }
            CloseReason::Peer if has_incomplete_frame(&connection) => {
                self.counts.truncated_frames += 1;
                if !std::mem::replace(&mut self.reported.has_truncated, true) {
                    let waiting = count_noun(connection.decoder.waiting_bytes() as u64, "byte");
                    self.add_note(&format!(
                        "the stream ended inside a frame, after {waiting}: its peer ended while it sent. The frame is \
                         lost"
                    ));
                }
            }
            CloseReason::Peer => {}
        }
        if self.link_state == LinkState::Up {
            self.link_state = LinkState::Ending;
        }
    }

    fn add_note(&mut self, text: &str) {
        self.notes
            .push(format!("{} ({}): {text}", self.port_name, self.device_name));
    }

    /// Sets the events and the time at which the descriptor becomes readable. An error is ignored: a worker also looks
    /// at its ports several times per second without an event.
    fn wait_for_events(&mut self, now_ns: u64) {
        let Some(connection) = &self.connection else {
            let _ = self.readiness.set_timer(None);
            return;
        };
        let next_read_ns = self.gate.next_read_ns();
        let is_up = self.link_state == LinkState::Up;
        let may_read = is_up && next_read_ns <= now_ns + SHORT_WAIT_NS;
        let interest = Interest {
            readable: may_read,
            writable: connection.is_full,
        };
        let _ = self.readiness.set_interest(connection.as_fd(), interest);
        // Complete frames in the decoder are no event of the socket.
        let has_frame = !matches!(connection.decoder.first_frame(), Ok(None));
        let timer_ns = match may_read {
            true => has_frame.then_some(now_ns),
            false => is_up.then_some(next_read_ns),
        };
        let _ = self.readiness.set_timer(timer_ns);
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.readiness.fd()
    }

    /// Returns whether the port has a peer. The port delivers frames of a peer only after this function has returned
    /// true, so that the switch does not drop them at a port that is down.
    pub(super) fn is_link_up(&mut self) -> bool {
        let was_ending = self.link_state == LinkState::Ending;
        self.link_state = match self.link_state {
            LinkState::Ending => LinkState::Ended,
            LinkState::Down | LinkState::Up if self.connection.is_some() => LinkState::Up,
            LinkState::Down | LinkState::Up | LinkState::Ended => LinkState::Down,
        };
        self.wait_for_events(monotonic_ns());
        was_ending || self.link_state == LinkState::Up
    }

    pub(super) fn take_drops(&mut self) -> PortDrops {
        let (stops, stopped_ns) = self.gate.take_stops(monotonic_ns());
        self.counts.stops += stops;
        self.counts.stopped_ns += stopped_ns;
        let mut drops = PortDrops {
            notes: std::mem::take(&mut self.notes),
            stream: std::mem::take(&mut self.counts),
            ..PortDrops::default()
        };
        self.drops.take_counts(&mut drops);
        drops
    }

    pub(super) fn device_name(&self) -> &str {
        &self.device_name
    }
}

fn stream_error(spec: &PortSpec, why: impl ToString, fix: &str) -> PortError {
    PortError::NoStream {
        port: spec.name.clone(),
        device: spec.device.clone(),
        why: why.to_string(),
        fix: fix.to_owned(),
    }
}

fn listen_error(spec: &PortSpec, error: ListenError) -> PortError {
    match error {
        ListenError::NotASocket => stream_error(
            spec,
            "the path belongs to a file that is not a socket",
            "choose another path, or move the file",
        ),
        ListenError::InUse => stream_error(
            spec,
            "another process listens there",
            "choose another path, or stop that process",
        ),
        ListenError::Io(error) => {
            let fix = match error.kind() {
                io::ErrorKind::NotFound => "create the folder first",
                io::ErrorKind::PermissionDenied => "choose a folder with write permission",
                _ => "choose another path",
            };
            stream_error(spec, error, fix)
        }
    }
}

/// The result of reading one frame.
enum FrameRead {
    Frame(PortFrame),
    /// The frame cannot be forwarded and was counted.
    Dropped,
    /// No slot is free, so the frame waits.
    NoSlot,
    /// No complete frame has arrived.
    Empty,
    /// The connection cannot be used any more.
    Closed(CloseReason),
}

/// Returns whether a frame is a MAC control frame, such as a pause.
fn is_mac_control(bytes: &[u8]) -> bool {
    bytes.get(ETHERTYPE) == Some(&xoff_wire::ETHERTYPE_MAC_CONTROL.to_be_bytes())
}

/// Returns whether the received bytes end inside a frame.
fn has_incomplete_frame(connection: &Connection) -> bool {
    connection.decoder.waiting_bytes() > 0 && connection.decoder.first_frame() == Ok(None)
}
