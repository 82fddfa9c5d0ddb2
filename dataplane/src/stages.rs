//! Single stages of a frame's way through a switch, for those who measure or test one alone.
//!
//! [`Switch`](crate::Switch) is what joins them, and calls exactly these. Others are public where they belong: headers are read by
//! [`parse`](xoff_wire::parse::parse), classified by [`ClassMaps`](crate::config::ClassMaps), admitted by [`Mmu`](crate::mmu::Mmu), routed by
//! [`Fib`](crate::route::Fib), marked by [`mark_ce`](xoff_wire::mark_ce).

pub use crate::bridge::{Fdb, Mac};
pub use crate::egress::{Choice, Marker, Scheduler};
