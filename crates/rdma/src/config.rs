//! Configuration of a queue pair.

use serde::{Deserialize, Serialize};
use xoff_units::Picos;
use xoff_wire::bth::MASK_24;

use super::congestion::CongestionFeedback;
use super::pacing::Pacing;

/// Smallest path MTU of a queue pair, in payload bytes.
pub const MTU_MIN: u32 = 64;
/// Largest path MTU of a queue pair, in payload bytes.
pub const MTU_MAX: u32 = 8192;
/// Largest retry count of InfiniBand. The value 7 of `retry_cnt` means seven retries. The value 7 of
/// `rnr_retry` means retries without limit (IBTA 9.7.5.2.8).
pub const RETRY_MAX: u8 = 7;

/// Index of a queue pair in its endpoint. Queue pairs are counted from 0 in the order of their creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QpIndex(pub u32);

/// Transport service of a queue pair (IBTA 9.7 to 9.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Transport {
    /// Reliable connection (RC): packets are acknowledged, retransmitted and delivered in order.
    #[default]
    Rc,
    /// Unreliable connection (UC): if a packet is lost, its whole message is discarded.
    Uc,
    /// Unreliable datagram (UD): each message is one packet.
    Ud,
}

/// Loss recovery of a reliable connection (RC). Both ends must use the same mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Recovery {
    /// Go-back-N. The responder discards all packets after a gap and sends one NAK. The requester sends again
    /// from the missing packet on (IBTA 9.7.5.1).
    #[default]
    GoBackN,
    /// Go-back-zero. If a packet is lost, the requester repeats the whole message. The first RoCE NICs worked
    /// like this ("RDMA over Commodity Ethernet at Scale", SIGCOMM 2016, section 4.1).
    GoBackZero,
    /// Selective repeat. The responder stores packets after a gap and sends one NAK for each missing packet.
    /// The requester repeats only the missing packets (IRN, SIGCOMM 2018). A NAK of this mode acknowledges
    /// no packets.
    SelectiveRepeat,
}

/// Source of the receive entries. Each arriving SEND message uses one receive entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReceiveQueue {
    /// Each SEND finds a receive entry.
    #[default]
    Unlimited,
    /// The host adds entries with [`Endpoint::post_receives`](super::Endpoint::post_receives). The queue is
    /// empty at the start. If a SEND of a reliable connection finds no entry, the responder sends an RNR NAK
    /// (receiver not ready). A SEND of UC or UD is lost.
    Posted,
    /// The receive queue is full at the start. While the queue is not full, the application adds one entry
    /// every `interval_ps` picoseconds. If a SEND finds no entry, the responder acts as with `Posted`: it
    /// sends an RNR NAK for a reliable connection, and the SEND is lost with UC or UD.
    Reposted {
        /// Number of entries of a full queue, 1 or more.
        depth: u32,
        /// Time between two added entries in picoseconds, 1 or more.
        interval_ps: u64,
    },
}

/// Configuration of a queue pair. Of queue pair numbers and PSNs, only the lower 24 bits are used. If any
/// further value is outside its range, the nearest limit of the range is used instead.
///
/// The fields that each packet uses come first, so that they share a cache line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct QpConfig {
    /// Number of this queue pair, 24 bits.
    pub number: u32,
    /// Number of the queue pair at the other end, 24 bits.
    pub peer: u32,
    /// Payload of a full packet in bytes (path MTU), [`MTU_MIN`] to [`MTU_MAX`]. InfiniBand defines 256, 512,
    /// 1024, 2048 and 4096 bytes. Simulators also use other values. Both ends must use the same value.
    /// Default 1024.
    pub mtu: u32,
    /// Length of a data packet without its payload in bytes, 0 to 65 536, for pacing. Default 62: Ethernet
    /// 14, IPv4 20, UDP 8, BTH 12, ICRC 4 and FCS 4.
    pub header_bytes: u32,
    /// Number of packets for which the responder sends one acknowledgement, 1 or more. The last packet of a
    /// message and packets with the AckReq bit are always acknowledged. Default 1.
    pub ack_every: u32,
    /// Transport service, the same at both ends. Default RC (reliable connection).
    pub transport: Transport,
    /// Class (transmit queue) of the NIC for requests and READ responses, 0 to 7. Default 3.
    pub data_class: u8,
    /// Class (transmit queue) of the NIC for acknowledgements, 0 to 7. Default 3.
    pub ack_class: u8,
    /// Class (transmit queue) of the NIC for CNPs, 0 to 7. Default 6.
    pub cnp_class: u8,
    /// Loss recovery of an RC queue pair. Default go-back-N.
    pub recovery: Recovery,
    /// Computation of the interval between two packets. Default exact.
    pub pacing: Pacing,
    /// Largest number of outstanding READ requests, 1 or more (`max_rd_atomic` of the verbs API). Default 16.
    pub reads_max: u8,
    /// Code of the local ACK timeout, 0 to 31. The timeout is 4.096 us times 2^code. The code 0 disables the
    /// timeout (IBTA 9.7.6.1.3). Default 14, which is 67 ms.
    pub ack_timeout: u8,
    /// Number of retries without progress after a loss. The queue pair then fails. Hardware supports 0 to
    /// [`RETRY_MAX`]. xoff also accepts larger values. Default 7.
    pub retry_cnt: u8,
    /// Number of retries without progress after RNR NAKs (receiver not ready). The queue pair then fails.
    /// [`RETRY_MAX`] or more means no limit. Default 7.
    pub rnr_retry: u8,
    /// Largest number of packets in flight, 1 or more, in addition to the window of congestion control.
    /// Default `None`: no limit.
    pub window_packets: Option<u32>,
    /// Largest number of payload bytes in flight, 1 or more, in addition to the window of congestion control.
    /// Default `None`: no limit.
    pub window_bytes: Option<u64>,
    /// Highest rate in bits per second, 1 or more, in addition to the rate of congestion control. Each packet
    /// counts with its payload, `header_bytes` and telemetry, without preamble and interframe gap. Default
    /// `None`: no limit.
    pub rate_bps_max: Option<u64>,
    /// Size of the reorder window of the receiver in packets, 1 to 65 536. The sender has at most this
    /// number of packets in flight. Used with selective repeat, and with go-back-N if `out_of_order` is set.
    /// Default 1024.
    pub reorder_window_packets: u32,
    /// Tolerated reordering time. The receiver stores packets after a gap and sends a NAK only if the gap
    /// lasts longer. Set this field for packet spraying. Go-back-N and selective repeat use this field, and
    /// go-back-zero ignores it. Default `None`: each gap counts as a loss.
    #[serde(with = "xoff_units::serde_picos::option")]
    pub out_of_order: Option<Picos>,
    /// Packet sequence number (PSN) of the first request of this queue pair, 24 bits. Default 0.
    pub first_psn: u32,
    /// Packet sequence number (PSN) of the first request of the peer, 24 bits. Default 0.
    pub peer_first_psn: u32,
    /// Feedback that the responder sends for ECN marks. Default none.
    pub feedback: CongestionFeedback,
    /// Code of the wait that this queue pair requests in RNR NAKs, 0 to 31
    /// ([`rnr_timer_us`](xoff_wire::ext::rnr_timer_us)). Default 12, which is 640 us.
    pub min_rnr_timer: u8,
    /// Source of the receive entries for SENDs. Default: unlimited entries.
    pub receive_queue: ReceiveQueue,
}

impl QpConfig {
    /// Creates the configuration of a reliable connection with all defaults. `number` is the own queue pair
    /// number, and `peer` the number of the other end.
    pub fn new(number: u32, peer: u32) -> QpConfig {
        QpConfig {
            number,
            peer,
            transport: Transport::Rc,
            mtu: 1024,
            first_psn: 0,
            peer_first_psn: 0,
            data_class: 3,
            ack_class: 3,
            cnp_class: 6,
            header_bytes: 62,
            feedback: CongestionFeedback::None,
            ack_every: 1,
            recovery: Recovery::GoBackN,
            out_of_order: None,
            reorder_window_packets: 1024,
            ack_timeout: 14,
            retry_cnt: RETRY_MAX,
            rnr_retry: RETRY_MAX,
            min_rnr_timer: 12,
            receive_queue: ReceiveQueue::Unlimited,
            window_packets: None,
            window_bytes: None,
            reads_max: 16,
            rate_bps_max: None,
            pacing: Pacing::Exact,
        }
    }

    /// Returns the configuration with every value in its range.
    pub(super) fn clamped(mut self) -> QpConfig {
        for number in [
            &mut self.number,
            &mut self.peer,
            &mut self.first_psn,
            &mut self.peer_first_psn,
        ] {
            *number &= MASK_24;
        }
        for class in [&mut self.data_class, &mut self.ack_class, &mut self.cnp_class] {
            *class = (*class).min(7);
        }
        self.mtu = self.mtu.clamp(MTU_MIN, MTU_MAX);
        self.header_bytes = self.header_bytes.min(65_536);
        self.ack_every = self.ack_every.max(1);
        self.reorder_window_packets = self.reorder_window_packets.clamp(1, 65_536);
        self.ack_timeout = self.ack_timeout.min(31);
        self.min_rnr_timer = self.min_rnr_timer.min(31);
        self.window_packets = self.window_packets.map(|packets| packets.max(1));
        self.window_bytes = self.window_bytes.map(|bytes| bytes.max(1));
        self.reads_max = self.reads_max.max(1);
        self
    }

    /// Returns the local ACK timeout. Returns `None` if the timeout is disabled.
    pub fn ack_timeout(&self) -> Option<Picos> {
        (self.ack_timeout > 0).then(|| Picos::from_nanos(4_096 << self.ack_timeout.min(31)))
    }

    /// Returns whether the receiver stores packets that arrive after a gap.
    pub(super) fn reorders(&self) -> bool {
        match self.recovery {
            Recovery::GoBackN => self.out_of_order.is_some(),
            Recovery::GoBackZero => false,
            Recovery::SelectiveRepeat => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_ack_timeout_doubles_with_each_step() {
        let timeout = |ack_timeout| {
            QpConfig {
                ack_timeout,
                ..QpConfig::new(1, 2)
            }
            .ack_timeout()
        };
        assert_eq!(timeout(0), None);
        assert_eq!(timeout(1), Some(Picos::from_nanos(8_192)));
        assert_eq!(timeout(14), Some(Picos::from_nanos(67_108_864)));
        assert_eq!(timeout(31), Some(Picos::from_nanos(4_096 << 31)));
    }

    #[test]
    fn values_out_of_range_are_clamped() {
        let config = QpConfig {
            mtu: 0,
            data_class: 9,
            first_psn: u32::MAX,
            ack_every: 0,
            window_packets: Some(0),
            ..QpConfig::new(u32::MAX, 1)
        }
        .clamped();
        assert_eq!((config.mtu, config.data_class, config.ack_every), (MTU_MIN, 7, 1));
        assert_eq!((config.number, config.first_psn), (MASK_24, MASK_24));
        assert_eq!(config.window_packets, Some(1));
    }
}
