//! Converts scenarios of other simulators into lab files.

mod format;
mod jobs;
mod lab_file;
mod switches;
#[cfg(test)]
mod tests;
mod transports;

pub use lab_file::{ImportedLab, import_ns3};
