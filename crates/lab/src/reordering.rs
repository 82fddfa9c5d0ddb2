//! Warnings about load-balancing schemes that can reorder packets, if a transport does not tolerate this.

use xoff_dataplane::config::{SchemeConfig, SchemeKind, SwitchConfig};
use xoff_units::Picos;

use super::plan::{FarEnd, LabPlan};
use xoff_rdma::Recovery;

/// Largest number of switch names in a warning.
const NAMED_SWITCHES_MAX: usize = 3;
/// Length of the longest frame in bits: MTU 9216, headers, FCS, preamble and gap.
const LONGEST_FRAME_BITS: u64 = 8 * (9_216 + 18 + 4 + 20);

/// Returns a warning for each load-balancing scheme that can reorder packets. Returns an empty list if the
/// transports of all jobs tolerate reordering, with selective repeat or `out_of_order`.
///
/// `switches` are in the order of the plan.
pub(super) fn reordering_warnings(plan: &LabPlan, switches: &[&SwitchConfig]) -> Vec<String> {
    let Some((transport, recovery)) = find_intolerant_transport(plan) else {
        return Vec::new();
    };
    let delay_difference = path_delay_difference(plan);
    let mut schemes: Vec<(&SchemeConfig, Vec<&str>)> = Vec::new();
    for switch in switches.iter().filter(|switch| has_several_paths(switch)) {
        for scheme in switch
            .balancing
            .schemes
            .iter()
            .filter(|scheme| can_reorder(scheme, delay_difference))
        {
            match schemes.iter_mut().find(|(other, _)| *other == scheme) {
                Some((_, names)) => names.push(&switch.name),
                None => schemes.push((scheme, vec![&switch.name])),
            }
        }
    }
    schemes
        .iter()
        .map(|(scheme, names)| {
            format!(
                "the load-balancing scheme {} of {} {}, and hosts of transport \"{transport}\" recover by {recovery}, which sends all \
                 behind a gap again: give it `out_of_order: true`, or `recovery: selective-repeat`",
                scheme.name,
                join_names(names),
                describe_reordering(scheme, delay_difference)
            )
        })
        .collect()
}

/// Returns the first transport of a job that does not tolerate reordered packets, and the name of its
/// loss recovery.
fn find_intolerant_transport(plan: &LabPlan) -> Option<(&str, &'static str)> {
    plan.workload.jobs.jobs.iter().find_map(|job| {
        let transport = plan.transports.get(job.transport)?;
        let recovery = match transport.qp.recovery {
            Recovery::GoBackN => "go-back-N",
            Recovery::GoBackZero => "go-back-zero",
            Recovery::SelectiveRepeat => return None,
        };
        let is_tolerant = transport.qp.out_of_order.is_some();
        (!is_tolerant).then_some((transport.name.as_str(), recovery))
    })
}

/// Returns whether a switch has an ECMP group or a LAG with several members.
fn has_several_paths(switch: &SwitchConfig) -> bool {
    !switch.routing.fib.groups().is_empty() || switch.lags.iter().any(|lag| lag.members.len() > 1)
}

/// Returns whether a scheme can reorder the packets of a flow.
fn can_reorder(scheme: &SchemeConfig, delay_difference: Picos) -> bool {
    match scheme.kind {
        SchemeKind::PerPacket { .. } | SchemeKind::RoundRobin | SchemeKind::Drill { .. } => true,
        SchemeKind::Flowlet { idle, .. } => idle < delay_difference,
        SchemeKind::Hash | SchemeKind::Fixed { .. } | SchemeKind::Cluster { .. } | SchemeKind::Custom(_) => {
            false
        }
    }
}

/// Describes the reason for reordered packets, as a part of a warning.
fn describe_reordering(scheme: &SchemeConfig, delay_difference: Picos) -> String {
    match scheme.kind {
        SchemeKind::Flowlet { idle, .. } => format!(
            "lets a flow change its path after {} ns, while paths differ by up to {} ns even with empty queues",
            idle.as_nanos(),
            delay_difference.as_nanos()
        ),
        _ => "sends packets of one flow over several paths".to_owned(),
    }
}

/// Returns the largest delay difference between two paths with empty queues.
///
/// The function assumes that the paths differ in two links. The result is twice the difference between the
/// longest and the shortest delay of links between switches, plus the serialization time of one frame.
fn path_delay_difference(plan: &LabPlan) -> Picos {
    let switch_links = || {
        plan.links
            .iter()
            .filter(|link| matches!(link.far, FarEnd::Switch { .. }))
    };
    let longest_delay_ns = switch_links().map(|link| link.delay_ns).max().unwrap_or(0);
    let shortest_delay_ns = switch_links().map(|link| link.delay_ns).min().unwrap_or(0);
    let slowest_mbps = switch_links()
        .filter_map(|link| link.speed_mbps)
        .min()
        .unwrap_or(1_000);
    let frame = Picos::from_nanos(LONGEST_FRAME_BITS * 1_000 / u64::from(slowest_mbps.max(1)));
    frame.saturating_add(Picos::from_nanos(2 * (longest_delay_ns - shortest_delay_ns)))
}

/// Joins switch names for a warning. Names beyond [`NAMED_SWITCHES_MAX`] are counted, not listed.
fn join_names(names: &[&str]) -> String {
    let named = names[..names.len().min(NAMED_SWITCHES_MAX)].join(", ");
    match names.len().saturating_sub(NAMED_SWITCHES_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::plan::TimeMode;
    use super::super::resolve::parse_lab;
    use super::super::{LabOptions, VirtualLab};

    fn lab_warnings(scheme: &str, transport: &str) -> Vec<String> {
        let text = format!(
            "name: x
topology:
  defaults: {{load_balancing: {scheme}}}
  fabric:
    leaf-spine: {{leaves: 2, spines: 2, hosts: 1, speed: 100g, delay: 500ns, config: {{XOFF_LB_SCHEME: {{hasty: {{scheme: letflow, idle_time: 0}}}}}}}}
transports:
  default: {{{transport}}}
workload:
  jobs:
    - {{name: a, kind: permutation, hosts: all, bytes: 1K}}
"
        );
        let plan = parse_lab(&text, "x.yml", Path::new(""), TimeMode::Virtual)
            .unwrap_or_else(|problems| panic!("{problems}"));
        let lab = VirtualLab::new(plan, LabOptions::default()).unwrap_or_else(|failure| panic!("{failure}"));
        lab.warnings()
    }

    #[test]
    fn reordering_schemes_cause_warnings_for_go_back_transports() {
        assert_eq!(
            lab_warnings("round-robin", "recovery: go-back-n"),
            [
                "the load-balancing scheme round-robin of leaf1, leaf2 sends packets of one flow over several paths, and hosts of \
              transport \"default\" recover by go-back-N, which sends all behind a gap again: give it `out_of_order: true`, or \
              `recovery: selective-repeat`"
            ]
        );
        for scheme in ["per-packet", "random", "drill", "hasty"] {
            assert_eq!(
                lab_warnings(scheme, "recovery: go-back-zero").len(),
                1,
                "{scheme}"
            );
        }
        let hasty = &lab_warnings("hasty", "mtu: 1024")[0];
        assert!(
            hasty.contains("after 0 ns, while paths differ by up to 740 ns"),
            "{hasty}"
        );
        for scheme in [
            "ecmp", "ecmp-qp", "flowlet", "letflow", "fixed", "cluster", "conga",
        ] {
            assert_eq!(lab_warnings(scheme, "recovery: go-back-n"), [""; 0], "{scheme}");
        }
        for transport in [
            "recovery: selective-repeat",
            "recovery: go-back-n, out_of_order: true",
        ] {
            assert_eq!(lab_warnings("round-robin", transport), [""; 0], "{transport}");
        }
    }
}
