//! The model device, and mutants of it that are wrong in exactly one behaviour.

mod dcbx_agent;
mod device;
mod mutants;
mod mutation;
mod wrapped_device;

pub use device::ModelDevice;
pub use mutants::{Mutant, all_mutants};
pub use wrapped_device::MutantDevice;
