//! A warning before a run: switches that let packets of a flow overtake each other, and hosts that cannot bear it.

use xoff_dataplane::config::{SchemeConfig, SchemeKind, SwitchConfig};
use xoff_units::Picos;

use super::plan::{FarEnd, LabPlan};
use xoff_rdma::Recovery;

/// Names of switches in a message before it says "and more".
const NAMED: usize = 3;
/// The longest frame of a link on the wire, in bits: MTU 9216, headers, FCS, preamble and gap.
const FRAME_BITS: u64 = 8 * (9_216 + 18 + 4 + 20);

/// One line for each scheme that reorders, if packets of queue pairs that begin again at the first gap meet it. `switches` are in the
/// order of the plan.
pub(super) fn warnings(plan: &LabPlan, switches: &[&SwitchConfig]) -> Vec<String> {
    let Some((transport, recovery)) = intolerant(plan) else {
        return Vec::new();
    };
    let spread = spread(plan);
    let mut schemes: Vec<(&SchemeConfig, Vec<&str>)> = Vec::new();
    for switch in switches.iter().filter(|switch| chooses(switch)) {
        for scheme in switch
            .balancing
            .schemes
            .iter()
            .filter(|scheme| reorders(scheme, spread))
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
                listed(names),
                how(scheme, spread)
            )
        })
        .collect()
}

/// The first transport in use whose hosts begin again at a gap, and what that is called.
fn intolerant(plan: &LabPlan) -> Option<(&str, &'static str)> {
    plan.workload.jobs.jobs.iter().find_map(|job| {
        let transport = plan.transports.get(job.transport)?;
        let recovery = match transport.qp.recovery {
            Recovery::GoBackN => "go-back-N",
            Recovery::GoBackZero => "go-back-zero",
            Recovery::SelectiveRepeat => return None,
        };
        let tolerant = transport.qp.out_of_order.is_some();
        (!tolerant).then_some((transport.name.as_str(), recovery))
    })
}

/// Whether a switch has anything to choose.
fn chooses(switch: &SwitchConfig) -> bool {
    !switch.routing.fib.groups().is_empty() || switch.lags.iter().any(|lag| lag.members.len() > 1)
}

fn reorders(scheme: &SchemeConfig, spread: Picos) -> bool {
    match scheme.kind {
        SchemeKind::PerPacket { .. } | SchemeKind::RoundRobin | SchemeKind::Drill { .. } => true,
        SchemeKind::Flowlet { idle, .. } => idle < spread,
        SchemeKind::Hash | SchemeKind::Fixed { .. } | SchemeKind::Cluster { .. } | SchemeKind::Custom(_) => {
            false
        }
    }
}

fn how(scheme: &SchemeConfig, spread: Picos) -> String {
    match scheme.kind {
        SchemeKind::Flowlet { idle, .. } => format!(
            "lets a flow change its path after {} ns, while paths differ by up to {} ns even with empty queues",
            idle.as_nanos(),
            spread.as_nanos()
        ),
        _ => "sends packets of one flow over several paths".to_owned(),
    }
}

/// By how much two paths between switches may differ with empty queues: the delays of two links, and a frame that was first.
fn spread(plan: &LabPlan) -> Picos {
    let between = || {
        plan.links
            .iter()
            .filter(|link| matches!(link.far, FarEnd::Switch { .. }))
    };
    let longest = between().map(|link| link.delay_ns).max().unwrap_or(0);
    let shortest = between().map(|link| link.delay_ns).min().unwrap_or(0);
    let slowest_mbps = between()
        .filter_map(|link| link.speed_mbps)
        .min()
        .unwrap_or(1_000);
    let frame = Picos::from_nanos(FRAME_BITS * 1_000 / u64::from(slowest_mbps.max(1)));
    frame.saturating_add(Picos::from_nanos(2 * (longest - shortest)))
}

fn listed(names: &[&str]) -> String {
    let named = names[..names.len().min(NAMED)].join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::plan::TimeMode;
    use super::super::resolve::parse;
    use super::super::{LabOptions, VirtualLab};

    fn warnings(scheme: &str, transport: &str) -> Vec<String> {
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
        let plan = parse(&text, "x.yml", Path::new(""), TimeMode::Virtual)
            .unwrap_or_else(|problems| panic!("{problems}"));
        let lab = VirtualLab::new(plan, LabOptions::default()).unwrap_or_else(|failure| panic!("{failure}"));
        lab.warnings()
    }

    #[test]
    fn schemes_that_reorder_meet_hosts_that_begin_again() {
        assert_eq!(
            warnings("round-robin", "recovery: go-back-n"),
            [
                "the load-balancing scheme round-robin of leaf1, leaf2 sends packets of one flow over several paths, and hosts of \
              transport \"default\" recover by go-back-N, which sends all behind a gap again: give it `out_of_order: true`, or \
              `recovery: selective-repeat`"
            ]
        );
        for scheme in ["per-packet", "random", "drill", "hasty"] {
            assert_eq!(warnings(scheme, "recovery: go-back-zero").len(), 1, "{scheme}");
        }
        let hasty = &warnings("hasty", "mtu: 1024")[0];
        assert!(
            hasty.contains("after 0 ns, while paths differ by up to 740 ns"),
            "{hasty}"
        );
        for scheme in [
            "ecmp", "ecmp-qp", "flowlet", "letflow", "fixed", "cluster", "conga",
        ] {
            assert_eq!(warnings(scheme, "recovery: go-back-n"), [""; 0], "{scheme}");
        }
        for transport in [
            "recovery: selective-repeat",
            "recovery: go-back-n, out_of_order: true",
        ] {
            assert_eq!(warnings("round-robin", transport), [""; 0], "{transport}");
        }
    }
}
