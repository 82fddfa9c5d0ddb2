//! `parameters.txt`: what the model was told, by its own names.

use std::collections::BTreeSet;

use super::setting::Setting;
use super::text::{Line, ReadError, Text, quoted};
use super::topology::Topology;

/// Settings without which nothing can be said about a run.
pub(super) const REQUIRED: [&str; 13] = [
    "CC_MODE",
    "ALPHA_RESUME_INTERVAL",
    "RP_TIMER",
    "EWMA_GAIN",
    "RATE_AI",
    "RATE_HAI",
    "MIN_RATE",
    "L2_ACK_INTERVAL",
    "HAS_WIN",
    "KMAX_MAP",
    "KMIN_MAP",
    "PMAX_MAP",
    "BUFFER_SIZE",
];

/// What the model was told, as far as it has an effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// Switches mark (`ENABLE_QCN`).
    pub ecn: bool,
    /// Payload of a full packet (`PACKET_PAYLOAD_SIZE`).
    pub payload_bytes: u32,
    /// Flows keep to their rate; otherwise to that of their link (`RATE_BOUND`).
    pub rate_bound: bool,
    /// Buffer of each switch, in bytes modulo 2^32 (`BUFFER_SIZE`, MiB).
    pub buffer_bytes: u32,
    /// ECN thresholds by link speed.
    pub marking: Vec<Marking>,
    /// DCQCN.
    pub dcqcn: Dcqcn,
}

/// ECN thresholds of links of one speed (`KMIN_MAP`, `KMAX_MAP`, `PMAX_MAP`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marking {
    /// The speed, in bits per second.
    pub rate_bps: u64,
    /// Nothing is marked up to so many queued bytes.
    pub min_bytes: u64,
    /// All is marked beyond so many.
    pub max_bytes: u64,
    /// Probability at the upper threshold, 0 to 1.
    pub max_probability: f64,
}

/// DCQCN as NICs implement it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dcqcn {
    /// `ALPHA_RESUME_INTERVAL`, in microseconds.
    pub alpha_interval_us: u64,
    /// `RATE_DECREASE_INTERVAL`, in microseconds.
    pub decrease_interval_us: u64,
    /// `CLAMP_TARGET_RATE`.
    pub clamp_target: bool,
    /// `RP_TIMER`, in microseconds.
    pub increase_interval_us: u64,
    /// `EWMA_GAIN`.
    pub gain: f64,
    /// `FAST_RECOVERY_TIMES`.
    pub fast_recovery_times: u64,
    /// `RATE_AI`, in bits per second.
    pub rate_ai_bps: u64,
    /// `RATE_HAI`, in bits per second.
    pub rate_hai_bps: u64,
    /// `MIN_RATE`, in bits per second.
    pub min_rate_bps: u64,
}

impl Parameters {
    /// The defaults of the model itself, where it has any.
    fn new() -> Parameters {
        Parameters {
            ecn: true,
            payload_bytes: 1_000,
            rate_bound: true,
            buffer_bytes: 0,
            marking: Vec::new(),
            dcqcn: Dcqcn {
                alpha_interval_us: 0,
                decrease_interval_us: 4,
                clamp_target: false,
                increase_interval_us: 0,
                gain: 0.0,
                fast_recovery_times: 5,
                rate_ai_bps: 0,
                rate_hai_bps: 0,
                min_rate_bps: 0,
            },
        }
    }

    /// The thresholds of links of one speed.
    pub fn marking(&self, rate_bps: u64) -> Option<&Marking> {
        self.marking.iter().find(|marking| marking.rate_bps == rate_bps)
    }

    /// Whether a queue can grow so long that it is marked: then DCQCN has a part in the run.
    pub fn can_mark(&self) -> bool {
        let reachable = |marking: &Marking| marking.min_bytes < u64::from(self.buffer_bytes);
        self.ecn && self.rate_bound && self.marking.iter().any(reachable)
    }
}

/// The three maps by speed, before they are put together.
#[derive(Default)]
pub(super) struct Maps {
    pub(super) min: Vec<(u64, u64)>,
    pub(super) max: Vec<(u64, u64)>,
    pub(super) probability: Vec<(u64, f64)>,
}

/// Reads the file.
pub(super) fn read(text: &Text) -> Result<Parameters, ReadError> {
    let mut parameters = Parameters::new();
    let mut maps = Maps::default();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    let mut ack_interval = None;
    let lines: Vec<Line<'_>> = text.lines().collect();
    for line in &lines {
        let name = line.words[0];
        if !names.insert(name.text) {
            let what = format!("{} is set twice", quoted(name.text));
            return Err(text.wrong_word(&name, what, "each setting once"));
        }
        let setting = Setting { text, line };
        if name.text == "L2_ACK_INTERVAL" {
            let word = setting.value()?;
            ack_interval = Some((setting.whole(1, u64::from(u32::MAX))?, word));
        } else if let Some(map) = setting.map(&mut maps) {
            map?;
        } else {
            setting.take(&mut parameters)?;
        }
    }
    if let Some(missing) = REQUIRED.iter().find(|name| !names.contains(*name)) {
        return Err(text.ended(
            format!("{missing} is missing"),
            format!("a line `{missing} value`"),
        ));
    }
    if let Some((interval, word)) = ack_interval
        && interval > u64::from(parameters.payload_bytes)
    {
        let what = format!("L2_ACK_INTERVAL is {interval}");
        let expected = format!(
            "1 to {}, the payload of a packet: one acknowledgement per packet",
            parameters.payload_bytes
        );
        return Err(text.wrong_word(&word, what, expected));
    }
    parameters.marking = maps.put_together(text)?;
    Ok(parameters)
}

/// Each link at a switch has thresholds.
pub(super) fn check_rates(
    text: &Text,
    parameters: &Parameters,
    topology: &Topology,
) -> Result<(), ReadError> {
    let at_switch = |ends: [u32; 2]| ends.iter().any(|end| topology.nodes[*end as usize].is_switch);
    let missing = topology
        .links
        .iter()
        .filter(|link| at_switch(link.ends))
        .find(|link| parameters.marking(link.rate_bps()).is_none());
    match missing {
        None => Ok(()),
        Some(link) => Err(text.ended(
            format!(
                "KMIN_MAP has no threshold for links of {} bits per second",
                link.rate_bps()
            ),
            "thresholds for each speed of topology.txt",
        )),
    }
}

impl Maps {
    fn put_together(&self, text: &Text) -> Result<Vec<Marking>, ReadError> {
        let of =
            |map: &[(u64, u64)], rate: u64| map.iter().find(|(r, _)| *r == rate).map(|(_, k)| *k * 1_000);
        let mut marking = Vec::new();
        for (rate_bps, _) in &self.min {
            let (rate_bps, min_bytes) = (*rate_bps, of(&self.min, *rate_bps));
            let max_bytes = of(&self.max, rate_bps);
            let probability = self
                .probability
                .iter()
                .find(|(r, _)| *r == rate_bps)
                .map(|(_, p)| *p);
            let (Some(min_bytes), Some(max_bytes), Some(max_probability)) =
                (min_bytes, max_bytes, probability)
            else {
                let what = format!("KMAX_MAP or PMAX_MAP has nothing for {rate_bps} bits per second");
                return Err(text.ended(what, "the speeds of KMIN_MAP in all three maps"));
            };
            if max_bytes < min_bytes {
                let what = format!("at {rate_bps} bits per second KMAX_MAP is below KMIN_MAP");
                return Err(text.ended(what, "an upper threshold that is not below the lower one"));
            }
            marking.push(Marking {
                rate_bps,
                min_bytes,
                max_bytes,
                max_probability,
            });
        }
        Ok(marking)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
USE_DYNAMIC_PFC_THRESHOLD 1
PACKET_PAYLOAD_SIZE 1000
CC_MODE 1
ALPHA_RESUME_INTERVAL 1
RATE_DECREASE_INTERVAL 4
CLAMP_TARGET_RATE 0
RP_TIMER 300
EWMA_GAIN 0.00390625
FAST_RECOVERY_TIMES 1
RATE_AI 20Mb/s
RATE_HAI 200Mb/s
MIN_RATE 1000Mb/s
L2_CHUNK_SIZE 4000
L2_ACK_INTERVAL 1
L2_BACK_TO_ZERO 0
HAS_WIN 0
ACK_HIGH_PRIO 0
KMAX_MAP 2 100000000000 400 25000000000 100
KMIN_MAP 2 25000000000 100 100000000000 300
PMAX_MAP 2 100000000000 1 25000000000 0.2
BUFFER_SIZE 32
";

    fn parse(content: &str) -> Result<Parameters, String> {
        read(&Text::of("parameters.txt", content)).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_have_the_meaning_of_the_model() {
        let parameters = parse(GOOD).unwrap();
        assert_eq!(parameters.buffer_bytes, 32 << 20);
        assert_eq!(
            (parameters.payload_bytes, parameters.ecn, parameters.rate_bound),
            (1_000, true, true)
        );
        assert_eq!(
            parameters.dcqcn,
            Dcqcn {
                alpha_interval_us: 1,
                decrease_interval_us: 4,
                clamp_target: false,
                increase_interval_us: 300,
                gain: 1.0 / 256.0,
                fast_recovery_times: 1,
                rate_ai_bps: 20_000_000,
                rate_hai_bps: 200_000_000,
                min_rate_bps: 1_000_000_000,
            }
        );
        assert_eq!(
            parameters.marking(100_000_000_000),
            Some(&Marking {
                rate_bps: 100_000_000_000,
                min_bytes: 300_000,
                max_bytes: 400_000,
                max_probability: 1.0,
            })
        );
        assert_eq!(parameters.marking(40_000_000_000), None);
        assert!(parameters.can_mark());
        let out_of_reach = GOOD
            .replace(
                "KMAX_MAP 2 100000000000 400 25000000000 100",
                "KMAX_MAP 1 100000000000 200000",
            )
            .replace(
                "KMIN_MAP 2 25000000000 100 100000000000 300",
                "KMIN_MAP 1 100000000000 100000",
            );
        assert!(!parse(&out_of_reach).unwrap().can_mark());
    }

    /// What the error says when a line of the good file is replaced.
    fn error_of(line: &str, with: &str) -> String {
        assert!(GOOD.contains(line));
        parse(&GOOD.replace(line, with)).unwrap_err()
    }

    #[test]
    fn what_is_not_supported_is_named() {
        for (line, with, error) in [
            (
                "CC_MODE 1",
                "CC_MODE 3",
                "parameters.txt:3:9: CC_MODE \"3\" is not supported; expected 1: DCQCN",
            ),
            (
                "HAS_WIN 0",
                "HAS_WIN 1",
                "parameters.txt:16:9: HAS_WIN \"1\" is not supported",
            ),
            (
                "ACK_HIGH_PRIO 0",
                "ACK_HIGH_PRIO 1",
                "parameters.txt:17:15: ACK_HIGH_PRIO \"1\"",
            ),
            (
                "L2_BACK_TO_ZERO 0",
                "L2_BACK_TO_ZERO 1",
                "parameters.txt:15:17: L2_BACK_TO_ZERO \"1\"",
            ),
            (
                "L2_ACK_INTERVAL 1",
                "L2_ACK_INTERVAL 4000",
                "parameters.txt:14:17: L2_ACK_INTERVAL is 4000",
            ),
            (
                "BUFFER_SIZE 32",
                "BUFFER_SIZE 32\nERROR_RATE_PER_LINK 0.1",
                "parameters.txt:22:21: ERROR_RATE",
            ),
            (
                "BUFFER_SIZE 32",
                "BUFFER_SIZE 32\nLINK_DOWN 7 0 1",
                "parameters.txt:22:11: LINK_DOWN",
            ),
            (
                "BUFFER_SIZE 32",
                "BUFFER_SIZE 32\nFOO 1",
                "parameters.txt:22:1: \"FOO\" is not supported",
            ),
        ] {
            let got = error_of(line, with);
            assert!(got.starts_with(error), "{got}");
        }
        let more =
            format!("{GOOD}PAUSE_TIME 5\nERROR_RATE_PER_LINK 0.0000\nLINK_DOWN 0 0 0\nENABLE_TRACE 1\n");
        assert_eq!(parse(&more), parse(GOOD), "these change nothing");
    }

    #[test]
    fn mistakes_have_a_place() {
        for (line, with, error) in [
            (
                "RATE_AI 20Mb/s",
                "RATE_AI 20",
                "parameters.txt:10:9: RATE_AI is \"20\"",
            ),
            (
                "RP_TIMER 300",
                "RP_TIMER x",
                "parameters.txt:7:10: RP_TIMER is \"x\", which is no such number",
            ),
            (
                "RP_TIMER 300",
                "RP_TIMER",
                "parameters.txt:7:9: the value is missing",
            ),
            ("RP_TIMER 300", "", "parameters.txt:22:1: RP_TIMER is missing"),
            (
                "RP_TIMER 300",
                "CC_MODE 1",
                "parameters.txt:7:1: \"CC_MODE\" is set twice",
            ),
            (
                "EWMA_GAIN 0.00390625",
                "EWMA_GAIN 2",
                "parameters.txt:8:11: EWMA_GAIN is 2",
            ),
            (
                "BUFFER_SIZE 32",
                "BUFFER_SIZE 32 1",
                "parameters.txt:21:16: \"1\" is too much here",
            ),
            (
                "PMAX_MAP 2 100000000000 1 25000000000 0.2",
                "PMAX_MAP 1 100000000000 2",
                "parameters.txt:20:25: PMAX",
            ),
            (
                "PMAX_MAP 2 100000000000 1 25000000000 0.2",
                "PMAX_MAP 1 100000000000 1",
                "parameters.txt:22:1: KMAX_MAP or PMAX_MAP has nothing for 25000000000",
            ),
            (
                "KMAX_MAP 2 100000000000 400 25000000000 100",
                "KMAX_MAP 2 100000000000 200 25000000000 100",
                "parameters.txt:22:1: at 100000000000 bits per second KMAX_MAP is below",
            ),
            (
                "KMAX_MAP 2 100000000000 400 25000000000 100",
                "KMAX_MAP 2 100000000000 400 100000000000 100",
                "parameters.txt:18:29: the speed is there twice",
            ),
        ] {
            let got = error_of(line, with);
            assert!(got.starts_with(error), "{got}");
        }
    }
}
