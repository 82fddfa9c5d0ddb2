//! A deserializer that reads values from a YAML tree and reports errors with their locations.

use std::collections::HashMap;

use serde::de::value::{BoolDeserializer, MapDeserializer, StrDeserializer};
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_saphyr::{Location, Spanned};

use super::number_ranges::describe_range;
use super::rejection::Rejection;
use super::{ATTEMPTS, Attempts, Collector};
use crate::tree::YamlTree;
use xoff_units::{list_names, nearest_name, suggest};

/// The struct name with which [`Spanned`] asks serde for a value together with its location.
const SPANNED: &str = "__yaml_spanned";
/// The first key of the mapping from which [`Spanned`] reads a value and its location. The key is a private
/// detail of `serde_saphyr`, so a test checks that it still works.
const SPANNED_MARKER: &str = "__serde_saphyr_private_spanned";

/// A deserializer for a tree.
#[derive(Clone, Copy)]
pub(crate) struct TreeDeserializer<'a> {
    tree: &'a Spanned<YamlTree>,
    /// The key of the tree in its mapping. `None` in lists.
    key: Option<&'a str>,
    /// The key of the list that contains the tree. `None` outside lists.
    list_key: Option<&'a str>,
    /// The type of the mapping that contains the tree. Empty if the mapping can have any keys, and in lists.
    owner: &'static str,
    collector: &'a Collector,
}

impl<'a> TreeDeserializer<'a> {
    pub(crate) fn new(tree: &'a Spanned<YamlTree>, collector: &'a Collector) -> TreeDeserializer<'a> {
        TreeDeserializer {
            tree,
            key: None,
            list_key: None,
            owner: "",
            collector,
        }
    }

    /// Returns the error of a value that has the wrong type.
    fn reject(&self, expected: &str) -> Rejection {
        let value = match &self.tree.value {
            YamlTree::Null => "an empty value".to_owned(),
            YamlTree::List(_) => "a list".to_owned(),
            YamlTree::Map(_) => "a mapping".to_owned(),
            YamlTree::Text(text) => format!("\"{text}\""),
            other => other.scalar_text().unwrap_or_default(),
        };
        Rejection::new(
            format!("{value} is not allowed here"),
            format!("write {expected}"),
        )
        .with_default_location(self.tree.referenced)
    }

    /// Reads an integer from `least` to `most`.
    fn integer<'de, V: Visitor<'de>>(self, visitor: V, least: i64, most: u64) -> Result<V::Value, Rejection> {
        let fix = || describe_range(self.owner, self.key.or(self.list_key), least, most);
        match self.tree.value {
            YamlTree::Integer(value)
                if value >= least && u64::try_from(value).map_or(true, |value| value <= most) =>
            {
                self.deserialize_any(visitor)
            }
            YamlTree::Integer(value) => {
                let what = format!("{value} is out of range");
                Err(Rejection::new(what, fix()).with_default_location(self.tree.referenced))
            }
            _ => Err(Rejection {
                fix: fix(),
                ..self.reject("")
            }),
        }
    }
}

impl<'de> Deserializer<'de> for TreeDeserializer<'_> {
    type Error = Rejection;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Rejection> {
        let result = match &self.tree.value {
            YamlTree::Null => visitor.visit_unit(),
            YamlTree::Bool(value) => visitor.visit_bool(*value),
            YamlTree::Integer(value) => match u64::try_from(*value) {
                Ok(value) => visitor.visit_u64(value),
                Err(_) => visitor.visit_i64(*value),
            },
            YamlTree::Float(value) => visitor.visit_f64(*value),
            YamlTree::Text(text) => visitor.visit_str(text),
            YamlTree::List(items) => visitor.visit_seq(ListAccess {
                items,
                key: self.key,
                next: 0,
                collector: self.collector,
            }),
            YamlTree::Map(entries) => visitor.visit_map(EntryAccess::new(
                self.tree.referenced,
                entries,
                ("", None),
                self.collector,
            )),
        };
        result.map_err(|error| error.with_default_location(self.tree.referenced))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Rejection> {
        match self.tree.value {
            YamlTree::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    /// Accepts a number as text, as YAML does.
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Rejection> {
        match self.tree.value.scalar_text() {
            Some(text) => visitor
                .visit_string(text)
                .map_err(|error: Rejection| error.with_default_location(self.tree.referenced)),
            None => Err(self.reject("a text")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Rejection> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Rejection> {
        match self.tree.value {
            YamlTree::Bool(_) => self.deserialize_any(visitor),
            _ => Err(self.reject("true or false")),
        }
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Rejection> {
        self.integer(visitor, 0, u8::MAX.into())
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Rejection> {
        self.integer(visitor, 0, u16::MAX.into())
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Rejection> {
        self.integer(visitor, 0, u32::MAX.into())
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Rejection> {
        self.integer(visitor, 0, i64::MAX as u64)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Rejection> {
        match self.tree.value {
            YamlTree::List(_) => self.deserialize_any(visitor),
            _ => Err(self.reject("a list")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Rejection> {
        match self.tree.value {
            YamlTree::Map(_) => self.deserialize_any(visitor),
            _ => Err(self.reject("a mapping from names to values")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Rejection> {
        match &self.tree.value {
            YamlTree::Map(entries) => visitor
                .visit_map(EntryAccess::new(
                    self.tree.referenced,
                    entries,
                    (name, Some(fields)),
                    self.collector,
                ))
                .map_err(|error: Rejection| error.with_default_location(self.tree.referenced)),
            _ => Err(self.reject(&format!(
                "a mapping with the fields {}",
                list_names(fields.iter().copied())
            ))),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Rejection> {
        match name {
            SPANNED => visitor.visit_newtype_struct(SpannedDeserializer(self)),
            ATTEMPTS => visitor.visit_seq(Attempts::new(
                self.tree,
                (self.key, self.list_key),
                self.collector,
            )),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier
        ignored_any
    }
}

/// The items of a list.
struct ListAccess<'a> {
    items: &'a [Spanned<YamlTree>],
    /// The key of the list in its mapping.
    key: Option<&'a str>,
    next: usize,
    collector: &'a Collector,
}

impl<'de> SeqAccess<'de> for ListAccess<'_> {
    type Error = Rejection;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Rejection> {
        let index = self.next;
        let Some(item) = self.items.get(index) else {
            return Ok(None);
        };
        self.next += 1;
        let deserializer = TreeDeserializer {
            list_key: self.key,
            ..TreeDeserializer::new(item, self.collector)
        };
        seed.deserialize(deserializer)
            .map(Some)
            .map_err(|error| error.with_default_location(item.referenced).inside(index))
    }
}

/// The entries of a mapping. Unknown and repeated keys are reported and left out.
struct EntryAccess<'a> {
    /// The location of the mapping.
    at: Location,
    entries: &'a [(Spanned<String>, Spanned<YamlTree>)],
    /// The type of the mapping. Empty for mappings with any keys.
    owner: &'static str,
    /// The fields that the mapping can have. `None` for mappings with any keys.
    fields: Option<&'static [&'static str]>,
    /// The positions of the keys of the mapping. A key that appears twice has its first position.
    first_positions: HashMap<&'a str, usize>,
    /// The position of the current entry plus 1.
    next: usize,
    collector: &'a Collector,
}

impl<'a> EntryAccess<'a> {
    fn new(
        at: Location,
        entries: &'a [(Spanned<String>, Spanned<YamlTree>)],
        (owner, fields): (&'static str, Option<&'static [&'static str]>),
        collector: &'a Collector,
    ) -> EntryAccess<'a> {
        let mut first_positions = HashMap::with_capacity(entries.len());
        for (index, (key, _)) in entries.iter().enumerate() {
            first_positions.entry(key.value.as_str()).or_insert(index);
        }
        EntryAccess {
            at,
            entries,
            owner,
            fields,
            first_positions,
            next: 0,
            collector,
        }
    }

    /// Reports a key that the mapping cannot have or has already. Returns whether the key is valid.
    fn check_key(&self, index: usize) -> bool {
        let key = &self.entries[index].0;
        let first = self.first_positions[key.value.as_str()];
        if first != index {
            let what = format!("the key `{}` appears twice", key.value);
            let line = self.entries[first].0.referenced.line();
            self.collector
                .report(key.referenced, what, format!("remove it here or in line {line}"));
            return false;
        }
        let Some(fields) = self.fields.filter(|fields| !fields.contains(&key.value.as_str())) else {
            return true;
        };
        if let Some(field) = nearest_name(&key.value, fields.iter().copied()) {
            self.collector.excuse_missing_field(self.at, field);
        }
        let what = format!("unknown field `{}`", key.value);
        self.collector.report(
            key.referenced,
            what,
            suggest(&key.value, fields.iter().copied(), "fields"),
        );
        false
    }
}

impl<'de> MapAccess<'de> for EntryAccess<'_> {
    type Error = Rejection;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Rejection> {
        loop {
            let index = self.next;
            let Some((key, _)) = self.entries.get(index) else {
                return Ok(None);
            };
            self.next += 1;
            if !self.check_key(index) {
                continue;
            }
            let text = Spanned::new(YamlTree::Text(key.value.clone()), key.referenced, key.defined);
            return seed
                .deserialize(TreeDeserializer::new(&text, self.collector))
                .map(Some)
                .map_err(|error| error.with_default_location(key.referenced).inside(index));
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Rejection> {
        let index = self.next.saturating_sub(1);
        let Some((key, value)) = self.entries.get(index) else {
            return Err(de::Error::custom("a key without a value"));
        };
        let deserializer = TreeDeserializer {
            key: Some(&key.value),
            owner: self.owner,
            ..TreeDeserializer::new(value, self.collector)
        };
        seed.deserialize(deserializer)
            .map_err(|error| error.with_default_location(value.referenced).inside(index))
    }
}

/// A deserializer for a value with its location, in the format of [`Spanned`].
struct SpannedDeserializer<'a>(TreeDeserializer<'a>);

impl<'de> Deserializer<'de> for SpannedDeserializer<'_> {
    type Error = Rejection;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Rejection> {
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
    type Error = Rejection;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Rejection> {
        let Some(key) = [SPANNED_MARKER, "value", "referenced", "defined"].get(self.next) else {
            return Ok(None);
        };
        self.next += 1;
        let key: StrDeserializer<'_, Rejection> = key.into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Rejection> {
        let location = |at: Location| {
            let fields = [("line", at.line()), ("column", at.column())];
            MapDeserializer::new(fields.into_iter())
        };
        match self.next {
            1 => {
                let marked: BoolDeserializer<Rejection> = true.into_deserializer();
                seed.deserialize(marked)
            }
            2 => seed.deserialize(self.tree),
            3 => seed.deserialize(location(self.tree.tree.referenced)),
            _ => seed.deserialize(location(self.tree.tree.defined)),
        }
    }
}
