//! Computes the arrival times of captured frames, in model time.

use xoff_units::Picos;

use super::replay_pace::ReplayPace;

/// Longest gap between two frames that the replay keeps, in nanoseconds. A longer gap means that one file
/// contains two captures, and the replay shortens the gap.
const GAP_NS_MAX: i128 = 3_600_000_000_000;
/// Gap that replaces a longer one, in nanoseconds.
const CUT_GAP_NS: u128 = 1_000_000_000;
/// Latest arrival time. Arrivals use only the first half of the range of model time, so that the second half
/// remains for the events after the last arrival.
const ARRIVAL_MAX: Picos = Picos(u64::MAX / 2);

/// The error for a frame that arrives after the end of model time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ModelTimeExceededError {
    /// Time between the first frame and this frame, in days.
    pub(super) days: u64,
}

/// Converts time stamps to arrival times that never decrease.
#[derive(Debug)]
pub(super) struct Timeline {
    pace: ReplayPace,
    /// The previous time stamp in nanoseconds since 1970, or `None` before the first one.
    previous_ns: Option<i64>,
    /// Capture time since the first stamp in nanoseconds, with long gaps shortened.
    elapsed_ns: u128,
    /// Arrival time of the previous frame.
    latest: Picos,
    /// Number of frames with a time stamp that is smaller than the time stamp of an earlier frame, by at most
    /// an hour.
    pub(super) disordered: u64,
    /// Number of shortened gaps between frames. At a gap, the time stamps jump forwards or backwards.
    pub(super) gaps_cut: u64,
}

impl Timeline {
    /// Creates a timeline. Model time 0 is `first_ns`, or the first stamp if `first_ns` is `None`.
    pub(super) fn new(pace: ReplayPace, first_ns: Option<i64>) -> Timeline {
        Timeline {
            pace,
            previous_ns: first_ns,
            elapsed_ns: 0,
            latest: Picos::ZERO,
            disordered: 0,
            gaps_cut: 0,
        }
    }

    /// Returns the arrival time of the next frame. In two cases, the frame arrives at the same time as the
    /// previous frame: it has no time stamp, or its time stamp is smaller than an earlier one.
    pub(super) fn next_arrival(&mut self, stamp_ns: Option<i64>) -> Result<Picos, ModelTimeExceededError> {
        let ReplayPace::Captured(faster, by) = self.pace else {
            return Ok(Picos::ZERO);
        };
        let Some(at_ns) = stamp_ns else {
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
        // Shorter gaps are cut as well after half of the model time is used, so that the rest of
        // the capture fits.
        let is_late = scaled(kept).is_none_or(|at| at > Picos(ARRIVAL_MAX.0 / 2));
        let elapsed_ns = match kept <= cut || !is_late && step_ns > 0 && step_ns <= GAP_NS_MAX {
            true => kept,
            false => {
                self.gaps_cut += 1;
                cut
            }
        };
        let at = scaled(elapsed_ns).ok_or(ModelTimeExceededError {
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

    fn arrival_times_ns(stamps_ns: &[Option<i64>]) -> (Vec<u64>, Timeline) {
        let mut timeline = Timeline::new(
            ReplayPace::Captured(1, 1),
            stamps_ns.iter().find_map(|stamp| *stamp),
        );
        let arrivals = stamps_ns
            .iter()
            .map(|stamp| timeline.next_arrival(*stamp).unwrap().as_nanos());
        (arrivals.collect(), timeline)
    }

    #[test]
    fn frames_without_stamp_arrive_with_the_previous_frame() {
        let (at, timeline) = arrival_times_ns(&[None, Some(50 * S), None, Some(50 * S + 7)]);
        assert_eq!(at, [0, 0, 0, 7]);
        assert_eq!((timeline.disordered, timeline.gaps_cut), (0, 0));
    }

    #[test]
    fn gaps_over_an_hour_are_cut_in_both_directions() {
        let s = S as u64;
        let year = 365 * 24 * HOUR;
        let stamps = [0, HOUR, 2 * HOUR + 1, 2 * HOUR + 8, year, 5, 10].map(Some);
        let (at, timeline) = arrival_times_ns(&stamps);
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
        let (at, timeline) = arrival_times_ns(&[i64::MIN, i64::MAX, 0].map(Some));
        assert_eq!((at, timeline.gaps_cut), (vec![0, s, 2 * s], 2));
    }

    #[test]
    fn stamp_less_than_an_hour_back_counts_as_disordered() {
        let (at, timeline) = arrival_times_ns(&[10, 5, 12].map(Some));
        assert_eq!((at, timeline.disordered), (vec![0, 0, 2], 1));
    }

    #[test]
    fn capture_of_half_a_year_fits_into_model_time() {
        let stamps: Vec<_> = (0..5_000).map(|hour| Some(hour * HOUR)).collect();
        let (at, timeline) = arrival_times_ns(&stamps);
        assert!(
            at.is_sorted() && timeline.gaps_cut > 3_000,
            "{}",
            timeline.gaps_cut
        );
        let mut slow = Timeline::new(ReplayPace::Captured(1, 1_000_000), Some(0));
        assert!(slow.next_arrival(Some(HOUR)).is_ok());
        let late = (2..20_000).find_map(|hour| slow.next_arrival(Some(hour * HOUR)).err());
        assert!(late.is_some());
    }
}
