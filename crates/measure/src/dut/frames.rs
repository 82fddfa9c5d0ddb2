//! The tester's stations and frames, and the switch as it stands between them.

use xoff_dataplane::config::{BridgingConfig, PortConfig, RoutingConfig, SwitchConfig, TrustMode};
use xoff_dataplane::ids::TRAFFIC_CLASSES;
use xoff_dataplane::{LinkTiming, Picos};
use xoff_wire::{ETHERTYPE_IPV4, Ecn, PROTOCOL_UDP, rewrite};

/// Octets of a frame that are stored in virtual time: its headers.
const HEADERS: usize = 64;
/// First UDP source port of a stream: the dynamic range.
const SOURCE_PORT: u16 = 49_152;
/// UDP destination port: discard.
const DISCARD: u16 = 9;
/// IEEE 802: local experiments.
const ETHERTYPE_EXPERIMENT: u16 = 0x88b5;

/// The address of the tester behind a port.
pub(crate) fn station(port: u16) -> [u8; 6] {
    numbered_station(port, 0)
}

/// One of many stations behind a port; number 0 is [`station`]. Numbers have 24 bits.
pub(crate) fn numbered_station(port: u16, number: u32) -> [u8; 6] {
    let [_, a, b, c] = number.to_be_bytes();
    let [high, low] = port.to_be_bytes();
    [2, a, b, c, high, low]
}

/// The traffic classes that frames of a port can have by their headers, each with a DSCP or 802.1p priority that leads there.
pub fn classes(port: &PortConfig) -> Vec<(u8, u8)> {
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

/// The configuration with nothing in it that could send a frame elsewhere or stop it, and with these ports alone up: their ports
/// form one bridge, and watchdogs are off.
pub(crate) fn alone(config: &SwitchConfig, ports: &[usize]) -> SwitchConfig {
    let mut alone = SwitchConfig {
        fdb_ageing: Picos::NEVER,
        lags: Vec::new(),
        bridging: BridgingConfig::Transparent,
        routing: RoutingConfig::default(),
        ..config.clone()
    };
    for (index, port) in alone.ports.iter_mut().enumerate() {
        port.admin_up = ports.contains(&index);
        port.watchdog = None;
    }
    alone
}

/// What the headers of a frame say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// Destination address.
    pub(crate) to: [u8; 6],
    /// Source address.
    pub(crate) from: [u8; 6],
    /// DSCP, or 802.1p priority if it is tagged.
    pub(crate) code: u8,
    /// With an 802.1Q tag of VLAN 0.
    pub(crate) is_tagged: bool,
    /// Its flow: the UDP source port.
    pub(crate) flow: u16,
    /// Length without FCS.
    pub(crate) frame_len: u32,
}

impl Header {
    /// Ethernet, a tag if 802.1p classifies, IPv4, UDP: what classifies a frame, and where it goes; at most 64 octets of it.
    /// ECT(0), so that where queues mark they do not drop early.
    pub(crate) fn octets(&self) -> Vec<u8> {
        let mut frame = vec![0; HEADERS.min(self.frame_len as usize)];
        frame[..6].copy_from_slice(&self.to);
        frame[6..12].copy_from_slice(&self.from);
        let mut at = 12;
        if self.is_tagged {
            frame[at..at + 2].copy_from_slice(&0x8100_u16.to_be_bytes());
            frame[at + 2..at + 4].copy_from_slice(&(u16::from(self.code) << 13).to_be_bytes());
            at += 4;
        }
        frame[at..at + 2].copy_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
        at += 2;
        let ip_len = (self.frame_len as usize - at) as u16;
        let ip = &mut frame[at..];
        (ip[0], ip[8], ip[9]) = (0x45, 64, PROTOCOL_UDP);
        ip[2..4].copy_from_slice(&ip_len.to_be_bytes());
        // RFC 2544, appendix C: 198.18.0.0/15 is for tests of devices.
        ip[12..16].copy_from_slice(&[198, 18, self.from[4], self.from[5]]);
        ip[16..20].copy_from_slice(&[198, 19, self.to[4], self.to[5]]);
        ip[1] = (if self.is_tagged { 0 } else { self.code } << 2) | Ecn::Ect0 as u8;
        let sum: u32 = (0..10)
            .map(|n| u32::from(u16::from_be_bytes([ip[2 * n], ip[2 * n + 1]])))
            .sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        ip[10..12].copy_from_slice(&rewrite::update_checksum(0xffff, 0, folded as u16).to_be_bytes());
        let source = SOURCE_PORT.wrapping_add(self.flow % (u16::MAX - SOURCE_PORT));
        ip[20..22].copy_from_slice(&source.to_be_bytes());
        ip[22..24].copy_from_slice(&DISCARD.to_be_bytes());
        ip[24..26].copy_from_slice(&(ip_len - 20).to_be_bytes());
        frame
    }
}

/// A broadcast by which switches learn where a station is.
pub(crate) fn hello(from: [u8; 6]) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&[0xff; 6]);
    frame[6..12].copy_from_slice(&from);
    frame[12..14].copy_from_slice(&ETHERTYPE_EXPERIMENT.to_be_bytes());
    frame
}

/// Preamble and start delimiter: what a link carries before the first bit of a frame.
pub(crate) fn preamble(link: &LinkTiming) -> Picos {
    link.duration(link.overhead_bytes - link.gap_bytes.min(link.overhead_bytes))
}
