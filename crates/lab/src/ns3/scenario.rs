//! Reads a scenario: topology, flows, configuration and the results of the model.

use std::path::{Path, PathBuf};

use super::files::InputFiles;
use super::flow::{Flow, PauseEvent};
use super::model_parameters::Ns3ModelParameters;
use super::parameters;
use super::paths::{FlowPaths, flow_paths};
use super::results::{read_completions, read_pauses};
use super::text::{InputText, InputWord, ReadError, quote};
use super::topology::{self, Topology};
use xoff_telemetry::failure::Failure;
use xoff_units::nanos_as_in_ns3;

/// Largest number of flows.
const FLOWS_MAX: usize = 1 << 18;
/// Largest size of a flow. A flow is one RDMA message.
const FLOW_BYTES_MAX: u64 = xoff_rdma::MESSAGE_BYTES_MAX;

const FLOW_FORMAT: &str =
    "a flow `src dst priority dst_port bytes start_s`, such as `0 8 3 100 10000000 2.0`";
const FLOW_FIELDS: [&str; 6] = [
    "the sender",
    "the receiver",
    "the priority",
    "the port",
    "the length in bytes",
    "the start",
];

/// A checked scenario of the HPCC model: topology, flows, settings and results. [`Scenario::read`]
/// creates it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Scenario {
    /// Name for reports: the last component of the path of the scenario.
    pub name: String,
    /// The nodes and links.
    pub topology: Topology,
    /// The flows, at least one, sorted by start time. [`Flow::reference_ns`] is the completion time in
    /// the model.
    pub flows: Vec<Flow>,
    /// The settings of the model from the configuration file.
    pub parameters: Ns3ModelParameters,
    /// Pause and resume events of the model, in the order of time. `None` if the scenario has no file
    /// of pauses.
    pub pauses: Option<Vec<PauseEvent>>,
}

impl Scenario {
    /// Reads a scenario and checks that its files are consistent. `path` is the configuration file, or the
    /// folder with the file `parameters.txt` or `config.txt`.
    ///
    /// # Errors
    /// Returns an error if a file is missing or invalid. The error contains the position in the file and the
    /// expected text.
    pub fn read(path: &Path) -> Result<Scenario, ReadError> {
        let files = InputFiles::find(path)?;
        let topology = topology::read_topology(&InputText::read(files.topology)?)?;
        let parameters = parameters::read_parameters(&files.configuration)?;
        parameters::check_thresholds(&files.configuration, &parameters, &topology)?;
        let mut flows = read_flows(&InputText::read(files.flows)?, &topology)?;
        if let Some(file) = files.completions {
            read_completions(&InputText::read(file)?, &mut flows)?;
        }
        let pauses = match files.pauses {
            Some(file) => Some(read_pauses(&InputText::read(file)?, &topology)?),
            None => None,
        };
        Ok(Scenario {
            name: scenario_name(path),
            topology,
            flows: flows.into_iter().map(|(flow, _)| flow).collect(),
            parameters,
            pauses,
        })
    }

    /// Returns the paths of each flow, in the order of [`Scenario::flows`].
    ///
    /// # Errors
    /// Returns an error if no path connects the hosts of a flow.
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

    /// Returns notes about differences from the model, one line each: unknown settings without effect, and
    /// flows with several priorities. May be empty.
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
                "{}: flows have several priorities; priorities share a link by bytes, in the model by packets",
                self.name
            ));
        }
        notes
    }
}

/// Returns the last component of a path.
fn scenario_name(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| PathBuf::from(path));
    let last = path.file_name().unwrap_or(path.as_os_str());
    last.to_string_lossy().into_owned()
}

/// Reads the flows and their line numbers, in the order of their starts.
///
/// The first word of the file is the number of flows. Like `third.cc` of the model, this function reads this
/// number of flows and ignores later words.
fn read_flows(text: &InputText, topology: &Topology) -> Result<Vec<(Flow, usize)>, ReadError> {
    const COUNT: &str = "the number of flows, then the flows";
    let mut words = text.words();
    let word = text.next_word(&mut words, "the number of flows", COUNT)?;
    let count = text.parse_number(&word, "the number of flows", 1..=FLOWS_MAX)?;
    let mut flows: Vec<(Flow, usize)> = Vec::new();
    for index in 0..count {
        let mut fields = [InputWord::default(); FLOW_FIELDS.len()];
        for (field, name) in fields.iter_mut().zip(FLOW_FIELDS) {
            let name = format!("{name} of flow {} of {count}", index + 1);
            *field = text.next_word(&mut words, &name, FLOW_FORMAT)?;
        }
        flows.push((read_flow(text, fields, topology)?, fields[0].line));
    }
    flows.sort_by_key(|(flow, _)| flow.start_ns);
    Ok(flows)
}

/// Reads one flow from its six fields.
fn read_flow(
    text: &InputText,
    [src_word, dst_word, priority, port, bytes, start]: [InputWord<'_>; 6],
    topology: &Topology,
) -> Result<Flow, ReadError> {
    let host = |word: &InputWord<'_>, name: &str| {
        let number: u32 = text.parse_number(word, name, 0..=topology.nodes.len().saturating_sub(1) as u32)?;
        match topology.nodes.get(number as usize) {
            Some(node) if node.is_switch => {
                Err(text.error_at_word(word, format!("{name} is a switch"), "the number of a host"))
            }
            Some(node) if node.links.is_empty() => Err(text.error_at_word(
                word,
                format!("{name} has no link"),
                "a host that the topology connects",
            )),
            _ => Ok(number),
        }
    };
    let (src, dst) = (host(&src_word, "the sender")?, host(&dst_word, "the receiver")?);
    if src == dst {
        return Err(text.error_at_word(&dst_word, "the sender is the receiver", FLOW_FORMAT));
    }
    let seconds = start.text.parse::<f64>().ok();
    let start_ns = seconds.and_then(|seconds| nanos_as_in_ns3(seconds, 1_000_000_000));
    let start_ns = start_ns.ok_or_else(|| {
        let what = format!("the start is {}", quote(start.text));
        text.error_at_word(&start, what, "seconds, such as 2.000000000")
    })?;
    Ok(Flow {
        src,
        dst,
        priority: text.parse_number(&priority, "the priority", 1..=7)?,
        dst_port: text.parse_number(&port, "the port", 0..=u16::MAX)?,
        bytes: text.parse_number(&bytes, "the length in bytes", 1..=FLOW_BYTES_MAX)?,
        start_ns,
        reference_ns: None,
        ideal_ns: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn star_topology() -> Topology {
        let text = "3 1 2\n2\n0 2 100Gbps 1us 0\n1 2 100Gbps 1us 0\n";
        topology::read_topology(&InputText::from_content("topology.txt", text)).unwrap()
    }

    fn parse_flows(content: &str) -> Result<Vec<(Flow, usize)>, String> {
        read_flows(&InputText::from_content("flow.txt", content), &star_topology())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn flows_are_sorted_by_start() {
        let flows = parse_flows("2\n0 1 3 100 5000 2.5\n1 0 3 200 7 2.000000000\n").unwrap();
        let starts: Vec<(u32, u64, usize)> = flows
            .iter()
            .map(|(flow, line)| (flow.src, flow.start_ns, *line))
            .collect();
        assert_eq!(starts, [(1, 2_000_000_000, 3), (0, 2_500_000_000, 2)]);
    }

    #[test]
    fn flow_errors_have_line_and_column() {
        for (content, error) in [
            ("", "flow.txt:1:1: the number of flows is missing"),
            (
                "x\n",
                "flow.txt:1:1: the number of flows is \"x\", which is not a valid number",
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
            let got = parse_flows(content).unwrap_err();
            assert!(got.starts_with(error), "{content:?}: {got}");
        }
    }

    /// The model reads words with the C++ operator `>>`, which ignores line ends. The file starts with the
    /// number of flows, and the model ignores words after the last flow.
    #[test]
    fn words_after_the_announced_flows_are_ignored() {
        let sorted_flows = parse_flows("2\n0 1 3 100 5000 2.5\n1 0 3 200 7 2\n").unwrap();
        let flows_of = |text: &str| {
            parse_flows(text)
                .unwrap()
                .into_iter()
                .map(|(flow, _)| flow)
                .collect::<Vec<Flow>>()
        };
        let expected: Vec<Flow> = sorted_flows.into_iter().map(|(flow, _)| flow).collect();
        for text in [
            "2 0 1 3 100 5000 2.5 1 0 3 200 7 2",
            "2\n0 1 3 100\n5000 2.5\n\n1 0 3 200 7 2.0\nFirst line: # of flows\n",
            "2\n0 1 3 100 5000 2.5\n1 0 3 200 7 2\n0 1 3 100 1 9\n",
        ] {
            assert_eq!(flows_of(text), expected, "{text:?}");
        }
    }

    #[test]
    fn native_completions_are_matched_by_source_port() {
        let mut flows =
            parse_flows("3\n0 1 3 100 50 2.00001\n0 1 3 100 50 2.00001\n1 0 3 100 50 3\n").unwrap();
        let rows =
            "0b000001 0b000101 10001 100 50 2000009999 7 3\n0b000001 0b000101 10000 100 50 2000009999 8 2\n";
        read_completions(&InputText::from_content("fct.txt", rows), &mut flows).unwrap();
        let references: Vec<Option<u64>> = flows.iter().map(|(flow, _)| flow.reference_ns).collect();
        assert_eq!(references, [Some(8), Some(7), None], "one flow had not ended");
        let other = rows.replace(" 50 ", " 51 ");
        let error = read_completions(&InputText::from_content("fct.txt", &other), &mut flows).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("fct.txt:1:1: the flows have none from 0 to 1 of 51 bytes")
        );
    }

    const HEADER: &str = "src,dst,bytes,start_ns,fct_ns,ideal_fct_ns\n";

    fn completion_times(rows: &str) -> Result<Vec<(u64, u64)>, String> {
        let mut flows =
            parse_flows("3\n0 1 3 100 50 2.00001\n0 1 3 100 50 2.00001\n1 0 3 100 50 3\n").unwrap();
        let text = InputText::from_content("fct.csv", &format!("{HEADER}{rows}"));
        read_completions(&text, &mut flows).map_err(|error| error.to_string())?;
        Ok(flows
            .iter()
            .map(|(flow, _)| (flow.reference_ns.unwrap(), flow.ideal_ns.unwrap()))
            .collect())
    }

    #[test]
    fn equal_flows_get_completions_in_order() {
        // The start in a completion can be rounded down. Equal flows get their completions in order.
        let rows = "1,0,50,3000000000,9,1\n0,1,50,2000010000,8,2\n0,1,50,2000009999,7,3\n";
        assert_eq!(completion_times(rows), Ok(vec![(7, 3), (8, 2), (9, 1)]));
    }

    #[test]
    fn missing_and_surplus_completions_are_refused() {
        let two = "0,1,50,2000009999,8,2\n0,1,50,2000009999,7,3\n";
        assert_eq!(
            completion_times(two).unwrap_err(),
            "fct.csv:4:1: the completion of the flow from 1 to 0 in line 4 of flow.txt is missing; expected one \
             completion for each flow"
        );
        let other = format!("{two}1,0,51,3000000000,9,1\n");
        assert!(
            completion_times(&other)
                .unwrap_err()
                .starts_with("fct.csv:4:1: flow.txt has no flow from 1 to 0 of 51 bytes at 3000000000 ns")
        );
        let bad = format!("{two}1,0,fifty,3000000000,9,1\n");
        assert!(
            completion_times(&bad)
                .unwrap_err()
                .starts_with("fct.csv:4:5: bytes is \"fifty\"")
        );
    }

    #[test]
    fn pause_events_with_unknown_nodes_or_interfaces_are_refused() {
        let pauses = |rows: &str| {
            let text = InputText::from_content(
                "pfc.csv",
                &format!("time_ns,node,node_is_switch,interface,pause\n{rows}"),
            );
            read_pauses(&text, &star_topology()).map_err(|error| error.to_string())
        };
        let event = PauseEvent {
            time_ns: 5,
            node: 2,
            interface: 2,
            is_pause: true,
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
