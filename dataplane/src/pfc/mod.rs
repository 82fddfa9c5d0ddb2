//! Priority flow control (IEEE 802.1Qbb): the receiver of pauses and the generator of XOFF and XON.

mod generator;
mod receiver;

pub(crate) use generator::PauseGenerator;
pub use receiver::PauseReceiver;
pub(crate) use receiver::bits;
