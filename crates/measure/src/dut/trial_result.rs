//! The results of a trial.

use std::fmt;

use hdrhistogram::Histogram;
use xoff_units::Picos;

/// Significant decimal digits of a latency in the histogram. The smallest and the largest latency are stored
/// without rounding.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Histogram of frame latencies. A latency is the time from the first bit sent to the last bit received,
/// without preamble (FILO, RFC 8238 clause 2.1).
#[derive(Clone)]
pub struct LatencyHistogram {
    histogram: Histogram<u64>,
    min: u64,
    max: u64,
    sum: u128,
}

impl fmt::Debug for LatencyHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, min_ns, max_ns) = (self.count(), self.min_ns(), self.max_ns());
        write!(f, "{count} latencies from {min_ns} to {max_ns} ns")
    }
}

impl Default for LatencyHistogram {
    fn default() -> LatencyHistogram {
        let mut histogram = Histogram::new(SIGNIFICANT_DIGITS).expect("three digits are allowed");
        histogram.auto(true);
        LatencyHistogram {
            histogram,
            min: u64::MAX,
            max: 0,
            sum: 0,
        }
    }
}

impl LatencyHistogram {
    /// Adds the latency of one frame.
    pub fn add(&mut self, latency: Picos) {
        self.add_many(latency, 1);
    }

    /// Adds the same latency for several frames.
    pub fn add_many(&mut self, latency: Picos, frames: u64) {
        // The histogram resizes itself, so recording cannot fail.
        let _ = self.histogram.record_n(latency.0, frames);
        self.min = self.min.min(latency.0);
        self.max = self.max.max(latency.0);
        self.sum += u128::from(latency.0) * u128::from(frames);
    }

    /// Returns the number of recorded latencies.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the smallest latency in nanoseconds, or 0 if there is none.
    pub fn min_ns(&self) -> f64 {
        if self.count() == 0 {
            0.0
        } else {
            picos_to_nanos(self.min)
        }
    }

    /// Returns the largest latency in nanoseconds, or 0 if there is none.
    pub fn max_ns(&self) -> f64 {
        picos_to_nanos(self.max)
    }

    /// Returns the mean latency in nanoseconds, or 0 if there is none.
    pub fn mean_ns(&self) -> f64 {
        self.sum as f64 / self.count().max(1) as f64 / 1e3
    }

    /// Returns a quantile in nanoseconds, or 0 without latencies. The value has three significant digits. It
    /// is never below the smallest or above the largest latency.
    pub fn quantile_ns(&self, quantile: f64) -> f64 {
        match self.count() {
            0 => 0.0,
            _ => picos_to_nanos(
                self.histogram
                    .value_at_quantile(quantile)
                    .clamp(self.min, self.max),
            ),
        }
    }

    /// Adds all latencies of another histogram.
    pub fn merge(&mut self, other: &LatencyHistogram) {
        let _ = self.histogram.add(&other.histogram);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
    }
}

fn picos_to_nanos(picos: u64) -> f64 {
    picos as f64 / 1e3
}

/// A frame that the device did not forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostFrame {
    /// Number of the frame in its stream, from 0.
    pub number: u64,
    /// Time between the start of the trial and the sending of the frame.
    pub sent_at: Picos,
}

/// The results of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamResult {
    /// Frames to send according to the rate and the duration of the stream.
    pub wanted: u64,
    /// Frames that were sent. The number is smaller than `wanted` if the sender was paused or too slow.
    pub sent: u64,
    /// Frames that the device should forward. A broadcast counts once for each other port.
    pub expected: u64,
    /// Frames that arrived at the intended port.
    pub received: u64,
    /// Number of received frames that arrived within the receive window. The window is as long as the sending
    /// time. It starts at the earliest time at which the first frame can arrive over both cables.
    pub received_in_time: u64,
    /// Frames that arrived after a later frame of the same stream (RFC 4737, Type-P-Reordered).
    pub reordered: u64,
    /// Frames that arrived at other ports because the device flooded them.
    pub stray: u64,
    /// The first lost frame, if the stream was not reordered.
    pub first_lost: Option<LostFrame>,
    /// The last lost frame, if the stream was not reordered.
    pub last_lost: Option<LostFrame>,
}

impl StreamResult {
    /// Returns the number of lost frames.
    pub fn lost_frames(&self) -> u64 {
        self.expected.saturating_sub(self.received)
    }
}

/// The pauses that a port of the tester received from the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortResult {
    /// Part of the sending time in which the port's traffic class was paused.
    pub paused: Picos,
    /// PFC frames that pause a priority, and 802.3x PAUSE frames.
    pub xoff_frames: u64,
    /// PFC frames that end the pause of a priority.
    pub xon_frames: u64,
    /// Time from the start of the trial to the first pause.
    pub first_xoff: Option<Picos>,
    /// Time from the start of the trial to the last pause.
    pub last_xoff: Option<Picos>,
}

/// Number of frames in the device in the middle and at the end of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Frames in the device when the frames of the first half of the trial have arrived.
    pub frames_at_half: u64,
    /// Frames in the device when all frames of the trial have arrived.
    pub frames_at_end: u64,
    /// Frames that arrived at the device in the second half of the trial.
    pub entered_in_second_half: u64,
    /// Difference of the two counts that is possible without overload, in frames. The order in which the
    /// streams send causes this difference.
    pub noise_frames: u64,
}

impl Backlog {
    /// Returns the growth of the backlog in the second half of the trial, as a share of the frames that
    /// entered in this half, 0 to 1. A longer trial would lose frames or pause senders.
    pub fn growth_share(&self) -> f64 {
        let grown = self
            .frames_at_end
            .saturating_sub(self.frames_at_half)
            .saturating_sub(self.noise_frames);
        grown as f64 / self.entered_in_second_half.max(1) as f64
    }
}

/// The results of a trial.
#[derive(Clone, Debug, Default)]
pub struct TrialResult {
    /// Results of the streams, in the order of the trial.
    pub streams: Vec<StreamResult>,
    /// Results of the tester's ports.
    pub ports: Vec<PortResult>,
    /// LatencyHistogram of each latency group of the streams.
    pub latencies: Vec<LatencyHistogram>,
    /// Duration of the sending.
    pub duration: Picos,
    /// Frames in the device, or `None` if the tester cannot observe them.
    pub backlog: Option<Backlog>,
    /// Facts that can have changed the result.
    pub tainted: Vec<String>,
}

impl TrialResult {
    /// Returns the sum of a value over all streams.
    pub fn sum_over_streams(&self, value: impl Fn(&StreamResult) -> u64) -> u64 {
        self.streams.iter().map(value).sum()
    }

    /// Returns the share of the expected frames that were lost, 0 to 1.
    pub fn loss_ratio(&self) -> f64 {
        self.sum_over_streams(StreamResult::lost_frames) as f64
            / self.sum_over_streams(|s| s.expected).max(1) as f64
    }

    /// Returns the largest share of the trial for which a port was paused, 0 to 1.
    pub fn paused_ratio(&self) -> f64 {
        let longest = self.ports.iter().map(|port| port.paused.0).max().unwrap_or(0);
        longest as f64 / self.duration.0.max(1) as f64
    }

    /// Returns the share of the wanted frames that were not sent, 0 to 1.
    pub fn withheld_ratio(&self) -> f64 {
        let wanted = self.sum_over_streams(|s| s.wanted);
        wanted.saturating_sub(self.sum_over_streams(|s| s.sent)) as f64 / wanted.max(1) as f64
    }

    /// Returns the shortfall of the trial, 0 to 1: the largest of the share of lost frames, the growth of the
    /// backlog and, for a lossless class, the share of paused time.
    pub fn shortfall(&self, is_lossless: bool) -> f64 {
        let growth = self.backlog.map_or(0.0, |backlog| backlog.growth_share());
        let paused = if is_lossless { self.paused_ratio() } else { 0.0 };
        self.loss_ratio().max(paused).max(growth)
    }

    /// Returns the forwarding rate in frames per second during the sending time.
    pub fn forwarded_fps(&self) -> f64 {
        self.sum_over_streams(|s| s.received_in_time) as f64 * 1e12 / self.duration.0.max(1) as f64
    }

    /// Returns the latencies of all groups together.
    pub fn all_latencies(&self) -> LatencyHistogram {
        let mut all = LatencyHistogram::default();
        for group in &self.latencies {
            all.merge(group);
        }
        all
    }
}
