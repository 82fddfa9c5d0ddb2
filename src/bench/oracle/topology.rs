//! `topology.txt`: nodes, and the links between them.

use std::collections::BTreeSet;

use super::text::{Line, ReadError, Text, quoted};
use super::units;

/// Most nodes: addresses of the model have 16 bits for them.
const NODES_MAX: u32 = 65_536;
/// Most links of one folder.
const LINKS_MAX: u32 = 1 << 20;
/// Speeds that a link can have here, in Mb/s.
const SPEEDS_MBPS: std::ops::RangeInclusive<u64> = 1..=1_600_000;

const COUNTS: &str = "a first line `nodes switches links`";
const LINK: &str = "a link `a b rate delay error_rate`, such as `0 9 100Gbps 0.001ms 0`";

/// Nodes and links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// What each node is, by its number.
    pub nodes: Vec<Node>,
    /// The links in file order.
    pub links: Vec<Link>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// A switch; otherwise a host.
    pub is_switch: bool,
    /// Indices of its links: interface *n* of the model is the *n*-th of them, from 1.
    pub links: Vec<usize>,
}

/// A link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The nodes at its ends.
    pub ends: [u32; 2],
    /// Its speed in Mb/s.
    pub speed_mbps: u32,
    /// How long a bit is under way, in nanoseconds.
    pub delay_ns: u64,
}

impl Link {
    /// Bits per second.
    pub fn rate_bps(&self) -> u64 {
        u64::from(self.speed_mbps) * 1_000_000
    }

    /// The node at the other end.
    pub fn peer_of(&self, node: u32) -> u32 {
        match self.ends {
            [a, b] if a == node => b,
            [a, _] => a,
        }
    }
}

impl Topology {
    /// The node's interface (from 1) to a link.
    pub fn interface(&self, node: u32, link: usize) -> Option<u32> {
        let links = &self.nodes.get(node as usize)?.links;
        links.iter().position(|at| *at == link).map(|at| at as u32 + 1)
    }

    /// The hosts' numbers.
    pub fn hosts(&self) -> impl Iterator<Item = u32> {
        self.of_kind(false)
    }

    /// The switches' numbers.
    pub fn switches(&self) -> impl Iterator<Item = u32> {
        self.of_kind(true)
    }

    fn of_kind(&self, is_switch: bool) -> impl Iterator<Item = u32> {
        let kind = self.nodes.iter().enumerate();
        kind.filter(move |(_, node)| node.is_switch == is_switch)
            .map(|(at, _)| at as u32)
    }
}

/// Reads the file.
pub(super) fn read(text: &Text) -> Result<Topology, ReadError> {
    let mut lines = text.lines();
    let Some(first) = lines.next() else {
        return Err(text.ended("the file is empty", COUNTS));
    };
    let count = |at: usize, name: &str, max: u32| {
        let word = text.word(&first, at, name, COUNTS)?;
        text.number(&word, name, 0..=max)
    };
    let nodes = count(0, "the number of nodes", NODES_MAX)?;
    let switches = count(1, "the number of switches", nodes)?;
    let links = count(2, "the number of links", LINKS_MAX)?;
    text.nothing_behind(&first, 3, COUNTS)?;
    let blank = Node {
        is_switch: false,
        links: Vec::new(),
    };
    let mut topology = Topology {
        nodes: vec![blank; nodes as usize],
        links: Vec::with_capacity(links as usize),
    };
    let mut named = 0;
    while named < switches {
        let Some(line) = lines.next() else {
            return Err(text.ended(
                format!("{named} of {switches} switches are named"),
                "the numbers of all switches",
            ));
        };
        for word in &line.words {
            let switch: u32 = text.number(word, "the number of a switch", 0..=nodes.saturating_sub(1))?;
            let node = &mut topology.nodes[switch as usize];
            if named == switches || std::mem::replace(&mut node.is_switch, true) {
                let what = format!("switch {switch} is one too many, or named twice");
                return Err(text.wrong_word(
                    word,
                    what,
                    format!("the numbers of {switches} switches, each once"),
                ));
            }
            named += 1;
        }
    }
    let mut pairs = BTreeSet::new();
    for line in lines {
        if topology.links.len() == links as usize {
            let what = format!("the first line says {links} links; this is one more");
            return Err(text.wrong(line.number, 1, what, "the end of the file"));
        }
        add_link(text, &line, &mut topology, &mut pairs)?;
    }
    if topology.links.len() < links as usize {
        let what = format!(
            "the first line says {links} links; there are {}",
            topology.links.len()
        );
        return Err(text.ended(what, LINK));
    }
    Ok(topology)
}

fn add_link(
    text: &Text,
    line: &Line<'_>,
    topology: &mut Topology,
    pairs: &mut BTreeSet<[u32; 2]>,
) -> Result<(), ReadError> {
    let word = |at: usize, name: &str| text.word(line, at, name, LINK);
    let node_max = (topology.nodes.len() as u32).saturating_sub(1);
    let [from, to] = [word(0, "the first end")?, word(1, "the second end")?];
    let ends = [
        text.number(&from, "the first end", 0..=node_max)?,
        text.number(&to, "the second end", 0..=node_max)?,
    ];
    let rate = word(2, "the rate")?;
    let speed_mbps = units::rate_bps(rate.text)
        .filter(|bps| bps.is_multiple_of(1_000_000) && SPEEDS_MBPS.contains(&(bps / 1_000_000)))
        .ok_or_else(|| {
            let what = format!("the rate is {}", quoted(rate.text));
            text.wrong_word(
                &rate,
                what,
                "a rate in whole Mb/s up to 1.6 Tb/s, such as 100Gbps",
            )
        })?;
    let delay = word(3, "the delay")?;
    let delay_ns = units::duration_ns(delay.text).ok_or_else(|| {
        let what = format!("the delay is {}", quoted(delay.text));
        text.wrong_word(&delay, what, "a time in s, ms, us or ns, such as 0.001ms")
    })?;
    let error_rate = word(4, "the error rate")?;
    if error_rate.text.parse::<f64>() != Ok(0.0) {
        let what = format!("the error rate is {}", quoted(error_rate.text));
        return Err(text.wrong_word(
            &error_rate,
            what,
            "0: losses that the model draws cannot be reproduced",
        ));
    }
    text.nothing_behind(line, 5, LINK)?;
    let [low, high] = [ends[0].min(ends[1]), ends[0].max(ends[1])];
    if low == high {
        return Err(text.wrong_word(&to, "both ends are the same node", LINK));
    }
    if !pairs.insert([low, high]) {
        let what = format!("nodes {low} and {high} have a link already");
        return Err(text.wrong_word(&from, what, "one link between two nodes: the model knows no more"));
    }
    let index = topology.links.len();
    for (word, end) in [(&from, ends[0]), (&to, ends[1])] {
        let node = &mut topology.nodes[end as usize];
        if !node.is_switch && !node.links.is_empty() {
            let what = format!("host {end} has a link already");
            return Err(text.wrong_word(word, what, "one link per host"));
        }
        node.links.push(index);
    }
    topology.links.push(Link {
        ends,
        speed_mbps: (speed_mbps / 1_000_000) as u32,
        delay_ns,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(content: &str) -> Result<Topology, String> {
        read(&Text::of("topology.txt", content)).map_err(|error| error.to_string())
    }

    #[test]
    fn interfaces_are_numbered_in_file_order() {
        let topology =
            parse("4 2 3\n2 3\n0 2 100Gbps 0.001ms 0\n3 2 400Gbps 2us 0\n1 3 25Gbps 0ns 0.0\n").unwrap();
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
        assert_eq!(topology.interface(2, 1), Some(2));
        assert_eq!(topology.interface(3, 1), Some(1));
        assert_eq!(topology.interface(3, 0), None);
        assert_eq!(topology.links[1].peer_of(3), 2);
    }

    #[test]
    fn mistakes_have_a_place() {
        for (content, error) in [
            ("", "topology.txt:1:1: the file is empty"),
            ("3 1", "topology.txt:1:4: the number of links is missing"),
            ("3 4 2\n", "topology.txt:1:3: the number of switches is 4"),
            ("3 1 2\n5\n", "topology.txt:2:1: the number of a switch is 5"),
            ("3 2 2\n2 2\n", "topology.txt:2:3: switch 2 is one too many"),
            ("3 2 2\n2\n", "topology.txt:3:1: 1 of 2 switches are named"),
            (
                "3 1 1\n2\n0 2 100 0ms 0\n",
                "topology.txt:3:5: the rate is \"100\"",
            ),
            (
                "3 1 1\n2\n0 2 1.5Mbps 0ms 0\n",
                "topology.txt:3:5: the rate is \"1.5Mbps\"",
            ),
            (
                "3 1 1\n2\n0 2 1Gbps 5 0\n",
                "topology.txt:3:11: the delay is \"5\"",
            ),
            (
                "3 1 1\n2\n0 2 1Gbps 5ms\n",
                "topology.txt:3:14: the error rate is missing",
            ),
            (
                "3 1 1\n2\n0 2 1Gbps 5ms 0.1\n",
                "topology.txt:3:15: the error rate is \"0.1\"",
            ),
            (
                "3 1 1\n2\n0 2 1Gbps 5ms 0 1\n",
                "topology.txt:3:17: \"1\" is too much here",
            ),
            (
                "3 1 1\n2\n0 3 1Gbps 5ms 0\n",
                "topology.txt:3:3: the second end is 3",
            ),
            ("3 1 1\n2\n2 2 1Gbps 5ms 0\n", "topology.txt:3:3: both ends"),
            (
                "3 1 2\n2\n0 2 1Gbps 5ms 0\n",
                "topology.txt:4:1: the first line says 2 links; there are 1",
            ),
            (
                "3 1 1\n2\n0 2 1Gbps 5ms 0\n1 2 1Gbps 5ms 0\n",
                "topology.txt:4:1: the first line says 1 links",
            ),
            (
                "4 2 2\n2 3\n0 2 1Gbps 5ms 0\n0 3 1Gbps 5ms 0\n",
                "topology.txt:4:1: host 0 has a link already",
            ),
            (
                "3 1 2\n2\n0 2 1Gbps 5ms 0\n2 0 1Gbps 5ms 0\n",
                "topology.txt:4:1: nodes 0 and 2 have a link already",
            ),
        ] {
            let got = parse(content).unwrap_err();
            assert!(got.starts_with(error), "{content:?}: {got}");
        }
    }
}
