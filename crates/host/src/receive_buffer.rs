//! Receive buffer of a NIC that is slower than its link. The buffer sends PFC frames when it fills.

use std::collections::VecDeque;

use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{LinkTiming, Picos};
use xoff_wire::Pfc;
use xoff_wire::parse::ParsedHeaders;

use super::config::ReceiveBuffer;

/// Frames in the receive buffer, sorted by the time at which they leave the buffer.
#[derive(Clone, Debug)]
pub(super) struct SlowReceiveBuffer {
    config: ReceiveBuffer,
    refresh: Picos,
    /// Each frame: the time at which it has left the buffer, its class, and its length.
    waiting: VecDeque<(Picos, usize, u32)>,
    drained_at: Picos,
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
            refresh: Picos(link.pause_duration(config.pause_quanta).0 / 2),
            waiting: VecDeque::new(),
            drained_at: Picos::ZERO,
            total_bytes: 0,
            class_bytes: [0; PRIORITIES],
            stopped: 0,
            refresh_at: Picos::NEVER,
        }
    }

    /// Returns the class of an arriving frame: by DSCP, else by the 802.1Q priority, else class 0.
    pub(super) fn class_of(&self, parsed: &ParsedHeaders) -> usize {
        let class = match (parsed.dscp(), parsed.tag) {
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
        let time = u64::from(mac_len) * 8_000_000_000_000 / self.config.drain_bps;
        self.drained_at = self.drained_at.max(now).saturating_add(Picos(time));
        self.waiting.push_back((self.drained_at, class, mac_len));
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
            self.total_bytes -= u64::from(mac_len);
            self.class_bytes[class] -= u64::from(mac_len);
        }
    }
}
