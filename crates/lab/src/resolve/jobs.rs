//! `workload.jobs`: what a lab file says of jobs, as the workload's own specification.

mod fields;
mod kinds;
mod replay;

use std::collections::HashSet;

use serde_saphyr::{Location, Spanned};
use xoff_units::Picos;

use super::super::file::Job;
use super::super::jobs::NoPath;
use super::super::plan::{FarEnd, LinkPlan, SPEED_MBPS_DEFAULT, TransportPlan};
use super::super::units;
use super::{Resolver, listed, transports};
use xoff_rdma::congestion::Algorithm;
use xoff_workload::{JobKind, JobSpec, Verb, WorkloadSpec};

/// IPv4, UDP, BTH, RETH and ICRC around a payload: what has to fit through a link's MTU.
const PACKET_HEADERS: u32 = 20 + 8 + 12 + 16 + 4;

/// What jobs are resolved against.
struct Ground<'a> {
    /// The link of each host.
    links: Vec<Option<&'a LinkPlan>>,
    transports: &'a [TransportPlan],
}

impl<'a> Ground<'a> {
    fn new(hosts: usize, links: &'a [LinkPlan], transports: &'a [TransportPlan]) -> Ground<'a> {
        let mut of_hosts = vec![None; hosts];
        for link in links {
            if let FarEnd::Host(host) = link.far {
                of_hosts[host] = Some(link);
            }
        }
        Ground {
            links: of_hosts,
            transports,
        }
    }

    fn link(&self, host: u32) -> Option<&'a LinkPlan> {
        *self.links.get(host as usize)?
    }

    /// As far as the lab file says it.
    fn line_rate_bps(&self, host: u32) -> u64 {
        let speed_mbps = |link: &LinkPlan| link.speed_mbps.unwrap_or(SPEED_MBPS_DEFAULT);
        self.link(host)
            .map_or(0, |link| u64::from(speed_mbps(link)) * 1_000_000)
    }
}

/// The transport of a job, as far as a list of flows asks.
#[derive(Clone, Copy, Debug)]
struct JobTransport<'a> {
    name: &'a str,
    data_class: u8,
}

impl Resolver<'_> {
    pub(super) fn jobs(
        &mut self,
        jobs: &[Spanned<Job>],
        links: &[LinkPlan],
        transports: &[TransportPlan],
    ) -> WorkloadSpec {
        let ground = Ground::new(self.hosts.len(), links, transports);
        let mut spec = WorkloadSpec::default();
        let mut names = HashSet::new();
        for job in jobs {
            self.name(&job.value.name, "job");
            if !names.insert(&job.value.name.value) {
                let what = format!("there are two jobs called \"{}\"", job.value.name.value);
                self.wrong(job.value.name.referenced, what, "use another name");
            }
            spec.jobs.extend(self.job(job, &ground));
        }
        spec
    }

    fn job(&mut self, job: &Spanned<Job>, ground: &Ground<'_>) -> Option<JobSpec> {
        let (at, job) = (job.referenced, &job.value);
        let before = self.problems.0.len();
        let transport = self.transport_named(job.transport.as_ref(), ground);
        let options = &ground.transports[transport];
        let of_job = JobTransport {
            name: &options.name,
            data_class: options.qp.data_class,
        };
        let kind = self.job_kind(job, of_job)?;
        if options.congestion.algorithm == Algorithm::Hpcc {
            let what = format!(
                "the packets of transport {} collect what switches measure (hpcc), which real frames have no field for",
                options.name
            );
            self.only_virtual(at, what);
        }
        let mut spec = JobSpec::new(job.name.value.as_str(), kind);
        spec.start = self.time(job.start.as_ref());
        spec.transport = transport;
        spec.qps_per_connection = self.qps(job.qps.as_ref(), options.qps);
        spec.spread = self.spread(job.spread.as_ref(), options.spread);
        let verbs = [("send", Verb::Send), ("write", Verb::Write), ("read", Verb::Read)];
        spec.verb = self.choice(job.verb.as_ref(), Verb::Write, &verbs);
        spec.background = job.background.unwrap_or(false);
        spec.framing = options.framing();
        if self.problems.0.len() > before {
            return None;
        }
        self.packets_fit(&hosts(&spec.kind), options, ground, at);
        match spec.fixed_pairs(&|host| ground.line_rate_bps(host)) {
            Ok(pairs) => self.pairs_connected(&spec.name, &pairs.unwrap_or_default(), at),
            Err(error) => self.wrong(
                at,
                error.to_string(),
                "docs/workloads.md has what each kind takes",
            ),
        }
        Some(spec)
    }

    fn transport_named(&mut self, name: Option<&Spanned<String>>, ground: &Ground<'_>) -> usize {
        let find = |name: &str| {
            ground
                .transports
                .iter()
                .position(|transport| transport.name == name)
        };
        let Some(name) = name else {
            return find(transports::DEFAULT).unwrap_or(0);
        };
        find(&name.value).unwrap_or_else(|| {
            let names: Vec<String> = ground
                .transports
                .iter()
                .map(|transport| transport.name.clone())
                .collect();
            let what = format!("no transport is called \"{}\"", name.value);
            self.wrong(
                name.referenced,
                what,
                format!("the transports are {}", listed(&names)),
            );
            0
        })
    }

    /// Where routes are made, each pair of hosts that a job connects has to be in one part of the topology. Hosts of a job that
    /// exchange nothing may be in different parts, as those of two rails without spines. Pairs that the seed decides are
    /// checked when the job is set up.
    fn pairs_connected(&mut self, job: &str, pairs: &[(u32, u32)], at: Location) {
        let Some(island) = &self.island else { return };
        let mut apart = pairs
            .iter()
            .filter(|(src, dst)| island[*src as usize] != island[*dst as usize]);
        let Some((src, dst)) = apart.next() else { return };
        let pair = NoPath {
            job,
            from: &self.hosts[*src as usize],
            to: &self.hosts[*dst as usize],
            others: apart.count(),
        };
        let what = pair.to_string();
        self.wrong(at, what, NoPath::FIX);
    }

    fn packets_fit(&mut self, hosts: &[u32], options: &TransportPlan, ground: &Ground<'_>, at: Location) {
        let packet = options.qp.mtu + PACKET_HEADERS + options.telemetry_bytes();
        let narrow = hosts.iter().find_map(|host| {
            let link = ground.link(*host).filter(|link| link.mtu < packet)?;
            Some((*host, link))
        });
        if let Some((host, link)) = narrow {
            let what = format!(
                "packets of transport {}, with {} bytes of payload, do not fit through the link of {} with its MTU of {}",
                options.name, options.qp.mtu, self.hosts[host as usize], link.mtu
            );
            self.wrong(
                at,
                what,
                format!(
                    "make the MTU at least {packet} ({}), or that of the transport smaller",
                    link.source
                ),
            );
        }
    }

    fn time(&mut self, text: Option<&Spanned<String>>) -> Picos {
        Picos::from_nanos(self.quantity(text, 0, units::duration_ns, units::DURATION))
    }
}

/// All hosts that a job names.
fn hosts(kind: &JobKind) -> Vec<u32> {
    use xoff_workload::Endpoints;
    match kind {
        JobKind::Flows(flows) | JobKind::Replay(flows) => {
            flows.iter().flat_map(|flow| [flow.src, flow.dst]).collect()
        }
        JobKind::Permutation(permutation) => permutation.hosts.clone(),
        JobKind::Incast(incast) => incast.senders.iter().copied().chain([incast.receiver]).collect(),
        JobKind::Collective(collective) => collective.ranks.clone(),
        JobKind::Poisson(poisson) => match &poisson.endpoints {
            Endpoints::Pairs(pairs) => pairs.iter().flat_map(|(src, dst)| [*src, *dst]).collect(),
            Endpoints::Sets {
                sources,
                destinations,
            } => sources.iter().chain(destinations).copied().collect(),
        },
    }
}
