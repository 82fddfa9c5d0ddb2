//! Jobs of a workload and the options of their connections, as written.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_saphyr::Spanned;

use super::OneOrMore;
use crate::rdma::congestion::Value;

/// A job of any kind: which fields a kind has is checked where it is resolved.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::lab) struct Job {
    pub(in crate::lab) name: Spanned<String>,
    pub(in crate::lab) kind: Spanned<String>,
    pub(in crate::lab) transport: Option<Spanned<String>>,
    pub(in crate::lab) qps: Option<Spanned<u16>>,
    pub(in crate::lab) spread: Option<Spanned<String>>,
    pub(in crate::lab) verb: Option<Spanned<String>>,
    pub(in crate::lab) start: Option<Spanned<String>>,
    pub(in crate::lab) background: Option<bool>,
    pub(in crate::lab) hosts: Option<Spanned<OneOrMore>>,
    pub(in crate::lab) from: Option<Spanned<OneOrMore>>,
    pub(in crate::lab) to: Option<Spanned<OneOrMore>>,
    pub(in crate::lab) bytes: Option<Spanned<OneOrMore>>,
    pub(in crate::lab) iterations: Option<Spanned<u32>>,
    pub(in crate::lab) warmup: Option<Spanned<u32>>,
    pub(in crate::lab) gap: Option<Spanned<String>>,
    pub(in crate::lab) compute_gap: Option<Spanned<String>>,
    pub(in crate::lab) gpus_per_node: Option<Spanned<u32>>,
    pub(in crate::lab) slice: Option<Spanned<String>>,
    pub(in crate::lab) nvlink: Option<Spanned<String>>,
    pub(in crate::lab) rail_aligned: Option<Spanned<bool>>,
    pub(in crate::lab) sizes: Option<Spanned<String>>,
    pub(in crate::lab) load: Option<Spanned<String>>,
    pub(in crate::lab) until: Option<Spanned<String>>,
    pub(in crate::lab) flows_max: Option<Spanned<u32>>,
    pub(in crate::lab) seed: Option<Spanned<u64>>,
    pub(in crate::lab) file: Option<Spanned<String>>,
    pub(in crate::lab) format: Option<Spanned<String>>,
    pub(in crate::lab) nodes: Option<Spanned<OneOrMore>>,
    pub(in crate::lab) flows: Option<Spanned<Vec<Spanned<JobFlow>>>>,
}

/// A flow of a job of kind `flows`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::lab) struct JobFlow {
    pub(in crate::lab) from: Spanned<OneOrMore>,
    pub(in crate::lab) to: Spanned<OneOrMore>,
    pub(in crate::lab) bytes: Spanned<String>,
    pub(in crate::lab) start: Option<Spanned<String>>,
    pub(in crate::lab) every: Option<Spanned<String>>,
    pub(in crate::lab) gap: Option<Spanned<String>>,
    pub(in crate::lab) count: Option<Spanned<u32>>,
}

/// How connections are set up.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::lab) struct Transport {
    pub(in crate::lab) transport: Option<Spanned<String>>,
    pub(in crate::lab) mtu: Option<Spanned<u32>>,
    pub(in crate::lab) header_bytes: Option<Spanned<u32>>,
    pub(in crate::lab) congestion: Option<Spanned<Congestion>>,
    pub(in crate::lab) feedback: Option<Spanned<String>>,
    pub(in crate::lab) cnp_interval: Option<Spanned<String>>,
    pub(in crate::lab) recovery: Option<Spanned<String>>,
    pub(in crate::lab) out_of_order: Option<Spanned<String>>,
    pub(in crate::lab) reorder_window_packets: Option<Spanned<u32>>,
    pub(in crate::lab) ack_every: Option<Spanned<u32>>,
    pub(in crate::lab) dscp: Option<Spanned<u8>>,
    pub(in crate::lab) ack_dscp: Option<Spanned<u8>>,
    pub(in crate::lab) cnp_dscp: Option<Spanned<u8>>,
    pub(in crate::lab) class: Option<Spanned<u8>>,
    pub(in crate::lab) ack_class: Option<Spanned<u8>>,
    pub(in crate::lab) cnp_class: Option<Spanned<u8>>,
    pub(in crate::lab) source_port: Option<Spanned<u16>>,
    pub(in crate::lab) entropy: Option<Spanned<u16>>,
    pub(in crate::lab) entropy_pick: Option<Spanned<String>>,
    pub(in crate::lab) ecn: Option<bool>,
    pub(in crate::lab) window_bytes: Option<Spanned<String>>,
    pub(in crate::lab) window_packets: Option<Spanned<u32>>,
    pub(in crate::lab) rate: Option<Spanned<String>>,
    pub(in crate::lab) timeout: Option<Spanned<u8>>,
    pub(in crate::lab) retry: Option<Spanned<u8>>,
    pub(in crate::lab) rnr_retry: Option<Spanned<u8>>,
    pub(in crate::lab) rnr_timer: Option<Spanned<u8>>,
    pub(in crate::lab) receives: Option<Spanned<u32>>,
    pub(in crate::lab) receive_rate: Option<Spanned<u64>>,
    pub(in crate::lab) reads: Option<Spanned<u8>>,
    pub(in crate::lab) qps: Option<Spanned<u16>>,
    pub(in crate::lab) spread: Option<Spanned<String>>,
}

/// The name of an algorithm, or a mapping with `name` and parameters.
#[derive(Clone, Debug, Default)]
pub(in crate::lab) struct Congestion {
    pub(in crate::lab) name: Option<String>,
    pub(in crate::lab) parameters: BTreeMap<String, Value>,
}

impl<'de> Deserialize<'de> for Congestion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Said;
        impl<'de> Visitor<'de> for Said {
            type Value = Congestion;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a congestion control, or {name: NAME, PARAMETER: VALUE, ...}")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
                Ok(Congestion {
                    name: Some(name.to_owned()),
                    parameters: BTreeMap::new(),
                })
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut said = Congestion::default();
                while let Some((key, value)) = map.next_entry::<String, Value>()? {
                    match (key.as_str(), value) {
                        ("name", Value::Text(name)) => said.name = Some(name),
                        (_, value) => drop(said.parameters.insert(key, value)),
                    }
                }
                Ok(said)
            }
        }
        deserializer.deserialize_any(Said)
    }
}
