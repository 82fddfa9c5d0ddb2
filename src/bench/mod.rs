//! What is held against others: runs whose result somebody else has published, thresholds against a configuration, paths
//! against arithmetic; and what a frame costs.

mod child;
pub mod compare;
pub mod core;
pub mod oracle;
pub mod placement;
pub mod probe;
pub mod result;
