//! Oracle runs: scenarios that the public HPCC model of ns-3 has simulated ([`xoff_lab::ns3`]). xoff runs the
//! same scenarios and compares its results with those of the model.
//!
//! xoff reproduces the properties of the model by options of links, hosts and buffers. Frames have the
//! model's lengths without Ethernet's overhead, and times are rounded down to nanoseconds ([`FrameLengths`]).
//! The buffer uses the threshold rule [`Threshold::Hpcc`]. Pauses last until they are resumed
//! ([`PauseModel::UntilResumed`]). Acknowledgements echo ECN marks. docs/oracle.md lists all properties.
//!
//! [`Threshold::Hpcc`]: xoff_dataplane::config::BufferThreshold::Hpcc
//! [`PauseModel::UntilResumed`]: xoff_dataplane::config::PauseModel::UntilResumed

mod compare;
mod model_congestion;
mod plan;
mod report;
mod run;

pub use compare::{
    COMPLETION_BOUND, COMPLETION_BOUND_DCQCN, EthernetComparison, FlowComparison, PAUSE_COUNT_BOUND,
    PAUSE_SHARE_BOUND, PauseComparison, ScenarioComparison, compare_scenario,
};
pub use plan::FrameLengths;
pub use report::{OracleReport, SCHEMA};
