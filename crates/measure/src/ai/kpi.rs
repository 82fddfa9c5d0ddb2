//! The key performance indicators (KPIs) of a run. `xoff lab compare` also reports some of them. The other
//! KPIs are defined by the IETF draft on AI fabric benchmarking.

use crate::result::ImprovementDirection::{self, Bigger, Smaller};
use xoff_lab::plot::RunTimeline;
use xoff_lab::report::Report;
use xoff_lab::{NamedRunMeasurement, measurements_of_report};

/// A key performance indicator (KPI) of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Kpi {
    /// Name of the job, or `None` for a KPI of the whole run.
    pub job: Option<String>,
    /// Name of the KPI, such as `jct` or `pfc_paused`. It is the last part of the figure's name.
    pub name: &'static str,
    /// Unit of the value, such as `ns`, `bit/s` or `ratio`.
    pub unit: &'static str,
    /// Direction in which the KPI improves.
    pub better: ImprovementDirection,
    /// Value of the KPI in this run.
    pub value: f64,
}

/// The KPIs that `xoff lab compare` also reports (docs/compare.md). Each entry has the name in comparisons,
/// the name of the KPI, the unit, and the direction in which the value improves.
const COMPARISON_KPIS: &[(&str, &str, &str, ImprovementDirection)] = &[
    ("bus_bandwidth_gbytes_per_s", "bus_bandwidth", "GB/s", Bigger),
    ("goodput_bps", "goodput", "bit/s", Bigger),
    ("jct_ns", "jct", "ns", Smaller),
    ("jct_ratio", "jct_ratio", "ratio", Smaller),
    ("slowdown_p999", "slowdown_p999", "ratio", Smaller),
    ("message_latency_p999_ns", "message_p999", "ns", Smaller),
    ("frame_latency_p999_ns", "frame_p999", "ns", Smaller),
    ("link_max_mean_ratio", "mmr", "ratio", Smaller),
    ("link_jain_index", "jain", "index", Bigger),
    ("pausing_ns", "pfc_paused", "ns", Smaller),
    ("ecn_marked_ratio", "ecn_marked", "ratio", Smaller),
    ("out_of_order_ratio", "out_of_order", "ratio", Smaller),
    ("dropped_frames", "dropped", "frames", Smaller),
];

/// Returns all KPIs of a run. KPIs without a value in this run are left out. The 95th percentile of the queue
/// depth needs the time series `watched`.
pub fn kpis_of_run(report: &Report, watched: Option<&RunTimeline>) -> Vec<Kpi> {
    let mut all: Vec<Kpi> = measurements_of_report(report)
        .into_iter()
        .filter_map(comparison_kpi)
        .collect();
    all.extend(job_kpis(report));
    all.extend(switch_kpis(report));
    all.extend(watched.and_then(queue_depth_p95));
    all
}

fn comparison_kpi(figure: NamedRunMeasurement) -> Option<Kpi> {
    let (_, name, unit, better) = COMPARISON_KPIS.iter().find(|(name, ..)| *name == figure.name)?;
    Some(Kpi {
        job: figure.job,
        name,
        unit,
        better: *better,
        value: figure.value,
    })
}

fn job_kpis(report: &Report) -> Vec<Kpi> {
    let mut all = Vec::new();
    let jobs = report.jobs.as_ref().map_or(&[][..], |results| &results.jobs);
    for job in jobs {
        let mut add_kpi = |name, unit, better, value: f64| {
            all.push(Kpi {
                job: Some(job.name.clone()),
                name,
                unit,
                better,
                value,
            });
        };
        if let Some(latency) = &job.message_latency_ns {
            add_kpi("message_p99", "ns", Smaller, latency.p99 as f64);
        }
        if let Some(flows) = &job.flows {
            if let Some(completion) = &flows.completion_ns {
                add_kpi("completion_p99", "ns", Smaller, completion.p99);
                add_kpi("completion_p999", "ns", Smaller, completion.p999);
            }
            if let Some(jain) = flows.jain_index {
                add_kpi("flow_jain", "index", Bigger, jain);
            }
        }
        if let Some(jct_ns) = job.jct_ns.filter(|jct_ns| *jct_ns > 0) {
            add_kpi(
                "throughput",
                "Gb/s",
                Bigger,
                job.received_bytes as f64 * 8.0 / jct_ns as f64,
            );
        }
    }
    all
}

fn switch_kpis(report: &Report) -> Vec<Kpi> {
    let ports = || report.switches.iter().flat_map(|switch| &switch.ports);
    let xoffs: u64 = ports()
        .map(|port| port.xoff_transitions.iter().sum::<u64>())
        .sum();
    let longest = ports()
        .flat_map(|port| &port.queues)
        .map(|queue| queue.watermark_bytes);
    let hosts = report
        .virtual_time
        .as_ref()
        .map_or(&[][..], |results| &results.hosts);
    let retransmitted: u64 = hosts
        .iter()
        .filter_map(|host| host.counters.get("retransmitted_packets"))
        .sum();
    let run_kpi = |name, unit, value: u64| Kpi {
        job: None,
        name,
        unit,
        better: Smaller,
        value: value as f64,
    };
    let mut all = vec![
        run_kpi("pfc_xoffs", "events", xoffs),
        run_kpi("pfc_frames", "frames", report.totals.pfc_tx_frames),
        run_kpi("retransmitted", "packets", retransmitted),
        run_kpi("queue_max", "bytes", longest.max().unwrap_or(0)),
    ];
    let received: u64 = ports().map(|port| port.rx_packets).sum();
    if received > 0 {
        all.push(Kpi {
            value: report.totals.dropped_frames as f64 * 1e6 / received as f64,
            ..run_kpi("dropped_ppm", "ppm", 0)
        });
    }
    all
}

/// Returns the 95th percentile of the queue depth in bytes, over the bins of a run. In each bin (time
/// interval), the queue depth is the largest number of queued bytes at any switch port. Returns `None` if the
/// time series has no bins.
fn queue_depth_p95(watched: &RunTimeline) -> Option<Kpi> {
    let ports = watched.timeline.ports();
    let bins = ports.iter().map(|port| port.queued_bytes.len()).max()?;
    let fullest = |bin: usize| {
        ports
            .iter()
            .filter_map(|port| port.queued_bytes.get(bin))
            .max()
            .copied()
    };
    let mut depths: Vec<u64> = (0..bins).filter_map(fullest).collect();
    depths.sort_unstable();
    // The nearest-rank percentile.
    let rank = (depths.len() * 95).div_ceil(100);
    Some(Kpi {
        job: None,
        name: "queue_p95",
        unit: "bytes",
        better: Smaller,
        value: *depths.get(rank.checked_sub(1)?)? as f64,
    })
}
