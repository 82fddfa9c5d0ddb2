//! The lab file as written: `*.xoff.yml`, in containerlab's shape.
//!
//! Only its form is checked here, by serde; what the words mean is `resolve`'s business. Everything that can
//! be wrong carries its place in the file.

mod jobs;
mod script;
mod tree;

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{self, DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

pub(super) use jobs::{Job, JobFlow, Transport};
pub(super) use script::{Block, Configure, Fault, Inject, Pause, Send, Step, Wait};
pub(super) use tree::{Tree, read};

/// Most events that the aliases of a file expand to: thousands of switches that share a configuration.
const ALIAS_EVENTS_MAX: usize = 8_000_000;

/// Reads a document. Its size is limited by its text alone, since a list of flows is long; what aliases expand to has a limit.
pub(super) fn from_yaml<T: DeserializeOwned>(text: &str) -> Result<T, serde_saphyr::Error> {
    let default = serde_saphyr::Budget::default();
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: default.max_nodes.max(text.len()),
            max_events: default.max_events.max(2 * text.len()),
            max_total_scalar_bytes: default.max_total_scalar_bytes.max(text.len()),
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: ALIAS_EVENTS_MAX,
        },
    };
    serde_saphyr::from_str_with_options(text, options)
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LabFile {
    pub(super) name: Spanned<String>,
    pub(super) topology: Topology,
    pub(super) load_balancing: Option<LoadBalancing>,
    #[serde(default)]
    pub(super) transports: Ordered<Transport>,
    pub(super) workload: Option<Workload>,
    /// Steps, which are read when their repeats are unrolled.
    #[serde(default)]
    pub(super) script: Vec<Spanned<Tree>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Topology {
    pub(super) defaults: Option<Defaults>,
    /// One template, by its name: it makes nodes and links beside those below.
    pub(super) fabric: Option<Spanned<Ordered<Template>>>,
    #[serde(default)]
    pub(super) nodes: Ordered<Node>,
    #[serde(default)]
    pub(super) links: Vec<Spanned<Link>>,
    pub(super) routes: Option<Spanned<Routes>>,
}

/// What the lab itself does for its switches' load balancing.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoadBalancing {
    pub(super) announce: Option<Spanned<bool>>,
}

/// What holds for all nodes that do not say otherwise.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Defaults {
    pub(super) load_balancing: Option<Spanned<String>>,
}

/// A template of any name: which fields it has is checked where it is expanded.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Template {
    pub(super) leaves: Option<Spanned<u32>>,
    pub(super) spines: Option<Spanned<u32>>,
    pub(super) hosts: Option<Spanned<u32>>,
    pub(super) k: Option<Spanned<u32>>,
    pub(super) nodes: Option<Spanned<u32>>,
    pub(super) gpus: Option<Spanned<u32>>,
    pub(super) left: Option<Spanned<u32>>,
    pub(super) right: Option<Spanned<u32>>,
    pub(super) uplinks: Option<Spanned<u32>>,
    pub(super) speed: Option<Spanned<String>>,
    pub(super) uplink_speed: Option<Spanned<String>>,
    pub(super) delay: Option<Spanned<String>>,
    pub(super) uplink_delay: Option<Spanned<String>>,
    pub(super) mtu: Option<Spanned<u32>>,
    pub(super) config: Option<Spanned<ConfigSource>>,
    pub(super) host: Option<Spanned<Node>>,
}

/// `auto`, `none`, or `auto` with a list of what is to be otherwise.
#[derive(Clone, Debug)]
pub(super) enum Routes {
    Auto(Vec<Spanned<RouteOverride>>),
    None,
}

/// A route of a switch that replaces what `auto` would say.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RouteOverride {
    pub(super) switch: Spanned<String>,
    pub(super) to: Spanned<String>,
    pub(super) via: Spanned<OneOrMore>,
}

/// A node of any kind: which fields a kind has is checked later, where the message can say so.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    pub(super) kind: Option<Spanned<String>>,
    pub(super) config: Option<Spanned<ConfigSource>>,
    pub(super) asic: Option<Spanned<String>>,
    pub(super) pg_profiles: Option<Spanned<String>>,
    pub(super) load_balancing: Option<Spanned<String>>,
    pub(super) mac: Option<Spanned<String>>,
    pub(super) ipv4: Option<Spanned<String>>,
    pub(super) ipv6: Option<Spanned<String>>,
    pub(super) nic: Option<Spanned<Nic>>,
    pub(super) gateway: Option<Spanned<OneOrMore>>,
    pub(super) routes: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) exec: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) kernel: Option<Spanned<String>>,
    pub(super) initrd: Option<Spanned<String>>,
    pub(super) append: Option<Spanned<String>>,
    pub(super) memory: Option<Spanned<String>>,
    pub(super) cpus: Option<Spanned<u32>>,
    pub(super) accel: Option<Spanned<String>>,
    pub(super) qemu: Option<Spanned<String>>,
    pub(super) args: Option<Spanned<Vec<String>>>,
    pub(super) console: Option<Spanned<String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nic {
    pub(super) response_ns: Option<u64>,
    pub(super) buffer_bytes: Option<u32>,
    pub(super) drain: Option<Spanned<String>>,
    pub(super) pfc: Option<Vec<Spanned<u8>>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    pub(super) name: Option<Spanned<String>>,
    pub(super) endpoints: Spanned<Vec<Spanned<Endpoint>>>,
    pub(super) speed: Option<Spanned<String>>,
    pub(super) delay: Option<Spanned<String>>,
    pub(super) mtu: Option<Spanned<u32>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Workload {
    pub(super) duration: Option<Spanned<String>>,
    pub(super) drain: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) flows: Vec<Spanned<Flow>>,
    #[serde(default)]
    pub(super) jobs: Vec<Spanned<Job>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Flow {
    pub(super) name: Spanned<String>,
    pub(super) from: Spanned<OneOrMore>,
    pub(super) to: Spanned<String>,
    pub(super) rate: Option<Spanned<String>>,
    pub(super) dscp: Option<Spanned<u8>>,
    pub(super) ecn: Option<bool>,
    pub(super) class: Option<Spanned<u8>>,
    pub(super) lossless: Option<bool>,
    pub(super) frame: Option<Spanned<u32>>,
    pub(super) message_bytes: Option<Spanned<u32>>,
    pub(super) ip: Option<Spanned<u8>>,
    pub(super) ttl: Option<Spanned<u8>>,
    pub(super) start: Option<Spanned<String>>,
}

/// `"h1:eth0"`, or an existing device as `external: eth1` (or in one string, `"external:eth1"`).
#[derive(Clone, Debug)]
pub(super) enum Endpoint {
    Node { node: String, interface: String },
    External { device: String },
}

/// A path, an inline `config_db`, `preset: NAME`, or a list of those.
#[derive(Clone, Debug)]
pub(super) enum ConfigSource {
    Path(String),
    Inline(serde_json::Map<String, Value>),
    Preset(String),
    Layers(Vec<Spanned<ConfigSource>>),
}

/// One name, or a list of names.
#[derive(Clone, Debug)]
pub(super) struct OneOrMore(pub(super) Vec<Spanned<String>>);

/// A mapping that keeps the order of the file.
#[derive(Clone, Debug)]
pub(super) struct Ordered<V>(pub(super) Vec<(Spanned<String>, V)>);

impl<V> Default for Ordered<V> {
    fn default() -> Ordered<V> {
        Ordered(Vec::new())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Ordered<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for InOrder<V> {
            type Value = Ordered<V>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping from names to what they mean")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }
        deserializer.deserialize_map(InOrder(PhantomData))
    }
}

impl<'de> Deserialize<'de> for OneOrMore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = OneOrMore;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name or a quantity, or a list of those")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
                // A lone name has the place of the whole field.
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
        deserializer.deserialize_any(Names)
    }
}

impl<'de> Deserialize<'de> for Routes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Said;
        const SHAPE: &str = "`auto`, `none`, or a list of {switch, to, via}";
        impl<'de> Visitor<'de> for Said {
            type Value = Routes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(SHAPE)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                match text {
                    "auto" => Ok(Routes::Auto(Vec::new())),
                    "none" => Ok(Routes::None),
                    other => Err(E::custom(format!(
                        "\"{other}\" is not allowed here; write {SHAPE}"
                    ))),
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut overrides = Vec::new();
                while let Some(item) = list.next_element()? {
                    overrides.push(item);
                }
                Ok(Routes::Auto(overrides))
            }
        }
        deserializer.deserialize_any(Said)
    }
}

impl<'de> Deserialize<'de> for Endpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct End;
        const SHAPE: &str = "an endpoint: \"NODE:INTERFACE\", or `external: DEVICE`";
        impl<'de> Visitor<'de> for End {
            type Value = Endpoint;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(SHAPE)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                let (node, interface) = text
                    .split_once(':')
                    .map(|(node, interface)| (node.trim().to_owned(), interface.trim().to_owned()))
                    .filter(|(node, interface)| !node.is_empty() && !interface.is_empty())
                    .ok_or_else(|| E::custom(format!("\"{text}\" is no endpoint; write {SHAPE}")))?;
                Ok(match node.as_str() {
                    "external" => Endpoint::External { device: interface },
                    _ => Endpoint::Node { node, interface },
                })
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let entry: Option<(String, String)> = map.next_entry()?;
                match (entry, map.next_key::<String>()?) {
                    (Some((key, device)), None) if key == "external" => Ok(Endpoint::External { device }),
                    _ => Err(de::Error::custom(format!("this is no endpoint; write {SHAPE}"))),
                }
            }
        }
        deserializer.deserialize_any(End)
    }
}

impl<'de> Deserialize<'de> for ConfigSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Source;
        impl<'de> Visitor<'de> for Source {
            type Value = ConfigSource;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path, `preset: NAME`, an inline config_db mapping, or a list of those")
            }
            fn visit_str<E: de::Error>(self, path: &str) -> Result<Self::Value, E> {
                Ok(ConfigSource::Path(path.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut tables = serde_json::Map::new();
                while let Some((table, value)) = map.next_entry::<String, Value>()? {
                    tables.insert(table, as_config_db(value));
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
        deserializer.deserialize_any(Source)
    }
}

/// `config_db.json` writes every scalar as a string; YAML reads `3` as a number.
fn as_config_db(value: Value) -> Value {
    match value {
        Value::Bool(flag) => Value::String(flag.to_string()),
        Value::Number(number) => Value::String(number.to_string()),
        Value::Array(items) => Value::Array(items.into_iter().map(as_config_db).collect()),
        Value::Object(map) => Value::Object(map.into_iter().map(|(k, v)| (k, as_config_db(v))).collect()),
        // Removes what a lower layer has.
        Value::Null => Value::Null,
        text @ Value::String(_) => text,
    }
}
