//! The checks.

mod configuration;
mod congestion;
mod dcbx;
mod frames;
mod generation;
pub(crate) mod preflight_steps;
mod reception;
mod traffic;

use xoff_units::{LinkTiming, Picos};

use crate::check::Check;
use crate::step::{Step, Stop, TimeMeasurement};

/// All checks in the order of their identifiers.
pub static CHECKS: &[&Check] = &[
    &reception::enable_vector::A1,
    &reception::enable_vector::A2,
    &reception::enable_vector::A3,
    &reception::enable_vector::A4,
    &reception::timer::A5,
    &reception::timer::A6,
    &reception::timer::A7,
    &reception::enable_vector::A8,
    &reception::enable_vector::A9,
    &reception::pause_mode::A10,
    &reception::pause_mode::A11,
    &reception::pause_mode::A12,
    &reception::pause_mode::A13,
    &reception::transitions::A14,
    &reception::pause_mode::A15,
    &reception::frame_format::A16,
    &reception::frame_format::A17,
    &reception::frame_format::A18,
    &reception::frame_format::A19,
    &reception::frame_format::A20,
    &reception::timer::A21,
    &reception::timer::A22,
    &reception::transitions::A23,
    &reception::full_duplex::A24,
    &reception::pause_mode::A25,
    &reception::transitions::A26,
    &generation::B1,
    &generation::B2,
    &generation::B3,
    &generation::B4,
    &generation::B5,
    &generation::B6,
    &generation::B7,
    &generation::B8,
    &generation::B9,
    &generation::B10,
    &generation::B11,
    &dcbx::C1,
    &dcbx::C2,
    &configuration::C3,
    &configuration::C4,
    &configuration::C5,
    &configuration::C6,
];

/// Returns the check with an identifier. Letter case is ignored.
pub fn find_check(id: &str) -> Option<&'static Check> {
    CHECKS
        .iter()
        .copied()
        .find(|check| check.id.eq_ignore_ascii_case(id))
}

/// Ends a check with FAIL unless the device meets a condition. `problem` describes what the device did.
fn require(is_met: bool, problem: impl FnOnce() -> String) -> Step {
    match is_met {
        true => Ok(()),
        false => Err(Stop::Fail(problem())),
    }
}

/// Ends a check with FAIL unless the device meets a criterion of time between `from` and `until`. `excess` is the time
/// by which it misses the criterion.
fn require_in_time(
    is_met: bool,
    [from, until]: [Picos; 2],
    excess: Picos,
    problem: impl FnOnce() -> String,
) -> Step {
    match is_met {
        true => Ok(()),
        false => Err(Stop::FailInTime {
            reason: problem(),
            measurement: TimeMeasurement { from, until, excess },
        }),
    }
}

/// Returns a share of a span of time.
fn share_of(span: Picos, share: f64) -> Picos {
    Picos((span.0 as f64 * share.clamp(0.0, 1.0)) as u64)
}

/// Formats a span of time with its pause quanta, such as `51.2 us (100.0 quanta)`.
fn format_span(span: Picos, link: &LinkTiming) -> String {
    let quanta = span.0 as f64 / link.pause_duration(u16::MAX).0 as f64 * f64::from(u16::MAX);
    let time = match span.0 {
        0..10_000_000 => format!("{} ns", span.0 as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.3} us", span.0 as f64 / 1e6),
        _ => format!("{:.3} ms", span.0 as f64 / 1e9),
    };
    format!("{time} (quanta: {quanta:.1})")
}
