//! Traffic of the device, and how pauses change it.

use xoff_units::Picos;
use xoff_wire::PRIORITIES;

use super::{format_span, require_in_time, share_of};
use crate::device::Operation;
use crate::instrument::Instrument;
use crate::step::{Step, Stop, TimeMeasurement};

/// Time in quanta until new traffic has its rate.
const WARM_UP_QUANTA: u64 = 500;
/// Time in quanta in which the rate without a pause is measured.
const BASELINE_QUANTA: u64 = 8_000;
/// Smallest share of its rate that a class without a pause must keep.
const KEPT_SHARE: f64 = 0.99;
/// Number of frames by which two counts in windows of equal length can differ without a change of the rate.
const COUNT_TOLERANCE: f64 = 2.0;

/// Traffic of the device whose rate without pauses was measured.
pub(super) struct DeviceTraffic {
    i: Instrument,
    /// Interval of the frames of each class, in picoseconds.
    intervals: [f64; PRIORITIES],
}

/// Starts traffic of the classes of a mask, each with a share of the link, and measures its rate.
pub(super) async fn start_traffic(i: &Instrument, classes: u8, share_permille: u32) -> Step<DeviceTraffic> {
    for class in (0..PRIORITIES as u8).filter(|class| classes & (1 << class) != 0) {
        i.operate(Operation::StartTraffic {
            class,
            share_permille,
        })
        .await?;
    }
    i.wait(i.quanta(WARM_UP_QUANTA)).await;
    let from = i.now();
    i.wait(i.quanta(i.window_quanta(BASELINE_QUANTA))).await;
    let intervals = std::array::from_fn(|class| mean_interval(i, class as u8, from));
    let is_silent = |class: &usize| classes & (1 << class) != 0 && intervals[*class] == 0.0;
    if let Some(class) = (0..PRIORITIES).find(is_silent) {
        return Err(Stop::Inconclusive(format!(
            "the device sends no traffic of class {class}"
        )));
    }
    Ok(DeviceTraffic {
        i: i.clone(),
        intervals,
    })
}

/// Returns the mean interval of the frames of a class since `from`, in picoseconds. 0 for fewer than two frames.
fn mean_interval(i: &Instrument, class: u8, from: Picos) -> f64 {
    let observations = i.observations();
    match observations.started_between(class, from, Picos::NEVER) {
        [first, .., last] => {
            let frames = observations.started_between(class, first.start, last.start).len();
            last.start.since(first.start).0 as f64 / frames as f64
        }
        _ => 0.0,
    }
}

impl DeviceTraffic {
    /// Returns the share of its rate that a class had in a span of time.
    pub(super) fn share(&self, class: u8, from: Picos, until: Picos) -> f64 {
        let expected = until.since(from).0 as f64 / self.intervals[usize::from(class)].max(1.0);
        self.count(class, from, until) as f64 / expected.max(1.0)
    }

    fn count(&self, class: u8, from: Picos, until: Picos) -> usize {
        self.i.observations().started_between(class, from, until).len()
    }

    /// Checks that a class keeps its rate in a span of time.
    pub(super) fn require_running(&self, class: u8, from: Picos, until: Picos) -> Step {
        let share = self.share(class, from, until);
        // A late wake-up of the medium moves frames across both ends of the window.
        let moved = 2.0 * self.i.timing().tolerance.0 as f64 / until.since(from).0.max(1) as f64;
        let tolerance = COUNT_TOLERANCE * share / (self.count(class, from, until) as f64).max(1.0) + moved;
        // A delay moves frames across both ends.
        let excess = share_of(until.since(from), (KEPT_SHARE - share) / 2.0);
        require_in_time(share + tolerance >= KEPT_SHARE, [from, until], excess, || {
            format!("class {class} has {:.1} % of its rate", share * 100.0)
        })
    }

    /// Waits until `until` and checks that the classes of a mask have kept their rates since `from`.
    pub(super) async fn keeps_running(&self, classes: u8, from: Picos, until: Picos) -> Step {
        self.i.wait_until(until).await;
        (0..PRIORITIES as u8)
            .filter(|class| classes & (1 << class) != 0)
            .try_for_each(|class| self.require_running(class, from, until))
    }

    /// Waits until `until` and checks that no frame of a class starts after the response time to a pause frame that
    /// arrived at `arrival`.
    pub(super) async fn stays_paused(&self, class: u8, arrival: Picos, until: Picos) -> Step {
        self.i.wait_until(until).await;
        let silent_from = arrival + self.i.response_budget();
        let frames = self.count(class, silent_from, until);
        let last = self
            .i
            .observations()
            .started_between(class, silent_from, until)
            .last()
            .copied();
        let excess = last.map_or(Picos::ZERO, |last| last.start.since(arrival));
        require_in_time(frames == 0, [arrival, until], excess, || {
            let link = self.i.link();
            let first = self.i.observations().started_between(class, silent_from, until)[0].start;
            format!(
                "class {class} sends {} after the arrival of the PFC frame: it is not paused",
                format_span(first.since(arrival), &link)
            )
        })
    }

    /// Waits until a paused class sends again. Returns the time from the arrival of a PFC frame to the first bit.
    pub(super) async fn silence(&self, class: u8, arrival: Picos, longest: Picos) -> Step<Picos> {
        let after = arrival + self.i.response_budget();
        let deadline = after + longest;
        match self.i.next_data_frame(class, after, deadline).await {
            Some(start) => Ok(start.since(arrival)),
            None => {
                let waited = format_span(deadline.since(arrival), &self.i.link());
                Err(Stop::FailInTime {
                    reason: format!(
                        "class {class} sends nothing for {waited} after the arrival of the PFC frame"
                    ),
                    measurement: TimeMeasurement {
                        from: arrival,
                        until: deadline,
                        // The callers wait for about twice the time of the pause.
                        excess: Picos(longest.0 / 2),
                    },
                })
            }
        }
    }

    /// Pauses a class by `pause`, which returns the arrival of the first PFC frame, and measures how long the class is
    /// silent. Checks that this is `expected`. Tolerance: the response time, and 2 % or one quantum, or the error of
    /// the medium. Where times are not exact, the median of several measurements counts. Returns the measured time.
    pub(super) async fn requires_silence(
        &self,
        class: u8,
        expected: Picos,
        pause: impl AsyncFn(&Instrument) -> Picos,
    ) -> Step<Picos> {
        let i = &self.i;
        let longest = expected + expected + i.quanta(1_000);
        let mut measured = Vec::new();
        for number in 0..i.timing().repetitions {
            if number > 0 {
                i.wait(i.quanta(2_000)).await;
            }
            let arrival = pause(i).await;
            measured.push((self.silence(class, arrival, longest).await?, arrival));
        }
        measured.sort_unstable();
        let (median, arrival) = measured[measured.len() / 2];
        let quantum = i.quanta(1);
        let tolerance = Picos(expected.0 / 50)
            .max(quantum)
            .max(i.timing().measurement_error);
        let low = expected.since(tolerance);
        let high = expected + i.response_time() + tolerance;
        let excess = low.since(median).max(median.since(high));
        let measurement = [arrival, arrival + median];
        require_in_time((low..=high).contains(&median), measurement, excess, || {
            let link = i.link();
            let [median, low, high] = [median, low, high].map(|span| format_span(span, &link));
            format!("class {class} is silent for {median}, permitted are {low} to {high}")
        })?;
        Ok(median)
    }
}
