//! Frames and station addresses of the tester, and the configuration of the switch under test.

use xoff_dataplane::config::{BridgingConfig, PortConfig, RoutingConfig, SwitchConfig, TrustMode};
use xoff_dataplane::ids::TRAFFIC_CLASSES;
use xoff_dataplane::{LinkTiming, Picos};
use xoff_wire::{ETHERTYPE_IPV4, Ecn, PROTOCOL_UDP, rewrite};

/// Bytes that are stored for each frame in virtual time: its headers. The payload is not stored.
const STORED_HEADER_BYTES: usize = 64;
/// First UDP source port of a stream, the start of the dynamic range.
const FIRST_SOURCE_PORT: u16 = 49_152;
/// UDP destination port: the discard service.
const DISCARD_PORT: u16 = 9;
/// Ethertype for local experiments (IEEE 802).
const ETHERTYPE_EXPERIMENT: u16 = 0x88b5;

/// Returns the MAC address of the station at a switch port.
pub(crate) fn station_mac(port: u16) -> [u8; 6] {
    numbered_station_mac(port, 0)
}

/// Returns the MAC address of a station at a switch port. `number` is 0 to 2^24 - 1. Station 0 has the
/// address of [`station_mac`].
pub(crate) fn numbered_station_mac(port: u16, number: u32) -> [u8; 6] {
    let [_, a, b, c] = number.to_be_bytes();
    let [high, low] = port.to_be_bytes();
    [2, a, b, c, high, low]
}

/// Returns the traffic classes that frames can have at a port, in ascending order. Each entry has a class,
/// and the lowest DSCP (or PCP, as the port trusts) that the port maps to this class.
pub fn reachable_classes(port: &PortConfig) -> Vec<(u8, u8)> {
    let map: &[u8] = match port.classify.trust {
        TrustMode::Dscp => &port.classify.dscp_to_tc,
        TrustMode::Pcp => &port.classify.dot1p_to_tc,
    };
    let code = |class: u8| {
        map.iter()
            .position(|tc| *tc == class)
            .map(|code| (class, code as u8))
    };
    (0..TRAFFIC_CLASSES as u8).filter_map(code).collect()
}

/// Returns a copy of a configuration for tests. Only the ports with the indices `ports` are up, and they form
/// one bridge. The copy has no LAGs, VLANs, routes or watchdogs, because they can redirect or stop the frames
/// of the tester.
pub(crate) fn isolated_switch_config(config: &SwitchConfig, ports: &[usize]) -> SwitchConfig {
    let mut isolated = SwitchConfig {
        fdb_ageing: Picos::NEVER,
        lags: Vec::new(),
        bridging: BridgingConfig::Transparent,
        routing: RoutingConfig::default(),
        ..config.clone()
    };
    for (index, port) in isolated.ports.iter_mut().enumerate() {
        port.admin_up = ports.contains(&index);
        port.watchdog = None;
    }
    isolated
}

/// Header fields of a test frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameHeader {
    /// Destination MAC address.
    pub(crate) to: [u8; 6],
    /// Source MAC address.
    pub(crate) from: [u8; 6],
    /// DSCP, or PCP if the frame is tagged.
    pub(crate) class_code: u8,
    /// The frame has an 802.1Q tag with VLAN 0.
    pub(crate) is_tagged: bool,
    /// Number of the flow, which selects the UDP source port.
    pub(crate) flow: u16,
    /// Frame length in bytes, without FCS.
    pub(crate) frame_len: u32,
}

impl FrameHeader {
    /// Returns the first bytes of the frame, at most 64: Ethernet, an optional 802.1Q tag, IPv4 and UDP. The
    /// ECN field is ECT(0), so that a WRED profile marks the frame and does not drop it early.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut frame = vec![0; STORED_HEADER_BYTES.min(self.frame_len as usize)];
        frame[..6].copy_from_slice(&self.to);
        frame[6..12].copy_from_slice(&self.from);
        let mut at = 12;
        if self.is_tagged {
            frame[at..at + 2].copy_from_slice(&0x8100_u16.to_be_bytes());
            frame[at + 2..at + 4].copy_from_slice(&(u16::from(self.class_code) << 13).to_be_bytes());
            at += 4;
        }
        frame[at..at + 2].copy_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
        at += 2;
        let ip_len = (self.frame_len as usize - at) as u16;
        let ip = &mut frame[at..];
        (ip[0], ip[8], ip[9]) = (0x45, 64, PROTOCOL_UDP);
        ip[2..4].copy_from_slice(&ip_len.to_be_bytes());
        // RFC 2544 appendix C reserves 198.18.0.0/15 for device tests.
        ip[12..16].copy_from_slice(&[198, 18, self.from[4], self.from[5]]);
        ip[16..20].copy_from_slice(&[198, 19, self.to[4], self.to[5]]);
        ip[1] = (if self.is_tagged { 0 } else { self.class_code } << 2) | Ecn::Ect0 as u8;
        let sum: u32 = (0..10)
            .map(|n| u32::from(u16::from_be_bytes([ip[2 * n], ip[2 * n + 1]])))
            .sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        ip[10..12].copy_from_slice(&rewrite::update_checksum(0xffff, 0, folded as u16).to_be_bytes());
        let source = FIRST_SOURCE_PORT.wrapping_add(self.flow % (u16::MAX - FIRST_SOURCE_PORT));
        ip[20..22].copy_from_slice(&source.to_be_bytes());
        ip[22..24].copy_from_slice(&DISCARD_PORT.to_be_bytes());
        ip[24..26].copy_from_slice(&(ip_len - 20).to_be_bytes());
        frame
    }
}

/// Returns a broadcast frame from which switches learn the location of a station.
pub(crate) fn learning_frame(source: [u8; 6]) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&[0xff; 6]);
    frame[6..12].copy_from_slice(&source);
    frame[12..14].copy_from_slice(&ETHERTYPE_EXPERIMENT.to_be_bytes());
    frame
}

/// Returns the transmission time of the preamble and the start delimiter of a frame.
pub(crate) fn preamble_duration(link: &LinkTiming) -> Picos {
    link.duration(link.overhead_bytes - link.gap_bytes.min(link.overhead_bytes))
}
