//! Playing a lab: the switches forward, the hosts send, the result is reported. All of it in one process,
//! whose namespaces and cables exist already; plain hosts and guests have processes of their own below it.

pub(in crate::lab) mod guests;
mod hosts;
mod programs;
mod switches;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::child::Lab;
use super::config::switch_setups;
use super::model_hosts::flow_reports;
use super::options::Mode;
use super::plan::HostPlan;
use super::reordering;
use crate::control::{Endpoint, Target, serve};
use crate::driver::clock::{ModelClock, monotonic_ns};
use crate::driver::{Finished, Ledger, Options};
use crate::failure::{Exit, Failure};
use crate::host::runtime::{RunningHosts, drain};
use crate::report::{self, Environment, Report, StealMeter};
use crate::session::SwitchSession;
use guests::{Ended, Guest};
use programs::Programs;

/// How often the play is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// A lab whose links are not up, or whose hosts do not find each other by then, is broken.
const READY_PATIENCE: Duration = Duration::from_secs(10);
/// Model time without an arrival after which nothing is on its way any more.
const QUIET: Duration = Duration::from_millis(100);

/// A lab in motion.
struct Stage {
    lab: Lab,
    sessions: Vec<Arc<SwitchSession>>,
    hosts: Option<RunningHosts>,
    guests: Vec<Guest>,
    programs: Programs,
    ledger: Ledger,
    steal: StealMeter,
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
    let ledger = Ledger::new();
    let steal = StealMeter::start();
    let guest_threads: usize = lab
        .plan
        .hosts
        .iter()
        .filter_map(HostPlan::vm)
        .map(|vm| vm.cpus as usize)
        .sum();
    let threads = usize::from(lab.plan.model_hosts() > 0) + guest_threads;
    let options = Options {
        epoch_ns: Some(monotonic_ns()),
        ..lab.options.driver(threads, lab.plan.switches.len())
    };
    let setups = switch_setups(&lab.plan, lab.options.seed, &options)?;
    let configs: Vec<_> = setups.iter().map(|setup| &setup.loaded.resolved.config).collect();
    for warning in reordering::warnings(&lab.plan, &configs) {
        eprintln!("warning: {warning}");
    }
    let links = hosts::links(&lab.plan, &setups);
    let sessions = switches::start(&lab, setups, &options, &ledger)?;
    let clock = ModelClock::new(options.epoch_ns.unwrap_or_default(), options.dilate);
    // The model hosts' thread comes behind the first switch's workers, and the guests' behind it.
    let cores = sessions.first().map_or(&[][..], |session| &session.cores);
    let core = cores.iter().rev().nth(guest_threads).copied().flatten();
    let hosts = hosts::start(&lab, &links, &options, clock, core, &ledger)?;
    programs::hold(&lab)?;
    let guests = guests::start(&lab)?;
    Ok(Stage {
        lab,
        sessions,
        hosts,
        guests,
        programs: Programs::default(),
        ledger,
        steal,
    })
}

impl Stage {
    fn play(mut self) -> Result<Exit, Failure> {
        for note in self.sessions.iter().flat_map(|s| &s.notes) {
            eprintln!("note: {note}");
        }
        if let (Mode::Up, [first, _, ..]) = (self.lab.mode, self.lab.plan.switches.as_slice()) {
            eprintln!("note: the control socket of the lab is that of {}", first.name);
        }
        // The first switch answers for the lab.
        let server = match (self.lab.take_listener(), self.sessions.first()) {
            (Some(listener), Some(session)) => {
                let target: Arc<dyn Target> = Arc::clone(session) as Arc<_>;
                Some(serve(Endpoint::inherited(listener), target).map_err(|error| {
                    Failure::environment("the control socket cannot be served").because(error)
                })?)
            }
            _ => None,
        };
        self.wait_until_ready()?;
        self.lab.status.ready();
        self.programs = Programs::start(&self.lab)?;
        let finished = match self.lab.mode {
            Mode::Up => self.hold(),
            Mode::Run => self.workload(),
        };
        let interrupted = self.stopping();
        drop(server);
        let report = self.finish();
        if self.lab.mode == Mode::Run {
            self.lab.status.print(&report::render(&report));
        }
        if let Some(path) = &self.lab.options.report {
            report.write(path)?;
        }
        finished?;
        Ok(match (self.lab.mode, interrupted) {
            (Mode::Run, true) => Exit::Interrupted,
            (Mode::Up, _) => Exit::Ok,
            (Mode::Run, false) => report.exit(),
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
        let (duration_ns, drain_ns) = (
            self.lab.plan.workload.duration_ns,
            self.lab.plan.workload.drain_ns,
        );
        let dilate = u64::from(self.lab.options.dilate.max(1));
        self.sessions
            .iter()
            .for_each(|session| session.restart_utilisation());
        if let Some(hosts) = self.hosts.as_ref().filter(|_| duration_ns > 0) {
            hosts.start_sending();
        }
        let begun_ns = monotonic_ns();
        while !self.stopping() {
            self.look()?;
            let done_ns = (monotonic_ns() - begun_ns) / dilate;
            let busy = self.programs.are_busy() || self.guests.iter().any(Guest::is_up);
            if duration_ns > 0 {
                self.lab.status.progress(done_ns.min(duration_ns), duration_ns);
            }
            if done_ns >= duration_ns && (duration_ns > 0 || !busy) {
                break;
            }
            std::thread::sleep(LOOK);
        }
        let Some(hosts) = self.hosts.as_ref().filter(|_| duration_ns > 0) else {
            return Ok(());
        };
        let limit = Duration::from_nanos(drain_ns.saturating_mul(dilate));
        let quiet = QUIET * self.lab.options.dilate.max(1);
        if !drain(&[hosts], quiet, limit.max(2 * quiet), &self.lab.stop) && !self.stopping() {
            self.ledger.taint(
                duration_ns,
                "frames still arrived when the time to drain was over".to_owned(),
            );
        }
        Ok(())
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
        match self.hosts.as_ref().is_some_and(RunningHosts::is_dead) {
            true => dead("the hosts' thread"),
            false => Ok(()),
        }
    }

    fn finish(&mut self) -> Report {
        let outcomes = self.hosts.take().and_then(RunningHosts::stop).unwrap_or_default();
        // All at once: a switch that still runs is not to see its neighbours' links go down.
        self.sessions.iter().for_each(|session| session.tell_to_stop());
        let finished: Vec<Finished> = self.sessions.iter().map(|session| session.stop()).collect();
        for note in finished.iter().flat_map(|finished| &finished.notes) {
            eprintln!("note: {note}");
        }
        let snapshots: Vec<_> = finished.into_iter().filter_map(|f| f.snapshot).collect();
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
        report::build(
            environment,
            self.lab.options.seed,
            &snapshots,
            flows,
            self.ledger.taints(),
        )
    }
}
