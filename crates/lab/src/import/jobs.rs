//! Jobs of kind `flows` from a scenario's flows.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::ns3::{duration_text, first_start_ns, node_name};
use crate::ns3::{CongestionMode, PairTimings, Scenario};

/// Most queue pairs of a connection.
const QPS_MAX: usize = 4_096;
/// A group has one job while that takes at most so many times as many queue pairs as there are flows.
const UNUSED_QPS_MAX: usize = 2;

/// When the model stops if no setting says so (`simulator_stop_time`).
const STOP_S_DEFAULT: f64 = 3.01;

/// Flows that have the same transport.
#[derive(Clone, Debug)]
pub(super) struct FlowGroup {
    /// Name of the transport.
    pub(super) name: String,
    pub(super) priority: u8,
    /// Round trip from which windows and increases follow.
    pub(super) rtt_ns: u64,
    /// The window, which counts if `HAS_WIN` is set.
    pub(super) window_bytes: u32,
    /// Indices of its flows.
    flows: Vec<usize>,
}

impl FlowGroup {
    /// The groups of a scenario: flows of one priority, and with `GLOBAL_T` 0 of pairs of hosts with the same round trip.
    pub(super) fn of(scenario: &Scenario) -> Vec<FlowGroup> {
        let parameters = &scenario.parameters;
        let uses_timing = parameters.window.used || parameters.mode != CongestionMode::Dcqcn;
        let largest = parameters.window.of_largest_pair || !uses_timing;
        let mut timings = PairTimings::new(&scenario.topology, parameters.payload_bytes);
        let mut groups: BTreeMap<(u8, u64, u32), Vec<usize>> = BTreeMap::new();
        for (index, flow) in scenario.flows.iter().enumerate() {
            let timing = timings.get(flow.src, flow.dst, largest);
            groups
                .entry((flow.priority, timing.rtt_ns, timing.window_bytes))
                .or_default()
                .push(index);
        }
        let mut of_priority: BTreeMap<u8, usize> = BTreeMap::new();
        for (priority, ..) in groups.keys() {
            *of_priority.entry(*priority).or_default() += 1;
        }
        let mut named = Vec::with_capacity(groups.len());
        for ((priority, rtt_ns, window_bytes), flows) in groups {
            let name = match of_priority[&priority] {
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

/// Writes the jobs. In the model each flow has a queue pair of its own, so a connection has as many as its pair of hosts has flows.
pub(super) fn write_jobs(
    text: &mut String,
    scenario: &Scenario,
    groups: &[FlowGroup],
    notes: &mut Vec<String>,
) {
    let mut too_many = false;
    let mut names = Vec::new();
    for group in groups {
        let jobs = split_by_count(scenario, group);
        let is_only = jobs.len() == 1;
        for (qps, flows) in jobs {
            let name = match is_only {
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
            "a pair of hosts has more than {QPS_MAX} flows: that many queue pairs take them in turn"
        ));
    }
}

/// A script for `xoff lab check`: all flows end before the model stops, and nothing is lost on a path with PFC.
fn write_script(text: &mut String, scenario: &Scenario, jobs: &[String]) {
    let stop_ns = stop_after_ns(scenario);
    if stop_ns == 0 {
        return;
    }
    let done: Vec<String> = jobs.iter().map(|name| format!("job.{name}.done == 1")).collect();
    text.push_str("script:\n  - name: all flows end\n");
    let _ = writeln!(
        text,
        "    wait: {{until: {}, at_most: {}}}",
        done.join(" and "),
        duration_text(stop_ns)
    );
    text.push_str("  - name: nothing is dropped\n    expect: sum(*.dropped_packets) == 0\n");
}

/// When the model stops, from the start of the first flow; 0 if before.
fn stop_after_ns(scenario: &Scenario) -> u64 {
    let stop_ns = scenario.parameters.stop_s.unwrap_or(STOP_S_DEFAULT) * 1e9;
    (stop_ns.clamp(0.0, 1e18) as u64).saturating_sub(first_start_ns(scenario))
}

fn write_flow(text: &mut String, scenario: &Scenario, index: usize) {
    let flow = &scenario.flows[index];
    let start_ns = flow.start_ns - first_start_ns(scenario);
    let (from, to) = (
        node_name(&scenario.topology, flow.src),
        node_name(&scenario.topology, flow.dst),
    );
    let _ = write!(text, "        - {{from: {from}, to: {to}, bytes: {}", flow.bytes);
    let _ = match start_ns {
        0 => writeln!(text, "}}"),
        _ => writeln!(text, ", start: {}}}", duration_text(start_ns)),
    };
}

/// The flows of a group by the number of queue pairs that their connections need. One job, unless pairs with few flows would get many
/// unused queue pairs; then a job for each power of two.
fn split_by_count(scenario: &Scenario, group: &FlowGroup) -> BTreeMap<usize, Vec<usize>> {
    let pair = |index: usize| (scenario.flows[index].src, scenario.flows[index].dst);
    let mut counts: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for index in &group.flows {
        *counts.entry(pair(*index)).or_default() += 1;
    }
    let most = counts.values().copied().max().unwrap_or(1);
    let is_one_job = counts.len() * most <= UNUSED_QPS_MAX * group.flows.len();
    let mut jobs: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for index in &group.flows {
        let qps = match is_one_job {
            true => most,
            false => counts[&pair(*index)].next_power_of_two().min(most),
        };
        jobs.entry(qps).or_default().push(*index);
    }
    jobs
}
