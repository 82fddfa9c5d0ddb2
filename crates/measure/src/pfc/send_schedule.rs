//! The times of the frames of a storm.

/// A schedule of frames at a constant rate.
///
/// Frame *n* is due *n* intervals after the start. A late frame does not delay the frames after it.
#[derive(Clone, Debug, PartialEq)]
pub struct SendSchedule {
    start_ns: u64,
    rate_fps: f64,
    frames_max: u64,
    end_ns: u64,
    sent: u64,
}

impl SendSchedule {
    /// Returns a schedule that starts at `start_ns` with a frame. `rate_fps` is the number of frames per second,
    /// greater than 0. The schedule ends after `frames_max` frames, and `duration_ns` after its start.
    pub fn new(
        start_ns: u64,
        rate_fps: f64,
        frames_max: Option<u64>,
        duration_ns: Option<u64>,
    ) -> SendSchedule {
        let end_ns = duration_ns.map_or(u64::MAX, |duration| start_ns.saturating_add(duration));
        SendSchedule {
            start_ns,
            rate_fps,
            frames_max: frames_max.unwrap_or(u64::MAX),
            end_ns,
            sent: 0,
        }
    }

    /// Returns the number of frames that are due at `now_ns` and not yet sent.
    pub fn due_frames(&self, now_ns: u64) -> u64 {
        if now_ns < self.start_ns {
            return 0;
        }
        // Frames at the end of the schedule are not due any more.
        let elapsed_ns = now_ns
            .min(self.end_ns.saturating_sub(1))
            .saturating_sub(self.start_ns);
        if self.end_ns <= self.start_ns {
            return 0;
        }
        let due = (elapsed_ns as f64 * self.rate_fps / 1e9) as u64;
        due.saturating_add(1)
            .min(self.frames_max)
            .saturating_sub(self.sent)
    }

    /// Counts frames as sent.
    pub fn add_sent(&mut self, frames: u64) {
        self.sent = self.sent.saturating_add(frames);
    }

    /// Returns the number of frames that were counted as sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the time in nanoseconds at which the next frame is due. Returns `None` at the end of the schedule.
    pub fn next_due_ns(&self) -> Option<u64> {
        if self.sent >= self.frames_max {
            return None;
        }
        let after_ns = (self.sent as f64 * 1e9 / self.rate_fps).ceil();
        let due_ns = self.start_ns.saturating_add(after_ns as u64);
        (due_ns < self.end_ns).then_some(due_ns)
    }

    /// Returns whether the schedule has ended at `now_ns`: all frames are sent, or the duration has passed.
    pub fn has_ended(&self, now_ns: u64) -> bool {
        self.sent >= self.frames_max || now_ns >= self.end_ns
    }
}
