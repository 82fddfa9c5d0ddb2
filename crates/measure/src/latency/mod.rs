//! `xoff bench latency`: measures frame latencies at several loads, which are percentages of the
//! loss-free rate.

use xoff_units::Picos;

use super::dut::{Dut, LatencyHistogram};
use super::ndr::OfferedTraffic;
use super::result::{BenchFigure, ImprovementDirection};
use xoff_telemetry::failure::{Exit, Failure};

/// Reported quantiles of the latency. Each entry has the quantile, and the last part of the name under which
/// the result reports this quantile.
const QUANTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// The latencies at one load.
#[derive(Clone, Debug)]
pub struct LatencyAtLoad {
    /// Load in percent of the loss-free rate, as requested.
    pub percent: f64,
    /// Latencies of the received frames, from the first bit sent to the last bit received.
    pub latencies: LatencyHistogram,
    /// Facts that can have changed the latencies, such as lost frames. Empty for a valid measurement.
    pub tainted: Vec<String>,
}

/// Measures latencies at several loads. `loss_free_share` is the highest load without loss, as a share of the
/// line rate. `percents` are the loads to measure, in percent of `loss_free_share`. The result has one entry
/// for each entry of `percents`, in the same order. `duration` is the sending time at each load.
///
/// # Errors
/// The errors of [`Dut::run`], or no frame was received at one of the loads.
pub fn measure_latencies(
    dut: &mut impl Dut,
    offer: &OfferedTraffic,
    loss_free_share: f64,
    percents: &[f64],
    duration: Picos,
) -> Result<Vec<LatencyAtLoad>, Failure> {
    let mut all = Vec::with_capacity(percents.len());
    for (number, &percent) in percents.iter().enumerate() {
        let share = loss_free_share * percent / 100.0;
        let outcome = dut.run(&offer.trial_at_load(dut.ports().len(), share, duration, number as u64))?;
        let latencies = outcome.all_latencies();
        if latencies.count() == 0 {
            return Err(Failure::new(
                Exit::Inconclusive,
                format!("no frame was received at {percent} % of the loss-free rate"),
            )
            .because("a trial is too short for one frame, or the device stopped forwarding")
            .fix("choose a longer --trial-duration"));
        }
        let mut tainted = outcome.tainted.clone();
        if outcome.sum_over_streams(|s| s.received) < outcome.sum_over_streams(|s| s.expected) {
            tainted.push(format!(
                "frames were lost at {percent} % of the loss-free rate, so their latency is unknown"
            ));
        }
        all.push(LatencyAtLoad {
            percent,
            latencies,
            tainted,
        });
    }
    Ok(all)
}

/// Returns the figures `PREFIX/min`, `p50`, `p90`, `p99`, `p99.9`, `p99.99`, `max` and `mean` in nanoseconds.
pub fn latency_figures(prefix: &str, latencies: &LatencyHistogram) -> Vec<BenchFigure> {
    let figure = |name: &str, value: f64| {
        BenchFigure::new(
            format!("{prefix}/{name}"),
            "ns",
            ImprovementDirection::Smaller,
            vec![value],
        )
    };
    let mut figures = vec![figure("min", latencies.min_ns())];
    for (name, quantile) in QUANTILES {
        figures.push(figure(name, latencies.quantile_ns(quantile)));
    }
    figures.push(figure("max", latencies.max_ns()));
    figures.push(figure("mean", latencies.mean_ns()));
    figures
}
