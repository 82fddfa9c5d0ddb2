//! DCQCN as published (Zhu et al., SIGCOMM 2015, section 3.1). The rate increases as in QCN (802.1Qau).

use xoff_units::Picos;

use super::alpha::AlphaEstimator;
use super::parameters::{FieldRef, ParameterField, ParameterSet, Preset};
use super::rate::RateBounds;
use super::{Ack, CongestionControl, CongestionSignal, ControllerContext};

/// Parameters of [`Dcqcn`]. Names in parentheses are those of the paper (Zhu et al., SIGCOMM 2015).
#[derive(Clone, Debug, PartialEq)]
pub struct DcqcnParameters {
    /// Weight of an alpha update, 0.0001 to 1 (g).
    pub g: f64,
    /// Period of the updates of alpha in nanoseconds, 100 ns to 100 ms (K). Alpha decreases after each period
    /// without a notification.
    pub alpha_interval_ns: u64,
    /// Period of the increase timer in nanoseconds, 1 us to 1 s (T).
    pub increase_interval_ns: u64,
    /// Bytes that the queue pair sends between two increases by the byte counter, with headers, 1000 to
    /// 2^40 (B).
    pub increase_bytes: u64,
    /// Number of increases in fast recovery, 1 to 1000 (F). The increases by the timer and by the byte
    /// counter are counted separately.
    pub fast_recovery_times: u64,
    /// Step of the target rate in additive increase, in bits per second, 0 to 1 Tb/s (R_AI).
    pub rate_ai_bps: u64,
    /// Step of the target rate in hyper increase, in bits per second, 0 to 1 Tb/s (R_HAI). The i-th hyper
    /// increase adds i steps.
    pub rate_hai_bps: u64,
    /// Lowest rate in bits per second, 1 kb/s to 1 Tb/s. The paper does not define one.
    pub min_rate_bps: u64,
}

impl DcqcnParameters {
    /// Returns the preset `sigcomm2015`, the default: the values of the paper for 40 Gb/s. The lowest rate is
    /// 1 Mb/s, as in NVIDIA's firmware.
    pub fn sigcomm2015() -> DcqcnParameters {
        DcqcnParameters {
            g: 1.0 / 256.0,
            alpha_interval_ns: 55_000,
            increase_interval_ns: 55_000,
            increase_bytes: 10_000_000,
            fast_recovery_times: 5,
            rate_ai_bps: 40_000_000,
            rate_hai_bps: 200_000_000,
            min_rate_bps: 1_000_000,
        }
    }

    /// Returns the preset `ns3-rdma`: the sample configuration of the model by the authors
    /// (bobzhuyb/ns3-rdma). The increase timer has a period of 60 us. The byte counter increases the rate
    /// after every 300 MB.
    pub fn ns3_rdma() -> DcqcnParameters {
        DcqcnParameters {
            increase_interval_ns: 60_000,
            increase_bytes: 300_000_000,
            ..DcqcnParameters::sigcomm2015()
        }
    }
}

impl ParameterSet for DcqcnParameters {
    const ALGORITHM: &'static str = "dcqcn";
    const FIELDS: &'static [ParameterField<Self>] = &[
        ParameterField::new("g", 1e-4, 1.0, |p| FieldRef::Real(&mut p.g)),
        ParameterField::new("alpha_interval_ns", 100.0, 1e8, |p| {
            FieldRef::Whole(&mut p.alpha_interval_ns)
        }),
        ParameterField::new("increase_interval_ns", 1e3, 1e9, |p| {
            FieldRef::Whole(&mut p.increase_interval_ns)
        }),
        ParameterField::new("increase_bytes", 1e3, 1_099_511_627_776.0, |p| {
            FieldRef::Whole(&mut p.increase_bytes)
        }),
        ParameterField::new("fast_recovery_times", 1.0, 1000.0, |p| {
            FieldRef::Whole(&mut p.fast_recovery_times)
        }),
        ParameterField::new("rate_ai_bps", 0.0, 1e12, |p| FieldRef::Whole(&mut p.rate_ai_bps)),
        ParameterField::new("rate_hai_bps", 0.0, 1e12, |p| {
            FieldRef::Whole(&mut p.rate_hai_bps)
        }),
        ParameterField::new("min_rate_bps", 1e3, 1e12, |p| {
            FieldRef::Whole(&mut p.min_rate_bps)
        }),
    ];
    const PRESETS: &'static [Preset<Self>] = &[
        Preset {
            name: "sigcomm2015",
            make: |_| DcqcnParameters::sigcomm2015(),
        },
        Preset {
            name: "ns3-rdma",
            make: |_| DcqcnParameters::ns3_rdma(),
        },
    ];
}

/// DCQCN as published (Zhu et al., SIGCOMM 2015, section 3.1). Each notification cuts the rate. A timer and a
/// byte counter increase the rate, as in QCN (IEEE 802.1Qau).
///
/// The responder limits the rate of notifications. The paper uses at most one notification in 50 us. A marked
/// acknowledgement also counts as a notification.
#[derive(Clone, Debug)]
pub struct Dcqcn {
    parameters: DcqcnParameters,
    bounds: RateBounds,
    rate_bps: u64,
    target_bps: u64,
    alpha: AlphaEstimator,
    /// Time of the next increase by the timer. [`Picos::NEVER`] at line rate, if no increase is left. Bytes
    /// are not counted then.
    increase_due: Picos,
    /// Bytes sent since the last increase by the byte counter.
    bytes: u64,
    /// Number of increases by the timer since the last cut.
    timer_stage: u64,
    /// Number of increases by the byte counter since the last cut.
    byte_stage: u64,
}

impl Dcqcn {
    /// Creates a controller that starts at line rate. Parameters outside their ranges are replaced by the
    /// nearest limit.
    pub fn new(parameters: DcqcnParameters, context: &ControllerContext) -> Dcqcn {
        let parameters = parameters.clamped();
        let bounds = RateBounds::new(parameters.min_rate_bps, context);
        Dcqcn {
            bounds,
            rate_bps: bounds.line_bps,
            target_bps: bounds.line_bps,
            alpha: AlphaEstimator::new(1.0, parameters.g, Picos::from_nanos(parameters.alpha_interval_ns)),
            increase_due: Picos::NEVER,
            bytes: 0,
            timer_stage: 0,
            byte_stage: 0,
            parameters,
        }
    }

    /// Applies the increases of the timer up to and including `now`.
    fn apply_timer_increases(&mut self, now: Picos) {
        while self.increase_due <= now && self.increase_due != Picos::NEVER {
            let period = Picos::from_nanos(self.parameters.increase_interval_ns);
            self.increase_due = self.increase_due.saturating_add(period);
            self.increase_rate();
            self.timer_stage += 1;
        }
    }

    /// Increases the rate once, for the timer or for the byte counter. The number of earlier increases since
    /// the last cut determines the phase. While the numbers of increases by the timer and by the byte counter
    /// are both below `fast_recovery_times`, the phase is fast recovery.
    fn increase_rate(&mut self) {
        let before = (self.rate_bps, self.target_bps);
        let threshold = self.parameters.fast_recovery_times;
        let most = self.timer_stage.max(self.byte_stage);
        let least = self.timer_stage.min(self.byte_stage);
        let step = if most < threshold {
            0
        } else if least > threshold {
            (least - threshold).saturating_mul(self.parameters.rate_hai_bps)
        } else {
            self.parameters.rate_ai_bps
        };
        self.target_bps = self.target_bps.saturating_add(step).min(self.bounds.line_bps);
        // The rate is rounded up, so that it reaches the target.
        self.rate_bps = (self.rate_bps + self.target_bps).div_ceil(2);
        if self.rate_bps == self.bounds.line_bps && before == (self.rate_bps, self.target_bps) {
            self.increase_due = Picos::NEVER;
        }
    }
}

impl CongestionControl for Dcqcn {
    fn name(&self) -> &'static str {
        DcqcnParameters::ALGORITHM
    }

    fn signals(&self) -> &'static [CongestionSignal] {
        &[CongestionSignal::Cnp, CongestionSignal::MarkEcho]
    }

    fn prefetch(&self) {
        xoff_units::prefetch(self);
    }

    fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    fn on_packet_sent(&mut self, now: Picos, packet_bytes: u32) {
        self.apply_timer_increases(now);
        if self.increase_due == Picos::NEVER {
            return;
        }
        self.bytes += u64::from(packet_bytes);
        while self.bytes >= self.parameters.increase_bytes {
            self.bytes -= self.parameters.increase_bytes;
            self.increase_rate();
            self.byte_stage += 1;
        }
    }

    fn on_ack(&mut self, now: Picos, ack: &Ack<'_>) {
        if ack.marked {
            self.on_cnp(now);
        }
    }

    fn on_cnp(&mut self, now: Picos) {
        self.apply_timer_increases(now);
        let factor = 1.0 - self.alpha.value_at(now) / 2.0;
        self.target_bps = self.rate_bps;
        self.rate_bps = self.bounds.clamp(self.rate_bps as f64 * factor);
        self.alpha.increase_on_congestion();
        self.alpha.start_updates(now);
        self.timer_stage = 0;
        self.byte_stage = 0;
        self.bytes = 0;
        self.increase_due = now.saturating_add(Picos::from_nanos(self.parameters.increase_interval_ns));
    }

    fn next_deadline(&self) -> Picos {
        self.increase_due
    }

    fn on_deadline(&mut self, now: Picos) {
        self.apply_timer_increases(now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::context;
    use super::*;

    const LINE: u64 = 40_000_000_000;

    fn dcqcn() -> Dcqcn {
        Dcqcn::new(DcqcnParameters::sigcomm2015(), &context(LINE))
    }

    #[test]
    fn a_notification_cuts_by_half_of_alpha() {
        let mut dcqcn = dcqcn();
        dcqcn.on_cnp(Picos::from_micros(1));
        assert_eq!(dcqcn.rate_bps(), LINE / 2, "alpha starts at 1");
        dcqcn.on_cnp(Picos::from_micros(51));
        assert_eq!((dcqcn.rate_bps(), dcqcn.target_bps), (LINE / 4, LINE / 2));
        // Alpha is updated twice without a notification, at 106 and 161 us. The timer halves the
        // distance twice.
        dcqcn.on_deadline(Picos::from_micros(106));
        assert_eq!(dcqcn.rate_bps(), 15_000_000_000);
        dcqcn.on_deadline(Picos::from_micros(161));
        assert_eq!(dcqcn.rate_bps(), 17_500_000_000);
        dcqcn.on_cnp(Picos::from_micros(162));
        let alpha = (255.0_f64 / 256.0) * (255.0 / 256.0);
        assert_eq!(dcqcn.rate_bps(), (17.5e9 * (1.0 - alpha / 2.0)) as u64);
    }

    #[test]
    fn the_timer_causes_five_fast_recoveries_then_additive_increase() {
        let mut dcqcn = dcqcn();
        dcqcn.on_cnp(Picos::ZERO);
        dcqcn.on_cnp(Picos::ZERO);
        for _ in 0..5 {
            assert_eq!(dcqcn.target_bps, LINE / 2);
            dcqcn.on_deadline(dcqcn.next_deadline());
        }
        assert_eq!(dcqcn.rate_bps(), LINE / 2 - LINE / 4 / 32);
        for times in 1..=20 {
            dcqcn.on_deadline(dcqcn.next_deadline());
            assert_eq!(
                dcqcn.target_bps,
                LINE / 2 + times * 40_000_000,
                "hyper needs both kinds"
            );
        }
    }

    #[test]
    fn timer_and_byte_counter_together_cause_hyper_increase() {
        let mut dcqcn = dcqcn();
        dcqcn.on_cnp(Picos::ZERO);
        dcqcn.on_cnp(Picos::ZERO);
        for _ in 0..10_000 * 6 {
            dcqcn.on_packet_sent(Picos::ZERO, 1000);
        }
        assert_eq!(
            dcqcn.target_bps,
            LINE / 2 + 40_000_000,
            "five fast recoveries, one additive"
        );
        dcqcn.on_deadline(Picos::from_micros(55 * 6));
        assert_eq!(dcqcn.target_bps, LINE / 2 + 7 * 40_000_000);
        for _ in 0..10_000 {
            dcqcn.on_packet_sent(Picos::from_micros(331), 1000);
        }
        assert_eq!(
            dcqcn.target_bps,
            LINE / 2 + 7 * 40_000_000 + 200_000_000,
            "both have six behind them"
        );
        dcqcn.on_deadline(dcqcn.next_deadline());
        dcqcn.on_packet_sent(Picos::from_micros(390), 10_000_000);
        assert_eq!(
            dcqcn.target_bps,
            LINE / 2 + 7 * 40_000_000 + (1 + 1 + 2) * 200_000_000
        );
    }

    #[test]
    fn at_line_rate_no_deadline_remains() {
        let mut dcqcn = dcqcn();
        dcqcn.on_cnp(Picos::ZERO);
        let mut expired = 0;
        while dcqcn.next_deadline() != Picos::NEVER {
            dcqcn.on_deadline(dcqcn.next_deadline());
            expired += 1;
        }
        assert_eq!(dcqcn.rate_bps(), LINE);
        assert!(expired < 40, "{expired}");
    }
}
