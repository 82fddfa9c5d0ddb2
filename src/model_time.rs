//! Model time as data that is written and read: picoseconds, as a whole number.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use xoff_dataplane::Picos;

/// For fields with `#[serde(with = "crate::model_time")]`.
pub(crate) fn serialize<S: Serializer>(time: &Picos, serializer: S) -> Result<S::Ok, S::Error> {
    time.0.serialize(serializer)
}

/// As [`serialize`].
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Picos, D::Error> {
    u64::deserialize(deserializer).map(Picos)
}

/// For fields with `#[serde(with = "crate::model_time::option")]`.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, Picos, Serialize, Serializer};

    /// As [`super::serialize`].
    pub(crate) fn serialize<S: Serializer>(time: &Option<Picos>, serializer: S) -> Result<S::Ok, S::Error> {
        time.map(|time| time.0).serialize(serializer)
    }

    /// As [`super::serialize`].
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Picos>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Picos))
    }
}
