//! One line of `parameters.txt`: which settings there are, and which values of them are supported.

use std::str::FromStr;

use super::parameters::{Maps, Parameters, REQUIRED};
use super::text::{Line, ReadError, Text, Word, quoted};
use super::units;

/// Settings that change nothing in the runs that are supported: files and traces, and what belongs to congestion control
/// other than DCQCN or to windows. Their values are not looked at.
const WITHOUT_EFFECT: [&str; 26] = [
    "DATA_RATE",
    "DCTCP_RATE_AI",
    "ENABLE_TRACE",
    "FAST_REACT",
    "FCT_OUTPUT_FILE",
    "FLOW_FILE",
    "GLOBAL_T",
    "INT_MULTI",
    "L2_CHUNK_SIZE",
    "LINK_DELAY",
    "MI_THRESH",
    "MULTI_RATE",
    "PFC_OUTPUT_FILE",
    "PINT_LOG_BASE",
    "PINT_PROB",
    "QLEN_MON_END",
    "QLEN_MON_FILE",
    "QLEN_MON_START",
    "SAMPLE_FEEDBACK",
    "SIMULATOR_STOP_TIME",
    "TOPOLOGY_FILE",
    "TRACE_FILE",
    "TRACE_OUTPUT_FILE",
    "USE_DYNAMIC_PFC_THRESHOLD",
    "U_TARGET",
    "VAR_WIN",
];

const LINE: &str = "a setting `NAME value`";

/// A line of the file.
pub(super) struct Setting<'a> {
    pub(super) text: &'a Text,
    pub(super) line: &'a Line<'a>,
}

impl<'a> Setting<'a> {
    fn name(&self) -> &'a str {
        self.line.words[0].text
    }

    /// The one value.
    pub(super) fn value(&self) -> Result<Word<'a>, ReadError> {
        let word = self.text.word(self.line, 1, "the value", LINE)?;
        self.text.nothing_behind(self.line, 2, LINE)?;
        Ok(word)
    }

    pub(super) fn whole(&self, min: u64, max: u64) -> Result<u64, ReadError> {
        self.text.number(&self.value()?, self.name(), min..=max)
    }

    fn flag(&self) -> Result<bool, ReadError> {
        Ok(self.whole(0, 1)? == 1)
    }

    /// A time in microseconds, of which the model takes the whole ones.
    fn micros(&self) -> Result<u64, ReadError> {
        let micros: f64 = self.text.number(&self.value()?, self.name(), 1.0..=1e6)?;
        Ok(micros as u64)
    }

    fn rate(&self) -> Result<u64, ReadError> {
        let word = self.value()?;
        units::rate_bps(word.text).ok_or_else(|| {
            let what = format!("{} is {}", self.name(), quoted(word.text));
            self.text.wrong_word(&word, what, "a rate, such as 20Mb/s")
        })
    }

    /// A value that must be one of those that are supported.
    fn only(&self, supported: &str, means: &str) -> Result<(), ReadError> {
        let word = self.value()?;
        let is_it = word.text == supported || word.text.parse::<f64>().ok() == supported.parse().ok();
        if is_it {
            return Ok(());
        }
        let what = format!("{} {} is not supported", self.name(), quoted(word.text));
        Err(self.text.wrong_word(&word, what, format!("{supported}: {means}")))
    }

    /// Takes it over, or says why that cannot be.
    pub(super) fn take(&self, parameters: &mut Parameters) -> Result<(), ReadError> {
        let dcqcn = &mut parameters.dcqcn;
        match self.name() {
            "ENABLE_QCN" => parameters.ecn = self.flag()?,
            "PACKET_PAYLOAD_SIZE" => {
                let (min, max) = (u64::from(crate::rdma::MTU_MIN), u64::from(crate::rdma::MTU_MAX));
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
            "EWMA_GAIN" => dcqcn.gain = self.text.number(&self.value()?, self.name(), 1e-4..=1.0)?,
            "FAST_RECOVERY_TIMES" => dcqcn.fast_recovery_times = self.whole(0, 1_000)?,
            "RATE_AI" => dcqcn.rate_ai_bps = self.rate()?,
            "RATE_HAI" => dcqcn.rate_hai_bps = self.rate()?,
            "MIN_RATE" => dcqcn.min_rate_bps = self.rate()?,
            "CC_MODE" => self.only("1", "DCQCN")?,
            "HAS_WIN" => self.only("0", "no window")?,
            "ACK_HIGH_PRIO" => self.only("0", "acknowledgements go in the class of their flow")?,
            "L2_BACK_TO_ZERO" => self.only("0", "go-back-N")?,
            "ERROR_RATE_PER_LINK" => self.only("0", "no losses that are drawn")?,
            "LINK_DOWN" => self.only_links_up()?,
            "PAUSE_TIME" => drop(self.text.number(&self.value()?, self.name(), 1e-3..=1e9)?),
            name if WITHOUT_EFFECT.contains(&name) => {}
            name => {
                let what = format!("{} is not supported", quoted(name));
                let expected = format!(
                    "settings of the HPCC model under DCQCN: {}, and optional ones (docs/oracle.md)",
                    REQUIRED.join(", ")
                );
                return Err(self.text.wrong_word(&self.line.words[0], what, expected));
            }
        }
        Ok(())
    }

    fn only_links_up(&self) -> Result<(), ReadError> {
        let word = self.text.word(self.line, 1, "the time", LINE)?;
        match self.text.number::<u64>(&word, "LINK_DOWN", 0..=u64::MAX)? {
            0 => Ok(()),
            _ => Err(self
                .text
                .wrong_word(&word, "LINK_DOWN is not supported", "0 0 0: all links stay up")),
        }
    }

    /// One of the maps by speed; `None` if this is none.
    pub(super) fn map(&self, maps: &mut Maps) -> Option<Result<(), ReadError>> {
        match self.name() {
            "KMIN_MAP" => Some(
                self.pairs(0, u64::from(u32::MAX / 1_000))
                    .map(|map| maps.min = map),
            ),
            "KMAX_MAP" => Some(
                self.pairs(0, u64::from(u32::MAX / 1_000))
                    .map(|map| maps.max = map),
            ),
            "PMAX_MAP" => Some(self.pairs(0.0, 1.0).map(|map| maps.probability = map)),
            _ => None,
        }
    }

    /// `count rate value rate value ...`
    fn pairs<T>(&self, min: T, max: T) -> Result<Vec<(u64, T)>, ReadError>
    where
        T: FromStr + PartialOrd + std::fmt::Display + Copy,
    {
        const FORM: &str = "a map `count rate value ...`, such as `1 100000000000 400`";
        let count = self.text.word(self.line, 1, "the number of speeds", FORM)?;
        let count: usize = self.text.number(&count, "the number of speeds", 0..=64)?;
        let mut pairs: Vec<(u64, T)> = Vec::with_capacity(count);
        for n in 0..count {
            let rate = self.text.word(self.line, 2 + 2 * n, "a speed", FORM)?;
            let value = self.text.word(self.line, 3 + 2 * n, "a value", FORM)?;
            let rate_bps = self
                .text
                .number(&rate, "the speed in bits per second", 1..=u64::MAX)?;
            if pairs.iter().any(|(before, _)| *before == rate_bps) {
                return Err(self.text.wrong_word(&rate, "the speed is there twice", FORM));
            }
            pairs.push((rate_bps, self.text.number(&value, self.name(), min..=max)?));
        }
        self.text.nothing_behind(self.line, 2 + 2 * count, FORM)?;
        Ok(pairs)
    }
}
