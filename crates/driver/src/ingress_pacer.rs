//! Pacing of arrivals: a port receives frames no faster than its link carries them.

use std::collections::VecDeque;

use xoff_dataplane::{LinkRate, LinkTiming, Picos, PortId, ReceivedFrame};

/// Frames that may be in flight on the link to one port. A worker does not read a port whose link is full. The queue of its
/// device is the next bound, and frames that the device loses taint the run.
pub const IN_FLIGHT_FRAMES_MAX: usize = 1_024;

/// Frames that have left their sender and, at model speed, have not arrived yet.
#[derive(Debug)]
struct PortPacer {
    frames: VecDeque<(Picos, ReceivedFrame)>,
    /// The time at which the link has carried all frames so far.
    next_free: Picos,
    link: LinkRate,
    delayed_frames: u64,
}

/// The frames in flight to each port of a switch.
#[derive(Debug)]
pub struct IngressPacer {
    ports: Vec<PortPacer>,
}

impl IngressPacer {
    /// Idle links with these timings, one for each port.
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

    /// How many more frames the link of a port takes.
    pub fn room(&self, port: PortId) -> usize {
        IN_FLIGHT_FRAMES_MAX.saturating_sub(self.ports[port.index()].frames.len())
    }

    /// Frames in flight to all ports.
    pub fn frames_in_flight(&self) -> usize {
        self.ports.iter().map(|port| port.frames.len()).sum()
    }

    /// Frames of a port that came faster than its link and were delayed.
    pub fn delayed_frames(&self, port: PortId) -> u64 {
        self.ports[port.index()].delayed_frames
    }

    /// Changes the timing of the link of a port, for frames that are offered from now on.
    pub fn set_link_timing(&mut self, port: PortId, link: LinkTiming) {
        self.ports[port.index()].link = LinkRate::new(link);
    }

    /// Puts a received frame on the link of its port. It arrives at `arrival.received_at`, at `now`, or when the link has
    /// carried it, whichever is latest. Returns the time if the frame is the first one in flight to the port.
    #[inline(always)]
    pub fn offer(&mut self, now: Picos, port: PortId, arrival: ReceivedFrame) -> Option<Picos> {
        let pacer = &mut self.ports[port.index()];
        let received_at = arrival.received_at.max(now);
        let arrives_at = received_at.max(pacer.next_free);
        pacer.delayed_frames += u64::from(arrives_at > received_at);
        let mac_len = pacer.link.mac_len(arrival.frame_len);
        pacer.next_free = arrives_at.saturating_add(pacer.link.transmission_time(mac_len));
        self.push(port, arrives_at, arrival)
    }

    /// Puts a frame behind the others that the link has carried already. It arrives at `arrival.received_at`, which may be in
    /// the future, but not before the frames ahead of it. Returns the time if it is the first one in flight.
    #[inline]
    pub fn deliver(&mut self, now: Picos, port: PortId, arrival: ReceivedFrame) -> Option<Picos> {
        let pacer = &mut self.ports[port.index()];
        let previous = pacer.frames.back().map_or(now, |(at, _)| *at);
        let arrives_at = arrival.received_at.max(previous);
        pacer.next_free = pacer.next_free.max(arrives_at);
        self.push(port, arrives_at, arrival)
    }

    // Inlined, so that the arrival is built in its place in the queue. A copy would wait for the stores that built it.
    #[inline(always)]
    fn push(&mut self, port: PortId, arrives_at: Picos, arrival: ReceivedFrame) -> Option<Picos> {
        let frames = &mut self.ports[port.index()].frames;
        let is_first = frames.is_empty();
        frames.push_back((arrives_at, arrival));
        is_first.then_some(arrives_at)
    }

    /// The first frame in flight to a port, with the time at which it arrives.
    #[inline(always)]
    pub fn first(&self, port: PortId) -> Option<&(Picos, ReceivedFrame)> {
        self.ports[port.index()].frames.front()
    }

    /// The frame that is `ahead` frames behind the first one.
    #[inline(always)]
    pub fn nth(&self, port: PortId, ahead: usize) -> Option<&(Picos, ReceivedFrame)> {
        self.ports[port.index()].frames.get(ahead)
    }

    /// Removes the first frame in flight to a port.
    #[inline(always)]
    pub fn pop(&mut self, port: PortId) -> Option<(Picos, ReceivedFrame)> {
        self.ports[port.index()].frames.pop_front()
    }
}
