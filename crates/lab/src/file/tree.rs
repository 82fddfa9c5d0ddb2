//! YAML as a tree with places, and what is read from such a tree.
//!
//! Steps of scripts are kept as trees: what stands in `$(...)` is known when a `repeat` is unrolled, and only then is it clear
//! whether a step is well formed. Places of the file survive, so that messages name them.

use std::fmt;

use serde::Deserialize;
use serde::de::value::{BoolDeserializer, MapDeserializer, StrDeserializer};
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_saphyr::{Location, Spanned};

/// The name by which [`Spanned`] asks a deserializer for a value with its place.
const SPANNED: &str = "__yaml_spanned";
/// The key by which [`Spanned`] knows that it is given one. Without it, places would be unknown; a test watches over it.
const SPANNED_MARKER: &str = "__serde_saphyr_private_spanned";

/// A value of YAML.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<Spanned<Tree>>),
    Map(Vec<(Spanned<String>, Spanned<Tree>)>),
}

impl Tree {
    /// The value under a key of a mapping.
    pub(crate) fn get(&self, key: &str) -> Option<&Spanned<Tree>> {
        match self {
            Tree::Map(entries) => entries
                .iter()
                .find(|(name, _)| name.value == key)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// A scalar as it would be written.
    fn scalar(&self) -> Option<String> {
        match self {
            Tree::Bool(value) => Some(value.to_string()),
            Tree::Integer(value) => Some(value.to_string()),
            Tree::Float(value) => Some(value.to_string()),
            Tree::Text(text) => Some(text.clone()),
            Tree::Null | Tree::List(_) | Tree::Map(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Tree;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_unit<E: de::Error>(self) -> Result<Tree, E> {
                Ok(Tree::Null)
            }
            fn visit_none<E: de::Error>(self) -> Result<Tree, E> {
                Ok(Tree::Null)
            }
            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Tree, E> {
                Ok(Tree::Bool(value))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Tree, E> {
                Ok(Tree::Integer(value))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Tree, E> {
                // What does not fit is a text of digits, and refused where a number is wanted.
                Ok(i64::try_from(value).map_or_else(|_| Tree::Text(value.to_string()), Tree::Integer))
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Tree, E> {
                Ok(Tree::Float(value))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Tree, E> {
                Ok(Tree::Text(text.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(Tree::List(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Tree::Map(entries))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// Reads what a tree says.
///
/// # Errors
/// What does not fit, at its place in the file.
pub(crate) fn read<T: de::DeserializeOwned>(tree: &Spanned<Tree>) -> Result<T, Misread> {
    T::deserialize(Reader(tree)).map_err(|error| error.or_at(tree.referenced))
}

/// What does not fit, and where.
#[derive(Clone, Debug)]
pub(crate) struct Misread {
    pub(crate) what: String,
    pub(crate) at: Location,
}

impl Misread {
    /// At this place, unless a closer one is known.
    fn or_at(self, at: Location) -> Misread {
        match self.at == Location::UNKNOWN {
            true => Misread { at, ..self },
            false => self,
        }
    }
}

impl fmt::Display for Misread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Misread {}

impl de::Error for Misread {
    fn custom<T: fmt::Display>(what: T) -> Misread {
        Misread {
            what: what.to_string(),
            at: Location::UNKNOWN,
        }
    }
}

#[derive(Clone, Copy)]
struct Reader<'a>(&'a Spanned<Tree>);

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Misread;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        let at = self.0.referenced;
        let read = match &self.0.value {
            Tree::Null => visitor.visit_unit(),
            Tree::Bool(value) => visitor.visit_bool(*value),
            Tree::Integer(value) => match u64::try_from(*value) {
                Ok(value) => visitor.visit_u64(value),
                Err(_) => visitor.visit_i64(*value),
            },
            Tree::Float(value) => visitor.visit_f64(*value),
            Tree::Text(text) => visitor.visit_str(text),
            Tree::List(items) => visitor.visit_seq(Items(items.iter())),
            Tree::Map(entries) => visitor.visit_map(Entries {
                rest: entries.iter(),
                value: None,
            }),
        };
        read.map_err(|error: Misread| error.or_at(at))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        match self.0.value {
            Tree::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    /// Numbers are text where text is wanted, as in YAML.
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        match self.0.value.scalar() {
            Some(text) => visitor
                .visit_string(text)
                .map_err(|error: Misread| error.or_at(self.0.referenced)),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        self.deserialize_str(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misread> {
        match name {
            SPANNED => visitor.visit_newtype_struct(Placed(self)),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct seq tuple tuple_struct
        map struct enum identifier ignored_any
    }
}

struct Items<'a>(std::slice::Iter<'a, Spanned<Tree>>);

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Misread;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Misread> {
        self.0
            .next()
            .map(|item| seed.deserialize(Reader(item)))
            .transpose()
    }
}

struct Entries<'a> {
    rest: std::slice::Iter<'a, (Spanned<String>, Spanned<Tree>)>,
    value: Option<&'a Spanned<Tree>>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Misread;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Misread> {
        let Some((key, value)) = self.rest.next() else {
            return Ok(None);
        };
        self.value = Some(value);
        let text = Spanned::new(Tree::Text(key.value.clone()), key.referenced, key.defined);
        seed.deserialize(Reader(&text))
            .map(Some)
            .map_err(|error| error.or_at(key.referenced))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Misread> {
        let value = self
            .value
            .take()
            .ok_or_else(|| de::Error::custom("a key without a value"))?;
        seed.deserialize(Reader(value))
            .map_err(|error| error.or_at(value.referenced))
    }
}

/// A value together with its place, in the form that [`Spanned`] reads.
struct Placed<'a>(Reader<'a>);

impl<'de> Deserializer<'de> for Placed<'_> {
    type Error = Misread;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        visitor.visit_map(Parts { of: self.0, next: 0 })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct Parts<'a> {
    of: Reader<'a>,
    next: usize,
}

impl<'de> MapAccess<'de> for Parts<'_> {
    type Error = Misread;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Misread> {
        let Some(key) = [SPANNED_MARKER, "value", "referenced", "defined"].get(self.next) else {
            return Ok(None);
        };
        self.next += 1;
        let key: StrDeserializer<'_, Misread> = key.into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Misread> {
        let place = |at: Location| {
            let parts = [("line", at.line()), ("column", at.column())];
            MapDeserializer::new(parts.into_iter())
        };
        match self.next {
            1 => {
                let marked: BoolDeserializer<Misread> = true.into_deserializer();
                seed.deserialize(marked)
            }
            2 => seed.deserialize(self.of),
            3 => seed.deserialize(place(self.of.0.referenced)),
            _ => seed.deserialize(place(self.of.0.defined)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Small {
        name: Option<Spanned<String>>,
        count: Spanned<u8>,
        list: Option<Vec<Spanned<u8>>>,
    }

    fn tree(text: &str) -> Spanned<Tree> {
        serde_saphyr::from_str(text).expect("YAML")
    }

    #[test]
    fn places_survive() {
        let small: Small = read(&tree("name: 17\ncount: 3\nlist:\n  - 4\n  - 5\n")).expect("well formed");
        let name = small.name.expect("there");
        assert_eq!((name.value.as_str(), name.referenced.line()), ("17", 1));
        assert_eq!((small.count.value, small.count.referenced.line()), (3, 2));
        let list = small.list.expect("there");
        assert_eq!((list[1].value, list[1].referenced.line()), (5, 5));
    }

    #[test]
    fn what_does_not_fit_is_told_at_its_place() {
        for (text, line, part) in [
            ("count: 1\nnaem: x\n", 2, "naem"),
            ("name: x\ncount: 300\n", 2, "300"),
            ("name: x\ncount: many\n", 2, "many"),
            ("name: x\n", 1, "count"),
        ] {
            let error = read::<Small>(&tree(text)).expect_err(text);
            assert!(error.what.contains(part), "{error}");
            assert_eq!(error.at.line(), line, "{error}");
        }
    }
}
