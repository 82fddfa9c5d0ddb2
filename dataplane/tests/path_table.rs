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
struct TestTable {
    fib: Fib,
    table: PathTable,
    resilient: Option<u16>,
    down: Vec<u16>,
}

fn next_hop_address(number: u16) -> IpAddr {
    IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, number])
}

/// Returns a route to 10.`index`/16 with next hops given by number and weight.
fn route_to_members(index: u8, members: &[(u16, u16)]) -> Route {
    let path = |&(number, weight): &(u16, u16)| RoutePath {
        next_hop: NextHop {
            interface: InterfaceId(number),
            address: next_hop_address(number),
        },
        weight,
    };
    Route {
        prefix: ipnet::IpNet::new_assert(IpAddr::from([10, index, 0, 0]), 16),
        target: RouteTarget::Via(members.iter().map(path).collect()),
        tag: RouteTag::default(),
    }
}

fn with_equal_weights(numbers: impl IntoIterator<Item = u16>) -> Vec<(u16, u16)> {
    numbers.into_iter().map(|number| (number, 1)).collect()
}

impl TestTable {
    fn new(resilient: Option<u16>, members: &[(u16, u16)]) -> TestTable {
        let mut table = TestTable {
            fib: Fib::default(),
            table: PathTable::default(),
            resilient,
            down: Vec::new(),
        };
        table.set_routes(&[route_to_members(0, members)]);
        table
    }

    fn set_routes(&mut self, routes: &[Route]) {
        let next = self.fib.build_successor(routes.iter().cloned()).unwrap();
        let down = |id: NextHopId| self.down.contains(&next.next_hops()[id.index()].interface.0);
        self.table
            .switch_to_fib(&self.fib, &next, self.resilient, |id| !down(id));
        self.fib = next;
    }

    fn set_members(&mut self, members: &[(u16, u16)]) {
        self.set_routes(&[route_to_members(0, members)]);
    }

    fn set_links_down(&mut self, down: &[u16]) {
        self.down = down.to_vec();
        let next_hops = self.fib.next_hops();
        self.table
            .set_live(&self.fib, |id| !down.contains(&next_hops[id.index()].interface.0));
    }

    fn next_hop_number(&self, id: NextHopId) -> u16 {
        self.fib.next_hops()[id.index()].interface.0
    }

    fn group_of_route(&self, index: u8) -> GroupId {
        match self.fib.lookup(IpAddr::from([10, index, 1, 1])) {
            Some(FibEntry::Group(group)) => group,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the next hop number of each flow of route `index`. The flow hashes are evenly spread.
    fn members_of_flows(&self, index: u8) -> Vec<Option<u16>> {
        let hash = |flow: u32| (u64::from(flow) * (1 << 32) / u64::from(FLOWS)) as u32;
        let choose = |flow| match self.fib.lookup(IpAddr::from([10, index, 1, 1]))? {
            FibEntry::NextHop(id) => Some(id),
            FibEntry::Group(group) => self.table.select(group, hash(flow)),
            other => panic!("{other:?}"),
        };
        (0..FLOWS)
            .map(|flow| choose(flow).map(|id| self.next_hop_number(id)))
            .collect()
    }

    fn first_route_members(&self) -> Vec<Option<u16>> {
        self.members_of_flows(0)
    }

    /// Returns the next hop number of each bucket.
    fn member_of_buckets(&self) -> Vec<u16> {
        self.table
            .buckets(self.group_of_route(0))
            .iter()
            .map(|id| self.next_hop_number(*id))
            .collect()
    }
}

fn buckets_per_member(buckets: &[u16]) -> BTreeMap<u16, usize> {
    let mut counts = BTreeMap::new();
    for member in buckets {
        *counts.entry(*member).or_default() += 1;
    }
    counts
}

/// Returns the number of buckets that changed their next hop.
fn moved_buckets(before: &[u16], after: &[u16]) -> usize {
    assert_eq!(before.len(), after.len());
    before
        .iter()
        .zip(after)
        .filter(|(before, after)| before != after)
        .count()
}

/// Returns the fewest buckets that must change so that `members` have their exact shares, to one bucket. This
/// is the larger of two sums: the surplus above the largest share, and the shortage below the smallest share.
fn fewest_necessary_moves(before: &[u16], members: &[(u16, u16)]) -> usize {
    let mut had = buckets_per_member(before);
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
fn assert_exact_shares(buckets: &[u16], members: &[(u16, u16)]) {
    let total: usize = members.iter().map(|&(_, weight)| usize::from(weight)).sum();
    let counts = buckets_per_member(buckets);
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
fn shares_without_resilience_equal_the_weights_of_members_that_are_up() {
    let mut table = TestTable::new(None, &[(1, 2), (2, 4), (3, 6)]);
    assert_eq!(table.member_of_buckets(), [1, 2, 2, 3, 3, 3]);
    table.set_links_down(&[1]);
    assert_eq!(table.member_of_buckets(), [2, 2, 3, 3, 3]);
    table.set_links_down(&[1, 3]);
    assert_eq!(table.member_of_buckets(), [2]);
    table.set_links_down(&[1, 2, 3]);
    assert_eq!(table.first_route_members()[7], None);
    table.set_links_down(&[]);
    assert_eq!(table.member_of_buckets(), [1, 2, 2, 3, 3, 3]);
}

#[test]
fn hashing_without_resilience_moves_flows_between_remaining_members() {
    let mut table = TestTable::new(None, &with_equal_weights(1..=4));
    let before = table.first_route_members();
    table.set_members(&with_equal_weights(1..=3));
    let stayed_member =
        |(before, after): &(&Option<u16>, &Option<u16>)| **before != Some(4) && before != after;
    assert!(
        before
            .iter()
            .zip(&table.first_route_members())
            .any(|pair| stayed_member(&pair)),
        "that is why there is the other kind"
    );
}

#[test]
fn only_flows_of_a_removed_member_move() {
    for count in 3..=32 {
        let mut table = TestTable::new(Some(RESILIENT_BUCKETS), &with_equal_weights(1..=count));
        let (flows, buckets) = (table.first_route_members(), table.member_of_buckets());
        let leaves = 1 + count / 2;
        let stay = with_equal_weights((1..=count).filter(|&number| number != leaves));
        table.set_members(&stay);
        for (before, after) in flows.iter().zip(table.first_route_members()) {
            assert_eq!(*before == Some(leaves), *before != after, "of {count}");
        }
        assert_eq!(
            moved_buckets(&buckets, &table.member_of_buckets()),
            fewest_necessary_moves(&buckets, &stay)
        );
        assert_exact_shares(&table.member_of_buckets(), &stay);
    }
}

#[test]
fn an_added_member_takes_only_its_share() {
    for count in 2..=31 {
        let mut table = TestTable::new(Some(RESILIENT_BUCKETS), &with_equal_weights(1..=count));
        let (flows, buckets) = (table.first_route_members(), table.member_of_buckets());
        table.set_members(&with_equal_weights(0..=count));
        for (before, after) in flows.iter().zip(table.first_route_members()) {
            assert!(
                *before == after || after == Some(0),
                "of {count}: {before:?} to {after:?}"
            );
        }
        let least = fewest_necessary_moves(&buckets, &with_equal_weights(0..=count));
        assert_eq!(
            moved_buckets(&buckets, &table.member_of_buckets()),
            least,
            "of {count}"
        );
        assert_exact_shares(&table.member_of_buckets(), &with_equal_weights(0..=count));
    }
}

#[test]
fn a_member_that_is_added_again_takes_only_its_share() {
    let all = with_equal_weights(1..=7);
    let mut table = TestTable::new(Some(RESILIENT_BUCKETS), &all);
    table.set_members(&all[1..]);
    let before = table.member_of_buckets();
    table.set_members(&all);
    assert_eq!(
        moved_buckets(&before, &table.member_of_buckets()),
        buckets_per_member(&table.member_of_buckets())[&1]
    );
    assert_exact_shares(&table.member_of_buckets(), &all);
}

#[test]
fn weight_changes_move_only_the_surplus() {
    let steps = [
        [1, 1, 1, 1],
        [1, 2, 1, 1],
        [5, 2, 1, 1],
        [5, 2, 3, 100],
        [1, 1, 1, 1],
        [7, 8, 9, 10],
    ];
    let weighted = |weights: [u16; 4]| -> Vec<_> { (1..).zip(weights).collect() };
    let mut table = TestTable::new(Some(RESILIENT_BUCKETS), &weighted(steps[0]));
    for weights in &steps[1..] {
        let before = table.member_of_buckets();
        table.set_members(&weighted(*weights));
        let after = table.member_of_buckets();
        let fewest = fewest_necessary_moves(&before, &weighted(*weights));
        assert_eq!(moved_buckets(&before, &after), fewest, "{weights:?}");
        assert_exact_shares(&after, &weighted(*weights));
    }
}

#[test]
fn flows_return_to_their_members_when_the_link_is_up_again() {
    for count in 2..=32 {
        let mut table = TestTable::new(Some(RESILIENT_BUCKETS), &with_equal_weights(1..=count));
        let before = table.member_of_buckets();
        table.set_links_down(&[2]);
        let during = table.member_of_buckets();
        assert_eq!(
            moved_buckets(&before, &during),
            buckets_per_member(&before)[&2],
            "only those of the lost one"
        );
        assert_exact_shares(
            &during,
            &with_equal_weights((1..=count).filter(|&number| number != 2)),
        );
        table.set_links_down(&[]);
        assert_eq!(table.member_of_buckets(), before);
    }
}

#[test]
fn each_link_failure_moves_only_flows_of_that_link() {
    let mut table = TestTable::new(Some(RESILIENT_BUCKETS), &with_equal_weights(1..=8));
    let home = table.member_of_buckets();
    for lost in 1..=7 {
        let before = table.member_of_buckets();
        table.set_links_down(&(1..=lost).collect::<Vec<_>>());
        assert_eq!(
            moved_buckets(&before, &table.member_of_buckets()),
            buckets_per_member(&before)[&lost],
            "{lost}"
        );
        assert_exact_shares(&table.member_of_buckets(), &with_equal_weights(lost + 1..=8));
    }
    table.set_links_down(&(1..=8).collect::<Vec<_>>());
    assert_eq!(table.first_route_members()[0], None);
    // The members return in another order. The members that are up have exact shares at every step.
    for back in [3, 8, 1, 2, 7, 5, 4] {
        let down: Vec<_> = table
            .down
            .iter()
            .copied()
            .filter(|&number| number != back)
            .collect();
        table.set_links_down(&down);
        assert_exact_shares(
            &table.member_of_buckets(),
            &with_equal_weights((1..=8).filter(|number| !down.contains(number))),
        );
    }
    table.set_links_down(&[]);
    assert_eq!(table.member_of_buckets(), home);
}

#[test]
fn removing_a_next_hop_with_its_link_down_moves_no_flow() {
    let mut table = TestTable::new(Some(RESILIENT_BUCKETS), &with_equal_weights(1..=5));
    table.set_links_down(&[4]);
    let before = table.member_of_buckets();
    table.set_members(&with_equal_weights([1, 2, 3, 5]));
    assert_eq!(table.member_of_buckets(), before);
    table.set_links_down(&[]);
    assert_eq!(table.member_of_buckets(), before);
}

#[test]
fn removing_one_of_two_next_hops_with_links_down_moves_no_flow() {
    for first in [2, 4] {
        let mut table = TestTable::new(Some(RESILIENT_BUCKETS), &with_equal_weights(1..=5));
        table.set_links_down(&[first]);
        table.set_links_down(&[4, 2]);
        let before = table.member_of_buckets();
        table.set_members(&with_equal_weights([1, 2, 3, 5]));
        assert_eq!(
            moved_buckets(&before, &table.member_of_buckets()),
            0,
            "{first} went down first"
        );
    }
}

#[test]
fn a_route_changes_between_one_and_several_next_hops() {
    let mut table = TestTable::new(Some(RESILIENT_BUCKETS), &with_equal_weights([3]));
    assert!(table.first_route_members().iter().all(|flow| *flow == Some(3)));
    table.set_members(&with_equal_weights([1, 2, 3, 4]));
    let stayed = table
        .first_route_members()
        .iter()
        .filter(|flow| **flow == Some(3))
        .count();
    assert_eq!(stayed, FLOWS as usize / 4, "its share of the flows stays with it");
    table.set_members(&with_equal_weights([3]));
    assert!(table.first_route_members().iter().all(|flow| *flow == Some(3)));
}

#[test]
fn routes_with_equal_next_hops_and_different_histories_keep_their_flows() {
    let mut table = TestTable::new(Some(RESILIENT_BUCKETS), &with_equal_weights(1..=4));
    table.set_routes(&[
        route_to_members(0, &with_equal_weights(1..=4)),
        route_to_members(1, &with_equal_weights(1..=3)),
    ]);
    let before = [table.members_of_flows(0), table.members_of_flows(1)];
    table.set_routes(&[
        route_to_members(0, &with_equal_weights(1..=3)),
        route_to_members(1, &with_equal_weights(1..=3)),
    ]);
    assert_eq!(table.members_of_flows(1), before[1], "an unchanged route");
    for (before, after) in before[0].iter().zip(table.members_of_flows(0)) {
        assert_eq!(*before == Some(4), *before != after);
    }
}

#[test]
fn a_skipped_generation_moves_no_flow() {
    let mut table = TestTable::new(Some(RESILIENT_BUCKETS), &with_equal_weights(1..=4));
    let before = table.member_of_buckets();
    let middle = table
        .fib
        .build_successor([route_to_members(0, &with_equal_weights(1..=3))])
        .unwrap();
    let last = middle
        .build_successor([
            route_to_members(0, &with_equal_weights(1..=3)),
            route_to_members(1, &with_equal_weights([7, 8])),
        ])
        .unwrap();
    table
        .table
        .switch_to_fib(&table.fib, &last, table.resilient, |_| true);
    table.fib = last;
    assert_eq!(
        moved_buckets(&before, &table.member_of_buckets()),
        buckets_per_member(&before)[&4]
    );
}

#[test]
fn doubling_the_buckets_moves_no_flow() {
    let mut table = TestTable::new(Some(512), &with_equal_weights(1..=5));
    let before = table.first_route_members();
    table.resilient = Some(1_024);
    table.set_members(&with_equal_weights(1..=5));
    assert_eq!(table.member_of_buckets().len(), 1_024);
    let moved = before
        .iter()
        .zip(table.first_route_members())
        .filter(|(before, after)| **before != *after)
        .count();
    assert!(
        moved <= FLOWS as usize * 5 / 1_024,
        "{moved}: at most a bucket's flows for each member"
    );
}

#[test]
fn each_bucket_has_a_member_when_members_outnumber_buckets() {
    let table = TestTable::new(
        Some(4),
        &(1..=9).map(|number| (number, number)).collect::<Vec<_>>(),
    );
    assert_exact_shares(&table.member_of_buckets(), &with_equal_weights(1..=9));
    let table = TestTable::new(Some(0), &with_equal_weights([1, 2]));
    assert_eq!(table.member_of_buckets().len(), 2);
}

#[test]
fn random_changes_keep_exact_shares_with_the_fewest_moves() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut draw = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 8) % below
    };
    let mut members = with_equal_weights(1..=6);
    let mut table = TestTable::new(Some(RESILIENT_BUCKETS), &members);
    for step in 0..400 {
        let before = (members.len() > 1).then(|| table.member_of_buckets());
        let all_lived = table
            .down
            .iter()
            .all(|number| members.iter().all(|(member, _)| member != number));
        match draw(4) {
            0 => {
                let down: Vec<_> = (1..=12).filter(|_| draw(4) == 0).collect();
                table.set_links_down(&down);
            }
            1 => table.set_links_down(&[]),
            _ => {
                members = (1..=12)
                    .filter_map(|number| (draw(2) == 0).then_some((number, 1 + draw(9) as u16)))
                    .collect();
                while members.len() < 2 {
                    members.push((20 + members.len() as u16, 1));
                }
                table.set_members(&members);
                if let (Some(before), true) = (before, all_lived && table.down.is_empty()) {
                    let after = table.member_of_buckets();
                    assert_eq!(
                        moved_buckets(&before, &after),
                        fewest_necessary_moves(&before, &members),
                        "step {step}: {members:?}"
                    );
                }
            }
        }
        let living: Vec<_> = members
            .iter()
            .copied()
            .filter(|(number, _)| !table.down.contains(number))
            .collect();
        match living.is_empty() {
            true => assert_eq!(table.first_route_members()[0], None),
            false => assert_exact_shares(&table.member_of_buckets(), &living),
        }
    }
}
