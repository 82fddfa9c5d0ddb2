//! Oracle runs: scenarios that the public HPCC model of ns-3 has simulated ([`xoff_lab::ns3`]), run here and compared with its results.
//!
//! Everything about the model that is not the switch's is an option of links, hosts and buffers: wire lengths without Ethernet's
//! overhead and times cut off to nanoseconds ([`Lengths`]), the threshold rule ([`Threshold::Hpcc`]), pauses that last until
//! their resume ([`PauseModel::UntilResumed`]), marks that are echoed on acknowledgements. docs/oracle.md has the list.
//!
//! [`Threshold::Hpcc`]: xoff_dataplane::config::BufferThreshold::Hpcc
//! [`PauseModel::UntilResumed`]: xoff_dataplane::config::PauseModel::UntilResumed

mod compare;
mod control;
mod plan;
mod report;
mod run;

pub use compare::{
    BOUND, BOUND_DCQCN, Comparison, EthernetComparison, FlowComparison, PAUSES_BOUND, PAUSES_BOUND_COUNT,
    PauseComparison, compare,
};
pub use plan::Lengths;
pub use report::{OracleReport, SCHEMA};
