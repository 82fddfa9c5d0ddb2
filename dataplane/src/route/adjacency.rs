//! Cached link-layer data of next hops: egress port, MTU and MAC addresses.

use xoff_wire::rewrite::LinkAddresses;

/// Link-layer data for frames to a resolved neighbour behind a port. The size is half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Adjacency {
    /// MAC addresses of the neighbour and of the interface.
    pub(crate) addresses: LinkAddresses,
    /// Value of [`NeighbourTable::changes`](super::neighbour::NeighbourTable::changes) when the adjacency was
    /// computed. If the present value of the table differs, the adjacency is invalid.
    pub(super) valid_for: u64,
    /// MTU of the interface. With 0, no packet fits, so all frames take the full path.
    pub(crate) mtu: u32,
    /// Egress port of the interface.
    pub(crate) port: u16,
}

const _: () = assert!(core::mem::size_of::<Adjacency>() == 32);

impl Adjacency {
    /// An adjacency that is never valid.
    pub(super) const INVALID: Adjacency = Adjacency {
        addresses: LinkAddresses::new([0; 6], [0; 6]),
        valid_for: u64::MAX,
        mtu: 0,
        port: 0,
    };
}
