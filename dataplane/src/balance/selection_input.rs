//! The inputs of a selection: the packet, and the state of a member.

use super::member::Member;
use xoff_units::Picos;
use xoff_wire::parse::ParsedHeaders;

/// The packet for which a group selects a member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LookupContext<'a> {
    pub(crate) now: Picos,
    pub(crate) mac_len: u32,
    pub(crate) tc: u8,
    pub(crate) parsed: &'a ParsedHeaders,
    /// The stored bytes of the packet from the layer-3 header on.
    pub(crate) l3: &'a [u8],
}

/// A member and its state.
#[derive(Clone, Debug)]
pub(crate) struct MemberState {
    pub(crate) member: Member,
    pub(crate) live: bool,
    /// Scheme that the next hop or the ports of the member name. `None` if they name no scheme.
    pub(crate) scheme: Option<u16>,
}
