//! Valid frames of each protocol that xoff parses, with the positions of their header fields.

/// Address of the router of the switch under test, in templates for it.
pub const ROUTER_IPV4: [u8; 4] = [10, 0, 0, 1];
/// IPv6 address of the router.
pub const ROUTER_IPV6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

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

/// A header field: its position in the frame and its length, both in bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    first_bit: usize,
    bits: usize,
}

/// A valid frame and its header fields.
#[derive(Clone, Debug)]
pub(super) struct Template {
    pub(super) bytes: Vec<u8>,
    pub(super) fields: Vec<Field>,
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
    pub(super) fn read(self, bytes: &[u8]) -> u64 {
        (self.first_bit..self.first_bit + self.bits).fold(0, |value, bit| {
            value << 1 | u64::from(bytes[bit / 8] >> (7 - bit % 8) & 1)
        })
    }

    /// Writes the lower bits of a value. Bits beyond the end of `bytes` are left out.
    pub(super) fn write(self, bytes: &mut [u8], value: u64) {
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

    pub(super) fn value_max(self) -> u64 {
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

/// Returns one frame for each protocol and form of header that xoff parses.
pub(super) fn templates(addresses: &FuzzAddresses) -> Vec<Template> {
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
