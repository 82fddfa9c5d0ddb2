//! Every combination of willing ports, and neighbours that come and go.

use super::*;
use crate::lldp::{
    ApplicationEntry, ApplicationSelector, ChassisId, EtsTables, Lldpdu, PortId, ReceivedLldpdu,
    SelectionAlgorithm,
};

const LOW: [u8; 6] = [2, 0, 0, 0, 0, 1];
const HIGH: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Returns the frame that a port sends, as its peer receives it.
fn frame_of(port: &DcbxPort, mac: [u8; 6], ttl_s: u16) -> ReceivedLldpdu {
    let mut pdu = Lldpdu::new(ChassisId::mac(mac), PortId::local("1"), ttl_s);
    pdu.dcbx = port.tlvs_to_send();
    let frame = pdu.to_frame(mac).expect("the configuration is valid");
    let received = Lldpdu::parse(&frame).expect("the frame is valid");
    assert!(
        received.rejected.is_empty() && received.warnings.is_empty(),
        "{received:?}"
    );
    received
}

/// Lets both ports exchange frames three times. The first frames have the configuration before negotiation.
fn exchange(low: &mut DcbxPort, high: &mut DcbxPort) {
    for now_ns in 0..3 {
        let (from_low, from_high) = (frame_of(low, LOW, 120), frame_of(high, HIGH, 120));
        low.receive(now_ns, &from_high);
        high.receive(now_ns, &from_low);
    }
}

fn tables(share: u8) -> EtsTables {
    let mut tables = EtsTables {
        traffic_class: [0, 0, 0, 1, 0, 0, 0, 0],
        ..EtsTables::default()
    };
    tables.bandwidth_percent[..2].copy_from_slice(&[share, 100 - share]);
    tables.algorithm[..2].fill(SelectionAlgorithm::Ets);
    tables
}

fn configuration(willing_pfc: bool, willing_ets: bool, priorities: u8, share: u8) -> DcbxConfiguration {
    let mut configuration = DcbxConfiguration::default();
    configuration.pfc.is_willing = willing_pfc;
    configuration.pfc.enabled = priorities;
    configuration.ets.is_willing = willing_ets;
    configuration.ets.tables = tables(share);
    configuration.ets_recommendation = Some(tables(share));
    configuration
}

#[test]
fn pfc_agrees_in_every_combination_of_willing() {
    use ConfigurationSource::{Local, Peer};
    let (low_set, high_set) = (1 << 3, 1 << 4);
    for (low_willing, high_willing, low_result, high_result) in [
        (false, false, (low_set, Local), (high_set, Local)),
        (false, true, (low_set, Local), (low_set, Peer)),
        (true, false, (high_set, Peer), (high_set, Local)),
        // Both willing: the lower MAC address wins.
        (true, true, (low_set, Local), (low_set, Peer)),
    ] {
        let mut low = DcbxPort::new(LOW, configuration(low_willing, false, low_set, 50));
        let mut high = DcbxPort::new(HIGH, configuration(high_willing, false, high_set, 50));
        exchange(&mut low, &mut high);
        let (at_low, at_high) = (low.operational(), high.operational());
        assert_eq!((at_low.pfc_enabled, at_low.pfc_source), low_result);
        assert_eq!((at_high.pfc_enabled, at_high.pfc_source), high_result);
        if low_willing || high_willing {
            assert_eq!((at_low.mismatches, at_high.mismatches), (vec![], vec![]));
        } else {
            let text =
                "PFC: this port has PFC on priority 3, the peer on priority 4; neither port is willing";
            assert_eq!(at_low.mismatches[0].to_string(), text);
            assert_eq!(at_high.mismatches.len(), 1);
        }
    }
}

#[test]
fn ets_is_independent_in_each_direction() {
    use ConfigurationSource::{Local, Peer};
    for (low_willing, high_willing, low_result, high_result) in [
        (false, false, (60, Local), (70, Local)),
        (false, true, (60, Local), (60, Peer)),
        (true, false, (70, Peer), (70, Local)),
        // Both willing: each port uses the recommendation of the other port.
        (true, true, (70, Peer), (60, Peer)),
    ] {
        let mut low = DcbxPort::new(LOW, configuration(false, low_willing, 8, 60));
        let mut high = DcbxPort::new(HIGH, configuration(false, high_willing, 8, 70));
        exchange(&mut low, &mut high);
        let (at_low, at_high) = (low.operational(), high.operational());
        assert_eq!((at_low.ets.bandwidth_percent[0], at_low.ets_source), low_result);
        assert_eq!(
            (at_high.ets.bandwidth_percent[0], at_high.ets_source),
            high_result
        );
        let is_different = !low_willing && !high_willing;
        assert_eq!(
            at_low.mismatches.is_empty(),
            !is_different,
            "{:?}",
            at_low.mismatches
        );
        if is_different {
            let share = Mismatch::Bandwidth {
                priority: 3,
                local: 40,
                peer: 30,
            };
            assert!(at_low.mismatches.contains(&share));
        }
    }
}

#[test]
fn willing_port_without_recommendation_keeps_its_ets() {
    let mut low = DcbxPort::new(LOW, configuration(false, true, 8, 60));
    let mut without = configuration(false, false, 8, 60);
    without.ets_recommendation = None;
    let mut high = DcbxPort::new(HIGH, without);
    exchange(&mut low, &mut high);
    let operational = low.operational();
    assert_eq!(
        (operational.ets, operational.ets_source),
        (tables(60), ConfigurationSource::Local)
    );
    assert_eq!(operational.mismatches, []);
}

#[test]
fn configuration_beyond_the_capability_is_not_adopted() {
    let mut limited = configuration(true, true, 1 << 3, 60);
    (limited.pfc.capability, limited.ets.capability) = (1, 2);
    let mut low = DcbxPort::new(LOW, limited);
    let mut demanding = configuration(false, false, 0b11000, 70);
    let mut classes = tables(70);
    classes.traffic_class[6] = 5;
    demanding.ets_recommendation = Some(classes);
    let mut high = DcbxPort::new(HIGH, demanding);
    exchange(&mut low, &mut high);
    let operational = low.operational();
    assert_eq!((operational.pfc_enabled, operational.ets), (1 << 3, tables(60)));
    let texts: Vec<String> = operational.mismatches.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts[..2],
        [
            "PFC: the peer has PFC on priority 3 4, and this port has the capability 1",
            "ETS: the peer recommends traffic classes 0 to 5, and this port has the capability 2",
        ]
    );
    let texts: Vec<String> = high
        .operational()
        .mismatches
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        texts,
        [
            "PFC: this port has PFC on priority 3 4, and the peer has the capability 1",
            "ETS: this port recommends traffic classes 0 to 5, and the peer has the capability 2",
        ]
    );
}

#[test]
fn recommendation_with_an_unsupported_algorithm_is_not_adopted() {
    for (algorithm, name) in [
        (SelectionAlgorithm::CreditBasedShaper, "credit-based shaper"),
        (SelectionAlgorithm::VendorSpecific, "vendor-specific"),
    ] {
        let mut low = DcbxPort::new(LOW, configuration(false, true, 8, 60));
        let mut other = configuration(false, false, 8, 60);
        let mut recommended = EtsTables::default();
        recommended.algorithm[3] = algorithm;
        other.ets_recommendation = Some(recommended);
        let mut high = DcbxPort::new(HIGH, other);
        exchange(&mut low, &mut high);
        let texts = |port: &DcbxPort| -> Vec<String> {
            port.operational()
                .mismatches
                .iter()
                .map(ToString::to_string)
                .collect()
        };
        let at_low = format!("ETS: the peer recommends {name}, which this port does not support");
        let at_high = format!("ETS: this port recommends {name}, which the peer does not support");
        assert_eq!((texts(&low), texts(&high)), (vec![at_low], vec![at_high]));
        assert_eq!(low.operational().ets, tables(60));
    }
}

#[test]
fn a_recommendation_that_splits_a_queue_is_not_adopted() {
    let mut shared = configuration(false, true, 8, 60);
    // Priorities 2 and 3 have one queue, and the peer wants two classes for them.
    shared.queue_of_priority = [0, 1, 2, 2, 4, 5, 6, 7];
    let mut low = DcbxPort::new(LOW, shared);
    let mut high = DcbxPort::new(HIGH, configuration(false, false, 8, 70));
    exchange(&mut low, &mut high);
    let operational = low.operational();
    assert_eq!(
        (operational.ets, operational.ets_source),
        (tables(60), ConfigurationSource::Local)
    );
    assert_eq!(
        operational.mismatches[0].to_string(),
        "ETS: the peer recommends different traffic classes for priorities 2 and 3, and this port has both in queue 2"
    );
    // Priorities of one class may have different queues.
    let mut joined = low.configuration().clone();
    joined.queue_of_priority = [0, 1, 2, 3, 2, 2, 2, 2];
    low.set_configuration(joined);
    assert_eq!(low.operational().ets, tables(70));
    assert_eq!(low.operational().mismatches, []);
}

#[test]
fn equal_mac_addresses_are_reported() {
    let mut port = DcbxPort::new(LOW, configuration(true, false, 8, 50));
    let twin = DcbxPort::new(LOW, configuration(true, false, 16, 50));
    port.receive(0, &frame_of(&twin, LOW, 120));
    let operational = port.operational();
    assert_eq!(
        (operational.pfc_enabled, operational.mismatches),
        (8, vec![Mismatch::SameMacAddress])
    );
}

#[test]
fn information_expires_and_shutdown_removes_it() {
    let mut low = DcbxPort::new(LOW, configuration(true, false, 1 << 3, 50));
    let high = DcbxPort::new(HIGH, configuration(false, false, 1 << 4, 50));
    low.receive(5, &frame_of(&high, HIGH, 2));
    assert_eq!(
        (low.operational().pfc_enabled, low.next_expiry_ns()),
        (1 << 4, Some(2_000_000_005))
    );
    low.advance(2_000_000_004);
    assert_eq!(low.neighbour_state(), NeighbourState::One);
    low.advance(2_000_000_005);
    assert_eq!(
        (low.operational().pfc_enabled, low.neighbour_state()),
        (1 << 3, NeighbourState::None)
    );

    low.receive(6, &frame_of(&high, HIGH, u16::MAX));
    assert_eq!(low.operational().pfc_enabled, 1 << 4);
    low.receive(7, &frame_of(&high, HIGH, 0));
    assert_eq!(
        (low.operational().pfc_enabled, low.next_expiry_ns()),
        (1 << 3, None)
    );
}

#[test]
fn second_neighbour_disables_the_negotiation_until_it_expires() {
    let mut low = DcbxPort::new(LOW, configuration(true, true, 1 << 3, 60));
    let high = DcbxPort::new(HIGH, configuration(false, false, 1 << 4, 70));
    let third_mac = [2, 0, 0, 0, 0, 3];
    let third = DcbxPort::new(third_mac, configuration(false, false, 1 << 5, 80));
    low.receive(0, &frame_of(&high, HIGH, 10));
    low.receive(0, &frame_of(&third, third_mac, 1));
    assert_eq!(low.neighbour_state(), NeighbourState::Several);
    let operational = low.operational();
    assert_eq!((operational.pfc_enabled, operational.ets), (1 << 3, tables(60)));
    assert_eq!(
        operational.mismatches[0].to_string(),
        "number of neighbours with DCBX is 2, expected 1; the local configuration is used"
    );
    low.advance(1_000_000_000);
    assert_eq!(low.operational().pfc_enabled, 1 << 4);
}

#[test]
fn frame_without_dcbx_removes_the_neighbour() {
    let mut low = DcbxPort::new(LOW, configuration(true, true, 1 << 3, 60));
    let high = DcbxPort::new(HIGH, configuration(false, false, 1 << 4, 70));
    low.receive(0, &frame_of(&high, HIGH, 10));
    let mut received = frame_of(&high, HIGH, 10);
    received.pdu.dcbx = crate::lldp::DcbxTlvs::default();
    low.receive(1, &received);
    assert_eq!(low.neighbour_state(), NeighbourState::None);
}

#[test]
fn application_priorities_are_compared() {
    let entry = |priority, protocol| ApplicationEntry {
        priority,
        selector: ApplicationSelector::UdpPort,
        protocol,
    };
    let mut at_low = configuration(false, false, 8, 50);
    at_low.applications = vec![entry(3, 4791), entry(1, 9), entry(2, 10)];
    let mut at_high = configuration(false, false, 8, 50);
    at_high.applications = vec![entry(4, 4791), entry(1, 9), entry(7, 11)];
    let (mut low, mut high) = (DcbxPort::new(LOW, at_low), DcbxPort::new(HIGH, at_high));
    exchange(&mut low, &mut high);
    let texts: Vec<String> = low
        .operational()
        .mismatches
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        texts,
        ["UDP or DCCP port 4791 has priority 3 at this port, 4 at the peer"]
    );
}

#[test]
fn number_of_neighbours_is_limited() {
    let mut low = DcbxPort::new(LOW, configuration(true, false, 1 << 3, 50));
    for last in 0..40 {
        let mac = [2, 0, 0, 0, 1, last];
        low.receive(
            0,
            &frame_of(&DcbxPort::new(mac, DcbxConfiguration::default()), mac, 10),
        );
    }
    assert_eq!(low.operational().mismatches, [Mismatch::SeveralNeighbours(16)]);
    low.remove_neighbours();
    assert_eq!(low.neighbour_state(), NeighbourState::None);
}
