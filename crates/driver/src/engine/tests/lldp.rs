//! Tests of the LLDP agent in the engine.

use xoff_dataplane::PuntReason;
use xoff_dataplane::config::LldpConfig;
use xoff_wire::dcbx::DcbxConfiguration;
use xoff_wire::lldp::{ChassisId, DESTINATION, Lldpdu, PortId as LldpPortId};
use xoff_wire::lldp_port::LldpPortSettings;

use super::*;

const SECOND: Picos = Picos::from_millis(1_000);
const PEER: [u8; 6] = [2, 0, 0, 0, 0, 0x77];

/// LLDP on the first port, with an interval of 5 s. The port is willing.
fn lldp_config() -> LldpConfig {
    let mut dcbx = DcbxConfiguration::default();
    dcbx.pfc.is_willing = true;
    let settings = LldpPortSettings {
        interval_s: 5,
        dcbx: Some(dcbx),
        ..LldpPortSettings::new(
            [2, 0, 0, 0, 1, 0],
            ChassisId::mac([2; 6]),
            LldpPortId::local("Ethernet0"),
        )
    };
    LldpConfig {
        ports: vec![Some(settings), None],
    }
}

/// Returns the frame of a peer with PFC on priority 3.
fn peer_frame() -> Vec<u8> {
    let mut dcbx = DcbxConfiguration::default();
    dcbx.pfc.enabled = 1 << 3;
    let port = xoff_wire::dcbx::DcbxPort::new(PEER, dcbx);
    let mut pdu = Lldpdu::new(ChassisId::mac(PEER), LldpPortId::mac(PEER), 7);
    pdu.dcbx = port.tlvs_to_send();
    pdu.to_frame(PEER).expect("the fields are in range")
}

impl EngineBench {
    fn configure_lldp(&mut self, now: Picos, config: Option<&LldpConfig>) {
        let sent = &mut self.sent;
        self.engine
            .configure_lldp(now, config, &mut self.store, &mut |transmit| sent.push(transmit));
    }

    /// Returns time and time to live of the LLDP frames that the first port has sent.
    fn sent_lldp_frames(&mut self) -> Vec<(Picos, u16)> {
        let mut frames = Vec::new();
        for transmit in std::mem::take(&mut self.sent) {
            let bytes = self.store.contents(transmit.frame);
            self.store.release(transmit.frame);
            assert_eq!((transmit.port, &bytes[..6]), (PortId(0), &DESTINATION[..]));
            let received = Lldpdu::parse(&bytes).expect("a valid frame");
            frames.push((transmit.start, received.pdu.ttl_s));
        }
        frames
    }

    fn receive_frame(&mut self, now: Picos, port: PortId, bytes: &[u8]) {
        let frame = self.store.insert(bytes).expect("a free slot");
        let arrival = ReceivedFrame {
            frame,
            frame_len: bytes.len() as u32,
            parsed: parse(bytes),
            received_at: now,
        };
        self.engine.receive_after_link_delay(port, arrival);
        self.run_until(now);
    }

    fn enabled_pfc(&self) -> u8 {
        self.engine.switch().flow_control(PortId(0)).enabled
    }
}

#[test]
fn frames_leave_at_their_times_even_after_a_late_wake_up() {
    let mut bench = EngineBench::with_config(&config(), [GIGABIT, GIGABIT]);
    bench.configure_lldp(SECOND, Some(&lldp_config()));
    bench.run_until(Picos(12 * SECOND.0));
    let times = [1, 6, 11].map(|seconds| (Picos(seconds * SECOND.0), 21));
    assert_eq!(bench.sent_lldp_frames(), times);
    assert_eq!(bench.engine.next_event(), Some(Picos(16 * SECOND.0)));
    assert_eq!(bench.store.in_use(), 0);
}

#[test]
fn a_received_configuration_takes_effect_until_it_expires() {
    let mut bench = EngineBench::with_config(&config(), [GIGABIT, GIGABIT]);
    bench.configure_lldp(Picos::ZERO, Some(&lldp_config()));
    bench.receive_frame(SECOND, PortId(0), &peer_frame());
    assert_eq!(bench.enabled_pfc(), 1 << 3);
    assert_eq!(
        bench
            .engine
            .lldp()
            .and_then(|lldp| lldp.port(PortId(0)))
            .map(|port| port.neighbours().len()),
        Some(1)
    );
    // The second port has no LLDP.
    bench.receive_frame(SECOND, PortId(1), &peer_frame());
    assert!(
        bench
            .engine
            .lldp()
            .is_some_and(|lldp| lldp.port(PortId(1)).is_none())
    );
    bench.run_until(Picos(8 * SECOND.0 - 1));
    assert_eq!(bench.enabled_pfc(), 1 << 3);
    bench.run_until(Picos(8 * SECOND.0));
    assert_eq!(bench.enabled_pfc(), 0);
    let snapshot = bench.engine.snapshot(
        &config(),
        &[PortDeviceInfo::default(), PortDeviceInfo::default()],
        Picos(8 * SECOND.0),
    );
    let report = snapshot.report.lldp.expect("LLDP is on");
    assert_eq!((report.ports.len(), report.ports[0].ageouts), (1, 1));
    // The begin and the end of the neighbour and of its PFC.
    assert_eq!(snapshot.events.len(), 4);
}

#[test]
fn lldp_that_is_turned_off_tells_its_neighbours_and_restores_the_configured_pfc() {
    let mut bench = EngineBench::with_config(&config(), [GIGABIT, GIGABIT]);
    bench.configure_lldp(Picos::ZERO, Some(&lldp_config()));
    bench.receive_frame(SECOND, PortId(0), &peer_frame());
    bench.run_until(SECOND);
    bench.sent_lldp_frames();
    bench.configure_lldp(Picos(SECOND.0 * 2), None);
    assert_eq!(bench.sent_lldp_frames(), [(Picos(SECOND.0 * 2), 0)]);
    assert_eq!((bench.enabled_pfc(), bench.engine.lldp().is_none()), (0, true));
    bench.receive_frame(Picos(SECOND.0 * 3), PortId(0), &peer_frame());
    let drops = bench
        .engine
        .switch()
        .dropped_frames_for(xoff_dataplane::DropReason::DmacReserved);
    assert_eq!((drops, bench.store.in_use()), (1, 0));
}

#[test]
fn entries_for_the_agent_have_no_frame() {
    for (reason, has_frame) in [
        (PuntReason::Timer, false),
        (PuntReason::LinkChange, false),
        (PuntReason::Protocol, true),
    ] {
        assert_eq!(reason.has_frame(), has_frame);
    }
}
