//! Jobs of a workload and the options of their connections, as written.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_saphyr::Spanned;

use super::OneOrMore;
use xoff_rdma::congestion::ParameterValue;

/// The fields of a job. This type has the fields of all kinds of jobs. The resolver reports a field that the
/// kind of the job does not have.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobFields {
    /// The name of the job, which no other job has. The characters are those
    /// of [`LabFile::name`](crate::LabFile::name).
    pub name: Spanned<String>,
    /// The kind: `flows`, `permutation`, `incast`, `ring-allreduce`, `tree-allreduce`, `allgather`,
    /// `reduce-scatter`, `alltoall`, `poisson` or `replay`.
    pub kind: Spanned<String>,
    /// The name of the transport in [`LabFile::transports`](crate::LabFile::transports). Default: `default`.
    pub transport: Option<Spanned<String>>,
    /// The number of queue pairs of each connection, 1 to 4096. Default: the number of the transport.
    pub qps: Option<Spanned<u16>>,
    /// How the queue pairs of a connection share messages: `round-robin` (in turn) or `split` (each message
    /// is divided). Default: the value of the transport.
    pub spread: Option<Spanned<String>>,
    /// The RDMA operation of the messages: `write`, `send` or `read`. Default `write`.
    pub verb: Option<Spanned<String>>,
    /// The delay from the start of the workload, or from the `start` step of a script, to the start of the
    /// job. In model time, such as `10us`. Default 0.
    pub start: Option<Spanned<String>>,
    /// Whether the job stops posting messages when all jobs that are not background jobs are done.
    /// Default false.
    pub background: Option<bool>,
    /// The hosts as patterns, such as `all`, `h1..h8` or `!h3`, each host once. Required for permutations and
    /// for collectives (in the order of ranks), at least two hosts. A Poisson job has either `hosts`, or
    /// `from` and `to`.
    pub hosts: Option<Spanned<OneOrMore>>,
    /// The senders as patterns. Required for incasts. A Poisson job has either `from` and `to`, or `hosts`.
    pub from: Option<Spanned<OneOrMore>>,
    /// The receivers as patterns. Required for incasts: exactly one host, which is not a sender. A Poisson
    /// job has either `from` and `to`, or `hosts`.
    pub to: Option<Spanned<OneOrMore>>,
    /// The payload of each message of a permutation or an incast, one size such as `64K`. For collectives:
    /// one or more sizes with the meaning of nccl-tests. Required for these kinds.
    pub bytes: Option<Spanned<OneOrMore>>,
    /// The number of measured iterations of a permutation, an incast or each size of a collective, 1 to 2^20.
    /// Default 1.
    pub iterations: Option<Spanned<u32>>,
    /// The number of iterations before the measured iterations of each size of a collective, 0 to 2^20. Their
    /// times are not recorded. Default 0.
    pub warmup: Option<Spanned<u32>>,
    /// The time from the end of an iteration of a permutation or an incast to the next iteration. In model
    /// time, such as `10us`. Default 0.
    pub gap: Option<Spanned<String>>,
    /// The time before each iteration of a collective, including the first iteration. In model time, such as
    /// `10us`. Default 0.
    pub compute_gap: Option<Spanned<String>>,
    /// The number of GPUs in each node (server) of a collective, 1 to 65 536. The number of hosts must be a
    /// multiple of it, and there must be at least two nodes. Default 1.
    pub gpus_per_node: Option<Spanned<u32>>,
    /// The largest slice of a chunk in bytes, at least 1, such as `512K`. A rank forwards a slice as soon as
    /// the slice has arrived. For all collectives except `alltoall`. With `None`, ranks forward whole chunks.
    pub slice: Option<Spanned<String>>,
    /// The rate at which each GPU of a collective sends over NVLink, 1k to 10t (bits per second). With
    /// `None`, transfers inside a node take no time.
    pub nvlink: Option<Spanned<String>>,
    /// Whether an `alltoall` moves data inside the node first, to the GPU with the number of the destination
    /// GPU. Messages between nodes then stay on one rail (the GPUs with the same number). Default false.
    pub rail_aligned: Option<Spanned<bool>>,
    /// The payload of the flows of a Poisson job: a constant size such as `64K`, or the path of a file with a
    /// distribution, relative to the lab file. Required for this kind.
    pub sizes: Option<Spanned<String>>,
    /// The offered load of a Poisson job: the mean payload rate of a source in percent of its line rate, such
    /// as `40%`. Above 0 %, at most 10000 %. Required for this kind.
    pub load: Option<Spanned<String>>,
    /// The latest start of a flow of a Poisson job, counted from the start of the job, in model time. `None`
    /// means no limit. At least one of `until` and `flows_max` is required.
    pub until: Option<Spanned<String>>,
    /// The largest number of flows of a Poisson job, 1 to 2^24. `None` means no limit except 2^24. At least
    /// one of `until` and `flows_max` is required.
    pub flows_max: Option<Spanned<u32>>,
    /// A number that a Poisson job combines with the seed of the run for its random numbers. Default 0.
    pub seed: Option<Spanned<u64>>,
    /// The path of the flow list of a `replay`, relative to the lab file. Required for this kind.
    pub file: Option<Spanned<String>>,
    /// The format of the flow list of a `replay`: `csv` or `ns3`. Default `csv`.
    pub format: Option<Spanned<String>>,
    /// The hosts as patterns, in the order of their node numbers from 0. Only for a `replay` with
    /// `format: ns3`. With `None`, the digits at the end of a node name are its number.
    pub nodes: Option<Spanned<OneOrMore>>,
    /// The flows of a job of kind `flows`, at least one. Required for this kind.
    pub flows: Option<Spanned<Vec<Spanned<JobFlowFields>>>>,
}

/// A flow of a job of kind `flows`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobFlowFields {
    /// The senders as patterns. Each sender sends to each receiver, but not to itself.
    pub from: Spanned<OneOrMore>,
    /// The receivers as patterns. At least one pair of different hosts is required.
    pub to: Spanned<OneOrMore>,
    /// The payload of each message, such as `64K`. A message of 0 bytes is one packet without payload.
    pub bytes: Spanned<String>,
    /// The delay from the start of the job to the first message, in model time, such as `10us`. Default 0.
    pub start: Option<Spanned<String>>,
    /// The time between the starts of two messages, above 0, in model time (open loop). Not together with
    /// `gap`. With `None`, the flow waits for the end of each message (closed loop).
    pub every: Option<Spanned<String>>,
    /// The time from the end of a message (received and acknowledged) to the start of the next message, in
    /// model time. Not together with `every`. Default 0.
    pub gap: Option<Spanned<String>>,
    /// The number of messages from each sender to each receiver, 1 to 2^24. Default 1.
    pub count: Option<Spanned<u32>>,
}

/// An entry of `transports`: the options of queue pairs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransportFields {
    /// The transport service: `rc` (reliable connection), `uc` (unreliable connection) or `ud` (unreliable
    /// datagram). Default `rc`.
    pub transport: Option<Spanned<String>>,
    /// The payload of a full packet in bytes, 64 to 8192. Default 1024.
    pub mtu: Option<Spanned<u32>>,
    /// The length of a packet without its payload in bytes, FCS included, 0 to 65 536. Pacing and rooflines
    /// use it. Telemetry is added. Default 62.
    pub header_bytes: Option<Spanned<u32>>,
    /// The congestion control. `None` means no congestion control.
    pub congestion: Option<Spanned<CongestionFields>>,
    /// How receivers report CE marks: `none`, `cnp`, or `ack-echo` (in the acknowledgement). Default: the
    /// value that belongs to the congestion control.
    pub feedback: Option<Spanned<String>>,
    /// The shortest time between two CNPs of a queue pair, in model time. With 0, each mark causes a CNP. An
    /// error without CNP feedback. Default: the value of the congestion control, or else 4 us.
    pub cnp_interval: Option<Spanned<String>>,
    /// The loss recovery: `go-back-n`, `go-back-zero` or `selective-repeat`. Default `go-back-n`.
    pub recovery: Option<Spanned<String>>,
    /// The time for which a receiver waits for missing packets before it reports the gap, in model time, such
    /// as `100us`. `true` means 100 us. With `false`, receivers report each gap at once. Not used with
    /// `go-back-zero`. Default `false`.
    pub out_of_order: Option<Spanned<String>>,
    /// The number of packets that a receiver keeps after a gap, 1 to 65 536. Default 1024.
    pub reorder_window_packets: Option<Spanned<u32>>,
    /// The number of packets for one acknowledgement, 1 to 65 536. The last packet of a message and the
    /// packet that fills a window also request one. Default 1.
    pub ack_every: Option<Spanned<u32>>,
    /// The DSCP of data packets, 0 to 63. Default 26.
    pub dscp: Option<Spanned<u8>>,
    /// The DSCP of acknowledgements, 0 to 63. Default: the DSCP of data packets.
    pub ack_dscp: Option<Spanned<u8>>,
    /// The DSCP of CNPs, 0 to 63. Default 48.
    pub cnp_dscp: Option<Spanned<u8>>,
    /// The transmit queue of the NIC for data packets, 0 to 7. Default: `dscp` divided by 8, rounded down.
    pub class: Option<Spanned<u8>>,
    /// The transmit queue of the NIC for acknowledgements, 0 to 7. Default: `ack_dscp` divided by 8, rounded
    /// down. Without `ack_dscp`, the default is the class of data packets.
    pub ack_class: Option<Spanned<u8>>,
    /// The transmit queue of the NIC for CNPs, 0 to 7. Default: `cnp_dscp` divided by 8, rounded down.
    pub cnp_class: Option<Spanned<u8>>,
    /// The UDP source port of all queue pairs, 0 to 65 535. With `None`, the port of each queue pair is
    /// computed from its queue pair numbers.
    pub source_port: Option<Spanned<u16>>,
    /// The number of UDP source ports of the data packets of each queue pair, 1 to 16 384. Switches that hash
    /// the ports then spread the packets over all paths. `None` means one port.
    pub entropy: Option<Spanned<u16>>,
    /// How a packet selects its source port: `round-robin` or `random`. An error without `entropy`.
    /// Default `round-robin`.
    pub entropy_pick: Option<Spanned<String>>,
    /// Whether switches may mark data packets (ECT(0)). Default true.
    pub ecn: Option<bool>,
    /// The limit of unacknowledged payload bytes, such as `64K`, in addition to the window of the congestion
    /// control. 0 has the effect of 1. Only `rc` has this limit, and READ responses do not have it. `None`
    /// means no limit.
    pub window_bytes: Option<Spanned<String>>,
    /// The limit of unacknowledged packets, 1 to 2^23, in addition to the window of the congestion control.
    /// Only `rc` has this limit, and READ responses do not have it. `None` means no limit.
    pub window_packets: Option<Spanned<u32>>,
    /// The highest rate of a queue pair with headers, 1k to 10t (bits per second), in addition to the rate of
    /// the congestion control. `None` means no limit.
    pub rate: Option<Spanned<String>>,
    /// The code of the local ACK timeout, 0 to 31: the timeout is 4.096 us times 2^code. The code 0 means no
    /// timeout. Default 14.
    pub timeout: Option<Spanned<u8>>,
    /// The number of retries after losses without progress, 0 to 255. The queue pair fails when no retry is
    /// left. Default 7.
    pub retry: Option<Spanned<u8>>,
    /// The number of retries after RNR NAKs (receiver not ready) without progress, 0 to 7. The value 7 means
    /// no limit. The queue pair fails when no retry is left. Default 7.
    pub rnr_retry: Option<Spanned<u8>>,
    /// The code of the wait that a receiver requests in RNR NAKs, 0 to 31 (IBTA table 45). Default 12, which
    /// is 640 us.
    pub rnr_timer: Option<Spanned<u8>>,
    /// The number of receive entries of each queue pair, 1 to 32 768. Each SEND takes one. A SEND that finds
    /// no entry gets an RNR NAK. `None` means an unlimited number.
    pub receives: Option<Spanned<u32>>,
    /// The number of used receive entries that the receiver posts again in a second of model time, 1 to 10^9.
    /// An error without `receives`. Default 1000.
    pub receive_rate: Option<Spanned<u64>>,
    /// The largest number of outstanding READs of a queue pair, 1 to 255. Default 16.
    pub reads: Option<Spanned<u8>>,
    /// The number of queue pairs of each connection, 1 to 4096, for jobs without `qps`. Default 1.
    pub qps: Option<Spanned<u16>>,
    /// How the queue pairs of a connection share messages, for jobs without `spread`: `round-robin` (in turn)
    /// or `split` (each message is divided). Default `round-robin`.
    pub spread: Option<Spanned<String>>,
}

/// A congestion control in a lab file. The value is the name of an algorithm, or a mapping with
/// `name` and parameters.
#[derive(Clone, Debug, Default)]
pub struct CongestionFields {
    /// The name of the algorithm, such as `dcqcn`. `None` is an error: the mapping has no `name`, or `name`
    /// is not a text.
    pub name: Option<String>,
    /// The parameters by name, and `preset` for a named set of parameters. The algorithm defines names and
    /// ranges. A missing parameter has the value of the preset.
    pub parameters: BTreeMap<String, ParameterValue>,
}

impl<'de> Deserialize<'de> for CongestionFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CongestionVisitor;
        impl<'de> Visitor<'de> for CongestionVisitor {
            type Value = CongestionFields;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a congestion control, or {name: NAME, PARAMETER: VALUE, ...}")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
                Ok(CongestionFields {
                    name: Some(name.to_owned()),
                    parameters: BTreeMap::new(),
                })
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = CongestionFields::default();
                while let Some((key, value)) = map.next_entry::<String, ParameterValue>()? {
                    match (key.as_str(), value) {
                        ("name", ParameterValue::Text(name)) => fields.name = Some(name),
                        (_, value) => drop(fields.parameters.insert(key, value)),
                    }
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_any(CongestionVisitor)
    }
}
