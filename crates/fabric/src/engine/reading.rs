//! Methods that read the state of a fabric between two runs.

use xoff_dataplane::config::{PortWatchdog, SwitchConfig, WatchdogAction};
use xoff_dataplane::{Picos, Switch};

use super::layout::NodeIndex;
use super::shard::{HostNode, ShardCounters, SwitchNode};
use super::{Fabric, is_arrival};
use crate::link_direction::LinkDirection;
use crate::plan::LinkEnd;
use xoff_driver::snapshot::{PortDeviceInfo, take_snapshot};
use xoff_driver::with_lldp_report;
use xoff_host::Host;
use xoff_telemetry::{MemberReport, SwitchSnapshot};

/// State that can be read between two runs.
impl Fabric {
    /// Returns the model time: the time of the last event or the end of the last run.
    pub fn now(&self) -> Picos {
        self.now
    }

    /// Returns the time of the next event. Returns `None` if no event is pending.
    pub fn next_event(&self) -> Option<Picos> {
        let earliest = self.shards.iter().filter_map(|shard| shard.pending.earliest());
        earliest.min()
    }

    fn switch_node(&self, switch: usize) -> &SwitchNode {
        let NodeIndex { shard, local } = self.layout.switches[switch];
        &self.shards[shard as usize].switches[local as usize]
    }

    fn host_node(&self, host: usize) -> &HostNode {
        let NodeIndex { shard, local } = self.layout.hosts[host];
        &self.shards[shard as usize].hosts[local as usize]
    }

    fn direction(&self, number: usize) -> Option<&LinkDirection> {
        let NodeIndex { shard, local } = *self.layout.directions.get(number)?;
        self.shards[shard as usize].directions.get(local as usize)
    }

    /// Returns the sum of a counter over all shards.
    fn sum(&self, counter: impl Fn(&ShardCounters) -> u64) -> u64 {
        self.shards.iter().map(|shard| counter(&shard.counters)).sum()
    }

    /// Returns a switch by its index in the plan.
    pub fn switch(&self, switch: usize) -> &Switch {
        &self.switch_node(switch).switch
    }

    /// Returns the current configuration of a switch.
    pub fn switch_config(&self, switch: usize) -> &SwitchConfig {
        &self.switch_node(switch).config
    }

    /// Returns the counters and the state of a switch at the current time.
    pub fn snapshot(&self, switch: usize) -> SwitchSnapshot {
        let node = self.switch_node(switch);
        let facts = vec![PortDeviceInfo::default(); node.config.ports.len()];
        let counters = |port| self.port_counters(switch, port);
        let mut snapshot = take_snapshot(
            &node.switch,
            &node.journal,
            counters,
            |_| 0,
            &node.config,
            &facts,
            self.now,
        );
        if self.skipped_time() == Picos::ZERO {
            return with_lldp_report(snapshot, node.cpu.lldp(), &node.config, self.now);
        }
        snapshot.report.model_time_ns = self.result_now().as_nanos();
        for port in &mut snapshot.report.ports {
            for (priority, history) in port.pause_history.iter_mut().enumerate() {
                history.transitions = port.pfc_on2off_rx[priority];
                history.total_pause_ns = port.paused_ns[priority];
                let latest = history.recent_pause_at_ns.map(Picos::from_nanos);
                history.recent_pause_at_ns = latest.map(|at| self.result_time(at).as_nanos());
            }
        }
        let result_ns = |ns: u64| self.result_time(Picos::from_nanos(ns)).as_nanos();
        for storm in snapshot
            .report
            .pfc_watchdog
            .iter_mut()
            .flat_map(|report| &mut report.storms)
        {
            storm.detected_ns = result_ns(storm.detected_ns);
            storm.restored_ns = storm.restored_ns.map(result_ns);
        }
        let tx_bytes = |name: &String| {
            let port = snapshot.report.ports.iter().find(|port| port.name == *name);
            port.map_or(0, |port| port.tx_bytes)
        };
        for group in &mut snapshot.balancing.groups {
            let members = group.members.iter().map(|member| MemberReport {
                tx_bytes: member.ports.iter().map(tx_bytes).sum(),
                ..member.clone()
            });
            group.members = members.collect();
        }
        for flow_move in &mut snapshot.balancing.moves {
            flow_move.at = self.result_time(flow_move.at);
        }
        with_lldp_report(snapshot, node.cpu.lldp(), &node.config, self.now)
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
        let switches = self.shards.iter().flat_map(|shard| &shard.switches);
        let switches = switches.filter_map(|node| longest(&node.config));
        switches.max().unwrap_or(Picos::ZERO)
    }

    /// Returns the number of switches.
    pub fn switch_count(&self) -> usize {
        self.layout.switches.len()
    }

    /// Returns a host by its index in the plan.
    pub fn host(&self, host: usize) -> &Host {
        &self.host_node(host).host
    }

    /// Returns the number of hosts.
    pub fn host_count(&self) -> usize {
        self.layout.hosts.len()
    }

    /// Returns the other end of the link at `end`. Returns `None` if `end` has no link.
    pub fn peer(&self, end: LinkEnd) -> Option<LinkEnd> {
        let NodeIndex { shard, local } = self.direction_from(end)?;
        let number = self.shards[shard as usize].directions[local as usize].number;
        let receiver = self.receivers[number as usize];
        Some(self.shards[receiver.shard as usize].end_in_plan(receiver.to))
    }

    /// Returns the number of frames that a link has lost in both directions. Frames are lost by faults and
    /// when the link goes down. Returns 0 if the index `link` is out of range.
    pub fn lost_frames(&self, link: usize) -> u64 {
        let directions = [2 * link, 2 * link + 1].map(|number| self.direction(number));
        directions
            .iter()
            .flatten()
            .map(|direction| direction.lost_frames)
            .sum()
    }

    /// Returns the number of ports of all switches.
    pub(crate) fn port_count(&self) -> usize {
        let switches = self.shards.iter().flat_map(|shard| &shard.switches);
        switches.map(|node| node.switch.port_count()).sum()
    }

    /// Returns whether a link direction has a fault ([`Fabric::add_fault`]).
    pub(crate) fn has_faults(&self) -> bool {
        let directions = self.shards.iter().flat_map(|shard| &shard.directions);
        directions
            .into_iter()
            .any(|direction| !direction.faults.is_empty())
    }

    /// Returns whether a link is up. Returns `false` if the index `link` is out of range.
    pub fn is_link_up(&self, link: usize) -> bool {
        self.direction(2 * link).is_some_and(|direction| direction.up)
    }

    /// Returns the number of frames that have left their sender and have not arrived yet.
    pub fn frames_on_links(&self) -> usize {
        let events = self.shards.iter().flat_map(|shard| shard.pending.iter());
        events.filter(|event| is_arrival(*event)).count()
    }

    /// Returns the number of frames on links and in switches.
    pub fn frames_in_flight(&self) -> usize {
        self.in_flight
            .count(self.shards.iter().map(|shard| &shard.store.changes))
    }

    /// Returns the peak of [`Fabric::frames_in_flight`] since the start. The value can be slightly too high,
    /// at most by the number of frames that leave the fabric within a few nanoseconds.
    pub fn frames_in_flight_max(&self) -> usize {
        self.in_flight
            .peak(self.shards.iter().map(|shard| &shard.store.changes))
    }

    /// Returns the number of frame arrivals at switches and hosts, without MAC control frames. A frame counts
    /// once for each link. If the number grows, the run makes progress.
    pub fn frames_moved(&self) -> u64 {
        self.sum(|counters| counters.moves)
    }

    /// Returns the number of frames in the queues of all switches. Each copy of a flooded frame counts.
    pub fn frames_queued(&self) -> usize {
        let switches = self.shards.iter().flat_map(|shard| &shard.switches);
        switches.map(|node| node.switch.queued_frames()).sum()
    }

    /// Returns the number of events that the fabric has processed since its creation.
    pub fn events(&self) -> u64 {
        self.sum(|counters| counters.events)
    }

    /// Returns the number of events that are scheduled and not processed yet.
    pub fn events_pending(&self) -> usize {
        self.shards.iter().map(|shard| shard.pending.len()).sum()
    }

    /// Returns the number of frame arrivals at switches and hosts, including MAC control frames. A frame
    /// counts once for each link.
    pub fn frame_hops(&self) -> u64 {
        self.sum(|counters| counters.frame_hops)
    }

    /// Returns the number of threads that process the fabric during a run, at least 1.
    pub fn thread_count(&self) -> usize {
        self.shards.len()
    }

    /// Returns the number of events that each thread has processed. The first entry is the thread that calls
    /// [`Fabric::run`].
    pub fn events_of_threads(&self) -> Vec<u64> {
        self.shards.iter().map(|shard| shard.counters.events).collect()
    }

    /// Returns the number of time windows in which partitions ran separately, and the number of those in which one
    /// thread processed all hosts because a completion could change any host. Both are 0 in a run in one order.
    pub fn windows(&self) -> (u64, u64) {
        (self.windows, self.joint_windows)
    }

    /// Returns [`Fabric::delivered_payload_bytes`] without skipped steps.
    pub(crate) fn simulated_payload_bytes(&self) -> u64 {
        self.sum(|counters| counters.delivered_payload_bytes)
    }
}
