//! Cluster load balancing in one group: the algorithm is described in `balance/cluster.rs`.

use crate::balance::cluster::{Cargo, GAP, Lane, Placements, Rank, flag};
use crate::balance::{Choice, MoveReason, Packet, PathChoice, Paths, Placed, QueuePair, TableUse};
use crate::ids::PortId;
use xoff_units::Picos;

/// A group whose queue pairs are known and spread evenly. What is no RoCEv2 is hashed: a queue pair is a flow that lasts and is
/// large, which cannot be said of a five-tuple; and so is what finds the table full.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// Its number among the groups of the switch; `None`: it has no members yet.
    group: Option<u32>,
    flows_max: u32,
    idle: Picos,
    /// Silence after which a flow may move.
    gap: Picos,
    /// Of each member that carries traffic.
    lanes: Vec<Option<u32>>,
    /// Of each member.
    capacities: Vec<u64>,
    /// Where the first flow of this site goes.
    start: u16,
    /// Counts how often members came to the group while it had flows.
    since: u32,
    overflow_packets: u64,
}

/// What is to be placed before it sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Announcement {
    pub(crate) key: u64,
    /// It will carry data.
    pub(crate) heavy: bool,
    /// A port of the member that it is to take.
    pub(crate) via: Option<PortId>,
}

impl Cluster {
    pub(super) fn new(flows_max: u32, idle: Picos) -> Cluster {
        Cluster {
            group: None,
            flows_max,
            idle,
            gap: GAP.min(idle),
            lanes: Vec::new(),
            capacities: Vec::new(),
            start: 0,
            since: 0,
            overflow_packets: 0,
        }
    }

    /// The group ends: its flows have no place any more.
    pub(crate) fn retire(&mut self, placements: &mut Placements) {
        for lane in self.lanes.drain(..).flatten() {
            placements.close(lane, None);
        }
    }

    /// How full the table is; flows are those of this group.
    pub(crate) fn table_use(&self, placements: &Placements) -> TableUse {
        TableUse {
            flows: self.group.map_or(0, |group| placements.count_of(group, None).0),
            flows_max: placements.flows_max(),
            overflow_packets: self.overflow_packets,
        }
    }

    /// Heavy flows of a member.
    pub(crate) fn flows_on(&self, placements: &Placements, member: u16) -> u32 {
        self.group
            .map_or(0, |group| placements.count_of(group, Some(member)).1)
    }

    /// The member that the next flow of a kind goes to.
    fn best(&self, heavy: bool, paths: &Paths<'_>) -> Option<Rank> {
        let ranks = paths
            .usable()
            .iter()
            .filter_map(|&member| self.rank(member, heavy, paths));
        ranks.reduce(|best, rank| if rank.is_before(&best) { rank } else { best })
    }

    #[inline]
    fn rank(&self, member: u16, heavy: bool, paths: &Paths<'_>) -> Option<Rank> {
        let lane = self.lanes.get(usize::from(member)).copied().flatten()?;
        let (members, start) = (self.lanes.len() as u16, self.start);
        let turn = if member >= start {
            member - start
        } else {
            member + members - start
        };
        Some(
            paths
                .placements
                .rank(lane, heavy, self.capacities[usize::from(member)], turn),
        )
    }

    fn lane_of(&self, member: u16) -> Option<u32> {
        self.lanes.get(usize::from(member)).copied().flatten()
    }

    /// The member of a flow that is known, and whose packet is the next one of many.
    #[inline]
    pub(crate) fn known(&self, now: Picos, pair: &QueuePair, placements: &mut Placements) -> Option<u16> {
        placements.turn(now);
        let place = placements.find(pair.key)?;
        let (flow, lane) = placements.flow(place);
        let facts = facts(Cargo::of(pair));
        let known = flow.flags & facts == facts && !flow.is(flag::UNSENT);
        let here = lane.live && Some(lane.group) == self.group;
        let next = now.since(flow.seen) < self.gap;
        let member = lane.member.filter(|_| here && known && next)?;
        placements.note(place, now, flow.flags);
        Some(member)
    }

    /// A flow that is not known: gets a place, if there is one left.
    fn learn(
        &mut self,
        packet: &Packet<'_>,
        pair: &QueuePair,
        cargo: Cargo,
        paths: &mut Paths<'_>,
    ) -> Choice {
        let Some((member, lane)) = self
            .best(cargo.is_heavy(), paths)
            .and_then(|rank| Some((rank.member, self.lane_of(rank.member)?)))
        else {
            return Choice::stay(paths.by_hash(packet.hash));
        };
        if !paths.placements.insert(pair.key, lane, packet.now, facts(cargo)) {
            paths.placements.make_room(packet.now);
            self.overflow_packets += 1;
            return Choice::stay(paths.by_hash(packet.hash));
        }
        placed(member, None, MoveReason::New)
    }

    /// A flow whose packet is not the next one of many.
    #[cold]
    fn look_again(
        &mut self,
        packet: &Packet<'_>,
        place: usize,
        cargo: Cargo,
        paths: &mut Paths<'_>,
    ) -> Choice {
        let (flow, lane) = paths.placements.flow(place);
        let lane = *lane;
        let silent = packet.now.since(flow.seen);
        let overtakes = flow.is(overtaken_by(cargo));
        let promoted = cargo.is_heavy() && !flow.is(flag::HEAVY);
        let flags = flow.flags & !flag::UNSENT;
        paths.placements.note(place, packet.now, flags);
        let at = lane
            .member
            .filter(|_| lane.live && Some(lane.group) == self.group);
        let Some(at) = at else {
            return self.replace(packet, place, cargo, (lane, silent), paths);
        };
        let at_rest = silent >= self.gap && paths.queued_bytes(at) == 0;
        let forgotten = silent >= self.idle && !flow.is(flag::ANNOUNCED);
        let may_move = !flow.is(flag::PINNED) && (at_rest || (promoted && !overtakes));
        if !promoted && !may_move {
            paths.placements.note(place, packet.now, flags | facts(cargo));
            return Choice::stay(at);
        }
        paths.placements.lift(place);
        let done = if at_rest {
            flag::REQUESTS | flag::ANSWERS
        } else {
            0
        };
        let flags = flags & !done | facts(cargo);
        paths.placements.note(place, packet.now, flags);
        let heavy = flags & flag::HEAVY != 0;
        let best = self.best(heavy, paths).filter(|_| may_move);
        let stays = self.rank(at, heavy, paths);
        // Who is as good as another stays where it is.
        let to = best.filter(|best| stays.is_none_or(|stays| best.is_lower(&stays)));
        let to = to.map_or(at, |best| best.member);
        let Some(lane_to) = self.lane_of(to) else {
            return Choice::stay(at);
        };
        let came_later = paths.placements.lane(lane_to).since > lane.since;
        paths.placements.put(place, lane_to);
        match promoted {
            true => placed(to, Some(at), MoveReason::Promoted),
            false if to != at && came_later => placed(to, Some(at), MoveReason::LinkUp),
            false if to != at || forgotten => placed(to, Some(at), MoveReason::Idle),
            false => Choice::stay(at),
        }
    }

    /// A flow that has lost its place gets another one.
    fn replace(
        &mut self,
        packet: &Packet<'_>,
        place: usize,
        cargo: Cargo,
        (lane, silent): (Lane, Picos),
        paths: &mut Paths<'_>,
    ) -> Choice {
        paths.placements.lift(place);
        let flags = paths.placements.flow(place).0.flags & !flag::PINNED | facts(cargo);
        paths.placements.note(place, packet.now, flags);
        let heavy = flags & flag::HEAVY != 0;
        let Some((member, to)) = self
            .best(heavy, paths)
            .and_then(|rank| Some((rank.member, self.lane_of(rank.member)?)))
        else {
            paths.placements.remove_lifted(place);
            return Choice::stay(paths.by_hash(packet.hash));
        };
        paths.placements.put(place, to);
        let known_here = Some(lane.group) == self.group;
        let reason = match known_here {
            true if silent >= self.idle => MoveReason::Idle,
            true => MoveReason::LinkDown,
            false => MoveReason::New,
        };
        placed(member, lane.member.filter(|_| known_here), reason)
    }

    /// Gives a flow its place before it sends. `None`: the table is full, or no member is usable.
    pub(crate) fn announce(
        &mut self,
        now: Picos,
        announced: &Announcement,
        paths: &mut Paths<'_>,
    ) -> Option<(u16, Option<u16>)> {
        let kind = if announced.heavy { flag::HEAVY } else { 0 };
        let leads_there = |member: &u16| {
            announced
                .via
                .is_some_and(|port| paths.members()[usize::from(*member)].ports.contains(&port))
        };
        let told = paths.usable().iter().copied().find(leads_there);
        let pinned = if told.is_some() { flag::PINNED } else { 0 };
        let flags = flag::ANNOUNCED | pinned | kind;
        let Some(place) = paths.placements.find(announced.key) else {
            let member = told.or_else(|| Some(self.best(announced.heavy, paths)?.member))?;
            let lane = self.lane_of(member)?;
            let inserted = paths
                .placements
                .insert(announced.key, lane, now, flags | flag::UNSENT);
            return inserted.then_some((member, None));
        };
        let (flow, lane) = paths.placements.flow(place);
        let here = lane
            .member
            .filter(|_| lane.live && Some(lane.group) == self.group);
        let at_rest = flow.is(flag::UNSENT) || now.since(flow.seen) >= self.gap;
        if let Some(at) = here.filter(|_| !at_rest) {
            // It is sending: it keeps its place, whatever that is.
            let flags = flow.flags | flag::ANNOUNCED;
            paths.placements.note(place, flow.seen, flags);
            return Some((at, Some(at)));
        }
        paths.placements.lift(place);
        let flags = flags | (flow.flags & (flag::UNSENT | flag::HEAVY));
        paths.placements.note(place, flow.seen, flags);
        let heavy = flags & flag::HEAVY != 0;
        let to = told.or_else(|| Some(self.best(heavy, paths)?.member));
        match to.and_then(|to| Some((to, self.lane_of(to)?))) {
            Some((to, lane)) => {
                paths.placements.put(place, lane);
                Some((to, here))
            }
            None => {
                paths.placements.remove_lifted(place);
                None
            }
        }
    }
}

impl PathChoice for Cluster {
    /// After [`Cluster::known`] had no answer.
    fn choose(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> Choice {
        let Some(pair) = packet.queue_pair() else {
            return Choice::stay(paths.by_hash(packet.hash));
        };
        let cargo = Cargo::of(&pair);
        match paths.placements.find(pair.key) {
            None => self.learn(packet, &pair, cargo, paths),
            Some(place) => self.look_again(packet, place, cargo, paths),
        }
    }

    fn members_changed(&mut self, renumbered: &[Option<u16>], paths: &mut Paths<'_>) {
        let group = *self
            .group
            .get_or_insert_with(|| paths.placements.enter(self.flows_max, self.idle));
        let key = paths.row;
        let row = paths.placements.row(key);
        let (members, usable) = (paths.members, paths.usable);
        let port = |member: u16| members[usize::from(member)].ports.first().copied();
        let mut lanes = vec![None; members.len()];
        let has_flows = paths.placements.count_of(group, None).0 > 0;
        for (old, lane) in self.lanes.iter().enumerate() {
            let Some(lane) = *lane else { continue };
            let new = renumbered.get(old).copied().flatten();
            match new.filter(|new| paths.is_usable(*new)) {
                Some(new) => {
                    paths.placements.carry_on(lane, new, (row, port(new)));
                    lanes[usize::from(new)] = Some(lane);
                }
                None => paths.placements.close(lane, Some(old as u16)),
            }
        }
        paths.placements.renumber_closed(group, renumbered);
        self.since += u32::from(has_flows);
        for &member in usable {
            let lane = &mut lanes[usize::from(member)];
            if lane.is_none() {
                let at = (row, port(member));
                *lane = Some(paths.placements.open(group, member, at, self.since, self.idle));
            }
        }
        self.lanes = lanes;
        self.capacities = capacities(paths);
        let members = members.len().max(1) as u64;
        self.start = ((u64::from(paths.placements.start()) + u64::from(key.site)) % members) as u16;
    }
}

/// What a packet says of its flow.
#[inline]
fn facts(cargo: Cargo) -> u8 {
    match cargo {
        Cargo::Answer => flag::ANSWERS,
        Cargo::Request => flag::REQUESTS,
        Cargo::Data | Cargo::Response => flag::HEAVY,
    }
}

/// The packets of a light flow that data on another path could overtake.
fn overtaken_by(cargo: Cargo) -> u8 {
    match cargo {
        Cargo::Response => flag::ANSWERS,
        _ => flag::REQUESTS,
    }
}

fn placed(member: u16, from: Option<u16>, reason: MoveReason) -> Choice {
    let placed = Some(Placed { reason, from });
    Choice { member, placed }
}

/// Weights where routes give unequal ones, or else speeds.
fn capacities(paths: &Paths<'_>) -> Vec<u64> {
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
