//! Writes the flows of a scenario as jobs of kind `flows`.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::format::{first_flow_start_ns, format_duration, node_name};
use crate::ns3::{CongestionMode, HostPairRttAndBdpTable, Scenario};

/// Largest number of queue pairs of a connection.
const QPS_MAX: usize = 4_096;
/// Largest number of queue pairs per flow in one job. All connections of a job have the same number of queue
/// pairs, so some queue pairs can be unused. If a job would exceed this number, its flows are divided into
/// several jobs.
const UNUSED_QPS_MAX: usize = 2;

/// Default end time of the model run in seconds (`simulator_stop_time` in `third.cc`).
const STOP_S_DEFAULT: f64 = 3.01;

/// Flows with the same transport.
#[derive(Clone, Debug)]
pub(super) struct FlowGroup {
    /// Name of the transport.
    pub(super) name: String,
    /// Priority of the flows.
    pub(super) priority: u8,
    /// Round-trip time in nanoseconds, from which the model computes windows and rate increases.
    pub(super) rtt_ns: u64,
    /// Window in bytes, which the model uses only if `HAS_WIN` is 1.
    pub(super) window_bytes: u32,
    /// Indices of the flows in the scenario.
    flows: Vec<usize>,
}

impl FlowGroup {
    /// Returns the flow groups of a scenario.
    ///
    /// All flows of a group have the same priority. With `GLOBAL_T 0`, the flows of a group also have the
    /// same round-trip time.
    pub(super) fn group_flows_by_transport(scenario: &Scenario) -> Vec<FlowGroup> {
        let parameters = &scenario.parameters;
        let uses_timing = parameters.window.is_used || parameters.mode != CongestionMode::Dcqcn;
        let of_largest_pair = parameters.window.of_largest_pair || !uses_timing;
        let mut timings = HostPairRttAndBdpTable::new(&scenario.topology, parameters.payload_bytes);
        let mut groups: BTreeMap<(u8, u64, u32), Vec<usize>> = BTreeMap::new();
        for (index, flow) in scenario.flows.iter().enumerate() {
            let timing = timings.pair_timing(flow.src, flow.dst, of_largest_pair);
            groups
                .entry((flow.priority, timing.rtt_ns, timing.window_bytes))
                .or_default()
                .push(index);
        }
        let mut groups_of_priority: BTreeMap<u8, usize> = BTreeMap::new();
        for (priority, ..) in groups.keys() {
            *groups_of_priority.entry(*priority).or_default() += 1;
        }
        let mut named = Vec::with_capacity(groups.len());
        for ((priority, rtt_ns, window_bytes), flows) in groups {
            let name = match groups_of_priority[&priority] {
                1 => format!("priority{priority}"),
                _ => format!("priority{priority}-rtt{rtt_ns}ns-window{window_bytes}"),
            };
            named.push(FlowGroup {
                name,
                priority,
                rtt_ns,
                window_bytes,
                flows,
            });
        }
        named
    }
}

/// Writes the jobs. In the model, each flow has its own queue pair. The connection of two hosts with *n*
/// flows therefore has at least *n* queue pairs in the lab.
pub(super) fn write_jobs(
    text: &mut String,
    scenario: &Scenario,
    groups: &[FlowGroup],
    notes: &mut Vec<String>,
) {
    let mut too_many = false;
    let mut names = Vec::new();
    for group in groups {
        let jobs = split_by_queue_pairs(scenario, group);
        let is_only_job = jobs.len() == 1;
        for (qps, flows) in jobs {
            let name = match is_only_job {
                true => group.name.clone(),
                false => format!("{}-qps{qps}", group.name),
            };
            too_many |= qps > QPS_MAX;
            let _ = writeln!(
                text,
                "    - name: {name}\n      kind: flows\n      transport: {}\n      qps: {}\n      flows:",
                group.name,
                qps.min(QPS_MAX)
            );
            for index in flows {
                write_flow(text, scenario, index);
            }
            names.push(name);
        }
    }
    write_script(text, scenario, &names);
    if too_many {
        notes.push(format!(
            "a pair of hosts has more than {QPS_MAX} flows: {QPS_MAX} queue pairs share them in turn"
        ));
    }
}

/// Writes a script for `xoff lab check`. The script checks that no frame is dropped and that all flows end
/// before the end time of the model run.
fn write_script(text: &mut String, scenario: &Scenario, jobs: &[String]) {
    let stop_ns = duration_until_model_end_ns(scenario);
    if stop_ns == 0 {
        return;
    }
    let done: Vec<String> = jobs.iter().map(|name| format!("job.{name}.done == 1")).collect();
    text.push_str("script:\n  - name: all flows end\n");
    let _ = writeln!(
        text,
        "    wait: {{until: {}, at_most: {}}}",
        done.join(" and "),
        format_duration(stop_ns)
    );
    text.push_str("  - name: nothing is dropped\n    expect: sum(*.dropped_packets) == 0\n");
}

/// Returns the time in nanoseconds from the start of the first flow to the end of the model run. Returns 0 if
/// the model run ends before the first flow starts.
fn duration_until_model_end_ns(scenario: &Scenario) -> u64 {
    let stop_ns = scenario.parameters.stop_s.unwrap_or(STOP_S_DEFAULT) * 1e9;
    (stop_ns.clamp(0.0, 1e18) as u64).saturating_sub(first_flow_start_ns(scenario))
}

/// Writes one flow of a job.
fn write_flow(text: &mut String, scenario: &Scenario, index: usize) {
    let flow = &scenario.flows[index];
    let start_ns = flow.start_ns - first_flow_start_ns(scenario);
    let (from, to) = (
        node_name(&scenario.topology, flow.src),
        node_name(&scenario.topology, flow.dst),
    );
    let _ = write!(text, "        - {{from: {from}, to: {to}, bytes: {}", flow.bytes);
    let _ = match start_ns {
        0 => writeln!(text, "}}"),
        _ => writeln!(text, ", start: {}}}", format_duration(start_ns)),
    };
}

/// Divides a flow group into jobs. The key of the result is the number of queue pairs per connection. The
/// value is the list of the flows of this job.
///
/// A group usually becomes one job. If too many queue pairs of this job would be unused, the group becomes
/// several jobs. Their connections have 1, 2, 4, 8 and so on queue pairs.
fn split_by_queue_pairs(scenario: &Scenario, group: &FlowGroup) -> BTreeMap<usize, Vec<usize>> {
    let pair = |index: usize| (scenario.flows[index].src, scenario.flows[index].dst);
    let mut counts: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for index in &group.flows {
        *counts.entry(pair(*index)).or_default() += 1;
    }
    let largest = counts.values().copied().max().unwrap_or(1);
    let is_one_job = counts.len() * largest <= UNUSED_QPS_MAX * group.flows.len();
    let mut jobs: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for index in &group.flows {
        let qps = match is_one_job {
            true => largest,
            false => counts[&pair(*index)].next_power_of_two().min(largest),
        };
        jobs.entry(qps).or_default().push(*index);
    }
    jobs
}
