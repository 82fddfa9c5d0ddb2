//! Vectors of scapy, and frames with one problem each.
//!
//! The vectors were made with scapy 2.8.0 (`scapy.contrib.lldp`): `raw(Ether(...) / LLDPDUChassisID(...) / ...)`.
//! scapy has no DCBX TLVs. They are `LLDPDUGenericOrganisationSpecific(org_code=0x0080c2, ...)` with fields packed
//! by hand. tshark 4.0.17 reports no malformed field in the valid vectors.

use super::*;
use crate::parse_hex_bytes;

/// All basic TLVs.
const FULL: &str = "0180c200000e02000000000a88cc 02070402000000000a 040a0545746865726e657430 06020078 \
    0809746f207370696e6531 0a056c65616631 0c04786f6666 0e0400140004 100c0501c00002010200000007000000";
/// ETS configuration and recommendation, PFC and application priorities.
const DCBX: &str = "0180c200000e02000000000a88cc 02070402000000000a 040a0545746865726e657430 06020078 \
    fe190080c209 83 00010020 3232000000000000 0202000000000000 \
    fe190080c20a 00 00010020 3232000000000000 0202000000000000 \
    fe060080c20b 8808 fe0b0080c20c 00 6312b7 c50030 0000";
const SHUTDOWN: &str =
    "0180c200000e02000000000a88cc 02070402000000000a 040a0545746865726e657430 06020000 0000";
/// Ethernet header and mandatory TLVs.
const HEAD: &str = "0180c200000e02000000000a88cc 02070402000000000a 040a0545746865726e657430 06020078";
/// Ethernet header without TLVs.
const HEADER: &str = "0180c200000e02000000000a88cc";

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 10];

fn hex(text: &str) -> Vec<u8> {
    parse_hex_bytes(text).expect("hexadecimal digits")
}

fn head() -> Lldpdu {
    Lldpdu::new(ChassisId::mac(MAC), PortId::interface_name("Ethernet0"), 120)
}

/// Parses the mandatory TLVs, the given TLVs and an end TLV.
fn parse_tlvs(tlvs: &str) -> ReceivedLldpdu {
    Lldpdu::parse(&hex(&format!("{HEAD}{tlvs}0000"))).expect("the mandatory TLVs are valid")
}

/// Returns the text of the only problem of the given TLVs.
fn rejection(tlvs: &str) -> String {
    let received = parse_tlvs(tlvs);
    assert_eq!(received.rejected.len(), 1, "{tlvs}: {received:?}");
    assert_eq!(received.pdu, head(), "the TLV is discarded: {tlvs}");
    received.rejected[0].to_string()
}

/// Returns the text of the only warning of the given TLVs, which are valid.
fn warning(tlvs: &str) -> String {
    let received = parse_tlvs(tlvs);
    assert_eq!(
        (received.rejected.len(), received.warnings.len()),
        (0, 1),
        "{tlvs}: {received:?}"
    );
    received.warnings[0].to_string()
}

/// Returns the text of the problem of a frame that is not valid as a whole.
fn refusal(frame: &str) -> String {
    Lldpdu::parse(&hex(frame))
        .expect_err("the frame is not valid")
        .to_string()
}

fn sample_tables() -> EtsTables {
    let (ets, strict) = (SelectionAlgorithm::Ets, SelectionAlgorithm::StrictPriority);
    EtsTables {
        traffic_class: [0, 0, 0, 1, 0, 0, 2, 0],
        bandwidth_percent: [50, 50, 0, 0, 0, 0, 0, 0],
        algorithm: [ets, ets, strict, strict, strict, strict, strict, strict],
    }
}

/// Asserts that the bytes of scapy give the LLDPDU, and that the LLDPDU gives the bytes of scapy.
fn assert_same_as_scapy(vector: &str, pdu: &Lldpdu) {
    let frame = hex(vector);
    let received = Lldpdu::parse(&frame).expect("a valid frame");
    assert_eq!(&received.pdu, pdu);
    assert_eq!((received.rejected, received.warnings), (vec![], vec![]));
    assert_eq!(received.source, MAC);
    let mut padded = frame;
    padded.resize(padded.len().max(60), 0);
    assert_eq!(pdu.to_frame(MAC), Ok(padded));
}

#[test]
fn basic_tlvs_of_scapy_are_read_and_written() {
    let mut pdu = head();
    pdu.port_description = Some("to spine1".to_owned());
    pdu.system_name = Some("leaf1".to_owned());
    pdu.system_description = Some("xoff".to_owned());
    pdu.capabilities = Some(SystemCapabilities {
        supported: capability::BRIDGE | capability::ROUTER,
        enabled: capability::BRIDGE,
    });
    let mut address = ManagementAddress::new(NetworkAddress::Ipv4([192, 0, 2, 1].into()));
    (address.interface_numbering, address.interface_number) = (2, 7);
    pdu.management_addresses.push(address);
    assert_same_as_scapy(FULL, &pdu);
}

#[test]
fn dcbx_tlvs_of_scapy_are_read_and_written() {
    let tables = sample_tables();
    let mut pdu = head();
    pdu.dcbx = DcbxTlvs {
        ets_configuration: Some(EtsConfiguration {
            is_willing: true,
            supports_credit_based_shaper: false,
            capability: 3,
            tables,
        }),
        ets_recommendation: Some(EtsRecommendation { tables }),
        pfc: Some(PfcConfiguration {
            is_willing: true,
            can_bypass_macsec: false,
            capability: 8,
            enabled: 1 << 3,
        }),
        applications: Some(vec![
            ApplicationEntry {
                priority: 3,
                selector: ApplicationSelector::UdpPort,
                protocol: crate::ROCE_UDP_PORT,
            },
            ApplicationEntry {
                priority: 6,
                selector: ApplicationSelector::Dscp,
                protocol: 48,
            },
        ]),
    };
    assert_same_as_scapy(DCBX, &pdu);
}

#[test]
fn shutdown_ignores_the_tlvs_after_the_mandatory_tlvs() {
    let shutdown = Lldpdu { ttl_s: 0, ..head() };
    assert_same_as_scapy(SHUTDOWN, &shutdown);
    let with_name = SHUTDOWN.replace("06020000", "06020000 0a056c65616631 0602");
    assert_eq!(
        Lldpdu::parse(&hex(&with_name)).map(|received| received.pdu),
        Ok(shutdown)
    );
}

#[test]
fn order_and_number_of_mandatory_tlvs_are_checked() {
    let (chassis, port, ttl) = ("02070402000000000a", "040a0545746865726e657430", "06020078");
    let clause = "(IEEE 802.1AB 8.2 and 9.2.7.7.1)";
    for (tlvs, text) in [
        // scapy: port ID before chassis ID.
        (
            format!("{port}{chassis}{ttl}0000"),
            "chassis ID: type of the first TLV is 2, expected 1 (chassis ID)",
        ),
        // scapy: no TTL.
        (
            format!("{chassis}{port}0000"),
            "time to live: type of the third TLV is 0, expected 3 (time to live)",
        ),
        // scapy: two TTLs.
        (
            format!("{chassis}{port}{ttl}060200070000"),
            "time to live: number of TLVs is 2, expected 1",
        ),
        (
            format!("{chassis}{port}{ttl}{chassis}0000"),
            "chassis ID: number of TLVs is 2, expected 1",
        ),
        (
            format!("{chassis}{port}"),
            "time to live: number of TLVs in the frame is 2, expected at least 3",
        ),
    ] {
        assert_eq!(refusal(&format!("{HEADER}{tlvs}")), format!("{text} {clause}"));
    }
}

#[test]
fn malformed_mandatory_tlvs_refuse_the_frame() {
    for (frame, text) in [
        (
            format!("{HEADER}020104"),
            "chassis ID: length in bytes is 1, expected 2 to 256 (IEEE 802.1AB 8.5.2)",
        ),
        (
            format!("{HEADER}02070402000000000a0400"),
            "port ID: length in bytes is 0, expected 2 to 256 (IEEE 802.1AB 8.5.3)",
        ),
        (
            format!("{HEADER}02070402000000000a0402053106010a"),
            "time to live: length in bytes is 1, expected 2 (IEEE 802.1AB 8.5.4)",
        ),
        (
            format!("{HEAD}0aff6c"),
            "LLDPDU: length of the last TLV is 255, expected at most the bytes up to the end of the frame \
             (IEEE 802.1AB 9.2.7.7.1)",
        ),
        (
            format!("{HEAD}0a"),
            "LLDPDU: bytes of the last TLV header is 1, expected 2 (IEEE 802.1AB 9.2.7.7.1)",
        ),
        (
            HEAD.replacen("88cc", "88cd", 1),
            "LLDP frame: ethertype is 35021, expected 35020 (0x88cc) (IEEE 802.1AB 7.1 to 7.4)",
        ),
        (
            HEAD.replacen("0180c200000e", "0180c2000001", 1),
            "LLDP frame: destination byte 5 is 1, expected 01:80:c2:00:00:0e (IEEE 802.1AB 7.1 to 7.4)",
        ),
    ] {
        assert_eq!(refusal(&frame), text);
    }
}

#[test]
fn malformed_basic_tlvs_are_rejected_and_named() {
    let long_text = format!("0b00{}", "41".repeat(256));
    for (tlvs, text) in [
        (
            long_text.as_str(),
            "system name: length in bytes is 256, expected 0 to 255 (IEEE 802.1AB 8.5.6)",
        ),
        (
            "0e03001400",
            "system capabilities: length in bytes is 3, expected 4 (IEEE 802.1AB 8.5.8)",
        ),
        (
            "0e0400040014",
            "system capabilities: enabled but unsupported capabilities is 16, expected 0 (IEEE 802.1AB 8.5.8)",
        ),
        (
            "1008 0501c00002010200",
            "management address: length in bytes is 8, expected 9 to 167 (IEEE 802.1AB 8.5.9)",
        ),
        (
            "100c 0101c0000201 02 00000007 00",
            "management address: address string length is 1, expected 2 to 32 (IEEE 802.1AB 8.5.9)",
        ),
        (
            "100c 0901c0000201 02 00000007 00",
            "management address: address string length is 9, expected at most the TLV length - 7 \
             (IEEE 802.1AB 8.5.9)",
        ),
        (
            "100c 0501c0000201 02 00000007 03",
            "management address: OID length is 3, expected the rest of the TLV, at most 128 bytes \
             (IEEE 802.1AB 8.5.9)",
        ),
        (
            "100c 0502c0000201 02 00000007 00",
            "management address: length of the IPv6 address is 4, expected 16 bytes (IEEE 802.1AB 8.5.9)",
        ),
        (
            "fe030080c2",
            "organisationally specific TLV: length in bytes is 3, expected 4 to 511 (IEEE 802.1AB 8.6)",
        ),
    ] {
        assert_eq!(rejection(tlvs), text);
    }
    let twice = parse_tlvs("0a0131 0a0132");
    assert_eq!(twice.pdu.system_name.as_deref(), Some("1"));
    assert_eq!(
        twice.rejected[0].to_string(),
        "system name: number of TLVs is 2, expected at most 1 (IEEE 802.1AB 8.5.6)"
    );
}

#[test]
fn malformed_ets_tlvs_are_rejected_and_named() {
    let configuration = |fields: &str| rejection(&format!("fe190080c209{fields}"));
    let (strict, first_class) = ("0000000000000000", "00000000");
    for (fields, text) in [
        // scapy: the sum of the bandwidth is 90.
        (
            "03 00010020 3228000000000000 0202000000000000".to_owned(),
            "sum of the bandwidth of the ETS classes is 90, expected 100 percent",
        ),
        (
            format!("00 {first_class} 6500000000000000 {strict}"),
            "bandwidth of traffic class 0 is 101, expected 0 to 100 percent",
        ),
        (
            format!("00 00900000 {strict} {strict}"),
            "traffic class of priority 2 is 9, expected 0 to 7",
        ),
        (
            format!("03 00000030 {strict} {strict}"),
            "traffic class of priority 6 is 3, expected below the traffic class capability of the TLV",
        ),
        (
            format!("00 {first_class} {strict} 0000030000000000"),
            "algorithm of traffic class 2 is 3, expected 0, 1, 2 or 255; 3 to 254 are reserved",
        ),
        (
            format!("00 {first_class} {strict} 0100000000000000"),
            "CBS bit is 0, expected 1, because a traffic class uses the credit-based shaper",
        ),
    ] {
        assert_eq!(
            configuration(&fields),
            format!("ETS configuration: {text} (IEEE 802.1Q-2018 D.2.8)")
        );
    }
    assert_eq!(
        rejection("fe050080c20900"),
        "ETS configuration: length in bytes is 5, expected 25 (IEEE 802.1Q-2018 D.2.8)"
    );
    assert_eq!(
        rejection("fe190080c20a 00 00010020 3228000000000000 0202000000000000"),
        "ETS recommendation: sum of the bandwidth of the ETS classes is 90, expected 100 percent \
         (IEEE 802.1Q-2018 D.2.9)"
    );
    assert_eq!(
        rejection("fe040080c20a"),
        "ETS recommendation: length in bytes is 4, expected 25 (IEEE 802.1Q-2018 D.2.9)"
    );
}

#[test]
fn malformed_pfc_and_application_tlvs_are_rejected_and_named() {
    for (tlvs, text) in [
        // scapy: two priorities with the capability 1.
        (
            "fe060080c20b 0118",
            "PFC configuration: number of enabled priorities is 2, expected at most the PFC capability of the TLV \
             (IEEE 802.1Q-2018 D.2.10)",
        ),
        (
            "fe060080c20b 0900",
            "PFC configuration: PFC capability is 9, expected 0 to 8 (IEEE 802.1Q-2018 D.2.10)",
        ),
        (
            "fe070080c20b 080000",
            "PFC configuration: length in bytes is 7, expected 6 (IEEE 802.1Q-2018 D.2.10)",
        ),
        (
            "fe040080c20c",
            "application priority: length in bytes is 4, expected at least 5 (IEEE 802.1Q-2018 D.2.11)",
        ),
        (
            "fe070080c20c 00 6312",
            "application priority: length in bytes is 7, expected 5 + 3 n (IEEE 802.1Q-2018 D.2.11)",
        ),
        (
            "fe080080c20c 00 c50040",
            "application priority: DSCP of entry 0 is 64, expected 0 to 63 (IEEE 802.1Q-2018 D.2.11)",
        ),
        (
            "fe0b0080c20c 00 6312b7 8312b7",
            "application priority: protocol of entry 1 is 4791, expected in one entry, but an earlier entry has \
             the same selector and protocol (IEEE 802.1Q-2018 D.2.11)",
        ),
    ] {
        assert_eq!(rejection(tlvs), text);
    }
}

#[test]
fn all_copies_of_a_dcbx_tlv_are_rejected() {
    let pfc = "fe060080c20b 0808";
    assert_eq!(
        rejection(&format!("{pfc}{pfc}")),
        "PFC configuration: number of TLVs is 2, expected 1 (IEEE 802.1Q-2018 D.2: one TLV of each DCBX subtype in \
         an LLDPDU)"
    );
    let received = parse_tlvs(&format!("{pfc} fe060080c20b 0118"));
    assert_eq!((received.rejected.len(), received.pdu.dcbx.pfc), (2, None));
}

#[test]
fn ignored_values_are_reported_as_warnings() {
    let configuration = "IEEE 802.1Q-2018 D.2.8";
    for (tlvs, text) in [
        (
            "fe190080c209 38 00000000 0000000000000000 0000000000000000",
            format!("ETS configuration: value of the reserved bits is 7, expected 0 ({configuration})"),
        ),
        (
            "fe190080c209 00 00000000 6400000000000000 0000000000000000",
            format!(
                "ETS configuration: bandwidth of traffic class 0 is 100, expected 0, because the algorithm is not \
                 ETS ({configuration})"
            ),
        ),
        (
            "fe190080c20a 80 00000000 0000000000000000 0000000000000000",
            "ETS recommendation: value of the reserved byte is 128, expected 0 (IEEE 802.1Q-2018 D.2.9)".to_owned(),
        ),
        (
            "fe060080c20b 3808",
            "PFC configuration: value of the reserved bits is 3, expected 0 (IEEE 802.1Q-2018 D.2.10)".to_owned(),
        ),
        (
            "fe080080c20c 00 6612b7",
            "application priority: selector of entry 0 is 6, expected 1 to 5 (IEEE 802.1Q-2018 D.2.11)".to_owned(),
        ),
        (
            "0e0480000000",
            "system capabilities: value of the reserved bits is 32768, expected 0 (IEEE 802.1AB 8.5.8)".to_owned(),
        ),
        (
            "0a0361ff62",
            "system name: offset of the first byte that is not UTF-8 is 1, expected UTF-8 text (IEEE 802.1AB 8.5.6)"
                .to_owned(),
        ),
    ] {
        assert_eq!(warning(tlvs), text);
    }
    let no_end = Lldpdu::parse(&hex(HEAD)).expect("a frame that ends after a TLV");
    assert_eq!(no_end.warnings[0].tlv, "end of LLDPDU");
}

#[test]
fn unknown_tlvs_are_kept() {
    let received = parse_tlvs("1803aabbcc fe05001b2102ff fe060080c2010001");
    assert_eq!((received.rejected.len(), received.warnings.len()), (0, 0));
    let others = &received.pdu.others;
    assert_eq!(
        (others[0].kind, others[0].value.as_slice()),
        (12, &[0xaa, 0xbb, 0xcc][..])
    );
    assert_eq!(
        others[1].as_organisation(),
        Some(([0, 0x1b, 0x21], 2, &[0xff][..]))
    );
    assert_eq!(others[2].as_organisation(), Some((OUI_IEEE_8021, 1, &[0, 1][..])));
}

#[test]
fn values_out_of_range_are_not_written() {
    let written = |change: fn(&mut Lldpdu)| {
        let mut pdu = head();
        change(&mut pdu);
        pdu.to_frame(MAC)
            .expect_err("a value is out of range")
            .to_string()
    };
    assert!(written(|pdu| pdu.chassis_id.value.clear()).starts_with("chassis ID: length in bytes is 1"));
    assert!(written(|pdu| pdu.system_name = Some("x".repeat(256))).starts_with("system name: length"));
    let end = |pdu: &mut Lldpdu| {
        pdu.others.push(RawTlv {
            kind: 0,
            value: vec![],
        });
    };
    assert!(written(end).starts_with("other TLV: type is 0, expected 9 to 127"));
    let pfc = |pdu: &mut Lldpdu| {
        pdu.others
            .push(RawTlv::organisation(OUI_IEEE_8021, 0x0b, &[8, 8]))
    };
    assert!(written(pfc).starts_with("other TLV: subtype is 11, expected not a DCBX TLV"));
}

#[test]
fn any_tlvs_can_be_written() {
    let tlvs = [(1, "0402000000000a"), (3, "78"), (127, "0080c20b0118")].map(|(kind, value)| RawTlv {
        kind,
        value: hex(value),
    });
    let frame = write_tlvs(MAC, &tlvs);
    assert_eq!(frame.len(), 60);
    assert_eq!(
        frame[14..],
        hex(&format!("02070402000000000a060178fe060080c20b0118{:0<52}", ""))[..]
    );
}

#[test]
fn identifiers_are_displayed() {
    assert_eq!(ChassisId::mac(MAC).to_string(), "02:00:00:00:00:0a");
    assert_eq!(ChassisId::local("leaf1").to_string(), "leaf1");
    assert_eq!(PortId::interface_name("Ethernet0").to_string(), "Ethernet0");
    let network = PortId {
        subtype: PortIdSubtype::Network,
        value: vec![1, 192, 0, 2, 1],
    };
    assert_eq!(network.to_string(), "192.0.2.1");
    let binary = ChassisId {
        subtype: ChassisIdSubtype::from_number(9),
        value: vec![0, 0xff],
    };
    assert_eq!(
        (binary.to_string().as_str(), binary.subtype.number()),
        ("00ff", 9)
    );
}
