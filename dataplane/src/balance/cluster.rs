//! Cluster load balancing: stores the queue pairs of a switch, and the number of queue pairs on each link.
//!
//! # Algorithm
//!
//! A *flow* consists of the packets to one RDMA queue pair. Its key consists of both IP addresses and
//! the destination queue pair of the base transport header. The switch learns a flow from its first
//! packet or from an announcement. The flow is placed on a member of its group (a next hop or a LAG
//! port) and stays there.
//!
//! Each group leads to one *site*. A site consists of the destinations behind one leaf
//! ([`crate::route::RouteTag::site`]). A new flow goes to the member with the lowest rank. To rank the
//! members, these values are compared in this order:
//!
//! 1. The number of flows to this site on the member's port, including the new flow, divided by the capacity
//!    of the member.
//! 2. The number of flows to all sites on this port, including the new flow, divided by the capacity of the
//!    member. This rule balances the uplinks.
//! 3. The number of flows of this group on the member. This rule matters when two members share a port.
//! 4. The distance of the member from member `(start + site) mod members`, counted in ascending order.
//!    `start` is the site number of the switch. If no route has a site, `start` is derived from the seed of
//!    the switch. Leaves that send flows to the same site therefore start at different spines, and the flows
//!    that cannot be distributed evenly use different downlinks to the site.
//!
//! The capacity is the speed of the member, or its weight if the routes have unequal weights.
//!
//! *Heavy* flows have carried data. *Light* flows have carried only acknowledgements, CNPs, READ and atomic
//! requests or management datagrams. Heavy and light flows are counted separately by the same rules, so
//! acknowledgements do not influence the placement of data. When a light flow carries data for the first
//! time, it becomes heavy. The flow then selects a member again if the move cannot reorder packets. Requests
//! and responses of a queue pair may overtake each other. A flow that has carried only acknowledgements may
//! therefore move with its first request.
//!
//! A flow is *quiescent* if it has sent nothing for [`FLOWLET_GAP`] and the queues of its member are empty.
//! All packets of the flow have then arrived. Apart from flows that become heavy, only quiescent flows move,
//! and only if the new member is better by rule 1 or rule 2. These moves restore the balance after links came
//! up or flows ended.
//!
//! A flow is removed after the idle time of the scheme. A scan finds idle flows. The scan passes over the
//! whole table once in each idle time. Announced flows stay in the table until the announcement is withdrawn.
//! Pinned flows, which were announced with a port, stay on their member while the member is up.
//!
//! When a member fails, all its flows lose their member at once. Each of these flows is placed on a new
//! member when its next packet arrives. Flows on other members do not move.
//!
//! # Guarantees
//!
//! The guarantees apply to a group with `n` members of equal capacity and to flows of one kind (heavy
//! or light).
//!
//! - **Per site, if flows only arrive:** the numbers of flows on two members differ by at most 1. A flow goes
//!   to a member with the fewest flows, so a difference of 2 cannot arise.
//! - **Per link, if flows only arrive:** the numbers of flows on two links differ by at most the number of
//!   sites, because each site contributes at most 1. The numbers differ by at most 1 if each site has at most
//!   one flow, or if each site has a multiple of `n` flows. The worst case can occur: one flow to each of
//!   many sites, and then a second flow to each site whose first flow is on one particular link.
//! - **After departures and failures,** when every flow has been quiescent once: the numbers differ by at
//!   most 1 per site and per link. Suppose that link `a` has two flows more than link `b`. Then at least one
//!   site has more flows on `a` than on `b`. Rule 1 moves a flow if this site's difference is 2 or more. Rule
//!   2 moves a flow if the difference is 1. Each move reduces the sum of squares of the site counts, or keeps
//!   this sum and reduces the sum of squares of the link counts. The moves therefore end.
//! - **Downlinks of the spines:** the numbers of flows on the links to a site differ at most by the number of
//!   leaves that send to the site. The numbers are equal under two conditions: each of `n` leaves with
//!   different starts modulo `n` sends the same number of flows, and rules 1 to 3 give equal ranks. Announced
//!   placement (`crates/fabric/src/placement/`) achieves a difference of 1 for every pattern.
//! - **Order:** if every packet arrives within [`FLOWLET_GAP`], only a failure can reorder the packets of a
//!   flow. A pause on a later link can delay packets for longer than this gap.
//!
//! If the capacities differ, "differ by at most 1" means the following. If any flow moved, the load of its
//! new member would then be at least as high as the present load of its old member.

use super::flow_map::FlowMap;
use super::packet::QueuePair;
use crate::ids::PortId;
use xoff_units::Picos;

/// After this idle time, all earlier packets of a flow are assumed to have arrived. The value is the default
/// flowlet idle time of SAI.
pub(super) const FLOWLET_GAP: Picos = Picos::from_micros(256);

/// Largest number of entries that the aging scan checks for one packet.
const AGING_STEPS_MAX: u64 = 256;
/// Number of entries that the aging scan checks when the table is full and a packet of a new flow arrives.
const AGING_STEPS_WHEN_FULL: u64 = 8;

/// Port number of a member without a port.
const NO_PORT: u16 = u16::MAX;

/// Class of an RDMA packet in cluster load balancing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RdmaPacketClass {
    /// An acknowledgement or a CNP.
    Acknowledgement,
    /// A request with little or no data: READ, atomic or FLUSH requests and management datagrams.
    Request,
    /// A request with data.
    Data,
    /// A READ response.
    Response,
}

impl RdmaPacketClass {
    /// Returns the class of a packet from its opcode. Extended reliable connections (XRC) use the opcodes of
    /// reliable connections. Packets of unknown services count as data.
    #[inline]
    pub(super) fn of(pair: &QueuePair) -> RdmaPacketClass {
        const CNP: u8 = 0x81;
        let operation = pair.opcode & 0x1f;
        match pair.opcode >> 5 {
            _ if pair.opcode == CNP => RdmaPacketClass::Acknowledgement,
            // Queue pairs 0 and 1 carry management datagrams.
            _ if pair.destination_qp < 2 => RdmaPacketClass::Request,
            0 | 2 | 5 => match operation {
                0x11 | 0x12 => RdmaPacketClass::Acknowledgement,
                0x0c | 0x13 | 0x14 | 0x1c => RdmaPacketClass::Request,
                0x0d..=0x10 => RdmaPacketClass::Response,
                _ => RdmaPacketClass::Data,
            },
            _ => RdmaPacketClass::Data,
        }
    }

    /// Returns true if a flow with a packet of this class is heavy.
    #[inline]
    pub(super) fn is_heavy(self) -> bool {
        matches!(self, RdmaPacketClass::Data | RdmaPacketClass::Response)
    }
}

/// State of a placed flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedFlow {
    /// Arrival time of the latest packet.
    pub(super) seen: Picos,
    slot: u32,
    pub(super) flags: u8,
}

/// Flags of a flow, one bit each.
pub(super) mod flow_flag {
    /// The flow has carried data or was announced as a data flow.
    pub(in crate::balance) const HEAVY: u8 = 1;
    /// The flow has carried requests without data.
    pub(in crate::balance) const REQUESTS: u8 = 1 << 1;
    /// The flow has carried acknowledgements or CNPs.
    pub(in crate::balance) const ACKNOWLEDGEMENTS: u8 = 1 << 2;
    /// The flow stays in the table until it is withdrawn.
    pub(in crate::balance) const ANNOUNCED: u8 = 1 << 3;
    /// The flow stays on its member while the member is up.
    pub(in crate::balance) const PINNED: u8 = 1 << 4;
    /// The flow has sent no packet yet.
    pub(in crate::balance) const UNSENT: u8 = 1 << 5;
}

impl PlacedFlow {
    /// Decodes a flow from two words of the flow table.
    #[inline]
    fn from_words([seen, rest]: [u64; 2]) -> PlacedFlow {
        PlacedFlow {
            seen: Picos(seen),
            slot: rest as u32,
            flags: (rest >> 32) as u8,
        }
    }

    /// Encodes the flow in two words of the flow table.
    #[inline]
    fn packed_words(&self) -> [u64; 2] {
        [self.seen.0, u64::from(self.flags) << 32 | u64::from(self.slot)]
    }

    /// Returns true if at least one of these flags is set.
    pub(super) fn has_flag(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Number of heavy flows, then number of light flows.
type FlowCounts = [u32; 2];

/// Flow counters of a member, during a period in which the member carries traffic.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemberSlot {
    /// Number of the group, as [`FlowPlacements::register_group`] returned it.
    pub(super) group: u32,
    /// Index of the member in its group. `None` after the removal of the member.
    pub(super) member: Option<u16>,
    /// True while the member carries traffic.
    pub(super) live: bool,
    /// Value of the group's join counter when the slot was opened. This counter counts how often members
    /// joined while the group already had flows. A larger value means that the member joined later.
    pub(super) join_count: u32,
    idle: Picos,
    row: u32,
    port: u16,
    /// Number of flows in the table that were placed on this member. Flows are still counted here after the
    /// member has failed.
    flows: u32,
    counts: FlowCounts,
}

/// Key of a set of groups. Groups of the same kind that lead to the same site (destination leaf) have the
/// same key. The flows of these groups on a port are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowCountKey {
    /// True if the groups are LAGs. Flows in LAGs are counted separately from flows in next-hop groups.
    pub(super) lag: bool,
    pub(super) site: u16,
}

/// Flow counters of one key, for each port.
#[derive(Debug)]
struct PortFlowCounts {
    key: FlowCountKey,
    by_port: Vec<FlowCounts>,
}

/// Rank of a member for the next flow. The member with the lowest rank is preferred.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemberRank {
    pub(super) member: u16,
    pub(super) capacity: u64,
    /// Number of flows of the site, of all sites, and of the group.
    flows: [u32; 3],
    /// Distance from the start member.
    pub(super) distance: u16,
}

impl MemberRank {
    /// Returns true if this member is better than `other`: it has fewer flows to the same site for its
    /// capacity (rule 1), or it is equal by rule 1 and has fewer flows to all sites for its capacity
    /// (rule 2).
    pub(super) fn has_fewer_flows_than(&self, other: &MemberRank) -> bool {
        self.compare(other, 2).is_lt()
    }

    /// Returns true if this member is preferred to `other` for the next flow.
    pub(super) fn is_preferred_to(&self, other: &MemberRank) -> bool {
        self.compare(other, 3)
            .then(self.distance.cmp(&other.distance))
            .is_lt()
    }

    /// Compares two ranks by the first `rules` rules.
    fn compare(&self, other: &MemberRank, rules: usize) -> core::cmp::Ordering {
        let with = |flows: u32, capacity: u64| (u64::from(flows) + 1) * capacity;
        let pairs = self.flows.iter().zip(&other.flows).take(rules);
        pairs
            .map(|(own, others)| with(*own, other.capacity).cmp(&with(*others, self.capacity)))
            .find(|order| order.is_ne())
            .unwrap_or(core::cmp::Ordering::Equal)
    }
}

/// All placed flows of a switch, and their numbers on each member and port.
#[derive(Debug)]
pub(crate) struct FlowPlacements {
    flows: FlowMap,
    slots: Vec<MemberSlot>,
    free_slots: Vec<u32>,
    rows: Vec<PortFlowCounts>,
    /// Flows to all sites on each port: first flows of next-hop groups, then flows of LAGs.
    totals: [Vec<FlowCounts>; 2],
    /// Start member of flows to site 0, the destinations without a site number. The index of the start member
    /// is this value modulo the number of members.
    start: u32,
    groups: u32,
    /// Entry of the flow table that the aging scan checks next.
    aging_entry: usize,
    aging_due: Picos,
    aging_step: Picos,
    /// Shortest idle time of all groups.
    idle_min: Picos,
}

impl FlowPlacements {
    /// Creates an empty table for a switch with this number of ports.
    pub(super) fn new(ports: usize, start: u32) -> FlowPlacements {
        FlowPlacements {
            flows: FlowMap::new(0),
            slots: Vec::new(),
            free_slots: Vec::new(),
            rows: Vec::new(),
            totals: [vec![[0; 2]; ports], vec![[0; 2]; ports]],
            start,
            groups: 0,
            aging_entry: 0,
            aging_due: Picos::ZERO,
            aging_step: Picos::NEVER,
            idle_min: Picos::NEVER,
        }
    }

    /// Sets the start member of flows to site 0.
    pub(super) fn set_start_member(&mut self, start: u32) {
        self.start = start;
    }

    /// Returns the start member of flows to site 0.
    pub(super) fn start_member(&self) -> u32 {
        self.start
    }

    /// Registers a group and returns its number. All groups share one flow table. The capacity of the table
    /// is the largest `flows_max` of all groups.
    pub(super) fn register_group(&mut self, flows_max: u32, idle: Picos) -> u32 {
        self.groups += 1;
        if self.flows.flows_max() < flows_max as usize {
            let mut larger = FlowMap::new(flows_max as usize);
            for (key, flow) in self.flows.iter() {
                larger.insert(key, flow);
            }
            self.flows = larger;
            self.aging_entry = 0;
        }
        self.idle_min = self.idle_min.min(idle);
        self.aging_step = Picos((self.idle_min.0 / self.flows.flows_max().max(1) as u64).max(1));
        self.groups
    }

    /// Returns the capacity of the flow table, in flows.
    pub(super) fn flows_max(&self) -> u32 {
        self.flows.flows_max() as u32
    }

    /// Returns the number of flows of a group, and the number of heavy flows on one of its members.
    pub(super) fn count_group_and_heavy_flows(&self, group: u32, member: Option<u16>) -> (u32, u32) {
        let of_group = self.slots.iter().filter(|slot| slot.group == group);
        of_group.fold((0, 0), |(flows, heavy), slot| {
            let here = slot.live && slot.member == member;
            (flows + slot.flows, heavy + if here { slot.counts[0] } else { 0 })
        })
    }

    /// Returns the index of the counters for this key. If they do not exist, they are added.
    pub(super) fn find_or_add_count_row(&mut self, key: FlowCountKey) -> u32 {
        if let Some(row) = self.rows.iter().position(|row| row.key == key) {
            return row as u32;
        }
        let by_port = vec![[0; 2]; self.totals[0].len()];
        self.rows.push(PortFlowCounts { key, by_port });
        self.rows.len() as u32 - 1
    }
}

/// Operations on the slots of members.
impl FlowPlacements {
    /// Returns the slot with this number.
    #[inline]
    pub(super) fn member_slot(&self, slot: u32) -> &MemberSlot {
        &self.slots[slot as usize]
    }

    /// Opens a slot for a member that starts to carry traffic. Returns the number of the slot.
    pub(super) fn open_slot(
        &mut self,
        group: u32,
        member: u16,
        (count_row, port): (u32, Option<PortId>),
        join_count: u32,
        idle: Picos,
    ) -> u32 {
        let slot = MemberSlot {
            group,
            member: Some(member),
            live: true,
            join_count,
            idle,
            row: count_row,
            port: port.map_or(NO_PORT, |port| port.0),
            flows: 0,
            counts: [0; 2],
        };
        match self.free_slots.pop() {
            Some(free_slots) => {
                self.slots[free_slots as usize] = slot;
                free_slots
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        }
    }

    /// Gives a slot a new member index, counter row and port. The flows of the slot are kept.
    pub(super) fn reassign_slot(&mut self, slot: u32, member: u16, (count_row, port): (u32, Option<PortId>)) {
        let counts = self.slots[slot as usize].counts;
        self.adjust_counts(slot, counts, false);
        let at = &mut self.slots[slot as usize];
        (at.member, at.row, at.port) = (Some(member), count_row, port.map_or(NO_PORT, |port| port.0));
        self.adjust_counts(slot, counts, true);
    }

    /// Closes the slot of a member that no longer carries traffic. `member` is the index of the member, or
    /// `None` if the member is no longer in the group.
    pub(super) fn close_slot(&mut self, slot: u32, member: Option<u16>) {
        let counts = self.slots[slot as usize].counts;
        self.adjust_counts(slot, counts, false);
        let at = &mut self.slots[slot as usize];
        (at.live, at.member) = (false, member);
        if at.flows == 0 {
            self.free_slots.push(slot);
        }
    }

    /// Applies new member indices to the closed slots of a group.
    pub(super) fn renumber_closed_slots(&mut self, group: u32, renumbered: &[Option<u16>]) {
        let closed = self
            .slots
            .iter_mut()
            .filter(|slot| slot.group == group && !slot.live);
        for slot in closed {
            slot.member = slot
                .member
                .and_then(|old| renumbered.get(usize::from(old)).copied().flatten());
        }
    }

    /// Adds flows to the counters of a slot and its port. If `add` is false, subtracts them.
    fn adjust_counts(&mut self, slot: u32, counts: FlowCounts, add: bool) {
        let at = &mut self.slots[slot as usize];
        let row = &mut self.rows[at.row as usize];
        let totals = &mut self.totals[usize::from(row.key.lag)];
        let port = usize::from(at.port);
        let own = [
            Some(&mut at.counts),
            row.by_port.get_mut(port),
            totals.get_mut(port),
        ];
        for sums in own.into_iter().flatten() {
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum = if add { *sum + count } else { *sum - count };
            }
        }
    }

    /// Returns the rank of a slot for the next flow. `heavy` is the kind of the flow.
    #[inline]
    pub(super) fn rank(&self, slot: u32, heavy: bool, capacity: u64, distance: u16) -> MemberRank {
        let at = &self.slots[slot as usize];
        let row = &self.rows[at.row as usize];
        let (kind, port) = (usize::from(!heavy), usize::from(at.port));
        let of = |counts: &Vec<FlowCounts>| counts.get(port).map_or(at.counts[kind], |counts| counts[kind]);
        MemberRank {
            member: at.member.unwrap_or_default(),
            capacity,
            flows: [
                of(&row.by_port),
                of(&self.totals[usize::from(row.key.lag)]),
                at.counts[kind],
            ],
            distance,
        }
    }
}

/// Operations on flows.
impl FlowPlacements {
    /// Returns the table entry of a queue pair's flow. Returns `None` if the flow is not known.
    #[inline]
    pub(super) fn find_entry(&self, key: u64) -> Option<usize> {
        self.flows.find(key)
    }

    /// Returns the flow of an entry, and its slot.
    #[inline]
    pub(super) fn flow_and_slot(&self, entry: usize) -> (PlacedFlow, &MemberSlot) {
        let flow = PlacedFlow::from_words(self.flows.value(entry));
        let slot = &self.slots[flow.slot as usize];
        (flow, slot)
    }

    /// Sets the flags of a flow, and the arrival time of its latest packet.
    #[inline]
    pub(super) fn update_flow(&mut self, entry: usize, seen: Picos, flags: u8) {
        let flow = PlacedFlow::from_words(self.flows.value(entry));
        self.flows
            .set_value(entry, PlacedFlow { seen, flags, ..flow }.packed_words());
    }

    /// Returns true if the flow may be removed because it has been idle for long enough.
    fn is_idle(&self, flow: &PlacedFlow, now: Picos) -> bool {
        !flow.has_flag(flow_flag::ANNOUNCED) && now.since(flow.seen) >= self.slots[flow.slot as usize].idle
    }

    /// Adds a new flow on a slot. Returns false if the table is full.
    pub(super) fn insert_flow(&mut self, key: u64, slot: u32, seen: Picos, flags: u8) -> bool {
        let inserted = self
            .flows
            .insert(key, PlacedFlow { seen, slot, flags }.packed_words())
            .is_some();
        if inserted {
            self.slots[slot as usize].flows += 1;
            self.adjust_counts(slot, counts_of_flow(flags), true);
        }
        inserted
    }

    /// Subtracts a flow from the counters of its slot. The caller must then assign the flow again or
    /// remove it.
    pub(super) fn unassign_flow(&mut self, entry: usize) {
        let flow = PlacedFlow::from_words(self.flows.value(entry));
        if self.slots[flow.slot as usize].live {
            self.adjust_counts(flow.slot, counts_of_flow(flow.flags), false);
        }
        let slot = &mut self.slots[flow.slot as usize];
        slot.flows -= 1;
    }

    /// Places a flow on a slot, after [`FlowPlacements::unassign_flow`].
    pub(super) fn assign_flow(&mut self, entry: usize, slot: u32) {
        let flow = PlacedFlow::from_words(self.flows.value(entry));
        self.flows
            .set_value(entry, PlacedFlow { slot, ..flow }.packed_words());
        let (before, flags) = (flow.slot, flow.flags);
        self.slots[slot as usize].flows += 1;
        if self.slots[slot as usize].live {
            self.adjust_counts(slot, counts_of_flow(flags), true);
        }
        self.release_slot_if_empty(before);
    }

    /// Removes the flow of an entry.
    pub(super) fn remove_flow(&mut self, entry: usize) {
        self.unassign_flow(entry);
        self.remove_unassigned_flow(entry);
    }

    /// Removes a flow from the table, after [`FlowPlacements::unassign_flow`].
    pub(super) fn remove_unassigned_flow(&mut self, entry: usize) {
        let slot = PlacedFlow::from_words(self.flows.value(entry)).slot;
        self.flows.remove(entry);
        self.release_slot_if_empty(slot);
    }

    /// Releases a slot if it is closed and has no flows.
    fn release_slot_if_empty(&mut self, slot: u32) {
        let at = &self.slots[slot as usize];
        if !at.live && at.flows == 0 {
            self.free_slots.push(slot);
        }
    }

    /// Runs the aging scan if it is due. One run checks a limited number of table entries.
    #[inline]
    pub(super) fn age_flows(&mut self, now: Picos) {
        if now >= self.aging_due {
            self.age_due_entries(now);
        }
    }

    #[cold]
    fn age_due_entries(&mut self, now: Picos) {
        let due = now.since(self.aging_due).0 / self.aging_step.0 + 1;
        for _ in 0..due.min(AGING_STEPS_MAX) {
            self.age_next_entry(now);
        }
        // After a long time without packets, the scan skips the missed steps. One pass then takes longer.
        self.aging_due = match due <= AGING_STEPS_MAX {
            true => Picos(self.aging_due.0 + due * self.aging_step.0),
            false => now.saturating_add(self.aging_step),
        };
    }

    /// Checks a few table entries for idle flows, because the table is full.
    #[cold]
    pub(super) fn evict_idle_flows(&mut self, now: Picos) {
        for _ in 0..AGING_STEPS_WHEN_FULL {
            self.age_next_entry(now);
        }
    }

    fn age_next_entry(&mut self, now: Picos) {
        if self.aging_entry >= self.flows.flows_max() {
            self.aging_entry = 0;
        }
        match self.flows.get_if_used(self.aging_entry) {
            Some(flow) if self.is_idle(&PlacedFlow::from_words(flow), now) => {
                self.remove_flow(self.aging_entry)
            }
            _ => {}
        }
        self.aging_entry += 1;
    }
}

fn counts_of_flow(flags: u8) -> FlowCounts {
    match flags & flow_flag::HEAVY != 0 {
        true => [1, 0],
        false => [0, 1],
    }
}
