//! Input files of the HPCC model of ns-3 (alibaba-edu/High-Precision-Congestion-Control) and of simulators that derive from it.
//!
//! A [`Scenario`] is a topology, a list of flows and a configuration, and the results of the model where they are published. `xoff bench
//! oracle` runs it and compares the results; `xoff lab import --ns3` writes a lab from it. All files are read as the model's own
//! reader (`third.cc`) reads them: words between blanks and line ends, as many as the counts say.

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
pub use parameters::{CongestionMode, Dcqcn, HpccSettings, Marking, Parameters, WindowRule};
pub use paths::{FlowPaths, PairTimings, flow_paths, has_equal_paths, node_address};
pub use scenario::{Flow, PauseEvent, Scenario};
pub use text::ReadError;
pub use topology::{Link, Node, Topology};
