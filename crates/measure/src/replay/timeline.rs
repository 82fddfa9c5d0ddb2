//! When the frames of a capture arrive, in model time.

use xoff_units::Picos;

use super::player::Pace;

/// Longest time between two frames that is kept. A longer one separates captures rather than frames of one.
const GAP_NS_MAX: i128 = 3_600_000_000_000;
/// What a longer one is cut to.
const CUT_GAP_NS: u128 = 1_000_000_000;
/// The last half of model time is left to what happens after the last arrival.
const ARRIVAL_MAX: Picos = Picos(u64::MAX / 2);

/// The arrival of a frame would lie beyond the end of model time: so many days after the first frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BeyondModelTime {
    pub(super) days: u64,
}

/// Turns time stamps into arrival times that never decrease.
#[derive(Debug)]
pub(super) struct Timeline {
    pace: Pace,
    /// The stamp that the next one is compared with; `None` before the first stamp.
    previous_ns: Option<i64>,
    /// Time of the capture since its first stamp, with gaps cut.
    elapsed_ns: u128,
    latest: Picos,
    /// Frames that were stamped before an earlier frame, by an hour at most.
    pub(super) disordered: u64,
    /// Gaps that were cut, whether the stamps went forwards or back.
    pub(super) gaps_cut: u64,
}

impl Timeline {
    /// Model time 0 is `first_ns`, or the first stamp there is.
    pub(super) fn new(pace: Pace, first_ns: Option<i64>) -> Timeline {
        Timeline {
            pace,
            previous_ns: first_ns,
            elapsed_ns: 0,
            latest: Picos::ZERO,
            disordered: 0,
            gaps_cut: 0,
        }
    }

    /// The arrival time of the next frame. A frame without a stamp, or with one before that of an earlier frame, arrives as soon as
    /// it can.
    pub(super) fn arrival(&mut self, at_ns: Option<i64>) -> Result<Picos, BeyondModelTime> {
        let Pace::Captured(faster, by) = self.pace else {
            return Ok(Picos::ZERO);
        };
        let Some(at_ns) = at_ns else {
            return Ok(self.latest);
        };
        let step_ns = i128::from(at_ns) - i128::from(self.previous_ns.unwrap_or(at_ns));
        if (-GAP_NS_MAX..0).contains(&step_ns) {
            self.disordered += 1;
            return Ok(self.latest);
        }
        self.previous_ns = Some(at_ns);
        let scaled = |elapsed_ns: u128| {
            let ps = elapsed_ns.saturating_mul(1_000 * u128::from(by)) / u128::from(faster.max(1));
            u64::try_from(ps).ok().map(Picos).filter(|at| *at <= ARRIVAL_MAX)
        };
        let cut = self.elapsed_ns + CUT_GAP_NS;
        let kept =
            u128::try_from(step_ns).map_or(u128::MAX, |step_ns| self.elapsed_ns.saturating_add(step_ns));
        // Gaps of less than an hour are cut too once half of the model time is used up, so that the capture fits.
        let is_late = scaled(kept).is_none_or(|at| at > Picos(ARRIVAL_MAX.0 / 2));
        let elapsed_ns = match kept <= cut || !is_late && step_ns > 0 && step_ns <= GAP_NS_MAX {
            true => kept,
            false => {
                self.gaps_cut += 1;
                cut
            }
        };
        let at = scaled(elapsed_ns).ok_or(BeyondModelTime {
            days: (elapsed_ns / 86_400_000_000_000) as u64,
        })?;
        self.elapsed_ns = elapsed_ns;
        self.latest = at;
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;
    const HOUR: i64 = 3_600 * S;

    fn arrivals_ns(stamps: &[Option<i64>]) -> (Vec<u64>, Timeline) {
        let mut timeline = Timeline::new(Pace::Captured(1, 1), stamps.iter().find_map(|stamp| *stamp));
        let arrivals = stamps
            .iter()
            .map(|stamp| timeline.arrival(*stamp).unwrap().as_nanos());
        (arrivals.collect(), timeline)
    }

    #[test]
    fn time_counts_from_the_first_stamp_and_frames_without_one_arrive_with_the_frame_before() {
        let (at, timeline) = arrivals_ns(&[None, Some(50 * S), None, Some(50 * S + 7)]);
        assert_eq!(at, [0, 0, 0, 7]);
        assert_eq!((timeline.disordered, timeline.gaps_cut), (0, 0));
    }

    #[test]
    fn gaps_over_an_hour_are_cut_whichever_way_the_stamps_go() {
        let s = S as u64;
        let year = 365 * 24 * HOUR;
        let stamps = [0, HOUR, 2 * HOUR + 1, 2 * HOUR + 8, year, 5, 10].map(Some);
        let (at, timeline) = arrivals_ns(&stamps);
        let hour = HOUR as u64;
        assert_eq!(
            at,
            [
                0,
                hour,
                hour + s,
                hour + s + 7,
                hour + 2 * s + 7,
                hour + 3 * s + 7,
                hour + 3 * s + 12
            ]
        );
        assert_eq!((timeline.disordered, timeline.gaps_cut), (0, 3));
        let (at, timeline) = arrivals_ns(&[i64::MIN, i64::MAX, 0].map(Some));
        assert_eq!((at, timeline.gaps_cut), (vec![0, s, 2 * s], 2));
    }

    #[test]
    fn a_step_back_within_an_hour_is_disorder() {
        let (at, timeline) = arrivals_ns(&[10, 5, 12].map(Some));
        assert_eq!((at, timeline.disordered), (vec![0, 0, 2], 1));
    }

    #[test]
    fn a_capture_of_half_a_year_fits_into_model_time() {
        let stamps: Vec<_> = (0..5_000).map(|hour| Some(hour * HOUR)).collect();
        let (at, timeline) = arrivals_ns(&stamps);
        assert!(
            at.is_sorted() && timeline.gaps_cut > 3_000,
            "{}",
            timeline.gaps_cut
        );
        let mut slow = Timeline::new(Pace::Captured(1, 1_000_000), Some(0));
        assert!(slow.arrival(Some(HOUR)).is_ok());
        let late = (2..20_000).find_map(|hour| slow.arrival(Some(hour * HOUR)).err());
        assert!(late.is_some());
    }
}
