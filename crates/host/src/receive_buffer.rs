//! Receive buffer of a NIC that is slower than its link. The buffer sends PFC frames when it fills.

use std::collections::VecDeque;

use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{LinkTiming, Picos};
use xoff_wire::Pfc;
use xoff_wire::parse::ParsedHeaders;

use super::config::ReceiveBuffer;

/// The field that determines the class of a received frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClassTrust {
    /// The DSCP of an IP packet. A frame without an IP header has the class of its 802.1Q priority.
    #[default]
    Dscp,
    /// The 802.1Q priority (PCP). A frame without a tag has class 0.
    Pcp,
}

/// Frames in the receive buffer, sorted by the time at which they leave the buffer.
#[derive(Clone, Debug)]
pub(super) struct SlowReceiveBuffer {
    config: ReceiveBuffer,
    trust: ClassTrust,
    refresh: Picos,
    /// Each frame: the time at which it has left the buffer, its class, and its length.
    waiting: VecDeque<(Picos, usize, u32)>,
    drained_at: Picos,
    /// Classes that the applications do not read. Bit *n* is class *n*.
    unread: u8,
    /// Frames of unread classes that would have left the buffer: class and length of each frame.
    unread_frames: VecDeque<(usize, u32)>,
    total_bytes: u64,
    class_bytes: [u64; PRIORITIES],
    /// Priorities for which the peer is paused. Bit *n* is priority *n*.
    stopped: u8,
    refresh_at: Picos,
}

impl SlowReceiveBuffer {
    pub(super) fn new(config: ReceiveBuffer, link: &LinkTiming) -> SlowReceiveBuffer {
        SlowReceiveBuffer {
            config,
            trust: ClassTrust::default(),
            refresh: Picos(link.pause_duration(config.pause_quanta).0 / 2),
            waiting: VecDeque::new(),
            drained_at: Picos::ZERO,
            unread: 0,
            unread_frames: VecDeque::new(),
            total_bytes: 0,
            class_bytes: [0; PRIORITIES],
            stopped: 0,
            refresh_at: Picos::NEVER,
        }
    }

    /// Sets the priorities for which the NIC sends PFC. Bit *n* is priority *n*.
    pub(super) fn set_pfc_enabled(&mut self, enabled: u8) {
        self.config.pfc_enabled = enabled;
        self.stopped &= enabled;
    }

    pub(super) fn set_class_trust(&mut self, trust: ClassTrust) {
        self.trust = trust;
    }

    pub(super) fn class_trust(&self) -> ClassTrust {
        self.trust
    }

    /// Sets the classes that the applications do not read. Frames of classes that are read again leave the buffer at
    /// its drain rate.
    pub(super) fn set_unread_classes(&mut self, now: Picos, unread: u8) {
        self.drain(now);
        self.unread = unread;
        for (class, mac_len) in std::mem::take(&mut self.unread_frames) {
            match unread & (1 << class) {
                0 => self.schedule_departure(now, class, mac_len),
                _ => self.unread_frames.push_back((class, mac_len)),
            }
        }
    }

    /// Schedules when a frame leaves the buffer, after all frames before it.
    fn schedule_departure(&mut self, now: Picos, class: usize, mac_len: u32) {
        let time = u64::from(mac_len) * 8_000_000_000_000 / self.config.drain_bps;
        self.drained_at = self.drained_at.max(now).saturating_add(Picos(time));
        self.waiting.push_back((self.drained_at, class, mac_len));
    }

    /// Returns the class of an arriving frame, by the trusted field.
    pub(super) fn class_of(&self, parsed: &ParsedHeaders) -> usize {
        let dscp = parsed.dscp().filter(|_| self.trust == ClassTrust::Dscp);
        let class = match (dscp, parsed.tag) {
            (Some(dscp), _) => self.config.dscp_to_class[usize::from(dscp & 63)],
            (None, Some(tag)) => tag.pcp(),
            (None, None) => 0,
        };
        usize::from(class & 7)
    }

    /// Stores a frame of `mac_len` bytes. Returns `false` if the frame does not fit.
    pub(super) fn store_frame(&mut self, now: Picos, class: usize, mac_len: u32) -> bool {
        self.drain(now);
        if self.total_bytes + u64::from(mac_len) > u64::from(self.config.buffer_bytes) {
            return false;
        }
        self.schedule_departure(now, class, mac_len);
        self.total_bytes += u64::from(mac_len);
        self.class_bytes[class] += u64::from(mac_len);
        true
    }

    /// Returns the PFC frame that is due at `now`. The frame pauses classes, extends pauses or resumes
    /// classes. Returns `None` if no frame is due.
    pub(super) fn next_pfc(&mut self, now: Picos) -> Option<Pfc> {
        self.drain(now);
        let enabled = |class: &usize| self.config.pfc_enabled & (1 << class) != 0;
        let (mut stop, mut resume) = (0_u8, 0_u8);
        for class in (0..PRIORITIES).filter(enabled) {
            let (bit, bytes) = (1 << class, self.class_bytes[class]);
            if self.stopped & bit == 0 && bytes >= u64::from(self.config.xoff_bytes) {
                stop |= bit;
            } else if self.stopped & bit != 0 && bytes <= u64::from(self.config.xon_bytes) {
                resume |= bit;
            }
        }
        self.stopped = (self.stopped | stop) & !resume;
        let refresh = self.stopped != 0 && now >= self.refresh_at;
        if stop | resume == 0 && !refresh {
            return None;
        }
        self.refresh_at = if self.stopped == 0 {
            Picos::NEVER
        } else {
            now.saturating_add(self.refresh)
        };
        // Each PFC frame repeats the pause of all paused classes, so one timer is sufficient.
        let quanta = std::array::from_fn(|n| {
            if self.stopped & (1 << n) != 0 {
                self.config.pause_quanta
            } else {
                0
            }
        });
        Some(Pfc {
            enable: self.stopped | resume,
            quanta,
        })
    }

    /// Returns the time at which [`SlowReceiveBuffer::next_pfc`] must be called next if no frame arrives.
    /// [`Picos::NEVER`] if no class is paused.
    pub(super) fn next_deadline(&self) -> Picos {
        if self.stopped == 0 {
            return Picos::NEVER;
        }
        let drained = self.waiting.front().map_or(Picos::NEVER, |(at, ..)| *at);
        drained.min(self.refresh_at)
    }

    fn drain(&mut self, now: Picos) {
        while let Some(&(at, class, mac_len)) = self.waiting.front() {
            if at > now {
                return;
            }
            self.waiting.pop_front();
            if self.unread & (1 << class) != 0 {
                self.unread_frames.push_back((class, mac_len));
                continue;
            }
            self.total_bytes -= u64::from(mac_len);
            self.class_bytes[class] -= u64::from(mac_len);
        }
    }
}
