//! A group at work: its members, its scheme, what it has done.

use std::collections::VecDeque;

use super::board::Board;
use super::cluster::{Placements, RowKey};
use super::hash::flow_hash;
use super::load::{Loads, Quality};
use super::packet::{Packet, queue_pair};
use super::paths::{Member, Paths};
use super::random::Random;
use super::remote::{Remote, SiteIndex};
use super::scheme::Scheme;
use super::scheme::cluster::Announcement;
use super::table::{Asked, Lead};
use super::{PathChoice, TableUse};
use crate::config::HashFields;
use crate::egress::FrameTable;
use crate::ids::{GroupId, PortId};
use crate::route::seeded;
use xoff_units::Picos;

/// Why a flow is on its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MoveReason {
    /// It is new, or has been forgotten.
    New,
    /// It had been silent, and chose again.
    Idle,
    /// Its path had become so much worse than another that it moved while it was sending.
    Quality,
    /// Its member died.
    LinkDown,
    /// A member came back, or came to the group, and took its share.
    LinkUp,
    /// Its place was announced before it sent.
    Announced,
    /// It turned out to carry data, and is counted with those that do.
    Promoted,
}

impl MoveReason {
    /// All of them, in the order of their numbers.
    pub const ALL: [MoveReason; 7] = [
        MoveReason::New,
        MoveReason::Idle,
        MoveReason::Quality,
        MoveReason::LinkDown,
        MoveReason::LinkUp,
        MoveReason::Announced,
        MoveReason::Promoted,
    ];

    /// Its name in reports and tables.
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

/// Whose members are chosen among.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Whose {
    /// A group of next hops of the current generation of routes.
    NextHops(GroupId),
    /// A LAG, by its index in the configuration.
    Lag(u16),
}

/// A flow that was placed or moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// When.
    pub at: Picos,
    /// In which group, as it was called then.
    pub group: Whose,
    /// The flow's hash.
    pub flow: u32,
    /// The member it was on.
    pub from: Option<u16>,
    /// The member it is on.
    pub to: u16,
    /// Why.
    pub reason: MoveReason,
}

/// A group with a scheme, as `show` sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupView<'a> {
    /// Which.
    pub group: Whose,
    /// Its scheme: an index into [`crate::config::BalancingConfig::schemes`].
    pub scheme: u16,
    /// The site its routes lead to; 0: nothing was said.
    pub site: u16,
    /// Its members.
    pub members: Vec<MemberView<'a>>,
    /// Flows placed or moved, by [`MoveReason`].
    pub moves: [u64; MoveReason::ALL.len()],
    /// Its table of flows, if it has one.
    pub table: Option<TableUse>,
}

/// A member, as `show` sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberView<'a> {
    /// What it is.
    pub member: &'a Member,
    /// It carries traffic.
    pub usable: bool,
    /// Packets that took it since the group began.
    pub packets: u64,
    /// Their bytes (`mac_len` where they came in).
    pub bytes: u64,
    /// How good its link is now.
    pub quality: Quality,
    /// Flows with data that are placed on it; `None`: the scheme places none.
    pub flows: Option<u32>,
}

/// A group at work.
#[derive(Debug)]
pub(crate) struct Group {
    whose: Whose,
    scheme_index: u16,
    site: u16,
    /// Its place among the sites that neighbours may speak of.
    site_index: Option<SiteIndex>,
    fields: HashFields,
    members: Vec<Member>,
    live: Vec<bool>,
    usable: Vec<u16>,
    /// Usable members, each as often as its weight in lowest terms.
    buckets: Vec<u16>,
    board: Board,
    /// Some usable member is an alternate one.
    has_alternates: bool,
    scheme: Scheme,
    random: Random,
    taken: Vec<(u64, u64)>,
    moves: [u64; MoveReason::ALL.len()],
}

/// What a group needs of the switch to decide.
pub(super) struct Surroundings<'a> {
    pub(super) loads: &'a mut Loads,
    pub(super) frames: &'a FrameTable,
    pub(super) log: &'a mut MoveLog,
    pub(super) placements: &'a mut Placements,
    pub(super) remote: &'a Remote,
}

/// The hash of a packet's flow, for those schemes that know flows by it.
#[inline(always)]
fn hash_of(fields: HashFields, asked: &Asked<'_>, seed: u64) -> u32 {
    seeded(flow_hash(fields, asked.parsed, asked.l3), seed)
}

impl Group {
    /// Without members.
    pub(super) fn new(scheme_index: u16, fields: HashFields, scheme: Scheme, random: Random) -> Group {
        Group {
            whose: Whose::Lag(0),
            scheme_index,
            site: 0,
            site_index: None,
            fields,
            members: Vec::new(),
            live: Vec::new(),
            usable: Vec::new(),
            buckets: Vec::new(),
            board: Board::default(),
            has_alternates: false,
            scheme,
            random,
            taken: Vec::new(),
            moves: [0; MoveReason::ALL.len()],
        }
    }

    /// It stands for this group of this site from now on.
    pub(super) fn rename(&mut self, whose: Whose, site: u16, site_index: Option<SiteIndex>) {
        (self.whose, self.site, self.site_index) = (whose, site, site_index);
    }

    /// Its scheme has another number.
    pub(super) fn renumber_scheme(&mut self, scheme_index: u16) {
        self.scheme_index = scheme_index;
    }

    pub(super) fn scheme_index(&self) -> u16 {
        self.scheme_index
    }

    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    /// The member that a packet takes; `None`: none is usable. `seed` goes into the hash of its flow.
    #[inline(always)]
    pub(super) fn choose(
        &mut self,
        asked: &Asked<'_>,
        seed: u64,
        around: &mut Surroundings<'_>,
    ) -> Option<u16> {
        if self.usable.is_empty() {
            return None;
        }
        let member = match self.choose_at_once(asked, seed, around) {
            Some(member) => member,
            None => {
                let packet = Packet {
                    now: asked.now,
                    hash: hash_of(self.fields, asked, seed),
                    mac_len: asked.mac_len,
                    tc: asked.tc,
                    site: self.site,
                    payload: asked.parsed.payload,
                    l3: asked.l3,
                };
                self.choose_among(&packet, around)
            }
        };
        let taken = &mut self.taken[usize::from(member)];
        taken.0 += 1;
        taken.1 += u64::from(asked.mac_len);
        Some(member)
    }

    /// What schemes say of nearly all packets, if that needs little of what [`Paths`] has.
    #[inline(always)]
    fn choose_at_once(&mut self, asked: &Asked<'_>, seed: u64, around: &mut Surroundings<'_>) -> Option<u16> {
        let now = asked.now;
        match &mut self.scheme {
            Scheme::Cluster(cluster) => {
                let pair = queue_pair(asked.parsed.payload, asked.l3)?;
                return cluster.known(now, &pair, around.placements);
            }
            Scheme::Fixed(fixed) => return fixed.known(now, hash_of(self.fields, asked, seed)),
            _ => {}
        }
        if !self.board.is_plain() || self.has_alternates || around.loads.holds_anywhere(asked.tc) {
            return None;
        }
        let (board, random) = (&mut self.board, &mut self.random);
        match &mut self.scheme {
            Scheme::PerPacket(scheme) if scheme.compares() && now < board.fresh_until => {
                Some(board.least_of_packet(now, around.loads, around.frames, random))
            }
            Scheme::Drill(drill) if drill.is_simple() && self.usable.len() == self.members.len() => {
                drill.choose_of_three(now, board, around.loads, around.frames, random)
            }
            _ => None,
        }
    }

    /// What the scheme says.
    #[inline(never)]
    fn choose_among(&mut self, packet: &Packet<'_>, around: &mut Surroundings<'_>) -> u16 {
        let mut paths = Paths {
            members: &self.members,
            usable: &self.usable,
            buckets: &self.buckets,
            board: &mut self.board,
            has_alternates: self.has_alternates,
            loads: around.loads,
            frames: around.frames,
            random: &mut self.random,
            placements: around.placements,
            row: row_of(self.whose, self.site),
            remote: around.remote,
            site: self.site_index,
        };
        let choice = self.scheme.choose(packet, &mut paths);
        let member = match paths.is_usable(choice.member) {
            true => choice.member,
            false => self.usable[0],
        };
        if let Some(placed) = choice.placed {
            self.moves[placed.reason as usize] += 1;
            around.log.enter(|| Move {
                at: packet.now,
                group: self.whose,
                flow: packet.hash,
                from: placed.from,
                to: member,
                reason: placed.reason,
            });
        }
        member
    }

    /// The group has these members now: `renumbered` has the place of each of those before.
    pub(super) fn set_members(
        &mut self,
        leads: Vec<Lead>,
        renumbered: &[Option<u16>],
        around: Surroundings<'_>,
    ) {
        let live: Vec<_> = leads.iter().map(|lead| lead.live).collect();
        let members: Vec<_> = leads.into_iter().map(|lead| lead.member).collect();
        if members == self.members && live == self.live {
            return;
        }
        self.live = live;
        let mut taken = vec![(0, 0); members.len()];
        for (old, new) in renumbered.iter().enumerate() {
            if let (Some(new), Some(counts)) = (new, self.taken.get(old)) {
                taken[usize::from(*new)] = *counts;
            }
        }
        self.taken = taken;
        self.members = members;
        self.settle(renumbered, around);
    }

    /// These of its members live.
    pub(super) fn set_live(&mut self, live: impl Fn(u16) -> bool, around: Surroundings<'_>) {
        let all = 0..self.members.len() as u16;
        let live: Vec<_> = all.clone().map(live).collect();
        let usable = self.find_usable(&live, around.remote);
        if live != self.live || usable != self.usable {
            self.live = live;
            self.settle(&all.map(Some).collect::<Vec<_>>(), around);
        }
    }

    /// Follows a change of its members.
    fn settle(&mut self, renumbered: &[Option<u16>], around: Surroundings<'_>) {
        self.usable = self.find_usable(&self.live, around.remote);
        self.board.set(&self.members);
        let alternate = |member: &u16| self.members[usize::from(*member)].alternate;
        self.has_alternates = self.usable.iter().any(alternate) && !self.usable.iter().all(alternate);
        self.fill_buckets();
        let mut paths = Paths {
            members: &self.members,
            usable: &self.usable,
            buckets: &self.buckets,
            board: &mut self.board,
            has_alternates: self.has_alternates,
            loads: around.loads,
            frames: around.frames,
            random: &mut self.random,
            placements: around.placements,
            row: row_of(self.whose, self.site),
            remote: around.remote,
            site: self.site_index,
        };
        self.scheme.members_changed(renumbered, &mut paths);
    }

    /// The eligible ones of the `live` members; without those whose neighbour has no way to the site, if others are left. Schemes
    /// that do not compare qualities use alternate members when there is no primary one.
    fn find_usable(&self, live: &[bool], remote: &Remote) -> Vec<u16> {
        let mut usable = self.find_reaching(live, remote);
        let alternate = |member: &u16| self.members[usize::from(*member)].alternate;
        if !self.scheme.compares() && !usable.iter().all(alternate) {
            usable.retain(|member| !alternate(member));
        }
        usable
    }

    fn find_reaching(&self, live: &[bool], remote: &Remote) -> Vec<u16> {
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
        let divisor = self.usable.iter().map(weight).fold(0, crate::route::gcd).max(1);
        let primary = |member: &&u16| !self.has_alternates || !self.members[usize::from(**member)].alternate;
        for member in self.usable.iter().filter(primary) {
            let times = (weight(member) / divisor) as usize;
            self.buckets.extend(std::iter::repeat_n(*member, times));
        }
    }

    /// As `show` sees it.
    pub(super) fn view(
        &self,
        now: Picos,
        loads: &mut Loads,
        frames: &FrameTable,
        placements: &Placements,
    ) -> GroupView<'_> {
        let of_flows = self.scheme.cluster().map(|cluster| cluster.table_use(placements));
        GroupView {
            group: self.whose,
            scheme: self.scheme_index,
            site: self.site,
            members: (0..)
                .zip(self.members.iter().zip(&self.taken))
                .map(|(index, (member, &(packets, bytes)))| MemberView {
                    member,
                    usable: self.usable.contains(&index),
                    packets,
                    bytes,
                    quality: member.quality(now, loads, frames),
                    flows: self
                        .scheme
                        .cluster()
                        .map(|cluster| cluster.flows_on(placements, index)),
                })
                .collect(),
            moves: self.moves,
            table: of_flows.or_else(|| self.scheme.table()),
        }
    }

    /// The group ends.
    pub(super) fn retire(&mut self, placements: &mut Placements) {
        if let Some(cluster) = self.scheme.cluster_mut() {
            cluster.retire(placements);
        }
    }

    /// Places a flow before it sends.
    pub(super) fn announce(
        &mut self,
        now: Picos,
        announced: &Announcement,
        around: Surroundings<'_>,
    ) -> Announced {
        let Some(cluster) = self.scheme.cluster_mut() else {
            return Announced::NotPlaced;
        };
        let mut paths = Paths {
            members: &self.members,
            usable: &self.usable,
            buckets: &self.buckets,
            board: &mut self.board,
            has_alternates: self.has_alternates,
            loads: around.loads,
            frames: around.frames,
            random: &mut self.random,
            placements: around.placements,
            row: row_of(self.whose, self.site),
            remote: around.remote,
            site: self.site_index,
        };
        let Some((to, from)) = cluster.announce(now, announced, &mut paths) else {
            return Announced::NoPlace;
        };
        if from != Some(to) {
            self.moves[MoveReason::Announced as usize] += 1;
            around.log.enter(|| Move {
                at: now,
                group: self.whose,
                flow: announced.key as u32,
                from,
                to,
                reason: MoveReason::Announced,
            });
        }
        Announced::Placed {
            member: to,
            port: self.members[usize::from(to)].ports.first().copied(),
        }
    }
}

/// By what the flows of a group are counted.
fn row_of(whose: Whose, site: u16) -> RowKey {
    RowKey {
        lag: matches!(whose, Whose::Lag(_)),
        site,
    }
}

/// What became of an announced flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announced {
    /// It has its place.
    Placed {
        /// The member of its group.
        member: u16,
        /// The port that leads over, of a LAG the first; `None` if that is not known.
        port: Option<PortId>,
    },
    /// The table of flows is full, or no member is usable: it is hashed, or dropped where nobody can carry it.
    NoPlace,
    /// Its destination is not behind a group, or behind one whose scheme does not place queue pairs.
    NotPlaced,
}

/// The latest moves of flows.
#[derive(Debug, Default)]
pub(super) struct MoveLog {
    max: usize,
    moves: VecDeque<Move>,
}

impl MoveLog {
    pub(super) fn resize(&mut self, max: usize) {
        self.max = max;
        self.moves.truncate(max);
        self.moves.reserve(max - self.moves.len());
    }

    #[inline]
    fn enter(&mut self, entry: impl FnOnce() -> Move) {
        if self.max == 0 {
            return;
        }
        if self.moves.len() == self.max {
            self.moves.pop_front();
        }
        self.moves.push_back(entry());
    }

    pub(super) fn moves(&self) -> impl Iterator<Item = &Move> {
        self.moves.iter()
    }
}
