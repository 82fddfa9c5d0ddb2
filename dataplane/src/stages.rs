//! Single stages of the packet path, for measurements and tests of one stage alone.
//!
//! [`Switch`](crate::Switch) combines these stages. Some stages are not in this module, but are public
//! elsewhere. [`parse`](xoff_wire::parse::parse) reads headers, [`ClassMaps`](crate::config::ClassMaps)
//! selects the traffic class, and [`Mmu`](crate::mmu::Mmu) admits frames. [`Fib`](crate::route::Fib) finds
//! routes, and [`mark_ce`](xoff_wire::mark_ce) sets ECN marks.

pub use crate::bridge::{Fdb, MacAddress};
pub use crate::egress::{Scheduler, SchedulerDecision, WredMarker};
