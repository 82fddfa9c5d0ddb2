//! Sets up a lab in virtual time from its plan. Such a lab consists of a fabric, its hosts and its jobs.

use std::collections::HashMap;
use std::sync::Arc;

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::pfc::response_quanta_max;
use xoff_dataplane::{LinkTiming, Picos};

use super::super::config::{
    FabricSwitch, SwitchSetup, resolve_all_switch_setups, resolve_changed_switch, resolve_switch_setup,
    switch_seed,
};
use super::super::down_ports::{describe_ports_configured_down, ports_configured_down};
use super::super::jobs::create_jobs;
use super::super::lab_fields::load_with_values;
use super::super::memory_need::estimate_memory;
use super::super::model_hosts::{FlowsOfHosts, host_config};
use super::super::notes::lab_notes;
use super::super::options::LabOptions;
use super::super::plan::{ConfigLayer, FarEnd, HostPlan, LabPlan, TimeMode, add_layers_of_step};
use super::super::reordering;
use super::super::signals;
use super::link_traffic::{self, LinkTraffic};
use xoff_fabric::{
    DataFlow, Fabric, FabricPlan, LinkEnd, LinkPlan, ObservedFabric, Observer, PlannedFlow, RunStopReason,
    Simulation, SimulationEnd, place_flows,
};
use xoff_runtime::workers::pin::{CorePinning, assign_cores, bind_to_core};
use xoff_telemetry::MemoryLimit;
use xoff_telemetry::failure::{Exit, Failure};

/// Length of the longest frame of a link in bytes: MTU 9216 with Ethernet header, tag and FCS.
const FRAME_MAX_BYTES: u32 = 9_216 + 14 + 4 + 4;
/// Longest model time for the resolution of all addresses. After this time, the lab fails.
const ADDRESS_RESOLUTION_TIMEOUT: Picos = Picos::from_millis(1_000);

/// Share of the memory beside the estimate of a lab that frames can use, in percent. The rest is for inaccuracy.
const FRAME_MEMORY_PERCENT: u64 = 95;

/// A lab in virtual time: a simulated fabric with the jobs and flows of the lab. A run calls
/// [`VirtualLab::new`], then [`VirtualLab::start`], then [`VirtualLab::run`] one or more times,
/// then [`VirtualLab::report`].
#[derive(Debug)]
pub struct VirtualLab {
    /// The plan of the lab, including the configuration layers that the run has added.
    pub plan: LabPlan,
    /// The options of the run. Virtual time uses only the seed and the dilation.
    pub options: LabOptions,
    /// The simulation: the fabric and the jobs.
    pub simulation: Simulation,
    /// Model time at the start of the workload, on the clock of the fabric. The hosts have resolved all
    /// addresses before this time. The value is 0 before the resolution.
    pub workload_start: Picos,
    /// The plan of the fabric. Its switches, hosts and links have the order of the lab plan.
    pub fabric_plan: FabricPlan,
    /// Notes about settings without effect, in the lab file or in a switch configuration, one line each. May
    /// be empty.
    pub notes: Vec<String>,
    /// Warnings about flows whose congestion control gets no signal.
    pub(super) signal_warnings: Vec<String>,
    /// Number of configuration layers of each switch in the lab file. Further layers come from the script.
    layers_of_file: Vec<usize>,
    /// Traffic of the links before the start of the workload.
    pub(super) traffic_before_workload: Vec<[LinkTraffic; 2]>,
}

/// Returns the configuration of each switch of a lab file for a run in virtual time with seed 0, in the order
/// of [`LabPlan::switches`].
///
/// # Errors
/// Fails if the lab file or the configuration of a switch is invalid.
pub fn switch_configurations(file: &std::path::Path) -> Result<Vec<SwitchConfig>, Failure> {
    let plan = load_with_values(file, &[], TimeMode::Virtual)?;
    let setups = switch_setups(&plan, &LabOptions::default())?;
    Ok(setups
        .into_iter()
        .map(|setup| setup.loaded.resolved.config)
        .collect())
}

/// Returns the configuration of one switch of a plan, for a run in virtual time. `switch` is an index of
/// [`LabPlan::switches`], and `seed` is the seed of the run.
///
/// # Errors
/// Fails if the configuration of the switch is invalid.
///
/// # Panics
/// Panics if the plan has no switch with this index.
pub fn switch_configuration(plan: &LabPlan, switch: usize, seed: u64) -> Result<SwitchConfig, Failure> {
    let setup = resolve_switch_setup(
        plan,
        switch,
        switch_seed(seed, switch),
        longest_pause_response(plan),
    )?;
    Ok(setup.loaded.resolved.config)
}

impl VirtualLab {
    /// Sets up a lab. If a script step starts a flow or job, the flow or job waits for this step. To run a
    /// lab without its script, the caller must first remove the script from the plan.
    ///
    /// # Errors
    /// Fails if the configuration of a switch, host or job is invalid, if the plan has plain hosts, guests or
    /// external devices, or if no flow gets a signal for its congestion control.
    pub fn new(plan: LabPlan, options: LabOptions) -> Result<VirtualLab, Failure> {
        let setups = switch_setups(&plan, &options)?;
        let notes = lab_notes(&plan, &setups);
        let switches = setups.into_iter().map(SwitchSetup::into_fabric_switch);
        let fabric_plan = fabric_plan_of(&plan, &options, switches)?;
        let mut fabric = Fabric::with_threads(fabric_plan.clone(), options.seed, options.threads)
            .map_err(|error| Failure::configuration(error.to_string()).at(&plan.name))?;
        pin_threads(&mut fabric);
        if options.memory != MemoryLimit::UNLIMITED {
            let estimate = estimate_memory(&plan, TimeMode::Virtual);
            let left_bytes = options.memory.bytes().saturating_sub(estimate.total_bytes());
            fabric.set_frame_memory_max(left_bytes / 100 * FRAME_MEMORY_PERCENT);
        }
        let jobs = create_jobs(
            &plan,
            &fabric_plan,
            options.seed,
            &mut ObservedFabric(&mut fabric, &mut ()),
        )?;
        let signal_warnings = signals::check_congestion_signals(&plan, &fabric_plan, jobs.workload())?;
        let mut simulation = Simulation::new(fabric, jobs);
        if options.accelerate {
            simulation.accelerate();
        }
        Ok(VirtualLab {
            notes,
            signal_warnings,
            simulation,
            workload_start: Picos::ZERO,
            layers_of_file: plan.switches.iter().map(|switch| switch.config.len()).collect(),
            plan,
            options,
            fabric_plan,
            traffic_before_workload: Vec::new(),
        })
    }

    /// Returns warnings about probable mistakes, one line each: load balancing that reorders packets, and
    /// congestion control without a signal. May be empty.
    pub fn warnings(&self) -> Vec<String> {
        let switches: Vec<&SwitchConfig> = self.fabric_plan.switches.iter().map(Arc::as_ref).collect();
        let mut warnings = reordering::reordering_warnings(&self.plan, &switches);
        warnings.extend_from_slice(&self.signal_warnings);
        warnings
    }

    /// Resolves the addresses of the hosts and starts the workload ([`VirtualLab::resolve_addresses`],
    /// then [`VirtualLab::start_workload`]).
    ///
    /// # Errors
    /// Fails if a host cannot resolve an address within 1 s of model time.
    pub fn start(&mut self, observer: &mut dyn Observer) -> Result<(), Failure> {
        self.resolve_addresses(observer)?;
        self.start_workload(observer);
        Ok(())
    }

    /// Runs the fabric until the hosts have resolved the addresses of their peers (ARP or neighbour
    /// discovery). Then resets watermarks and utilisation. The workload does not start.
    ///
    /// # Errors
    /// Fails if a host cannot resolve an address within 1 s of model time.
    pub fn resolve_addresses(&mut self, observer: &mut dyn Observer) -> Result<(), Failure> {
        let step = self.address_resolution_time();
        let fabric = &mut self.simulation.fabric;
        loop {
            let stop_reason = fabric.run(fabric.now().saturating_add(step), observer);
            let unresolved =
                (0..fabric.host_count()).find_map(|h| Some((h, fabric.host(h).unresolved().next()?)));
            let Some((host, address)) = unresolved else { break };
            check_limits(stop_reason)?;
            // If model time does not advance, the timeout is never reached.
            if fabric.now() >= ADDRESS_RESOLUTION_TIMEOUT || stop_reason != RunStopReason::TimeReached {
                let name = &self.plan.hosts[host].name;
                let has = |host: &&HostPlan| address == host.ipv4 || address == host.ipv6;
                let owner = match self.plan.hosts.iter().find(has) {
                    Some(host) => format!(", the address of {}", host.name),
                    None => String::new(),
                };
                let failure = Failure::configuration(format!(
                    "{name} cannot resolve {address}{owner}: no node answers"
                ));
                if let ports @ [_, ..] = &ports_configured_down(&self.fabric_plan)[..] {
                    return Err(failure.because(describe_ports_configured_down(ports)).fix(
                        "set PORT.admin_status to up, or remove the flows and jobs behind these ports",
                    ));
                }
                return Err(failure.because("the switches do not connect the two hosts, or have no route")
                .fix(
                    "check VLAN_MEMBER, INTERFACE and STATIC_ROUTE of the switches, or write `routes: auto`",
                ));
            }
        }
        for switch in 0..fabric.switch_count() {
            fabric.change_switch(switch, observer, |switch, _, _, _| {
                switch.restart_utilisation();
                switch.clear_watermarks();
            });
        }
        self.workload_start = fabric.now();
        self.traffic_before_workload =
            link_traffic::traffic_of_links(&self.simulation.fabric, &self.fabric_plan);
        Ok(())
    }

    /// Starts the jobs and flows at the current model time. With `announce` in the lab file, this function
    /// first announces the paths of all queue pairs to the switches.
    pub fn start_workload(&mut self, observer: &mut dyn Observer) {
        if self.plan.announce {
            self.announce_paths(observer);
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

    /// Selects a path for the data of each queue pair ([`place_flows`](xoff_fabric::place_flows)) and
    /// announces the paths to the switches. A switch uses them if its load-balancing scheme supports
    /// announced paths. Returns the number of announced paths.
    pub fn announce_paths(&mut self, observer: &mut dyn Observer) -> usize {
        let Simulation { fabric, jobs, .. } = &mut self.simulation;
        let planned = |flow: &DataFlow| PlannedFlow {
            from: flow.from,
            destination: flow.addresses.1,
            turn: flow.pair,
        };
        let flows: Vec<PlannedFlow> = jobs.data_flows().iter().map(planned).collect();
        jobs.announce_flows(fabric, &place_flows(&self.fabric_plan, &flows), observer)
    }

    /// Stops the open-loop flows of all hosts at the current model time. Jobs continue.
    pub fn stop_flows(&mut self, observer: &mut dyn Observer) {
        for host in 0..self.simulation.fabric.host_count() {
            self.simulation
                .fabric
                .change_host(host, observer, |host, _| host.stop());
        }
    }

    /// Adds configuration layers on top of all layers of a running switch. `switch` is an index
    /// of [`LabPlan::switches`].
    ///
    /// # Errors
    /// Fails if the layers are invalid, or if they change a field that cannot change while the switch runs.
    /// In this case, the switch keeps its current configuration.
    pub fn add_switch_layers(
        &mut self,
        switch: usize,
        layers: &[ConfigLayer],
        observer: &mut dyn Observer,
    ) -> Result<(), Failure> {
        let mut switch_plan = self.plan.switches[switch].clone();
        if !add_layers_of_step(&mut switch_plan.config, self.layers_of_file[switch], layers) {
            return Ok(());
        }
        let seed = switch_seed(self.options.seed, switch);
        let response = longest_pause_response(&self.plan);
        let setup = resolve_changed_switch(&self.plan, switch, &switch_plan, seed, response)?;
        let resolved = setup.loaded.resolved;
        let mut config = resolved.config;
        let fabric = &mut self.simulation.fabric;
        // The new routes continue the generation number of the current routes, so that groups of next hops
        // keep their flows.
        let routes = resolved.rib.next_generation(fabric.switch(switch).fib());
        config.routing.fib = Arc::new(routes.map_err(|error| {
            Failure::configuration(error.to_string()).at(format!("switch {}", config.name))
        })?);
        let config = Arc::new(config);
        fabric
            .configure_switch(switch, Arc::clone(&config), observer)
            .map_err(|error| {
                Failure::configuration(error.to_string()).at(format!("switch {}", config.name))
            })?;
        self.fabric_plan.switches[switch] = config;
        self.plan.switches[switch] = switch_plan;
        Ok(())
    }

    /// Runs until model time `until`, counted from the start of the workload. If `stop_when_finished` is
    /// true, the run also ends as soon as all jobs are finished. Returns the reason for the end, such as the
    /// time limit, the event limit or a standstill.
    pub fn run(
        &mut self,
        until: Picos,
        stop_when_finished: bool,
        observer: &mut dyn Observer,
    ) -> SimulationEnd {
        let until = self.workload_start.saturating_add(until);
        self.simulation.run(until, stop_when_finished, observer)
    }

    /// Advances model time to `at`, counted from the start of the workload, if no event is earlier.
    pub(crate) fn advance_idle(&mut self, at: Picos) {
        let fabric = &mut self.simulation.fabric;
        let at = self.workload_start.saturating_add(at);
        fabric.advance_idle(Picos(at.0.saturating_sub(fabric.skipped_time().0)));
    }

    /// Returns the model time since the start of the workload, with skipped time. Before the start, this is the model
    /// time since 0.
    pub fn elapsed(&self) -> Picos {
        self.simulation.fabric.result_now().since(self.workload_start)
    }

    /// Returns a model time that is long enough for an ARP request and its reply to cross the fabric.
    fn address_resolution_time(&self) -> Picos {
        let delays: u64 = self.plan.links.iter().map(|link| link.delay_ns).sum();
        Picos::from_micros(100).saturating_add(Picos::from_nanos(delays.saturating_mul(4).min(10_000_000)))
    }
}

/// Checks that the resolution of addresses has not reached a limit of the run.
///
/// # Errors
/// Fails with the limit.
fn check_limits(reason: RunStopReason) -> Result<(), Failure> {
    let (limit, option) = match reason {
        RunStopReason::EventLimit => ("number of events", "--events-max"),
        RunStopReason::FrameMemoryLimit => ("memory of frames", "--memory"),
        _ => return Ok(()),
    };
    Err(Failure::new(
        Exit::CheckFailed,
        format!("the {limit} reached its limit before the hosts had resolved their addresses"),
    )
    .at(option)
    .fix(format!("raise {option}, or use fewer hosts")))
}

/// Pins each thread of a fabric to its own CPU, if the process may use enough CPUs.
fn pin_threads(fabric: &mut Fabric) {
    let (cores, _) = assign_cores(
        &CorePinning::Auto,
        fabric.thread_count(),
        &xoff_telemetry::allowed_cpus(),
    );
    fabric.set_thread_start(move |thread| {
        // A thread that is not pinned is only slower. The calling thread is not pinned: it belongs to the caller.
        if thread > 0 {
            let _ = bind_to_core(cores.get(thread).copied().flatten());
        }
    });
}

/// Resolves the configuration of each switch of a plan for virtual time.
///
/// # Errors
/// Fails if a configuration is invalid, or if virtual time does not support a host or a link.
fn switch_setups(plan: &LabPlan, options: &LabOptions) -> Result<Vec<SwitchSetup>, Failure> {
    if let Some(host) = plan.hosts.iter().find(|host| !host.is_model()) {
        return Err(Failure::configuration(format!("{} is no model host", host.name))
            .because("plain hosts and virtual machines run in real time")
            .fix("make it `kind: model`, or run the lab in real time"));
    }
    let budget = longest_pause_response(plan);
    let setups = resolve_all_switch_setups(plan, options.seed, budget)?;
    if let Some(link) = plan.links.iter().find(|l| matches!(l.far, FarEnd::External(_))) {
        return Err(Failure::configuration(format!(
            "the external link {} is not supported in virtual time",
            link.name
        ))
        .at(&link.source)
        .fix("remove the link, or run the lab in real time"));
    }
    Ok(setups)
}

/// Builds the plan of a fabric from a lab plan and its switches (in the order of the plan). Links to external devices
/// are left out.
///
/// # Errors
/// Fails if a host has no link, or if the port of a link does not exist.
pub(crate) fn fabric_plan_of(
    plan: &LabPlan,
    options: &LabOptions,
    switches: impl IntoIterator<Item = FabricSwitch>,
) -> Result<FabricPlan, Failure> {
    let (switches, speeds_mbps): (Vec<_>, Vec<_>) = switches.into_iter().unzip();
    let port_numbers: Vec<HashMap<&str, usize>> = switches
        .iter()
        .map(|config: &Arc<SwitchConfig>| {
            let ports = config.ports.iter().enumerate();
            ports.map(|(number, port)| (port.name.as_str(), number)).collect()
        })
        .collect();
    let port = |switch: usize, name: &str| {
        port_numbers[switch].get(name).map(|port| LinkEnd::Switch {
            switch: switch as u32,
            port: *port as u16,
        })
    };
    let mut links_of_hosts = vec![None; plan.hosts.len()];
    for (index, link) in plan.links.iter().enumerate() {
        if let FarEnd::Host(host) = link.far {
            links_of_hosts[host].get_or_insert(index);
        }
    }
    let mut flows = FlowsOfHosts::new(plan);
    let mut hosts = Vec::with_capacity(plan.hosts.len());
    for (index, host) in plan.hosts.iter().enumerate() {
        let Some(link) = links_of_hosts[index] else {
            return Err(Failure::configuration(format!("{} has no link", host.name)));
        };
        let switch = plan.links[link].switch;
        let port = port_numbers[switch].get(plan.links[link].port.as_str());
        let has_pfc = port.is_some_and(|port| switches[switch].ports[*port].pfc.enabled != 0);
        let speed_mbps = speeds_mbps[switch].get(&link).copied().unwrap_or_default();
        hosts.push(host_config(plan, options, index, speed_mbps, has_pfc, &mut flows));
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
        switches,
        hosts,
        links,
    })
}

/// Returns the longest time until a neighbour in the lab honours a pause. Presets compute the headroom from
/// this time and the port speed. The result is the sum of four times:
///
/// - the delay of the link in both directions
/// - the transmission time of a full-size frame that the port sends before the pause frame
/// - the transmission time of a full-size frame that the peer has just started
/// - the response time of IEEE 802.3 annex 31B.3.7
fn longest_pause_response(plan: &LabPlan) -> Picos {
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
