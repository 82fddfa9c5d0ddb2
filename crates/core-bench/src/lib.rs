//! Built-in workloads that measure the cost of a frame in the data plane, and their recorded instruction counts.
//!
//! Frames circulate in memory through a switch without ports: parse, classify, route, admit, queue, schedule, mark, count.
//! `cargo run --release -p core-bench -- run` measures them, `core-bench compare A B` compares two builds, and the criterion
//! benchmarks in `benches/` use the same loads.
//!
//! ```
//! use xoff_measure::frame_cost::Load;
//!
//! let mut load = core_bench::ManyToOne::new(core_bench::ForwardingMode::Bridged);
//! assert!(load.run(1_000) >= 1_000);
//! load.check().expect("no frame is lost");
//! ```

mod balanced;
mod frames;
mod many_to_one;
mod mesh;
mod record;
mod route_table;
mod slot_ring;
mod stages;
mod suite;
mod switch_config;

pub use balanced::{Balanced, BalancingCase, balancing_cases};
pub use many_to_one::{ForwardingMode, ManyToOne};
pub use mesh::{FEATURES, Features, Mesh, Shape, Way};
pub use record::{GROWTH_MAX_PERCENT, InstructionRecord};
pub use suite::{BuiltInWorkload, built_in_workloads, select_workloads};
