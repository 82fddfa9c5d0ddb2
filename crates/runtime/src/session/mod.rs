//! A configured switch that runs: what `switch run` and labs have in common.

mod generation;
mod losses;
mod moves;
mod switch;
mod tables;
mod watermarks;

pub use switch::{SwitchPort, SwitchSession, SwitchStart, reaction_budget};
