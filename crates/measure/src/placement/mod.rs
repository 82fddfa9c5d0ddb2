//! What ECMP leaves of a leaf's uplinks: where a switch's hash puts queue pairs, and what max-min sharing makes of that.
//!
//! The hosts of a leaf send to as many behind another one, each by `k` queue pairs; the uplinks together are as fast as the
//! hosts together. A real switch, configured as a lab configures it, gets the first packet of each queue pair and says by
//! which uplink it leaves ([`Leaf`]). [`max_min`] divides the links, and [`Figures`] over many seeds are held against
//! placements that are drawn by lot, and against the published table. [`run_frames`] runs the same placements as frames in
//! virtual time. docs/ecmp.md has definitions and results.

mod figures;
mod frames;
mod lab;
mod leaf;
mod max_min;
mod report;
mod run;
#[cfg(test)]
mod tests;

pub use figures::{Figures, Outcome, outcome};
pub use frames::{FrameSettings, Placed, run_frames};
pub use lab::{Numbering, PlacementLab, Setting, Shape, Vary};
pub use leaf::Leaf;
pub use max_min::max_min;
pub use report::{FrameRow, PlacementReport, REFERENCE, Row, SCHEMA};
pub use run::{by_hash, by_lot};
