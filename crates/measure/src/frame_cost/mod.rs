//! Measures the cost of one frame in processor time or in instructions. The frames come from a configuration,
//! from a lab, or from a load of the caller.
//!
//! A [`FrameLoad`] sends frames through the data plane in memory, without ports. [`measure_time`]
//! measures processor time and starts one process for each sample. [`count_instructions`] counts
//! instructions with valgrind. Both functions start the running program again, with the command-line
//! arguments of the [`Workload`].

mod configured_switch;
mod frames;
mod instructions;
mod load;
mod sample;
mod virtual_lab;
mod workload;

pub use configured_switch::ConfiguredSwitchLoad;
pub use frames::{BURST_FRAMES, FrameHeaders, roce_frame};
pub use instructions::{count_instructions, run_workload_once};
pub use load::{FrameLoad, run_bursts};
pub use sample::{measure_frame_ns, measure_time};
pub use virtual_lab::{PERMUTATION_LAB, VirtualLabLoad};
pub use workload::Workload;
