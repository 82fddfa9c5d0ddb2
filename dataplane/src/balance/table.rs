//! All groups of a switch that have a scheme.

use super::advertise::Advertiser;
use super::cluster::Placements;
use super::group::{Announced, Group, GroupView, Move, MoveLog, Surroundings, Whose};
use super::hash::flow_hash;
use super::load::Loads;
use super::paths::Member;
use super::random::Random;
use super::remote::Remote;
use super::scheme::Scheme;
use super::scheme::cluster::Announcement;
use crate::config::{BalancingConfig, HashFields, SchemeConfig, SwitchConfig};
use crate::egress::FrameTable;
use crate::ids::{GroupId, NextHopId};
use crate::route::{Fib, NextHop, RouteTag, Target, seeded};
use xoff_units::Picos;
use xoff_wire::parse::ParsedHeaders;

/// How a group chooses.
#[derive(Debug)]
pub(crate) enum Chooser {
    /// By the hash of these fields; the router or LAG does it.
    Hash(HashFields),
    /// By a scheme.
    Scheme(Box<Group>),
}

/// The stream that the first place of flows is drawn from, apart from those of groups.
const PLACEMENTS: u64 = 1 << 33;
/// Sets detours apart from other uses of the hash: digits of pi.
const DETOUR: u64 = 0xa409_3822_299f_31d0;

const PLAIN: Chooser = Chooser::Hash(HashFields::FiveTuple);

/// What a chooser says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It goes by this hash, seeded as all are.
    Hash(u32),
    /// It takes this member.
    Member(u16),
    /// No member is usable.
    Nobody,
}

/// A packet that is to be sent on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) now: Picos,
    pub(crate) mac_len: u32,
    pub(crate) tc: u8,
    pub(crate) parsed: &'a ParsedHeaders,
    /// From its layer-3 header on.
    pub(crate) l3: &'a [u8],
}

/// A member as the switch knows it.
#[derive(Clone, Debug)]
pub(crate) struct Lead {
    pub(crate) member: Member,
    pub(crate) live: bool,
    /// Scheme that it brings into its groups.
    pub(crate) scheme: Option<u16>,
}

/// Load balancing of a switch.
#[derive(Debug)]
pub(crate) struct Balance {
    config: BalancingConfig,
    seed: u64,
    hash_seed: u64,
    loads: Loads,
    log: MoveLog,
    placements: Placements,
    /// Of each group of the current generation of routes; those beyond are plain.
    next_hops: Vec<Chooser>,
    /// Of each LAG; those beyond are plain.
    lags: Vec<Chooser>,
    /// Some group has a scheme, or loads are told to neighbours.
    measures: bool,
    /// What neighbours have told.
    remote: Remote,
    /// What they are told.
    advertiser: Advertiser,
    /// Groups without a scheme some of whose next hops have no way to the site, in order.
    detours: Vec<Detour>,
}

/// Next hops of a group that is hashed, as far as they have a way: each as often as its weight.
#[derive(Debug)]
struct Detour {
    group: GroupId,
    open: Vec<NextHopId>,
}

/// A group that is to be made, and what was there before.
struct Successor {
    whose: Whose,
    tag: RouteTag,
    members: Vec<Lead>,
    before: Option<(Box<Group>, Vec<Option<u16>>)>,
}

impl Balance {
    pub(crate) fn new(config: &SwitchConfig) -> Balance {
        let mut balance = Balance {
            config: BalancingConfig::default(),
            seed: config.seed,
            hash_seed: 0,
            loads: Loads::new(config),
            log: MoveLog::default(),
            placements: Placements::new(config.ports.len(), Random::new(config.seed, PLACEMENTS).bits()),
            next_hops: Vec::new(),
            lags: Vec::new(),
            measures: false,
            remote: Remote::default(),
            advertiser: Advertiser::default(),
            detours: Vec::new(),
        };
        balance.configure(config);
        balance
    }

    /// Takes a new configuration. Groups whose scheme is still there keep their flows; [`Balance::set_fib`] and
    /// [`Balance::set_lags`] must follow.
    pub(crate) fn configure(&mut self, config: &SwitchConfig) {
        self.loads.configure(config);
        if self.config.schemes != config.balancing.schemes {
            self.keep_schemes(&config.balancing.schemes);
        }
        self.config = config.balancing.clone();
        self.hash_seed = config.routing.hash_seed;
        self.remote
            .configure(config.ports.len(), self.config.advertise.as_ref());
        self.advertiser.configure(config);
        self.log.resize(self.config.moves_kept as usize);
    }

    pub(crate) fn config(&self) -> &BalancingConfig {
        &self.config
    }

    /// Whether departures are to be told.
    #[inline]
    pub(crate) fn measures(&self) -> bool {
        self.measures
    }

    #[inline]
    pub(crate) fn loads_mut(&mut self) -> &mut Loads {
        &mut self.loads
    }

    /// Whether a group of next hops has no chooser: the hash of a flow decides.
    #[inline(always)]
    pub(crate) fn hashes_flows(&self, group: GroupId) -> bool {
        matches!(
            self.next_hops.get(group.index()),
            None | Some(Chooser::Hash(HashFields::FiveTuple))
        )
    }

    /// What the chooser of a group of next hops says of a packet.
    #[inline(never)]
    pub(crate) fn choose_next_hop(&mut self, group: GroupId, asked: &Asked<'_>, frames: &FrameTable) -> Said {
        match self.next_hops.get_mut(group.index()) {
            None | Some(Chooser::Hash(HashFields::FiveTuple)) => Said::Hash(asked.parsed.flow_hash),
            Some(chooser) => {
                let around = Surroundings {
                    loads: &mut self.loads,
                    frames,
                    log: &mut self.log,
                    placements: &mut self.placements,
                    remote: &self.remote,
                };
                chooser.say(asked, self.hash_seed, around)
            }
        }
    }

    /// As [`Balance::choose_next_hop`], of a LAG, by its index.
    #[inline(never)]
    pub(crate) fn choose_lag_member(&mut self, lag: usize, asked: &Asked<'_>, frames: &FrameTable) -> Said {
        match self.lags.get_mut(lag) {
            None | Some(Chooser::Hash(HashFields::FiveTuple)) => Said::Hash(asked.parsed.flow_hash),
            Some(chooser) => {
                let around = Surroundings {
                    loads: &mut self.loads,
                    frames,
                    log: &mut self.log,
                    placements: &mut self.placements,
                    remote: &self.remote,
                };
                // Apart from the choice among next hops, as hashing is.
                chooser.say(asked, !self.hash_seed, around)
            }
        }
    }

    /// Routes have changed from `previous` to `next`. `lead` says what a next hop leads over.
    pub(crate) fn set_fib(
        &mut self,
        previous: &Fib,
        next: &Fib,
        frames: &FrameTable,
        lead: impl Fn(NextHop) -> Lead,
    ) {
        let mut before = core::mem::take(&mut self.next_hops);
        if let Some(site) = own_site(next) {
            self.placements.set_start(u32::from(site));
        }
        self.remote.set_sites(self.advertiser.set_fib(next, &lead));
        if !self.config.schemes.is_empty() {
            for (index, group) in (0..).zip(next.groups()) {
                let members = group.members.iter().map(|&(id, weight)| {
                    let mut lead = lead(next.next_hops()[id.index()]);
                    lead.member.weight = weight;
                    lead
                });
                let successor = Successor {
                    whose: Whose::NextHops(GroupId(index)),
                    tag: group.tag,
                    members: members.collect(),
                    before: group.inherits.and_then(|old| {
                        let old_group = take(&mut before, old.index())?;
                        Some((old_group, renumbered(previous, old, next, GroupId(index))))
                    }),
                };
                let chooser = self.chooser(successor, frames);
                self.next_hops.push(chooser);
            }
        }
        self.retire(before);
        for (index, group) in next.groups().iter().enumerate() {
            let scheme = match self.next_hops.get(index) {
                Some(Chooser::Scheme(at_work)) => {
                    self.config.schemes.get(usize::from(at_work.scheme_index()))
                }
                Some(Chooser::Hash(_)) | None => None,
            };
            self.advertiser
                .informs(group.tag.site, scheme.is_some_and(SchemeConfig::chooses_by_load));
        }
        self.find_detours(next);
        self.look_again();
    }

    /// These are the members of each LAG.
    pub(crate) fn set_lags(&mut self, lags: Vec<Vec<Lead>>, frames: &FrameTable) {
        let mut before = core::mem::take(&mut self.lags);
        for (index, members) in lags.into_iter().enumerate() {
            let scheme = self.config.lags.get(index).copied().flatten();
            let old = take(&mut before, index).map(|old| {
                let place =
                    |member: &Member| members.iter().position(|lead| lead.member.ports == member.ports);
                let renumbered = old
                    .members()
                    .iter()
                    .map(|member| place(member).map(|at| at as u16));
                let renumbered = renumbered.collect();
                (old, renumbered)
            });
            let successor = Successor {
                whose: Whose::Lag(index as u16),
                tag: RouteTag { site: 0, scheme },
                members,
                before: old,
            };
            let chooser = self.chooser(successor, frames);
            self.lags.push(chooser);
        }
        self.retire(before);
        self.look_again();
    }

    /// Links have changed: looks again which members of groups of next hops live.
    pub(crate) fn refresh(&mut self, fib: &Fib, frames: &FrameTable, live: impl Fn(NextHop) -> bool) {
        for (group, chooser) in fib.groups().iter().zip(&mut self.next_hops) {
            if let Chooser::Scheme(at_work) = chooser {
                let alive = |member: u16| live(fib.next_hops()[group.members[usize::from(member)].0.index()]);
                let around = Surroundings {
                    loads: &mut self.loads,
                    frames,
                    log: &mut self.log,
                    placements: &mut self.placements,
                    remote: &self.remote,
                };
                at_work.set_live(alive, around);
            }
        }
        self.advertiser.set_live(live);
        self.find_detours(fib);
    }

    /// Where a flow of a group without a scheme goes, if not where its hash says: that next hop has no way to the site. Other
    /// flows stay.
    #[inline]
    pub(crate) fn detour(&self, group: GroupId, hash: u32, chosen: NextHopId) -> NextHopId {
        match self.detours.is_empty() {
            true => chosen,
            false => self.detour_among(group, hash, chosen),
        }
    }

    #[cold]
    fn detour_among(&self, group: GroupId, hash: u32, chosen: NextHopId) -> NextHopId {
        let Ok(place) = self.detours.binary_search_by_key(&group, |detour| detour.group) else {
            return chosen;
        };
        let open = &self.detours[place].open;
        if open.contains(&chosen) {
            return chosen;
        }
        // Apart from the hash that has led to the member without a way.
        let hash = seeded(hash, self.hash_seed.rotate_left(32) ^ DETOUR);
        open[((u64::from(hash) * open.len() as u64) >> 32) as usize]
    }

    fn find_detours(&mut self, fib: &Fib) {
        self.detours.clear();
        if !self.remote.any_unreachable() {
            return;
        }
        for (index, group) in fib.groups().iter().enumerate() {
            let plain = !matches!(self.next_hops.get(index), Some(Chooser::Scheme(_)));
            let Some(site) = self.remote.site(group.tag.site).filter(|_| plain) else {
                continue;
            };
            let hop = |id: NextHopId| fib.next_hops()[id.index()];
            let reaches =
                |&&(id, _): &&(NextHopId, u16)| self.advertiser.reaches(site, hop(id), &self.remote);
            let reaching: Vec<_> = group.members.iter().filter(reaches).collect();
            if !reaching.is_empty() && reaching.len() < group.members.len() {
                let each = reaching.iter();
                self.detours.push(Detour {
                    group: GroupId(index as u32),
                    open: each
                        .flat_map(|&&(id, weight)| core::iter::repeat_n(id, usize::from(weight)))
                        .collect(),
                });
            }
        }
    }

    /// Looks at all ways that neighbours are told of; whether one has ended or is there again.
    pub(crate) fn look_at_ways(&mut self, now: Picos, frames: &FrameTable) -> bool {
        self.advertiser.look(now, &mut self.loads, frames, &self.remote)
    }

    #[inline]
    pub(crate) fn remote(&self) -> &Remote {
        &self.remote
    }

    pub(crate) fn remote_mut(&mut self) -> &mut Remote {
        &mut self.remote
    }

    #[inline]
    pub(crate) fn advertiser(&self) -> &Advertiser {
        &self.advertiser
    }

    pub(crate) fn advertiser_mut(&mut self) -> &mut Advertiser {
        &mut self.advertiser
    }

    /// Every group with a scheme, as it is now: next hops first.
    pub(crate) fn views(&self, now: Picos, frames: &FrameTable) -> Vec<GroupView<'_>> {
        let mut loads = self.loads.clone();
        let all = self.next_hops.iter().chain(&self.lags);
        let at_work = all.filter_map(|chooser| match chooser {
            Chooser::Scheme(group) => Some(group),
            Chooser::Hash(_) => None,
        });
        at_work
            .map(|group| group.view(now, &mut loads, frames, &self.placements))
            .collect()
    }

    /// The latest moves, oldest first.
    pub(crate) fn moves(&self) -> impl Iterator<Item = &Move> {
        self.log.moves()
    }

    /// Gives a flow its place in a group of next hops before it sends.
    pub(crate) fn announce(
        &mut self,
        group: GroupId,
        now: Picos,
        announced: &Announcement,
        frames: &FrameTable,
    ) -> Announced {
        match self.next_hops.get_mut(group.index()) {
            Some(Chooser::Scheme(group)) => {
                let around = Surroundings {
                    loads: &mut self.loads,
                    frames,
                    log: &mut self.log,
                    placements: &mut self.placements,
                    remote: &self.remote,
                };
                group.announce(now, announced, around)
            }
            _ => Announced::NotPlaced,
        }
    }

    /// Forgets a flow that was announced, or learnt; whether it was known.
    pub(crate) fn withdraw(&mut self, key: u64) -> bool {
        let found = self.placements.find(key);
        if let Some(place) = found {
            self.placements.remove(place);
        }
        found.is_some()
    }

    /// Groups follow their scheme to its new number; those whose scheme is gone end.
    fn keep_schemes(&mut self, next: &[SchemeConfig]) {
        let mut ended = Vec::new();
        for chooser in self.next_hops.iter_mut().chain(&mut self.lags) {
            if let Chooser::Scheme(group) = chooser {
                let scheme = self.config.schemes.get(usize::from(group.scheme_index()));
                let number = next.iter().position(|kept| Some(kept) == scheme);
                if let Some(number) = number {
                    group.renumber_scheme(number as u16);
                    continue;
                }
            }
            ended.push(core::mem::replace(chooser, PLAIN));
        }
        self.retire(ended);
    }

    /// These groups have no successor.
    fn retire(&mut self, ended: Vec<Chooser>) {
        for chooser in ended {
            if let Chooser::Scheme(mut group) = chooser {
                group.retire(&mut self.placements);
            }
        }
    }

    fn look_again(&mut self) {
        let mut all = self.next_hops.iter().chain(&self.lags);
        self.measures =
            self.advertiser.measures() || all.any(|chooser| matches!(chooser, Chooser::Scheme(_)));
    }

    /// The chooser of a group, with what it knew of flows if it had the same scheme before.
    fn chooser(&mut self, successor: Successor, frames: &FrameTable) -> Chooser {
        let Successor {
            whose,
            tag,
            mut members,
            before,
        } = successor;
        let index = self.scheme_of(tag, &mut members);
        let scheme = index.and_then(|index| Some((index, self.config.schemes.get(usize::from(index))?)));
        let Some((index, config)) = scheme else {
            if let Some((mut ended, _)) = before {
                ended.retire(&mut self.placements);
            }
            return PLAIN;
        };
        let (mut group, renumbered) = match before {
            Some((group, renumbered)) if group.scheme_index() == index => (group, renumbered),
            other => {
                if let Some((mut ended, _)) = other {
                    ended.retire(&mut self.placements);
                }
                let Some(scheme) = Scheme::new(config) else {
                    return Chooser::Hash(config.hash);
                };
                let stream = match whose {
                    Whose::NextHops(group) => u64::from(group.0),
                    Whose::Lag(lag) => 1 << 32 | u64::from(lag),
                };
                let random = Random::new(self.seed ^ self.hash_seed, stream);
                (
                    Box::new(Group::new(index, config.hash, scheme, random)),
                    Vec::new(),
                )
            }
        };
        let around = Surroundings {
            loads: &mut self.loads,
            frames,
            log: &mut self.log,
            placements: &mut self.placements,
            remote: &self.remote,
        };
        group.rename(whose, tag.site, self.remote.site(tag.site));
        group.set_members(members, &renumbered, around);
        Chooser::Scheme(group)
    }

    /// The scheme of a group: that of its routes, or of its members, or the switch's. Where it comes from members, those that have
    /// none carry no traffic.
    fn scheme_of(&self, tag: RouteTag, members: &mut [Lead]) -> Option<u16> {
        if tag.scheme.is_some() {
            return tag.scheme;
        }
        let Some(scheme) = members.iter().find_map(|lead| lead.scheme) else {
            return self.config.default_scheme;
        };
        for lead in members {
            lead.member.eligible = lead.scheme.is_some();
        }
        Some(scheme)
    }
}

impl Chooser {
    #[inline(always)]
    fn say(&mut self, asked: &Asked<'_>, seed: u64, mut around: Surroundings<'_>) -> Said {
        match self {
            Chooser::Hash(fields) => Said::Hash(flow_hash(*fields, asked.parsed, asked.l3)),
            Chooser::Scheme(group) => group
                .choose(asked, seed, &mut around)
                .map_or(Said::Nobody, Said::Member),
        }
    }
}

/// The site of the switch itself: that of its own networks.
fn own_site(fib: &Fib) -> Option<u16> {
    let own = |target: &Target| matches!(target, Target::Local | Target::Connected(_));
    let sites = fib
        .routes()
        .filter(|(route, _)| own(&route.target))
        .map(|(route, _)| route.tag.site);
    sites.filter(|site| *site > 0).min()
}

/// The group at a place, if it has a scheme.
fn take(choosers: &mut [Chooser], index: usize) -> Option<Box<Group>> {
    match core::mem::replace(choosers.get_mut(index)?, PLAIN) {
        Chooser::Scheme(group) => Some(group),
        Chooser::Hash(_) => None,
    }
}

/// Where the members of a group of a generation are in a group of the next.
fn renumbered(previous: &Fib, old: GroupId, next: &Fib, new: GroupId) -> Vec<Option<u16>> {
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
