//! Deterministic mutations of frames: each header field of each protocol that xoff parses gets its boundary
//! values, and random values, lengths and bytes follow.
//!
//! A template is a frame whose header fields are known by position. The same seed gives the same frames.

#![allow(dead_code, unreachable_pub)] // no test binary uses all items

/// Smallest length of a frame that a packet socket sends, in bytes.
const FRAME_LEN_MIN: usize = 14;
/// Address of the router of the switch under test, in templates for it.
pub const ROUTER_IPV4: [u8; 4] = [10, 0, 0, 1];
/// IPv6 address of the router.
pub const ROUTER_IPV6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// A header field: its position in the frame and its length, both in bits.
#[derive(Clone, Copy, Debug)]
struct Field {
    first_bit: usize,
    bits: usize,
}

/// A valid frame and its header fields.
#[derive(Clone, Debug)]
struct Template {
    bytes: Vec<u8>,
    fields: Vec<Field>,
}

impl Template {
    fn new() -> Template {
        Template {
            bytes: Vec::new(),
            fields: Vec::new(),
        }
    }

    /// Appends fields, as (value, length in bits). All fields of one call fill whole bytes.
    fn fields(mut self, fields: &[(u64, usize)]) -> Template {
        let mut first_bit = 8 * self.bytes.len();
        let bits: usize = fields.iter().map(|(_, bits)| bits).sum();
        assert_eq!(bits % 8, 0, "whole bytes");
        self.bytes.resize(self.bytes.len() + bits / 8, 0);
        for &(value, bits) in fields {
            let field = Field { first_bit, bits };
            field.write(&mut self.bytes, value);
            self.fields.push(field);
            first_bit += bits;
        }
        self
    }

    /// Appends one field of several bytes, such as an address.
    fn field_of_bytes(mut self, bytes: &[u8]) -> Template {
        for part in bytes.chunks(8) {
            self.fields.push(Field {
                first_bit: 8 * self.bytes.len(),
                bits: 8 * part.len(),
            });
            self.bytes.extend(part);
        }
        self
    }

    /// Appends bytes that are no header.
    fn payload(mut self, len: usize) -> Template {
        self.bytes.extend((0..len).map(|n| (7 * n) as u8));
        self
    }

    fn ethernet(self, destination: [u8; 6], source: [u8; 6], ethertype: u16) -> Template {
        self.field_of_bytes(&destination)
            .field_of_bytes(&source)
            .fields(&[(u64::from(ethertype), 16)])
    }

    fn vlan(self, vid: u64, next: u16) -> Template {
        self.fields(&[(3, 3), (0, 1), (vid, 12), (u64::from(next), 16)])
    }

    /// Appends an IPv4 header with `options` words of options, for a payload of `len` bytes.
    fn ipv4(self, protocol: u64, destination: [u8; 4], options: usize, len: usize) -> Template {
        let start = self.bytes.len();
        let total = (20 + 4 * options + len) as u64;
        let mut template = self
            .fields(&[(4, 4), (5 + options as u64, 4), (26, 6), (2, 2), (total, 16)])
            .fields(&[
                (0x1234, 16),
                (0, 1),
                (1, 1),
                (0, 1),
                (0, 13),
                (64, 8),
                (protocol, 8),
                (0, 16),
            ])
            .field_of_bytes(&[10, 0, 0, 99])
            .field_of_bytes(&destination);
        for _ in 0..options {
            // Router alert (RFC 2113).
            template = template.fields(&[(1, 1), (0, 2), (20, 5), (4, 8), (0, 16)]);
        }
        let checksum = internet_checksum(&template.bytes[start..], 0);
        template.bytes[start + 10..start + 12].copy_from_slice(&checksum.to_be_bytes());
        template
    }

    fn ipv6(self, next: u64, destination: [u8; 16], len: usize) -> Template {
        self.fields(&[
            (6, 4),
            (26, 6),
            (2, 2),
            (0x12345, 20),
            (len as u64, 16),
            (next, 8),
            (64, 8),
        ])
        .field_of_bytes(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x99])
        .field_of_bytes(&destination)
    }

    /// Appends an extension header of 8 bytes.
    fn ipv6_extension(self, next: u64) -> Template {
        self.fields(&[(next, 8), (0, 8), (1, 8), (4, 8), (0, 32)])
    }

    fn udp(self, port: u64, len: usize) -> Template {
        self.fields(&[(0xc000, 16), (port, 16), (8 + len as u64, 16), (0, 16)])
    }

    fn bth(self, opcode: u64) -> Template {
        self.fields(&[(opcode, 8), (0, 1), (1, 1), (0, 2), (0, 4), (0xffff, 16)])
            .fields(&[(0, 1), (0, 1), (0, 6), (0x11, 24), (1, 1), (0, 7), (0x55, 24)])
    }

    fn icrc(self) -> Template {
        self.fields(&[(0xdead_beef, 32)])
    }

    /// Sets the checksum of ICMPv6 behind an IPv6 header, which starts at byte `ip`.
    fn icmpv6_checksum(mut self, ip: usize) -> Template {
        let start = ip + 40;
        let len = (self.bytes.len() - start) as u32;
        let pseudo = [&self.bytes[ip + 8..start], &len.to_be_bytes(), &[0, 0, 0, 58]].concat();
        let checksum = internet_checksum(&self.bytes[start..], ones_sum(&pseudo));
        self.bytes[start + 2..start + 4].copy_from_slice(&checksum.to_be_bytes());
        self
    }
}

impl Field {
    fn read(self, bytes: &[u8]) -> u64 {
        (self.first_bit..self.first_bit + self.bits).fold(0, |value, bit| {
            value << 1 | u64::from(bytes[bit / 8] >> (7 - bit % 8) & 1)
        })
    }

    /// Writes the lower bits of a value. Bits beyond the end of `bytes` are left out.
    fn write(self, bytes: &mut [u8], value: u64) {
        for n in 0..self.bits {
            let bit = self.first_bit + self.bits - 1 - n;
            let Some(byte) = bytes.get_mut(bit / 8) else {
                continue;
            };
            let mask = 1 << (7 - bit % 8);
            match value >> n & 1 {
                0 => *byte &= !mask,
                _ => *byte |= mask,
            }
        }
    }

    fn value_max(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }
}

fn ones_sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2);
    words.fold(0, |sum, word| {
        sum + u32::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]))
    })
}

fn internet_checksum(bytes: &[u8], start: u32) -> u16 {
    let mut sum = ones_sum(bytes) + start;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The source addresses of mutated frames.
#[derive(Clone, Debug)]
pub enum SourcePolicy {
    /// All addresses except these, which belong to stations behind other ports.
    Except(Vec<[u8; 6]>),
    /// Every second frame has one of these addresses.
    Spoof(Vec<[u8; 6]>),
}

/// Addresses that the templates use.
#[derive(Clone, Debug)]
pub struct FuzzAddresses {
    /// The address of the fuzzer.
    pub own: [u8; 6],
    /// The address of the router of the switch under test.
    pub router: [u8; 6],
    /// Stations behind other ports.
    pub stations: Vec<[u8; 6]>,
}

/// Creates mutated frames without end.
#[derive(Debug)]
pub struct FrameFuzzer {
    templates: Vec<Template>,
    policy: SourcePolicy,
    destinations: Vec<[u8; 6]>,
    frame_len_max: usize,
    random: u64,
    /// Position in the systematic part: template, field and value.
    position: (usize, usize, usize),
    spoofs_next: bool,
}

impl FrameFuzzer {
    /// Creates a fuzzer whose frames have at most `frame_len_max` bytes.
    pub fn new(
        addresses: &FuzzAddresses,
        policy: SourcePolicy,
        frame_len_max: usize,
        seed: u64,
    ) -> FrameFuzzer {
        let mut destinations = vec![[0xff; 6], addresses.router, [0x02, 0x78, 0xff, 0, 0, 1]];
        destinations.extend(&addresses.stations);
        FrameFuzzer {
            templates: templates(addresses),
            policy,
            destinations,
            frame_len_max,
            random: seed.wrapping_mul(2).wrapping_add(1),
            position: (0, 0, 0),
            spoofs_next: false,
        }
    }

    /// Returns the number of frames after which each field of each template had each of its boundary values.
    pub fn systematic_frames(&self) -> usize {
        let fields: usize = self.templates.iter().map(|template| template.fields.len()).sum();
        2 * fields * FIELD_VALUES
    }

    /// Returns the next frame. Every second frame changes one field; the other frames change several fields,
    /// bytes and the length.
    pub fn next_frame(&mut self) -> Vec<u8> {
        let mut frame = match self.next_random() % 2 {
            0 => self.next_systematic_frame(),
            _ => self.next_random_frame(),
        };
        frame.truncate(self.frame_len_max);
        if frame.len() < FRAME_LEN_MIN {
            frame.resize(FRAME_LEN_MIN, 0);
        }
        self.apply_policy(&mut frame);
        frame
    }

    fn next_systematic_frame(&mut self) -> Vec<u8> {
        let (template, field, value) = self.position;
        self.position = match (template, field, value + 1) {
            (template, field, value) if value < FIELD_VALUES => (template, field, value),
            (template, field, _) if field + 1 < self.templates[template].fields.len() => {
                (template, field + 1, 0)
            }
            (template, ..) => ((template + 1) % self.templates.len(), 0, 0),
        };
        let random = self.next_random();
        let template = &self.templates[template];
        let mut frame = template.bytes.clone();
        let field = template.fields[field];
        let (present, max) = (field.read(&frame), field.value_max());
        let values: [u64; FIELD_VALUES] = [
            0,
            1,
            max,
            max - 1,
            max / 2 + 1,
            present.wrapping_add(1),
            present.wrapping_sub(1),
            random,
        ];
        field.write(&mut frame, values[value]);
        frame
    }

    fn next_random_frame(&mut self) -> Vec<u8> {
        let template = self.below(self.templates.len());
        let mut frame = self.templates[template].bytes.clone();
        for _ in 0..=self.below(4) {
            let field = self.below(self.templates[template].fields.len());
            let field = self.templates[template].fields[field];
            let value = self.next_random();
            field.write(&mut frame, value);
        }
        match self.below(8) {
            0 => frame.truncate(self.below(frame.len()) + 1),
            1 => frame.resize(self.below(self.frame_len_max) + 1, 0x5a),
            2 => {
                for _ in 0..self.below(16) {
                    let byte = self.below(frame.len());
                    frame[byte] = self.next_random() as u8;
                }
            }
            3 => {
                // A piece of another frame.
                let other = self.below(self.templates.len());
                let from = self.below(self.templates[other].bytes.len());
                let at = self.below(frame.len());
                frame.truncate(at);
                frame.extend(&self.templates[other].bytes[from..]);
            }
            4 => {
                let destination = self.below(self.destinations.len());
                let destination = self.destinations[destination];
                frame.resize(frame.len().max(12), 0);
                frame[..6].copy_from_slice(&destination);
            }
            _ => {}
        }
        frame
    }

    fn apply_policy(&mut self, frame: &mut [u8]) {
        let source: [u8; 6] = frame[6..12].try_into().expect("six bytes");
        match &self.policy {
            SourcePolicy::Except(stations) => {
                if stations.contains(&source) {
                    frame[11] ^= 0x80;
                }
            }
            SourcePolicy::Spoof(stations) => {
                self.spoofs_next = !self.spoofs_next;
                if self.spoofs_next {
                    let station = stations[(self.random >> 33) as usize % stations.len()];
                    frame[6..12].copy_from_slice(&station);
                }
            }
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next_random() % bound.max(1) as u64) as usize
    }

    /// Returns the next number of SplitMix64.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.random;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }
}

/// Number of boundary values of a field.
const FIELD_VALUES: usize = 8;

/// Returns one frame for each protocol and form of header that xoff parses.
fn templates(addresses: &FuzzAddresses) -> Vec<Template> {
    let station = addresses.stations.first().copied().unwrap_or([0xff; 6]);
    let to = |destination: [u8; 6], ethertype: u16| {
        Template::new().ethernet(destination, addresses.own, ethertype)
    };
    // Ethernet and VLAN stacks.
    let mut all = vec![to(station, 0x88b6).payload(46)];
    all.push(
        to(station, 0x002e)
            .fields(&[(0x42, 8), (0x42, 8), (3, 8)])
            .payload(43),
    );
    all.push(to(station, 0x8100).vlan(10, 0x88b6).payload(46));
    all.push(
        to(station, 0x88a8)
            .vlan(10, 0x8100)
            .vlan(20, 0x0800)
            .ipv4(17, [10, 0, 0, 98], 0, 26)
            .payload(26),
    );
    all.push(
        to(station, 0x8100)
            .vlan(10, 0x8100)
            .vlan(10, 0x8100)
            .vlan(10, 0x86dd)
            .payload(60),
    );
    add_roce_templates(&mut all, addresses, station);
    add_ip_templates(&mut all, addresses, station);
    add_control_templates(&mut all, addresses);
    all
}

/// Adds RoCEv2 frames with each form of extension headers.
fn add_roce_templates(all: &mut Vec<Template>, addresses: &FuzzAddresses, station: [u8; 6]) {
    const OPCODES: [(u64, &[usize]); 9] = [
        (0x04, &[]),               // RC send only
        (0x05, &[32]),             // RC send only with immediate
        (0x06, &[64, 32, 32]),     // RC write first: RETH
        (0x0b, &[64, 32, 32, 32]), // RC write only with immediate
        (0x10, &[8, 24]),          // RC read response only: AETH
        (0x11, &[8, 24]),          // RC acknowledge
        (0x12, &[8, 24, 64]),      // RC atomic acknowledge
        (0x13, &[64, 32, 64, 64]), // RC compare and swap
        (0x64, &[32, 8, 24]),      // UD send only: DETH
    ];
    for (opcode, extensions) in OPCODES {
        let extension_bytes: usize = extensions.iter().sum::<usize>() / 8;
        let len = 8 + 12 + extension_bytes + 64 + 4;
        let roce = |template: Template| {
            let headers: Vec<(u64, usize)> = extensions.iter().map(|bits| (1, *bits)).collect();
            let mut template = template.udp(4_791, len - 8).bth(opcode);
            if !headers.is_empty() {
                template = template.fields(&headers);
            }
            template.payload(64).icrc()
        };
        let ethernet = |ethertype| Template::new().ethernet(station, addresses.own, ethertype);
        all.push(roce(ethernet(0x0800).ipv4(17, [10, 0, 0, 98], 0, len)));
        let mut v6 = [0; 16];
        v6[0] = 0xfd;
        v6[15] = 0x98;
        all.push(roce(ethernet(0x86dd).ipv6(17, v6, len)));
        all.push(roce(ethernet(0x8100).vlan(10, 0x0800).ipv4(
            17,
            [10, 0, 0, 98],
            1,
            len,
        )));
    }
    // A CNP: opcode 0x81 and 16 reserved bytes.
    let cnp = Template::new().ethernet(station, addresses.own, 0x0800);
    all.push(
        cnp.ipv4(17, [10, 0, 0, 98], 0, 40)
            .udp(4_791, 32)
            .bth(0x81)
            .fields(&[(0, 64), (0, 64)])
            .icrc(),
    );
}

/// Adds IP packets to the router and to stations: options, extension headers, fragments, ICMP and TCP.
fn add_ip_templates(all: &mut Vec<Template>, addresses: &FuzzAddresses, station: [u8; 6]) {
    let to = |destination: [u8; 6], ethertype: u16| {
        Template::new().ethernet(destination, addresses.own, ethertype)
    };
    for (destination, ip) in [
        (addresses.router, ROUTER_IPV4),
        (addresses.router, [10, 9, 9, 9]),
        (station, [10, 0, 0, 98]),
    ] {
        for options in [0, 1, 10] {
            all.push(
                to(destination, 0x0800)
                    .ipv4(17, ip, options, 40)
                    .udp(53, 32)
                    .payload(32),
            );
        }
        let echo = to(destination, 0x0800).ipv4(1, ip, 0, 40);
        let start = echo.bytes.len();
        let mut echo = echo
            .fields(&[(8, 8), (0, 8), (0, 16), (1, 16), (1, 16)])
            .payload(32);
        let checksum = internet_checksum(&echo.bytes[start..], 0);
        echo.bytes[start + 2..start + 4].copy_from_slice(&checksum.to_be_bytes());
        all.push(echo);
        let tcp = [
            (80, 16),
            (80, 16),
            (1, 32),
            (1, 32),
            (5, 4),
            (0, 3),
            (2, 9),
            (512, 16),
            (0, 16),
            (0, 16),
        ];
        all.push(to(destination, 0x0800).ipv4(6, ip, 0, 20).fields(&tcp));
    }
    for destination in [addresses.router, station] {
        for (first, extensions) in [(0_u64, 1_usize), (43, 2), (44, 1), (60, 3)] {
            let mut template = to(destination, 0x86dd).ipv6(first, ROUTER_IPV6, 8 * extensions + 40);
            for n in 0..extensions {
                template = template.ipv6_extension(if n + 1 < extensions { 60 } else { 17 });
            }
            all.push(template.udp(53, 32).payload(32));
        }
        let echo = to(destination, 0x86dd).ipv6(58, ROUTER_IPV6, 40);
        let echo = echo
            .fields(&[(128, 8), (0, 8), (0, 16), (1, 16), (1, 16)])
            .payload(32);
        all.push(echo.icmpv6_checksum(14));
    }
}

/// Adds frames for the switch itself: ARP, neighbour discovery, MAC control, link quality and protocols of
/// bridges.
fn add_control_templates(all: &mut Vec<Template>, addresses: &FuzzAddresses) {
    let own = addresses.own;
    let to = |destination: [u8; 6], ethertype: u16| Template::new().ethernet(destination, own, ethertype);
    for (operation, destination) in [(1, [0xff; 6]), (1, addresses.router), (2, addresses.router)] {
        let arp = to(destination, 0x0806).fields(&[(1, 16), (0x0800, 16), (6, 8), (4, 8), (operation, 16)]);
        let arp = arp.field_of_bytes(&own).field_of_bytes(&[10, 0, 0, 99]);
        all.push(
            arp.field_of_bytes(&[0; 6])
                .field_of_bytes(&ROUTER_IPV4)
                .payload(18),
        );
    }
    // Router solicitation and advertisement, neighbour solicitation and advertisement, redirect.
    for kind in 133..=137_u64 {
        let nd = to([0x33, 0x33, 0xff, 0, 0, 1], 0x86dd).ipv6(58, ROUTER_IPV6, 32);
        let nd = nd.fields(&[(kind, 8), (0, 8), (0, 16), (1, 1), (1, 1), (1, 1), (0, 29)]);
        let mut nd = nd
            .field_of_bytes(&ROUTER_IPV6)
            .fields(&[(1, 8), (1, 8)])
            .field_of_bytes(&own);
        nd.bytes[21] = 255;
        all.push(nd.icmpv6_checksum(14));
    }
    let control = [0x01, 0x80, 0xc2, 0, 0, 1];
    let classes = [(0xffff, 16); 8];
    all.push(
        to(control, 0x8808)
            .fields(&[(0x0101, 16), (0x00ff, 16)])
            .fields(&classes)
            .payload(26),
    );
    all.push(
        to(control, 0x8808)
            .fields(&[(0x0001, 16), (0xffff, 16)])
            .payload(42),
    );
    let quality =
        to([0x01, 0x80, 0xc2, 0, 0, 0x0e], 0x88b5).fields(&[(0x5851, 16), (1, 8), (0, 8), (40, 16)]);
    let quality = quality.fields(&[(0, 16), (1, 32), (1_000, 32)]);
    let entry = [(1, 16), (500, 16), (500, 16), (0, 16), (100_000, 32)];
    all.push(quality.fields(&entry).fields(&entry).payload(6));
    // LLDP: chassis, port, time to live and end of LLDPDU.
    let lldp = to([0x01, 0x80, 0xc2, 0, 0, 0x0e], 0x88cc)
        .fields(&[(1, 7), (7, 9), (4, 8)])
        .field_of_bytes(&own);
    let lldp = lldp
        .fields(&[(2, 7), (2, 9), (5, 8), (1, 8)])
        .fields(&[(3, 7), (2, 9), (120, 16), (0, 16)]);
    all.push(lldp.payload(24));
    // LACP and the marker protocol (slow protocols).
    for subtype in [1, 2] {
        let slow = to([0x01, 0x80, 0xc2, 0, 0, 2], 0x8809).fields(&[(subtype, 8), (1, 8), (1, 8), (20, 8)]);
        all.push(slow.fields(&[(0x8000, 16)]).field_of_bytes(&own).payload(100));
    }
    // Spanning tree, and the other reserved group addresses.
    for last in 0..16 {
        all.push(
            to([0x01, 0x80, 0xc2, 0, 0, last], 0x0026)
                .fields(&[(0x42, 8), (0x42, 8), (3, 8)])
                .payload(43),
        );
    }
}

/// Bytes that mark a frame of the victim flow.
const VICTIM_MARK: [u8; 4] = *b"VICT";

/// Returns the address of the station behind a port of the switch under test.
pub fn station(port: u8) -> [u8; 6] {
    [0x02, 0x78, 0x6f, 0, 0, port]
}

/// Returns the addresses of a switch with four ports. The fuzzer is behind port 0.
pub fn addresses() -> FuzzAddresses {
    FuzzAddresses {
        own: station(0),
        router: [0x02, 0, 0, 0, 0x10, 0],
        stations: (1..4).map(station).collect(),
    }
}

/// Returns the configuration of the switch under test: one VLAN with four ports and a router, eight classes,
/// PFC on the classes 3 and 4.
pub fn switch_config() -> serde_json::Value {
    use serde_json::{Map, Value, json};
    let ports: Vec<String> = (0..4).map(|n| format!("Ethernet{}", 4 * n)).collect();
    let of_ports = |value: Value| -> Value {
        let entries = ports.iter().map(|port| (port.clone(), value.clone()));
        entries.collect::<Map<String, Value>>().into()
    };
    let same: Map<String, Value> = (0..8).map(|n| (n.to_string(), n.to_string().into())).collect();
    let dscp: Map<String, Value> = (0..64)
        .map(|n: u32| (n.to_string(), (n / 8).to_string().into()))
        .collect();
    let members = ports
        .iter()
        .map(|port| (format!("Vlan10|{port}"), json!({"tagging_mode": "untagged"})));
    json!({
        "DEVICE_METADATA": {"localhost": {"mac": "02:00:00:00:10:00"}},
        "PORT": of_ports(json!({"mtu": "1500"})),
        "VLAN": {"Vlan10": {}},
        "VLAN_MEMBER": members.collect::<Map<String, Value>>(),
        "VLAN_INTERFACE": {"Vlan10": {}, "Vlan10|10.0.0.1/24": {}, "Vlan10|fd00::1/64": {}},
        "DSCP_TO_TC_MAP": {"M": dscp},
        "TC_TO_QUEUE_MAP": {"M": same},
        "TC_TO_PRIORITY_GROUP_MAP": {"M": same},
        "MAP_PFC_PRIORITY_TO_QUEUE": {"M": same},
        "PORT_QOS_MAP": of_ports(json!({"dscp_to_tc_map": "M", "tc_to_queue_map": "M", "tc_to_pg_map": "M",
            "pfc_to_queue_map": "M", "pfc_enable": "3,4"})),
        "XOFF_LB": {"global": {"advertise_ports": "Ethernet0"}},
    })
}

/// Returns a broadcast frame with which the station behind a port makes itself known.
pub fn announcement(port: u8) -> Vec<u8> {
    let mut frame = [[0xff; 6], station(port)].concat();
    frame.extend([0x88, 0xb6]);
    frame.resize(60, 0);
    frame
}

/// Returns frame `id` of the victim flow from port 1 to port 2. The frames use classes 0 and 3 in turn.
pub fn victim_frame(id: u32) -> Vec<u8> {
    let dscp: u8 = if id.is_multiple_of(2) { 0 } else { 24 };
    let mut frame = [station(2), station(1)].concat();
    frame.extend([0x86, 0xdd, 0x60 | dscp >> 2, (dscp & 3) << 6, 0, 0, 0, 46, 59, 64]);
    frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x71]);
    frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x72]);
    frame.extend(VICTIM_MARK);
    frame.extend(id.to_be_bytes());
    frame.resize(100, 0);
    frame
}

/// Returns the number of a frame of the victim flow. Returns `None` for all other frames.
pub fn victim_id(frame: &[u8]) -> Option<u32> {
    let mark: &[u8; 8] = frame.get(54..)?.first_chunk()?;
    let id = mark.strip_prefix(&VICTIM_MARK)?;
    Some(u32::from_be_bytes(id.try_into().ok()?))
}
