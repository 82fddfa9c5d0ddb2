//! From a plan to a fabric with jobs.

use std::sync::Arc;

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::pfc::response_quanta_max;
use xoff_dataplane::{LinkTiming, Picos};

use super::super::config::{SwitchSetup, resolve_switch_setup, switch_seed};
use super::super::jobs::jobs;
use super::super::model_hosts::host_config;
use super::super::notes::notes;
use super::super::options::LabOptions;
use super::super::plan::{ConfigLayer, FarEnd, HostPlan, LabPlan, TimeMode};
use super::super::reordering;
use super::super::signals;
use super::super::sweep::load_with;
use super::links::{self, Carried};
use xoff_fabric::{
    DataFlow, Fabric, FabricPlan, LinkEnd, LinkPlan, ObservedFabric, Observer, PlannedFlow, RunStopReason,
    Simulation, SimulationEnd, place_flows,
};
use xoff_telemetry::failure::Failure;

/// The longest frame of a link: MTU 9216 with Ethernet header, tag and FCS.
const FRAME_MAX_BYTES: u32 = 9_216 + 14 + 4 + 4;
/// So long hosts may look for each other before the lab counts as broken.
const READY_PATIENCE: Picos = Picos::from_millis(1_000);

/// A lab in virtual time, set up.
#[derive(Debug)]
pub struct VirtualLab {
    /// What it was made from.
    pub plan: LabPlan,
    /// How.
    pub options: LabOptions,
    /// Fabric and jobs.
    pub simulation: Simulation,
    /// When the workload started; before that hosts found each other.
    pub began: Picos,
    /// What the fabric was made from, for names.
    pub fabric_plan: FabricPlan,
    /// What its lab file and the configurations of its switches set without effect; one line each.
    pub notes: Vec<String>,
    /// Congestion controls that lack their signals on some flows.
    pub(super) ineffective: Vec<String>,
    /// What links had carried when the workload started.
    pub(super) carried_before: Vec<[Carried; 2]>,
}

/// What the switches of a lab file are told to be in virtual time, in the order of the file.
///
/// # Errors
/// A lab file or a configuration that cannot be.
pub fn switch_configurations(file: &std::path::Path) -> Result<Vec<SwitchConfig>, Failure> {
    let plan = load_with(file, &[], TimeMode::Virtual)?;
    let setups = switch_setups(&plan, &LabOptions::default())?;
    Ok(fabric_of(&plan, &LabOptions::default(), &setups)?.switches)
}

/// What one switch of a plan is told to be in a run with this seed.
///
/// # Errors
/// A configuration that cannot be.
pub fn switch_configuration(plan: &LabPlan, switch: usize, seed: u64) -> Result<SwitchConfig, Failure> {
    let setup = resolve_switch_setup(plan, switch, switch_seed(seed, switch), reaction_budget(plan))?;
    Ok(setup.loaded.resolved.config)
}

impl VirtualLab {
    /// Sets a lab up. What its script starts does not start by itself: to run a lab without its script, take that away before.
    ///
    /// # Errors
    /// A configuration of a switch or a host, or a job, that cannot be; a node of a kind that has no virtual time.
    pub fn new(plan: LabPlan, options: LabOptions) -> Result<VirtualLab, Failure> {
        let setups = switch_setups(&plan, &options)?;
        let fabric_plan = fabric_of(&plan, &options, &setups)?;
        let mut fabric = Fabric::new(fabric_plan.clone(), options.seed)
            .map_err(|error| Failure::configuration(error.to_string()).at(&plan.name))?;
        let jobs = jobs(
            &plan,
            &fabric_plan,
            options.seed,
            &mut ObservedFabric(&mut fabric, &mut ()),
        )?;
        let ineffective = signals::check(&plan, &fabric_plan, jobs.workload())?;
        Ok(VirtualLab {
            notes: notes(&plan, &setups),
            ineffective,
            simulation: Simulation::new(fabric, jobs),
            began: Picos::ZERO,
            plan,
            options,
            fabric_plan,
            carried_before: Vec::new(),
        })
    }

    /// What will probably not do what was meant; one line each.
    pub fn warnings(&self) -> Vec<String> {
        let switches: Vec<&SwitchConfig> = self.fabric_plan.switches.iter().collect();
        let mut warnings = reordering::reordering_warnings(&self.plan, &switches);
        warnings.extend_from_slice(&self.ineffective);
        warnings
    }

    /// Lets the hosts find each other, and starts the workload.
    ///
    /// # Errors
    /// Hosts that do not find each other.
    pub fn start(&mut self, observer: &mut impl Observer) -> Result<(), Failure> {
        self.settle(observer)?;
        self.begin(observer);
        Ok(())
    }

    /// Lets the hosts find each other; the workload has not begun then.
    ///
    /// # Errors
    /// Hosts that do not find each other.
    pub fn settle(&mut self, observer: &mut impl Observer) -> Result<(), Failure> {
        let step = self.longest_wait();
        let fabric = &mut self.simulation.fabric;
        loop {
            let halt = fabric.run(fabric.now().saturating_add(step), observer);
            let lost = (0..fabric.host_count()).find_map(|h| Some((h, fabric.host(h).unresolved().next()?)));
            let Some((host, address)) = lost else { break };
            // Where time stands still, patience would never end.
            if fabric.now() >= READY_PATIENCE || matches!(halt, RunStopReason::Stuck | RunStopReason::Idle) {
                let name = &self.plan.hosts[host].name;
                let has = |host: &&HostPlan| address == host.ipv4 || address == host.ipv6;
                let whose = match self.plan.hosts.iter().find(has) {
                    Some(found) => format!(", the address of {}", found.name),
                    None => String::new(),
                };
                return Err(Failure::configuration(format!("{name} does not find {address}{whose}: nobody answers"))
                    .because("the configuration of the switches keeps them apart, or has no route")
                    .fix("look at VLAN_MEMBER, INTERFACE and STATIC_ROUTE of the switches, or write `routes: auto`"));
            }
        }
        for switch in 0..fabric.switch_count() {
            fabric.change_switch(switch, observer, |switch, _, _, _| {
                switch.restart_utilisation();
                switch.clear_watermarks();
            });
        }
        self.began = fabric.now();
        self.carried_before = links::carried(&self.simulation.fabric, &self.fabric_plan);
        Ok(())
    }

    /// Starts the workload, now. If the lab announces, all switches are told before of the ways of all jobs' queue pairs.
    pub fn begin(&mut self, observer: &mut impl Observer) {
        if self.plan.announce {
            self.announce(observer);
        }
        self.simulation.start(observer);
        if self.plan.workload.duration_ns > 0 {
            for host in 0..self.simulation.fabric.host_count() {
                self.simulation
                    .fabric
                    .change_host(host, observer, |host, now| host.start(now));
            }
        }
    }

    /// Places the data of every queue pair on a path through the fabric, for switches whose scheme takes announced paths
    /// ([`place_flows`](xoff_fabric::place_flows)). Returns the number of placements.
    pub fn announce(&mut self, observer: &mut impl Observer) -> usize {
        let Simulation { fabric, jobs, .. } = &mut self.simulation;
        let planned = |flow: &DataFlow| PlannedFlow {
            from: flow.from,
            destination: flow.addresses.1,
            turn: flow.pair,
        };
        let flows: Vec<PlannedFlow> = jobs.data_flows().iter().map(planned).collect();
        jobs.announce_flows(fabric, &place_flows(&self.fabric_plan, &flows), observer)
    }

    /// Stops the flows that have no end of their own.
    pub fn stop_flows(&mut self, observer: &mut impl Observer) {
        for host in 0..self.simulation.fabric.host_count() {
            self.simulation
                .fabric
                .change_host(host, observer, |host, _| host.stop());
        }
    }

    /// Puts layers of configuration above all that a switch has.
    ///
    /// # Errors
    /// What is wrong with them, or cannot change while the switch runs; then nothing has changed.
    pub fn configure(
        &mut self,
        switch: usize,
        layers: &[ConfigLayer],
        observer: &mut impl Observer,
    ) -> Result<(), Failure> {
        let mut plan = self.plan.clone();
        plan.switches[switch].config.extend_from_slice(layers);
        let seed = switch_seed(self.options.seed, switch);
        let setup = resolve_switch_setup(&plan, switch, seed, reaction_budget(&plan))?;
        let resolved = setup.loaded.resolved;
        let mut config = resolved.config;
        let fabric = &mut self.simulation.fabric;
        // The routes follow those in force, so that groups of next hops know whose flows they take over.
        let routes = resolved.rib.next_generation(fabric.switch(switch).fib());
        config.routing.fib = Arc::new(routes.map_err(|error| {
            Failure::configuration(error.to_string()).at(format!("switch {}", config.name))
        })?);
        fabric
            .configure_switch(switch, config.clone(), observer)
            .map_err(|error| {
                Failure::configuration(error.to_string()).at(format!("switch {}", config.name))
            })?;
        self.fabric_plan.switches[switch] = config;
        self.plan = plan;
        Ok(())
    }

    /// Runs to `until`, counted from the start of the workload, or until its jobs are done.
    pub fn run(
        &mut self,
        until: Picos,
        stop_when_finished: bool,
        observer: &mut impl Observer,
    ) -> SimulationEnd {
        let until = self.began.saturating_add(until);
        self.simulation.run(until, stop_when_finished, observer)
    }

    /// Model time since the start of the workload.
    pub fn elapsed(&self) -> Picos {
        self.simulation.fabric.now().since(self.began)
    }

    /// Long enough for a question and its answer across the fabric.
    fn longest_wait(&self) -> Picos {
        let delays: u64 = self.plan.links.iter().map(|link| link.delay_ns).sum();
        Picos::from_micros(100).saturating_add(Picos::from_nanos(delays.saturating_mul(4).min(10_000_000)))
    }
}

/// The configuration of every switch of a plan in virtual time.
///
/// # Errors
/// A configuration that is invalid; hosts and links that have no virtual time.
fn switch_setups(plan: &LabPlan, options: &LabOptions) -> Result<Vec<SwitchSetup>, Failure> {
    if let Some(host) = plan.hosts.iter().find(|host| !host.is_model()) {
        return Err(Failure::configuration(format!("{} is no model host", host.name))
            .because("kernels and guests know no virtual time")
            .fix("make it `kind: model`, or run the lab without --virtual"));
    }
    let budget = reaction_budget(plan);
    let setups = (0..plan.switches.len())
        .map(|switch| resolve_switch_setup(plan, switch, switch_seed(options.seed, switch), budget))
        .collect::<Result<Vec<SwitchSetup>, Failure>>()?;
    if let Some(link) = plan.links.iter().find(|l| matches!(l.far, FarEnd::External(_))) {
        return Err(
            Failure::configuration(format!("the link {} knows no virtual time", link.name))
                .at(&link.source)
                .fix("take the link out, or run the lab without --virtual"),
        );
    }
    Ok(setups)
}

/// The fabric of a plan and of what its switches are told. Devices of this machine are left out.
///
/// # Errors
/// A host or a port that its link does not find.
pub(crate) fn fabric_of(
    plan: &LabPlan,
    options: &LabOptions,
    setups: &[SwitchSetup],
) -> Result<FabricPlan, Failure> {
    let port = |switch: usize, name: &str| {
        let ports = &setups[switch].loaded.resolved.config.ports;
        ports
            .iter()
            .position(|port| port.name == name)
            .map(|port| LinkEnd::Switch {
                switch: switch as u32,
                port: port as u16,
            })
    };
    let mut hosts = Vec::with_capacity(plan.hosts.len());
    for (index, host) in plan.hosts.iter().enumerate() {
        let link = plan.links.iter().position(|link| link.far == FarEnd::Host(index));
        let Some(link) = link else {
            return Err(Failure::configuration(format!("{} has no link", host.name)));
        };
        let near = &setups[plan.links[link].switch];
        let mut ports = near.loaded.resolved.config.ports.iter();
        let has_pfc = ports.any(|port| port.name == plan.links[link].port && port.pfc.enabled != 0);
        hosts.push(host_config(plan, options, index, near.speeds_mbps[link], has_pfc));
    }
    let mut links = Vec::with_capacity(plan.links.len());
    for link in &plan.links {
        let far = match &link.far {
            FarEnd::Host(host) => Some(LinkEnd::Host(*host as u32)),
            FarEnd::Switch { switch, port: name } => port(*switch, name),
            FarEnd::External(_) => continue,
        };
        let (Some(near), Some(far)) = (port(link.switch, &link.port), far) else {
            return Err(Failure::configuration(format!("link {} has no port", link.name)).at(&link.source));
        };
        links.push(LinkPlan {
            name: link.name.clone(),
            ends: [near, far],
            delay: Picos::from_nanos(link.delay_ns),
        });
    }
    Ok(FabricPlan {
        switches: setups
            .iter()
            .map(|setup| setup.loaded.resolved.config.clone())
            .collect(),
        hosts,
        links,
    })
}

/// How long the slowest neighbour of a lab takes to obey a pause: both ways of the longest link, a frame of the largest size
/// in the way of the pause and one of the peer's just begun, and the response time of IEEE 802.3 annex 31B.3.7. Headroom of
/// presets is this long at the port's speed.
fn reaction_budget(plan: &LabPlan) -> Picos {
    let slowest = plan.links.iter().map(|link| {
        let speed_mbps = link.speed_mbps.unwrap_or(super::super::plan::SPEED_MBPS_DEFAULT);
        let timing = LinkTiming::ethernet(speed_mbps);
        let frame = timing.duration(timing.wire_len(FRAME_MAX_BYTES));
        Picos::from_nanos(link.delay_ns.saturating_mul(2))
            .saturating_add(Picos(frame.0 * 2))
            .saturating_add(timing.pause_duration(response_quanta_max(speed_mbps)))
    });
    slowest.max().unwrap_or(Picos::from_micros(10))
}
