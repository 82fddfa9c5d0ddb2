//! Checks in real time, on a simulated port with a simulated clock.

use xoff_units::Picos;
use xoff_wire::MacControl;

use super::*;
use crate::link_frame::Defect;

/// How a simulated port and its far host differ from good ones.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    /// Longest time by which a wait is too long.
    oversleep: Picos,
    /// Length of a stall of the far host every 7 ms.
    far_stall: Picos,
    /// MAC control frames to the device are lost, as with a bridge between.
    loses_control: bool,
    /// The device sends a frame every microsecond.
    floods: bool,
    /// The device sends nothing.
    is_silent: bool,
    has_no_far_host: bool,
    /// The user interrupts the run at this time.
    interrupted_at: Option<Picos>,
    /// The port is removed at this time.
    removed_at: Option<Picos>,
}

/// A port whose clock advances by a microsecond each time it is read.
#[derive(Debug, Default)]
struct SimulatedPort {
    now: Picos,
    device: ServedDevice,
    arrived: Vec<ArrivedFrame>,
    /// Frames that the far host has not processed.
    to_device: Vec<ArrivedFrame>,
    reply: Option<FarHostReply>,
    faults: Faults,
    random: u64,
}

impl SimulatedPort {
    fn new(faults: Faults) -> SimulatedPort {
        SimulatedPort {
            faults,
            random: 1,
            ..SimulatedPort::default()
        }
    }

    /// Advances the clock. Frames of the device arrive at their times, or when the far host runs again.
    fn advance(&mut self, until: Picos) {
        self.now = self.now.max(until);
        if self.faults.floods {
            self.arrived.push(ArrivedFrame {
                at: self.now,
                bytes: MacControl::Pause { quanta: 1 }.to_frame([2; 6]).to_vec(),
            });
        }
        if self.now.0 % Picos::from_millis(7).0 < self.faults.far_stall.0 {
            return;
        }
        let (now, faults) = (self.now, self.faults);
        let mut sent = Vec::new();
        let mut send = |at: Picos, bytes: &[u8]| sent.push((at, bytes.to_vec()));
        for frame in self.to_device.drain(..) {
            self.device.receive(frame.at, &frame.bytes, &mut send);
        }
        self.device.advance(now, &mut send);
        for (at, bytes) in sent {
            let is_late = faults.far_stall > Picos::ZERO;
            self.device.note_delay(now, now.since(at));
            if !faults.is_silent {
                let at = if is_late { now } else { at };
                self.arrived.push(ArrivedFrame { at, bytes });
            }
        }
    }

    fn oversleep(&mut self) -> Picos {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        Picos(self.faults.oversleep.0 / 1_000 * (self.random >> 33) % 1_000)
    }
}

impl PortAccess for SimulatedPort {
    fn now(&mut self) -> Picos {
        self.advance(self.now + Picos::from_micros(1));
        self.now
    }

    fn receive(&mut self, frames: &mut Vec<ArrivedFrame>) -> Result<(), String> {
        frames.append(&mut self.arrived);
        match self.faults.removed_at {
            Some(at) if self.now >= at => Err("the device p0 was removed".to_owned()),
            _ => Ok(()),
        }
    }

    fn send(&mut self, frame: &[u8]) -> Result<Picos, String> {
        if !(self.faults.loses_control && MacControl::parse(frame).is_ok()) {
            self.to_device.push(ArrivedFrame {
                at: self.now,
                bytes: frame.to_vec(),
            });
        }
        Ok(self.now)
    }

    fn wait(&mut self, until: Picos) {
        let step = Picos::from_micros(20);
        while self.now < until && self.arrived.is_empty() {
            let next = match self.faults.far_stall > Picos::ZERO {
                true => self.now + step,
                false => self.device.next_deadline().max(self.now),
            };
            self.advance(next.min(until));
        }
        let late = self.oversleep();
        self.advance(self.now + late);
    }

    fn carries(&self, defect: Defect) -> bool {
        defect == Defect::Runt
    }

    fn count_lost_frames(&mut self) -> u64 {
        0
    }

    fn is_interrupted(&self) -> bool {
        self.faults.interrupted_at.is_some_and(|at| self.now >= at)
    }

    fn has_far_host(&self) -> bool {
        !self.faults.has_no_far_host
    }

    fn send_request(&mut self, request: &FarHostRequest) -> Result<(), String> {
        assert!(!self.is_interrupted(), "a request after an interruption");
        let line = serde_json::to_string(request).expect("JSON");
        let request = serde_json::from_str(&line).expect("a request");
        self.advance(self.now);
        let reply = self.device.execute(self.now, request);
        self.reply = Some(reply);
        Ok(())
    }

    fn receive_reply(&mut self) -> Result<Option<FarHostReply>, String> {
        Ok(self.reply.take())
    }
}

fn run(faults: Faults, options: &RunOptions) -> Result<RunReport, PortRunError> {
    run_checks_on_port(options, &mut SimulatedPort::new(faults), None, |_| ())
}

fn outcome(report: &RunReport, id: &str) -> CheckOutcome {
    let check = report.checks.iter().find(|check| check.check.id == id);
    check.expect("a check that ran").outcome
}

#[test]
fn the_model_device_passes_all_checks_that_the_port_carries() {
    let faults = Faults {
        oversleep: Picos::from_micros(120),
        ..Faults::default()
    };
    let report = run(faults, &RunOptions::new(GIGABIT)).expect("a run");
    let counts = report.counts;
    assert_eq!(
        (counts.pass, counts.skip, counts.info),
        (38, 1, 4),
        "{}",
        report::format_run(&report)
    );
    assert_eq!(outcome(&report, "A17"), CheckOutcome::Skip);
    assert_eq!(
        (report.timing, report.exit()),
        (TimingClass::OneGigabit, Exit::Ok)
    );
}

#[test]
fn mutants_are_detected_in_real_time() {
    for (name, check) in [
        ("resumes-late", "A5"),
        ("resumes-early", "A5"),
        ("adds-timers", "A6"),
        ("seven-classes", "A3"),
        ("only-64-bytes", "A17"),
        ("loses-back-to-back", "A21"),
        ("tagged-pfc", "B3"),
        ("loses-at-toggle", "C3"),
        ("ignores-trust", "C6"),
    ] {
        let options = RunOptions {
            mutant: Some(mutant(name)),
            ..options(&[check])
        };
        let report = run(Faults::default(), &options).expect("a run");
        let found = outcome(&report, check);
        assert_eq!(found, CheckOutcome::Fail, "{}", report::format_run(&report));
        assert_eq!(report.checks[0].attempts, 2, "a failure is repeated");
    }
}

#[test]
fn stalls_of_the_far_host_never_fail_a_check() {
    let faults = Faults {
        far_stall: Picos::from_millis(3),
        ..Faults::default()
    };
    let report = run(
        faults,
        &options(&["A1", "A2", "A3", "A4", "A5", "A6", "A7", "A21", "B1", "B6"]),
    )
    .expect("a run");
    assert_eq!(report.counts.fail, 0, "{}", report::format_run(&report));
    assert!(report.counts.inconclusive > 0, "{}", report::format_run(&report));
    let noisy = report
        .checks
        .iter()
        .find(|check| check.outcome == CheckOutcome::Inconclusive);
    let detail = &noisy.expect("a noisy check").detail;
    assert!(detail.contains("the delays of the far host are"), "{detail}");
}

#[test]
fn a_port_that_swallows_mac_control_ends_the_run_before_the_checks() {
    let faults = Faults {
        loses_control: true,
        ..Faults::default()
    };
    let report = run(faults, &RunOptions::new(GIGABIT)).expect("a run");
    assert!(report.preflight.has_failed() && report.checks.is_empty());
    assert_eq!(report.exit(), Exit::Environment);
}

#[test]
fn silent_and_flooding_devices_never_pass() {
    for faults in [
        Faults {
            is_silent: true,
            ..Faults::default()
        },
        Faults {
            floods: true,
            is_silent: true,
            ..Faults::default()
        },
    ] {
        let report = run(faults, &options(&["A1", "A5", "B3", "B11", "C5"])).expect("a run");
        assert_eq!(report.counts.pass, 0, "{}", report::format_run(&report));
        assert_ne!(report.exit(), Exit::Ok);
    }
}

#[test]
fn an_interrupted_run_reports_the_checks_before() {
    let faults = Faults {
        interrupted_at: Some(Picos::from_millis(400)),
        ..Faults::default()
    };
    let report = run(faults, &RunOptions::new(GIGABIT)).expect("a run");
    assert!(report.is_interrupted && !report.checks.is_empty());
    assert!(report.checks.len() < 43);
    assert_eq!(report.exit(), Exit::Interrupted);
    assert!(report::format_run(&report).contains("interrupted after"));
    assert!(report::format_ktap(&report).contains("Bail out!"));
    let at_once = Faults {
        interrupted_at: Some(Picos::ZERO),
        ..Faults::default()
    };
    let report = run(at_once, &RunOptions::new(GIGABIT)).expect("a run");
    assert!(report.is_interrupted && report.checks.is_empty());
}

#[test]
fn a_port_that_is_removed_before_the_checks_ends_the_run() {
    let faults = Faults {
        removed_at: Some(Picos::from_millis(20)),
        ..Faults::default()
    };
    match run(faults, &options(&["A1", "A2"])) {
        Err(PortRunError::Environment(reason)) => assert!(reason.contains("removed"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_port_that_is_removed_during_the_checks_keeps_the_results_before() {
    let faults = Faults {
        removed_at: Some(Picos::from_millis(300)),
        ..Faults::default()
    };
    let report = run(faults, &RunOptions::new(GIGABIT)).expect("a report of the checks before");
    let (last, before) = report.checks.split_last().expect("checks");
    assert_eq!(last.outcome, CheckOutcome::Inconclusive);
    assert!(!before.is_empty() && before.iter().all(|check| check.outcome == CheckOutcome::Pass));
    assert!(!report.is_interrupted && report.checks.len() < 43);
    assert_eq!(report.exit(), Exit::Environment);
    assert!(report::format_run(&report).contains("ended early: the device p0 was removed"));
}

#[test]
fn without_a_far_host_checks_are_skipped_with_the_reason() {
    let faults = Faults {
        has_no_far_host: true,
        ..Faults::default()
    };
    let report = run(faults, &RunOptions::new(GIGABIT)).expect("a run");
    assert_eq!((report.counts.skip, report.counts.pass), (42, 1));
    let detail = &report.checks[0].detail;
    assert!(detail.contains("--adapter"), "{detail}");
    assert_eq!(
        report.exit(),
        Exit::Inconclusive,
        "nothing shows that there is a device"
    );
    assert!(report::format_run(&report).contains("proves nothing"));
}

#[test]
fn pauses_at_10_gigabits_are_too_short_to_be_measured() {
    let options = RunOptions {
        link: LinkTiming::ethernet(10_000),
        ..options(&["A5", "A8", "B3"])
    };
    let report = run(Faults::default(), &options).expect("a run");
    assert_eq!(report.timing, TimingClass::Coarse);
    assert_eq!(outcome(&report, "A5"), CheckOutcome::Inconclusive);
    assert!(
        report.checks[0].detail.contains("too short") || report.checks[0].detail.contains("longest pause")
    );
    assert_eq!(outcome(&report, "B3"), CheckOutcome::Pass);
}
