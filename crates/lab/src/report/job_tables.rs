//! Tables of the jobs and of the host counters of a run.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{AccelerationReport, HostReport, VirtualRunReport};
use xoff_telemetry::{
    count_noun, format_counts_by_class, format_gbytes_per_second, format_nanos, group_thousands, simple_table,
};
use xoff_workload::{DistributionSummary, JobResults, SizeBin, WorkloadResults};

/// Largest number of hosts for which the counters of each host are printed. With more hosts, only the sums
/// over all hosts are printed.
const HOSTS_SHOWN_MAX: usize = 16;
/// Counters of normal traffic. The table of host counters omits them.
const NORMAL_TRAFFIC_COUNTERS: [&str; 7] = [
    "tx_packets",
    "tx_bytes",
    "rx_packets",
    "rx_bytes",
    "rx_data_packets",
    "rx_write_requests",
    "rx_read_requests",
];

/// Formats the tables of all jobs. The first table has the job completion times and the rooflines (lower
/// bounds from the links of the hosts). The other tables have the results of collectives and flows for
/// each size.
pub(super) fn format_job_tables(results: &WorkloadResults) -> String {
    let header = [
        "Job",
        "Kind",
        "JCT",
        "Roofline",
        "JCT ratio",
        "Iterations",
        "Min",
        "Avg",
        "p99",
        "Max",
    ];
    let row = |job: &JobResults| {
        let mut cells = vec![
            job.name.clone(),
            job.kind.clone(),
            match job.jct_ns {
                Some(jct_ns) => format_nanos(jct_ns),
                None => "not done".to_owned(),
            },
            format_nanos(job.roofline_ns),
            format_ratio(job.jct_ratio),
        ];
        match &job.iteration_ns {
            Some(times) => {
                cells.push(group_thousands(times.count));
                cells.extend([times.min, times.avg, times.p99, times.max].map(format_rounded_nanos));
            }
            None => cells.extend(["-"; 5].map(str::to_owned)),
        }
        cells
    };
    let mut text = simple_table(&header, 2, results.jobs.iter().map(row).collect());
    for table in [collectives_table(&results.jobs), flows_table(&results.jobs)]
        .into_iter()
        .flatten()
    {
        text.push('\n');
        text.push_str(&table);
    }
    text
}

/// Formats the table of collectives in the units of nccl-tests. Each collective has one row for each message
/// size. Returns `None` if no job is a collective.
fn collectives_table(jobs: &[JobResults]) -> Option<String> {
    let header = [
        "Collective",
        "Algorithm",
        "Ranks",
        "Bytes",
        "Avg",
        "Min",
        "p99",
        "Max",
        "Over roofline",
        "Algbw GB/s",
        "Busbw GB/s",
    ];
    let mut rows = Vec::new();
    for job in jobs {
        let Some(collective) = &job.collective else {
            continue;
        };
        for size in &collective.sizes {
            let times = &size.time_ns;
            let mut cells = vec![
                job.name.clone(),
                collective.algorithm.clone(),
                collective.ranks.to_string(),
                group_thousands(size.bytes),
            ];
            cells.extend([times.avg, times.min, times.p99, times.max].map(format_rounded_nanos));
            cells.push(format_ratio(size.roofline_ratio));
            cells.push(format_gbytes_per_second(size.algorithm_bandwidth_gbytes_per_s));
            cells.push(format_gbytes_per_second(size.bus_bandwidth_gbytes_per_s));
            rows.push(cells);
        }
    }
    (!rows.is_empty()).then(|| simple_table(&header, 2, rows))
}

/// Formats the table of flows. Each job has one row for all its flows. If the sizes of the flows are in
/// several ranges, each range has a row, too. Returns `None` if no job has flows.
fn flows_table(jobs: &[JobResults]) -> Option<String> {
    let header = [
        "Flows of",
        "Bytes",
        "Done",
        "FCT p50",
        "p99",
        "p99.9",
        "Max",
        "Slowdown p50",
        "p99",
        "p99.9",
        "Max",
        "Jain",
        "Max/mean",
    ];
    let mut rows = Vec::new();
    for job in jobs {
        let Some(flows) = &job.flows else { continue };
        let mut cells = vec![
            job.name.clone(),
            "all".to_owned(),
            format!(
                "{} of {}",
                group_thousands(flows.completed),
                group_thousands(flows.count)
            ),
        ];
        cells.extend(format_quantiles(
            flows.completion_ns.as_ref(),
            format_rounded_nanos,
        ));
        cells.extend(format_quantiles(flows.slowdown.as_ref(), |slowdown| {
            format!("{slowdown:.2}")
        }));
        cells.push(format_ratio(flows.jain_index));
        cells.push(format_ratio(flows.max_mean_throughput_ratio));
        rows.push(cells);
        for bin in flows.bins.iter().filter(|_| flows.bins.len() > 1) {
            let mut cells = vec![
                String::new(),
                format_bin_range(bin),
                group_thousands(bin.completion_ns.count),
            ];
            cells.extend(format_quantiles(Some(&bin.completion_ns), format_rounded_nanos));
            cells.extend(format_quantiles(bin.slowdown.as_ref(), |slowdown| {
                format!("{slowdown:.2}")
            }));
            cells.extend([String::new(), String::new()]);
            rows.push(cells);
        }
    }
    (!rows.is_empty()).then(|| simple_table(&header, 2, rows))
}

fn format_quantiles(summary: Option<&DistributionSummary>, format: fn(f64) -> String) -> [String; 4] {
    match summary {
        Some(summary) => [summary.p50, summary.p99, summary.p999, summary.max].map(format),
        None => ["-"; 4].map(str::to_owned),
    }
}

/// Formats a range of flow sizes, for example `10 kB to 100 kB` or `above 10 MB`.
fn format_bin_range(bin: &SizeBin) -> String {
    match (bin.above_bytes, bin.up_to_bytes) {
        (None, Some(to)) => format!("to {}", format_bin_bound(to)),
        (Some(above), Some(to)) => format!("{} to {}", format_bin_bound(above), format_bin_bound(to)),
        (Some(above), None) => format!("above {}", format_bin_bound(above)),
        (None, None) => "all".to_owned(),
    }
}

/// Formats one end of a range of flow sizes, such as `10 kB`. The ends are powers of ten, so the number has
/// no fraction.
fn format_bin_bound(bytes: u64) -> String {
    match bytes {
        1_000_000.. if bytes.is_multiple_of(1_000_000) => format!("{} MB", bytes / 1_000_000),
        1_000.. if bytes.is_multiple_of(1_000) => format!("{} kB", bytes / 1_000),
        _ => format!("{bytes} B"),
    }
}

fn format_rounded_nanos(ns: f64) -> String {
    format_nanos(ns.round() as u64)
}

fn format_ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"))
}

/// Formats the host counters that are not 0, one line for each host. Counters of normal traffic, such as
/// `tx_packets`, are omitted. If more than [`HOSTS_SHOWN_MAX`] hosts have such counters, a single line has
/// their sums. Returns an empty text if no host has such counters.
pub(super) fn format_host_counters(hosts: &[HostReport]) -> String {
    let special = |name: &str| !NORMAL_TRAFFIC_COUNTERS.contains(&name);
    let mut text = String::new();
    let mut lines = Vec::new();
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for host in hosts {
        let mut words: Vec<String> = Vec::new();
        for (name, count) in host.counters.iter().filter(|(name, _)| special(name.as_str())) {
            words.push(format!("{name} {}", group_thousands(*count)));
            *sums.entry(name).or_default() += count;
        }
        if host.pfc_rx.iter().any(|count| *count > 0) {
            words.push(format!(
                "pfc_rx {}",
                format_counts_by_class(&host.pfc_rx, group_thousands)
            ));
            *sums.entry("pfc_rx").or_default() += host.pfc_rx.iter().sum::<u64>();
        }
        if host.paused_ns.iter().any(|ns| *ns > 0) {
            words.push(format!(
                "paused {}",
                format_counts_by_class(&host.paused_ns, format_nanos)
            ));
        }
        for (name, count) in [
            ("pause_rx_frames", host.pause_rx_frames),
            ("pause_tx_frames", host.pause_tx_frames),
            ("tx_control_frames", host.tx_control_frames),
        ] {
            if count > 0 {
                words.push(format!("{name} {}", group_thousands(count)));
                *sums.entry(name).or_default() += count;
            }
        }
        if !words.is_empty() {
            lines.push(format!("host {}: {}", host.name, words.join(", ")));
        }
    }
    if lines.len() > HOSTS_SHOWN_MAX {
        let words: Vec<String> = sums
            .iter()
            .map(|(name, sum)| format!("{name} {}", group_thousands(*sum)))
            .collect();
        lines = vec![format!("{} hosts together: {}", lines.len(), words.join(", "))];
    }
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Formats the load balance of the links between switches in one line. Returns an empty text if
/// [`VirtualRunReport::balance`] is `None`.
pub(super) fn format_link_balance(report: &VirtualRunReport) -> String {
    report.balance.map_or_else(String::new, |balance| {
        format!(
            "links between switches: busiest {:.2} times the mean, Jain's index {:.3}, over {} usable link directions\n",
            balance.max_mean_ratio,
            balance.jain_index,
            group_thousands(u64::from(balance.links))
        )
    })
}

/// Formats the size of a run in one line: model time, events and frames.
pub(super) fn format_run_size(report: &VirtualRunReport) -> String {
    let lost = match report.link_lost_frames {
        0 => String::new(),
        frames => format!("; links lost {}", count_noun(frames, "frame")),
    };
    format!(
        "{} of model time: {}, {}, at most {} in flight{lost}\n",
        format_nanos(report.model_time_ns),
        count_noun(report.events, "event"),
        count_noun(report.frame_hops, "frame-hop"),
        count_noun(report.frames_under_way_max, "frame")
    ) + &report
        .acceleration
        .as_ref()
        .map_or_else(String::new, format_acceleration)
}

/// Formats what a run has skipped, one line for each job.
fn format_acceleration(report: &AccelerationReport) -> String {
    let mut text = format!(
        "accelerated: {} of model time skipped in {}\n",
        format_nanos(report.skipped_time_ns),
        count_noun(report.skips, "skip")
    );
    for job in &report.jobs {
        let noun = match job.unit.as_deref() {
            Some("iteration") => "iteration",
            Some(_) => "step",
            None => {
                let _ = writeln!(text, "  {}: nothing repeats", job.job);
                continue;
            }
        };
        let total = job.skipped_steps + job.simulated_steps;
        let _ = write!(
            text,
            "  {}: {} of {} skipped",
            job.job,
            group_thousands(job.skipped_steps),
            count_noun(total, noun)
        );
        if let Some(error) = job.step_time_error {
            let _ = write!(text, ", their time differs by about {:.2} %", error * 100.0);
        }
        text.push('\n');
    }
    for (reason, count) in &report.rejected_windows {
        let _ = writeln!(text, "  not skipped {}: {reason}", count_noun(*count, "time"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_workload::{CollectiveResults, FlowSummary, SizeResults};

    fn collective_results() -> JobResults {
        JobResults {
            name: "reduce".to_owned(),
            kind: "all_reduce".to_owned(),
            finished: true,
            jct_ns: Some(3_000_000),
            roofline_ns: 2_000_000,
            jct_ratio: Some(1.5),
            iteration_ns: DistributionSummary::of(vec![900_000.0, 1_100_000.0]),
            collective: Some(CollectiveResults {
                algorithm: "RingAllReduce".to_owned(),
                operation: "all_reduce".to_owned(),
                ranks: 8,
                sizes: vec![SizeResults {
                    bytes: 1 << 20,
                    time_ns: DistributionSummary::of(vec![900_000.0, 1_100_000.0]).unwrap_or_default(),
                    roofline_ratio: Some(1.25),
                    algorithm_bandwidth_gbytes_per_s: 1.0,
                    bus_bandwidth_gbytes_per_s: 1.75,
                    ..SizeResults::default()
                }],
                ..CollectiveResults::default()
            }),
            ..JobResults::default()
        }
    }

    fn incast_results() -> JobResults {
        let summary = DistributionSummary::of(vec![10_000.0, 20_000.0]).unwrap_or_default();
        let bin = |above_bytes, up_to_bytes| SizeBin {
            above_bytes,
            up_to_bytes,
            completion_ns: summary,
            slowdown: None,
        };
        JobResults {
            name: "incast".to_owned(),
            kind: "incast".to_owned(),
            flows: Some(FlowSummary {
                count: 4,
                completed: 3,
                completion_ns: Some(summary),
                slowdown: DistributionSummary::of(vec![1.0, 4.0]),
                bins: vec![bin(Some(1_000), Some(10_000)), bin(Some(10_000_000), None)],
                jain_index: Some(0.5),
                max_mean_throughput_ratio: None,
            }),
            ..JobResults::default()
        }
    }

    fn table_cells(line: &str) -> Vec<&str> {
        line.split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .collect()
    }

    #[test]
    fn jobs_collectives_and_flows_have_one_table_each() {
        let text = format_job_tables(&WorkloadResults {
            jobs: vec![collective_results(), incast_results()],
            flows: Vec::new(),
        });
        let cells_of_line = |begin: &str, nth: usize| {
            let found = text.lines().filter(|line| line.starts_with(begin)).nth(nth);
            table_cells(found.unwrap_or_else(|| panic!("no {begin} in\n{text}")))
        };
        assert_eq!(
            cells_of_line("reduce", 0),
            [
                "reduce",
                "all_reduce",
                "3.00 ms",
                "2.00 ms",
                "1.500",
                "2",
                "900 us",
                "1.00 ms",
                "1.10 ms",
                "1.10 ms"
            ]
        );
        assert_eq!(
            cells_of_line("reduce", 1)[1..4],
            ["RingAllReduce", "8", "1,048,576"]
        );
        assert_eq!(cells_of_line("reduce", 1)[8..], ["1.250", "1.00", "1.75"]);
        assert_eq!(cells_of_line("incast", 0)[2], "not done");
        assert_eq!(
            cells_of_line("incast", 1),
            [
                "incast", "all", "3 of 4", "10.0 us", "20.0 us", "20.0 us", "20.0 us", "1.00", "4.00",
                "4.00", "4.00", "0.500", "-"
            ]
        );
        assert!(
            text.contains("1 kB to 10 kB") && text.contains("above 10 MB"),
            "{text}"
        );
    }

    #[test]
    fn counters_of_few_hosts_are_lines_and_those_of_many_hosts_are_sums() {
        let host = |name: String, count: u64| HostReport {
            name,
            counters: [("packet_seq_err".to_owned(), count)]
                .into_iter()
                .filter(|(_, n)| *n > 0)
                .collect(),
            pfc_rx: [0, 0, 0, 2 * count, 0, 0, 0, 0],
            paused_ns: [0; 8],
            pause_rx_frames: 0,
            global_paused_ns: 0,
            pfc_tx: [0; 8],
            pause_tx_frames: count,
            tx_control_frames: count,
        };
        let report = |hosts: Vec<HostReport>| VirtualRunReport {
            links: Vec::new(),
            balance: None,
            reordered: Vec::new(),
            model_time_ns: 1_000,
            events: 1_234,
            frame_hops: 7,
            frames_under_way_max: 3,
            acceleration: None,
            link_lost_frames: 1,
            deadlocks: Vec::new(),
            hosts,
        };
        let few = report(vec![host("h1".to_owned(), 3), host("h2".to_owned(), 0)]);
        assert_eq!(
            format_host_counters(&few.hosts),
            "host h1: packet_seq_err 3, pfc_rx 3: 6, pause_tx_frames 3, tx_control_frames 3\n"
        );
        let many = report((0..20).map(|n| host(format!("h{n}"), 2)).collect());
        assert_eq!(
            format_host_counters(&many.hosts),
            "20 hosts together: packet_seq_err 40, pause_tx_frames 40, pfc_rx 80, tx_control_frames 40\n"
        );
        assert_eq!(
            format_run_size(&few),
            "1.00 us of model time: 1,234 events, 7 frame-hops, at most 3 frames in flight; links lost 1 frame\n"
        );
    }
}
