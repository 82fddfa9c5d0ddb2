//! Computes the utilisation of the uplinks of a leaf switch with ECMP. A placement is a selection of an
//! uplink for each queue pair. The hash of the switch makes this selection, and the queue pairs share the
//! links max-min fairly.
//!
//! Each host of a leaf sends to one host behind another leaf, through one or more queue pairs. The total
//! speed of the uplinks equals the total speed of the hosts. [`LeafSwitch`] is a switch with the
//! configuration of a lab. It receives the first packet of each queue pair and selects an uplink.
//! [`max_min_rates`] computes the rates of the queue pairs.
//!
//! The mean utilisation over many seeds ([`MeanUtilisation`]) is compared with random placements and with a
//! published table. [`run_placements_with_frames`] runs the same placements with frames in virtual time.
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

pub use frame_runs::{FrameRunParameters, PlacementRunResult, run_placements_with_frames};
pub use leaf_switch::LeafSwitch;
pub use max_min::max_min_rates;
pub use mean_runs::{mean_utilisation_at_random, mean_utilisation_by_hash};
pub use placement_lab::{LeafShape, PlacementLab, PlacementParameters, QueuePairNumbering, SeedInput};
pub use report::{FramePlacementRow, PLACEMENT_SCHEMA, PUBLISHED_FIGURES, PlacementReport, PlacementRow};
pub use utilisation::{MeanUtilisation, PlacementUtilisation, compute_rates};
