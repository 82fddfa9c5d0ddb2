//! The paths that the model's switches choose: shortest in links, among several by its hash of addresses and ports.

use std::collections::BTreeMap;

use super::scenario::Flow;
use super::topology::Topology;

/// UDP source port of the first flow between two hosts; the next ones count up.
pub(super) const FIRST_SOURCE_PORT: u16 = 10_000;

/// Address of a node in the model.
pub fn node_address(node: u32) -> u32 {
    0x0b00_0001 + (node / 256) * 0x1_0000 + (node % 256) * 0x100
}

/// The node that has an address in the model.
pub(super) fn node_of_address(address: u32) -> u32 {
    address >> 8 & 0xffff
}

/// The ways of a flow's data and of its acknowledgements: the link out of each node on the way, the sender's first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowPaths {
    /// Hops of the data packets.
    pub data: Vec<PathStep>,
    /// Hops of the acknowledgements.
    pub acks: Vec<PathStep>,
}

/// From a node over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathStep {
    pub node: u32,
    pub link: usize,
}

/// The ways of all flows, which come in the order of their starts; `None` for one without a way.
pub fn flow_paths(topology: &Topology, flows: &[Flow]) -> Vec<Option<FlowPaths>> {
    let mut hops: BTreeMap<u32, Vec<Vec<usize>>> = BTreeMap::new();
    let mut source_ports: BTreeMap<(u32, u32), u16> = BTreeMap::new();
    let mut all = Vec::with_capacity(flows.len());
    for flow in flows {
        for end in [flow.src, flow.dst] {
            hops.entry(end).or_insert_with(|| next_hops(topology, end));
        }
        let port = source_ports
            .entry((flow.src, flow.dst))
            .or_insert(FIRST_SOURCE_PORT);
        let (source_port, dst_port) = (*port, flow.dst_port);
        *port = port.wrapping_add(1);
        let data = path(
            topology,
            &hops[&flow.dst],
            flow.src,
            flow.dst,
            [source_port, dst_port],
        );
        let acks = path(
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

/// Per node, the links on its shortest ways to a host, in the order in which the model has them.
///
/// The model visits neighbours in the order of their places in memory. Switches are large objects, each in a mapping of its own,
/// and mappings grow downwards: the one made last, of the highest number, comes first. Only where there are several equal
/// ways does that matter.
fn next_hops(topology: &Topology, host: u32) -> Vec<Vec<usize>> {
    let mut hops = vec![Vec::new(); topology.nodes.len()];
    let mut distance = vec![u32::MAX; topology.nodes.len()];
    distance[host as usize] = 0;
    let mut queue = vec![host];
    let mut at = 0;
    while let Some(&now) = queue.get(at) {
        at += 1;
        let next_distance = distance[now as usize] + 1;
        for link in usable_links(topology, now) {
            let next = topology.links[link].peer_of(now) as usize;
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

/// Whether a node has several shortest paths to a host.
pub fn has_equal_paths(topology: &Topology, host: u32) -> bool {
    next_hops(topology, host).iter().any(|links| links.len() > 1)
}

/// The links that the model routes over, in the order of its map of neighbours (`nbr2if`). Of several links between two nodes that
/// map keeps the last one.
fn usable_links(topology: &Topology, node: u32) -> Vec<usize> {
    let mut of_neighbour: BTreeMap<(bool, u32), usize> = BTreeMap::new();
    for link in &topology.nodes[node as usize].links {
        let peer = topology.links[*link].peer_of(node);
        let place = match topology.nodes[peer as usize].is_switch {
            false => (false, peer),
            true => (true, u32::MAX - peer),
        };
        of_neighbour.insert(place, *link);
    }
    of_neighbour.into_values().collect()
}

/// Round trip and bandwidth-delay product of a pair of hosts as the model computes them: along one shortest path, with a full
/// payload for each link in one direction (`third.cc`, `pairRtt` and `pairBdp`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairTiming {
    pub rtt_ns: u64,
    /// In 32 bits, as the model keeps it; 0 means none.
    pub window_bytes: u32,
}

/// The timings of pairs of hosts. Those of a receiver are computed when the first of its flows asks.
#[derive(Debug)]
pub struct PairTimings<'a> {
    topology: &'a Topology,
    payload_bytes: u32,
    to: BTreeMap<u32, Vec<PairTiming>>,
    largest: Option<PairTiming>,
}

impl<'a> PairTimings<'a> {
    /// Timings of the pairs of nodes in a topology, for packets with `payload_bytes` bytes of payload.
    pub fn new(topology: &'a Topology, payload_bytes: u32) -> PairTimings<'a> {
        PairTimings {
            topology,
            payload_bytes,
            to: BTreeMap::new(),
            largest: None,
        }
    }

    /// That of a pair; the largest round trip and the largest product of all pairs if `of_largest_pair` (`GLOBAL_T` 1).
    pub fn get(&mut self, src: u32, dst: u32, of_largest_pair: bool) -> PairTiming {
        if of_largest_pair {
            let (topology, payload_bytes) = (self.topology, self.payload_bytes);
            return *self
                .largest
                .get_or_insert_with(|| largest_timing(topology, payload_bytes));
        }
        let timings = self
            .to
            .entry(dst)
            .or_insert_with(|| timings_to(self.topology, self.payload_bytes, dst));
        timings[src as usize]
    }
}

/// Of all hosts to one.
fn timings_to(topology: &Topology, payload_bytes: u32, host: u32) -> Vec<PairTiming> {
    let hops = next_hops(topology, host);
    let hosts = topology.nodes.iter().enumerate();
    hosts
        .map(|(from, node)| {
            let (mut delay_ns, mut sending_ns, mut rate_bps) = (0, 0, u64::MAX);
            let mut at = from as u32;
            while at != host && !node.is_switch {
                let Some(link) = hops[at as usize].first() else {
                    return PairTiming::default();
                };
                let next = &topology.links[*link];
                delay_ns += next.delay_ns;
                sending_ns += u64::from(payload_bytes) * 8_000_000_000 / next.rate_bps();
                rate_bps = rate_bps.min(next.rate_bps());
                at = next.peer_of(at);
            }
            let rtt_ns = delay_ns * 2 + sending_ns;
            PairTiming {
                rtt_ns,
                window_bytes: (rtt_ns.wrapping_mul(rate_bps) / 1_000_000_000 / 8) as u32,
            }
        })
        .collect()
}

fn largest_timing(topology: &Topology, payload_bytes: u32) -> PairTiming {
    let timings = topology.hosts().flat_map(|host| {
        let mut timings = timings_to(topology, payload_bytes, host);
        timings[host as usize] = PairTiming::default();
        timings
    });
    timings.fold(PairTiming::default(), |max, timing| PairTiming {
        rtt_ns: max.rtt_ns.max(timing.rtt_ns),
        window_bytes: max.window_bytes.max(timing.window_bytes),
    })
}

fn path(
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
            n => hash(key, node) as usize % n,
        };
        let link = links[choice];
        steps.push(PathStep { node, link });
        node = topology.links[link].peer_of(node);
    }
    Some(steps)
}

/// MurmurHash3 (x86, 32 bits; Appleby, public domain) of three words.
fn hash(words: [u32; 3], seed: u32) -> u32 {
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
    use super::super::text::Text;
    use super::super::topology;
    use super::*;

    /// Published values of MurmurHash3_x86_32 over twelve octets.
    #[test]
    fn the_hash_is_murmur3() {
        let words = |text: &[u8; 12]| {
            let word = |at: usize| u32::from_le_bytes([text[at], text[at + 1], text[at + 2], text[at + 3]]);
            [word(0), word(4), word(8)]
        };
        assert_eq!(hash(words(b"Hello, world"), 0), reference(b"Hello, world", 0));
        assert_eq!(
            hash(words(b"aaaabbbbcccc"), 0x9747_b28c),
            reference(b"aaaabbbbcccc", 0x9747_b28c)
        );
        // smhasher's "test" and "aaaa" vectors fix the reference itself.
        assert_eq!(reference(b"test", 0), 0xba6b_d213);
        assert_eq!(reference(b"aaaa", 0x9747_b28c), 0x5a97_808a);
    }

    /// The algorithm as its author describes it, for any multiple of four octets.
    fn reference(bytes: &[u8], seed: u32) -> u32 {
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

    /// Two leaves (4, 5), two spines (6, 7), two hosts each; host 8 has no link.
    fn clos() -> Topology {
        let text = "9 4 8\n4 5 6 7\n0 4 1Gbps 0ms 0\n1 4 1Gbps 0ms 0\n2 5 1Gbps 0ms 0\n3 5 1Gbps 0ms 0\n\
                    4 6 1Gbps 0ms 0\n4 7 1Gbps 0ms 0\n5 6 1Gbps 0ms 0\n5 7 1Gbps 0ms 0\n";
        topology::read(&Text::of("topology.txt", text)).unwrap()
    }

    fn flow(src: u32, dst: u32) -> Flow {
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
    fn paths_are_shortest_and_flows_of_a_pair_may_differ() {
        let topology = clos();
        let flows: Vec<Flow> = (0..32)
            .map(|_| flow(0, 3))
            .chain([flow(0, 1), flow(0, 8)])
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
    fn switches_come_in_the_order_of_memory() {
        let hops = next_hops(&clos(), 3);
        // Leaf 4 reaches host 3 by spine 7 (link 5) and spine 6 (link 4).
        assert_eq!(hops[4], [5, 4]);
        assert_eq!(hops[0], [0]);
    }
    /// Two links between nodes 4 and 5: the model's map of neighbours keeps the later one, whatever the order of its ends.
    #[test]
    fn of_parallel_links_the_last_one_is_used() {
        let links = "0 4 1Gbps 1us 0\n4 5 1Gbps 1us 0\n3 5 1Gbps 1us 0\n5 4 1Gbps 1us 0\n";
        let topology = topology::read(&Text::of("topology.txt", &format!("6 2 4\n4 5\n{links}"))).unwrap();
        let paths = flow_paths(&topology, &[flow(0, 3)]);
        let path = paths[0].as_ref().unwrap();
        let links: Vec<usize> = path.data.iter().map(|step| step.link).collect();
        assert_eq!(links, [0, 3, 2]);
        assert_eq!(
            (topology.interface(4, 1), topology.interface(4, 3)),
            (Some(2), Some(3))
        );
    }
}
