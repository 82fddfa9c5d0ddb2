//! Frames of every kind, and the expected treatment of each by a switch with the configuration of [`config`].
//!
//! Vlan10 is untagged on ports 0 to 2 and tagged on port 3; Vlan20 is tagged on ports 1 to 3.

use serde_json::{Map, Value, json};

use crate::switch_process::port_name;

pub(crate) const PORTS: usize = 4;
/// Frames that a port sends before the test waits for all: below congestion, and within the sockets of the
/// far ends.
const BURST_FRAMES: usize = 8;
const VLAN10: u8 = 10;
const VLAN20: u8 = 20;
/// Value in place of a class in the addresses of stations that send no IP.
const NO_IP: u8 = 9;

/// A frame, its ingress port and its expected treatment.
pub(crate) struct TestFrame {
    pub(crate) from: usize,
    pub(crate) bytes: Vec<u8>,
    pub(crate) treatment: Treatment,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Treatment {
    /// The frame leaves by these ports.
    To(Vec<usize>),
    /// The switch drops the frame for this reason.
    Dropped(&'static str),
    /// The port backend drops the frame before the switch receives it.
    Refused(&'static str),
    /// The frame is a PFC frame.
    Pfc,
    /// The frame is an 802.3x PAUSE frame.
    Pause,
}

/// Returns eight traffic classes by DSCP, each with its own queue and priority group. PFC is enabled on
/// priorities 3 and 4.
pub(crate) fn config() -> Value {
    let mut config = qos_tables();
    config["PORT"] = ports_of_mtu(1500);
    config["VLAN"] = json!({"Vlan10": {}, "Vlan20": {}});
    let untagged = (0..3).map(|n| (10, n, "untagged"));
    let tagged = [(10, 3, "tagged")].into_iter();
    let members = untagged.chain(tagged).chain((1..4).map(|n| (20, n, "tagged")));
    config["VLAN_MEMBER"] = members
        .map(|(vlan, n, mode)| {
            (
                format!("Vlan{vlan}|{}", port_name(n)),
                json!({"tagging_mode": mode}),
            )
        })
        .collect::<Map<String, Value>>()
        .into();
    config
}

/// Returns a table `PORT` in which all ports have this MTU. Without the table, the MTU of a port is that of its
/// device.
pub(crate) fn ports_of_mtu(mtu: u32) -> Value {
    let ports = (0..PORTS).map(|n| (port_name(n), json!({"mtu": mtu.to_string()})));
    ports.collect::<Map<String, Value>>().into()
}

/// Returns only the QoS tables of [`config`].
pub(crate) fn qos_tables() -> Value {
    let same: Map<String, Value> = (0..8).map(|n| (n.to_string(), n.to_string().into())).collect();
    let dscp: Map<String, Value> = (0..8)
        .map(|n| ((8 * n).to_string(), n.to_string().into()))
        .collect();
    let map = json!({"dscp_to_tc_map": "M", "tc_to_queue_map": "M", "tc_to_pg_map": "M", "pfc_to_queue_map": "M",
        "pfc_enable": "3,4"});
    let ports: Map<String, Value> = (0..PORTS).map(|n| (port_name(n), map.clone())).collect();
    json!({
        "DSCP_TO_TC_MAP": {"M": dscp},
        "TC_TO_QUEUE_MAP": {"M": same},
        "TC_TO_PRIORITY_GROUP_MAP": {"M": same},
        "MAP_PFC_PRIORITY_TO_QUEUE": {"M": same},
        "PORT_QOS_MAP": ports,
    })
}

/// Returns the address of a station. All frames of one sender use one queue, so that their order is kept.
pub(crate) const fn station_mac(vlan: u8, port: usize, class: u8) -> [u8; 6] {
    [0x02, 0x78, vlan, port as u8, class, 1]
}

/// Returns an Ethernet frame with an IPv6 packet of `len` bytes in traffic class `class` by [`qos_tables`].
pub(crate) fn ipv6_frame(dst: [u8; 6], src: [u8; 6], class: u8, id: u32, len: usize) -> Vec<u8> {
    let tos = class << 5;
    let payload = (len - 54) as u16;
    let mut frame = frame_with_ethertype(dst, src, [0x86, 0xdd], id, len);
    frame[14..18].copy_from_slice(&[0x60 | tos >> 4, tos << 4, 0, 0]);
    frame[18..20].copy_from_slice(&payload.to_be_bytes());
    // No next header, and a hop limit.
    frame[20..22].copy_from_slice(&[59, 64]);
    frame
}

/// Returns a frame of any ethertype with a pattern. A frame that is long enough ends with its number.
fn frame_with_ethertype(dst: [u8; 6], src: [u8; 6], ethertype: [u8; 2], id: u32, len: usize) -> Vec<u8> {
    let mut frame = [&dst[..], &src, &ethertype].concat();
    frame.extend((frame.len()..len).map(|at| at as u8));
    if len >= 18 {
        frame[len - 4..].copy_from_slice(&id.to_be_bytes());
    }
    frame
}

fn insert_vlan_tag(frame: &[u8], tpid: u16, tci: u16) -> Vec<u8> {
    [
        &frame[..12],
        &tpid.to_be_bytes(),
        &tci.to_be_bytes(),
        &frame[12..],
    ]
    .concat()
}

/// Returns a MAC control frame: opcode, then parameters.
pub(crate) fn mac_control_frame(opcode: u16, parameters: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x01, 0x80, 0xc2, 0, 0, 1, 0x02, 0x78, 0, 0, 0, 2, 0x88, 0x08];
    frame.extend(opcode.to_be_bytes());
    frame.extend(parameters);
    frame.resize(60, 0);
    frame
}

/// Returns a PFC frame that pauses `class` for `quanta`. Zero ends the pause.
pub(crate) fn pfc_frame(class: usize, quanta: u16) -> Vec<u8> {
    let mut parameters = [0; 18];
    parameters[1] = 1 << class;
    parameters[2 + 2 * class..4 + 2 * class].copy_from_slice(&quanta.to_be_bytes());
    mac_control_frame(0x0101, &parameters)
}

/// Returns the frame without the tag that a bridge may add or remove.
pub(crate) fn without_vlan_tag(frame: &[u8]) -> Vec<u8> {
    match frame {
        [
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            0x81,
            0x00,
            _,
            0 | VLAN10 | VLAN20,
            ..,
        ] => [&frame[..12], &frame[16..]].concat(),
        _ => frame.to_vec(),
    }
}

/// Returns the input in bursts. The test waits for the end of each burst. The first one makes every station
/// known, one frame at a time.
pub(crate) fn input_bursts(bursts: usize) -> Vec<Vec<TestFrame>> {
    let mut generator = FrameGenerator { random: 1, id: 0 };
    let mut input: Vec<Vec<TestFrame>> = (0..PORTS)
        .flat_map(|from| [(VLAN10, from), (VLAN20, from)])
        .filter(|&(vlan, from)| vlan == VLAN10 || from > 0)
        .map(|(vlan, from)| vec![generator.announcement_frame(vlan, from)])
        .collect();
    for _ in 0..bursts {
        let burst = (0..BURST_FRAMES * PORTS).map(|n| generator.random_frame(n % PORTS));
        input.push(burst.collect());
    }
    input
}

struct FrameGenerator {
    random: u64,
    id: u32,
}

impl FrameGenerator {
    /// Returns a pseudo-random number below `bound` (Knuth's MMIX generator).
    fn below(&mut self, bound: usize) -> usize {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.random >> 33) % bound as u64) as usize
    }

    fn next_id(&mut self) -> u32 {
        self.id += 1;
        self.id
    }

    /// Returns a frame in the form that a station of `vlan` at port `from` sends.
    fn frame_of_station(&self, vlan: u8, from: usize, bytes: Vec<u8>, treatment: Treatment) -> TestFrame {
        let bytes = match vlan == VLAN20 || from == 3 {
            true => insert_vlan_tag(&bytes, 0x8100, u16::from(vlan) | 0x6000),
            false => bytes,
        };
        TestFrame {
            from,
            bytes,
            treatment,
        }
    }

    fn announcement_frame(&mut self, vlan: u8, from: usize) -> TestFrame {
        let frame = ipv6_frame([0xff; 6], station_mac(vlan, from, 0), 0, self.next_id(), 60);
        self.frame_of_station(vlan, from, frame, other_ports(vlan, from))
    }

    /// Returns a frame of any kind.
    fn random_frame(&mut self, from: usize) -> TestFrame {
        let (id, kind, class) = (self.next_id(), self.below(20), self.below(8) as u8);
        let to = (from + 1 + self.below(PORTS - 1)) % PORTS;
        let len = 60 + self.below(1455);
        let (src, dst) = (station_mac(VLAN10, from, class), station_mac(VLAN10, to, 0));
        let plain = station_mac(VLAN10, from, NO_IP);
        let local = [0x88, 0xb5];
        let in_vlan10 = |bytes, treatment| self.frame_of_station(VLAN10, from, bytes, treatment);
        let untagged = |bytes, treatment| TestFrame {
            from,
            bytes,
            treatment,
        };
        // An untagged frame on port 3 belongs to no VLAN.
        let if_untagged = |treatment| match from {
            3 => Treatment::Dropped("INGRESS_VLAN_FILTER"),
            _ => treatment,
        };
        let unicast = Treatment::To(vec![to]);
        let flood = other_ports(VLAN10, from);
        match kind {
            0 => in_vlan10(
                ipv6_frame([0x02, 0x78, 0xff, 0, 0, 1], src, class, id, len),
                flood,
            ),
            1 => in_vlan10(ipv6_frame([0x33, 0x33, 0, 0, 0, 9], src, class, id, len), flood),
            2 => in_vlan10(
                frame_with_ethertype(dst, plain, local, id, 24 + len % 36),
                unicast,
            ),
            3 => in_vlan10(ipv6_frame(dst, src, class, id, 1514), unicast),
            4 => self.vlan20_frame(from, class, id, len),
            5 => untagged(
                ipv6_frame([0x01, 0x80, 0xc2, 0, 0, 0x0e], src, class, id, len),
                Treatment::Dropped("DMAC_RESERVED"),
            ),
            6 => untagged(
                ipv6_frame(dst, [0x03, 0, 0, 0, 0, 1], class, id, len),
                Treatment::Dropped("SMAC_MULTICAST"),
            ),
            7 => untagged(
                ipv6_frame(src, src, class, id, len),
                Treatment::Dropped("SMAC_EQUALS_DMAC"),
            ),
            8 => in_vlan10(
                ipv6_frame(
                    station_mac(VLAN10, from, 0),
                    station_mac(VLAN10, from, NO_IP),
                    class,
                    id,
                    len,
                ),
                Treatment::Dropped("L2_LOOPBACK_FILTER"),
            ),
            9 => untagged(pfc_frame(4, u16::from(class % 2)), Treatment::Pfc),
            10 => untagged(mac_control_frame(0x0001, &[0xff, 0xff]), Treatment::Pause),
            11 => untagged(
                mac_control_frame(0x0102, &[]),
                Treatment::Dropped("XOFF_MAC_CONTROL_UNKNOWN"),
            ),
            12 => untagged(
                ipv6_frame(dst, src, class, id, 1530),
                Treatment::Refused("XOFF_OVERSIZED"),
            ),
            13 => untagged(
                ipv6_frame(dst, src, class, id, 1518),
                Treatment::Dropped("EXCEEDS_L2_MTU"),
            ),
            14 => {
                let frame = ipv6_frame(dst, station_mac(VLAN10, from, class | 0x10), class, id, len);
                untagged(insert_vlan_tag(&frame, 0x8100, 0xa000), if_untagged(unicast))
            }
            15 => {
                let inner = insert_vlan_tag(
                    &ipv6_frame(dst, plain, class, id, 60 + len % 1400),
                    0x8100,
                    0x0064,
                );
                let frame = insert_vlan_tag(&inner, 0x88a8, 0x2064);
                untagged(
                    set_source(frame, station_mac(VLAN10, from, class | 0x20)),
                    if_untagged(unicast),
                )
            }
            16 => untagged(
                insert_vlan_tag(&ipv6_frame(dst, src, class, id, len), 0x8100, 30),
                Treatment::Dropped("INGRESS_VLAN_FILTER"),
            ),
            _ => in_vlan10(ipv6_frame(dst, src, class, id, len), unicast),
        }
    }

    fn vlan20_frame(&self, from: usize, class: u8, id: u32, len: usize) -> TestFrame {
        let src = station_mac(VLAN20, from, class);
        let to = 1 + from % 3;
        let (dst, treatment) = match (from, class % 2) {
            (0, _) => (
                station_mac(VLAN20, to, 0),
                Treatment::Dropped("INGRESS_VLAN_FILTER"),
            ),
            (_, 0) => (station_mac(VLAN20, to, 0), Treatment::To(vec![to])),
            _ => ([0xff; 6], other_ports(VLAN20, from)),
        };
        self.frame_of_station(VLAN20, from, ipv6_frame(dst, src, class, id, len), treatment)
    }
}

fn set_source(mut frame: Vec<u8>, src: [u8; 6]) -> Vec<u8> {
    frame[6..12].copy_from_slice(&src);
    frame
}

/// Returns all other ports of a VLAN.
fn other_ports(vlan: u8, from: usize) -> Treatment {
    let first = usize::from(vlan == VLAN20);
    Treatment::To((first..PORTS).filter(|&to| to != from).collect())
}
