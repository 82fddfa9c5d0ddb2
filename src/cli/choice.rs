//! Options whose values are chosen by name.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use xoff_measure::NamedChoice;

/// A parser for the values of a named choice. The help lists each name with its summary.
pub(crate) fn choice<T: NamedChoice>() -> impl TypedValueParser<Value = T> {
    let values = T::CHOICES
        .iter()
        .map(|(_, name, summary)| PossibleValue::new(*name).help(*summary));
    PossibleValuesParser::new(values)
        .try_map(|name| T::from_name(&name).ok_or_else(|| format!("unknown name '{name}'")))
}
