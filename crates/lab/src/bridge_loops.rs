//! Finds loops of layer 2 in a lab: cycles of links within one bridge or VLAN of the switches. A flooded frame
//! would circulate in such a loop for ever, because the switches have no spanning tree protocol.
//!
//! Each bridge or VLAN of a switch is a node of a graph, and a link that carries frames between two of them is
//! an edge. The search adds the links one by one and stops at the first link between two nodes that are
//! already connected. Its work grows linearly with the links and their VLANs.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use xoff_dataplane::config::{BridgingConfig, InterfaceAttachment, SwitchConfig, TaggingMode};

use super::plan::{FarEnd, LinkPlan};

/// VLAN of untagged frames in a bridge without VLANs.
const UNTAGGED: u16 = 0;

/// A loop of links within one bridge or VLAN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BridgeLoop {
    /// Indices of the switches of the loop, in order. The last switch is connected with the first switch.
    pub(super) switches: Vec<usize>,
    /// Indices of the links of the loop. Link *n* leads from switch *n* to the next switch.
    pub(super) links: Vec<usize>,
    /// The VLAN at the first switch. `None` if the switch has no VLANs.
    pub(super) vlan: Option<u16>,
}

/// Returns whether the links between switches form a cycle, without regard to the configuration of the
/// switches. Without such a cycle, no configuration has a loop.
pub(super) fn has_cycle(switch_count: usize, links: &[LinkPlan]) -> bool {
    let mut groups = DisjointSets::default();
    (0..switch_count).for_each(|_| {
        groups.add();
    });
    links.iter().any(|link| match &link.far {
        FarEnd::Switch { switch, .. } => !groups.join(link.switch, *switch),
        FarEnd::Host(_) | FarEnd::External(_) => false,
    })
}

/// Returns a loop of the lab. `configs` contains the resolved configurations of all switches. Returns `None`
/// if the lab has no loop.
pub(super) fn find_bridge_loop(configs: &[&SwitchConfig], links: &[LinkPlan]) -> Option<BridgeLoop> {
    let bridges: Vec<SwitchBridging> = configs.iter().map(|config| SwitchBridging::new(config)).collect();
    let joins: Vec<LinkBetweenSwitches> = links
        .iter()
        .enumerate()
        .filter_map(|(index, link)| LinkBetweenSwitches::new(index, link, &bridges))
        .collect();
    let tags = tags_in_plain_bridges(&joins, &bridges);
    let mut graph = BridgeGraph::default();
    let mut known_links = HashSet::new();
    for join in &joins {
        // The members of a LAG are one link.
        if !known_links.insert(join.ends) {
            continue;
        }
        for ends in join.connected_vlans(&bridges, &tags) {
            if let Some(found) = graph.add_link(join, ends, &bridges) {
                return Some(found);
            }
        }
    }
    None
}

/// A switch, by its index, and a VLAN of the switch.
type BridgeId = (usize, u16);

/// The VLAN membership of the ports of a switch.
struct SwitchBridging {
    /// Index of the logical port of each port, by the name of the port. Ports that forward no frames at layer 2
    /// are missing.
    logical_ports: HashMap<String, usize>,
    /// VLANs and tagging modes of each logical port. `None` if all ports form one bridge, which ignores tags.
    vlans: Option<HashMap<usize, Vec<(u16, TaggingMode)>>>,
}

impl SwitchBridging {
    fn new(config: &SwitchConfig) -> SwitchBridging {
        let port_count = config.ports.len();
        let mut logical_of: Vec<Option<usize>> = config
            .ports
            .iter()
            .enumerate()
            .map(|(index, port)| port.admin_up.then_some(index))
            .collect();
        for (index, lag) in config.lags.iter().enumerate() {
            for member in &lag.members {
                let logical = &mut logical_of[usize::from(*member)];
                *logical = logical.and(lag.admin_up.then_some(port_count + index));
            }
        }
        let routed: HashSet<usize> = config
            .routing
            .interfaces
            .iter()
            .filter_map(|interface| match interface.attachment {
                InterfaceAttachment::Port(port) => Some(usize::from(port)),
                InterfaceAttachment::Lag(lag) => Some(port_count + usize::from(lag)),
                InterfaceAttachment::Vlan(_) | InterfaceAttachment::Loopback => None,
            })
            .collect();
        let names = config.ports.iter().map(|port| port.name.clone());
        let logical_ports = names
            .zip(logical_of)
            .filter_map(|(name, logical)| Some((name, logical.filter(|logical| !routed.contains(logical))?)));
        let vlans = match &config.bridging {
            BridgingConfig::Transparent => None,
            BridgingConfig::Vlans(vlans) => {
                let mut by_port: HashMap<usize, Vec<(u16, TaggingMode)>> = HashMap::new();
                for vlan in vlans {
                    for member in &vlan.members {
                        let port = by_port.entry(usize::from(member.port)).or_default();
                        port.push((vlan.id, member.tagging));
                    }
                }
                Some(by_port)
            }
        };
        SwitchBridging {
            logical_ports: logical_ports.collect(),
            vlans,
        }
    }

    /// Returns the VLANs and tagging modes of a logical port. Returns `None` if the switch has no VLANs.
    fn memberships(&self, logical: usize) -> Option<&[(u16, TaggingMode)]> {
        let vlans = self.vlans.as_ref()?;
        Some(vlans.get(&logical).map_or(&[], Vec::as_slice))
    }
}

/// A link between two switches that forward its frames at layer 2.
struct LinkBetweenSwitches {
    /// Index of the link in the plan.
    link: usize,
    /// Switch and logical port of both ends.
    ends: [(usize, usize); 2],
}

impl LinkBetweenSwitches {
    fn new(link_index: usize, link: &LinkPlan, bridges: &[SwitchBridging]) -> Option<LinkBetweenSwitches> {
        let FarEnd::Switch { switch: far, port } = &link.far else {
            return None;
        };
        let near_port = *bridges[link.switch].logical_ports.get(&link.port)?;
        let far_port = *bridges[*far].logical_ports.get(port)?;
        Some(LinkBetweenSwitches {
            link: link_index,
            ends: [(link.switch, near_port), (*far, far_port)],
        })
    }

    /// Returns the pairs of VLANs that the link connects in both directions. `tags` contains the VLAN tags that
    /// can occur in bridges without VLANs.
    fn connected_vlans(&self, bridges: &[SwitchBridging], tags: &BTreeSet<u16>) -> Vec<[u16; 2]> {
        let [near, far] = self.ends.map(|(switch, port)| bridges[switch].memberships(port));
        // Returns the tag of the frames of a VLAN on the link.
        let tag_on_link = |&(vlan, tagging): &(u16, TaggingMode)| match tagging {
            TaggingMode::Tagged => vlan,
            TaggingMode::Untagged | TaggingMode::PriorityTagged => UNTAGGED,
        };
        match (near, far) {
            (None, None) => {
                let tagged = tags.iter().map(|tag| [*tag, *tag]);
                std::iter::once([UNTAGGED; 2]).chain(tagged).collect()
            }
            (Some(vlans), None) => vlans.iter().map(|entry| [entry.0, tag_on_link(entry)]).collect(),
            (None, Some(vlans)) => vlans.iter().map(|entry| [tag_on_link(entry), entry.0]).collect(),
            (Some(near), Some(far)) => {
                let far: HashMap<u16, u16> = far.iter().map(|entry| (tag_on_link(entry), entry.0)).collect();
                let pair = |entry: &(u16, TaggingMode)| Some([entry.0, *far.get(&tag_on_link(entry))?]);
                near.iter().filter_map(pair).collect()
            }
        }
    }
}

/// Returns the VLAN tags of frames that VLANs send to bridges without VLANs.
fn tags_in_plain_bridges(joins: &[LinkBetweenSwitches], bridges: &[SwitchBridging]) -> BTreeSet<u16> {
    let mut tags = BTreeSet::new();
    for join in joins {
        let [near, far] = join.ends.map(|(switch, port)| bridges[switch].memberships(port));
        if let (Some(vlans), None) | (None, Some(vlans)) = (near, far) {
            let tagged = vlans
                .iter()
                .filter(|(_, tagging)| *tagging == TaggingMode::Tagged);
            tags.extend(tagged.map(|(vlan, _)| *vlan));
        }
    }
    tags
}

/// The bridges and VLANs of all switches, and the links between them that form no loop.
#[derive(Default)]
struct BridgeGraph {
    node_of: HashMap<BridgeId, usize>,
    ids: Vec<BridgeId>,
    /// Neighbours of each node, with the index of the link.
    neighbours: Vec<Vec<(usize, usize)>>,
    groups: DisjointSets,
}

impl BridgeGraph {
    /// Adds a link between the VLANs `vlans` of the two switches of `join`. Returns a loop if the two were
    /// already connected.
    fn add_link(
        &mut self,
        join: &LinkBetweenSwitches,
        vlans: [u16; 2],
        bridges: &[SwitchBridging],
    ) -> Option<BridgeLoop> {
        let [(near, _), (far, _)] = join.ends;
        let (a, b) = (self.node((near, vlans[0])), self.node((far, vlans[1])));
        if self.groups.join(a, b) {
            self.neighbours[a].push((b, join.link));
            self.neighbours[b].push((a, join.link));
            return None;
        }
        let (nodes, mut links) = self.path(a, b);
        links.push(join.link);
        let (switch, vlan) = self.ids[a];
        Some(BridgeLoop {
            switches: nodes.into_iter().map(|node| self.ids[node].0).collect(),
            links,
            vlan: bridges[switch].vlans.is_some().then_some(vlan),
        })
    }

    fn node(&mut self, id: BridgeId) -> usize {
        if let Some(node) = self.node_of.get(&id) {
            return *node;
        }
        let node = self.groups.add();
        self.node_of.insert(id, node);
        self.ids.push(id);
        self.neighbours.push(Vec::new());
        node
    }

    /// Returns the nodes and the links of the path between two connected nodes.
    fn path(&self, from: usize, to: usize) -> (Vec<usize>, Vec<usize>) {
        let mut previous: Vec<Option<(usize, usize)>> = vec![None; self.ids.len()];
        let mut queue = VecDeque::from([to]);
        while let Some(node) = queue.pop_front().filter(|node| *node != from) {
            for &(neighbour, link) in &self.neighbours[node] {
                if neighbour != to && previous[neighbour].is_none() {
                    previous[neighbour] = Some((node, link));
                    queue.push_back(neighbour);
                }
            }
        }
        let (mut nodes, mut links, mut node) = (vec![from], Vec::new(), from);
        while let Some((next, link)) = previous[node] {
            nodes.push(next);
            links.push(link);
            node = next;
        }
        (nodes, links)
    }
}

/// Disjoint sets of numbers (union-find).
#[derive(Default)]
struct DisjointSets {
    parents: Vec<usize>,
    sizes: Vec<usize>,
}

impl DisjointSets {
    /// Adds a set with one new number, and returns the number.
    fn add(&mut self) -> usize {
        self.parents.push(self.parents.len());
        self.sizes.push(1);
        self.parents.len() - 1
    }

    fn root(&mut self, mut number: usize) -> usize {
        while self.parents[number] != number {
            self.parents[number] = self.parents[self.parents[number]];
            number = self.parents[number];
        }
        number
    }

    /// Joins the sets of two numbers. Returns false if the numbers are in the same set.
    fn join(&mut self, a: usize, b: usize) -> bool {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return false;
        }
        let (small, large) = if self.sizes[a] < self.sizes[b] {
            (a, b)
        } else {
            (b, a)
        };
        self.parents[small] = large;
        self.sizes[large] += self.sizes[small];
        true
    }
}
