//! DCQCN of a NIC: single steps, and a comparison with a model that runs each periodic event.

use proptest::prelude::*;

use super::super::tests::{ack, context};
use super::*;

const LINE: u64 = 100_000_000_000;

fn nic(parameters: DcqcnNicParameters) -> DcqcnNic {
    DcqcnNic::new(parameters, &context(LINE))
}

#[test]
fn the_rate_decreases_at_the_check_after_a_notification() {
    let mut nic = nic(DcqcnNicParameters::hpcc_ns3(LINE));
    assert_eq!(nic.next_deadline(), Picos::NEVER);
    nic.on_cnp(Picos::from_micros(10));
    assert_eq!(nic.rate_bps(), LINE);
    assert_eq!(nic.next_deadline(), Picos::from_nanos(14_001));
    nic.on_cnp(Picos::from_micros(13));
    nic.on_deadline(Picos::from_nanos(14_001));
    // Alpha is updated at 11, 12 and 13 us without a notification and at 14 us with one. The notification at
    // 13 us came after the update.
    let fall = 255.0_f64 / 256.0;
    let alpha = fall * fall * fall * fall + 1.0 / 256.0;
    assert_eq!(nic.rate_bps(), (LINE as f64 * (1.0 - alpha / 2.0)) as u64);
    assert_eq!(
        nic.next_deadline(),
        Picos::from_nanos(314_001),
        "the increase timer starts with the cut"
    );
}

#[test]
fn a_notification_from_before_the_period_counts_at_its_end() {
    let fall = 255.0_f64 / 256.0;
    // The first notification is at 10 us. Alpha is updated from 11 us, and the rate is checked at 14.001 us
    // and every 4 us.
    let rate_after = |lead_ns: u64, second: Picos, check_ns: u64| {
        let mut nic =
            nic(DcqcnNicParameters::hpcc_ns3(LINE)).with_notification_delay(Picos::from_nanos(lead_ns));
        nic.on_cnp(Picos::from_micros(10));
        nic.on_cnp(second);
        nic.on_deadline(Picos::from_nanos(check_ns));
        nic.rate_bps()
    };
    let cut = |rate: f64, alpha: f64| (rate * (1.0 - alpha / 2.0)) as u64;
    let seen_at = |update: i32| {
        let before = fall.powi(update) + 1.0 / 256.0;
        before * fall.powi(4 - update)
    };
    // A notification at 13 us, the time of the third update. Without a delay the fourth update sees it, and
    // with a delay above 1 us the third.
    for (lead_ns, alpha) in [(0, fall.powi(4) + 1.0 / 256.0), (1_004, seen_at(3))] {
        let rate = rate_after(lead_ns, Picos::from_micros(13), 14_001);
        let expected = cut(LINE as f64, alpha);
        assert!(rate.abs_diff(expected) <= 1, "{lead_ns}: {rate} {expected}");
    }
    // A notification at the time of the first check. By default the next check, at 18.001 us, sees it.
    let check = Picos::from_nanos(14_001);
    assert!(rate_after(0, check, 18_001) < rate_after(4_004, check, 18_001));
}

#[test]
fn one_fast_recovery_one_additive_increase_then_hyper() {
    let mut nic = nic(DcqcnNicParameters::hpcc_ns3(LINE));
    nic.first_check = Picos::ZERO;
    nic.rate_bps = 40_000_000_000;
    nic.target_bps = 80_000_000_000;
    nic.increase_due = Picos::from_micros(300);
    nic.on_deadline(Picos::from_micros(300));
    assert_eq!(nic.rate_bps(), 60_000_000_000);
    nic.on_deadline(Picos::from_micros(600));
    assert_eq!((nic.target_bps, nic.rate_bps()), (80_020_000_000, 70_010_000_000));
    nic.on_deadline(Picos::from_micros(900));
    assert_eq!((nic.target_bps, nic.rate_bps()), (80_220_000_000, 75_115_000_000));
    nic.on_deadline(Picos::from_micros(1200));
    assert_eq!(nic.target_bps, 80_420_000_000);
}

#[test]
fn the_target_follows_the_rate_only_after_an_increase_unless_clamped() {
    for clamp_target in [false, true] {
        let mut nic = nic(DcqcnNicParameters {
            clamp_target,
            ..DcqcnNicParameters::hpcc_ns3(LINE)
        });
        nic.on_cnp(Picos::ZERO);
        nic.on_cnp(Picos::from_micros(5));
        nic.on_deadline(Picos::from_micros(9));
        assert_eq!(nic.target_bps == LINE, !clamp_target, "two cuts in a row");
        nic.on_deadline(Picos::from_micros(310));
        let before = nic.rate_bps();
        nic.on_cnp(Picos::from_micros(311));
        nic.on_deadline(Picos::from_micros(320));
        assert_eq!(nic.target_bps, before);
    }
}

#[test]
fn a_nak_causes_a_cut_only_with_cut_on_nak() {
    let mut firmware = nic(DcqcnNicParameters::nvidia_firmware());
    firmware.on_nak(Picos::ZERO);
    assert_eq!(firmware.next_deadline(), Picos::NEVER);
    let mut conweave = nic(DcqcnNicParameters::conweave_ns3(LINE));
    conweave.on_nak(Picos::ZERO);
    assert_eq!(conweave.next_deadline(), Picos::from_nanos(4_001));
    firmware.on_ack(Picos::ZERO, &ack(1000, 1000, 1000).marked());
    assert_eq!(
        firmware.next_deadline(),
        Picos::from_nanos(4_001),
        "an echoed mark does too"
    );
}

#[test]
fn deadlines_are_few() {
    let mut nic = nic(DcqcnNicParameters::nvidia_firmware());
    nic.on_cnp(Picos::ZERO);
    let mut expired: u64 = 0;
    while nic.next_deadline() != Picos::NEVER {
        nic.on_deadline(nic.next_deadline());
        expired += 1;
        assert!(expired < 1_000);
    }
    assert!(nic.rate_bps() >= LINE - 1, "{}", nic.rate_bps());
    // One cut, and increases of half the distance to line rate until none is left.
    assert!(expired < 45, "{expired}");
}

/// Events of the model. Each event schedules its successor.
#[derive(Clone, Copy, PartialEq)]
enum Event {
    UpdateAlpha,
    CheckRate,
    Increase,
}

/// The algorithm with one event per period, in whole nanoseconds, as the ns-3 model runs it.
struct PeriodicModel {
    parameters: DcqcnNicParameters,
    /// Time, order of scheduling and event.
    events: Vec<(u64, u64, Event)>,
    scheduled: u64,
    started: bool,
    alpha: f64,
    alpha_flag: bool,
    decrease_flag: bool,
    rate: u64,
    target: u64,
    stage: u64,
}

impl PeriodicModel {
    fn new(parameters: DcqcnNicParameters) -> PeriodicModel {
        PeriodicModel {
            parameters,
            events: Vec::new(),
            scheduled: 0,
            started: false,
            alpha: 0.0,
            alpha_flag: false,
            decrease_flag: false,
            rate: LINE,
            target: LINE,
            stage: 0,
        }
    }

    fn schedule(&mut self, at_ns: u64, event: Event) {
        self.scheduled += 1;
        self.events.push((at_ns, self.scheduled, event));
    }

    fn notified(&mut self, now_ns: u64) {
        self.alpha_flag = self.started;
        self.decrease_flag = true;
        if !self.started {
            self.started = true;
            self.alpha = self.parameters.initial_alpha;
            self.schedule(now_ns + self.parameters.alpha_interval_ns, Event::UpdateAlpha);
            self.schedule(
                now_ns + self.parameters.decrease_interval_ns + 1,
                Event::CheckRate,
            );
            self.rate = (self.rate as f64 * self.parameters.first_cnp_rate) as u64;
            self.target = self.rate;
        }
    }

    fn run_until(&mut self, now_ns: u64) {
        while let Some(first) = self
            .events
            .iter()
            .copied()
            .min_by_key(|(at, order, _)| (*at, *order))
        {
            if first.0 > now_ns {
                return;
            }
            self.events.retain(|event| event.1 != first.1);
            match first.2 {
                Event::UpdateAlpha => self.update_alpha(first.0),
                Event::CheckRate => self.check_rate(first.0),
                Event::Increase => self.increase(first.0),
            }
        }
    }

    fn update_alpha(&mut self, now_ns: u64) {
        let g = self.parameters.g;
        self.alpha = (1.0 - g) * self.alpha + if self.alpha_flag { g } else { 0.0 };
        self.alpha_flag = false;
        self.schedule(now_ns + self.parameters.alpha_interval_ns, Event::UpdateAlpha);
    }

    fn check_rate(&mut self, now_ns: u64) {
        self.schedule(now_ns + self.parameters.decrease_interval_ns, Event::CheckRate);
        if !self.decrease_flag {
            return;
        }
        if self.parameters.clamp_target || self.stage != 0 {
            self.target = self.rate;
        }
        let cut = (self.rate as f64 * (1.0 - self.alpha / 2.0)) as u64;
        self.rate = cut.max(self.parameters.min_rate_bps);
        self.stage = 0;
        self.decrease_flag = false;
        self.events.retain(|event| event.2 != Event::Increase);
        self.schedule(now_ns + self.parameters.increase_interval_ns, Event::Increase);
    }

    fn increase(&mut self, now_ns: u64) {
        self.schedule(now_ns + self.parameters.increase_interval_ns, Event::Increase);
        let threshold = self.parameters.fast_recovery_times;
        if self.stage == threshold {
            self.target = (self.target + self.parameters.rate_ai_bps).min(LINE);
        } else if self.stage > threshold {
            self.target = (self.target + self.parameters.rate_hai_bps).min(LINE);
        }
        self.rate = self.rate / 2 + self.target / 2;
        self.stage += 1;
    }
}

fn parameters() -> impl Strategy<Value = DcqcnNicParameters> {
    let presets = prop_oneof![
        Just(DcqcnNicParameters::nvidia_firmware()),
        Just(DcqcnNicParameters::hpcc_ns3(LINE)),
        Just(DcqcnNicParameters::conweave_ns3(LINE)),
    ];
    // Increase timers of several lengths, among them multiples of the check period and one shorter period.
    let timers =
        prop_oneof![4 => Just(300_000_u64), 1 => Just(8_000), 1 => Just(3_000), 1 => 1_000..50_000_u64];
    (presets, timers, any::<bool>(), prop_oneof![Just(1.0), Just(0.5)]).prop_map(
        |(preset, increase_interval_ns, clamp_target, first_cnp_rate)| DcqcnNicParameters {
            increase_interval_ns,
            clamp_target,
            first_cnp_rate,
            ..preset
        },
    )
}

/// Nanoseconds between notifications: bursts, times at a check, and gaps long enough to reach line rate.
fn notification_gaps() -> impl Strategy<Value = Vec<u64>> {
    let gap = prop_oneof![
        8 => 0..2_000_u64,
        4 => (0..12_u64).prop_map(|us| us * 1_000),
        2 => (0..5_u64).prop_map(|checks| checks * 4_000 + 1),
        2 => 0..100_000_u64,
        1 => 0..3_000_000_u64,
        1 => (1..4_u64).prop_map(|periods| periods * 300_000),
    ];
    prop::collection::vec(gap, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_rate_equals_that_of_the_periodic_model_at_every_microsecond(
        parameters in parameters(),
        gaps in notification_gaps(),
        offset_ns in 0..5_000_u64,
    ) {
        let mut nic = nic(parameters.clone());
        let mut reference = PeriodicModel::new(parameters);
        let mut now_ns = offset_ns;
        let mut sample_ns = 0;
        let end = gaps.iter().sum::<u64>() + offset_ns + 1_000_000;
        let mut times = gaps.iter().map(|gap| { now_ns += gap; now_ns }).collect::<Vec<_>>();
        times.push(end);
        for (i, time) in times.iter().enumerate() {
            while sample_ns <= *time {
                while nic.next_deadline() <= Picos::from_nanos(sample_ns) {
                    nic.on_deadline(nic.next_deadline());
                }
                reference.run_until(sample_ns);
                prop_assert_eq!(nic.rate_bps(), reference.rate, "at {} ns", sample_ns);
                sample_ns += 1_000;
            }
            if i + 1 < times.len() {
                reference.run_until(*time);
                reference.notified(*time);
                nic.on_cnp(Picos::from_nanos(*time));
                prop_assert_eq!(nic.rate_bps(), reference.rate, "at {} ns", time);
            }
        }
    }
}
