//! Jobs that consist of flows: lists, replays and random arrivals.

use std::collections::BTreeMap;

use xoff_units::Picos;

use super::completion_scope::CompletionScope;
use super::job_context::{ConnectionBuilder, JobContext};
use super::messages::TransferTag;
use super::spec::{FlowSpec, Repeat};

/// Value of [`TransferTag::edge`] in the timer that starts the next flow. In the timer for a later message of
/// a flow, `edge` is the index of the flow.
const NEXT_FLOW: u32 = u32::MAX;

/// A job of flows.
#[derive(Debug)]
pub(super) struct FlowListJob {
    /// The flows, sorted by start time.
    pub(super) flows: Vec<FlowSpec>,
    /// Index of the connection of each flow.
    pub(super) connections: Vec<u32>,
    /// Number of flows that have begun.
    begun_flows: usize,
    /// Number of incomplete messages, including the messages of flows that have not started.
    incomplete_messages: u64,
    total_messages: u64,
    posted_messages: u64,
    /// Whether a flow posts a message after the completion of its previous message.
    has_closed_loop: bool,
    start: Picos,
}

impl FlowListJob {
    /// Makes a job of valid flows.
    pub(super) fn new(flows: &[FlowSpec], connect: &mut ConnectionBuilder<'_>) -> FlowListJob {
        let mut flows = flows.to_vec();
        // The sort is stable: flows of the same start time keep the order of the list.
        flows.sort_by_key(|flow| flow.start);
        let mut known = BTreeMap::new();
        let mut connection = |flow: &FlowSpec| {
            *known
                .entry((flow.src, flow.dst))
                .or_insert_with(|| connect.add_connection(flow.src, flow.dst))
        };
        let connections = flows.iter().map(&mut connection).collect();
        let total = flows.iter().map(|flow| u64::from(message_count(flow))).sum();
        FlowListJob {
            has_closed_loop: flows
                .iter()
                .any(|flow| matches!(flow.repeat, Repeat::AfterCompletion { .. })),
            posted_messages: 0,
            flows,
            connections,
            begun_flows: 0,
            incomplete_messages: total,
            total_messages: total,
            start: Picos::NEVER,
        }
    }

    pub(super) fn start(&mut self, start: Picos, context: &mut JobContext<'_>) {
        self.start = start;
        self.set_timer_for_next_flow(context);
    }

    pub(super) fn handle_timer(&mut self, tag: TransferTag, context: &mut JobContext<'_>) {
        if tag.edge != NEXT_FLOW {
            self.post(tag.edge, tag.sequence as u32, context);
            return;
        }
        while let Some(flow) = self.flows.get(self.begun_flows)
            && self.start.saturating_add(flow.start) <= context.recorded_now()
        {
            self.begun_flows += 1;
            self.post(self.begun_flows as u32 - 1, 0, context);
        }
        self.set_timer_for_next_flow(context);
    }

    pub(super) fn handle_completion(&mut self, tag: TransferTag, context: &mut JobContext<'_>) {
        self.incomplete_messages = self.incomplete_messages.saturating_sub(1);
        let Some(flow) = self.flows.get(tag.edge as usize) else {
            return;
        };
        let next = tag.sequence + 1;
        if let Repeat::AfterCompletion { gap, count } = flow.repeat
            && next < u64::from(count)
        {
            let at = context.recorded_now().saturating_add(gap);
            context.schedule_recorded_time(
                at,
                TransferTag {
                    sequence: next,
                    ..tag
                },
            );
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.incomplete_messages == 0
    }

    /// Returns whether messages are posted and not complete.
    pub(super) fn has_messages_in_flight(&self) -> bool {
        self.posted_messages + self.incomplete_messages > self.total_messages
    }

    /// Returns which hosts the next completions can change. The job ends at all hosts, but not before its last message
    /// is posted. A closed loop sets timers, which all hosts share.
    pub(super) fn completion_scope(&self) -> CompletionScope {
        match !self.has_closed_loop && self.posted_messages < self.total_messages {
            true => CompletionScope::CompletingHost,
            false => CompletionScope::AllHosts,
        }
    }

    /// Returns the payload of all messages, in bytes.
    pub(super) fn total_bytes(&self) -> u64 {
        let bytes = self
            .flows
            .iter()
            .map(|flow| flow.bytes.saturating_mul(message_count(flow).into()));
        bytes.fold(0, u64::saturating_add)
    }

    pub(super) fn progress(&self) -> String {
        format!(
            "{} of {} complete",
            self.total_messages - self.incomplete_messages,
            xoff_units::count_noun(self.total_messages, "message")
        )
    }

    fn set_timer_for_next_flow(&self, context: &mut JobContext<'_>) {
        if let Some(flow) = self.flows.get(self.begun_flows) {
            let tag = TransferTag {
                edge: NEXT_FLOW,
                sequence: 0,
            };
            context.schedule_recorded_time(self.start.saturating_add(flow.start), tag);
        }
    }

    /// Posts message `number` of the flow `index`. If the flow is an open loop, also sets the timer for the
    /// next message.
    fn post(&mut self, index: u32, number: u32, context: &mut JobContext<'_>) {
        self.posted_messages += 1;
        let flow = self.flows[index as usize];
        let first = self.start.saturating_add(flow.start);
        let tag = TransferTag {
            edge: index,
            sequence: u64::from(number),
        };
        let due = match flow.repeat {
            Repeat::Every { interval, .. } => {
                first.saturating_add(Picos(interval.0.saturating_mul(u64::from(number))))
            }
            _ if number == 0 => first,
            _ => context.recorded_now(),
        };
        context.post(self.connections[index as usize], flow.bytes, tag, due, true);
        if let Repeat::Every { interval, count } = flow.repeat
            && number + 1 < count
        {
            let sequence = tag.sequence + 1;
            context.schedule_recorded_time(due.saturating_add(interval), TransferTag { sequence, ..tag });
        }
    }
}

/// Returns the number of messages of a flow.
pub(super) fn message_count(flow: &FlowSpec) -> u32 {
    match flow.repeat {
        Repeat::Once => 1,
        Repeat::Every { count, .. } | Repeat::AfterCompletion { count, .. } => count,
    }
}
