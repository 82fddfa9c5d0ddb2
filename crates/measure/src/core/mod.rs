//! `xoff bench core`: what a frame costs the switch itself, in memory.
//!
//! Loads that go on for ever without losing a frame: `cargo bench --bench core` measures them, `xoff bench core` does for users, and
//! their instructions are counted and recorded.

mod balanced;
mod configured;
mod fabric;
mod instructions;
mod many_to_one;
mod mesh;
mod record;
mod ring;
mod routes;
mod sample;
mod setting;
mod stages;
mod suite;

pub use balanced::{Balanced, Case, cases};
pub use configured::Configured;
pub use fabric::{Fabric, PERMUTATION};
pub use instructions::{count, work};
pub use many_to_one::{ManyToOne, Way as ManyToOneWay};
pub use mesh::{FEATURES, Features, Mesh, Shape, Way};
pub use record::{GROWTH_PERCENT, Record};
pub use sample::{measure, sample};
pub use setting::BURST;
pub use suite::{BUDGET, Workload, chosen, workloads};

/// Frames that can go through a switch for ever.
pub trait Load {
    /// Puts at least so many frames through, and returns how many there were.
    fn run(&mut self, frames: u64) -> u64;

    /// Whether the load was what it should have been: nothing lost, every link used.
    ///
    /// # Errors
    /// What was otherwise.
    fn check(&self) -> Result<(), String>;
}

/// Calls for as many bursts as hold so many frames.
fn in_bursts(frames: u64, mut burst: impl FnMut()) -> u64 {
    let bursts = frames.div_ceil(BURST as u64);
    (0..bursts).for_each(|_| burst());
    bursts * BURST as u64
}
