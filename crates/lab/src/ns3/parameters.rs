//! Reads `parameters.txt`: the settings of the model.

use std::collections::BTreeSet;

use super::setting::SettingReader;
use super::text::{InputText, InputWord, ReadError};
use super::topology::Topology;

/// The settings of the model that have an effect in xoff.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelParameters {
    /// Congestion control algorithm (`CC_MODE`).
    pub mode: CongestionMode,
    /// Settings of the windows: `HAS_WIN`, `VAR_WIN` and `GLOBAL_T`.
    pub window: WindowSettings,
    /// Settings of HPCC, for `CC_MODE` 3 and 10.
    pub hpcc: HpccSettings,
    /// Additive increase of DCTCP in bits per second (`DCTCP_RATE_AI`).
    pub dctcp_rate_ai_bps: u64,
    /// Hosts send acknowledgements while priority 3 is paused (`ACK_HIGH_PRIO`).
    pub acks_pass_pauses: bool,
    /// Number of bytes after which the receiver sends an acknowledgement (`L2_ACK_INTERVAL`).
    pub ack_interval_bytes: u64,
    /// End of the run in seconds (`SIMULATOR_STOP_TIME`).
    pub stop_s: Option<f64>,
    /// Names of settings that the model does not have.
    pub unknown: Vec<String>,
    /// Switches mark packets (`ENABLE_QCN`).
    pub ecn: bool,
    /// Payload of a full packet in bytes (`PACKET_PAYLOAD_SIZE`).
    pub payload_bytes: u32,
    /// Whether the congestion control limits the rate of a flow (`RATE_BOUND`). If not, only the link speed
    /// limits the rate.
    pub rate_bound: bool,
    /// Buffer of each switch in bytes, modulo 2^32 (`BUFFER_SIZE`, in MiB).
    pub buffer_bytes: u32,
    /// ECN thresholds of each link speed.
    pub marking: Vec<EcnThresholds>,
    /// Settings of DCQCN.
    pub dcqcn: DcqcnSettings,
}

/// Congestion control algorithms of the model (`CC_MODE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionMode {
    /// 1: DCQCN in the form that NICs implement.
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
    /// Returns the algorithm for a value of `CC_MODE`. Returns `None` if the model does not have this
    /// algorithm.
    pub(super) fn from_number(text: &str) -> Option<CongestionMode> {
        Some(match text {
            "1" => CongestionMode::Dcqcn,
            "3" => CongestionMode::Hpcc,
            "7" => CongestionMode::Timely,
            "8" => CongestionMode::Dctcp,
            "10" => CongestionMode::HpccPint,
            _ => return None,
        })
    }

    /// Returns whether the algorithm is HPCC or HPCC-PINT.
    pub fn is_hpcc(self) -> bool {
        matches!(self, CongestionMode::Hpcc | CongestionMode::HpccPint)
    }

    /// Returns the telemetry bytes of each data packet and acknowledgement (`IntHeader::GetStaticSize`).
    pub fn telemetry_bytes(self) -> u32 {
        match self {
            CongestionMode::Dcqcn | CongestionMode::Dctcp => 0,
            CongestionMode::Hpcc => 42,
            CongestionMode::Timely => 8,
            CongestionMode::HpccPint => 2,
        }
    }
}

/// Settings of the windows of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSettings {
    /// The window limits the unacknowledged bytes of a flow (`HAS_WIN`).
    pub is_used: bool,
    /// Whether all flows use the largest window and round-trip time of the network (`GLOBAL_T`). If not, each
    /// flow uses the values of its own pair of hosts.
    pub of_largest_pair: bool,
    /// The window is proportional to the rate (`VAR_WIN`).
    pub follows_rate: bool,
}

/// Settings that only HPCC and HPCC-PINT have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HpccSettings {
    /// Every acknowledgement changes the rate, not only one per round trip (`FAST_REACT`).
    pub fast_react: bool,
    /// Target utilisation of links (`U_TARGET`).
    pub target_utilisation: f64,
    /// Largest number of consecutive additive increases (`MI_THRESH`).
    pub stages_max: u64,
    /// Multiplier of the units in HPCC telemetry (`INT_MULTI`). With 1, byte counts are in units of 128
    /// bytes, and queue lengths are in units of 80 bytes.
    pub unit_multiple: u64,
    /// The flow has a rate for each hop and uses the lowest one (`MULTI_RATE`).
    pub rate_per_hop: bool,
    /// Within a round trip, hops with an empty queue are ignored (`SAMPLE_FEEDBACK`).
    pub skips_empty_queues: bool,
    /// Share of the acknowledgements that HPCC-PINT evaluates (`PINT_PROB`).
    pub sampled_share: f64,
}

/// ECN thresholds of the links with one speed (`KMIN_MAP`, `KMAX_MAP`, `PMAX_MAP`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EcnThresholds {
    /// Speed of the links in bits per second.
    pub rate_bps: u64,
    /// Queue length in bytes up to which no packet is marked.
    pub min_bytes: u64,
    /// Queue length in bytes above which every packet is marked.
    pub max_bytes: u64,
    /// Marking probability at the upper threshold, 0 to 1.
    pub max_probability: f64,
}

/// Settings of DCQCN in the form that NICs implement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DcqcnSettings {
    /// Interval of alpha updates in microseconds (`ALPHA_RESUME_INTERVAL`).
    pub alpha_interval_us: u64,
    /// Smallest interval between rate decreases in microseconds (`RATE_DECREASE_INTERVAL`).
    pub decrease_interval_us: u64,
    /// A decrease lowers the target rate in every case (`CLAMP_TARGET_RATE`).
    pub clamp_target: bool,
    /// Interval of rate increases in microseconds (`RP_TIMER`).
    pub increase_interval_us: u64,
    /// Gain of the moving average of alpha (`EWMA_GAIN`).
    pub gain: f64,
    /// Number of increases in fast recovery (`FAST_RECOVERY_TIMES`).
    pub fast_recovery_times: u64,
    /// Additive increase in bits per second (`RATE_AI`).
    pub rate_ai_bps: u64,
    /// Hyper increase in bits per second (`RATE_HAI`).
    pub rate_hai_bps: u64,
    /// Smallest rate in bits per second (`MIN_RATE`).
    pub min_rate_bps: u64,
}

impl ModelParameters {
    /// Returns the defaults of the model (`third.cc`).
    fn new() -> ModelParameters {
        ModelParameters {
            mode: CongestionMode::Dcqcn,
            window: WindowSettings {
                is_used: true,
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
            dcqcn: DcqcnSettings {
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

    /// Returns the ECN thresholds of the links with a speed.
    pub fn marking(&self, rate_bps: u64) -> Option<&EcnThresholds> {
        self.marking.iter().find(|marking| marking.rate_bps == rate_bps)
    }

    /// Returns the length of the headers of a data packet in bytes: 48 plus the telemetry of the algorithm.
    ///
    /// The 48 bytes are Ethernet 14, IPv4 20, UDP 8 and sequence number 6.
    pub fn header_bytes(&self) -> u32 {
        48 + self.mode.telemetry_bytes()
    }

    /// Returns the length of an acknowledgement in bytes: 46 plus the telemetry of the algorithm, and at
    /// least 60.
    ///
    /// The 46 bytes are Ethernet 14, IPv4 20 and acknowledgement header 12.
    pub fn ack_bytes(&self) -> u32 {
        (46 + self.mode.telemetry_bytes()).max(60)
    }

    /// Returns whether ECN marks have an effect: a queue can reach a marking threshold, and the algorithm
    /// reacts to marks.
    pub fn can_mark(&self) -> bool {
        let reachable = |marking: &EcnThresholds| marking.min_bytes < u64::from(self.buffer_bytes);
        matches!(self.mode, CongestionMode::Dcqcn | CongestionMode::Dctcp)
            && self.ecn
            && self.rate_bound
            && self.marking.iter().any(reachable)
    }
}

/// The three threshold maps (`KMIN_MAP`, `KMAX_MAP`, `PMAX_MAP`). Each entry contains a link speed in bits
/// per second and the value for this speed.
#[derive(Default)]
pub(super) struct ThresholdMaps {
    pub(super) min: Vec<(u64, u64)>,
    pub(super) max: Vec<(u64, u64)>,
    pub(super) probability: Vec<(u64, f64)>,
}

/// Reads the settings in the same way as `third.cc`.
///
/// The file is a sequence of names and values. Line ends have no meaning. If a setting occurs twice, the last
/// value applies. Unknown words are skipped.
pub(super) fn read_parameters(text: &InputText) -> Result<ModelParameters, ReadError> {
    let mut parameters = ModelParameters::new();
    let mut maps = ThresholdMaps::default();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    let mut words = text.words();
    let mut ack_interval = InputWord::default();
    while let Some(name) = words.next() {
        let mut setting = SettingReader {
            text,
            name,
            words: &mut words,
        };
        if setting.apply_to(&mut parameters, &mut maps)? {
            names.insert(name.text);
            if name.text == "L2_ACK_INTERVAL" {
                ack_interval = name;
            }
        } else if is_setting_name(name.text) && !parameters.unknown.iter().any(|known| known == name.text) {
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
        return Err(text.error_at_end(
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
        return Err(text.error_at_word(&ack_interval, what, expected));
    }
    let dcqcn = &parameters.dcqcn;
    let timers = [
        dcqcn.alpha_interval_us,
        dcqcn.decrease_interval_us,
        dcqcn.increase_interval_us,
    ];
    if parameters.mode == CongestionMode::Dcqcn && timers.contains(&0) {
        let what = "a timer of DCQCN is shorter than a microsecond: the model would never end";
        let expected = "1 or more for ALPHA_RESUME_INTERVAL, RATE_DECREASE_INTERVAL and RP_TIMER";
        return Err(text.error_at_end(what, expected));
    }
    parameters.marking = maps.combine(text)?;
    Ok(parameters)
}

/// Returns whether a word looks like the name of a setting, with only capital letters, digits and
/// underscores.
fn is_setting_name(word: &str) -> bool {
    let is_name_character = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.len() > 2
        && word.chars().all(is_name_character)
}

/// Checks that every link of a switch has ECN thresholds for its speed.
pub(super) fn check_thresholds(
    text: &InputText,
    parameters: &ModelParameters,
    topology: &Topology,
) -> Result<(), ReadError> {
    let has_switch = |ends: [u32; 2]| ends.iter().any(|end| topology.nodes[*end as usize].is_switch);
    let missing = topology
        .links
        .iter()
        .filter(|link| has_switch(link.ends))
        .find(|link| parameters.marking(link.rate_bps()).is_none());
    match missing {
        None => Ok(()),
        Some(link) => Err(text.error_at_end(
            format!(
                "KMIN_MAP has no threshold for links of {} bits per second",
                link.rate_bps()
            ),
            "thresholds for each speed of topology.txt",
        )),
    }
}

impl ThresholdMaps {
    /// Combines the three maps into thresholds per link speed.
    fn combine(&self, text: &InputText) -> Result<Vec<EcnThresholds>, ReadError> {
        let threshold_bytes =
            |map: &[(u64, u64)], rate: u64| map.iter().find(|(r, _)| *r == rate).map(|(_, k)| *k * 1_000);
        let mut marking = Vec::new();
        for (rate_bps, _) in &self.min {
            let (rate_bps, min_bytes) = (*rate_bps, threshold_bytes(&self.min, *rate_bps));
            let max_bytes = threshold_bytes(&self.max, rate_bps);
            let probability = self
                .probability
                .iter()
                .find(|(r, _)| *r == rate_bps)
                .map(|(_, p)| *p);
            let (Some(min_bytes), Some(max_bytes), Some(max_probability)) =
                (min_bytes, max_bytes, probability)
            else {
                let what = format!("KMAX_MAP or PMAX_MAP has nothing for {rate_bps} bits per second");
                return Err(text.error_at_end(what, "the speeds of KMIN_MAP in all three maps"));
            };
            if max_bytes < min_bytes {
                let what = format!("at {rate_bps} bits per second KMAX_MAP is below KMIN_MAP");
                return Err(text.error_at_end(what, "an upper threshold that is not below the lower one"));
            }
            marking.push(EcnThresholds {
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

    const VALID_SETTINGS: &str = "\
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

    fn parse_settings(content: &str) -> Result<ModelParameters, String> {
        read_parameters(&InputText::from_content("parameters.txt", content))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn settings_are_converted_to_the_units_of_the_model() {
        let parameters = parse_settings(VALID_SETTINGS).unwrap();
        assert_eq!(parameters.buffer_bytes, 32 << 20);
        assert_eq!(
            (parameters.payload_bytes, parameters.ecn, parameters.rate_bound),
            (1_000, true, true)
        );
        assert_eq!(
            parameters.dcqcn,
            DcqcnSettings {
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
            Some(&EcnThresholds {
                rate_bps: 100_000_000_000,
                min_bytes: 300_000,
                max_bytes: 400_000,
                max_probability: 1.0,
            })
        );
        assert_eq!(parameters.marking(40_000_000_000), None);
        assert!(parameters.can_mark());
        let out_of_reach = VALID_SETTINGS
            .replace(
                "KMAX_MAP 2 100000000000 400 25000000000 100",
                "KMAX_MAP 1 100000000000 200000",
            )
            .replace(
                "KMIN_MAP 2 25000000000 100 100000000000 300",
                "KMIN_MAP 1 100000000000 100000",
            );
        assert!(!parse_settings(&out_of_reach).unwrap().can_mark());
    }

    /// Returns the error after one line of the valid settings is replaced.
    fn error_with_line_replaced(line: &str, replacement: &str) -> String {
        assert!(VALID_SETTINGS.contains(line));
        parse_settings(&VALID_SETTINGS.replace(line, replacement)).unwrap_err()
    }

    #[test]
    fn unsupported_settings_are_refused() {
        for (line, replacement, error) in [
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
                "parameters.txt:7:10: RP_TIMER is \"x\", which is not a valid number",
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
            let got = error_with_line_replaced(line, replacement);
            assert!(got.starts_with(error), "{got}");
        }
        let more = format!(
            "{VALID_SETTINGS}PAUSE_TIME 5\nERROR_RATE_PER_LINK 0.0000\nLINK_DOWN 0 0 0\nENABLE_TRACE 1\n"
        );
        assert_eq!(
            parse_settings(&more),
            parse_settings(VALID_SETTINGS),
            "these change nothing"
        );
    }

    /// The model reads words with the C++ operator `>>`. It ignores line ends and skips unknown words. If a
    /// setting occurs twice, the last value applies.
    #[test]
    fn line_ends_and_unknown_words_are_ignored() {
        let expected = parse_settings(VALID_SETTINGS).unwrap();
        assert_eq!(
            parse_settings(&VALID_SETTINGS.replace('\n', " ")).unwrap(),
            expected
        );
        assert_eq!(
            parse_settings(&format!("BUFFER_SIZE 1 {VALID_SETTINGS}")).unwrap(),
            expected
        );
        let unknown = parse_settings(&format!("{VALID_SETTINGS}\nFLEX_MODE 7\nand a remark\n")).unwrap();
        assert_eq!(unknown.unknown, ["FLEX_MODE"]);
        assert_eq!(unknown.buffer_bytes, expected.buffer_bytes);
    }

    #[test]
    fn congestion_mode_and_window_settings_are_read() {
        let text = VALID_SETTINGS.replace(
            "CC_MODE 1",
            "CC_MODE 3 VAR_WIN 1 U_TARGET 0.9 MULTI_RATE 0 INT_MULTI 4",
        );
        let parameters = parse_settings(&text.replace("HAS_WIN 0", "HAS_WIN 1")).unwrap();
        assert_eq!(
            (parameters.mode, parameters.window.is_used),
            (CongestionMode::Hpcc, true)
        );
        assert_eq!((parameters.header_bytes(), parameters.ack_bytes()), (90, 88));
        assert!(parameters.window.follows_rate && !parameters.hpcc.rate_per_hop && !parameters.can_mark());
        assert_eq!(
            parse_settings(VALID_SETTINGS).map(|p| (p.header_bytes(), p.ack_bytes())),
            Ok((48, 60))
        );
    }
}
