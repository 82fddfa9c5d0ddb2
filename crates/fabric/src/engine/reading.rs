//! Methods that read the state of a fabric between two runs.

use xoff_dataplane::config::{PortWatchdog, SwitchConfig, WatchdogAction};
use xoff_dataplane::{Picos, Switch};

use super::{Fabric, is_arrival};
use crate::plan::LinkEnd;
use xoff_driver::snapshot::{PortDeviceInfo, take_snapshot};
use xoff_host::Host;
use xoff_telemetry::SwitchSnapshot;

/// State that can be read between two runs.
impl Fabric {
    /// Returns the model time: the time of the last event or the end of the last run.
    pub fn now(&self) -> Picos {
        self.now
    }

    /// Returns the time of the next event. Returns `None` if no event is pending.
    pub fn next_event(&self) -> Option<Picos> {
        self.pending.earliest()
    }

    /// Returns a switch by its index in the plan.
    pub fn switch(&self, switch: usize) -> &Switch {
        &self.switches[switch].switch
    }

    /// Returns the current configuration of a switch.
    pub fn switch_config(&self, switch: usize) -> &SwitchConfig {
        &self.switches[switch].config
    }

    /// Returns the counters and the state of a switch at the current time.
    pub fn snapshot(&self, switch: usize) -> SwitchSnapshot {
        let node = &self.switches[switch];
        let facts = vec![PortDeviceInfo::default(); node.config.ports.len()];
        take_snapshot(&node.switch, &node.journal, |_| 0, &node.config, &facts, self.now)
    }

    /// Returns the longest time until a PFC watchdog drops or forwards the frames of a blocked queue. Returns
    /// 0 if no watchdog drops or forwards frames, for example if the action of all watchdogs is `alert`.
    pub fn watchdog_reaction_time(&self) -> Picos {
        let acts = |port: &PortWatchdog| port.queues != 0 && port.action != WatchdogAction::Alert;
        let longest = |config: &SwitchConfig| {
            let watched = config.ports.iter().filter_map(|port| port.watchdog);
            let detection = watched.filter(acts).map(|watchdog| watchdog.detection).max();
            // Up to one poll until the detection, and a second one for its effect.
            detection.map(|detection| detection.saturating_add(Picos(2 * config.watchdog.poll.0)))
        };
        let switches = self.switches.iter().filter_map(|node| longest(&node.config));
        switches.max().unwrap_or(Picos::ZERO)
    }

    /// Returns the number of switches.
    pub fn switch_count(&self) -> usize {
        self.switches.len()
    }

    /// Returns a host by its index in the plan.
    pub fn host(&self, host: usize) -> &Host {
        &self.hosts[host].host
    }

    /// Returns the number of hosts.
    pub fn host_count(&self) -> usize {
        self.hosts.len()
    }

    /// Returns the other end of the link at `end`. Returns `None` if `end` has no link.
    pub fn peer(&self, end: LinkEnd) -> Option<LinkEnd> {
        self.direction_from(end).map(|index| self.directions[index].to)
    }

    /// Returns the number of frames that a link has lost in both directions. Frames are lost by faults and
    /// when the link goes down. Returns 0 if the index `link` is out of range.
    pub fn lost_frames(&self, link: usize) -> u64 {
        let directions = self.directions.get(2 * link..2 * link + 2).unwrap_or_default();
        directions.iter().map(|direction| direction.lost_frames).sum()
    }

    /// Returns whether a link is up. Returns `false` if the index `link` is out of range.
    pub fn is_link_up(&self, link: usize) -> bool {
        self.directions
            .get(2 * link)
            .is_some_and(|direction| direction.up)
    }

    /// Returns the number of frames that have left their sender and have not arrived yet.
    pub fn frames_on_links(&self) -> usize {
        self.pending.iter().filter(|event| is_arrival(*event)).count()
    }

    /// Returns the number of frames on links and in switches.
    pub fn frames_in_flight(&self) -> usize {
        self.store.in_use()
    }

    /// Returns the peak of [`Fabric::frames_in_flight`] since the start. The value can be slightly too high,
    /// at most by the number of frames that leave the fabric within a few nanoseconds.
    pub fn frames_in_flight_max(&self) -> usize {
        self.store.in_use_max()
    }

    /// Returns the number of frame arrivals at switches and hosts, without MAC control frames. A frame counts
    /// once for each link. If the number grows, the run makes progress.
    pub fn frames_moved(&self) -> u64 {
        self.moves
    }

    /// Returns the number of frames in the queues of all switches. Each copy of a flooded frame counts.
    pub fn frames_queued(&self) -> usize {
        self.switches.iter().map(|node| node.switch.queued_frames()).sum()
    }

    /// Returns the number of events that the fabric has processed since its creation.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the number of events that are scheduled and not processed yet.
    pub fn events_pending(&self) -> usize {
        self.pending.len()
    }

    /// Returns the number of frame arrivals at switches and hosts, including MAC control frames. A frame
    /// counts once for each link.
    pub fn frame_hops(&self) -> u64 {
        self.frame_hops
    }

    /// Returns the number of time windows in which partitions ran separately, and the number of those in which all
    /// hosts formed one partition because a completion could change any host. Both are 0 in a run in one order.
    pub fn windows(&self) -> (u64, u64) {
        (self.windows, self.joint_windows)
    }

    /// Returns the bytes after the headers of all packets of queue pairs that have arrived at hosts: the payload, its
    /// padding, and 4 bytes of ICRC for each packet. Retransmitted packets count each time. Frames of open-loop flows
    /// do not count.
    pub fn delivered_payload_bytes(&self) -> u64 {
        self.delivered_payload_bytes
    }
}
