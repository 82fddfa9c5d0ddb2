//! Layer-3 forwarding: which way a packet goes, who is next, and how it is reached.

mod fib;

pub use fib::{Entry, Fib, FibError, Group, NextHop, Path, Route, Target};
