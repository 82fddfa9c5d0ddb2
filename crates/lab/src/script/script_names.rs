//! The names in a script, and the objects in the fabric to which they refer.

use std::collections::{HashMap, HashSet};

use xoff_dataplane::PortId;

use super::super::expr::{CounterOwner, CounterReference, Expression, NameDirectory, UnknownName};
use super::super::plan::{ActionPlan, LabPlan};
use super::super::virtual_run::VirtualLab;

/// The number and the hosts of one flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowIdentity {
    /// The number of the flow at its hosts.
    pub(super) id: u32,
    /// The host indices of the sender and the receiver.
    pub(super) hosts: (usize, usize),
}

/// The names of a lab with the indices of their objects in the fabric.
#[derive(Debug)]
pub(super) struct ScriptNames {
    pub(super) directory: NameDirectory,
    /// For each switch, the port numbers of its ports in the order of the directory.
    ports: Vec<Vec<PortId>>,
    /// For each flow index of the directory, the flows with this name.
    pub(super) flows: Vec<Vec<FlowIdentity>>,
    /// The counters in the script that `clear: counters` sets to zero.
    pub(super) clearable_counters: Vec<CounterReference>,
}

impl ScriptNames {
    /// Collects the names of a lab.
    ///
    /// # Errors
    /// Returns an error if a condition contains an unknown name. The names of buffer pools are checked only
    /// here, because the configuration of a switch defines them.
    pub(super) fn new(lab: &VirtualLab) -> Result<ScriptNames, UnknownName> {
        let directory = lab.plan.name_directory();
        let mut names = ScriptNames {
            ports: (0..lab.plan.switches.len())
                .map(|switch| directory_ports(lab, &directory, switch))
                .collect(),
            flows: flows_by_name(&lab.plan),
            clearable_counters: Vec::new(),
            directory,
        };
        let mut seen = HashSet::new();
        for path in names.counter_names(&lab.plan)? {
            let reference = names.directory.find_counter(&path)?;
            check_owner(lab, &reference.owner, &path)?;
            if is_clearable(&reference) && seen.insert((reference.owner.clone(), reference.counter)) {
                names.clearable_counters.push(reference);
            }
        }
        Ok(names)
    }

    /// Returns all counter names in the script. Patterns are replaced by their matching names.
    fn counter_names(&self, plan: &LabPlan) -> Result<Vec<String>, UnknownName> {
        let mut paths = Vec::new();
        let steps = plan.script.steps.iter();
        for condition in steps.flat_map(|step| step.when.iter().chain(step_conditions(&step.action))) {
            for name in condition.name_references().iter().filter(|name| !name.is_event) {
                match name.path.contains('*') {
                    true => paths.extend(self.directory.matching_names(name.path)?),
                    false => paths.push(name.path.to_owned()),
                }
            }
        }
        Ok(paths)
    }

    /// Returns the port number for a port index of the directory. Returns `None` if the directory has no
    /// such port.
    pub(super) fn port_id(&self, switch: usize, port_index: usize) -> Option<PortId> {
        self.ports.get(switch)?.get(port_index).copied()
    }
}

/// Returns the conditions of a step that checks conditions.
pub(super) fn step_conditions(action: &ActionPlan) -> &[Expression] {
    match action {
        ActionPlan::Expect(conditions) => conditions,
        ActionPlan::WaitUntil { condition, .. } => std::slice::from_ref(condition),
        _ => &[],
    }
}

/// Returns the port number in the switch for each port of the directory. The directory has the order of the
/// links, and the switch numbers its ports in the order of its configuration.
fn directory_ports(lab: &VirtualLab, directory: &NameDirectory, switch: usize) -> Vec<PortId> {
    let configured = &lab.fabric_plan.switches[switch].ports;
    let names = directory
        .switch_and_port_names(switch)
        .map_or(&[][..], |(_, ports)| ports);
    let numbers: HashMap<&str, usize> = configured
        .iter()
        .enumerate()
        .map(|(number, port)| (port.name.as_str(), number))
        .collect();
    let number = |name: &String| numbers.get(name.as_str()).copied();
    names
        .iter()
        .map(|name| PortId(number(name).unwrap_or(usize::from(u16::MAX)) as u16))
        .collect()
}

/// Returns the flows of each flow name. The names of open-loop flows come before the names of `send` steps,
/// as in [`LabPlan::name_directory`].
fn flows_by_name(plan: &LabPlan) -> Vec<Vec<FlowIdentity>> {
    let sends = plan.script.send_steps().map(|send| &send.flow);
    let mut groups: Vec<Vec<FlowIdentity>> = Vec::new();
    let mut positions: HashMap<&str, usize> = HashMap::new();
    for (id, flow) in plan.workload.flows.iter().chain(sends).enumerate() {
        let identity = FlowIdentity {
            id: id as u32,
            hosts: (flow.from, flow.to),
        };
        let position = *positions.entry(&flow.name).or_insert(groups.len());
        match groups.get_mut(position) {
            Some(group) => group.push(identity),
            None => groups.push(vec![identity]),
        }
    }
    groups
}

/// Returns whether `clear: counters` sets a counter to zero. States, watermarks, rates and results are
/// not cleared.
fn is_clearable(reference: &CounterReference) -> bool {
    let counter = reference.counter;
    match reference.owner {
        CounterOwner::Run | CounterOwner::Job(..) | CounterOwner::Pool(..) | CounterOwner::Arrivals(..) => {
            false
        }
        CounterOwner::Flow(..) => !counter.starts_with("latency") && !counter.ends_with("_bps"),
        _ => {
            !(counter.ends_with("_cells")
                || matches!(
                    counter,
                    "up" | "xoff"
                        | "paused"
                        | "stormed"
                        | "recent_pause_ns"
                        | "tx_utilisation_percent"
                        | "lb_flows"
                        | "lb_band"
                        | "lb_load_permille"
                ))
        }
    }
}

/// Checks that the owner of a counter exists in the configured lab.
///
/// # Errors
/// Returns an error if the switch does not have the named buffer pool.
fn check_owner(lab: &VirtualLab, owner: &CounterOwner, path: &str) -> Result<(), UnknownName> {
    let CounterOwner::Pool(switch, name) = owner else {
        return Ok(());
    };
    let config = lab.simulation.fabric.switch_config(*switch);
    if config.pools.iter().any(|pool| pool.name == *name) {
        return Ok(());
    }
    let pools: Vec<&str> = config.pools.iter().map(|pool| pool.name.as_str()).collect();
    Err(UnknownName {
        name: path.to_owned(),
        hint: format!("the pools of {} are {}", config.name, pools.join(", ")),
    })
}
