//! The report of packets that a switch received out of order.

use serde::{Deserialize, Serialize};
use xoff_dataplane::balance::{ReorderCounts, ReorderingView, StreamView};

/// Largest number of queue pairs in a report. The report contains the queue pairs with the most packets out
/// of order.
const REPORTED_STREAMS_MAX: usize = 64;

/// Packets that a switch received out of order (`XOFF_LB|global reordering_flows`).
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct ReorderingReport {
    /// Packets of the tracked queue pairs.
    pub packets: u64,
    /// Packets that arrived after a packet with a higher sequence number.
    pub out_of_order_packets: u64,
    /// Packets that arrived more than once, or that the sender repeated.
    pub repeated_packets: u64,
    /// Largest distance of a packet from the highest sequence number received before it.
    pub extent_max: u32,
    /// Packets of queue pairs that did not fit into the table.
    pub untracked_packets: u64,
    /// Number of tracked streams. Requests and responses of a queue pair are two streams.
    pub streams: usize,
    /// Streams with packets out of order, at most 64. The stream with the most packets out of order is first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reordered: Vec<ReorderedStream>,
}

/// The requests or the responses that were sent to one queue pair.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct ReorderedStream {
    /// IP address of the sender.
    pub source: String,
    /// IP address of the receiver.
    pub destination: String,
    /// Queue pair number of the receiver.
    pub destination_qp: u32,
    /// Whether the stream consists of READ responses and acknowledgements instead of requests.
    pub responses: bool,
    /// Packets of the stream.
    pub packets: u64,
    /// Packets that arrived after a packet with a higher sequence number.
    pub out_of_order_packets: u64,
    /// Packets that arrived more than once, or that the sender repeated.
    pub repeated_packets: u64,
    /// Largest distance of a packet from the highest sequence number received before it.
    pub extent_max: u32,
}

impl ReorderingReport {
    /// Converts the counters of a switch to the JSON form.
    pub(super) fn new(view: &ReorderingView) -> ReorderingReport {
        let ReorderCounts {
            packets,
            out_of_order,
            repeated,
            extent_max,
        } = view.total;
        let mut worst: Vec<&StreamView> = view
            .streams
            .iter()
            .filter(|stream| stream.counts.out_of_order > 0)
            .collect();
        // The sort is stable: streams with equal counts keep the order of their first packets.
        worst.sort_by_key(|stream| std::cmp::Reverse(stream.counts.out_of_order));
        worst.truncate(REPORTED_STREAMS_MAX);
        ReorderingReport {
            packets,
            out_of_order_packets: out_of_order,
            repeated_packets: repeated,
            extent_max,
            untracked_packets: view.untracked_packets,
            streams: view.streams.len(),
            reordered: worst.into_iter().map(ReorderedStream::new).collect(),
        }
    }
}

impl ReorderedStream {
    fn new(stream: &StreamView) -> ReorderedStream {
        ReorderedStream {
            source: stream.source.to_string(),
            destination: stream.destination.to_string(),
            destination_qp: stream.destination_qp,
            responses: stream.responses,
            packets: stream.counts.packets,
            out_of_order_packets: stream.counts.out_of_order,
            repeated_packets: stream.counts.repeated,
            extent_max: stream.counts.extent_max,
        }
    }
}
