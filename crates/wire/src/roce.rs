//! Readers and builders of whole RoCEv2 frames.

mod build;
mod view;

pub use build::{Addresses, BuildError, FlowHeaders, RocePacket};
pub use view::RoceView;
