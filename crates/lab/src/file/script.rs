//! The steps of a script, as written.

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{ConfigSource, OneOrMore};

/// A step of any verb: that it has just one is checked where it is resolved.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) at: Option<Spanned<String>>,
    pub(crate) name: Option<Spanned<String>>,
    pub(crate) when: Option<Spanned<String>>,
    pub(crate) send: Option<Spanned<Send>>,
    pub(crate) inject: Option<Spanned<Inject>>,
    pub(crate) start: Option<Spanned<OneOrMore>>,
    pub(crate) stop: Option<Spanned<OneOrMore>>,
    pub(crate) block: Option<Spanned<Block>>,
    pub(crate) unblock: Option<Spanned<Block>>,
    pub(crate) pause: Option<Spanned<Pause>>,
    pub(crate) link: Option<Spanned<LinkState>>,
    pub(crate) fault: Option<Spanned<Fault>>,
    pub(crate) heal: Option<Spanned<String>>,
    pub(crate) configure: Option<Spanned<Configure>>,
    pub(crate) clear: Option<Spanned<OneOrMore>>,
    pub(crate) wait: Option<Spanned<Wait>>,
    pub(crate) expect: Option<Spanned<OneOrMore>>,
}

/// Frames of a host, at a rate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Send {
    pub(crate) name: Option<Spanned<String>>,
    pub(crate) from: Spanned<String>,
    pub(crate) to: Spanned<String>,
    pub(crate) frames: Option<Spanned<u64>>,
    pub(crate) size: Option<Spanned<u32>>,
    pub(crate) rate: Option<Spanned<String>>,
    pub(crate) dscp: Option<Spanned<u8>>,
    pub(crate) ecn: Option<Spanned<String>>,
    pub(crate) class: Option<Spanned<u8>>,
    pub(crate) pcp: Option<Spanned<u8>>,
    pub(crate) vlan: Option<Spanned<u16>>,
    pub(crate) psn: Option<Spanned<u32>>,
    pub(crate) qp: Option<Spanned<u32>>,
    pub(crate) ip: Option<Spanned<u8>>,
    pub(crate) ttl: Option<Spanned<u8>>,
}

/// Frames of a host, as bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Inject {
    pub(crate) from: Spanned<String>,
    pub(crate) frame: Spanned<OneOrMore>,
    pub(crate) size: Option<Spanned<u32>>,
    pub(crate) frames: Option<Spanned<u64>>,
    pub(crate) every: Option<Spanned<String>>,
}

/// A port's egress, or one of its queues.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Block {
    pub(crate) port: Spanned<String>,
    pub(crate) queue: Option<Spanned<u8>>,
}

/// Pause frames of a host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pause {
    pub(crate) from: Spanned<String>,
    pub(crate) class: Option<Spanned<OneOrMore>>,
    pub(crate) global: Option<bool>,
    pub(crate) quanta: Option<Spanned<u32>>,
    pub(crate) every: Option<Spanned<String>>,
    #[serde(rename = "for")]
    pub(crate) lasting: Option<Spanned<String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkState {
    pub(crate) on: Spanned<String>,
    pub(crate) up: bool,
}

/// Frames that a link loses or damages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fault {
    pub(crate) on: Spanned<String>,
    pub(crate) action: Spanned<String>,
    pub(crate) every: Option<Spanned<u64>>,
    pub(crate) probability: Option<Spanned<String>>,
    pub(crate) psn: Option<Spanned<u32>>,
    pub(crate) qp: Option<Spanned<u32>>,
    pub(crate) count: Option<Spanned<u64>>,
    pub(crate) spare_up_to: Option<Spanned<u32>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Configure {
    pub(crate) switch: Spanned<String>,
    pub(crate) config: Spanned<ConfigSource>,
}

/// A time, or a condition with a bound.
#[derive(Clone, Debug)]
pub(crate) enum Wait {
    For(String),
    Until(Until),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Until {
    pub(crate) until: Spanned<String>,
    pub(crate) at_most: Spanned<String>,
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
