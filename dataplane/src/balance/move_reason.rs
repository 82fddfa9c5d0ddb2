//! The reasons for which flows are placed on a member or move to another member.

/// Reason of a placement or move of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MoveReason {
    /// The flow is new, or its entry in the flow table was removed.
    New,
    /// The flow was idle and then selected a member again.
    Idle,
    /// The flow moved while it was sending, because another member was much better.
    Quality,
    /// The previous member is no longer usable.
    LinkDown,
    /// A member has recovered or joined the group, and receives its share of flows.
    LinkUp,
    /// The flow was announced before its first packet
    /// ([`Switch::announce_flow`](crate::Switch::announce_flow)).
    Announced,
    /// The flow carried data for the first time and is now counted as a heavy flow.
    Promoted,
}

impl MoveReason {
    /// All reasons, in the order of their numbers, which start at 0.
    pub const ALL: [MoveReason; 7] = [
        MoveReason::New,
        MoveReason::Idle,
        MoveReason::Quality,
        MoveReason::LinkDown,
        MoveReason::LinkUp,
        MoveReason::Announced,
        MoveReason::Promoted,
    ];

    /// Returns the name of the reason in reports and tables.
    pub const fn name(self) -> &'static str {
        match self {
            MoveReason::New => "new",
            MoveReason::Idle => "idle",
            MoveReason::Quality => "quality",
            MoveReason::LinkDown => "link-down",
            MoveReason::LinkUp => "link-up",
            MoveReason::Announced => "announced",
            MoveReason::Promoted => "promoted",
        }
    }
}
