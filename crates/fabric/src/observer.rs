//! Who watches a fabric: event logs, recordings, series, scripts.

use xoff_dataplane::{Picos, PortId, SwitchEvent, Verdict};
use xoff_wire::parse::{Payload, parse_prefix};
use xoff_wire::{Aeth, Bth, Extension, ROCE_UDP_PORT, bth};

use super::plan::End;
use super::simulation::LastingDeadlock;
use xoff_host::Host;
use xoff_rdma::Completion;

/// A frame as an observer sees it.
#[derive(Clone, Copy, Debug)]
pub struct FrameView<'a> {
    /// Its first octets: all headers at least.
    pub prefix: &'a [u8],
    /// Its length as a socket sees it (no FCS).
    pub frame_len: u32,
    /// A link has damaged it: its ICRC is wrong.
    pub damaged: bool,
}

impl<'a> FrameView<'a> {
    /// The ECN field of an IP packet, 3 if it is marked; 0 for others.
    pub fn ecn(&self) -> u8 {
        parse_prefix(self.prefix, self.frame_len as usize).tos & 3
    }

    /// The base transport header of a RoCEv2 packet.
    pub fn bth(&self) -> Option<Bth<&'a [u8]>> {
        Bth::new_checked(self.transport()?).ok()
    }

    /// The acknowledge header of a RoCEv2 packet that has it right behind its base transport header.
    pub fn aeth(&self) -> Option<Aeth> {
        let kinds = self.bth()?.opcode().extensions();
        let bytes = self.transport()?.get(bth::LEN..)?;
        match Extension::parse(*kinds.first()?, bytes) {
            Ok(Extension::Aeth(aeth)) => Some(aeth),
            _ => None,
        }
    }

    /// A RoCEv2 packet from its base transport header on.
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

/// Hears what happens, in the order in which it happens. Everything is optional; what is not overridden costs nothing.
pub trait Observer {
    /// Whether anybody watches at all. What it would be shown is not even looked up otherwise: the headers of a frame that only
    /// departs are in no cache.
    const WATCHES: bool = true;

    /// Whether it must hear everything in the one order of events. Otherwise it hears what happens at each node in order, but of one of them up
    /// to a link's delay ahead of another; a link belongs to where it begins, an arrival to where
    /// it ends. Asked when a run begins.
    fn needs_order(&self) -> bool {
        true
    }

    /// A frame begins to leave `from` at `at`; the link is occupied until `until`.
    #[inline]
    fn departed(&mut self, at: Picos, until: Picos, from: End, frame: FrameView<'_>) {
        let _ = (at, until, from, frame);
    }

    /// The last bit of a frame arrives at `to`, before anything is done with it.
    #[inline]
    fn arrived(&mut self, at: Picos, to: End, frame: FrameView<'_>) {
        let _ = (at, to, frame);
    }

    /// A switch has decided on an arrival.
    #[inline]
    fn decided(&mut self, at: Picos, switch: u32, port: PortId, verdict: &Verdict) {
        let _ = (at, switch, port, verdict);
    }

    /// A link lost or damaged a frame on its way from `from`.
    #[inline]
    fn struck(&mut self, at: Picos, from: End, frame: FrameView<'_>, lost: bool) {
        let _ = (at, from, frame, lost);
    }

    /// A switch has marked a frame in a queue of a port: as it leaves, or as it joined the queue, whatever the
    /// switch's mark point is.
    #[inline]
    fn marked(&mut self, at: Picos, port: End) {
        let _ = (at, port);
    }

    /// A host has done all that it could at `at`: what has changed in it since the last time changed then.
    #[inline]
    fn served(&mut self, at: Picos, host: u32, state: &Host) {
        let _ = (at, host, state);
    }

    /// A queue pair of a host has completed something.
    #[inline]
    fn completed(&mut self, host: usize, completion: &Completion) {
        let _ = (host, completion);
    }

    /// A link went up or down.
    #[inline]
    fn link_changed(&mut self, at: Picos, link: usize, up: bool) {
        let _ = (at, link, up);
    }

    /// Ports have paused each other in a circle for some time.
    #[inline]
    fn deadlocked(&mut self, at: Picos, deadlock: &LastingDeadlock) {
        let _ = (at, deadlock);
    }

    /// A switch tells its operator something.
    #[inline]
    fn told(&mut self, switch: u32, event: &SwitchEvent) {
        let _ = (switch, event);
    }
}

/// Nobody watches.
impl Observer for () {
    const WATCHES: bool = false;

    fn needs_order(&self) -> bool {
        false
    }
}

/// Both watch, the first one first.
impl<A: Observer, B: Observer> Observer for (A, B) {
    const WATCHES: bool = A::WATCHES || B::WATCHES;

    fn needs_order(&self) -> bool {
        self.0.needs_order() || self.1.needs_order()
    }

    #[inline]
    fn departed(&mut self, at: Picos, until: Picos, from: End, frame: FrameView<'_>) {
        self.0.departed(at, until, from, frame);
        self.1.departed(at, until, from, frame);
    }
    #[inline]
    fn arrived(&mut self, at: Picos, to: End, frame: FrameView<'_>) {
        self.0.arrived(at, to, frame);
        self.1.arrived(at, to, frame);
    }
    #[inline]
    fn decided(&mut self, at: Picos, switch: u32, port: PortId, verdict: &Verdict) {
        self.0.decided(at, switch, port, verdict);
        self.1.decided(at, switch, port, verdict);
    }
    #[inline]
    fn struck(&mut self, at: Picos, from: End, frame: FrameView<'_>, lost: bool) {
        self.0.struck(at, from, frame, lost);
        self.1.struck(at, from, frame, lost);
    }
    #[inline]
    fn marked(&mut self, at: Picos, port: End) {
        self.0.marked(at, port);
        self.1.marked(at, port);
    }
    #[inline]
    fn served(&mut self, at: Picos, host: u32, state: &Host) {
        self.0.served(at, host, state);
        self.1.served(at, host, state);
    }
    #[inline]
    fn completed(&mut self, host: usize, completion: &Completion) {
        self.0.completed(host, completion);
        self.1.completed(host, completion);
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
    fn told(&mut self, switch: u32, event: &SwitchEvent) {
        self.0.told(switch, event);
        self.1.told(switch, event);
    }
}

/// Somebody watches, or nobody does.
impl<O: Observer> Observer for Option<O> {
    const WATCHES: bool = O::WATCHES;

    fn needs_order(&self) -> bool {
        self.as_ref().is_some_and(O::needs_order)
    }

    #[inline]
    fn departed(&mut self, at: Picos, until: Picos, from: End, frame: FrameView<'_>) {
        if let Some(observer) = self {
            observer.departed(at, until, from, frame);
        }
    }
    #[inline]
    fn arrived(&mut self, at: Picos, to: End, frame: FrameView<'_>) {
        if let Some(observer) = self {
            observer.arrived(at, to, frame);
        }
    }
    #[inline]
    fn decided(&mut self, at: Picos, switch: u32, port: PortId, verdict: &Verdict) {
        if let Some(observer) = self {
            observer.decided(at, switch, port, verdict);
        }
    }
    #[inline]
    fn struck(&mut self, at: Picos, from: End, frame: FrameView<'_>, lost: bool) {
        if let Some(observer) = self {
            observer.struck(at, from, frame, lost);
        }
    }
    #[inline]
    fn marked(&mut self, at: Picos, port: End) {
        if let Some(observer) = self {
            observer.marked(at, port);
        }
    }
    #[inline]
    fn served(&mut self, at: Picos, host: u32, state: &Host) {
        if let Some(observer) = self {
            observer.served(at, host, state);
        }
    }
    #[inline]
    fn completed(&mut self, host: usize, completion: &Completion) {
        if let Some(observer) = self {
            observer.completed(host, completion);
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
    fn told(&mut self, switch: u32, event: &SwitchEvent) {
        if let Some(observer) = self {
            observer.told(switch, event);
        }
    }
}
