//! Labs.

mod file;
pub mod plan;
mod problem;
mod resolve;
pub(crate) mod units;

pub use problem::{Problem, Problems};
pub use resolve::{load, parse};
