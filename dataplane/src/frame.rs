//! Received frames, and access to the bytes of stored frames.

use xoff_units::Picos;
use xoff_wire::parse::ParsedHeaders;

/// Identifies a stored frame in the [`FrameStore`] that issued the handle. Only one owner holds a handle
/// at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameHandle(pub u32);

/// Bytes reserved in front of every frame, so that headers can be added.
pub const HEADROOM_BYTES: usize = 256;

/// Access to stored frames. The driver owns the memory: it stores frames in an arena, an AF_XDP umem or a
/// memfd, with [`HEADROOM_BYTES`] of free space in front of each frame.
///
/// A frame consists of a *stored prefix* and a rest. The switch reads and edits only the prefix. In real
/// time, the prefix is the whole frame. Each copy of a flooded frame has its own prefix, and all copies share
/// the rest.
pub trait FrameStore {
    /// Returns the stored prefix, from the first byte of the Ethernet header.
    fn prefix(&self, frame: FrameHandle) -> &[u8];

    /// Returns the stored prefix, for editing in place.
    fn prefix_mut(&mut self, frame: FrameHandle) -> &mut [u8];

    /// Prefetches a frame that will be read soon. The default implementation does nothing.
    #[inline]
    fn prefetch_frame(&self, _frame: FrameHandle) {}

    /// Returns the length of the whole frame in bytes, without FCS.
    fn frame_len(&self, frame: FrameHandle) -> u32;

    /// Allocates a frame of `len` zero bytes. Returns `None` if the store is full.
    fn allocate(&mut self, len: usize) -> Option<FrameHandle>;

    /// Copies a frame. The copy stores its own first `prefix_len` bytes and shares the remaining bytes, which
    /// are reference counted. Returns `None` if the store is full.
    fn copy(&mut self, frame: FrameHandle, prefix_len: usize) -> Option<FrameHandle>;

    /// Adds `len` zero bytes in front of the frame. The sum of all additions to a frame is
    /// at most [`HEADROOM_BYTES`].
    fn push_front(&mut self, frame: FrameHandle, len: usize);

    /// Removes `len` bytes from the front of the frame.
    fn pull_front(&mut self, frame: FrameHandle, len: usize);

    /// Truncates the frame to its first `len` bytes. Copies that share bytes with the frame are not changed.
    fn truncate(&mut self, frame: FrameHandle, len: usize);

    /// Releases the slot of the frame.
    fn release(&mut self, frame: FrameHandle);
}

/// A received frame with its parsed headers.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedFrame {
    /// The stored frame.
    pub frame: FrameHandle,
    /// Length in bytes, without FCS.
    pub frame_len: u32,
    /// The parsed headers.
    pub parsed: ParsedHeaders,
    /// Time at which the port backend received the frame. The time is a kernel time stamp if one is
    /// available. The switch does not use this time for decisions.
    pub received_at: Picos,
}
