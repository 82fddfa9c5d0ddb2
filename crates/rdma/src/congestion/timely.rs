//! TIMELY: the rate follows the gradient of the round-trip time (Mittal et al., SIGCOMM 2015, algorithm 1).

use xoff_units::Picos;

use super::parameters::{FieldRef, ParameterError, ParameterField, ParameterSet, Preset};
use super::rate::RateBounds;
use super::{Ack, CongestionControl, CongestionSignal, ControllerContext};

/// Parameters of [`Timely`]. Names in parentheses are those of the paper (Mittal et al., SIGCOMM 2015).
#[derive(Clone, Debug, PartialEq)]
pub struct TimelyParameters {
    /// Weight of the newest difference of two round-trip times in their average, 0.001 to 1 (alpha).
    pub ewma_weight: f64,
    /// Factor that determines how strongly the rate decreases, 0.001 to 1 (beta).
    pub beta: f64,
    /// Round-trip time in nanoseconds, 100 ns to 1 s (T_low). If the measured time is below this value, the
    /// rate increases.
    pub t_low_ns: u64,
    /// Round-trip time in nanoseconds, 100 ns to 1 s (T_high). If the measured time is above this value, the
    /// rate decreases. The value must be above `t_low_ns`.
    pub t_high_ns: u64,
    /// Round-trip time of an idle network in nanoseconds, 100 ns to 1 s (minRTT). Differences of round-trip
    /// times are divided by this time.
    pub min_rtt_ns: u64,
    /// Step of a normal increase in bits per second, 0 to 1 Tb/s (delta).
    pub rate_ai_bps: u64,
    /// Step of a hyperactive increase in bits per second, 0 to 1 Tb/s (N delta).
    pub rate_hai_bps: u64,
    /// Number of consecutive normal increases before hyperactive increases start, 1 to 1000 (N).
    pub hyper_after: u64,
    /// Lowest rate in bits per second, 1 kb/s to 1 Tb/s.
    pub min_rate_bps: u64,
}

impl TimelyParameters {
    /// Returns the preset `sigcomm2015`: the values of the paper for 10 Gb/s.
    pub fn sigcomm2015() -> TimelyParameters {
        TimelyParameters {
            ewma_weight: 0.875,
            beta: 0.8,
            t_low_ns: 50_000,
            t_high_ns: 500_000,
            min_rtt_ns: 20_000,
            rate_ai_bps: 10_000_000,
            rate_hai_bps: 50_000_000,
            hyper_after: 5,
            min_rate_bps: 1_000_000,
        }
    }

    /// Returns the preset `hpcc-ns3`, the default: the values of the HPCC model for
    /// ns-3 (`run.py --cc timely`).
    ///
    /// The normal increase is 1/1000 of the line rate, and the hyperactive increase is 1/200. The lowest rate
    /// is 1 Gb/s, as in the model. For line rates below 25 Gb/s, the lowest rate is 1/25 of the line rate.
    pub fn hpcc_ns3(line_rate_bps: u64) -> TimelyParameters {
        TimelyParameters {
            rate_ai_bps: line_rate_bps / 1_000,
            rate_hai_bps: line_rate_bps / 200,
            min_rate_bps: (line_rate_bps / 25).clamp(1_000, 1_000_000_000),
            ..TimelyParameters::sigcomm2015()
        }
    }
}

impl ParameterSet for TimelyParameters {
    const ALGORITHM: &'static str = "timely";
    const FIELDS: &'static [ParameterField<Self>] = &[
        ParameterField::new("ewma_weight", 1e-3, 1.0, |p| FieldRef::Real(&mut p.ewma_weight)),
        ParameterField::new("beta", 1e-3, 1.0, |p| FieldRef::Real(&mut p.beta)),
        ParameterField::new("t_low_ns", 100.0, 1e9, |p| FieldRef::Whole(&mut p.t_low_ns)),
        ParameterField::new("t_high_ns", 100.0, 1e9, |p| FieldRef::Whole(&mut p.t_high_ns)),
        ParameterField::new("min_rtt_ns", 100.0, 1e9, |p| FieldRef::Whole(&mut p.min_rtt_ns)),
        ParameterField::new("rate_ai_bps", 0.0, 1e12, |p| FieldRef::Whole(&mut p.rate_ai_bps)),
        ParameterField::new("rate_hai_bps", 0.0, 1e12, |p| {
            FieldRef::Whole(&mut p.rate_hai_bps)
        }),
        ParameterField::new("hyper_after", 1.0, 1000.0, |p| {
            FieldRef::Whole(&mut p.hyper_after)
        }),
        ParameterField::new("min_rate_bps", 1e3, 1e12, |p| {
            FieldRef::Whole(&mut p.min_rate_bps)
        }),
    ];
    const PRESETS: &'static [Preset<Self>] = &[
        Preset {
            name: "hpcc-ns3",
            make: |context| TimelyParameters::hpcc_ns3(context.line_rate_bps),
        },
        Preset {
            name: "sigcomm2015",
            make: |_| TimelyParameters::sigcomm2015(),
        },
    ];

    fn check_relations(&self) -> Result<(), ParameterError> {
        if self.t_low_ns < self.t_high_ns {
            return Ok(());
        }
        Err(ParameterError::NotBelow {
            field: "t_low_ns",
            value: self.t_low_ns as f64,
            other: "t_high_ns",
            bound: self.t_high_ns as f64,
        })
    }
}

/// TIMELY (Mittal et al., SIGCOMM 2015, algorithm 1): a rate that follows the gradient of the round-trip
/// time. The rate changes once per round trip, as in the HPCC model for ns-3.
///
/// TIMELY limits the queue. The flows on a link do not always converge to equal shares (Zhu et al.,
/// CoNEXT 2016).
#[derive(Clone, Debug)]
pub struct Timely {
    parameters: TimelyParameters,
    bounds: RateBounds,
    rate_bps: u64,
    /// The last round-trip time, and a byte position in the sent data. When this position is acknowledged,
    /// the rate is updated again. `None` at the start.
    last: Option<(Picos, u64)>,
    /// Average difference of consecutive round-trip times in picoseconds.
    rtt_diff: f64,
    /// Number of consecutive increases.
    increases: u64,
}

impl Timely {
    /// Creates a controller that starts at line rate. Parameters outside their ranges are replaced by the
    /// nearest limit.
    pub fn new(parameters: TimelyParameters, context: &ControllerContext) -> Timely {
        let parameters = parameters.clamped();
        let bounds = RateBounds::new(parameters.min_rate_bps, context);
        Timely {
            parameters,
            bounds,
            rate_bps: bounds.line_bps,
            last: None,
            rtt_diff: 0.0,
            increases: 0,
        }
    }

    fn update_rate(&mut self, rtt: Picos, last_rtt: Picos) {
        let parameters = &self.parameters;
        let weight = parameters.ewma_weight;
        self.rtt_diff = (1.0 - weight) * self.rtt_diff + weight * (rtt.0 as f64 - last_rtt.0 as f64);
        let gradient = self.rtt_diff / Picos::from_nanos(parameters.min_rtt_ns).0 as f64;
        let t_high = Picos::from_nanos(parameters.t_high_ns);
        let factor = if rtt < Picos::from_nanos(parameters.t_low_ns) {
            None
        } else if rtt > t_high {
            Some(1.0 - parameters.beta * (1.0 - t_high.0 as f64 / rtt.0 as f64))
        } else if gradient <= 0.0 {
            None
        } else {
            Some((1.0 - parameters.beta * gradient).max(0.0))
        };
        let rate = self.rate_bps as f64;
        self.rate_bps = match factor {
            Some(factor) => {
                self.increases = 0;
                self.bounds.clamp(rate * factor)
            }
            None => {
                let plain = self.increases < parameters.hyper_after;
                self.increases += 1;
                let step = if plain {
                    parameters.rate_ai_bps
                } else {
                    parameters.rate_hai_bps
                };
                self.bounds.clamp(rate + step as f64)
            }
        };
    }
}

impl CongestionControl for Timely {
    fn name(&self) -> &'static str {
        TimelyParameters::ALGORITHM
    }

    fn signals(&self) -> &'static [CongestionSignal] {
        &[CongestionSignal::RoundTrip]
    }

    fn prefetch(&self) {
        xoff_units::prefetch(self);
    }

    fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    fn on_ack(&mut self, _now: Picos, ack: &Ack<'_>) {
        let Some(rtt) = ack.rtt else { return };
        match self.last {
            Some((_, position)) if ack.acked_total <= position => return,
            Some((last_rtt, _)) => self.update_rate(rtt, last_rtt),
            None => {}
        }
        self.last = Some((rtt, ack.sent_total));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ack, context};
    use super::*;

    const LINE: u64 = 10_000_000_000;

    /// Creates a controller and passes it round-trip times in microseconds, one after the other.
    fn timely_after(rtts_us: &[u64]) -> Timely {
        let mut timely = Timely::new(TimelyParameters::sigcomm2015(), &context(LINE));
        timely.rate_bps = LINE / 2;
        for (i, rtt_us) in rtts_us.iter().enumerate() {
            let mut ack = ack(1000, (i as u64 + 1) * 1000, (i as u64 + 1) * 1000);
            ack.rtt = Some(Picos::from_micros(*rtt_us));
            timely.on_ack(Picos(i as u64), &ack);
        }
        timely
    }

    #[test]
    fn below_t_low_the_rate_increases_faster_after_five_increases() {
        assert_eq!(
            timely_after(&[20]).rate_bps(),
            LINE / 2,
            "one round trip has no gradient"
        );
        assert_eq!(timely_after(&[20, 49]).rate_bps(), LINE / 2 + 10_000_000);
        assert_eq!(timely_after(&[20; 6]).rate_bps(), LINE / 2 + 50_000_000);
        assert_eq!(timely_after(&[20; 8]).rate_bps(), LINE / 2 + 150_000_000);
    }

    #[test]
    fn above_t_high_the_rate_falls_for_any_gradient() {
        let rate = timely_after(&[1000, 1000]).rate_bps();
        assert_eq!(rate, (LINE as f64 / 2.0 * (1.0 - 0.8 * 0.5)) as u64);
    }

    #[test]
    fn between_t_low_and_t_high_the_rate_follows_the_gradient() {
        // The difference is 10 us, its average 8.75 us, divided by 20 us.
        assert_eq!(
            timely_after(&[100, 110]).rate_bps(),
            (LINE as f64 / 2.0 * (1.0 - 0.8 * 0.4375)) as u64
        );
        assert_eq!(timely_after(&[110, 100]).rate_bps(), LINE / 2 + 10_000_000);
        assert_eq!(
            timely_after(&[100, 400]).rate_bps(),
            1_000_000,
            "no lower than the lowest rate"
        );
    }

    #[test]
    fn the_rate_changes_once_per_round_trip() {
        let mut timely = timely_after(&[20]);
        let mut early = ack(500, 1000, 9000);
        early.rtt = Some(Picos::from_micros(20));
        timely.on_ack(Picos(9), &early);
        assert_eq!(timely.rate_bps(), LINE / 2);
    }

    #[test]
    fn thresholds_in_the_wrong_order_are_rejected() {
        let parameters = TimelyParameters {
            t_low_ns: 600_000,
            ..TimelyParameters::sigcomm2015()
        };
        let error = parameters.check().unwrap_err().to_string();
        assert_eq!(error, "t_low_ns = 600000 must be below t_high_ns = 500000");
    }
}
