//! Model hosts with an RDMA NIC and RoCEv2 queue pairs.
//!
//! A lossless path needs hosts that honour PFC. The network stack of a kernel does not honour PFC, so xoff
//! has its own hosts. A [`Host`] performs no input or output and reads no clock. The caller passes arriving
//! frames and the time to the host, and sends the frames that the host returns.
//!
//! A host has these parts:
//!
//! - a NIC with eight transmit queues that share the link, honour PFC and never exceed the link speed
//! - open-loop flows: RDMA messages at a constant rate, with packet sequence numbers and ICRC
//! - queue pairs of [`xoff_rdma`], with acknowledgements, loss recovery and congestion control
//! - a receiver that verifies each ICRC and counts loss, reordering, duplicates and latency
//! - ARP, IPv6 neighbour discovery and echo replies
//!
//! An open-loop flow does not wait for acknowledgements and does not retransmit. The results of the receiver
//! therefore show every lost frame of the flow.
//!
//! # Example
//!
//! In this example, a host sends ten frames of one flow. A real caller would send each frame on a link:
//!
//! ```
//! use xoff_host::{FlowConfig, Host, HostConfig};
//! use xoff_units::{LinkTiming, Picos};
//!
//! let mut config = HostConfig::new("h1", [2, 0, 0, 0, 0, 1], LinkTiming::ethernet(100_000));
//! config.ipv4 = Some([10, 0, 0, 1].into());
//! let destination_mac = [2, 0, 0, 0, 0, 2];
//! config.flows.push(FlowConfig::lossless(0, [10, 0, 0, 2].into(), Some(destination_mac)));
//!
//! let mut host = Host::new(&config)?;
//! host.start(Picos::ZERO);
//! let mut buffer = vec![0; host.frame_len_max()];
//! let mut now = Picos::ZERO;
//! while host.sent_frames() < 10 {
//!     match host.transmit(now, now.as_nanos(), &mut buffer) {
//!         Some(frame_len) => assert!(frame_len >= 42),
//!         None => now = host.next_deadline(),
//!     }
//! }
//! # Ok::<(), xoff_host::HostConfigError>(())
//! ```

mod arp_nd;
mod config;
mod entropy;
mod flow_sender;
mod host;
mod nic;
mod nic_counts;
mod pacer;
mod queue_pair_path;
mod queue_pairs;
mod receive_buffer;
mod receiver;
mod roce_datagram;
mod schedule;
mod sequence;
mod stamp;
#[cfg(test)]
mod tests;

pub use config::{
    FLOWS_MAX, FixedLengths, FlowConfig, FlowOperation, FlowRate, Gateway, HostConfig, HostConfigError,
    NicConfig, PATH_MTU_MAX, ReceiveBuffer,
};
pub use entropy::{ENTROPY_VALUES_MAX, Entropy, EntropyPick};
pub use host::{
    HEADERS_LEN_MAX, Host, HostResults, InboundFrame, SENT_FRAME_LEN_MAX, SendFrameError, SentFlow,
    flow_report,
};
pub use nic::{CATCH_UP_FRAMES, NicCounters};
pub use queue_pairs::{EmittedFrame, QueuePairSetup};
pub use receive_buffer::ClassTrust;
pub use receiver::{ReceiveTotals, ReceivedFlow, TRACKED_FLOWS_MAX, UnstampedFlow};
pub use sequence::REORDER_WINDOW_FRAMES;
pub use stamp::{PayloadStamp, STAMP_BYTES};
