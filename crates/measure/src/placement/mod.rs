//! Utilisation of the uplinks of a leaf switch with ECMP: the hash selects an uplink for each queue
//! pair, and max-min sharing gives the rates.
//!
//! Each host of a leaf sends to one host behind another leaf through `k` queue pairs. The uplinks
//! together are as fast as the hosts together. A switch with the configuration of a lab receives
//! the first packet of each queue pair and selects an uplink ([`LeafSwitch`]). [`max_min_rates`]
//! divides the links.
//!
//! The mean figures of many seeds ([`MeanUtilisation`]) are compared with random placements and
//! with a published table. [`run_frames`] runs the same placements as frames in virtual time.
//! docs/ecmp.md has the definitions and results.

mod frame_runs;
mod leaf_switch;
mod max_min;
mod mean_runs;
mod placement_lab;
mod report;
#[cfg(test)]
mod tests;
mod utilisation;

pub use frame_runs::{FramePlacement, FrameRunParameters, run_frames};
pub use leaf_switch::LeafSwitch;
pub use max_min::max_min_rates;
pub use mean_runs::{mean_utilisation_at_random, mean_utilisation_by_hash};
pub use placement_lab::{LeafShape, PlacementLab, PlacementParameters, QueuePairNumbering, SeedInput};
pub use report::{FramePlacementRow, PLACEMENT_SCHEMA, PUBLISHED_FIGURES, PlacementReport, PlacementRow};
pub use utilisation::{MeanUtilisation, PlacementUtilisation, compute_rates};
