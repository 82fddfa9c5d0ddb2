//! The session of a running switch. It keeps the configuration and the watermarks, and answers the requests
//! of the control socket. `xoff switch run` and labs use a session for each switch.

mod flow_moves;
mod generation;
mod losses;
mod switch_session;
mod tables;
mod watermarks;

pub use switch_session::{SwitchPort, SwitchSession, SwitchStart, reaction_budget};
