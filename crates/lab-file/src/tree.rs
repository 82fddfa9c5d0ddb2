//! YAML trees with locations.
//!
//! The steps of a script are first stored as trees. A formula `$(...)` in a step can use the names that
//! `repeat` defines, so the fields of the step are parsed only after the expansion of `repeat`. Each tree
//! node keeps its location in the file for error messages.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// A YAML value.
#[derive(Clone, Debug, PartialEq)]
pub enum YamlTree {
    /// No value: `null`, `~` or an empty value.
    Null,
    /// The value `true` or `false`.
    Bool(bool),
    /// An integer from -2^63 to 2^63 - 1.
    Integer(i64),
    /// A number with a fraction or an exponent, or one of the special values `.inf` and `.nan`.
    Float(f64),
    /// A text that YAML does not read as one of the other scalars, or a text in quotes. Integers from 2^63 to
    /// 2^64 - 1 are also stored as text.
    Text(String),
    /// A sequence, possibly empty.
    List(Vec<Spanned<YamlTree>>),
    /// The keys and values of a mapping, in the order of the file.
    Map(Vec<(Spanned<String>, Spanned<YamlTree>)>),
}

impl YamlTree {
    /// Returns the value of a key. Returns `None` if the tree is not a mapping or does not have the key.
    pub fn get(&self, key: &str) -> Option<&Spanned<YamlTree>> {
        match self {
            YamlTree::Map(entries) => entries
                .iter()
                .find(|(name, _)| name.value == key)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// Returns a scalar as text. Returns `None` for null, lists and mappings.
    pub fn scalar_text(&self) -> Option<String> {
        match self {
            YamlTree::Bool(value) => Some(value.to_string()),
            YamlTree::Integer(value) => Some(value.to_string()),
            YamlTree::Float(value) => Some(value.to_string()),
            YamlTree::Text(text) => Some(text.clone()),
            YamlTree::Null | YamlTree::List(_) | YamlTree::Map(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for YamlTree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TreeVisitor;
        impl<'de> Visitor<'de> for TreeVisitor {
            type Value = YamlTree;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_unit<E: de::Error>(self) -> Result<YamlTree, E> {
                Ok(YamlTree::Null)
            }
            fn visit_none<E: de::Error>(self) -> Result<YamlTree, E> {
                Ok(YamlTree::Null)
            }
            fn visit_bool<E: de::Error>(self, value: bool) -> Result<YamlTree, E> {
                Ok(YamlTree::Bool(value))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<YamlTree, E> {
                Ok(YamlTree::Integer(value))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<YamlTree, E> {
                // A larger number becomes text, which is an error for a numeric field.
                Ok(
                    i64::try_from(value)
                        .map_or_else(|_| YamlTree::Text(value.to_string()), YamlTree::Integer),
                )
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<YamlTree, E> {
                Ok(YamlTree::Float(value))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<YamlTree, E> {
                Ok(YamlTree::Text(text.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<YamlTree, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(YamlTree::List(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<YamlTree, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(YamlTree::Map(entries))
            }
        }
        deserializer.deserialize_any(TreeVisitor)
    }
}
