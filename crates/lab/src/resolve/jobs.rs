//! Resolves `workload.jobs` of a lab file into the [`WorkloadSpec`] of the workload generator.

mod fields;
mod job_kinds;
mod replay;

pub(crate) use fields::collective_kinds;

use std::collections::HashSet;

use serde_saphyr::{Location, Spanned};
use xoff_units::Picos;

use super::super::plan::{LinkPlan, SPEED_MBPS_DEFAULT, TransportPlan};
use super::super::unconnected_pair::UnconnectedPair;
use super::super::units;
use super::workload::HostLinks;
use super::{LabResolver, transports};
use xoff_lab_file::JobFields;
use xoff_rdma::congestion::Algorithm;
use xoff_workload::{JobKind, JobSpec, Verb, WorkloadSpec};

/// Length of the IPv4, UDP, BTH and RETH headers and of the ICRC, in bytes.
const PACKET_HEADER_BYTES: u32 = 20 + 8 + 12 + 16 + 4;

/// The links and transports that the jobs of a lab use.
struct JobContext<'a> {
    links: HostLinks<'a>,
    transports: &'a [TransportPlan],
}

impl<'a> JobContext<'a> {
    fn new(host_count: usize, links: &'a [LinkPlan], transports: &'a [TransportPlan]) -> JobContext<'a> {
        JobContext {
            links: HostLinks::new(host_count, links),
            transports,
        }
    }

    /// Returns the link of a host. Returns `None` if the host has no link.
    fn host_link(&self, host: u32) -> Option<&'a LinkPlan> {
        self.links.link_of_host(host as usize)
    }

    /// Returns the link speed of a host in bits per second. If the lab file does not set the speed, returns
    /// the default speed. Returns 0 for a host without a link.
    fn line_rate_bps(&self, host: u32) -> u64 {
        let speed_mbps = |link: &LinkPlan| link.speed_mbps.unwrap_or(SPEED_MBPS_DEFAULT);
        self.host_link(host)
            .map_or(0, |link| u64::from(speed_mbps(link)) * 1_000_000)
    }
}

/// The properties of a transport that the check of a flow list needs.
#[derive(Clone, Copy, Debug)]
struct JobTransport<'a> {
    name: &'a str,
    data_class: u8,
}

impl LabResolver<'_> {
    /// Resolves all jobs. A job with an error is reported and left out.
    pub(super) fn resolve_jobs(
        &mut self,
        jobs: &[Spanned<JobFields>],
        links: &[LinkPlan],
        transports: &[TransportPlan],
    ) -> WorkloadSpec {
        let context = JobContext::new(self.hosts.len(), links, transports);
        let mut spec = WorkloadSpec::default();
        let mut names = HashSet::new();
        for job in jobs {
            self.check_name(&job.value.name, "job");
            if !names.insert(&job.value.name.value) {
                let what = format!("there are two jobs called \"{}\"", job.value.name.value);
                self.report_problem(job.value.name.referenced, what, "use another name");
            }
            match self.resolve_job(job, &context) {
                Some(job) => spec.jobs.push(job),
                None => drop(self.rejected_traffic.insert(job.value.name.value.clone())),
            }
        }
        spec
    }

    /// Resolves one job. Checks that paths between its hosts exist and that its packets fit into the MTU of
    /// the links. Returns `None` if a field is invalid.
    fn resolve_job(&mut self, job: &Spanned<JobFields>, context: &JobContext<'_>) -> Option<JobSpec> {
        let (location, job) = (job.referenced, &job.value);
        let problems_before = self.problems.len();
        let transport = self.find_transport(job.transport.as_ref(), context);
        let options = &context.transports[transport];
        let of_job = JobTransport {
            name: &options.name,
            data_class: options.qp.data_class,
        };
        let kind = self.resolve_job_kind(job, of_job);
        if options.congestion.algorithm == Algorithm::Hpcc {
            let what = format!(
                "the packets of transport {} collect telemetry of switches (hpcc), and real frames have no field for telemetry",
                options.name
            );
            self.require_virtual_time(location, what);
        }
        // All fields are resolved before the first return, so that all errors are reported.
        let start = self.parse_time(job.start.as_ref());
        let qps_per_connection = self.queue_pair_count(job.qps.as_ref(), options.qps);
        let spread = self.resolve_message_spread(job.spread.as_ref(), options.spread);
        let verbs = [("send", Verb::Send), ("write", Verb::Write), ("read", Verb::Read)];
        let verb = self.parse_choice(job.verb.as_ref(), Verb::Write, &verbs);
        let mut spec = JobSpec::new(job.name.value.as_str(), kind?);
        spec.start = start;
        spec.transport = transport;
        spec.qps_per_connection = qps_per_connection;
        spec.spread = spread;
        spec.verb = verb;
        spec.background = job.background.unwrap_or(false);
        spec.framing = options.packet_framing();
        // Errors about the hosts of the job would be consequences of hosts that were left out.
        let has_unknown_hosts = self.is_topology_unknown || !self.left_out.keys.is_empty();
        if self.problems.len() > problems_before || has_unknown_hosts {
            return None;
        }
        self.check_packet_size(&job_hosts(&spec.kind), options, context, location);
        let line_rate_bps = |host| context.line_rate_bps(host);
        let pairs = match self.are_hosts_connected(&spec.kind) {
            // Then every pair is connected, and a large job has millions of pairs.
            true => spec.check(&line_rate_bps).map(|()| None),
            false => spec.fixed_pairs(&line_rate_bps),
        };
        match pairs {
            Ok(pairs) => self.check_pairs_connected(&spec.name, &pairs.unwrap_or_default(), location),
            Err(error) => self.report_problem(
                location,
                error.to_string(),
                "docs/lab.md lists the keys of each kind of job",
            ),
        }
        Some(spec)
    }

    /// Returns whether all hosts of a job are in one component of the topology, or whether components do not count.
    fn are_hosts_connected(&self, kind: &JobKind) -> bool {
        let Some(component_of_host) = &self.component_of_host else {
            return true;
        };
        let hosts = job_hosts(kind);
        let mut components = hosts.iter().map(|host| component_of_host[*host as usize]);
        let first = components.next();
        components.all(|component| Some(component) == first)
    }

    /// Returns the index of the transport with the given name. Without a name, returns the index of the
    /// default transport. Reports an unknown name and returns 0.
    fn find_transport(&mut self, name: Option<&Spanned<String>>, context: &JobContext<'_>) -> usize {
        let find = |name: &str| {
            context
                .transports
                .iter()
                .position(|transport| transport.name == name)
        };
        let Some(name) = name else {
            return find(transports::DEFAULT_TRANSPORT).unwrap_or(0);
        };
        find(&name.value).unwrap_or_else(|| {
            let names = context.transports.iter().map(|transport| transport.name.as_str());
            let what = format!("no transport is called \"{}\"", name.value);
            let fix = self.suggest(&name.value, names, "transports");
            if !self.left_out.keys.contains(&name.value) {
                self.report_problem(name.referenced, what, fix);
            }
            0
        })
    }

    /// Reports an error if a job connects two hosts and no path exists between them. Only labs with computed
    /// routes are checked.
    ///
    /// Hosts that exchange no messages may have no path between them. An example is a fabric with two
    /// separate rails and no spine switches. If the pairs of a job depend on the seed, they are checked
    /// later, when the job is set up.
    fn check_pairs_connected(&mut self, job: &str, pairs: &[(u32, u32)], location: Location) {
        let Some(component_of_host) = &self.component_of_host else {
            return;
        };
        let mut apart = pairs
            .iter()
            .filter(|(src, dst)| component_of_host[*src as usize] != component_of_host[*dst as usize]);
        let Some((src, dst)) = apart.next() else { return };
        let pair = UnconnectedPair {
            job,
            from: &self.hosts[*src as usize],
            to: &self.hosts[*dst as usize],
            others: apart.count(),
        };
        let what = pair.to_string();
        self.report_problem(location, what, UnconnectedPair::FIX);
    }

    /// Reports an error if the packets of a transport are larger than the MTU of a link of `hosts`.
    fn check_packet_size(
        &mut self,
        hosts: &[u32],
        options: &TransportPlan,
        context: &JobContext<'_>,
        location: Location,
    ) {
        let packet = options.qp.mtu + PACKET_HEADER_BYTES + options.telemetry_bytes();
        let narrow = hosts.iter().find_map(|host| {
            let link = context.host_link(*host).filter(|link| link.mtu < packet)?;
            Some((*host, link))
        });
        if let Some((host, link)) = narrow {
            let what = format!(
                "packets of transport {}, with {} bytes of payload, do not fit through the link of {} with its MTU of {}",
                options.name, options.qp.mtu, self.hosts[host as usize], link.mtu
            );
            self.report_problem(
                location,
                what,
                format!(
                    "make the MTU at least {packet} ({}), or that of the transport smaller",
                    link.source
                ),
            );
        }
    }

    /// Returns the duration in a field, or 0 if the field is missing.
    fn parse_time(&mut self, text: Option<&Spanned<String>>) -> Picos {
        Picos::from_nanos(self.parse_quantity(text, 0, units::parse_duration_ns, units::DURATION))
    }
}

/// Returns all hosts that a job names, with repetitions.
fn job_hosts(kind: &JobKind) -> Vec<u32> {
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
