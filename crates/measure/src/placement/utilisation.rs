//! The utilisation of the uplinks that a placement reaches. A placement is a selection of an uplink for each
//! queue pair.

use serde::Serialize;

use super::max_min::max_min_rates;
use super::placement_lab::PlacementParameters;

/// The utilisation of one placement. The values are shares, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlacementUtilisation {
    /// Data rate of all hosts together, as a share of the total speed of the uplinks.
    pub utilisation: f64,
    /// Data rate of the slowest host, as a share of the speed of its link.
    pub slowest: f64,
}

impl PlacementUtilisation {
    /// Computes the utilisation from the rates of the queue pairs, where 1 is the speed of a host link.
    /// `queue_pairs` is the number of queue pairs of each host. The rates of the first host come first. The
    /// hosts together are assumed to be as fast as the uplinks together.
    pub fn of_rates(rates: &[f64], queue_pairs: usize) -> PlacementUtilisation {
        let hosts = rates
            .chunks(queue_pairs.max(1))
            .map(|host| host.iter().sum::<f64>());
        PlacementUtilisation {
            utilisation: hosts.clone().sum::<f64>() / hosts.len().max(1) as f64,
            slowest: hosts.reduce(f64::min).unwrap_or_default(),
        }
    }
}

/// Computes the max-min fair rates of the queue pairs, and the resulting utilisation. `uplinks` has the
/// uplink number of each queue pair, with the queue pairs of the first host first. A rate of 1 is the speed
/// of a host link.
pub fn compute_rates(setting: &PlacementParameters, uplinks: &[u16]) -> (Vec<f64>, PlacementUtilisation) {
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
    let rates = max_min_rates(&capacities, &flows);
    let outcome = PlacementUtilisation::of_rates(&rates, queue_pairs);
    (rates, outcome)
}

/// Mean utilisation of many placements. The values are shares, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeanUtilisation {
    /// Mean of [`PlacementUtilisation::utilisation`].
    pub utilisation: f64,
    /// Mean of [`PlacementUtilisation::slowest`].
    pub slowest: f64,
}

impl MeanUtilisation {
    /// Returns the mean of several placements, or 0 without placements.
    pub fn mean(outcomes: &[PlacementUtilisation]) -> MeanUtilisation {
        let count = outcomes.len().max(1) as f64;
        MeanUtilisation {
            utilisation: outcomes.iter().map(|outcome| outcome.utilisation).sum::<f64>() / count,
            slowest: outcomes.iter().map(|outcome| outcome.slowest).sum::<f64>() / count,
        }
    }

    /// Returns the larger of two absolute differences: between the values of `utilisation` and between the
    /// values of `slowest`.
    pub fn difference(&self, other: &MeanUtilisation) -> f64 {
        let (utilisation, slowest) = (self.utilisation - other.utilisation, self.slowest - other.slowest);
        utilisation.abs().max(slowest.abs())
    }
}
