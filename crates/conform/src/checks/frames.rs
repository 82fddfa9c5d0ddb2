//! MAC control frames of the instrument.

use xoff_units::Picos;
use xoff_wire::{MacControl, PRIORITIES, Pfc};

use crate::instrument::Instrument;
use crate::link_frame::LinkFrame;
use crate::traffic::INSTRUMENT_MAC;

/// The class that most checks pause.
pub(super) const PAUSED_CLASS: u8 = 3;
/// The bit of [`PAUSED_CLASS`] in an enable vector.
pub(super) const PAUSED_BIT: u8 = 1 << PAUSED_CLASS;
/// The longest pause time.
pub(super) const LONGEST_PAUSE: u16 = u16::MAX;

/// Returns a PFC frame with the same pause time for all priorities of an enable vector.
pub(super) fn pfc(enable: u8, quanta: u16) -> Vec<u8> {
    pfc_with_times(
        enable,
        std::array::from_fn(|class| if enable & (1 << class) == 0 { 0 } else { quanta }),
    )
}

/// Returns a PFC frame with the given pause times.
pub(super) fn pfc_with_times(enable: u8, quanta: [u16; PRIORITIES]) -> Vec<u8> {
    MacControl::Pfc(Pfc { enable, quanta })
        .to_frame(INSTRUMENT_MAC)
        .to_vec()
}

/// Returns an 802.3x PAUSE frame.
pub(super) fn link_pause(quanta: u16) -> Vec<u8> {
    MacControl::Pause { quanta }.to_frame(INSTRUMENT_MAC).to_vec()
}

/// Returns the frame with other bytes from an offset on.
pub(super) fn with_bytes(mut frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    frame
}

/// Sends a frame without a defect. Returns the time of its last bit.
pub(super) async fn send(i: &Instrument, frame: Vec<u8>) -> Picos {
    i.send(LinkFrame::new(frame)).await
}

/// Pauses a class once. Returns the arrival of the PFC frame.
pub(super) async fn pause(i: &Instrument, class: u8, quanta: u16) -> Picos {
    send(i, pfc(1 << class, quanta)).await
}

/// Schedules copies of a frame, the first one now. Returns the time of the copy after the last one.
pub(super) async fn repeat(i: &Instrument, frame: Vec<u8>, interval: Picos, count: u64) -> Picos {
    let start = i.now();
    for number in 0..count {
        i.send_at(start + Picos(interval.0 * number), LinkFrame::new(frame.clone()))
            .await;
    }
    start + Picos(interval.0 * count)
}

/// Holds a pause of [`PAUSED_CLASS`] by refreshes at half of the longest pause time. Returns the time at which the
/// last pause has ended at the latest.
pub(super) async fn hold_pause(i: &Instrument, refreshes: u64) -> Picos {
    let interval = i.quanta(u64::from(LONGEST_PAUSE / 2));
    let next = repeat(i, pfc(PAUSED_BIT, LONGEST_PAUSE), interval, refreshes).await;
    next + interval + i.response_budget() + i.quanta(10)
}
