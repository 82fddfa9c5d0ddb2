//! The fields of the steps of a script.

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{ConfigSource, OneOrMore};

/// The fields of all steps. The resolver checks that a step has one action.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepFields {
    pub(crate) at: Option<Spanned<String>>,
    pub(crate) name: Option<Spanned<String>>,
    pub(crate) when: Option<Spanned<String>>,
    pub(crate) send: Option<Spanned<SendFields>>,
    pub(crate) inject: Option<Spanned<InjectFields>>,
    pub(crate) start: Option<Spanned<OneOrMore>>,
    pub(crate) stop: Option<Spanned<OneOrMore>>,
    pub(crate) block: Option<Spanned<BlockFields>>,
    pub(crate) unblock: Option<Spanned<BlockFields>>,
    pub(crate) pause: Option<Spanned<PauseFields>>,
    pub(crate) link: Option<Spanned<LinkStateFields>>,
    pub(crate) fault: Option<Spanned<FaultFields>>,
    pub(crate) heal: Option<Spanned<String>>,
    pub(crate) configure: Option<Spanned<ConfigureFields>>,
    pub(crate) clear: Option<Spanned<OneOrMore>>,
    pub(crate) wait: Option<Spanned<WaitFields>>,
    pub(crate) expect: Option<Spanned<OneOrMore>>,
}

/// The fields of `send`: frames of a host at a rate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendFields {
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

/// The fields of `inject`: frames of a host as bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InjectFields {
    pub(crate) from: Spanned<String>,
    pub(crate) frame: Spanned<OneOrMore>,
    pub(crate) size: Option<Spanned<u32>>,
    pub(crate) frames: Option<Spanned<u64>>,
    pub(crate) every: Option<Spanned<String>>,
}

/// The fields of `block` and `unblock`: a port or one of its egress queues.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlockFields {
    pub(crate) port: Spanned<String>,
    pub(crate) queue: Option<Spanned<u8>>,
}

/// The fields of `pause`: PFC or 802.3x PAUSE frames of a host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PauseFields {
    pub(crate) from: Spanned<String>,
    pub(crate) class: Option<Spanned<OneOrMore>>,
    pub(crate) global: Option<bool>,
    pub(crate) quanta: Option<Spanned<u32>>,
    pub(crate) every: Option<Spanned<String>>,
    #[serde(rename = "for")]
    pub(crate) lasting: Option<Spanned<String>>,
}

/// The fields of `link`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkStateFields {
    pub(crate) on: Spanned<String>,
    pub(crate) up: bool,
}

/// The fields of `fault`: frames that a link loses or damages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FaultFields {
    pub(crate) on: Spanned<String>,
    pub(crate) action: Spanned<String>,
    pub(crate) every: Option<Spanned<u64>>,
    pub(crate) probability: Option<Spanned<String>>,
    pub(crate) psn: Option<Spanned<u32>>,
    pub(crate) qp: Option<Spanned<u32>>,
    pub(crate) count: Option<Spanned<u64>>,
    pub(crate) spare_up_to: Option<Spanned<u32>>,
}

/// The fields of `configure`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfigureFields {
    pub(crate) switch: Spanned<String>,
    pub(crate) config: Spanned<ConfigSource>,
}

/// The value of `wait`: a time, or a condition with a maximum time.
#[derive(Clone, Debug)]
pub(crate) enum WaitFields {
    For(String),
    Until(WaitUntilFields),
}

/// The fields of `wait` with a condition.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitUntilFields {
    pub(crate) until: Spanned<String>,
    pub(crate) at_most: Spanned<String>,
}

impl<'de> Deserialize<'de> for WaitFields {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::{self, MapAccess, Visitor, value::MapAccessDeserializer};
        struct WaitVisitor;
        impl<'de> Visitor<'de> for WaitVisitor {
            type Value = WaitFields;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a time such as 1ms, or {until: CONDITION, at_most: TIME}")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(WaitFields::For(text.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                WaitUntilFields::deserialize(MapAccessDeserializer::new(map)).map(WaitFields::Until)
            }
        }
        deserializer.deserialize_any(WaitVisitor)
    }
}
