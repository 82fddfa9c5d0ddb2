//! Cluster load balancing: the queue pairs that a switch knows, and how many of them each link has.
//!
//! # The algorithm
//!
//! A *flow* is what goes to one queue pair: both addresses and the destination queue pair of the base transport header. It is
//! learnt by its first packet, or announced before that, and given to a member of its group, where it stays. Groups lead to a
//! *site* each ([`crate::route::RouteTag::site`]: all that is behind one leaf). The member is the one for which these are least, the
//! first that differs decides:
//!
//! 1. the flows of this site on the member's port, this one included, divided by the member's capacity;
//! 2. the flows of all sites there, the same way: so uplinks are even as well;
//! 3. the flows of this group on the member, where two members share a port;
//! 4. the distance from the member `(start + site) mod members`, going up. The start is the site of the switch itself, or drawn from
//!    its seed if no route says that. So leaves that send the same number of flows to a site begin at different spines, and what
//!    does not divide by the number of spines does not meet on one link down to that site.
//!
//! Capacity is the member's speed, or its weight where routes give members unequal ones. Flows that have carried data (*heavy*) and
//! those that have not (*light*: acknowledgements, CNPs, READ and atomic requests, management datagrams) are counted apart, each by
//! the rule above, so that acknowledgements of many transfers do not look like many transfers. A light flow that turns out to carry
//! data becomes heavy, and chooses anew if that overtakes nothing: requests and responses of a queue pair are in no order to each
//! other, so a flow of acknowledgements may move for its first request.
//!
//! A flow is *at rest* when it has been silent for [`GAP`] and nothing waits on its member's link: what it sent has arrived. Then, and only then, it moves,
//! and only if the ranking by 1 and 2 gets better by it. Links that came up and flows that ended are made good by this. A flow that has been silent for the
//! scheme's idle time is forgotten; who looks is a hand that goes round the table once in that time. Announced flows are kept until
//! they are withdrawn, and stay where they were put while that lives.
//!
//! A member that dies takes its flows' places with it at once, all in one step; each is given a place by the rule above when its next packet
//! comes, and no other flow moves.
//!
//! # What holds
//!
//! Of `n` members of equal capacity, with flows of one kind:
//!
//! - **Per site, arrivals only: the most and the fewest flows of a member differ by at most 1.** A flow goes to a member with the
//!   fewest, so a difference of 1 can arise, but not one of 2.
//! - **Per link, arrivals only: at most by the number of sites**, by the sum of the line above; by at most 1 if each site has got at most one
//!   flow, or all a multiple of `n`. The worst case is real: one flow to each of many sites, then a second one to each site whose
//!   first is on the same link.
//! - **After departures and failures, once every flow has been at rest: per site and per link, at most by 1.** Suppose link `a` has two flows more than
//!   `b`. Then some site has more flows on `a` than on `b`; if by 2 or more, rule 1 moves one of them, if by 1, rule 2 does, since
//!   the site's numbers are only exchanged. Each move makes the sum of squares of the sites' numbers smaller, or keeps it and makes that of the
//!   links' smaller: so moves come to an end, and none is made that is not surplus.
//! - **Down from the spines:** the links to a site differ at most by the number of leaves that send to it. If each of
//!   `n` leaves with starts that differ modulo `n` sends the same number of flows to the site, and rules 1 to 3 leave the choice to
//!   rule 4, they do not differ at all: the remainders are arcs of a circle that begin at each of its points once. Announced placement (`src/fabric/placement.rs`) gives 1 for every pattern.
//! - **Order:** packets of a flow are only ever reordered by a failure, given that what was sent [`GAP`] ago has arrived. (A pause on a link
//!   beyond can hold packets for longer.)
//!
//! With capacities, "differ by at most 1" reads: no flow could be moved such that the load of the member it gets to stays below
//! that of the member it leaves.

use super::flow_map::FlowMap;
use super::packet::QueuePair;
use crate::ids::PortId;
use xoff_units::Picos;

/// Silence after which what a flow sent before is taken to have arrived: SAI's default for flowlets.
pub(super) const GAP: Picos = Picos::from_micros(256);

/// Most places that the hand looks at when a packet comes, after a time without any.
const STEPS_MAX: u64 = 256;
/// The same when a packet finds the table full.
const STEPS_FOR_ROOM: u64 = 8;

/// No port.
const NO_PORT: u16 = u16::MAX;

/// What a packet of a queue pair is to load balancing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cargo {
    /// An acknowledgement or CNP.
    Answer,
    /// A request that carries no data to speak of: READ, atomic, FLUSH; management datagrams.
    Request,
    /// A request with data.
    Data,
    /// A READ response.
    Response,
}

impl Cargo {
    /// By opcode; extended connections (XRC) have those of reliable ones. Unknown services count as data.
    #[inline]
    pub(super) fn of(pair: &QueuePair) -> Cargo {
        const CNP: u8 = 0x81;
        let operation = pair.opcode & 0x1f;
        match pair.opcode >> 5 {
            _ if pair.opcode == CNP => Cargo::Answer,
            // Queue pairs 0 and 1 are those of management.
            _ if pair.destination_qp < 2 => Cargo::Request,
            0 | 2 | 5 => match operation {
                0x11 | 0x12 => Cargo::Answer,
                0x0c | 0x13 | 0x14 | 0x1c => Cargo::Request,
                0x0d..=0x10 => Cargo::Response,
                _ => Cargo::Data,
            },
            _ => Cargo::Data,
        }
    }

    /// Whether its flow counts as heavy.
    #[inline]
    pub(super) fn is_heavy(self) -> bool {
        matches!(self, Cargo::Data | Cargo::Response)
    }
}

/// What is known of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    /// When its last packet came.
    pub(super) seen: Picos,
    lane: u32,
    pub(super) flags: u8,
}

/// Facts of a flow, a bit each.
pub(super) mod flag {
    /// It has carried data, or was announced to.
    pub(in crate::balance) const HEAVY: u8 = 1;
    /// It has carried small requests.
    pub(in crate::balance) const REQUESTS: u8 = 1 << 1;
    /// It has carried answers.
    pub(in crate::balance) const ANSWERS: u8 = 1 << 2;
    /// It is kept until it is withdrawn.
    pub(in crate::balance) const ANNOUNCED: u8 = 1 << 3;
    /// It stays where it was put while that lives.
    pub(in crate::balance) const PINNED: u8 = 1 << 4;
    /// It has not sent yet.
    pub(in crate::balance) const UNSENT: u8 = 1 << 5;
}

impl Flow {
    #[inline]
    fn of([seen, rest]: [u64; 2]) -> Flow {
        Flow {
            seen: Picos(seen),
            lane: rest as u32,
            flags: (rest >> 32) as u8,
        }
    }

    #[inline]
    fn words(&self) -> [u64; 2] {
        [self.seen.0, u64::from(self.flags) << 32 | u64::from(self.lane)]
    }

    pub(super) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Flows counted: heavy ones, light ones.
type Counts = [u32; 2];

/// A member of a group for as long as it carries traffic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    /// The group, by the number of [`Placements::enter`].
    pub(super) group: u32,
    /// The member; `None`: it is no longer one.
    pub(super) member: Option<u16>,
    /// It carries traffic.
    pub(super) live: bool,
    /// Lanes with greater numbers came to a group that had flows already.
    pub(super) since: u32,
    idle: Picos,
    row: u32,
    port: u16,
    /// Flows in the table that were placed here, dead or not.
    flows: u32,
    counts: Counts,
}

/// The groups whose flows are counted together on a link: those to the same site, of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowKey {
    /// Members of LAGs; what next hops give to a LAG is another count.
    pub(super) lag: bool,
    pub(super) site: u16,
}

#[derive(Debug)]
struct Row {
    key: RowKey,
    by_port: Vec<Counts>,
}

/// How a member stands for the next flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rank {
    pub(super) member: u16,
    pub(super) capacity: u64,
    /// Flows of the site, of all sites, of the group.
    flows: [u32; 3],
    /// Distance from the start.
    pub(super) turn: u16,
}

impl Rank {
    /// Whether one more flow of the site (rule 1), or else of all (rule 2), would be less there than on `other`.
    pub(super) fn is_lower(&self, other: &Rank) -> bool {
        self.compare(other, 2).is_lt()
    }

    /// Whether the next flow goes there rather than to `other`.
    pub(super) fn is_before(&self, other: &Rank) -> bool {
        self.compare(other, 3).then(self.turn.cmp(&other.turn)).is_lt()
    }

    fn compare(&self, other: &Rank, rules: usize) -> core::cmp::Ordering {
        let with = |flows: u32, capacity: u64| (u64::from(flows) + 1) * capacity;
        let pairs = self.flows.iter().zip(&other.flows).take(rules);
        pairs
            .map(|(own, others)| with(*own, other.capacity).cmp(&with(*others, self.capacity)))
            .find(|order| order.is_ne())
            .unwrap_or(core::cmp::Ordering::Equal)
    }
}

/// All flows of a switch that were placed, and where.
#[derive(Debug)]
pub(crate) struct Placements {
    flows: FlowMap,
    lanes: Vec<Lane>,
    unused: Vec<u32>,
    rows: Vec<Row>,
    /// Of all sites, by port: next hops, LAGs.
    totals: [Vec<Counts>; 2],
    /// Where the first flow to site 0 goes.
    start: u32,
    groups: u32,
    /// The place that the hand looks at next, when, and how long each takes.
    hand: usize,
    hand_at: Picos,
    step: Picos,
    /// The shortest idle time of a group.
    idle_min: Picos,
}

impl Placements {
    /// Without flows, of a switch with so many ports.
    pub(super) fn new(ports: usize, start: u32) -> Placements {
        Placements {
            flows: FlowMap::new(0),
            lanes: Vec::new(),
            unused: Vec::new(),
            rows: Vec::new(),
            totals: [vec![[0; 2]; ports], vec![[0; 2]; ports]],
            start,
            groups: 0,
            hand: 0,
            hand_at: Picos::ZERO,
            step: Picos::NEVER,
            idle_min: Picos::NEVER,
        }
    }

    pub(super) fn set_start(&mut self, start: u32) {
        self.start = start;
    }

    pub(super) fn start(&self) -> u32 {
        self.start
    }

    /// A group begins that needs places for so many flows; its number. The table is that of the group with the most, for all.
    pub(super) fn enter(&mut self, flows_max: u32, idle: Picos) -> u32 {
        self.groups += 1;
        if self.flows.flows_max() < flows_max as usize {
            let mut larger = FlowMap::new(flows_max as usize);
            for (key, flow) in self.flows.each() {
                larger.insert(key, flow);
            }
            self.flows = larger;
            self.hand = 0;
        }
        self.idle_min = self.idle_min.min(idle);
        self.step = Picos((self.idle_min.0 / self.flows.flows_max().max(1) as u64).max(1));
        self.groups
    }

    pub(super) fn flows_max(&self) -> u32 {
        self.flows.flows_max() as u32
    }

    /// Flows of a group, and heavy ones of a member of it.
    pub(super) fn count_of(&self, group: u32, member: Option<u16>) -> (u32, u32) {
        let of_group = self.lanes.iter().filter(|lane| lane.group == group);
        of_group.fold((0, 0), |(flows, heavy), lane| {
            let here = lane.live && lane.member == member;
            (flows + lane.flows, heavy + if here { lane.counts[0] } else { 0 })
        })
    }

    /// The counts of groups with this key.
    pub(super) fn row(&mut self, key: RowKey) -> u32 {
        if let Some(row) = self.rows.iter().position(|row| row.key == key) {
            return row as u32;
        }
        let by_port = vec![[0; 2]; self.totals[0].len()];
        self.rows.push(Row { key, by_port });
        self.rows.len() as u32 - 1
    }
}

/// Lanes.
impl Placements {
    #[inline]
    pub(super) fn lane(&self, lane: u32) -> &Lane {
        &self.lanes[lane as usize]
    }

    /// A member of a group carries traffic from now on.
    pub(super) fn open(
        &mut self,
        group: u32,
        member: u16,
        (row, port): (u32, Option<PortId>),
        since: u32,
        idle: Picos,
    ) -> u32 {
        let lane = Lane {
            group,
            member: Some(member),
            live: true,
            since,
            idle,
            row,
            port: port.map_or(NO_PORT, |port| port.0),
            flows: 0,
            counts: [0; 2],
        };
        match self.unused.pop() {
            Some(unused) => {
                self.lanes[unused as usize] = lane;
                unused
            }
            None => {
                self.lanes.push(lane);
                self.lanes.len() as u32 - 1
            }
        }
    }

    /// A lane goes on as this member, with its flows.
    pub(super) fn carry_on(&mut self, lane: u32, member: u16, (row, port): (u32, Option<PortId>)) {
        let counts = self.lanes[lane as usize].counts;
        self.charge(lane, counts, false);
        let at = &mut self.lanes[lane as usize];
        (at.member, at.row, at.port) = (Some(member), row, port.map_or(NO_PORT, |port| port.0));
        self.charge(lane, counts, true);
    }

    /// A lane carries no traffic any more: its flows have no place. `member`: where it is in the group, if it still is.
    pub(super) fn close(&mut self, lane: u32, member: Option<u16>) {
        let counts = self.lanes[lane as usize].counts;
        self.charge(lane, counts, false);
        let at = &mut self.lanes[lane as usize];
        (at.live, at.member) = (false, member);
        if at.flows == 0 {
            self.unused.push(lane);
        }
    }

    /// The members of closed lanes of a group have other numbers now.
    pub(super) fn renumber_closed(&mut self, group: u32, renumbered: &[Option<u16>]) {
        let closed = self
            .lanes
            .iter_mut()
            .filter(|lane| lane.group == group && !lane.live);
        for lane in closed {
            lane.member = lane
                .member
                .and_then(|old| renumbered.get(usize::from(old)).copied().flatten());
        }
    }

    /// Adds flows to the counts of a lane's link, or takes them away.
    fn charge(&mut self, lane: u32, counts: Counts, add: bool) {
        let at = &mut self.lanes[lane as usize];
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

    /// How a lane stands for the next flow, heavy or light.
    #[inline]
    pub(super) fn rank(&self, lane: u32, heavy: bool, capacity: u64, turn: u16) -> Rank {
        let at = &self.lanes[lane as usize];
        let row = &self.rows[at.row as usize];
        let (kind, port) = (usize::from(!heavy), usize::from(at.port));
        let of = |counts: &Vec<Counts>| counts.get(port).map_or(at.counts[kind], |counts| counts[kind]);
        Rank {
            member: at.member.unwrap_or_default(),
            capacity,
            flows: [
                of(&row.by_port),
                of(&self.totals[usize::from(row.key.lag)]),
                at.counts[kind],
            ],
            turn,
        }
    }
}

/// Flows.
impl Placements {
    /// The place of a queue pair's flow.
    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<usize> {
        self.flows.find(key)
    }

    /// The flow at a place, and its lane.
    #[inline]
    pub(super) fn flow(&self, place: usize) -> (Flow, &Lane) {
        let flow = Flow::of(self.flows.get(place));
        let lane = &self.lanes[flow.lane as usize];
        (flow, lane)
    }

    /// The flow at a place had its latest packet then, and has these flags.
    #[inline]
    pub(super) fn note(&mut self, place: usize, seen: Picos, flags: u8) {
        let flow = Flow::of(self.flows.get(place));
        self.flows.set(place, Flow { seen, flags, ..flow }.words());
    }

    /// Whether a flow may be forgotten.
    fn is_idle(&self, flow: &Flow, now: Picos) -> bool {
        !flow.is(flag::ANNOUNCED) && now.since(flow.seen) >= self.lanes[flow.lane as usize].idle
    }

    /// Enters a flow that is not known; false: the table is full.
    pub(super) fn insert(&mut self, key: u64, lane: u32, seen: Picos, flags: u8) -> bool {
        let inserted = self
            .flows
            .insert(key, Flow { seen, lane, flags }.words())
            .is_some();
        if inserted {
            self.lanes[lane as usize].flows += 1;
            self.charge(lane, counts_of(flags), true);
        }
        inserted
    }

    /// Takes a flow off its lane's counts; it must be put on one again, or removed.
    pub(super) fn lift(&mut self, place: usize) {
        let flow = Flow::of(self.flows.get(place));
        if self.lanes[flow.lane as usize].live {
            self.charge(flow.lane, counts_of(flow.flags), false);
        }
        let lane = &mut self.lanes[flow.lane as usize];
        lane.flows -= 1;
    }

    /// Puts a flow that was lifted on a lane.
    pub(super) fn put(&mut self, place: usize, lane: u32) {
        let flow = Flow::of(self.flows.get(place));
        self.flows.set(place, Flow { lane, ..flow }.words());
        let (before, flags) = (flow.lane, flow.flags);
        self.lanes[lane as usize].flows += 1;
        if self.lanes[lane as usize].live {
            self.charge(lane, counts_of(flags), true);
        }
        self.reuse(before);
    }

    /// Forgets the flow at a place.
    pub(super) fn remove(&mut self, place: usize) {
        self.lift(place);
        self.remove_lifted(place);
    }

    /// Forgets a flow that was lifted.
    pub(super) fn remove_lifted(&mut self, place: usize) {
        let lane = Flow::of(self.flows.get(place)).lane;
        self.flows.remove(place);
        self.reuse(lane);
    }

    /// A lane may have lost its last flow.
    fn reuse(&mut self, lane: u32) {
        let at = &self.lanes[lane as usize];
        if !at.live && at.flows == 0 {
            self.unused.push(lane);
        }
    }

    /// Lets the hand look at what is due, a few places at most.
    #[inline]
    pub(super) fn turn(&mut self, now: Picos) {
        if now >= self.hand_at {
            self.turn_on(now);
        }
    }

    #[cold]
    fn turn_on(&mut self, now: Picos) {
        let due = now.since(self.hand_at).0 / self.step.0 + 1;
        for _ in 0..due.min(STEPS_MAX) {
            self.look_at_next(now);
        }
        // Where few packets come, what was missed is not made up for: the hand goes round more slowly.
        self.hand_at = match due <= STEPS_MAX {
            true => Picos(self.hand_at.0 + due * self.step.0),
            false => now.saturating_add(self.step),
        };
    }

    /// The table is full: looks for a flow that may be forgotten, a few places at most.
    #[cold]
    pub(super) fn make_room(&mut self, now: Picos) {
        for _ in 0..STEPS_FOR_ROOM {
            self.look_at_next(now);
        }
    }

    fn look_at_next(&mut self, now: Picos) {
        if self.hand >= self.flows.flows_max() {
            self.hand = 0;
        }
        match self.flows.look(self.hand) {
            Some(flow) if self.is_idle(&Flow::of(flow), now) => self.remove(self.hand),
            _ => {}
        }
        self.hand += 1;
    }
}

fn counts_of(flags: u8) -> Counts {
    match flags & flag::HEAVY != 0 {
        true => [1, 0],
        false => [0, 1],
    }
}
