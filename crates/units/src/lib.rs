//! Units of the data plane: model time and the timing of links.
//!
//! [`Picos`] is a point or a span of model time. [`LinkTiming`] converts frame lengths and pause quanta to
//! time. Two functions measure how evenly a load is distributed: [`jain_index`] and [`max_mean_ratio`].
//! [`count_noun`] formats a number of things for people. [`nearest_name`] finds the name that a misspelt word means.
//! [`prefetch`] fetches memory before it is read.
//!
//! # Examples
//!
//! Compute the time of the shortest frame on a 400 Gb/s link. This frame has 60 bytes without FCS:
//!
//! ```
//! use xoff_units::{LinkTiming, Picos};
//!
//! let link = LinkTiming::ethernet(400_000);
//! let frame_bytes = link.mac_len(60);
//! assert_eq!(frame_bytes, 64);
//!
//! // The link adds preamble, start delimiter and gap: 20 bytes.
//! let occupied_bytes = link.wire_len(frame_bytes);
//! assert_eq!(link.duration(occupied_bytes), Picos(1_680));
//! ```
#![forbid(unsafe_code)]

mod balance;
mod count;
mod prefetch;
#[cfg(feature = "serde")]
pub mod serde_picos;
mod similar_names;
mod time;

pub use balance::{jain_index, max_mean_ratio};
pub use count::{count_noun, group_thousands};
pub use prefetch::prefetch;
pub use similar_names::{list_names, nearest_name, suggest};
pub use time::{LinkTiming, Picos, nanos_as_in_ns3};
