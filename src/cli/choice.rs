//! Parsers of options whose values are names.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use xoff_measure::NamedChoice;

/// Returns a parser for the values of a named choice. The help lists each name with its summary.
pub(crate) fn choice_parser<T: NamedChoice>() -> impl TypedValueParser<Value = T> {
    let values = T::CHOICES
        .iter()
        .map(|(_, name, summary)| PossibleValue::new(*name).help(*summary));
    PossibleValuesParser::new(values)
        .try_map(|name| T::from_name(&name).ok_or_else(|| format!("unknown name '{name}'")))
}
