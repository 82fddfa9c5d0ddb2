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
pub(crate) struct JobFields {
    pub(crate) name: Spanned<String>,
    pub(crate) kind: Spanned<String>,
    pub(crate) transport: Option<Spanned<String>>,
    pub(crate) qps: Option<Spanned<u16>>,
    pub(crate) spread: Option<Spanned<String>>,
    pub(crate) verb: Option<Spanned<String>>,
    pub(crate) start: Option<Spanned<String>>,
    pub(crate) background: Option<bool>,
    pub(crate) hosts: Option<Spanned<OneOrMore>>,
    pub(crate) from: Option<Spanned<OneOrMore>>,
    pub(crate) to: Option<Spanned<OneOrMore>>,
    pub(crate) bytes: Option<Spanned<OneOrMore>>,
    pub(crate) iterations: Option<Spanned<u32>>,
    pub(crate) warmup: Option<Spanned<u32>>,
    pub(crate) gap: Option<Spanned<String>>,
    pub(crate) compute_gap: Option<Spanned<String>>,
    pub(crate) gpus_per_node: Option<Spanned<u32>>,
    pub(crate) slice: Option<Spanned<String>>,
    pub(crate) nvlink: Option<Spanned<String>>,
    pub(crate) rail_aligned: Option<Spanned<bool>>,
    pub(crate) sizes: Option<Spanned<String>>,
    pub(crate) load: Option<Spanned<String>>,
    pub(crate) until: Option<Spanned<String>>,
    pub(crate) flows_max: Option<Spanned<u32>>,
    pub(crate) seed: Option<Spanned<u64>>,
    pub(crate) file: Option<Spanned<String>>,
    pub(crate) format: Option<Spanned<String>>,
    pub(crate) nodes: Option<Spanned<OneOrMore>>,
    pub(crate) flows: Option<Spanned<Vec<Spanned<JobFlowFields>>>>,
}

/// A flow of a job of kind `flows`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobFlowFields {
    pub(crate) from: Spanned<OneOrMore>,
    pub(crate) to: Spanned<OneOrMore>,
    pub(crate) bytes: Spanned<String>,
    pub(crate) start: Option<Spanned<String>>,
    pub(crate) every: Option<Spanned<String>>,
    pub(crate) gap: Option<Spanned<String>>,
    pub(crate) count: Option<Spanned<u32>>,
}

/// An entry of `transports`: the options of queue pairs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TransportFields {
    pub(crate) transport: Option<Spanned<String>>,
    pub(crate) mtu: Option<Spanned<u32>>,
    pub(crate) header_bytes: Option<Spanned<u32>>,
    pub(crate) congestion: Option<Spanned<CongestionFields>>,
    pub(crate) feedback: Option<Spanned<String>>,
    pub(crate) cnp_interval: Option<Spanned<String>>,
    pub(crate) recovery: Option<Spanned<String>>,
    pub(crate) out_of_order: Option<Spanned<String>>,
    pub(crate) reorder_window_packets: Option<Spanned<u32>>,
    pub(crate) ack_every: Option<Spanned<u32>>,
    pub(crate) dscp: Option<Spanned<u8>>,
    pub(crate) ack_dscp: Option<Spanned<u8>>,
    pub(crate) cnp_dscp: Option<Spanned<u8>>,
    pub(crate) class: Option<Spanned<u8>>,
    pub(crate) ack_class: Option<Spanned<u8>>,
    pub(crate) cnp_class: Option<Spanned<u8>>,
    pub(crate) source_port: Option<Spanned<u16>>,
    pub(crate) entropy: Option<Spanned<u16>>,
    pub(crate) entropy_pick: Option<Spanned<String>>,
    pub(crate) ecn: Option<bool>,
    pub(crate) window_bytes: Option<Spanned<String>>,
    pub(crate) window_packets: Option<Spanned<u32>>,
    pub(crate) rate: Option<Spanned<String>>,
    pub(crate) timeout: Option<Spanned<u8>>,
    pub(crate) retry: Option<Spanned<u8>>,
    pub(crate) rnr_retry: Option<Spanned<u8>>,
    pub(crate) rnr_timer: Option<Spanned<u8>>,
    pub(crate) receives: Option<Spanned<u32>>,
    pub(crate) receive_rate: Option<Spanned<u64>>,
    pub(crate) reads: Option<Spanned<u8>>,
    pub(crate) qps: Option<Spanned<u16>>,
    pub(crate) spread: Option<Spanned<String>>,
}

/// A congestion control in a lab file. The value is the name of an algorithm, or a mapping with
/// `name` and parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct CongestionFields {
    pub(crate) name: Option<String>,
    pub(crate) parameters: BTreeMap<String, ParameterValue>,
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
