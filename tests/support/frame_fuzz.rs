//! Deterministic mutations of frames: each header field of each protocol that xoff parses gets its boundary
//! values, and random values, lengths and bytes follow.
//!
//! A template is a frame whose header fields are known by position. The same seed gives the same frames.

#![allow(dead_code, unreachable_pub)] // no test binary uses all items

mod fuzz_templates;

pub use fuzz_templates::FuzzAddresses;
use fuzz_templates::{Template, templates};

/// Smallest length of a frame that a packet socket sends, in bytes.
const FRAME_LEN_MIN: usize = 14;
/// The source addresses of mutated frames.
#[derive(Clone, Debug)]
pub enum SourcePolicy {
    /// All addresses except these, which belong to stations behind other ports.
    Except(Vec<[u8; 6]>),
    /// Every second frame has one of these addresses.
    Spoof(Vec<[u8; 6]>),
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
