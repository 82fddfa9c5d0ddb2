//! A JSON parser that keeps the order of names and duplicate names.
//!
//! If an object contains a name twice, `serde_json::Value` silently keeps only the last value. Users must see
//! an error for a duplicate name. This module therefore reads the text with its own visitor.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON value as it is in the text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum JsonValue {
    Null,
    Bool(bool),
    /// The number as text. The schema checks the number later.
    Number(String),
    Text(String),
    List(Vec<JsonValue>),
    Object(Vec<(String, JsonValue)>),
}

impl JsonValue {
    /// Returns the kind of the value with an article, for error messages.
    pub(crate) fn describe_kind(&self) -> &'static str {
        match self {
            JsonValue::Null => "null",
            JsonValue::Bool(_) => "a truth value",
            JsonValue::Number(_) => "a number",
            JsonValue::Text(_) => "a string",
            JsonValue::List(_) => "a list",
            JsonValue::Object(_) => "an object",
        }
    }
}

/// Writes compact JSON.
impl fmt::Display for JsonValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| serde_json::Value::from(text);
        match self {
            JsonValue::Null => f.write_str("null"),
            JsonValue::Bool(truth) => write!(f, "{truth}"),
            JsonValue::Number(number) => f.write_str(number),
            JsonValue::Text(text) => write!(f, "{}", quoted(text)),
            JsonValue::List(items) => {
                f.write_str("[")?;
                for (n, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if n > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
            JsonValue::Object(entries) => {
                f.write_str("{")?;
                for (n, (name, value)) in entries.iter().enumerate() {
                    write!(f, "{}{}:{value}", if n > 0 { "," } else { "" }, quoted(name))?;
                }
                f.write_str("}")
            }
        }
    }
}

impl<'de> Deserialize<'de> for JsonValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JsonValue, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = JsonValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<JsonValue, E> {
        Ok(JsonValue::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<JsonValue, E> {
        Ok(JsonValue::Bool(value))
    }
    fn visit_u64<E>(self, value: u64) -> Result<JsonValue, E> {
        Ok(JsonValue::Number(value.to_string()))
    }
    fn visit_i64<E>(self, value: i64) -> Result<JsonValue, E> {
        Ok(JsonValue::Number(value.to_string()))
    }
    fn visit_f64<E>(self, value: f64) -> Result<JsonValue, E> {
        Ok(JsonValue::Number(value.to_string()))
    }
    fn visit_str<E>(self, value: &str) -> Result<JsonValue, E> {
        Ok(JsonValue::Text(value.to_owned()))
    }
    fn visit_string<E>(self, value: String) -> Result<JsonValue, E> {
        Ok(JsonValue::Text(value))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<JsonValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(JsonValue::List(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<JsonValue, A::Error> {
        let mut object = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            object.push(entry);
        }
        Ok(JsonValue::Object(object))
    }
}
