//! A folder of the reference: what was simulated, and what came of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::parameters::{self, Parameters};
use super::text::{ReadError, Text, quoted};
use super::topology::{self, Topology};
use xoff_dataplane::ns3_nanos;

/// Most flows of one folder: each has addresses of its own.
const FLOWS_MAX: usize = 1 << 18;
/// Bytes of a flow: one RDMA message.
const BYTES_MAX: u64 = crate::rdma::MESSAGE_BYTES_MAX;
/// How far a flow's start may lie from what the table of completions says: the cut of ns-3's times.
const START_SLACK_NS: u64 = 1;

const FLOW: &str = "a flow `src dst priority dst_port bytes start_s`, such as `0 8 3 100 10000000 2.0`";
const COMPLETIONS: [&str; 6] = ["src", "dst", "bytes", "start_ns", "fct_ns", "ideal_fct_ns"];
const PAUSES: [&str; 5] = ["time_ns", "node", "node_is_switch", "interface", "pause"];

/// A folder.
#[derive(Clone, Debug)]
pub struct Folder {
    /// The last part of its path, for reports.
    pub name: String,
    /// `topology.txt`.
    pub topology: Topology,
    /// `flow.txt` and `fct.csv`: the flows in the order of their starts, each with its reference.
    pub flows: Vec<Flow>,
    /// `parameters.txt`.
    pub parameters: Parameters,
    /// `pfc.csv`.
    pub pauses: Vec<PauseEvent>,
}

/// A flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The sending host's number.
    pub src: u32,
    /// The receiving host's number.
    pub dst: u32,
    /// Its class, 1 to 7.
    pub priority: u8,
    /// UDP destination port, which the model hashes.
    pub dst_port: u16,
    /// Payload bytes.
    pub bytes: u64,
    /// When it starts.
    pub start_ns: u64,
    /// From its start to its last acknowledgement, by the reference.
    pub reference_ns: u64,
    /// What it would take alone, by the reference.
    pub ideal_ns: u64,
}

/// A pause or resume that a node received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseEvent {
    /// When.
    pub time_ns: u64,
    /// Which node.
    pub node: u32,
    /// On which of its interfaces, from 1.
    pub interface: u32,
    /// A pause; otherwise a resume.
    pub pause: bool,
}

impl Folder {
    /// Reads a folder, and holds its files against each other.
    ///
    /// # Errors
    /// A file that is missing or wrong, with its place and what is expected there.
    pub fn read(path: &Path) -> Result<Folder, ReadError> {
        let topology = topology::read(&Text::read(path, "topology.txt")?)?;
        let parameters_text = Text::read(path, "parameters.txt")?;
        let parameters = parameters::read(&parameters_text)?;
        parameters::check_rates(&parameters_text, &parameters, &topology)?;
        let mut flows = read_flows(&Text::read(path, "flow.txt")?, &topology)?;
        read_completions(&Text::read(path, "fct.csv")?, &mut flows)?;
        let pauses = read_pauses(&Text::read(path, "pfc.csv")?, &topology)?;
        Ok(Folder {
            name: name_of(path),
            topology,
            flows: flows.into_iter().map(|(flow, _)| flow).collect(),
            parameters,
            pauses,
        })
    }
}

fn name_of(path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| PathBuf::from(path));
    let last = whole.file_name().unwrap_or(whole.as_os_str());
    last.to_string_lossy().into_owned()
}

/// The flows in the order of their starts, each with its line.
fn read_flows(text: &Text, topology: &Topology) -> Result<Vec<(Flow, usize)>, ReadError> {
    const COUNT: &str = "a first line with the number of flows";
    let mut lines = text.lines();
    let Some(first) = lines.next() else {
        return Err(text.ended("the file is empty", COUNT));
    };
    let word = text.word(&first, 0, "the number of flows", COUNT)?;
    let count = text.number(&word, "the number of flows", 1..=FLOWS_MAX)?;
    text.nothing_behind(&first, 1, COUNT)?;
    let mut flows: Vec<(Flow, usize)> = Vec::new();
    for line in lines {
        if flows.len() == count {
            let what = format!("the first line says {count} flows; this is one more");
            return Err(text.wrong(line.number, 1, what, "the end of the file"));
        }
        let word = |at: usize, name: &str| text.word(&line, at, name, FLOW);
        let host = |at: usize, name: &str| {
            let word = word(at, name)?;
            let node: u32 = text.number(&word, name, 0..=topology.nodes.len().saturating_sub(1) as u32)?;
            match topology.nodes.get(node as usize) {
                Some(node) if node.is_switch => {
                    Err(text.wrong_word(&word, format!("{name} is a switch"), "the number of a host"))
                }
                Some(node) if node.links.is_empty() => Err(text.wrong_word(
                    &word,
                    format!("{name} has no link"),
                    "a host that topology.txt connects",
                )),
                _ => Ok(node),
            }
        };
        let (src, dst) = (host(0, "the sender")?, host(1, "the receiver")?);
        if src == dst {
            return Err(text.wrong_word(&word(1, "the receiver")?, "the sender is the receiver", FLOW));
        }
        let priority_word = word(2, "the priority")?;
        let priority = text.number(&priority_word, "the priority", 1..=7)?;
        if flows.first().is_some_and(|(first, _)| first.priority != priority) {
            let what = format!("the priority is {priority}, others have {}", flows[0].0.priority);
            let expected = "one priority for all flows: turns of several classes are not the model's here";
            return Err(text.wrong_word(&priority_word, what, expected));
        }
        let dst_port = text.number(&word(3, "the port")?, "the port", 0..=u16::MAX)?;
        let bytes = text.number(
            &word(4, "the length in bytes")?,
            "the length in bytes",
            1..=BYTES_MAX,
        )?;
        let start = word(5, "the start")?;
        let start_ns = start
            .text
            .parse::<f64>()
            .ok()
            .and_then(|s| ns3_nanos(s, 1_000_000_000));
        let start_ns = start_ns.ok_or_else(|| {
            let what = format!("the start is {}", quoted(start.text));
            text.wrong_word(&start, what, "seconds, such as 2.000000000")
        })?;
        text.nothing_behind(&line, 6, FLOW)?;
        let flow = Flow {
            src,
            dst,
            priority,
            dst_port,
            bytes,
            start_ns,
            reference_ns: 0,
            ideal_ns: 0,
        };
        flows.push((flow, line.number));
    }
    if flows.len() < count {
        let what = format!("the first line says {count} flows; there are {}", flows.len());
        return Err(text.ended(what, FLOW));
    }
    flows.sort_by_key(|(flow, _)| flow.start_ns);
    Ok(flows)
}

/// Gives each flow the reference of its completion. Flows that the table cannot tell apart share theirs out by length.
fn read_completions(text: &Text, flows: &mut [(Flow, usize)]) -> Result<(), ReadError> {
    let mut without: BTreeMap<[u64; 3], Vec<usize>> = BTreeMap::new();
    for (at, (flow, _)) in flows.iter().enumerate().rev() {
        let key = [u64::from(flow.src), u64::from(flow.dst), flow.bytes];
        without.entry(key).or_default().push(at);
    }
    let mut rows = Vec::new();
    for line in text.rows(&COMPLETIONS)? {
        let number = |at: usize| text.number(&line.words[at], COMPLETIONS[at], 0..=u64::MAX / 2_000);
        let key = [number(0)?, number(1)?, number(2)?];
        rows.push((number(4)?, key, number(3)?, number(5)?, line.number));
    }
    rows.sort_unstable();
    for (reference_ns, key, start_ns, ideal_ns, line) in rows {
        let is_it = |at: &usize| flows[*at].0.start_ns.abs_diff(start_ns) <= START_SLACK_NS;
        let candidates = without.entry(key).or_default();
        let Some(place) = candidates.iter().rposition(is_it) else {
            let [src, dst, bytes] = key;
            let what = format!("flow.txt has no flow from {src} to {dst} of {bytes} bytes at {start_ns} ns");
            return Err(text.wrong(line, 1, what, "one completion for each flow"));
        };
        let flow = &mut flows[candidates.remove(place)].0;
        (flow.reference_ns, flow.ideal_ns) = (reference_ns, ideal_ns);
    }
    match without.values().flatten().min() {
        None => Ok(()),
        Some(at) => {
            let (flow, line) = flows[*at];
            let what = format!(
                "the completion of the flow from {} to {} in line {line} of flow.txt is missing",
                flow.src, flow.dst
            );
            Err(text.ended(what, "one completion for each flow"))
        }
    }
}

fn read_pauses(text: &Text, topology: &Topology) -> Result<Vec<PauseEvent>, ReadError> {
    let mut events: Vec<PauseEvent> = Vec::new();
    for line in text.rows(&PAUSES)? {
        let number = |at: usize, max: u64| text.number(&line.words[at], PAUSES[at], 0..=max);
        let time_ns = number(0, u64::MAX / 2_000)?;
        let node = number(1, topology.nodes.len().saturating_sub(1) as u64)? as u32;
        let kind = &topology.nodes[node as usize];
        if number(2, 1)? != u64::from(kind.is_switch) {
            let what = format!("node_is_switch contradicts topology.txt about node {node}");
            return Err(text.wrong_word(&line.words[2], what, "1 for switches, 0 for hosts"));
        }
        let interface = text.number(&line.words[3], PAUSES[3], 1..=kind.links.len().max(1) as u32)?;
        let pause = number(4, 1)? == 1;
        if events.last().is_some_and(|last| last.time_ns > time_ns) {
            return Err(text.wrong_word(
                &line.words[0],
                "the time is before that of the row above",
                "rows in the order of time",
            ));
        }
        events.push(PauseEvent {
            time_ns,
            node,
            interface,
            pause,
        });
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn star() -> Topology {
        let text = "3 1 2\n2\n0 2 100Gbps 1us 0\n1 2 100Gbps 1us 0\n";
        topology::read(&Text::of("topology.txt", text)).unwrap()
    }

    fn flows(content: &str) -> Result<Vec<(Flow, usize)>, String> {
        read_flows(&Text::of("flow.txt", content), &star()).map_err(|error| error.to_string())
    }

    #[test]
    fn flows_come_in_the_order_of_their_starts() {
        let flows = flows("2\n0 1 3 100 5000 2.5\n1 0 3 200 7 2.000000000\n").unwrap();
        let starts: Vec<(u32, u64, usize)> = flows
            .iter()
            .map(|(flow, line)| (flow.src, flow.start_ns, *line))
            .collect();
        assert_eq!(starts, [(1, 2_000_000_000, 3), (0, 2_500_000_000, 2)]);
    }

    #[test]
    fn mistakes_in_flows_have_a_place() {
        for (content, error) in [
            ("", "flow.txt:1:1: the file is empty"),
            (
                "x\n",
                "flow.txt:1:1: the number of flows is \"x\", which is no such number",
            ),
            (
                "2\n0 1 3 100 1 2\n",
                "flow.txt:3:1: the first line says 2 flows; there are 1",
            ),
            (
                "1\n0 1 3 100 1 2\n0 1 3 100 1 2\n",
                "flow.txt:3:1: the first line says 1 flows",
            ),
            ("1\n0 2 3 100 1 2\n", "flow.txt:2:3: the receiver is a switch"),
            ("1\n0 0 3 100 1 2\n", "flow.txt:2:3: the sender is the receiver"),
            ("1\n0 1 0 100 1 2\n", "flow.txt:2:5: the priority is 0"),
            ("1\n0 1 3 100 0 2\n", "flow.txt:2:11: the length in bytes is 0"),
            ("1\n0 1 3 100 1\n", "flow.txt:2:12: the start is missing"),
            ("1\n0 1 3 100 1 -2\n", "flow.txt:2:13: the start is \"-2\""),
            ("1\n0 1 3 100 1 2 3\n", "flow.txt:2:15: \"3\" is too much here"),
            (
                "2\n0 1 3 100 1 2\n0 1 4 100 1 2\n",
                "flow.txt:3:5: the priority is 4, others have 3",
            ),
        ] {
            let got = flows(content).unwrap_err();
            assert!(got.starts_with(error), "{content:?}: {got}");
        }
    }

    const HEADER: &str = "src,dst,bytes,start_ns,fct_ns,ideal_fct_ns\n";

    fn completions(rows: &str) -> Result<Vec<(u64, u64)>, String> {
        let mut flows = flows("3\n0 1 3 100 50 2.00001\n0 1 3 100 50 2.00001\n1 0 3 100 50 3\n").unwrap();
        let text = Text::of("fct.csv", &format!("{HEADER}{rows}"));
        read_completions(&text, &mut flows).map_err(|error| error.to_string())?;
        Ok(flows
            .iter()
            .map(|(flow, _)| (flow.reference_ns, flow.ideal_ns))
            .collect())
    }

    #[test]
    fn each_flow_finds_its_completion() {
        // The second start is cut off in ns-3; flows that are alike share theirs out in order.
        let rows = "1,0,50,3000000000,9,1\n0,1,50,2000010000,8,2\n0,1,50,2000009999,7,3\n";
        assert_eq!(completions(rows), Ok(vec![(7, 3), (8, 2), (9, 1)]));
    }

    #[test]
    fn completions_that_are_missing_or_too_many_are_named() {
        let two = "0,1,50,2000009999,8,2\n0,1,50,2000009999,7,3\n";
        assert_eq!(
            completions(two).unwrap_err(),
            "fct.csv:4:1: the completion of the flow from 1 to 0 in line 4 of flow.txt is missing; expected one \
             completion for each flow"
        );
        let other = format!("{two}1,0,51,3000000000,9,1\n");
        assert!(
            completions(&other)
                .unwrap_err()
                .starts_with("fct.csv:4:1: flow.txt has no flow from 1 to 0 of 51 bytes at 3000000000 ns")
        );
        let bad = format!("{two}1,0,fifty,3000000000,9,1\n");
        assert!(
            completions(&bad)
                .unwrap_err()
                .starts_with("fct.csv:4:5: bytes is \"fifty\"")
        );
    }

    #[test]
    fn pauses_are_of_nodes_and_interfaces_that_exist() {
        let pauses = |rows: &str| {
            let text = Text::of(
                "pfc.csv",
                &format!("time_ns,node,node_is_switch,interface,pause\n{rows}"),
            );
            read_pauses(&text, &star()).map_err(|error| error.to_string())
        };
        let event = PauseEvent {
            time_ns: 5,
            node: 2,
            interface: 2,
            pause: true,
        };
        assert_eq!(pauses("5,2,1,2,1\n"), Ok(vec![event]));
        assert_eq!(pauses(""), Ok(Vec::new()));
        for (row, error) in [
            ("5,3,1,2,1\n", "pfc.csv:2:3: node is 3"),
            ("5,2,0,2,1\n", "pfc.csv:2:5: node_is_switch contradicts"),
            ("5,2,1,3,1\n", "pfc.csv:2:7: interface is 3"),
            ("5,2,1,2,2\n", "pfc.csv:2:9: pause is 2"),
            ("5,2,1,2,1\n4,2,1,2,0\n", "pfc.csv:3:1: the time is before"),
        ] {
            let got = pauses(row).unwrap_err();
            assert!(got.starts_with(error), "{row:?}: {got}");
        }
    }
}
