//! How precisely a medium times and carries frames.

use serde::Serialize;
use xoff_units::Picos;

/// The timing class of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum TimingClass {
    /// Virtual time: all times are exact.
    #[serde(rename = "exact")]
    Exact,
    /// Real time on a link of at most 1 Gb/s. The longest pause lasts 33 ms or longer, so its length can be measured.
    #[serde(rename = "1g")]
    OneGigabit,
    /// Real time on a faster link. Pauses are too short to be measured: order and bounds are checked.
    #[serde(rename = "coarse")]
    Coarse,
}

impl TimingClass {
    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            TimingClass::Exact => "exact",
            TimingClass::OneGigabit => "1g",
            TimingClass::Coarse => "coarse",
        }
    }
}

/// Delay of a wake-up or of a frame that a check in real time tolerates. The criteria of time are extended by this
/// time. A failure during which a wake-up was later proves nothing.
pub(crate) const TOLERANCE: Picos = Picos::from_micros(200);
/// Shortest pause whose length is measured in real time: 10 000 quanta at 1 Gb/s. The permitted error of 2 % is then
/// 102 us.
const SHORTEST_MEASURED_PAUSE: Picos = Picos::from_micros(5_120);
/// Permitted error of a measured pause in real time if 2 % are less.
const MEASUREMENT_ERROR: Picos = Picos::from_micros(50);
/// Number of measurements in real time of which the median counts.
const REPETITIONS: u32 = 20;
/// Number of tolerances in the shortest window in which a rate is measured in real time. Two late wake-ups then change
/// the rate by 2 %.
const WINDOW_TOLERANCES: u64 = 100;
/// Rate in Mb/s of traffic at full rate in real time. The threads of instrument and model device stay mostly idle, so
/// they are woken in time on a busy machine.
const TRAFFIC_MBPS_MAX: u32 = 100;

/// How precisely a medium times frames, and how much traffic it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MediumTiming {
    pub(crate) class: TimingClass,
    /// Time by which the criteria of time are extended.
    pub(crate) tolerance: Picos,
    /// Permitted error of a measured pause if 2 % of it and a quantum are less.
    pub(crate) measurement_error: Picos,
    /// The shortest pause whose length is measured.
    pub(crate) shortest_measured_pause: Picos,
    /// Length of the shortest window in which a rate is measured.
    pub(crate) shortest_window: Picos,
    /// Number of measurements of which the median counts.
    pub(crate) repetitions: u32,
    /// Rate of traffic at full rate, in thousandths of the speed of the link.
    pub(crate) traffic_permille: u32,
}

impl MediumTiming {
    /// The timing of virtual time.
    pub(crate) const EXACT: MediumTiming = MediumTiming {
        class: TimingClass::Exact,
        tolerance: Picos::ZERO,
        measurement_error: Picos::ZERO,
        shortest_measured_pause: Picos::ZERO,
        shortest_window: Picos::ZERO,
        repetitions: 1,
        traffic_permille: 1_000,
    };

    /// Returns the timing of real time on a link with this speed.
    pub(crate) fn real_time(speed_mbps: u32) -> MediumTiming {
        MediumTiming {
            class: match speed_mbps {
                0..=1_000 => TimingClass::OneGigabit,
                _ => TimingClass::Coarse,
            },
            tolerance: TOLERANCE,
            measurement_error: MEASUREMENT_ERROR,
            shortest_measured_pause: SHORTEST_MEASURED_PAUSE,
            shortest_window: Picos(TOLERANCE.0 * WINDOW_TOLERANCES),
            repetitions: REPETITIONS,
            traffic_permille: (1_000 * TRAFFIC_MBPS_MAX / speed_mbps.max(1)).clamp(1, 1_000),
        }
    }

    /// Returns a share of the speed of the link for a share of the full rate, both in thousandths.
    pub(crate) fn link_share(&self, permille: u32) -> u32 {
        (permille * self.traffic_permille / 1_000).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_in_real_time_has_at_most_100_megabits() {
        for (speed_mbps, permille, class) in [
            (100, 1_000, TimingClass::OneGigabit),
            (1_000, 100, TimingClass::OneGigabit),
            (10_000, 10, TimingClass::Coarse),
            (400_000, 1, TimingClass::Coarse),
        ] {
            let timing = MediumTiming::real_time(speed_mbps);
            assert_eq!((timing.link_share(1_000), timing.class), (permille, class));
            assert_eq!(timing.link_share(1), 1, "a share is never 0");
        }
        assert_eq!(MediumTiming::EXACT.link_share(125), 125);
    }
}
