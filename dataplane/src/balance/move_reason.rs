//! The reasons for which flows move to another member.

/// Reason of the latest flow move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MoveReason {
    /// The flow is new, or its entry was removed.
    New,
    /// The flow was idle and selected a member again.
    Idle,
    /// Another member became so much better that the flow moved while it was sending.
    Quality,
    /// The previous member failed.
    LinkDown,
    /// A member recovered or joined the group and received its share of flows.
    LinkUp,
    /// The flow was announced before its first packet.
    Announced,
    /// The flow carried data for the first time and is now counted as a heavy flow.
    Promoted,
}

impl MoveReason {
    /// All reasons, in the order of their numbers.
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
