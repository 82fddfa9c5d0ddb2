//! What came of a trial.

use std::fmt;

use hdrhistogram::Histogram;
use xoff_units::Picos;

/// Digits of a latency that are kept; smallest and largest are exact.
const DIGITS: u8 = 3;

/// Times from the first bit of a frame sent to its last bit received (FILO, RFC 8238 2.1), preamble left out.
#[derive(Clone)]
pub struct Latencies {
    histogram: Histogram<u64>,
    min: u64,
    max: u64,
    sum: u128,
}

impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, min_ns, max_ns) = (self.count(), self.min_ns(), self.max_ns());
        write!(f, "{count} latencies from {min_ns} to {max_ns} ns")
    }
}

impl Default for Latencies {
    fn default() -> Latencies {
        let mut histogram = Histogram::new(DIGITS).expect("three digits are allowed");
        histogram.auto(true);
        Latencies {
            histogram,
            min: u64::MAX,
            max: 0,
            sum: 0,
        }
    }
}

impl Latencies {
    /// One more frame.
    pub fn add(&mut self, span: Picos) {
        self.add_many(span, 1);
    }

    /// So many more.
    pub fn add_many(&mut self, span: Picos, frames: u64) {
        // It grows with what it is given; only memory could refuse.
        let _ = self.histogram.record_n(span.0, frames);
        self.min = self.min.min(span.0);
        self.max = self.max.max(span.0);
        self.sum += u128::from(span.0) * u128::from(frames);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The smallest in nanoseconds; 0 if there are none.
    pub fn min_ns(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { nanos(self.min) }
    }

    /// The largest in nanoseconds.
    pub fn max_ns(&self) -> f64 {
        nanos(self.max)
    }

    /// The mean in nanoseconds; 0 if there are none.
    pub fn mean_ns(&self) -> f64 {
        self.sum as f64 / self.count().max(1) as f64 / 1e3
    }

    /// The quantile in nanoseconds, to three digits, between the smallest and the largest; 0 if there are none.
    pub fn quantile_ns(&self, quantile: f64) -> f64 {
        match self.count() {
            0 => 0.0,
            _ => nanos(
                self.histogram
                    .value_at_quantile(quantile)
                    .clamp(self.min, self.max),
            ),
        }
    }

    /// Both together.
    pub fn absorb(&mut self, other: &Latencies) {
        let _ = self.histogram.add(&other.histogram);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
    }
}

fn nanos(picos: u64) -> f64 {
    picos as f64 / 1e3
}

/// A frame that did not come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Its number in its stream, from 0.
    pub number: u64,
    /// When it was sent, from the trial's start on.
    pub at: Picos,
}

/// What came of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamOutcome {
    /// Frames that its rate and duration ask for.
    pub wanted: u64,
    /// Frames sent; fewer than wanted if the sender was paused or could do no more.
    pub sent: u64,
    /// Frames that ought to come out: for broadcasts a copy at every other port.
    pub expected: u64,
    /// Frames that came out where they should.
    pub received: u64,
    /// Of those the ones received in a time as long as the sending, from when a first frame can have passed both cables.
    pub received_in_time: u64,
    /// Frames that came out behind a later one of their stream (RFC 4737, Type-P-Reordered).
    pub reordered: u64,
    /// Copies that came out where they should not: flooded.
    pub stray: u64,
    /// The first frame that did not come out, where order was kept.
    pub first_lost: Option<Loss>,
    /// The last one.
    pub last_lost: Option<Loss>,
}

impl StreamOutcome {
    /// Frames that did not come out.
    pub fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.received)
    }
}

/// What a port of the tester was told by the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortOutcome {
    /// Time in which a class of its streams was paused, in the trial's sending time.
    pub paused: Picos,
    /// PFC frames that stop a class, and 802.3x pauses.
    pub xoff_frames: u64,
    /// PFC frames that let classes go.
    pub xon_frames: u64,
    /// The first pause, from the trial's start on.
    pub first_xoff: Option<Picos>,
    /// The last one.
    pub last_xoff: Option<Picos>,
}

/// Frames in the device at two moments of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// When what was sent in half its time has come.
    pub half: u64,
    /// When all of it has.
    pub end: u64,
    /// Frames that came between.
    pub sent_between: u64,
    /// By so many it may differ because of where in their turns the streams just are.
    pub noise: u64,
}

impl Backlog {
    /// The share of the frames of the second half that stayed in the device: in a longer trial they would be lost, or paused.
    pub fn growth(&self) -> f64 {
        let grown = self.end.saturating_sub(self.half).saturating_sub(self.noise);
        grown as f64 / self.sent_between.max(1) as f64
    }
}

/// What came of a trial.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// As the trial's streams.
    pub streams: Vec<StreamOutcome>,
    /// As the tester's ports.
    pub ports: Vec<PortOutcome>,
    /// As the streams' groups.
    pub latencies: Vec<Latencies>,
    /// How long was sent.
    pub duration: Picos,
    /// `None`: it cannot be seen from outside.
    pub backlog: Option<Backlog>,
    /// Facts that can have changed the outcome.
    pub tainted: Vec<String>,
}

impl Outcome {
    /// Sum over all streams.
    pub fn total(&self, of: impl Fn(&StreamOutcome) -> u64) -> u64 {
        self.streams.iter().map(of).sum()
    }

    /// Share of frames that did not come out, 0 to 1.
    pub fn loss_ratio(&self) -> f64 {
        self.total(StreamOutcome::lost) as f64 / self.total(|s| s.expected).max(1) as f64
    }

    /// The largest share of time that a port was paused, 0 to 1.
    pub fn paused_ratio(&self) -> f64 {
        let longest = self.ports.iter().map(|port| port.paused.0).max().unwrap_or(0);
        longest as f64 / self.duration.0.max(1) as f64
    }

    /// Share of frames that were wanted and not sent, 0 to 1.
    pub fn withheld_ratio(&self) -> f64 {
        let wanted = self.total(|s| s.wanted);
        wanted.saturating_sub(self.total(|s| s.sent)) as f64 / wanted.max(1) as f64
    }

    /// By how much this trial fell short, 0 to 1: frames lost, backlog grown or, where senders obey pauses, time paused; whichever
    /// is worst.
    pub fn shortfall(&self, is_lossless: bool) -> f64 {
        let growth = self.backlog.map_or(0.0, |backlog| backlog.growth());
        let paused = if is_lossless { self.paused_ratio() } else { 0.0 };
        self.loss_ratio().max(paused).max(growth)
    }

    /// Frames a second that came out while frames were sent.
    pub fn forwarded_fps(&self) -> f64 {
        self.total(|s| s.received_in_time) as f64 * 1e12 / self.duration.0.max(1) as f64
    }

    /// All latencies.
    pub fn all_latencies(&self) -> Latencies {
        let mut all = Latencies::default();
        for group in &self.latencies {
            all.absorb(group);
        }
        all
    }
}
