//! The steps of a script, as written.

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{ConfigSource, OneOrMore};

/// A step of any verb: that it has just one is checked where it is resolved.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::lab) struct Step {
    pub(in crate::lab) at: Option<Spanned<String>>,
    pub(in crate::lab) name: Option<Spanned<String>>,
    pub(in crate::lab) when: Option<Spanned<String>>,
    pub(in crate::lab) send: Option<Spanned<Send>>,
    pub(in crate::lab) inject: Option<Spanned<Inject>>,
    pub(in crate::lab) start: Option<Spanned<OneOrMore>>,
    pub(in crate::lab) stop: Option<Spanned<OneOrMore>>,
    pub(in crate::lab) block: Option<Spanned<Block>>,
    pub(in crate::lab) unblock: Option<Spanned<Block>>,
    pub(in crate::lab) pause: Option<Spanned<Pause>>,
    pub(in crate::lab) link: Option<Spanned<LinkState>>,
    pub(in crate::lab) fault: Option<Spanned<Fault>>,
    pub(in crate::lab) heal: Option<Spanned<String>>,
    pub(in crate::lab) configure: Option<Spanned<Configure>>,
    pub(in crate::lab) clear: Option<Spanned<OneOrMore>>,
    pub(in crate::lab) wait: Option<Spanned<Wait>>,
    pub(in crate::lab) expect: Option<Spanned<OneOrMore>>,
}

/// Frames of a host, at a rate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::lab) struct Send {
    pub(in crate::lab) name: Option<Spanned<String>>,
    pub(in crate::lab) from: Spanned<String>,
    pub(in crate::lab) to: Spanned<String>,
    pub(in crate::lab) frames: Option<Spanned<u64>>,
    pub(in crate::lab) size: Option<Spanned<u32>>,
    pub(in crate::lab) rate: Option<Spanned<String>>,
    pub(in crate::lab) dscp: Option<Spanned<u8>>,
    pub(in crate::lab) ecn: Option<Spanned<String>>,
    pub(in crate::lab) class: Option<Spanned<u8>>,
    pub(in crate::lab) pcp: Option<Spanned<u8>>,
    pub(in crate::lab) vlan: Option<Spanned<u16>>,
    pub(in crate::lab) psn: Option<Spanned<u32>>,
    pub(in crate::lab) qp: Option<Spanned<u32>>,
    pub(in crate::lab) ip: Option<Spanned<u8>>,
    pub(in crate::lab) ttl: Option<Spanned<u8>>,
}

/// Frames of a host, as bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::lab) struct Inject {
    pub(in crate::lab) from: Spanned<String>,
    pub(in crate::lab) frame: Spanned<OneOrMore>,
    pub(in crate::lab) size: Option<Spanned<u32>>,
    pub(in crate::lab) frames: Option<Spanned<u64>>,
    pub(in crate::lab) every: Option<Spanned<String>>,
}

/// A port's egress, or one of its queues.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::lab) struct Block {
    pub(in crate::lab) port: Spanned<String>,
    pub(in crate::lab) queue: Option<Spanned<u8>>,
}

/// Pause frames of a host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::lab) struct Pause {
    pub(in crate::lab) from: Spanned<String>,
    pub(in crate::lab) class: Option<Spanned<OneOrMore>>,
    pub(in crate::lab) global: Option<bool>,
    pub(in crate::lab) quanta: Option<Spanned<u32>>,
    pub(in crate::lab) every: Option<Spanned<String>>,
    #[serde(rename = "for")]
    pub(in crate::lab) lasting: Option<Spanned<String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::lab) struct LinkState {
    pub(in crate::lab) on: Spanned<String>,
    pub(in crate::lab) up: bool,
}

/// Frames that a link loses or damages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::lab) struct Fault {
    pub(in crate::lab) on: Spanned<String>,
    pub(in crate::lab) action: Spanned<String>,
    pub(in crate::lab) every: Option<Spanned<u64>>,
    pub(in crate::lab) probability: Option<Spanned<String>>,
    pub(in crate::lab) psn: Option<Spanned<u32>>,
    pub(in crate::lab) qp: Option<Spanned<u32>>,
    pub(in crate::lab) count: Option<Spanned<u64>>,
    pub(in crate::lab) spare_up_to: Option<Spanned<u32>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::lab) struct Configure {
    pub(in crate::lab) switch: Spanned<String>,
    pub(in crate::lab) config: Spanned<ConfigSource>,
}

/// A time, or a condition with a bound.
#[derive(Clone, Debug)]
pub(in crate::lab) enum Wait {
    For(String),
    Until(Until),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::lab) struct Until {
    pub(in crate::lab) until: Spanned<String>,
    pub(in crate::lab) at_most: Spanned<String>,
}

impl<'de> Deserialize<'de> for Wait {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::{self, MapAccess, Visitor, value::MapAccessDeserializer};
        struct Said;
        impl<'de> Visitor<'de> for Said {
            type Value = Wait;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a time such as 1ms, or {until: CONDITION, at_most: TIME}")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Wait::For(text.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Until::deserialize(MapAccessDeserializer::new(map)).map(Wait::Until)
            }
        }
        deserializer.deserialize_any(Said)
    }
}
