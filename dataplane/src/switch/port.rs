//! A port: everything that belongs to one of them, ingress and egress.

use std::collections::VecDeque;

use crate::config::{ClassMaps, MarkPoint, PauseModel, PortConfig, SwitchConfig, Trust, Wred};
use crate::counters::PortCounters;
use crate::drops::DropReason;
use crate::egress::{Line, Marker, QueuedFrame, Scheduler, TokenBucket};
use crate::frame::Handle;
use crate::ids::{PRIORITIES, TRAFFIC_CLASSES};
use crate::mmu::Refusal;
use crate::outputs::Drop;
use crate::parse::Parsed;
use crate::pfc::{PauseGenerator, PauseReceiver, bits};
use crate::time::Picos;
use crate::wire::mac_control;

/// Raw MAC control frames that may wait for a port's link.
pub(crate) const CONTROL_FRAMES_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) mac: [u8; 6],
    pub(crate) mtu: u32,
    pub(crate) link: Line,
    pub(crate) admin_up: bool,
    pub(crate) link_up: bool,
    /// Both of them.
    pub(crate) up: bool,
    /// The LAG it belongs to is down, though the port may be up.
    pub(crate) lag_down: bool,
    /// Cleared to hold data back while control frames still leave (SAI tests block egress this way).
    pub(crate) tx_enabled: bool,
    /// Bit *n*: queue *n* is not held back by itself.
    pub(crate) open_queues: u8,
    pub(crate) classify: ClassMaps,
    /// Priorities that send and honour PFC.
    pub(crate) pfc: crate::config::PfcConfig,
    pub(crate) generator: PauseGenerator,
    pub(crate) receiver: PauseReceiver,
    /// Queues that the peer has stopped.
    pub(crate) paused_queues: u8,
    pub(crate) scheduler: Scheduler,
    pub(crate) shaper: Option<TokenBucket>,
    pub(crate) wred: [Option<Wred>; PRIORITIES],
    /// Queues whose WRED has a say on arrival already: it drops, or marks there.
    pub(crate) early_wred: u8,
    pub(crate) marker: Marker,
    /// Queues that hold frames.
    pub(crate) backlog: u8,
    /// When the frame in transmission has passed. With `frees_by_deadline`: [`Picos::NEVER`] until that is told.
    pub(crate) free_at: Picos,
    /// See [`Switch::set_links_free_by_deadline`](super::Switch::set_links_free_by_deadline).
    pub(crate) frees_by_deadline: bool,
    /// With `frees_by_deadline`: when the frame in transmission has passed.
    pub(crate) occupied_until: Picos,
    /// Raw MAC control frames to send ahead of everything.
    pub(crate) control: VecDeque<Handle>,
    pub(crate) counters: PortCounters,
    /// Time spent on MAC control frames since the last ordinary one, in picoseconds.
    pub(crate) control_busy_ps: u64,
    /// Sum of the delays with which the driver let departures start.
    pub(crate) late_ps: u64,
    /// The limit behind the latest drop of each reason.
    pub(crate) refusals: [Option<Refusal>; DropReason::COUNT],
}

impl Port {
    pub(crate) fn new(config: &SwitchConfig, index: usize) -> Port {
        let port = &config.ports[index];
        let mut new = Port {
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
            paused_queues: 0,
            scheduler: Scheduler::new(&port.queues),
            shaper: None,
            wred: [None; PRIORITIES],
            early_wred: 0,
            marker: Marker::new(config.seed, index as u16),
            backlog: 0,
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
        self.receiver
            .set_until_resumed(port.pfc.pauses != PauseModel::Timed);
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
        let early = |wred: Wred| wred.drop || mark_point == MarkPoint::Enqueue;
        self.early_wred = bits(0xff)
            .filter(|&n| self.wred[n].is_some_and(early))
            .fold(0, |mask, n| mask | 1 << n);
    }

    /// Whether frames that arrive here go on.
    #[inline]
    pub(crate) fn forwards(&self) -> bool {
        self.up && !self.lag_down
    }

    /// The traffic class of a frame that arrives here.
    pub(crate) fn traffic_class(&self, parsed: &Parsed) -> u8 {
        let by_tag = |maps: &ClassMaps| match parsed.tag {
            Some(tag) => maps.dot1p_to_tc[usize::from(tag.pcp())],
            None => 0,
        };
        let tc = match (self.classify.trust, parsed.dscp()) {
            (Trust::Dscp, Some(dscp)) => self.classify.dscp_to_tc[usize::from(dscp & 63)],
            _ => by_tag(&self.classify),
        };
        tc % TRAFFIC_CLASSES as u8
    }

    /// The priority group a traffic class is charged to here.
    pub(crate) fn priority_group(&self, tc: u8) -> u8 {
        self.classify.tc_to_pg[usize::from(tc)] % PRIORITIES as u8
    }

    /// The queue a traffic class leaves by here.
    pub(crate) fn queue(&self, tc: u8) -> usize {
        usize::from(self.classify.tc_to_queue[usize::from(tc)]) % PRIORITIES
    }

    /// The enabled priorities that signal the congestion of a priority group.
    pub(crate) fn signalling(&self, pg: u8) -> u8 {
        bits(self.pfc.enabled)
            .filter(|&p| self.pfc.priority_to_pg[p] == pg)
            .fold(0, |mask, p| mask | 1 << p)
    }

    /// Works out which queues are stopped; whether one of them has just been let go.
    pub(crate) fn refresh_paused_queues(&mut self) -> bool {
        let before = self.paused_queues;
        self.paused_queues = bits(self.receiver.paused()).fold(0, |mask, p| {
            mask | 1 << (self.pfc.priority_to_queue[p] % PRIORITIES as u8)
        });
        before & !self.paused_queues != 0
    }

    /// Queues whose head may leave as far as pauses and blocks go.
    pub(crate) fn sendable(&self) -> u8 {
        if self.tx_enabled {
            self.backlog & self.open_queues & !self.paused_queues
        } else {
            0
        }
    }

    /// Whether anything could leave now if the link were free.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.sendable() != 0 || self.owes_control()
    }

    /// Whether something is to go ahead of queued frames.
    #[inline]
    pub(crate) fn owes_control(&self) -> bool {
        self.generator.owes() || !self.control.is_empty()
    }

    /// Whether a capable frame leaves as CE, with `behind` octets waiting behind it.
    #[inline]
    pub(crate) fn decide_mark(&mut self, queue: usize, behind: u64) -> bool {
        match &self.wred[queue] {
            Some(wred) if wred.ecn => self.marker.hit(wred, behind),
            _ => false,
        }
    }

    /// Counts a frame whose transmission starts.
    #[inline]
    pub(crate) fn count_departure(&mut self, now: Picos, queue: usize, frame: &QueuedFrame, duration: Picos) {
        let counters = &mut self.counters;
        let bytes = u64::from(frame.mac_len);
        counters.tx_packets += 1;
        counters.tx_bytes += bytes;
        counters.tx_class_packets[usize::from(frame.tc)] += 1;
        counters.queues[queue].packets += 1;
        counters.queues[queue].bytes += bytes;
        counters.queues[queue].tx_trim_packets += u64::from(frame.trimmed);
        counters.tx_first_ps = counters.tx_first_ps.min(now.0);
        counters.tx_last_ps = now.0.saturating_add(duration.0);
        counters.tx_busy_ps += duration.0 + core::mem::take(&mut self.control_busy_ps);
    }

    /// How long a MAC control frame occupies the link. That time counts as busy once an ordinary frame follows:
    /// utilisation is over the time between the first and the last of those.
    pub(crate) fn control_duration(&mut self, frame_len: u32) -> Picos {
        self.control_busy(self.link.mac_len(frame_len))
    }

    /// As [`Port::control_duration`], for a PFC frame.
    pub(crate) fn pfc_duration(&mut self) -> Picos {
        match self.pfc.pauses {
            PauseModel::Timed => self.control_duration(mac_control::FRAME_LEN as u32),
            PauseModel::UntilResumed { frame_bytes } => self.control_busy(frame_bytes),
        }
    }

    fn control_busy(&mut self, mac_len: u32) -> Picos {
        let duration = self.link.occupied(mac_len);
        if self.counters.tx_first_ps != u64::MAX {
            self.control_busy_ps += duration.0;
        }
        duration
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
            DropReason::QueueDropped => {
                let queue = self.queue(drop.tc);
                let counters = &mut self.counters.queues[queue];
                counters.dropped_packets += 1;
                counters.dropped_bytes += u64::from(drop.mac_len);
            }
            _ => {}
        }
    }
}
