//! How a queue pair is set up.

use serde::{Deserialize, Serialize};
use xoff_units::Picos;
use xoff_wire::bth::MASK_24;

use super::congestion::Feedback;
use super::pacing::Pacing;

/// Smallest path MTU a queue pair takes, in payload bytes.
pub const MTU_MIN: u32 = 64;
/// Largest path MTU a queue pair takes, in payload bytes.
pub const MTU_MAX: u32 = 8192;
/// `retry_cnt` and `rnr_retry` of this value: for RNR, without end (IBTA 9.7.5.2.8); for timeouts, just seven.
pub const RETRY_MAX: u8 = 7;

/// Place of a queue pair in its endpoint: 0 for the first one created, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QpIndex(pub u32);

/// Transport service of a queue pair (IBTA 9.7 to 9.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Transport {
    /// Reliable connection: acknowledged, repeated, in order.
    #[default]
    Rc,
    /// Unreliable connection: a message that loses a packet is dropped as a whole.
    Uc,
    /// Unreliable datagram: one packet per message.
    Ud,
}

/// What happens after a loss on a reliable connection. Both ends must agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Recovery {
    /// The receiver drops all behind a gap and names it once; the sender resumes there (IBTA 9.7.5.1).
    #[default]
    GoBackN,
    /// The message that lost a packet begins again with its first one: what the first RoCE NICs did ("RDMA over Commodity
    /// Ethernet at Scale", SIGCOMM 2016, section 4.1, livelock).
    GoBackZero,
    /// The receiver keeps what arrives behind a gap and names each missing packet once; only those are repeated (IRN,
    /// SIGCOMM 2018). A NAK of this mode acknowledges nothing.
    SelectiveRepeat,
}

/// Where an arriving SEND finds its receive entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReceiveQueue {
    /// There is always one.
    #[default]
    Unlimited,
    /// Those of [`Endpoint::post_receives`](super::Endpoint::post_receives); without one, RNR NAK.
    Posted,
    /// A queue of `depth` entries, 1 or more, full at first. The application re-posts one entry every `interval_ps` picoseconds while
    /// the queue is not full; without an entry, RNR NAK.
    Reposted {
        /// Entries of a full queue.
        depth: u32,
        /// Time from one re-posted entry to the next, 1 or more.
        interval_ps: u64,
    },
}

/// A queue pair. Values outside their range are brought to its nearest end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QpConfig {
    /// Its number, 24 bits.
    pub number: u32,
    /// Number of the queue pair at the other end, 24 bits.
    pub peer: u32,
    /// Service. Default RC.
    pub transport: Transport,
    /// Payload of a full packet, [`MTU_MIN`] to [`MTU_MAX`] bytes; InfiniBand knows 256, 512, 1024, 2048, 4096, simulators
    /// others. Both ends must agree. Default 1024.
    pub mtu: u32,
    /// PSN of its first request, 24 bits.
    pub first_psn: u32,
    /// PSN of the peer's first request, 24 bits.
    pub peer_first_psn: u32,
    /// NIC class of requests and READ responses, 0 to 7. Default 3.
    pub data_class: u8,
    /// NIC class of acknowledgements, 0 to 7. Default 3.
    pub ack_class: u8,
    /// NIC class of CNPs, 0 to 7. Default 6.
    pub cnp_class: u8,
    /// Bytes of a data packet beside its payload, counted for pacing. Default 62: Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4,
    /// FCS 4.
    pub header_bytes: u32,
    /// What its receiving side says of congestion marks. Default nothing.
    pub feedback: Feedback,
    /// Its receiving side acknowledges every so many packets, and always the last of a message and where asked; 1 or more.
    /// Default 1.
    pub ack_every: u32,
    /// Default go-back-N.
    pub recovery: Recovery,
    /// The receiver keeps packets that arrive behind a gap, with go-back-N too, and complains of a gap only when it has lasted
    /// this long: for spraying. Go-back-0 keeps nothing and ignores this. Default `None`.
    #[serde(with = "xoff_units::serde_picos::option")]
    pub out_of_order: Option<Picos>,
    /// Packets from the oldest missing one that a receiver keeps (`SelectiveRepeat`, `out_of_order`), 1 to 65 536; also the
    /// most that a sender in either mode has outstanding. Default 1024.
    pub reorder_window_packets: u32,
    /// Local ACK timeout: 4.096 us x 2^this, 1 to 31; 0: none (IBTA 9.7.6.1.3). Default 14, 67 ms.
    pub ack_timeout: u8,
    /// Repetitions without progress before the queue pair fails, 0 to [`RETRY_MAX`] in hardware; greater values count too.
    /// Default 7.
    pub retry_cnt: u8,
    /// RNR NAKs without progress before the queue pair fails; [`RETRY_MAX`] and more: any number. Default 7.
    pub rnr_retry: u8,
    /// Timer code of its RNR NAKs, 0 to 31 ([`rnr_timer_us`](xoff_wire::ext::rnr_timer_us)). Default 12, 640 us.
    pub min_rnr_timer: u8,
    /// Default unlimited.
    pub receive_queue: ReceiveQueue,
    /// Most packets outstanding, beside the controller's window. Default `None`.
    pub window_packets: Option<u32>,
    /// Most payload bytes outstanding, beside the controller's window. Default `None`.
    pub window_bytes: Option<u64>,
    /// Most READ requests outstanding, 1 or more, as `max_rd_atomic` of verbs. Default 16.
    pub reads_max: u8,
    /// Rate limiter, bits per second of whole packets, beside the controller's rate. Default `None`.
    pub rate_bps_max: Option<u64>,
    /// How the time between two packets is computed. Default exact.
    pub pacing: Pacing,
}

impl QpConfig {
    /// A reliable connection between two numbers with the defaults of each field, both ends starting at PSN 0.
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
            feedback: Feedback::None,
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

    /// The same with every value in its range.
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

    /// The local ACK timeout as a time; `None`: it never comes.
    pub fn ack_timeout(&self) -> Option<Picos> {
        (self.ack_timeout > 0).then(|| Picos::from_nanos(4_096 << self.ack_timeout.min(31)))
    }

    /// Whether the receiving side keeps packets behind a gap.
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
    fn values_beyond_their_range_are_brought_back() {
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
