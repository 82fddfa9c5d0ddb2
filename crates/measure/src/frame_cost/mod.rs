//! Cost of one frame: processor time or instructions, for a configuration, a lab, or a load of your own.
//!
//! A [`Load`] sends frames through the data plane in memory, without ports, for as long as it is asked to.
//! [`measure`] runs a process for each sample of its processor time. [`count`] counts its instructions with valgrind.
//! Both start this program again, with the command-line arguments that its [`Workload`] names.

mod configured_switch;
mod frames;
mod instructions;
mod sample;
mod virtual_lab;
mod workload;

pub use configured_switch::ConfiguredSwitch;
pub use frames::{BURST, FrameHeaders, roce_frame};
pub use instructions::{count, run_once};
pub use sample::{measure, sample};
pub use virtual_lab::{PERMUTATION_LAB, VirtualLabLoad};
pub use workload::{Load, Workload, run_bursts};
