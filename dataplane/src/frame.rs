//! What the core knows of a frame, and how it reaches its bytes.

use xoff_units::Picos;
use xoff_wire::parse::Parsed;

/// Names a stored frame. Meaningless without the [`Store`] that issued it; held in one place at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(pub u32);

/// Room in front of every frame for headers that are put before it.
pub const HEADROOM_BYTES: usize = 256;

/// Where the bytes of frames live. The core never owns them: outside, slots are an arena, an AF_XDP umem
/// or a memfd (page-aligned, one mapping, [`HEADROOM_BYTES`] in front of each frame).
///
/// A frame is a *stored prefix* that can be read and edited, and a rest that is only carried. In real time
/// the prefix is the whole frame; a flooded copy has a prefix of its own and shares the rest.
pub trait Store {
    /// The stored prefix, from the first octet of the Ethernet header.
    fn prefix(&self, frame: Handle) -> &[u8];

    /// The stored prefix, to be edited in place.
    fn prefix_mut(&mut self, frame: Handle) -> &mut [u8];

    /// A frame that will be read soon: what is far away of its stored prefix may be brought nearer. Nothing else changes.
    #[inline]
    fn fetch(&self, _frame: Handle) {}

    /// Length of the whole frame as a socket sees it (no FCS).
    fn frame_len(&self, frame: Handle) -> u32;

    /// A new frame of `len` zero octets; `None` when the store is exhausted.
    fn allocate(&mut self, len: usize) -> Option<Handle>;

    /// A copy of `frame` that stores its own first `prefix_len` octets (or all, if it is shorter) and shares the rest
    /// by count; `None` when the store is exhausted.
    fn copy(&mut self, frame: Handle, prefix_len: usize) -> Option<Handle>;

    /// Puts `len` zero octets in front of the frame. `len` is at most [`HEADROOM_BYTES`] in sum.
    fn push_front(&mut self, frame: Handle, len: usize);

    /// Removes `len` octets from the front of the frame.
    fn pull_front(&mut self, frame: Handle, len: usize);

    /// Cuts the frame to its first `len` octets, at most its length. Copies that share its bytes keep all of theirs.
    fn truncate(&mut self, frame: Handle, len: usize);

    /// Gives the frame's slot back.
    fn release(&mut self, frame: Handle);
}

/// A frame that has arrived, with everything that follows from its bytes alone.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its bytes.
    pub frame: Handle,
    /// Length as a socket sees it: without FCS.
    pub frame_len: u32,
    /// What its headers say.
    pub parsed: Parsed,
    /// When the backend received it: a kernel time stamp where one exists. Information; the switch decides by
    /// the time it is driven with.
    pub received_at: Picos,
}
