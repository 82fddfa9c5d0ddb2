//! DCQCN as network cards implement it: notifications set flags, two periodic checks act on them.
//!
//! Differs from the algorithm as published ([`Dcqcn`](super::Dcqcn)) in that alpha and the rate follow grids of their own,
//! both from the first notification on, so that many notifications in one interval count as one; and in that only a timer
//! raises the rate, no byte counter. The behaviour is that of the public HPCC model for ns-3 (`CC_MODE 1`), bit for bit in
//! its arithmetic, which in turn follows ConnectX.
//!
//! The model runs an event per microsecond and queue pair. Here only what changes the rate is a deadline: the rate check
//! while a notification is pending, and the increase timer until the rate is back at the line's.

use xoff_units::Picos;

use super::alpha::Alpha;
use super::parameters::{Field, ParameterSet, Preset, Slot};
use super::rate::Bounds;
use super::{Ack, CongestionControl, Context, Signal};

/// The rate check comes this long after the update of alpha with which it would coincide, as in the ns-3 model.
const CHECK_DELAY: Picos = Picos::from_nanos(1);

/// Parameters of [`DcqcnNic`]. In brackets the names of NVIDIA's firmware settings and of the ns-3 model's.
#[derive(Clone, Debug, PartialEq)]
pub struct DcqcnNicParameters {
    /// Period of the updates of alpha, 100 ns to 100 ms (`DCE_TCP_RTT`, `ALPHA_RESUME_INTERVAL`).
    pub alpha_interval_ns: u64,
    /// Weight of an update of alpha, 0.0001 to 1 (`DCE_TCP_G`: `1 - g` in 1/1024; `EWMA_GAIN`).
    pub g: f64,
    /// Alpha at the first notification, 0 to 1 (`INITIAL_ALPHA_VALUE`).
    pub initial_alpha: f64,
    /// Period of the rate check, 100 ns to 100 ms (`RATE_REDUCE_MONITOR_PERIOD`, `RATE_DECREASE_INTERVAL`).
    pub decrease_interval_ns: u64,
    /// What a cut leaves at least, as a share of the rate, 0 to 0.99 (`RPG_MIN_DEC_FAC`). As alpha is at most 1, a share
    /// of up to 0.5 has no effect.
    pub min_decrease_factor: f64,
    /// Period of the increases after a cut, 1 us to 1 s (`RPG_TIME_RESET`, `RP_TIMER`).
    pub increase_interval_ns: u64,
    /// How many increases are fast recovery, 0 to 1000; then comes one additive increase, then hyper increase
    /// (`RPG_THRESHOLD`, `FAST_RECOVERY_TIMES`).
    pub fast_recovery_times: u64,
    /// What additive increase adds to the target rate, bits per second, 0 to 1 Tb/s (`RPG_AI_RATE`, `RATE_AI`).
    pub rate_ai_bps: u64,
    /// What hyper increase adds to it, bits per second, 0 to 1 Tb/s (`RPG_HAI_RATE`, `RATE_HAI`).
    pub rate_hai_bps: u64,
    /// Lowest rate, bits per second, 1 kb/s to 1 Tb/s (`RPG_MIN_RATE`, `MIN_RATE`).
    pub min_rate_bps: u64,
    /// Share of its rate that a flow keeps at the first notification, before the first cut, 0.001 to 1
    /// (`RATE_TO_SET_ON_FIRST_CNP`, where 0 means all).
    pub first_cnp_rate: f64,
    /// Whether each cut sets the target rate to the rate before it (`CLAMP_TGT_RATE`); otherwise only the first one after
    /// an increase does (`CLAMP_TGT_RATE_AFTER_TIME_INC`).
    pub clamp_target: bool,
    /// Whether a missed packet counts as a notification, as in the ConWeave model.
    pub cut_on_nak: bool,
}

impl DcqcnNicParameters {
    /// Defaults of NVIDIA's firmware (mlxconfig). Its byte counter is left out: `RPG_BYTE_RESET` has no documented unit,
    /// and the ns-3 models have none.
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

    /// The HPCC model's `run.py --cc dcqcn`: increases of 1/5000 and 1/500 of the line rate. Its lowest rate of 1 Gb/s is
    /// kept from 25 Gb/s on; slower links, for which the model was not made, get 1/25 of their rate.
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

    /// The ConWeave model's `run.py`: increases of 1/2500 and 1/1000 of the line rate, lowest rate 100 Mb/s (1/250 of a
    /// line below 25 Gb/s), and a cut for a missed packet.
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
    const FIELDS: &'static [Field<Self>] = &[
        Field::new("alpha_interval_ns", 100.0, 1e8, |p| {
            Slot::Whole(&mut p.alpha_interval_ns)
        }),
        Field::new("g", 1e-4, 1.0, |p| Slot::Real(&mut p.g)),
        Field::new("initial_alpha", 0.0, 1.0, |p| Slot::Real(&mut p.initial_alpha)),
        Field::new("decrease_interval_ns", 100.0, 1e8, |p| {
            Slot::Whole(&mut p.decrease_interval_ns)
        }),
        Field::new("min_decrease_factor", 0.0, 0.99, |p| {
            Slot::Real(&mut p.min_decrease_factor)
        }),
        Field::new("increase_interval_ns", 1e3, 1e9, |p| {
            Slot::Whole(&mut p.increase_interval_ns)
        }),
        Field::new("fast_recovery_times", 0.0, 1000.0, |p| {
            Slot::Whole(&mut p.fast_recovery_times)
        }),
        Field::new("rate_ai_bps", 0.0, 1e12, |p| Slot::Whole(&mut p.rate_ai_bps)),
        Field::new("rate_hai_bps", 0.0, 1e12, |p| Slot::Whole(&mut p.rate_hai_bps)),
        Field::new("min_rate_bps", 1e3, 1e12, |p| Slot::Whole(&mut p.min_rate_bps)),
        Field::new("first_cnp_rate", 1e-3, 1.0, |p| Slot::Real(&mut p.first_cnp_rate)),
        Field::flag("clamp_target", |p| Slot::Flag(&mut p.clamp_target)),
        Field::flag("cut_on_nak", |p| Slot::Flag(&mut p.cut_on_nak)),
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

/// DCQCN as network cards implement it; see the module's head in the source for how it differs from the published one.
///
/// A marked acknowledgement counts as a notification, so it works with either [`Feedback`](super::Feedback).
#[derive(Clone, Debug)]
pub struct DcqcnNic {
    parameters: DcqcnNicParameters,
    bounds: Bounds,
    rate_bps: u64,
    target_bps: u64,
    alpha: Alpha,
    /// Time of the first rate check; [`Picos::NEVER`] before the first notification.
    first_check: Picos,
    /// The rate check that a pending notification waits for.
    check_due: Picos,
    increase_due: Picos,
    /// Increases since the last cut.
    stage: u64,
    notification_lead: Picos,
}

impl DcqcnNic {
    /// Starts at line rate. Values out of range are taken at the nearest end of it.
    pub fn new(parameters: DcqcnNicParameters, context: &Context) -> DcqcnNic {
        let parameters = parameters.clamped();
        let bounds = Bounds::new(parameters.min_rate_bps, context);
        DcqcnNic {
            bounds,
            rate_bps: bounds.line_bps,
            target_bps: bounds.line_bps,
            alpha: Alpha::new(
                parameters.initial_alpha,
                parameters.g,
                Picos::from_nanos(parameters.alpha_interval_ns),
            ),
            first_check: Picos::NEVER,
            check_due: Picos::NEVER,
            increase_due: Picos::NEVER,
            stage: 0,
            notification_lead: Picos::ZERO,
            parameters,
        }
    }

    /// How long a notification has been under way on its last link. It decides where one arrives at the very time of an update
    /// of alpha or of a rate check: the ns-3 model runs first what it scheduled first, so a notification that left before the
    /// period began is seen by what ends the period. By default none is.
    #[must_use]
    pub fn with_notification_lead(mut self, lead: Picos) -> DcqcnNic {
        self.notification_lead = lead;
        self
    }

    /// The time up to which events of a period have happened when a notification arrives.
    fn happened(&self, now: Picos, period_ns: u64) -> Picos {
        match self.notification_lead > Picos::from_nanos(period_ns) {
            true => Picos(now.0.saturating_sub(1)),
            false => now,
        }
    }

    /// Does what is due up to and including `now`, in its order.
    fn advance(&mut self, now: Picos) {
        // Of two events at one instant the model runs the one that was scheduled first: that of the longer period.
        let increase_wins = self.parameters.increase_interval_ns > self.parameters.decrease_interval_ns;
        loop {
            let due = self.next_deadline();
            if due > now || due == Picos::NEVER {
                return;
            }
            if self.increase_due < self.check_due || (self.increase_due == self.check_due && increase_wins) {
                self.increase();
            } else {
                self.cut();
            }
        }
    }

    /// The rate check with a notification pending.
    fn cut(&mut self) {
        let now = self.check_due;
        if self.parameters.clamp_target || self.stage > 0 {
            self.target_bps = self.rate_bps;
        }
        let factor = (1.0 - self.alpha.at(now) / 2.0).max(self.parameters.min_decrease_factor);
        self.rate_bps = self.bounds.clamp(self.rate_bps as f64 * factor);
        self.stage = 0;
        self.check_due = Picos::NEVER;
        self.increase_due = now.saturating_add(Picos::from_nanos(self.parameters.increase_interval_ns));
    }

    /// The increase timer.
    fn increase(&mut self) {
        let before = (self.rate_bps, self.target_bps);
        let step = match self.stage.cmp(&self.parameters.fast_recovery_times) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => self.parameters.rate_ai_bps,
            std::cmp::Ordering::Greater => self.parameters.rate_hai_bps,
        };
        self.target_bps = self.target_bps.saturating_add(step).min(self.bounds.line_bps);
        // Each half is cut down to whole bits, as in the model.
        self.rate_bps = self
            .bounds
            .clamp((self.rate_bps / 2 + self.target_bps / 2) as f64);
        self.stage += 1;
        let period = Picos::from_nanos(self.parameters.increase_interval_ns);
        // With the target at line rate and the rate where it stays, no further increase changes anything, and a cut
        // asks only whether there was one.
        let settled = self.target_bps == self.bounds.line_bps && before == (self.rate_bps, self.target_bps);
        self.increase_due = if settled {
            Picos::NEVER
        } else {
            self.increase_due.saturating_add(period)
        };
    }

    /// The first rate check after `now`.
    fn check_after(&self, now: Picos) -> Picos {
        if now < self.first_check {
            return self.first_check;
        }
        let period = Picos::from_nanos(self.parameters.decrease_interval_ns).0;
        let passed = (now - self.first_check).0 / period + 1;
        self.first_check
            .saturating_add(Picos(passed.saturating_mul(period)))
    }

    fn start(&mut self, now: Picos) {
        self.alpha.start(now);
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

    fn signals(&self) -> &'static [Signal] {
        &[Signal::Cnp, Signal::MarkEcho]
    }

    fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    fn acknowledged(&mut self, now: Picos, ack: &Ack<'_>) {
        if ack.marked {
            self.notified(now);
        }
    }

    fn notified(&mut self, now: Picos) {
        let checked = self.happened(now, self.parameters.decrease_interval_ns);
        self.advance(checked);
        if self.first_check == Picos::NEVER {
            self.start(now);
        } else {
            // The updates up to now did not see this notification, the next one does.
            self.alpha
                .at(self.happened(now, self.parameters.alpha_interval_ns));
            self.alpha.flag();
        }
        if self.check_due == Picos::NEVER {
            self.check_due = self.check_after(checked);
        }
    }

    fn missed(&mut self, now: Picos) {
        if self.parameters.cut_on_nak {
            self.notified(now);
        }
    }

    fn next_deadline(&self) -> Picos {
        self.check_due.min(self.increase_due)
    }

    fn expire(&mut self, now: Picos) {
        self.advance(now);
    }
}

#[cfg(test)]
#[path = "tests/dcqcn_nic.rs"]
mod tests;
