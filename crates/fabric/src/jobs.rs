//! Runs workloads on hosts, in virtual and in real time. [`Jobs`] posts the messages of a workload as work
//! requests of queue pairs. When a request completes, [`Jobs`] informs the workload.

mod completion_handler;
mod observed_fabric;
mod posting;
mod queue_pairs;
mod transport;

use std::collections::BTreeMap;
use std::net::IpAddr;

use xoff_dataplane::balance::AnnounceResult;
use xoff_dataplane::{FlowAnnouncement, Picos};
use xoff_wire::bth::MASK_24;

use super::engine::Fabric;
use super::job_hosts::{HostDirectory, JobHosts};
use super::observer::Observer;
use super::path::Paths;
use super::placement::PlannedHop;
use super::reference::{ReferenceMessage, ReferenceTimes};
pub use observed_fabric::ObservedFabric;
use queue_pairs::{JobQueuePairs, poster_and_peer, rdma_verb};
pub use transport::JobTransport;
use transport::{ReferenceTransport, queue_pair_setup, used_queue_pairs};
use xoff_host::Host;
use xoff_rdma::{Completion, CompletionKind, QpIndex};
use xoff_workload::{Connection, MessageId, MessagePost, StepMark, Verb, Workload};

/// Number of the first queue pair of the jobs. No queue pair has a smaller number. InfiniBand reserves the
/// numbers 0 and 1.
pub const FIRST_QUEUE_PAIR: u32 = 0x100;

/// Data packets that have arrived at all queue pairs of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedPackets {
    /// Number of data packets, including retransmissions and duplicates.
    pub data_packets: u64,
    /// Number of requests and READ responses that arrived after a gap in the packet sequence numbers, plus
    /// the number of implied NAKs ([`out_of_order_packets`](xoff_rdma::Counters::out_of_order_packets)).
    pub out_of_order_packets: u64,
}

/// A work request that failed. A request fails if it cannot be posted or if the queue pair gives up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedMessage {
    /// Model time of the failure, with skipped time.
    pub at: Picos,
    /// Index of the job in the workload.
    pub job: usize,
    /// Indices of the source and the destination host of the data.
    pub hosts: (u32, u32),
    /// Reason of the failure, as text for messages.
    pub why: String,
}

/// A running workload: the jobs, the queue pairs of the jobs and the messages in flight. This struct posts
/// the messages as work requests of queue pairs, and passes the completions back to the workload.
/// [`Jobs::next_start`] is the time of the next call of [`Jobs::post_due`].
#[derive(Debug)]
pub struct Jobs {
    workload: Workload,
    queue_pairs: JobQueuePairs,
    posts: Vec<MessagePost>,
    failed: Vec<FailedMessage>,
    /// Time and host of the failure of each entry of `failed`, sorted.
    failed_at: Vec<(Picos, usize)>,
    paths: Paths,
    reference: ReferenceTimes,
    transports: Vec<ReferenceTransport>,
    /// Data flows of all queue pairs.
    data_flows: Vec<DataFlow>,
    /// Announced flows by job: the index of the switch and the flow.
    announced: BTreeMap<usize, Vec<(usize, DataFlow)>>,
}

/// The data packets of one queue pair of a connection, as switches see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataFlow {
    /// Index of the host that sends the data.
    pub from: usize,
    /// IP addresses of the sending and the receiving host.
    pub addresses: (IpAddr, IpAddr),
    /// Number of the queue pair that receives the data, 24 bits. For a READ, this is the queue pair of
    /// the requester.
    pub destination_qp: u32,
    /// Index of the queue pair within its connection, from 0.
    pub pair: u16,
    /// Index of the job in the workload.
    pub job: usize,
}

impl Jobs {
    /// Creates the queue pairs of all connections of a workload on the hosts. The jobs do not start yet.
    /// [`Connection::transport`] is an index in `transports`. `paths` and `reference` must describe the same
    /// hosts. `seed` is the seed of the congestion controllers.
    ///
    /// # Panics
    /// Panics if a connection names a transport or a host that does not exist.
    pub fn new(
        hosts: &mut impl JobHosts,
        workload: Workload,
        transports: &[JobTransport],
        directory: &dyn HostDirectory,
        (paths, reference): (Paths, ReferenceTimes),
        seed: u64,
    ) -> Jobs {
        let reference_transports: Vec<_> = transports.iter().map(ReferenceTransport::new).collect();
        let mut jobs = Jobs {
            queue_pairs: JobQueuePairs::new(&workload, &reference_transports, hosts.host_count()),
            posts: Vec::new(),
            failed: Vec::new(),
            failed_at: Vec::new(),
            reference,
            transports: reference_transports,
            workload,
            paths,
            data_flows: Vec::new(),
            announced: BTreeMap::new(),
        };
        let mut number = FIRST_QUEUE_PAIR;
        for index in 0..jobs.workload.connections().len() {
            let connection = jobs.workload.connections()[index];
            let is_read = jobs.workload.job_verb(connection.job) == Verb::Read;
            let (poster, peer) = poster_and_peer(&connection, is_read);
            for pair in 0..connection.qps {
                // READ responses go to the queue pair that requests the data.
                let destination_qp = if is_read { number } else { number + 1 };
                let (from, to) = (connection.src as usize, connection.dst as usize);
                jobs.data_flows.push(DataFlow {
                    from,
                    addresses: (directory.address(from), directory.address(to)),
                    destination_qp: destination_qp & MASK_24,
                    pair,
                    job: connection.job,
                });
                let transport = &transports[connection.transport];
                let transport = (transport, transport.packet_lengths());
                let ends = [
                    (poster, peer, number, number + 1),
                    (peer, poster, number + 1, number),
                ];
                let qps = ends.map(|(at, to, own, other)| {
                    let path = jobs.paths.path_between(at as usize, to as usize);
                    let link = *hosts.host(at as usize).link();
                    let setup =
                        queue_pair_setup(&link, transport, directory, path, (at, to), (own, other), seed);
                    hosts.change_host(at as usize, |host, _| host.create_queue_pair(setup))
                });
                jobs.queue_pairs
                    .add(index as u32, (poster, qps[0]), (peer, qps[1]), is_read);
                number = (number + 2) & MASK_24;
            }
        }
        jobs
    }

    /// Returns the workload, for example for its results.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// Returns the failed work requests in the order of their failure.
    pub fn failed(&self) -> &[FailedMessage] {
        &self.failed
    }

    /// Returns the data flows of all queue pairs, in the order of [`Workload::connections`]. The flows of one
    /// connection are in the order of [`DataFlow::pair`].
    pub fn data_flows(&self) -> &[DataFlow] {
        &self.data_flows
    }

    /// Announces the path of flows to switches. Each hop names one switch, the egress port there, and the
    /// flow by its index in [`Jobs::data_flows`].
    ///
    /// Returns the number of announcements that switches have accepted and that are not withdrawn. When a job
    /// ends, [`Simulation::run`](crate::Simulation::run) withdraws the announcements of the job.
    ///
    /// # Panics
    /// Panics if a hop names a switch or a flow that does not exist.
    pub fn announce_flows(
        &mut self,
        fabric: &mut Fabric,
        hops: &[PlannedHop],
        observer: &mut dyn Observer,
    ) -> usize {
        for hop in hops {
            let flow = self.data_flows[hop.flow];
            let announcement = FlowAnnouncement {
                source: flow.addresses.0,
                destination: flow.addresses.1,
                destination_qp: flow.destination_qp,
                data: true,
                via: Some(hop.port),
            };
            let announced = fabric.change_switch(hop.switch, observer, |switch, now, _, _| {
                switch.announce_flow(now, &announcement)
            });
            if matches!(announced, AnnounceResult::Placed { .. }) {
                let of_job = self.announced.entry(flow.job).or_default();
                of_job.push((hop.switch, flow));
            }
        }
        self.announced.values().map(Vec::len).sum()
    }

    /// Withdraws the flow announcements of jobs that have ended.
    pub(super) fn withdraw_flows(&mut self, fabric: &mut Fabric, observer: &mut dyn Observer) {
        if self.announced.is_empty() {
            return;
        }
        let over: Vec<usize> = self.announced.keys().copied().collect();
        let over = over.into_iter().filter(|job| self.workload.is_over(*job));
        let ended: Vec<_> = over.filter_map(|job| self.announced.remove(&job)).collect();
        for (switch, flow) in ended.into_iter().flatten() {
            let (source, destination) = flow.addresses;
            fabric.change_switch(switch, observer, |switch, _, _, _| {
                switch.withdraw_flow(source, destination, flow.destination_qp)
            });
        }
    }

    /// Returns the time at which [`Jobs::post_due`] must be called next. Returns [`Picos::NEVER`] if all jobs
    /// wait for completions.
    pub fn next_start(&self) -> Picos {
        self.workload.next_start()
    }

    /// Returns the received packets of each connection, in the order of [`Workload::connections`].
    /// `host_by_index` returns the host with a given index.
    pub fn received_packets<'a>(&self, host_by_index: impl Fn(usize) -> &'a Host) -> Vec<ReceivedPackets> {
        let mut all = vec![ReceivedPackets::default(); self.workload.connections().len()];
        for host in 0..self.queue_pairs.host_count() {
            let roles = self.queue_pairs.roles_at(host);
            if roles.is_empty() {
                continue;
            }
            let endpoint = host_by_index(host).endpoint();
            for (qp, role) in roles.iter().enumerate() {
                if let Some(counters) = endpoint.qp_counters(QpIndex(qp as u32)) {
                    let arrivals = &mut all[self.queue_pairs.pair(role.pair).connection as usize];
                    arrivals.data_packets += counters.rx_data_packets;
                    arrivals.out_of_order_packets += counters.out_of_order_packets();
                }
            }
        }
        all
    }

    /// Returns the number of jobs of the workload.
    pub(crate) fn job_count(&self) -> usize {
        self.workload.job_count()
    }

    /// Records the times of the steps of all jobs from now on ([`Workload::record_steps`]).
    pub fn record_steps(&mut self) {
        self.workload.record_steps();
    }

    /// Forgets the times of all earlier steps ([`Workload::restart_steps`]).
    pub(crate) fn restart_steps(&mut self) {
        self.workload.restart_steps();
    }

    /// Skips steps of jobs ([`Workload::skip_steps`]).
    pub(crate) fn skip_steps(&mut self, skipped: Picos, jobs: &[(usize, u64, StepMark)]) {
        self.workload.skip_steps(skipped, jobs);
    }

    /// Returns whether all jobs are over or stopped and no message is in flight. Returns `false` before
    /// the start.
    pub fn is_finished(&self) -> bool {
        self.workload.is_finished()
    }

    /// Starts all jobs that are not held. The start time of each job counts from now.
    pub fn start(&mut self, hosts: &mut impl JobHosts) {
        self.workload.start(hosts.now(), &mut self.posts);
        self.submit_posts(hosts);
    }

    /// Holds a job: it does not start by itself, but only when [`Jobs::start_job`] is called. This call has
    /// no effect after [`Jobs::start`], or if no job has this index.
    pub fn hold_job(&mut self, job: usize) {
        self.workload.hold_job(job);
    }

    /// Starts a held job. The start time of the job counts from now. If [`Jobs::start`] was not called yet,
    /// the call only ends the hold. The call has no effect if the job is not held.
    pub fn start_job(&mut self, job: usize, hosts: &mut impl JobHosts) {
        self.workload.start_job(hosts.now(), job, &mut self.posts);
        self.submit_posts(hosts);
    }

    /// Stops a job: the job posts no more messages. Messages in flight continue. The call has no effect if
    /// the job is over or already stopped.
    pub fn stop_job(&mut self, job: usize) {
        self.workload.stop_job(job);
    }

    /// Posts the messages that are due now.
    pub fn post_due(&mut self, hosts: &mut impl JobHosts) {
        self.workload.advance(hosts.now(), &mut self.posts);
        self.submit_posts(hosts);
    }

    /// Takes the completions of all hosts and posts the messages that depend on them.
    pub fn process_completions(&mut self, hosts: &mut impl JobHosts) {
        hosts.take_completions(|host, completion| self.process_completion(host, &completion));
        self.submit_posts(hosts);
    }

    fn process_completion(&mut self, host: usize, completion: &Completion) {
        let Some(role) = self.queue_pairs.role(host, completion.qp) else {
            return;
        };
        let now = completion.at;
        match completion.kind {
            CompletionKind::Acked { id } => {
                let message = MessageId(id);
                if role.reads {
                    self.workload.received(now, message, &mut self.posts);
                }
                self.workload.acknowledged(now, message, &mut self.posts);
            }
            CompletionKind::Received { .. } if !role.posts => {
                let pair = self.queue_pairs.pair_mut(role.pair);
                if let Some(message) = pair.take_expected() {
                    self.workload.received(now, message, &mut self.posts);
                }
            }
            CompletionKind::Received { .. } => {}
            CompletionKind::Failed { why, .. } => {
                let connection = self.queue_pairs.pair(role.pair).connection;
                self.record_failure((now, host), connection, format!("{why:?}"));
            }
        }
    }

    /// Records a failed message of a connection. Within a window, failures at different hosts occur in any order, so
    /// they are sorted by time and host.
    fn record_failure(&mut self, at: (Picos, usize), connection: u32, why: String) {
        let connection = &self.workload.connections()[connection as usize];
        let failure = FailedMessage {
            at: at.0.saturating_add(self.workload.skipped_time()),
            job: connection.job,
            hosts: (connection.src, connection.dst),
            why,
        };
        let index = self.failed_at.partition_point(|earlier| *earlier <= at);
        self.failed_at.insert(index, at);
        self.failed.insert(index, failure);
    }

    /// Returns the shortest possible time for a message of `bytes` bytes on a connection (see
    /// [`ReferenceTimes`]). Returns `None` if no path connects the hosts, or if the transport of the
    /// connection does not exist.
    pub fn least_time(&self, connection: &Connection, bytes: u64) -> Option<Picos> {
        let transport = self.transports.get(connection.transport)?;
        let verb = rdma_verb(self.workload.job_verb(connection.job));
        self.reference.least_time(&ReferenceMessage {
            from: connection.src as usize,
            to: connection.dst as usize,
            bytes,
            queue_pairs: used_queue_pairs(connection, bytes) as u16,
            verb,
            service: transport.service,
            mtu: transport.mtu,
            lengths: transport.lengths,
            entropy: transport.entropy,
        })
    }

    /// Returns the computed shortest times of messages ([`Jobs::least_time`]).
    pub fn reference_times(&self) -> &ReferenceTimes {
        &self.reference
    }
}
