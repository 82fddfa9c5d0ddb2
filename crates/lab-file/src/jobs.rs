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
    pub name: Spanned<String>,
    pub kind: Spanned<String>,
    pub transport: Option<Spanned<String>>,
    pub qps: Option<Spanned<u16>>,
    pub spread: Option<Spanned<String>>,
    pub verb: Option<Spanned<String>>,
    pub start: Option<Spanned<String>>,
    pub background: Option<bool>,
    pub hosts: Option<Spanned<OneOrMore>>,
    pub from: Option<Spanned<OneOrMore>>,
    pub to: Option<Spanned<OneOrMore>>,
    pub bytes: Option<Spanned<OneOrMore>>,
    pub iterations: Option<Spanned<u32>>,
    pub warmup: Option<Spanned<u32>>,
    pub gap: Option<Spanned<String>>,
    pub compute_gap: Option<Spanned<String>>,
    pub gpus_per_node: Option<Spanned<u32>>,
    pub slice: Option<Spanned<String>>,
    pub nvlink: Option<Spanned<String>>,
    pub rail_aligned: Option<Spanned<bool>>,
    pub sizes: Option<Spanned<String>>,
    pub load: Option<Spanned<String>>,
    pub until: Option<Spanned<String>>,
    pub flows_max: Option<Spanned<u32>>,
    pub seed: Option<Spanned<u64>>,
    pub file: Option<Spanned<String>>,
    pub format: Option<Spanned<String>>,
    pub nodes: Option<Spanned<OneOrMore>>,
    pub flows: Option<Spanned<Vec<Spanned<JobFlowFields>>>>,
}

/// A flow of a job of kind `flows`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobFlowFields {
    pub from: Spanned<OneOrMore>,
    pub to: Spanned<OneOrMore>,
    pub bytes: Spanned<String>,
    pub start: Option<Spanned<String>>,
    pub every: Option<Spanned<String>>,
    pub gap: Option<Spanned<String>>,
    pub count: Option<Spanned<u32>>,
}

/// An entry of `transports`: the options of queue pairs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransportFields {
    pub transport: Option<Spanned<String>>,
    pub mtu: Option<Spanned<u32>>,
    pub header_bytes: Option<Spanned<u32>>,
    pub congestion: Option<Spanned<CongestionFields>>,
    pub feedback: Option<Spanned<String>>,
    pub cnp_interval: Option<Spanned<String>>,
    pub recovery: Option<Spanned<String>>,
    pub out_of_order: Option<Spanned<String>>,
    pub reorder_window_packets: Option<Spanned<u32>>,
    pub ack_every: Option<Spanned<u32>>,
    pub dscp: Option<Spanned<u8>>,
    pub ack_dscp: Option<Spanned<u8>>,
    pub cnp_dscp: Option<Spanned<u8>>,
    pub class: Option<Spanned<u8>>,
    pub ack_class: Option<Spanned<u8>>,
    pub cnp_class: Option<Spanned<u8>>,
    pub source_port: Option<Spanned<u16>>,
    pub entropy: Option<Spanned<u16>>,
    pub entropy_pick: Option<Spanned<String>>,
    pub ecn: Option<bool>,
    pub window_bytes: Option<Spanned<String>>,
    pub window_packets: Option<Spanned<u32>>,
    pub rate: Option<Spanned<String>>,
    pub timeout: Option<Spanned<u8>>,
    pub retry: Option<Spanned<u8>>,
    pub rnr_retry: Option<Spanned<u8>>,
    pub rnr_timer: Option<Spanned<u8>>,
    pub receives: Option<Spanned<u32>>,
    pub receive_rate: Option<Spanned<u64>>,
    pub reads: Option<Spanned<u8>>,
    pub qps: Option<Spanned<u16>>,
    pub spread: Option<Spanned<String>>,
}

/// A congestion control in a lab file. The value is the name of an algorithm, or a mapping with
/// `name` and parameters.
#[derive(Clone, Debug, Default)]
pub struct CongestionFields {
    pub name: Option<String>,
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
