//! Values that several fields of a lab file use: endpoints, configurations, lists and ordered mappings.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

use super::form::AttemptsSeed;

/// One end of a link: an interface of a node, such as `"h1:eth0"`, or an existing network device, such as
/// `external: eth1` or `"external:eth1"`.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// An interface of a node.
    Node {
        /// The name of the node.
        node: String,
        /// The name of the switch port, or the name of the host interface with 1 to 15 bytes.
        interface: String,
    },
    /// An existing network device of this machine, which becomes the switch port. Only in real time.
    External {
        /// The name of the device, 1 to 15 bytes.
        device: String,
    },
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Node { node, interface } => write!(f, "{node}:{interface}"),
            Endpoint::External { device } => write!(f, "external:{device}"),
        }
    }
}

/// A switch configuration: the path of a file, an inline `config_db`, `preset: NAME`, or a list
/// of such configurations.
#[derive(Clone, Debug)]
pub enum ConfigSource {
    /// The path of a `config_db.json`, relative to the lab file.
    Path(String),
    /// The tables of a `config_db.json` by name. Numbers and booleans are converted to strings. The value
    /// `null` removes a table, entry or field of a lower layer.
    Inline(serde_json::Map<String, Value>),
    /// The name of a built-in configuration, such as `roce-lossless`, from `preset: NAME`.
    Preset(String),
    /// Several configurations. A later configuration overrides fields of the earlier ones.
    Layers(Vec<Spanned<ConfigSource>>),
}

/// One name or quantity, or a list of them.
#[derive(Clone, Debug)]
pub struct OneOrMore(pub Vec<Spanned<String>>);

/// A mapping in the order of the file.
#[derive(Clone, Debug)]
pub struct OrderedMap<V>(pub Vec<(Spanned<String>, V)>);

impl<V> Default for OrderedMap<V> {
    fn default() -> OrderedMap<V> {
        OrderedMap(Vec::new())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for OrderedMap<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OrderedMapVisitor<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for OrderedMapVisitor<V> {
            type Value = OrderedMap<V>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping from names to values")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(key) = map.next_key()? {
                    // A value with errors is left out.
                    if let Some(value) = map.next_value_seed(AttemptsSeed::new())? {
                        entries.push((key, value));
                    }
                }
                Ok(OrderedMap(entries))
            }
        }
        deserializer.deserialize_map(OrderedMapVisitor(PhantomData))
    }
}

/// Reads a list. With a tree as the input, an element with errors is left out, and the other elements are read.
pub(crate) fn deserialize_list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct ListVisitor<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
        type Value = Vec<T>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut items = Vec::new();
            while let Some(item) = list.next_element_seed(AttemptsSeed::new())? {
                items.extend(item);
            }
            Ok(items)
        }
    }
    deserializer.deserialize_seq(ListVisitor(PhantomData))
}

impl<'de> Deserialize<'de> for OneOrMore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameListVisitor;
        impl<'de> Visitor<'de> for NameListVisitor {
            type Value = OneOrMore;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name or a quantity, or a list of them")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
                // A single name has the location of the field.
                let unknown = serde_saphyr::Location::UNKNOWN;
                Ok(OneOrMore(vec![Spanned::new(name.to_owned(), unknown, unknown)]))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = list.next_element()? {
                    names.push(name);
                }
                Ok(OneOrMore(names))
            }
        }
        deserializer.deserialize_any(NameListVisitor)
    }
}

impl<'de> Deserialize<'de> for Endpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EndpointVisitor;
        const EXPECTED: &str = "an endpoint: \"NODE:INTERFACE\", or `external: DEVICE`";
        impl<'de> Visitor<'de> for EndpointVisitor {
            type Value = Endpoint;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                let (node, interface) = text
                    .split_once(':')
                    .map(|(node, interface)| (node.trim().to_owned(), interface.trim().to_owned()))
                    .filter(|(node, interface)| !node.is_empty() && !interface.is_empty())
                    .ok_or_else(|| E::custom(format!("\"{text}\" is not an endpoint; write {EXPECTED}")))?;
                Ok(match node.as_str() {
                    "external" => Endpoint::External { device: interface },
                    _ => Endpoint::Node { node, interface },
                })
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let entry: Option<(String, String)> = map.next_entry()?;
                match (entry, map.next_key::<String>()?) {
                    (Some((key, device)), None) if key == "external" => Ok(Endpoint::External { device }),
                    _ => Err(de::Error::custom(format!(
                        "this is not an endpoint; write {EXPECTED}"
                    ))),
                }
            }
        }
        deserializer.deserialize_any(EndpointVisitor)
    }
}

impl<'de> Deserialize<'de> for ConfigSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ConfigSourceVisitor;
        impl<'de> Visitor<'de> for ConfigSourceVisitor {
            type Value = ConfigSource;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path, `preset: NAME`, an inline config_db mapping, or a list of them")
            }
            fn visit_str<E: de::Error>(self, path: &str) -> Result<Self::Value, E> {
                Ok(ConfigSource::Path(path.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut tables = serde_json::Map::new();
                while let Some((table, value)) = map.next_entry::<String, Value>()? {
                    tables.insert(table, to_config_db_value(value));
                }
                if let (1, Some(Value::String(name))) = (tables.len(), tables.get("preset")) {
                    return Ok(ConfigSource::Preset(name.clone()));
                }
                Ok(ConfigSource::Inline(tables))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut layers = Vec::new();
                while let Some(layer) = list.next_element()? {
                    layers.push(layer);
                }
                Ok(ConfigSource::Layers(layers))
            }
        }
        deserializer.deserialize_any(ConfigSourceVisitor)
    }
}

/// Converts numbers and booleans to strings, because all values of a `config_db.json` are strings. For
/// example, YAML parses `3` as a number.
fn to_config_db_value(value: Value) -> Value {
    match value {
        Value::Bool(flag) => Value::String(flag.to_string()),
        Value::Number(number) => Value::String(number.to_string()),
        Value::Array(items) => Value::Array(items.into_iter().map(to_config_db_value).collect()),
        Value::Object(map) => {
            Value::Object(map.into_iter().map(|(k, v)| (k, to_config_db_value(v))).collect())
        }
        // `null` removes a field of a lower layer.
        Value::Null => Value::Null,
        text @ Value::String(_) => text,
    }
}
