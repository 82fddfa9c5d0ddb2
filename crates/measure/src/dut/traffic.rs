//! Traffic that a tester offers: frame sizes, loads, streams and traffic patterns.

use crate::choice::named_choices;
use std::str::FromStr;

use xoff_dataplane::{LinkTiming, Picos};

use xoff_telemetry::failure::Failure;

/// Permitted frame lengths in bytes, with FCS.
const FRAME_BYTES_RANGE: std::ops::RangeInclusive<u32> = 64..=9_234;
/// The IMIX of CSIT as pairs of frame length and number of frames: 28 frames of 64 bytes, 16 of 570 bytes and
/// 4 of 1518 bytes. The lengths are spread evenly over the sequence.
const IMIX: [(u32, usize); 3] = [(64, 28), (570, 16), (1_518, 4)];
const IMIX_FRAMES: usize = 48;

/// The length of a stream's frames, with FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameSize {
    /// All frames have this length in bytes.
    Fixed(u32),
    /// A mix of 28 x 64, 16 x 570 and 4 x 1518 bytes (the IMIX of CSIT).
    Imix,
}

impl FrameSize {
    /// Returns the lengths of successive frames in bytes. A stream repeats this list.
    pub fn lengths(self) -> Vec<u32> {
        match self {
            FrameSize::Fixed(bytes) => vec![bytes],
            // The next length is the one whose share is furthest behind.
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

    /// Returns the number of shortest frames that have the transmission time of one longest frame, rounded
    /// up. While one longest frame leaves, the backlog can grow by this number of frames without overload.
    pub fn backlog_variation_frames(self) -> u64 {
        let link = LinkTiming::ethernet(1_000);
        let shortest = self.lengths().into_iter().min().unwrap_or(1);
        u64::from(link.wire_len(self.max_bytes()).div_ceil(link.wire_len(shortest)))
    }

    /// Returns the line rate of a link in frames per second.
    pub fn line_rate_fps(self, link: &LinkTiming) -> f64 {
        let lengths = self.lengths();
        let all: u64 = lengths
            .iter()
            .map(|bytes| link.duration(link.wire_len(*bytes)).0)
            .sum();
        lengths.len() as f64 * 1e12 / all as f64
    }

    /// Returns the name of the size in figures.
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

/// StreamDestination of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamDestination {
    /// A station at this port of the tester.
    Port(usize),
    /// All other ports.
    Broadcast,
}

/// Frames with the same settings that one port of the tester sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrafficStream {
    /// Index of the sending port of the tester.
    pub from: usize,
    /// StreamDestination of the frames.
    pub to: StreamDestination,
    /// Length of the frames.
    pub size: FrameSize,
    /// Rate of the stream as a share of the port's line rate, above 0 and at most 1.
    pub share: f64,
    /// Largest number of frames, or `None` for no limit except `until`.
    pub frames: Option<u64>,
    /// Time from the start of the trial to the first frame.
    pub start: Picos,
    /// Time from the start of the trial to the end of the stream.
    pub until: Picos,
    /// Number of UDP source ports that the frames use in turn, at least 1.
    pub flows: u16,
    /// Number of source addresses that the frames use in turn, at least 1.
    pub sources: u32,
    /// Number of destination stations that the frames use in turn, at least 1.
    pub targets: u32,
    /// Index of the histogram that records the latencies of the stream.
    pub latency_group: usize,
}

impl TrafficStream {
    /// Creates a stream of one flow at a share of the line rate.
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

    /// Creates a stream that sends a number of frames back to back.
    pub fn burst(from_port: usize, to_port: usize, size: FrameSize, frames: u64) -> TrafficStream {
        TrafficStream {
            frames: Some(frames),
            ..TrafficStream::at_constant_rate(from_port, to_port, size, 1.0, Picos::NEVER)
        }
    }
}

/// Streams that the tester sends at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The streams.
    pub streams: Vec<TrafficStream>,
    /// Sending time. A longer stream is cut off.
    pub duration: Picos,
    /// Seed of the random start times of streams below the line rate. With `None`, all streams start at the
    /// same time.
    pub phases: Option<u64>,
}

named_choices! {
    /// Who sends to whom (RFC 2285 3.3, RFC 2889 3).
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
    /// Returns the smallest number of ports of the pattern.
    pub fn min_port_count(self) -> usize {
        match self {
            TrafficPattern::ManyToOne | TrafficPattern::OneToMany => 3,
            _ => 2,
        }
    }

    /// Returns sender, receiver and share of the sender's load for each stream.
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

    /// Returns the streams of the pattern. Every sender sends at `load` times its line rate.
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

/// Checks that a tester with this number of ports can send the streams of a trial.
///
/// # Errors
/// A stream has an unknown port, goes from a port to the same port, or has a rate above the line rate.
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
