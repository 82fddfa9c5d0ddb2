//! The fabric: state of the event loop and processing of each event.

use std::sync::Arc;

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::route::RouteHint;
use xoff_dataplane::{
    ForwardingResult, FrameHandle, FrameStore, Outputs, Picos, PortId, ReceivedFrame, Switch, TimerId,
    Transmit,
};
use xoff_wire::parse::ParsedHeaders;

use super::event_queue::Event;
use super::fault::FaultAction;
use super::link_direction::LinkDirection;
use super::observer::{FrameView, Observer};
use super::partitions::Partitions;
use super::pending::PendingEvents;
use super::plan::LinkEnd;
use super::store::FabricStore;
use xoff_driver::CpuPort;
use xoff_driver::journal::Journal;
use xoff_host::Host;
use xoff_rdma::HopTelemetry;

mod build;
mod changes;
mod hosts;
mod reading;
mod running;

pub use running::{CompletionHandler, CompletionScope};

/// Largest number of events at one model time. More events indicate an endless loop, and the run stops.
pub const SIMULTANEOUS_EVENTS_MAX: u64 = 10_000_000;

/// Flags in the number of an event source. A number without a flag is a link direction, the source of an
/// arriving frame. `SWITCH_FLAG` marks timers of switches, and `HOST_FLAG` marks timers of hosts.
const SWITCH_FLAG: u32 = 1 << 31;
const HOST_FLAG: u32 = 1 << 30;
/// Set together with [`HOST_FLAG`] if the link of the host becomes free. Used only if events are ordered
/// by insertion.
const LINK_FREE_FLAG: u32 = 1 << 29;
/// Set together with [`HOST_FLAG`] for a timer of the host that sends no frame itself. Used only if events
/// are ordered by insertion.
const HOST_TIMER_FLAG: u32 = 1 << 28;
/// Mask of the host index in a source with [`HOST_FLAG`].
const HOST_INDEX_MASK: u32 = !(SWITCH_FLAG | HOST_FLAG | LINK_FREE_FLAG | HOST_TIMER_FLAG);
/// Number of bits for the timer number in a source with [`SWITCH_FLAG`]. The higher bits contain the
/// switch index.
const TIMER_BITS: u32 = 16;
const SWITCHES_MAX: usize = 1 << 15;
const HOSTS_MAX: usize = 1 << 24;
/// Direction number of a port or NIC without a link.
const NO_LINK: u32 = u32::MAX;

/// Reason why [`Fabric::run`] returned before or at the requested time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStopReason {
    /// The requested time has been reached. Later events are pending.
    TimeReached,
    /// A host has a completion (see [`Fabric::take_completions`]).
    Completion,
    /// No event is left. Model time has not advanced to the requested time.
    Idle,
    /// More than [`SIMULTANEOUS_EVENTS_MAX`] events have occurred at one model time.
    Stuck,
    /// The limit of [`Fabric::set_events_max`] has been reached.
    EventLimit,
}

#[derive(Debug)]
struct SwitchNode {
    switch: Switch,
    cpu: CpuPort,
    journal: Journal,
    config: Arc<SwitchConfig>,
    /// Index of the link direction out of each port, or [`NO_LINK`].
    directions: Vec<u32>,
}

#[derive(Debug)]
struct HostNode {
    host: Host,
    direction: u32,
    /// Time of the earliest event of this host.
    armed: Picos,
    /// True while a frame occupies the link. Used only if events are ordered by insertion.
    busy: bool,
    /// Time of the earliest timer event. If events are ordered by insertion, timers and departures are
    /// separate events. In all other runs, this field is not used.
    timer_armed: Picos,
    /// True if the host is in [`Fabric::completing_hosts`].
    is_completing: bool,
}

/// Switches, hosts and links in virtual time. All indices are positions in the lists of the
/// [`FabricPlan`](crate::FabricPlan). Methods panic if an index of a switch or host does not exist.
#[derive(Debug)]
pub struct Fabric {
    now: Picos,
    pending: PendingEvents,
    partitions: Partitions,
    /// Lookahead: the shortest time that a frame needs from one partition to another. All hosts form one
    /// partition for this purpose. The times of two partitions may differ by the lookahead.
    lookahead: Picos,
    /// True if a link connects two hosts. Groups of hosts cannot run separately then.
    hosts_linked: bool,
    switches: Vec<SwitchNode>,
    hosts: Vec<HostNode>,
    /// Indices of the hosts that have completions, in the order of their first completion. Each index
    /// occurs once.
    completing_hosts: Vec<u32>,
    /// Directions of all links. For link *n*, number 2n is the direction from its first end to its second
    /// end. The next number is the opposite direction.
    directions: Vec<LinkDirection>,
    store: FabricStore,
    outputs: Outputs,
    buffer: Vec<u8>,
    events: u64,
    events_max: u64,
    /// The limit of events is not checked again before this time.
    events_checked_until: Picos,
    /// Buffer for the partitions that have events in a window.
    due_partitions: Vec<u32>,
    /// Number of windows in which partitions ran separately.
    windows: u64,
    /// Number of those windows in which all hosts formed one partition.
    joint_windows: u64,
    frame_hops: u64,
    /// See [`Fabric::delivered_payload_bytes`].
    delivered_payload_bytes: u64,
    moves: u64,
    seed: u64,
    /// Number of the latest inserted event if events are ordered by insertion, and `None` otherwise.
    insertions: Option<u32>,
}

impl Fabric {
    /// Orders events of equal time by the order in which they were inserted, as ns-3 does. By default, events
    /// of equal time follow the order of their sources in the plan.
    ///
    /// This order is used for comparisons with ns-3, where frames often leave and arrive in the same
    /// nanosecond. At the start of a transmission, the fabric inserts an event that ends the transmission and
    /// frees the link. Insertion numbers have 32 bits, so fewer than 2^32 events may be inserted between two
    /// events of equal time.
    pub fn order_by_insertion(&mut self) {
        self.insertions = Some(0);
        // Frames that were sent when a link came up are already in flight.
        for event in self.pending.iter().filter(|event| is_arrival(*event)) {
            self.store
                .set_direction(FrameHandle(event.payload()), event.rank());
        }
        for node in &mut self.switches {
            node.switch.set_links_free_by_deadline(true);
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

    #[inline]
    fn push_event(&mut self, partition: usize, at: Picos, source: u32) {
        let rank = self.next_rank(source);
        self.pending.push(partition, Event::new(at, rank, source));
    }

    /// Sets the largest number of events that the fabric processes in total. If this number is reached,
    /// [`Fabric::run`] returns [`RunStopReason::EventLimit`]. The fabric checks the number at the start of each
    /// window, so it can process a few more events. A window lasts at most one link delay. By default, no limit
    /// applies.
    pub fn set_events_max(&mut self, events_max: u64) {
        self.events_max = events_max;
        self.events_checked_until = Picos::ZERO;
    }

    /// Advances model time to `at` without processing events, but at most to the time of the next event.
    /// Callers use this method after [`RunStopReason::Idle`].
    pub fn advance_idle(&mut self, at: Picos) {
        let free = self.next_event().map_or(at, |next| next.min(at));
        self.advance_to(self.now.max(free));
    }

    /// Processes an event. Returns whether a host has a completion.
    #[inline(always)]
    fn process_event(&mut self, event: Event, route_hint: RouteHint, observer: &mut impl Observer) -> bool {
        self.events += 1;
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
    fn process_arrival<O: Observer>(
        &mut self,
        direction: u32,
        frame: FrameHandle,
        route_hint: RouteHint,
        observer: &mut O,
    ) -> bool {
        let to = self.directions[direction as usize].to;
        self.frame_hops += 1;
        if O::IS_ACTIVE {
            observer.frame_arrived(self.now, to, frame_view(&self.store, frame));
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
    fn record_completing(&mut self, host: usize, has_completions: bool) -> bool {
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
        observer: &mut impl Observer,
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
        observer: &mut impl Observer,
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
        observer: &mut impl Observer,
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
        self.moves += u64::from(!matches!(verdict, ForwardingResult::Control));
        for port in node.switch.ports_marking_ce_on_arrival() {
            let port = LinkEnd::Switch {
                switch: switch as u32,
                port: port.0,
            };
            observer.frame_marked(self.now, port);
        }
        observer.admission_decided(self.now, switch as u32, port, &verdict);
        self.process_outputs(switch, observer);
    }

    /// Processes the outputs of a switch: timers, departing frames, events and frames for its CPU.
    #[inline(always)]
    fn process_outputs(&mut self, switch: usize, observer: &mut impl Observer) {
        self.forward_outputs(switch, observer);
        if self.outputs.punts.is_empty() {
            return;
        }
        self.serve_cpu(switch, observer);
    }

    #[inline(always)]
    fn forward_outputs(&mut self, switch: usize, observer: &mut impl Observer) {
        for index in 0..self.outputs.deadlines.len() {
            let deadline = self.outputs.deadlines[index];
            self.push_event(
                self.partitions.switch_partition(switch),
                deadline.at,
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
            if departure.marked {
                let from = LinkEnd::Switch {
                    switch: switch as u32,
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
    fn report_events(&mut self, switch: usize, observer: &mut impl Observer) {
        for event in &self.outputs.events {
            observer.switch_event(switch as u32, event);
        }
        let node = &mut self.switches[switch];
        node.journal.record_events(&mut self.outputs.events, &node.switch);
    }

    #[cold]
    fn serve_cpu(&mut self, switch: usize, observer: &mut impl Observer) {
        let mut cpu = std::mem::take(&mut self.switches[switch].cpu);
        let mut outputs = std::mem::take(&mut self.outputs);
        let mut store = std::mem::take(&mut self.store);
        cpu.take_punts(&mut outputs);
        let mut behind = Outputs::default();
        // The CPU port sends frames through the switch. The CPU port, the outputs and the frame store are
        // therefore moved out of the fabric for this time.
        let Fabric { switches, now, .. } = self;
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

    /// Starts the transmission of a frame. The frame is lost if no link exists, if the link is down or if a
    /// fault drops it.
    #[inline(always)]
    fn start_transmission<O: Observer>(
        &mut self,
        index: u32,
        end: Picos,
        frame: FrameHandle,
        observer: &mut O,
    ) {
        let rank = self.next_rank(index);
        let Some(direction) = self
            .directions
            .get_mut(index as usize)
            .filter(|direction| direction.up)
        else {
            // A port without a link discards its frames.
            self.store.release(frame);
            return;
        };
        if O::IS_ACTIVE {
            observer.frame_departed(self.now, end, direction.from, frame_view(&self.store, frame));
        }
        if !direction.faults.is_empty() {
            match direction.faults.apply_to(&frame_view(&self.store, frame)) {
                Some(FaultAction::Drop) => {
                    direction.lost_frames += 1;
                    observer.fault_applied(self.now, direction.from, frame_view(&self.store, frame), true);
                    self.store.release(frame);
                    return;
                }
                Some(FaultAction::Corrupt) => {
                    self.store.set_damaged(frame);
                    observer.fault_applied(self.now, direction.from, frame_view(&self.store, frame), false);
                }
                None => {}
            }
        }
        if self.insertions.is_some() {
            self.store.set_direction(frame, index);
        }
        let at = direction.add_frame(end);
        self.pending
            .push(direction.to_partition as usize, Event::new(at, rank, frame.0));
    }
}

/// Returns whether an event is the arrival of a frame.
#[inline]
fn is_arrival(event: Event) -> bool {
    event.payload() & (SWITCH_FLAG | HOST_FLAG) == 0
}

/// Returns the link direction of an arrival. `by_insertion` is true if ranks are insertion numbers.
#[inline]
fn direction_of(event: Event, by_insertion: bool, store: &FabricStore) -> u32 {
    match by_insertion {
        false => event.rank(),
        true => store.direction(FrameHandle(event.payload())),
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
