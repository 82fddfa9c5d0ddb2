//! Units of the switch and its surroundings: model time and the timing of links.
//!
//! ```
//! use xoff_units::{LinkTiming, Picos};
//!
//! // A 64-byte frame (60 bytes at a socket) on a 400 Gb/s Ethernet link, with preamble and gap.
//! let link = LinkTiming::ethernet(400_000);
//! let occupied_bytes = link.wire_len(link.mac_len(60));
//! assert_eq!(link.duration(occupied_bytes), Picos(1_680));
//! ```
#![forbid(unsafe_code)]

mod balance;
#[cfg(feature = "serde")]
pub mod serde_picos;
mod time;

pub use balance::{jain_index, max_mean_ratio};
pub use time::{LinkTiming, Picos, ns3_nanos};
