//! Port backends from outside this crate.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use xoff_dataplane::FrameHandle;

use super::{Arena, PortDrops, PortFrame, SlotSource};

/// A port backend that the caller implements, for [`Port::Custom`](super::Port::Custom).
///
/// The backend runs in the worker thread that owns the port, and never blocks. Each built-in backend is a
/// variant of [`Port`](super::Port), so its methods are called statically. A custom backend needs a virtual
/// call for each burst, and one for each frame that it stores in a slot.
///
/// `examples/port_backend.rs` implements a backend that carries frames in UDP datagrams.
pub trait PortBackend: fmt::Debug + Send {
    /// Receives up to `max` frames. Appends the frames to `out` and returns their number, which is 0 if no
    /// frame waits.
    ///
    /// [`SlotSource::store_frame`] copies a frame into a slot. If no slot is free, the backend either keeps
    /// the frame or drops and counts the frame.
    ///
    /// # Errors
    /// An error for which [`is_device_removed`](super::is_device_removed) is true closes the port. The worker
    /// retries after other errors.
    fn receive(
        &mut self,
        slots: &mut dyn SlotSource,
        max: usize,
        out: &mut Vec<PortFrame>,
    ) -> io::Result<usize>;

    /// Sends frames from the front of `frames`. Returns the number of finished frames, which were either sent
    /// or dropped and counted. The caller keeps all slots, and passes the remaining frames again later.
    /// [`Arena::segments`] returns the bytes of a frame.
    ///
    /// # Errors
    /// Returns the same errors as [`receive`](PortBackend::receive).
    fn transmit(&mut self, arena: &Arena, frames: &[FrameHandle]) -> io::Result<usize>;

    /// Returns the descriptor to poll for received frames. With `None`, the worker polls the port
    /// every 100 us.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// Returns whether the link is up. Called about 20 times per second.
    fn is_link_up(&mut self) -> bool;

    /// Returns the frames that were dropped and lost since the last call.
    fn take_drops(&mut self) -> PortDrops {
        PortDrops::default()
    }

    /// Returns the name of the backend, as in reports.
    fn backend_name(&self) -> &'static str;

    /// Returns the name of the device, as in reports.
    fn device_name(&self) -> &str;
}
