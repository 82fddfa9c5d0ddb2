//! Computes the paths of flows in the HPCC model of ns-3. The ECMP hash of the model selects one of the
//! shortest paths.

use std::collections::BTreeMap;

use super::flow::Flow;
use super::topology::Topology;

/// UDP source port of the first flow between two hosts. The second flow has this port plus 1, and so on.
pub(super) const FIRST_SOURCE_PORT: u16 = 10_000;

/// Returns the IPv4 address of a node in the model, in host byte order. For example, node 1 has the
/// address 11.0.1.1.
pub fn node_address(node: u32) -> u32 {
    0x0b00_0001 + (node / 256) * 0x1_0000 + (node % 256) * 0x100
}

/// Returns the node with an IPv4 address of the model.
pub(super) fn node_of_model_address(address: u32) -> u32 {
    address >> 8 & 0xffff
}

/// The paths of a flow: one for its data packets and one for its acknowledgements.
///
/// A path is a list of nodes with their egress links. The last node of the path, the receiver of the packets,
/// is not in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowPaths {
    /// Path of the data packets, from the sender to the receiver.
    pub data: Vec<PathStep>,
    /// Path of the acknowledgements, from the receiver to the sender.
    pub acks: Vec<PathStep>,
}

/// A node of a path with its egress link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathStep {
    /// Number of the node, an index of [`Topology::nodes`].
    pub node: u32,
    /// Index of the egress link in [`Topology::links`].
    pub link: usize,
}

/// Returns the paths of each flow, in the order of `flows`. The entry is `None` if the flow has no path.
/// `flows` must be sorted by start time, because the position of a flow determines its UDP source port.
pub fn flow_paths(topology: &Topology, flows: &[Flow]) -> Vec<Option<FlowPaths>> {
    let mut hops: BTreeMap<u32, Vec<Vec<usize>>> = BTreeMap::new();
    let mut source_ports: BTreeMap<(u32, u32), u16> = BTreeMap::new();
    let mut all = Vec::with_capacity(flows.len());
    for flow in flows {
        for end in [flow.src, flow.dst] {
            hops.entry(end)
                .or_insert_with(|| shortest_path_links(topology, end));
        }
        let port = source_ports
            .entry((flow.src, flow.dst))
            .or_insert(FIRST_SOURCE_PORT);
        let (source_port, dst_port) = (*port, flow.dst_port);
        *port = port.wrapping_add(1);
        let data = follow_path(
            topology,
            &hops[&flow.dst],
            flow.src,
            flow.dst,
            [source_port, dst_port],
        );
        let acks = follow_path(
            topology,
            &hops[&flow.src],
            flow.dst,
            flow.src,
            [dst_port, source_port],
        );
        all.push(data.zip(acks).map(|(data, acks)| FlowPaths { data, acks }));
    }
    all
}

/// Returns for each node the egress links of its shortest paths to a host, in the order of the model.
///
/// The order matters only for nodes with several shortest paths. The model visits neighbours in the order of
/// their memory addresses. A switch is a large object with its own memory mapping, and the kernel places each
/// new mapping at a lower address. The model therefore visits the switch with the highest number first.
fn shortest_path_links(topology: &Topology, host: u32) -> Vec<Vec<usize>> {
    let mut hops = vec![Vec::new(); topology.nodes.len()];
    let mut distance = vec![u32::MAX; topology.nodes.len()];
    distance[host as usize] = 0;
    let mut queue = vec![host];
    let mut next_in_queue = 0;
    while let Some(&node) = queue.get(next_in_queue) {
        next_in_queue += 1;
        let next_distance = distance[node as usize] + 1;
        for link in usable_links(topology, node) {
            let next = topology.links[link].peer_of(node) as usize;
            if distance[next] == u32::MAX {
                distance[next] = next_distance;
                if topology.nodes[next].is_switch {
                    queue.push(next as u32);
                }
            }
            if distance[next] == next_distance {
                hops[next].push(link);
            }
        }
    }
    hops
}

/// Returns whether at least one node has several shortest paths to a host. `host` is a node number.
pub fn has_equal_paths(topology: &Topology, host: u32) -> bool {
    shortest_path_links(topology, host)
        .iter()
        .any(|links| links.len() > 1)
}

/// Returns the links that the model uses for the routes of a node, in the order of the neighbour map of the
/// node (`nbr2if`).
///
/// The map keeps only the last of several links between two nodes.
fn usable_links(topology: &Topology, node: u32) -> Vec<usize> {
    let mut of_neighbour: BTreeMap<(bool, u32), usize> = BTreeMap::new();
    for link in &topology.nodes[node as usize].links {
        let peer = topology.links[*link].peer_of(node);
        let map_key = match topology.nodes[peer as usize].is_switch {
            false => (false, peer),
            true => (true, u32::MAX - peer),
        };
        of_neighbour.insert(map_key, *link);
    }
    of_neighbour.into_values().collect()
}

/// Round-trip time and bandwidth-delay product of a pair of hosts, as `pairRtt` and `pairBdp` in `third.cc`.
///
/// The round-trip time is twice the sum of the link delays on a shortest path, plus the serialization times
/// of one full payload on the links of this path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostPairRttAndBdp {
    /// Round-trip time in nanoseconds.
    pub rtt_ns: u64,
    /// Bandwidth-delay product in bytes, modulo 2^32 as in the model. The value 0 means no window.
    pub window_bytes: u32,
}

/// The timings of all pairs of hosts. The timings to a receiver are computed at their first use.
#[derive(Debug)]
pub struct HostPairRttAndBdpTable<'a> {
    topology: &'a Topology,
    payload_bytes: u32,
    to: BTreeMap<u32, Vec<HostPairRttAndBdp>>,
    largest: Option<HostPairRttAndBdp>,
}

impl<'a> HostPairRttAndBdpTable<'a> {
    /// Creates the timings of a topology for packets with a payload of `payload_bytes`.
    pub fn new(topology: &'a Topology, payload_bytes: u32) -> HostPairRttAndBdpTable<'a> {
        HostPairRttAndBdpTable {
            topology,
            payload_bytes,
            to: BTreeMap::new(),
            largest: None,
        }
    }

    /// Returns the timing of a pair of hosts. `src` and `dst` are node numbers. Both values are 0 if no
    /// path exists.
    ///
    /// With `of_largest_pair` (`GLOBAL_T` is 1), returns the largest round-trip time and the largest window
    /// of all pairs.
    pub fn pair_timing(&mut self, src: u32, dst: u32, of_largest_pair: bool) -> HostPairRttAndBdp {
        if of_largest_pair {
            let (topology, payload_bytes) = (self.topology, self.payload_bytes);
            return *self
                .largest
                .get_or_insert_with(|| largest_timing(topology, payload_bytes));
        }
        let timings = self
            .to
            .entry(dst)
            .or_insert_with(|| timings_to_host(self.topology, self.payload_bytes, dst));
        timings[src as usize]
    }
}

/// Returns the timing from each node to a host. The timing is 0 for switches and for hosts without a path.
fn timings_to_host(topology: &Topology, payload_bytes: u32, host: u32) -> Vec<HostPairRttAndBdp> {
    let hops = shortest_path_links(topology, host);
    let hosts = topology.nodes.iter().enumerate();
    hosts
        .map(|(from, node)| {
            let (mut delay_ns, mut sending_ns, mut rate_bps) = (0, 0, u64::MAX);
            let mut node_number = from as u32;
            while node_number != host && !node.is_switch {
                let Some(link) = hops[node_number as usize].first() else {
                    return HostPairRttAndBdp::default();
                };
                let next = &topology.links[*link];
                delay_ns += next.delay_ns;
                sending_ns += u64::from(payload_bytes) * 8_000_000_000 / next.rate_bps();
                rate_bps = rate_bps.min(next.rate_bps());
                node_number = next.peer_of(node_number);
            }
            let rtt_ns = delay_ns * 2 + sending_ns;
            HostPairRttAndBdp {
                rtt_ns,
                window_bytes: (rtt_ns.wrapping_mul(rate_bps) / 1_000_000_000 / 8) as u32,
            }
        })
        .collect()
}

/// Returns the largest round-trip time and the largest window of all pairs of hosts.
fn largest_timing(topology: &Topology, payload_bytes: u32) -> HostPairRttAndBdp {
    let timings = topology.hosts().flat_map(|host| {
        let mut timings = timings_to_host(topology, payload_bytes, host);
        timings[host as usize] = HostPairRttAndBdp::default();
        timings
    });
    timings.fold(HostPairRttAndBdp::default(), |max, timing| HostPairRttAndBdp {
        rtt_ns: max.rtt_ns.max(timing.rtt_ns),
        window_bytes: max.window_bytes.max(timing.window_bytes),
    })
}

/// Returns the path of packets with these UDP source and destination ports. At a node with several shortest
/// paths, the ECMP hash selects the link. Returns `None` if no path exists.
fn follow_path(
    topology: &Topology,
    hops: &[Vec<usize>],
    from: u32,
    to: u32,
    ports: [u16; 2],
) -> Option<Vec<PathStep>> {
    let key = [
        node_address(from),
        node_address(to),
        u32::from(ports[0]) | u32::from(ports[1]) << 16,
    ];
    let mut steps = Vec::new();
    let mut node = from;
    while node != to {
        let links = &hops[node as usize];
        let choice = match links.len() {
            0 => return None,
            1 => 0,
            n => murmur3_hash(key, node) as usize % n,
        };
        let link = links[choice];
        steps.push(PathStep { node, link });
        node = topology.links[link].peer_of(node);
    }
    Some(steps)
}

/// Returns the 32-bit MurmurHash3 (x86 variant, Appleby, public domain) of three words.
fn murmur3_hash(words: [u32; 3], seed: u32) -> u32 {
    let mut h = seed;
    for word in words {
        let k = word
            .wrapping_mul(0xcc9e_2d51)
            .rotate_left(15)
            .wrapping_mul(0x1b87_3593);
        h = (h ^ k).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    h ^= 12;
    h = (h ^ h >> 16).wrapping_mul(0x85eb_ca6b);
    h = (h ^ h >> 13).wrapping_mul(0xc2b2_ae35);
    h ^ h >> 16
}

#[cfg(test)]
mod tests {
    use super::super::text::InputText;
    use super::super::topology;
    use super::*;

    /// Compares the hash with a reference implementation of MurmurHash3_x86_32 for inputs of 12 bytes.
    #[test]
    fn hash_equals_the_reference_implementation_of_murmurhash3() {
        let words = |text: &[u8; 12]| {
            let word = |start: usize| {
                u32::from_le_bytes([text[start], text[start + 1], text[start + 2], text[start + 3]])
            };
            [word(0), word(4), word(8)]
        };
        assert_eq!(
            murmur3_hash(words(b"Hello, world"), 0),
            reference_murmur3(b"Hello, world", 0)
        );
        assert_eq!(
            murmur3_hash(words(b"aaaabbbbcccc"), 0x9747_b28c),
            reference_murmur3(b"aaaabbbbcccc", 0x9747_b28c)
        );
        // The published values for "test" and "aaaa" of SMHasher check the reference implementation.
        assert_eq!(reference_murmur3(b"test", 0), 0xba6b_d213);
        assert_eq!(reference_murmur3(b"aaaa", 0x9747_b28c), 0x5a97_808a);
    }

    /// Reference implementation of MurmurHash3 for inputs of a multiple of 4 bytes.
    fn reference_murmur3(bytes: &[u8], seed: u32) -> u32 {
        let mut h = seed;
        for block in bytes.chunks(4) {
            let mut k = block
                .iter()
                .rev()
                .fold(0_u32, |k, byte| k << 8 | u32::from(*byte));
            k = k.wrapping_mul(0xcc9e2d51);
            k = k.rotate_left(15);
            k = k.wrapping_mul(0x1b873593);
            h ^= k;
            h = h.rotate_left(13);
            h = h.wrapping_mul(5).wrapping_add(0xe6546b64);
        }
        h ^= bytes.len() as u32;
        h ^= h >> 16;
        h = h.wrapping_mul(0x85ebca6b);
        h ^= h >> 13;
        h = h.wrapping_mul(0xc2b2ae35);
        h ^ h >> 16
    }

    /// A topology with leaves 4 and 5, spines 6 and 7, and two hosts at each leaf. Host 8 has no link.
    fn clos_topology() -> Topology {
        let text = "9 4 8\n4 5 6 7\n0 4 1Gbps 0ms 0\n1 4 1Gbps 0ms 0\n2 5 1Gbps 0ms 0\n3 5 1Gbps 0ms 0\n\
                    4 6 1Gbps 0ms 0\n4 7 1Gbps 0ms 0\n5 6 1Gbps 0ms 0\n5 7 1Gbps 0ms 0\n";
        topology::read_topology(&InputText::from_content("topology.txt", text)).unwrap()
    }

    fn flow_between(src: u32, dst: u32) -> Flow {
        Flow {
            src,
            dst,
            priority: 3,
            dst_port: 100,
            bytes: 1,
            start_ns: 0,
            reference_ns: None,
            ideal_ns: None,
        }
    }

    #[test]
    fn flows_of_a_pair_use_different_shortest_paths() {
        let topology = clos_topology();
        let flows: Vec<Flow> = (0..32)
            .map(|_| flow_between(0, 3))
            .chain([flow_between(0, 1), flow_between(0, 8)])
            .collect();
        let paths = flow_paths(&topology, &flows);
        let mut spines = Vec::new();
        for path in paths[..32].iter().flatten() {
            let nodes: Vec<u32> = path.data.iter().map(|step| step.node).collect();
            assert_eq!((nodes.len(), nodes[0], nodes[1], nodes[3]), (4, 0, 4, 5));
            spines.push(nodes[2]);
            assert_eq!(path.acks.first().map(|step| step.node), Some(3));
        }
        assert!(spines.contains(&6) && spines.contains(&7), "{spines:?}");
        let near: Vec<u32> = paths[32]
            .iter()
            .flat_map(|path| &path.data)
            .map(|step| step.node)
            .collect();
        assert_eq!(near, [0, 4]);
        assert_eq!(paths[33], None);
    }

    #[test]
    fn switches_with_higher_numbers_come_first() {
        let hops = shortest_path_links(&clos_topology(), 3);
        // Leaf 4 reaches host 3 by spine 7 (link 5) and spine 6 (link 4).
        assert_eq!(hops[4], [5, 4]);
        assert_eq!(hops[0], [0]);
    }

    /// Two links connect nodes 4 and 5. The neighbour map of the model keeps only the second link.
    #[test]
    fn last_of_several_parallel_links_is_used() {
        let links = "0 4 1Gbps 1us 0\n4 5 1Gbps 1us 0\n3 5 1Gbps 1us 0\n5 4 1Gbps 1us 0\n";
        let topology = topology::read_topology(&InputText::from_content(
            "topology.txt",
            &format!("6 2 4\n4 5\n{links}"),
        ))
        .unwrap();
        let paths = flow_paths(&topology, &[flow_between(0, 3)]);
        let path = paths[0].as_ref().unwrap();
        let links: Vec<usize> = path.data.iter().map(|step| step.link).collect();
        assert_eq!(links, [0, 3, 2]);
        assert_eq!(
            (topology.interface_number(4, 1), topology.interface_number(4, 3)),
            (Some(2), Some(3))
        );
    }
}
