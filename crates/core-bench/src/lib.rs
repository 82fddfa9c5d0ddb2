//! Built-in workloads that measure the cost of a frame in the data plane, and their
//! recorded instruction counts.
//!
//! Frames circulate in memory through a switch without network devices. The switch parses, classifies,
//! routes, admits, queues, schedules, marks and counts each frame. `cargo run --release -p core-bench -- run`
//! measures the workloads, and `core-bench compare A B` compares two builds. The criterion benchmarks in
//! `benches/` use the same loads.
//!
//! ```
//! use xoff_measure::frame_cost::FrameLoad;
//!
//! let mut load = core_bench::ManyToOneLoad::new(core_bench::ForwardingMode::Bridged);
//! assert!(load.run(1_000) >= 1_000);
//! load.check().expect("no frame is lost");
//! ```

mod balanced_load;
mod frames;
mod instruction_record;
mod many_to_one_load;
mod mesh_load;
mod route_table;
mod slot_ring;
mod stages;
mod suite;
mod switch_config;

pub use balanced_load::{BalancedLoad, BalancingCase, balancing_cases};
pub use instruction_record::{GROWTH_MAX_PERCENT, InstructionRecord};
pub use many_to_one_load::{ForwardingMode, ManyToOneLoad};
pub use mesh_load::{FEATURE_VARIANTS, MeshForwarding, MeshLoad, MeshTraffic, SwitchFeatures};
pub use suite::{BuiltInWorkload, RINGS, built_in_workloads, select_workloads};
