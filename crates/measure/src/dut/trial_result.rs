//! The results of a trial.

use std::fmt;

use hdrhistogram::Histogram;
use xoff_units::Picos;

/// Significant decimal digits of a latency in the histogram. The smallest and the largest latency are stored
/// without rounding.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Histogram of frame latencies. A latency is the time from the first bit sent to the last bit received,
/// without preamble (first in, last out: FILO, RFC 8238 section 2.1).
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

    /// Returns a quantile in nanoseconds, or 0 without latencies. `quantile` is 0 to 1, such as 0.99. The
    /// value has three significant digits, and is never below the smallest or above the largest latency.
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
    /// Time from the start of the trial to the sending of the frame. In virtual time, this is the time at
    /// which the frame was due.
    pub sent_at: Picos,
}

/// The results of one stream: numbers of sent, received and lost frames.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamResult {
    /// Number of frames that the rate and the duration of the stream require.
    pub wanted: u64,
    /// Number of frames that were sent. This number is smaller than `wanted` if the sender was paused or
    /// too slow.
    pub sent: u64,
    /// Number of frames that the tester should receive. A broadcast frame counts once for each
    /// receiving port.
    pub expected: u64,
    /// Number of frames that arrived at the intended port.
    pub received: u64,
    /// Number of frames that arrived at the intended port within the receive window. The window is as long as
    /// the sending time. The window starts at the earliest time at which the first frame can arrive, after
    /// the delay of both cables. In real time, this number is an estimate.
    pub received_in_time: u64,
    /// Frames that arrived after a frame of the same stream with a higher number (RFC 4737,
    /// Type-P-Reordered). Always 0 for [`RealDut`](super::RealDut).
    pub reordered: u64,
    /// Frames that arrived at other ports of the tester, because the device flooded them. Always 0
    /// for [`RealDut`](super::RealDut).
    pub stray: u64,
    /// The lost frame with the lowest number. `None` if no frame was lost, and always for
    /// [`RealDut`](super::RealDut). If frames of the stream were reordered, the value can be wrong.
    pub first_lost: Option<LostFrame>,
    /// The lost frame with the highest number. `None` if no frame was lost, and always for
    /// [`RealDut`](super::RealDut). If frames of the stream were reordered, the value can be wrong.
    pub last_lost: Option<LostFrame>,
}

impl StreamResult {
    /// Returns the number of lost frames: `expected` minus `received`.
    pub fn lost_frames(&self) -> u64 {
        self.expected.saturating_sub(self.received)
    }
}

/// The pauses that a port of the tester received from the device. All values are 0 or `None`
/// for [`RealDut`](super::RealDut).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortResult {
    /// Time within the sending time for which the traffic class of the port was paused.
    pub paused: Picos,
    /// Number of PFC frames that pause at least one priority, and of 802.3x PAUSE frames with a pause time
    /// above 0.
    pub xoff_frames: u64,
    /// Number of PFC frames that resume at least one priority, and of 802.3x PAUSE frames with pause time 0.
    pub xon_frames: u64,
    /// Time from the start of the trial to the arrival of the first pause frame, or `None` if there was
    /// no pause.
    pub first_xoff: Option<Picos>,
    /// Time from the start of the trial to the arrival of the last pause frame, or `None` if there was
    /// no pause.
    pub last_xoff: Option<Picos>,
}

/// Number of frames in the device in the middle and at the end of a trial. If this number grows, the load is
/// too high, even if no frame was lost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Number of frames in the device after half of the sending time. The cable delay is added to this time.
    pub frames_at_half: u64,
    /// Number of frames in the device at the end of the sending time. The cable delay is added to this time.
    pub frames_at_end: u64,
    /// Number of frames that arrived at the device between these two times.
    pub entered_in_second_half: u64,
    /// Largest growth of the backlog in the second half that is possible without overload, in frames. Even
    /// without overload, the backlog can grow for a short time, depending on the order in which the
    /// streams send.
    pub noise_frames: u64,
}

impl Backlog {
    /// Returns the growth of the backlog in the second half of the trial, without the noise. The growth is a
    /// share of the frames that entered in this half, 0 to 1. If the share is above 0, a longer trial would
    /// lose frames or pause senders.
    pub fn growth_share(&self) -> f64 {
        let grown = self
            .frames_at_end
            .saturating_sub(self.frames_at_half)
            .saturating_sub(self.noise_frames);
        grown as f64 / self.entered_in_second_half.max(1) as f64
    }
}

/// The results of a trial: frames, pauses and latencies.
#[derive(Clone, Debug, Default)]
pub struct TrialResult {
    /// Results of the streams, in the order of [`Trial::streams`](super::Trial::streams).
    pub streams: Vec<StreamResult>,
    /// Results of the tester's ports, in the order of [`Dut::ports`](super::Dut::ports).
    pub ports: Vec<PortResult>,
    /// One histogram for each latency group.
    /// [`TrafficStream::latency_group`](super::TrafficStream::latency_group) is an index of this list.
    pub latencies: Vec<LatencyHistogram>,
    /// Duration of the sending, as in the trial.
    pub duration: Picos,
    /// Number of frames in the device, or `None` if the tester cannot observe this number (real time).
    pub backlog: Option<Backlog>,
    /// Facts that can have changed the result. Empty for a valid trial.
    pub tainted: Vec<String>,
}

impl TrialResult {
    /// Returns the sum of a value over all streams.
    pub fn sum_over_streams(&self, value: impl Fn(&StreamResult) -> u64) -> u64 {
        self.streams.iter().map(value).sum()
    }

    /// Returns the share of the expected frames that were lost, 0 to 1, over all streams.
    pub fn loss_ratio(&self) -> f64 {
        self.sum_over_streams(StreamResult::lost_frames) as f64
            / self.sum_over_streams(|s| s.expected).max(1) as f64
    }

    /// Returns the paused time of the port that was paused longest, as a share of the sending time, 0 to 1.
    pub fn paused_ratio(&self) -> f64 {
        let longest = self.ports.iter().map(|port| port.paused.0).max().unwrap_or(0);
        longest as f64 / self.duration.0.max(1) as f64
    }

    /// Returns the share of the required frames ([`StreamResult::wanted`]) that were not sent, 0 to 1.
    pub fn withheld_ratio(&self) -> f64 {
        let wanted = self.sum_over_streams(|s| s.wanted);
        wanted.saturating_sub(self.sum_over_streams(|s| s.sent)) as f64 / wanted.max(1) as f64
    }

    /// Returns the shortfall of the trial, 0 to 1. This is the largest of three shares: lost frames, growth
    /// of the backlog and, if `is_lossless` is true, paused time.
    pub fn shortfall(&self, is_lossless: bool) -> f64 {
        let growth = self.backlog.map_or(0.0, |backlog| backlog.growth_share());
        let paused = if is_lossless { self.paused_ratio() } else { 0.0 };
        self.loss_ratio().max(paused).max(growth)
    }

    /// Returns the forwarding rate in frames per second: the frames that were received in time, divided by
    /// the sending time.
    pub fn forwarded_fps(&self) -> f64 {
        self.sum_over_streams(|s| s.received_in_time) as f64 * 1e12 / self.duration.0.max(1) as f64
    }

    /// Returns the latencies of all groups in one histogram.
    pub fn all_latencies(&self) -> LatencyHistogram {
        let mut all = LatencyHistogram::default();
        for group in &self.latencies {
            all.merge(group);
        }
        all
    }
}
