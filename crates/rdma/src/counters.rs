//! Counters of queue pairs. If Linux has a counter with the same meaning in `hw_counters`, the name is that
//! of the mlx5 driver.

/// Counters of one queue pair, or the sums of an endpoint. Byte counters count payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets sent, acknowledgements and CNPs included.
    pub tx_packets: u64,
    /// Payload bytes sent, retransmissions included.
    pub tx_bytes: u64,
    /// Packets received for an existing queue pair.
    pub rx_packets: u64,
    /// Payload bytes received, discarded packets included.
    pub rx_bytes: u64,
    /// Data packets received (SEND, WRITE and READ responses), retransmissions included.
    pub rx_data_packets: u64,
    /// Data packets and READ requests sent again.
    pub retransmitted_packets: u64,
    /// Requests received after a gap.
    pub out_of_sequence: u64,
    /// NAKs with the code "PSN sequence error" received.
    pub packet_seq_err: u64,
    /// Duplicate request packets received.
    pub duplicate_request: u64,
    /// RNR NAKs received.
    pub rnr_nak_retry_err: u64,
    /// SEND messages that found no receive entry.
    pub out_of_buffer: u64,
    /// Local ACK timeouts of the requester.
    pub local_ack_timeout_err: u64,
    /// Implied NAKs: a later packet showed that a READ response is missing.
    pub implied_nak_seq_err: u64,
    /// WRITE messages of which the first packet has arrived.
    pub rx_write_requests: u64,
    /// READ requests received, repeated ones included.
    pub rx_read_requests: u64,
    /// CNPs received and passed to congestion control.
    pub rp_cnp_handled: u64,
    /// CNPs received by a queue pair that ignores CNPs or has failed.
    pub rp_cnp_ignored: u64,
    /// CNPs sent by the responder.
    pub np_cnp_sent: u64,
    /// Data packets received with the ECN mark CE.
    pub np_ecn_marked_roce_packets: u64,
    /// Queue pairs that failed after `retry_cnt` retries.
    pub req_transport_retries_exceeded: u64,
    /// Queue pairs that failed after `rnr_retry` retries.
    pub req_rnr_retries_exceeded: u64,
    /// NAKs received with a code other than "PSN sequence error".
    pub req_remote_errors: u64,
    /// Requests rejected as malformed, or as out of place in their message.
    pub resp_invalid_requests: u64,
    /// Number of packets that were discarded because their queue pair cannot process them. Examples are a
    /// packet of another transport service, an unknown opcode, an acknowledgement of an unsent packet, and a
    /// response of the wrong length.
    pub rx_discarded: u64,
    /// Number of packets for a queue pair that does not exist. Always 0 in the counters of a queue pair. Only
    /// an endpoint counts such packets.
    pub rx_unknown_qp: u64,
}

impl Counters {
    /// Adds the values of other counters.
    pub fn add(&mut self, other: &Counters) {
        for ((_, own), (_, others)) in self.named_values_mut().into_iter().zip(other.named_values()) {
            *own += others;
        }
    }
}

macro_rules! counter_names {
    ($($field:ident)*) => {
        impl Counters {
            /// Returns every counter with its name.
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
    /// Returns the number of packets that arrived after a gap: data packets at the responder plus READ
    /// responses at the requester.
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
