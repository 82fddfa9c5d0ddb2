//! `xoff bench latency`: how long frames take at shares of the loss-free rate.

use xoff_units::Picos;

use super::dut::{Dut, Latencies};
use super::ndr::Offer;
use super::result::{Better, Figure};
use xoff_telemetry::failure::{Exit, Failure};

/// Quantiles that are told, by the names of their figures.
const QUANTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// Latencies at one load.
#[derive(Clone, Debug)]
pub struct AtLoad {
    /// The load in percent of the loss-free rate.
    pub percent: f64,
    /// From first bit to last bit.
    pub latencies: Latencies,
    /// Facts that can have changed them.
    pub tainted: Vec<String>,
}

/// Offers these loads, in percent of the share `loss_free` of the line rate.
///
/// # Errors
/// As [`Dut::run`]; no frame came out.
pub fn measure(
    dut: &mut impl Dut,
    offer: &Offer,
    loss_free: f64,
    percents: &[f64],
    duration: Picos,
) -> Result<Vec<AtLoad>, Failure> {
    let mut all = Vec::with_capacity(percents.len());
    for (number, &percent) in percents.iter().enumerate() {
        let share = loss_free * percent / 100.0;
        let outcome = dut.run(&offer.trial(dut.ports().len(), share, duration, number as u64))?;
        let latencies = outcome.all_latencies();
        if latencies.count() == 0 {
            return Err(Failure::new(
                Exit::Inconclusive,
                format!("no frame came out at {percent} % of the loss-free rate"),
            )
            .because("a trial is too short for a frame, or the device stopped forwarding")
            .fix("choose a longer --trial-duration"));
        }
        let mut tainted = outcome.tainted.clone();
        if outcome.total(|s| s.received) < outcome.total(|s| s.expected) {
            tainted.push(format!(
                "frames were lost at {percent} % of the loss-free rate: their latency is not known"
            ));
        }
        all.push(AtLoad {
            percent,
            latencies,
            tainted,
        });
    }
    Ok(all)
}

/// The figures of a load, under `prefix`.
pub fn figures(prefix: &str, latencies: &Latencies) -> Vec<Figure> {
    let figure =
        |name: &str, value: f64| Figure::new(format!("{prefix}/{name}"), "ns", Better::Smaller, vec![value]);
    let mut figures = vec![figure("min", latencies.min_ns())];
    for (name, quantile) in QUANTILES {
        figures.push(figure(name, latencies.quantile_ns(quantile)));
    }
    figures.push(figure("max", latencies.max_ns()));
    figures.push(figure("mean", latencies.mean_ns()));
    figures
}
