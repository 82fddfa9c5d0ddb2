//! Counts which flows move, bucket by bucket, when next hops, weights or links change.

use std::collections::BTreeMap;
use std::net::IpAddr;

use xoff_dataplane::route::{
    Fib, FibEntry, NextHop, PathTable, RESILIENT_BUCKETS, Route, RoutePath, RouteTag, RouteTarget,
};
use xoff_dataplane::{GroupId, InterfaceId, NextHopId};

/// Four flows for each bucket of a resilient table.
const FLOWS: u32 = 4 * RESILIENT_BUCKETS as u32;

/// Routes, and a table that follows them.
struct World {
    fib: Fib,
    table: PathTable,
    resilient: Option<u16>,
    down: Vec<u16>,
}

fn address(number: u16) -> IpAddr {
    IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, number])
}

/// A route to 10.`index`/16 with next hops given by number and weight.
fn route(index: u8, members: &[(u16, u16)]) -> Route {
    let path = |&(number, weight): &(u16, u16)| RoutePath {
        next_hop: NextHop {
            interface: InterfaceId(number),
            address: address(number),
        },
        weight,
    };
    Route {
        prefix: ipnet::IpNet::new_assert(IpAddr::from([10, index, 0, 0]), 16),
        target: RouteTarget::Via(members.iter().map(path).collect()),
        tag: RouteTag::default(),
    }
}

fn equal(numbers: impl IntoIterator<Item = u16>) -> Vec<(u16, u16)> {
    numbers.into_iter().map(|number| (number, 1)).collect()
}

impl World {
    fn new(resilient: Option<u16>, members: &[(u16, u16)]) -> World {
        let mut world = World {
            fib: Fib::default(),
            table: PathTable::default(),
            resilient,
            down: Vec::new(),
        };
        world.change(&[route(0, members)]);
        world
    }

    fn change(&mut self, routes: &[Route]) {
        let next = self.fib.build_successor(routes.iter().cloned()).unwrap();
        let down = |id: NextHopId| self.down.contains(&next.next_hops()[id.index()].interface.0);
        self.table
            .change_generation(&self.fib, &next, self.resilient, |id| !down(id));
        self.fib = next;
    }

    fn via(&mut self, members: &[(u16, u16)]) {
        self.change(&[route(0, members)]);
    }

    fn set_down(&mut self, down: &[u16]) {
        self.down = down.to_vec();
        let next_hops = self.fib.next_hops();
        self.table
            .set_live(&self.fib, |id| !down.contains(&next_hops[id.index()].interface.0));
    }

    fn number(&self, id: NextHopId) -> u16 {
        self.fib.next_hops()[id.index()].interface.0
    }

    fn group(&self, index: u8) -> GroupId {
        match self.fib.lookup(IpAddr::from([10, index, 1, 1])) {
            Some(FibEntry::Group(group)) => group,
            other => panic!("{other:?}"),
        }
    }

    /// The next hop number of each flow of route `index`. The flow hashes are evenly spread.
    fn flows_of(&self, index: u8) -> Vec<Option<u16>> {
        let hash = |flow: u32| (u64::from(flow) * (1 << 32) / u64::from(FLOWS)) as u32;
        let choose = |flow| match self.fib.lookup(IpAddr::from([10, index, 1, 1]))? {
            FibEntry::NextHop(id) => Some(id),
            FibEntry::Group(group) => self.table.select(group, hash(flow)),
            other => panic!("{other:?}"),
        };
        (0..FLOWS)
            .map(|flow| choose(flow).map(|id| self.number(id)))
            .collect()
    }

    fn flows(&self) -> Vec<Option<u16>> {
        self.flows_of(0)
    }

    /// The next hop number of each bucket.
    fn buckets(&self) -> Vec<u16> {
        self.table
            .buckets(self.group(0))
            .iter()
            .map(|id| self.number(*id))
            .collect()
    }
}

fn counts(buckets: &[u16]) -> BTreeMap<u16, usize> {
    let mut counts = BTreeMap::new();
    for member in buckets {
        *counts.entry(*member).or_default() += 1;
    }
    counts
}

/// Number of buckets that changed their next hop.
fn moved(before: &[u16], after: &[u16]) -> usize {
    assert_eq!(before.len(), after.len());
    before
        .iter()
        .zip(after)
        .filter(|(before, after)| before != after)
        .count()
}

/// The fewest buckets that must change so that `members` have their exact shares, to one bucket. This is the
/// larger of two sums: the surplus above the largest share, and the shortage below the smallest share.
fn fewest(before: &[u16], members: &[(u16, u16)]) -> usize {
    let mut had = counts(before);
    let total: usize = members.iter().map(|&(_, weight)| usize::from(weight)).sum();
    let (mut lost, mut gained) = (0, 0);
    for &(member, weight) in members {
        let exact = before.len() * usize::from(weight);
        let had = had.remove(&member).unwrap_or(0);
        lost += had.saturating_sub(exact.div_ceil(total));
        gained += (exact / total).saturating_sub(had);
    }
    gained.max(lost + had.values().sum::<usize>())
}

/// Asserts that each member has its exact share of the buckets, to one bucket.
fn assert_exact(buckets: &[u16], members: &[(u16, u16)]) {
    let total: usize = members.iter().map(|&(_, weight)| usize::from(weight)).sum();
    let counts = counts(buckets);
    assert_eq!(counts.len(), members.len(), "{members:?}");
    for &(member, weight) in members {
        let exact = buckets.len() * usize::from(weight);
        let (low, high) = (exact / total, exact.div_ceil(total));
        assert!(
            (low.max(1)..=high.max(1)).contains(&counts[&member]),
            "{member}: {counts:?}"
        );
    }
}

#[test]
fn plain_shares_are_exactly_the_weights_of_those_that_live() {
    let mut world = World::new(None, &[(1, 2), (2, 4), (3, 6)]);
    assert_eq!(world.buckets(), [1, 2, 2, 3, 3, 3]);
    world.set_down(&[1]);
    assert_eq!(world.buckets(), [2, 2, 3, 3, 3]);
    world.set_down(&[1, 3]);
    assert_eq!(world.buckets(), [2]);
    world.set_down(&[1, 2, 3]);
    assert_eq!(world.flows()[7], None);
    world.set_down(&[]);
    assert_eq!(world.buckets(), [1, 2, 2, 3, 3, 3]);
}

#[test]
fn plain_hashing_moves_flows_between_members_that_stay() {
    let mut world = World::new(None, &equal(1..=4));
    let before = world.flows();
    world.via(&equal(1..=3));
    let stayed_member =
        |(before, after): &(&Option<u16>, &Option<u16>)| **before != Some(4) && before != after;
    assert!(
        before.iter().zip(&world.flows()).any(|pair| stayed_member(&pair)),
        "that is why there is the other kind"
    );
}

#[test]
fn the_flows_of_a_member_that_leaves_move_and_no_other() {
    for count in 3..=32 {
        let mut world = World::new(Some(RESILIENT_BUCKETS), &equal(1..=count));
        let (flows, buckets) = (world.flows(), world.buckets());
        let leaves = 1 + count / 2;
        let stay = equal((1..=count).filter(|&number| number != leaves));
        world.via(&stay);
        for (before, after) in flows.iter().zip(world.flows()) {
            assert_eq!(*before == Some(leaves), *before != after, "of {count}");
        }
        assert_eq!(moved(&buckets, &world.buckets()), fewest(&buckets, &stay));
        assert_exact(&world.buckets(), &stay);
    }
}

#[test]
fn a_member_that_joins_takes_its_share_and_none_moves_between_the_others() {
    for count in 2..=31 {
        let mut world = World::new(Some(RESILIENT_BUCKETS), &equal(1..=count));
        let (flows, buckets) = (world.flows(), world.buckets());
        world.via(&equal(0..=count));
        for (before, after) in flows.iter().zip(world.flows()) {
            assert!(
                *before == after || after == Some(0),
                "of {count}: {before:?} to {after:?}"
            );
        }
        let least = fewest(&buckets, &equal(0..=count));
        assert_eq!(moved(&buckets, &world.buckets()), least, "of {count}");
        assert_exact(&world.buckets(), &equal(0..=count));
    }
}

#[test]
fn a_member_that_left_and_joins_again_takes_no_more_than_its_share() {
    let all = equal(1..=7);
    let mut world = World::new(Some(RESILIENT_BUCKETS), &all);
    world.via(&all[1..]);
    let before = world.buckets();
    world.via(&all);
    assert_eq!(moved(&before, &world.buckets()), counts(&world.buckets())[&1]);
    assert_exact(&world.buckets(), &all);
}

#[test]
fn weights_move_exactly_the_surplus() {
    let steps = [
        [1, 1, 1, 1],
        [1, 2, 1, 1],
        [5, 2, 1, 1],
        [5, 2, 3, 100],
        [1, 1, 1, 1],
        [7, 8, 9, 10],
    ];
    let weighted = |weights: [u16; 4]| -> Vec<_> { (1..).zip(weights).collect() };
    let mut world = World::new(Some(RESILIENT_BUCKETS), &weighted(steps[0]));
    for weights in &steps[1..] {
        let before = world.buckets();
        world.via(&weighted(*weights));
        let after = world.buckets();
        let fewest = fewest(&before, &weighted(*weights));
        assert_eq!(moved(&before, &after), fewest, "{weights:?}");
        assert_exact(&after, &weighted(*weights));
    }
}

#[test]
fn a_link_that_comes_back_finds_everything_as_it_was() {
    for count in 2..=32 {
        let mut world = World::new(Some(RESILIENT_BUCKETS), &equal(1..=count));
        let before = world.buckets();
        world.set_down(&[2]);
        let during = world.buckets();
        assert_eq!(
            moved(&before, &during),
            counts(&before)[&2],
            "only those of the lost one"
        );
        assert_exact(&during, &equal((1..=count).filter(|&number| number != 2)));
        world.set_down(&[]);
        assert_eq!(world.buckets(), before);
    }
}

#[test]
fn each_further_link_that_is_lost_moves_only_its_own_flows() {
    let mut world = World::new(Some(RESILIENT_BUCKETS), &equal(1..=8));
    let home = world.buckets();
    for lost in 1..=7 {
        let before = world.buckets();
        world.set_down(&(1..=lost).collect::<Vec<_>>());
        assert_eq!(moved(&before, &world.buckets()), counts(&before)[&lost], "{lost}");
        assert_exact(&world.buckets(), &equal(lost + 1..=8));
    }
    world.set_down(&(1..=8).collect::<Vec<_>>());
    assert_eq!(world.flows()[0], None);
    // The members return in another order. The members that are up have exact shares at every step.
    for back in [3, 8, 1, 2, 7, 5, 4] {
        let down: Vec<_> = world
            .down
            .iter()
            .copied()
            .filter(|&number| number != back)
            .collect();
        world.set_down(&down);
        assert_exact(
            &world.buckets(),
            &equal((1..=8).filter(|number| !down.contains(number))),
        );
    }
    world.set_down(&[]);
    assert_eq!(world.buckets(), home);
}

#[test]
fn withdrawing_a_next_hop_whose_link_is_down_moves_nothing() {
    let mut world = World::new(Some(RESILIENT_BUCKETS), &equal(1..=5));
    world.set_down(&[4]);
    let before = world.buckets();
    world.via(&equal([1, 2, 3, 5]));
    assert_eq!(world.buckets(), before);
    world.set_down(&[]);
    assert_eq!(world.buckets(), before);
}

#[test]
fn withdrawing_one_of_two_that_are_down_moves_nothing() {
    for first in [2, 4] {
        let mut world = World::new(Some(RESILIENT_BUCKETS), &equal(1..=5));
        world.set_down(&[first]);
        world.set_down(&[4, 2]);
        let before = world.buckets();
        world.via(&equal([1, 2, 3, 5]));
        assert_eq!(moved(&before, &world.buckets()), 0, "{first} went down first");
    }
}

#[test]
fn one_next_hop_becomes_several_and_one_again() {
    let mut world = World::new(Some(RESILIENT_BUCKETS), &equal([3]));
    assert!(world.flows().iter().all(|flow| *flow == Some(3)));
    world.via(&equal([1, 2, 3, 4]));
    let stayed = world.flows().iter().filter(|flow| **flow == Some(3)).count();
    assert_eq!(stayed, FLOWS as usize / 4, "its share of the flows stays with it");
    world.via(&equal([3]));
    assert!(world.flows().iter().all(|flow| *flow == Some(3)));
}

#[test]
fn routes_with_the_same_next_hops_and_different_pasts_keep_their_flows() {
    let mut world = World::new(Some(RESILIENT_BUCKETS), &equal(1..=4));
    world.change(&[route(0, &equal(1..=4)), route(1, &equal(1..=3))]);
    let before = [world.flows_of(0), world.flows_of(1)];
    world.change(&[route(0, &equal(1..=3)), route(1, &equal(1..=3))]);
    assert_eq!(world.flows_of(1), before[1], "an unchanged route");
    for (before, after) in before[0].iter().zip(world.flows_of(0)) {
        assert_eq!(*before == Some(4), *before != after);
    }
}

#[test]
fn a_generation_that_is_skipped_costs_no_flows() {
    let mut world = World::new(Some(RESILIENT_BUCKETS), &equal(1..=4));
    let before = world.buckets();
    let middle = world.fib.build_successor([route(0, &equal(1..=3))]).unwrap();
    let last = middle
        .build_successor([route(0, &equal(1..=3)), route(1, &equal([7, 8]))])
        .unwrap();
    world
        .table
        .change_generation(&world.fib, &last, world.resilient, |_| true);
    world.fib = last;
    assert_eq!(moved(&before, &world.buckets()), counts(&before)[&4]);
}

#[test]
fn twice_as_many_buckets_hold_the_same_flows() {
    let mut world = World::new(Some(512), &equal(1..=5));
    let before = world.flows();
    world.resilient = Some(1_024);
    world.via(&equal(1..=5));
    assert_eq!(world.buckets().len(), 1_024);
    let moved = before
        .iter()
        .zip(world.flows())
        .filter(|(before, after)| **before != *after)
        .count();
    assert!(
        moved <= FLOWS as usize * 5 / 1_024,
        "{moved}: at most a bucket's flows for each member"
    );
}

#[test]
fn more_members_than_buckets_have_a_bucket_each() {
    let world = World::new(
        Some(4),
        &(1..=9).map(|number| (number, number)).collect::<Vec<_>>(),
    );
    assert_exact(&world.buckets(), &equal(1..=9));
    let world = World::new(Some(0), &equal([1, 2]));
    assert_eq!(world.buckets().len(), 2);
}

#[test]
fn any_sequence_of_changes_leaves_exact_shares_and_moves_no_flow_without_need() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut draw = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 8) % below
    };
    let mut members = equal(1..=6);
    let mut world = World::new(Some(RESILIENT_BUCKETS), &members);
    for step in 0..400 {
        let before = (members.len() > 1).then(|| world.buckets());
        let all_lived = world
            .down
            .iter()
            .all(|number| members.iter().all(|(member, _)| member != number));
        match draw(4) {
            0 => {
                let down: Vec<_> = (1..=12).filter(|_| draw(4) == 0).collect();
                world.set_down(&down);
            }
            1 => world.set_down(&[]),
            _ => {
                members = (1..=12)
                    .filter_map(|number| (draw(2) == 0).then_some((number, 1 + draw(9) as u16)))
                    .collect();
                while members.len() < 2 {
                    members.push((20 + members.len() as u16, 1));
                }
                world.via(&members);
                if let (Some(before), true) = (before, all_lived && world.down.is_empty()) {
                    let after = world.buckets();
                    assert_eq!(
                        moved(&before, &after),
                        fewest(&before, &members),
                        "step {step}: {members:?}"
                    );
                }
            }
        }
        let living: Vec<_> = members
            .iter()
            .copied()
            .filter(|(number, _)| !world.down.contains(number))
            .collect();
        match living.is_empty() {
            true => assert_eq!(world.flows()[0], None),
            false => assert_exact(&world.buckets(), &living),
        }
    }
}
