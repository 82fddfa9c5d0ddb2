//! DCQCN as network cards implement it. Notifications set flags, and two periodic checks read them.
//!
//! [`Dcqcn`](super::Dcqcn) is the published algorithm. This module differs in two points:
//!
//! - Alpha and the rate are updated periodically. Both periods start at the first notification. Several
//!   notifications in one period count as one notification.
//! - Only a timer increases the rate. There is no byte counter.
//!
//! All results equal those of the public HPCC model for ns-3 (`CC_MODE 1`) bit for bit. The HPCC model
//! follows ConnectX.
//!
//! The ns-3 model has one event per microsecond and queue pair. This module sets a deadline only if the rate
//! can change. The check for a rate reduction has a deadline only after a congestion notification (CNP). The
//! timer for rate increases has a deadline only until the rate reaches the line rate.

use xoff_units::Picos;

use super::alpha::AlphaEstimator;
use super::parameters::{FieldRef, ParameterField, ParameterSet, Preset};
use super::rate::RateBounds;
use super::{Ack, CongestionControl, CongestionSignal, ControllerContext};

/// Delay of the rate check. If an update of alpha is due at the same time, the update comes first, as in the
/// ns-3 model.
const CHECK_DELAY: Picos = Picos::from_nanos(1);

/// Parameters of [`DcqcnNic`]. Names in parentheses are those of NVIDIA's firmware and of the ns-3 model.
#[derive(Clone, Debug, PartialEq)]
pub struct DcqcnNicParameters {
    /// Period of the updates of alpha in nanoseconds, 100 ns to 100 ms
    /// (`DCE_TCP_RTT`, `ALPHA_RESUME_INTERVAL`).
    pub alpha_interval_ns: u64,
    /// Weight of an update of alpha, 0.0001 to 1 (`EWMA_GAIN`). The firmware parameter `DCE_TCP_G`
    /// is `(1 - g) * 1024`.
    pub g: f64,
    /// Alpha at the first notification, 0 to 1 (`INITIAL_ALPHA_VALUE`).
    pub initial_alpha: f64,
    /// Period of the rate check in nanoseconds, 100 ns to 100 ms
    /// (`RATE_REDUCE_MONITOR_PERIOD`, `RATE_DECREASE_INTERVAL`).
    pub decrease_interval_ns: u64,
    /// Smallest factor by which a cut multiplies the rate, 0 to 0.99 (`RPG_MIN_DEC_FAC`). Without this limit,
    /// the factor is `1 - alpha / 2`, which is at least 0.5. Values up to 0.5 therefore have no effect.
    pub min_decrease_factor: f64,
    /// Period of the increases after a cut in nanoseconds, 1 us to 1 s (`RPG_TIME_RESET`, `RP_TIMER`).
    pub increase_interval_ns: u64,
    /// Number of increases in fast recovery, 0 to 1000 (`RPG_THRESHOLD`, `FAST_RECOVERY_TIMES`). The next
    /// increase is an additive increase. All later increases are hyper increases.
    pub fast_recovery_times: u64,
    /// Step of the target rate in additive increase, in bits per second, 0 to 1 Tb/s
    /// (`RPG_AI_RATE`, `RATE_AI`).
    pub rate_ai_bps: u64,
    /// Step of the target rate in hyper increase, in bits per second, 0 to 1 Tb/s
    /// (`RPG_HAI_RATE`, `RATE_HAI`).
    pub rate_hai_bps: u64,
    /// Lowest rate in bits per second, 1 kb/s to 1 Tb/s (`RPG_MIN_RATE`, `MIN_RATE`).
    pub min_rate_bps: u64,
    /// Factor by which the first notification multiplies the rate, 0.001 to 1. In the firmware parameter
    /// `RATE_TO_SET_ON_FIRST_CNP`, 0 means the factor 1. The first cut follows later.
    pub first_cnp_rate: f64,
    /// If true, each cut sets the target rate to the rate before the cut (`CLAMP_TGT_RATE`). If false, only
    /// the first cut after an increase changes the target rate (`CLAMP_TGT_RATE_AFTER_TIME_INC`).
    pub clamp_target: bool,
    /// If true, a NAK counts as a notification, as in the ConWeave model.
    pub cut_on_nak: bool,
}

impl DcqcnNicParameters {
    /// Returns the preset `nvidia-firmware`, the default: the defaults of NVIDIA's firmware (mlxconfig)
    /// without the byte counter. The unit of `RPG_BYTE_RESET` is not documented, and the ns-3 models have no
    /// byte counter.
    pub fn nvidia_firmware() -> DcqcnNicParameters {
        DcqcnNicParameters {
            alpha_interval_ns: 1_000,
            g: 5.0 / 1024.0,
            initial_alpha: 1023.0 / 1024.0,
            decrease_interval_ns: 4_000,
            min_decrease_factor: 0.5,
            increase_interval_ns: 300_000,
            fast_recovery_times: 1,
            rate_ai_bps: 5_000_000,
            rate_hai_bps: 50_000_000,
            min_rate_bps: 1_000_000,
            first_cnp_rate: 1.0,
            clamp_target: false,
            cut_on_nak: false,
        }
    }

    /// Returns the preset `hpcc-ns3`: the values of the HPCC model for ns-3 (`run.py --cc dcqcn`).
    ///
    /// The additive increase is 1/5000 of the line rate, and the hyper increase is 1/500. The lowest rate is
    /// 1 Gb/s, as in the model. The model does not cover line rates below 25 Gb/s. For these, the lowest rate
    /// is 1/25 of the line rate.
    pub fn hpcc_ns3(line_rate_bps: u64) -> DcqcnNicParameters {
        DcqcnNicParameters {
            g: 1.0 / 256.0,
            initial_alpha: 1.0,
            rate_ai_bps: line_rate_bps / 5_000,
            rate_hai_bps: line_rate_bps / 500,
            min_rate_bps: (line_rate_bps / 25).clamp(1_000, 1_000_000_000),
            ..DcqcnNicParameters::nvidia_firmware()
        }
    }

    /// Returns the preset `conweave-ns3`: the values of the ConWeave model for ns-3 (`run.py`).
    ///
    /// The additive increase is 1/2500 of the line rate, and the hyper increase is 1/1000. The lowest rate is
    /// 100 Mb/s. For line rates below 25 Gb/s, the lowest rate is 1/250 of the line rate. A NAK causes a cut.
    pub fn conweave_ns3(line_rate_bps: u64) -> DcqcnNicParameters {
        DcqcnNicParameters {
            rate_ai_bps: line_rate_bps / 2_500,
            rate_hai_bps: line_rate_bps / 1_000,
            min_rate_bps: (line_rate_bps / 250).clamp(1_000, 100_000_000),
            cut_on_nak: true,
            ..DcqcnNicParameters::hpcc_ns3(line_rate_bps)
        }
    }
}

impl ParameterSet for DcqcnNicParameters {
    const ALGORITHM: &'static str = "dcqcn-nic";
    const FIELDS: &'static [ParameterField<Self>] = &[
        ParameterField::new("alpha_interval_ns", 100.0, 1e8, |p| {
            FieldRef::Whole(&mut p.alpha_interval_ns)
        }),
        ParameterField::new("g", 1e-4, 1.0, |p| FieldRef::Real(&mut p.g)),
        ParameterField::new("initial_alpha", 0.0, 1.0, |p| {
            FieldRef::Real(&mut p.initial_alpha)
        }),
        ParameterField::new("decrease_interval_ns", 100.0, 1e8, |p| {
            FieldRef::Whole(&mut p.decrease_interval_ns)
        }),
        ParameterField::new("min_decrease_factor", 0.0, 0.99, |p| {
            FieldRef::Real(&mut p.min_decrease_factor)
        }),
        ParameterField::new("increase_interval_ns", 1e3, 1e9, |p| {
            FieldRef::Whole(&mut p.increase_interval_ns)
        }),
        ParameterField::new("fast_recovery_times", 0.0, 1000.0, |p| {
            FieldRef::Whole(&mut p.fast_recovery_times)
        }),
        ParameterField::new("rate_ai_bps", 0.0, 1e12, |p| FieldRef::Whole(&mut p.rate_ai_bps)),
        ParameterField::new("rate_hai_bps", 0.0, 1e12, |p| {
            FieldRef::Whole(&mut p.rate_hai_bps)
        }),
        ParameterField::new("min_rate_bps", 1e3, 1e12, |p| {
            FieldRef::Whole(&mut p.min_rate_bps)
        }),
        ParameterField::new("first_cnp_rate", 1e-3, 1.0, |p| {
            FieldRef::Real(&mut p.first_cnp_rate)
        }),
        ParameterField::new_flag("clamp_target", |p| FieldRef::Flag(&mut p.clamp_target)),
        ParameterField::new_flag("cut_on_nak", |p| FieldRef::Flag(&mut p.cut_on_nak)),
    ];
    const PRESETS: &'static [Preset<Self>] = &[
        Preset {
            name: "nvidia-firmware",
            make: |_| DcqcnNicParameters::nvidia_firmware(),
        },
        Preset {
            name: "hpcc-ns3",
            make: |context| DcqcnNicParameters::hpcc_ns3(context.line_rate_bps),
        },
        Preset {
            name: "conweave-ns3",
            make: |context| DcqcnNicParameters::conweave_ns3(context.line_rate_bps),
        },
    ];
}

/// DCQCN as network cards implement it. Congestion notifications set flags, and periodic checks read the
/// flags. Only a timer increases the rate. [`Dcqcn`](super::Dcqcn) is the published algorithm.
///
/// A marked acknowledgement counts as a notification, so the controller works with CNPs and with marks
/// in acknowledgements.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct DcqcnNic {
    rate_bps: u64,
    /// Next rate check after a notification. [`Picos::NEVER`] without a notification since the last check.
    check_due: Picos,
    increase_due: Picos,
    target_bps: u64,
    /// Time of the first rate check. [`Picos::NEVER`] before the first notification.
    first_check: Picos,
    /// Number of increases since the last cut.
    stage: u64,
    notification_delay: Picos,
    alpha: AlphaEstimator,
    bounds: RateBounds,
    parameters: DcqcnNicParameters,
}

impl DcqcnNic {
    /// Creates a controller that starts at line rate. Parameters outside their ranges are replaced by the
    /// nearest limit.
    pub fn new(parameters: DcqcnNicParameters, context: &ControllerContext) -> DcqcnNic {
        let parameters = parameters.clamped();
        let bounds = RateBounds::new(parameters.min_rate_bps, context);
        DcqcnNic {
            bounds,
            rate_bps: bounds.line_bps,
            target_bps: bounds.line_bps,
            alpha: AlphaEstimator::new(
                parameters.initial_alpha,
                parameters.g,
                Picos::from_nanos(parameters.alpha_interval_ns),
            ),
            first_check: Picos::NEVER,
            check_due: Picos::NEVER,
            increase_due: Picos::NEVER,
            stage: 0,
            notification_delay: Picos::ZERO,
            parameters,
        }
    }

    /// Sets the delay of the last link of a notification. Default 0.
    ///
    /// The delay matters only if a notification arrives exactly at the time of an update of alpha or of a
    /// rate check. The ns-3 model runs simultaneous events in the order in which they were scheduled. If the
    /// delay is longer than the period, the arrival of the notification was scheduled before the check. The
    /// check then uses the notification.
    #[must_use]
    pub fn with_notification_delay(mut self, delay: Picos) -> DcqcnNic {
        self.notification_delay = delay;
        self
    }

    /// Returns the time up to which periodic events run before a notification. For a notification that
    /// arrives at `now`, this time is `now` or 1 ps earlier.
    fn events_done_until(&self, now: Picos, period_ns: u64) -> Picos {
        match self.notification_delay > Picos::from_nanos(period_ns) {
            true => Picos(now.0.saturating_sub(1)),
            false => now,
        }
    }

    /// Processes all events up to and including `now`, in the order of their times.
    fn process_due_events(&mut self, now: Picos) {
        // Of two simultaneous events, the model first runs the event that was scheduled first. This is the
        // event with the longer period.
        let increase_wins = self.parameters.increase_interval_ns > self.parameters.decrease_interval_ns;
        loop {
            let due = self.next_deadline();
            if due > now || due == Picos::NEVER {
                return;
            }
            if self.increase_due < self.check_due || (self.increase_due == self.check_due && increase_wins) {
                self.increase_rate();
            } else {
                self.cut_rate();
            }
        }
    }

    /// Cuts the rate at the first rate check after a notification.
    fn cut_rate(&mut self) {
        let now = self.check_due;
        if self.parameters.clamp_target || self.stage > 0 {
            self.target_bps = self.rate_bps;
        }
        let factor = (1.0 - self.alpha.value_at(now) / 2.0).max(self.parameters.min_decrease_factor);
        self.rate_bps = self.bounds.clamp(self.rate_bps as f64 * factor);
        self.stage = 0;
        self.check_due = Picos::NEVER;
        self.increase_due = now.saturating_add(Picos::from_nanos(self.parameters.increase_interval_ns));
    }

    /// Increases the rate when the increase timer fires.
    fn increase_rate(&mut self) {
        let before = (self.rate_bps, self.target_bps);
        let step = match self.stage.cmp(&self.parameters.fast_recovery_times) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => self.parameters.rate_ai_bps,
            std::cmp::Ordering::Greater => self.parameters.rate_hai_bps,
        };
        self.target_bps = self.target_bps.saturating_add(step).min(self.bounds.line_bps);
        // Each half is rounded down to whole bits, as in the model.
        self.rate_bps = self
            .bounds
            .clamp((self.rate_bps / 2 + self.target_bps / 2) as f64);
        self.stage += 1;
        let period = Picos::from_nanos(self.parameters.increase_interval_ns);
        // If the target is the line rate and the rate did not change, further increases have no effect. A
        // later cut only needs to know that an increase has occurred.
        let settled = self.target_bps == self.bounds.line_bps && before == (self.rate_bps, self.target_bps);
        self.increase_due = if settled {
            Picos::NEVER
        } else {
            self.increase_due.saturating_add(period)
        };
    }

    /// Returns the time of the first rate check after `now`.
    fn next_check_after(&self, now: Picos) -> Picos {
        if now < self.first_check {
            return self.first_check;
        }
        let period = Picos::from_nanos(self.parameters.decrease_interval_ns).0;
        let passed = (now - self.first_check).0 / period + 1;
        self.first_check
            .saturating_add(Picos(passed.saturating_mul(period)))
    }

    fn start_periods(&mut self, now: Picos) {
        self.alpha.start_updates(now);
        let period = Picos::from_nanos(self.parameters.decrease_interval_ns);
        self.first_check = now.saturating_add(period).saturating_add(CHECK_DELAY);
        self.rate_bps = self
            .bounds
            .clamp(self.rate_bps as f64 * self.parameters.first_cnp_rate);
        self.target_bps = self.rate_bps;
    }
}

impl CongestionControl for DcqcnNic {
    fn name(&self) -> &'static str {
        DcqcnNicParameters::ALGORITHM
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

    fn on_ack(&mut self, now: Picos, ack: &Ack<'_>) {
        if ack.marked {
            self.on_cnp(now);
        }
    }

    fn on_cnp(&mut self, now: Picos) {
        let checked = self.events_done_until(now, self.parameters.decrease_interval_ns);
        self.process_due_events(checked);
        if self.first_check == Picos::NEVER {
            self.start_periods(now);
        } else {
            // The updates up to now have not seen this notification. The next update does.
            self.alpha
                .value_at(self.events_done_until(now, self.parameters.alpha_interval_ns));
            self.alpha.mark_congested();
        }
        if self.check_due == Picos::NEVER {
            self.check_due = self.next_check_after(checked);
        }
    }

    fn on_nak(&mut self, now: Picos) {
        if self.parameters.cut_on_nak {
            self.on_cnp(now);
        }
    }

    fn next_deadline(&self) -> Picos {
        self.check_due.min(self.increase_due)
    }

    fn on_deadline(&mut self, now: Picos) {
        self.process_due_events(now);
    }
}

#[cfg(test)]
#[path = "tests/dcqcn_nic.rs"]
mod tests;
