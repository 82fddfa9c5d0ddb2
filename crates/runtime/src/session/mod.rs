//! The session of a running switch. A session keeps the configuration and the watermarks of the switch, and
//! answers the requests of the control API. `xoff switch run` and labs use one session for each switch.

mod control_target;
mod device_mtus;
mod flow_moves;
mod generation;
mod losses;
mod missing_device;
mod session_start;
mod switch_session;
mod tables;
mod watermarks;

pub use session_start::{SwitchPort, SwitchStart, reaction_budget_in_model_time};
pub use switch_session::SwitchSession;
