//! Estimates whether this machine can carry the traffic of a lab in real time.

use std::collections::{BTreeSet, HashMap};

use super::plan::{FarEnd, FlowPlan, LabPlan, OfferedRate};
use super::resolve::HEADER_BYTES_IPV4;
use xoff_dataplane::Picos;
use xoff_fabric::FabricPlan;
use xoff_units::LinkTiming;
use xoff_workload::{JobKind, Workload};

/// Frames per second that one core moves from host to host through a switch, in real time. On two cores, xoff
/// carries about 2 Gb/s of frames of 1082 bytes (README.md).
const FRAMES_PER_CORE: u64 = 113_000;

/// The load of a lab that exceeds what the machine carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overload {
    /// Highest rate of frames that arrive at hosts, or that hosts send although a switch drops them. The unit is bit/s
    /// of model time.
    offered_bps: u64,
    /// Rate that the machine carries with frames of this length, in bit/s of wall time.
    carried_bps: u64,
    cores: usize,
    /// Smallest sufficient value of `--dilate`.
    dilate: u64,
    runs_virtually: bool,
}

/// The frames that can arrive at one host, in a second of model time.
#[derive(Clone, Copy, Debug, Default)]
struct HostLoad {
    bits: u64,
    frames: u64,
}

/// Estimates the load of a workload. Returns `None` if `cores` cores carry it. `dilate` is the present dilation, at
/// least 1, and `reaction_budget` is the longest permitted stall of the machine, in wall time.
pub(super) fn find_overload(
    plan: &LabPlan,
    fabric: &FabricPlan,
    cores: usize,
    dilate: u32,
    reaction_budget: Picos,
) -> Option<Overload> {
    let mut loads = vec![HostLoad::default(); plan.hosts.len()];
    let mut unpausable = loads.clone();
    let paused_classes = paused_classes_of_hosts(plan, fabric);
    let link = |host: usize| fabric.hosts.get(host).map(|host| &host.nic.link);
    let speed = |host: usize| link(host).map_or(0, |link| u64::from(link.speed_mbps) * 1_000_000);
    for flow in &plan.workload.flows {
        let rate = flow_rate(flow, speed(flow.from));
        // PFC slows the senders of a lossless class down to the rate at which frames arrive. Other senders create all
        // frames, and the switch drops some of them.
        match paused_classes[flow.from] & 1 << flow.class {
            0 => add_load(&mut unpausable[flow.from], rate, link(flow.from), flow.frame_len),
            _ => add_load(&mut loads[flow.to], rate, link(flow.to), flow.frame_len),
        }
    }
    for (job, receiver) in job_receivers(plan, &speed) {
        let job = &plan.workload.jobs.jobs[job];
        let mtu = plan
            .transports
            .get(job.transport)
            .map_or(1024, |transport| transport.qp.mtu);
        let share = match &job.kind {
            JobKind::Poisson(poisson) => poisson.load.min(1.0),
            _ => 1.0,
        };
        let rate = (speed(receiver) as f64 * share) as u64;
        add_load(
            &mut loads[receiver],
            rate,
            link(receiver),
            mtu + HEADER_BYTES_IPV4,
        );
    }
    // No more than its link speed arrives at a host or leaves it.
    let (mut bits, mut frames) = (0_u64, 0_u64);
    for loads in [&loads, &unpausable] {
        for (host, load) in loads.iter().enumerate().filter(|(_, load)| load.bits > 0) {
            let carried = load.bits.min(speed(host));
            bits += carried;
            frames += (u128::from(load.frames) * u128::from(carried) / u128::from(load.bits)) as u64;
        }
    }
    let capacity = FRAMES_PER_CORE * cores.max(1) as u64;
    if frames <= capacity * u64::from(dilate) {
        return None;
    }
    Some(Overload {
        offered_bps: bits,
        carried_bps: (u128::from(bits) * u128::from(capacity) / u128::from(frames)) as u64,
        cores,
        dilate: frames
            .div_ceil(capacity)
            .max(dilate_for_pauses(fabric, reaction_budget)),
        runs_virtually: plan.hosts.iter().all(|host| host.is_model())
            && plan.external_devices().next().is_none(),
    })
}

/// Returns for each host the classes for which its switch port pauses it by PFC: bit *n* is class *n*.
fn paused_classes_of_hosts(plan: &LabPlan, fabric: &FabricPlan) -> Vec<u8> {
    let mut enabled: HashMap<(usize, &str), u8> = HashMap::new();
    for (index, switch) in fabric.switches.iter().enumerate() {
        let ports = switch.ports.iter();
        enabled.extend(ports.map(|port| ((index, port.name.as_str()), port.pfc.enabled)));
    }
    let mut classes = vec![0; plan.hosts.len()];
    for link in &plan.links {
        if let FarEnd::Host(host) = link.far {
            let of_port = enabled.get(&(link.switch, link.port.as_str()));
            classes[host] = of_port.copied().unwrap_or(0);
        }
    }
    classes
}

/// Returns each job with each of its receivers once.
fn job_receivers(plan: &LabPlan, speed: &impl Fn(usize) -> u64) -> BTreeSet<(usize, usize)> {
    // The seed selects who sends to whom, and hardly changes the set of receivers.
    let workload = Workload::new(&plan.workload.jobs, 0, &|host| speed(host as usize));
    let connections = workload.map(|workload| workload.connections().to_vec());
    let connections = connections.unwrap_or_default().into_iter();
    connections
        .map(|connection| (connection.job, connection.dst as usize))
        .collect()
}

/// Adds a rate in bit/s on the link of a receiver, with frames of `frame_len` bytes without FCS.
fn add_load(load: &mut HostLoad, bits: u64, link: Option<&LinkTiming>, frame_len: u32) {
    let Some(link) = link else { return };
    load.bits += bits;
    load.frames += bits / (8 * u64::from(link.wire_len(link.mac_len(frame_len))));
}

/// Returns the rate of a flow on its link, in bit/s.
fn flow_rate(flow: &FlowPlan, speed_bps: u64) -> u64 {
    match flow.rate {
        OfferedRate::LinkShare(millionths) => {
            (u128::from(speed_bps) * u128::from(millionths) / 1_000_000) as u64
        }
        OfferedRate::WireBitsPerSecond(bits) => bits.min(speed_bps),
    }
}

/// Returns the smallest dilation with which no pause ends during a permitted stall of the machine.
fn dilate_for_pauses(fabric: &FabricPlan, reaction_budget: Picos) -> u64 {
    let ports = fabric.switches.iter().flat_map(|switch| &switch.ports);
    let pauses = ports
        .filter(|port| port.pfc.enabled != 0)
        .map(|port| port.link.pause_duration(port.pfc.pause_quanta));
    pauses
        .min()
        .map_or(1, |pause| reaction_budget.0 / pause.0.max(1) + 1)
}

impl Overload {
    /// Returns the note for the user, which proposes a run that the machine can carry.
    pub(super) fn describe(&self) -> String {
        let cores = match self.cores {
            1 => "1 core carries".to_owned(),
            cores => format!("{cores} cores carry"),
        };
        let proposal = match self.runs_virtually {
            true => format!(
                "run it with `--virtual`, or slow it down with `--dilate {}`",
                self.dilate
            ),
            false => format!("slow it down with `--dilate {}`", self.dilate),
        };
        format!(
            "the links in use carry up to {} to the hosts, and {cores} about {} of such frames in real time, so the \
             run will probably be tainted; {proposal}",
            xoff_telemetry::format_bit_rate(self.offered_bps),
            xoff_telemetry::format_bit_rate(self.carried_bps),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::config::{SwitchSetup, resolve_switch_setups};
    use super::super::plan::TimeMode;
    use super::super::virtual_run::fabric_plan_of;
    use super::super::{LabOptions, parse_lab};
    use super::*;

    fn overload_of(
        speed: &str,
        second_host: &str,
        workload: &str,
        cores: usize,
        dilate: u32,
    ) -> Option<Overload> {
        let text = format!(
            "name: x\ntopology:\n  nodes:\n    sw1: {{kind: switch, config: {{preset: roce-lossless}}}}\n    \
             h1: {{kind: model}}\n    h2: {{kind: model}}\n    h3: {{kind: model}}\n    h4: {{kind: {second_host}}}\n  links:\n    \
             - {{endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"], speed: {speed}}}\n    \
             - {{endpoints: [\"h2:eth0\", \"sw1:Ethernet4\"], speed: {speed}}}\n    \
             - {{endpoints: [\"h3:eth0\", \"sw1:Ethernet8\"], speed: {speed}}}\n    \
             - {{endpoints: [\"h4:eth0\", \"sw1:Ethernet12\"], speed: {speed}}}\nworkload:\n{workload}"
        );
        let plan =
            parse_lab(&text, "x.xoff.yml", Path::new(""), TimeMode::RealTime).expect("the lab is valid");
        let options = LabOptions::default();
        let setups = resolve_switch_setups(&plan, 0, &options.driver_options(1, 1))
            .expect("the configuration is valid");
        let fabric = fabric_plan_of(
            &plan,
            &options,
            setups.into_iter().map(SwitchSetup::into_fabric_switch),
        )
        .expect("the lab has a fabric");
        find_overload(&plan, &fabric, cores, dilate, Picos::from_millis(20))
    }

    const INCAST: &str =
        "  duration: 1s\n  flows:\n    - {name: a, from: [h1, h2], to: h3, lossless: true}\n";
    const JOB: &str = "  jobs:\n    - {name: a, kind: alltoall, hosts: [h1, h2, h3], bytes: 1M}\n";

    #[test]
    fn an_incast_counts_once_and_a_fast_fabric_exceeds_the_machine() {
        assert_eq!(overload_of("1g", "model", INCAST, 2, 1), None);
        let overload = overload_of("100g", "model", INCAST, 2, 1).expect("100 Gb/s arrive");
        assert_eq!(overload.offered_bps, 100_000_000_000);
        let note = overload.describe();
        for part in [
            "100 Gb/s",
            "2 cores carry about 2.00 Gb/s",
            "`--virtual`",
            "--dilate 60",
        ] {
            assert!(note.contains(part), "{part} is not in {note}");
        }
    }

    /// PFC stops the senders of the class 3 only.
    #[test]
    fn senders_of_a_lossy_class_count_even_if_their_frames_are_dropped() {
        let lossy = "  duration: 1s\n  flows:\n    - {name: a, from: [h1, h2], to: h3, class: 0, dscp: 0}\n";
        let overload = overload_of("1g", "model", lossy, 2, 1).expect("two hosts create 2 Gb/s");
        assert_eq!(overload.offered_bps, 2_000_000_000);
        assert_eq!(overload_of("1g", "model", INCAST, 2, 1), None);
    }

    #[test]
    fn jobs_count_each_receiver_and_the_dilation_divides_the_load() {
        let overload = overload_of("1g", "model", JOB, 2, 1).expect("3 Gb/s arrive");
        assert_eq!(overload.offered_bps, 3_000_000_000);
        assert_eq!(overload_of("1g", "model", JOB, 2, 2), None);
        assert_eq!(overload_of("1g", "model", JOB, 4, 1), None);
    }

    #[test]
    fn a_lab_with_plain_hosts_is_not_proposed_for_virtual_time() {
        let note = overload_of("100g", "plain", INCAST, 2, 1)
            .expect("100 Gb/s arrive")
            .describe();
        assert!(
            !note.contains("--virtual") && note.contains("`--dilate "),
            "{note}"
        );
    }
}
