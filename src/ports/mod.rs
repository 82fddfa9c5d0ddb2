//! Ports: where frames come in and go out.

pub mod arena;
