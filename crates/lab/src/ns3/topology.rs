//! Reads `topology.txt`: the nodes and the links between them.

use super::text::{InputText, InputWord, ReadError, quote};
use super::units;

/// Largest number of nodes. The IPv4 address of a node in the model contains a 16-bit node number.
const NODES_MAX: u32 = 65_536;
/// Largest number of links.
const LINKS_MAX: u32 = 1 << 20;
/// Supported speeds of a link in Mb/s.
const SPEEDS_MBPS: std::ops::RangeInclusive<u64> = 1..=1_600_000;

const COUNTS: &str = "the numbers of nodes, switches and links";
const LINK: &str = "a link `a b rate delay error_rate`, such as `0 9 100Gbps 0.001ms 0`";
const LINK_FIELDS: [&str; 5] = [
    "the first end",
    "the second end",
    "the rate",
    "the delay",
    "the error rate",
];

/// The nodes and links of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The nodes. The node number is the index of this list.
    pub nodes: Vec<Node>,
    /// The links, in the order of the file.
    pub links: Vec<Link>,
}

/// A switch or a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// True for a switch, false for a host.
    pub is_switch: bool,
    /// Indices in [`Topology::links`] of the links of the node. The model numbers interfaces from 1, so the
    /// first link belongs to interface 1. A host has at most one link.
    pub links: Vec<usize>,
}

/// A link between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Node numbers of the two ends, which differ.
    pub ends: [u32; 2],
    /// Speed in Mb/s, 1 to 1 600 000.
    pub speed_mbps: u32,
    /// Propagation delay in nanoseconds.
    pub delay_ns: u64,
}

impl Link {
    /// Returns the speed in bits per second.
    pub fn rate_bps(&self) -> u64 {
        u64::from(self.speed_mbps) * 1_000_000
    }

    /// Returns the number of the node at the other end. `node` must be one of the ends.
    pub fn peer_of(&self, node: u32) -> u32 {
        match self.ends {
            [a, b] if a == node => b,
            [a, _] => a,
        }
    }
}

impl Topology {
    /// Returns the number of the interface (from 1) that connects a node to a link. `link` is an index of
    /// [`Topology::links`]. Returns `None` if the link has no end at this node.
    pub fn interface_number(&self, node: u32, link: usize) -> Option<u32> {
        let links = &self.nodes.get(node as usize)?.links;
        links
            .iter()
            .position(|other| *other == link)
            .map(|index| index as u32 + 1)
    }

    /// Returns the node numbers of all hosts in increasing order.
    pub fn hosts(&self) -> impl Iterator<Item = u32> {
        self.nodes_of_kind(false)
    }

    /// Returns the node numbers of all switches in increasing order.
    pub fn switches(&self) -> impl Iterator<Item = u32> {
        self.nodes_of_kind(true)
    }

    fn nodes_of_kind(&self, is_switch: bool) -> impl Iterator<Item = u32> {
        let nodes = self.nodes.iter().enumerate();
        nodes
            .filter(move |(_, node)| node.is_switch == is_switch)
            .map(|(index, _)| index as u32)
    }
}

/// Reads the file in the same way as `third.cc` of the model.
///
/// The file is a sequence of words, and line ends have no meaning. Words after the last link are ignored.
pub(super) fn read_topology(text: &InputText) -> Result<Topology, ReadError> {
    let mut words = text.words();
    let mut count = |name: &str, max: u32| {
        let word = text.next_word(&mut words, name, COUNTS)?;
        text.parse_number(&word, name, 0..=max)
    };
    let nodes = count("the number of nodes", NODES_MAX)?;
    let switches = count("the number of switches", nodes)?;
    let links = count("the number of links", LINKS_MAX)?;
    let blank = Node {
        is_switch: false,
        links: Vec::new(),
    };
    let mut topology = Topology {
        nodes: vec![blank; nodes as usize],
        links: Vec::with_capacity(links.min(1 << 16) as usize),
    };
    for _ in 0..switches {
        let word = text.next_word(
            &mut words,
            "the number of a switch",
            "the numbers of all switches",
        )?;
        let switch: u32 = text.parse_number(&word, "the number of a switch", 0..=nodes.saturating_sub(1))?;
        if std::mem::replace(&mut topology.nodes[switch as usize].is_switch, true) {
            let expected = format!(
                "the numbers of {}, each once",
                xoff_telemetry::count_noun(switches as u64, "switch")
            );
            return Err(text.error_at_word(&word, format!("switch {switch} is named twice"), expected));
        }
    }
    for index in 0..links {
        let mut fields = [None; LINK_FIELDS.len()];
        for (field, name) in fields.iter_mut().zip(LINK_FIELDS) {
            let name = format!("{name} of link {} of {links}", index + 1);
            *field = Some(text.next_word(&mut words, &name, LINK)?);
        }
        add_link(text, fields.map(|field| field.unwrap_or_default()), &mut topology)?;
    }
    Ok(topology)
}

/// Adds a link from its five fields.
fn add_link(
    text: &InputText,
    [from, to, rate, delay, error_rate]: [InputWord<'_>; 5],
    topology: &mut Topology,
) -> Result<(), ReadError> {
    let node_max = (topology.nodes.len() as u32).saturating_sub(1);
    let ends = [
        text.parse_number(&from, "the first end", 0..=node_max)?,
        text.parse_number(&to, "the second end", 0..=node_max)?,
    ];
    let (speed_mbps, delay_ns) = link_timing(text, &rate, &delay)?;
    if error_rate.text.parse::<f64>() != Ok(0.0) {
        let what = format!("the error rate is {}", quote(error_rate.text));
        return Err(text.error_at_word(
            &error_rate,
            what,
            "0: the random losses of the model cannot be reproduced",
        ));
    }
    if ends[0] == ends[1] {
        return Err(text.error_at_word(&to, "both ends are the same node", LINK));
    }
    let index = topology.links.len();
    for (word, end) in [(&from, ends[0]), (&to, ends[1])] {
        let node = &mut topology.nodes[end as usize];
        if !node.is_switch && !node.links.is_empty() {
            let what = format!("host {end} has a link already");
            return Err(text.error_at_word(word, what, "one link per host"));
        }
        node.links.push(index);
    }
    topology.links.push(Link {
        ends,
        speed_mbps,
        delay_ns,
    });
    Ok(())
}

/// Parses the rate and the delay of a link into Mb/s and nanoseconds.
fn link_timing(
    text: &InputText,
    rate: &InputWord<'_>,
    delay: &InputWord<'_>,
) -> Result<(u32, u64), ReadError> {
    let whole_mbps = |bps: &u64| bps.is_multiple_of(1_000_000) && SPEEDS_MBPS.contains(&(bps / 1_000_000));
    let rate_bps = units::parse_rate_bps(rate.text)
        .filter(whole_mbps)
        .ok_or_else(|| {
            let what = format!("the rate is {}", quote(rate.text));
            text.error_at_word(rate, what, "a rate in whole Mb/s up to 1.6 Tb/s, such as 100Gbps")
        })?;
    let delay_ns = units::parse_duration_ns(delay.text).ok_or_else(|| {
        let what = format!("the delay is {}", quote(delay.text));
        text.error_at_word(delay, what, "a time in s, ms, us or ns, such as 0.001ms")
    })?;
    Ok(((rate_bps / 1_000_000) as u32, delay_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_topology(content: &str) -> Result<Topology, String> {
        read_topology(&InputText::from_content("topology.txt", content)).map_err(|error| error.to_string())
    }

    #[test]
    fn interfaces_are_numbered_in_the_order_of_links() {
        let topology =
            parse_topology("4 2 3\n2 3\n0 2 100Gbps 0.001ms 0\n3 2 400Gbps 2us 0\n1 3 25Gbps 0ns 0.0\n")
                .unwrap();
        assert_eq!(topology.switches().collect::<Vec<_>>(), [2, 3]);
        assert_eq!(topology.hosts().collect::<Vec<_>>(), [0, 1]);
        assert_eq!(
            topology.links[1],
            Link {
                ends: [3, 2],
                speed_mbps: 400_000,
                delay_ns: 2_000,
            }
        );
        assert_eq!(topology.interface_number(2, 1), Some(2));
        assert_eq!(topology.interface_number(3, 1), Some(1));
        assert_eq!(topology.interface_number(3, 0), None);
        assert_eq!(topology.links[1].peer_of(3), 2);
    }

    /// The model reads words with the C++ operator `>>`, which ignores line ends. The file starts with the
    /// number of links, and the model ignores words after the last link.
    #[test]
    fn words_after_the_announced_links_are_ignored() {
        let expected = parse_topology("3 1 2\n2\n0 2 1Gbps 5ms 0\n1 2 1Gbps 5ms 0\n").unwrap();
        for text in [
            "3 1 2 2 0 2 1Gbps 5ms 0 1 2 1Gbps 5ms 0",
            "3\n1\n2\n\n2\n0 2\n1Gbps\t5ms 0.0\n1 2 1000Mb/s 0.005 0",
            "3 1 2\n2\n0 2 1Gbps 5ms 0\n1 2 1Gbps 5ms 0\n0 1 1Gbps 5ms 0\n",
            "3 1 2\n2\n0 2 1Gbps 5ms 0\n1 2 1Gbps 5ms 0\n\nFirst line: total node #, switch node #, link #\n",
        ] {
            assert_eq!(parse_topology(text).as_ref(), Ok(&expected), "{text:?}");
        }
    }

    #[test]
    fn topology_errors_have_line_and_column() {
        for (content, error) in [
            ("", "topology.txt:1:1: the number of nodes is missing"),
            ("3 1", "topology.txt:2:1: the number of links is missing"),
            ("3 4 2\n", "topology.txt:1:3: the number of switches is 4"),
            ("3 1 2\n5\n", "topology.txt:2:1: the number of a switch is 5"),
            ("3 2 2\n2 2\n", "topology.txt:2:3: switch 2 is named twice"),
            (
                "3 2 2\n2\n",
                "topology.txt:3:1: the number of a switch is missing",
            ),
            (
                "3 1 1\n2\n0 2 100 0ms 0\n",
                "topology.txt:3:5: the rate is \"100\"",
            ),
            (
                "3 1 1\n2\n0 2 1.5Mbps 0ms 0\n",
                "topology.txt:3:5: the rate is \"1.5Mbps\"",
            ),
            (
                "3 1 1\n2\n0 2 1Gbps 5m 0\n",
                "topology.txt:3:11: the delay is \"5m\"",
            ),
            (
                "3 1 1\n2\n0 2 1Gbps 5ms\n",
                "topology.txt:4:1: the error rate of link 1 of 1 is missing",
            ),
            (
                "3 1 1\n2\n0 2 1Gbps 5ms 0.1\n",
                "topology.txt:3:15: the error rate is \"0.1\"",
            ),
            (
                "3 1 1\n2\n0 3 1Gbps 5ms 0\n",
                "topology.txt:3:3: the second end is 3",
            ),
            ("3 1 1\n2\n2 2 1Gbps 5ms 0\n", "topology.txt:3:3: both ends"),
            (
                "3 1 2\n2\n0 2 1Gbps 5ms 0\n",
                "topology.txt:4:1: the first end of link 2 of 2 is missing",
            ),
            (
                "4 2 2\n2 3\n0 2 1Gbps 5ms 0\n0 3 1Gbps 5ms 0\n",
                "topology.txt:4:1: host 0 has a link already",
            ),
            (
                "3 1 2\n2\n0 2 1Gbps 5ms 0\n2 0 1Gbps 5ms 0\n",
                "topology.txt:4:3: host 0 has a link already",
            ),
        ] {
            let got = parse_topology(content).unwrap_err();
            assert!(got.starts_with(error), "{content:?}: {got}");
        }
    }
}
