//! Named parameters of congestion control algorithms: ranges, presets and changes by the user.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::ControllerContext;

/// Reason why the parameters of a congestion control algorithm were rejected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParameterError {
    /// No congestion control algorithm has this name.
    #[error("no congestion control is called {name:?}; there are {known}")]
    UnknownAlgorithm {
        /// Unknown name in the configuration.
        name: String,
        /// Names of all algorithms, separated by commas.
        known: String,
    },
    /// The algorithm has no parameter of this name.
    #[error("{algorithm} has no parameter {name:?}; it has {known}")]
    UnknownField {
        /// Name of the algorithm.
        algorithm: &'static str,
        /// Unknown name in the configuration.
        name: String,
        /// Names and ranges of all parameters of the algorithm.
        known: String,
    },
    /// The algorithm has no preset of this name.
    #[error("{algorithm} has no preset {name:?}; it has {known}")]
    UnknownPreset {
        /// Name of the algorithm.
        algorithm: &'static str,
        /// Unknown name in the configuration.
        name: String,
        /// Names of all presets of the algorithm.
        known: String,
    },
    /// A number is outside the range of its parameter.
    #[error("{field} = {value} is out of range, which is {min} to {max}")]
    OutOfRange {
        /// Name of the parameter.
        field: &'static str,
        /// Value in the configuration.
        value: f64,
        /// Smallest allowed value.
        min: f64,
        /// Largest allowed value.
        max: f64,
    },
    /// The value has the wrong type.
    #[error("{field} = {value} is not {expected}")]
    WrongKind {
        /// Name of the parameter.
        field: &'static str,
        /// Value in the configuration, as text.
        value: String,
        /// Type that the parameter accepts, such as `a whole number`.
        expected: &'static str,
    },
    /// A parameter is not smaller than another parameter, but must be.
    #[error("{field} = {value} must be below {other} = {bound}")]
    NotBelow {
        /// Name of the parameter that must be smaller.
        field: &'static str,
        /// Value of the parameter.
        value: f64,
        /// Name of the larger parameter.
        other: &'static str,
        /// Value of the larger parameter.
        bound: f64,
    },
}

/// Value of a parameter in a lab file.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum ParameterValue {
    /// A Boolean, `true` or `false`.
    Flag(bool),
    /// A number, with or without a fraction.
    Number(f64),
    /// A text: the name of a preset, or `none` for an optional parameter without a value.
    Text(String),
}

impl fmt::Display for ParameterValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParameterValue::Flag(flag) => write!(f, "{flag}"),
            ParameterValue::Number(number) => write!(f, "{number}"),
            ParameterValue::Text(text) => write!(f, "{text:?}"),
        }
    }
}

impl From<f64> for ParameterValue {
    fn from(number: f64) -> ParameterValue {
        ParameterValue::Number(number)
    }
}

impl From<bool> for ParameterValue {
    fn from(flag: bool) -> ParameterValue {
        ParameterValue::Flag(flag)
    }
}

impl From<&str> for ParameterValue {
    fn from(text: &str) -> ParameterValue {
        ParameterValue::Text(text.to_owned())
    }
}

/// Mutable reference to a parameter, with the type of the parameter.
#[derive(Debug)]
pub enum FieldRef<'a> {
    /// A floating-point number.
    Real(&'a mut f64),
    /// An integer without a sign.
    Whole(&'a mut u64),
    /// An integer. `None`: the parameter has no value.
    Optional(&'a mut Option<u64>),
    /// A Boolean.
    Flag(&'a mut bool),
}

/// Description of one parameter of the struct `P`: its name, its range and its type. The struct and lab files
/// use the same name.
#[derive(Debug)]
pub struct ParameterField<P: 'static> {
    name: &'static str,
    min: f64,
    max: f64,
    slot: fn(&mut P) -> FieldRef<'_>,
}

impl<P> ParameterField<P> {
    pub(super) const fn new(
        name: &'static str,
        min: f64,
        max: f64,
        slot: fn(&mut P) -> FieldRef<'_>,
    ) -> ParameterField<P> {
        ParameterField { name, min, max, slot }
    }

    /// Describes a Boolean parameter, which has no range.
    pub(super) const fn new_flag(name: &'static str, slot: fn(&mut P) -> FieldRef<'_>) -> ParameterField<P> {
        ParameterField::new(name, 0.0, 1.0, slot)
    }

    /// Returns the name of the parameter.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the smallest and the largest allowed value. For a Boolean, these are 0 and 1.
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
            FieldRef::Real(value) => *value,
            FieldRef::Whole(value) | FieldRef::Optional(Some(value)) => *value as f64,
            FieldRef::Optional(None) | FieldRef::Flag(_) => return Ok(()),
        };
        self.in_range(value).map(drop)
    }

    /// Clamps the value to its range.
    fn clamp(&self, parameters: &mut P) {
        // f64::clamp would return NaN for NaN.
        let nearest = |value: f64| {
            if value >= self.min {
                value.min(self.max)
            } else {
                self.min
            }
        };
        match (self.slot)(parameters) {
            FieldRef::Real(value) => *value = nearest(*value),
            FieldRef::Whole(value) | FieldRef::Optional(Some(value)) => {
                *value = nearest(*value as f64) as u64
            }
            FieldRef::Optional(None) | FieldRef::Flag(_) => {}
        }
    }

    fn set(&self, parameters: &mut P, value: &ParameterValue) -> Result<(), ParameterError> {
        let wrong = |expected| ParameterError::WrongKind {
            field: self.name,
            value: value.to_string(),
            expected,
        };
        match ((self.slot)(parameters), value) {
            (FieldRef::Flag(slot), ParameterValue::Flag(flag)) => *slot = *flag,
            (FieldRef::Flag(_), _) => return Err(wrong("true or false")),
            (FieldRef::Optional(slot), ParameterValue::Text(text)) if text == "none" => *slot = None,
            (FieldRef::Real(slot), ParameterValue::Number(number)) => *slot = self.in_range(*number)?,
            (FieldRef::Real(_), _) => return Err(wrong("a number")),
            (FieldRef::Whole(slot), ParameterValue::Number(number)) if number.trunc() == *number => {
                *slot = self.in_range(*number)? as u64;
            }
            (FieldRef::Whole(_), _) => return Err(wrong("a whole number")),
            (FieldRef::Optional(slot), ParameterValue::Number(number)) if number.trunc() == *number => {
                *slot = Some(self.in_range(*number)? as u64);
            }
            (FieldRef::Optional(_), _) => return Err(wrong("a whole number or none")),
        }
        Ok(())
    }
}

impl<P> fmt::Display for ParameterField<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} to {})", self.name, self.min, self.max)
    }
}

/// A named set of parameters. The values can depend on the line rate and on the round-trip time.
#[derive(Debug)]
pub struct Preset<P> {
    /// Name of the preset in lab files.
    pub name: &'static str,
    /// Function that returns the parameters for a queue pair of a host.
    pub make: fn(&ControllerContext) -> P,
}

/// Parameter struct of one algorithm.
pub trait ParameterSet: Clone + fmt::Debug + Send + Sync + 'static {
    /// Name of the algorithm in lab files.
    const ALGORITHM: &'static str;
    /// Descriptions of all parameters.
    const FIELDS: &'static [ParameterField<Self>];
    /// Named sets of parameters. The first set is the default.
    const PRESETS: &'static [Preset<Self>];

    /// Checks the conditions between several parameters. By default, no conditions apply.
    ///
    /// # Errors
    /// Returns the first condition that does not hold.
    fn check_relations(&self) -> Result<(), ParameterError> {
        Ok(())
    }

    /// Checks the range of every parameter and the conditions between parameters.
    ///
    /// # Errors
    /// Returns the first parameter or condition that is wrong.
    fn check(&self) -> Result<(), ParameterError> {
        let mut copy = self.clone();
        Self::FIELDS.iter().try_for_each(|field| field.check(&mut copy))?;
        self.check_relations()
    }

    /// Replaces each value outside its range by the nearest limit. Each controller calls this method when it
    /// is created. A wrong value can then never cause an endless loop or a division by zero.
    fn clamped(mut self) -> Self {
        for field in Self::FIELDS {
            field.clamp(&mut self);
        }
        self
    }
}

/// A preset, and checked changes of single parameters.
#[derive(Clone, Debug)]
pub(super) struct PresetOverrides<P: ParameterSet> {
    preset: &'static Preset<P>,
    changes: Vec<(&'static ParameterField<P>, ParameterValue)>,
}

impl<P: ParameterSet> PresetOverrides<P> {
    /// Parses parameters by name. The entry `preset` selects a preset. Every further entry overrides one
    /// parameter of the preset.
    pub(super) fn parse(
        values: &BTreeMap<String, ParameterValue>,
    ) -> Result<PresetOverrides<P>, ParameterError> {
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
                known: list_fields(P::FIELDS),
            })?;
            changes.push((field, value.clone()));
        }
        let overrides = PresetOverrides { preset, changes };
        let mut parameters = (preset.make)(&NOMINAL_HOST);
        for (field, value) in &overrides.changes {
            field.set(&mut parameters, value)?;
        }
        parameters.check()?;
        Ok(overrides)
    }

    fn find_preset(value: &ParameterValue) -> Result<&'static Preset<P>, ParameterError> {
        let ParameterValue::Text(name) = value else {
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

    /// Returns the parameters for a host.
    pub(super) fn parameters(&self, context: &ControllerContext) -> P {
        let mut parameters = (self.preset.make)(context);
        for (field, value) in &self.changes {
            // The check of a change is the same for every host, so every value that `parse` accepted is
            // accepted here.
            let accepted = field.set(&mut parameters, value);
            debug_assert!(accepted.is_ok());
        }
        parameters
    }
}

/// Host properties for checks before a host exists. The values do not matter, because ranges and conditions
/// are the same for every host.
const NOMINAL_HOST: ControllerContext = ControllerContext {
    line_rate_bps: 100_000_000_000,
    base_rtt: xoff_units::Picos::from_micros(10),
    packet_bytes: 1082,
    seed: 0,
};

fn list_fields<P>(fields: &[ParameterField<P>]) -> String {
    fields
        .iter()
        .map(ParameterField::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}
