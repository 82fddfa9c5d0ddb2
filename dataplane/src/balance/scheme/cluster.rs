//! Cluster load balancing in one group. The file `balance/cluster.rs` describes the algorithm.

use crate::balance::cluster::{
    FLOWLET_GAP, FlowPlacements, MemberRank, MemberSlot, RdmaPacketClass, flow_flag,
};
use crate::balance::{
    FlowPlacement, FlowTableUse, MemberChoice, MoveReason, Packet, PathChoice, Paths, QueuePair,
};
use crate::ids::PortId;
use xoff_units::Picos;

/// A group that distributes queue pairs evenly over its members. Many flows that are not RoCEv2 are short or
/// small. For packets of these flows, the flow hash selects the member. The hash also selects the member if
/// the flow table is full.
#[derive(Debug)]
pub(crate) struct ClusterScheme {
    /// Number of this group in [`FlowPlacements`]. `None` until the group has members.
    group: Option<u32>,
    flows_max: u32,
    idle: Picos,
    /// Idle time after which a flow may move to another member.
    gap: Picos,
    /// Slot of each member. `None` for a member that carries no traffic.
    slots: Vec<Option<u32>>,
    /// Capacity of each member.
    capacities: Vec<u64>,
    /// Member from which the distances of flows to this site are counted.
    start: u16,
    /// Number of changes of members that occurred while the group had flows.
    join_count: u32,
    overflow_packets: u64,
}

/// Announcement of a flow that is placed before its first packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuePairAnnouncement {
    pub(crate) key: u64,
    /// True if the flow will carry data.
    pub(crate) heavy: bool,
    /// A port of the requested member. `None`: any member.
    pub(crate) via: Option<PortId>,
}

impl ClusterScheme {
    pub(super) fn new(flows_max: u32, idle: Picos) -> ClusterScheme {
        ClusterScheme {
            group: None,
            flows_max,
            idle,
            gap: FLOWLET_GAP.min(idle),
            slots: Vec::new(),
            capacities: Vec::new(),
            start: 0,
            join_count: 0,
            overflow_packets: 0,
        }
    }

    /// Ends the group. Its flows lose their members.
    pub(crate) fn release_flows(&mut self, placements: &mut FlowPlacements) {
        for slot in self.slots.drain(..).flatten() {
            placements.close_slot(slot, None);
        }
    }

    /// Returns the use of the flow table. Several groups share the table. The number of flows in the result
    /// covers this group only.
    pub(crate) fn table_use(&self, placements: &FlowPlacements) -> FlowTableUse {
        FlowTableUse {
            flows: self
                .group
                .map_or(0, |group| placements.count_group_and_heavy_flows(group, None).0),
            flows_max: placements.flows_max(),
            overflow_packets: self.overflow_packets,
        }
    }

    /// Returns the number of heavy flows on a member.
    pub(crate) fn heavy_flows_on_member(&self, placements: &FlowPlacements, member: u16) -> u32 {
        self.group.map_or(0, |group| {
            placements.count_group_and_heavy_flows(group, Some(member)).1
        })
    }

    /// Returns the member with the lowest rank for the next flow. `heavy` is the kind of the flow. Returns
    /// `None` if no member carries traffic.
    fn best_rank(&self, heavy: bool, paths: &Paths<'_>) -> Option<MemberRank> {
        let ranks = paths
            .usable()
            .iter()
            .filter_map(|&member| self.rank(member, heavy, paths));
        ranks.reduce(|best, rank| if rank.is_preferred_to(&best) { rank } else { best })
    }

    #[inline]
    fn rank(&self, member: u16, heavy: bool, paths: &Paths<'_>) -> Option<MemberRank> {
        let slot = self.slots.get(usize::from(member)).copied().flatten()?;
        let (members, start) = (self.slots.len() as u16, self.start);
        let distance = if member >= start {
            member - start
        } else {
            member + members - start
        };
        Some(
            paths
                .placements
                .rank(slot, heavy, self.capacities[usize::from(member)], distance),
        )
    }

    fn slot_of_member(&self, member: u16) -> Option<u32> {
        self.slots.get(usize::from(member)).copied().flatten()
    }

    /// Returns the member of a known flow if its packet needs no new decision. Returns `None` if the flow is
    /// unknown or the packet needs a decision.
    #[inline]
    pub(crate) fn member_of_known_flow(
        &self,
        now: Picos,
        pair: &QueuePair,
        placements: &mut FlowPlacements,
    ) -> Option<u16> {
        placements.age_flows(now);
        let entry = placements.find_entry(pair.key)?;
        let (flow, slot) = placements.flow_and_slot(entry);
        let class_flags = flags_of_class(RdmaPacketClass::of(pair));
        let known = flow.flags & class_flags == class_flags && !flow.has_flag(flow_flag::UNSENT);
        let here = slot.live && Some(slot.group) == self.group;
        let next = now.since(flow.seen) < self.gap;
        let member = slot.member.filter(|_| here && known && next)?;
        placements.update_flow(entry, now, flow.flags);
        Some(member)
    }

    /// Places a new flow. If the table is full, the flow hash selects the member of the packet.
    fn place_new_flow(
        &mut self,
        packet: &Packet<'_>,
        pair: &QueuePair,
        class: RdmaPacketClass,
        paths: &mut Paths<'_>,
    ) -> MemberChoice {
        let Some((member, slot)) = self
            .best_rank(class.is_heavy(), paths)
            .and_then(|rank| Some((rank.member, self.slot_of_member(rank.member)?)))
        else {
            return MemberChoice::unchanged(paths.member_by_hash(packet.hash));
        };
        if !paths
            .placements
            .insert_flow(pair.key, slot, packet.now, flags_of_class(class))
        {
            paths.placements.evict_idle_flows(packet.now);
            self.overflow_packets += 1;
            return MemberChoice::unchanged(paths.member_by_hash(packet.hash));
        }
        choice_with_placement(member, None, MoveReason::New)
    }

    /// Handles a known flow whose packet may change the kind of the flow or its member.
    #[cold]
    fn reconsider_flow(
        &mut self,
        packet: &Packet<'_>,
        entry: usize,
        class: RdmaPacketClass,
        paths: &mut Paths<'_>,
    ) -> MemberChoice {
        let (flow, slot) = paths.placements.flow_and_slot(entry);
        let slot = *slot;
        let silent = packet.now.since(flow.seen);
        let overtakes = flow.has_flag(flags_of_overtakable_traffic(class));
        let promoted = class.is_heavy() && !flow.has_flag(flow_flag::HEAVY);
        let flags = flow.flags & !flow_flag::UNSENT;
        paths.placements.update_flow(entry, packet.now, flags);
        let at = slot
            .member
            .filter(|_| slot.live && Some(slot.group) == self.group);
        let Some(at) = at else {
            return self.place_flow_again(packet, entry, class, (slot, silent), paths);
        };
        let is_quiescent = silent >= self.gap && paths.queued_bytes(at) == 0;
        let forgotten = silent >= self.idle && !flow.has_flag(flow_flag::ANNOUNCED);
        let may_move = !flow.has_flag(flow_flag::PINNED) && (is_quiescent || (promoted && !overtakes));
        if !promoted && !may_move {
            paths
                .placements
                .update_flow(entry, packet.now, flags | flags_of_class(class));
            return MemberChoice::unchanged(at);
        }
        paths.placements.unassign_flow(entry);
        let done = if is_quiescent {
            flow_flag::REQUESTS | flow_flag::ACKNOWLEDGEMENTS
        } else {
            0
        };
        let flags = flags & !done | flags_of_class(class);
        paths.placements.update_flow(entry, packet.now, flags);
        let heavy = flags & flow_flag::HEAVY != 0;
        let best = self.best_rank(heavy, paths).filter(|_| may_move);
        let stays = self.rank(at, heavy, paths);
        // A flow moves only to a strictly better member.
        let to = best.filter(|best| stays.is_none_or(|stays| best.has_fewer_flows_than(&stays)));
        let to = to.map_or(at, |best| best.member);
        let Some(lane_to) = self.slot_of_member(to) else {
            return MemberChoice::unchanged(at);
        };
        let came_later = paths.placements.member_slot(lane_to).join_count > slot.join_count;
        paths.placements.assign_flow(entry, lane_to);
        match promoted {
            true => choice_with_placement(to, Some(at), MoveReason::Promoted),
            false if to != at && came_later => choice_with_placement(to, Some(at), MoveReason::LinkUp),
            false if to != at || forgotten => choice_with_placement(to, Some(at), MoveReason::Idle),
            false => MemberChoice::unchanged(at),
        }
    }

    /// Places a flow again after its member failed or was removed.
    fn place_flow_again(
        &mut self,
        packet: &Packet<'_>,
        entry: usize,
        class: RdmaPacketClass,
        (slot, silent): (MemberSlot, Picos),
        paths: &mut Paths<'_>,
    ) -> MemberChoice {
        paths.placements.unassign_flow(entry);
        let flags =
            paths.placements.flow_and_slot(entry).0.flags & !flow_flag::PINNED | flags_of_class(class);
        paths.placements.update_flow(entry, packet.now, flags);
        let heavy = flags & flow_flag::HEAVY != 0;
        let Some((member, to)) = self
            .best_rank(heavy, paths)
            .and_then(|rank| Some((rank.member, self.slot_of_member(rank.member)?)))
        else {
            paths.placements.remove_unassigned_flow(entry);
            return MemberChoice::unchanged(paths.member_by_hash(packet.hash));
        };
        paths.placements.assign_flow(entry, to);
        let known_here = Some(slot.group) == self.group;
        let reason = match known_here {
            true if silent >= self.idle => MoveReason::Idle,
            true => MoveReason::LinkDown,
            false => MoveReason::New,
        };
        choice_with_placement(member, slot.member.filter(|_| known_here), reason)
    }

    /// Places a flow before its first packet. Returns its new member, and its previous member if it had one.
    /// Returns `None` if the table is full or no member is usable.
    pub(crate) fn announce_flow(
        &mut self,
        now: Picos,
        announced: &QueuePairAnnouncement,
        paths: &mut Paths<'_>,
    ) -> Option<(u16, Option<u16>)> {
        let kind = if announced.heavy { flow_flag::HEAVY } else { 0 };
        let leads_there = |member: &u16| {
            announced
                .via
                .is_some_and(|port| paths.members()[usize::from(*member)].ports.contains(&port))
        };
        let requested = paths.usable().iter().copied().find(leads_there);
        let pinned = if requested.is_some() { flow_flag::PINNED } else { 0 };
        let flags = flow_flag::ANNOUNCED | pinned | kind;
        let Some(entry) = paths.placements.find_entry(announced.key) else {
            let member = requested.or_else(|| Some(self.best_rank(announced.heavy, paths)?.member))?;
            let slot = self.slot_of_member(member)?;
            let inserted = paths
                .placements
                .insert_flow(announced.key, slot, now, flags | flow_flag::UNSENT);
            return inserted.then_some((member, None));
        };
        let (flow, slot) = paths.placements.flow_and_slot(entry);
        let here = slot
            .member
            .filter(|_| slot.live && Some(slot.group) == self.group);
        let is_quiescent = flow.has_flag(flow_flag::UNSENT) || now.since(flow.seen) >= self.gap;
        if let Some(at) = here.filter(|_| !is_quiescent) {
            // A flow that is sending keeps its member, even if another member was requested.
            let flags = flow.flags | flow_flag::ANNOUNCED;
            paths.placements.update_flow(entry, flow.seen, flags);
            return Some((at, Some(at)));
        }
        paths.placements.unassign_flow(entry);
        let flags = flags | (flow.flags & (flow_flag::UNSENT | flow_flag::HEAVY));
        paths.placements.update_flow(entry, flow.seen, flags);
        let heavy = flags & flow_flag::HEAVY != 0;
        let to = requested.or_else(|| Some(self.best_rank(heavy, paths)?.member));
        match to.and_then(|to| Some((to, self.slot_of_member(to)?))) {
            Some((to, slot)) => {
                paths.placements.assign_flow(entry, slot);
                Some((to, here))
            }
            None => {
                paths.placements.remove_unassigned_flow(entry);
                None
            }
        }
    }
}

impl PathChoice for ClusterScheme {
    /// Selects the member if [`ClusterScheme::member_of_known_flow`] returned `None`.
    fn choose(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> MemberChoice {
        let Some(pair) = packet.queue_pair() else {
            return MemberChoice::unchanged(paths.member_by_hash(packet.hash));
        };
        let class = RdmaPacketClass::of(&pair);
        match paths.placements.find_entry(pair.key) {
            None => self.place_new_flow(packet, &pair, class, paths),
            Some(entry) => self.reconsider_flow(packet, entry, class, paths),
        }
    }

    fn members_changed(&mut self, renumbered: &[Option<u16>], paths: &mut Paths<'_>) {
        let group = *self
            .group
            .get_or_insert_with(|| paths.placements.register_group(self.flows_max, self.idle));
        let key = paths.count_key;
        let row = paths.placements.find_or_add_count_row(key);
        let (members, usable) = (paths.members, paths.usable);
        let port = |member: u16| members[usize::from(member)].ports.first().copied();
        let mut slots = vec![None; members.len()];
        let has_flows = paths.placements.count_group_and_heavy_flows(group, None).0 > 0;
        for (old, slot) in self.slots.iter().enumerate() {
            let Some(slot) = *slot else { continue };
            let new = renumbered.get(old).copied().flatten();
            match new.filter(|new| paths.is_usable(*new)) {
                Some(new) => {
                    paths.placements.reassign_slot(slot, new, (row, port(new)));
                    slots[usize::from(new)] = Some(slot);
                }
                None => paths.placements.close_slot(slot, Some(old as u16)),
            }
        }
        paths.placements.renumber_closed_slots(group, renumbered);
        self.join_count += u32::from(has_flows);
        for &member in usable {
            let slot = &mut slots[usize::from(member)];
            if slot.is_none() {
                let at = (row, port(member));
                *slot = Some(
                    paths
                        .placements
                        .open_slot(group, member, at, self.join_count, self.idle),
                );
            }
        }
        self.slots = slots;
        self.capacities = member_capacities(paths);
        let members = members.len().max(1) as u64;
        self.start = ((u64::from(paths.placements.start_member()) + u64::from(key.site)) % members) as u16;
    }
}

/// Returns the flow flags that a packet of this class sets.
#[inline]
fn flags_of_class(class: RdmaPacketClass) -> u8 {
    match class {
        RdmaPacketClass::Acknowledgement => flow_flag::ACKNOWLEDGEMENTS,
        RdmaPacketClass::Request => flow_flag::REQUESTS,
        RdmaPacketClass::Data | RdmaPacketClass::Response => flow_flag::HEAVY,
    }
}

/// Returns flags for the earlier light traffic (such as acknowledgements) that this packet could overtake if
/// the flow changed its path.
fn flags_of_overtakable_traffic(class: RdmaPacketClass) -> u8 {
    match class {
        RdmaPacketClass::Response => flow_flag::ACKNOWLEDGEMENTS,
        _ => flow_flag::REQUESTS,
    }
}

/// Returns a choice with the reason of the move.
fn choice_with_placement(member: u16, from: Option<u16>, reason: MoveReason) -> MemberChoice {
    let placed = Some(FlowPlacement { reason, from });
    MemberChoice { member, placed }
}

/// Returns the capacity of each member. The capacity is the weight if the weights of the members differ.
/// Otherwise, it is the speed.
fn member_capacities(paths: &Paths<'_>) -> Vec<u64> {
    let members = paths.members();
    let weighted = members.windows(2).any(|pair| pair[0].weight != pair[1].weight);
    let capacity = |weight: u16, speed: u32| match weighted {
        true => u64::from(weight),
        false => u64::from(speed),
    };
    let capacities = members
        .iter()
        .map(|member| capacity(member.weight, member.speed_mbps).max(1));
    capacities.collect()
}
