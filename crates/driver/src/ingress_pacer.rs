//! Pacing of arrivals: a port receives frames no faster than its link carries them.

use std::collections::VecDeque;

use xoff_dataplane::{LinkRate, LinkTiming, Picos, PortId, ReceivedFrame};

/// Largest number of frames in flight on the link to one port. If the link is full, the worker does not read
/// frames from the port, and the queue of the device fills. If the device then loses frames, the run is
/// marked as tainted.
pub const IN_FLIGHT_FRAMES_MAX: usize = 1_024;

/// The frames in flight on one link. At the speed of the model, these frames have left the sender and have
/// not arrived yet.
#[derive(Debug)]
struct PortPacer {
    frames: VecDeque<(Picos, ReceivedFrame)>,
    /// Model time at which the link has carried all frames so far.
    next_free: Picos,
    link: LinkRate,
    delayed_frames: u64,
}

/// The frames in flight to each port of a switch. If a frame arrives before its link is free, the frame
/// is delayed.
#[derive(Debug)]
pub struct IngressPacer {
    ports: Vec<PortPacer>,
}

impl IngressPacer {
    /// Creates a pacer without frames in flight. `links` contains the speed and framing of the link to each
    /// port, in the order of the port numbers.
    pub fn new(links: impl IntoIterator<Item = LinkTiming>) -> IngressPacer {
        let pacer = |link| PortPacer {
            frames: VecDeque::with_capacity(IN_FLIGHT_FRAMES_MAX),
            next_free: Picos::ZERO,
            link: LinkRate::new(link),
            delayed_frames: 0,
        };
        IngressPacer {
            ports: links.into_iter().map(pacer).collect(),
        }
    }

    /// Returns how many more frames the caller may add for a port. The limit is [`IN_FLIGHT_FRAMES_MAX`].
    pub fn free_frames(&self, port: PortId) -> usize {
        IN_FLIGHT_FRAMES_MAX.saturating_sub(self.ports[port.index()].frames.len())
    }

    /// Returns the number of frames in flight to all ports.
    pub fn frames_in_flight(&self) -> usize {
        self.ports.iter().map(|port| port.frames.len()).sum()
    }

    /// Returns the number of delayed frames of a port. A frame is delayed if it arrives before its link
    /// is free.
    pub fn delayed_frames(&self, port: PortId) -> u64 {
        self.ports[port.index()].delayed_frames
    }

    /// Changes the timing of the link of a port for later frames.
    pub fn set_link_timing(&mut self, port: PortId, link: LinkTiming) {
        self.ports[port.index()].link = LinkRate::new(link);
    }

    /// Adds a received frame to the frames in flight to a port. The frame arrives at the latest of three
    /// times: `arrival.received_at`, `now`, and the time at which the link has carried all earlier frames.
    /// The frame then occupies the link for its transmission time.
    ///
    /// Returns the arrival time if this is the only frame in flight to the port. Otherwise, returns `None`.
    #[inline(always)]
    pub fn add_paced(&mut self, now: Picos, port: PortId, arrival: ReceivedFrame) -> Option<Picos> {
        let pacer = &mut self.ports[port.index()];
        let received_at = arrival.received_at.max(now);
        let arrives_at = received_at.max(pacer.next_free);
        pacer.delayed_frames += u64::from(arrives_at > received_at);
        let mac_len = pacer.link.mac_len(arrival.frame_len);
        pacer.next_free = arrives_at.saturating_add(pacer.link.transmission_time(mac_len));
        self.push(port, arrives_at, arrival)
    }

    /// Adds a frame that the link has already carried. The frame arrives at `arrival.received_at`, which may
    /// be in the future, but never before an earlier frame of the port.
    ///
    /// Returns the arrival time if this is the only frame in flight to the port. Otherwise, returns `None`.
    #[inline]
    pub fn add_after_link_delay(
        &mut self,
        now: Picos,
        port: PortId,
        arrival: ReceivedFrame,
    ) -> Option<Picos> {
        let pacer = &mut self.ports[port.index()];
        let previous = pacer.frames.back().map_or(now, |(at, _)| *at);
        let arrives_at = arrival.received_at.max(previous);
        pacer.next_free = pacer.next_free.max(arrives_at);
        self.push(port, arrives_at, arrival)
    }

    // This function is inlined, so that the arrival is written directly to the queue. A copy of the arrival
    // would wait for the stores that wrote it.
    #[inline(always)]
    fn push(&mut self, port: PortId, arrives_at: Picos, arrival: ReceivedFrame) -> Option<Picos> {
        let frames = &mut self.ports[port.index()].frames;
        let is_first = frames.is_empty();
        frames.push_back((arrives_at, arrival));
        is_first.then_some(arrives_at)
    }

    /// Returns the first frame in flight to a port and its arrival time. Returns `None` if no frame is in
    /// flight to the port.
    #[inline(always)]
    pub fn first(&self, port: PortId) -> Option<&(Picos, ReceivedFrame)> {
        self.ports[port.index()].frames.front()
    }

    /// Returns the frame that is `distance` frames behind the first frame, and its arrival time. Returns
    /// `None` if fewer frames are in flight to the port.
    #[inline(always)]
    pub fn nth(&self, port: PortId, distance: usize) -> Option<&(Picos, ReceivedFrame)> {
        self.ports[port.index()].frames.get(distance)
    }

    /// Removes and returns the first frame in flight to a port and its arrival time. Returns `None` if no
    /// frame is in flight to the port.
    #[inline(always)]
    pub fn pop(&mut self, port: PortId) -> Option<(Picos, ReceivedFrame)> {
        self.ports[port.index()].frames.pop_front()
    }
}
