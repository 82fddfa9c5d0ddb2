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
    /// The bytes from the layer-3 header on.
    pub(crate) l3: &'a [u8],
}

/// A member and its present state.
#[derive(Clone, Debug)]
pub(crate) struct MemberState {
    pub(crate) member: Member,
    pub(crate) live: bool,
    /// Scheme that the ports of the member give to their groups.
    pub(crate) scheme: Option<u16>,
}
