//! The field `workload` of a lab file: flows and jobs.

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::values::deserialize_list;
use super::{JobFields, OneOrMore};

/// The field `workload`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadFields {
    /// The time during which open-loop flows send, in model time, above 0. Optional if the workload has jobs
    /// and no flows, and required otherwise.
    pub duration: Option<Spanned<String>>,
    /// The time after `duration` in which frames in flight can arrive, in model time. Default 500 ms.
    pub drain: Option<Spanned<String>>,
    /// The groups of open-loop flows, which send at a constant rate without acknowledgements. May be empty.
    #[serde(default, deserialize_with = "deserialize_list")]
    pub flows: Vec<Spanned<FlowFields>>,
    /// The jobs, which send RDMA messages over queue pairs until they are done. May be empty.
    #[serde(default, deserialize_with = "deserialize_list")]
    pub jobs: Vec<Spanned<JobFields>>,
}

/// An entry of `workload.flows`, a group of open-loop flows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowFields {
    /// The name of the group, which no other group has. The characters are those of
    /// [`LabFile::name`](super::LabFile::name).
    pub name: Spanned<String>,
    /// The senders: one or more model hosts, all different. Each sender is one flow.
    pub from: Spanned<OneOrMore>,
    /// The receiver: a model host that is not a sender of this group.
    pub to: Spanned<String>,
    /// The rate of each sender, with preamble and interframe gap: a share of its link from 0.0001 % to 100 %,
    /// such as `40%`, or bits per second up to 1.6t, such as `250m`. Default 100 %.
    pub rate: Option<Spanned<String>>,
    /// The DSCP of the frames, 0 to 63. Default 26 for lossless flows, else 0.
    pub dscp: Option<Spanned<u8>>,
    /// Whether switches may mark the frames (ECT(0)). Default: the value of `lossless`.
    pub ecn: Option<bool>,
    /// The transmit queue of the NIC, 0 to 7. PFC pauses of the same priority stop this queue. Default:
    /// `dscp` divided by 8, rounded down.
    pub class: Option<Spanned<u8>>,
    /// Whether the run fails if frames are lost, reordered or damaged. The configuration of the switches does
    /// not depend on it. Default false.
    pub lossless: Option<bool>,
    /// The length of a full frame in bytes, without FCS. 58 bytes (IPv4) or 78 bytes (IPv6) are headers and
    /// ICRC. The rest is payload: 40 to 8192 bytes, a multiple of 4. Default 1082 (IPv4) or 1102 (IPv6).
    pub frame: Option<Spanned<u32>>,
    /// The payload of an RDMA message in bytes, 40 to 2^31. Its last frame must carry at least 40 bytes of
    /// payload. Default 2^20, rounded down to full frames where this rule requires it.
    pub message_bytes: Option<Spanned<u32>>,
    /// The IP version of the frames, 4 or 6. Default 4. Computed routes do not support 6.
    pub ip: Option<Spanned<u8>>,
    /// The TTL (IPv4) or hop limit (IPv6) of the frames, 1 to 255. Default 64.
    pub ttl: Option<Spanned<u8>>,
    /// The delay from the start of the workload, or from the `start` step of a script, to the first frame. In
    /// model time, such as `10us`. Default 0.
    pub start: Option<Spanned<String>>,
    /// What must arrive of each flow of the group, such as `frames>=1000` or `bytes>=1M`. The run fails if an
    /// expectation does not hold. Default: no expectation.
    pub expect: Option<Spanned<OneOrMore>>,
}
