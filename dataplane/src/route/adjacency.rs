//! What a frame needs on its way to a next hop, worked out once instead of for each frame.

use xoff_wire::rewrite::LinkAddresses;

/// A next hop that is a known neighbour behind a port: half a cache line, read in one go.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Adjacency {
    /// The neighbour's link address and the interface's own.
    pub(crate) addresses: LinkAddresses,
    /// What [`Neighbours::changes`](super::neighbour::Neighbours::changes) was when this was worked out; it is void once that is another.
    pub(super) as_of: u64,
    /// The interface's MTU; 0, which no packet is short enough for: frames cannot go this way without a further look.
    pub(crate) mtu: u32,
    /// The port that the interface stands on.
    pub(crate) port: u16,
}

const _: () = assert!(core::mem::size_of::<Adjacency>() == 32);

impl Adjacency {
    /// Not worked out.
    pub(super) const VOID: Adjacency = Adjacency {
        addresses: LinkAddresses::new([0; 6], [0; 6]),
        as_of: u64::MAX,
        mtu: 0,
        port: 0,
    };
}
