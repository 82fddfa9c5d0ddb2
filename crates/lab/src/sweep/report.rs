//! The report of a sweep or of one part of a sweep.

use serde::{Deserialize, Serialize};

use crate::report::{Report, Totals};
use xoff_workload::JobResults;

/// Name and version of the report format. The version changes if a field is removed or changes its meaning.
pub const SWEEP_SCHEMA: &str = "xoff.sweep/1";

/// The report of a sweep or of one part of a sweep (`--report`). The report depends neither on the machine
/// nor on the order in which runs end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepReport {
    /// The value of [`SWEEP_SCHEMA`].
    pub schema: String,
    /// Version of xoff.
    pub xoff_version: String,
    /// Name of the lab.
    pub lab: String,
    /// CRC-32 of the text of the lab file, as 8 hexadecimal digits. Parts with different checksums cannot be
    /// merged. The checksum does not cover other files, such as configurations that the lab file names.
    pub lab_crc32: String,
    /// Time limit of each run in nanoseconds of model time (`--until`). `None`: no limit.
    pub until_ns: Option<u64>,
    /// Largest number of events of each run (`--events-max`).
    pub events_max: u64,
    /// The fields of `--set` with their values, in the order of the command line.
    pub parameters: Vec<VariedField>,
    /// The seeds in the order of the command line, without duplicates.
    pub seeds: Vec<u64>,
    /// The part of the sweep that this report contains. `None`: the whole sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// One entry for each run of this part, in the order of the run numbers.
    pub runs: Vec<RunMeasurements>,
}

/// A field of the lab file with its values in a sweep or a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariedField {
    /// Path of the field in the lab file, such as `workload.jobs.0.bytes`.
    pub path: String,
    /// The values in the order of the command line.
    pub values: Vec<String>,
}

/// A part of a sweep. For example, `--shard 2/4` is the second of four parts. Parsed from the
/// text `PART/PARTS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Number of the part, 1 to `of`.
    pub part: u32,
    /// Number of parts of the sweep, at least 1.
    pub of: u32,
}

/// The figures (measured quantities) of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunMeasurements {
    /// Number of the run in the whole sweep or comparison, from 0.
    pub run: u64,
    /// The value of each `--set` field, in the order of the command line.
    pub values: Vec<String>,
    /// Seed of the run.
    pub seed: u64,
    /// The failures of the run, as in [`Report::failures`].
    pub failures: Vec<String>,
    /// Whether the run offered no traffic, or none of it arrived. Such a run proves nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_traffic: bool,
    /// Notes about settings without effect, in the lab file and in the switch configurations. Empty
    /// in comparisons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The warnings of the run, as in [`Report::warnings`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Model time from the start of the workload to the end of the run, in nanoseconds.
    pub model_time_ns: u64,
    /// Model time of the steps that a run with `--accelerate` has skipped, in nanoseconds. `None` for an exact run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped_time_ns: Option<u64>,
    /// Number of events of the simulation. The value is 0 in real time.
    pub events: u64,
    /// Number of frame arrivals at the ends of links. A frame that crosses three links counts three times.
    /// The value is 0 in real time.
    pub frame_hops: u64,
    /// Sums over all flows, switches and queue pairs of the run, as in [`Report::totals`].
    pub totals: Totals,
    /// Sum of the goodputs of all open-loop flows, in bits per second of model time.
    pub goodput_bps: u64,
    /// 99.9th percentile of the frame latency in nanoseconds: the largest value of all open-loop flows.
    /// `None` without open-loop flows.
    #[serde(default)]
    pub frame_latency_p999_ns: Option<u64>,
    /// Largest load of a usable link direction between switches, divided by the mean load, 1 or more
    /// ([`LinkBalanceReport::max_mean_ratio`](crate::LinkBalanceReport::max_mean_ratio)). `None` if the
    /// workload could use no such direction, or if these directions carried no traffic.
    #[serde(default)]
    pub link_max_mean_ratio: Option<f64>,
    /// Jain's fairness index of the loads of the usable link directions between switches, above 0 and at most
    /// 1 ([`LinkBalanceReport::jain_index`](crate::LinkBalanceReport::jain_index)). `None` in the same cases
    /// as `link_max_mean_ratio`.
    #[serde(default)]
    pub link_jain_index: Option<f64>,
    /// Goodput in percent of the reference run, which has a single switch and the same seed. Only comparisons
    /// set this field. `None` if the reference run is missing or has no goodput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent_of_one_switch: Option<f64>,
    /// The figures of the jobs, in the order of the lab file.
    pub jobs: Vec<JobMeasurements>,
}

/// The figures of one job of a run. Fractions are rounded to six decimals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobMeasurements {
    /// Name of the job in the lab file.
    pub name: String,
    /// Kind of the job, as in [`JobResults::kind`].
    pub kind: String,
    /// Job completion time in nanoseconds. `None` if the job did not end.
    pub jct_ns: Option<u64>,
    /// Job completion time divided by the roofline. The roofline is a lower bound of the job completion time:
    /// the time that the links of the hosts need for the data. `None` if the job did not end or the roofline
    /// is 0.
    pub jct_ratio: Option<f64>,
    /// Bus bandwidth of a collective in 10^9 bytes per second, as nccl-tests defines it: the mean over all
    /// message sizes. `None` for other kinds of jobs, and if no measured iteration was completed.
    pub bus_bandwidth_gbytes_per_s: Option<f64>,
    /// 99th percentile of the slowdowns of the flows. A slowdown is the flow completion time divided by the
    /// least possible time. `None` for a job without flows, and if no slowdown is known.
    pub slowdown_p99: Option<f64>,
    /// Jain's fairness index of the throughputs of the flows. The index is above 0 and at most 1, and the
    /// value 1 means equal throughputs. `None` for a job without flows, and if no bytes were received.
    pub jain_index: Option<f64>,
    /// 99.9th percentile of the slowdowns of the flows. `None` for a job without flows, and if no slowdown
    /// is known.
    #[serde(default)]
    pub slowdown_p999: Option<f64>,
    /// 99.9th percentile of the message latency of a collective, in nanoseconds. `None` for other kinds of
    /// jobs, and if no message was received.
    #[serde(default)]
    pub message_latency_p999_ns: Option<u64>,
    /// Performance in percent of the reference run, which has a single switch and the same seed. For a
    /// collective, this is the ratio of the bus bandwidths. For other jobs, this is the completion time in
    /// the reference run divided by the completion time in this run. Only comparisons set this field. `None`
    /// if the reference run or one of the values is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent_of_one_switch: Option<f64>,
}

impl RunMeasurements {
    /// Extracts the figures from the report of a run.
    pub(crate) fn of_report(run: u64, values: Vec<String>, report: &Report) -> RunMeasurements {
        let (model_time_ns, events, frame_hops, balance) = match (&report.virtual_time, &report.real_time) {
            (Some(report), _) => (
                report.model_time_ns,
                report.events,
                report.frame_hops,
                report.balance,
            ),
            (None, Some(report)) => (report.model_time_ns, 0, 0, report.balance),
            (None, None) => (0, 0, 0, None),
        };
        let in_virtual_time = report.virtual_time.as_ref();
        let acceleration = in_virtual_time.and_then(|report| report.acceleration.as_ref());
        let jobs = report.jobs.as_ref().map_or(&[][..], |results| &results.jobs);
        let latencies = report.flows.iter().map(|flow| flow.latency_ns.p999);
        RunMeasurements {
            frame_latency_p999_ns: latencies.max(),
            link_max_mean_ratio: balance.map(|balance| round_to_six_decimals(balance.max_mean_ratio)),
            link_jain_index: balance.map(|balance| round_to_six_decimals(balance.jain_index)),
            percent_of_one_switch: None,
            run,
            values,
            seed: report.seed,
            failures: report.failures.clone(),
            without_traffic: report.traffic.describe_missing().is_some(),
            notes: Vec::new(),
            warnings: report.warnings.clone(),
            model_time_ns,
            skipped_time_ns: acceleration.map(|acceleration| acceleration.skipped_time_ns),
            events,
            frame_hops,
            totals: report.totals,
            goodput_bps: report.flows.iter().map(|flow| flow.goodput_bps).sum(),
            jobs: jobs.iter().map(JobMeasurements::of_results).collect(),
        }
    }
}

impl JobMeasurements {
    fn of_results(job: &JobResults) -> JobMeasurements {
        let bandwidths = job.collective.as_ref().map(|collective| {
            let sizes = collective.sizes.iter();
            sizes
                .map(|size| size.bus_bandwidth_gbytes_per_s)
                .collect::<Vec<f64>>()
        });
        let mean = |values: &Vec<f64>| match values.len() {
            0 => None,
            count => Some(round_to_six_decimals(values.iter().sum::<f64>() / count as f64)),
        };
        let flows = job.flows.as_ref();
        JobMeasurements {
            name: job.name.clone(),
            kind: job.kind.clone(),
            jct_ns: job.jct_ns,
            jct_ratio: job.jct_ratio.map(round_to_six_decimals),
            bus_bandwidth_gbytes_per_s: bandwidths.as_ref().and_then(mean),
            slowdown_p99: flows
                .and_then(|flows| flows.slowdown)
                .map(|s| round_to_six_decimals(s.p99)),
            jain_index: flows
                .and_then(|flows| flows.jain_index)
                .map(round_to_six_decimals),
            slowdown_p999: flows
                .and_then(|flows| flows.slowdown)
                .map(|s| round_to_six_decimals(s.p999)),
            message_latency_p999_ns: job.message_latency_ns.map(|latency| latency.p999),
            percent_of_one_switch: None,
        }
    }
}

impl SweepReport {
    /// Formats the report as indented JSON with a newline at the end.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("a sweep has string keys and finite numbers");
        text.push('\n');
        text
    }

    /// Returns the number of runs of the whole sweep (all combinations of values and seeds), even if this
    /// report covers only one part (`--shard`) of the sweep.
    pub fn total_runs(&self) -> u64 {
        let combinations = self
            .parameters
            .iter()
            .map(|parameter| parameter.values.len() as u64);
        combinations.product::<u64>() * self.seeds.len() as u64
    }
}

impl Shard {
    /// Returns whether a run belongs to this part. `run` is the number of the run in the whole sweep, from 0.
    pub fn contains_run(self, run: u64) -> bool {
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
                "'{text}' is not a part; write I/N with I from 1 to N, such as 1/4 for the first of four parts"
            )),
        }
    }
}

/// Rounds to six decimals. A rounded number does not change when it is written to a file and read again.
pub(crate) fn round_to_six_decimals(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_belongs_to_one_part() {
        let parts: Vec<Shard> = ["1/3", "2/3", "3/3"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        for run in 0..10 {
            assert_eq!(
                parts.iter().filter(|part| part.contains_run(run)).count(),
                1,
                "{run}"
            );
        }
        for text in ["0/3", "4/3", "1/0", "1", "a/b", "", "-1/2", "1/2/3"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }

    #[test]
    fn rounded_numbers_survive_a_json_round_trip() {
        let mut x = 0.123_456_789_f64;
        for _ in 0..1_000 {
            x = (x * 1.37 + 0.001) % 9_000.0;
            let written = serde_json::to_string(&round_to_six_decimals(x)).unwrap();
            let read: f64 = serde_json::from_str(&written).unwrap();
            assert_eq!(read.to_bits(), round_to_six_decimals(x).to_bits(), "{written}");
        }
    }
}
