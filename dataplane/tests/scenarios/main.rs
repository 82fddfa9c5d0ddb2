//! Behaviour of the switch in virtual time, with one file for each topic.

mod asymmetric_pfc;
mod balancing;
mod bridging;
mod buffer_changes;
mod conservation;
mod drops;
mod ecn;
mod flooding;
mod global_pause;
mod incast;
mod pause_reception;
mod reconfiguration;
mod routing;
mod sai_counters;
mod sai_qos;
mod scheduling;
#[path = "../support/mod.rs"]
mod support;
mod trimming;
mod vlans;
mod watchdog;
mod xoff;
