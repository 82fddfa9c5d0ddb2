//! DCQCN as published (Zhu et al., SIGCOMM 2015, section 3.1), which took its increase from QCN (802.1Qau).

use xoff_units::Picos;

use super::alpha::Alpha;
use super::parameters::{Field, ParameterSet, Preset, Slot};
use super::rate::Bounds;
use super::{Ack, CongestionControl, Context, Signal};

/// Parameters of [`Dcqcn`]; in brackets the paper's names.
#[derive(Clone, Debug, PartialEq)]
pub struct DcqcnParameters {
    /// Weight of an update of alpha, 0.0001 to 1 (g).
    pub g: f64,
    /// Without a notification for this long alpha falls, and again after each further one, 100 ns to 100 ms (K).
    pub alpha_interval_ns: u64,
    /// Period of the increase timer, 1 us to 1 s (T).
    pub increase_interval_ns: u64,
    /// Bytes sent for an increase, headers included, 1000 to 2^40 (B).
    pub increase_bytes: u64,
    /// How many increases of either kind are fast recovery, 1 to 1000 (F).
    pub fast_recovery_times: u64,
    /// What additive increase adds to the target rate, bits per second, 0 to 1 Tb/s (R_AI).
    pub rate_ai_bps: u64,
    /// What the i-th hyper increase adds to it i times, bits per second, 0 to 1 Tb/s (R_HAI).
    pub rate_hai_bps: u64,
    /// Lowest rate, bits per second, 1 kb/s to 1 Tb/s. The paper names none.
    pub min_rate_bps: u64,
}

impl DcqcnParameters {
    /// The paper's values, for 40 Gb/s. The lowest rate is that of NVIDIA's firmware, 1 Mb/s.
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

    /// The sample configuration of the authors' model (bobzhuyb/ns3-rdma): a timer of 60 us, a byte counter of 300 MB.
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
    const FIELDS: &'static [Field<Self>] = &[
        Field::new("g", 1e-4, 1.0, |p| Slot::Real(&mut p.g)),
        Field::new("alpha_interval_ns", 100.0, 1e8, |p| {
            Slot::Whole(&mut p.alpha_interval_ns)
        }),
        Field::new("increase_interval_ns", 1e3, 1e9, |p| {
            Slot::Whole(&mut p.increase_interval_ns)
        }),
        Field::new("increase_bytes", 1e3, 1_099_511_627_776.0, |p| {
            Slot::Whole(&mut p.increase_bytes)
        }),
        Field::new("fast_recovery_times", 1.0, 1000.0, |p| {
            Slot::Whole(&mut p.fast_recovery_times)
        }),
        Field::new("rate_ai_bps", 0.0, 1e12, |p| Slot::Whole(&mut p.rate_ai_bps)),
        Field::new("rate_hai_bps", 0.0, 1e12, |p| Slot::Whole(&mut p.rate_hai_bps)),
        Field::new("min_rate_bps", 1e3, 1e12, |p| Slot::Whole(&mut p.min_rate_bps)),
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

/// DCQCN's reaction point as published: each notification cuts the rate, a timer and a byte counter raise it.
///
/// It relies on the far end for the distance between notifications (the paper: 50 us). A marked acknowledgement counts as
/// one.
#[derive(Clone, Debug)]
pub struct Dcqcn {
    parameters: DcqcnParameters,
    bounds: Bounds,
    rate_bps: u64,
    target_bps: u64,
    alpha: Alpha,
    /// [`Picos::NEVER`] while the rate is the line's and nothing is left to raise; bytes do not count then.
    increase_due: Picos,
    /// Bytes since the byte counter's last increase.
    bytes: u64,
    /// Increases by the timer since the last cut.
    timer_stage: u64,
    /// Increases by the byte counter since then.
    byte_stage: u64,
}

impl Dcqcn {
    /// Starts at line rate. Values out of range are taken at the nearest end of it.
    pub fn new(parameters: DcqcnParameters, context: &Context) -> Dcqcn {
        let parameters = parameters.clamped();
        let bounds = Bounds::new(parameters.min_rate_bps, context);
        Dcqcn {
            bounds,
            rate_bps: bounds.line_bps,
            target_bps: bounds.line_bps,
            alpha: Alpha::new(1.0, parameters.g, Picos::from_nanos(parameters.alpha_interval_ns)),
            increase_due: Picos::NEVER,
            bytes: 0,
            timer_stage: 0,
            byte_stage: 0,
            parameters,
        }
    }

    /// Makes the timer's increases up to and including `now`.
    fn advance(&mut self, now: Picos) {
        while self.increase_due <= now && self.increase_due != Picos::NEVER {
            let period = Picos::from_nanos(self.parameters.increase_interval_ns);
            self.increase_due = self.increase_due.saturating_add(period);
            self.increase();
            self.timer_stage += 1;
        }
    }

    /// One increase, by timer or bytes. Its phase follows from those before it, so that `fast_recovery_times` of one kind
    /// are fast recovery.
    fn increase(&mut self) {
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
        // Rounded up, so that it arrives.
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

    fn signals(&self) -> &'static [Signal] {
        &[Signal::Cnp, Signal::MarkEcho]
    }

    fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    fn sent(&mut self, now: Picos, packet_bytes: u32) {
        self.advance(now);
        if self.increase_due == Picos::NEVER {
            return;
        }
        self.bytes += u64::from(packet_bytes);
        while self.bytes >= self.parameters.increase_bytes {
            self.bytes -= self.parameters.increase_bytes;
            self.increase();
            self.byte_stage += 1;
        }
    }

    fn acknowledged(&mut self, now: Picos, ack: &Ack<'_>) {
        if ack.marked {
            self.notified(now);
        }
    }

    fn notified(&mut self, now: Picos) {
        self.advance(now);
        let factor = 1.0 - self.alpha.at(now) / 2.0;
        self.target_bps = self.rate_bps;
        self.rate_bps = self.bounds.clamp(self.rate_bps as f64 * factor);
        self.alpha.rise();
        self.alpha.start(now);
        self.timer_stage = 0;
        self.byte_stage = 0;
        self.bytes = 0;
        self.increase_due = now.saturating_add(Picos::from_nanos(self.parameters.increase_interval_ns));
    }

    fn next_deadline(&self) -> Picos {
        self.increase_due
    }

    fn expire(&mut self, now: Picos) {
        self.advance(now);
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
        dcqcn.notified(Picos::from_micros(1));
        assert_eq!(dcqcn.rate_bps(), LINE / 2, "alpha starts at 1");
        dcqcn.notified(Picos::from_micros(51));
        assert_eq!((dcqcn.rate_bps(), dcqcn.target_bps), (LINE / 4, LINE / 2));
        // Two updates of alpha without a notification, at 106 and 161 us; meanwhile the timer halves the distance twice.
        dcqcn.expire(Picos::from_micros(106));
        assert_eq!(dcqcn.rate_bps(), 15_000_000_000);
        dcqcn.expire(Picos::from_micros(161));
        assert_eq!(dcqcn.rate_bps(), 17_500_000_000);
        dcqcn.notified(Picos::from_micros(162));
        let alpha = (255.0_f64 / 256.0) * (255.0 / 256.0);
        assert_eq!(dcqcn.rate_bps(), (17.5e9 * (1.0 - alpha / 2.0)) as u64);
    }

    #[test]
    fn five_fast_recoveries_then_additive_increase_by_the_timer() {
        let mut dcqcn = dcqcn();
        dcqcn.notified(Picos::ZERO);
        dcqcn.notified(Picos::ZERO);
        for _ in 0..5 {
            assert_eq!(dcqcn.target_bps, LINE / 2);
            dcqcn.expire(dcqcn.next_deadline());
        }
        assert_eq!(dcqcn.rate_bps(), LINE / 2 - LINE / 4 / 32);
        for times in 1..=20 {
            dcqcn.expire(dcqcn.next_deadline());
            assert_eq!(
                dcqcn.target_bps,
                LINE / 2 + times * 40_000_000,
                "hyper needs both kinds"
            );
        }
    }

    #[test]
    fn bytes_raise_too_and_both_together_make_hyper_increase() {
        let mut dcqcn = dcqcn();
        dcqcn.notified(Picos::ZERO);
        dcqcn.notified(Picos::ZERO);
        for _ in 0..10_000 * 6 {
            dcqcn.sent(Picos::ZERO, 1000);
        }
        assert_eq!(
            dcqcn.target_bps,
            LINE / 2 + 40_000_000,
            "five fast recoveries, one additive"
        );
        dcqcn.expire(Picos::from_micros(55 * 6));
        assert_eq!(dcqcn.target_bps, LINE / 2 + 7 * 40_000_000);
        for _ in 0..10_000 {
            dcqcn.sent(Picos::from_micros(331), 1000);
        }
        assert_eq!(
            dcqcn.target_bps,
            LINE / 2 + 7 * 40_000_000 + 200_000_000,
            "both have six behind them"
        );
        dcqcn.expire(dcqcn.next_deadline());
        dcqcn.sent(Picos::from_micros(390), 10_000_000);
        assert_eq!(
            dcqcn.target_bps,
            LINE / 2 + 7 * 40_000_000 + (1 + 1 + 2) * 200_000_000
        );
    }

    #[test]
    fn back_at_line_rate_it_asks_for_no_more_deadlines() {
        let mut dcqcn = dcqcn();
        dcqcn.notified(Picos::ZERO);
        let mut expired = 0;
        while dcqcn.next_deadline() != Picos::NEVER {
            dcqcn.expire(dcqcn.next_deadline());
            expired += 1;
        }
        assert_eq!(dcqcn.rate_bps(), LINE);
        assert!(expired < 40, "{expired}");
    }
}
