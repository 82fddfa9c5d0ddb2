//! A configured switch that runs: what `switch run` and labs have in common.

mod generation;
mod switch;
mod tables;

pub use switch::{SwitchPort, SwitchSession, reaction_budget};
