//! Frames of every kind, and what a switch with the configuration of [`config`] is to do with each.
//!
//! Vlan10 is untagged on ports 0 to 2 and tagged on port 3; Vlan20 is tagged on ports 1 to 3.

use serde_json::{Map, Value, json};

use crate::bench::port;

pub(crate) const PORTS: usize = 4;
/// Frames a port sends before all are waited for: below congestion, and within what the far ends' sockets hold.
const BURST: usize = 8;
const VLAN10: u8 = 10;
const VLAN20: u8 = 20;
/// In place of a class in addresses of stations that send no IP.
const NO_IP: u8 = 9;

/// A frame, the port it is sent to, and what becomes of it.
pub(crate) struct Sent {
    pub(crate) from: usize,
    pub(crate) bytes: Vec<u8>,
    pub(crate) fate: Fate,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fate {
    /// It leaves by these ports.
    To(Vec<usize>),
    /// The switch drops it, for this reason.
    Dropped(&'static str),
    /// The port's backend drops it before the switch sees it.
    Refused(&'static str),
    /// PFC.
    Pfc,
    /// 802.3x PAUSE.
    Pause,
}

/// Eight traffic classes by DSCP, each with a queue and a priority group of its own, PFC on 3 and 4.
pub(crate) fn config() -> Value {
    let mut config = qos();
    config["VLAN"] = json!({"Vlan10": {}, "Vlan20": {}});
    let untagged = (0..3).map(|n| (10, n, "untagged"));
    let tagged = [(10, 3, "tagged")].into_iter();
    let members = untagged.chain(tagged).chain((1..4).map(|n| (20, n, "tagged")));
    config["VLAN_MEMBER"] = members
        .map(|(vlan, n, mode)| (format!("Vlan{vlan}|{}", port(n)), json!({"tagging_mode": mode})))
        .collect::<Map<String, Value>>()
        .into();
    config
}

/// The classes of [`config`] alone.
pub(crate) fn qos() -> Value {
    let same: Map<String, Value> = (0..8).map(|n| (n.to_string(), n.to_string().into())).collect();
    let dscp: Map<String, Value> = (0..8)
        .map(|n| ((8 * n).to_string(), n.to_string().into()))
        .collect();
    let map = json!({"dscp_to_tc_map": "M", "tc_to_queue_map": "M", "tc_to_pg_map": "M", "pfc_to_queue_map": "M",
        "pfc_enable": "3,4"});
    let ports: Map<String, Value> = (0..PORTS).map(|n| (port(n), map.clone())).collect();
    json!({
        "DSCP_TO_TC_MAP": {"M": dscp},
        "TC_TO_QUEUE_MAP": {"M": same},
        "TC_TO_PRIORITY_GROUP_MAP": {"M": same},
        "MAP_PFC_PRIORITY_TO_QUEUE": {"M": same},
        "PORT_QOS_MAP": ports,
    })
}

/// A station; all frames of one sender go through one queue, so that their order holds.
pub(crate) const fn station(vlan: u8, port: usize, class: u8) -> [u8; 6] {
    [0x02, 0x78, vlan, port as u8, class, 1]
}

/// An IPv6 packet of `len` octets with its Ethernet header, of traffic class `class` by [`qos`].
pub(crate) fn ip(dst: [u8; 6], src: [u8; 6], class: u8, id: u32, len: usize) -> Vec<u8> {
    let tos = class << 5;
    let payload = (len - 54) as u16;
    let mut frame = other(dst, src, [0x86, 0xdd], id, len);
    frame[14..18].copy_from_slice(&[0x60 | tos >> 4, tos << 4, 0, 0]);
    frame[18..20].copy_from_slice(&payload.to_be_bytes());
    // No next header, hop limit.
    frame[20..22].copy_from_slice(&[59, 64]);
    frame
}

/// A frame of some ethertype, with a pattern and, where there is room, its number at the end.
fn other(dst: [u8; 6], src: [u8; 6], ethertype: [u8; 2], id: u32, len: usize) -> Vec<u8> {
    let mut frame = [&dst[..], &src, &ethertype].concat();
    frame.extend((frame.len()..len).map(|at| at as u8));
    if len >= 18 {
        frame[len - 4..].copy_from_slice(&id.to_be_bytes());
    }
    frame
}

fn tagged(frame: &[u8], tpid: u16, tci: u16) -> Vec<u8> {
    [
        &frame[..12],
        &tpid.to_be_bytes(),
        &tci.to_be_bytes(),
        &frame[12..],
    ]
    .concat()
}

/// A MAC control frame: opcode, then parameters.
pub(crate) fn control(opcode: u16, parameters: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x01, 0x80, 0xc2, 0, 0, 1, 0x02, 0x78, 0, 0, 0, 2, 0x88, 0x08];
    frame.extend(opcode.to_be_bytes());
    frame.extend(parameters);
    frame.resize(60, 0);
    frame
}

/// PFC that stops `class` for `quanta`, or lets it go on.
pub(crate) fn pfc(class: usize, quanta: u16) -> Vec<u8> {
    let mut parameters = [0; 18];
    parameters[1] = 1 << class;
    parameters[2 + 2 * class..4 + 2 * class].copy_from_slice(&quanta.to_be_bytes());
    control(0x0101, &parameters)
}

/// The frame without the tag that a bridge may add or take away.
pub(crate) fn bare(frame: &[u8]) -> Vec<u8> {
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

/// The input: bursts, each to be waited for. The first makes every station known, one frame at a time.
pub(crate) fn input(bursts: usize) -> Vec<Vec<Sent>> {
    let mut maker = Maker { random: 1, id: 0 };
    let mut input: Vec<Vec<Sent>> = (0..PORTS)
        .flat_map(|from| [(VLAN10, from), (VLAN20, from)])
        .filter(|&(vlan, from)| vlan == VLAN10 || from > 0)
        .map(|(vlan, from)| vec![maker.announcement(vlan, from)])
        .collect();
    for _ in 0..bursts {
        let burst = (0..BURST * PORTS).map(|n| maker.any(n % PORTS));
        input.push(burst.collect());
    }
    input
}

struct Maker {
    random: u64,
    id: u32,
}

impl Maker {
    /// Always the same sequence (Knuth's MMIX generator).
    fn below(&mut self, bound: usize) -> usize {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.random >> 33) % bound as u64) as usize
    }

    fn id(&mut self) -> u32 {
        self.id += 1;
        self.id
    }

    /// As a station of `vlan` behind `from` sends it.
    fn sent(&self, vlan: u8, from: usize, bytes: Vec<u8>, fate: Fate) -> Sent {
        let bytes = match vlan == VLAN20 || from == 3 {
            true => tagged(&bytes, 0x8100, u16::from(vlan) | 0x6000),
            false => bytes,
        };
        Sent { from, bytes, fate }
    }

    fn announcement(&mut self, vlan: u8, from: usize) -> Sent {
        let frame = ip([0xff; 6], station(vlan, from, 0), 0, self.id(), 60);
        self.sent(vlan, from, frame, others(vlan, from))
    }

    /// A frame of any kind.
    fn any(&mut self, from: usize) -> Sent {
        let (id, kind, class) = (self.id(), self.below(20), self.below(8) as u8);
        let to = (from + 1 + self.below(PORTS - 1)) % PORTS;
        let len = 60 + self.below(1455);
        let (src, dst) = (station(VLAN10, from, class), station(VLAN10, to, 0));
        let plain = station(VLAN10, from, NO_IP);
        let local = [0x88, 0xb5];
        let in_vlan10 = |bytes, fate| self.sent(VLAN10, from, bytes, fate);
        let untagged = |bytes, fate| Sent { from, bytes, fate };
        // A frame without a tag belongs to no VLAN on port 3.
        let if_untagged = |fate| match from {
            3 => Fate::Dropped("INGRESS_VLAN_FILTER"),
            _ => fate,
        };
        let unicast = Fate::To(vec![to]);
        let flood = others(VLAN10, from);
        match kind {
            0 => in_vlan10(ip([0x02, 0x78, 0xff, 0, 0, 1], src, class, id, len), flood),
            1 => in_vlan10(ip([0x33, 0x33, 0, 0, 0, 9], src, class, id, len), flood),
            2 => in_vlan10(other(dst, plain, local, id, 24 + len % 36), unicast),
            3 => in_vlan10(ip(dst, src, class, id, 1514), unicast),
            4 => self.vlan20(from, class, id, len),
            5 => untagged(
                ip([0x01, 0x80, 0xc2, 0, 0, 0x0e], src, class, id, len),
                Fate::Dropped("DMAC_RESERVED"),
            ),
            6 => untagged(
                ip(dst, [0x03, 0, 0, 0, 0, 1], class, id, len),
                Fate::Dropped("SMAC_MULTICAST"),
            ),
            7 => untagged(ip(src, src, class, id, len), Fate::Dropped("SMAC_EQUALS_DMAC")),
            8 => in_vlan10(
                ip(
                    station(VLAN10, from, 0),
                    station(VLAN10, from, NO_IP),
                    class,
                    id,
                    len,
                ),
                Fate::Dropped("L2_LOOPBACK_FILTER"),
            ),
            9 => untagged(pfc(4, u16::from(class % 2)), Fate::Pfc),
            10 => untagged(control(0x0001, &[0xff, 0xff]), Fate::Pause),
            11 => untagged(control(0x0102, &[]), Fate::Dropped("XOFF_MAC_CONTROL_UNKNOWN")),
            12 => untagged(ip(dst, src, class, id, 1530), Fate::Refused("XOFF_OVERSIZED")),
            13 => untagged(ip(dst, src, class, id, 1518), Fate::Dropped("EXCEEDS_L2_MTU")),
            14 => {
                let frame = ip(dst, station(VLAN10, from, class | 0x10), class, id, len);
                untagged(tagged(&frame, 0x8100, 0xa000), if_untagged(unicast))
            }
            15 => {
                let inner = tagged(&ip(dst, plain, class, id, 60 + len % 1400), 0x8100, 0x0064);
                let frame = tagged(&inner, 0x88a8, 0x2064);
                untagged(
                    sender(frame, station(VLAN10, from, class | 0x20)),
                    if_untagged(unicast),
                )
            }
            16 => untagged(
                tagged(&ip(dst, src, class, id, len), 0x8100, 30),
                Fate::Dropped("INGRESS_VLAN_FILTER"),
            ),
            _ => in_vlan10(ip(dst, src, class, id, len), unicast),
        }
    }

    fn vlan20(&self, from: usize, class: u8, id: u32, len: usize) -> Sent {
        let src = station(VLAN20, from, class);
        let to = 1 + from % 3;
        let (dst, fate) = match (from, class % 2) {
            (0, _) => (station(VLAN20, to, 0), Fate::Dropped("INGRESS_VLAN_FILTER")),
            (_, 0) => (station(VLAN20, to, 0), Fate::To(vec![to])),
            _ => ([0xff; 6], others(VLAN20, from)),
        };
        self.sent(VLAN20, from, ip(dst, src, class, id, len), fate)
    }
}

fn sender(mut frame: Vec<u8>, src: [u8; 6]) -> Vec<u8> {
    frame[6..12].copy_from_slice(&src);
    frame
}

/// Every other port of a VLAN.
fn others(vlan: u8, from: usize) -> Fate {
    let first = usize::from(vlan == VLAN20);
    Fate::To((first..PORTS).filter(|&to| to != from).collect())
}
