//! Observers of a fabric, such as event logs, recordings, time series and scripts.

use xoff_dataplane::{ForwardingResult, Picos, PortId, SwitchEvent};
use xoff_wire::parse::{Payload, parse_prefix};
use xoff_wire::{Aeth, Bth, Extension, ROCE_UDP_PORT, bth};

use super::deadlock_report::LastingDeadlock;
use super::plan::LinkEnd;
use xoff_host::Host;
use xoff_rdma::Completion;

/// A frame as observers see it.
#[derive(Clone, Copy, Debug)]
pub struct FrameView<'a> {
    /// First bytes of the frame, with at least all headers.
    pub prefix: &'a [u8],
    /// Length without FCS, as a socket sees it.
    pub frame_len: u32,
    /// A link has corrupted the frame, so its ICRC is wrong.
    pub damaged: bool,
}

impl<'a> FrameView<'a> {
    /// Returns the ECN field of an IP packet. The value is 3 if the packet is marked. Returns 0 for frames
    /// that are not IP.
    pub fn ecn(&self) -> u8 {
        parse_prefix(self.prefix, self.frame_len as usize).tos & 3
    }

    /// Returns the base transport header of a RoCEv2 packet.
    pub fn bth(&self) -> Option<Bth<&'a [u8]>> {
        Bth::new_checked(self.transport()?).ok()
    }

    /// Returns the ACK extended transport header of a RoCEv2 packet if this header follows the
    /// base transport header.
    pub fn aeth(&self) -> Option<Aeth> {
        let kinds = self.bth()?.opcode().extensions();
        let bytes = self.transport()?.get(bth::LEN..)?;
        match Extension::parse(*kinds.first()?, bytes) {
            Ok(Extension::Aeth(aeth)) => Some(aeth),
            _ => None,
        }
    }

    /// Returns the RoCEv2 packet from its base transport header on.
    fn transport(&self) -> Option<&'a [u8]> {
        let parsed = parse_prefix(self.prefix, self.frame_len as usize);
        let l3 = usize::from(parsed.l3_offset);
        let udp = match parsed.payload {
            Payload::Ipv4 => l3 + 20,
            Payload::Ipv6 => l3 + 40,
            _ => return None,
        };
        let port = self.prefix.get(udp + 2..udp + 4)?;
        (port == ROCE_UDP_PORT.to_be_bytes()).then_some(())?;
        self.prefix.get(udp + 8..)
    }
}

/// Receives the events of a fabric. All methods are optional. A method without an
/// implementation costs nothing.
pub trait Observer {
    /// True if any method of the observer is implemented. If false, the fabric does not read the headers of
    /// departing frames and thereby avoids cache misses.
    const IS_ACTIVE: bool = true;

    /// Returns whether the observer needs all events in the total order. The fabric calls this method at the
    /// start of each run.
    ///
    /// If the result is `false`, the events of each node arrive in order, but one node can be ahead of
    /// another node by up to one link delay. Departures on a link are events of the sending node, and
    /// arrivals are events of the receiving node.
    fn needs_total_order(&self) -> bool {
        true
    }

    /// A frame starts to leave `from` at `at`. The link is occupied until `until`.
    #[inline]
    fn frame_departed(&mut self, at: Picos, until: Picos, from: LinkEnd, frame: FrameView<'_>) {
        let _ = (at, until, from, frame);
    }

    /// The last bit of a frame has arrived at `to`. The receiver has not processed the frame yet.
    #[inline]
    fn frame_arrived(&mut self, at: Picos, to: LinkEnd, frame: FrameView<'_>) {
        let _ = (at, to, frame);
    }

    /// A switch has admitted or dropped an arriving frame.
    #[inline]
    fn admission_decided(&mut self, at: Picos, switch: u32, port: PortId, verdict: &ForwardingResult) {
        let _ = (at, switch, port, verdict);
    }

    /// A link has lost or corrupted a frame from `from`.
    #[inline]
    fn fault_applied(&mut self, at: Picos, from: LinkEnd, frame: FrameView<'_>, lost: bool) {
        let _ = (at, from, frame, lost);
    }

    /// A switch has set the ECN mark of a frame in a queue of a port, at enqueue or at dequeue.
    #[inline]
    fn frame_marked(&mut self, at: Picos, port: LinkEnd) {
        let _ = (at, port);
    }

    /// A host has completed all its work for the time `at`. All changes of its state since the previous call
    /// occurred at `at`.
    #[inline]
    fn host_updated(&mut self, at: Picos, host: u32, state: &Host) {
        let _ = (at, host, state);
    }

    /// A queue pair of a host has a completion.
    #[inline]
    fn request_completed(&mut self, host: usize, completion: &Completion) {
        let _ = (host, completion);
    }

    /// A link has gone up or down.
    #[inline]
    fn link_changed(&mut self, at: Picos, link: usize, up: bool) {
        let _ = (at, link, up);
    }

    /// A PFC deadlock has lasted for some time.
    #[inline]
    fn deadlocked(&mut self, at: Picos, deadlock: &LastingDeadlock) {
        let _ = (at, deadlock);
    }

    /// A switch has reported an event, such as a PFC watchdog storm.
    #[inline]
    fn switch_event(&mut self, switch: u32, event: &SwitchEvent) {
        let _ = (switch, event);
    }
}

/// No observer.
impl Observer for () {
    const IS_ACTIVE: bool = false;

    fn needs_total_order(&self) -> bool {
        false
    }
}

/// Two observers. The first one receives each event first.
impl<A: Observer, B: Observer> Observer for (A, B) {
    const IS_ACTIVE: bool = A::IS_ACTIVE || B::IS_ACTIVE;

    fn needs_total_order(&self) -> bool {
        self.0.needs_total_order() || self.1.needs_total_order()
    }

    #[inline]
    fn frame_departed(&mut self, at: Picos, until: Picos, from: LinkEnd, frame: FrameView<'_>) {
        self.0.frame_departed(at, until, from, frame);
        self.1.frame_departed(at, until, from, frame);
    }
    #[inline]
    fn frame_arrived(&mut self, at: Picos, to: LinkEnd, frame: FrameView<'_>) {
        self.0.frame_arrived(at, to, frame);
        self.1.frame_arrived(at, to, frame);
    }
    #[inline]
    fn admission_decided(&mut self, at: Picos, switch: u32, port: PortId, verdict: &ForwardingResult) {
        self.0.admission_decided(at, switch, port, verdict);
        self.1.admission_decided(at, switch, port, verdict);
    }
    #[inline]
    fn fault_applied(&mut self, at: Picos, from: LinkEnd, frame: FrameView<'_>, lost: bool) {
        self.0.fault_applied(at, from, frame, lost);
        self.1.fault_applied(at, from, frame, lost);
    }
    #[inline]
    fn frame_marked(&mut self, at: Picos, port: LinkEnd) {
        self.0.frame_marked(at, port);
        self.1.frame_marked(at, port);
    }
    #[inline]
    fn host_updated(&mut self, at: Picos, host: u32, state: &Host) {
        self.0.host_updated(at, host, state);
        self.1.host_updated(at, host, state);
    }
    #[inline]
    fn request_completed(&mut self, host: usize, completion: &Completion) {
        self.0.request_completed(host, completion);
        self.1.request_completed(host, completion);
    }
    #[inline]
    fn link_changed(&mut self, at: Picos, link: usize, up: bool) {
        self.0.link_changed(at, link, up);
        self.1.link_changed(at, link, up);
    }
    #[inline]
    fn deadlocked(&mut self, at: Picos, deadlock: &LastingDeadlock) {
        self.0.deadlocked(at, deadlock);
        self.1.deadlocked(at, deadlock);
    }
    #[inline]
    fn switch_event(&mut self, switch: u32, event: &SwitchEvent) {
        self.0.switch_event(switch, event);
        self.1.switch_event(switch, event);
    }
}

/// An optional observer.
impl<O: Observer> Observer for Option<O> {
    const IS_ACTIVE: bool = O::IS_ACTIVE;

    fn needs_total_order(&self) -> bool {
        self.as_ref().is_some_and(O::needs_total_order)
    }

    #[inline]
    fn frame_departed(&mut self, at: Picos, until: Picos, from: LinkEnd, frame: FrameView<'_>) {
        if let Some(observer) = self {
            observer.frame_departed(at, until, from, frame);
        }
    }
    #[inline]
    fn frame_arrived(&mut self, at: Picos, to: LinkEnd, frame: FrameView<'_>) {
        if let Some(observer) = self {
            observer.frame_arrived(at, to, frame);
        }
    }
    #[inline]
    fn admission_decided(&mut self, at: Picos, switch: u32, port: PortId, verdict: &ForwardingResult) {
        if let Some(observer) = self {
            observer.admission_decided(at, switch, port, verdict);
        }
    }
    #[inline]
    fn fault_applied(&mut self, at: Picos, from: LinkEnd, frame: FrameView<'_>, lost: bool) {
        if let Some(observer) = self {
            observer.fault_applied(at, from, frame, lost);
        }
    }
    #[inline]
    fn frame_marked(&mut self, at: Picos, port: LinkEnd) {
        if let Some(observer) = self {
            observer.frame_marked(at, port);
        }
    }
    #[inline]
    fn host_updated(&mut self, at: Picos, host: u32, state: &Host) {
        if let Some(observer) = self {
            observer.host_updated(at, host, state);
        }
    }
    #[inline]
    fn request_completed(&mut self, host: usize, completion: &Completion) {
        if let Some(observer) = self {
            observer.request_completed(host, completion);
        }
    }
    #[inline]
    fn link_changed(&mut self, at: Picos, link: usize, up: bool) {
        if let Some(observer) = self {
            observer.link_changed(at, link, up);
        }
    }
    #[inline]
    fn deadlocked(&mut self, at: Picos, deadlock: &LastingDeadlock) {
        if let Some(observer) = self {
            observer.deadlocked(at, deadlock);
        }
    }
    #[inline]
    fn switch_event(&mut self, switch: u32, event: &SwitchEvent) {
        if let Some(observer) = self {
            observer.switch_event(switch, event);
        }
    }
}
