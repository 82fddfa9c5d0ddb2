//! Traffic that a tester offers: frame sizes, loads, streams and traffic patterns.

use crate::choice::named_choices;
use std::str::FromStr;

use xoff_dataplane::{LinkTiming, Picos};

use xoff_telemetry::failure::Failure;

/// Permitted frame lengths in bytes, with FCS.
const FRAME_BYTES_RANGE: std::ops::RangeInclusive<u32> = 64..=9_234;
/// The IMIX (mix of frame lengths) of the FD.io project CSIT. Each entry has a frame length and a number of
/// frames: 28 frames of 64 bytes, 16 of 570 bytes and 4 of 1518 bytes. The three lengths are spread evenly
/// over the sequence.
const IMIX: [(u32, usize); 3] = [(64, 28), (570, 16), (1_518, 4)];
const IMIX_FRAMES: usize = 48;

/// The frame length of a stream in bytes, with FCS: one length or a mix of lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameSize {
    /// All frames have this length in bytes, with FCS. Parsing accepts 64 to 9234.
    Fixed(u32),
    /// A repeated sequence of 48 frames: 28 frames of 64 bytes, 16 of 570 bytes and 4 of 1518 bytes. This is
    /// the IMIX (mix of frame lengths) of the FD.io project CSIT.
    Imix,
}

impl FrameSize {
    /// Returns the lengths of successive frames in bytes, with FCS. A stream repeats this list.
    pub fn lengths(self) -> Vec<u32> {
        match self {
            FrameSize::Fixed(bytes) => vec![bytes],
            // The next frame has the length that is furthest behind its share.
            FrameSize::Imix => (0..IMIX_FRAMES)
                .scan([0usize; IMIX.len()], |sent, frame| {
                    let owed = |kind: &usize| {
                        (IMIX[*kind].1 * (frame + 1)) as isize - (sent[*kind] * IMIX_FRAMES) as isize
                    };
                    let kind = (0..IMIX.len()).max_by_key(owed).unwrap_or(0);
                    sent[kind] += 1;
                    Some(IMIX[kind].0)
                })
                .collect(),
        }
    }

    /// Returns the mean frame length in bytes, with FCS.
    pub fn mean_bytes(self) -> f64 {
        let lengths = self.lengths();
        lengths.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / lengths.len() as f64
    }

    /// Returns the longest frame length in bytes, with FCS.
    pub fn max_bytes(self) -> u32 {
        self.lengths().into_iter().max().unwrap_or(0)
    }

    /// Returns the transmission time of the longest frame divided by the transmission time of the shortest
    /// frame, rounded up. While one longest frame leaves a port, the backlog can grow by this number of
    /// frames without overload.
    pub fn backlog_variation_frames(self) -> u64 {
        let link = LinkTiming::ethernet(1_000);
        let shortest = self.lengths().into_iter().min().unwrap_or(1);
        u64::from(link.wire_len(self.max_bytes()).div_ceil(link.wire_len(shortest)))
    }

    /// Returns the highest frame rate of a link in frames per second, with preambles and gaps.
    pub fn line_rate_fps(self, link: &LinkTiming) -> f64 {
        let lengths = self.lengths();
        let all: u64 = lengths
            .iter()
            .map(|bytes| link.duration(link.wire_len(*bytes)).0)
            .sum();
        lengths.len() as f64 * 1e12 / all as f64
    }

    /// Returns the size as it appears in the names of benchmark figures: the length in bytes such as `64`,
    /// or `imix`.
    pub fn name(self) -> String {
        match self {
            FrameSize::Fixed(bytes) => bytes.to_string(),
            FrameSize::Imix => "imix".to_owned(),
        }
    }
}

impl FromStr for FrameSize {
    type Err = String;

    fn from_str(text: &str) -> Result<FrameSize, String> {
        if text.eq_ignore_ascii_case("imix") {
            return Ok(FrameSize::Imix);
        }
        match text.parse() {
            Ok(bytes) if FRAME_BYTES_RANGE.contains(&bytes) => Ok(FrameSize::Fixed(bytes)),
            _ => Err(format!(
                "a frame has {} to {} bytes with its FCS, or is `imix`",
                FRAME_BYTES_RANGE.start(),
                FRAME_BYTES_RANGE.end()
            )),
        }
    }
}

/// The destination of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamDestination {
    /// A station at the tester port with this index in [`Dut::ports`](super::Dut::ports).
    Port(usize),
    /// All ports of the tester except the sending port.
    Broadcast,
}

/// A sequence of frames that one port of the tester sends, with their common settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrafficStream {
    /// Index of the sending port in [`Dut::ports`](super::Dut::ports).
    pub from: usize,
    /// Destination of the frames.
    pub to: StreamDestination,
    /// Frame length of the stream.
    pub size: FrameSize,
    /// Rate of the stream as a share of the line rate of the sending port, above 0 and at most 1.
    pub share: f64,
    /// Number of frames after which the stream ends, or `None` if only `until` ends the stream.
    pub frames: Option<u64>,
    /// Time from the start of the trial to the start of the stream.
    pub start: Picos,
    /// Time from the start of the trial to the end of the stream.
    pub until: Picos,
    /// Number of flows (UDP source ports), at least 1. The frames use them in turn.
    pub flows: u16,
    /// Number of source MAC addresses, at least 1. The frames use them in turn.
    pub sources: u32,
    /// Number of destination MAC addresses, at least 1. The frames use them in turn.
    pub targets: u32,
    /// Index in [`TrialResult::latencies`](super::TrialResult::latencies) of the histogram that records the
    /// latencies of the stream. Streams with the same index share a histogram.
    pub latency_group: usize,
}

impl TrafficStream {
    /// Creates a stream of one flow. It sends from time 0 to `duration` at `load` times the line rate, where
    /// `load` is above 0 and at most 1. `from_port` and `to_port` are indices of tester ports.
    pub fn at_constant_rate(
        from_port: usize,
        to_port: usize,
        size: FrameSize,
        load: f64,
        duration: Picos,
    ) -> TrafficStream {
        TrafficStream {
            from: from_port,
            to: StreamDestination::Port(to_port),
            size,
            share: load,
            frames: None,
            start: Picos::ZERO,
            until: duration,
            flows: 1,
            sources: 1,
            targets: 1,
            latency_group: 0,
        }
    }

    /// Creates a stream that sends `frames` frames at line rate, without an end time. `from_port` and
    /// `to_port` are indices of tester ports.
    pub fn burst(from_port: usize, to_port: usize, size: FrameSize, frames: u64) -> TrafficStream {
        TrafficStream {
            frames: Some(frames),
            ..TrafficStream::at_constant_rate(from_port, to_port, size, 1.0, Picos::NEVER)
        }
    }
}

/// One measurement: the streams that the tester sends, and the sending time.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The streams. Their indices are also those of [`TrialResult::streams`](super::TrialResult::streams).
    pub streams: Vec<TrafficStream>,
    /// Sending time, from the start of the trial. [`VirtualDut`](super::VirtualDut) ends streams at this
    /// time, except streams with a limit in `frames`.
    pub duration: Picos,
    /// Seed of the random start times in virtual time. With a seed, each stream without a limit in `frames`
    /// starts up to one frame interval later than its `start`. With `None`, each stream starts exactly at its
    /// `start`. [`RealDut`](super::RealDut) ignores this field.
    pub phases: Option<u64>,
}

named_choices! {
    /// The pairs of sending and receiving ports (RFC 2285 section 3.3, RFC 2889 section 3).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum TrafficPattern {
        #[default]
        Pairs = "pairs": "Ports in pairs, both ways",
        OneWay = "one-way": "Ports in pairs, from the first to the second",
        Mesh = "mesh": "Every port to all others in turns, both ways",
        ManyToOne = "many-to-one": "All ports to the last one",
        OneToMany = "one-to-many": "The first port to all others in turns",
    }
}

impl TrafficPattern {
    /// Returns the smallest number of tester ports that the pattern needs, 2 or 3.
    pub fn min_port_count(self) -> usize {
        match self {
            TrafficPattern::ManyToOne | TrafficPattern::OneToMany => 3,
            _ => 2,
        }
    }

    /// Returns the streams of the pattern between the ports 0 to `port_count - 1`. Each entry has the index
    /// of the sender, the index of the receiver, and the stream's share of the sender's load, above 0 and at
    /// most 1. `port_count` must be at least [`TrafficPattern::min_port_count`].
    pub fn sender_receiver_loads(self, port_count: usize) -> Vec<(usize, usize, f64)> {
        let full_load = |(from, to)| (from, to, 1.0);
        let part = 1.0 / (port_count - 1) as f64;
        let others = |from: usize| (1..port_count).map(move |step| (from, (from + step) % port_count, part));
        match self {
            TrafficPattern::Pairs => (0..port_count / 2)
                .flat_map(|pair| [(2 * pair, 2 * pair + 1), (2 * pair + 1, 2 * pair)])
                .map(full_load)
                .collect(),
            TrafficPattern::OneWay => (0..port_count / 2)
                .map(|pair| (2 * pair, 2 * pair + 1))
                .map(full_load)
                .collect(),
            TrafficPattern::Mesh => (0..port_count).flat_map(others).collect(),
            TrafficPattern::ManyToOne => (0..port_count - 1)
                .map(|from| (from, port_count - 1))
                .map(full_load)
                .collect(),
            TrafficPattern::OneToMany => others(0).collect(),
        }
    }

    /// Returns the streams of the pattern between the ports 0 to `port_count - 1`. Each sender divides `load`
    /// times its line rate equally among its streams. `load` is above 0 and at most 1, and all streams last
    /// for `duration`. `port_count` must be at least [`TrafficPattern::min_port_count`].
    pub fn streams(
        self,
        port_count: usize,
        size: FrameSize,
        load: f64,
        duration: Picos,
    ) -> Vec<TrafficStream> {
        self.sender_receiver_loads(port_count)
            .into_iter()
            .map(|(from, to, load_share)| {
                TrafficStream::at_constant_rate(from, to, size, load * load_share, duration)
            })
            .collect()
    }
}

/// Rounding error that is permitted in a sum of shares.
const SHARE_ROUNDING_ERROR: f64 = 1e-9;

/// Checks that a tester with `port_count` ports can send the streams of a trial. `port_name` returns the name
/// of a port for error messages.
///
/// # Errors
/// One of these cases: the streams of a port together exceed the line rate of the port, or a stream uses a
/// port that does not exist, has the same port as source and destination, has no flow, or has a rate of 0
/// or less.
pub(super) fn check_streams(
    trial: &Trial,
    port_count: usize,
    port_name: impl Fn(usize) -> String,
) -> Result<(), Failure> {
    for port in 0..port_count {
        let mut edges: Vec<Picos> = Vec::new();
        for stream in trial.streams.iter().filter(|stream| stream.from == port) {
            edges.push(stream.start);
        }
        // The load of a port rises only at the start of a stream, so only these times are checked.
        for edge in edges {
            let concurrent = trial.streams.iter().filter(|stream| {
                stream.from == port && stream.frames.is_none() && (stream.start..stream.until).contains(&edge)
            });
            let share: f64 = concurrent.map(|stream| stream.share).sum();
            if share > 1.0 + SHARE_ROUNDING_ERROR {
                return Err(Failure::usage(format!(
                    "a port cannot send {:.2} % of its line rate",
                    share * 100.0
                ))
                .at(port_name(port))
                .fix("offer at most 100 %"));
            }
        }
    }
    for stream in &trial.streams {
        let to_itself = stream.to == StreamDestination::Port(stream.from);
        let beyond =
            matches!(stream.to, StreamDestination::Port(to) if to >= port_count) || stream.from >= port_count;
        if to_itself || beyond || stream.share.is_nan() || stream.share <= 0.0 || stream.flows == 0 {
            return Err(
                Failure::usage("a stream needs two ports of the tester and a rate above nothing")
                    .at(port_name(stream.from.min(port_count.saturating_sub(1)))),
            );
        }
    }
    Ok(())
}
