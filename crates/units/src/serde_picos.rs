//! Model time as data that is written and read: picoseconds, as a whole number.

use crate::Picos;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// For fields with `#[serde(with = "xoff_units::serde_picos")]`.
pub fn serialize<S: Serializer>(time: &Picos, serializer: S) -> Result<S::Ok, S::Error> {
    time.0.serialize(serializer)
}

/// As [`serialize`].
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Picos, D::Error> {
    u64::deserialize(deserializer).map(Picos)
}

/// For fields with `#[serde(with = "xoff_units::serde_picos::option")]`.
pub mod option {
    use super::{Deserialize, Deserializer, Picos, Serialize, Serializer};

    /// As [`super::serialize`].
    pub fn serialize<S: Serializer>(time: &Option<Picos>, serializer: S) -> Result<S::Ok, S::Error> {
        time.map(|time| time.0).serialize(serializer)
    }

    /// As [`super::serialize`].
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Picos>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Picos))
    }
}
