//! The PFC checks on a device model of your own, in virtual time.
//!
//!     cargo run --example conform
//!
//! The device is the model host of xoff behind a receive path that sets all bits of the enable vector. The checks find
//! this defect.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its results"
)]

use xoff_conform::{
    CheckOutcome, Counters, DeviceUnderTest, LinkFrame, ModelDevice, Operation, RunOptions, Settings,
    Unsupported, find_check, run_checks, run_checks_on,
};
use xoff_units::{LinkTiming, Picos};

/// Offset of the opcode of a MAC control frame, and of the low byte of the enable vector.
const OPCODE_AT: usize = 14;
const VECTOR_AT: usize = 17;

/// A device that pauses the classes whose enable bit is clear, too.
struct DeviceWithDefect(ModelDevice);

impl DeviceUnderTest for DeviceWithDefect {
    fn name(&self) -> String {
        "device that ignores the enable vector".to_owned()
    }

    fn mac(&self) -> [u8; 6] {
        self.0.mac()
    }

    fn receive(&mut self, now: Picos, mut frame: LinkFrame) {
        let is_pfc = frame.bytes.get(OPCODE_AT - 2..VECTOR_AT - 1) == Some(&[0x88, 0x08, 0x01, 0x01]);
        if is_pfc {
            frame.bytes[VECTOR_AT] = 0xff;
        }
        self.0.receive(now, frame);
    }

    fn transmit(&mut self, now: Picos) -> Option<LinkFrame> {
        self.0.transmit(now)
    }

    fn next_deadline(&self) -> Picos {
        self.0.next_deadline()
    }

    fn operate(&mut self, now: Picos, operation: Operation) -> Result<(), Unsupported> {
        self.0.operate(now, operation)
    }

    fn counters(&self, now: Picos) -> Result<Counters, Unsupported> {
        self.0.counters(now)
    }

    fn settings(&self, now: Picos) -> Result<Settings, Unsupported> {
        self.0.settings(now)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let link = LinkTiming::ethernet(10_000);
    let options = RunOptions {
        checks: ["A5", "A8"].into_iter().filter_map(find_check).collect(),
        ..RunOptions::new(link)
    };
    let model = run_checks(&options)?;
    let defect = run_checks_on(&options, || {
        Ok(Box::new(DeviceWithDefect(ModelDevice::new(link)?)))
    })?;
    for report in [&model, &defect] {
        println!("{}", report.device);
        for check in &report.checks {
            println!("  {} {}: {}", check.check.id, check.outcome.name(), check.detail);
        }
    }
    let outcomes = [&model, &defect].map(|report| {
        report
            .checks
            .iter()
            .map(|check| check.outcome)
            .collect::<Vec<_>>()
    });
    assert_eq!(outcomes[0], [CheckOutcome::Pass, CheckOutcome::Pass]);
    assert_eq!(outcomes[1], [CheckOutcome::Pass, CheckOutcome::Fail]);
    Ok(())
}
