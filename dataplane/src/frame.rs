//! Received frames, and access to the bytes of stored frames.

use xoff_units::Picos;
use xoff_wire::parse::ParsedHeaders;

/// Identifies a stored frame in the [`FrameStore`] that issued the handle. Only one owner holds a handle
/// at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameHandle(pub u32);

/// Number of bytes that a [`FrameStore`] reserves in front of every frame, so that headers can be added.
pub const HEADROOM_BYTES: usize = 256;

/// Access to stored frames. The driver owns the memory, such as an arena, an AF_XDP umem or a memfd. The
/// memory has [`HEADROOM_BYTES`] of free space in front of each frame. A handle without a stored frame is an
/// error of the caller, and may cause a panic.
///
/// A frame consists of a *stored prefix* and a rest. The switch reads and edits only the prefix. In real
/// time, the prefix is the whole frame. Each copy of a flooded frame has its own prefix, and all copies share
/// the rest.
pub trait FrameStore {
    /// Returns the stored prefix, from the first byte of the Ethernet header.
    fn prefix(&self, frame: FrameHandle) -> &[u8];

    /// Returns the part of the stored prefix that may be edited in place.
    fn prefix_mut(&mut self, frame: FrameHandle) -> &mut [u8];

    /// Prefetches a frame that will be read soon. The default implementation does nothing.
    #[inline]
    fn prefetch_frame(&self, _frame: FrameHandle) {}

    /// Returns the length of the whole frame in bytes, without FCS.
    fn frame_len(&self, frame: FrameHandle) -> u32;

    /// Allocates a frame of `len` zero bytes. Returns `None` if the store is full or the frame is too long.
    fn allocate(&mut self, len: usize) -> Option<FrameHandle>;

    /// Copies a frame. The copy stores its own first `prefix_len` bytes and shares the remaining bytes, which
    /// are reference counted. Returns `None` if the store is full.
    fn copy(&mut self, frame: FrameHandle, prefix_len: usize) -> Option<FrameHandle>;

    /// Adds `len` zero bytes in front of the frame. The sum of all additions to a frame is
    /// at most [`HEADROOM_BYTES`].
    fn push_front(&mut self, frame: FrameHandle, len: usize);

    /// Removes the first `len` bytes of the frame. The removed bytes must be part of the stored prefix.
    fn pull_front(&mut self, frame: FrameHandle, len: usize);

    /// Truncates the frame to its first `len` bytes. A shorter frame is not changed. Copies that share bytes
    /// with the frame are not changed.
    fn truncate(&mut self, frame: FrameHandle, len: usize);

    /// Releases the slot of the frame. The handle is then invalid.
    fn release(&mut self, frame: FrameHandle);
}

/// A received frame with its parsed headers.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedFrame {
    /// Handle of the stored frame.
    pub frame: FrameHandle,
    /// Length of the frame in bytes, without FCS.
    pub frame_len: u32,
    /// The parsed headers.
    pub parsed: ParsedHeaders,
    /// Time at which the port backend received the frame. The time is a kernel time stamp if one is
    /// available. The switch does not use this time for decisions.
    pub received_at: Picos,
}
