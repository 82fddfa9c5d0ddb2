//! Reads `parameters.txt`: the settings of the model.

use std::collections::BTreeSet;

use super::model_parameters::{CongestionMode, EcnThresholdMaps, EcnThresholds, Ns3ModelParameters};
use super::setting::SettingReader;
use super::text::{InputText, InputWord, ReadError};
use super::topology::Topology;

/// Reads the settings in the same way as `third.cc`.
///
/// The file is a sequence of names and values, and line ends have no meaning. If a setting occurs twice, the
/// last value applies. Unknown words are skipped.
pub(super) fn read_parameters(text: &InputText) -> Result<Ns3ModelParameters, ReadError> {
    let mut parameters = Ns3ModelParameters::new();
    let mut maps = EcnThresholdMaps::default();
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

/// Returns whether a word looks like the name of a setting: only capital letters, digits and underscores.
fn is_setting_name(word: &str) -> bool {
    let is_name_character = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.len() > 2
        && word.chars().all(is_name_character)
}

/// Checks that every link of a switch has ECN thresholds for its speed.
pub(super) fn check_thresholds(
    text: &InputText,
    parameters: &Ns3ModelParameters,
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

impl EcnThresholdMaps {
    /// Combines the three maps into the thresholds of each link speed.
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
    use super::super::model_parameters::DcqcnSettings;
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

    fn parse_settings(content: &str) -> Result<Ns3ModelParameters, String> {
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

    /// The model reads words with the C++ operator `>>`. The operator ignores line ends, and the model skips
    /// unknown words. If a setting occurs twice, the last value applies.
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
