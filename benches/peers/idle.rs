//! Measures a switch without traffic and the effect of sleeping: processor time without traffic, and the
//! loss-free rates of an adaptive and of a spinning switch.

use std::time::{Duration, Instant};

use xoff_measure::result::{BenchFigure, BenchResult, ImprovementDirection};
use xoff_measure::traffic::{SendRate, Tester, TrafficProfile, TrialConfig};

use crate::forwarders::Switch;
use crate::measure::{mtu_for, wait_until_forwarding};
use crate::{Failure, Run};

const FRAME_BYTES: u32 = 1_082;
/// Steps of the search. The rate is exact to 1/128 of the rate of a saturated switch.
const STEPS: u32 = 7;
/// Number of trials of a rate. One trial without loss is enough, because a stall of the machine can cause
/// loss in another.
const TRIES: u32 = 2;
const IDLES: [&str; 2] = ["adaptive", "spin"];

/// Adds the figures of each port backend that this machine supports.
pub(crate) fn measure(run: &Run<'_>, result: &mut BenchResult) -> Result<(), Failure> {
    for backend in ["packet", "xdp"] {
        let mut samples = Samples::default();
        for round in 0..run.rounds {
            if let Err(why) = samples.measure_round(run, backend, round) {
                result
                    .notes
                    .push(format!("{backend}: skipped in round {}: {why}", round + 1));
                break;
            }
            if run.is_interrupted() {
                return Ok(());
            }
        }
        samples.add_figures(backend, result);
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Samples {
    cpu_percent: Vec<f64>,
    /// Rates of an adaptive switch and of a spinning switch.
    loss_free_fps: [Vec<f64>; 2],
}

impl Samples {
    fn measure_round(&mut self, run: &Run<'_>, backend: &str, round: u32) -> Result<(), Failure> {
        self.cpu_percent.push(measure_idle_cpu_percent(run, backend)?);
        let mut rates = [0.0; 2];
        // Each mode is first in every other round.
        for n in 0..2 {
            let which = (n + round as usize) % 2;
            rates[which] = measure_loss_free_fps(run, backend, IDLES[which])?;
        }
        for (samples, rate) in self.loss_free_fps.iter_mut().zip(rates) {
            samples.push(rate);
        }
        let [adaptive, spin] = rates;
        eprintln!(
            "round {}: {backend}: loss-free {adaptive:.0} adaptive, {spin:.0} spinning",
            round + 1
        );
        Ok(())
    }

    fn add_figures(self, backend: &str, result: &mut BenchResult) {
        let mut add = |name: &str, unit: &str, better, samples: Vec<f64>| {
            if !samples.is_empty() {
                result.figures.push(BenchFigure::new(
                    format!("idle/{backend}/{name}"),
                    unit,
                    better,
                    samples,
                ));
            }
        };
        let [adaptive, spin] = self.loss_free_fps;
        let ratios = adaptive
            .iter()
            .zip(&spin)
            .map(|(adaptive, spin)| adaptive / spin)
            .collect();
        add("cpu", "percent", ImprovementDirection::Smaller, self.cpu_percent);
        add(
            "loss-free/adaptive",
            "frames/s",
            ImprovementDirection::Bigger,
            adaptive,
        );
        add("loss-free/spin", "frames/s", ImprovementDirection::Bigger, spin);
        add(
            "loss-free/adaptive_to_spin",
            "ratio",
            ImprovementDirection::Bigger,
            ratios,
        );
    }
}

/// Returns the processor time of an adaptive switch without traffic, in percent of a core.
fn measure_idle_cpu_percent(run: &Run<'_>, backend: &str) -> Result<f64, Failure> {
    let cables = run.bed.connect_cables(mtu_for(FRAME_BYTES))?;
    let running = Switch::fast(backend, "adaptive").start(run.bed, &cables)?;
    std::thread::sleep(Duration::from_millis(500));
    let (began, before) = (Instant::now(), running.cpu_ns().unwrap_or(0));
    std::thread::sleep(Duration::from_secs_f64(run.seconds));
    let spent = running.cpu_ns().unwrap_or(0) - before;
    Ok(100.0 * spent as f64 / began.elapsed().as_nanos() as f64)
}

/// Returns the highest rate at which a switch forwards all frames.
fn measure_loss_free_fps(run: &Run<'_>, backend: &str, idle: &str) -> Result<f64, Failure> {
    let cables = run.bed.connect_cables(mtu_for(FRAME_BYTES))?;
    let _running = Switch::fast(backend, idle).start(run.bed, &cables)?;
    let mut tester = cables.tester(&TrafficProfile::new(FRAME_BYTES))?;
    wait_until_forwarding(&mut tester, run.bed)?;
    let trial = TrialConfig {
        core: Some(run.bed.cores.tester),
        ..TrialConfig::new(SendRate::Saturate, Duration::from_secs_f64(run.seconds / 4.0))
    };
    let saturated = tester.run_trial(&trial).map_err(|failure| failure.to_string())?;
    let (mut low, mut high) = (0.0, saturated.window.rate_fps());
    for _ in 0..STEPS {
        let middle = (low + high) / 2.0;
        if is_loss_free_at(&mut tester, &trial, middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

fn is_loss_free_at(tester: &mut Tester, trial: &TrialConfig, fps: f64) -> Result<bool, Failure> {
    let paced = TrialConfig {
        rate: SendRate::Paced(fps),
        ..*trial
    };
    for _ in 0..TRIES {
        let outcome = tester.run_trial(&paced).map_err(|failure| failure.to_string())?;
        if outcome.lost_frames() == 0 && outcome.sending.refused == 0 {
            return Ok(true);
        }
    }
    Ok(false)
}
