//! What can be read of a fabric between two runs.

use xoff_dataplane::config::{PortWatchdog, SwitchConfig, WatchdogAction};
use xoff_dataplane::{Picos, Switch};

use super::{Fabric, is_arrival};
use crate::plan::End;
use xoff_driver::snapshot::{PortFacts, snapshot};
use xoff_host::Host;
use xoff_telemetry::SwitchSnapshot;

/// What can be read between two runs.
impl Fabric {
    /// Model time: that of the latest event, or the time until which it ran.
    pub fn now(&self) -> Picos {
        self.now
    }

    /// When something happens next; `None`: never, by itself.
    pub fn next_event(&self) -> Option<Picos> {
        self.pending.earliest()
    }

    /// A switch, by its index in the plan.
    pub fn switch(&self, switch: usize) -> &Switch {
        &self.switches[switch].switch
    }

    /// What a switch was told to be.
    pub fn switch_config(&self, switch: usize) -> &SwitchConfig {
        &self.switches[switch].config
    }

    /// A copy of a switch's state.
    pub fn snapshot(&self, switch: usize) -> SwitchSnapshot {
        let node = &self.switches[switch];
        let facts = vec![PortFacts::default(); node.config.ports.len()];
        snapshot(&node.switch, &node.journal, |_| 0, &node.config, &facts, self.now)
    }

    /// How long it may take until a watchdog does something about a queue that stands; zero where none would.
    pub fn watchdog_patience(&self) -> Picos {
        let acts = |port: &PortWatchdog| port.queues != 0 && port.action != WatchdogAction::Alert;
        let longest = |config: &SwitchConfig| {
            let watched = config.ports.iter().filter_map(|port| port.watchdog);
            let detection = watched.filter(acts).map(|watchdog| watchdog.detection).max();
            // Up to a poll until it is declared, and another one for what has to come about.
            detection.map(|detection| detection.saturating_add(Picos(2 * config.watchdog.poll.0)))
        };
        let switches = self.switches.iter().filter_map(|node| longest(&node.config));
        switches.max().unwrap_or(Picos::ZERO)
    }

    /// How many switches there are.
    pub fn switch_count(&self) -> usize {
        self.switches.len()
    }

    /// A host, by its index in the plan.
    pub fn host(&self, host: usize) -> &Host {
        &self.hosts[host].host
    }

    /// How many hosts there are.
    pub fn host_count(&self) -> usize {
        self.hosts.len()
    }

    /// Where the other end of `end`'s link is.
    pub fn peer(&self, end: End) -> Option<End> {
        self.wire_from(end).map(|index| self.wires[index].to)
    }

    /// Frames that a link lost, in both directions: it went down, or a fault took them.
    pub fn lost_frames(&self, link: usize) -> u64 {
        let wires = self.wires.get(2 * link..2 * link + 2).unwrap_or_default();
        wires.iter().map(|wire| wire.lost_frames).sum()
    }

    /// Whether a link is up.
    pub fn link_up(&self, link: usize) -> bool {
        self.wires.get(2 * link).is_some_and(|wire| wire.up)
    }

    /// Frames that have left their sender and not arrived yet.
    pub fn frames_on_wires(&self) -> usize {
        self.pending.iter().filter(|event| is_arrival(*event)).count()
    }

    /// Frames anywhere: on wires and in switches.
    pub fn frames_under_way(&self) -> usize {
        self.store.in_use()
    }

    /// Most frames that were under way at once.
    pub fn frames_under_way_max(&self) -> usize {
        self.store.in_use_max()
    }

    /// Frames that have arrived anywhere, MAC control frames not counted: whether anything moves.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// Frames in the queues of switches.
    pub fn frames_queued(&self) -> usize {
        self.switches.iter().map(|node| node.switch.frames_queued()).sum()
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Events that are pending.
    pub fn events_pending(&self) -> usize {
        self.pending.len()
    }

    /// Frames that have arrived at the end of a link, counted at each link they passed.
    pub fn frame_hops(&self) -> u64 {
        self.frame_hops
    }
}
