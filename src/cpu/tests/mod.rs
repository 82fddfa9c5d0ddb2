//! Frames in, frames out.
