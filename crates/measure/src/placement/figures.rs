//! What a placement is worth.

use serde::Serialize;

use super::lab::Setting;
use super::max_min::max_min;

/// A placement in figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// What all hosts send, as a share of what all uplinks carry.
    pub utilisation: f64,
    /// What the slowest host sends, as a share of its link.
    pub slowest: f64,
}

impl Outcome {
    /// Of the rates of queue pairs, as shares of a host's link, host by host. All of them together could fill the uplinks.
    pub fn of_rates(rates: &[f64], queue_pairs: usize) -> Outcome {
        let hosts = rates
            .chunks(queue_pairs.max(1))
            .map(|host| host.iter().sum::<f64>());
        Outcome {
            utilisation: hosts.clone().sum::<f64>() / hosts.len().max(1) as f64,
            slowest: hosts.reduce(f64::min).unwrap_or_default(),
        }
    }
}

/// Rates of queue pairs by arithmetic, as shares of a host's link, and what they come to. `uplinks`: which one each takes, host
/// by host.
pub fn outcome(setting: &Setting, uplinks: &[u16]) -> (Vec<f64>, Outcome) {
    let (hosts, queue_pairs) = (usize::from(setting.shape.hosts), usize::from(setting.queue_pairs));
    let mut capacities = vec![1.0; hosts];
    capacities.resize(
        hosts + usize::from(setting.shape.uplinks),
        setting.shape.uplink_capacity(),
    );
    let flows: Vec<[usize; 2]> = uplinks
        .iter()
        .enumerate()
        .map(|(pair, uplink)| [pair / queue_pairs, hosts + usize::from(*uplink)])
        .collect();
    let rates = max_min(&capacities, &flows);
    let outcome = Outcome::of_rates(&rates, queue_pairs);
    (rates, outcome)
}

/// Means over many placements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Of [`Outcome::utilisation`].
    pub utilisation: f64,
    /// Of [`Outcome::slowest`].
    pub slowest: f64,
}

impl Figures {
    /// The means; 0 of nothing.
    pub fn mean(outcomes: &[Outcome]) -> Figures {
        let count = outcomes.len().max(1) as f64;
        Figures {
            utilisation: outcomes.iter().map(|outcome| outcome.utilisation).sum::<f64>() / count,
            slowest: outcomes.iter().map(|outcome| outcome.slowest).sum::<f64>() / count,
        }
    }

    /// The larger of both differences.
    pub fn difference(&self, other: &Figures) -> f64 {
        let (utilisation, slowest) = (self.utilisation - other.utilisation, self.slowest - other.slowest);
        utilisation.abs().max(slowest.abs())
    }
}
