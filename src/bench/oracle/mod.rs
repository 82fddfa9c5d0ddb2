//! Oracle runs: scenarios that the public HPCC model of ns-3 has simulated, run here, and held against its results.
//!
//! A folder holds what was simulated (`topology.txt`, `flow.txt`, `parameters.txt`) and what came of it (`fct.csv`, `pfc.csv`).
//! Everything about the model that is not the switch's is an option of links, hosts and buffers: wire lengths without Ethernet's
//! overhead and times cut off to nanoseconds ([`Lengths`]), the threshold rule ([`Threshold::Hpcc`]), pauses that last until
//! their resume ([`PauseModel::UntilResumed`]), marks that are echoed on acknowledgements. docs/oracle.md has the list.
//!
//! [`Threshold::Hpcc`]: xoff_dataplane::config::Threshold::Hpcc
//! [`PauseModel::UntilResumed`]: xoff_dataplane::config::PauseModel::UntilResumed

mod compare;
mod control;
mod files;
mod folder;
mod parameters;
mod paths;
mod plan;
mod report;
mod results;
mod run;
mod setting;
mod text;
mod topology;
mod units;

pub use compare::{
    BOUND, BOUND_DCQCN, Comparison, EthernetComparison, FlowComparison, PAUSES_BOUND, PAUSES_BOUND_COUNT,
    PauseComparison, compare,
};
pub use folder::{Flow, Folder, PauseEvent};
pub use parameters::{CongestionMode, Dcqcn, HpccSettings, Marking, Parameters, WindowRule};
pub use plan::Lengths;
pub use report::{OracleReport, SCHEMA};
pub use text::ReadError;
pub use topology::{Link, Node, Topology};
