//! Devices that misbehave: the result is never PASS by accident, and never a panic.

use xoff_units::Picos;
use xoff_wire::MacControl;

use super::*;

/// How a test device differs from the model device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Misbehaviour {
    /// MAC control frames to the device are lost, as with a bridge between.
    LosesControlToDevice,
    /// MAC control frames from the device are lost.
    LosesControlFromDevice,
    /// The device sends nothing.
    Silent,
    /// The device always has a frame to send.
    Floods,
    /// The deadline of the device never advances.
    Stuck,
    /// The device resets itself after 20 ms.
    ResetsMidway,
    /// The host of the device can execute no operation, and has no counters.
    WithoutOperations,
}

struct TestDevice {
    model: ModelDevice,
    misbehaviour: Misbehaviour,
    has_reset: bool,
}

fn is_control(frame: &LinkFrame) -> bool {
    MacControl::parse(&frame.bytes).is_ok()
}

impl DeviceUnderTest for TestDevice {
    fn name(&self) -> String {
        format!("{:?}", self.misbehaviour)
    }

    fn mac(&self) -> [u8; 6] {
        self.model.mac()
    }

    fn receive(&mut self, now: Picos, frame: LinkFrame) {
        if !(self.misbehaviour == Misbehaviour::LosesControlToDevice && is_control(&frame)) {
            self.model.receive(now, frame);
        }
    }

    fn transmit(&mut self, now: Picos) -> Option<LinkFrame> {
        match self.misbehaviour {
            Misbehaviour::Silent => None,
            Misbehaviour::Floods => Some(LinkFrame::new(vec![0xff; 60])),
            Misbehaviour::LosesControlFromDevice => loop {
                let frame = self.model.transmit(now)?;
                if !is_control(&frame) {
                    return Some(frame);
                }
            },
            Misbehaviour::ResetsMidway if now >= Picos::from_millis(20) && !self.has_reset => {
                self.has_reset = true;
                self.model.operate(now, Operation::Reset).expect("a reset");
                self.model.transmit(now)
            }
            _ => self.model.transmit(now),
        }
    }

    fn next_deadline(&self) -> Picos {
        match self.misbehaviour {
            Misbehaviour::Stuck => Picos::ZERO,
            _ => self.model.next_deadline(),
        }
    }

    fn operate(&mut self, now: Picos, operation: Operation) -> Result<(), Unsupported> {
        match self.misbehaviour {
            Misbehaviour::WithoutOperations => Err(Unsupported::new("be changed")),
            _ => self.model.operate(now, operation),
        }
    }

    fn counters(&self, now: Picos) -> Result<Counters, Unsupported> {
        match self.misbehaviour {
            Misbehaviour::WithoutOperations => Err(Unsupported::new("read its counters")),
            _ => self.model.counters(now),
        }
    }

    fn settings(&self, now: Picos) -> Result<Settings, Unsupported> {
        match self.misbehaviour {
            Misbehaviour::WithoutOperations => Err(Unsupported::new("read its settings")),
            _ => self.model.settings(now),
        }
    }
}

fn run(misbehaviour: Misbehaviour, options: &RunOptions) -> RunReport {
    run_checks_on(options, || {
        Ok(Box::new(TestDevice {
            model: ModelDevice::new(options.link)?,
            misbehaviour,
            has_reset: false,
        }))
    })
    .expect("a report")
}

#[test]
fn a_link_that_swallows_mac_control_is_reported_before_any_check() {
    for (misbehaviour, direction) in [
        (Misbehaviour::LosesControlToDevice, "to the device"),
        (Misbehaviour::LosesControlFromDevice, "from the device"),
    ] {
        let report = run(misbehaviour, &RunOptions::new(GIGABIT));
        assert!(report.preflight.has_failed() && report.checks.is_empty());
        assert!(
            report.preflight.detail.starts_with(direction),
            "{}",
            report.preflight.detail
        );
        assert_eq!(
            (report.exit(), report.kselftest_exit_code()),
            (Exit::Environment, 4)
        );
        assert!(report::format_run(&report).contains("No check ran"));
        assert!(report::format_ktap(&report).contains("1..0 # SKIP"));
        assert!(report::format_junit(&report).contains("name=\"preflight\"><error"));
    }
}

#[test]
fn a_device_without_operations_skips_the_checks_with_the_reason() {
    let report = run(Misbehaviour::WithoutOperations, &RunOptions::new(GIGABIT));
    // Without traffic and without counters, only the absence of PFC can be observed.
    assert_eq!(
        (report.counts.skip, report.counts.pass),
        (42, 1),
        "{}",
        report::format_run(&report)
    );
    let skipped = &report.checks[0];
    assert_eq!(
        (skipped.outcome, skipped.detail.as_str()),
        (CheckOutcome::Skip, "the device cannot be changed")
    );
}

#[test]
fn a_silent_or_flooding_device_never_passes_a_check_of_its_traffic() {
    for misbehaviour in [Misbehaviour::Silent, Misbehaviour::Floods] {
        let report = run(misbehaviour, &RunOptions::new(GIGABIT));
        let passed = report.counts.pass;
        assert_eq!(passed, 0, "{}", report::format_run(&report));
        assert_ne!(report.exit(), Exit::Ok);
    }
}

#[test]
fn a_device_whose_deadline_never_advances_is_called_again() {
    let report = run(Misbehaviour::Stuck, &options(&["A5", "A8", "B3"]));
    // The device is called every microsecond, so its times are late by less than that.
    assert_eq!(report.counts.pass, 3, "{}", report::format_run(&report));
}

#[test]
fn a_device_that_resets_midway_fails_the_checks_that_notice() {
    let report = run(Misbehaviour::ResetsMidway, &RunOptions::new(GIGABIT));
    let outcome = |id: &str| {
        report
            .checks
            .iter()
            .find(|check| check.check.id == id)
            .map(|check| check.outcome)
    };
    for id in ["A2", "A5", "A26", "C3"] {
        assert_eq!(outcome(id), Some(CheckOutcome::Fail), "{id}");
    }
    assert_eq!(report.exit(), Exit::CheckFailed);
}
