//! Places the flows of a collective: selects the paths of all flows before the first packet is sent.
//!
//! The flows between all pairs of hosts are known. The algorithm follows the flows from switch to switch. All
//! flows at a switch with several next hops form a *stage*. The next hops of a stage are selected together,
//! by an edge colouring of a graph. In this graph, a flow is an edge from its switch to the switch where all
//! its paths meet again. Each next switch is a colour. In a fabric with two tiers, edges lead from leaf to
//! leaf, and the colours are the spines. A fabric with three tiers has two stages. The first stage leads from
//! leaf to leaf with the aggregation switches as colours. The second stage leads from aggregation switch to
//! aggregation switch with the core switches as colours.
//!
//! # Guarantees
//!
//! The colouring of a stage is equitable ([`colouring`]) if its switches have the same set of next switches
//! and each next switch has one speed. In a fabric with three tiers, the number of next switches in each pod
//! must be the same. The numbers of flows through two next switches then differ by at most one. This bound
//! holds on every uplink, on every downlink, and between every two switches. It holds for all flows together.
//! On links and between two switches, it also holds for the flows of each turn ([`PlannedFlow::turn`], flows
//! that send at the same time). A next switch with `n` times the speed counts as `n` colours and gets `n`
//! times the flows, with a difference of at most `n`.
//!
//! If links are missing or have different speeds, flows are assigned one by one. A flow through a next switch
//! uses one link to this switch and one link from this switch. The load of a link is the number of its flows
//! divided by the speed of the link. Only flows of the same turn as the new flow are counted, including the
//! new flow. The load of a next switch is the load of the busier of the two links. The flow gets the next
//! switch with the lowest load. This method guarantees no upper bound for the differences between links.

mod colouring;
mod walk;

use std::collections::BTreeMap;
use std::net::IpAddr;

use xoff_dataplane::PortId;

pub use colouring::{Edge, equitable_colouring};
use walk::{Candidate, FlowLocation, RouteTracer};

use super::plan::FabricPlan;

/// Largest number of colours of the edge colouring. A next hop gets a number of colours in proportion to its
/// link speed. If the link speeds require more colours, [`place_flows`] does not use the colouring and
/// selects the path of one flow after the other.
const COLOURS_MAX: u64 = 1_024;

/// A flow for which [`place_flows`] selects a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedFlow {
    /// Index of the sending host in [`FabricPlan::hosts`].
    pub from: usize,
    /// IP address of the receiving host.
    pub destination: IpAddr,
    /// Turn of the flow. Flows of the same turn send at the same time. For example, messages use the queue
    /// pairs of a connection in turn. Turn 0 then contains the first queue pair of each connection, and turn
    /// 1 the second queue pair.
    pub turn: u16,
}

/// Next hop of a flow at one switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedHop {
    /// Index of the flow in the list that was passed to [`place_flows`].
    pub flow: usize,
    /// Index of the switch in [`FabricPlan::switches`].
    pub switch: usize,
    /// Egress port of the flow at the switch. For a LAG, this is the first member port.
    pub port: PortId,
}

/// A flow at a switch with several next hops.
#[derive(Clone, Debug)]
struct FlowNextHopChoice {
    flow: usize,
    switch: usize,
    /// Index of the switch where all paths of the flow meet again.
    meets: usize,
    turn: u16,
    /// Candidate next hops, sorted by port.
    candidates: Vec<Candidate>,
}

/// Selects the path of each flow by the routes of the switches. The result contains one hop for each switch
/// at which a flow has several next hops. The hops of one flow are in path order. A flow has no hops if its
/// route is unknown or never has a choice.
pub fn place_flows(plan: &FabricPlan, flows: &[PlannedFlow]) -> Vec<PlannedHop> {
    let mut walk = RouteTracer::new(plan);
    let mut at: Vec<FlowLocation> = flows.iter().map(|flow| walk.first_switch(flow)).collect();
    let mut hops = Vec::new();
    // A path visits a switch only once, unless it is a loop.
    for _ in 0..plan.switches.len() {
        let mut stage = Vec::new();
        for (index, flow) in flows.iter().enumerate() {
            at[index] = walk.next_choice(at[index], flow.destination);
            let FlowLocation::Switch(switch) = at[index] else {
                continue;
            };
            stage.push(FlowNextHopChoice {
                flow: index,
                switch,
                meets: walk.path_merge_switch(switch, flow.destination),
                turn: flow.turn,
                candidates: walk.candidates(switch, flow.destination),
            });
        }
        if stage.is_empty() {
            break;
        }
        let chosen = choose_candidates(&stage);
        for (choice, candidate) in stage.iter().zip(chosen) {
            let candidate = &choice.candidates[candidate];
            hops.push(PlannedHop {
                flow: choice.flow,
                switch: choice.switch,
                port: candidate.port,
            });
            at[choice.flow] = FlowLocation::Switch(candidate.next);
        }
    }
    hops
}

/// Selects a candidate next hop for each flow of a stage. Returns indices in [`FlowNextHopChoice::candidates`].
fn choose_candidates(stage: &[FlowNextHopChoice]) -> Vec<usize> {
    match relative_speeds(stage) {
        Some(speeds) => choose_by_colouring(stage, &speeds),
        None => choose_least_loaded(stage),
    }
}

/// Returns the relative speeds of the candidates, as small integers. Returns `None` if an edge colouring is
/// not possible:
///
/// - Two flows have candidates with different speeds.
/// - Two flows have candidates that lead only partly to the same next switches.
/// - More than [`COLOURS_MAX`] colours would be needed.
fn relative_speeds(stage: &[FlowNextHopChoice]) -> Option<Vec<u64>> {
    let first = stage.first()?;
    let speeds: Vec<u64> = first.candidates.iter().map(Candidate::speed).collect();
    let mut owners: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for choice in stage {
        if !choice
            .candidates
            .iter()
            .map(Candidate::speed)
            .eq(speeds.iter().copied())
        {
            return None;
        }
        // Two sets of next switches must be equal or disjoint.
        let nexts: Vec<usize> = choice.candidates.iter().map(|candidate| candidate.next).collect();
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

fn choose_by_colouring(stage: &[FlowNextHopChoice], speeds: &[u64]) -> Vec<usize> {
    let of_colour: Vec<usize> = speeds
        .iter()
        .enumerate()
        .flat_map(|(candidate, speed)| std::iter::repeat_n(candidate, *speed as usize))
        .collect();
    let (lefts, rights) = (
        assign_switch_numbers(stage, |choice| choice.switch),
        assign_switch_numbers(stage, |choice| choice.meets),
    );
    let edges: Vec<Edge> = stage
        .iter()
        .map(|choice| Edge {
            left: lefts[&choice.switch],
            class: u32::from(choice.turn),
            right: rights[&choice.meets],
        })
        .collect();
    let found = equitable_colouring(&edges, of_colour.len());
    found
        .into_iter()
        .map(|colour| of_colour[colour as usize])
        .collect()
}

/// Assigns consecutive numbers to the switches of a stage.
fn assign_switch_numbers(
    stage: &[FlowNextHopChoice],
    switch_of: fn(&FlowNextHopChoice) -> usize,
) -> BTreeMap<usize, u32> {
    let mut numbers: BTreeMap<usize, u32> = stage.iter().map(|choice| (switch_of(choice), 0)).collect();
    numbers
        .values_mut()
        .zip(0..)
        .for_each(|(number, next)| *number = next);
    numbers
}

/// Numbers of assigned flows: on links to a next switch (`up`), on links from a next switch (`down`), and
/// between two switches through one port (`pair`).
#[derive(Default)]
struct AssignedFlows {
    up: BTreeMap<(usize, PortId), u64>,
    down: BTreeMap<(usize, usize), u64>,
    pair: BTreeMap<(usize, usize, PortId), u64>,
}

impl AssignedFlows {
    /// Returns three loads of a candidate path. Two loads include the new flow: the load of the busier link,
    /// and the sum of the loads of both links. The third load is the number of flows that already use this
    /// path between the same two switches.
    fn load_with(&self, choice: &FlowNextHopChoice, candidate: &Candidate) -> (u64, u64, u64) {
        // Flows divided by speed, in units that fit into integers.
        let busy = |flows: Option<&u64>, speed: u64| {
            (flows.copied().unwrap_or(0) + 1) * 1_000_000_000 / speed.max(1)
        };
        let up = busy(self.up.get(&(choice.switch, candidate.port)), candidate.up_mbps);
        let down = busy(
            self.down.get(&(candidate.next, choice.meets)),
            candidate.down_mbps,
        );
        let pair = self.pair.get(&(choice.switch, choice.meets, candidate.port));
        (up.max(down), up + down, pair.copied().unwrap_or(0))
    }

    fn add(&mut self, choice: &FlowNextHopChoice, candidate: &Candidate) {
        *self.up.entry((choice.switch, candidate.port)).or_default() += 1;
        *self.down.entry((candidate.next, choice.meets)).or_default() += 1;
        *self
            .pair
            .entry((choice.switch, choice.meets, candidate.port))
            .or_default() += 1;
    }
}

/// Assigns each flow to the candidate with the lowest load. The loads of flows of the same turn are compared
/// first. The loads of all flows decide between equal candidates.
fn choose_least_loaded(stage: &[FlowNextHopChoice]) -> Vec<usize> {
    let mut all = AssignedFlows::default();
    let mut turns: BTreeMap<u16, AssignedFlows> = BTreeMap::new();
    let mut chosen = Vec::with_capacity(stage.len());
    for choice in stage {
        let turn = turns.entry(choice.turn).or_default();
        let load = |candidate: &Candidate| {
            (
                turn.load_with(choice, candidate),
                all.load_with(choice, candidate),
            )
        };
        let best = (0..choice.candidates.len())
            .min_by_key(|candidate| load(&choice.candidates[*candidate]))
            .unwrap_or(0);
        if let Some(candidate) = choice.candidates.get(best) {
            all.add(choice, candidate);
            turn.add(choice, candidate);
        }
        chosen.push(best);
    }
    chosen
}
