//! What each kind of job is told.

use std::fs;

use serde_saphyr::Spanned;

use super::super::super::file::{Job, JobFlow, OneOrMore};
use super::super::super::units;
use super::super::Resolver;
use super::super::kinds::known;
use super::JobTransport;
use xoff_workload::{
    Algorithm, Collective, Endpoints, FLOWS_MAX, FlowSpec, Incast, JobKind, Permutation, Poisson, Repeat,
    SizeDistribution,
};

/// Most iterations: a record of each is kept.
const ITERATIONS_MAX: u32 = 1 << 20;

impl Resolver<'_> {
    /// `None` if the fields are not those of the kind, or say nothing that can be.
    pub(super) fn job_kind(&mut self, job: &Job, transport: JobTransport<'_>) -> Option<JobKind> {
        if !self.job_fields(job) {
            return None;
        }
        let algorithm = match job.kind.value.as_str() {
            "flows" => return self.flow_job(job),
            "permutation" => return self.permutation(job),
            "incast" => return self.incast(job),
            "poisson" => return self.poisson(job),
            "replay" => return self.replay(job, transport),
            "ring-allreduce" => Algorithm::RingAllReduce,
            "tree-allreduce" => Algorithm::TreeAllReduce,
            "allgather" => Algorithm::RingAllGather,
            "reduce-scatter" => Algorithm::RingReduceScatter,
            _ => Algorithm::AllToAll {
                rail_aligned: job.rail_aligned.as_ref().is_some_and(|said| said.value),
            },
        };
        self.collective(job, algorithm)
    }

    fn collective(&mut self, job: &Job, algorithm: Algorithm) -> Option<JobKind> {
        let ranks = self.hosts_of(job.hosts.as_ref()?);
        let list = job.bytes.as_ref()?;
        let bytes = list.value.0.iter().map(|text| self.size(text, list)).collect();
        let slice = job.slice.as_ref();
        Some(JobKind::Collective(Collective {
            algorithm,
            ranks,
            gpus_per_node: self.number(job.gpus_per_node.as_ref(), 1, 1..=65_536),
            bytes,
            iterations: self.iterations(job),
            warmup: self.number(job.warmup.as_ref(), 0, 0..=ITERATIONS_MAX),
            compute_gap: self.time(job.compute_gap.as_ref()),
            slice_bytes: slice.map(|text| self.quantity(Some(text), 1, units::bytes, units::BYTES)),
            nvlink_bps: job
                .nvlink
                .as_ref()
                .map(|text| self.quantity(Some(text), 1000, units::bit_rate, units::BIT_RATE)),
        }))
    }

    fn iterations(&mut self, job: &Job) -> u32 {
        self.number(job.iterations.as_ref(), 1, 1..=ITERATIONS_MAX)
    }

    fn permutation(&mut self, job: &Job) -> Option<JobKind> {
        Some(JobKind::Permutation(Permutation {
            hosts: self.hosts_of(job.hosts.as_ref()?),
            bytes: self.one_size(job)?,
            iterations: self.iterations(job),
            gap: self.time(job.gap.as_ref()),
        }))
    }

    fn incast(&mut self, job: &Job) -> Option<JobKind> {
        let to = job.to.as_ref()?;
        let receivers = self.hosts_of(to);
        let &[receiver] = receivers.as_slice() else {
            if !receivers.is_empty() {
                let what = format!("an incast has one receiver, this one has {}", receivers.len());
                self.wrong(to.referenced, what, "name one host in `to`");
            }
            return None;
        };
        Some(JobKind::Incast(Incast {
            senders: self.hosts_of(job.from.as_ref()?),
            receiver,
            bytes: self.one_size(job)?,
            iterations: self.iterations(job),
            gap: self.time(job.gap.as_ref()),
        }))
    }

    /// The size of a job that has just one.
    fn one_size(&mut self, job: &Job) -> Option<u64> {
        let list = job.bytes.as_ref()?;
        match list.value.0.as_slice() {
            [text] => Some(self.size(text, list)),
            sizes => {
                let what = format!(
                    "a job of kind {} has one size, this one has {}",
                    job.kind.value,
                    sizes.len()
                );
                self.wrong(list.referenced, what, "write a job for each");
                None
            }
        }
    }

    fn size(&mut self, text: &Spanned<String>, list: &Spanned<OneOrMore>) -> u64 {
        let mut text = text.clone();
        text.referenced = known(text.referenced, list.referenced);
        self.quantity(Some(&text), 0, units::bytes, units::BYTES)
    }

    fn flow_job(&mut self, job: &Job) -> Option<JobKind> {
        let mut flows = Vec::new();
        for flow in &job.flows.as_ref()?.value {
            self.job_flow(flow, &mut flows);
        }
        Some(JobKind::Flows(flows))
    }

    /// From each sender to each receiver, except to itself.
    fn job_flow(&mut self, flow: &Spanned<JobFlow>, flows: &mut Vec<FlowSpec>) {
        let (at, flow) = (flow.referenced, &flow.value);
        let (senders, receivers) = (self.hosts_of(&flow.from), self.hosts_of(&flow.to));
        let bytes = self.quantity(Some(&flow.bytes), 0, units::bytes, units::BYTES);
        let start = self.time(flow.start.as_ref());
        let count = self.number(flow.count.as_ref(), 1, 1..=FLOWS_MAX as u32);
        let repeat = match (&flow.every, &flow.gap) {
            (Some(_), Some(_)) => {
                let fix =
                    "`every` posts at an interval, `gap` waits for the message before: write one of them";
                self.wrong(at, "the flow has both `every` and `gap`", fix);
                return;
            }
            (Some(every), None) => Repeat::Every {
                interval: self.time(Some(every)),
                count,
            },
            (None, gap) if count > 1 || gap.is_some() => Repeat::AfterCompletion {
                gap: self.time(gap.as_ref()),
                count,
            },
            _ => Repeat::Once,
        };
        let before = flows.len();
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
        if flows.len() == before && !senders.is_empty() && !receivers.is_empty() {
            self.wrong(
                at,
                "the flow goes from a host to itself",
                "choose another receiver",
            );
        }
    }

    fn poisson(&mut self, job: &Job) -> Option<JobKind> {
        let (sources, destinations) = match (&job.hosts, &job.from, &job.to) {
            (Some(hosts), None, None) => {
                let hosts = self.hosts_of(hosts);
                (hosts.clone(), hosts)
            }
            (None, Some(from), Some(to)) => (self.hosts_of(from), self.hosts_of(to)),
            _ => {
                let what = "a job of kind poisson has either `hosts`, or `from` and `to`";
                self.wrong(
                    job.name.referenced,
                    what,
                    "write hosts: all for traffic among all hosts",
                );
                return None;
            }
        };
        let flows_max = job.flows_max.as_ref();
        Some(JobKind::Poisson(Poisson {
            endpoints: Endpoints::Sets {
                sources,
                destinations,
            },
            sizes: self.distribution(job.sizes.as_ref()?)?,
            load: self.quantity(
                job.load.as_ref(),
                1.0,
                units::percent,
                "a share of the sender's link such as 40%",
            ),
            until: job.until.as_ref().map(|text| self.time(Some(text))),
            flows_max: flows_max.map(|count| self.number(Some(count), 1, 1..=FLOWS_MAX as u32)),
            seed: job.seed.as_ref().map_or(0, |seed| seed.value),
        }))
    }

    /// One size for all, or a file.
    fn distribution(&mut self, sizes: &Spanned<String>) -> Option<SizeDistribution> {
        if let Some(bytes) = units::bytes(&sizes.value) {
            return Some(SizeDistribution::constant(bytes));
        }
        let text = self.text_of(sizes, "distribution of sizes")?;
        match SizeDistribution::parse(&text) {
            Ok(distribution) => Some(distribution),
            Err(error) => {
                let what = format!("{}, {error}", self.path(&sizes.value).display());
                self.wrong(
                    sizes.referenced,
                    what,
                    "write lines of bytes and the percentage of flows that are not larger",
                );
                None
            }
        }
    }

    pub(super) fn text_of(&mut self, path: &Spanned<String>, what: &str) -> Option<String> {
        let file = self.path(&path.value);
        match fs::read_to_string(&file) {
            Ok(text) => Some(text),
            Err(error) => {
                let what = format!("cannot read the {what} {}: {error}", file.display());
                self.wrong(path.referenced, what, "paths are relative to the lab file");
                None
            }
        }
    }
}
