//! Oracle runs compare xoff with the public HPCC model of the simulator ns-3 ([`xoff_lab::ns3`]). The model
//! has published results of simulated scenarios. xoff runs the same scenarios and compares the results.
//!
//! Links, hosts and buffers of xoff have options that reproduce the properties of the model:
//!
//! - Frames have the lengths of the model, without the overhead of Ethernet, and times are rounded down to
//!   nanoseconds ([`FrameLengths`]).
//! - The buffer uses the threshold rule [`Threshold::Hpcc`].
//! - A pause lasts until a resume frame arrives ([`PauseModel::UntilResumed`]).
//! - Acknowledgements echo ECN marks.
//!
//! docs/oracle.md lists all properties.
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
