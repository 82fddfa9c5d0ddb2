//! A scenario: topology, flows, configuration, and the published results.

use std::path::{Path, PathBuf};

use super::files::InputFiles;
use super::parameters::{self, Parameters};
use super::paths::{FlowPaths, flow_paths};
use super::results::{read_completions, read_pauses};
use super::text::{ReadError, Text, Word, quoted};
use super::topology::{self, Topology};
use xoff_telemetry::failure::Failure;
use xoff_units::ns3_nanos;

/// Most flows of one folder: each has addresses of its own.
const FLOWS_MAX: usize = 1 << 18;
/// Bytes of a flow: one RDMA message.
const BYTES_MAX: u64 = xoff_rdma::MESSAGE_BYTES_MAX;

const FLOW: &str = "a flow `src dst priority dst_port bytes start_s`, such as `0 8 3 100 10000000 2.0`";
const FLOW_FIELDS: [&str; 6] = [
    "the sender",
    "the receiver",
    "the priority",
    "the port",
    "the length in bytes",
    "the start",
];

/// A scenario, as [`Scenario::read`] has checked it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Scenario {
    /// The last part of its path, for reports.
    pub name: String,
    /// Nodes and links.
    pub topology: Topology,
    /// The flows in the order of their starts, each with its reference.
    pub flows: Vec<Flow>,
    /// The configuration.
    pub parameters: Parameters,
    /// Pauses and resumes of the model; `None` if it recorded none.
    pub pauses: Option<Vec<PauseEvent>>,
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
    /// From its start to its last acknowledgement, by the reference; `None` if that is not known.
    pub reference_ns: Option<u64>,
    /// What it would take alone, by the reference.
    pub ideal_ns: Option<u64>,
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

impl Scenario {
    /// Reads a folder or a configuration that names its files, and compares the files with each other.
    ///
    /// # Errors
    /// A file that is missing or wrong, with its place and what is expected there.
    pub fn read(path: &Path) -> Result<Scenario, ReadError> {
        let files = InputFiles::find(path)?;
        let topology = topology::read(&Text::read(files.topology)?)?;
        let parameters = parameters::read(&files.configuration)?;
        parameters::check_rates(&files.configuration, &parameters, &topology)?;
        let mut flows = read_flows(&Text::read(files.flows)?, &topology)?;
        if let Some(file) = files.completions {
            read_completions(&Text::read(file)?, &mut flows)?;
        }
        let pauses = match files.pauses {
            Some(file) => Some(read_pauses(&Text::read(file)?, &topology)?),
            None => None,
        };
        Ok(Scenario {
            name: name_of(path),
            topology,
            flows: flows.into_iter().map(|(flow, _)| flow).collect(),
            parameters,
            pauses,
        })
    }

    /// The paths of each flow.
    ///
    /// # Errors
    /// Nothing connects the hosts of a flow.
    pub fn paths(&self) -> Result<Vec<FlowPaths>, Failure> {
        let paths = flow_paths(&self.topology, &self.flows);
        let checked = self.flows.iter().zip(paths).map(|(flow, path)| {
            path.ok_or_else(|| {
                let what = format!("no path leads from host {} to host {}", flow.src, flow.dst);
                Failure::configuration(what)
                    .at(format!("{}: topology", self.name))
                    .fix("connect them in the topology, or remove the flow")
            })
        });
        checked.collect()
    }

    /// What the input says and the run does not do.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.parameters.unknown.is_empty() {
            let names = self.parameters.unknown.join(", ");
            notes.push(format!(
                "{}: settings that the HPCC model does not know have no effect: {names}",
                self.name
            ));
        }
        if self
            .flows
            .iter()
            .any(|flow| flow.priority != self.flows[0].priority)
        {
            notes.push(format!(
                "{}: flows have several priorities; classes share a link by bytes, in the model by packets",
                self.name
            ));
        }
        notes
    }
}

fn name_of(path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| PathBuf::from(path));
    let last = whole.file_name().unwrap_or(whole.as_os_str());
    last.to_string_lossy().into_owned()
}

/// The flows in the order of their starts, each with its line. Read as `third.cc` does: words wherever they are, as many flows as
/// the first word says. What follows is not read.
fn read_flows(text: &Text, topology: &Topology) -> Result<Vec<(Flow, usize)>, ReadError> {
    const COUNT: &str = "the number of flows, then the flows";
    let mut words = text.words();
    let word = text.next(&mut words, "the number of flows", COUNT)?;
    let count = text.number(&word, "the number of flows", 1..=FLOWS_MAX)?;
    let mut flows: Vec<(Flow, usize)> = Vec::new();
    for at in 0..count {
        let mut fields = [Word::default(); FLOW_FIELDS.len()];
        for (field, name) in fields.iter_mut().zip(FLOW_FIELDS) {
            let name = format!("{name} of flow {} of {count}", at + 1);
            *field = text.next(&mut words, &name, FLOW)?;
        }
        flows.push((read_flow(text, fields, topology)?, fields[0].line));
    }
    flows.sort_by_key(|(flow, _)| flow.start_ns);
    Ok(flows)
}

fn read_flow(
    text: &Text,
    [src_word, dst_word, priority, port, bytes, start]: [Word<'_>; 6],
    topology: &Topology,
) -> Result<Flow, ReadError> {
    let host = |word: &Word<'_>, name: &str| {
        let number: u32 = text.number(word, name, 0..=topology.nodes.len().saturating_sub(1) as u32)?;
        match topology.nodes.get(number as usize) {
            Some(node) if node.is_switch => {
                Err(text.wrong_word(word, format!("{name} is a switch"), "the number of a host"))
            }
            Some(node) if node.links.is_empty() => Err(text.wrong_word(
                word,
                format!("{name} has no link"),
                "a host that the topology connects",
            )),
            _ => Ok(number),
        }
    };
    let (src, dst) = (host(&src_word, "the sender")?, host(&dst_word, "the receiver")?);
    if src == dst {
        return Err(text.wrong_word(&dst_word, "the sender is the receiver", FLOW));
    }
    let seconds = start.text.parse::<f64>().ok();
    let start_ns = seconds.and_then(|seconds| ns3_nanos(seconds, 1_000_000_000));
    let start_ns = start_ns.ok_or_else(|| {
        let what = format!("the start is {}", quoted(start.text));
        text.wrong_word(&start, what, "seconds, such as 2.000000000")
    })?;
    Ok(Flow {
        src,
        dst,
        priority: text.number(&priority, "the priority", 1..=7)?,
        dst_port: text.number(&port, "the port", 0..=u16::MAX)?,
        bytes: text.number(&bytes, "the length in bytes", 1..=BYTES_MAX)?,
        start_ns,
        reference_ns: None,
        ideal_ns: None,
    })
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
            ("", "flow.txt:1:1: the number of flows is missing"),
            (
                "x\n",
                "flow.txt:1:1: the number of flows is \"x\", which is no such number",
            ),
            (
                "2\n0 1 3 100 1 2\n",
                "flow.txt:3:1: the sender of flow 2 of 2 is missing",
            ),
            ("1\n0 2 3 100 1 2\n", "flow.txt:2:3: the receiver is a switch"),
            ("1\n0 0 3 100 1 2\n", "flow.txt:2:3: the sender is the receiver"),
            ("1\n0 1 0 100 1 2\n", "flow.txt:2:5: the priority is 0"),
            ("1\n0 1 3 100 0 2\n", "flow.txt:2:11: the length in bytes is 0"),
            (
                "1\n0 1 3 100 1\n",
                "flow.txt:3:1: the start of flow 1 of 1 is missing",
            ),
            ("1\n0 1 3 100 1 -2\n", "flow.txt:2:13: the start is \"-2\""),
        ] {
            let got = flows(content).unwrap_err();
            assert!(got.starts_with(error), "{content:?}: {got}");
        }
    }

    /// The model reads with `>>`: lines mean nothing to it, and it stops after as many flows as announced.
    #[test]
    fn flows_are_words_up_to_the_count() {
        let plain = flows("2\n0 1 3 100 5000 2.5\n1 0 3 200 7 2\n").unwrap();
        let of = |text: &str| {
            flows(text)
                .unwrap()
                .into_iter()
                .map(|(flow, _)| flow)
                .collect::<Vec<Flow>>()
        };
        let expected: Vec<Flow> = plain.into_iter().map(|(flow, _)| flow).collect();
        for text in [
            "2 0 1 3 100 5000 2.5 1 0 3 200 7 2",
            "2\n0 1 3 100\n5000 2.5\n\n1 0 3 200 7 2.0\nFirst line: # of flows\n",
            "2\n0 1 3 100 5000 2.5\n1 0 3 200 7 2\n0 1 3 100 1 9\n",
        ] {
            assert_eq!(of(text), expected, "{text:?}");
        }
    }

    #[test]
    fn completions_of_the_model_are_found_by_source_port() {
        let mut flows = flows("3\n0 1 3 100 50 2.00001\n0 1 3 100 50 2.00001\n1 0 3 100 50 3\n").unwrap();
        let rows =
            "0b000001 0b000101 10001 100 50 2000009999 7 3\n0b000001 0b000101 10000 100 50 2000009999 8 2\n";
        read_completions(&Text::of("fct.txt", rows), &mut flows).unwrap();
        let references: Vec<Option<u64>> = flows.iter().map(|(flow, _)| flow.reference_ns).collect();
        assert_eq!(references, [Some(8), Some(7), None], "one flow had not ended");
        let other = rows.replace(" 50 ", " 51 ");
        let error = read_completions(&Text::of("fct.txt", &other), &mut flows).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("fct.txt:1:1: the flows have none from 0 to 1 of 51 bytes")
        );
    }

    const HEADER: &str = "src,dst,bytes,start_ns,fct_ns,ideal_fct_ns\n";

    fn completions(rows: &str) -> Result<Vec<(u64, u64)>, String> {
        let mut flows = flows("3\n0 1 3 100 50 2.00001\n0 1 3 100 50 2.00001\n1 0 3 100 50 3\n").unwrap();
        let text = Text::of("fct.csv", &format!("{HEADER}{rows}"));
        read_completions(&text, &mut flows).map_err(|error| error.to_string())?;
        Ok(flows
            .iter()
            .map(|(flow, _)| (flow.reference_ns.unwrap(), flow.ideal_ns.unwrap()))
            .collect())
    }

    #[test]
    fn each_flow_finds_its_completion() {
        // A start may have been cut off; flows that are alike share theirs out in order.
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
