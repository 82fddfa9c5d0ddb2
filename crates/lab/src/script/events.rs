//! Records the first and last time of each kind of event, as an observer of the fabric.

use xoff_dataplane::{ForwardingResult, Picos, PortId, SwitchEvent, SwitchEventKind};
use xoff_wire::{ETHERTYPE_MAC_CONTROL, MacControl, Opcode, Syndrome};

use super::super::expr::{CounterOwner, Occurrence};
use super::arrivals::HostArrivals;
use super::event_span::FirstAndLastEventTimes;
use xoff_fabric::{Fabric, FrameView, HostEventCounts, LinkEnd, ObservedEvents, Observer};

/// The events of [`counters::EVENTS`](super::super::expr::counters::EVENTS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    Ce,
    Xoff,
    Xon,
    Drop,
    Storm,
    StormRestored,
    Cnp,
    Nak,
    Retransmission,
    Timeout,
    Rx,
}

impl EventKind {
    const ALL: [EventKind; 11] = [
        EventKind::Ce,
        EventKind::Xoff,
        EventKind::Xon,
        EventKind::Drop,
        EventKind::Storm,
        EventKind::StormRestored,
        EventKind::Cnp,
        EventKind::Nak,
        EventKind::Retransmission,
        EventKind::Timeout,
        EventKind::Rx,
    ];

    /// Returns the name of the event in expressions.
    pub(super) const fn name(self) -> &'static str {
        match self {
            EventKind::Ce => "ce",
            EventKind::Xoff => "xoff",
            EventKind::Xon => "xon",
            EventKind::Drop => "drop",
            EventKind::Storm => "storm",
            EventKind::StormRestored => "storm_restored",
            EventKind::Cnp => "cnp",
            EventKind::Nak => "nak",
            EventKind::Retransmission => "retransmission",
            EventKind::Timeout => "timeout",
            EventKind::Rx => "rx",
        }
    }

    fn from_name(name: &str) -> Option<EventKind> {
        EventKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The spans of all kinds of events at one port or host.
type EventSpans = [FirstAndLastEventTimes; EventKind::ALL.len()];

/// An observer that records the times of events, separately for each port and host.
#[derive(Clone, Debug)]
pub(super) struct EventRecorder {
    ports: Vec<Vec<EventSpans>>,
    hosts: Vec<EventSpans>,
    counts: Vec<HostEventCounts>,
    /// The arrived packets of each host.
    arrivals: Vec<HostArrivals>,
}

impl EventRecorder {
    /// Creates a recorder without events.
    pub(super) fn new(fabric: &Fabric) -> EventRecorder {
        let ports = |switch| vec![EventSpans::default(); fabric.switch(switch).port_count()];
        EventRecorder {
            arrivals: (0..fabric.host_count())
                .map(|host| HostArrivals::new(switch_port_mac(fabric, host)))
                .collect(),
            ports: (0..fabric.switch_count()).map(ports).collect(),
            hosts: vec![EventSpans::default(); fabric.host_count()],
            counts: vec![HostEventCounts::default(); fabric.host_count()],
        }
    }

    /// Removes all recorded events.
    pub(super) fn clear(&mut self) {
        self.ports
            .iter_mut()
            .for_each(|ports| ports.fill(EventSpans::default()));
        self.hosts.fill(EventSpans::default());
        self.arrivals.iter_mut().for_each(HostArrivals::clear);
    }

    /// Returns the packets that have arrived at a host.
    pub(super) fn arrivals_of_host(&self, host: usize) -> Option<&HostArrivals> {
        self.arrivals.get(host)
    }

    /// Records an event at an end of a link.
    pub(super) fn record(&mut self, kind: EventKind, at: Picos, end: LinkEnd) {
        let spans = match end {
            LinkEnd::Host(host) => self.hosts.get_mut(host as usize),
            LinkEnd::Switch { switch, port } => self
                .ports
                .get_mut(switch as usize)
                .and_then(|ports| ports.get_mut(usize::from(port))),
        };
        if let Some(spans) = spans {
            spans[kind as usize].record(at);
        }
    }

    /// Returns the time of the first or last event with the given name. A port in `owner` is the number of
    /// the port in the switch. Returns `None` if no event with this name has happened.
    pub(super) fn event_time(
        &self,
        event: &str,
        owner: &CounterOwner,
        occurrence: Occurrence,
    ) -> Option<Picos> {
        let kind = EventKind::from_name(event)?;
        let time_of = |spans: &EventSpans| spans[kind as usize].occurrence_time(occurrence);
        let select = |times: &mut dyn Iterator<Item = Picos>| match occurrence {
            Occurrence::First => times.min(),
            Occurrence::Last => times.max(),
        };
        match *owner {
            CounterOwner::Run => {
                let ports = self.ports.iter().flatten().filter_map(time_of);
                // Without a host name, `ce`, `xoff` and `xon` are events of switches only.
                let includes_hosts = !matches!(kind, EventKind::Ce | EventKind::Xoff | EventKind::Xon);
                let hosts = self.hosts.iter().filter(|_| includes_hosts).filter_map(time_of);
                select(&mut ports.chain(hosts))
            }
            CounterOwner::Switch(switch) => select(&mut self.ports.get(switch)?.iter().filter_map(time_of)),
            CounterOwner::Port(switch, port) => time_of(self.ports.get(switch)?.get(port)?),
            CounterOwner::Host(host) => time_of(self.hosts.get(host)?),
            CounterOwner::Arrivals(host, dscp) => {
                let arrived = self.arrivals.get(host)?.of_dscp(dscp)?;
                match kind {
                    EventKind::Rx => arrived.rx.occurrence_time(occurrence),
                    EventKind::Ce => arrived.ce.occurrence_time(occurrence),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Records a CNP or a NAK that a host sends.
    fn record_rdma_frame(&mut self, at: Picos, from: LinkEnd, frame: &FrameView<'_>) {
        let Some(bth) = frame.bth() else { return };
        match bth.opcode() {
            Opcode::Cnp => self.record(EventKind::Cnp, at, from),
            opcode if opcode == Opcode::RcAcknowledge && is_nak(frame) => {
                self.record(EventKind::Nak, at, from)
            }
            _ => {}
        }
    }
}

/// Returns the MAC address of the switch port at the other end of a host's link. Returns zeros if the host is
/// not connected to a switch.
fn switch_port_mac(fabric: &Fabric, host: usize) -> [u8; 6] {
    match fabric.peer(LinkEnd::Host(host as u32)) {
        Some(LinkEnd::Switch { switch, port }) => {
            let ports = &fabric.switch_config(switch as usize).ports;
            ports.get(usize::from(port)).map_or([0; 6], |port| port.mac)
        }
        _ => [0; 6],
    }
}

/// Returns whether an acknowledgement is a NAK or an RNR NAK, as its AETH syndrome tells (IBTA 9.7.5.2.1).
fn is_nak(frame: &FrameView<'_>) -> bool {
    frame
        .aeth()
        .is_some_and(|aeth| !matches!(aeth.syndrome, Syndrome::Ack { .. }))
}

impl Observer for EventRecorder {
    fn observed_events(&self) -> ObservedEvents {
        ObservedEvents {
            completions: false,
            ..ObservedEvents::ALL
        }
    }

    fn frame_departed(&mut self, at: Picos, _: Picos, from: LinkEnd, frame: FrameView<'_>) {
        if frame.prefix.get(12..14) == Some(&ETHERTYPE_MAC_CONTROL.to_be_bytes()) {
            if let Ok(MacControl::Pfc(pfc)) = MacControl::parse(frame.prefix) {
                let kind = match pfc.is_xoff() {
                    true => EventKind::Xoff,
                    false => EventKind::Xon,
                };
                self.record(kind, at, from);
            }
        } else if let LinkEnd::Host(_) = from {
            self.record_rdma_frame(at, from, &frame);
        }
    }

    fn frame_arrived(&mut self, at: Picos, to: LinkEnd, frame: FrameView<'_>) {
        let LinkEnd::Host(host) = to else { return };
        let arrivals = self.arrivals.get_mut(host as usize);
        if arrivals.is_some_and(|arrivals| arrivals.record(at, &frame)) {
            self.record(EventKind::Rx, at, to);
        }
        if frame.ecn() == 3 {
            self.record(EventKind::Ce, at, to);
        }
    }

    fn admission_decided(&mut self, at: Picos, switch: u32, _: PortId, verdict: &ForwardingResult) {
        if let ForwardingResult::Dropped(drop) = verdict {
            let port = drop.port.0;
            self.record(EventKind::Drop, at, LinkEnd::Switch { switch, port });
        }
    }

    fn fault_applied(&mut self, at: Picos, from: LinkEnd, _: FrameView<'_>, lost: bool) {
        if lost {
            self.record(EventKind::Drop, at, from);
        }
    }

    fn switch_event(&mut self, switch: u32, event: &SwitchEvent) {
        let (kind, queue) = match event.kind {
            SwitchEventKind::StormDetected { queue, .. } => (EventKind::Storm, queue),
            SwitchEventKind::StormRestored { queue } => (EventKind::StormRestored, queue),
            SwitchEventKind::BigRedSwitch { .. }
            | SwitchEventKind::MacMoves { .. }
            | SwitchEventKind::Lldp { .. } => return,
        };
        let port = queue.port().0;
        self.record(kind, event.at, LinkEnd::Switch { switch, port });
    }

    fn frame_marked(&mut self, at: Picos, port: LinkEnd) {
        self.record(EventKind::Ce, at, port);
    }

    fn host_counters_changed(&mut self, at: Picos, host: u32, now: HostEventCounts) {
        let Some(counts) = self.counts.get_mut(host as usize) else {
            return;
        };
        let previous = std::mem::replace(counts, now);
        for (has_increased, kind) in [
            (now.timeouts > previous.timeouts, EventKind::Timeout),
            (
                now.retransmitted_packets > previous.retransmitted_packets,
                EventKind::Retransmission,
            ),
            (now.dropped_frames > previous.dropped_frames, EventKind::Drop),
        ] {
            if has_increased {
                self.record(kind, at, LinkEnd::Host(host));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::expr::counters;
    use super::*;

    #[test]
    fn all_documented_events_are_recorded() {
        let names: Vec<&str> = counters::EVENTS.iter().map(|event| event.name).collect();
        assert_eq!(names, EventKind::ALL.map(EventKind::name));
    }

    #[test]
    fn a_span_contains_the_first_and_last_time() {
        let mut span = FirstAndLastEventTimes::default();
        assert_eq!(span.occurrence_time(Occurrence::First), None);
        for at in [7, 8, 9] {
            span.record(Picos(at));
        }
        assert_eq!(span.occurrence_time(Occurrence::First), Some(Picos(7)));
        assert_eq!(span.occurrence_time(Occurrence::Last), Some(Picos(9)));
    }
}
