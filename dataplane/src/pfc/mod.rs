//! Pauses, per priority (IEEE 802.1Qbb) and of a whole port (802.3x): the receiver, and the generator of XOFF and XON.

mod generator;
mod receiver;

pub(crate) use generator::{PauseGenerator, WHOLE_PORT};

pub use receiver::{PauseHistory, PauseReceiver, bits, response_quanta_max};
