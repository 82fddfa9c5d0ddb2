//! Labs written from the input files of other simulators.

mod jobs;
mod ns3;
mod switches;
#[cfg(test)]
mod tests;
mod transports;

pub use ns3::{ImportedLab, import_ns3};
