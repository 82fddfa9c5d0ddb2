//! Playing a lab: the switches forward, the hosts send, the result is reported. All of it in one process,
//! whose namespaces and cables exist already.

mod hosts;
mod switches;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::child::Lab;
use super::options::Mode;
use crate::control::{Endpoint, Target, serve};
use crate::driver::clock::{ModelClock, monotonic_ns};
use crate::driver::{Finished, Ledger, Options};
use crate::failure::{Exit, Failure};
use crate::host::runtime::{RunningHosts, drain};
use crate::report::{self, Environment, Report, StealMeter};
use crate::session::SwitchSession;

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
    let threads = usize::from(!lab.hosts.is_empty());
    let options = Options {
        epoch_ns: Some(monotonic_ns()),
        ..lab.options.driver(threads)
    };
    let setups = switches::setups(&lab, &options)?;
    let links = hosts::links(&lab.plan, &setups);
    let sessions = switches::start(&lab, setups, &options, &ledger)?;
    let clock = ModelClock::new(options.epoch_ns.unwrap_or_default(), options.dilate);
    // The hosts' thread is the last one of the first switch's allotment.
    let core = sessions.first().and_then(|s| s.cores.last().copied().flatten());
    let hosts = hosts::start(&lab, &links, &options, clock, core, &ledger)?;
    Ok(Stage {
        lab,
        sessions,
        hosts,
        ledger,
        steal,
    })
}

impl Stage {
    fn play(mut self) -> Result<Exit, Failure> {
        for note in self.sessions.iter().flat_map(|s| &s.notes) {
            eprintln!("note: {note}");
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
    fn wait_until_ready(&self) -> Result<(), Failure> {
        let begun_ns = monotonic_ns();
        let patience_ns = READY_PATIENCE.as_nanos() as u64;
        while monotonic_ns() - begun_ns < patience_ns && !self.stopping() {
            let down = switches::links_down(&self.sessions);
            let unresolved = self.hosts.as_ref().map_or(0, |hosts| hosts.progress().unresolved);
            if down.is_empty() && unresolved == 0 {
                return Ok(());
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

    fn hold(&self) -> Result<(), Failure> {
        while !self.stopping() {
            self.check_alive()?;
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn workload(&self) -> Result<(), Failure> {
        let plan = &self.lab.plan.workload;
        let Some(hosts) = self.hosts.as_ref().filter(|_| plan.duration_ns > 0) else {
            return Ok(());
        };
        let dilate = u64::from(self.lab.options.dilate.max(1));
        self.sessions
            .iter()
            .for_each(|session| session.restart_utilisation());
        hosts.start_sending();
        let begun_ns = monotonic_ns();
        while !self.stopping() {
            self.check_alive()?;
            let done_ns = (monotonic_ns() - begun_ns) / dilate;
            self.lab
                .status
                .progress(done_ns.min(plan.duration_ns), plan.duration_ns);
            if done_ns >= plan.duration_ns {
                break;
            }
            std::thread::sleep(LOOK);
        }
        let limit = Duration::from_nanos(plan.drain_ns.saturating_mul(dilate));
        let quiet = QUIET * self.lab.options.dilate.max(1);
        if !drain(&[hosts], quiet, limit.max(2 * quiet), &self.lab.stop) && !self.stopping() {
            self.ledger.taint(
                plan.duration_ns,
                "frames still arrived when the time to drain was over".to_owned(),
            );
        }
        Ok(())
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
        let finished: Vec<Finished> = self.sessions.iter().map(|session| session.stop()).collect();
        for note in finished.iter().flat_map(|finished| &finished.notes) {
            eprintln!("note: {note}");
        }
        let snapshots: Vec<_> = finished.into_iter().filter_map(|f| f.snapshot).collect();
        let flows = hosts::flow_reports(&self.lab.plan, &outcomes);
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
