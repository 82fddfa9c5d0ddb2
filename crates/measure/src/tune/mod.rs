//! `xoff bench tune-buffers`: finds the smallest buffers that lose no frame of a traffic pattern, and
//! verifies them. All runs are in virtual time.
//!
//! Headroom stores the frames that arrive after XOFF is due. The worst case depends on three conditions:
//!
//! - how much of a frame in transmission the port must still send before it can send XOFF,
//! - how much of the frame that causes XOFF exceeds the limit,
//! - when the senders start.
//!
//! A phase is one combination of these conditions. [`build_phases`] creates the phases, and [`run_phase`]
//! runs one phase on a switch between model hosts.
//!
//! [`search_headroom`] finds the smallest headroom in cells by bisection. The search verifies that no phase
//! loses a frame with this headroom, and that frames are lost with one cell less. [`headroom_cells`]
//! calculates the headroom of the worst case with a formula.

mod bench_result;
mod closed_form;
mod headroom_search;
mod phase_run;
mod phases;
mod preset;
mod profile_variants;
mod traffic_pattern;
mod tuning_target;

pub use bench_result::build_result;
pub use closed_form::{frames_after_xoff, headroom_cells};
pub use headroom_search::{CandidateTrial, TuningPlan, TuningResult, describe_phase, search_headroom};
pub use phase_run::{PhaseDrop, PhaseResult, TrafficPhase, run_phase, set_xoff_delaying_frame_time};
pub use phases::build_phases;
pub use preset::preset_switch;
pub use profile_variants::{ProfileVariant, run_variants};
pub use traffic_pattern::{CABLE_MAX_M, SENDERS_MAX, TrafficParameters, TrafficPattern};
pub use tuning_target::{BufferCandidate, BufferMemory, TuningTarget};

#[cfg(test)]
mod tests;
