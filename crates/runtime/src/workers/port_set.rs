//! The ports of one worker thread. A port set receives and sends frames in bursts, and reports link changes,
//! losses and removed devices.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use crossbeam_channel::{Receiver, Sender};
use xoff_dataplane::{DropReason, FrameHandle, Picos, PortId};

use super::clock::{ModelClock, monotonic_ns};
use super::device_watcher::{DeviceRequest, OpenedDevice};
use xoff_ports::{
    Arena, FramePriority, Port, PortFrame, SlotSource, StreamCounts, ThreadWaker, is_device_removed,
};

/// Largest number of frames that a port receives or sends at once.
pub(crate) const BURST_FRAMES: usize = 64;
/// Largest number of frames that wait for a device. Further frames are dropped, and the run is marked as
/// tainted: it proves nothing.
const DEVICE_QUEUE_MAX: usize = 4_096;

/// An event at a port.
#[derive(Debug)]
pub(crate) enum PortEvent {
    /// The link came up or went down.
    Link { port: PortId, up: bool },
    /// The port backend dropped frames for a reason.
    Dropped {
        port: PortId,
        reason: DropReason,
        /// Fields of the dropped frames that select their traffic class.
        priority: FramePriority,
        frames: u64,
    },
    /// A note for the user.
    Note(String),
    /// The kernel or the device lost frames.
    Lost { port: PortId, frames: u64 },
    /// Connections and stops of a stream port.
    Stream { port: PortId, counts: StreamCounts },
    /// A missing device is open now.
    Opened {
        port: PortId,
        backend: &'static str,
        /// The MTU in bytes with which the device was opened.
        mtu: u32,
    },
}

/// A destination of received frames.
pub(crate) trait FrameSink {
    /// Returns how many further frames of a port the sink accepts now.
    fn free_frames(&self, port: PortId) -> usize;
    /// Accepts frames of a port. The caller passes at most [`FrameSink::free_frames`] frames.
    fn accept_frames(&mut self, port: PortId, frames: &[PortFrame]);
}

/// A port, and its device if the device is open.
#[derive(Debug)]
struct OwnedPort {
    id: PortId,
    port: Option<Port>,
    is_up: bool,
    transmit_queue: TransmitQueue,
    /// Number of frames for a missing device since the last report.
    refused_frames: u64,
}

/// Frames that the switch has started to transmit at a port, and that the device has not accepted yet.
#[derive(Debug)]
struct TransmitQueue {
    frames: VecDeque<FrameHandle>,
    /// The due time of each frame in model time.
    dues: VecDeque<Picos>,
    /// Whether frames wait here until their due time. Frames must wait if the link has a delay and the
    /// receiver cannot get the arrival time from the sender.
    is_delayed: bool,
    /// Number of frames at the front that [`TransmitQueue::honour_pauses`] has looked at.
    checked_frames: usize,
}

impl TransmitQueue {
    fn new(is_delayed: bool) -> TransmitQueue {
        TransmitQueue {
            frames: VecDeque::with_capacity(DEVICE_QUEUE_MAX),
            dues: VecDeque::with_capacity(DEVICE_QUEUE_MAX),
            is_delayed,
            checked_frames: 0,
        }
    }

    fn push(&mut self, frame: FrameHandle, due: Picos) {
        self.frames.push_back(frame);
        self.dues.push_back(due);
    }

    /// Returns the due time of the first frame. Returns `None` if no frame waits or frames are not delayed.
    fn first_due(&self) -> Option<Picos> {
        self.dues.front().copied().filter(|_| self.is_delayed)
    }

    /// Returns the next frames that may be sent, at most one burst, and their due times. The result can have
    /// fewer frames than may be sent if the frames are not adjacent in memory. The result is empty only if no
    /// frame may be sent.
    fn next_burst(&self, clock: ModelClock) -> (&[FrameHandle], &[Picos]) {
        let (frames, dues) = (self.frames.as_slices().0, self.dues.as_slices().0);
        let mut count = BURST_FRAMES.min(frames.len()).min(dues.len());
        if self.is_delayed {
            let now = clock.model_time(monotonic_ns());
            count = dues[..count].iter().take_while(|due| **due <= now).count();
        }
        (&frames[..count], &dues[..count])
    }

    /// Lets a port honour the pauses in the frames that may be sent. A pause must not wait for a full device, because
    /// the port would receive frames until then.
    fn honour_pauses(&mut self, port: &mut Port, arena: &Arena, clock: ModelClock) {
        if self.checked_frames == self.frames.len() {
            return;
        }
        let now = clock.model_time(monotonic_ns());
        let frames = self.frames.iter().zip(&self.dues).skip(self.checked_frames);
        for (frame, _) in frames.take_while(|(_, due)| !self.is_delayed || **due <= now) {
            port.honour_pause(arena, *frame);
            self.checked_frames += 1;
        }
    }

    /// Removes `count` frames from the front of the queue.
    fn remove_front(&mut self, count: usize) -> impl Iterator<Item = FrameHandle> + '_ {
        self.checked_frames = self.checked_frames.saturating_sub(count);
        self.dues.drain(..count);
        self.frames.drain(..count)
    }
}

/// Some ports of a switch. Channels connect the set with the device watcher, which opens missing devices.
#[derive(Debug)]
pub(crate) struct PortSet {
    ports: Vec<OwnedPort>,
    received: Vec<PortFrame>,
    clock: ModelClock,
    device_requests: Sender<DeviceRequest>,
    opened: Receiver<OpenedDevice>,
    events: Vec<PortEvent>,
    /// Ports whose device has vanished. They stay here until the kernel has returned their frame slots.
    closing: Vec<Port>,
}

impl PortSet {
    /// Creates a set of ports. `delay_of` returns the one-way delay of the link of a port in model time.
    pub(crate) fn new(
        ports: Vec<(PortId, Option<Port>)>,
        delay_of: impl Fn(PortId) -> Picos,
        clock: ModelClock,
        device_requests: Sender<DeviceRequest>,
        opened: Receiver<OpenedDevice>,
    ) -> PortSet {
        let to_owned_port = |(id, port): (PortId, Option<Port>)| OwnedPort {
            id,
            transmit_queue: TransmitQueue::new(
                delay_of(id) > Picos::ZERO && !matches!(port, Some(Port::Link(_))),
            ),
            port,
            is_up: false,
            refused_frames: 0,
        };
        let set = PortSet {
            ports: ports.into_iter().map(to_owned_port).collect(),
            received: Vec::with_capacity(BURST_FRAMES),
            clock,
            device_requests,
            opened,
            events: Vec::new(),
            closing: Vec::new(),
        };
        for index in 0..set.ports.len() {
            if set.ports[index].port.is_none() {
                set.request_device(index);
            }
        }
        set
    }

    /// Returns the numbers of the ports.
    pub(crate) fn port_ids(&self) -> impl Iterator<Item = PortId> + '_ {
        self.ports.iter().map(|p| p.id)
    }

    /// Returns the descriptors that become readable when a frame arrives.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.ports
            .iter()
            .filter_map(|p| p.port.as_ref().and_then(Port::fd))
    }

    /// Returns whether every open port can wake a sleeping thread.
    pub(crate) fn has_wakeup_for_all_ports(&self) -> bool {
        let can_wake = |port: &Port| port.fd().is_some() || matches!(port, Port::Link(_));
        self.ports.iter().all(|p| p.port.as_ref().is_none_or(can_wake))
    }

    /// Sets the waker that is called when a frame arrives over an in-memory link.
    pub(crate) fn set_waker(&mut self, waker: &ThreadWaker) {
        for port in self.ports.iter_mut().filter_map(|p| p.port.as_mut()) {
            port.set_waker(waker);
        }
    }

    /// Returns whether frames have arrived over an in-memory link. Such a link has no descriptor that `poll`
    /// could check, so this function checks it.
    pub(crate) fn has_input(&self) -> bool {
        self.ports
            .iter()
            .any(|p| p.port.as_ref().is_some_and(Port::has_waiting_frames))
    }

    /// Returns the wall time at which the next delayed frame is due, in nanoseconds. Returns `None` if no
    /// delayed frame waits.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        let due = self
            .ports
            .iter()
            .filter_map(|p| p.transmit_queue.first_due())
            .min();
        due.map(|due| self.clock.wall_ns(due))
    }

    /// Receives up to one burst of frames from each port, as long as the sink has room. Returns the number of
    /// received frames.
    pub(crate) fn receive(&mut self, slots: &mut impl SlotSource, sink: &mut impl FrameSink) -> usize {
        self.closing.retain_mut(|port| !port.close(slots));
        let mut total = 0;
        for index in 0..self.ports.len() {
            let owned = &mut self.ports[index];
            let Some(port) = &mut owned.port else { continue };
            let limit = sink.free_frames(owned.id).min(BURST_FRAMES);
            if limit == 0 {
                continue;
            }
            self.received.clear();
            let result = port.receive(slots, limit, &mut self.received);
            total += self.received.len();
            if !self.received.is_empty() {
                sink.accept_frames(owned.id, &self.received);
            }
            if let Err(error) = result {
                self.handle_failure(index, &error);
            }
        }
        total
    }

    /// Queues a frame at the port with the index `index` in this set. For a device, `due` is the model
    /// time at which the frame is passed to the device. For an in-memory link, `due` is the arrival time
    /// at the receiver.
    pub(crate) fn queue_frame(&mut self, index: usize, frame: FrameHandle, due: Picos) {
        self.ports[index].transmit_queue.push(frame, due);
    }

    /// Passes waiting frames to the devices. Calls `done` for each frame whose slot can be freed. Returns the
    /// number of sent frames.
    pub(crate) fn flush(&mut self, arena: &Arena, mut done: impl FnMut(FrameHandle)) -> usize {
        let mut total = 0;
        for index in 0..self.ports.len() {
            let owned = &mut self.ports[index];
            if let Some(port) = owned.port.as_mut().filter(|port| port.honours_pauses()) {
                owned.transmit_queue.honour_pauses(port, arena, self.clock);
            }
            while let OwnedPort {
                port,
                transmit_queue,
                refused_frames,
                ..
            } = &mut self.ports[index]
                && let (frames, dues) = transmit_queue.next_burst(self.clock)
                && !frames.is_empty()
            {
                let Some(port) = port else {
                    let frame_count = transmit_queue.frames.len();
                    *refused_frames += frame_count as u64;
                    transmit_queue.remove_front(frame_count).for_each(&mut done);
                    break;
                };
                let offered = frames.len();
                match port.transmit_with_arrivals(arena, frames, dues) {
                    Ok(taken) => {
                        transmit_queue.remove_front(taken).for_each(&mut done);
                        total += taken;
                        if taken < offered {
                            break;
                        }
                    }
                    Err(error) => {
                        self.handle_failure(index, &error);
                        break;
                    }
                }
            }
            self.drop_excess_frames(index, &mut done);
        }
        total
    }

    /// If a device accepts no frames, drops the oldest waiting frames above the limit of the queue.
    fn drop_excess_frames(&mut self, index: usize, done: &mut impl FnMut(FrameHandle)) {
        let owned = &mut self.ports[index];
        let excess = owned.transmit_queue.frames.len().saturating_sub(DEVICE_QUEUE_MAX);
        if excess > 0 {
            owned.transmit_queue.remove_front(excess).for_each(done);
            self.events.push(PortEvent::Lost {
                port: owned.id,
                frames: excess as u64,
            });
        }
    }

    /// Returns the open ports.
    pub(crate) fn into_ports(self) -> impl Iterator<Item = Port> {
        self.ports.into_iter().filter_map(|owned| owned.port)
    }

    /// Returns link changes, losses and newly opened devices since the last call. The worker thread calls
    /// this about 20 times per second.
    pub(crate) fn poll_events(&mut self) -> Vec<PortEvent> {
        while let Ok(OpenedDevice {
            port: id,
            mtu,
            device,
        }) = self.opened.try_recv()
        {
            if let Some(owned) = self.ports.iter_mut().find(|p| p.id == id) {
                self.events.push(PortEvent::Opened {
                    port: id,
                    backend: device.backend_name(),
                    mtu,
                });
                owned.port = Some(*device);
            }
        }
        for index in 0..self.ports.len() {
            let port = &mut self.ports[index].port;
            let up = port.as_mut().is_some_and(Port::is_link_up);
            if !up && port.as_mut().is_some_and(|port| !port.device_exists()) {
                self.replace_removed_device(index);
            }
            let owned = &mut self.ports[index];
            if up != owned.is_up {
                owned.is_up = up;
                self.events.push(PortEvent::Link { port: owned.id, up });
            }
            if let Some(port) = &mut owned.port {
                append_drop_events(owned.id, port, &mut self.events);
            }
            let refused_frames = std::mem::take(&mut owned.refused_frames);
            if refused_frames > 0 {
                let reason = DropReason::BackendRefused;
                self.events.push(PortEvent::Dropped {
                    port: owned.id,
                    reason,
                    priority: FramePriority::default(),
                    frames: refused_frames,
                });
            }
        }
        std::mem::take(&mut self.events)
    }

    /// Handles an error of the device of a port. If the device was removed, the port is closed, and the
    /// device watcher opens the device later. Any error that does not mean a removed device is temporary and
    /// is ignored.
    fn handle_failure(&mut self, index: usize, error: &io::Error) {
        if is_device_removed(error) {
            self.replace_removed_device(index);
        }
    }

    /// Closes a removed device. The device watcher reports the removal, and opens the next device of this name.
    fn replace_removed_device(&mut self, index: usize) {
        self.close_device(index);
        self.send_request(DeviceRequest::OpenRemoved(self.ports[index].id));
    }

    /// Closes the device of the port with the index `index` in this set. The device watcher opens the device
    /// again.
    pub(crate) fn reopen(&mut self, index: usize) {
        self.close_device(index);
        self.request_device(index);
    }

    /// Changes the link of the stream port with the index `index` in this set (see [`Port::change_stream_link`]).
    pub(crate) fn change_stream_link(&mut self, index: usize, speed_mbps: u32, overhead_bytes: u32) {
        if let Some(port) = &mut self.ports[index].port {
            port.change_stream_link(speed_mbps, overhead_bytes);
        }
    }

    fn close_device(&mut self, index: usize) {
        let owned = &mut self.ports[index];
        if let Some(mut port) = owned.port.take() {
            // The counts since the last report would be lost with the device.
            append_drop_events(owned.id, &mut port, &mut self.events);
            self.closing.push(port);
        }
        if owned.is_up {
            owned.is_up = false;
            self.events.push(PortEvent::Link {
                port: owned.id,
                up: false,
            });
        }
    }

    fn request_device(&self, index: usize) {
        self.send_request(DeviceRequest::Open(self.ports[index].id));
    }

    fn send_request(&self, request: DeviceRequest) {
        // The device watcher ends only at the end of the run.
        let _ = self.device_requests.send(request);
    }
}

/// Adds events for the drops, losses and notes of a port since the last call.
fn append_drop_events(id: PortId, port: &mut Port, events: &mut Vec<PortEvent>) {
    let drops = port.take_drops();
    let dropped = |reason, priority, frames| PortEvent::Dropped {
        port: id,
        reason,
        priority,
        frames,
    };
    let oversized = DropReason::Oversized;
    for (reason, frames) in drops.by_reason {
        let with_headers = match reason == oversized {
            true => drops.oversized.iter().map(|(_, frames)| frames).sum(),
            false => 0,
        };
        let unknown = frames.saturating_sub(with_headers);
        events.extend((unknown > 0).then(|| dropped(reason, FramePriority::default(), unknown)));
    }
    let with_headers = drops.oversized.into_iter();
    events.extend(with_headers.map(|(priority, frames)| dropped(oversized, priority, frames)));
    events.extend(drops.notes.into_iter().map(PortEvent::Note));
    if drops.stream != StreamCounts::default() {
        events.push(PortEvent::Stream {
            port: id,
            counts: drops.stream,
        });
    }
    if drops.lost > 0 {
        events.push(PortEvent::Lost {
            port: id,
            frames: drops.lost,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_sent_in_order_and_in_bursts_across_the_end_of_the_queue_memory() {
        let clock = ModelClock::new(0, 1);
        let mut leaving = TransmitQueue::new(false);
        // The first burst starts at an offset that is no multiple of a burst, because the queue memory ends
        // at such a multiple.
        leaving.push(FrameHandle(0), Picos(0));
        leaving.push(FrameHandle(1), Picos(1));
        assert_eq!(leaving.remove_front(1).count(), 1);
        let (mut pushed, mut taken, mut bursts_cut) = (2, 1, 0);
        // Some frames always wait, so the next ones move through the queue memory and pass its end.
        while pushed < 3 * DEVICE_QUEUE_MAX as u32 {
            for _ in 0..130 {
                leaving.push(FrameHandle(pushed), Picos(u64::from(pushed)));
                pushed += 1;
            }
            while pushed - taken > 100 {
                let (frames, dues) = leaving.next_burst(clock);
                let count = frames.len();
                assert!((1..=BURST_FRAMES).contains(&count) && dues.len() == count);
                assert!(
                    frames
                        .iter()
                        .zip(dues)
                        .all(|(frame, due)| u64::from(frame.0) == due.0)
                );
                bursts_cut += usize::from(count < BURST_FRAMES);
                let numbers: Vec<u32> = leaving.remove_front(count).map(|frame| frame.0).collect();
                assert_eq!(numbers, (taken..taken + count as u32).collect::<Vec<_>>());
                taken += count as u32;
            }
        }
        assert!(bursts_cut > 0, "no burst crossed the end of the queue memory");
    }

    #[test]
    fn frames_of_a_link_with_a_delay_wait_until_they_are_due() {
        let mut leaving = TransmitQueue::new(true);
        leaving.push(FrameHandle(1), Picos::ZERO);
        leaving.push(FrameHandle(2), Picos::NEVER);
        leaving.push(FrameHandle(3), Picos::ZERO);
        let clock = ModelClock::new(0, 1);
        assert_eq!(leaving.next_burst(clock).0, [FrameHandle(1)]);
        assert_eq!(leaving.remove_front(1).count(), 1);
        assert!(leaving.next_burst(clock).0.is_empty());
        assert_eq!(leaving.first_due(), Some(Picos::NEVER));
        assert_eq!(leaving.remove_front(2).count(), 2);
        assert_eq!(leaving.first_due(), None);
    }
}
