//! Where the flows of a collective go, decided for the whole fabric before any of them sends.
//!
//! The flows between all pairs of hosts are known. They are led from switch to switch; where several of them are at switches that have a choice,
//! that is one *stage*, and all of its choices are made together. A flow is an edge from the switch that has the choice to the one at which all
//! its ways meet again: in a fabric of two tiers from leaf to leaf, with the spines as colours; in one of three from leaf to leaf with the
//! aggregation switches as colours, and then from aggregation switch to aggregation switch with the cores.
//!
//! # What holds
//!
//! Where all switches of a stage have the same choice (the same switches next, or in a regular fabric of three tiers as many of them in each pod, in the order of ports), and each next
//! switch is reached and left at one speed, the colouring is equitable ([`colouring`]): **on every link up and every link down, and between every two
//! switches, the flows that take one next switch are at most one more than those that take another one**, for every pattern of traffic. A next switch of `n` times the speed
//! counts as `n` colours: it gets `n` times as many flows, at most `n` more or less.
//!
//! Elsewhere (links that are missing, or degraded at one end) flows are given out one by one, each to the next switch where the busier of its two links,
//! in flows for their speed, is least busy with it. That has no bound but that of each choice.

mod colouring;
mod walk;

use std::collections::BTreeMap;
use std::net::IpAddr;

use xoff_dataplane::PortId;

use colouring::Edge;
pub use colouring::equitable;
use walk::{At, Walk, Way};

use super::plan::FabricPlan;

/// Most colours that speeds are turned into; beyond, flows are given out one by one.
const COLOURS_MAX: u64 = 1_024;

/// A flow whose place is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedFlow {
    /// Index of the host that sends.
    pub from: usize,
    /// Where to.
    pub destination: IpAddr,
}

/// A choice for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedHop {
    /// Index of the flow.
    pub flow: usize,
    /// Index of the switch that has the choice.
    pub switch: usize,
    /// The port that the flow is to leave it by.
    pub port: PortId,
}

/// A flow at a switch that has a choice.
#[derive(Clone, Debug)]
struct Choice {
    flow: usize,
    switch: usize,
    /// Where its ways meet again.
    meets: usize,
    /// By port.
    ways: Vec<Way>,
}

/// The way of each flow through the switches of a plan that have a choice: of every flow, in the order of its way.
pub fn place(plan: &FabricPlan, flows: &[PlannedFlow]) -> Vec<PlannedHop> {
    let mut walk = Walk::new(plan);
    let mut at: Vec<At> = flows.iter().map(|flow| walk.begin(flow)).collect();
    let mut hops = Vec::new();
    // A way passes a switch once at most, unless it is a circle.
    for _ in 0..plan.switches.len() {
        let mut stage = Vec::new();
        for (index, flow) in flows.iter().enumerate() {
            at[index] = walk.to_choice(at[index], flow.destination);
            let At::Switch(switch) = at[index] else { continue };
            stage.push(Choice {
                flow: index,
                switch,
                meets: walk.meets(switch, flow.destination),
                ways: walk.ways(switch, flow.destination),
            });
        }
        if stage.is_empty() {
            break;
        }
        let chosen = choose(&stage);
        for (choice, way) in stage.iter().zip(chosen) {
            let way = &choice.ways[way];
            hops.push(PlannedHop {
                flow: choice.flow,
                switch: choice.switch,
                port: way.port,
            });
            at[choice.flow] = At::Switch(way.next);
        }
    }
    hops
}

/// Which of its ways each flow of a stage takes.
fn choose(stage: &[Choice]) -> Vec<usize> {
    match speeds(stage) {
        Some(speeds) => coloured(stage, &speeds),
        None => one_by_one(stage),
    }
}

/// What each colour's speed is, relative to the others, if all flows of a stage have the same ones.
fn speeds(stage: &[Choice]) -> Option<Vec<u64>> {
    let first = stage.first()?;
    let speeds: Vec<u64> = first.ways.iter().map(Way::speed).collect();
    let mut owners: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for choice in stage {
        if !choice.ways.iter().map(Way::speed).eq(speeds.iter().copied()) {
            return None;
        }
        // Two sets of next switches are the same, or have none in common.
        let nexts: Vec<usize> = choice.ways.iter().map(|way| way.next).collect();
        for next in &nexts {
            if owners.entry(*next).or_insert_with(|| nexts.clone()) != &nexts {
                return None;
            }
        }
    }
    let divisor = speeds.iter().copied().fold(0, gcd).max(1);
    let speeds: Vec<u64> = speeds.iter().map(|speed| (speed / divisor).max(1)).collect();
    (speeds.iter().sum::<u64>() <= COLOURS_MAX).then_some(speeds)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn coloured(stage: &[Choice], speeds: &[u64]) -> Vec<usize> {
    let of_colour: Vec<usize> = speeds
        .iter()
        .enumerate()
        .flat_map(|(way, speed)| std::iter::repeat_n(way, *speed as usize))
        .collect();
    let (lefts, rights) = (
        numbers(stage, |choice| choice.switch),
        numbers(stage, |choice| choice.meets),
    );
    let edges: Vec<Edge> = stage
        .iter()
        .map(|choice| (lefts[&choice.switch], rights[&choice.meets]))
        .collect();
    let found = equitable(&edges, of_colour.len());
    found
        .into_iter()
        .map(|colour| of_colour[colour as usize])
        .collect()
}

/// Dense numbers for the switches of a stage.
fn numbers(stage: &[Choice], of: fn(&Choice) -> usize) -> BTreeMap<usize, u32> {
    let mut numbers: BTreeMap<usize, u32> = stage.iter().map(|choice| (of(choice), 0)).collect();
    numbers
        .values_mut()
        .zip(0..)
        .for_each(|(number, next)| *number = next);
    numbers
}

/// Each flow to the way whose busier link is least busy with it; then where the flows of its pair are fewest.
fn one_by_one(stage: &[Choice]) -> Vec<usize> {
    let mut up: BTreeMap<(usize, PortId), u64> = BTreeMap::new();
    let mut down: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    let mut pair: BTreeMap<(usize, usize, PortId), u64> = BTreeMap::new();
    let mut chosen = Vec::with_capacity(stage.len());
    for choice in stage {
        let load = |way: &Way| {
            // Flows for their speed, in units that whole numbers can hold.
            let busy = |flows: u64, speed: u64| (flows + 1) * 1_000_000_000 / speed.max(1);
            let above = up.get(&(choice.switch, way.port)).copied().unwrap_or(0);
            let below = down.get(&(way.next, choice.meets)).copied().unwrap_or(0);
            let between = pair
                .get(&(choice.switch, choice.meets, way.port))
                .copied()
                .unwrap_or(0);
            let (above, below) = (busy(above, way.up_mbps), busy(below, way.down_mbps));
            (above.max(below), above + below, between)
        };
        let best = (0..choice.ways.len())
            .min_by_key(|way| load(&choice.ways[*way]))
            .unwrap_or(0);
        if let Some(way) = choice.ways.get(best) {
            *up.entry((choice.switch, way.port)).or_default() += 1;
            *down.entry((way.next, choice.meets)).or_default() += 1;
            *pair.entry((choice.switch, choice.meets, way.port)).or_default() += 1;
        }
        chosen.push(best);
    }
    chosen
}
