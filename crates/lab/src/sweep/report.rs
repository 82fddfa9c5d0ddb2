//! The result of a sweep, or of a part of it.

use serde::{Deserialize, Serialize};

use crate::report::{Report, Totals};
use xoff_workload::JobResults;

/// Name and version of the form. The number changes when a field changes its meaning or goes.
pub const SWEEP_SCHEMA: &str = "xoff.sweep/1";

/// A sweep, or a part of one. Nothing in it depends on the machine or on who ended first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepReport {
    /// [`SWEEP_SCHEMA`].
    pub schema: String,
    /// Version of xoff.
    pub xoff_version: String,
    /// Name of the lab.
    pub lab: String,
    /// CRC-32 of the lab file's text, in hexadecimal digits: parts of different files are not merged. Files that the lab
    /// names are not in it.
    pub lab_crc32: String,
    /// Options that every run had: model time after which it ended, and events after which it was given up.
    pub until_ns: Option<u64>,
    /// The same of events.
    pub events_max: u64,
    /// Fields that took several values, and these, in the order in which they were written.
    pub parameters: Vec<Parameter>,
    /// The seeds, in their order.
    pub seeds: Vec<u64>,
    /// Which part it is; `None`: it is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// One entry for each run of this part, by its number.
    pub runs: Vec<RunFigures>,
}

/// A field of the lab file and the values that it took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// Where it is in the lab file.
    pub path: String,
    /// What was there, one after the other.
    pub values: Vec<String>,
}

/// A part of a sweep: `--shard 2/4` is the second of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Which one, from 1.
    pub part: u32,
    /// Of how many.
    pub of: u32,
}

/// What is kept of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunFigures {
    /// Its number in the whole sweep, from 0.
    pub run: u64,
    /// The value of each parameter.
    pub values: Vec<String>,
    /// Its seed.
    pub seed: u64,
    /// What was promised and not kept, and why it did not come to its end; as in the run's own report.
    pub failures: Vec<String>,
    /// Settings of the lab file and of its switches' configurations without effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// As in [`Report::warnings`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Model time of the workload, in nanoseconds.
    pub model_time_ns: u64,
    /// Events handled.
    pub events: u64,
    /// Frames that arrived at the end of a link, counted at each link they passed.
    pub frame_hops: u64,
    /// Sum over flows and switches.
    pub totals: Totals,
    /// Payload per second of all open-loop flows together, in bits.
    pub goodput_bps: u64,
    /// Of the open-loop flows the largest 99.9th percentile of a frame's latency, in nanoseconds.
    #[serde(default)]
    pub frame_latency_p999_ns: Option<u64>,
    /// As in [`BalanceReport`](crate::BalanceReport).
    #[serde(default)]
    pub link_max_mean_ratio: Option<f64>,
    /// The same.
    #[serde(default)]
    pub link_jain_index: Option<f64>,
    /// In comparisons: `goodput_bps` over that on one switch with the same seed, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent_of_one_switch: Option<f64>,
    /// The jobs.
    pub jobs: Vec<JobFigures>,
}

/// What is kept of a job. Numbers with a fraction have six decimals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobFigures {
    /// Its name.
    pub name: String,
    /// As in [`JobResults::kind`].
    pub kind: String,
    /// From its start to its end; `None` if it did not end.
    pub jct_ns: Option<u64>,
    /// `jct_ns` over its lower bound.
    pub jct_ratio: Option<f64>,
    /// Of a collective: mean over its sizes, in 10^9 bytes per second.
    pub bus_bandwidth_gbytes_per_s: Option<f64>,
    /// Of jobs made of flows: 99th percentile of their slowdowns.
    pub slowdown_p99: Option<f64>,
    /// Of jobs made of flows: Jain's index of their throughputs.
    pub jain_index: Option<f64>,
    /// Of jobs made of flows: 99.9th percentile of their slowdowns.
    #[serde(default)]
    pub slowdown_p999: Option<f64>,
    /// Of a collective: 99.9th percentile of its messages' latency, in nanoseconds.
    #[serde(default)]
    pub message_latency_p999_ns: Option<u64>,
    /// In comparisons: the bus bandwidth of a collective over that on one switch with the same seed, of other jobs the completion
    /// time there over the one here, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent_of_one_switch: Option<f64>,
}

impl RunFigures {
    /// What is kept of a report.
    pub(crate) fn new(run: u64, values: Vec<String>, report: &Report) -> RunFigures {
        let (model_time_ns, events, frame_hops, balance) = match (&report.virtual_time, &report.real_time) {
            (Some(of), _) => (of.model_time_ns, of.events, of.frame_hops, of.balance),
            (None, Some(of)) => (of.model_time_ns, 0, 0, of.balance),
            (None, None) => (0, 0, 0, None),
        };
        let jobs = report.jobs.as_ref().map_or(&[][..], |results| &results.jobs);
        let latencies = report.flows.iter().map(|flow| flow.latency_ns.p999);
        RunFigures {
            frame_latency_p999_ns: latencies.max(),
            link_max_mean_ratio: balance.map(|balance| rounded(balance.max_mean_ratio)),
            link_jain_index: balance.map(|balance| rounded(balance.jain_index)),
            percent_of_one_switch: None,
            run,
            values,
            seed: report.seed,
            failures: report.failures.clone(),
            notes: Vec::new(),
            warnings: report.warnings.clone(),
            model_time_ns,
            events,
            frame_hops,
            totals: report.totals,
            goodput_bps: report.flows.iter().map(|flow| flow.goodput_bps).sum(),
            jobs: jobs.iter().map(JobFigures::new).collect(),
        }
    }
}

impl JobFigures {
    fn new(job: &JobResults) -> JobFigures {
        let bandwidths = job.collective.as_ref().map(|collective| {
            let sizes = collective.sizes.iter();
            sizes
                .map(|size| size.bus_bandwidth_gbytes_per_s)
                .collect::<Vec<f64>>()
        });
        let mean = |values: &Vec<f64>| match values.len() {
            0 => None,
            count => Some(rounded(values.iter().sum::<f64>() / count as f64)),
        };
        let flows = job.flows.as_ref();
        JobFigures {
            name: job.name.clone(),
            kind: job.kind.clone(),
            jct_ns: job.jct_ns,
            jct_ratio: job.jct_ratio.map(rounded),
            bus_bandwidth_gbytes_per_s: bandwidths.as_ref().and_then(mean),
            slowdown_p99: flows.and_then(|flows| flows.slowdown).map(|s| rounded(s.p99)),
            jain_index: flows.and_then(|flows| flows.jain_index).map(rounded),
            slowdown_p999: flows.and_then(|flows| flows.slowdown).map(|s| rounded(s.p999)),
            message_latency_p999_ns: job.message_latency_ns.map(|latency| latency.p999),
            percent_of_one_switch: None,
        }
    }
}

impl SweepReport {
    /// The JSON text, for a file.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("a sweep has string keys and finite numbers");
        text.push('\n');
        text
    }

    /// How many runs the whole sweep has.
    pub fn runs_in_all(&self) -> u64 {
        let combinations = self
            .parameters
            .iter()
            .map(|parameter| parameter.values.len() as u64);
        combinations.product::<u64>() * self.seeds.len() as u64
    }
}

impl Shard {
    /// Whether a run is in this part.
    pub fn has(self, run: u64) -> bool {
        run % u64::from(self.of) == u64::from(self.part - 1)
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers = text
            .split_once('/')
            .and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((part, of)) if (1..=of).contains(&part) => Ok(Shard { part, of }),
            _ => Err(format!(
                "'{text}' is no part; write I/N with I from 1 to N, such as 1/4 for the first of four"
            )),
        }
    }
}

/// Six decimals: enough to read, and few enough that a number written and read again is the same number.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_each_run_once() {
        let parts: Vec<Shard> = ["1/3", "2/3", "3/3"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        for run in 0..10 {
            assert_eq!(parts.iter().filter(|part| part.has(run)).count(), 1, "{run}");
        }
        for text in ["0/3", "4/3", "1/0", "1", "a/b", "", "-1/2", "1/2/3"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_survive_a_file() {
        let mut x = 0.123_456_789_f64;
        for _ in 0..1_000 {
            x = (x * 1.37 + 0.001) % 9_000.0;
            let written = serde_json::to_string(&rounded(x)).unwrap();
            let read: f64 = serde_json::from_str(&written).unwrap();
            assert_eq!(read.to_bits(), rounded(x).to_bits(), "{written}");
        }
    }
}
