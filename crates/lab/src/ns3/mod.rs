//! Reads the input files of the HPCC model of ns-3 and of simulators that are derived from it.
//!
//! The HPCC model is published as alibaba-edu/High-Precision-Congestion-Control.
//!
//! A [`Scenario`] contains a topology, a flow list, a configuration and, if they exist, the results of the
//! model. `xoff bench oracle` runs a scenario and compares the results. `xoff lab import --ns3` converts a
//! scenario into a lab file.
//!
//! The files are read in the same way as by `third.cc` of the model: as words separated by white space, with
//! counts before lists.

mod buffer;
mod files;
mod parameters;
mod paths;
mod results;
mod scenario;
mod setting;
mod text;
mod topology;
mod units;

pub use buffer::SwitchBuffer;
pub use parameters::{
    CongestionMode, DcqcnSettings, EcnThresholds, HpccSettings, ModelParameters, WindowSettings,
};
pub use paths::{FlowPaths, PairTimings, flow_paths, has_equal_paths, node_address};
pub use scenario::{Flow, PauseEvent, Scenario};
pub use text::ReadError;
pub use topology::{Link, Node, Topology};
