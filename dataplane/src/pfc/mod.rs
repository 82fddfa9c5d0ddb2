//! Priority flow control (IEEE 802.1Qbb): the receiver of pauses and the generator of XOFF and XON.

mod receiver;

pub use receiver::PauseReceiver;
