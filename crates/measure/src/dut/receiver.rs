//! The receiving side of a tester. It measures the number, the order, the loss and the latency of
//! received frames.

use xoff_units::Picos;

use super::traffic::{StreamDestination, TrafficStream};
use super::trial_result::{LatencyHistogram, LostFrame, StreamResult};

/// Counts the received frames of one stream.
#[derive(Debug)]
pub(super) struct StreamReceiver {
    destination: StreamDestination,
    latency_group: usize,
    /// Number of the next expected frame at each port.
    next_numbers: Vec<u64>,
    first_gap: Option<u64>,
    /// Number of the last missing frame.
    last_gap: Option<u64>,
    result: StreamResult,
}

/// The arrival of one frame at a port of the tester.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameArrival {
    pub(super) port: usize,
    pub(super) number: u64,
    /// Time from the first bit sent to the last bit received.
    pub(super) latency: Picos,
    /// True if the frame arrived within the receive window ([`StreamResult::received_in_time`]).
    pub(super) is_in_time: bool,
}

impl StreamReceiver {
    pub(super) fn new(stream: &TrafficStream, port_count: usize) -> StreamReceiver {
        StreamReceiver {
            destination: stream.to,
            latency_group: stream.latency_group,
            next_numbers: vec![0; port_count],
            first_gap: None,
            last_gap: None,
            result: StreamResult::default(),
        }
    }

    pub(super) fn record_frame(&mut self, arrival: &FrameArrival, latencies: &mut [LatencyHistogram]) {
        if matches!(self.destination, StreamDestination::Port(to) if to != arrival.port) {
            self.result.stray += 1;
            return;
        }
        self.result.received += 1;
        self.result.received_in_time += u64::from(arrival.is_in_time);
        latencies[self.latency_group].add(arrival.latency);
        let next = &mut self.next_numbers[arrival.port];
        if arrival.number < *next {
            self.result.reordered += 1;
            return;
        }
        if arrival.number > *next {
            self.first_gap = Some(self.first_gap.map_or(*next, |first| first.min(*next)));
            self.last_gap = self.last_gap.max(Some(arrival.number - 1));
        }
        *next = arrival.number + 1;
    }

    /// Returns the result of the stream. `sent` and `wanted` are numbers of frames. `from_port` is the
    /// sending port, and `sent_at` returns the send time of a frame.
    pub(super) fn into_result(
        mut self,
        (sent, wanted): (u64, u64),
        from_port: usize,
        sent_at: impl Fn(u64) -> Picos,
    ) -> StreamResult {
        let receivers = |port: &usize| match self.destination {
            StreamDestination::Port(to) => *port == to,
            StreamDestination::Broadcast => *port != from_port,
        };
        let receiving_ports: Vec<usize> = (0..self.next_numbers.len()).filter(receivers).collect();
        for port in &receiving_ports {
            let next = self.next_numbers[*port];
            if next < sent {
                self.first_gap = Some(self.first_gap.map_or(next, |first| first.min(next)));
                self.last_gap = self.last_gap.max(Some(sent - 1));
            }
        }
        let loss = |number: Option<u64>| {
            number.map(|number| LostFrame {
                number,
                sent_at: sent_at(number),
            })
        };
        StreamResult {
            wanted,
            sent,
            expected: sent * receiving_ports.len() as u64,
            first_lost: loss(self.first_gap),
            last_lost: loss(self.last_gap),
            ..self.result
        }
    }
}
