//! The state of a port, ingress and egress.

use std::collections::VecDeque;

use super::timers;
use crate::bits::iter_set_bits;
use crate::bridge::MacAddress;
use crate::config::{ClassMaps, EcnMarkPoint, PauseModel, PortConfig, SwitchConfig, WredProfile};
use crate::counters::PortCounters;
use crate::drops::DropReason;
use crate::egress::{
    EtsScheduler, FrameQueue, FrameTable, LinkRate, QueuedFrame, Scheduler, TokenBucket, WredMarker,
};
use crate::frame::FrameHandle;
use crate::ids::{InterfaceId, LogicalPort, PRIORITIES, PortId};
use crate::mmu::BufferRefusal;
use crate::outputs::{Deadline, DroppedFrame, Outputs};
use crate::pfc::{PauseGenerator, PauseReceiver, WHOLE_PORT};
use crate::watchdog::PortMonitor;
use xoff_units::{Picos, prefetch};
use xoff_wire::lldp::EtsTables;
use xoff_wire::mac_control::{self, MacControl};
use xoff_wire::parse::ParsedHeaders;

/// Largest number of MAC control frames that wait for a port's link.
pub(crate) const CONTROL_FRAMES_MAX: usize = 64;

/// Properties of an ingress port that decide whether its frames are bridged or routed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IngressBinding {
    /// The port, or the LAG of which it is a member.
    pub(crate) logical: LogicalPort,
    /// The router interface of the port or LAG. The value is `None` if the port or LAG is bridged.
    pub(crate) interface: Option<InterfaceId>,
    /// MAC address of that interface. Zero if `interface` is `None`.
    pub(crate) mac: MacAddress,
}

/// State of a port. The fields that nearly every frame uses come first, so that the caches can hold these
/// fields for many ports.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Port {
    /// Time of the earliest requested transmit deadline. [`Picos::NEVER`] if none is requested.
    pub(crate) transmit_due: Picos,
    /// Time at which the link is free. If `frees_by_deadline` is true, the value is [`Picos::NEVER`] until
    /// the deadline expires.
    pub(crate) free_at: Picos,
    /// End of the current transmission. Used only if `frees_by_deadline` is true.
    pub(crate) occupied_until: Picos,
    /// Total time by which the driver has delayed transmissions, in picoseconds.
    pub(crate) tx_deficit_ps: u64,
    /// Time spent on MAC control frames since the last data frame, in picoseconds.
    pub(crate) control_busy_ps: u64,
    pub(crate) mtu: u32,
    /// Link and administrative state are both up.
    pub(crate) up: bool,
    /// True if the port's LAG is down, although the port may be up.
    pub(crate) lag_down: bool,
    /// If false, the port sends control frames but no data frames. SAI tests block egress this way.
    pub(crate) tx_enabled: bool,
    /// Bit *n* is set if queue *n* is not blocked
    /// ([`Switch::set_queue_enabled`](super::Switch::set_queue_enabled)).
    pub(crate) enabled_queues: u8,
    /// Queues that the peer pauses and that honour the pause.
    pub(crate) paused_queues: u8,
    /// Queues with waiting frames.
    pub(crate) backlogged_queues: u8,
    /// See [`Switch::set_links_free_by_deadline`](super::Switch::set_links_free_by_deadline).
    pub(crate) frees_by_deadline: bool,
    /// Bit mask of the priority groups for which the watchdog drops all received frames during a storm.
    pub(crate) dropping_groups: u8,
    /// Queues whose frames the watchdog drops.
    pub(crate) dropping_queues: u8,
    /// Bit mask of the queues that act on frames on arrival: the watchdog drops such a frame, or WRED drops
    /// or marks it.
    pub(crate) arrival_rule_queues: u8,
    /// Bit mask of the queues that act on frames of lossless groups on arrival: WRED marks such a frame, or
    /// the watchdog drops it.
    pub(crate) arrival_rule_queues_lossless: u8,
    pub(crate) link: LinkRate,
    /// Updated when LAGs or router interfaces change, by
    /// [`Switch::update_ingress_bindings`](super::Switch::update_ingress_bindings).
    pub(crate) ingress_binding: IngressBinding,
    pub(crate) mac: [u8; 6],
    /// The waiting frames of each queue.
    pub(crate) fifos: [FrameQueue; PRIORITIES],
    pub(crate) wred: [Option<WredProfile>; PRIORITIES],
    pub(crate) scheduler: Scheduler,
    pub(crate) classify: ClassMaps,
    pub(crate) counters: PortCounters,
    pub(crate) marker: WredMarker,
    pub(crate) shaper: Option<TokenBucket>,
    /// MAC control frames that are sent ahead of all queues.
    pub(crate) control: VecDeque<FrameHandle>,
    pub(crate) generator: PauseGenerator,
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

impl Port {
    pub(crate) fn new(config: &SwitchConfig, index: usize) -> Port {
        let port = &config.ports[index];
        let mut new = Port {
            ingress_binding: IngressBinding {
                logical: LogicalPort(index as u16),
                interface: None,
                mac: MacAddress(0),
            },
            mac: port.mac,
            mtu: port.mtu,
            link: LinkRate::new(port.link),
            admin_up: port.admin_up,
            link_up: false,
            up: false,
            lag_down: false,
            tx_enabled: true,
            enabled_queues: 0xff,
            classify: port.classify,
            pfc: port.pfc,
            generator: PauseGenerator::new(&port.pfc),
            receiver: PauseReceiver::new(),
            whole_port: PauseReceiver::new(),
            paused_queues: 0,
            watchdog: Box::default(),
            dropping_queues: 0,
            dropping_groups: 0,
            pause_ignoring_queues: 0,
            scheduler: Scheduler::new(&port.queues),
            shaper: None,
            wred: [None; PRIORITIES],
            arrival_rule_queues: 0,
            wred_arrival_queues: 0,
            arrival_rule_queues_lossless: 0,
            mark_on_arrival_queues: 0,
            negotiated_pfc: None,
            configured_pfc: port.pfc.enabled,
            negotiated_ets: None,
            marker: WredMarker::new(config.seed, index as u16),
            fifos: [FrameQueue::EMPTY; PRIORITIES],
            backlogged_queues: 0,
            transmit_due: Picos::NEVER,
            free_at: Picos::ZERO,
            frees_by_deadline: false,
            occupied_until: Picos::ZERO,
            control: VecDeque::with_capacity(CONTROL_FRAMES_MAX),
            counters: PortCounters::default(),
            control_busy_ps: 0,
            tx_deficit_ps: 0,
            refusals: [None; DropReason::COUNT],
        };
        new.configure(port, config.mark_point);
        new
    }

    /// Fetches the memory that a received frame uses, without waiting for it.
    #[inline]
    pub(super) fn prefetch_ingress(&self) {
        prefetch(self);
        prefetch(&self.ingress_binding);
        prefetch(&self.classify);
        prefetch(&self.counters.rx_packets);
        prefetch(&self.counters.rx_class_packets[3]);
        prefetch(&self.counters.pgs[3]);
    }

    /// Fetches the memory that the transmission of a frame uses, without waiting for it.
    #[inline]
    pub(super) fn prefetch_egress(&self) {
        prefetch(self);
        prefetch(&self.ingress_binding);
        prefetch(&self.fifos[3]);
        prefetch(&self.scheduler);
        prefetch(&self.counters.tx_packets);
        prefetch(&self.counters.tx_class_packets[3]);
        prefetch(&self.counters.queues[3]);
        prefetch(&self.generator);
    }

    /// Applies a new configuration. Queues, timers, counters and the random generator are kept.
    pub(crate) fn configure(&mut self, port: &PortConfig, mark_point: EcnMarkPoint) {
        self.mac = port.mac;
        self.mtu = port.mtu;
        self.link = LinkRate::new(port.link);
        self.admin_up = port.admin_up;
        self.up = self.admin_up && self.link_up;
        self.classify = port.classify;
        self.pfc = port.pfc;
        self.configured_pfc = port.pfc.enabled;
        self.set_negotiated_pfc(self.negotiated_pfc);
        self.generator.reconfigure(&port.pfc);
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
        self.wred = core::array::from_fn(|n| port.queues[n].wred);
        let queues_of = |says: fn(WredProfile) -> bool| {
            let queues = iter_set_bits(0xff).filter(|&n| self.wred[n].is_some_and(says));
            queues.fold(0, |mask, n| mask | 1 << n)
        };
        self.mark_on_arrival_queues = match mark_point {
            EcnMarkPoint::Enqueue => queues_of(|_| true),
            EcnMarkPoint::Dequeue => 0,
        };
        self.wred_arrival_queues = self.mark_on_arrival_queues | queues_of(|wred| wred.drop);
        self.apply_watchdog_state();
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
        self.classify.traffic_class(parsed)
    }

    /// Returns the priority group of a traffic class at this port.
    #[inline(always)]
    pub(crate) fn priority_group(&self, tc: u8) -> u8 {
        self.classify.priority_group(tc)
    }

    /// Returns the egress queue of a traffic class at this port.
    #[inline(always)]
    pub(crate) fn egress_queue(&self, tc: u8) -> usize {
        self.classify.queue(tc)
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
        before & !self.paused_queues != 0
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
        if self.tx_enabled {
            self.backlogged_queues & self.enabled_queues & !self.paused_queues
        } else {
            0
        }
    }

    /// Returns true if a new frame for `queue` would leave immediately. This is the case if the link is free,
    /// no frame waits, no shaper and no ETS count the frame, and the queue is neither blocked nor paused.
    #[inline(always)]
    pub(crate) fn is_idle(&self, now: Picos, queue: usize) -> bool {
        self.free_at <= now
            && self.backlogged_queues == 0
            && self.tx_enabled
            && self.enabled_queues & !self.paused_queues & 1 << queue != 0
            && self.shaper.is_none()
            && !self.scheduler.is_restricted(queue)
            && !self.has_control_frames()
    }

    /// Returns true if a frame could leave now if the link were free.
    #[inline(always)]
    pub(crate) fn has_frames_to_send(&self) -> bool {
        self.sendable_queues() != 0 || self.has_control_frames()
    }

    /// Returns true if a pause frame or a MAC control frame waits.
    #[inline(always)]
    pub(crate) fn has_control_frames(&self) -> bool {
        self.generator.has_pending_frames() || !self.control.is_empty()
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
        match &self.wred[queue] {
            Some(wred) if wred.ecn => self.marker.decide_mark_or_drop(wred, behind),
            _ => false,
        }
    }

    /// Counts a frame whose transmission starts.
    #[inline(always)]
    pub(crate) fn count_departure(&mut self, now: Picos, queue: usize, frame: &QueuedFrame, duration: Picos) {
        let counters = &mut self.counters;
        let bytes = u64::from(frame.mac_len());
        counters.tx_packets += 1;
        counters.tx_bytes += bytes;
        counters.tx_class_packets[usize::from(frame.tc)] += 1;
        counters.queues[queue].packets += 1;
        counters.queues[queue].bytes += bytes;
        if let Some(refused_by) = frame.trimmed_for_queue() {
            counters.queues[refused_by].tx_trim_packets += 1;
        }
        counters.tx_first_ps = counters.tx_first_ps.min(now.0);
        counters.tx_last_ps = now.0.saturating_add(duration.0);
        counters.tx_busy_ps += duration.0 + core::mem::take(&mut self.control_busy_ps);
    }

    /// Returns the time for which a MAC control frame occupies the link. The utilisation is measured from the
    /// first to the last data frame. The returned time is therefore added to the busy time of the link only
    /// when a data frame follows.
    pub(crate) fn control_duration(&mut self, frame_len: u32) -> Picos {
        self.add_control_busy_time(self.link.mac_len(frame_len))
    }

    /// Like [`Port::control_duration`], but for a PFC or PAUSE frame.
    pub(crate) fn pause_duration(&mut self) -> Picos {
        match self.pfc.pauses {
            PauseModel::Timed => self.control_duration(mac_control::FRAME_LEN as u32),
            PauseModel::UntilResumed { frame_bytes } => self.add_control_busy_time(frame_bytes),
        }
    }

    /// Counts a PFC or PAUSE frame whose transmission starts.
    pub(crate) fn count_pause_sent(&mut self, frame: &MacControl) {
        match frame {
            MacControl::Pause { .. } => self.counters.pause_tx += 1,
            MacControl::Pfc(pfc) => {
                self.counters.pfc_tx_frames += 1;
                iter_set_bits(pfc.enable).for_each(|n| self.counters.pfc_tx[n] += 1);
            }
        }
    }

    fn add_control_busy_time(&mut self, mac_len: u32) -> Picos {
        let duration = self.link.transmission_time(mac_len);
        if self.counters.tx_first_ps != u64::MAX {
            self.control_busy_ps += duration.0;
        }
        duration
    }

    /// Counts the drop of a trimmed frame that waited in a queue. A frame that was not trimmed is
    /// not counted.
    pub(crate) fn count_trimmed_drop(&mut self, frame: &QueuedFrame) {
        if let Some(refused_by) = frame.trimmed_for_queue() {
            self.counters.queues[refused_by].dropped_trim_packets += 1;
        }
    }

    #[cold]
    pub(crate) fn count_drop(&mut self, drop: &DroppedFrame) {
        self.counters.drops[drop.reason as usize][usize::from(drop.tc)] += 1;
        if drop.refusal.is_some() {
            self.refusals[drop.reason as usize] = drop.refusal;
        }
        match drop.reason {
            DropReason::PriorityGroupDropped => {
                let group = usize::from(self.priority_group(drop.tc));
                self.counters.pgs[group].dropped_packets += 1;
            }
            DropReason::WatchdogIngress => {
                let group = usize::from(self.priority_group(drop.tc));
                self.counters.pgs[group].dropped_packets += 1;
                self.counters.pgs[group].watchdog_dropped_packets += 1;
            }
            DropReason::QueueDropped | DropReason::WredDropped | DropReason::WatchdogEgress => {
                let queue = self.egress_queue(drop.tc);
                self.counters.queues[queue].count_drop(drop.mac_len);
                if drop.reason == DropReason::WatchdogEgress {
                    self.counters.queues[queue].watchdog_dropped_packets += 1;
                }
            }
            _ => {}
        }
    }
}
