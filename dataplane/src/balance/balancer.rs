//! The load balancer of a switch: all groups and their schemes.

use super::advertise::Advertiser;
use super::cluster::FlowPlacements;
use super::config::{BalancerSetup, BalancingConfig, HashFields, SchemeConfig};
use super::group::{
    AnnounceResult, BalancingGroup, FlowMove, GroupKey, GroupSwitchState, GroupView, MoveLog,
};
use super::hash::flow_hash;
use super::hash::seeded_hash;
use super::load::PortLoads;
use super::member::Member;
use super::random::RandomStream;
use super::remote::RemotePaths;
use super::scheme::Scheme;
use super::scheme::cluster::QueuePairAnnouncement;
use super::selection_input::{LookupContext, MemberState};
use crate::egress::FrameTable;
use crate::fib::{Fib, NextHop, RouteTag, RouteTarget};
use crate::ids::{GroupId, NextHopId};
use xoff_units::Picos;

/// The way in which a group selects a member.
#[derive(Debug)]
pub(crate) enum MemberSelector {
    /// The router or the LAG selects the member by a hash of these fields.
    Hash(HashFields),
    /// A scheme selects the member.
    Scheme(Box<BalancingGroup>),
}

/// Number of a random stream. It selects the first start member of a switch whose own networks have no site
/// number. The random streams of groups have smaller numbers.
const PLACEMENT_STREAM: u64 = 1 << 33;
/// This constant is mixed into the flow hash when a flow takes a detour. The choice of the detour is then
/// independent of the choice by the flow hash itself. The value consists of digits of pi.
const DETOUR_HASH_SEED: u64 = 0xa409_3822_299f_31d0;

const FIVE_TUPLE_HASH: MemberSelector = MemberSelector::Hash(HashFields::FiveTuple);

/// The decision of a group about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathDecision {
    /// The member is selected by this hash and the hash seed of the switch.
    Hash(u32),
    /// The packet takes the member with this index.
    Member(u16),
    /// No member is usable.
    NoMember,
}

/// Load balancing of a switch.
#[derive(Debug)]
#[repr(C)] // the fields that each frame uses come first
pub(crate) struct LoadBalancer {
    /// One selector for each next-hop group of the current routes. A group without an entry in this list uses
    /// five-tuple hashing.
    next_hops: Vec<MemberSelector>,
    /// Groups with static hashing in which some next hops have no path to the destination leaf (site). Sorted
    /// by group number.
    detours: Vec<DetourGroup>,
    /// True if a group has a scheme, or if the switch advertises loads to its neighbours.
    measures_load: bool,
    config: BalancingConfig,
    seed: u64,
    hash_seed: u64,
    loads: PortLoads,
    log: MoveLog,
    placements: FlowPlacements,
    /// One selector for each LAG. A LAG without an entry in this list uses five-tuple hashing.
    lags: Vec<MemberSelector>,
    /// Reachability and loads that neighbours have advertised.
    remote: RemotePaths,
    /// Reachability and loads that this switch advertises.
    advertiser: Advertiser,
}

/// The next hops of a group with static hashing that still have a path to the site (the destination leaf). A
/// next hop of weight 3 is listed three times.
#[derive(Debug)]
struct DetourGroup {
    group: GroupId,
    reachable: Vec<NextHopId>,
}

/// A new group, and the old group that it replaces. Groups are replaced when the configuration or the
/// routes change.
struct GroupSuccessor {
    key: GroupKey,
    tag: RouteTag,
    members: Vec<MemberState>,
    before: Option<(Box<BalancingGroup>, Vec<Option<u16>>)>,
}

impl LoadBalancer {
    /// Creates the load balancer of a switch without routes and LAGs.
    pub(crate) fn new(setup: &BalancerSetup<'_>) -> LoadBalancer {
        let mut balancer = LoadBalancer {
            config: BalancingConfig::default(),
            seed: setup.seed,
            hash_seed: 0,
            loads: PortLoads::new(setup),
            log: MoveLog::default(),
            placements: FlowPlacements::new(
                setup.links.len(),
                RandomStream::new(setup.seed, PLACEMENT_STREAM).next_u32(),
            ),
            next_hops: Vec::new(),
            lags: Vec::new(),
            measures_load: false,
            remote: RemotePaths::default(),
            advertiser: Advertiser::default(),
            detours: Vec::new(),
        };
        balancer.configure(setup);
        balancer
    }

    /// Applies a new configuration. Groups whose scheme still exists keep their flows. The caller must then
    /// call [`LoadBalancer::set_fib`] and [`LoadBalancer::set_lags`].
    pub(crate) fn configure(&mut self, setup: &BalancerSetup<'_>) {
        self.loads.configure(setup);
        if self.config.schemes != setup.balancing.schemes {
            self.renumber_schemes(&setup.balancing.schemes);
        }
        self.config = setup.balancing.clone();
        self.hash_seed = setup.hash_seed;
        self.remote
            .configure(setup.links.len(), self.config.advertise.as_ref());
        self.advertiser.configure(setup);
        self.log.resize(self.config.moves_kept as usize);
    }

    pub(crate) fn config(&self) -> &BalancingConfig {
        &self.config
    }

    /// Returns true if departures must be reported to [`PortLoads`].
    #[inline]
    pub(crate) fn measures_load(&self) -> bool {
        self.measures_load
    }

    #[inline]
    pub(crate) fn loads_mut(&mut self) -> &mut PortLoads {
        &mut self.loads
    }

    /// Returns true if the five-tuple hash selects the members of a next-hop group.
    #[inline(always)]
    pub(crate) fn uses_five_tuple_hash(&self, group: GroupId) -> bool {
        matches!(
            self.next_hops.get(group.index()),
            None | Some(MemberSelector::Hash(HashFields::FiveTuple))
        )
    }

    /// Selects the member of a next-hop group for a packet.
    #[inline(never)]
    pub(crate) fn choose_next_hop(
        &mut self,
        group: GroupId,
        lookup: &LookupContext<'_>,
        frames: &FrameTable,
    ) -> PathDecision {
        match self.next_hops.get_mut(group.index()) {
            None | Some(MemberSelector::Hash(HashFields::FiveTuple)) => {
                PathDecision::Hash(lookup.parsed.flow_hash)
            }
            Some(selector) => {
                let context = GroupSwitchState {
                    loads: &mut self.loads,
                    frames,
                    log: &mut self.log,
                    placements: &mut self.placements,
                    remote: &self.remote,
                };
                selector.decide(lookup, self.hash_seed, context)
            }
        }
    }

    /// Selects the member of a LAG for a packet. `lag` is the index of the LAG in the configuration.
    #[inline(never)]
    pub(crate) fn choose_lag_member(
        &mut self,
        lag: usize,
        lookup: &LookupContext<'_>,
        frames: &FrameTable,
    ) -> PathDecision {
        match self.lags.get_mut(lag) {
            None | Some(MemberSelector::Hash(HashFields::FiveTuple)) => {
                PathDecision::Hash(lookup.parsed.flow_hash)
            }
            Some(selector) => {
                let context = GroupSwitchState {
                    loads: &mut self.loads,
                    frames,
                    log: &mut self.log,
                    placements: &mut self.placements,
                    remote: &self.remote,
                };
                // Next hops use another seed, so the selections of next hop and LAG member are independent.
                selector.decide(lookup, !self.hash_seed, context)
            }
        }
    }

    /// Replaces the routes `previous` by `next`. `state_of` returns the member state of a next hop.
    pub(crate) fn set_fib(
        &mut self,
        previous: &Fib,
        next: &Fib,
        frames: &FrameTable,
        state_of: impl Fn(NextHop) -> MemberState,
    ) {
        let mut before = core::mem::take(&mut self.next_hops);
        if let Some(site) = lowest_connected_site(next) {
            self.placements.set_start_member(u32::from(site));
        }
        self.remote.set_sites(self.advertiser.set_fib(next, &state_of));
        if !self.config.schemes.is_empty() {
            for (index, group) in (0..).zip(next.groups()) {
                let members = group.members.iter().map(|&(id, weight)| {
                    let mut member_state = state_of(next.next_hops()[id.index()]);
                    member_state.member.weight = weight;
                    member_state
                });
                let successor = GroupSuccessor {
                    key: GroupKey::NextHops(GroupId(index)),
                    tag: group.tag,
                    members: members.collect(),
                    before: group.predecessor.and_then(|old| {
                        let old_group = take_group(&mut before, old.index())?;
                        Some((old_group, member_renumbering(previous, old, next, GroupId(index))))
                    }),
                };
                let selector = self.build_selector(successor, frames);
                self.next_hops.push(selector);
            }
        }
        self.retire_groups(before);
        for (index, group) in next.groups().iter().enumerate() {
            let scheme = match self.next_hops.get(index) {
                Some(MemberSelector::Scheme(balancing_group)) => self
                    .config
                    .schemes
                    .get(usize::from(balancing_group.scheme_index())),
                Some(MemberSelector::Hash(_)) | None => None,
            };
            self.advertiser
                .record_load_awareness(group.tag.site, scheme.is_some_and(SchemeConfig::chooses_by_load));
        }
        self.update_detours(next);
        self.update_measures_load();
    }

    /// Sets the members of each LAG, in the order of the configuration.
    pub(crate) fn set_lags(&mut self, lags: Vec<Vec<MemberState>>, frames: &FrameTable) {
        let mut before = core::mem::take(&mut self.lags);
        for (index, members) in lags.into_iter().enumerate() {
            let scheme = self.config.lags.get(index).copied().flatten();
            let old = take_group(&mut before, index).map(|old| {
                let place = |member: &Member| {
                    members
                        .iter()
                        .position(|member_state| member_state.member.ports == member.ports)
                };
                let renumbered = old
                    .members()
                    .iter()
                    .map(|member| place(member).map(|at| at as u16));
                let renumbered = renumbered.collect();
                (old, renumbered)
            });
            let successor = GroupSuccessor {
                key: GroupKey::Lag(index as u16),
                tag: RouteTag { site: 0, scheme },
                members,
                before: old,
            };
            let selector = self.build_selector(successor, frames);
            self.lags.push(selector);
        }
        self.retire_groups(before);
        self.update_measures_load();
    }

    /// Updates the live members of next-hop groups after a link change.
    pub(crate) fn update_live_members(
        &mut self,
        fib: &Fib,
        frames: &FrameTable,
        live: impl Fn(NextHop) -> bool,
    ) {
        for (group, selector) in fib.groups().iter().zip(&mut self.next_hops) {
            if let MemberSelector::Scheme(balancing_group) = selector {
                let alive = |member: u16| live(fib.next_hops()[group.members[usize::from(member)].0.index()]);
                let context = GroupSwitchState {
                    loads: &mut self.loads,
                    frames,
                    log: &mut self.log,
                    placements: &mut self.placements,
                    remote: &self.remote,
                };
                balancing_group.update_live_members(alive, context);
            }
        }
        self.advertiser.update_live_paths(live);
        self.update_detours(fib);
    }

    /// Returns the next hop of a flow in a group with static hashing. If the next hop `chosen` has a path to
    /// the site (the destination leaf), the result is `chosen`. Otherwise, the result is a next hop of the
    /// group that still has a path.
    #[inline]
    pub(crate) fn detour_next_hop(&self, group: GroupId, hash: u32, chosen: NextHopId) -> NextHopId {
        match self.detours.is_empty() {
            true => chosen,
            false => self.detour_in_group(group, hash, chosen),
        }
    }

    #[cold]
    fn detour_in_group(&self, group: GroupId, hash: u32, chosen: NextHopId) -> NextHopId {
        let Ok(place) = self.detours.binary_search_by_key(&group, |detour| detour.group) else {
            return chosen;
        };
        let reachable = &self.detours[place].reachable;
        if reachable.contains(&chosen) {
            return chosen;
        }
        // Another seed makes this hash independent of the hash that selected the unreachable member.
        let hash = seeded_hash(hash, self.hash_seed.rotate_left(32) ^ DETOUR_HASH_SEED);
        reachable[((u64::from(hash) * reachable.len() as u64) >> 32) as usize]
    }

    fn update_detours(&mut self, fib: &Fib) {
        self.detours.clear();
        if !self.remote.any_unreachable() {
            return;
        }
        for (index, group) in fib.groups().iter().enumerate() {
            let plain = !matches!(self.next_hops.get(index), Some(MemberSelector::Scheme(_)));
            let Some(site) = self.remote.site_index(group.tag.site).filter(|_| plain) else {
                continue;
            };
            let hop = |id: NextHopId| fib.next_hops()[id.index()];
            let reaches =
                |&&(id, _): &&(NextHopId, u16)| self.advertiser.reaches(site, hop(id), &self.remote);
            let reaching: Vec<_> = group.members.iter().filter(reaches).collect();
            if !reaching.is_empty() && reaching.len() < group.members.len() {
                let each = reaching.iter();
                self.detours.push(DetourGroup {
                    group: GroupId(index as u32),
                    reachable: each
                        .flat_map(|&&(id, weight)| core::iter::repeat_n(id, usize::from(weight)))
                        .collect(),
                });
            }
        }
    }

    /// Updates the load and the reachability of all advertised sites (destination leaves). Returns true if a
    /// site became reachable or unreachable.
    pub(crate) fn update_advertised_sites(&mut self, now: Picos, frames: &FrameTable) -> bool {
        self.advertiser
            .update_sites(now, &mut self.loads, frames, &self.remote)
    }

    #[inline]
    pub(crate) fn remote(&self) -> &RemotePaths {
        &self.remote
    }

    pub(crate) fn remote_mut(&mut self) -> &mut RemotePaths {
        &mut self.remote
    }

    #[inline]
    pub(crate) fn advertiser(&self) -> &Advertiser {
        &self.advertiser
    }

    pub(crate) fn advertiser_mut(&mut self) -> &mut Advertiser {
        &mut self.advertiser
    }

    /// Returns snapshots of all groups with a scheme. Next-hop groups precede LAGs.
    pub(crate) fn group_views(&self, now: Picos, frames: &FrameTable) -> Vec<GroupView<'_>> {
        let mut loads = self.loads.clone();
        let all = self.next_hops.iter().chain(&self.lags);
        let balancing_group = all.filter_map(|selector| match selector {
            MemberSelector::Scheme(group) => Some(group),
            MemberSelector::Hash(_) => None,
        });
        balancing_group
            .map(|group| group.view(now, &mut loads, frames, &self.placements))
            .collect()
    }

    /// Returns the latest flow moves, oldest first.
    pub(crate) fn moves(&self) -> impl Iterator<Item = &FlowMove> {
        self.log.moves()
    }

    /// Places a flow in a next-hop group before its first packet.
    pub(crate) fn announce_flow(
        &mut self,
        group: GroupId,
        now: Picos,
        announced: &QueuePairAnnouncement,
        frames: &FrameTable,
    ) -> AnnounceResult {
        match self.next_hops.get_mut(group.index()) {
            Some(MemberSelector::Scheme(group)) => {
                let context = GroupSwitchState {
                    loads: &mut self.loads,
                    frames,
                    log: &mut self.log,
                    placements: &mut self.placements,
                    remote: &self.remote,
                };
                group.announce_flow(now, announced, context)
            }
            _ => AnnounceResult::NotSupported,
        }
    }

    /// Removes an announced or learnt flow. Returns true if the flow was known.
    pub(crate) fn withdraw_flow(&mut self, key: u64) -> bool {
        let found = self.placements.find_entry(key);
        if let Some(place) = found {
            self.placements.remove_flow(place);
        }
        found.is_some()
    }

    /// Updates the index of the scheme in each group after the list of schemes has changed. Groups whose
    /// scheme was removed are deleted.
    fn renumber_schemes(&mut self, next: &[SchemeConfig]) {
        let mut ended = Vec::new();
        for selector in self.next_hops.iter_mut().chain(&mut self.lags) {
            if let MemberSelector::Scheme(group) = selector {
                let scheme = self.config.schemes.get(usize::from(group.scheme_index()));
                let number = next.iter().position(|kept| Some(kept) == scheme);
                if let Some(number) = number {
                    group.renumber_scheme(number as u16);
                    continue;
                }
            }
            ended.push(core::mem::replace(selector, FIVE_TUPLE_HASH));
        }
        self.retire_groups(ended);
    }

    /// Ends groups that have no successor.
    fn retire_groups(&mut self, ended: Vec<MemberSelector>) {
        for selector in ended {
            if let MemberSelector::Scheme(mut group) = selector {
                group.retire(&mut self.placements);
            }
        }
    }

    fn update_measures_load(&mut self) {
        let mut all = self.next_hops.iter().chain(&self.lags);
        self.measures_load = self.advertiser.measures_load()
            || all.any(|selector| matches!(selector, MemberSelector::Scheme(_)));
    }

    /// Builds the selector of a group. The new selector keeps the flows of its predecessor if the old and the
    /// new selector use the same scheme.
    fn build_selector(&mut self, successor: GroupSuccessor, frames: &FrameTable) -> MemberSelector {
        let GroupSuccessor {
            key,
            tag,
            mut members,
            before,
        } = successor;
        let index = self.select_scheme(tag, &mut members);
        let scheme = index.and_then(|index| Some((index, self.config.schemes.get(usize::from(index))?)));
        let Some((index, config)) = scheme else {
            if let Some((mut ended, _)) = before {
                ended.retire(&mut self.placements);
            }
            return FIVE_TUPLE_HASH;
        };
        let (mut group, renumbered) = match before {
            Some((group, renumbered)) if group.scheme_index() == index => (group, renumbered),
            other => {
                if let Some((mut ended, _)) = other {
                    ended.retire(&mut self.placements);
                }
                let Some(scheme) = Scheme::new(config) else {
                    return MemberSelector::Hash(config.hash);
                };
                let stream = match key {
                    GroupKey::NextHops(group) => u64::from(group.0),
                    GroupKey::Lag(lag) => 1 << 32 | u64::from(lag),
                };
                let random = RandomStream::new(self.seed ^ self.hash_seed, stream);
                (
                    Box::new(BalancingGroup::new(index, config.hash, scheme, random)),
                    Vec::new(),
                )
            }
        };
        let context = GroupSwitchState {
            loads: &mut self.loads,
            frames,
            log: &mut self.log,
            placements: &mut self.placements,
            remote: &self.remote,
        };
        group.set_key(key, tag.site, self.remote.site_index(tag.site));
        group.set_members(members, &renumbered, context);
        MemberSelector::Scheme(group)
    }

    /// Returns the index of the scheme for a group, or `None` for static hashing. The scheme of the route has
    /// precedence over the scheme of the members. The default scheme of the switch comes last. If the scheme
    /// comes from the members, members without a scheme carry no traffic.
    fn select_scheme(&self, tag: RouteTag, members: &mut [MemberState]) -> Option<u16> {
        if tag.scheme.is_some() {
            return tag.scheme;
        }
        let Some(scheme) = members.iter().find_map(|member_state| member_state.scheme) else {
            return self.config.default_scheme;
        };
        for member_state in members {
            member_state.member.eligible = member_state.scheme.is_some();
        }
        Some(scheme)
    }
}

impl MemberSelector {
    #[inline(always)]
    fn decide(
        &mut self,
        lookup: &LookupContext<'_>,
        seed: u64,
        mut context: GroupSwitchState<'_>,
    ) -> PathDecision {
        match self {
            MemberSelector::Hash(fields) => PathDecision::Hash(flow_hash(*fields, lookup.parsed, lookup.l3)),
            MemberSelector::Scheme(group) => group
                .choose_member(lookup, seed, &mut context)
                .map_or(PathDecision::NoMember, PathDecision::Member),
        }
    }
}

/// Returns the lowest site number among the networks that are connected to the switch. Returns `None` if
/// these networks have no site number.
fn lowest_connected_site(fib: &Fib) -> Option<u16> {
    let own = |target: &RouteTarget| matches!(target, RouteTarget::Local | RouteTarget::Connected(_));
    let sites = fib
        .routes()
        .filter(|(route, _)| own(&route.target))
        .map(|(route, _)| route.tag.site);
    sites.filter(|site| *site > 0).min()
}

/// Removes the group at this index of the list and returns it. Returns `None` if the group has no scheme.
fn take_group(selectors: &mut [MemberSelector], index: usize) -> Option<Box<BalancingGroup>> {
    match core::mem::replace(selectors.get_mut(index)?, FIVE_TUPLE_HASH) {
        MemberSelector::Scheme(group) => Some(group),
        MemberSelector::Hash(_) => None,
    }
}

/// Returns for each member of the old group `old` its index in the new group `new`. The entry is `None` if
/// the new group does not contain the member.
fn member_renumbering(previous: &Fib, old: GroupId, next: &Fib, new: GroupId) -> Vec<Option<u16>> {
    let members = &next.groups()[new.index()].members;
    let place = |hop: NextHop| {
        members
            .iter()
            .position(|&(id, _)| next.next_hops()[id.index()] == hop)
    };
    let before = previous.groups()[old.index()].members.iter();
    before
        .map(|&(id, _)| place(previous.next_hops()[id.index()]).map(|at| at as u16))
        .collect()
}
