//! Invalid and unexpected packets.

use proptest::prelude::*;
use xoff_wire::{Aeth, NakCode, Reth, Syndrome};

use super::*;

fn write_only(dst_qp: u32, psn: u32) -> Packet {
    Packet {
        opcode: Opcode::RcWriteOnly,
        dst_qp,
        psn,
        ack_req: true,
        becn: false,
        payload_len: 100,
        header: ExtensionHeader::Reth(Reth {
            dma_len: 100,
            ..Reth::default()
        }),
    }
}

fn pop_syndrome(endpoint: &mut Endpoint) -> Option<Syndrome> {
    let outgoing = endpoint.pop_packet(Picos::ZERO, 3)?;
    match outgoing.packet.header {
        ExtensionHeader::Aeth(aeth) => Some(aeth.syndrome),
        other => panic!("{other:?}"),
    }
}

fn endpoint_with_queue_pair() -> Endpoint {
    let mut endpoint = Endpoint::new();
    endpoint.create_queue_pair(QpConfig::new(5, 6), Box::new(RecordingController::new(LINE_BPS)));
    endpoint
}

#[test]
fn a_packet_for_an_unknown_queue_pair_is_refused_and_its_caller_counts_it() {
    let mut endpoint = endpoint_with_queue_pair();
    assert!(!endpoint.receive(Picos::ZERO, &write_only(7, 0), ArrivalInfo::default()));
    assert_eq!(endpoint.counters().rx_unknown_qp, 0);
    endpoint.count_unknown_packet();
    assert_eq!(endpoint.counters().rx_unknown_qp, 1);
    assert_eq!(*endpoint.earliest_departures(), [Picos::NEVER; 8]);
}

#[test]
fn malformed_requests_get_a_nak_and_fail_the_requester() {
    let middle = Packet {
        opcode: Opcode::RcWriteMiddle,
        header: ExtensionHeader::None,
        ..write_only(5, 0)
    };
    let too_long = Packet {
        payload_len: 1025,
        ..write_only(5, 0)
    };
    let wrong_length = Packet {
        payload_len: 99,
        ..write_only(5, 0)
    };
    let short_first = Packet {
        opcode: Opcode::RcWriteFirst,
        ..write_only(5, 0)
    };
    for packet in [middle, too_long, wrong_length, short_first] {
        let mut endpoint = endpoint_with_queue_pair();
        endpoint.receive(Picos::ZERO, &packet, ArrivalInfo::default());
        assert_eq!(
            pop_syndrome(&mut endpoint),
            Some(Syndrome::Nak(NakCode::InvalidRequest)),
            "{packet:?}"
        );
        endpoint.receive(Picos::ZERO, &write_only(5, 0), ArrivalInfo::default());
        assert_eq!(pop_syndrome(&mut endpoint), None, "it has failed");
        assert_eq!(endpoint.counters().resp_invalid_requests, 1);
        assert_eq!(endpoint.completions().count(), 0);
    }
    let (mut link, qp, _) = connect_without_faults(|_| {});
    link.post(0, qp, 1, Verb::Write, 10);
    link.post(0, qp, 2, Verb::Write, 10);
    link.run(Picos::from_nanos(100));
    let refusal = Packet {
        opcode: Opcode::RcAcknowledge,
        header: ExtensionHeader::Aeth(Aeth {
            syndrome: Syndrome::Nak(NakCode::RemoteAccessError),
            msn: 0,
        }),
        payload_len: 0,
        ..write_only(0x10, 0)
    };
    link.ends[0].receive(link.now, &refusal, ArrivalInfo::default());
    link.run(SECOND);
    let why = FailReason::Refused(NakCode::RemoteAccessError);
    assert_eq!(link.failed(0), [(1, why), (2, FailReason::Flushed)]);
}

#[test]
fn unexpected_packets_are_discarded() {
    let mut endpoint = endpoint_with_queue_pair();
    let unknown = Packet {
        opcode: Opcode::from_u8(0xfe),
        ..write_only(5, 0)
    };
    let datagram = Packet {
        opcode: Opcode::UdSendOnly,
        ..write_only(5, 0)
    };
    let acknowledge = Packet {
        opcode: Opcode::RcAcknowledge,
        header: ExtensionHeader::None,
        ..write_only(5, 0)
    };
    let response = Packet {
        opcode: Opcode::RcReadResponseMiddle,
        header: ExtensionHeader::None,
        ..write_only(5, 0)
    };
    let headless = Packet {
        header: ExtensionHeader::None,
        ..write_only(5, 0)
    };
    let ancient = write_only(5, 1 << 23);
    for packet in [unknown, datagram, acknowledge, response, headless, ancient] {
        endpoint.receive(Picos::ZERO, &packet, ArrivalInfo::default());
        assert_eq!(pop_syndrome(&mut endpoint), None, "{packet:?}");
    }
    assert_eq!(endpoint.counters().rx_discarded, 6);
    endpoint.receive(Picos::ZERO, &write_only(5, 0), ArrivalInfo::default());
    assert_eq!(pop_syndrome(&mut endpoint), Some(Syndrome::ACK));
}

fn any_packet() -> impl Strategy<Value = Packet> {
    let opcode = prop_oneof![
        (0..Opcode::ALL.len()).prop_map(|n| Opcode::ALL[n]),
        any::<u8>().prop_map(Opcode::from_u8),
        Just(Opcode::RcAcknowledge),
    ];
    let psn = prop_oneof![0_u32..64, any::<u32>()];
    let length = prop_oneof![0_u32..300, Just(256), any::<u32>()];
    let header = prop_oneof![
        Just(ExtensionHeader::None),
        length.clone().prop_map(|dma_len| ExtensionHeader::Reth(Reth {
            dma_len,
            ..Reth::default()
        })),
        (any::<u8>(), any::<u32>()).prop_map(|(code, msn)| {
            ExtensionHeader::Aeth(Aeth {
                syndrome: Syndrome::from_u8(code),
                msn,
            })
        }),
    ];
    (
        opcode,
        0_u32..4,
        psn,
        any::<bool>(),
        any::<bool>(),
        length,
        header,
    )
        .prop_map(|fields| Packet {
            opcode: fields.0,
            dst_qp: fields.1,
            psn: fields.2,
            ack_req: fields.3,
            becn: fields.4,
            payload_len: fields.5,
            header: fields.6,
        })
}

proptest! {
    #[test]
    fn no_packet_causes_a_panic(
        packets in proptest::collection::vec((any_packet(), any::<bool>(), 0_u64..100_000), 1..200),
        recovery in 0..3,
        tolerant in any::<bool>(),
    ) {
        let mut endpoint = Endpoint::new();
        for (number, transport) in [Transport::Rc, Transport::Uc, Transport::Ud].into_iter().enumerate() {
            let mut config = QpConfig::new(number as u32, 9);
            config.transport = transport;
            config.mtu = 256;
            config.ack_timeout = 1;
            config.recovery =
                [Recovery::GoBackN, Recovery::GoBackZero, Recovery::SelectiveRepeat][recovery as usize];
            config.out_of_order = tolerant.then_some(Picos::from_nanos(100));
            config.receive_queue = ReceiveQueue::Posted;
            let qp = endpoint.create_queue_pair(config, Box::new(RecordingController::new(LINE_BPS)));
            endpoint.post_receives(Picos::ZERO, qp, 3);
            for (id, verb) in [Verb::Write, Verb::Send, Verb::Read, Verb::Write].into_iter().enumerate() {
                let bytes = if transport == Transport::Ud { 200 } else { 2_000 };
                let _ = endpoint.post(Picos::ZERO, qp, WorkRequest { id: id as u64, verb, bytes });
            }
        }
        let mut now = Picos::ZERO;
        for (packet, ce, wait) in packets {
            now = now.saturating_add(Picos::from_nanos(wait));
            endpoint.advance(now);
            for class in 0..8 {
                endpoint.pop_packet(now, class);
            }
            endpoint.receive(now, &packet, ArrivalInfo { ce, telemetry: None });
        }
        let ended = endpoint.completions().filter(|c| !matches!(c.kind, CompletionKind::Received { .. }));
        prop_assert!(ended.count() <= 12);
    }
}

/// An RNR NAK makes the requester go back. An older acknowledgement then reveals a missing READ. The READ
/// must be sent once, in order, and no timer may remain.
#[test]
fn a_late_acknowledgement_after_an_rnr_nak_repeats_nothing() {
    let mut endpoint = Endpoint::new();
    let mut config = QpConfig::new(5, 6);
    config.recovery = Recovery::SelectiveRepeat;
    config.ack_timeout = 1;
    let qp = endpoint.create_queue_pair(config, Box::new(RecordingController::new(LINE_BPS)));
    for (id, verb) in [Verb::Read, Verb::Write].into_iter().enumerate() {
        let request = WorkRequest {
            id: id as u64,
            verb,
            bytes: 10,
        };
        endpoint.post(Picos::ZERO, qp, request).unwrap();
    }
    let mut now = Picos::ZERO;
    while endpoint.earliest_departures()[3] != Picos::NEVER {
        now = now.max(endpoint.earliest_departures()[3]);
        assert!(endpoint.pop_packet(now, 3).is_some());
    }
    for (psn, syndrome) in [(0, Syndrome::RnrNak { timer: 1 }), (1, Syndrome::ACK)] {
        let packet = Packet {
            opcode: Opcode::RcAcknowledge,
            header: ExtensionHeader::Aeth(Aeth { syndrome, msn: 0 }),
            ..write_only(5, psn)
        };
        endpoint.receive(now, &packet, ArrivalInfo::default());
    }
    assert_eq!(endpoint.earliest_departures()[3], Picos::NEVER, "it waits");
    now = now.saturating_add(Picos::from_micros(11));
    endpoint.advance(now);
    let mut again = Vec::new();
    while endpoint.earliest_departures()[3] != Picos::NEVER {
        now = now.max(endpoint.earliest_departures()[3]);
        again.extend(endpoint.pop_packet(now, 3).map(|outgoing| outgoing.packet.psn));
    }
    assert_eq!(again, [0, 1]);
    endpoint.advance(now.saturating_add(Picos::from_millis(1)));
    assert_eq!(endpoint.counters().local_ack_timeout_err, 1);
}
