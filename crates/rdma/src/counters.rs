//! Counters of queue pairs. If the mlx5 driver of Linux has a counter with the same meaning in `hw_counters`,
//! the counter has the same name.

/// Counters of one queue pair, or the sums over all queue pairs of an endpoint. Byte counters count
/// payload only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counters {
    /// Number of sent packets, including acknowledgements and CNPs.
    pub tx_packets: u64,
    /// Payload bytes in sent packets, including retransmissions.
    pub tx_bytes: u64,
    /// Number of packets received for an existing queue pair.
    pub rx_packets: u64,
    /// Payload bytes in received packets, including packets that were discarded.
    pub rx_bytes: u64,
    /// Number of received data packets (SEND, WRITE and READ responses), including retransmissions.
    pub rx_data_packets: u64,
    /// Number of WRITE messages of which the first packet has arrived.
    pub rx_write_requests: u64,
    /// Number of data packets and READ requests that the requester sent again. Repeated READ responses are
    /// not included.
    pub retransmitted_packets: u64,
    /// Number of requests and READ responses that arrived after a gap.
    pub out_of_sequence: u64,
    /// Number of received NAKs with the code "PSN sequence error".
    pub packet_seq_err: u64,
    /// Number of request packets that had already arrived.
    pub duplicate_request: u64,
    /// Number of received RNR NAKs (receiver not ready).
    pub rnr_nak_retry_err: u64,
    /// Number of SEND messages that found no receive entry.
    pub out_of_buffer: u64,
    /// Number of local ACK timeouts of the requester.
    pub local_ack_timeout_err: u64,
    /// Number of implied NAKs: a later packet showed that a READ response is missing.
    pub implied_nak_seq_err: u64,
    /// Number of accepted READ requests, including repeated requests.
    pub rx_read_requests: u64,
    /// Number of received CNPs that were passed to congestion control.
    pub rp_cnp_handled: u64,
    /// Number of received CNPs that were ignored. A CNP is ignored if the queue pair does not use CNPs or
    /// has failed.
    pub rp_cnp_ignored: u64,
    /// Number of CNPs that the responder sent.
    pub np_cnp_sent: u64,
    /// Number of received requests and READ responses with the ECN mark CE.
    pub np_ecn_marked_roce_packets: u64,
    /// Number of queue pairs that failed because no retry of `retry_cnt` was left.
    pub req_transport_retries_exceeded: u64,
    /// Number of queue pairs that failed because no retry of `rnr_retry` was left.
    pub req_rnr_retries_exceeded: u64,
    /// Number of received NAKs with a code other than "PSN sequence error".
    pub req_remote_errors: u64,
    /// Number of requests that the responder rejected as malformed or at the wrong position of a message.
    pub resp_invalid_requests: u64,
    /// Number of packets that were discarded because their queue pair cannot process them. Examples:
    ///
    /// - a packet of another transport service or with an unknown opcode
    /// - an acknowledgement of a packet that was not sent
    /// - a READ response of the wrong length
    pub rx_discarded: u64,
    /// Number of packets for a queue pair that does not exist. Only the sums of an endpoint contain this
    /// number. In the counters of one queue pair, it is 0.
    pub rx_unknown_qp: u64,
}

impl Counters {
    /// Adds the values of `other` to these counters.
    pub fn add(&mut self, other: &Counters) {
        for ((_, own), (_, others)) in self.named_values_mut().into_iter().zip(other.named_values()) {
            *own += others;
        }
    }

    /// Returns the values since `earlier`, an older state of these counters, multiplied by `times` and rounded.
    #[must_use]
    pub fn repeated_since(&self, earlier: &Counters, times: f64) -> Counters {
        let mut counts = *self;
        for ((_, own), (_, earlier)) in counts.named_values_mut().into_iter().zip(earlier.named_values()) {
            *own = (own.saturating_sub(earlier) as f64 * times).round() as u64;
        }
        counts
    }
}

macro_rules! counter_names {
    ($($field:ident)*) => {
        impl Counters {
            /// Returns the name and the value of every counter.
            pub fn named_values(&self) -> [(&'static str, u64); 25] {
                [$((stringify!($field), self.$field)),*]
            }

            fn named_values_mut(&mut self) -> [(&'static str, &mut u64); 25] {
                [$((stringify!($field), &mut self.$field)),*]
            }
        }
    };
}

counter_names! {
    tx_packets tx_bytes rx_packets rx_bytes rx_data_packets retransmitted_packets out_of_sequence packet_seq_err
    duplicate_request rnr_nak_retry_err out_of_buffer local_ack_timeout_err implied_nak_seq_err rx_write_requests rx_read_requests
    rp_cnp_handled rp_cnp_ignored np_cnp_sent np_ecn_marked_roce_packets req_transport_retries_exceeded
    req_rnr_retries_exceeded req_remote_errors resp_invalid_requests rx_discarded rx_unknown_qp
}

impl Counters {
    /// Returns `out_of_sequence` plus `implied_nak_seq_err`, as a measure of reordering and loss.
    pub fn out_of_order_packets(&self) -> u64 {
        self.out_of_sequence + self.implied_nak_seq_err
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_name_and_is_summed() {
        assert_eq!(
            size_of::<Counters>(),
            size_of_val(&Counters::default().named_values().map(|(_, value)| value))
        );
        let mut sum = Counters {
            rx_unknown_qp: 2,
            ..Counters::default()
        };
        let other = sum;
        sum.add(&other);
        let expected = |name| if name == "rx_unknown_qp" { 4 } else { 0 };
        assert!(
            sum.named_values()
                .iter()
                .all(|(name, value)| *value == expected(*name))
        );
    }
}
