//! `parameters.txt`: what the model was told, by its own names.

use std::collections::BTreeSet;

use super::setting::Setting;
use super::text::{ReadError, Text, Word};
use super::topology::Topology;

/// What the model was told, as far as it has an effect.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Parameters {
    /// Congestion control (`CC_MODE`).
    pub mode: CongestionMode,
    /// Windows of flows: `HAS_WIN`, `VAR_WIN`, `GLOBAL_T`.
    pub window: WindowRule,
    /// Parameters of HPCC's rate control, `CC_MODE` 3 and 10.
    pub hpcc: HpccSettings,
    /// DCTCP's increase, in bits per second (`DCTCP_RATE_AI`).
    pub dctcp_rate_ai_bps: u64,
    /// Hosts send acknowledgements while class 3 is paused (`ACK_HIGH_PRIO`).
    pub acks_pass_pauses: bool,
    /// A packet of so many bytes is acknowledged (`L2_ACK_INTERVAL`).
    pub ack_interval_bytes: u64,
    /// End of the run (`SIMULATOR_STOP_TIME`), in seconds.
    pub stop_s: Option<f64>,
    /// Words that look like settings and that the model does not know.
    pub unknown: Vec<String>,
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

/// Congestion controls of the model (`CC_MODE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionMode {
    /// 1: DCQCN as NICs implement it.
    Dcqcn,
    /// 3: HPCC.
    Hpcc,
    /// 7: TIMELY.
    Timely,
    /// 8: DCTCP.
    Dctcp,
    /// 10: HPCC-PINT.
    HpccPint,
}

impl CongestionMode {
    pub(super) fn of_number(text: &str) -> Option<CongestionMode> {
        Some(match text {
            "1" => CongestionMode::Dcqcn,
            "3" => CongestionMode::Hpcc,
            "7" => CongestionMode::Timely,
            "8" => CongestionMode::Dctcp,
            "10" => CongestionMode::HpccPint,
            _ => return None,
        })
    }

    /// HPCC or HPCC-PINT.
    pub fn is_hpcc(self) -> bool {
        matches!(self, CongestionMode::Hpcc | CongestionMode::HpccPint)
    }

    /// Bytes that the mode adds to each data packet, and to what an acknowledgement is made of (`IntHeader::GetStaticSize`).
    pub fn telemetry_bytes(self) -> u32 {
        match self {
            CongestionMode::Dcqcn | CongestionMode::Dctcp => 0,
            CongestionMode::Hpcc => 42,
            CongestionMode::Timely => 8,
            CongestionMode::HpccPint => 2,
        }
    }
}

/// Windows of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowRule {
    /// A flow has at most a window of unacknowledged bytes (`HAS_WIN`).
    pub used: bool,
    /// Window and round trip are the largest of all pairs of hosts (`GLOBAL_T`), else those of the flow's pair.
    pub of_largest_pair: bool,
    /// The window shrinks as the rate does (`VAR_WIN`).
    pub follows_rate: bool,
}

/// HPCC, as far as it has settings of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HpccSettings {
    /// Acknowledgements within a round trip change the rate too (`FAST_REACT`).
    pub fast_react: bool,
    /// `U_TARGET`.
    pub target_utilisation: f64,
    /// Additive increases in a row (`MI_THRESH`).
    pub stages_max: u64,
    /// Bytes are counted in 128 times this, queues in 80 times this (`INT_MULTI`).
    pub unit_multiple: u64,
    /// A rate for each hop, of which the lowest counts (`MULTI_RATE`).
    pub rate_per_hop: bool,
    /// Within a round trip, hops without a queue are passed over (`SAMPLE_FEEDBACK`).
    pub skips_empty_queues: bool,
    /// Share of acknowledgements that HPCC-PINT looks at (`PINT_PROB`).
    pub sampled_share: f64,
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
    /// The defaults of the model itself (`third.cc`).
    fn new() -> Parameters {
        Parameters {
            mode: CongestionMode::Dcqcn,
            window: WindowRule {
                used: true,
                of_largest_pair: true,
                follows_rate: false,
            },
            hpcc: HpccSettings {
                fast_react: true,
                target_utilisation: 0.95,
                stages_max: 5,
                unit_multiple: 1,
                rate_per_hop: true,
                skips_empty_queues: false,
                sampled_share: 1.0,
            },
            dctcp_rate_ai_bps: 1_000_000_000,
            acks_pass_pauses: false,
            ack_interval_bytes: 0,
            stop_s: None,
            unknown: Vec::new(),
            ecn: true,
            payload_bytes: 1_000,
            rate_bound: true,
            buffer_bytes: 16 << 20,
            marking: Vec::new(),
            dcqcn: Dcqcn {
                alpha_interval_us: 55,
                decrease_interval_us: 4,
                clamp_target: false,
                increase_interval_us: 0,
                gain: 0.0,
                fast_recovery_times: 5,
                rate_ai_bps: 0,
                rate_hai_bps: 0,
                min_rate_bps: 100_000_000,
            },
        }
    }

    /// The thresholds of links of one speed.
    pub fn marking(&self, rate_bps: u64) -> Option<&Marking> {
        self.marking.iter().find(|marking| marking.rate_bps == rate_bps)
    }

    /// Bytes of a data packet beside its payload: Ethernet 14, IPv4 20, UDP 8, sequence 6, and what the mode adds.
    pub fn header_bytes(&self) -> u32 {
        48 + self.mode.telemetry_bytes()
    }

    /// Bytes of an acknowledgement: Ethernet 14, IPv4 20, 12 of its own and what the mode adds, padded to 60.
    pub fn ack_bytes(&self) -> u32 {
        (46 + self.mode.telemetry_bytes()).max(60)
    }

    /// Whether a queue can grow so long that it is marked, and flows heed marks.
    pub fn can_mark(&self) -> bool {
        let reachable = |marking: &Marking| marking.min_bytes < u64::from(self.buffer_bytes);
        matches!(self.mode, CongestionMode::Dcqcn | CongestionMode::Dctcp)
            && self.ecn
            && self.rate_bound
            && self.marking.iter().any(reachable)
    }
}

/// The three maps by speed, before they are put together.
#[derive(Default)]
pub(super) struct Maps {
    pub(super) min: Vec<(u64, u64)>,
    pub(super) max: Vec<(u64, u64)>,
    pub(super) probability: Vec<(u64, f64)>,
}

/// Reads the file as `third.cc` does: names and their values wherever they are, the later one of two counts, and words that are
/// no name are passed over.
pub(super) fn read(text: &Text) -> Result<Parameters, ReadError> {
    let mut parameters = Parameters::new();
    let mut maps = Maps::default();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    let mut words = text.words();
    let mut ack_interval = Word::default();
    while let Some(name) = words.next() {
        let mut setting = Setting {
            text,
            name,
            words: &mut words,
        };
        if setting.take(&mut parameters, &mut maps)? {
            names.insert(name.text);
            if name.text == "L2_ACK_INTERVAL" {
                ack_interval = name;
            }
        } else if looks_like_a_setting(name.text)
            && !parameters.unknown.iter().any(|known| known == name.text)
        {
            parameters.unknown.push(name.text.to_owned());
        }
    }
    let required: &[&str] = match parameters.mode {
        CongestionMode::Dcqcn => &["L2_ACK_INTERVAL", "RP_TIMER", "EWMA_GAIN", "RATE_AI", "RATE_HAI"],
        CongestionMode::Timely => &["L2_ACK_INTERVAL", "RATE_AI", "RATE_HAI"],
        CongestionMode::Hpcc | CongestionMode::HpccPint => &["L2_ACK_INTERVAL", "RATE_AI"],
        CongestionMode::Dctcp => &["L2_ACK_INTERVAL", "EWMA_GAIN"],
    };
    if let Some(missing) = required.iter().find(|name| !names.contains(*name)) {
        return Err(text.ended(
            format!("{missing} is missing"),
            format!("a setting `{missing} value`"),
        ));
    }
    if parameters.ack_interval_bytes > u64::from(parameters.payload_bytes) {
        let what = format!("L2_ACK_INTERVAL is {}", parameters.ack_interval_bytes);
        let expected = format!(
            "1 to {}, the payload of a packet: one acknowledgement per packet",
            parameters.payload_bytes
        );
        return Err(text.wrong_word(&ack_interval, what, expected));
    }
    let dcqcn = &parameters.dcqcn;
    let timers = [
        dcqcn.alpha_interval_us,
        dcqcn.decrease_interval_us,
        dcqcn.increase_interval_us,
    ];
    if parameters.mode == CongestionMode::Dcqcn && timers.contains(&0) {
        let what = "a timer of DCQCN has less than a microsecond: the model would never end";
        let expected = "1 or more for ALPHA_RESUME_INTERVAL, RATE_DECREASE_INTERVAL and RP_TIMER";
        return Err(text.ended(what, expected));
    }
    parameters.marking = maps.put_together(text)?;
    Ok(parameters)
}

/// Capital letters, digits and underscores: a name, not the value of one.
fn looks_like_a_setting(word: &str) -> bool {
    let is_of_names = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    word.starts_with(|c: char| c.is_ascii_uppercase()) && word.len() > 2 && word.chars().all(is_of_names)
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
                "CC_MODE 5",
                "parameters.txt:3:9: CC_MODE \"5\" is not supported",
            ),
            (
                "L2_BACK_TO_ZERO 0",
                "L2_BACK_TO_ZERO 1",
                "parameters.txt:15:17: L2_BACK_TO_ZERO \"1\"",
            ),
            (
                "L2_ACK_INTERVAL 1",
                "L2_ACK_INTERVAL 4000",
                "parameters.txt:14:1: L2_ACK_INTERVAL is 4000",
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
                "RATE_AI 20Mb/s",
                "RATE_AI 20x",
                "parameters.txt:10:9: RATE_AI is \"20x\"",
            ),
            (
                "RP_TIMER 300",
                "RP_TIMER x",
                "parameters.txt:7:10: RP_TIMER is \"x\", which is no such number",
            ),
            ("RP_TIMER 300", "", "parameters.txt:22:1: RP_TIMER is missing"),
            (
                "EWMA_GAIN 0.00390625",
                "EWMA_GAIN 2",
                "parameters.txt:8:11: EWMA_GAIN is 2",
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
        ] {
            let got = error_of(line, with);
            assert!(got.starts_with(error), "{got}");
        }
        let more =
            format!("{GOOD}PAUSE_TIME 5\nERROR_RATE_PER_LINK 0.0000\nLINK_DOWN 0 0 0\nENABLE_TRACE 1\n");
        assert_eq!(parse(&more), parse(GOOD), "these change nothing");
    }

    /// The model reads names and values with `>>`: lines mean nothing, the later of two counts, other words are passed over.
    #[test]
    fn settings_are_words() {
        let expected = parse(GOOD).unwrap();
        assert_eq!(parse(&GOOD.replace('\n', " ")).unwrap(), expected);
        assert_eq!(parse(&format!("BUFFER_SIZE 1 {GOOD}")).unwrap(), expected);
        let unknown = parse(&format!("{GOOD}\nFLEX_MODE 7\nand a remark\n")).unwrap();
        assert_eq!(unknown.unknown, ["FLEX_MODE"]);
        assert_eq!(unknown.buffer_bytes, expected.buffer_bytes);
    }

    #[test]
    fn modes_and_windows_are_read() {
        let text = GOOD.replace(
            "CC_MODE 1",
            "CC_MODE 3 VAR_WIN 1 U_TARGET 0.9 MULTI_RATE 0 INT_MULTI 4",
        );
        let parameters = parse(&text.replace("HAS_WIN 0", "HAS_WIN 1")).unwrap();
        assert_eq!(
            (parameters.mode, parameters.window.used),
            (CongestionMode::Hpcc, true)
        );
        assert_eq!((parameters.header_bytes(), parameters.ack_bytes()), (90, 88));
        assert!(parameters.window.follows_rate && !parameters.hpcc.rate_per_hop && !parameters.can_mark());
        assert_eq!(
            parse(GOOD).map(|p| (p.header_bytes(), p.ack_bytes())),
            Ok((48, 60))
        );
    }
}
