//! Reads the input files of the HPCC model of ns-3. Several simulators are derived from this model and use
//! the same files.
//!
//! The HPCC model is published as alibaba-edu/High-Precision-Congestion-Control.
//!
//! A [`Scenario`] contains a topology, a flow list and a configuration. It can also contain the results of
//! the model. `xoff bench oracle` runs a scenario and compares the results of xoff with those of the model.
//! `xoff lab import --ns3` converts a scenario into a lab file.
//!
//! A file is a sequence of words with white space between them. A list starts with the number of its
//! elements. The program `third.cc` of the model reads the files in the same way.

mod buffer;
mod files;
mod flow;
mod model_parameters;
mod parameters;
mod paths;
mod results;
mod scenario;
mod setting;
mod text;
mod topology;
mod units;

pub use buffer::SwitchBuffer;
pub use flow::{Flow, PauseEvent};
pub use model_parameters::{
    CongestionMode, DcqcnSettings, EcnThresholds, FlowWindowSettings, HpccSettings, Ns3ModelParameters,
};
pub use paths::{FlowPaths, HostPairRttAndBdpTable, flow_paths, has_equal_paths, node_address};
pub use scenario::Scenario;
pub use text::ReadError;
pub use topology::{Link, Node, Topology};
