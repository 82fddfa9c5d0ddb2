//! Serialised form of [`Picos`]: a whole number of picoseconds.

use crate::Picos;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes a time as a whole number of picoseconds. Fields use it with `#[serde(with =
/// "xoff_units::serde_picos")]`.
pub fn serialize<S: Serializer>(time: &Picos, serializer: S) -> Result<S::Ok, S::Error> {
    time.0.serialize(serializer)
}

/// Reads a whole number of picoseconds. Returns an error for any other value.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Picos, D::Error> {
    u64::deserialize(deserializer).map(Picos)
}

/// Serialised form of `Option<Picos>`. Fields use this module with
/// `#[serde(with = "xoff_units::serde_picos::option")]`.
pub mod option {
    use super::{Deserialize, Deserializer, Picos, Serialize, Serializer};

    /// Writes an optional time as a whole number of picoseconds or as null.
    pub fn serialize<S: Serializer>(time: &Option<Picos>, serializer: S) -> Result<S::Ok, S::Error> {
        time.map(|time| time.0).serialize(serializer)
    }

    /// Reads a whole number of picoseconds, or null as `None`. Returns an error for any other value.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Picos>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Picos))
    }
}
