//! Counters, under the names of Linux's RDMA `hw_counters` where those exist (mlx5; rxe and bnxt_re name them otherwise).

/// What happened at a queue pair, or at all of an endpoint. Bytes are of payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that began to leave, acknowledgements and CNPs included.
    pub tx_packets: u64,
    /// Payload bytes of them, repetitions included.
    pub tx_bytes: u64,
    /// Packets that arrived for a queue pair that exists.
    pub rx_packets: u64,
    /// Payload bytes of them, whatever became of them.
    pub rx_bytes: u64,
    /// Data packets that arrived (SEND, WRITE, READ responses), repetitions included.
    pub rx_data_packets: u64,
    /// Data packets and READ requests sent again.
    pub retransmitted_packets: u64,
    /// Requests that arrived behind a gap.
    pub out_of_sequence: u64,
    /// NAKs "PSN sequence error" received.
    pub packet_seq_err: u64,
    /// Request packets that had arrived before.
    pub duplicate_request: u64,
    /// RNR NAKs received.
    pub rnr_nak_retry_err: u64,
    /// SEND messages that found no receive entry.
    pub out_of_buffer: u64,
    /// Local ACK timeouts.
    pub local_ack_timeout_err: u64,
    /// READ responses found missing by what arrived after them.
    pub implied_nak_seq_err: u64,
    /// WRITE messages that began to arrive.
    pub rx_write_requests: u64,
    /// READ requests that arrived, repetitions included.
    pub rx_read_requests: u64,
    /// CNPs received and handed to congestion control.
    pub rp_cnp_handled: u64,
    /// CNPs received by a queue pair that does not react to them, or has failed.
    pub rp_cnp_ignored: u64,
    /// CNPs sent.
    pub np_cnp_sent: u64,
    /// Data packets that arrived marked CE.
    pub np_ecn_marked_roce_packets: u64,
    /// Queue pairs that failed after `retry_cnt` repetitions.
    pub req_transport_retries_exceeded: u64,
    /// Queue pairs that failed after `rnr_retry` repetitions.
    pub req_rnr_retries_exceeded: u64,
    /// Refusals received (NAKs other than sequence errors).
    pub req_remote_errors: u64,
    /// Requests refused as malformed, or out of place in their message.
    pub resp_invalid_requests: u64,
    /// Packets dropped because they mean nothing to their queue pair: another transport service, an unknown operation, an
    /// acknowledgement of what was not sent, a response of the wrong length.
    pub rx_discarded: u64,
    /// Packets for a queue pair that does not exist; in an endpoint's counters only.
    pub rx_unknown_qp: u64,
}

impl Counters {
    /// Adds another's numbers.
    pub fn add(&mut self, other: &Counters) {
        for ((_, own), (_, others)) in self.each_mut().into_iter().zip(other.each()) {
            *own += others;
        }
    }
}

macro_rules! names {
    ($($field:ident)*) => {
        impl Counters {
            /// Every counter with its name.
            pub fn each(&self) -> [(&'static str, u64); 25] {
                [$((stringify!($field), self.$field)),*]
            }

            fn each_mut(&mut self) -> [(&'static str, &mut u64); 25] {
                [$((stringify!($field), &mut self.$field)),*]
            }
        }
    };
}

names! {
    tx_packets tx_bytes rx_packets rx_bytes rx_data_packets retransmitted_packets out_of_sequence packet_seq_err
    duplicate_request rnr_nak_retry_err out_of_buffer local_ack_timeout_err implied_nak_seq_err rx_write_requests rx_read_requests
    rp_cnp_handled rp_cnp_ignored np_cnp_sent np_ecn_marked_roce_packets req_transport_retries_exceeded
    req_rnr_retries_exceeded req_remote_errors resp_invalid_requests rx_discarded rx_unknown_qp
}

impl Counters {
    /// Packets that arrived behind a gap: data packets at the responder, and READ responses at the requester.
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
            size_of_val(&Counters::default().each().map(|(_, value)| value))
        );
        let mut sum = Counters {
            rx_unknown_qp: 2,
            ..Counters::default()
        };
        let other = sum;
        sum.add(&other);
        let expected = |name| if name == "rx_unknown_qp" { 4 } else { 0 };
        assert!(sum.each().iter().all(|(name, value)| *value == expected(*name)));
    }
}
