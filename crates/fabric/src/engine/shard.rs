//! A shard of a fabric: the switches, hosts and links of one thread, and the processing of their events.

use std::sync::Arc;

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::route::RouteHint;
use xoff_dataplane::{
    ForwardingResult, FrameHandle, FrameStore, Outputs, Picos, PortId, ReceivedFrame, Switch, TimerId,
    Transmit,
};
use xoff_driver::CpuPort;
use xoff_driver::journal::Journal;
use xoff_host::Host;
use xoff_rdma::HopTelemetry;
use xoff_wire::parse::ParsedHeaders;

use super::mail::{MailedFrame, Outbox};
use super::{HOST_FLAG, HOST_INDEX_MASK, HOST_TIMER_FLAG, LINK_FREE_FLAG, SWITCH_FLAG, TIMER_BITS};
use crate::event_queue::Event;
use crate::fault::FaultAction;
use crate::link_direction::LinkDirection;
use crate::observation::EventRecords;
use crate::observer::{FrameView, HostEventCounts, ObservedEvents, Observer};
use crate::partitions::Partitions;
use crate::pending::PendingEvents;
use crate::plan::LinkEnd;
use crate::store::FabricStore;

#[derive(Debug)]
#[repr(C)] // the fields that each frame uses come first
pub(super) struct SwitchNode {
    /// Index in [`Shard::directions`] of the direction out of each port, or [`NO_LINK`](super::NO_LINK).
    pub(super) directions: Vec<u32>,
    /// Index of the switch in the plan.
    pub(super) number: u32,
    pub(super) switch: Switch,
    pub(super) cpu: CpuPort,
    pub(super) journal: Journal,
    pub(super) config: Arc<SwitchConfig>,
}

#[derive(Debug)]
#[repr(C)] // the fields that each frame uses come first
pub(super) struct HostNode {
    /// Index of the host in the plan.
    pub(super) number: u32,
    /// Index in [`Shard::directions`], or [`NO_LINK`](super::NO_LINK).
    pub(super) direction: u32,
    /// Time at which this host has something to do.
    pub(super) armed: Picos,
    /// Times of up to two pending events of this host, the earlier one first, or [`Picos::NEVER`]. If
    /// [`HostNode::armed`] is earlier than both, another event is pending at that time. If `armed` is later, one of
    /// these events adds an event at `armed`. Most timeouts never expire: without this field, each message would leave
    /// an outdated event. Not used if events are ordered by insertion.
    pub(super) pending_at: [Picos; 2],
    /// True while a frame occupies the link. Used only if events are ordered by insertion.
    pub(super) busy: bool,
    /// True if the host is in [`Shard::completing_hosts`].
    pub(super) is_completing: bool,
    /// Time of the earliest timer event. If events are ordered by insertion, timers and departures are
    /// separate events. In all other runs, this field is not used.
    pub(super) timer_armed: Picos,
    pub(super) host: Host,
    /// Counters at the last report to an observer.
    pub(super) reported_counts: HostEventCounts,
}

/// Receiving end of a link direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receiver {
    /// The receiving end. The index of the switch or host is the one in its shard.
    pub(super) to: LinkEnd,
    /// Shard of the receiving end.
    pub(super) shard: u32,
    /// Partition of the receiving end in its shard.
    pub(super) partition: u32,
}

/// Numbers of what a shard has processed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShardCounters {
    pub(super) events: u64,
    pub(super) frame_hops: u64,
    /// See [`Fabric::delivered_payload_bytes`](super::Fabric::delivered_payload_bytes).
    pub(super) delivered_payload_bytes: u64,
    pub(super) moves: u64,
}

/// A part of a fabric. During a window, a shard accesses no other shard.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) number: u32,
    pub(super) now: Picos,
    pub(super) pending: PendingEvents,
    pub(super) partitions: Partitions,
    /// Receiving ends of all directions of the fabric.
    pub(super) receivers: Arc<[Receiver]>,
    pub(super) switches: Vec<SwitchNode>,
    /// Number of switches that are linked only to nodes of this shard. They come first in `switches`.
    pub(super) inner_switches: u32,
    pub(super) hosts: Vec<HostNode>,
    /// Positions in [`Shard::hosts`] of the hosts that have completions, in the order of their first completion. Each
    /// position occurs once.
    pub(super) completing_hosts: Vec<u32>,
    /// Link directions that begin in this shard.
    pub(super) directions: Vec<LinkDirection>,
    pub(super) store: FabricStore,
    pub(super) outputs: Outputs,
    pub(super) buffer: Vec<u8>,
    pub(super) counters: ShardCounters,
    /// Events that the observer of the current run wants to see.
    pub(super) observed: ObservedEvents,
    /// Events of the current window for the observer.
    pub(super) records: EventRecords,
    /// Frames for each other shard.
    pub(super) outboxes: Vec<Outbox>,
    /// Frames from each other shard.
    pub(super) inboxes: Vec<Vec<MailedFrame>>,
    /// Earliest arrival of the frames in `inboxes`, or [`Picos::NEVER`].
    pub(super) first_mail: Picos,
    /// Partitions that have events in the current window.
    pub(super) due_partitions: Vec<u32>,
    /// Buffer for partitions that are added to `due_partitions`.
    pub(super) added_partitions: Vec<u32>,
    /// Number of the latest inserted event if events are ordered by insertion, and `None` otherwise.
    pub(super) insertions: Option<u32>,
}

impl Shard {
    /// Sets the time at which the next events are processed.
    #[inline]
    pub(super) fn set_time(&mut self, at: Picos) {
        self.now = at;
        self.store.changes.set_time(at);
    }

    /// Returns a link end with the index that its node has in the plan. `end` has the index in this shard.
    pub(super) fn end_in_plan(&self, end: LinkEnd) -> LinkEnd {
        match end {
            LinkEnd::Switch { switch, port } => LinkEnd::Switch {
                switch: self.switches[switch as usize].number,
                port,
            },
            LinkEnd::Host(host) => LinkEnd::Host(self.hosts[host as usize].number),
        }
    }

    /// Returns the rank of an event that is inserted now. The rank orders events of equal time.
    #[inline]
    fn next_rank(&mut self, source: u32) -> u32 {
        match &mut self.insertions {
            None => source,
            Some(last) => {
                *last = last.wrapping_add(1);
                *last
            }
        }
    }

    /// Adds a timer event. `rank_source` contains the number of the node in the plan, and `local_source` its index in
    /// this shard.
    #[inline]
    pub(super) fn push_timer(&mut self, partition: usize, at: Picos, rank_source: u32, local_source: u32) {
        let rank = self.next_rank(rank_source);
        self.pending.push(partition, Event::new(at, rank, local_source));
    }

    /// Processes an event. Returns whether a host has a completion.
    #[inline(always)]
    pub(super) fn process_event(
        &mut self,
        event: Event,
        route_hint: RouteHint,
        observer: &mut dyn Observer,
    ) -> bool {
        self.counters.events += 1;
        let source = event.payload();
        if source & SWITCH_FLAG != 0 {
            let switch = ((source & !SWITCH_FLAG) >> TIMER_BITS) as usize;
            let timer = TimerId(source & ((1 << TIMER_BITS) - 1));
            let node = &mut self.switches[switch];
            node.switch
                .expire(self.now, timer, &mut self.store, &mut self.outputs);
            self.process_outputs(switch, observer);
            false
        } else if source & HOST_FLAG != 0 {
            let host = (source & HOST_INDEX_MASK) as usize;
            let has_completions = if source & LINK_FREE_FLAG != 0 {
                self.hosts[host].busy = false;
                self.serve_host(host, false, observer)
            } else if source & HOST_TIMER_FLAG != 0 {
                self.process_host_timer(host, observer)
            } else {
                self.process_host_departure(host, observer)
            };
            self.record_completing(host, has_completions)
        } else {
            let direction = direction_of(event, self.insertions.is_some(), &self.store);
            self.process_arrival(direction, FrameHandle(source), route_hint, observer)
        }
    }

    /// Processes the arrival of a frame at the end of a link. Returns whether a host has a completion.
    #[inline(always)]
    fn process_arrival(
        &mut self,
        direction: u32,
        frame: FrameHandle,
        route_hint: RouteHint,
        observer: &mut dyn Observer,
    ) -> bool {
        let to = self.receivers[direction as usize].to;
        self.counters.frame_hops += 1;
        if self.observed.frames {
            observer.frame_arrived(self.now, self.end_in_plan(to), frame_view(&self.store, frame));
        }
        match to {
            LinkEnd::Switch { switch, port } => {
                self.process_switch_arrival((switch as usize, PortId(port)), frame, route_hint, observer);
                false
            }
            LinkEnd::Host(host) => {
                let has_completions = self.process_host_arrival(host as usize, frame, observer);
                self.record_completing(host as usize, has_completions)
            }
        }
    }

    /// Adds a host with completions to the list of completing hosts. Returns `has_completions`.
    #[inline(always)]
    pub(super) fn record_completing(&mut self, host: usize, has_completions: bool) -> bool {
        if has_completions {
            self.list_completing_host(host);
        }
        has_completions
    }

    #[inline(never)]
    fn list_completing_host(&mut self, host: usize) {
        if !std::mem::replace(&mut self.hosts[host].is_completing, true) {
            self.completing_hosts.push(host as u32);
        }
    }

    #[inline]
    fn process_switch_arrival(
        &mut self,
        at: (usize, PortId),
        frame: FrameHandle,
        route_hint: RouteHint,
        observer: &mut dyn Observer,
    ) {
        match self.store.known_headers(frame) {
            Some(parsed) => self.admit_to_switch(at, (frame, parsed), route_hint, observer),
            None => self.parse_and_admit_to_switch(at, frame, route_hint, observer),
        }
    }

    /// Parses the headers of a frame and passes the frame to the switch. If this code were inlined, the
    /// compiler would copy the headers through memory.
    #[inline(never)]
    fn parse_and_admit_to_switch(
        &mut self,
        at: (usize, PortId),
        frame: FrameHandle,
        route_hint: RouteHint,
        observer: &mut dyn Observer,
    ) {
        let parsed = self.store.parsed(frame);
        self.admit_to_switch(at, (frame, parsed), route_hint, observer);
    }

    #[inline(always)]
    fn admit_to_switch(
        &mut self,
        (switch, port): (usize, PortId),
        (frame, parsed): (FrameHandle, ParsedHeaders),
        route_hint: RouteHint,
        observer: &mut dyn Observer,
    ) {
        let arrival = ReceivedFrame {
            frame,
            frame_len: self.store.frame_len(frame),
            parsed,
            received_at: self.now,
        };
        let node = &mut self.switches[switch];
        let verdict = node.switch.receive_with_route_hint(
            self.now,
            port,
            &arrival,
            route_hint,
            &mut self.store,
            &mut self.outputs,
        );
        self.counters.moves += u64::from(!matches!(verdict, ForwardingResult::Control));
        if self.observed.marks {
            for port in node.switch.ports_marking_ce_on_arrival() {
                let port = LinkEnd::Switch {
                    switch: node.number,
                    port: port.0,
                };
                observer.frame_marked(self.now, port);
            }
        }
        if self.observed.admissions {
            observer.admission_decided(self.now, node.number, port, &verdict);
        }
        self.process_outputs(switch, observer);
    }

    /// Processes the outputs of a switch: timers, departing frames, events and frames for its CPU.
    #[inline(always)]
    pub(super) fn process_outputs(&mut self, switch: usize, observer: &mut dyn Observer) {
        self.forward_outputs(switch, observer);
        if self.outputs.punts.is_empty() {
            return;
        }
        self.serve_cpu(switch, observer);
    }

    #[inline(always)]
    fn forward_outputs(&mut self, switch: usize, observer: &mut dyn Observer) {
        let number = self.switches[switch].number;
        for index in 0..self.outputs.deadlines.len() {
            let deadline = self.outputs.deadlines[index];
            self.push_timer(
                self.partitions.switch_partition(switch),
                deadline.at,
                SWITCH_FLAG | number << TIMER_BITS | deadline.timer.0,
                SWITCH_FLAG | (switch as u32) << TIMER_BITS | deadline.timer.0,
            );
        }
        self.outputs.deadlines.clear();
        for index in 0..self.outputs.transmits.len() {
            let departure = self.outputs.transmits[index];
            let direction = self.switches[switch].directions[departure.port.index()];
            if self.store.has_telemetry()
                && let Some(telemetry) = self.store.telemetry_mut(departure.frame)
            {
                let node = &self.switches[switch];
                telemetry.push(hop_telemetry(&node.switch, &node.config, departure));
            }
            if departure.marked && self.observed.marks {
                let from = LinkEnd::Switch {
                    switch: number,
                    port: departure.port.0,
                };
                observer.frame_marked(self.now, from);
            }
            self.start_transmission(direction, departure.end, departure.frame, observer);
        }
        self.outputs.transmits.clear();
        if !self.outputs.events.is_empty() {
            self.report_events(switch, observer);
        }
    }

    #[cold]
    fn report_events(&mut self, switch: usize, observer: &mut dyn Observer) {
        let node = &mut self.switches[switch];
        if self.observed.reports {
            for event in &self.outputs.events {
                observer.switch_event(node.number, event);
            }
        }
        node.journal.record_events(&mut self.outputs.events, &node.switch);
    }

    #[cold]
    fn serve_cpu(&mut self, switch: usize, observer: &mut dyn Observer) {
        let mut cpu = std::mem::take(&mut self.switches[switch].cpu);
        let mut outputs = std::mem::take(&mut self.outputs);
        let mut store = std::mem::take(&mut self.store);
        cpu.take_punts(&mut outputs);
        let mut behind = Outputs::default();
        // The CPU port sends frames through the switch. The CPU port, the outputs and the frame store are
        // therefore moved out of the shard for this time.
        let Shard { switches, now, .. } = self;
        cpu.answer_punts(
            *now,
            &mut switches[switch].switch,
            &mut outputs,
            &mut store,
            |outputs, _| {
                behind.transmits.append(&mut outputs.transmits);
                behind.deadlines.append(&mut outputs.deadlines);
            },
        );
        (self.store, self.outputs) = (store, outputs);
        self.outputs.transmits.append(&mut behind.transmits);
        self.outputs.deadlines.append(&mut behind.deadlines);
        self.switches[switch].cpu = cpu;
        self.forward_outputs(switch, observer);
    }

    /// Starts the transmission of a frame. `index` is the position of the link direction in this shard. The frame is
    /// lost if no link exists, if the link is down or if a fault drops it.
    #[inline(always)]
    pub(super) fn start_transmission(
        &mut self,
        index: u32,
        end: Picos,
        frame: FrameHandle,
        observer: &mut dyn Observer,
    ) {
        let insertion = self.next_rank(0);
        let Some(direction) = self
            .directions
            .get_mut(index as usize)
            .filter(|direction| direction.up)
        else {
            // A port without a link discards its frames.
            self.store.release(frame);
            return;
        };
        if self.observed.frames {
            observer.frame_departed(self.now, end, direction.from, frame_view(&self.store, frame));
        }
        if !direction.faults.is_empty() {
            match direction.faults.apply_to(&frame_view(&self.store, frame)) {
                Some(FaultAction::Drop) => {
                    direction.lost_frames += 1;
                    if self.observed.reports {
                        observer.fault_applied(
                            self.now,
                            direction.from,
                            frame_view(&self.store, frame),
                            true,
                        );
                    }
                    self.store.release(frame);
                    return;
                }
                Some(FaultAction::Corrupt) => {
                    self.store.set_damaged(frame);
                    if self.observed.reports {
                        observer.fault_applied(
                            self.now,
                            direction.from,
                            frame_view(&self.store, frame),
                            false,
                        );
                    }
                }
                None => {}
            }
        }
        let at = direction.add_frame(end);
        let (number, shard, partition) = (direction.number, direction.to_shard, direction.to_partition);
        if shard != self.number {
            return self.mail_frame(shard, at, number, frame);
        }
        let mut rank = number;
        if self.insertions.is_some() {
            self.store.set_direction(frame, number);
            rank = insertion;
        }
        self.pending
            .push(partition as usize, Event::new(at, rank, frame.0));
    }
}

/// Returns whether an event is the arrival of a frame.
#[inline]
pub(super) fn is_arrival(event: Event) -> bool {
    event.payload() & (SWITCH_FLAG | HOST_FLAG) == 0
}

/// Returns the number of the link direction of an arrival. `by_insertion` is true if ranks are insertion numbers.
#[inline]
pub(super) fn direction_of(event: Event, by_insertion: bool, store: &FabricStore) -> u32 {
    match by_insertion {
        false => event.rank(),
        true => store.direction(FrameHandle(event.payload())),
    }
}

/// Returns the partition that processes an event. Ranks must not be insertion numbers.
pub(super) fn partition_of_event(partitions: Partitions, receivers: &[Receiver], event: Event) -> usize {
    let source = event.payload();
    if source & SWITCH_FLAG != 0 {
        partitions.switch_partition(((source & !SWITCH_FLAG) >> TIMER_BITS) as usize)
    } else if source & HOST_FLAG != 0 {
        partitions.host_partition((source & HOST_INDEX_MASK) as usize)
    } else {
        receivers[event.rank() as usize].partition as usize
    }
}

/// Creates the telemetry record that an egress port adds to a departing frame.
#[cold]
fn hop_telemetry(switch: &Switch, config: &SwitchConfig, departure: Transmit) -> HopTelemetry {
    let load = switch.port_load(departure.port);
    HopTelemetry {
        at: departure.start,
        tx_bytes: load.tx_bytes,
        queue_bytes: load.queued_bytes,
        speed_mbps: config.ports[departure.port.index()].link.speed_mbps,
    }
}

#[inline]
fn frame_view(store: &FabricStore, frame: FrameHandle) -> FrameView<'_> {
    FrameView {
        prefix: store.prefix(frame),
        frame_len: store.frame_len(frame),
        damaged: store.is_damaged(frame),
    }
}
