//! The fields of the steps of a script.

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{ConfigSource, OneOrMore};

/// The fields of all steps. The resolver checks that a step has one action.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepFields {
    pub at: Option<Spanned<String>>,
    pub name: Option<Spanned<String>>,
    pub when: Option<Spanned<String>>,
    pub send: Option<Spanned<SendFields>>,
    pub inject: Option<Spanned<InjectFields>>,
    pub start: Option<Spanned<OneOrMore>>,
    pub stop: Option<Spanned<OneOrMore>>,
    pub block: Option<Spanned<BlockFields>>,
    pub unblock: Option<Spanned<BlockFields>>,
    pub pause: Option<Spanned<PauseFields>>,
    pub link: Option<Spanned<LinkStateFields>>,
    pub fault: Option<Spanned<FaultFields>>,
    pub heal: Option<Spanned<String>>,
    pub configure: Option<Spanned<ConfigureFields>>,
    pub clear: Option<Spanned<OneOrMore>>,
    pub wait: Option<Spanned<WaitFields>>,
    pub expect: Option<Spanned<OneOrMore>>,
}

/// The fields of `send`: frames of a host at a rate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendFields {
    pub name: Option<Spanned<String>>,
    pub from: Spanned<String>,
    pub to: Spanned<String>,
    pub frames: Option<Spanned<u64>>,
    pub size: Option<Spanned<u32>>,
    pub rate: Option<Spanned<String>>,
    pub dscp: Option<Spanned<u8>>,
    pub ecn: Option<Spanned<String>>,
    pub class: Option<Spanned<u8>>,
    pub pcp: Option<Spanned<u8>>,
    pub vlan: Option<Spanned<u16>>,
    pub psn: Option<Spanned<u32>>,
    pub qp: Option<Spanned<u32>>,
    pub ip: Option<Spanned<u8>>,
    pub ttl: Option<Spanned<u8>>,
}

/// The fields of `inject`: frames of a host as bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InjectFields {
    pub from: Spanned<String>,
    pub frame: Spanned<OneOrMore>,
    pub size: Option<Spanned<u32>>,
    pub frames: Option<Spanned<u64>>,
    pub every: Option<Spanned<String>>,
}

/// The fields of `block` and `unblock`: a port or one of its egress queues.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockFields {
    pub port: Spanned<String>,
    pub queue: Option<Spanned<u8>>,
}

/// The fields of `pause`: PFC or 802.3x PAUSE frames of a host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseFields {
    pub from: Spanned<String>,
    pub class: Option<Spanned<OneOrMore>>,
    pub global: Option<bool>,
    pub quanta: Option<Spanned<u32>>,
    pub every: Option<Spanned<String>>,
    #[serde(rename = "for")]
    pub lasting: Option<Spanned<String>>,
}

/// The fields of `link`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkStateFields {
    pub on: Spanned<String>,
    pub up: bool,
}

/// The fields of `fault`: frames that a link loses or damages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultFields {
    pub on: Spanned<String>,
    pub action: Spanned<String>,
    pub every: Option<Spanned<u64>>,
    pub probability: Option<Spanned<String>>,
    pub psn: Option<Spanned<u32>>,
    pub qp: Option<Spanned<u32>>,
    pub count: Option<Spanned<u64>>,
    pub spare_up_to: Option<Spanned<u32>>,
}

/// The fields of `configure`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigureFields {
    pub switch: Spanned<String>,
    pub config: Spanned<ConfigSource>,
}

/// The value of `wait`: a time, or a condition with a maximum time.
#[derive(Clone, Debug)]
pub enum WaitFields {
    For(String),
    Until(WaitUntilFields),
}

/// The fields of `wait` with a condition.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitUntilFields {
    pub until: Spanned<String>,
    pub at_most: Spanned<String>,
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
