//! Reads one setting of a configuration: the known names and the supported values.

use std::str::FromStr;

use super::model_parameters::{CongestionMode, EcnThresholdMaps, Ns3ModelParameters};
use super::text::{InputText, InputWord, ReadError, quote};
use super::units;

/// Names of settings that have no effect in xoff. Most of these settings concern files and traces. The values
/// of the settings are not checked.
const WITHOUT_EFFECT: [&str; 16] = [
    "DATA_RATE",
    "ENABLE_TRACE",
    "FCT_OUTPUT_FILE",
    "FLOW_FILE",
    "L2_CHUNK_SIZE",
    "LINK_DELAY",
    "PAUSE_TIME",
    "PFC_OUTPUT_FILE",
    "PINT_LOG_BASE",
    "QLEN_MON_END",
    "QLEN_MON_FILE",
    "QLEN_MON_START",
    "TOPOLOGY_FILE",
    "TRACE_FILE",
    "TRACE_OUTPUT_FILE",
    "USE_DYNAMIC_PFC_THRESHOLD",
];

const SETTING_FORMAT: &str = "a setting `NAME value`";

/// Reads the values of a setting after its name.
pub(super) struct SettingReader<'a, 'w, W: Iterator<Item = InputWord<'a>>> {
    pub(super) text: &'a InputText,
    pub(super) name: InputWord<'a>,
    pub(super) words: &'w mut W,
}

impl<'a, W: Iterator<Item = InputWord<'a>>> SettingReader<'a, '_, W> {
    /// Returns the name of the setting.
    fn name(&self) -> &'a str {
        self.name.text
    }

    /// Returns the next word of the value.
    pub(super) fn next_value(&mut self) -> Result<InputWord<'a>, ReadError> {
        let name = format!("the value of {}", self.name());
        self.text.next_word(self.words, &name, SETTING_FORMAT)
    }

    /// Reads a whole number from `min` to `max`.
    pub(super) fn integer_value(&mut self, min: u64, max: u64) -> Result<u64, ReadError> {
        let word = self.next_value()?;
        self.text.parse_number(&word, self.name(), min..=max)
    }

    /// Reads a number from `min` to `max`.
    fn real_value(&mut self, min: f64, max: f64) -> Result<f64, ReadError> {
        let word = self.next_value()?;
        self.text.parse_number(&word, self.name(), min..=max)
    }

    /// Reads a flag. Every number except 0 is true.
    fn flag_value(&mut self) -> Result<bool, ReadError> {
        Ok(self.integer_value(0, u64::from(u32::MAX))? != 0)
    }

    /// Reads a time in microseconds, rounded down as in the model.
    fn microseconds_value(&mut self) -> Result<u64, ReadError> {
        Ok(self.real_value(0.0, 1e6)? as u64)
    }

    /// Reads a rate in bits per second.
    fn rate_value(&mut self) -> Result<u64, ReadError> {
        let word = self.next_value()?;
        units::parse_rate_bps(word.text).ok_or_else(|| {
            let what = format!("{} is {}", self.name(), quote(word.text));
            self.text.error_at_word(&word, what, "a rate, such as 20Mb/s")
        })
    }

    /// Reads a value that must be 0. In the error, `expected` explains the meaning of 0.
    fn require_zero(&mut self, expected: &str) -> Result<(), ReadError> {
        let word = self.next_value()?;
        if word.text.parse::<f64>() == Ok(0.0) {
            return Ok(());
        }
        let what = format!("{} {} is not supported", self.name(), quote(word.text));
        Err(self.text.error_at_word(&word, what, format!("0: {expected}")))
    }

    /// Reads the value of `CC_MODE`.
    fn congestion_mode_value(&mut self) -> Result<CongestionMode, ReadError> {
        let word = self.next_value()?;
        CongestionMode::from_number(word.text).ok_or_else(|| {
            let what = format!("CC_MODE {} is not supported", quote(word.text));
            let expected =
                "1 (DCQCN), 3 (HPCC), 7 (TIMELY), 8 (DCTCP) or 10 (HPCC-PINT): the modes of the HPCC model";
            self.text.error_at_word(&word, what, expected)
        })
    }

    /// Stores the value of the setting in the parameters. Returns `false` if the model has no setting with
    /// this name.
    ///
    /// The reader of the model skips unknown words.
    pub(super) fn apply_to(
        &mut self,
        parameters: &mut Ns3ModelParameters,
        maps: &mut EcnThresholdMaps,
    ) -> Result<bool, ReadError> {
        let (dcqcn, hpcc) = (&mut parameters.dcqcn, &mut parameters.hpcc);
        match self.name() {
            "ENABLE_QCN" => parameters.ecn = self.flag_value()?,
            "PACKET_PAYLOAD_SIZE" => {
                let (min, max) = (u64::from(xoff_rdma::MTU_MIN), u64::from(xoff_rdma::MTU_MAX));
                parameters.payload_bytes = self.integer_value(min, max)? as u32;
            }
            "RATE_BOUND" => parameters.rate_bound = self.flag_value()?,
            // The model multiplies modulo 2^32.
            "BUFFER_SIZE" => {
                parameters.buffer_bytes =
                    (self.integer_value(0, u64::from(u32::MAX))? as u32).wrapping_mul(1 << 20);
            }
            "ALPHA_RESUME_INTERVAL" => dcqcn.alpha_interval_us = self.microseconds_value()?,
            "RATE_DECREASE_INTERVAL" => dcqcn.decrease_interval_us = self.microseconds_value()?,
            "CLAMP_TARGET_RATE" => dcqcn.clamp_target = self.flag_value()?,
            "RP_TIMER" => dcqcn.increase_interval_us = self.microseconds_value()?,
            "EWMA_GAIN" => dcqcn.gain = self.real_value(0.0, 1.0)?,
            "FAST_RECOVERY_TIMES" => dcqcn.fast_recovery_times = self.integer_value(0, 1_000)?,
            "RATE_AI" => dcqcn.rate_ai_bps = self.rate_value()?,
            "RATE_HAI" => dcqcn.rate_hai_bps = self.rate_value()?,
            "MIN_RATE" => dcqcn.min_rate_bps = self.rate_value()?,
            "DCTCP_RATE_AI" => parameters.dctcp_rate_ai_bps = self.rate_value()?,
            "CC_MODE" => parameters.mode = self.congestion_mode_value()?,
            "HAS_WIN" => parameters.window.is_used = self.flag_value()?,
            "GLOBAL_T" => {
                parameters.window.of_largest_pair = self.integer_value(0, u64::from(u32::MAX))? == 1
            }
            "VAR_WIN" => parameters.window.follows_rate = self.flag_value()?,
            "FAST_REACT" => hpcc.fast_react = self.flag_value()?,
            "U_TARGET" => hpcc.target_utilisation = self.real_value(0.01, 10.0)?,
            "MI_THRESH" => hpcc.stages_max = self.integer_value(0, u64::from(u32::MAX))?,
            "INT_MULTI" => hpcc.unit_multiple = self.integer_value(1, 1_000_000)?,
            "MULTI_RATE" => hpcc.rate_per_hop = self.flag_value()?,
            "SAMPLE_FEEDBACK" => hpcc.skips_empty_queues = self.flag_value()?,
            "PINT_PROB" => hpcc.sampled_share = self.real_value(0.0, 1.0)?,
            "SIMULATOR_STOP_TIME" => parameters.stop_s = Some(self.real_value(0.0, f64::MAX)?),
            "ACK_HIGH_PRIO" => parameters.acks_pass_pauses = self.flag_value()?,
            "L2_ACK_INTERVAL" => parameters.ack_interval_bytes = self.ack_interval_value()?,
            "L2_BACK_TO_ZERO" => self.require_zero("go-back-N")?,
            "ERROR_RATE_PER_LINK" => self.require_zero("no random losses")?,
            "LINK_DOWN" => {
                self.require_zero("all links stay up")?;
                self.next_value()?;
                self.next_value()?;
            }
            "KMIN_MAP" => maps.min = self.rate_pairs(0, u64::from(u32::MAX / 1_000))?,
            "KMAX_MAP" => maps.max = self.rate_pairs(0, u64::from(u32::MAX / 1_000))?,
            "PMAX_MAP" => maps.probability = self.rate_pairs(0.0, 1.0)?,
            name if WITHOUT_EFFECT.contains(&name) => drop(self.next_value()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads `L2_ACK_INTERVAL` in bytes, at least 1.
    fn ack_interval_value(&mut self) -> Result<u64, ReadError> {
        self.integer_value(1, u64::from(u32::MAX))
    }

    /// Reads a map of the form `count rate value rate value ...`. If a rate occurs twice, its last
    /// value applies.
    fn rate_pairs<T>(&mut self, min: T, max: T) -> Result<Vec<(u64, T)>, ReadError>
    where
        T: FromStr + PartialOrd + std::fmt::Display + Copy,
    {
        let count = self.integer_value(0, 64)?;
        let mut pairs: Vec<(u64, T)> = Vec::new();
        for _ in 0..count {
            let (rate, value) = (self.next_value()?, self.next_value()?);
            let rate_bps = self
                .text
                .parse_number(&rate, "the speed in bits per second", 1..=u64::MAX)?;
            let value = self.text.parse_number(&value, self.name(), min..=max)?;
            pairs.retain(|(other_rate, _)| *other_rate != rate_bps);
            pairs.push((rate_bps, value));
        }
        Ok(pairs)
    }
}
