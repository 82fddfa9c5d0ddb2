//! Observers of a fabric, such as event logs, recordings, time series and scripts.

use xoff_dataplane::{ForwardingResult, Picos, PortId, SwitchEvent};
use xoff_wire::parse::{Payload, parse_prefix};
use xoff_wire::{Aeth, Bth, Extension, ROCE_UDP_PORT, bth};

use super::deadlock_report::LastingDeadlock;
use super::plan::LinkEnd;
use xoff_host::Host;
use xoff_rdma::Completion;

/// A frame in the form in which observers receive it.
#[derive(Clone, Copy, Debug)]
pub struct FrameView<'a> {
    /// First bytes of the frame, at least all headers. For frames of queue pairs, no payload bytes
    /// are stored.
    pub prefix: &'a [u8],
    /// Length of the whole frame in bytes, without FCS.
    pub frame_len: u32,
    /// True if a link has corrupted the frame. The receiving host then finds a wrong ICRC.
    pub damaged: bool,
}

impl<'a> FrameView<'a> {
    /// Returns the ECN field of an IP packet, 0 to 3. The value 3 (CE) means that a switch has marked the
    /// packet. Returns 0 for frames without an IP header.
    pub fn ecn(&self) -> u8 {
        parse_prefix(self.prefix, self.frame_len as usize).tos & 3
    }

    /// Returns the base transport header (BTH) of a RoCEv2 packet. Returns `None` if the frame is not a
    /// RoCEv2 packet.
    pub fn bth(&self) -> Option<Bth<&'a [u8]>> {
        Bth::new_checked(self.transport()?).ok()
    }

    /// Returns the ACK extended transport header (AETH) of a RoCEv2 packet. Returns `None` if no AETH follows
    /// the base transport header directly.
    pub fn aeth(&self) -> Option<Aeth> {
        let kinds = self.bth()?.opcode().extensions();
        let bytes = self.transport()?.get(bth::LEN..)?;
        match Extension::parse(*kinds.first()?, bytes) {
            Ok(Extension::Aeth(aeth)) => Some(aeth),
            _ => None,
        }
    }

    /// Returns the bytes of a RoCEv2 packet from the base transport header on. Returns `None` if the frame is
    /// not a RoCEv2 packet.
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

/// The kinds of events that an observer wants to see. The fabric skips the work for all other kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservedEvents {
    /// [`Observer::frame_departed`] and [`Observer::frame_arrived`]. Without them, the fabric does not read the headers
    /// of these frames and avoids cache misses.
    pub frames: bool,
    /// Decisions of switches: [`Observer::admission_decided`].
    pub admissions: bool,
    /// ECN marks: [`Observer::frame_marked`].
    pub marks: bool,
    /// Counters of hosts: [`Observer::host_counters_changed`].
    pub host_counters: bool,
    /// [`Observer::request_completed`]. Hosts then run in one order in the windows in which messages complete.
    pub completions: bool,
    /// [`Observer::fault_applied`] and [`Observer::switch_event`].
    pub reports: bool,
}

impl ObservedEvents {
    /// No events.
    pub const NONE: ObservedEvents = ObservedEvents {
        frames: false,
        admissions: false,
        marks: false,
        host_counters: false,
        completions: false,
        reports: false,
    };
    /// All events.
    pub const ALL: ObservedEvents = ObservedEvents {
        frames: true,
        admissions: true,
        marks: true,
        host_counters: true,
        completions: true,
        reports: true,
    };

    /// Returns the events of both values.
    pub fn union(self, other: ObservedEvents) -> ObservedEvents {
        ObservedEvents {
            frames: self.frames | other.frames,
            admissions: self.admissions | other.admissions,
            marks: self.marks | other.marks,
            host_counters: self.host_counters | other.host_counters,
            completions: self.completions | other.completions,
            reports: self.reports | other.reports,
        }
    }

    /// Returns whether no event is observed.
    pub fn is_none(self) -> bool {
        self == ObservedEvents::NONE
    }
}

/// Counters of a host whose increase is an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostEventCounts {
    /// Number of timeouts of all queue pairs.
    pub timeouts: u64,
    /// Number of packets that all queue pairs have sent again.
    pub retransmitted_packets: u64,
    /// Number of received frames that the host has dropped.
    pub dropped_frames: u64,
}

impl HostEventCounts {
    /// Returns the current counters of a host.
    pub(super) fn of(host: &Host) -> HostEventCounts {
        HostEventCounts {
            timeouts: host.endpoint().timeouts(),
            retransmitted_packets: host.endpoint().retransmitted_packets(),
            dropped_frames: host.rx_dropped_frames(),
        }
    }
}

/// Receives the events of a fabric in the order of their times. Events with equal times are in the order of their
/// sources. All methods have an empty default implementation.
pub trait Observer {
    /// Returns the kinds of events that the observer wants to see. By default, these are all events. The fabric calls
    /// this method at the start of each run and of each change. Methods of other events may be called too.
    fn observed_events(&self) -> ObservedEvents {
        ObservedEvents::ALL
    }

    /// A frame starts to leave the link end `from` at the time `at`. The frame and its gap occupy the link
    /// until `until`.
    #[inline]
    fn frame_departed(&mut self, at: Picos, until: Picos, from: LinkEnd, frame: FrameView<'_>) {
        let _ = (at, until, from, frame);
    }

    /// The last bit of a frame has arrived at the link end `to`. The receiver has not processed the
    /// frame yet.
    #[inline]
    fn frame_arrived(&mut self, at: Picos, to: LinkEnd, frame: FrameView<'_>) {
        let _ = (at, to, frame);
    }

    /// A switch has processed a frame that arrived at `port`. `verdict` tells whether the
    /// switch queued or dropped the frame, or processed it as a control frame. `switch` is an
    /// index in [`FabricPlan::switches`](crate::FabricPlan::switches).
    #[inline]
    fn admission_decided(&mut self, at: Picos, switch: u32, port: PortId, verdict: &ForwardingResult) {
        let _ = (at, switch, port, verdict);
    }

    /// A [`Fault`](crate::Fault) has affected a frame that left `from`. The frame is lost if `lost` is true,
    /// and corrupted otherwise.
    #[inline]
    fn fault_applied(&mut self, at: Picos, from: LinkEnd, frame: FrameView<'_>, lost: bool) {
        let _ = (at, from, frame, lost);
    }

    /// A switch has set the ECN mark of a frame in a queue of the egress port `port`. Switches mark frames at
    /// enqueue or at dequeue.
    #[inline]
    fn frame_marked(&mut self, at: Picos, port: LinkEnd) {
        let _ = (at, port);
    }

    /// Counters of a host have changed at the time `at`. `host` is an index in
    /// [`FabricPlan::hosts`](crate::FabricPlan::hosts).
    #[inline]
    fn host_counters_changed(&mut self, at: Picos, host: u32, counts: HostEventCounts) {
        let _ = (at, host, counts);
    }

    /// [`Jobs`](crate::Jobs) have taken a completion of a queue pair from a host. [`Completion::at`] is the
    /// time of the completion.
    #[inline]
    fn request_completed(&mut self, host: usize, completion: &Completion) {
        let _ = (host, completion);
    }

    /// A link has gone up or down. `link` is an index in [`FabricPlan::links`](crate::FabricPlan::links).
    #[inline]
    fn link_changed(&mut self, at: Picos, link: usize, up: bool) {
        let _ = (at, link, up);
    }

    /// A PFC deadlock has lasted for at least 10 ms. Only [`Simulation::run`](crate::Simulation::run)
    /// reports deadlocks.
    #[inline]
    fn deadlocked(&mut self, at: Picos, deadlock: &LastingDeadlock) {
        let _ = (at, deadlock);
    }

    /// A switch has reported an event, such as a storm that its PFC watchdog has detected.
    #[inline]
    fn switch_event(&mut self, switch: u32, event: &SwitchEvent) {
        let _ = (switch, event);
    }
}

/// No observer.
impl Observer for () {
    fn observed_events(&self) -> ObservedEvents {
        ObservedEvents::NONE
    }
}

/// Two observers. The first observer receives each event before the second observer.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn observed_events(&self) -> ObservedEvents {
        self.0.observed_events().union(self.1.observed_events())
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
    fn host_counters_changed(&mut self, at: Picos, host: u32, counts: HostEventCounts) {
        self.0.host_counters_changed(at, host, counts);
        self.1.host_counters_changed(at, host, counts);
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

/// An optional observer. `None` ignores all events.
impl<O: Observer> Observer for Option<O> {
    fn observed_events(&self) -> ObservedEvents {
        self.as_ref().map_or(ObservedEvents::NONE, O::observed_events)
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
    fn host_counters_changed(&mut self, at: Picos, host: u32, counts: HostEventCounts) {
        if let Some(observer) = self {
            observer.host_counters_changed(at, host, counts);
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
