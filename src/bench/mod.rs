//! What is held against others: runs whose result somebody else has published, thresholds against a configuration, paths
//! against arithmetic.

pub mod ai;
pub mod oracle;
pub mod placement;
pub mod probe;
pub mod result;
pub mod tune;
pub mod traffic;
