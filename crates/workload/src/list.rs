//! Flows one by one: a list, a replay, random arrivals.

use std::collections::BTreeMap;

use xoff_units::Picos;

use super::engine::{Connect, Context};
use super::messages::Tag;
use super::spec::{FlowSpec, Repeat};

/// The tag of the timer for the next flow that has not begun; repetitions have the index of their flow.
const NEXT_FLOW: u32 = u32::MAX;

/// A job made of flows.
#[derive(Debug)]
pub(super) struct List {
    /// Sorted by start.
    pub(super) flows: Vec<FlowSpec>,
    /// Connection of each.
    pub(super) connections: Vec<u32>,
    /// Flows begun so far.
    begun: usize,
    /// Messages still to be completed, those of flows that have not begun included.
    left: u64,
    total: u64,
    start: Picos,
}

impl List {
    /// Of flows that have been checked.
    pub(super) fn new(flows: &[FlowSpec], connect: &mut Connect<'_>) -> List {
        let mut flows = flows.to_vec();
        // Stable: flows of the same time start in the order of the list.
        flows.sort_by_key(|flow| flow.start);
        let mut known = BTreeMap::new();
        let mut connection = |flow: &FlowSpec| {
            *known
                .entry((flow.src, flow.dst))
                .or_insert_with(|| connect.add(flow.src, flow.dst))
        };
        let connections = flows.iter().map(&mut connection).collect();
        let total = flows.iter().map(|flow| u64::from(messages(flow))).sum();
        List {
            flows,
            connections,
            begun: 0,
            left: total,
            total,
            start: Picos::NEVER,
        }
    }

    pub(super) fn start(&mut self, start: Picos, context: &mut Context<'_>) {
        self.start = start;
        self.await_next(context);
    }

    pub(super) fn called(&mut self, tag: Tag, context: &mut Context<'_>) {
        if tag.edge != NEXT_FLOW {
            self.post(tag.edge, tag.sequence as u32, context);
            return;
        }
        while let Some(flow) = self.flows.get(self.begun)
            && self.start.saturating_add(flow.start) <= context.now
        {
            self.begun += 1;
            self.post(self.begun as u32 - 1, 0, context);
        }
        self.await_next(context);
    }

    pub(super) fn completed(&mut self, tag: Tag, context: &mut Context<'_>) {
        self.left = self.left.saturating_sub(1);
        let Some(flow) = self.flows.get(tag.edge as usize) else {
            return;
        };
        let next = tag.sequence + 1;
        if let Repeat::AfterCompletion { gap, count } = flow.repeat
            && next < u64::from(count)
        {
            let at = context.now.saturating_add(gap);
            context.later(
                at,
                Tag {
                    sequence: next,
                    ..tag
                },
            );
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.left == 0
    }

    pub(super) fn progress(&self) -> String {
        format!("{} of {} messages complete", self.total - self.left, self.total)
    }

    fn await_next(&self, context: &mut Context<'_>) {
        if let Some(flow) = self.flows.get(self.begun) {
            let tag = Tag {
                edge: NEXT_FLOW,
                sequence: 0,
            };
            context.later(self.start.saturating_add(flow.start), tag);
        }
    }

    /// Posts a message of a flow, and sets the timer for the next one of an open loop.
    fn post(&mut self, index: u32, number: u32, context: &mut Context<'_>) {
        let flow = self.flows[index as usize];
        let first = self.start.saturating_add(flow.start);
        let tag = Tag {
            edge: index,
            sequence: u64::from(number),
        };
        let due = match flow.repeat {
            Repeat::Every { interval, .. } => {
                first.saturating_add(Picos(interval.0.saturating_mul(u64::from(number))))
            }
            _ if number == 0 => first,
            _ => context.now,
        };
        context.post(self.connections[index as usize], flow.bytes, tag, due, true);
        if let Repeat::Every { interval, count } = flow.repeat
            && number + 1 < count
        {
            let sequence = tag.sequence + 1;
            context.later(due.saturating_add(interval), Tag { sequence, ..tag });
        }
    }
}

/// How many messages a flow has.
pub(super) fn messages(flow: &FlowSpec) -> u32 {
    match flow.repeat {
        Repeat::Once => 1,
        Repeat::Every { count, .. } | Repeat::AfterCompletion { count, .. } => count,
    }
}
