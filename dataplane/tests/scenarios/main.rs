//! What a switch does, in virtual time: one file per theme.

mod bridging;
mod buffer_changes;
mod conservation;
mod dropping;
mod ecn;
mod flooding;
mod incast;
mod pause_reception;
mod reconfiguration;
mod routing;
mod sai_qos;
mod scheduling;
#[path = "../support/mod.rs"]
mod support;
mod vlans;
mod xoff;
