//! The fields of a NIC that have fields of their own: DCBX and ETS.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use serde_saphyr::Spanned;

/// The field `dcbx` of a NIC.
#[derive(Clone, Debug)]
pub enum DcbxFields {
    /// `off`, `willing` or `not-willing`. A host that is willing accepts PFC and ETS.
    Mode(String),
    /// Settings with the names of the table `XOFF_DCBX`.
    Settings(DcbxSettings),
}

/// The settings of DCBX, with the names of the table `XOFF_DCBX` of a switch.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DcbxSettings {
    /// Whether the host uses the PFC configuration of its switch port. Default false.
    pub pfc_willing: Option<bool>,
    /// The number of priorities that can have PFC at the same time, 0 to 8. Default 8.
    pub pfc_capability: Option<Spanned<u8>>,
    /// Whether the host uses the ETS recommendation of its switch port. Default false.
    pub ets_willing: Option<bool>,
    /// The number of traffic classes that the host supports, 1 to 8. Default 8.
    pub ets_capability: Option<Spanned<u8>>,
    /// Whether the host recommends its own ETS configuration to its switch port. Default: true with
    /// [`NicFields::ets`](super::NicFields::ets), false without.
    pub ets_recommendation: Option<bool>,
}

/// The field `ets` of a NIC.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtsFields {
    /// The traffic class of each of the eight priorities, 0 to 7. Default: each priority has the class of its number.
    pub classes: Option<Spanned<Vec<Spanned<u8>>>>,
    /// For each traffic class, from 0 to the highest class of `classes`: its share of the link in percent, or
    /// `strict` for strict priority. The shares have the sum 100.
    pub shares: Spanned<Vec<Spanned<String>>>,
}

impl<'de> Deserialize<'de> for DcbxFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DcbxVisitor;
        impl<'de> Visitor<'de> for DcbxVisitor {
            type Value = DcbxFields;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("off, willing or not-willing, or a mapping such as {pfc_willing: true, ets_willing: true}")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(DcbxFields::Mode(text.to_owned()))
            }
            /// YAML reads `off` as false.
            fn visit_bool<E: de::Error>(self, is_on: bool) -> Result<Self::Value, E> {
                Ok(DcbxFields::Mode(if is_on { "on" } else { "off" }.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                DcbxSettings::deserialize(MapAccessDeserializer::new(map)).map(DcbxFields::Settings)
            }
        }
        deserializer.deserialize_any(DcbxVisitor)
    }
}
