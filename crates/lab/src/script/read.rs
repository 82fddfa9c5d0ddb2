//! Counters where they are: switches, hosts, flows, jobs, links.

use std::cell::OnceCell;

use xoff_dataplane::balance::MoveReason;
use xoff_dataplane::counters::{Occupancy, PortCounters};
use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{DropReason, PgId, PortId, QueueId, Switch, WatchdogStats, WatchdogStatus};

use super::super::expr::{CounterOwner, CounterReference, UnknownName};
use super::super::virtual_run::VirtualLab;
use super::values::{FlowIds, Names};
use xoff_fabric::find_deadlock;
use xoff_host::{ReceivedFlow, SentFlow};
use xoff_workload::{JobResults, WorkloadResults};

/// The value of a counter in its own unit; `None` if there is none yet.
pub(super) fn value(
    lab: &VirtualLab,
    names: &Names,
    results: &OnceCell<WorkloadResults>,
    place: &CounterReference,
) -> Option<f64> {
    let counter = place.counter;
    match &place.subject {
        CounterOwner::Run => run(lab, counter),
        CounterOwner::Link(link) => match counter {
            "lost_frames" => Some(lab.simulation.fabric.lost_frames(*link) as f64),
            "up" => Some(f64::from(u8::from(lab.simulation.fabric.is_link_up(*link)))),
            _ => None,
        },
        CounterOwner::Switch(switch) => of_switch(lab, *switch, counter),
        CounterOwner::Pool(switch, pool) => of_pool(lab, *switch, pool, counter),
        CounterOwner::Port(switch, port) => of_port(lab, *switch, names.port(*switch, *port)?, counter),
        CounterOwner::PriorityGroup(switch, port, n) => {
            of_group(lab, *switch, names.port(*switch, *port)?, *n, counter)
        }
        CounterOwner::Queue(switch, port, n) => {
            of_queue(lab, *switch, names.port(*switch, *port)?, *n, counter)
        }
        CounterOwner::PortPfc(switch, port, n) => {
            of_pfc(lab, *switch, names.port(*switch, *port)?, *n, counter)
        }
        CounterOwner::Drops(switch, port) => of_drops(lab, *switch, names.port(*switch, *port)?, counter),
        CounterOwner::Host(host) => of_host(lab, *host, counter),
        CounterOwner::HostPfc(host, n) => {
            let nic = lab
                .simulation
                .fabric
                .host(*host)
                .nic_counters(lab.simulation.fabric.now());
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
            let own: Vec<FlowIds> = all
                .filter(|ids| sender.is_none_or(|host| ids.hosts.0 == host))
                .copied()
                .collect();
            of_flows(lab, &own, counter)
        }
        CounterOwner::Job(job, sender) => {
            if let Some(value) = of_running_job(lab, *job, *sender, counter) {
                return Some(value);
            }
            let results = results.get_or_init(|| lab.job_results());
            match sender {
                None => of_job(results.jobs.get(*job)?, counter),
                Some(host) => of_job_sender(results, *job, *host, counter),
            }
        }
        // What arrived is kept by the observer.
        CounterOwner::Pools(_) | CounterOwner::Arrivals(..) => None,
    }
}

/// Whether there is what the lab file's reader had to take on trust.
///
/// # Errors
/// A pool that its switch does not have.
pub(super) fn check(lab: &VirtualLab, subject: &CounterOwner, path: &str) -> Result<(), UnknownName> {
    let CounterOwner::Pool(switch, name) = subject else {
        return Ok(());
    };
    let config = lab.simulation.fabric.switch_config(*switch);
    if config.pools.iter().any(|pool| pool.name == *name) {
        return Ok(());
    }
    let pools: Vec<&str> = config.pools.iter().map(|pool| pool.name.as_str()).collect();
    Err(UnknownName {
        name: path.to_owned(),
        known: format!("the pools of {} are {}", config.name, pools.join(", ")),
    })
}

fn run(lab: &VirtualLab, counter: &str) -> Option<f64> {
    match counter {
        "now_ns" => Some(lab.elapsed().0 as f64 / 1e3),
        "deadlock" => Some(f64::from(u8::from(
            find_deadlock(&lab.simulation.fabric).is_some(),
        ))),
        _ => None,
    }
}

fn switch(lab: &VirtualLab, switch: usize) -> &Switch {
    lab.simulation.fabric.switch(switch)
}

fn counters(lab: &VirtualLab, at: usize, port: PortId) -> PortCounters {
    switch(lab, at).port_counters(lab.simulation.fabric.now(), port)
}

fn of_switch(lab: &VirtualLab, at: usize, counter: &str) -> Option<f64> {
    let ports = (0..switch(lab, at).port_count() as u16).map(PortId);
    if counter == "buffered_cells" {
        let groups = ports.flat_map(|port| (0..PRIORITIES as u8).map(move |n| PgId::new(port, n)));
        let cells = groups.map(|pg| u64::from(switch(lab, at).pg_buffers(pg).total.current_cells));
        return Some(cells.sum::<u64>() as f64);
    }
    if counter.starts_with("lb_") {
        return of_balancing(lab, at, counter);
    }
    ports.map(|port| of_port(lab, at, port, counter)).sum()
}

/// What the load-balancing schemes of a switch have done, all its groups together.
fn of_balancing(lab: &VirtualLab, at: usize, counter: &str) -> Option<f64> {
    let groups = switch(lab, at).balanced_groups(lab.simulation.fabric.now());
    let tables = || groups.iter().filter_map(|group| group.table);
    let moved = |reason: MoveReason| {
        groups
            .iter()
            .map(|group| group.moves[reason as usize])
            .sum::<u64>()
    };
    Some(match counter {
        "lb_flows" => tables().map(|table| u64::from(table.flows)).sum(),
        "lb_overflow_packets" => tables().map(|table| table.overflow_packets).sum(),
        "lb_new_flows" => moved(MoveReason::New),
        "lb_idle_moves" => moved(MoveReason::Idle),
        "lb_quality_moves" => moved(MoveReason::Quality),
        "lb_link_down_moves" => moved(MoveReason::LinkDown),
        "lb_link_up_moves" => moved(MoveReason::LinkUp),
        "lb_announced_flows" => moved(MoveReason::Announced),
        "lb_promoted_flows" => moved(MoveReason::Promoted),
        _ => return None,
    } as f64)
}

/// How good a port is as a member of groups; `None` where nothing measures.
fn of_quality(lab: &VirtualLab, at: usize, port: PortId, counter: &str) -> Option<f64> {
    let groups = switch(lab, at).balanced_groups(lab.simulation.fabric.now());
    let mut members = groups.iter().flat_map(|group| &group.members);
    let quality = members.find(|member| member.member.ports == [port])?.quality;
    match counter {
        "lb_band" => Some(f64::from(quality.band)),
        "lb_load_permille" => Some(f64::from(quality.load)),
        _ => None,
    }
}

fn of_pool(lab: &VirtualLab, at: usize, pool: &str, counter: &str) -> Option<f64> {
    let config = lab.simulation.fabric.switch_config(at);
    let index = config.pools.iter().position(|own| own.name == pool)?;
    let buffers = switch(lab, at).pool_buffers(index);
    match counter.strip_prefix("headroom_") {
        Some(counter) => gauge(buffers.headroom, counter),
        None => gauge(buffers.shared, counter),
    }
}

fn gauge(gauge: Occupancy, counter: &str) -> Option<f64> {
    Some(f64::from(match counter {
        "current_cells" => gauge.current_cells,
        "watermark_cells" => gauge.peak_cells,
        _ => return None,
    }))
}

fn of_port(lab: &VirtualLab, at: usize, port: PortId, counter: &str) -> Option<f64> {
    if counter == "up" {
        return Some(f64::from(u8::from(switch(lab, at).is_up(port))));
    }
    if counter.starts_with("lb_") {
        return of_quality(lab, at, port, counter);
    }
    if counter.starts_with("storms_") {
        let queues = (0..PRIORITIES as u8).map(|n| QueueId::new(port, n));
        let stats = queues.filter_map(|queue| switch(lab, at).watchdog_stats(queue));
        return stats.map(|stats| of_watchdog(&stats, counter)).sum();
    }
    let counters = counters(lab, at, port);
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

fn of_group(lab: &VirtualLab, at: usize, port: PortId, n: u8, counter: &str) -> Option<f64> {
    let buffers = switch(lab, at).pg_buffers(PgId::new(port, n));
    let counters = &counters(lab, at, port).pgs[usize::from(n)];
    Some(match counter {
        "packets" => counters.packets,
        "bytes" => counters.bytes,
        "dropped_packets" => counters.dropped_packets,
        "xoff_transitions" => counters.xoff_transitions,
        "xoff" => u64::from(buffers.xoff),
        _ => {
            return match counter.split_once('_') {
                Some(("shared", counter)) => gauge(buffers.shared, counter),
                Some(("headroom", counter)) => gauge(buffers.headroom, counter),
                _ => gauge(buffers.total, counter),
            };
        }
    } as f64)
}

/// What the watchdog counts at a queue.
fn of_watchdog(stats: &WatchdogStats, counter: &str) -> Option<f64> {
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

fn of_queue(lab: &VirtualLab, at: usize, port: PortId, n: u8, counter: &str) -> Option<f64> {
    if counter.starts_with("storm") {
        // A queue that is not watched has had no storm.
        let stats = switch(lab, at).watchdog_stats(QueueId::new(port, n));
        return of_watchdog(&stats.unwrap_or_default(), counter);
    }
    let counters = &counters(lab, at, port).queues[usize::from(n)];
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
            return gauge(
                switch(lab, at).queue_buffers(QueueId::new(port, n)).total,
                counter,
            );
        }
    } as f64)
}

fn of_pfc(lab: &VirtualLab, at: usize, port: PortId, n: u8, counter: &str) -> Option<f64> {
    let counters = counters(lab, at, port);
    let class = usize::from(n);
    Some(match counter {
        "tx" => counters.pfc_tx[class] as f64,
        "rx" => counters.pfc_rx[class] as f64,
        "on2off_rx" => counters.pfc_on2off_rx[class] as f64,
        "paused_ns" => counters.rx_pause_ps[class] as f64 / 1e3,
        "pausing_ns" => counters.tx_pause_ps[class] as f64 / 1e3,
        "paused" => f64::from(switch(lab, at).paused_priorities(port) >> n & 1),
        "recent_pause_ns" => {
            let history = switch(lab, at).pause_history(lab.simulation.fabric.now(), port);
            history[class].recent_pause_ps as f64 / 1e3
        }
        _ => return None,
    })
}

fn of_drops(lab: &VirtualLab, at: usize, port: PortId, reason: &str) -> Option<f64> {
    let reason = DropReason::ALL.iter().find(|known| known.name() == reason)?;
    let drops = counters(lab, at, port).drops[*reason as usize];
    Some(drops.iter().sum::<u64>() as f64)
}

fn of_host(lab: &VirtualLab, at: usize, counter: &str) -> Option<f64> {
    let host = lab.simulation.fabric.host(at);
    let nic = || host.nic_counters(lab.simulation.fabric.now());
    Some(match counter {
        "nic_tx_frames" => nic().all_tx_frames(),
        "nic_tx_bytes" => nic().all_tx_bytes(),
        "nic_tx_dropped_frames" => nic().tx_dropped_frames,
        "nic_dropped_frames" => host.rx_dropped_frames(),
        "icrc_errors" => host.icrc_errors(),
        "trimmed_packets" => host.trimmed_frames(),
        _ => {
            let counters = host.rdma_counters();
            counters
                .named_values()
                .into_iter()
                .find(|(name, _)| *name == counter)?
                .1
        }
    } as f64)
}

fn of_flows(lab: &VirtualLab, flows: &[FlowIds], counter: &str) -> Option<f64> {
    let each: Vec<f64> = flows
        .iter()
        .filter_map(|ids| of_flow(lab, *ids, counter))
        .collect();
    // Latencies of a group are those of its slowest sender.
    match counter.starts_with("latency") {
        true => each.into_iter().reduce(f64::max),
        false => (!flows.is_empty()).then(|| each.iter().sum()),
    }
}

fn of_flow(lab: &VirtualLab, ids: FlowIds, counter: &str) -> Option<f64> {
    let fabric = &lab.simulation.fabric;
    let sent: Option<SentFlow> = fabric.host(ids.hosts.0).sent_flow(ids.id);
    let sent_frames = sent.map_or(0, |sent| sent.sent_frames);
    let received: Option<ReceivedFlow> = fabric.host(ids.hosts.1).received_flow(ids.id);
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

/// What is known of a job without making its results: these are asked for again and again while something is waited for.
fn of_running_job(lab: &VirtualLab, job: usize, sender: Option<usize>, counter: &str) -> Option<f64> {
    let jobs = &lab.simulation.jobs;
    match (sender, counter) {
        (None, "done") => Some(f64::from(u8::from(jobs.workload().is_over(job)))),
        (None, "failed_messages") => {
            Some(jobs.failed().iter().filter(|failed| failed.job == job).count() as f64)
        }
        _ => None,
    }
}

fn of_job(job: &JobResults, counter: &str) -> Option<f64> {
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

fn of_job_sender(results: &WorkloadResults, job: usize, host: usize, counter: &str) -> Option<f64> {
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
