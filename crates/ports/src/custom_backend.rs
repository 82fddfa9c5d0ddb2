//! The trait for port backends outside this crate.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use xoff_dataplane::FrameHandle;

use super::{Arena, PortDrops, PortFrame, SlotSource};

/// A port backend outside this crate. [`Port::Custom`](super::Port::Custom) contains such a backend.
///
/// The backend runs in the worker thread that owns the port, and its methods must never block. A custom
/// backend is slower than a built-in backend: it needs one virtual call for each burst, and one virtual call
/// for each frame that it stores in a slot.
///
/// The example `examples/port_backend.rs` carries frames in UDP datagrams.
pub trait PortBackend: fmt::Debug + Send {
    /// Receives up to `max` frames and appends them to `out`. Returns the number of received frames: 0 if no
    /// frame waits.
    ///
    /// The backend copies a frame into a slot with [`SlotSource::store_frame`]. If no slot is free, the
    /// backend either keeps the frame for a later call, or drops and counts the frame.
    ///
    /// # Errors
    /// Returns the error of the device. If [`is_device_removed`](super::is_device_removed) is true for
    /// this error, the worker closes the port. Otherwise, the worker ignores the error and calls the
    /// function again.
    fn receive(
        &mut self,
        slots: &mut dyn SlotSource,
        max: usize,
        out: &mut Vec<PortFrame>,
    ) -> io::Result<usize>;

    /// Sends frames from the front of `frames`. Returns the number of finished frames. A finished frame was
    /// either sent, or dropped and counted. The caller keeps all slots, and passes the remaining frames again
    /// later. [`Arena::segments`] returns the bytes of a frame.
    ///
    /// # Errors
    /// Returns the same errors as [`receive`](PortBackend::receive).
    fn transmit(&mut self, arena: &Arena, frames: &[FrameHandle]) -> io::Result<usize>;

    /// Returns the descriptor that becomes readable when frames arrive. With `None`, the worker calls
    /// [`receive`](PortBackend::receive) at least every 100 us.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// Returns whether the link is up. The worker calls this about 20 times per second.
    fn is_link_up(&mut self) -> bool;

    /// Returns the numbers of frames that were dropped or lost since the last call. The default
    /// implementation returns no frames.
    fn take_drops(&mut self) -> PortDrops {
        PortDrops::default()
    }

    /// Returns the name of the backend as it appears in reports.
    fn backend_name(&self) -> &'static str;

    /// Returns the name of the device as it appears in reports.
    fn device_name(&self) -> &str;
}
