//! Parameters by name: their ranges, named sets of them, and what a user changes.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Context;

/// Why parameters were refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParameterError {
    /// There is no such algorithm.
    #[error("no congestion control is called {name:?}; there are {known}")]
    UnknownAlgorithm {
        /// As it was written.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The algorithm has no such parameter.
    #[error("{algorithm} has no parameter {name:?}; it has {known}")]
    UnknownField {
        /// Which algorithm.
        algorithm: &'static str,
        /// As it was written.
        name: String,
        /// The names there are, with their ranges.
        known: String,
    },
    /// The algorithm has no such set of parameters.
    #[error("{algorithm} has no preset {name:?}; it has {known}")]
    UnknownPreset {
        /// Which algorithm.
        algorithm: &'static str,
        /// As it was written.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A number beyond its range.
    #[error("{field} = {value} is out of range, which is {min} to {max}")]
    OutOfRange {
        /// Which parameter.
        field: &'static str,
        /// The value.
        value: f64,
        /// Smallest one allowed.
        min: f64,
        /// Largest one allowed.
        max: f64,
    },
    /// Something else than what the parameter takes.
    #[error("{field} = {value} is not {expected}")]
    WrongKind {
        /// Which parameter.
        field: &'static str,
        /// The value, as text.
        value: String,
        /// What it takes.
        expected: &'static str,
    },
    /// Two parameters contradict each other.
    #[error("{field} = {value} must be below {other} = {bound}")]
    NotBelow {
        /// Which parameter.
        field: &'static str,
        /// Its value.
        value: f64,
        /// The other one.
        other: &'static str,
        /// Its value.
        bound: f64,
    },
}

/// A value as a lab file has it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// `true` or `false`.
    Flag(bool),
    /// Any number.
    Number(f64),
    /// A word: the name of a preset, or `none` where a parameter may be absent.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Flag(flag) => write!(f, "{flag}"),
            Value::Number(number) => write!(f, "{number}"),
            Value::Text(text) => write!(f, "{text:?}"),
        }
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Number(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Flag(flag)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

/// Where a parameter lies in its struct, and of what kind it is.
#[derive(Debug)]
pub enum Slot<'a> {
    /// A real number.
    Real(&'a mut f64),
    /// A whole number.
    Whole(&'a mut u64),
    /// A whole number, or `none`.
    Optional(&'a mut Option<u64>),
    /// Yes or no.
    Flag(&'a mut bool),
}

/// One parameter: its name, as in the struct and in lab files, and its range.
#[derive(Debug)]
pub struct Field<P: 'static> {
    name: &'static str,
    min: f64,
    max: f64,
    slot: fn(&mut P) -> Slot<'_>,
}

impl<P> Field<P> {
    pub(super) const fn new(
        name: &'static str,
        min: f64,
        max: f64,
        slot: fn(&mut P) -> Slot<'_>,
    ) -> Field<P> {
        Field { name, min, max, slot }
    }

    /// A flag has no range.
    pub(super) const fn flag(name: &'static str, slot: fn(&mut P) -> Slot<'_>) -> Field<P> {
        Field::new(name, 0.0, 1.0, slot)
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Smallest and largest value allowed; 0 and 1 for a flag.
    pub fn range(&self) -> (f64, f64) {
        (self.min, self.max)
    }

    fn in_range(&self, value: f64) -> Result<f64, ParameterError> {
        if value >= self.min && value <= self.max {
            return Ok(value);
        }
        Err(ParameterError::OutOfRange {
            field: self.name,
            value,
            min: self.min,
            max: self.max,
        })
    }

    fn check(&self, parameters: &mut P) -> Result<(), ParameterError> {
        let value = match (self.slot)(parameters) {
            Slot::Real(value) => *value,
            Slot::Whole(value) | Slot::Optional(Some(value)) => *value as f64,
            Slot::Optional(None) | Slot::Flag(_) => return Ok(()),
        };
        self.in_range(value).map(drop)
    }

    /// Moves the value to the nearest end of its range.
    fn clamp(&self, parameters: &mut P) {
        // Not f64::clamp, which would let NaN through.
        let nearest = |value: f64| {
            if value >= self.min {
                value.min(self.max)
            } else {
                self.min
            }
        };
        match (self.slot)(parameters) {
            Slot::Real(value) => *value = nearest(*value),
            Slot::Whole(value) | Slot::Optional(Some(value)) => *value = nearest(*value as f64) as u64,
            Slot::Optional(None) | Slot::Flag(_) => {}
        }
    }

    fn set(&self, parameters: &mut P, value: &Value) -> Result<(), ParameterError> {
        let wrong = |expected| ParameterError::WrongKind {
            field: self.name,
            value: value.to_string(),
            expected,
        };
        match ((self.slot)(parameters), value) {
            (Slot::Flag(slot), Value::Flag(flag)) => *slot = *flag,
            (Slot::Flag(_), _) => return Err(wrong("true or false")),
            (Slot::Optional(slot), Value::Text(text)) if text == "none" => *slot = None,
            (Slot::Real(slot), Value::Number(number)) => *slot = self.in_range(*number)?,
            (Slot::Real(_), _) => return Err(wrong("a number")),
            (Slot::Whole(slot), Value::Number(number)) if number.trunc() == *number => {
                *slot = self.in_range(*number)? as u64;
            }
            (Slot::Whole(_), _) => return Err(wrong("a whole number")),
            (Slot::Optional(slot), Value::Number(number)) if number.trunc() == *number => {
                *slot = Some(self.in_range(*number)? as u64);
            }
            (Slot::Optional(_), _) => return Err(wrong("a whole number or none")),
        }
        Ok(())
    }
}

impl<P> fmt::Display for Field<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} to {})", self.name, self.min, self.max)
    }
}

/// A named set of parameters, some of which may follow from the speed of the link or the round trip.
#[derive(Debug)]
pub struct Preset<P> {
    /// Its name in lab files.
    pub name: &'static str,
    /// The set.
    pub make: fn(&Context) -> P,
}

/// The parameters of one algorithm.
pub trait ParameterSet: Clone + fmt::Debug + Send + Sync + 'static {
    /// Name of the algorithm, as in lab files.
    const ALGORITHM: &'static str;
    /// Every parameter.
    const FIELDS: &'static [Field<Self>];
    /// Named sets; the first is the default.
    const PRESETS: &'static [Preset<Self>];

    /// What must hold between parameters.
    fn relations(&self) -> Result<(), ParameterError> {
        Ok(())
    }

    /// Whether every parameter is in its range, and all fit together.
    fn check(&self) -> Result<(), ParameterError> {
        let mut copy = self.clone();
        Self::FIELDS.iter().try_for_each(|field| field.check(&mut copy))?;
        self.relations()
    }

    /// With every parameter moved to the nearest end of its range: what controllers do before use, so that no value
    /// can make them loop or divide by zero.
    fn clamped(mut self) -> Self {
        for field in Self::FIELDS {
            field.clamp(&mut self);
        }
        self
    }
}

/// A preset and what is changed of it, checked.
#[derive(Clone, Debug)]
pub(super) struct Overrides<P: ParameterSet> {
    preset: &'static Preset<P>,
    changes: Vec<(&'static Field<P>, Value)>,
}

impl<P: ParameterSet> Overrides<P> {
    /// From names and values; the name `preset` chooses the set that the others change.
    pub(super) fn parse(values: &BTreeMap<String, Value>) -> Result<Overrides<P>, ParameterError> {
        let preset = match values.get("preset") {
            None => &P::PRESETS[0],
            Some(value) => Self::find_preset(value)?,
        };
        let mut changes = Vec::new();
        for (name, value) in values.iter().filter(|(name, _)| *name != "preset") {
            let field = P::FIELDS.iter().find(|field| field.name == name);
            let field = field.ok_or_else(|| ParameterError::UnknownField {
                algorithm: P::ALGORITHM,
                name: name.clone(),
                known: list(P::FIELDS),
            })?;
            changes.push((field, value.clone()));
        }
        let overrides = Overrides { preset, changes };
        let mut parameters = (preset.make)(&NOMINAL);
        for (field, value) in &overrides.changes {
            field.set(&mut parameters, value)?;
        }
        parameters.check()?;
        Ok(overrides)
    }

    fn find_preset(value: &Value) -> Result<&'static Preset<P>, ParameterError> {
        let Value::Text(name) = value else {
            return Err(ParameterError::WrongKind {
                field: "preset",
                value: value.to_string(),
                expected: "a name",
            });
        };
        let found = P::PRESETS.iter().find(|preset| preset.name == name);
        found.ok_or_else(|| ParameterError::UnknownPreset {
            algorithm: P::ALGORITHM,
            name: name.clone(),
            known: P::PRESETS
                .iter()
                .map(|preset| preset.name)
                .collect::<Vec<_>>()
                .join(", "),
        })
    }

    /// The parameters on a host.
    pub(super) fn parameters(&self, context: &Context) -> P {
        let mut parameters = (self.preset.make)(context);
        for (field, value) in &self.changes {
            // Whether a change is accepted depends on itself alone, so what `parse` accepted is accepted here.
            let accepted = field.set(&mut parameters, value);
            debug_assert!(accepted.is_ok());
        }
        parameters
    }
}

/// A host to check parameters on before there is one. Neither ranges nor relations depend on it.
const NOMINAL: Context = Context {
    line_rate_bps: 100_000_000_000,
    base_rtt: xoff_units::Picos::from_micros(10),
    packet_bytes: 1082,
    seed: 0,
};

fn list<P>(fields: &[Field<P>]) -> String {
    fields.iter().map(Field::to_string).collect::<Vec<_>>().join(", ")
}
