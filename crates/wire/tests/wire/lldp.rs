//! Properties of LLDP frames: what is written is read with the same values, and any bytes can be read.

use core::net::{Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use xoff_wire::dcbx::{DcbxConfiguration, DcbxPort};
use xoff_wire::lldp::{
    ApplicationEntry, ApplicationSelector, ChassisId, ChassisIdSubtype, DcbxTlvs, EtsConfiguration,
    EtsRecommendation, EtsTables, Lldpdu, ManagementAddress, NetworkAddress, PfcConfiguration, PortId,
    PortIdSubtype, RawTlv, SelectionAlgorithm, SystemCapabilities, write_tlvs,
};

fn tables() -> impl Strategy<Value = EtsTables> {
    let class = (0_u8..4, 1_u8..100);
    (prop::array::uniform8(0_u8..3), prop::array::uniform8(class)).prop_map(|(traffic_class, classes)| {
        let mut tables = EtsTables {
            traffic_class,
            ..EtsTables::default()
        };
        for (class, (number, _)) in classes.iter().enumerate() {
            let number = if *number == 3 { 255 } else { *number };
            tables.algorithm[class] = SelectionAlgorithm::from_number(number).expect("not reserved");
        }
        let ets = (0..8).filter(|&class| tables.algorithm[class] == SelectionAlgorithm::Ets);
        let ets: Vec<usize> = ets.collect();
        let mut left = 100;
        for (at, &class) in ets.iter().enumerate() {
            let share = if at + 1 == ets.len() {
                left
            } else {
                classes[class].1.min(left)
            };
            tables.bandwidth_percent[class] = share;
            left -= share;
        }
        tables
    })
}

fn pfc() -> impl Strategy<Value = PfcConfiguration> {
    (any::<(bool, bool, u8)>(), 0_u8..9).prop_map(|((is_willing, can_bypass_macsec, enabled), spare)| {
        PfcConfiguration {
            is_willing,
            can_bypass_macsec,
            capability: (enabled.count_ones() as u8 + spare).min(8),
            enabled,
        }
    })
}

fn applications() -> impl Strategy<Value = Vec<ApplicationEntry>> {
    prop::collection::btree_map((1_u8..6, any::<u16>()), 0_u8..8, 0..168).prop_map(|entries| {
        let mut entries: Vec<ApplicationEntry> = entries
            .into_iter()
            .map(|((selector, protocol), priority)| ApplicationEntry {
                priority,
                selector: ApplicationSelector::from_number(selector).expect("not reserved"),
                protocol,
            })
            .collect();
        entries.retain(|entry| entry.selector != ApplicationSelector::Dscp || entry.protocol < 64);
        entries
    })
}

fn dcbx() -> impl Strategy<Value = DcbxTlvs> {
    let configuration =
        (any::<bool>(), 3_u8..9, tables()).prop_map(|(is_willing, capability, tables)| EtsConfiguration {
            is_willing,
            supports_credit_based_shaper: true,
            capability,
            tables,
        });
    (
        option::of(configuration),
        option::of(tables()),
        option::of(pfc()),
        option::of(applications()),
    )
        .prop_map(
            |(ets_configuration, recommendation, pfc, applications)| DcbxTlvs {
                ets_configuration,
                ets_recommendation: recommendation.map(|tables| EtsRecommendation { tables }),
                pfc,
                applications,
            },
        )
}

fn management_address() -> impl Strategy<Value = ManagementAddress> {
    let address = prop_oneof![
        any::<u32>().prop_map(|bits| NetworkAddress::Ipv4(Ipv4Addr::from(bits))),
        any::<u128>().prop_map(|bits| NetworkAddress::Ipv6(Ipv6Addr::from(bits))),
        (3_u8.., vec(any::<u8>(), 1..32)).prop_map(|(family, bytes)| NetworkAddress::Other { family, bytes }),
    ];
    (address, 1_u8..4, any::<u32>(), vec(any::<u8>(), 0..129)).prop_map(
        |(address, interface_numbering, interface_number, object_id)| ManagementAddress {
            address,
            interface_numbering,
            interface_number,
            object_id,
        },
    )
}

fn other_tlv() -> impl Strategy<Value = RawTlv> {
    prop_oneof![
        (9_u8..127, vec(any::<u8>(), 0..512)).prop_map(|(kind, value)| RawTlv { kind, value }),
        (any::<([u8; 3], u8)>(), vec(any::<u8>(), 0..100)).prop_map(|((mut oui, subtype), information)| {
            oui[0] |= 1;
            RawTlv::organisation(oui, subtype, &information)
        }),
    ]
}

fn lldpdu() -> impl Strategy<Value = Lldpdu> {
    let identifiers = (
        1_u8..8,
        vec(any::<u8>(), 1..256),
        1_u8..8,
        vec(any::<u8>(), 1..256),
    );
    let identifiers = identifiers.prop_map(|(chassis, mut chassis_value, port, mut port_value)| {
        if chassis == 4 {
            chassis_value.resize(6, 0);
        }
        if port == 3 {
            port_value.resize(6, 0);
        }
        let chassis_id = ChassisId {
            subtype: ChassisIdSubtype::from_number(chassis),
            value: chassis_value,
        };
        let port_id = PortId {
            subtype: PortIdSubtype::from_number(port),
            value: port_value,
        };
        (chassis_id, port_id)
    });
    let text = || option::of("[ -~]{0,255}");
    (
        identifiers,
        1_u16..,
        (text(), text(), text()),
        option::of(0_u16..2048),
        vec(management_address(), 0..3),
        dcbx(),
        vec(other_tlv(), 0..4),
    )
        .prop_map(
            |((chassis_id, port_id), ttl_s, texts, bits, management_addresses, dcbx, others)| {
                let mut pdu = Lldpdu::new(chassis_id, port_id, ttl_s);
                (pdu.port_description, pdu.system_name, pdu.system_description) = texts;
                pdu.capabilities = bits.map(|supported| SystemCapabilities {
                    supported,
                    enabled: supported & 0x0554,
                });
                (pdu.management_addresses, pdu.dcbx, pdu.others) = (management_addresses, dcbx, others);
                pdu
            },
        )
}

/// Reads an LLDP frame, and writes and reads it again if it is valid.
pub(crate) fn read(frame: &[u8]) {
    let Ok(received) = Lldpdu::parse(frame) else {
        return;
    };
    let again = received
        .pdu
        .to_frame(received.source)
        .expect("valid TLVs can be written");
    let again = Lldpdu::parse(&again).expect("a written frame can be read");
    assert_eq!(again.pdu, received.pdu);
    assert!(again.rejected.is_empty());
    let mut port = DcbxPort::new([2, 0, 0, 0, 0, 1], DcbxConfiguration::default());
    port.receive(0, &received);
    assert_eq!(
        port.operational().pfc_enabled,
        0,
        "a port that is not willing keeps its configuration"
    );
    let texts = received.rejected.iter().chain(&received.warnings);
    assert!(
        texts
            .map(ToString::to_string)
            .all(|text| text.contains(" is ") && text.contains("IEEE 802.1"))
    );
}

proptest! {
    #[test]
    fn lldp_frames_are_read_as_written(pdu in lldpdu(), source: [u8; 6]) {
        let frame = pdu.to_frame(source).expect("all fields are in range");
        let received = Lldpdu::parse(&frame).expect("the frame is valid");
        prop_assert_eq!(&received.pdu, &pdu);
        prop_assert_eq!(received.source, source);
        prop_assert_eq!((received.rejected, received.warnings), (vec![], vec![]));
    }

    #[test]
    fn faults_and_truncations_are_read(
        pdu in lldpdu(),
        faults in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        len: prop::sample::Index,
    ) {
        let mut frame = pdu.to_frame([2; 6]).expect("all fields are in range");
        for (at, value) in faults {
            let at = at.index(frame.len());
            frame[at] ^= value;
        }
        read(&frame);
        read(&frame[..len.index(frame.len())]);
    }

    #[test]
    fn any_tlvs_are_read(tlvs in vec((any::<u8>(), vec(any::<u8>(), 0..40)), 0..12), dcbx: bool) {
        let mandatory = [(1, vec![7, 1]), (2, vec![7, 1]), (3, vec![0, 9])];
        let tlvs = mandatory.into_iter().chain(tlvs);
        let tlvs: Vec<RawTlv> = tlvs
            .map(|(kind, value)| match dcbx && kind >= 8 {
                true => RawTlv::organisation([0, 0x80, 0xc2], 9 + kind % 4, &value),
                false => RawTlv { kind, value },
            })
            .collect();
        read(&write_tlvs([2; 6], &tlvs));
    }

    #[test]
    fn any_bytes_are_read(bytes in vec(any::<u8>(), 0..200)) {
        read(&bytes);
        read(&[&[1, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 1, 0x88, 0xcc], &bytes[..]].concat());
    }
}
