//! The session of a running switch. A session keeps the configuration and the watermarks of the switch, and
//! answers the requests of the control API. `xoff switch run` and labs use one session for each switch.

mod flow_moves;
mod generation;
mod losses;
mod missing_device;
mod new_devices;
mod switch_session;
mod tables;
mod watermarks;

pub use switch_session::{SwitchPort, SwitchSession, SwitchStart, reaction_budget_in_model_time};
