//! The LLDP agent of a switch: one [`LldpPort`] for each port with LLDP, and the order of their deadlines.

use std::collections::BTreeSet;

use xoff_dataplane::config::LldpConfig;
use xoff_dataplane::{Picos, PortId};
use xoff_wire::dcbx::ConfigurationSource;
use xoff_wire::lldp::{ETHERTYPE, EtsTables};
use xoff_wire::lldp_port::{LldpPort, NEVER_NS};

/// A port and its place in the schedule.
#[derive(Debug)]
struct ScheduledPort {
    port: LldpPort,
    /// Time at which the port must be served next, in nanoseconds.
    due_ns: u64,
    /// Priorities with PFC that the data plane uses instead of those of the configuration.
    applied_pfc: Option<u8>,
    /// Traffic classes that the data plane uses instead of the schedulers of the configuration.
    applied_ets: Option<EtsTables>,
}

/// The LLDP agent of a switch. It has no clock and does no I/O: [`CpuPort`](crate::CpuPort) serves its ports.
#[derive(Debug, Default)]
pub struct LldpAgent {
    /// Indexed by port. `None` for ports without LLDP.
    ports: Vec<Option<Box<ScheduledPort>>>,
    /// Time and index of each port with LLDP.
    schedule: BTreeSet<(u64, u16)>,
}

impl LldpAgent {
    /// Returns the agent of a port. Returns `None` if the port has no LLDP.
    pub fn port(&self, port: PortId) -> Option<&LldpPort> {
        Some(&self.ports.get(port.index())?.as_ref()?.port)
    }

    /// Returns the port numbers of all ports with LLDP and their agents.
    pub fn ports(&self) -> impl Iterator<Item = (PortId, &LldpPort)> {
        let ports = self.ports.iter().enumerate();
        ports.filter_map(|(index, port)| Some((PortId(index as u16), &port.as_ref()?.port)))
    }

    /// Applies a configuration. All ports must be served at `now`. Returns the frames that tell the neighbours of
    /// ports without LLDP that their information has ended.
    pub(crate) fn configure(&mut self, now: Picos, config: &LldpConfig) -> Vec<(PortId, Vec<u8>)> {
        let mut shutdowns = Vec::new();
        self.ports.resize_with(config.ports.len(), || None);
        for (index, settings) in config.ports.iter().enumerate() {
            let number = PortId(index as u16);
            let known = &mut self.ports[index];
            match (known.as_mut(), settings) {
                (Some(known), Some(settings)) => known.port.set_settings(now.as_nanos(), settings.clone()),
                (None, Some(settings)) => {
                    self.schedule.insert((NEVER_NS, index as u16));
                    *known = Some(Box::new(ScheduledPort {
                        port: LldpPort::new(settings.clone()),
                        due_ns: NEVER_NS,
                        applied_pfc: None,
                        applied_ets: None,
                    }));
                }
                (Some(old), None) => {
                    shutdowns.extend(old.port.shutdown_frame().map(|frame| (number, frame)));
                    self.schedule.remove(&(old.due_ns, index as u16));
                    *known = None;
                }
                (None, None) => {}
            }
        }
        self.make_all_due(now);
        shutdowns
    }

    /// Lets all ports be served at `now`.
    pub(crate) fn make_all_due(&mut self, now: Picos) {
        for index in 0..self.ports.len() as u16 {
            self.schedule_port(index, now.as_nanos());
        }
    }

    fn schedule_port(&mut self, index: u16, due_ns: u64) {
        if let Some(Some(port)) = self.ports.get_mut(usize::from(index)) {
            self.schedule.remove(&(port.due_ns, index));
            port.due_ns = due_ns;
            self.schedule.insert((due_ns, index));
        }
    }

    /// Processes a frame to a reserved group address. The port must then be served. Returns false for other frames
    /// than LLDP frames.
    pub(crate) fn receive(&mut self, now: Picos, from: PortId, frame: &[u8]) -> bool {
        if frame.get(12..14) != Some(&ETHERTYPE.to_be_bytes()) {
            return false;
        }
        if let Some(Some(port)) = self.ports.get_mut(from.index()) {
            port.port.receive(now.as_nanos(), frame);
            self.schedule_port(from.0, now.as_nanos());
        }
        true
    }

    /// Returns the next port that must be served at `now`, and lets it wait for its next deadline. The caller sends
    /// the frames of the port and reads its events. `is_up` tells whether a port is up.
    pub(crate) fn serve_next(
        &mut self,
        now: Picos,
        is_up: impl Fn(PortId) -> bool,
    ) -> Option<(PortId, ServedPort)> {
        let &(due_ns, index) = self.schedule.first()?;
        if due_ns > now.as_nanos() {
            return None;
        }
        let id = PortId(index);
        let scheduled = self.ports[id.index()].as_mut()?;
        let port = &mut scheduled.port;
        let now_ns = now.as_nanos();
        port.set_link(now_ns, is_up(id));
        port.advance(now_ns);
        let mut served = ServedPort::default();
        served
            .frames
            .extend(std::iter::from_fn(|| port.poll_frame(now_ns)));
        served.events.extend(std::iter::from_fn(|| port.poll_event()));
        let (pfc, ets) = negotiated_settings(port);
        if pfc != scheduled.applied_pfc {
            scheduled.applied_pfc = pfc;
            served.changed_pfc = Some(pfc);
        }
        if ets != scheduled.applied_ets {
            scheduled.applied_ets = ets;
            served.changed_ets = Some(ets);
        }
        let next_ns = port.next_deadline_ns();
        self.schedule_port(index, next_ns);
        Some((id, served))
    }

    /// Returns the time at which a port must be served next, or [`Picos::NEVER`].
    pub(crate) fn next_deadline(&self) -> Picos {
        match self.schedule.first() {
            Some(&(due_ns, _)) if due_ns != NEVER_NS => Picos::from_nanos(due_ns),
            _ => Picos::NEVER,
        }
    }

    /// Returns the ports whose PFC or ETS is negotiated, and the frames that end the information of all ports.
    pub(crate) fn shut_down(self) -> (Vec<PortId>, Vec<(PortId, Vec<u8>)>) {
        let numbered = || self.ports.iter().enumerate();
        let ports = || numbered().filter_map(|(index, port)| Some((PortId(index as u16), port.as_ref()?)));
        let negotiated = ports().filter(|(_, port)| port.applied_pfc.is_some() || port.applied_ets.is_some());
        let frames = ports().filter_map(|(id, port)| Some((id, port.port.shutdown_frame()?)));
        (negotiated.map(|(id, _)| id).collect(), frames.collect())
    }
}

/// Returns the priorities with PFC and the traffic classes that the data plane uses instead of the configuration.
fn negotiated_settings(port: &LldpPort) -> (Option<u8>, Option<EtsTables>) {
    let Some((configured, operational)) = port.settings().dcbx.as_ref().zip(port.operational()) else {
        return (None, None);
    };
    (
        configured.pfc.is_willing.then_some(operational.pfc_enabled),
        (operational.ets_source == ConfigurationSource::Peer).then_some(operational.ets),
    )
}

/// What a served port wants from the data plane.
#[derive(Debug, Default)]
pub(crate) struct ServedPort {
    /// Frames to send.
    pub(crate) frames: Vec<Vec<u8>>,
    pub(crate) events: Vec<xoff_wire::lldp_port::LldpEvent>,
    /// The priorities with PFC that the data plane should use, if they have changed.
    pub(crate) changed_pfc: Option<Option<u8>>,
    /// The traffic classes that the data plane should use, if they have changed.
    pub(crate) changed_ets: Option<Option<EtsTables>>,
}
