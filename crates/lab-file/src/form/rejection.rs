//! The error of a deserializer that reads a YAML tree.

use std::fmt;

use serde::de::{self, Expected, Unexpected};
use serde_saphyr::Location;

/// The first error of an attempt to read a value.
#[derive(Clone, Debug)]
pub(crate) struct Rejection {
    pub(crate) what: String,
    pub(crate) fix: String,
    pub(crate) at: Location,
    /// The positions of the wrong part in the lists and mappings around it, from the inside to the outside.
    pub(crate) path: Vec<usize>,
    /// The field that a mapping does not have.
    pub(crate) missing_field: Option<&'static str>,
}

impl Rejection {
    pub(super) fn new(what: String, fix: String) -> Rejection {
        Rejection {
            what,
            fix,
            at: Location::UNKNOWN,
            path: Vec::new(),
            missing_field: None,
        }
    }

    /// Adds a location if the error has no location yet.
    pub(super) fn with_default_location(self, at: Location) -> Rejection {
        match self.at == Location::UNKNOWN {
            true => Rejection { at, ..self },
            false => self,
        }
    }

    /// Adds the position of the wrong part in the list or mapping around it.
    pub(super) fn inside(mut self, index: usize) -> Rejection {
        self.path.push(index);
        self
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Rejection {}

impl de::Error for Rejection {
    fn custom<T: fmt::Display>(what: T) -> Rejection {
        Rejection::new(what.to_string(), String::new())
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Rejection {
        let what = match unexpected {
            Unexpected::Bool(value) => value.to_string(),
            Unexpected::Unsigned(number) => number.to_string(),
            Unexpected::Signed(number) => number.to_string(),
            Unexpected::Float(number) => number.to_string(),
            Unexpected::Str(text) => format!("\"{text}\""),
            Unexpected::Unit | Unexpected::Option => "an empty value".to_owned(),
            Unexpected::Seq => "a list".to_owned(),
            Unexpected::Map => "a mapping".to_owned(),
            other => other.to_string(),
        };
        Rejection::new(format!("{what} is not allowed here"), format!("write {expected}"))
    }

    fn missing_field(field: &'static str) -> Rejection {
        Rejection {
            missing_field: Some(field),
            ..Rejection::new(
                format!("the field `{field}` is missing"),
                format!("add `{field}`"),
            )
        }
    }
}
