//! A load balancing group: its members, its scheme and its counters.

use std::collections::VecDeque;

use super::cluster::{FlowCountKey, FlowPlacements};
use super::hash::flow_hash;
use super::hash::seeded_hash;
use super::load::{PortLoads, Quality};
use super::member::Member;
use super::member_scores::MemberScores;
use super::move_reason::MoveReason;
use super::packet::{Packet, queue_pair};
use super::paths::Paths;
use super::random::RandomStream;
use super::remote::{RemotePaths, SiteIndex};
use super::scheme::Scheme;
use super::scheme::cluster::QueuePairAnnouncement;
use super::selection_input::{LookupContext, MemberState};
use super::{FlowTableUse, PathChoice};
use crate::balance::config::HashFields;
use crate::egress::FrameTable;
use crate::ids::{GroupId, PortId};
use xoff_units::Picos;

/// Identifies a load balancing group of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKey {
    /// A next-hop group of the current routes.
    NextHops(GroupId),
    /// A LAG, by its index in the configuration.
    Lag(u16),
}

/// A placement or a move of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowMove {
    /// Model time of the move.
    pub at: Picos,
    /// The group of the flow. Group numbers can change with each new version of the routes. This number is
    /// valid for the routes at the time of the move.
    pub group: GroupKey,
    /// Hash of the flow ([`Packet::hash`]). For an announced flow, the low 32 bits of the key of its
    /// queue pair.
    pub flow: u32,
    /// Index of the previous member in the group. `None` if the flow had no member.
    pub from: Option<u16>,
    /// Index of the new member in the group.
    pub to: u16,
    /// Reason of the move.
    pub reason: MoveReason,
}

/// Snapshot of a group with a scheme, for `show` commands.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupView<'a> {
    /// The group that the snapshot describes.
    pub group: GroupKey,
    /// Index of the scheme in [`crate::config::BalancingConfig::schemes`].
    pub scheme: u16,
    /// Site of the group's routes. 0 means that the routes have no site.
    pub site: u16,
    /// The members of the group. The index in this list is the index of the member in [`FlowMove`].
    pub members: Vec<MemberView<'a>>,
    /// Number of placed and moved flows for each [`MoveReason`], in the order of [`MoveReason::ALL`].
    pub moves: [u64; MoveReason::ALL.len()],
    /// Use of the flow table. `None` if the scheme has no table.
    pub table: Option<FlowTableUse>,
}

/// Snapshot of a member, for `show` commands.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberView<'a> {
    /// Ports, weight and role of the member.
    pub member: &'a Member,
    /// True if the member can be selected now.
    pub usable: bool,
    /// Packets that the group has sent to this member since the creation of the group.
    pub packets: u64,
    /// Bytes of these packets. The length of a packet is its `mac_len` at the ingress port.
    pub bytes: u64,
    /// Present quality of the member's local link.
    pub quality: Quality,
    /// Number of flows on this member that carry data. `None` if the scheme is not `cluster`.
    pub flows: Option<u32>,
}

/// A load balancing group with a scheme.
#[derive(Debug)]
pub(crate) struct BalancingGroup {
    key: GroupKey,
    scheme_index: u16,
    site: u16,
    /// Index of the group's site (destination leaf) in the list of sites that neighbours can advertise.
    /// `None` if the list does not contain this site.
    site_index: Option<SiteIndex>,
    fields: HashFields,
    members: Vec<Member>,
    live: Vec<bool>,
    usable: Vec<u16>,
    /// Usable primary members, or usable alternate members if there are no primary members. Each member is
    /// listed as often as its weight in lowest terms.
    buckets: Vec<u16>,
    scores: MemberScores,
    /// True if the usable members include both primary and alternate members.
    has_alternates: bool,
    scheme: Scheme,
    random: RandomStream,
    traffic: Vec<(u64, u64)>,
    moves: [u64; MoveReason::ALL.len()],
}

/// State of the switch that a group needs for its decisions.
pub(super) struct GroupSwitchState<'a> {
    pub(super) loads: &'a mut PortLoads,
    pub(super) frames: &'a FrameTable,
    pub(super) log: &'a mut MoveLog,
    pub(super) placements: &'a mut FlowPlacements,
    pub(super) remote: &'a RemotePaths,
}

/// Returns the flow hash for schemes that identify flows by hash.
#[inline(always)]
fn scheme_flow_hash(fields: HashFields, lookup: &LookupContext<'_>, seed: u64) -> u32 {
    seeded_hash(flow_hash(fields, lookup.parsed, lookup.l3), seed)
}

impl BalancingGroup {
    /// Creates a group without members.
    pub(super) fn new(
        scheme_index: u16,
        fields: HashFields,
        scheme: Scheme,
        random: RandomStream,
    ) -> BalancingGroup {
        BalancingGroup {
            key: GroupKey::Lag(0),
            scheme_index,
            site: 0,
            site_index: None,
            fields,
            members: Vec::new(),
            live: Vec::new(),
            usable: Vec::new(),
            buckets: Vec::new(),
            scores: MemberScores::default(),
            has_alternates: false,
            scheme,
            random,
            traffic: Vec::new(),
            moves: [0; MoveReason::ALL.len()],
        }
    }

    /// Sets the key and the site of the group.
    pub(super) fn set_key(&mut self, key: GroupKey, site: u16, site_index: Option<SiteIndex>) {
        (self.key, self.site, self.site_index) = (key, site, site_index);
    }

    /// Sets the index of the group's scheme.
    pub(super) fn renumber_scheme(&mut self, scheme_index: u16) {
        self.scheme_index = scheme_index;
    }

    pub(super) fn scheme_index(&self) -> u16 {
        self.scheme_index
    }

    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Selects the member for a packet. Returns `None` if no member is usable. `seed` is mixed into the
    /// flow hash.
    #[inline(always)]
    pub(super) fn choose_member(
        &mut self,
        lookup: &LookupContext<'_>,
        seed: u64,
        context: &mut GroupSwitchState<'_>,
    ) -> Option<u16> {
        if self.usable.is_empty() {
            return None;
        }
        let member = match self.choose_fast(lookup, seed, context) {
            Some(member) => member,
            None => {
                let packet = Packet {
                    now: lookup.now,
                    hash: scheme_flow_hash(self.fields, lookup, seed),
                    mac_len: lookup.mac_len,
                    tc: lookup.tc,
                    site: self.site,
                    payload: lookup.parsed.payload,
                    l3: lookup.l3,
                };
                self.choose_by_scheme(&packet, context)
            }
        };
        let traffic = &mut self.traffic[usize::from(member)];
        traffic.0 += 1;
        traffic.1 += u64::from(lookup.mac_len);
        Some(member)
    }

    /// Fast path: selects the member without building a [`Paths`]. Returns `None` if the scheme needs
    /// [`Paths`] for this packet.
    #[inline(always)]
    fn choose_fast(
        &mut self,
        lookup: &LookupContext<'_>,
        seed: u64,
        context: &mut GroupSwitchState<'_>,
    ) -> Option<u16> {
        let now = lookup.now;
        match &mut self.scheme {
            Scheme::Cluster(cluster) => {
                let pair = queue_pair(lookup.parsed.payload, lookup.l3)?;
                return cluster.member_of_known_flow(now, &pair, context.placements);
            }
            Scheme::Fixed(fixed) => {
                return fixed.member_of_known_flow(now, scheme_flow_hash(self.fields, lookup, seed));
            }
            _ => {}
        }
        if !self.scores.has_uniform_members()
            || self.has_alternates
            || context.loads.is_any_port_paused(lookup.tc)
        {
            return None;
        }
        let (scores, random) = (&mut self.scores, &mut self.random);
        match &mut self.scheme {
            Scheme::PerPacket(scheme) if scheme.compares_quality() && now < scores.valid_until => {
                Some(scores.best_for_packet(now, context.loads, context.frames, random))
            }
            Scheme::Drill(drill) if drill.is_drill_2_1() && self.usable.len() == self.members.len() => {
                drill.choose_drill_2_1(now, scores, context.loads, context.frames, random)
            }
            _ => None,
        }
    }

    /// Full path: calls the scheme with the state of all members.
    #[inline(never)]
    fn choose_by_scheme(&mut self, packet: &Packet<'_>, context: &mut GroupSwitchState<'_>) -> u16 {
        let mut paths = Paths {
            members: &self.members,
            usable: &self.usable,
            buckets: &self.buckets,
            scores: &mut self.scores,
            has_alternates: self.has_alternates,
            loads: context.loads,
            frames: context.frames,
            random: &mut self.random,
            placements: context.placements,
            count_key: flow_count_key(self.key, self.site),
            remote: context.remote,
            site: self.site_index,
        };
        let choice = self.scheme.choose(packet, &mut paths);
        let member = match paths.is_usable(choice.member) {
            true => choice.member,
            false => self.usable[0],
        };
        if let Some(placed) = choice.placed {
            self.moves[placed.reason as usize] += 1;
            context.log.record(|| FlowMove {
                at: packet.now,
                group: self.key,
                flow: packet.hash,
                from: placed.from,
                to: member,
                reason: placed.reason,
            });
        }
        member
    }

    /// Replaces the members. `renumbered` contains the new index of each previous member, or `None` if it
    /// was removed.
    pub(super) fn set_members(
        &mut self,
        member_states: Vec<MemberState>,
        renumbered: &[Option<u16>],
        context: GroupSwitchState<'_>,
    ) {
        let live: Vec<_> = member_states.iter().map(|state| state.live).collect();
        let members: Vec<_> = member_states.into_iter().map(|state| state.member).collect();
        if members == self.members && live == self.live {
            return;
        }
        self.live = live;
        let mut traffic = vec![(0, 0); members.len()];
        for (old, new) in renumbered.iter().enumerate() {
            if let (Some(new), Some(counts)) = (new, self.traffic.get(old)) {
                traffic[usize::from(*new)] = *counts;
            }
        }
        self.traffic = traffic;
        self.members = members;
        self.apply_member_change(renumbered, context);
    }

    /// Updates the link state of the members.
    pub(super) fn update_live_members(&mut self, live: impl Fn(u16) -> bool, context: GroupSwitchState<'_>) {
        let all = 0..self.members.len() as u16;
        let live: Vec<_> = all.clone().map(live).collect();
        let usable = self.find_usable_members(&live, context.remote);
        if live != self.live || usable != self.usable {
            self.live = live;
            self.apply_member_change(&all.map(Some).collect::<Vec<_>>(), context);
        }
    }

    /// Computes the usable members again and informs the scheme about the change.
    fn apply_member_change(&mut self, renumbered: &[Option<u16>], context: GroupSwitchState<'_>) {
        self.usable = self.find_usable_members(&self.live, context.remote);
        self.scores.set_members(&self.members);
        let alternate = |member: &u16| self.members[usize::from(*member)].alternate;
        self.has_alternates = self.usable.iter().any(alternate) && !self.usable.iter().all(alternate);
        self.fill_buckets();
        let mut paths = Paths {
            members: &self.members,
            usable: &self.usable,
            buckets: &self.buckets,
            scores: &mut self.scores,
            has_alternates: self.has_alternates,
            loads: context.loads,
            frames: context.frames,
            random: &mut self.random,
            placements: context.placements,
            count_key: flow_count_key(self.key, self.site),
            remote: context.remote,
            site: self.site_index,
        };
        self.scheme.members_changed(renumbered, &mut paths);
    }

    /// Returns the eligible members whose links are up. Members whose neighbour cannot reach the site (the
    /// destination leaf) are left out, unless no member would remain. If the scheme does not compare
    /// qualities, alternate members are included only if no primary member is usable.
    fn find_usable_members(&self, live: &[bool], remote: &RemotePaths) -> Vec<u16> {
        let mut usable = self.find_reachable_members(live, remote);
        let alternate = |member: &u16| self.members[usize::from(*member)].alternate;
        if !self.scheme.compares_quality() && !usable.iter().all(alternate) {
            usable.retain(|member| !alternate(member));
        }
        usable
    }

    fn find_reachable_members(&self, live: &[bool], remote: &RemotePaths) -> Vec<u16> {
        let own = |member: &u16| self.members[usize::from(*member)].eligible && live[usize::from(*member)];
        let living: Vec<_> = (0..self.members.len() as u16).filter(own).collect();
        let Some(site) = self.site_index else {
            return living;
        };
        let reaches = |member: &&u16| remote.reaches(&self.members[usize::from(**member)].ports, site);
        let reaching: Vec<_> = living.iter().filter(reaches).copied().collect();
        match reaching.is_empty() {
            true => living,
            false => reaching,
        }
    }

    fn fill_buckets(&mut self) {
        self.buckets.clear();
        let weight = |member: &u16| u64::from(self.members[usize::from(*member)].weight.max(1));
        let divisor = self.usable.iter().map(weight).fold(0, crate::fib::gcd).max(1);
        let primary = |member: &&u16| !self.has_alternates || !self.members[usize::from(**member)].alternate;
        for member in self.usable.iter().filter(primary) {
            let times = (weight(member) / divisor) as usize;
            self.buckets.extend(std::iter::repeat_n(*member, times));
        }
    }

    /// Returns a snapshot of the group.
    pub(super) fn view(
        &self,
        now: Picos,
        loads: &mut PortLoads,
        frames: &FrameTable,
        placements: &FlowPlacements,
    ) -> GroupView<'_> {
        let cluster_table = self.scheme.cluster().map(|cluster| cluster.table_use(placements));
        GroupView {
            group: self.key,
            scheme: self.scheme_index,
            site: self.site,
            members: (0..)
                .zip(self.members.iter().zip(&self.traffic))
                .map(|(index, (member, &(packets, bytes)))| MemberView {
                    member,
                    usable: self.usable.contains(&index),
                    packets,
                    bytes,
                    quality: member.quality(now, loads, frames),
                    flows: self
                        .scheme
                        .cluster()
                        .map(|cluster| cluster.heavy_flows_on_member(placements, index)),
                })
                .collect(),
            moves: self.moves,
            table: cluster_table.or_else(|| self.scheme.flow_table_use()),
        }
    }

    /// Ends the group. A cluster scheme then releases its flows.
    pub(super) fn retire(&mut self, placements: &mut FlowPlacements) {
        if let Some(cluster) = self.scheme.cluster_mut() {
            cluster.release_flows(placements);
        }
    }

    /// Places a flow before its first packet.
    pub(super) fn announce_flow(
        &mut self,
        now: Picos,
        announced: &QueuePairAnnouncement,
        context: GroupSwitchState<'_>,
    ) -> AnnounceResult {
        let Some(cluster) = self.scheme.cluster_mut() else {
            return AnnounceResult::NotSupported;
        };
        let mut paths = Paths {
            members: &self.members,
            usable: &self.usable,
            buckets: &self.buckets,
            scores: &mut self.scores,
            has_alternates: self.has_alternates,
            loads: context.loads,
            frames: context.frames,
            random: &mut self.random,
            placements: context.placements,
            count_key: flow_count_key(self.key, self.site),
            remote: context.remote,
            site: self.site_index,
        };
        let Some((to, from)) = cluster.announce_flow(now, announced, &mut paths) else {
            return AnnounceResult::Rejected;
        };
        if from != Some(to) {
            self.moves[MoveReason::Announced as usize] += 1;
            context.log.record(|| FlowMove {
                at: now,
                group: self.key,
                flow: announced.key as u32,
                from,
                to,
                reason: MoveReason::Announced,
            });
        }
        AnnounceResult::Placed {
            member: to,
            port: self.members[usize::from(to)].ports.first().copied(),
        }
    }
}

/// Returns the key of the flow counters of a group.
fn flow_count_key(key: GroupKey, site: u16) -> FlowCountKey {
    FlowCountKey {
        lag: matches!(key, GroupKey::Lag(_)),
        site,
    }
}

/// Result of [`Switch::announce_flow`](crate::Switch::announce_flow).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnounceResult {
    /// The flow is placed on a member.
    Placed {
        /// Index of the member in its group.
        member: u16,
        /// The egress port of the member. For a LAG, the first port. `None` if the member has no known port.
        port: Option<PortId>,
    },
    /// The flow has no entry in the flow table. There are two cases. If the table is full, the hash selects
    /// the member for the flow. If no member is usable, the switch drops the packets of the flow.
    Rejected,
    /// The flow is not placed. The route to the destination has no group, or the scheme of the group does not
    /// place queue pairs.
    NotSupported,
}

/// Log of the latest placements and moves of flows.
#[derive(Debug, Default)]
pub(super) struct MoveLog {
    max: usize,
    moves: VecDeque<FlowMove>,
}

impl MoveLog {
    pub(super) fn resize(&mut self, max: usize) {
        self.max = max;
        self.moves.truncate(max);
        self.moves.reserve(max - self.moves.len());
    }

    #[inline]
    fn record(&mut self, entry: impl FnOnce() -> FlowMove) {
        if self.max == 0 {
            return;
        }
        if self.moves.len() == self.max {
            self.moves.pop_front();
        }
        self.moves.push_back(entry());
    }

    pub(super) fn moves(&self) -> impl Iterator<Item = &FlowMove> {
        self.moves.iter()
    }
}
