//! The times at which a port sends (IEEE 802.1AB 9.2.8, transmit timer state machine).

use super::NEVER_NS;

/// Interval of the frames after a new neighbour (9.2.5.5, `msgFastTx`), and time in which a port earns one credit.
const SECOND_NS: u64 = 1_000_000_000;
/// Number of frames at intervals of one second after a new neighbour (9.2.5.19, `txFastInit`).
const FAST_FRAMES: u8 = 4;
/// Largest number of frames that a port sends at once (9.2.5.18, `txCreditMax`).
const CREDIT_MAX: u64 = 5;

/// The time of the next frame of a port.
#[derive(Clone, Debug)]
pub(super) struct TransmitTimer {
    /// Time at which a frame should leave, without regard to the credit.
    wanted_ns: u64,
    /// Number of frames that follow at intervals of one second.
    fast_frames: u8,
    /// Time at which the credit is complete again. Each frame uses the credit of one second.
    credit_full_ns: u64,
}

impl Default for TransmitTimer {
    fn default() -> TransmitTimer {
        TransmitTimer {
            wanted_ns: NEVER_NS,
            fast_frames: 0,
            credit_full_ns: 0,
        }
    }
}

impl TransmitTimer {
    /// Cancels the next frame. The used credit remains.
    pub(super) fn reset(&mut self) {
        (self.wanted_ns, self.fast_frames) = (NEVER_NS, 0);
    }

    /// Requests a frame as soon as the credit permits it.
    pub(super) fn send_soon(&mut self, now_ns: u64) {
        self.wanted_ns = self.wanted_ns.min(now_ns);
    }

    /// Requests a frame now and further frames at intervals of one second.
    pub(super) fn start_fast(&mut self, now_ns: u64) {
        if self.fast_frames == 0 {
            self.fast_frames = FAST_FRAMES;
        }
        self.send_soon(now_ns);
    }

    /// Returns the time of the next frame.
    pub(super) fn due_ns(&self) -> u64 {
        let has_credit_ns = self.credit_full_ns.saturating_sub((CREDIT_MAX - 1) * SECOND_NS);
        self.wanted_ns.max(has_credit_ns)
    }

    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        self.due_ns() <= now_ns
    }

    /// Records a frame, and computes the time of the next one.
    pub(super) fn record_sent(&mut self, now_ns: u64, interval_s: u16) {
        self.credit_full_ns = self.credit_full_ns.max(now_ns).saturating_add(SECOND_NS);
        self.fast_frames = self.fast_frames.saturating_sub(1);
        let seconds = match self.fast_frames {
            0 => u64::from(interval_s.max(1)),
            _ => 1,
        };
        self.wanted_ns = now_ns.saturating_add(seconds * SECOND_NS);
    }
}
