//! Playing a lab: the switches forward, the hosts send, the result is reported. All of it in one process,
//! whose namespaces and cables exist already; plain hosts and guests have processes of their own below it.

pub(crate) mod guests;
mod hosts;
mod jobs;
mod programs;
mod report;
mod switches;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use xoff_units::Picos;

use super::child::Lab;
use super::config::resolve_switch_setups;
use super::model_hosts::flow_reports;
use super::notes::notes;
use super::options::LabRunMode;
use super::plan::{HostPlan, LabPlan};
use super::reordering;
use super::virtual_run::fabric_plan_of;
use crate::report::Report;
use guests::{Ended, Guest};
use jobs::JobRun;
use programs::Programs;
pub use report::RealTimeReport;
use xoff_fabric::FabricPlan;
use xoff_runtime::control::{ControlListener, ControlTarget, serve_control};
use xoff_runtime::hosts::{RunningHosts, drain_hosts};
use xoff_runtime::session::SwitchSession;
use xoff_runtime::workers::clock::{ModelClock, monotonic_ns};
use xoff_runtime::workers::{StoppedSwitch, TaintLedger, WorkerOptions};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{Environment, StealMeter};

/// How often the play is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// A lab whose links are not up, or whose hosts do not find each other by then, is broken.
const READY_PATIENCE: Duration = Duration::from_secs(10);
/// Model time without an arrival after which nothing is on its way any more.
const QUIET: Duration = Duration::from_millis(100);
/// Model time without an arrival after which jobs that are not done never will be, unless timeouts are longer.
const STANDSTILL: Duration = Duration::from_secs(10);
/// Unit of the local ACK timeout (IBTA 9.7.6.1.3), in nanoseconds.
const ACK_TIMEOUT_UNIT_NS: u64 = 4_096;

/// How long nothing may arrive while jobs are not done, in model time: longer than it takes until something is repeated.
fn standstill_ns(plan: &LabPlan) -> u64 {
    let timeouts = plan.transports.iter().map(|transport| transport.qp.ack_timeout);
    let longest_ns = ACK_TIMEOUT_UNIT_NS << timeouts.max().unwrap_or(0).min(31);
    (STANDSTILL.as_nanos() as u64).max(2 * longest_ns)
}

/// A lab in motion.
struct Stage {
    lab: Lab,
    sessions: Vec<Arc<SwitchSession>>,
    /// What it would be in virtual time: who is joined to whom.
    fabric: FabricPlan,
    hosts: Option<RunningHosts<JobRun>>,
    guests: Vec<Guest>,
    programs: Programs,
    ledger: TaintLedger,
    steal: StealMeter,
    /// Why the jobs were not waited for.
    cut_short: Option<&'static str>,
}

/// Plays the lab to its end: that of its workload, or until it is told to stop.
pub(super) fn run(lab: Lab) -> ExitCode {
    let result = raise(lab).and_then(Stage::play);
    result
        .unwrap_or_else(|failure| {
            eprintln!("{failure}");
            failure.exit
        })
        .into()
}

fn raise(lab: Lab) -> Result<Stage, Failure> {
    let ledger = TaintLedger::new();
    let steal = StealMeter::start();
    let guest_threads: usize = lab
        .plan
        .hosts
        .iter()
        .filter_map(HostPlan::vm)
        .map(|vm| vm.cpus as usize)
        .sum();
    let threads = usize::from(lab.plan.model_hosts() > 0) + guest_threads;
    let options = WorkerOptions {
        epoch_ns: Some(monotonic_ns()),
        ..lab.options.driver_options(threads, lab.plan.switches.len())
    };
    let mut setups = resolve_switch_setups(&lab.plan, lab.options.seed, &options)?;
    let configs: Vec<_> = setups.iter().map(|setup| &setup.loaded.resolved.config).collect();
    for note in notes(&lab.plan, &setups) {
        eprintln!("note: {note}");
    }
    for warning in reordering::reordering_warnings(&lab.plan, &configs) {
        eprintln!("warning: {warning}");
    }
    let fabric = fabric_plan_of(&lab.plan, &lab.options, &setups)?;
    // Sessions print the warnings of their configurations, which the notes above contain.
    for setup in &mut setups {
        setup.loaded.resolved.warnings.clear();
    }
    let links = hosts::links(&lab.plan, &setups);
    let sessions = switches::start(&lab, setups, &options, &ledger)?;
    let clock = ModelClock::new(options.epoch_ns.unwrap_or_default(), options.dilate);
    // The model hosts' thread comes behind the first switch's workers, and the guests' behind it.
    let cores = sessions.first().map_or(&[][..], |session| &session.cores);
    let core = cores.iter().rev().nth(guest_threads).copied().flatten();
    let hosts = hosts::start(&lab, &fabric, &links, &options, clock, core, &ledger)?;
    programs::hold(&lab)?;
    let guests = guests::start(&lab)?;
    Ok(Stage {
        lab,
        sessions,
        fabric,
        hosts,
        guests,
        programs: Programs::default(),
        ledger,
        steal,
        cut_short: None,
    })
}

impl Stage {
    fn play(mut self) -> Result<Exit, Failure> {
        for note in self.sessions.iter().flat_map(|s| &s.notes) {
            eprintln!("note: {note}");
        }
        if let (LabRunMode::Up, [first, _, ..]) = (self.lab.mode, self.lab.plan.switches.as_slice()) {
            eprintln!("note: the control socket of the lab is that of {}", first.name);
        }
        // The first switch answers for the lab.
        let server = match (self.lab.take_listener(), self.sessions.first()) {
            (Some(listener), Some(session)) => {
                let target: Arc<dyn ControlTarget> = Arc::clone(session) as Arc<_>;
                Some(
                    serve_control(ControlListener::inherited(listener), target).map_err(|error| {
                        Failure::environment("the control socket cannot be served").because(error)
                    })?,
                )
            }
            _ => None,
        };
        self.wait_until_ready()?;
        self.lab.status.ready();
        self.programs = Programs::start(&self.lab)?;
        let finished = match self.lab.mode {
            LabRunMode::Up => self.hold(),
            LabRunMode::Run => self.workload(),
        };
        let interrupted = self.stopping();
        drop(server);
        let report = self.finish();
        if self.lab.mode == LabRunMode::Run {
            self.lab.status.print(&crate::report::render_report(&report));
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

    fn stopping(&self) -> bool {
        self.lab.stop.load(Ordering::Relaxed)
    }

    /// Waits until every link of a host is up and every host knows the way to those it sends to.
    fn wait_until_ready(&mut self) -> Result<(), Failure> {
        let begun_ns = monotonic_ns();
        let patience_ns = READY_PATIENCE.as_nanos() as u64;
        while monotonic_ns() - begun_ns < patience_ns && !self.stopping() {
            let down = switches::links_down(&self.sessions);
            let unresolved = self.hosts.as_ref().map_or(0, |hosts| hosts.progress().unresolved);
            if down.is_empty() && unresolved == 0 {
                return Ok(());
            }
            // Later a guest may come and go; one that does not even start is a mistake.
            if let Some(ended) = self.guests.iter_mut().find_map(Guest::look) {
                return Err(ended.failure);
            }
            std::thread::sleep(LOOK);
        }
        if self.stopping() {
            return Ok(());
        }
        let down = switches::links_down(&self.sessions);
        Err(match down.is_empty() {
            false => Failure::environment(format!("the links of {} do not come up", down.join(", "))),
            true => Failure::environment("the hosts do not find each other")
                .because("their ARP requests were not answered within 10 s; the switch's configuration keeps them apart")
                .fix("look at VLAN_MEMBER and PORT in the switch's configuration"),
        })
    }

    fn hold(&mut self) -> Result<(), Failure> {
        while !self.stopping() {
            self.look()?;
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Until the workload is over; without one, until nothing runs on plain hosts and guests any more.
    fn workload(&mut self) -> Result<(), Failure> {
        let workload = &self.lab.plan.workload;
        let until_ns = self.lab.options.until_ns.unwrap_or(u64::MAX);
        let (duration_ns, drain_ns) = (workload.duration_ns.min(until_ns), workload.drain_ns);
        let dilate = u64::from(self.lab.options.dilate.max(1));
        let has_jobs = !self.lab.plan.workload.jobs.jobs.is_empty();
        let sends = duration_ns > 0 || has_jobs;
        self.sessions
            .iter()
            .for_each(|session| session.restart_utilisation());
        if let Some(hosts) = self.hosts.as_ref().filter(|_| sends) {
            hosts.start_sending();
        }
        let begun_ns = monotonic_ns();
        let mut flows_over = duration_ns == 0;
        while !self.stopping() {
            self.look()?;
            let done_ns = (monotonic_ns() - begun_ns) / dilate;
            if duration_ns > 0 {
                self.lab.status.progress(done_ns.min(duration_ns), duration_ns);
            }
            if !flows_over && done_ns >= duration_ns {
                flows_over = true;
                if let Some(hosts) = self.hosts.as_ref().filter(|_| has_jobs) {
                    hosts.stop_sending();
                }
            }
            let busy = self.programs.are_busy() || self.guests.iter().any(Guest::is_up);
            let over = match sends {
                true => flows_over && self.jobs_are_over(begun_ns, done_ns),
                false => !busy,
            };
            if over {
                break;
            }
            std::thread::sleep(LOOK);
        }
        let Some(hosts) = self.hosts.as_ref().filter(|_| sends && self.cut_short.is_none()) else {
            return Ok(());
        };
        let limit = Duration::from_nanos(drain_ns.saturating_mul(dilate));
        let quiet = QUIET * self.lab.options.dilate.max(1);
        if !drain_hosts(&[hosts], quiet, limit.max(2 * quiet), &self.lab.stop) && !self.stopping() {
            self.ledger.add_taint(
                duration_ns,
                "frames still arrived when the time to drain was over".to_owned(),
            );
        }
        Ok(())
    }

    /// Whether the jobs are done, or will not be: their time is over, or nothing moves any more.
    fn jobs_are_over(&mut self, begun_ns: u64, done_ns: u64) -> bool {
        let Some(hosts) = &self.hosts else { return true };
        let progress = hosts.progress();
        if !progress.is_working {
            return true;
        }
        let until_ns = self.lab.options.until_ns.unwrap_or(u64::MAX);
        let now_ns = monotonic_ns();
        let moved_ns = progress.last_arrival_ns.max(begun_ns);
        let dilate = u64::from(self.lab.options.dilate.max(1));
        let patience_ns = standstill_ns(&self.lab.plan).saturating_mul(dilate);
        // A pause between two iterations is none of the network's.
        let waits = (now_ns..u64::MAX).contains(&progress.next_start_ns);
        let stands_still = !waits && now_ns.saturating_sub(moved_ns) > patience_ns;
        self.cut_short = if done_ns >= until_ns {
            Some("the time limit was reached")
        } else {
            stands_still.then_some("nothing has arrived at any host for long")
        };
        self.cut_short.is_some()
    }

    /// Says which guests have died, and fails if the lab itself has.
    fn look(&mut self) -> Result<(), Failure> {
        for Ended { orderly, failure } in self.guests.iter_mut().filter_map(Guest::look) {
            // The lab goes on without it.
            match orderly {
                true => eprintln!("note: {}; {}", failure.what, failure.why.unwrap_or_default()),
                false => eprintln!("{failure}"),
            }
        }
        self.check_alive()
    }

    fn check_alive(&self) -> Result<(), Failure> {
        let dead = |what: &str| Err(Failure::environment(format!("{what} died")));
        if self.sessions.iter().any(|s| s.is_dead()) {
            return dead("the switch's worker");
        }
        match self.hosts.as_ref().is_some_and(|hosts| hosts.is_dead()) {
            true => dead("the hosts' thread"),
            false => Ok(()),
        }
    }

    fn finish(&mut self) -> Report {
        let hosts = self.hosts.take().and_then(RunningHosts::stop_with_application);
        // All at once: a switch that still runs is not to see its neighbours' links go down.
        self.sessions.iter().for_each(|session| session.request_stop());
        let finished: Vec<StoppedSwitch> = self.sessions.iter().map(|session| session.stop()).collect();
        for note in finished.iter().flat_map(|finished| &finished.notes) {
            eprintln!("note: {note}");
        }
        let snapshots: Vec<_> = finished.into_iter().filter_map(|f| f.snapshot).collect();
        let (outcomes, jobs) = hosts.unzip();
        let outcomes = outcomes.unwrap_or_default();
        let results: Vec<_> = outcomes.iter().map(|outcome| &outcome.results).collect();
        let flows = flow_reports(&self.lab.plan, &results);
        for outcome in &outcomes {
            outcome
                .notes
                .iter()
                .for_each(|note| eprintln!("note: {}: {note}", outcome.results.name));
        }
        let mut environment = Environment::read();
        environment.steal_percent = self.steal.percent();
        let (seed, taints) = (self.lab.options.seed, self.ledger.taints());
        let mut report = crate::report::build_report(environment, seed, &snapshots, flows, taints);
        if let Some(mut jobs) = jobs {
            jobs.last_at_least(Picos::from_nanos(self.lab.plan.workload.duration_ns));
            let ended = report::Ended {
                plan: &self.lab.plan,
                fabric: &self.fabric,
                dilate: self.lab.options.dilate.max(1),
                snapshots: &snapshots,
                hosts: &outcomes,
                jobs: &jobs,
            };
            ended.complete(&mut report);
            if let Some(why) = self.cut_short {
                report
                    .failures
                    .push(format!("{why}{}", super::jobs::unfinished(&jobs.jobs)));
            }
        }
        report
    }
}
