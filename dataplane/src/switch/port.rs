//! The state of a port, ingress and egress.

use std::mem::offset_of;
use std::sync::Arc;

use super::control_frames::ControlFrames;
use super::port_rules::{DistinctPortRules, PortRules};
use super::timers;
use super::traffic_counters::TrafficCounters;
use crate::bits::iter_set_bits;
use crate::bridge::MacAddress;
use crate::config::{EcnMarkPoint, PauseModel, PortConfig, SwitchConfig, WredProfile};
use crate::counters::PortCounters;
use crate::drops::DropReason;
use crate::egress::{
    EtsScheduler, FrameQueue, FrameTable, LinkRate, QueuedFrame, Scheduler, TokenBucket, WredMarker,
};
use crate::ids::{InterfaceId, LogicalPort, PRIORITIES, PortId, ROCE_CLASS};
use crate::mmu::BufferRefusal;
use crate::outputs::{Deadline, Outputs};
use crate::pfc::{PauseReceiver, WHOLE_PORT};
use crate::watchdog::PortMonitor;
use xoff_units::{Picos, prefetch};
use xoff_wire::lldp::EtsTables;
use xoff_wire::parse::ParsedHeaders;

/// Properties of an ingress port that decide whether its frames are bridged or routed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IngressBinding {
    /// MAC address of the router interface of the port or LAG. [`IngressBinding::NO_MAC`] if the port or LAG
    /// is bridged.
    mac: MacAddress,
    /// The port, or the LAG of which it is a member.
    pub(crate) logical: LogicalPort,
}

impl IngressBinding {
    /// Not an address of a frame, because addresses have 48 bits.
    const NO_MAC: MacAddress = MacAddress(u64::MAX);

    /// Returns true if frames to `destination` are addressed to the router interface of the port.
    #[inline(always)]
    pub(crate) fn is_addressed_to_router(&self, destination: MacAddress) -> bool {
        self.mac == destination
    }

    /// Returns true if the port or LAG has a router interface.
    #[inline(always)]
    pub(crate) fn is_routed(&self) -> bool {
        self.mac != IngressBinding::NO_MAC
    }
}

/// State of a port. In a large fabric, the state of all ports does not fit into the caches. The fields are
/// therefore grouped by cache lines. An arriving frame reads the first line. A departing frame uses the first
/// two lines, and the third line if it has waited in a queue. Each of them also uses one line of `traffic`.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Port {
    /// See [`IngressBinding::mac`].
    router_mac: MacAddress,
    /// Time at which the link is free. If `frees_by_deadline` is true, the value is [`Picos::NEVER`] until
    /// the deadline expires.
    pub(crate) free_at: Picos,
    /// Time of the earliest requested transmit deadline. [`Picos::NEVER`] if none is requested.
    pub(crate) transmit_due: Picos,
    pub(crate) rules: Arc<PortRules>,
    pub(crate) mtu: u32,
    /// See [`IngressBinding::logical`].
    logical: LogicalPort,
    /// Link and administrative state are both up.
    pub(crate) up: bool,
    /// True if the port's LAG is down, although the port may be up.
    pub(crate) lag_down: bool,
    /// Queues that are neither blocked nor paused.
    open_queues: u8,
    /// Queues whose frames need not wait if the link is free and no frame waits: open queues that count for
    /// neither a shaper nor ETS. 0 if the port has a shaper, or if MAC control frames wait.
    unhindered_queues: u8,
    /// Queues with waiting frames.
    pub(crate) backlogged_queues: u8,
    /// Bit mask of the priority groups for which the watchdog drops all received frames during a storm.
    pub(crate) dropping_groups: u8,
    /// Bit mask of the queues that act on frames on arrival: the watchdog drops such a frame, or WRED drops
    /// or marks it.
    pub(crate) arrival_rule_queues: u8,
    /// Bit mask of the queues that act on frames of lossless groups on arrival: WRED marks such a frame, or
    /// the watchdog drops it.
    pub(crate) arrival_rule_queues_lossless: u8,
    /// Frames use the first half of this object, at the end of the first line.
    pub(crate) link: LinkRate,
    /// Total time by which the driver has delayed transmissions, in picoseconds.
    pub(crate) tx_deficit_ps: u64,
    /// See [`PortCounters`].
    pub(super) tx_bytes: u64,
    /// Like [`PortCounters::tx_busy_ps`], with the time of MAC control frames after the last data frame.
    pub(super) tx_busy_ps: u64,
    pub(super) tx_last_ps: u64,
    /// True if `tx_first_ps` is set.
    pub(super) has_sent: bool,
    /// True if a pause frame or a MAC control frame waits.
    has_control_frames: bool,
    /// See [`Switch::set_links_free_by_deadline`](super::Switch::set_links_free_by_deadline).
    pub(crate) frees_by_deadline: bool,
    /// Queues whose frames the watchdog drops.
    pub(crate) dropping_queues: u8,
    /// Queues that the peer pauses and that honour the pause.
    pub(crate) paused_queues: u8,
    /// Frames that did not wait use the first bytes of this object, at the end of the second line.
    pub(crate) scheduler: Scheduler,
    /// The waiting frames of each queue.
    pub(crate) fifos: [FrameQueue; PRIORITIES],
    pub(super) traffic: TrafficCounters,
    /// End of the current transmission. Used only if `frees_by_deadline` is true.
    pub(crate) occupied_until: Picos,
    /// All counters except those of `traffic` and of transmission (`tx_bytes` and the following fields).
    pub(crate) counters: PortCounters,
    /// See [`PortCounters`].
    pub(super) tx_first_ps: u64,
    /// Time of the MAC control frames since the data frame at which `tx_bytes` was
    /// `trailing_control_after_bytes`, in picoseconds.
    pub(super) trailing_control_ps: u64,
    pub(super) trailing_control_after_bytes: u64,
    interface: InterfaceId,
    /// If false, the port sends control frames but no data frames. SAI tests block egress this way.
    tx_enabled: bool,
    /// Bit *n* is set if queue *n* is not blocked
    /// ([`Switch::set_queue_enabled`](super::Switch::set_queue_enabled)).
    enabled_queues: u8,
    pub(crate) mac: [u8; 6],
    pub(crate) marker: WredMarker,
    pub(crate) shaper: Option<TokenBucket>,
    /// Changed only by [`Port::change_control_frames`], which updates `has_control_frames`.
    control_frames: ControlFrames,
    pub(crate) admin_up: bool,
    pub(crate) link_up: bool,
    /// Configuration of PFC and PAUSE.
    pub(crate) pfc: crate::config::PfcConfig,
    pub(crate) receiver: PauseReceiver,
    /// Receiver of 802.3x PAUSE. Its priority 0 represents the whole port.
    pub(crate) whole_port: PauseReceiver,
    pub(crate) watchdog: Box<PortMonitor>,
    /// Queues that ignore pauses because of the watchdog.
    pause_ignoring_queues: u8,
    /// Queues whose WRED profile has rules on arrival.
    wred_arrival_queues: u8,
    /// Queues whose WRED profile marks on arrival.
    mark_on_arrival_queues: u8,
    /// Priorities with PFC that the peer has configured (DCBX). `None`: `configured_pfc` applies.
    negotiated_pfc: Option<u8>,
    /// Priorities with PFC in the configuration of the switch.
    configured_pfc: u8,
    /// Traffic classes that the peer has configured (DCBX). `None`: the schedulers of the configuration apply.
    negotiated_ets: Option<EtsTables>,
    /// For each drop reason: the buffer limit that caused the latest drop. `None` if no limit has caused
    /// a drop.
    pub(crate) refusals: [Option<BufferRefusal>; DropReason::COUNT],
}

const _: () = {
    assert!(offset_of!(Port, link) + LinkRate::USED_BYTES == 64);
    assert!(offset_of!(Port, scheduler) + Scheduler::HEAD_BYTES <= 128);
};

impl Port {
    pub(crate) fn new(config: &SwitchConfig, index: usize, rules: &mut DistinctPortRules) -> Port {
        let port = &config.ports[index];
        let mut new = Port {
            router_mac: IngressBinding::NO_MAC,
            free_at: Picos::ZERO,
            transmit_due: Picos::NEVER,
            rules: rules.rules_of(port),
            mtu: port.mtu,
            logical: LogicalPort(index as u16),
            up: false,
            lag_down: false,
            open_queues: 0,
            unhindered_queues: 0,
            backlogged_queues: 0,
            dropping_groups: 0,
            arrival_rule_queues: 0,
            arrival_rule_queues_lossless: 0,
            link: LinkRate::new(port.link),
            tx_deficit_ps: 0,
            tx_bytes: 0,
            tx_busy_ps: 0,
            tx_last_ps: 0,
            has_sent: false,
            has_control_frames: false,
            frees_by_deadline: false,
            dropping_queues: 0,
            paused_queues: 0,
            scheduler: Scheduler::new(&port.queues),
            fifos: [FrameQueue::EMPTY; PRIORITIES],
            traffic: TrafficCounters::default(),
            occupied_until: Picos::ZERO,
            counters: PortCounters::default(),
            tx_first_ps: u64::MAX,
            trailing_control_ps: 0,
            trailing_control_after_bytes: 0,
            interface: InterfaceId(0),
            tx_enabled: true,
            enabled_queues: 0xff,
            mac: port.mac,
            marker: WredMarker::new(config.seed, index as u16),
            shaper: None,
            control_frames: ControlFrames::new(&port.pfc),
            admin_up: port.admin_up,
            link_up: false,
            pfc: port.pfc,
            receiver: PauseReceiver::new(),
            whole_port: PauseReceiver::new(),
            watchdog: Box::default(),
            pause_ignoring_queues: 0,
            wred_arrival_queues: 0,
            mark_on_arrival_queues: 0,
            negotiated_pfc: None,
            configured_pfc: port.pfc.enabled,
            negotiated_ets: None,
            refusals: [None; DropReason::COUNT],
        };
        new.configure(port, config.mark_point, rules);
        new
    }

    /// Fetches the memory that a received frame uses, without waiting for it.
    #[inline]
    pub(super) fn prefetch_ingress(&self) {
        prefetch(self);
        self.traffic.prefetch();
    }

    /// Fetches the memory that the transmission of a frame uses, without waiting for it.
    #[inline]
    pub(super) fn prefetch_egress(&self) {
        prefetch(self);
        prefetch(&self.tx_deficit_ps);
        prefetch(&self.fifos[ROCE_CLASS]);
        self.traffic.prefetch();
    }

    /// Applies a new configuration. Queues, timers, counters and the random generator are kept.
    pub(crate) fn configure(
        &mut self,
        port: &PortConfig,
        mark_point: EcnMarkPoint,
        rules: &mut DistinctPortRules,
    ) {
        self.mac = port.mac;
        self.mtu = port.mtu;
        self.link = LinkRate::new(port.link);
        self.admin_up = port.admin_up;
        self.up = self.admin_up && self.link_up;
        self.traffic
            .move_received_to(&self.rules.classify, &mut self.counters);
        self.rules = rules.rules_of(port);
        self.pfc = port.pfc;
        self.configured_pfc = port.pfc.enabled;
        self.set_negotiated_pfc(self.negotiated_pfc);
        self.change_control_frames(|frames| frames.generator.reconfigure(&port.pfc));
        let until_resumed = port.pfc.pauses != PauseModel::Timed;
        self.receiver.set_until_resumed(until_resumed);
        self.whole_port.set_until_resumed(until_resumed);
        let response = port.link.pause_duration(port.pfc.response_quanta);
        self.receiver.set_response_time(response);
        self.whole_port.set_response_time(response);
        self.scheduler.reconfigure(&port.queues);
        self.set_negotiated_ets(self.negotiated_ets);
        self.shaper = match (self.shaper.take(), port.shaper) {
            (_, None) => None,
            (None, Some(shaper)) => Some(TokenBucket::new(shaper)),
            (Some(mut bucket), Some(shaper)) => {
                bucket.reconfigure(shaper);
                Some(bucket)
            }
        };
        let queues_of = |says: fn(WredProfile) -> bool| {
            let queues = iter_set_bits(0xff).filter(|&n| self.rules.wred[n].is_some_and(says));
            queues.fold(0, |mask, n| mask | 1 << n)
        };
        self.mark_on_arrival_queues = match mark_point {
            EcnMarkPoint::Enqueue => queues_of(|_| true),
            EcnMarkPoint::Dequeue => 0,
        };
        self.wred_arrival_queues = self.mark_on_arrival_queues | queues_of(|wred| wred.drop);
        self.apply_watchdog_state();
        self.update_open_queues();
    }

    /// Sets the priorities with PFC that the peer has configured. `None` restores those of the configuration.
    pub(crate) fn set_negotiated_pfc(&mut self, priorities: Option<u8>) {
        self.negotiated_pfc = priorities;
        self.pfc.enabled = priorities.unwrap_or(self.configured_pfc);
    }

    /// Sets the traffic classes that the peer has configured. `None` restores the schedulers of the configuration.
    pub(crate) fn set_negotiated_ets(&mut self, tables: Option<EtsTables>) {
        self.negotiated_ets = tables;
        let queues = &self.pfc.priority_to_queue;
        self.scheduler
            .set_ets(tables.map(|tables| EtsScheduler::new(&tables, queues)));
        self.update_open_queues();
    }

    pub(crate) fn negotiated_ets(&self) -> Option<&EtsTables> {
        self.negotiated_ets.as_ref()
    }

    /// Derives the masks of dropped and pause-ignoring queues from the storms of the watchdog and its big
    /// red switch.
    pub(crate) fn apply_watchdog_state(&mut self) {
        self.dropping_queues = self.watchdog.dropping_queues();
        self.dropping_groups = self.priority_groups_of_queues(self.dropping_queues);
        self.pause_ignoring_queues = self.watchdog.pause_ignoring_queues();
        self.arrival_rule_queues = self.wred_arrival_queues | self.dropping_queues;
        self.arrival_rule_queues_lossless = self.mark_on_arrival_queues | self.dropping_queues;
    }

    /// Returns the reason why this port drops an arriving frame: the link is down, the LAG does not accept
    /// the frame, or the frame exceeds the MTU. Returns `None` if the port accepts the frame.
    #[inline(always)]
    pub(crate) fn ingress_drop_reason(&self, frame_len: u32, l3_offset: u8) -> Option<DropReason> {
        if !self.up || self.lag_down {
            return Some(DropReason::PortDown);
        }
        self.exceeds_mtu(frame_len, l3_offset)
            .then_some(DropReason::ExceedsL2Mtu)
    }

    /// Returns the traffic class of a frame that arrives at this port.
    #[inline(always)]
    pub(crate) fn traffic_class(&self, parsed: &ParsedHeaders) -> u8 {
        self.rules.classify.traffic_class(parsed)
    }

    /// Returns the priority group of a traffic class at this port.
    #[inline(always)]
    pub(crate) fn priority_group(&self, tc: u8) -> u8 {
        self.rules.classify.priority_group(tc)
    }

    /// Returns the egress queue of a traffic class at this port.
    #[inline(always)]
    pub(crate) fn egress_queue(&self, tc: u8) -> usize {
        self.rules.classify.queue(tc)
    }

    /// Returns the priorities that signal XOFF of a priority group. Priorities without PFC are not included.
    pub(crate) fn priorities_signalling(&self, pg: u8) -> u8 {
        iter_set_bits(self.pfc.enabled)
            .filter(|&p| self.pfc.priority_to_pg[p] == pg)
            .fold(0, |mask, p| mask | 1 << p)
    }

    /// Returns the bit mask of the priorities that the peer must pause while a priority group is in the XOFF
    /// state. With 802.3x PAUSE, the result is [`WHOLE_PORT`].
    pub(crate) fn pause_targets_of_group(&self, pg: u8) -> u16 {
        match self.pfc.generates_global_pause() {
            true => WHOLE_PORT,
            false => u16::from(self.priorities_signalling(pg)),
        }
    }

    /// Updates which queues are paused. Returns true if a queue resumed.
    pub(crate) fn update_paused_queues(&mut self) -> bool {
        let before = self.paused_queues;
        self.paused_queues = match self.whole_port.paused_priorities() {
            0 => self.watchdog.paused_queues() & !self.pause_ignoring_queues,
            _ => 0xff,
        };
        self.update_open_queues();
        before & !self.paused_queues != 0
    }

    /// Blocks or unblocks all queues.
    pub(crate) fn set_tx_enabled(&mut self, enabled: bool) {
        self.tx_enabled = enabled;
        self.update_open_queues();
    }

    /// Blocks or unblocks one queue.
    pub(crate) fn set_queue_enabled(&mut self, queue: u8, enabled: bool) {
        match enabled {
            true => self.enabled_queues |= 1 << queue,
            false => self.enabled_queues &= !(1 << queue),
        }
        self.update_open_queues();
    }

    fn update_open_queues(&mut self) {
        self.open_queues = match self.tx_enabled {
            true => self.enabled_queues & !self.paused_queues,
            false => 0,
        };
        self.unhindered_queues = match self.shaper.is_some() || self.has_control_frames {
            true => 0,
            false => self.open_queues & !self.scheduler.restricted_queues(),
        };
    }

    /// Returns the MAC control frames that wait.
    pub(crate) fn control_frames(&self) -> &ControlFrames {
        &self.control_frames
    }

    /// Changes the MAC control frames that wait.
    pub(crate) fn change_control_frames<R>(&mut self, change: impl FnOnce(&mut ControlFrames) -> R) -> R {
        let result = change(&mut self.control_frames);
        self.has_control_frames = self.control_frames.has_waiting_frames();
        self.update_open_queues();
        result
    }

    /// Returns the router interface of the port or LAG. Returns `None` if the port or LAG is bridged.
    pub(crate) fn interface(&self) -> Option<InterfaceId> {
        self.ingress_binding().is_routed().then_some(self.interface)
    }

    /// Sets the port or LAG to which the port belongs, and its router interface with its MAC address.
    pub(crate) fn bind_ingress(
        &mut self,
        logical: LogicalPort,
        interface: Option<(InterfaceId, MacAddress)>,
    ) {
        self.logical = logical;
        (self.interface, self.router_mac) = interface.unwrap_or((InterfaceId(0), IngressBinding::NO_MAC));
    }

    #[inline(always)]
    pub(crate) fn ingress_binding(&self) -> IngressBinding {
        IngressBinding {
            mac: self.router_mac,
            logical: self.logical,
        }
    }

    /// Returns the next time at which a received pause takes effect or ends.
    pub(crate) fn next_pause_change(&self) -> Picos {
        self.receiver.next_change().min(self.whole_port.next_change())
    }

    /// Ends received pauses that the port no longer honours. If the link to the peer is down (`gone`), all
    /// pauses end.
    pub(crate) fn release_pauses(&mut self, now: Picos, gone: bool) {
        let (honoured, global) = match gone {
            true => (0, 0),
            false => (
                self.pfc.honoured_priorities(),
                u8::from(self.pfc.honours_global_pause()),
            ),
        };
        self.receiver.release_priorities(now, honoured);
        self.whole_port.release_priorities(now, global);
    }

    /// Appends a frame to a queue. The caller has checked that the frame table has room.
    #[inline(always)]
    pub(crate) fn enqueue(&mut self, frames: &mut FrameTable, id: PortId, queue: usize, frame: QueuedFrame) {
        let queue = queue % PRIORITIES;
        frames.push(id, &mut self.fifos[queue], frame);
        self.backlogged_queues |= 1 << queue;
    }

    /// Returns the mask of queues that have frames and are neither paused nor blocked.
    #[inline(always)]
    pub(crate) fn sendable_queues(&self) -> u8 {
        self.backlogged_queues & self.open_queues
    }

    /// Returns true if a new frame for `queue` would leave immediately. This is the case if the link is free,
    /// no frame waits, no shaper and no ETS count the frame, and the queue is neither blocked nor paused.
    #[inline(always)]
    pub(crate) fn is_idle(&self, now: Picos, queue: usize) -> bool {
        self.free_at <= now && self.backlogged_queues == 0 && self.unhindered_queues & 1 << queue != 0
    }

    /// Returns true if a frame could leave now if the link were free.
    #[inline(always)]
    pub(crate) fn has_frames_to_send(&self) -> bool {
        self.sendable_queues() != 0 || self.has_control_frames()
    }

    /// Returns true if a pause frame or a MAC control frame waits.
    #[inline(always)]
    pub(crate) fn has_control_frames(&self) -> bool {
        self.has_control_frames
    }

    /// Requests a transmit deadline at `at`, unless an earlier or equal deadline is already requested.
    #[inline(always)]
    pub(crate) fn schedule_transmit(&mut self, id: PortId, at: Picos, outputs: &mut Outputs) {
        if at < self.transmit_due {
            self.transmit_due = at;
            let timer = timers::transmit_timer(id);
            outputs.deadlines.push(Deadline { at, timer });
        }
    }

    /// Returns true if the port cannot start a transmission now: the port is down, or the link is busy. If
    /// the link is busy and frames wait, a deadline is requested.
    #[inline(always)]
    pub(crate) fn cannot_transmit(&mut self, now: Picos, id: PortId, outputs: &mut Outputs) -> bool {
        !self.up || self.is_link_busy(now, id, outputs)
    }

    /// Like [`Port::cannot_transmit`], but for a port that is up.
    #[inline(always)]
    pub(crate) fn is_link_busy(&mut self, now: Picos, id: PortId, outputs: &mut Outputs) -> bool {
        if self.free_at <= now {
            return false;
        }
        if self.has_frames_to_send() {
            self.schedule_transmit(id, self.free_at, outputs);
        }
        true
    }

    /// Decides whether an ECN-capable frame is marked CE. `behind` is the length of the queue behind the
    /// frame, in bytes.
    #[inline(always)]
    pub(crate) fn decide_mark(&mut self, queue: usize, behind: u64) -> bool {
        match &self.rules.wred[queue] {
            Some(wred) if wred.ecn => self.marker.decide_mark_or_drop(wred, behind),
            _ => false,
        }
    }
}
