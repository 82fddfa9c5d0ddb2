//! Frames of a running switch.
