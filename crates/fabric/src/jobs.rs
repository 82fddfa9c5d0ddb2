//! Workloads on hosts, be they a fabric's or real time's: messages become work requests of queue pairs, completions become reports.

use std::collections::BTreeMap;
use std::net::IpAddr;

use xoff_dataplane::balance::AnnounceResult;
use xoff_dataplane::{FlowAnnouncement, LinkTiming, Picos};
use xoff_wire::Ecn;
use xoff_wire::bth::MASK_24;

use super::engine::Fabric;
use super::lengths::PacketLengths;
use super::observer::Observer;
use super::path::{FabricPath, Paths};
use super::placement::PlannedHop;
use super::reference::{ReferenceMessage, ReferenceTimes};
use xoff_host::{Entropy, Host, QueuePairSetup};
use xoff_rdma::congestion::{Context, Factory};
use xoff_rdma::{
    Completion, CompletionKind, MTU_MAX, MTU_MIN, QpConfig, QpIndex, Transport as Service, Verb as RdmaVerb,
    WorkRequest,
};
use xoff_workload::{Connection, MessageId, Post, Spread, Verb, Workload};

/// Number of the first queue pair of a run's jobs; those below 2 are special in InfiniBand.
pub const FIRST_QUEUE_PAIR: u32 = 0x100;

/// How the connections of a job are set up.
#[derive(Clone, Debug)]
pub struct Transport {
    /// Queue pairs, but for their numbers.
    pub qp: QpConfig,
    /// Their congestion control.
    pub congestion: Factory,
    /// DSCP of data, of acknowledgements and of CNPs.
    pub dscp: [u8; 3],
    /// UDP source port of all of them; `None` derives it from the queue pair's numbers.
    pub source_port: Option<u16>,
    /// Source ports that change with each packet.
    pub entropy: Option<Entropy>,
    /// Whether switches may mark their packets.
    pub ecn: Ecn,
}

impl Transport {
    /// Lengths of its packets on links.
    pub fn packet_lengths(&self) -> PacketLengths {
        PacketLengths::new(self.congestion.telemetry_format())
    }
}

/// Where the two ends of a fabric's hosts find each other.
pub trait Directory {
    /// The IP address of a host.
    fn address(&self, host: usize) -> std::net::IpAddr;
    /// The link address that `from` sends to on its way to `to`; `None` asks the network.
    fn next_hop_mac(&self, from: usize, to: usize) -> Option<[u8; 6]>;
}

/// What jobs run on: hosts with queue pairs, and the time.
pub trait JobHosts {
    /// Model time.
    fn now(&self) -> Picos;
    /// How many hosts there are, by the numbers that jobs call them.
    fn host_count(&self) -> usize;
    /// A host.
    fn host(&self, host: usize) -> &Host;
    /// Changes a host now, and sees to it that it sends what it then may.
    fn change_host<R>(&mut self, host: usize, change: impl FnOnce(&mut Host, Picos) -> R) -> R;
    /// Takes what the hosts have completed since the last call: in the order of hosts, and of each in its own order.
    fn take_completions(&mut self, take: impl FnMut(usize, Completion));
}

/// A fabric with whoever watches it.
#[derive(Debug)]
pub struct Watched<'a, O>(pub &'a mut Fabric, pub &'a mut O);

impl<O: Observer> JobHosts for Watched<'_, O> {
    fn now(&self) -> Picos {
        self.0.now()
    }

    fn host_count(&self) -> usize {
        self.0.host_count()
    }

    fn host(&self, host: usize) -> &Host {
        self.0.host(host)
    }

    fn change_host<R>(&mut self, host: usize, change: impl FnOnce(&mut Host, Picos) -> R) -> R {
        self.0.change_host(host, self.1, change)
    }

    fn take_completions(&mut self, mut take: impl FnMut(usize, Completion)) {
        let observer = &mut *self.1;
        self.0.take_completions(|host, completion| {
            observer.completed(host, &completion);
            take(host, completion);
        });
    }
}

/// A queue pair's part in a connection.
#[derive(Clone, Copy, Debug)]
struct Role {
    connection: u32,
    /// Which of the connection's queue pairs it is.
    pair: u16,
    /// It is the end that posts.
    posts: bool,
}

/// The queue pairs of one connection.
#[derive(Debug)]
struct Pairs {
    /// The host that posts: the source, or, of READs, the destination.
    poster: u32,
    qps: Vec<QpIndex>,
    /// Messages that each pair carries and whose arrival is still to come, in order.
    expected: Vec<std::collections::VecDeque<MessageId>>,
    next: u16,
}

/// Parts of a message that are still under way.
#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    received: u16,
    acknowledged: u16,
}

/// What arrived of a connection's data, at all its queue pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Packets with data, repetitions included.
    pub data_packets: u64,
    /// Those that arrived behind a gap.
    pub out_of_order_packets: u64,
}

/// A work request that a queue pair could not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedMessage {
    /// When.
    pub at: Picos,
    /// Index of its job.
    pub job: usize,
    /// From and to which host.
    pub hosts: (u32, u32),
    /// Why.
    pub why: String,
}

/// A workload that runs.
#[derive(Debug)]
pub struct Jobs {
    workload: Workload,
    pairs: Vec<Pairs>,
    /// By host and queue pair.
    roles: Vec<Vec<Role>>,
    /// By slot of the message.
    parts: Vec<Parts>,
    posts: Vec<Post>,
    completions: Vec<(usize, Completion)>,
    failed: Vec<FailedMessage>,
    paths: Paths,
    reference: ReferenceTimes,
    transports: Vec<ReferenceTransport>,
    /// What goes with data to queue pairs.
    data_flows: Vec<DataFlow>,
    /// By job: flows that are announced, and to which switch.
    announced: BTreeMap<usize, Vec<(usize, DataFlow)>>,
}

/// The data of a connection's queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataFlow {
    /// Index of the host that sends it.
    pub from: usize,
    /// Addresses of the two hosts.
    pub addresses: (IpAddr, IpAddr),
    /// Number of the queue pair that gets it.
    pub destination_qp: u32,
    /// Which of the connection's queue pairs it is.
    pub pair: u16,
    /// Index of the job.
    pub job: usize,
}

impl Jobs {
    /// Creates the queue pairs of all connections of a workload. `transports` are what [`Connection::transport`] counts.
    pub fn new(
        hosts: &mut impl JobHosts,
        workload: Workload,
        transports: &[Transport],
        directory: &dyn Directory,
        (paths, reference): (Paths, ReferenceTimes),
        seed: u64,
    ) -> Jobs {
        let mut jobs = Jobs {
            pairs: Vec::with_capacity(workload.connections().len()),
            roles: vec![Vec::new(); hosts.host_count()],
            parts: Vec::new(),
            posts: Vec::new(),
            completions: Vec::new(),
            failed: Vec::new(),
            reference,
            transports: transports.iter().map(ReferenceTransport::new).collect(),
            workload,
            paths,
            data_flows: Vec::new(),
            announced: BTreeMap::new(),
        };
        let connections: Vec<Connection> = jobs.workload.connections().to_vec();
        let mut number = FIRST_QUEUE_PAIR;
        for (index, connection) in connections.iter().enumerate() {
            let reads = jobs.workload.job_verb(connection.job) == Verb::Read;
            let (poster, peer) = match reads {
                false => (connection.src, connection.dst),
                true => (connection.dst, connection.src),
            };
            let mut pairs = Pairs {
                poster,
                qps: Vec::with_capacity(usize::from(connection.qps)),
                expected: vec![Default::default(); usize::from(connection.qps)],
                next: 0,
            };
            for pair in 0..connection.qps {
                // READ responses go to the queue pair that asks.
                let destination_qp = if reads { number } else { number + 1 };
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
                for (posts, (at, to, own, other)) in [true, false].into_iter().zip(ends) {
                    let path = jobs.paths.between(at as usize, to as usize);
                    let link = *hosts.host(at as usize).link();
                    let setup = setup(&link, transport, directory, path, (at, to), (own, other), seed);
                    let qp = hosts.change_host(at as usize, |host, _| host.create_queue_pair(setup));
                    let role = Role {
                        connection: index as u32,
                        pair,
                        posts,
                    };
                    debug_assert_eq!(jobs.roles[at as usize].len(), qp.0 as usize);
                    jobs.roles[at as usize].push(role);
                    if posts {
                        pairs.qps.push(qp);
                    }
                }
                number = (number + 2) & MASK_24;
            }
            jobs.pairs.push(pairs);
        }
        jobs
    }

    /// The workload, to be read.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// Messages that failed, in order.
    pub fn failed(&self) -> &[FailedMessage] {
        &self.failed
    }

    /// The queue pairs that get data, and who sends it.
    pub fn data_flows(&self) -> &[DataFlow] {
        &self.data_flows
    }

    /// Tells switches which way flows go that will begin, `hops` by their places in [`Jobs::data_flows`]; how many places were given. They
    /// are withdrawn when their jobs are over.
    pub fn announce(
        &mut self,
        fabric: &mut Fabric,
        hops: &[PlannedHop],
        observer: &mut impl Observer,
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

    /// Withdraws the flows of jobs that are over.
    pub(super) fn withdraw(&mut self, fabric: &mut Fabric, observer: &mut impl Observer) {
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

    /// When [`Jobs::advance`] has something to do.
    pub fn next_start(&self) -> Picos {
        self.workload.next_start()
    }

    /// What arrived so far, for each of [`Workload::connections`].
    pub fn arrivals<'a>(&self, host_at: impl Fn(usize) -> &'a Host) -> Vec<Arrivals> {
        let mut all = vec![Arrivals::default(); self.pairs.len()];
        let busy = self.roles.iter().enumerate();
        for (host, roles) in busy.filter(|(_, roles)| !roles.is_empty()) {
            let endpoint = host_at(host).endpoint();
            for (qp, role) in roles.iter().enumerate() {
                if let Some(counters) = endpoint.qp_counters(QpIndex(qp as u32)) {
                    let arrivals = &mut all[role.connection as usize];
                    arrivals.data_packets += counters.rx_data_packets;
                    arrivals.out_of_order_packets += counters.out_of_order_packets();
                }
            }
        }
        all
    }

    /// Whether everything has been sent and received.
    pub fn is_finished(&self) -> bool {
        self.workload.is_finished()
    }

    /// Starts all jobs.
    pub fn start(&mut self, hosts: &mut impl JobHosts) {
        self.workload.start(hosts.now(), &mut self.posts);
        self.post(hosts);
    }

    /// Keeps a job from starting with the others, as [`Workload::hold`].
    pub fn hold(&mut self, job: usize) {
        self.workload.hold(job);
    }

    /// Starts a job that is held.
    pub fn start_job(&mut self, job: usize, hosts: &mut impl JobHosts) {
        self.workload.start_job(hosts.now(), job, &mut self.posts);
        self.post(hosts);
    }

    /// Has a job post no more.
    pub fn stop_job(&mut self, job: usize) {
        self.workload.stop_job(job);
    }

    /// Posts what is due now.
    pub fn advance(&mut self, hosts: &mut impl JobHosts) {
        self.workload.advance(hosts.now(), &mut self.posts);
        self.post(hosts);
    }

    /// Takes what the hosts have completed, and posts what follows from it.
    pub fn complete(&mut self, hosts: &mut impl JobHosts) {
        let mut completions = std::mem::take(&mut self.completions);
        hosts.take_completions(|host, completion| completions.push((host, completion)));
        for (host, completion) in completions.drain(..) {
            self.note(host, &completion);
        }
        self.completions = completions;
        self.post(hosts);
    }

    fn note(&mut self, host: usize, completion: &Completion) {
        let Some(role) = self.roles[host].get(completion.qp.0 as usize).copied() else {
            return;
        };
        let now = completion.at;
        match completion.kind {
            CompletionKind::Acked { id } => {
                let message = MessageId(id);
                let reads = self.workload.connections()[role.connection as usize].src
                    != self.pairs[role.connection as usize].poster;
                let parts = &mut self.parts[message.slot()];
                parts.acknowledged -= 1;
                let whole = parts.acknowledged == 0;
                if whole && reads {
                    self.workload.received(now, message, &mut self.posts);
                }
                if whole {
                    self.workload.acknowledged(now, message, &mut self.posts);
                }
            }
            CompletionKind::Received { .. } if !role.posts => {
                let pairs = &mut self.pairs[role.connection as usize];
                let Some(message) = pairs.expected[usize::from(role.pair)].pop_front() else {
                    return;
                };
                let parts = &mut self.parts[message.slot()];
                parts.received -= 1;
                if parts.received == 0 {
                    self.workload.received(now, message, &mut self.posts);
                }
            }
            CompletionKind::Received { .. } => {}
            CompletionKind::Failed { why, .. } => {
                let connection = &self.workload.connections()[role.connection as usize];
                self.failed.push(FailedMessage {
                    at: now,
                    job: connection.job,
                    hosts: (connection.src, connection.dst),
                    why: format!("{why:?}"),
                });
            }
        }
    }

    fn post(&mut self, hosts: &mut impl JobHosts) {
        let mut posts = std::mem::take(&mut self.posts);
        for post in posts.drain(..) {
            self.post_message(hosts, &post);
        }
        self.posts = posts;
    }

    fn post_message(&mut self, hosts: &mut impl JobHosts, post: &Post) {
        let connection = self.workload.connections()[post.connection as usize];
        let pairs = &mut self.pairs[post.connection as usize];
        let (first, parts) = match parts_of(&connection, post.bytes) {
            parts if parts > 1 => (0, parts),
            _ => {
                let pair = pairs.next;
                pairs.next = (pair + 1) % connection.qps;
                (u64::from(pair), 1)
            }
        };
        let slot = post.message.slot();
        if self.parts.len() <= slot {
            self.parts.resize(slot + 1, Parts::default());
        }
        self.parts[slot] = Parts {
            received: parts as u16,
            acknowledged: parts as u16,
        };
        let (verb, host) = match post.verb {
            Verb::Send => (RdmaVerb::Send, connection.src),
            Verb::Write => (RdmaVerb::Write, connection.src),
            Verb::Read => (RdmaVerb::Read, connection.dst),
        };
        for part in 0..parts {
            let pair = (first + part) as usize;
            // What does not divide goes with the first parts.
            let bytes = post.bytes / parts + u64::from(part < post.bytes % parts);
            let request = WorkRequest {
                id: post.message.0,
                verb,
                bytes,
            };
            let qp = self.pairs[post.connection as usize].qps[pair];
            if verb != RdmaVerb::Read {
                self.pairs[post.connection as usize].expected[pair].push_back(post.message);
            }
            let posted = hosts.change_host(host as usize, |host, now| host.post(now, qp, request));
            if let Err(why) = posted {
                self.failed.push(FailedMessage {
                    at: hosts.now(),
                    job: connection.job,
                    hosts: (connection.src, connection.dst),
                    why: why.to_string(),
                });
            }
        }
    }

    /// The least time that a message of a connection takes to its receiver; `None` if no path leads there. See [`ReferenceTimes`].
    pub fn least_time(&self, connection: &Connection, bytes: u64) -> Option<Picos> {
        let transport = self.transports.get(connection.transport)?;
        let verb = match self.workload.job_verb(connection.job) {
            Verb::Send => RdmaVerb::Send,
            Verb::Write => RdmaVerb::Write,
            Verb::Read => RdmaVerb::Read,
        };
        self.reference.least_time(&ReferenceMessage {
            from: connection.src as usize,
            to: connection.dst as usize,
            bytes,
            queue_pairs: parts_of(connection, bytes) as u16,
            verb,
            service: transport.service,
            mtu: transport.mtu,
            lengths: transport.lengths,
            entropy: transport.entropy,
        })
    }
}

/// What of a transport determines the least time of a message.
#[derive(Clone, Copy, Debug)]
struct ReferenceTransport {
    mtu: u32,
    service: Service,
    lengths: PacketLengths,
    entropy: bool,
}

impl ReferenceTransport {
    fn new(transport: &Transport) -> ReferenceTransport {
        ReferenceTransport {
            mtu: transport.qp.mtu.clamp(MTU_MIN, MTU_MAX),
            service: transport.qp.transport,
            lengths: transport.packet_lengths(),
            entropy: transport.entropy.is_some_and(|entropy| entropy.values > 1),
        }
    }
}

/// How many queue pairs of a connection carry a message of so many bytes.
fn parts_of(connection: &Connection, bytes: u64) -> u64 {
    match connection.spread {
        Spread::Split if bytes >= u64::from(connection.qps) => u64::from(connection.qps),
        Spread::Split | Spread::RoundRobin => 1,
    }
}

fn setup(
    link: &LinkTiming,
    (transport, lengths): (&Transport, PacketLengths),
    directory: &dyn Directory,
    path: Option<FabricPath>,
    (at, to): (u32, u32),
    (number, peer): (u32, u32),
    seed: u64,
) -> QueuePairSetup {
    let context = Context {
        line_rate_bps: u64::from(link.speed_mbps) * 1_000_000,
        base_rtt: path.map_or(Picos::from_micros(10), |path| {
            path.round_trip(transport.qp.mtu, lengths)
        }),
        packet_bytes: transport.qp.mtu + transport.qp.header_bytes,
        seed: seed ^ u64::from(number) << 32,
    };
    let config = QpConfig {
        number,
        peer,
        ..transport.qp.clone()
    };
    let congestion = transport.congestion.make(&context);
    QueuePairSetup {
        dst_mac: directory.next_hop_mac(at as usize, to as usize),
        dscp: transport.dscp[0],
        ack_dscp: transport.dscp[1],
        cnp_dscp: transport.dscp[2],
        ecn: transport.ecn,
        udp_source_port: transport.source_port,
        entropy: transport.entropy,
        ..QueuePairSetup::new(config, congestion, directory.address(to as usize))
    }
}
