//! Group A: the device receives pauses.

pub(super) mod enable_vector;
pub(super) mod frame_format;
pub(super) mod full_duplex;
pub(super) mod pause_mode;
pub(super) mod timer;
pub(super) mod transitions;
