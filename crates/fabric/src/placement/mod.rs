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
//! switches, the flows that take one next switch are at most one more than those that take another one**, for every pattern of traffic: of all flows
//! on links, and of the flows of each turn ([`PlannedFlow::turn`]) on links and between two switches. A next switch of `n` times the speed
//! counts as `n` colours: it gets `n` times as many flows, at most `n` more or less.
//!
//! Elsewhere (links that are missing, or degraded at one end) flows are given out one by one, each to the next switch where the busier of its two links,
//! in flows of the same turn for their speed, is least busy with it. That has no bound but that of each choice.

mod colouring;
mod walk;

use std::collections::BTreeMap;
use std::net::IpAddr;

use xoff_dataplane::PortId;

pub use colouring::{Edge, equitable};
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
    /// Flows of the same turn send at the same time: the first queue pairs of all connections, the second ones, and so on, where
    /// messages take them in turn.
    pub turn: u16,
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
    turn: u16,
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
                turn: flow.turn,
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
        .map(|choice| Edge {
            left: lefts[&choice.switch],
            class: u32::from(choice.turn),
            right: rights[&choice.meets],
        })
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

/// Flows on links and between two switches, as far as they were given out.
#[derive(Default)]
struct Given {
    up: BTreeMap<(usize, PortId), u64>,
    down: BTreeMap<(usize, usize), u64>,
    pair: BTreeMap<(usize, usize, PortId), u64>,
}

impl Given {
    /// How busy a way would be with another flow: its busier link, both links, the flows of the pair.
    fn with(&self, choice: &Choice, way: &Way) -> (u64, u64, u64) {
        // Flows for their speed, in units that whole numbers can hold.
        let busy = |flows: Option<&u64>, speed: u64| {
            (flows.copied().unwrap_or(0) + 1) * 1_000_000_000 / speed.max(1)
        };
        let up = busy(self.up.get(&(choice.switch, way.port)), way.up_mbps);
        let down = busy(self.down.get(&(way.next, choice.meets)), way.down_mbps);
        let pair = self.pair.get(&(choice.switch, choice.meets, way.port));
        (up.max(down), up + down, pair.copied().unwrap_or(0))
    }

    fn add(&mut self, choice: &Choice, way: &Way) {
        *self.up.entry((choice.switch, way.port)).or_default() += 1;
        *self.down.entry((way.next, choice.meets)).or_default() += 1;
        *self
            .pair
            .entry((choice.switch, choice.meets, way.port))
            .or_default() += 1;
    }
}

/// Each flow to the way whose busier link is least busy with it, by the flows of its turn and then by all.
fn one_by_one(stage: &[Choice]) -> Vec<usize> {
    let mut all = Given::default();
    let mut turns: BTreeMap<u16, Given> = BTreeMap::new();
    let mut chosen = Vec::with_capacity(stage.len());
    for choice in stage {
        let turn = turns.entry(choice.turn).or_default();
        let load = |way: &Way| (turn.with(choice, way), all.with(choice, way));
        let best = (0..choice.ways.len())
            .min_by_key(|way| load(&choice.ways[*way]))
            .unwrap_or(0);
        if let Some(way) = choice.ways.get(best) {
            all.add(choice, way);
            turn.add(choice, way);
        }
        chosen.push(best);
    }
    chosen
}
