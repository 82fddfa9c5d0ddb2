//! The session of a running switch_session: its configuration, watermarks and replies on the control socket. `xoff
//! switch_session run` and labs use it.

mod flow_moves;
mod generation;
mod losses;
mod switch_session;
mod tables;
mod watermarks;

pub use switch_session::{SwitchPort, SwitchSession, SwitchStart, reaction_budget};
