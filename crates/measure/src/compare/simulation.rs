//! Simulates comparisons on noisy machines. A program is compared with itself and with a program that
//! is 5 % slower.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{SignificanceTestPlan, Verdict};
use crate::compare::statistics::signed_rank_test;
use crate::compare::undisturbed_pairs::select_undisturbed_pairs;

/// The gate of these comparisons, as a logarithm.
const LOG_GATE: f64 = 0.03;

/// Disturbances of the samples on a simulated machine.
#[derive(Clone, Copy, Debug)]
enum NoiseModel {
    /// The logarithm of a sample has a normal distribution with this standard deviation, like the noise from
    /// memory layout.
    LogNormal(f64),
    /// One of ten samples takes up to twice as long, as if other programs had filled the cache.
    Outliers,
    /// The machine slows down by 20 % over 200 samples. Another program runs during every second block
    /// of 30 samples.
    Drift,
    /// Each process has one of two speeds, 6 % apart.
    TwoSpeeds,
    /// Another program uses the same core, for five samples on average. These samples take 1.6 times as long.
    SharedCore,
}

struct SimulatedMachine {
    random: Xoshiro256PlusPlus,
    noise: NoiseModel,
    samples: u32,
    is_core_shared: bool,
}

impl SimulatedMachine {
    fn new(noise: NoiseModel, seed: u64) -> SimulatedMachine {
        SimulatedMachine {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            noise,
            samples: 0,
            is_core_shared: false,
        }
    }

    fn draw_uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn draw_normal(&mut self) -> f64 {
        (0..12).map(|_| self.draw_uniform()).sum::<f64>() - 6.0
    }

    /// Returns the logarithm of a measured sample. `log_cost` is the logarithm of the cost of the program
    /// without disturbances.
    fn measure_log_cost(&mut self, log_cost: f64) -> f64 {
        self.samples += 1;
        let (normal, drawn) = (self.draw_normal(), self.draw_uniform());
        log_cost
            + match self.noise {
                NoiseModel::LogNormal(deviation) => deviation * normal,
                NoiseModel::Outliers if drawn < 0.1 => drawn * 10.0 * 2_f64.ln(),
                NoiseModel::Outliers => 0.01 * normal,
                NoiseModel::Drift => {
                    let other_program = if self.samples / 30 % 2 == 1 { 0.1 } else { 0.0 };
                    0.2 * f64::from(self.samples) / 200.0 + other_program + 0.01 * normal
                }
                NoiseModel::SharedCore => {
                    self.is_core_shared ^= drawn < 0.2;
                    f64::from(u8::from(self.is_core_shared)) * 1.6_f64.ln() + 0.015 * normal
                }
                NoiseModel::TwoSpeeds => {
                    let speed = if drawn < 0.5 { 0.06 } else { 0.0 };
                    speed + 0.005 * normal
                }
            }
    }
}

/// Simulates a comparison of up to 64 pairs. `log_slowdown` is the logarithm of the ratio of B's cost to
/// A's cost.
fn simulate_comparison(noise: NoiseModel, log_slowdown: f64, seed: u64) -> Verdict {
    let mut machine = SimulatedMachine::new(noise, seed);
    let plan = SignificanceTestPlan::new(64, true, 1);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let mut verdict = Verdict::Undecided;
    for &pairs in &plan.evaluation_pairs {
        while a.len() < pairs {
            if machine.draw_uniform() < 0.5 {
                a.push(machine.measure_log_cost(0.0));
                b.push(machine.measure_log_cost(log_slowdown));
            } else {
                b.push(machine.measure_log_cost(log_slowdown));
                a.push(machine.measure_log_cost(0.0));
            }
        }
        let pairs = a.iter().zip(&b).zip(select_undisturbed_pairs(&a, &b));
        let differences: Vec<f64> = pairs
            .filter_map(|((a, b), is_selected)| is_selected.then_some(b - a))
            .collect();
        let shift = signed_rank_test(&differences, plan.alpha_per_test());
        verdict = Verdict::of_shift(&shift, Some(LOG_GATE));
        if verdict != Verdict::Undecided {
            break;
        }
    }
    verdict
}

/// Returns the share of 1000 simulated comparisons that end with `verdict`.
fn verdict_share(noise: NoiseModel, log_slowdown: f64, verdict: Verdict) -> f64 {
    let runs = 1_000;
    let count = (0..runs)
        .filter(|&seed| simulate_comparison(noise, log_slowdown, seed) == verdict)
        .count();
    count as f64 / f64::from(runs as u32)
}

const NOISE_MODELS: [NoiseModel; 6] = [
    NoiseModel::LogNormal(0.01),
    NoiseModel::LogNormal(0.04),
    NoiseModel::Outliers,
    NoiseModel::Drift,
    NoiseModel::TwoSpeeds,
    NoiseModel::SharedCore,
];

#[test]
fn a_program_compared_with_itself_is_never_worse() {
    for noise in NOISE_MODELS.into_iter().chain([NoiseModel::LogNormal(0.2)]) {
        // The confidence level permits 1 wrong result in 2000 comparisons on this side.
        assert!(verdict_share(noise, 0.0, Verdict::Worse) <= 0.002, "{noise:?}");
    }
}

#[test]
fn a_program_that_is_five_percent_slower_is_worse_and_never_equal() {
    for noise in NOISE_MODELS {
        assert!(verdict_share(noise, 0.05, Verdict::Worse) >= 0.95, "{noise:?}");
    }
    for noise in NOISE_MODELS.into_iter().chain([NoiseModel::LogNormal(0.2)]) {
        assert_eq!(verdict_share(noise, 0.05, Verdict::Equal), 0.0, "{noise:?}");
    }
}

#[test]
fn a_program_compared_with_itself_on_an_undisturbed_machine_is_equal() {
    assert!(verdict_share(NoiseModel::LogNormal(0.01), 0.0, Verdict::Equal) >= 0.98);
}

#[test]
fn a_comparison_on_a_very_noisy_machine_is_undecided() {
    assert!(verdict_share(NoiseModel::LogNormal(0.2), 0.0, Verdict::Undecided) >= 0.95);
}
