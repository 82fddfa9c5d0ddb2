//! Priority flow control (PFC, IEEE 802.1Q clause 36) and 802.3x PAUSE (IEEE 802.3 Annex 31B). This module
//! contains the receiver and the sender of pauses.

mod generator;
mod receiver;

pub(crate) use generator::{PauseGenerator, WHOLE_PORT};

pub use crate::bits::iter_set_bits;
pub use receiver::{PauseHistory, PauseReceiver, response_quanta_max};
