//! Resolves the fields of each kind of job.

use serde_saphyr::Spanned;

use super::super::super::units;
use super::super::LabResolver;
use super::super::host_patterns::is_host_name;
use super::super::node_kinds::entry_location;
use super::JobTransport;
use xoff_lab_file::{JobFields, JobFlowFields, OneOrMore};
use xoff_telemetry::{InputLimit, read_input_text};
use xoff_workload::{
    Algorithm, Collective, Endpoints, FLOWS_MAX, FlowSpec, Incast, JobKind, Permutation, Poisson, Repeat,
    SizeDistribution,
};

/// Largest number of iterations. The results keep a record of each iteration.
const ITERATIONS_MAX: u32 = 1 << 20;

impl LabResolver<'_> {
    /// Resolves the fields that depend on the kind of a job. Returns `None` if a field is missing, invalid or
    /// not allowed for this kind.
    pub(super) fn resolve_job_kind(
        &mut self,
        job: &JobFields,
        transport: JobTransport<'_>,
    ) -> Option<JobKind> {
        // The other fields of a job with wrong fields are checked too.
        let has_right_fields = self.check_job_fields(job)?;
        let kind = self.resolve_fields_of_kind(job, transport);
        kind.filter(|_| has_right_fields)
    }

    fn resolve_fields_of_kind(&mut self, job: &JobFields, transport: JobTransport<'_>) -> Option<JobKind> {
        let algorithm = match job.kind.value.as_str() {
            "flows" => return self.resolve_flow_list(job),
            "permutation" => return self.resolve_permutation(job),
            "incast" => return self.resolve_incast(job),
            "poisson" => return self.resolve_poisson(job),
            "replay" => return self.resolve_replay(job, transport),
            "ring-allreduce" => Algorithm::RingAllReduce,
            "tree-allreduce" => Algorithm::TreeAllReduce,
            "allgather" => Algorithm::RingAllGather,
            "reduce-scatter" => Algorithm::RingReduceScatter,
            _ => Algorithm::AllToAll {
                rail_aligned: job.rail_aligned.as_ref().is_some_and(|field| field.value),
            },
        };
        self.resolve_collective(job, algorithm)
    }

    /// Resolves a collective that uses `algorithm`.
    fn resolve_collective(&mut self, job: &JobFields, algorithm: Algorithm) -> Option<JobKind> {
        let ranks = self.resolve_hosts_field(job.hosts.as_ref());
        let bytes = job.bytes.as_ref().map(|list| {
            let sizes = list.value.0.iter();
            sizes.map(|text| self.parse_size(text, list)).collect()
        });
        let slice = job.slice.as_ref();
        let collective = Collective {
            algorithm,
            ranks: ranks.clone().unwrap_or_default(),
            gpus_per_node: self.number_in_range(job.gpus_per_node.as_ref(), 1, 1..=65_536, "GPUs"),
            bytes: bytes.clone().unwrap_or_default(),
            iterations: self.iteration_count(job),
            warmup: self.number_in_range(job.warmup.as_ref(), 0, 0..=ITERATIONS_MAX, "iterations"),
            compute_gap: self.parse_time(job.compute_gap.as_ref()),
            slice_bytes: slice
                .map(|text| self.parse_quantity(Some(text), 1, units::parse_bytes, units::BYTES)),
            nvlink_bps: job
                .nvlink
                .as_ref()
                .map(|text| self.parse_quantity(Some(text), 1000, units::parse_bit_rate, units::BIT_RATE)),
        };
        (ranks.is_some() && bytes.is_some()).then_some(JobKind::Collective(collective))
    }

    /// Returns the hosts of a field. `None` if the field is missing.
    fn resolve_hosts_field(&mut self, hosts: Option<&Spanned<OneOrMore>>) -> Option<Vec<u32>> {
        hosts.map(|hosts| self.resolve_host_patterns(hosts))
    }

    /// Returns the number of iterations of a job, 1 by default.
    fn iteration_count(&mut self, job: &JobFields) -> u32 {
        self.number_in_range(job.iterations.as_ref(), 1, 1..=ITERATIONS_MAX, "iterations")
    }

    /// Resolves a job of kind `permutation`.
    fn resolve_permutation(&mut self, job: &JobFields) -> Option<JobKind> {
        let hosts = self.resolve_hosts_field(job.hosts.as_ref());
        let bytes = self.parse_single_size(job);
        let (iterations, gap) = (self.iteration_count(job), self.parse_time(job.gap.as_ref()));
        Some(JobKind::Permutation(Permutation {
            hosts: hosts?,
            bytes: bytes?,
            iterations,
            gap,
        }))
    }

    /// Resolves a job of kind `incast`. Reports more than one receiver.
    fn resolve_incast(&mut self, job: &JobFields) -> Option<JobKind> {
        let senders = self.resolve_hosts_field(job.from.as_ref());
        let bytes = self.parse_single_size(job);
        let (iterations, gap) = (self.iteration_count(job), self.parse_time(job.gap.as_ref()));
        let to = job.to.as_ref()?;
        let receivers = self.resolve_host_patterns(to);
        let &[receiver] = receivers.as_slice() else {
            if !receivers.is_empty() {
                let what = format!("an incast has one receiver, this one has {}", receivers.len());
                self.report_problem(to.referenced, what, "name one host in `to`");
            }
            return None;
        };
        Some(JobKind::Incast(Incast {
            senders: senders?,
            receiver,
            bytes: bytes?,
            iterations,
            gap,
        }))
    }

    /// Returns the message size in bytes of a job that must have exactly one size.
    fn parse_single_size(&mut self, job: &JobFields) -> Option<u64> {
        let list = job.bytes.as_ref()?;
        match list.value.0.as_slice() {
            [text] => Some(self.parse_size(text, list)),
            sizes => {
                let what = format!(
                    "a job of kind {} has one size, this one has {}",
                    job.kind.value,
                    sizes.len()
                );
                self.report_problem(list.referenced, what, "write a job for each");
                None
            }
        }
    }

    /// Parses one entry of a list of message sizes, in bytes.
    fn parse_size(&mut self, text: &Spanned<String>, list: &Spanned<OneOrMore>) -> u64 {
        let mut text = text.clone();
        text.referenced = entry_location(text.referenced, list.referenced);
        self.parse_quantity(Some(&text), 0, units::parse_bytes, units::BYTES)
    }

    /// Resolves a job of kind `flows`.
    fn resolve_flow_list(&mut self, job: &JobFields) -> Option<JobKind> {
        let mut flows = Vec::new();
        for flow in &job.flows.as_ref()?.value {
            self.add_job_flows(flow, &mut flows);
        }
        Some(JobKind::Flows(flows))
    }

    /// Adds a flow for each pair of a sender and a receiver. A host that is both sender and receiver does not
    /// send to itself.
    fn add_job_flows(&mut self, flow: &Spanned<JobFlowFields>, flows: &mut Vec<FlowSpec>) {
        let (location, flow) = (flow.referenced, &flow.value);
        let (senders, receivers) = (
            self.resolve_host_patterns(&flow.from),
            self.resolve_host_patterns(&flow.to),
        );
        let bytes = self.parse_quantity(Some(&flow.bytes), 0, units::parse_bytes, units::BYTES);
        let start = self.parse_time(flow.start.as_ref());
        let count = self.number_in_range(flow.count.as_ref(), 1, 1..=FLOWS_MAX as u32, "messages");
        let repeat = match (&flow.every, &flow.gap) {
            (Some(_), Some(_)) => {
                let fix =
                    "`every` posts at an interval, `gap` waits for the previous message: write one of them";
                self.report_problem(location, "the flow has both `every` and `gap`", fix);
                return;
            }
            (Some(every), None) => Repeat::Every {
                interval: self.parse_time(Some(every)),
                count,
            },
            (None, gap) if count > 1 || gap.is_some() => Repeat::AfterCompletion {
                gap: self.parse_time(gap.as_ref()),
                count,
            },
            _ => Repeat::Once,
        };
        // The limit is checked before the flows are created.
        let count = senders.len().saturating_mul(receivers.len());
        if flows.len().saturating_add(count) > FLOWS_MAX {
            let what = format!("the job has more than {FLOWS_MAX} flows");
            self.report_problem(location, what, "name fewer hosts");
            return;
        }
        let flows_before = flows.len();
        for &src in &senders {
            for &dst in receivers.iter().filter(|dst| **dst != src) {
                flows.push(FlowSpec {
                    src,
                    dst,
                    bytes,
                    start,
                    repeat,
                });
            }
        }
        // A host with errors of its own is not among the senders and receivers, so the names are compared too.
        let names_same_host = match (flow.from.value.0.as_slice(), flow.to.value.0.as_slice()) {
            ([from], [to]) => from.value == to.value && is_host_name(&from.value),
            _ => false,
        };
        let has_hosts = !senders.is_empty() && !receivers.is_empty();
        if names_same_host || flows.len() == flows_before && has_hosts {
            self.report_problem(
                location,
                "the flow goes from a host to itself",
                "choose another receiver",
            );
        }
    }

    /// Resolves a job of kind `poisson`.
    fn resolve_poisson(&mut self, job: &JobFields) -> Option<JobKind> {
        let (sources, destinations) = match (&job.hosts, &job.from, &job.to) {
            (Some(hosts), None, None) => {
                let hosts = self.resolve_host_patterns(hosts);
                (hosts.clone(), hosts)
            }
            (None, Some(from), Some(to)) => {
                (self.resolve_host_patterns(from), self.resolve_host_patterns(to))
            }
            _ => {
                let what = "a job of kind poisson has either `hosts`, or `from` and `to`";
                self.report_problem(
                    job.name.referenced,
                    what,
                    "write hosts: all for traffic among all hosts",
                );
                return None;
            }
        };
        let sizes = job.sizes.as_ref();
        let sizes = sizes.map(|sizes| self.resolve_size_distribution(sizes));
        let flows_max = job.flows_max.as_ref();
        let poisson = Poisson {
            endpoints: Endpoints::Sets {
                sources,
                destinations,
            },
            sizes: sizes
                .clone()
                .flatten()
                .unwrap_or_else(|| SizeDistribution::constant(1)),
            load: self.parse_quantity(
                job.load.as_ref(),
                1.0,
                units::parse_percent,
                "a share of the sender's link above 0% up to 10000%, such as 40%",
            ),
            until: job.until.as_ref().map(|text| self.parse_time(Some(text))),
            flows_max: flows_max
                .map(|count| self.number_in_range(Some(count), 1, 1..=FLOWS_MAX as u32, "flows")),
            seed: job.seed.as_ref().map_or(0, |seed| seed.value),
        };
        sizes.flatten().map(|_| JobKind::Poisson(poisson))
    }

    /// Returns the distribution of message sizes. The field contains either a constant size or the path of a
    /// file with a distribution.
    fn resolve_size_distribution(&mut self, sizes: &Spanned<String>) -> Option<SizeDistribution> {
        if let Some(bytes) = units::parse_bytes(&sizes.value) {
            return Some(SizeDistribution::constant(bytes));
        }
        if units::explain_bits(&sizes.value, units::parse_bytes).is_some() {
            self.parse_quantity(Some(sizes), 1, units::parse_bytes, units::BYTES);
            return None;
        }
        let text = self.read_named_file(sizes, "distribution of sizes")?;
        match SizeDistribution::parse(&text) {
            Ok(distribution) => Some(distribution),
            Err(error) => {
                let what = format!("{}, {error}", self.resolve_path(&sizes.value).display());
                self.report_problem(
                    sizes.referenced,
                    what,
                    "write lines of bytes and the percentage of flows that are not larger",
                );
                None
            }
        }
    }

    /// Reads a file that the lab file names. Error messages call its contents `what`.
    pub(super) fn read_named_file(&mut self, path: &Spanned<String>, what: &str) -> Option<String> {
        let file = self.resolve_path(&path.value);
        match read_input_text(&file, InputLimit::WORKLOAD) {
            Ok(text) => Some(text),
            Err(error) => {
                let what = format!("cannot read the {what} {}: {error}", file.display());
                self.report_problem(path.referenced, what, "paths are relative to the lab file");
                None
            }
        }
    }
}
