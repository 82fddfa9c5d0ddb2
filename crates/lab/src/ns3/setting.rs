//! One setting of a configuration: which ones there are, and which values of them are supported.

use std::str::FromStr;

use super::parameters::{CongestionMode, Maps, Parameters};
use super::text::{ReadError, Text, Word, quoted};
use super::units;

/// Settings of files, traces and pauses: they change nothing here. Their values are not looked at.
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

const FORM: &str = "a setting `NAME value`";

/// A setting whose name has been read.
pub(super) struct Setting<'a, 'w, W: Iterator<Item = Word<'a>>> {
    pub(super) text: &'a Text,
    pub(super) name: Word<'a>,
    pub(super) words: &'w mut W,
}

impl<'a, W: Iterator<Item = Word<'a>>> Setting<'a, '_, W> {
    fn name(&self) -> &'a str {
        self.name.text
    }

    /// The next word of its value.
    pub(super) fn value(&mut self) -> Result<Word<'a>, ReadError> {
        let name = format!("the value of {}", self.name());
        self.text.next(self.words, &name, FORM)
    }

    pub(super) fn whole(&mut self, min: u64, max: u64) -> Result<u64, ReadError> {
        let word = self.value()?;
        self.text.number(&word, self.name(), min..=max)
    }

    fn real(&mut self, min: f64, max: f64) -> Result<f64, ReadError> {
        let word = self.value()?;
        self.text.number(&word, self.name(), min..=max)
    }

    fn flag(&mut self) -> Result<bool, ReadError> {
        Ok(self.whole(0, u64::from(u32::MAX))? != 0)
    }

    /// A time in microseconds, of which the model takes the whole ones.
    fn micros(&mut self) -> Result<u64, ReadError> {
        Ok(self.real(0.0, 1e6)? as u64)
    }

    fn rate(&mut self) -> Result<u64, ReadError> {
        let word = self.value()?;
        units::rate_bps(word.text).ok_or_else(|| {
            let what = format!("{} is {}", self.name(), quoted(word.text));
            self.text.wrong_word(&word, what, "a rate, such as 20Mb/s")
        })
    }

    /// A value that must be zero.
    fn only_zero(&mut self, means: &str) -> Result<(), ReadError> {
        let word = self.value()?;
        if word.text.parse::<f64>() == Ok(0.0) {
            return Ok(());
        }
        let what = format!("{} {} is not supported", self.name(), quoted(word.text));
        Err(self.text.wrong_word(&word, what, format!("0: {means}")))
    }

    fn mode(&mut self) -> Result<CongestionMode, ReadError> {
        let word = self.value()?;
        CongestionMode::of_number(word.text).ok_or_else(|| {
            let what = format!("CC_MODE {} is not supported", quoted(word.text));
            let expected =
                "1 (DCQCN), 3 (HPCC), 7 (TIMELY), 8 (DCTCP) or 10 (HPCC-PINT): the modes of the HPCC model";
            self.text.wrong_word(&word, what, expected)
        })
    }

    /// Takes it over. `false` if the model knows no such setting: its reader passes over such words.
    pub(super) fn take(&mut self, parameters: &mut Parameters, maps: &mut Maps) -> Result<bool, ReadError> {
        let (dcqcn, hpcc) = (&mut parameters.dcqcn, &mut parameters.hpcc);
        match self.name() {
            "ENABLE_QCN" => parameters.ecn = self.flag()?,
            "PACKET_PAYLOAD_SIZE" => {
                let (min, max) = (u64::from(xoff_rdma::MTU_MIN), u64::from(xoff_rdma::MTU_MAX));
                parameters.payload_bytes = self.whole(min, max)? as u32;
            }
            "RATE_BOUND" => parameters.rate_bound = self.flag()?,
            // As the model multiplies: modulo 2^32.
            "BUFFER_SIZE" => {
                parameters.buffer_bytes = (self.whole(0, u64::from(u32::MAX))? as u32).wrapping_mul(1 << 20);
            }
            "ALPHA_RESUME_INTERVAL" => dcqcn.alpha_interval_us = self.micros()?,
            "RATE_DECREASE_INTERVAL" => dcqcn.decrease_interval_us = self.micros()?,
            "CLAMP_TARGET_RATE" => dcqcn.clamp_target = self.flag()?,
            "RP_TIMER" => dcqcn.increase_interval_us = self.micros()?,
            "EWMA_GAIN" => dcqcn.gain = self.real(0.0, 1.0)?,
            "FAST_RECOVERY_TIMES" => dcqcn.fast_recovery_times = self.whole(0, 1_000)?,
            "RATE_AI" => dcqcn.rate_ai_bps = self.rate()?,
            "RATE_HAI" => dcqcn.rate_hai_bps = self.rate()?,
            "MIN_RATE" => dcqcn.min_rate_bps = self.rate()?,
            "DCTCP_RATE_AI" => parameters.dctcp_rate_ai_bps = self.rate()?,
            "CC_MODE" => parameters.mode = self.mode()?,
            "HAS_WIN" => parameters.window.used = self.flag()?,
            "GLOBAL_T" => parameters.window.of_largest_pair = self.whole(0, u64::from(u32::MAX))? == 1,
            "VAR_WIN" => parameters.window.follows_rate = self.flag()?,
            "FAST_REACT" => hpcc.fast_react = self.flag()?,
            "U_TARGET" => hpcc.target_utilisation = self.real(0.01, 10.0)?,
            "MI_THRESH" => hpcc.stages_max = self.whole(0, u64::from(u32::MAX))?,
            "INT_MULTI" => hpcc.unit_multiple = self.whole(1, 1_000_000)?,
            "MULTI_RATE" => hpcc.rate_per_hop = self.flag()?,
            "SAMPLE_FEEDBACK" => hpcc.skips_empty_queues = self.flag()?,
            "PINT_PROB" => hpcc.sampled_share = self.real(0.0, 1.0)?,
            "SIMULATOR_STOP_TIME" => parameters.stop_s = Some(self.real(0.0, f64::MAX)?),
            "ACK_HIGH_PRIO" => parameters.acks_pass_pauses = self.flag()?,
            "L2_ACK_INTERVAL" => parameters.ack_interval_bytes = self.ack_interval()?,
            "L2_BACK_TO_ZERO" => self.only_zero("go-back-N")?,
            "ERROR_RATE_PER_LINK" => self.only_zero("no losses that are drawn")?,
            "LINK_DOWN" => {
                self.only_zero("all links stay up")?;
                self.value()?;
                self.value()?;
            }
            "KMIN_MAP" => maps.min = self.pairs(0, u64::from(u32::MAX / 1_000))?,
            "KMAX_MAP" => maps.max = self.pairs(0, u64::from(u32::MAX / 1_000))?,
            "PMAX_MAP" => maps.probability = self.pairs(0.0, 1.0)?,
            name if WITHOUT_EFFECT.contains(&name) => drop(self.value()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Every packet is acknowledged if it is as long as the interval, or longer.
    fn ack_interval(&mut self) -> Result<u64, ReadError> {
        self.whole(1, u64::from(u32::MAX))
    }

    /// `count rate value rate value ...`
    fn pairs<T>(&mut self, min: T, max: T) -> Result<Vec<(u64, T)>, ReadError>
    where
        T: FromStr + PartialOrd + std::fmt::Display + Copy,
    {
        let count = self.whole(0, 64)?;
        let mut pairs: Vec<(u64, T)> = Vec::new();
        for _ in 0..count {
            let (rate, value) = (self.value()?, self.value()?);
            let rate_bps = self
                .text
                .number(&rate, "the speed in bits per second", 1..=u64::MAX)?;
            let value = self.text.number(&value, self.name(), min..=max)?;
            pairs.retain(|(before, _)| *before != rate_bps);
            pairs.push((rate_bps, value));
        }
        Ok(pairs)
    }
}
