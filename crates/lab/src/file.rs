//! The fields of a lab file (`*.xoff.yml`). A lab file is similar to a topology file of containerlab.
//!
//! serde checks the structure of the file, and the module `resolve` checks names and values. Fields that can
//! have an invalid value are of type [`Spanned`], so that error messages can contain the line.

mod jobs;
mod script;
mod tree;

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{self, DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

pub(super) use jobs::{JobFields, JobFlowFields, TransportFields};
pub(super) use script::{
    BlockFields, ConfigureFields, FaultFields, InjectFields, PauseFields, SendFields, StepFields, WaitFields,
};
pub(super) use tree::{YamlTree, deserialize_tree};

/// The maximum number of parser events from YAML aliases. The limit is high, because thousands of switches
/// can share one configuration through an alias.
const ALIAS_EVENTS_MAX: usize = 8_000_000;

/// Parses a YAML document. The limit of YAML nodes grows with the length of the text, so that a lab file can
/// contain a long list of flows. YAML aliases have a separate limit.
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

/// A lab file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LabFile {
    pub(super) name: Spanned<String>,
    pub(super) topology: TopologyFields,
    pub(super) load_balancing: Option<LoadBalancingFields>,
    #[serde(default)]
    pub(super) transports: OrderedMap<TransportFields>,
    pub(super) workload: Option<WorkloadFields>,
    /// The steps as trees. They are parsed after the expansion of `repeat`.
    #[serde(default)]
    pub(super) script: Vec<Spanned<YamlTree>>,
}

/// The field `topology`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TopologyFields {
    pub(super) defaults: Option<NodeDefaults>,
    /// One template, such as a leaf-spine fabric, with its name. The template adds nodes and links to the
    /// fields `nodes` and `links`.
    pub(super) fabric: Option<Spanned<OrderedMap<TemplateFields>>>,
    #[serde(default)]
    pub(super) nodes: OrderedMap<NodeFields>,
    #[serde(default)]
    pub(super) links: Vec<Spanned<LinkFields>>,
    pub(super) routes: Option<Spanned<RouteSource>>,
}

/// The field `load_balancing` of the lab.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoadBalancingFields {
    pub(super) announce: Option<Spanned<bool>>,
}

/// The default values of nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeDefaults {
    pub(super) load_balancing: Option<Spanned<String>>,
}

/// The fields of all templates. The expansion checks which fields a template can have.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TemplateFields {
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
    pub(super) host: Option<Spanned<NodeFields>>,
}

/// The field `routes`: `auto`, `none`, or a list of routes that override `auto`.
#[derive(Clone, Debug)]
pub(super) enum RouteSource {
    Auto(Vec<Spanned<RouteOverride>>),
    None,
}

/// A route of a switch that overrides the route of `auto`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RouteOverride {
    pub(super) switch: Spanned<String>,
    pub(super) to: Spanned<String>,
    pub(super) via: Spanned<OneOrMore>,
}

/// The fields of a node. This type has the fields of all kinds of nodes. The resolver reports a field that
/// the kind of the node does not have.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeFields {
    pub(super) kind: Option<Spanned<String>>,
    pub(super) config: Option<Spanned<ConfigSource>>,
    pub(super) asic: Option<Spanned<String>>,
    pub(super) pg_profiles: Option<Spanned<String>>,
    pub(super) load_balancing: Option<Spanned<String>>,
    pub(super) mac: Option<Spanned<String>>,
    pub(super) ipv4: Option<Spanned<String>>,
    pub(super) ipv6: Option<Spanned<String>>,
    pub(super) nic: Option<Spanned<NicFields>>,
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

/// The field `nic` of a model host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NicFields {
    pub(super) response_ns: Option<u64>,
    pub(super) buffer_bytes: Option<u32>,
    pub(super) drain: Option<Spanned<String>>,
    pub(super) pfc: Option<Vec<Spanned<u8>>>,
}

/// An entry of `links`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkFields {
    pub(super) name: Option<Spanned<String>>,
    pub(super) endpoints: Spanned<Vec<Spanned<Endpoint>>>,
    pub(super) speed: Option<Spanned<String>>,
    pub(super) delay: Option<Spanned<String>>,
    pub(super) mtu: Option<Spanned<u32>>,
}

/// The field `workload`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkloadFields {
    pub(super) duration: Option<Spanned<String>>,
    pub(super) drain: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) flows: Vec<Spanned<FlowFields>>,
    #[serde(default)]
    pub(super) jobs: Vec<Spanned<JobFields>>,
}

/// An entry of `workload.flows`, a group of open-loop flows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowFields {
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

/// One end of a link: an interface of a node, such as `"h1:eth0"`, or an existing network device, such as
/// `external: eth1` or `"external:eth1"`.
#[derive(Clone, Debug)]
pub(super) enum Endpoint {
    Node { node: String, interface: String },
    External { device: String },
}

/// A switch configuration: the path of a file, an inline `config_db`, `preset: NAME`, or a list
/// of such configurations.
#[derive(Clone, Debug)]
pub(super) enum ConfigSource {
    Path(String),
    Inline(serde_json::Map<String, Value>),
    Preset(String),
    Layers(Vec<Spanned<ConfigSource>>),
}

/// One name or quantity, or a list of them.
#[derive(Clone, Debug)]
pub(super) struct OneOrMore(pub(super) Vec<Spanned<String>>);

/// A mapping in the order of the file.
#[derive(Clone, Debug)]
pub(super) struct OrderedMap<V>(pub(super) Vec<(Spanned<String>, V)>);

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
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(OrderedMap(entries))
            }
        }
        deserializer.deserialize_map(OrderedMapVisitor(PhantomData))
    }
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

impl<'de> Deserialize<'de> for RouteSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RouteSourceVisitor;
        const EXPECTED: &str = "`auto`, `none`, or a list of {switch, to, via}";
        impl<'de> Visitor<'de> for RouteSourceVisitor {
            type Value = RouteSource;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                match text {
                    "auto" => Ok(RouteSource::Auto(Vec::new())),
                    "none" => Ok(RouteSource::None),
                    other => Err(E::custom(format!(
                        "\"{other}\" is not allowed here; write {EXPECTED}"
                    ))),
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut overrides = Vec::new();
                while let Some(item) = list.next_element()? {
                    overrides.push(item);
                }
                Ok(RouteSource::Auto(overrides))
            }
        }
        deserializer.deserialize_any(RouteSourceVisitor)
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
