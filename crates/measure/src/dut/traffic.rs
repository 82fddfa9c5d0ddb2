//! What a tester offers, in terms of the field: frame sizes, loads, streams, patterns.

use crate::choice::named_choices;
use std::str::FromStr;

use xoff_dataplane::{LinkTiming, Picos};

use xoff_telemetry::failure::Failure;

/// Shortest and longest frame that can be asked for, with FCS.
const FRAME_BYTES: std::ops::RangeInclusive<u32> = 64..=9_234;
/// CSIT's mix: 28 frames of 64 octets, 16 of 570, 4 of 1518, spread evenly over 48.
const IMIX: [(u32, usize); 3] = [(64, 28), (570, 16), (1_518, 4)];
const IMIX_FRAMES: usize = 48;

/// The length of a stream's frames, with FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameSize {
    /// All of this length.
    Fixed(u32),
    /// 28 x 64, 16 x 570, 4 x 1518 octets (CSIT's IMIX).
    Imix,
}

impl FrameSize {
    /// Lengths of successive frames; after the last the first comes again.
    pub fn lengths(self) -> Vec<u32> {
        match self {
            FrameSize::Fixed(bytes) => vec![bytes],
            // Each length comes when its share is owed most.
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

    /// Mean length with FCS.
    pub fn mean_bytes(self) -> f64 {
        let lengths = self.lengths();
        lengths.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / lengths.len() as f64
    }

    /// The longest.
    pub fn max_bytes(self) -> u32 {
        self.lengths().into_iter().max().unwrap_or(0)
    }

    /// Frames of the shortest kind that come while one of the longest leaves, rounded up: so much a backlog moves up and down
    /// where nothing is too fast.
    pub fn unevenness(self) -> u64 {
        let link = LinkTiming::ethernet(1_000);
        let shortest = self.lengths().into_iter().min().unwrap_or(1);
        u64::from(link.wire_len(self.max_bytes()).div_ceil(link.wire_len(shortest)))
    }

    /// How many frames a link carries in a second if it does nothing else.
    pub fn line_rate_fps(self, link: &LinkTiming) -> f64 {
        let lengths = self.lengths();
        let all: u64 = lengths
            .iter()
            .map(|bytes| link.duration(link.wire_len(*bytes)).0)
            .sum();
        lengths.len() as f64 * 1e12 / all as f64
    }

    /// Its part of a figure's name.
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
            Ok(bytes) if FRAME_BYTES.contains(&bytes) => Ok(FrameSize::Fixed(bytes)),
            _ => Err(format!(
                "a frame has {} to {} bytes with its FCS, or is `imix`",
                FRAME_BYTES.start(),
                FRAME_BYTES.end()
            )),
        }
    }
}

/// Where the frames of a stream go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The station behind a port of the tester.
    Port(usize),
    /// All others.
    Broadcast,
}

/// Frames of one kind from one port of the tester.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stream {
    /// Index of the tester's port that sends.
    pub from: usize,
    /// Where they go.
    pub to: Destination,
    /// How long they are.
    pub size: FrameSize,
    /// Share of the port's line rate at which they are sent, evenly: above 0, at most 1.
    pub share: f64,
    /// Most of them; `None`: until `until`.
    pub frames: Option<u64>,
    /// The first one leaves so long after the trial's start.
    pub start: Picos,
    /// Nothing leaves from this time of the trial on.
    pub until: Picos,
    /// UDP source ports among which they take turns, at least 1.
    pub flows: u16,
    /// Source addresses among which they take turns, at least 1.
    pub sources: u32,
    /// Stations behind the destination among which they take turns, at least 1.
    pub targets: u32,
    /// Which of the trial's latencies theirs is part of.
    pub group: usize,
}

impl Stream {
    /// A stream at this share of the line rate for so long, in one flow.
    pub fn steady(from: usize, to: usize, size: FrameSize, share: f64, duration: Picos) -> Stream {
        Stream {
            from,
            to: Destination::Port(to),
            size,
            share,
            frames: None,
            start: Picos::ZERO,
            until: duration,
            flows: 1,
            sources: 1,
            targets: 1,
            group: 0,
        }
    }

    /// So many frames back to back.
    pub fn burst(from: usize, to: usize, size: FrameSize, frames: u64) -> Stream {
        Stream {
            frames: Some(frames),
            ..Stream::steady(from, to, size, 1.0, Picos::NEVER)
        }
    }
}

/// Streams that are offered at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The streams.
    pub streams: Vec<Stream>,
    /// How long is watched: a stream that goes on for longer is cut off.
    pub duration: Picos,
    /// Draws the phases of streams that do not fill their link; `None`: all begin at once.
    pub phases: Option<u64>,
}

named_choices! {
    /// Who sends to whom (RFC 2285 3.3, RFC 2889 3).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Pattern {
        #[default]
        Pairs = "pairs": "Ports in pairs, both ways",
        OneWay = "one-way": "Ports in pairs, from the first to the second",
        Mesh = "mesh": "Every port to all others in turns, both ways",
        ManyToOne = "many-to-one": "All ports to the last one",
        OneToMany = "one-to-many": "The first port to all others in turns",
    }
}

impl Pattern {
    /// Fewest ports it needs.
    pub fn ports_min(self) -> usize {
        match self {
            Pattern::ManyToOne | Pattern::OneToMany => 3,
            _ => 2,
        }
    }

    /// Sender and receiver of each stream, and the part of the sender's load that it is.
    pub fn pairs(self, ports: usize) -> Vec<(usize, usize, f64)> {
        let whole = |(from, to)| (from, to, 1.0);
        let part = 1.0 / (ports - 1) as f64;
        let others = |from: usize| (1..ports).map(move |step| (from, (from + step) % ports, part));
        match self {
            Pattern::Pairs => (0..ports / 2)
                .flat_map(|pair| [(2 * pair, 2 * pair + 1), (2 * pair + 1, 2 * pair)])
                .map(whole)
                .collect(),
            Pattern::OneWay => (0..ports / 2)
                .map(|pair| (2 * pair, 2 * pair + 1))
                .map(whole)
                .collect(),
            Pattern::Mesh => (0..ports).flat_map(others).collect(),
            Pattern::ManyToOne => (0..ports - 1).map(|from| (from, ports - 1)).map(whole).collect(),
            Pattern::OneToMany => others(0).collect(),
        }
    }

    /// The streams of this pattern, every sender at this share of its line rate.
    pub fn streams(self, ports: usize, size: FrameSize, share: f64, duration: Picos) -> Vec<Stream> {
        self.pairs(ports)
            .into_iter()
            .map(|(from, to, part)| Stream::steady(from, to, size, share * part, duration))
            .collect()
    }
}

/// Rounding that a sum of shares may have.
const ROUNDING: f64 = 1e-9;

/// Refuses streams that a tester with these ports cannot send.
///
/// # Errors
/// A port that is not there, one that sends to itself, a rate no port can carry.
pub(super) fn check(trial: &Trial, ports: usize, name: impl Fn(usize) -> String) -> Result<(), Failure> {
    for port in 0..ports {
        let mut edges: Vec<Picos> = Vec::new();
        for stream in trial.streams.iter().filter(|stream| stream.from == port) {
            edges.push(stream.start);
        }
        // The load changes where a stream begins: it is largest there.
        for edge in edges {
            let at_once = trial.streams.iter().filter(|stream| {
                stream.from == port && stream.frames.is_none() && (stream.start..stream.until).contains(&edge)
            });
            let share: f64 = at_once.map(|stream| stream.share).sum();
            if share > 1.0 + ROUNDING {
                return Err(Failure::usage(format!(
                    "no port can carry {:.2} % of its line rate",
                    share * 100.0
                ))
                .at(name(port))
                .fix("offer at most 100 %"));
            }
        }
    }
    for stream in &trial.streams {
        let to_itself = stream.to == Destination::Port(stream.from);
        let beyond = matches!(stream.to, Destination::Port(to) if to >= ports) || stream.from >= ports;
        if to_itself || beyond || stream.share.is_nan() || stream.share <= 0.0 || stream.flows == 0 {
            return Err(
                Failure::usage("a stream needs two ports of the tester and a rate above nothing")
                    .at(name(stream.from.min(ports.saturating_sub(1)))),
            );
        }
    }
    Ok(())
}
