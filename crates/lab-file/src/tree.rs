//! YAML trees with locations, and a deserializer that reads values from such a tree.
//!
//! The steps of a script are first stored as trees. A formula `$(...)` in a step can use the names that
//! `repeat` defines, so the fields of the step are parsed only after the expansion of `repeat`. Each tree
//! node keeps its location in the file for error messages.

use std::fmt;

use serde::Deserialize;
use serde::de::value::{BoolDeserializer, MapDeserializer, StrDeserializer};
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_saphyr::{Location, Spanned};

/// The struct name with which [`Spanned`] asks serde for a value together with its location.
const SPANNED: &str = "__yaml_spanned";
/// The first key of the mapping from which [`Spanned`] reads a value and its location. The key is a private
/// detail of `serde_saphyr`, so a test checks that it still works.
const SPANNED_MARKER: &str = "__serde_saphyr_private_spanned";

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

/// Deserializes a value from a tree.
///
/// # Errors
/// Returns an error if the tree does not have the structure of the type. The error contains the location in
/// the file.
pub(crate) fn deserialize_tree<T: de::DeserializeOwned>(tree: &Spanned<YamlTree>) -> Result<T, TreeError> {
    T::deserialize(TreeDeserializer(tree)).map_err(|error| error.with_default_location(tree.referenced))
}

/// An error of a tree with its location in the file.
#[derive(Clone, Debug)]
pub struct TreeError {
    /// The description of the error, without its location.
    pub what: String,
    /// The location of the wrong value or key in the file. [`Location::UNKNOWN`] if no location is known.
    pub at: Location,
}

impl TreeError {
    /// Adds a location if the error has no location yet.
    fn with_default_location(self, at: Location) -> TreeError {
        match self.at == Location::UNKNOWN {
            true => TreeError { at, ..self },
            false => self,
        }
    }
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for TreeError {}

impl de::Error for TreeError {
    fn custom<T: fmt::Display>(what: T) -> TreeError {
        TreeError {
            what: what.to_string(),
            at: Location::UNKNOWN,
        }
    }
}

/// A deserializer for a tree.
#[derive(Clone, Copy)]
struct TreeDeserializer<'a>(&'a Spanned<YamlTree>);

impl<'de> Deserializer<'de> for TreeDeserializer<'_> {
    type Error = TreeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        let at = self.0.referenced;
        let result = match &self.0.value {
            YamlTree::Null => visitor.visit_unit(),
            YamlTree::Bool(value) => visitor.visit_bool(*value),
            YamlTree::Integer(value) => match u64::try_from(*value) {
                Ok(value) => visitor.visit_u64(value),
                Err(_) => visitor.visit_i64(*value),
            },
            YamlTree::Float(value) => visitor.visit_f64(*value),
            YamlTree::Text(text) => visitor.visit_str(text),
            YamlTree::List(items) => visitor.visit_seq(ListAccess(items.iter())),
            YamlTree::Map(entries) => visitor.visit_map(EntryAccess {
                rest: entries.iter(),
                value: None,
            }),
        };
        result.map_err(|error: TreeError| error.with_default_location(at))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        match self.0.value {
            YamlTree::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    /// Accepts a number as text, as YAML does.
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        match self.0.value.scalar_text() {
            Some(text) => visitor
                .visit_string(text)
                .map_err(|error: TreeError| error.with_default_location(self.0.referenced)),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, TreeError> {
        match name {
            SPANNED => visitor.visit_newtype_struct(SpannedDeserializer(self)),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct seq tuple tuple_struct
        map struct enum identifier ignored_any
    }
}

/// The items of a list.
struct ListAccess<'a>(std::slice::Iter<'a, Spanned<YamlTree>>);

impl<'de> SeqAccess<'de> for ListAccess<'_> {
    type Error = TreeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, TreeError> {
        self.0
            .next()
            .map(|item| seed.deserialize(TreeDeserializer(item)))
            .transpose()
    }
}

/// The entries of a mapping.
struct EntryAccess<'a> {
    rest: std::slice::Iter<'a, (Spanned<String>, Spanned<YamlTree>)>,
    value: Option<&'a Spanned<YamlTree>>,
}

impl<'de> MapAccess<'de> for EntryAccess<'_> {
    type Error = TreeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, TreeError> {
        let Some((key, value)) = self.rest.next() else {
            return Ok(None);
        };
        self.value = Some(value);
        let text = Spanned::new(YamlTree::Text(key.value.clone()), key.referenced, key.defined);
        seed.deserialize(TreeDeserializer(&text))
            .map(Some)
            .map_err(|error| error.with_default_location(key.referenced))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, TreeError> {
        let value = self
            .value
            .take()
            .ok_or_else(|| de::Error::custom("a key without a value"))?;
        seed.deserialize(TreeDeserializer(value))
            .map_err(|error| error.with_default_location(value.referenced))
    }
}

/// A deserializer for a value with its location, in the format of [`Spanned`].
struct SpannedDeserializer<'a>(TreeDeserializer<'a>);

impl<'de> Deserializer<'de> for SpannedDeserializer<'_> {
    type Error = TreeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        visitor.visit_map(SpannedAccess {
            tree: self.0,
            next: 0,
        })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// The entries of a value with its location.
struct SpannedAccess<'a> {
    tree: TreeDeserializer<'a>,
    next: usize,
}

impl<'de> MapAccess<'de> for SpannedAccess<'_> {
    type Error = TreeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, TreeError> {
        let Some(key) = [SPANNED_MARKER, "value", "referenced", "defined"].get(self.next) else {
            return Ok(None);
        };
        self.next += 1;
        let key: StrDeserializer<'_, TreeError> = key.into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, TreeError> {
        let location = |at: Location| {
            let fields = [("line", at.line()), ("column", at.column())];
            MapDeserializer::new(fields.into_iter())
        };
        match self.next {
            1 => {
                let marked: BoolDeserializer<TreeError> = true.into_deserializer();
                seed.deserialize(marked)
            }
            2 => seed.deserialize(self.tree),
            3 => seed.deserialize(location(self.tree.0.referenced)),
            _ => seed.deserialize(location(self.tree.0.defined)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct TestFields {
        name: Option<Spanned<String>>,
        count: Spanned<u8>,
        list: Option<Vec<Spanned<u8>>>,
    }

    fn parse_tree(text: &str) -> Spanned<YamlTree> {
        serde_saphyr::from_str(text).expect("YAML")
    }

    #[test]
    fn locations_are_preserved() {
        let fields: TestFields =
            deserialize_tree(&parse_tree("name: 17\ncount: 3\nlist:\n  - 4\n  - 5\n")).expect("well formed");
        let name = fields.name.expect("there");
        assert_eq!((name.value.as_str(), name.referenced.line()), ("17", 1));
        assert_eq!((fields.count.value, fields.count.referenced.line()), (3, 2));
        let list = fields.list.expect("there");
        assert_eq!((list[1].value, list[1].referenced.line()), (5, 5));
    }

    #[test]
    fn errors_contain_their_location() {
        for (text, line, part) in [
            ("count: 1\nnaem: x\n", 2, "naem"),
            ("name: x\ncount: 300\n", 2, "300"),
            ("name: x\ncount: many\n", 2, "many"),
            ("name: x\n", 1, "count"),
        ] {
            let error = deserialize_tree::<TestFields>(&parse_tree(text)).expect_err(text);
            assert!(error.what.contains(part), "{error}");
            assert_eq!(error.at.line(), line, "{error}");
        }
    }
}
