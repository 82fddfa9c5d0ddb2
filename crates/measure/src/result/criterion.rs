//! Exports a result in the format of criterion, for `critcmp` and `cargo bench -- --baseline`. The files
//! `benchmark.json`, `estimates.json`, `sample.json` and `tukey.json` have the format of criterion 0.3
//! to 0.8.
//!
//! Criterion stores only times in nanoseconds for each iteration. Therefore, a rate in frames per second is
//! converted to the time of one frame.

use std::fs;
use std::path::Path;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::{Value, json};

use super::{BenchFigure, BenchResult};
use xoff_telemetry::failure::Failure;
use xoff_telemetry::write_result_file;

/// Number of bootstrap resamples for each confidence interval.
const RESAMPLES: usize = 1_000;

impl BenchResult {
    /// Writes each time and each frame rate to the folder `folder/BENCH/FIGURE/baseline/`. Criterion stores
    /// only times. Figures (measured quantities) that cannot be expressed as a time are not written. Returns
    /// the names of these figures.
    ///
    /// # Errors
    /// A folder or file cannot be written.
    pub fn write_criterion(&self, folder: &Path, baseline: &str) -> Result<Vec<String>, Failure> {
        let mut left_out = Vec::new();
        for figure in &self.figures {
            let Some(nanos) = samples_in_ns(figure) else {
                left_out.push(figure.name.clone());
                continue;
            };
            let directory = format!(
                "{}/{}",
                escape_file_name(&self.bench),
                escape_file_name(&figure.name)
            );
            let path = folder.join(&directory).join(baseline);
            fs::create_dir_all(&path).map_err(|error| {
                Failure::usage(format!("cannot make the folder {}", path.display()))
                    .at("--criterion")
                    .because(error)
                    .fix("give a folder that can be written to")
            })?;
            let full = format!("{}/{}", self.bench, figure.name);
            let benchmark = json!({
                "group_id": self.bench, "function_id": figure.name, "value_str": null, "throughput": null,
                "full_id": full, "directory_name": directory, "title": full,
            });
            let iterations = vec![1.0; nanos.len()];
            let sample = json!({"sampling_mode": "Flat", "iters": iterations, "times": nanos});
            for (name, value) in [
                ("benchmark.json", benchmark),
                ("estimates.json", bootstrap_estimates(&nanos, self.seed)),
                ("sample.json", sample),
                ("tukey.json", json!(tukey_fences(&nanos))),
            ] {
                write_result_file("--criterion", &path.join(name), &value.to_string())?;
            }
        }
        Ok(left_out)
    }
}

/// Converts the samples to nanoseconds. Returns `None` if the figure is neither a time nor a frame rate, or
/// if a frame rate is 0.
fn samples_in_ns(figure: &BenchFigure) -> Option<Vec<f64>> {
    let size = match figure.unit.as_str() {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "frames/s" => {
            let times = figure.samples.iter().map(|rate| 1e9 / rate);
            return times.clone().all(f64::is_finite).then(|| times.collect());
        }
        _ => return None,
    };
    Some(figure.samples.iter().map(|sample| sample * size).collect())
}

/// Replaces characters that criterion does not allow in a file name by `_`.
fn escape_file_name(name: &str) -> String {
    name.replace(['?', '"', '/', '\\', '*', '<', '>', ':', '|', '^'], "_")
}

/// Returns criterion's estimates with bootstrap confidence intervals of 95 %.
fn bootstrap_estimates(samples: &[f64], seed: u64) -> Value {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut estimate = |statistic: fn(&[f64]) -> f64| {
        let mut drawn: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                let again: Vec<f64> = samples
                    .iter()
                    .map(|_| samples[(random.next_u64() % samples.len() as u64) as usize])
                    .collect();
                statistic(&again)
            })
            .collect();
        drawn.sort_by(f64::total_cmp);
        json!({
            "confidence_interval": {
                "confidence_level": 0.95,
                "lower_bound": drawn[RESAMPLES / 40],
                "upper_bound": drawn[RESAMPLES - 1 - RESAMPLES / 40],
            },
            "point_estimate": statistic(samples),
            "standard_error": standard_deviation(&drawn),
        })
    };
    json!({
        "mean": estimate(mean), "median": estimate(median), "median_abs_dev": estimate(median_absolute_deviation),
        "slope": null, "std_dev": estimate(standard_deviation),
    })
}

fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// Returns the median absolute deviation, scaled to the standard deviation of
/// a normal distribution.
fn median_absolute_deviation(samples: &[f64]) -> f64 {
    let middle = median(samples);
    let distances: Vec<f64> = samples.iter().map(|sample| (sample - middle).abs()).collect();
    median(&distances) * 1.482_6
}

/// Returns the sample standard deviation, or 0 for a single sample.
fn standard_deviation(samples: &[f64]) -> f64 {
    let middle = mean(samples);
    let squares: f64 = samples.iter().map(|sample| (sample - middle).powi(2)).sum();
    (squares / (samples.len() - 1).max(1) as f64).sqrt()
}

/// Returns Tukey's fences in ascending order. They are 3 and 1.5 interquartile ranges below the first
/// quartile, and 1.5 and 3 interquartile ranges above the third quartile.
fn tukey_fences(samples: &[f64]) -> [f64; 4] {
    let (low, high) = (quantile(samples, 0.25), quantile(samples, 0.75));
    let range = high - low;
    [
        low - 3.0 * range,
        low - 1.5 * range,
        high + 1.5 * range,
        high + 3.0 * range,
    ]
}

fn quantile(samples: &[f64], fraction: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = fraction * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::ImprovementDirection;

    #[test]
    fn times_and_rates_are_written_and_other_figures_returned() {
        let mut result = BenchResult::new("core", "x", 1);
        result.figures = vec![
            BenchFigure::new(
                "ecmp/time",
                "us",
                ImprovementDirection::Smaller,
                vec![1.0, 2.0, 3.0],
            ),
            BenchFigure::new("ecmp/rate", "frames/s", ImprovementDirection::Bigger, vec![1e7]),
            BenchFigure::new("ecmp/loss", "percent", ImprovementDirection::Smaller, vec![0.0]),
        ];
        let folder = tempfile::tempdir().unwrap();
        let left_out = result.write_criterion(folder.path(), "before").unwrap();
        assert_eq!(left_out, ["ecmp/loss"]);
        let read = |path: &str| -> Value {
            serde_json::from_str(&fs::read_to_string(folder.path().join(path)).unwrap()).unwrap()
        };
        let estimates = read("core/ecmp_time/before/estimates.json");
        assert_eq!(estimates["median"]["point_estimate"], 2_000.0);
        assert_eq!(estimates["std_dev"]["point_estimate"], 1_000.0);
        let interval = &estimates["mean"]["confidence_interval"];
        assert!(interval["lower_bound"].as_f64().unwrap() < 2_000.0, "{interval}");
        assert_eq!(read("core/ecmp_rate/before/sample.json")["times"], json!([100.0]));
        assert_eq!(
            read("core/ecmp_time/before/benchmark.json")["full_id"],
            "core/ecmp/time"
        );
        assert_eq!(
            read("core/ecmp_time/before/tukey.json"),
            json!([-1_500.0, 0.0, 4_000.0, 5_500.0])
        );
    }
}
