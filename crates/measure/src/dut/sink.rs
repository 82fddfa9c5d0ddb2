//! What a tester makes of the frames that come out: counts, order, losses, latencies.

use xoff_units::Picos;

use super::outcome::{Latencies, Loss, StreamOutcome};
use super::traffic::{Destination, Stream};

/// The receiving side of one stream.
#[derive(Debug)]
pub(super) struct Received {
    to: Destination,
    group: usize,
    /// Number of the frame that comes next at each port.
    next: Vec<u64>,
    first_gap: Option<u64>,
    /// The latest number that is missing.
    last_gap: Option<u64>,
    outcome: StreamOutcome,
}

/// A frame that came out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    pub(super) port: usize,
    pub(super) number: u64,
    /// From the first bit sent to the last bit received.
    pub(super) span: Picos,
    /// While frames were sent, but for the cables.
    pub(super) in_time: bool,
}

impl Received {
    pub(super) fn new(stream: &Stream, ports: usize) -> Received {
        Received {
            to: stream.to,
            group: stream.group,
            next: vec![0; ports],
            first_gap: None,
            last_gap: None,
            outcome: StreamOutcome::default(),
        }
    }

    pub(super) fn take(&mut self, came: &Came, latencies: &mut [Latencies]) {
        if matches!(self.to, Destination::Port(to) if to != came.port) {
            self.outcome.stray += 1;
            return;
        }
        self.outcome.received += 1;
        self.outcome.received_in_time += u64::from(came.in_time);
        latencies[self.group].add(came.span);
        let next = &mut self.next[came.port];
        if came.number < *next {
            self.outcome.reordered += 1;
            return;
        }
        if came.number > *next {
            self.first_gap = Some(self.first_gap.map_or(*next, |first| first.min(*next)));
            self.last_gap = self.last_gap.max(Some(came.number - 1));
        }
        *next = came.number + 1;
    }

    /// What came of the stream, which sent `sent` of `wanted` frames. `ports`: of the tester. `at`: when a frame was sent.
    pub(super) fn finish(
        mut self,
        (sent, wanted): (u64, u64),
        from: usize,
        at: impl Fn(u64) -> Picos,
    ) -> StreamOutcome {
        let receivers = |port: &usize| match self.to {
            Destination::Port(to) => *port == to,
            Destination::Broadcast => *port != from,
        };
        let listening: Vec<usize> = (0..self.next.len()).filter(receivers).collect();
        for port in &listening {
            let next = self.next[*port];
            if next < sent {
                self.first_gap = Some(self.first_gap.map_or(next, |first| first.min(next)));
                self.last_gap = self.last_gap.max(Some(sent - 1));
            }
        }
        let loss = |number: Option<u64>| {
            number.map(|number| Loss {
                number,
                at: at(number),
            })
        };
        StreamOutcome {
            wanted,
            sent,
            expected: sent * listening.len() as u64,
            first_lost: loss(self.first_gap),
            last_lost: loss(self.last_gap),
            ..self.outcome
        }
    }
}
