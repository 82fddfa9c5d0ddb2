//! Packets of queue pairs that a switch saw out of order, in JSON.

use serde::{Deserialize, Serialize};
use xoff_dataplane::balance::{ReorderCounts, ReorderingView, StreamView};

/// Most queue pairs that a report names, those with the most packets out of order first.
const STREAMS_NAMED: usize = 64;

/// What a switch has received out of order (`XOFF_LB|global reordering_flows`).
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct ReorderingReport {
    /// Packets of queue pairs whose order is known.
    pub packets: u64,
    /// Those that arrived behind one with a higher sequence number.
    pub out_of_order_packets: u64,
    /// Those that had arrived before, or that their sender went back for.
    pub repeated_packets: u64,
    /// How far below the highest sequence number one came at most.
    pub extent_max: u32,
    /// Packets of queue pairs that found no place in the table.
    pub untracked_packets: u64,
    /// Queue pairs known, requests and responses apart.
    pub streams: usize,
    /// Those with packets out of order, the most first; at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reordered: Vec<ReorderedStream>,
}

/// What went to a queue pair, requests or responses.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct ReorderedStream {
    /// Address of the sender.
    pub source: String,
    /// Address of the queue pair's host.
    pub destination: String,
    /// The queue pair.
    pub destination_qp: u32,
    /// READ responses and acknowledgements, not requests.
    pub responses: bool,
    /// Packets.
    pub packets: u64,
    /// As of the switch.
    pub out_of_order_packets: u64,
    /// As of the switch.
    pub repeated_packets: u64,
    /// As of the switch.
    pub extent_max: u32,
}

impl ReorderingReport {
    /// The JSON form.
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
        // Stable: those with as many are in the order in which they came.
        worst.sort_by_key(|stream| std::cmp::Reverse(stream.counts.out_of_order));
        worst.truncate(STREAMS_NAMED);
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
