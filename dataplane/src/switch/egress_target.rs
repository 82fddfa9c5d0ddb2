//! The egress port and queue that a frame is admitted to.

use super::ingress::FrameContext;
use crate::bridge::VlanTagAction;
use crate::drops::DropReason;
use crate::frame::FrameHandle;
use crate::ids::PortId;
use crate::mmu::BufferRefusal;
use crate::outputs::DroppedFrame;

/// An egress port and queue of a frame, and the edits of the frame for this port.
#[derive(Clone, Copy, Debug)]
pub(super) struct EgressTarget {
    pub(super) to: PortId,
    pub(super) queue: usize,
    pub(super) edit: VlanTagAction,
    pub(super) mac_len: u32,
    pub(super) cells: u32,
    pub(super) mark: bool,
    /// How the frame is trimmed. `None` if the frame is not trimmed.
    pub(super) trim: Option<TrimPlan>,
    pub(super) frame: FrameHandle,
}

pub(super) fn queue_full_drop(
    context: &FrameContext,
    target: &EgressTarget,
    refusal: BufferRefusal,
) -> DroppedFrame {
    DroppedFrame {
        port: target.to,
        mac_len: target.mac_len,
        refusal: Some(refusal),
        ..context.ingress_drop_record(DropReason::QueueDropped)
    }
}

/// How a packet is trimmed when its queue is full.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrimPlan {
    /// Length of the trimmed frame in bytes, without FCS.
    pub(super) len: u32,
    pub(super) dscp: u8,
    /// The queue that was full.
    pub(super) refused_by: u8,
    /// Length of the original packet at the egress port in bytes (`mac_len`).
    pub(super) original_len: u32,
}
