//! Runs a lab in real time: starts the switches and hosts, runs the workload and writes the report.
//!
//! Switches and model hosts run in one process. The namespaces and network devices of the lab already exist
//! when this process starts. Plain hosts and virtual machines run in child processes.

pub(crate) mod guests;
mod hosts;
mod job_run;
mod plain_hosts;
mod processes;
mod report_builder;
mod switches;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use xoff_units::Picos;

use super::attached_lab::Lab;
use super::capacity::{Overload, find_overload};
use super::config::{SwitchSetup, resolve_switch_setups};
use super::down_ports::{describe_ports_configured_down, ports_configured_down};
use super::evidence;
use super::model_hosts::flow_reports;
use super::notes::lab_notes;
use super::options::LabRunMode;
use super::plan::{HostPlan, LabPlan};
use super::reordering;
use super::virtual_run::fabric_plan_of;
use crate::report::Report;
use guests::{Guest, GuestExit};
use job_run::JobRun;
use plain_hosts::{HostCommands, PlainHost};
use processes::LabProcesses;
use xoff_control::{ControlListener, ControlTarget, ServerHandle, ServerOptions, serve_control};
use xoff_fabric::FabricPlan;
use xoff_runtime::hosts::{RunningHosts, drain_hosts};
use xoff_runtime::session::SwitchSession;
use xoff_runtime::workers::clock::{ModelClock, monotonic_ns};
use xoff_runtime::workers::{StoppedSwitch, TaintLog, WorkerOptions};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{ControlApiReport, CpuStealMeter, Environment, SwitchSnapshot};

/// Wall time between two checks of the run.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Longest wall time until all links are up and all addresses are resolved. After this time, the lab fails.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// If no host receives a frame for this model time, no frame is in flight.
const DRAIN_QUIET_TIME: Duration = Duration::from_millis(100);
/// Longest wall time for which an interrupted run waits for frames in flight. It is short, because the user waits.
const INTERRUPTED_DRAIN_MAX: Duration = Duration::from_secs(2);
/// Unfinished jobs fail if no host receives a frame for this model time. With long ACK timeouts, twice the
/// longest ACK timeout is the limit.
const STANDSTILL_TIMEOUT: Duration = Duration::from_secs(10);
/// Unit of the local ACK timeout (IBTA 9.7.6.1.3), in nanoseconds.
const ACK_TIMEOUT_UNIT_NS: u64 = 4_096;

/// Returns the standstill timeout in nanoseconds of model time. Unfinished jobs fail if no host receives a
/// frame for this time. The timeout is longer than the time until a retransmission.
fn standstill_timeout_ns(plan: &LabPlan) -> u64 {
    let timeouts = plan.transports.iter().map(|transport| transport.qp.ack_timeout);
    let longest_ns = ACK_TIMEOUT_UNIT_NS << timeouts.max().unwrap_or(0).min(31);
    (STANDSTILL_TIMEOUT.as_nanos() as u64).max(2 * longest_ns)
}

/// A running lab in real time.
struct RealTimeRun {
    lab: Lab,
    sessions: Vec<Arc<SwitchSession>>,
    /// The nodes and links of the lab, in the same form as for a run in virtual time.
    fabric: FabricPlan,
    hosts: Option<RunningHosts<JobRun>>,
    plain_hosts: Vec<PlainHost>,
    guests: Vec<Guest>,
    commands: HostCommands,
    processes: LabProcesses,
    ledger: TaintLog,
    steal: CpuStealMeter,
    /// The reason for which the run did not wait for the end of the jobs. `None` if the run waited.
    early_end: Option<&'static str>,
    /// The model time from the start of the workload to its interruption, in nanoseconds. `None` without an
    /// interruption.
    interrupted_after_ns: Option<u64>,
}

/// Runs a lab until its workload ends or the process receives a stop request.
pub(super) fn run_lab(lab: Lab) -> ExitCode {
    let result = start_lab(lab).and_then(RealTimeRun::run);
    result
        .unwrap_or_else(|failure| {
            log::error!("{failure}");
            failure.exit
        })
        .into()
}

/// Returns the load of the workload, if it exceeds what the machine carries.
fn find_lab_overload(lab: &Lab, fabric: &FabricPlan, options: &WorkerOptions) -> Option<Overload> {
    let cores = xoff_telemetry::allowed_cpus().len();
    let budget = Picos::from_nanos(options.reaction_budget.as_nanos() as u64);
    find_overload(&lab.plan, fabric, cores, options.dilate.max(1), budget)
}

/// Starts the switches and hosts of a lab.
fn start_lab(lab: Lab) -> Result<RealTimeRun, Failure> {
    let ledger = TaintLog::new();
    let steal = CpuStealMeter::start();
    let guest_threads: usize = lab
        .plan
        .hosts
        .iter()
        .filter_map(HostPlan::as_vm)
        .map(|vm| vm.cpus as usize)
        .sum();
    let threads = usize::from(lab.plan.model_host_count() > 0) + guest_threads;
    let options = WorkerOptions {
        epoch_ns: Some(monotonic_ns()),
        ..lab.options.driver_options(threads, lab.plan.switches.len())
    };
    let mut setups = resolve_switch_setups(&lab.plan, lab.options.seed, &options)?;
    let configs: Vec<_> = setups.iter().map(|setup| &setup.loaded.resolved.config).collect();
    let fabric = fabric_plan_of(
        &lab.plan,
        &lab.options,
        setups.iter().map(SwitchSetup::to_fabric_switch),
    )?;
    let overload = match lab.mode {
        LabRunMode::Run => find_lab_overload(&lab, &fabric, &options),
        LabRunMode::Up => None,
    };
    overload
        .iter()
        .for_each(|overload| log::info!("{}", overload.describe()));
    for note in lab_notes(&lab.plan, &setups) {
        // The note above proposes a dilation for the whole lab.
        if overload.is_none() || !xoff_config::proposes_dilation(&note) {
            log::info!("{note}");
        }
    }
    for warning in reordering::reordering_warnings(&lab.plan, &configs) {
        log::warn!("{warning}");
    }
    // A session prints the warnings of its configuration. The notes above contain them already.
    for setup in &mut setups {
        setup.loaded.resolved.warnings.clear();
    }
    let sessions = switches::start_switches(&lab, setups, &options, &ledger)?;
    let clock = ModelClock::new(options.epoch_ns.unwrap_or_default(), options.dilate);
    // The thread of the model hosts gets the core after the workers of the first switch. The virtual machines
    // get the next cores.
    let cores = sessions.first().map_or(&[][..], |session| &session.cores);
    let core = cores.iter().rev().nth(guest_threads).copied().flatten();
    let hosts = hosts::start_model_hosts(&lab, &fabric, &options, clock, core, &ledger)?;
    let processes = LabProcesses::new()
        .map_err(|error| Failure::environment("the processes of the lab cannot be watched").because(error))?;
    let plain_hosts = plain_hosts::start_plain_hosts(&lab, &processes)?;
    let guests = guests::start_guests(&lab, &processes)?;
    Ok(RealTimeRun {
        lab,
        sessions,
        fabric,
        hosts,
        plain_hosts,
        guests,
        commands: HostCommands::default(),
        processes,
        ledger,
        steal,
        early_end: None,
        interrupted_after_ns: None,
    })
}

impl RealTimeRun {
    /// Runs the workload and writes the report.
    fn run(mut self) -> Result<Exit, Failure> {
        for note in self.sessions.iter().flat_map(|s| &s.notes) {
            log::info!("{note}");
        }
        let server = self.serve_control_api()?;
        self.wait_until_ready()?;
        self.lab.status.report_ready();
        self.processes.set_workload_start(self.lab.options.dilate);
        self.commands = HostCommands::start(&self.lab, &self.processes)?;
        let finished = match self.lab.mode {
            LabRunMode::Up => self.wait_for_stop(),
            LabRunMode::Run => self.run_workload(),
        };
        let interrupted = self.is_stopping();
        let control_api = server.map(ServerHandle::stop);
        let report = self.stop_and_report(control_api);
        if self.lab.mode == LabRunMode::Run {
            self.lab.status.print_result(&match self.lab.options.prints_json {
                true => report.to_json(),
                false => crate::report::render_report(&report),
            });
        }
        if let Some(path) = &self.lab.options.report {
            report.write(path)?;
        }
        finished?;
        Ok(match (self.lab.mode, interrupted) {
            (LabRunMode::Run, true) => Exit::Interrupted,
            (LabRunMode::Up, _) => Exit::Ok,
            (LabRunMode::Run, false) => report.exit(),
        })
    }

    /// Starts the server of the control API. One server serves all switches of the lab.
    fn serve_control_api(&mut self) -> Result<Option<ServerHandle>, Failure> {
        let Some(listener) = self.lab.take_listener() else {
            return Ok(None);
        };
        let target =
            |session: &Arc<SwitchSession>| -> Arc<dyn ControlTarget> { Arc::clone(session) as Arc<_> };
        let worker_cores = self
            .sessions
            .iter()
            .flat_map(|session| session.cores.iter().copied().flatten());
        let options = ServerOptions {
            tcp: None,
            worker_cores: worker_cores.collect(),
        };
        let targets = self.sessions.iter().map(target).collect();
        serve_control(ControlListener::inherited(listener), targets, options).map(Some)
    }

    fn is_stopping(&self) -> bool {
        self.lab.stop.load(Ordering::Relaxed)
    }

    /// Waits until all links with a device are up and all hosts have resolved the addresses of
    /// their receivers.
    ///
    /// # Errors
    /// Fails after [`READY_TIMEOUT`], or if a virtual machine ends.
    fn wait_until_ready(&mut self) -> Result<(), Failure> {
        let start_ns = monotonic_ns();
        let timeout_ns = READY_TIMEOUT.as_nanos() as u64;
        while monotonic_ns() - start_ns < timeout_ns && !self.is_stopping() {
            let down = switches::ports_without_carrier(&self.sessions, &self.fabric);
            let unresolved = self.hosts.as_ref().map_or(0, |hosts| hosts.progress().unresolved);
            if down.is_empty() && unresolved == 0 {
                return Ok(());
            }
            // A virtual machine may end during the run, but an end before the run is a failure.
            if let Some(exit) = self.guests.iter_mut().find_map(Guest::poll_exit) {
                return Err(exit.failure);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        if self.is_stopping() {
            return Ok(());
        }
        let down = switches::ports_without_carrier(&self.sessions, &self.fabric);
        if !down.is_empty() {
            let what = format!("the links of {} do not come up", down.join(", "));
            return Err(Failure::environment(what).fix("set the other ends of the links up"));
        }
        let failure = Failure::configuration("the hosts cannot resolve the addresses of each other");
        Err(match &ports_configured_down(&self.fabric)[..] {
            [] => failure
                .because(
                    "their ARP requests were not answered within 10 s; the configuration of the switch separates them",
                )
                .fix("check VLAN_MEMBER and PORT in the configuration of the switch"),
            ports => failure
                .because(describe_ports_configured_down(ports))
                .fix("set PORT.admin_status to up, or remove the flows and jobs of the hosts behind these ports"),
        })
    }

    /// Checks the lab until it gets a stop request.
    fn wait_for_stop(&mut self) -> Result<(), Failure> {
        while !self.is_stopping() {
            self.check_processes()?;
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Runs the workload to its end. Without a workload, waits until the commands of all plain hosts and all
    /// virtual machines have ended.
    fn run_workload(&mut self) -> Result<(), Failure> {
        let workload = &self.lab.plan.workload;
        let until_ns = self.lab.options.until_ns.unwrap_or(u64::MAX);
        let (duration_ns, drain_ns) = (workload.duration_ns.min(until_ns), workload.drain_ns);
        let dilate = u64::from(self.lab.options.dilate.max(1));
        let has_jobs = !self.lab.plan.workload.jobs.jobs.is_empty();
        let has_traffic = duration_ns > 0 || has_jobs;
        self.sessions
            .iter()
            .for_each(|session| session.restart_utilisation());
        let hosts = self.hosts.as_ref().filter(|_| has_traffic && !self.is_stopping());
        hosts.into_iter().for_each(|hosts| hosts.start_sending());
        let start_ns = monotonic_ns();
        let mut flows_stopped = duration_ns == 0;
        while !self.is_stopping() {
            self.check_processes()?;
            let elapsed_ns = (monotonic_ns() - start_ns) / dilate;
            if duration_ns > 0 {
                self.lab
                    .status
                    .report_progress(elapsed_ns.min(duration_ns), duration_ns);
            }
            if !flows_stopped && elapsed_ns >= duration_ns {
                flows_stopped = true;
                if let Some(hosts) = self.hosts.as_ref().filter(|_| has_jobs) {
                    hosts.stop_sending();
                }
            }
            let is_busy = self.commands.are_running() || self.guests.iter().any(Guest::is_running);
            let is_over = match has_traffic {
                true => flows_stopped && self.are_jobs_over(start_ns, elapsed_ns),
                false => !is_busy,
            };
            if is_over {
                break;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        let elapsed_ns = (monotonic_ns() - start_ns) / dilate;
        if has_traffic && self.early_end.is_none() {
            let drain_limit = Duration::from_nanos(drain_ns.saturating_mul(dilate));
            self.wait_for_frames_in_flight(duration_ns, drain_limit);
        }
        self.interrupted_after_ns = self.is_stopping().then_some(elapsed_ns);
        Ok(())
    }

    /// Waits until no frame arrives at the hosts, so that frames in flight do not count as lost. Adds a taint after
    /// `duration_ns` of model time if frames still arrive at the end of `drain_limit` of wall time.
    ///
    /// Waits for [`INTERRUPTED_DRAIN_MAX`] at most after an interruption.
    fn wait_for_frames_in_flight(&self, duration_ns: u64, drain_limit: Duration) {
        let Some(hosts) = &self.hosts else { return };
        let quiet_time = DRAIN_QUIET_TIME * self.lab.options.dilate.max(1);
        if !self.is_stopping() {
            let limit = drain_limit.max(2 * quiet_time);
            if drain_hosts(&[hosts], quiet_time, limit, &self.lab.stop) {
                return;
            }
            if !self.is_stopping() {
                let what = "frames still arrived at the end of the drain time";
                self.ledger.add_taint(duration_ns, what.to_owned());
                return;
            }
        }
        // The request to stop has set `lab.stop`. A second request ends the lab at once.
        drain_hosts(
            &[hosts],
            quiet_time,
            INTERRUPTED_DRAIN_MAX,
            &AtomicBool::new(false),
        );
    }

    /// Returns whether the jobs are over: all jobs are finished, the time limit is reached, or no frame has
    /// arrived for the standstill timeout.
    fn are_jobs_over(&mut self, start_ns: u64, elapsed_ns: u64) -> bool {
        let Some(hosts) = &self.hosts else { return true };
        let progress = hosts.progress();
        if !progress.is_working {
            return true;
        }
        let until_ns = self.lab.options.until_ns.unwrap_or(u64::MAX);
        let now_ns = monotonic_ns();
        let last_arrival_ns = progress.last_arrival_ns.max(start_ns);
        let dilate = u64::from(self.lab.options.dilate.max(1));
        let timeout_ns = standstill_timeout_ns(&self.lab.plan).saturating_mul(dilate);
        // A gap between two iterations is not a standstill.
        let waits_for_start = (now_ns..u64::MAX).contains(&progress.next_start_ns);
        let is_standstill = !waits_for_start && now_ns.saturating_sub(last_arrival_ns) > timeout_ns;
        self.early_end = if elapsed_ns >= until_ns {
            Some("the time limit was reached")
        } else {
            is_standstill.then_some("no frame has arrived at any host for a long time")
        };
        self.early_end.is_some()
    }

    /// Logs and records the ends of processes. Also sets the MTUs of ports whose devices have appeared again.
    ///
    /// # Errors
    /// Fails if a thread of a switch or of the hosts has died.
    fn check_processes(&mut self) -> Result<(), Failure> {
        self.sessions
            .iter()
            .for_each(|session| session.follow_device_mtus());
        self.record_ended_processes();
        self.check_threads()
    }

    fn record_ended_processes(&mut self) {
        for exit in self.guests.iter_mut().filter_map(Guest::poll_exit) {
            let GuestExit {
                name,
                status,
                is_orderly,
                failure,
            } = exit;
            self.processes.end_child(&name, "qemu", status);
            // The lab continues without the virtual machine.
            match is_orderly {
                true => log::info!("{}; {}", failure.what, failure.why.unwrap_or_default()),
                false => log::error!("{failure}"),
            }
        }
        for (name, status) in self.plain_hosts.iter_mut().filter_map(PlainHost::poll_exit) {
            let what = format!("the process of the plain host {name} ended with {status}");
            let failure = Failure::environment(what)
                .because("a user killed it, or the machine ran out of memory (see `dmesg`)")
                .fix("the lab continues, but `xoff lab exec` cannot enter the host: start the lab again");
            log::error!("{failure}");
            // The report of `lab run` contains the process. A lab without a report has only its taints.
            if self.lab.mode == LabRunMode::Up {
                let snapshot = self.sessions.first().and_then(|session| session.snapshot());
                let since_ns = snapshot.map_or(0, |snapshot| snapshot.report.model_time_ns);
                let cause = format!("the process of the plain host {name} ended ({status})");
                self.ledger.add_taint(since_ns, cause);
            }
            self.processes.end_child(name, "host", status);
        }
        self.processes.reap_background_processes();
    }

    fn check_threads(&self) -> Result<(), Failure> {
        let died = |thread: &str| Err(Failure::environment(format!("{thread} died")));
        if self.sessions.iter().any(|s| s.is_dead()) {
            return died("the switch worker");
        }
        match self.hosts.as_ref().is_some_and(|hosts| hosts.is_dead()) {
            true => died("the thread of the hosts"),
            false => Ok(()),
        }
    }

    /// Stops the hosts and switches, and builds the report.
    fn stop_and_report(&mut self, control_api: Option<ControlApiReport>) -> Report {
        // Processes that end later are stopped by the lab.
        self.record_ended_processes();
        let processes = self.processes.take_ended();
        let hosts = self.hosts.take().and_then(RunningHosts::stop_with_application);
        // All switches stop together. Otherwise a running switch would see the links to its stopped
        // neighbours go down.
        self.sessions.iter().for_each(|session| session.request_stop());
        let finished: Vec<StoppedSwitch> = self.sessions.iter().map(|session| session.stop()).collect();
        for note in finished.iter().flat_map(|finished| &finished.notes) {
            log::info!("{note}");
        }
        let switches = finished.into_iter().filter_map(|finished| finished.snapshot);
        let switches = switches.map(SwitchSnapshot::into_report).collect();
        let (outcomes, job_run) = hosts.unzip();
        let outcomes = outcomes.unwrap_or_default();
        let results: Vec<_> = outcomes.iter().map(|outcome| &outcome.results).collect();
        let flows = flow_reports(&self.lab.plan, &results);
        for outcome in &outcomes {
            outcome
                .notes
                .iter()
                .for_each(|note| log::info!("{}: {note}", outcome.results.name));
        }
        let mut environment = Environment::read();
        environment.steal_percent = self.steal.percent();
        environment.control_api = control_api;
        let (seed, taints) = (self.lab.options.seed, self.ledger.taints());
        let mut report = crate::report::build_report(environment, seed, switches, flows, taints);
        let mut unfinished_jobs = String::new();
        if let Some(mut job_run) = job_run {
            job_run.extend_to_flows_end(Picos::from_nanos(self.lab.plan.workload.duration_ns));
            let end_state = report_builder::FinishedLabState {
                plan: &self.lab.plan,
                fabric: &self.fabric,
                dilate: self.lab.options.dilate.max(1),
                hosts: &outcomes,
                job_run: &job_run,
            };
            end_state.add_results_to_report(&mut report);
            unfinished_jobs = super::jobs::describe_unfinished_jobs(&self.lab.plan, &job_run.jobs);
            if let Some(why) = self.early_end {
                report.failures.push(format!("{why}{unfinished_jobs}"));
            }
        }
        if let Some(after_ns) = self.interrupted_after_ns {
            let text = super::jobs::describe_interruption(after_ns, &unfinished_jobs);
            report.failures.push(text);
        }
        report.add_processes(processes);
        let losses = self
            .plain_hosts
            .iter_mut()
            .filter_map(PlainHost::take_send_losses);
        report.plain_hosts = losses.collect();
        evidence::judge(&mut report, &self.lab.plan, &self.fabric);
        report
    }
}
