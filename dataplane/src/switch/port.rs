//! A port: everything that belongs to one of them, ingress and egress.

use std::collections::VecDeque;

use super::timers;
use crate::bridge::Mac;
use crate::config::{ClassMaps, MarkPoint, PauseModel, PortConfig, SwitchConfig, Wred};
use crate::counters::PortCounters;
use crate::drops::DropReason;
use crate::egress::{Fifo, FrameTable, Line, Marker, QueuedFrame, Scheduler, TokenBucket};
use crate::frame::Handle;
use crate::ids::{InterfaceId, LogicalPort, PRIORITIES, PortId};
use crate::mmu::Refusal;
use crate::outputs::{Deadline, Drop, Outputs};
use crate::pfc::{PauseGenerator, PauseReceiver, WHOLE_PORT, bits};
use crate::watchdog::PortWatch;
use xoff_units::Picos;
use xoff_wire::mac_control::{self, MacControl};
use xoff_wire::parse::Parsed;

/// Raw MAC control frames that may wait for a port's link.
pub(crate) const CONTROL_FRAMES_MAX: usize = 64;

/// What a frame is to the bridge and the router by the port it comes in by alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entrance {
    /// The port, or the LAG it is a member of.
    pub(crate) logical: LogicalPort,
    /// The router interface that this is; `None`: a port or LAG of the bridge.
    pub(crate) interface: Option<InterfaceId>,
    /// The address of that interface.
    pub(crate) mac: Mac,
}

/// What nearly every frame reads or writes comes first, and together: a switch of many ports has all of them in the caches then.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Port {
    /// When the call about the next departure that has been asked for is due; [`Picos::NEVER`]: none is out.
    pub(crate) transmit_due: Picos,
    /// When the frame in transmission has passed. With `frees_by_deadline`: [`Picos::NEVER`] until that is told.
    pub(crate) free_at: Picos,
    /// With `frees_by_deadline`: when the frame in transmission has passed.
    pub(crate) occupied_until: Picos,
    /// Sum of the delays with which the driver let departures start.
    pub(crate) late_ps: u64,
    /// Time spent on MAC control frames since the last ordinary one, in picoseconds.
    pub(crate) control_busy_ps: u64,
    pub(crate) mtu: u32,
    /// Both of them.
    pub(crate) up: bool,
    /// The LAG it belongs to is down, though the port may be up.
    pub(crate) lag_down: bool,
    /// Cleared to hold data back while control frames still leave (SAI tests block egress this way).
    pub(crate) tx_enabled: bool,
    /// Bit *n*: queue *n* is not held back by itself.
    pub(crate) open_queues: u8,
    /// Queues that the peer has stopped, and that obey.
    pub(crate) paused_queues: u8,
    /// Queues that hold frames.
    pub(crate) backlog: u8,
    /// See [`Switch::set_links_free_by_deadline`](super::Switch::set_links_free_by_deadline).
    pub(crate) frees_by_deadline: bool,
    /// Priority groups of which all that is received is dropped, because their queues do so.
    pub(crate) dropping_groups: u8,
    /// Queues that the watchdog has told to drop all that comes for them.
    pub(crate) dropping_queues: u8,
    /// Queues for which something has a say on arrival: the watchdog drops, or WRED drops or marks there.
    pub(crate) early_queues: u8,
    /// The same, for frames of lossless groups: those whose WRED marks on arrival, or that the watchdog lets drop.
    pub(crate) early_lossless: u8,
    pub(crate) link: Line,
    /// Follows LAGs and router interfaces: see [`Switch::open_entrances`](super::Switch::open_entrances).
    pub(crate) entrance: Entrance,
    pub(crate) mac: [u8; 6],
    /// Frames that wait, by queue.
    pub(crate) fifos: [Fifo; PRIORITIES],
    pub(crate) wred: [Option<Wred>; PRIORITIES],
    pub(crate) scheduler: Scheduler,
    pub(crate) classify: ClassMaps,
    pub(crate) counters: PortCounters,
    pub(crate) marker: Marker,
    pub(crate) shaper: Option<TokenBucket>,
    /// Raw MAC control frames to send ahead of everything.
    pub(crate) control: VecDeque<Handle>,
    pub(crate) generator: PauseGenerator,
    pub(crate) admin_up: bool,
    pub(crate) link_up: bool,
    /// Priorities that send and honour PFC.
    pub(crate) pfc: crate::config::PfcConfig,
    pub(crate) receiver: PauseReceiver,
    /// 802.3x pauses: priority 0 stands for the whole port.
    pub(crate) whole_port: PauseReceiver,
    pub(crate) watch: Box<PortWatch>,
    /// Queues that the watchdog has told not to obey pauses.
    unheeding_queues: u8,
    /// Queues whose WRED has a say on arrival already.
    early_wred: u8,
    /// Queues whose WRED marks on arrival.
    early_marks: u8,
    /// The limit behind the latest drop of each reason.
    pub(crate) refusals: [Option<Refusal>; DropReason::COUNT],
}

impl Port {
    pub(crate) fn new(config: &SwitchConfig, index: usize) -> Port {
        let port = &config.ports[index];
        let mut new = Port {
            entrance: Entrance {
                logical: LogicalPort(index as u16),
                interface: None,
                mac: Mac(0),
            },
            mac: port.mac,
            mtu: port.mtu,
            link: Line::new(port.link),
            admin_up: port.admin_up,
            link_up: false,
            up: false,
            lag_down: false,
            tx_enabled: true,
            open_queues: 0xff,
            classify: port.classify,
            pfc: port.pfc,
            generator: PauseGenerator::new(&port.pfc),
            receiver: PauseReceiver::new(),
            whole_port: PauseReceiver::new(),
            paused_queues: 0,
            watch: Box::default(),
            dropping_queues: 0,
            dropping_groups: 0,
            unheeding_queues: 0,
            scheduler: Scheduler::new(&port.queues),
            shaper: None,
            wred: [None; PRIORITIES],
            early_queues: 0,
            early_wred: 0,
            early_lossless: 0,
            early_marks: 0,
            marker: Marker::new(config.seed, index as u16),
            fifos: [Fifo::EMPTY; PRIORITIES],
            backlog: 0,
            transmit_due: Picos::NEVER,
            free_at: Picos::ZERO,
            frees_by_deadline: false,
            occupied_until: Picos::ZERO,
            control: VecDeque::with_capacity(CONTROL_FRAMES_MAX),
            counters: PortCounters::default(),
            control_busy_ps: 0,
            late_ps: 0,
            refusals: [None; DropReason::COUNT],
        };
        new.configure(port, config.mark_point);
        new
    }

    /// Takes a new configuration; queues, timers, counters and random streams are kept.
    pub(crate) fn configure(&mut self, port: &PortConfig, mark_point: MarkPoint) {
        self.mac = port.mac;
        self.mtu = port.mtu;
        self.link = Line::new(port.link);
        self.admin_up = port.admin_up;
        self.up = self.admin_up && self.link_up;
        self.classify = port.classify;
        self.pfc = port.pfc;
        self.generator.reconfigure(&port.pfc);
        let until_resumed = port.pfc.pauses != PauseModel::Timed;
        self.receiver.set_until_resumed(until_resumed);
        self.whole_port.set_until_resumed(until_resumed);
        let response = port.link.pause(port.pfc.response_quanta);
        self.receiver.set_response(response);
        self.whole_port.set_response(response);
        self.scheduler.reconfigure(&port.queues);
        self.shaper = match (self.shaper.take(), port.shaper) {
            (_, None) => None,
            (None, Some(shaper)) => Some(TokenBucket::new(shaper)),
            (Some(mut bucket), Some(shaper)) => {
                bucket.reconfigure(shaper);
                Some(bucket)
            }
        };
        self.wred = core::array::from_fn(|n| port.queues[n].wred);
        let queues_of = |says: fn(Wred) -> bool| {
            let queues = bits(0xff).filter(|&n| self.wred[n].is_some_and(says));
            queues.fold(0, |mask, n| mask | 1 << n)
        };
        self.early_marks = match mark_point {
            MarkPoint::Enqueue => queues_of(|_| true),
            MarkPoint::Dequeue => 0,
        };
        self.early_wred = self.early_marks | queues_of(|wred| wred.drop);
        self.refresh_watchdog();
    }

    /// Works out what follows from storms and the big red switch for queues and groups.
    pub(crate) fn refresh_watchdog(&mut self) {
        self.dropping_queues = self.watch.dropping();
        self.dropping_groups = self.groups_of(self.dropping_queues);
        self.unheeding_queues = self.watch.unheeding();
        self.early_queues = self.early_wred | self.dropping_queues;
        self.early_lossless = self.early_marks | self.dropping_queues;
    }

    /// Why a frame that arrives here goes no further, whatever is in it. `l3_offset`: octets that do not count against the MTU.
    #[inline(always)]
    pub(crate) fn refuses(&self, frame_len: u32, l3_offset: u8) -> Option<DropReason> {
        if !self.up || self.lag_down {
            return Some(DropReason::PortDown);
        }
        (frame_len > self.mtu + u32::from(l3_offset)).then_some(DropReason::ExceedsL2Mtu)
    }

    /// The traffic class of a frame that arrives here.
    #[inline(always)]
    pub(crate) fn traffic_class(&self, parsed: &Parsed) -> u8 {
        self.classify.traffic_class(parsed)
    }

    /// The priority group a traffic class is charged to here.
    #[inline(always)]
    pub(crate) fn priority_group(&self, tc: u8) -> u8 {
        self.classify.priority_group(tc)
    }

    /// The queue a traffic class leaves by here.
    #[inline(always)]
    pub(crate) fn queue(&self, tc: u8) -> usize {
        self.classify.queue(tc)
    }

    /// The enabled priorities that signal the congestion of a priority group.
    pub(crate) fn signalling(&self, pg: u8) -> u8 {
        bits(self.pfc.enabled)
            .filter(|&p| self.pfc.priority_to_pg[p] == pg)
            .fold(0, |mask, p| mask | 1 << p)
    }

    /// What the peer is asked to stop for the congestion of a priority group: priorities, or the whole port.
    pub(crate) fn asks_for(&self, pg: u8) -> u16 {
        match self.pfc.global_generated() {
            true => WHOLE_PORT,
            false => u16::from(self.signalling(pg)),
        }
    }

    /// Works out which queues are stopped; whether one of them has just been let go.
    pub(crate) fn refresh_paused_queues(&mut self) -> bool {
        let before = self.paused_queues;
        self.paused_queues = match self.whole_port.paused() {
            0 => self.watch.held() & !self.unheeding_queues,
            _ => 0xff,
        };
        before & !self.paused_queues != 0
    }

    /// When a pause of the peer takes effect or ends by itself next.
    pub(crate) fn next_pause_change(&self) -> Picos {
        self.receiver.next_change().min(self.whole_port.next_change())
    }

    /// Ends every pause of the peer that is not obeyed any more: all of them if it is gone.
    pub(crate) fn release_pauses(&mut self, now: Picos, gone: bool) {
        let (honoured, global) = match gone {
            true => (0, 0),
            false => (self.pfc.honoured(), u8::from(self.pfc.global_honoured())),
        };
        self.receiver.release(now, honoured);
        self.whole_port.release(now, global);
    }

    /// Puts a frame into a queue; the caller has made sure of room in the table.
    #[inline(always)]
    pub(crate) fn enqueue(&mut self, frames: &mut FrameTable, id: PortId, queue: usize, frame: QueuedFrame) {
        let queue = queue % PRIORITIES;
        frames.push(id, &mut self.fifos[queue], frame);
        self.backlog |= 1 << queue;
    }

    /// Queues whose head may leave as far as pauses and blocks go.
    #[inline(always)]
    pub(crate) fn sendable(&self) -> u8 {
        if self.tx_enabled {
            self.backlog & self.open_queues & !self.paused_queues
        } else {
            0
        }
    }

    /// Whether a frame that comes for a queue now would leave at once: the link is free, nothing waits, and nothing holds it up.
    #[inline(always)]
    pub(crate) fn is_at_rest(&self, now: Picos, queue: usize) -> bool {
        self.free_at <= now
            && self.backlog == 0
            && self.tx_enabled
            && self.open_queues & !self.paused_queues & 1 << queue != 0
            && self.shaper.is_none()
            && !self.scheduler.shapes(queue)
            && !self.owes_control()
    }

    /// Whether anything could leave now if the link were free.
    #[inline(always)]
    pub(crate) fn has_work(&self) -> bool {
        self.sendable() != 0 || self.owes_control()
    }

    /// Whether something is to go ahead of queued frames.
    #[inline(always)]
    pub(crate) fn owes_control(&self) -> bool {
        self.generator.owes() || !self.control.is_empty()
    }

    /// Asks for a call about the next departure at `at`, unless one at or before `at` is already out.
    #[inline(always)]
    pub(crate) fn arm_transmit(&mut self, id: PortId, at: Picos, outputs: &mut Outputs) {
        if at < self.transmit_due {
            self.transmit_due = at;
            let timer = timers::transmit(id);
            outputs.deadlines.push(Deadline { at, timer });
        }
    }

    /// Whether it can send nothing now: its link is down, or busy, and then a call is asked for when it is not.
    #[inline(always)]
    pub(crate) fn awaits_link(&mut self, now: Picos, id: PortId, outputs: &mut Outputs) -> bool {
        !self.up || self.is_busy(now, id, outputs)
    }

    /// As [`Port::awaits_link`], of a port whose link is up.
    #[inline(always)]
    pub(crate) fn is_busy(&mut self, now: Picos, id: PortId, outputs: &mut Outputs) -> bool {
        if self.free_at <= now {
            return false;
        }
        if self.has_work() {
            self.arm_transmit(id, self.free_at, outputs);
        }
        true
    }

    /// Whether a capable frame leaves as CE, with `behind` octets waiting behind it.
    #[inline(always)]
    pub(crate) fn decide_mark(&mut self, queue: usize, behind: u64) -> bool {
        match &self.wred[queue] {
            Some(wred) if wred.ecn => self.marker.hit(wred, behind),
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
        if let Some(refused_by) = frame.trimmed_for() {
            counters.queues[refused_by].tx_trim_packets += 1;
        }
        counters.tx_first_ps = counters.tx_first_ps.min(now.0);
        counters.tx_last_ps = now.0.saturating_add(duration.0);
        counters.tx_busy_ps += duration.0 + core::mem::take(&mut self.control_busy_ps);
    }

    /// How long a MAC control frame occupies the link. That time counts as busy once an ordinary frame follows:
    /// utilisation is over the time between the first and the last of those.
    pub(crate) fn control_duration(&mut self, frame_len: u32) -> Picos {
        self.control_busy(self.link.mac_len(frame_len))
    }

    /// As [`Port::control_duration`], for a PFC or PAUSE frame.
    pub(crate) fn pause_duration(&mut self) -> Picos {
        match self.pfc.pauses {
            PauseModel::Timed => self.control_duration(mac_control::FRAME_LEN as u32),
            PauseModel::UntilResumed { frame_bytes } => self.control_busy(frame_bytes),
        }
    }

    /// Counts a PFC or PAUSE frame whose transmission starts.
    pub(crate) fn count_pause_sent(&mut self, frame: &MacControl) {
        match frame {
            MacControl::Pause { .. } => self.counters.pause_tx += 1,
            MacControl::Pfc(pfc) => {
                self.counters.pfc_tx_frames += 1;
                bits(pfc.enable).for_each(|n| self.counters.pfc_tx[n] += 1);
            }
        }
    }

    fn control_busy(&mut self, mac_len: u32) -> Picos {
        let duration = self.link.occupied(mac_len);
        if self.counters.tx_first_ps != u64::MAX {
            self.control_busy_ps += duration.0;
        }
        duration
    }

    /// Counts a frame that was trimmed, if it was, and is dropped from its queue.
    pub(crate) fn count_trimmed_drop(&mut self, frame: &QueuedFrame) {
        if let Some(refused_by) = frame.trimmed_for() {
            self.counters.queues[refused_by].dropped_trim_packets += 1;
        }
    }

    #[cold]
    pub(crate) fn count_drop(&mut self, drop: &Drop) {
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
                let queue = self.queue(drop.tc);
                self.counters.queues[queue].count_drop(drop.mac_len);
                if drop.reason == DropReason::WatchdogEgress {
                    self.counters.queues[queue].watchdog_dropped_packets += 1;
                }
            }
            _ => {}
        }
    }
}
