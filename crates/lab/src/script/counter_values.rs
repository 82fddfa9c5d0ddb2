//! Reads the counters of switches, hosts, flows, jobs and links.

use std::cell::OnceCell;

use xoff_dataplane::balance::MoveReason;
use xoff_dataplane::counters::{BufferOccupancy, PortCounters};
use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{DropReason, PgId, PortId, QueueId, Switch, WatchdogStats, WatchdogStatus};

use super::super::expr::{CounterOwner, CounterReference};
use super::super::virtual_run::VirtualLab;
use super::script_names::{FlowIdentity, ScriptNames};
use xoff_fabric::find_deadlock;
use xoff_host::{ReceivedFlow, SentFlow};
use xoff_workload::{JobResults, WorkloadResults};

/// Returns the value of a counter in its unit. Returns `None` if the value does not exist yet.
pub(super) fn counter_value(
    lab: &VirtualLab,
    names: &ScriptNames,
    results: &OnceCell<WorkloadResults>,
    reference: &CounterReference,
) -> Option<f64> {
    let counter = reference.counter;
    match &reference.owner {
        CounterOwner::Run => run_counter_value(lab, counter),
        CounterOwner::Link(link) => match counter {
            "lost_frames" => Some(lab.simulation.fabric.lost_frames(*link) as f64),
            "up" => Some(f64::from(u8::from(lab.simulation.fabric.is_link_up(*link)))),
            _ => None,
        },
        CounterOwner::Switch(switch) => switch_value(lab, *switch, counter),
        CounterOwner::Pool(switch, pool) => pool_value(lab, *switch, pool, counter),
        CounterOwner::Port(switch, port) => port_value(lab, *switch, names.port_id(*switch, *port)?, counter),
        CounterOwner::PriorityGroup(switch, port, n) => {
            priority_group_value(lab, *switch, names.port_id(*switch, *port)?, *n, counter)
        }
        CounterOwner::Queue(switch, port, n) => {
            queue_value(lab, *switch, names.port_id(*switch, *port)?, *n, counter)
        }
        CounterOwner::PortPfc(switch, port, n) => {
            pfc_value(lab, *switch, names.port_id(*switch, *port)?, *n, counter)
        }
        CounterOwner::Drops(switch, port) => {
            drop_count(lab, *switch, names.port_id(*switch, *port)?, counter)
        }
        CounterOwner::Host(host) => host_value(lab, *host, counter),
        CounterOwner::HostPfc(host, n) => {
            let nic = lab.simulation.fabric.nic_counters(*host);
            let n = usize::from(*n);
            Some(match counter {
                "rx" => nic.pfc_rx[n],
                "tx" => nic.pfc_tx[n],
                "paused_ns" => nic.paused_ns[n],
                _ => return None,
            } as f64)
        }
        CounterOwner::Flow(flow, sender) => {
            let all = names.flows.get(*flow)?.iter();
            let own: Vec<FlowIdentity> = all
                .filter(|ids| sender.is_none_or(|host| ids.hosts.0 == host))
                .copied()
                .collect();
            flow_value(lab, &own, counter)
        }
        CounterOwner::Job(job, sender) => {
            if let Some(value) = running_job_value(lab, *job, *sender, counter) {
                return Some(value);
            }
            let results = results.get_or_init(|| lab.job_results());
            match sender {
                None => job_value(results.jobs.get(*job)?, counter),
                Some(host) => job_sender_value(results, *job, *host, counter),
            }
        }
        // The observer has the counters of arrivals. A prefix without a pool has no counters.
        CounterOwner::Pools(_) | CounterOwner::Arrivals(..) => None,
    }
}

fn run_counter_value(lab: &VirtualLab, counter: &str) -> Option<f64> {
    match counter {
        "now_ns" => Some(lab.elapsed().0 as f64 / 1e3),
        "deadlock" => Some(f64::from(u8::from(
            find_deadlock(&lab.simulation.fabric).is_some(),
        ))),
        _ => None,
    }
}

fn fabric_switch(lab: &VirtualLab, switch: usize) -> &Switch {
    lab.simulation.fabric.switch(switch)
}

fn port_counters(lab: &VirtualLab, switch: usize, port: PortId) -> PortCounters {
    lab.simulation.fabric.port_counters(switch, port)
}

fn switch_value(lab: &VirtualLab, switch: usize, counter: &str) -> Option<f64> {
    let ports = (0..fabric_switch(lab, switch).port_count() as u16).map(PortId);
    if counter == "buffered_cells" {
        let groups = ports.flat_map(|port| (0..PRIORITIES as u8).map(move |n| PgId::new(port, n)));
        let cells = groups.map(|pg| u64::from(fabric_switch(lab, switch).pg_buffers(pg).total.current_cells));
        return Some(cells.sum::<u64>() as f64);
    }
    if counter.starts_with("lb_") {
        return load_balancing_value(lab, switch, counter);
    }
    ports.map(|port| port_value(lab, switch, port, counter)).sum()
}

/// Returns a load-balancing counter of a switch, as the sum over all its next-hop groups and LAGs.
fn load_balancing_value(lab: &VirtualLab, switch: usize, counter: &str) -> Option<f64> {
    let groups = fabric_switch(lab, switch).balanced_groups(lab.simulation.fabric.now());
    let tables = || groups.iter().filter_map(|group| group.table);
    let moves = |reason: MoveReason| {
        groups
            .iter()
            .map(|group| group.moves[reason as usize])
            .sum::<u64>()
    };
    Some(match counter {
        "lb_flows" => tables().map(|table| u64::from(table.flows)).sum(),
        "lb_overflow_packets" => tables().map(|table| table.overflow_packets).sum(),
        "lb_new_flows" => moves(MoveReason::New),
        "lb_idle_moves" => moves(MoveReason::Idle),
        "lb_quality_moves" => moves(MoveReason::Quality),
        "lb_link_down_moves" => moves(MoveReason::LinkDown),
        "lb_link_up_moves" => moves(MoveReason::LinkUp),
        "lb_announced_flows" => moves(MoveReason::Announced),
        "lb_promoted_flows" => moves(MoveReason::Promoted),
        _ => return None,
    } as f64)
}

/// Returns the path quality that a load-balancing group has measured for a port. Returns `None` if no group
/// with this port measures the quality of its paths.
fn path_quality_value(lab: &VirtualLab, switch: usize, port: PortId, counter: &str) -> Option<f64> {
    let groups = fabric_switch(lab, switch).balanced_groups(lab.simulation.fabric.now());
    let mut members = groups.iter().flat_map(|group| &group.members);
    let quality = members.find(|member| member.member.ports == [port])?.quality;
    match counter {
        "lb_band" => Some(f64::from(quality.band)),
        "lb_load_permille" => Some(f64::from(quality.load)),
        _ => None,
    }
}

fn pool_value(lab: &VirtualLab, switch: usize, pool: &str, counter: &str) -> Option<f64> {
    let config = lab.simulation.fabric.switch_config(switch);
    let index = config
        .pools
        .iter()
        .position(|configured| configured.name == pool)?;
    let buffers = fabric_switch(lab, switch).pool_buffers(index);
    match counter.strip_prefix("headroom_") {
        Some(counter) => occupancy_value(buffers.headroom, counter),
        None => occupancy_value(buffers.shared, counter),
    }
}

fn occupancy_value(occupancy: BufferOccupancy, counter: &str) -> Option<f64> {
    Some(f64::from(match counter {
        "current_cells" => occupancy.current_cells,
        "watermark_cells" => occupancy.peak_cells,
        _ => return None,
    }))
}

fn port_value(lab: &VirtualLab, switch: usize, port: PortId, counter: &str) -> Option<f64> {
    if counter == "up" {
        return Some(f64::from(u8::from(fabric_switch(lab, switch).is_up(port))));
    }
    if counter.starts_with("lb_") {
        return path_quality_value(lab, switch, port, counter);
    }
    if counter.starts_with("storms_") {
        let queues = (0..PRIORITIES as u8).map(|n| QueueId::new(port, n));
        let stats = queues.filter_map(|queue| fabric_switch(lab, switch).watchdog_stats(queue));
        return stats.map(|stats| watchdog_value(&stats, counter)).sum();
    }
    let counters = port_counters(lab, switch, port);
    Some(match counter {
        "global_paused_ns" => return Some(counters.rx_global_pause_ps as f64 / 1e3),
        "pause_tx_frames" => counters.pause_tx,
        "rx_packets" => counters.rx_packets,
        "rx_bytes" => counters.rx_bytes,
        "tx_packets" => counters.tx_packets,
        "tx_bytes" => counters.tx_bytes,
        "dropped_packets" => counters.dropped_frames(),
        "trim_packets" => counters.trim_counters().trimmed,
        "tx_trim_packets" => counters.trim_counters().sent,
        "dropped_trim_packets" => counters.trim_counters().dropped,
        "ecn_marked_packets" => counters.ecn_marked,
        "pfc_rx_frames" => counters.pfc_rx_frames,
        "link_quality_rx_frames" => counters.link_quality_rx,
        "link_quality_tx_frames" => counters.link_quality_tx,
        "pfc_tx_frames" => counters.pfc_tx_frames,
        "pause_rx_frames" => counters.pause_rx,
        "tx_utilisation_percent" => {
            let span = counters.tx_last_ps.checked_sub(counters.tx_first_ps)?;
            return (span > 0).then(|| counters.tx_busy_ps as f64 * 100.0 / span as f64);
        }
        _ => return None,
    } as f64)
}

fn priority_group_value(
    lab: &VirtualLab,
    switch: usize,
    port: PortId,
    index: u8,
    counter: &str,
) -> Option<f64> {
    let buffers = fabric_switch(lab, switch).pg_buffers(PgId::new(port, index));
    let counters = &port_counters(lab, switch, port).pgs[usize::from(index)];
    Some(match counter {
        "packets" => counters.packets,
        "bytes" => counters.bytes,
        "dropped_packets" => counters.dropped_packets,
        "xoff_transitions" => counters.xoff_transitions,
        "xoff" => u64::from(buffers.xoff),
        _ => {
            return match counter.split_once('_') {
                Some(("shared", counter)) => occupancy_value(buffers.shared, counter),
                Some(("headroom", counter)) => occupancy_value(buffers.headroom, counter),
                _ => occupancy_value(buffers.total, counter),
            };
        }
    } as f64)
}

/// Returns a counter of the PFC watchdog of a queue.
fn watchdog_value(stats: &WatchdogStats, counter: &str) -> Option<f64> {
    Some(match counter {
        "storms_detected" => stats.storms_detected,
        "storms_restored" => stats.storms_restored,
        "stormed" => u64::from(stats.status != WatchdogStatus::Operational),
        "storm_tx_packets" => stats.total.tx_packets,
        "storm_tx_dropped_packets" => stats.total.tx_dropped_packets,
        "storm_rx_packets" => stats.total.rx_packets,
        "storm_rx_dropped_packets" => stats.total.rx_dropped_packets,
        _ => return None,
    } as f64)
}

fn queue_value(lab: &VirtualLab, switch: usize, port: PortId, index: u8, counter: &str) -> Option<f64> {
    if counter.starts_with("storm") {
        // The counters of a queue without a watchdog are 0.
        let stats = fabric_switch(lab, switch).watchdog_stats(QueueId::new(port, index));
        return watchdog_value(&stats.unwrap_or_default(), counter);
    }
    let counters = &port_counters(lab, switch, port).queues[usize::from(index)];
    Some(match counter {
        "packets" => counters.packets,
        "bytes" => counters.bytes,
        "dropped_packets" => counters.dropped_packets,
        "dropped_bytes" => counters.dropped_bytes,
        "trim_packets" => counters.trim_packets,
        "tx_trim_packets" => counters.tx_trim_packets,
        "dropped_trim_packets" => counters.dropped_trim_packets,
        "wred_dropped_packets" => counters.wred_dropped_packets,
        "ecn_marked_packets" => counters.wred_ecn_marked_packets,
        _ => {
            return occupancy_value(
                fabric_switch(lab, switch)
                    .queue_buffers(QueueId::new(port, index))
                    .total,
                counter,
            );
        }
    } as f64)
}

fn pfc_value(lab: &VirtualLab, switch: usize, port: PortId, index: u8, counter: &str) -> Option<f64> {
    let counters = port_counters(lab, switch, port);
    let class = usize::from(index);
    Some(match counter {
        "tx" => counters.pfc_tx[class] as f64,
        "rx" => counters.pfc_rx[class] as f64,
        "on2off_rx" => counters.pfc_on2off_rx[class] as f64,
        "paused_ns" => counters.rx_pause_ps[class] as f64 / 1e3,
        "pausing_ns" => counters.tx_pause_ps[class] as f64 / 1e3,
        "paused" => f64::from(fabric_switch(lab, switch).paused_priorities(port) >> index & 1),
        "recent_pause_ns" => {
            let history = fabric_switch(lab, switch).pause_history(lab.simulation.fabric.now(), port);
            history[class].recent_pause_ps as f64 / 1e3
        }
        _ => return None,
    })
}

fn drop_count(lab: &VirtualLab, switch: usize, port: PortId, reason: &str) -> Option<f64> {
    let reason = DropReason::ALL.iter().find(|known| known.name() == reason)?;
    let drops = port_counters(lab, switch, port).drops[*reason as usize];
    Some(drops.iter().sum::<u64>() as f64)
}

fn host_value(lab: &VirtualLab, host_index: usize, counter: &str) -> Option<f64> {
    let host = lab.simulation.fabric.host(host_index);
    let nic = || lab.simulation.fabric.nic_counters(host_index);
    Some(match counter {
        "nic_tx_frames" => nic().all_tx_frames(),
        "nic_tx_bytes" => nic().all_tx_bytes(),
        "nic_tx_dropped_frames" => nic().tx_dropped_frames,
        "nic_dropped_frames" => host.rx_dropped_frames(),
        "icrc_errors" => host.icrc_errors(),
        "pause_tx_frames" => nic().pause_tx_frames,
        "tx_control_frames" => nic().tx_control_frames,
        "trimmed_packets" => host.trimmed_frames(),
        _ => {
            let counters = lab.simulation.fabric.rdma_counters(host_index);
            counters
                .named_values()
                .into_iter()
                .find(|(name, _)| *name == counter)?
                .1
        }
    } as f64)
}

fn flow_value(lab: &VirtualLab, flows: &[FlowIdentity], counter: &str) -> Option<f64> {
    let each: Vec<f64> = flows
        .iter()
        .filter_map(|ids| sender_value(lab, *ids, counter))
        .collect();
    // The latency of a group is the largest latency of its senders.
    match counter.starts_with("latency") {
        true => each.into_iter().reduce(f64::max),
        false => (!flows.is_empty()).then(|| each.iter().sum()),
    }
}

fn sender_value(lab: &VirtualLab, ids: FlowIdentity, counter: &str) -> Option<f64> {
    let fabric = &lab.simulation.fabric;
    let sent: Option<SentFlow> = fabric.host(ids.hosts.0).sent_flow(ids.id);
    let sent_frames = sent.map_or(0, |sent| sent.sent_frames);
    let receiver = fabric.host(ids.hosts.1);
    let received: Option<ReceivedFlow> = match counter.starts_with("latency") {
        true => receiver.received_flow(ids.id),
        false => receiver.received_flow_counters(ids.id),
    };
    let Some(received) = received else {
        return match counter {
            "sent_frames" | "lost_frames" => Some(sent_frames as f64),
            _ if counter.starts_with("latency") => None,
            _ => Some(0.0),
        };
    };
    Some(match counter {
        "sent_frames" => sent_frames,
        "received_frames" => received.received_frames,
        "lost_frames" => sent_frames.saturating_sub(received.received_frames),
        "reordered_frames" => received.reordered_frames,
        "duplicate_frames" => received.duplicate_frames,
        "icrc_errors" => received.icrc_errors,
        "ce_marked_frames" => received.ce_marked_frames,
        "goodput_bps" => received.goodput_bps,
        "latency_p50_ns" => received.latency_ns.p50,
        "latency_p99_ns" => received.latency_ns.p99,
        "latency_p999_ns" => received.latency_ns.p999,
        "latency_max_ns" => received.latency_ns.max,
        _ => return None,
    } as f64)
}

/// Returns a value of a running job. This is faster than to compute the results of all jobs. `wait: {until:
/// ...}` reads such values often.
fn running_job_value(lab: &VirtualLab, job: usize, sender: Option<usize>, counter: &str) -> Option<f64> {
    let jobs = &lab.simulation.jobs;
    match (sender, counter) {
        (None, "done") => Some(f64::from(u8::from(jobs.workload().is_over(job)))),
        (None, "failed_messages") => {
            Some(jobs.failed().iter().filter(|failed| failed.job == job).count() as f64)
        }
        _ => None,
    }
}

fn job_value(job: &JobResults, counter: &str) -> Option<f64> {
    let flows = job.flows.as_ref();
    let completion = flows.and_then(|flows| flows.completion_ns);
    let slowdown = flows.and_then(|flows| flows.slowdown);
    let largest = job.collective.as_ref().and_then(|collective| {
        let bytes = |size: &&xoff_workload::SizeResults| size.bytes;
        collective.sizes.iter().max_by_key(bytes)
    });
    match counter {
        "posted_messages" => Some(job.posted_messages as f64),
        "received_messages" => Some(job.received_messages as f64),
        "posted_bytes" => Some(job.posted_bytes as f64),
        "received_bytes" => Some(job.received_bytes as f64),
        "jct_ns" => job.jct_ns.map(|jct| jct as f64),
        "roofline_ns" => Some(job.roofline_ns as f64),
        "jct_ratio" => job.jct_ratio,
        "iteration_avg_ns" => job.iteration_ns.map(|all| all.avg),
        "iteration_max_ns" => job.iteration_ns.map(|all| all.max),
        "bus_bandwidth_bps" => largest.map(|size| size.bus_bandwidth_gbytes_per_s * 8e9),
        "completion_avg_ns" => completion.map(|all| all.avg),
        "completion_p50_ns" => completion.map(|all| all.p50),
        "completion_p99_ns" => completion.map(|all| all.p99),
        "completion_max_ns" => completion.map(|all| all.max),
        "slowdown_avg" => slowdown.map(|all| all.avg),
        "slowdown_p50" => slowdown.map(|all| all.p50),
        "slowdown_p99" => slowdown.map(|all| all.p99),
        "jain_index" => flows.and_then(|flows| flows.jain_index),
        "completed_flows" => flows.map(|flows| flows.completed as f64),
        _ => None,
    }
}

fn job_sender_value(results: &WorkloadResults, job: usize, host: usize, counter: &str) -> Option<f64> {
    let own = results
        .flows
        .iter()
        .filter(|flow| flow.job as usize == job && flow.src as usize == host);
    let done: Vec<(u64, u64)> = own
        .filter_map(|flow| Some((flow.bytes, flow.completion_ns?)))
        .collect();
    let bytes: u64 = done.iter().map(|(bytes, _)| bytes).sum();
    let time_ns: u64 = done.iter().map(|(_, time_ns)| time_ns).sum();
    match counter {
        "received_bytes" => Some(bytes as f64),
        "completed_flows" => Some(done.len() as f64),
        "completion_max_ns" => done.iter().map(|(_, time_ns)| *time_ns as f64).reduce(f64::max),
        "throughput_bps" => (time_ns > 0).then(|| bytes as f64 * 8e9 / time_ns as f64),
        _ => None,
    }
}
