//! When things happened for the first and for the last time.

use xoff_dataplane::{ForwardingResult, Picos, PortId, SwitchEvent, SwitchEventKind};
use xoff_wire::{ETHERTYPE_MAC_CONTROL, MacControl, Opcode, Syndrome};

use super::super::expr::{CounterOwner, Occurrence};
use super::arrivals::Arrivals;
use xoff_fabric::{Fabric, FrameView, LinkEnd, Observer};
use xoff_host::Host;

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

    /// Its name in expressions.
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

    fn of_name(name: &str) -> Option<EventKind> {
        EventKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// First and last time of one kind of event at one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span(Option<(Picos, Picos)>);

impl Span {
    pub(super) fn note(&mut self, at: Picos) {
        self.0 = Some((self.0.map_or(at, |(first, _)| first), at));
    }

    fn get(self, which: Occurrence) -> Option<Picos> {
        self.0.map(|(first, last)| match which {
            Occurrence::First => first,
            Occurrence::Last => last,
        })
    }
}

type Spans = [Span; EventKind::ALL.len()];

/// What a host had counted when it was last seen.
#[derive(Clone, Copy, Debug, Default)]
struct HostCounts {
    timeouts: u64,
    retransmitted: u64,
    dropped: u64,
}

/// Remembers events of a fabric, by port and host.
#[derive(Clone, Debug)]
pub(super) struct EventTimes {
    ports: Vec<Vec<Spans>>,
    hosts: Vec<Spans>,
    counts: Vec<HostCounts>,
    /// By host.
    arrivals: Vec<Arrivals>,
}

impl EventTimes {
    /// Nothing has happened.
    pub(super) fn new(fabric: &Fabric) -> EventTimes {
        let ports = |switch| vec![Spans::default(); fabric.switch(switch).port_count()];
        EventTimes {
            arrivals: (0..fabric.host_count())
                .map(|host| Arrivals::new(address_of_port(fabric, host)))
                .collect(),
            ports: (0..fabric.switch_count()).map(ports).collect(),
            hosts: vec![Spans::default(); fabric.host_count()],
            counts: vec![HostCounts::default(); fabric.host_count()],
        }
    }

    /// Forgets all that has happened.
    pub(super) fn clear(&mut self) {
        self.ports
            .iter_mut()
            .for_each(|ports| ports.fill(Spans::default()));
        self.hosts.fill(Spans::default());
        self.arrivals.iter_mut().for_each(Arrivals::clear);
    }

    /// What has arrived at a host.
    pub(super) fn arrivals(&self, host: usize) -> Option<&Arrivals> {
        self.arrivals.get(host)
    }

    /// Enters an event that no observer is told of.
    pub(super) fn note(&mut self, kind: EventKind, at: Picos, end: LinkEnd) {
        let spans = match end {
            LinkEnd::Host(host) => self.hosts.get_mut(host as usize),
            LinkEnd::Switch { switch, port } => self
                .ports
                .get_mut(switch as usize)
                .and_then(|ports| ports.get_mut(usize::from(port))),
        };
        if let Some(spans) = spans {
            spans[kind as usize].note(at);
        }
    }

    /// When an event happened for the first or the last time somewhere; a port as the switch counts them.
    pub(super) fn get(&self, event: &str, subject: &CounterOwner, which: Occurrence) -> Option<Picos> {
        let kind = EventKind::of_name(event)?;
        let of = |spans: &Spans| spans[kind as usize].get(which);
        let best = |all: &mut dyn Iterator<Item = Picos>| match which {
            Occurrence::First => all.min(),
            Occurrence::Last => all.max(),
        };
        match *subject {
            CounterOwner::Run => {
                let ports = self.ports.iter().flatten().filter_map(of);
                // Marks and pauses of the lab are those of its switches; hosts that are marked or pause are asked by name.
                let of_hosts = !matches!(kind, EventKind::Ce | EventKind::Xoff | EventKind::Xon);
                let hosts = self.hosts.iter().filter(|_| of_hosts).filter_map(of);
                best(&mut ports.chain(hosts))
            }
            CounterOwner::Switch(switch) => best(&mut self.ports.get(switch)?.iter().filter_map(of)),
            CounterOwner::Port(switch, port) => of(self.ports.get(switch)?.get(port)?),
            CounterOwner::Host(host) => of(self.hosts.get(host)?),
            CounterOwner::Arrivals(host, dscp) => {
                let arrived = self.arrivals.get(host)?.of(dscp)?;
                match kind {
                    EventKind::Rx => arrived.rx.get(which),
                    EventKind::Ce => arrived.ce.get(which),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn rdma(&mut self, at: Picos, from: LinkEnd, frame: &FrameView<'_>) {
        let Some(bth) = frame.bth() else { return };
        match bth.opcode() {
            Opcode::Cnp => self.note(EventKind::Cnp, at, from),
            opcode if opcode == Opcode::RcAcknowledge && is_nak(frame) => self.note(EventKind::Nak, at, from),
            _ => {}
        }
    }
}

/// Of the port that a host is connected to.
fn address_of_port(fabric: &Fabric, host: usize) -> [u8; 6] {
    match fabric.peer(LinkEnd::Host(host as u32)) {
        Some(LinkEnd::Switch { switch, port }) => {
            let ports = &fabric.switch_config(switch as usize).ports;
            ports.get(usize::from(port)).map_or([0; 6], |port| port.mac)
        }
        _ => [0; 6],
    }
}

/// Whether an acknowledgement is a negative one: its syndrome says so (IBTA 9.7.5.2.1), RNR NAKs included.
fn is_nak(frame: &FrameView<'_>) -> bool {
    frame
        .aeth()
        .is_some_and(|aeth| !matches!(aeth.syndrome, Syndrome::Ack { .. }))
}

impl Observer for EventTimes {
    /// Times are kept by port and host.
    fn needs_total_order(&self) -> bool {
        false
    }

    fn frame_departed(&mut self, at: Picos, _: Picos, from: LinkEnd, frame: FrameView<'_>) {
        if frame.prefix.get(12..14) == Some(&ETHERTYPE_MAC_CONTROL.to_be_bytes()) {
            if let Ok(MacControl::Pfc(pfc)) = MacControl::parse(frame.prefix) {
                let kind = match pfc.is_xoff() {
                    true => EventKind::Xoff,
                    false => EventKind::Xon,
                };
                self.note(kind, at, from);
            }
        } else if let LinkEnd::Host(_) = from {
            self.rdma(at, from, &frame);
        }
    }

    fn frame_arrived(&mut self, at: Picos, to: LinkEnd, frame: FrameView<'_>) {
        let LinkEnd::Host(host) = to else { return };
        let arrivals = self.arrivals.get_mut(host as usize);
        if arrivals.is_some_and(|arrivals| arrivals.note(at, &frame)) {
            self.note(EventKind::Rx, at, to);
        }
        if frame.ecn() == 3 {
            self.note(EventKind::Ce, at, to);
        }
    }

    fn admission_decided(&mut self, at: Picos, switch: u32, _: PortId, verdict: &ForwardingResult) {
        if let ForwardingResult::Dropped(drop) = verdict {
            let port = drop.port.0;
            self.note(EventKind::Drop, at, LinkEnd::Switch { switch, port });
        }
    }

    fn fault_applied(&mut self, at: Picos, from: LinkEnd, _: FrameView<'_>, lost: bool) {
        if lost {
            self.note(EventKind::Drop, at, from);
        }
    }

    fn switch_event(&mut self, switch: u32, event: &SwitchEvent) {
        let (kind, queue) = match event.kind {
            SwitchEventKind::StormDetected { queue, .. } => (EventKind::Storm, queue),
            SwitchEventKind::StormRestored { queue } => (EventKind::StormRestored, queue),
            SwitchEventKind::BigRedSwitch { .. } => return,
        };
        let port = queue.port().0;
        self.note(kind, event.at, LinkEnd::Switch { switch, port });
    }

    fn frame_marked(&mut self, at: Picos, port: LinkEnd) {
        self.note(EventKind::Ce, at, port);
    }

    fn host_updated(&mut self, at: Picos, host: u32, state: &Host) {
        let now = HostCounts {
            timeouts: state.endpoint().timeouts(),
            retransmitted: state.endpoint().retransmitted_packets(),
            dropped: state.rx_dropped_frames(),
        };
        let Some(counts) = self.counts.get_mut(host as usize) else {
            return;
        };
        let before = std::mem::replace(counts, now);
        for (grew, kind) in [
            (now.timeouts > before.timeouts, EventKind::Timeout),
            (
                now.retransmitted > before.retransmitted,
                EventKind::Retransmission,
            ),
            (now.dropped > before.dropped, EventKind::Drop),
        ] {
            if grew {
                self.note(kind, at, LinkEnd::Host(host));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::expr::counters;
    use super::*;

    #[test]
    fn every_event_of_the_language_is_known() {
        let names: Vec<&str> = counters::EVENTS.iter().map(|event| event.name).collect();
        assert_eq!(names, EventKind::ALL.map(EventKind::name));
    }

    #[test]
    fn a_span_keeps_its_ends() {
        let mut span = Span::default();
        assert_eq!(span.get(Occurrence::First), None);
        for at in [7, 8, 9] {
            span.note(Picos(at));
        }
        assert_eq!(span.get(Occurrence::First), Some(Picos(7)));
        assert_eq!(span.get(Occurrence::Last), Some(Picos(9)));
    }
}
