//! The report of packets that a switch received out of order.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use xoff_dataplane::balance::{ReorderCounts, ReorderingView, StreamView};

/// Largest number of streams in a report. A stream contains the requests or the responses of a queue pair.
/// The report contains the streams with the most packets out of order.
const REPORTED_STREAMS_MAX: usize = 64;

/// Counters of RoCEv2 packets that a switch received out of order (`XOFF_LB|global reordering_flows`).
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct ReorderingReport {
    /// All packets of tracked streams. Requests and responses of a queue pair are two streams.
    pub packets: u64,
    /// Packets that arrived after a packet with a higher sequence number.
    pub out_of_order_packets: u64,
    /// Packets that arrived more than once, or that the sender sent again.
    pub repeated_packets: u64,
    /// Largest distance, in packets, of an out-of-order packet from the highest sequence number received
    /// before it (reordering extent of RFC 4737).
    pub extent_max: u32,
    /// Packets of streams that did not fit into the table of tracked streams.
    pub untracked_packets: u64,
    /// Number of streams in the table at the end. Requests and responses of a queue pair are two streams.
    pub streams: usize,
    /// The streams with the most packets out of order, at most 64, in descending order. Streams without such
    /// packets are not listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reordered: Vec<ReorderedStream>,
}

/// The requests or the responses that were sent to one queue pair.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct ReorderedStream {
    /// IP address of the sender.
    pub source: String,
    /// IP address of the receiver.
    pub destination: String,
    /// Queue pair number of the receiver, 24 bits.
    pub destination_qp: u32,
    /// True if the stream contains READ responses and acknowledgements. False if it contains requests.
    pub responses: bool,
    /// Packets of the stream.
    pub packets: u64,
    /// Packets that arrived after a packet with a higher sequence number.
    pub out_of_order_packets: u64,
    /// Packets that arrived more than once, or that the sender sent again.
    pub repeated_packets: u64,
    /// Largest distance, in packets, of an out-of-order packet from the highest sequence number received
    /// before it (reordering extent of RFC 4737).
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
        // The sort is stable: streams with equal counts keep the order of the table.
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
