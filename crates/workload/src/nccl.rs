//! Output in the formats of nccl-tests: the table, and version 2 of the JSON format (`src/util.cu`
//! of nccl-tests).
//!
//! xoff measures each size once. The out-of-place and in-place columns show the same measurement, because
//! both cases look the same to the network. xoff does not compute data, so the column `#wrong` contains
//! `N/A`, as with the option `-c 0` of nccl-tests.

use std::fmt::Write;

use serde_json::{Value, json};

use super::results::{CollectiveResults, JobResults, SizeResults};

/// Version of the JSON format (`JSON_FILE_VERSION`).
const JSON_VERSION: u32 = 2;
/// Length of an element in bytes. All counts are in elements of type `float`.
const ELEMENT_BYTES: u64 = 4;
/// The line above the column titles if the table has columns of single iterations.
const OVER_ITERATIONS: &str = concat!(
    "              out-of-place (+ per-iteration)                    ",
    "            in-place (+ per-iteration)"
);

/// A collective job and the additional texts of the output, such as the command line and the host names.
#[derive(Clone, Debug)]
pub struct NcclRun<'a> {
    /// Results of the job. The methods return `None` if the job is not a collective.
    pub job: &'a JobResults,
    /// The command line of the run, as the field `args` of the JSON output.
    pub args: &'a [String],
    /// Names of the hosts, in the order of the ranks.
    pub hosts: &'a [String],
    /// Whether the table has the columns `i_min`, `i_max`, `i_p99` and `i_cv%` of single iterations.
    pub per_iteration: bool,
    /// Additional results, such as drops, PFC and ECN. The JSON output has the fields of this object under
    /// the key `xoff`. `Null` adds nothing, and a value that is not an object gets the key `more`.
    pub xoff: Value,
}

impl NcclRun<'_> {
    /// Returns the table of nccl-tests, or `None` if the job is not a collective.
    pub fn table(&self) -> Option<String> {
        let collective = self.job.collective.as_ref()?;
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write_header(&mut text, collective);
        for size in &collective.sizes {
            let _ = self.write_line(&mut text, collective, size);
        }
        let _ = writeln!(text, "# {:<20} : 0 OK", "Out of bounds values");
        let average = format_general(average_bus_bandwidth(collective));
        let _ = writeln!(text, "# {:<20} : {average} ", "Avg bus bandwidth");
        let _ = writeln!(
            text,
            "#\n# Collective test concluded: {}_perf",
            collective.operation
        );
        Some(text)
    }

    /// Returns the JSON output of nccl-tests, or `None` if the job is not a collective.
    pub fn json(&self) -> Option<Value> {
        let collective = self.job.collective.as_ref()?;
        let results: Vec<Value> = collective
            .sizes
            .iter()
            .map(|size| size_result_json(collective, size))
            .collect();
        let mut xoff = json!({
            "job": self.job.name,
            "algorithm": collective.algorithm,
            "gpus_per_node": collective.gpus_per_node,
            "jct_ns": self.job.jct_ns,
            "roofline_ns": self.job.roofline_ns,
            "jct_ratio": self.job.jct_ratio,
            "sizes": collective.sizes.iter().map(|size| json!({
                "size": size.bytes,
                "roofline_ns": size.roofline_ns,
                "roofline_ratio": size.roofline_ratio,
            })).collect::<Vec<_>>(),
        });
        match (xoff.as_object_mut(), &self.xoff) {
            (Some(into), Value::Object(more)) => into.extend(more.clone()),
            (Some(_), Value::Null) | (None, _) => {}
            (Some(into), other) => {
                into.insert("more".to_owned(), other.clone());
            }
        }
        Some(json!({
            "version": JSON_VERSION,
            "args": self.args,
            "env": [],
            "config": self.config_json(collective),
            "results": results,
            "out_of_bounds": { "count": 0, "okay": "true" },
            "average_bus_bandwidth": {
                "bandwidth": average_bus_bandwidth(collective),
                "okay": "unchecked",
            },
            "errors": [],
            "xoff": xoff,
        }))
    }

    fn write_header(&self, text: &mut String, collective: &CollectiveResults) -> std::fmt::Result {
        let (least, most) = size_range(collective);
        let step = step_factor(collective);
        writeln!(text, "# xoff {}", env!("CARGO_PKG_VERSION"))?;
        writeln!(text, "# Collective test starting: {}_perf", collective.operation)?;
        writeln!(
            text,
            "# nThread 1 nGpus 1 minBytes {least} maxBytes {most} step: {step}(factor) warmup iters: {} iters: {} agg iters: \
             1 validation: 0 graph: 0",
            collective.warmup, collective.iterations
        )?;
        writeln!(text, "#\n# Using devices")?;
        for (rank, host) in self.hosts.iter().enumerate() {
            let device = rank as u32 % collective.gpus_per_node.max(1);
            writeln!(
                text,
                "#  Rank {rank:2} Group  0 Pid {:6} on {host:>10} device {device:2} [0000:00:00] xoff",
                0
            )?;
        }
        writeln!(text, "#")?;
        let block = |first: bool, cells: [&str; 8]| {
            let [time, alg, bus, wrong, iterations @ ..] = cells;
            let mut line = format!("  {time:>7}  {alg:>6}  {bus:>6}  {wrong:>6}");
            if self.per_iteration {
                for cell in iterations {
                    let _ = write!(line, "  {cell:>7}");
                }
            }
            if first { line } else { format!("{line} ") }
        };
        let head = |cells: [&str; 5]| {
            format!(
                "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}",
                cells[0], cells[1], cells[2], cells[3], cells[4]
            )
        };
        let over = match self.per_iteration {
            true => OVER_ITERATIONS,
            false => "           out-of-place                       in-place          ",
        };
        writeln!(text, "{}{over}", head([""; 5]))?;
        let names = [
            "time", "algbw", "busbw", "#wrong", "i_min", "i_max", "i_p99", "i_cv%",
        ];
        let units = ["(us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)", "(us)", "(%)"];
        let titles = head(["size", "count", "type", "redop", "root"]);
        writeln!(text, "{titles}{}{}", block(true, names), block(false, names))?;
        let second = head(["(B)", "(elements)", "", "", ""]);
        writeln!(text, "{second}{}{}", block(true, units), block(false, units))
    }

    fn write_line(
        &self,
        text: &mut String,
        collective: &CollectiveResults,
        size: &SizeResults,
    ) -> std::fmt::Result {
        let mut block = format!(
            "  {}  {}  {}     N/A",
            format_float(size.time_ns.avg / 1000.0, 7),
            format_float(size.algorithm_bandwidth_gbytes_per_s, 6),
            format_float(size.bus_bandwidth_gbytes_per_s, 6)
        );
        if self.per_iteration {
            let times = size.time_ns;
            for value in [
                times.min / 1000.0,
                times.max / 1000.0,
                times.p99 / 1000.0,
                variation_percent(size),
            ] {
                let _ = write!(block, "  {}", format_float(value, 7));
            }
        }
        writeln!(
            text,
            "{:>12}  {:>12}  {:>8}  {:>6}  {:>6}{block}{block}",
            size.bytes,
            element_count(collective, size),
            "float",
            reduction_name(collective),
            -1
        )
    }

    fn config_json(&self, collective: &CollectiveResults) -> Value {
        let (least, most) = size_range(collective);
        let devices = self.hosts.iter().enumerate().map(|(rank, host)| {
            json!({
                "rank": rank,
                "group": 0,
                "pid": 0,
                "hostname": host,
                "device": rank as u32 % collective.gpus_per_node.max(1),
                "device_hex": "0000:00:00",
                "device_info": "xoff",
            })
        });
        json!({
            "nthreads": 1,
            "ngpus": 1,
            "minimum_bytes": least,
            "maximum_bytes": most,
            "step_factor": step_factor(collective),
            "warmup_iters": collective.warmup,
            "iterations": collective.iterations,
            "aggregated_iterations": 1,
            "validation": 0,
            "graph": 0,
            "blocking_collectives": "true",
            "per_iter_timing": "true",
            "parallel_init": "false",
            "ranks": collective.ranks,
            "devices": devices.collect::<Vec<_>>(),
        })
    }
}

fn size_result_json(collective: &CollectiveResults, size: &SizeResults) -> Value {
    let us = |ns: f64| ns / 1000.0;
    let body = json!({
        "time": us(size.time_ns.avg),
        "alg_bw": size.algorithm_bandwidth_gbytes_per_s,
        "bus_bw": size.bus_bandwidth_gbytes_per_s,
        "nwrong": null,
    });
    let per_iteration = json!({
        "min_us": us(size.time_ns.min),
        "max_us": us(size.time_ns.max),
        "avg_us": us(size.time_ns.avg),
        "p50_us": us(size.time_ns.p50),
        "p95_us": us(size.time_ns.p95),
        "p99_us": us(size.time_ns.p99),
        "stdev_us": us(size.time_ns.stdev),
        "cv_pct": variation_percent(size),
        "times_us": size.times_ns.iter().map(|time| us(*time)).collect::<Vec<_>>(),
    });
    json!({
        "size": size.bytes,
        "count": element_count(collective, size),
        "type": "float",
        "redop": reduction_name(collective),
        "root": "    -1",
        "out_of_place": body.clone(),
        "out_of_place_per_iter": per_iteration.clone(),
        "in_place": body,
        "in_place_per_iter": per_iteration,
        "actual_iterations": size.time_ns.count,
        "experiment_name": format!("{}_perf", collective.operation),
    })
}

/// Returns the number of elements for the column `count` of nccl-tests. For AllReduce, this is the number
/// of elements of the whole array. For any collective except AllReduce, it is the number of elements of
/// one rank.
fn element_count(collective: &CollectiveResults, size: &SizeResults) -> u64 {
    let all = size.bytes / ELEMENT_BYTES;
    if collective.operation == "all_reduce" {
        all
    } else {
        all / u64::from(collective.ranks.max(1))
    }
}

fn reduction_name(collective: &CollectiveResults) -> &'static str {
    match collective.operation.as_str() {
        "all_reduce" | "reduce_scatter" => "sum",
        _ => "none",
    }
}

/// Returns the coefficient of variation of the single iterations in percent.
fn variation_percent(size: &SizeResults) -> f64 {
    if size.time_ns.avg > 0.0 {
        size.time_ns.stdev / size.time_ns.avg * 100.0
    } else {
        0.0
    }
}

fn average_bus_bandwidth(collective: &CollectiveResults) -> f64 {
    let sum: f64 = collective
        .sizes
        .iter()
        .map(|size| size.bus_bandwidth_gbytes_per_s)
        .sum();
    if collective.sizes.is_empty() {
        0.0
    } else {
        sum / collective.sizes.len() as f64
    }
}

fn size_range(collective: &CollectiveResults) -> (u64, u64) {
    let bytes = || collective.sizes.iter().map(|size| size.bytes);
    (bytes().min().unwrap_or(0), bytes().max().unwrap_or(0))
}

/// Returns the second size divided by the first size, for the header. The result is 1 if there is only
/// one size.
fn step_factor(collective: &CollectiveResults) -> u64 {
    match collective.sizes.as_slice() {
        [first, second, ..] if first.bytes > 0 => (second.bytes / first.bytes).max(1),
        _ => 1,
    }
}

/// Formats a number like `getFloatStr` of nccl-tests, with two decimals. A number that is too long for
/// `width` characters gets fewer decimals or a power of ten.
fn format_float(value: f64, width: usize) -> String {
    let mut power = 0;
    let mut bound = 1.0;
    while value >= bound && power < 30 {
        bound *= 10.0;
        power += 1;
    }
    match power {
        _ if power + 2 < width => format!("{value:width$.2}"),
        _ if power + 1 < width => format!("{value:width$.1}"),
        _ if power < width + 1 => format!("{value:width$.0}"),
        _ => {
            let text = format!("{value:.*e}", usize::from(width >= 7));
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            format!("{:>width$}", format!("{mantissa}e+{exponent:0>2}"))
        }
    }
}

/// Formats a bandwidth like `%g` in C: six significant digits without trailing zeros.
fn format_general(value: f64) -> String {
    let mut decimals = 5;
    let mut bound = 10.0;
    while value >= bound && decimals > 0 {
        bound *= 10.0;
        decimals -= 1;
    }
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
#[path = "nccl_tests.rs"]
mod tests;
