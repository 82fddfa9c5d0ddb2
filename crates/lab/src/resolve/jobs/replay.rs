//! Jobs of kind `replay`: which hosts the words of a list of flows mean, and which of its columns have no effect.

use std::collections::{BTreeMap, BTreeSet};

use super::super::super::file::Job;
use super::super::{NodeIndex, Resolver};
use super::JobTransport;
use xoff_workload::{FlowListFormat, FlowSpec, JobKind, ListedFlow, parse_flow_list};

/// Which host each node number of an ns-3 list means.
enum NodeNumbers {
    /// The job lists the hosts: node 0 is the first one.
    Listed(Vec<u32>),
    /// Each node of the lab has the number that its name ends in.
    FromNames(BTreeMap<u64, Vec<(String, NodeIndex)>>),
}

impl Resolver<'_> {
    pub(super) fn replay(&mut self, job: &Job, transport: JobTransport<'_>) -> Option<JobKind> {
        let file = job.file.as_ref()?;
        let formats = [("csv", FlowListFormat::Csv), ("ns3", FlowListFormat::Ns3)];
        let format = self.choice(job.format.as_ref(), FlowListFormat::Csv, &formats);
        if let (Some(nodes), FlowListFormat::Csv) = (&job.nodes, format) {
            let fix = "leave it out: a CSV list names hosts itself";
            self.wrong(nodes.referenced, "`nodes` is for `format: ns3`", fix);
            return None;
        }
        let text = self.text_of(file, "list of flows")?;
        let parsed = match format {
            FlowListFormat::Csv => parse_flow_list(&text, format, &|word| self.host_of_word(word)),
            FlowListFormat::Ns3 => {
                let numbers = match &job.nodes {
                    Some(hosts) => NodeNumbers::Listed(self.hosts_of(hosts)),
                    None => self.numbers_in_names(),
                };
                parse_flow_list(&text, format, &|word| self.host_of_number(word, &numbers))
            }
        };
        let path = self.path(&file.value).display().to_string();
        match parsed {
            Ok(flows) => {
                self.note_ignored_columns(job, &path, &flows, transport);
                Some(JobKind::Replay(flows.into_iter().map(FlowSpec::from).collect()))
            }
            Err(error) => {
                self.wrong(
                    file.referenced,
                    format!("{path}, {error}"),
                    "docs/workloads.md has the formats of flow lists",
                );
                None
            }
        }
    }

    /// A host by its name, or by its place among the hosts where no name fits.
    fn host_of_word(&self, word: &str) -> Result<u32, String> {
        if let Some(&NodeIndex::Host(host)) = self.nodes.get(word) {
            return Ok(host as u32);
        }
        let index = word.parse::<u32>().ok();
        let index = index.filter(|index| (*index as usize) < self.hosts.len());
        index.ok_or_else(|| format!("there is no host `{word}`"))
    }

    /// All nodes by the number that their name ends in.
    fn numbers_in_names(&self) -> NodeNumbers {
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
        NodeNumbers::FromNames(numbers)
    }

    /// The host that an ns-3 node number means. A number is never the place among the hosts: in ns-3 switches have numbers too.
    fn host_of_number(&self, word: &str, numbers: &NodeNumbers) -> Result<u32, String> {
        const FIX: &str = "name the nodes by their numbers (n0, n1, ...), or list the hosts in the order of their numbers in `nodes`";
        let number: u64 = word
            .parse()
            .map_err(|_| format!("`{word}` is not a node number"))?;
        match numbers {
            NodeNumbers::Listed(hosts) => {
                let host = usize::try_from(number).ok().and_then(|at| hosts.get(at));
                host.copied().ok_or_else(|| {
                    let last = hosts.len().saturating_sub(1);
                    format!("`nodes` lists no node {number}; its last one is node {last}")
                })
            }
            NodeNumbers::FromNames(nodes) => match nodes.get(&number).map(Vec::as_slice) {
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

    /// What the list says and the job does not do.
    fn note_ignored_columns(
        &mut self,
        job: &Job,
        path: &str,
        flows: &[ListedFlow],
        transport: JobTransport<'_>,
    ) {
        let class = transport.data_class;
        let others: BTreeSet<u8> = flows.iter().filter_map(|flow| flow.priority).collect();
        let mut ignored = Vec::new();
        if others.iter().any(|priority| *priority != class) {
            let listed: Vec<String> = others.iter().map(u8::to_string).collect();
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
