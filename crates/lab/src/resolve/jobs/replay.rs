//! Resolves jobs of kind `replay`, which take their flows from a flow list.
//!
//! A flow list contains host names or ns-3 node numbers. This module finds the host of the lab for each name
//! or number. A note names each column of the list that has no effect.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{LabResolver, NodeIndex};
use super::JobTransport;
use xoff_lab_file::JobFields;
use xoff_workload::{FlowListFormat, FlowSpec, JobKind, ListedFlow, parse_flow_list};

/// The assignment of hosts to the node numbers of an ns-3 flow list.
enum Ns3NodeNumbering {
    /// The job lists the hosts. Node 0 is the first host of the list.
    Listed(Vec<u32>),
    /// The digits at the end of a node name are the node number. For example, `h12` has number 12.
    FromNames(BTreeMap<u64, Vec<(String, NodeIndex)>>),
}

impl LabResolver<'_> {
    /// Resolves a job of kind `replay`.
    pub(super) fn resolve_replay(&mut self, job: &JobFields, transport: JobTransport<'_>) -> Option<JobKind> {
        let file = job.file.as_ref()?;
        let formats = [("csv", FlowListFormat::Csv), ("ns3", FlowListFormat::Ns3)];
        let format = self.parse_choice(job.format.as_ref(), FlowListFormat::Csv, &formats);
        if let (Some(nodes), FlowListFormat::Csv) = (&job.nodes, format) {
            let fix = "leave it out: a CSV list names hosts itself";
            self.report_problem(nodes.referenced, "`nodes` is for `format: ns3`", fix);
            return None;
        }
        let text = self.read_named_file(file, "list of flows")?;
        let parsed = match format {
            FlowListFormat::Csv => {
                parse_flow_list(&text, format, &|word| self.find_host_by_name_or_index(word))
            }
            FlowListFormat::Ns3 => {
                let numbers = match &job.nodes {
                    Some(hosts) => Ns3NodeNumbering::Listed(self.resolve_host_patterns(hosts)),
                    None => self.node_numbers_from_names(),
                };
                parse_flow_list(&text, format, &|word| self.find_host_by_number(word, &numbers))
            }
        };
        let path = self.resolve_path(&file.value).display().to_string();
        match parsed {
            Ok(flows) => {
                self.note_ignored_columns(job, &path, &flows, transport);
                Some(JobKind::Replay(flows.into_iter().map(FlowSpec::from).collect()))
            }
            Err(error) => {
                self.report_problem(
                    file.referenced,
                    format!("{path}, {error}"),
                    "docs/workloads.md describes the formats of flow lists",
                );
                None
            }
        }
    }

    /// Returns the host with the name `word`. If no host has this name, `word` is read as a host index.
    fn find_host_by_name_or_index(&self, word: &str) -> Result<u32, String> {
        if let Some(&NodeIndex::Host(host)) = self.nodes.get(word) {
            return Ok(host as u32);
        }
        let index = word.parse::<u32>().ok();
        let index = index.filter(|index| (*index as usize) < self.hosts.len());
        index.ok_or_else(|| {
            let hosts = self.hosts.iter().map(String::as_str);
            let proposal = xoff_units::nearest_name(word, hosts);
            let proposal = proposal.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
            format!("there is no host `{word}`{proposal}")
        })
    }

    /// Returns all nodes by the number at the end of their names.
    fn node_numbers_from_names(&self) -> Ns3NodeNumbering {
        let mut numbers: BTreeMap<u64, Vec<(String, NodeIndex)>> = BTreeMap::new();
        for (name, node) in &self.nodes {
            let digits = &name[name.trim_end_matches(|c: char| c.is_ascii_digit()).len()..];
            if let Ok(number) = digits.parse() {
                numbers.entry(number).or_default().push((name.clone(), *node));
            }
        }
        numbers
            .values_mut()
            .for_each(|nodes| nodes.sort_by(|a, b| a.0.cmp(&b.0)));
        Ns3NodeNumbering::FromNames(numbers)
    }

    /// Returns the index of the host with an ns-3 node number.
    ///
    /// A node number differs from a host index, because ns-3 also numbers the switches.
    fn find_host_by_number(&self, word: &str, numbers: &Ns3NodeNumbering) -> Result<u32, String> {
        const FIX: &str = "name the nodes by their numbers (n0, n1, ...), or list the hosts in the order of their numbers in `nodes`";
        let number: u64 = word
            .parse()
            .map_err(|_| format!("`{word}` is not a node number"))?;
        match numbers {
            Ns3NodeNumbering::Listed(hosts) => {
                let host = usize::try_from(number).ok().and_then(|index| hosts.get(index));
                host.copied().ok_or_else(|| {
                    let last = hosts.len().saturating_sub(1);
                    format!("`nodes` lists no node {number}; its last one is node {last}")
                })
            }
            Ns3NodeNumbering::FromNames(nodes) => match nodes.get(&number).map(Vec::as_slice) {
                Some([(_, NodeIndex::Host(host))]) => Ok(*host as u32),
                Some([(name, NodeIndex::Switch(_))]) => Err(format!(
                    "node {number} is the switch {name}; flows are between hosts"
                )),
                Some([(first, _), (second, _), ..]) => {
                    Err(format!("node {number} can be {first} or {second}: {FIX}"))
                }
                _ => Err(format!("no node of the lab has the number {number}: {FIX}")),
            },
        }
    }

    /// Adds a note about columns of the flow list that the job ignores.
    fn note_ignored_columns(
        &mut self,
        job: &JobFields,
        path: &str,
        flows: &[ListedFlow],
        transport: JobTransport<'_>,
    ) {
        let class = transport.data_class;
        let priorities: BTreeSet<u8> = flows.iter().filter_map(|flow| flow.priority).collect();
        let mut ignored = Vec::new();
        if priorities.iter().any(|priority| *priority != class) {
            let listed: Vec<String> = priorities.iter().map(u8::to_string).collect();
            ignored.push(format!(
                "priority ({}: all packets of transport {} have class {class})",
                listed.join(", "),
                transport.name
            ));
        }
        if flows.iter().any(|flow| flow.dst_port.is_some()) {
            ignored.push("dst_port (RoCEv2 always sends to UDP port 4791)".to_owned());
        }
        if !ignored.is_empty() {
            self.notes.push(format!(
                "job {}: columns of {path} without effect: {}",
                job.name.value,
                ignored.join(", ")
            ));
        }
    }
}
