//! What names of expressions stand for in a lab that runs.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use xoff_dataplane::PortId;

use super::super::expr::{
    CounterOwner, CounterReference, NameDirectory, Occurrence, UnknownName, ValueSource,
};
use super::super::plan::{ActionPlan, LabPlan};
use super::super::virtual_run::VirtualLab;
use super::events::EventTimes;
use super::read;
use xoff_workload::WorkloadResults;

/// A flow as hosts know it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowIds {
    /// Its number.
    pub(super) id: u32,
    /// Index of the sender and of the receiver.
    pub(super) hosts: (usize, usize),
}

/// The names of a lab, and where in a fabric to find what they mean.
#[derive(Debug)]
pub(super) struct Names {
    directory: NameDirectory,
    /// By switch and place of the directory: the port.
    ports: Vec<Vec<PortId>>,
    /// By place of the directory: the flows of that name.
    pub(super) flows: Vec<Vec<FlowIds>>,
    /// What the script asks for and `clear: counters` lets begin at zero.
    counted: Vec<CounterReference>,
}

impl Names {
    /// The names of a lab.
    ///
    /// # Errors
    /// A name of the script that means nothing: what the lab file's reader could not know, such as a pool.
    pub(super) fn new(lab: &VirtualLab) -> Result<Names, UnknownName> {
        let directory = lab.plan.directory();
        let mut names = Names {
            ports: (0..lab.plan.switches.len())
                .map(|switch| ports(lab, &directory, switch))
                .collect(),
            flows: flows(&lab.plan),
            counted: Vec::new(),
            directory,
        };
        let mut seen = HashSet::new();
        for path in names.asked(&lab.plan)? {
            let place = names.directory.find(&path)?;
            read::check(lab, &place.subject, &path)?;
            if is_count(&place) && seen.insert((place.subject.clone(), place.counter)) {
                names.counted.push(place);
            }
        }
        Ok(names)
    }

    /// All names of values that the script has, patterns taken apart.
    fn asked(&self, plan: &LabPlan) -> Result<Vec<String>, UnknownName> {
        let mut paths = Vec::new();
        let steps = plan.script.steps.iter();
        for condition in steps.flat_map(|step| step.when.iter().chain(conditions(&step.action))) {
            for name in condition.names().iter().filter(|name| !name.is_event) {
                match name.path.contains('*') {
                    true => paths.extend(self.directory.matching(name.path)?),
                    false => paths.push(name.path.to_owned()),
                }
            }
        }
        Ok(paths)
    }

    /// The port of a place of the directory.
    pub(super) fn port(&self, switch: usize, place: usize) -> Option<PortId> {
        self.ports.get(switch)?.get(place).copied()
    }
}

fn conditions(action: &ActionPlan) -> &[super::super::expr::Expression] {
    match action {
        ActionPlan::Expect(conditions) => conditions,
        ActionPlan::WaitUntil { condition, .. } => std::slice::from_ref(condition),
        _ => &[],
    }
}

/// The directory counts ports with links in the order of links, a switch in the order of its configuration.
fn ports(lab: &VirtualLab, directory: &NameDirectory, switch: usize) -> Vec<PortId> {
    let configured = &lab.fabric_plan.switches[switch].ports;
    let names = directory.switch(switch).map_or(&[][..], |(_, ports)| ports);
    let number = |name: &String| configured.iter().position(|port| port.name == *name);
    names
        .iter()
        .map(|name| PortId(number(name).unwrap_or(usize::from(u16::MAX)) as u16))
        .collect()
}

/// Groups of flows by name, then sends, as [`LabPlan::directory`] has them.
fn flows(plan: &LabPlan) -> Vec<Vec<FlowIds>> {
    let sends = plan.script.sends().map(|send| &send.flow);
    let mut groups: Vec<(&str, Vec<FlowIds>)> = Vec::new();
    for (id, flow) in plan.workload.flows.iter().chain(sends).enumerate() {
        let ids = FlowIds {
            id: id as u32,
            hosts: (flow.from, flow.to),
        };
        match groups.iter_mut().find(|(name, _)| *name == flow.name) {
            Some((_, group)) => group.push(ids),
            None => groups.push((&flow.name, vec![ids])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Whether a value only grows, so that it can begin at zero: neither a state, a peak, a rate nor a result.
fn is_count(place: &CounterReference) -> bool {
    let counter = place.counter;
    match place.subject {
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

/// Where counters stood when they were cleared.
#[derive(Clone, Debug, Default)]
pub(super) struct Base(HashMap<(CounterOwner, &'static str), f64>);

impl Base {
    /// Where the counters that a script asks for stand now.
    pub(super) fn new(lab: &VirtualLab, names: &Names) -> Base {
        let results = OnceCell::new();
        let stand = |place: &CounterReference| {
            let value = read::value(lab, names, &results, place)?;
            Some(((place.subject.clone(), place.counter), value))
        };
        Base(names.counted.iter().filter_map(stand).collect())
    }
}

/// The values of a moment.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    pub(super) lab: &'a VirtualLab,
    pub(super) names: &'a Names,
    pub(super) events: &'a EventTimes,
    pub(super) base: &'a Base,
    /// Results of jobs, made when the first name asks for them.
    pub(super) results: OnceCell<WorkloadResults>,
}

impl ValueSource for Reading<'_> {
    fn value(&self, path: &str) -> Result<Option<f64>, UnknownName> {
        let place = self.names.directory.find(path)?;
        let arrivals = match place.subject {
            CounterOwner::Host(host) => self
                .events
                .arrivals(host)
                .and_then(|all| all.value(place.counter)),
            CounterOwner::Arrivals(host, dscp) => {
                let arrivals = self.events.arrivals(host).and_then(|all| all.of(dscp));
                return Ok(arrivals.and_then(|arrived| arrived.value(place.counter)));
            }
            _ => None,
        };
        // They begin at zero by themselves when counters are cleared.
        if arrivals.is_some() {
            return Ok(arrivals);
        }
        let Some(value) = read::value(self.lab, self.names, &self.results, &place) else {
            return Ok(None);
        };
        let CounterReference {
            subject,
            counter,
            divisor,
        } = place;
        let base = self.base.0.get(&(subject, counter)).copied();
        // What was under way when counters were cleared, and arrives, is not less than nothing lost.
        let value = base.map_or(value, |base| (value - base).max(0.0));
        Ok(Some(value / divisor))
    }

    fn matching(&self, pattern: &str) -> Result<Vec<String>, UnknownName> {
        self.names.directory.matching(pattern)
    }

    fn event(&self, path: &str, which: Occurrence) -> Result<Option<f64>, UnknownName> {
        let place = self.names.directory.find_event(path)?;
        let subject = match place.subject {
            CounterOwner::Port(switch, port) => match self.names.port(switch, port) {
                Some(port) => CounterOwner::Port(switch, port.index()),
                None => return Ok(None),
            },
            other => other,
        };
        let at = self.events.get(place.event, &subject, which);
        Ok(at.map(|at| at.since(self.lab.workload_start).0 as f64))
    }
}
