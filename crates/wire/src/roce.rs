//! Readers and builders of whole RoCEv2 frames.

mod build;
mod view;

pub use build::{Addresses, BuildError, FlowHeaders, RocePacket};
pub(super) use view::RoceLayout;
pub use view::RoceView;
