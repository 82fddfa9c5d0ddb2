//! Estimates the memory of a lab from its plan, before switches, hosts and queue pairs are created.
//!
//! The constants are measured: the difference of the peak memory (`ru_maxrss`) of labs that differ in one number
//! only. The test `tests/memory.rs` of the program compares the estimates with peaks of labs of different shapes.

use std::collections::HashSet;

use super::load_options::LoadOptions;
use super::plan::{
    ConfigLayer, FarEnd, FlowPlan, HostKind, LabPlan, LinkPlan, OfferedRate, SPEED_MBPS_DEFAULT, TimeMode,
};
use xoff_telemetry::failure::Failure;
use xoff_telemetry::{MemoryLimit, MemoryNeed, count_noun};
use xoff_workload::{Algorithm, Collective, Endpoints, FlowSpec, JobKind, JobSpec, Repeat};

/// Memory of a process without a lab, in bytes.
const PROCESS_BYTES: u64 = 19 << 20;
/// Memory of a switch without ports, in bytes.
const SWITCH_BYTES: u64 = 10 << 10;
/// Memory of a port with its queues and priority groups, in bytes.
const PORT_BYTES: u64 = 14 << 10;
/// Memory of a model host without flows, in bytes.
const HOST_BYTES: u64 = 7 << 10;
/// Memory of a model host with its first queue pair beside that of other hosts, in bytes.
const HOST_WITH_JOB_BYTES: u64 = 7 << 10;
/// Memory of a frame of a queue pair on a link or in a queue, in bytes.
const JOB_FRAME_BYTES: u64 = 148;
/// Number of frames that a host with a job has on links and in queues at the start of the job, when it sends at full
/// rate. Long links can hold more.
const FRAMES_OF_HOST_MAX: u64 = 128;
/// Memory of a computed route in its switch and in the report, in bytes.
const ROUTE_BYTES: u64 = 680;
/// Memory of the tables of a switch with real frames, which are reserved at its start, in bytes.
const RESERVED_TABLE_BYTES: u64 = 3 << 20;
/// Text of a preset for each port, in bytes.
const PRESET_BYTES_PER_PORT: u64 = 300;
/// Memory of both ends of a queue pair, in bytes.
const QUEUE_PAIR_BYTES: u64 = 2_550;
/// Memory of a connection of a job with its first message, in bytes.
const CONNECTION_BYTES: u64 = 700;
/// Memory of a message of a flow list or of random arrivals, with the record of its completion, in bytes.
const JOB_MESSAGE_BYTES: u64 = 300;
/// Memory of an open-loop flow or a `send` step at both hosts, in bytes. Most of it is the histogram of latencies.
const OPEN_LOOP_FLOW_BYTES: u64 = 36_000;
/// Bytes of a frame on a link beside its length without FCS: FCS, preamble and interframe gap.
const WIRE_OVERHEAD_BYTES: u32 = 4 + 8 + 12;
/// Memory of a frame of an open-loop flow on a link beside its bytes, in bytes.
const FRAME_BYTES: u64 = 192;
/// Memory of a step of a script, in bytes.
const STEP_BYTES: u64 = 1_000;
/// Memory of the record of an iteration, in bytes.
const ITERATION_BYTES: u64 = 100;
/// Memory of a process of a plain host, in bytes.
const PLAIN_HOST_BYTES: u64 = 4 << 20;
/// Memory of the frame slots of a switch in real time, in bytes.
const ARENA_BYTES: u64 = 64 << 20;

/// The subject of the message of a refusal.
pub(super) const SUBJECT: &str = "the lab";

/// Checks whether the memory of one run of a lab is within the limit of `options`.
///
/// # Errors
/// Fails with the estimate, its largest parts and a way to reduce it.
pub fn check_memory(plan: &LabPlan, options: &LoadOptions) -> Result<(), Failure> {
    if options.memory == MemoryLimit::UNLIMITED {
        return Ok(());
    }
    options
        .memory
        .check(SUBJECT, &estimate_memory(plan, options.time))
}

/// Estimates the peak memory of one run of a lab.
pub(super) fn estimate_memory(plan: &LabPlan, time: TimeMode) -> MemoryNeed {
    let mut need = MemoryNeed::default();
    need.add("the program", PROCESS_BYTES, "");
    let freed_bytes = add_topology(&mut need, plan, time);
    add_workload(&mut need, plan, freed_bytes);
    if time == TimeMode::Virtual {
        need.add(
            "frames of open-loop flows on links",
            frames_on_links_bytes(plan),
            "use shorter delays or lower rates",
        );
    }
    need
}

/// Adds the switches, ports, routes and hosts. Returns the memory in bytes that is free again when the run starts.
fn add_topology(need: &mut MemoryNeed, plan: &LabPlan, time: TimeMode) -> u64 {
    let ports = add_devices(need, plan.switches.len(), plan.hosts.len(), &plan.links);
    let (mut text_bytes, mut text_bytes_max, mut routes) = (0_u64, 0_u64, 0_u64);
    for (switch, ports) in plan.switches.iter().zip(&ports) {
        let layers = switch.config.iter().map(|layer| match layer {
            ConfigLayer::Text { text, .. } => text.len() as u64,
            ConfigLayer::Preset { .. } => ports * PRESET_BYTES_PER_PORT,
            ConfigLayer::Computed(layer) => {
                routes += layer.routes.routes.len() as u64;
                layer.tables.len() as u64
            }
        });
        let of_switch: u64 = layers.sum();
        text_bytes += of_switch;
        text_bytes_max = text_bytes_max.max(of_switch);
    }
    need.add(
        count_noun(routes, "computed route"),
        routes.saturating_mul(ROUTE_BYTES),
        "use fewer switches, or write `routes: none`",
    );
    // In virtual time, the tables of a switch are dropped before those of the next switch are read, and about a
    // tenth of their memory stays in use: the routes.
    let kept_bytes = match time {
        TimeMode::RealTime => text_bytes,
        TimeMode::Virtual => text_bytes_max.max(text_bytes / 10),
    };
    let configuration_bytes = xoff_config::estimate_memory(kept_bytes);
    need.add(
        "the configurations of the switches",
        configuration_bytes,
        "use fewer routes or switches",
    );
    match time {
        TimeMode::RealTime => {
            add_real_time_parts(need, plan);
            0
        }
        TimeMode::Virtual => configuration_bytes,
    }
}

/// Adds the switches, their ports and the hosts. Returns the number of ports of each switch.
fn add_devices(need: &mut MemoryNeed, switches: usize, hosts: usize, links: &[LinkPlan]) -> Vec<u64> {
    let mut ports = vec![0_u64; switches];
    for link in links {
        ports[link.switch] += 1;
        if let FarEnd::Switch { switch, .. } = link.far {
            ports[switch] += 1;
        }
    }
    need.add(
        count_noun(switches as u64, "switch"),
        (switches as u64).saturating_mul(SWITCH_BYTES),
        "use fewer switches",
    );
    let port_count: u64 = ports.iter().sum();
    need.add(
        count_noun(port_count, "switch port"),
        port_count.saturating_mul(PORT_BYTES),
        "use fewer switches and links",
    );
    need.add(
        count_noun(hosts as u64, "host"),
        (hosts as u64).saturating_mul(HOST_BYTES),
        "use fewer hosts",
    );
    ports
}

/// Estimates a lower limit of the memory of a topology before its routes are computed. The routes of a large fabric
/// need gigabytes.
pub(super) fn estimate_topology(
    switches: usize,
    hosts: usize,
    links: &[LinkPlan],
    has_computed_routes: bool,
) -> MemoryNeed {
    let mut need = MemoryNeed::default();
    add_devices(&mut need, switches, hosts, links);
    if !has_computed_routes {
        return need;
    }
    let mut has_hosts = vec![false; switches];
    for link in links {
        has_hosts[link.switch] |= !matches!(link.far, FarEnd::Switch { .. });
    }
    // Each switch has a route to each other switch with hosts.
    let destinations = has_hosts.iter().filter(|has_hosts| **has_hosts).count() as u64;
    let routes = destinations.saturating_mul(switches as u64);
    need.add(
        count_noun(routes, "computed route"),
        routes.saturating_mul(ROUTE_BYTES),
        "use fewer switches, or write `routes: none`",
    );
    need
}

/// Adds the parts that only a lab in real time has.
fn add_real_time_parts(need: &mut MemoryNeed, plan: &LabPlan) {
    let switches = plan.switches.len() as u64;
    need.add(
        "the frame slots of the switches",
        switches * ARENA_BYTES,
        "use fewer switches",
    );
    need.add(
        "the tables of the switches",
        switches * RESERVED_TABLE_BYTES,
        "use fewer switches",
    );
    let (mut plain, mut guests) = (0, 0);
    for host in &plan.hosts {
        match &host.kind {
            HostKind::Plain(_) => plain += PLAIN_HOST_BYTES,
            HostKind::Vm(vm) => guests += u64::from(vm.memory_mib) << 20,
            HostKind::Model => {}
        }
    }
    need.add("the processes of plain hosts", plain, "use fewer plain hosts");
    need.add("the guests", guests, "use fewer guests, or a smaller `memory`");
}

/// Adds the flows, jobs and the script. The frames of jobs use `freed_bytes` of other parts again.
fn add_workload(need: &mut MemoryNeed, plan: &LabPlan, mut freed_bytes: u64) {
    let flows = (plan.workload.flows.len() + plan.script.send_steps().count()) as u64;
    need.add(
        format!("{flows} open-loop flows"),
        flows.saturating_mul(OPEN_LOOP_FLOW_BYTES),
        "use fewer flows",
    );
    let steps = plan.script.steps.len() as u64;
    need.add(
        format!("{} of the script", count_noun(steps, "step")),
        steps.saturating_mul(STEP_BYTES),
        "repeat fewer steps",
    );
    let mut speeds_mbps = vec![SPEED_MBPS_DEFAULT; plan.hosts.len()];
    for link in &plan.links {
        if let (FarEnd::Host(host), Some(speed)) = (&link.far, link.speed_mbps) {
            speeds_mbps[*host] = speed;
        }
    }
    for job in &plan.workload.jobs.jobs {
        let size = job_size(job, &|host| u64::from(speeds_mbps[host as usize]) * 1_000_000);
        let pairs = size.connections.saturating_mul(u64::from(job.qps_per_connection));
        need.add(
            format!("{} of job {}", count_noun(pairs, "queue pair"), job.name),
            pairs
                .saturating_mul(QUEUE_PAIR_BYTES)
                .saturating_add(size.connections.saturating_mul(CONNECTION_BYTES)),
            "use fewer hosts or queue pairs (`qps`)",
        );
        need.add(
            format!("{} of job {}", count_noun(size.messages, "message"), job.name),
            size.messages.saturating_mul(JOB_MESSAGE_BYTES),
            "use fewer flows",
        );
        let hosts = size.connections.min(plan.hosts.len() as u64);
        need.add(
            format!("{} of job {}", count_noun(hosts, "host"), job.name),
            hosts.saturating_mul(HOST_WITH_JOB_BYTES),
            "use fewer hosts",
        );
        let frames = size.frames.min(hosts.saturating_mul(FRAMES_OF_HOST_MAX));
        let frames_bytes = frames.saturating_mul(JOB_FRAME_BYTES);
        need.add(
            format!("{} of job {}", count_noun(frames, "frame"), job.name),
            frames_bytes.saturating_sub(freed_bytes),
            "use fewer hosts",
        );
        freed_bytes = freed_bytes.saturating_sub(frames_bytes);
        need.add(
            format!("{} of job {}", count_noun(size.iterations, "iteration"), job.name),
            size.iterations.saturating_mul(ITERATION_BYTES),
            "use fewer iterations",
        );
    }
}

/// Estimates the memory of the frames of open-loop flows that are on links at one time: the rate times the delay of the
/// path. The path is assumed to have two links between switches if the hosts have different switches.
///
/// Jobs have their own estimate ([`FRAMES_OF_HOST_MAX`]). Queues and `send` steps are not part of any. The run itself
/// limits the memory of all frames.
fn frames_on_links_bytes(plan: &LabPlan) -> u64 {
    /// The link of a host.
    #[derive(Clone, Copy, Default)]
    struct Access {
        switch: usize,
        delay_ns: u64,
        speed_bps: u64,
    }
    let mut accesses = vec![Access::default(); plan.hosts.len()];
    let mut fabric_delay_ns = 0;
    for link in &plan.links {
        match link.far {
            FarEnd::Host(host) => {
                accesses[host] = Access {
                    switch: link.switch,
                    delay_ns: link.delay_ns,
                    speed_bps: u64::from(link.speed_mbps.unwrap_or(SPEED_MBPS_DEFAULT)) * 1_000_000,
                }
            }
            FarEnd::Switch { .. } => fabric_delay_ns = fabric_delay_ns.max(link.delay_ns),
            FarEnd::External(_) => {}
        }
    }
    let bytes_of_flow = |flow: &FlowPlan| {
        let (from, to) = (accesses[flow.from], accesses[flow.to]);
        let between_ns = match from.switch == to.switch {
            true => 0,
            false => fabric_delay_ns.saturating_mul(2),
        };
        let delay_ns = from
            .delay_ns
            .saturating_add(to.delay_ns)
            .saturating_add(between_ns);
        let sending_ns = plan.workload.duration_ns.saturating_sub(flow.start_ns);
        let rate_bps = match flow.rate {
            OfferedRate::LinkShare(millionths) => from.speed_bps / 1_000_000 * u64::from(millionths),
            OfferedRate::WireBitsPerSecond(bps) => bps.min(from.speed_bps),
        };
        let wire_bytes = u128::from(rate_bps) * u128::from(delay_ns.min(sending_ns)) / 8_000_000_000;
        let frames = wire_bytes / u128::from(flow.frame_len + WIRE_OVERHEAD_BYTES);
        let memory_bytes = frames * u128::from(u64::from(flow.frame_len) + FRAME_BYTES);
        u64::try_from(memory_bytes).unwrap_or(u64::MAX)
    };
    let bytes = plan.workload.flows.iter().map(bytes_of_flow);
    bytes.fold(0, u64::saturating_add)
}

/// The numbers of a job that decide its memory.
struct JobSize {
    connections: u64,
    /// The messages of a flow list or of random arrivals.
    messages: u64,
    iterations: u64,
    /// Number of frames in flight if all connections of a permutation, an incast or a collective send one message each.
    frames: u64,
}

/// Returns the size of a job without creating its connections.
fn job_size(job: &JobSpec, line_rate_bps: &dyn Fn(u32) -> u64) -> JobSize {
    let payload_bytes = u64::from(job.framing.payload_bytes).max(1);
    let frames_of_message = |bytes: u64| bytes.div_ceil(payload_bytes).max(1);
    let of_connections = |connections: usize, iterations: u32, bytes: u64| JobSize {
        connections: connections as u64,
        messages: 0,
        iterations: u64::from(iterations),
        frames: (connections as u64).saturating_mul(frames_of_message(bytes)),
    };
    match &job.kind {
        JobKind::Flows(flows) | JobKind::Replay(flows) => {
            let pairs: HashSet<(u32, u32)> = flows.iter().map(|flow| (flow.src, flow.dst)).collect();
            let message_count = |flow: &FlowSpec| match flow.repeat {
                Repeat::Once => 1,
                Repeat::Every { count, .. } | Repeat::AfterCompletion { count, .. } => u64::from(count),
            };
            JobSize {
                messages: flows.iter().map(message_count).fold(0, u64::saturating_add),
                frames: 0,
                ..of_connections(pairs.len(), 0, 0)
            }
        }
        JobKind::Permutation(permutation) => {
            of_connections(permutation.hosts.len(), permutation.iterations, permutation.bytes)
        }
        JobKind::Incast(incast) => of_connections(incast.senders.len(), incast.iterations, incast.bytes),
        JobKind::Poisson(poisson) => {
            let flows = poisson.expected_flows(line_rate_bps);
            let pairs = match &poisson.endpoints {
                Endpoints::Pairs(pairs) => pairs.len() as u64,
                Endpoints::Sets {
                    sources,
                    destinations,
                } => sources.len() as u64 * destinations.len() as u64,
            };
            JobSize {
                connections: pairs.min(flows),
                messages: flows,
                iterations: 0,
                frames: 0,
            }
        }
        JobKind::Collective(collective) => collective_size(collective, frames_of_message),
    }
}

/// Returns the size of a collective. Ranks of one node have no connection. `frames_of_message` returns the number of
/// frames of a message with a number of bytes.
fn collective_size(collective: &Collective, frames_of_message: impl Fn(u64) -> u64) -> JobSize {
    let ranks = collective.ranks.len() as u64;
    let gpus = u64::from(collective.gpus_per_node).max(1);
    let connections = match collective.algorithm {
        Algorithm::AllToAll { rail_aligned: true } => ranks.saturating_mul((ranks / gpus).saturating_sub(1)),
        Algorithm::AllToAll { rail_aligned: false } => ranks.saturating_mul(ranks.saturating_sub(gpus)),
        // A ring and a tree have at most two connections for each rank and GPU of a node.
        Algorithm::TreeAllReduce => 2 * ranks,
        Algorithm::RingAllReduce | Algorithm::RingAllGather | Algorithm::RingReduceScatter => ranks,
    };
    let rounds = u64::from(collective.iterations) + u64::from(collective.warmup);
    let iterations = rounds.saturating_mul(collective.bytes.len() as u64);
    let message_bytes = |bytes: &u64| match collective.algorithm {
        Algorithm::TreeAllReduce => *bytes,
        _ => bytes / ranks.max(1),
    };
    let longest_bytes = collective.bytes.iter().map(message_bytes).max().unwrap_or(0);
    JobSize {
        connections,
        messages: 0,
        iterations,
        frames: connections.saturating_mul(frames_of_message(longest_bytes)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::parse_lab;
    use super::*;

    fn need_bytes(fabric: &str, job: &str) -> u64 {
        let text = format!(
            "name: x\ntopology:\n  fabric:\n    {fabric}\nworkload:\n  jobs:\n    - {{name: j, {job}}}\n"
        );
        let plan = parse_lab(&text, "x.yml", Path::new(""), TimeMode::Virtual)
            .unwrap_or_else(|problems| panic!("{problems}"));
        estimate_memory(&plan, TimeMode::Virtual).total_bytes()
    }

    /// The labs of the hostile trial: small files that need gigabytes.
    #[test]
    fn queue_pairs_of_an_all_to_all_dominate_the_estimate() {
        let need = |qps: u32| {
            need_bytes(
                "star: {hosts: 200, speed: 100g}",
                &format!("kind: alltoall, hosts: all, bytes: 1m, qps: {qps}"),
            )
        };
        assert!((5 << 30..11 << 30).contains(&need(64)), "{}", need(64));
        assert!(need(4096) > 300 << 30, "{}", need(4096));
        assert!(need(1) < 200 << 20, "{}", need(1));
    }

    /// The estimate of the largest possible lab needs no connections.
    #[test]
    fn the_largest_all_to_all_is_estimated_without_its_connections() {
        let need = need_bytes(
            "leaf-spine: {leaves: 64, spines: 4, hosts: 64, speed: 100g}",
            "kind: alltoall, hosts: all, bytes: 1m",
        );
        assert!(need > 30 << 30, "{need}");
    }

    /// A link of 80 ms at 100 Gb/s holds a gigabyte.
    #[test]
    fn frames_on_long_links_are_in_the_estimate() {
        let need = |delay: &str| {
            let text = format!(
                "name: x\ntopology:\n  fabric: {{star: {{hosts: 2, speed: 100g, delay: {delay}}}}}\n\
                 workload:\n  duration: 1s\n  flows: [{{name: f, from: h1, to: h2, rate: 100%}}]\n"
            );
            let plan = parse_lab(&text, "x.yml", Path::new(""), TimeMode::Virtual)
                .unwrap_or_else(|problems| panic!("{problems}"));
            estimate_memory(&plan, TimeMode::Virtual).total_bytes()
        };
        let (short, long) = (need("1us"), need("80ms"));
        // Two links: 2 GB on the wire, and a few percent for each frame.
        assert!(
            (2_000_000_000..2_500_000_000).contains(&(long - short)),
            "{short} {long}"
        );
    }

    /// The routes of a large fabric are estimated before they are computed.
    #[test]
    fn a_topology_with_too_many_routes_is_refused_before_its_routes_are_computed() {
        let text = "name: x\ntopology:\n  fabric:\n    leaf-spine: {leaves: 512, spines: 64, hosts: 8, speed: 100g}\n";
        let options = LoadOptions {
            time: TimeMode::Virtual,
            memory: MemoryLimit::new(1 << 30),
        };
        let problems = parse_lab(text, "x.yml", Path::new(""), options).expect_err("too large");
        let text = problems.to_string();
        assert!(
            text.contains("computed routes") || text.contains("switch ports"),
            "{text}"
        );
        assert!(text.contains("needs about"), "{text}");
    }
}
