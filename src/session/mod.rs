//! A configured switch that runs: what `switch run` and labs have in common.

mod switch;

pub use switch::{SwitchPort, SwitchSession, reaction_budget};
