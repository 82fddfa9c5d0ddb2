//! Layer-3 forwarding: which way a packet goes, who is next, and how it is reached.

mod fib;
mod lpm;
mod paths;

pub use fib::{
    Entry, Fib, FibError, GROUPS_MAX, Group, MEMBERS_MAX, NEXT_HOPS_MAX, NextHop, Path, ROUTES_MAX, Route,
    Target, WEIGHT_SUM_MAX,
};
pub use paths::{PathTable, RESILIENT_BUCKETS, seeded};
