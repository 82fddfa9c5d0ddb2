//! Packet trimming: if the queue of a packet is full, the packet is truncated and sent through a second
//! queue, the trim queue. The receiver can then request a retransmission at once.
//!
//! The rules follow SAI (`SAI_SWITCH_ATTR_PACKET_TRIM_*` and
//! `SAI_BUFFER_PROFILE_PACKET_ADMISSION_FAIL_ACTION_DROP_AND_TRIM`):
//! - A packet is trimmed only if its queue has no space and the profile of the queue enables trimming.
//!   Packets that WRED or the priority group drops are not trimmed.
//! - Only IP packets longer than `size` are trimmed. Other packets have no DSCP that could inform
//!   the receiver.
//! - At ingress and egress, the packet uses only the cells of its trimmed length. Counters show the packet in
//!   its old traffic class. The limits of the new queue apply. If the new queue is full, the packet is
//!   dropped with the reason [`TrimDropped`](DropReason::TrimDropped).
//! - The switch updates the IPv4 total length and checksum, or the IPv6 payload length. Lengths and
//!   checksums of upper layers are not changed, so that the receiver can see the original length. The ICRC
//!   of RoCE is removed.

use super::Switch;
use super::acl;
use super::egress_target::{EgressTarget, TrimPlan, queue_full_drop};
use super::ingress::FrameContext;
use super::port::Port;
use crate::bridge::VlanTagAction;
use crate::config::{AclTable, SwitchConfig, TrimDscp, TrimQueue};
use crate::drops::DropReason;
use crate::frame::{FrameHandle, FrameStore};
use crate::ids::{PRIORITIES, QueueId};
use crate::mmu::{BufferRefusal, EgressPlan};
use crate::outputs::DroppedFrame;
use xoff_wire::parse::Payload;
use xoff_wire::vlan::TAG_LEN;
use xoff_wire::{IPV6_LEN, rewrite};

/// The trimming rules of a switch, prepared for the packet path. Without trimming, `ports` is empty.
#[derive(Debug, Default)]
pub(super) struct TrimmingRules {
    size: u32,
    ports: Vec<PortTrimming>,
    exempt: Vec<AclTable>,
}

#[derive(Clone, Copy, Debug)]
struct PortTrimming {
    /// Bit *n* is set if queue *n* trims packets that it refuses.
    queues: u8,
    /// New DSCP of trimmed packets, 0 to 63.
    dscp: u8,
    /// Queue through which trimmed packets leave, 0 to 7.
    queue: u8,
}

impl TrimmingRules {
    pub(super) fn new(config: &SwitchConfig) -> TrimmingRules {
        let Some(trimming) = &config.trimming else {
            return TrimmingRules::default();
        };
        let trims = |profile: u16| config.profiles.get(usize::from(profile)).is_some_and(|p| p.trim);
        let ports = config.ports.iter().map(|port| {
            let dscp = match trimming.dscp {
                TrimDscp::Fixed(dscp) => Some(dscp),
                TrimDscp::FromTc(tc) => port.tc_to_dscp.get(usize::from(tc)).copied().flatten(),
            };
            let new_dscp = dscp.unwrap_or(0) & 63;
            let maps = &port.classify;
            let by_dscp = || {
                let tc = usize::from(maps.dscp_to_tc[usize::from(new_dscp)]);
                maps.tc_to_queue.get(tc).copied().unwrap_or(0)
            };
            let queue = match trimming.queue {
                TrimQueue::Fixed(queue) => queue,
                TrimQueue::Dynamic => by_dscp(),
            };
            let queues = (0..PRIORITIES).filter(|n| dscp.is_some() && trims(port.queues[*n].profile));
            PortTrimming {
                queues: queues.fold(0, |mask, n| mask | 1 << n),
                dscp: new_dscp,
                queue: queue % PRIORITIES as u8,
            }
        });
        TrimmingRules {
            size: trimming.size_bytes,
            ports: ports.collect(),
            exempt: trimming.exempt.clone(),
        }
    }

    /// Returns the trimming rule of an egress queue. Returns `None` if the queue does not trim.
    fn trimming_rule_of_queue(&self, target: &EgressTarget) -> Option<PortTrimming> {
        let port = self.ports.get(target.to.index())?;
        (port.queues & 1 << target.queue != 0).then_some(*port)
    }
}

impl Switch {
    /// Trims a packet whose queue is full, and plans its cells in the new queue. `refusal` is the limit that
    /// refused the original packet.
    ///
    /// # Errors
    /// Returns the drop if the packet cannot be trimmed, or if the new queue has no space.
    #[cold]
    pub(super) fn try_trim<S: FrameStore>(
        &mut self,
        context: &FrameContext,
        target: &mut EgressTarget,
        refusal: BufferRefusal,
        store: &S,
    ) -> Result<EgressPlan, DroppedFrame> {
        let l3 = store.prefix(context.frame);
        let l3 = l3.get(usize::from(context.parsed.l3_offset)..).unwrap_or(&[]);
        let payload = context.parsed.payload;
        let rule = self.trimming.trimming_rule_of_queue(target).filter(|_| {
            self.can_trim(context, target, l3)
                && !acl::is_exempt_packet(&self.trimming.exempt, context.from.0, l3, payload)
        });
        let Some(rule) = rule else {
            return Err(queue_full_drop(context, target, refusal));
        };
        let trim = TrimPlan {
            len: self.trimming.size,
            dscp: rule.dscp,
            refused_by: target.queue as u8,
            original_len: target.mac_len,
        };
        let egress = &mut self.ports[target.to.index()];
        let mac_len = egress.link.mac_len(trim.len);
        let cells = self.mmu.frame_cells(mac_len);
        let queue = QueueId::new(target.to, rule.queue);
        // A queue whose frames the watchdog drops accepts no trimmed packets either.
        let storms = egress.dropping_queues & 1 << rule.queue != 0;
        let plan = match storms {
            true => Err(None),
            false => self.mmu.plan_egress(queue, cells, false).map_err(Some),
        };
        match plan {
            Ok(plan) => {
                target.queue = usize::from(rule.queue);
                (target.mac_len, target.cells, target.mark, target.trim) =
                    (mac_len, cells, false, Some(trim));
                Ok(plan)
            }
            Err(refusal) => {
                count_trimmed(egress, trim);
                egress.counters.queues[target.queue].dropped_trim_packets += 1;
                Err(DroppedFrame {
                    mac_len,
                    refusal,
                    ..context.egress_drop_record(target.to, DropReason::TrimDropped)
                })
            }
        }
    }

    /// Returns true if the packet is longer than the trimmed size and its IP header fits into
    /// the trimmed packet.
    fn can_trim(&self, context: &FrameContext, target: &EgressTarget, l3: &[u8]) -> bool {
        let tag = TAG_LEN as u32;
        let edited = |len: u32| match target.edit {
            VlanTagAction::Keep | VlanTagAction::Rewrite { .. } => len,
            VlanTagAction::Push { .. } => len + tag,
            VlanTagAction::Pop => len - tag,
        };
        let header = match context.parsed.payload {
            Payload::Ipv4 => l3.first().map_or(0, |first| u32::from(first & 15) * 4),
            Payload::Ipv6 => IPV6_LEN as u32,
            _ => return false,
        };
        let header_end = edited(u32::from(context.parsed.l3_offset)) + header;
        header_end <= self.trimming.size && self.trimming.size < edited(context.frame_len)
    }

    /// Truncates a frame after all other edits, and counts it.
    #[cold]
    pub(super) fn trim_frame<S: FrameStore>(
        &mut self,
        target: &EgressTarget,
        trim: TrimPlan,
        l3: (u8, Payload),
        store: &mut S,
    ) {
        truncate_packet(target.frame, trim, l3, store);
        count_trimmed(&mut self.ports[target.to.index()], trim);
    }
}

fn truncate_packet<S: FrameStore>(
    frame: FrameHandle,
    trim: TrimPlan,
    (l3_offset, payload): (u8, Payload),
    store: &mut S,
) {
    store.truncate(frame, trim.len as usize);
    let l3_offset = usize::from(l3_offset);
    if let Some(l3) = store.prefix_mut(frame).get_mut(l3_offset..) {
        rewrite::set_dscp(l3, payload, trim.dscp);
        rewrite::shorten_ip_packet(l3, payload, trim.len as usize - l3_offset);
    }
}

/// Counts a trimmed packet at the queue that refused it. As in SAI, this queue counts the packet both as
/// trimmed and as dropped.
fn count_trimmed(egress: &mut Port, trim: TrimPlan) {
    let counters = &mut egress.counters.queues[usize::from(trim.refused_by)];
    counters.trim_packets += 1;
    counters.dropped_packets += 1;
    counters.dropped_bytes += u64::from(trim.original_len);
}
