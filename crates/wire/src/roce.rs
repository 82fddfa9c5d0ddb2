//! Whole RoCEv2 frames: reading one, and building one.

mod build;
mod view;

pub use build::{Addresses, BuildError, Path, RocePacket};
pub(super) use view::Layout;
pub use view::RoceView;
