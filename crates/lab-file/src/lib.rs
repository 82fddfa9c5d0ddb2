//! The fields of lab files (`*.xoff.yml`), read from YAML with their locations.
//!
//! [`parse_lab`] checks the structure of the file: names of fields, types, and required fields. The resolver of
//! the crate `xoff-lab` checks the values. Values that can be invalid are of type [`Spanned`], so that messages
//! can contain the line. The page `docs/lab.md` describes the fields, and their names are the same there and
//! here.
//!
//! This is a crate of its own because the deserializers of the fields are more code than the rest of
//! `xoff-lab`. They are compiled once, and not again when `xoff-lab` changes.
//!
//! # Examples
//!
//! Read the name and the nodes of a lab:
//!
//! ```
//! let text = "
//! name: pair
//! topology:
//!   nodes:
//!     sw1: {kind: switch}
//!     h1: {kind: model}
//!   links:
//!     - {endpoints: ['sw1:Ethernet0', 'h1:eth0'], speed: 10g}
//! ";
//! let lab = xoff_lab_file::parse_lab(text)?;
//! assert_eq!(lab.name.value, "pair");
//! let (name, node) = &lab.topology.nodes.0[1];
//! assert_eq!((name.value.as_str(), name.referenced.line()), ("h1", 6));
//! assert_eq!(node.kind.as_ref().map(|kind| kind.value.as_str()), Some("model"));
//! # Ok::<(), xoff_lab_file::YamlError>(())
//! ```
#![forbid(unsafe_code)]

mod jobs;
mod script;
mod tree;

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{self, DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

pub use jobs::{JobFields, JobFlowFields, TransportFields};
pub use script::{
    BlockFields, ConfigureFields, FaultFields, InjectFields, PauseFields, SendFields, StepFields, WaitFields,
};
pub use serde_saphyr::{Error as YamlError, Location, Spanned};
pub use tree::{TreeError, YamlTree};

/// The maximum number of parser events from YAML aliases. The limit is high, because thousands of switches
/// can share one configuration through an alias.
const ALIAS_EVENTS_MAX: usize = 8_000_000;

/// Parses a YAML document. The limit of YAML nodes grows with the length of the text, so that a lab file can
/// contain a long list of flows. YAML aliases have a separate limit.
pub fn parse_yaml<T: DeserializeOwned>(text: &str) -> Result<T, YamlError> {
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

/// Parses a lab file.
///
/// # Errors
/// Returns the error of the YAML parser, with its location, if the text is not YAML or does not have the
/// structure of a lab file.
pub fn parse_lab(text: &str) -> Result<LabFile, YamlError> {
    parse_yaml(text)
}

/// Parses a step of a script.
///
/// # Errors
/// Returns an error with its location if the tree does not have the structure of a step.
pub fn parse_step(step: &Spanned<YamlTree>) -> Result<StepFields, TreeError> {
    tree::deserialize_tree(step)
}

/// A lab file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabFile {
    pub name: Spanned<String>,
    pub topology: TopologyFields,
    pub load_balancing: Option<LoadBalancingFields>,
    #[serde(default)]
    pub transports: OrderedMap<TransportFields>,
    pub workload: Option<WorkloadFields>,
    /// The steps as trees. They are parsed after the expansion of `repeat`.
    #[serde(default)]
    pub script: Vec<Spanned<YamlTree>>,
}

/// The field `topology`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologyFields {
    pub defaults: Option<NodeDefaults>,
    /// One template, such as a leaf-spine fabric, with its name. The template adds nodes and links to the
    /// fields `nodes` and `links`.
    pub fabric: Option<Spanned<OrderedMap<TemplateFields>>>,
    #[serde(default)]
    pub nodes: OrderedMap<NodeFields>,
    #[serde(default)]
    pub links: Vec<Spanned<LinkFields>>,
    pub routes: Option<Spanned<RouteSource>>,
}

/// The field `load_balancing` of the lab.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadBalancingFields {
    pub announce: Option<Spanned<bool>>,
}

/// The default values of nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeDefaults {
    pub load_balancing: Option<Spanned<String>>,
}

/// The fields of all templates. The expansion checks which fields a template can have.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TemplateFields {
    pub leaves: Option<Spanned<u32>>,
    pub spines: Option<Spanned<u32>>,
    pub hosts: Option<Spanned<u32>>,
    pub k: Option<Spanned<u32>>,
    pub nodes: Option<Spanned<u32>>,
    pub gpus: Option<Spanned<u32>>,
    pub left: Option<Spanned<u32>>,
    pub right: Option<Spanned<u32>>,
    pub uplinks: Option<Spanned<u32>>,
    pub speed: Option<Spanned<String>>,
    pub uplink_speed: Option<Spanned<String>>,
    pub delay: Option<Spanned<String>>,
    pub uplink_delay: Option<Spanned<String>>,
    pub mtu: Option<Spanned<u32>>,
    pub config: Option<Spanned<ConfigSource>>,
    pub host: Option<Spanned<NodeFields>>,
}

/// The field `routes`: `auto`, `none`, or a list of routes that override `auto`.
#[derive(Clone, Debug)]
pub enum RouteSource {
    Auto(Vec<Spanned<RouteOverride>>),
    None,
}

/// A route of a switch that overrides the route of `auto`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteOverride {
    pub switch: Spanned<String>,
    pub to: Spanned<String>,
    pub via: Spanned<OneOrMore>,
}

/// The fields of a node. This type has the fields of all kinds of nodes. The resolver reports a field that
/// the kind of the node does not have.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeFields {
    pub kind: Option<Spanned<String>>,
    pub config: Option<Spanned<ConfigSource>>,
    pub asic: Option<Spanned<String>>,
    pub pg_profiles: Option<Spanned<String>>,
    pub load_balancing: Option<Spanned<String>>,
    pub mac: Option<Spanned<String>>,
    pub ipv4: Option<Spanned<String>>,
    pub ipv6: Option<Spanned<String>>,
    pub nic: Option<Spanned<NicFields>>,
    pub gateway: Option<Spanned<OneOrMore>>,
    pub routes: Option<Spanned<Vec<Spanned<String>>>>,
    pub exec: Option<Spanned<Vec<Spanned<String>>>>,
    pub kernel: Option<Spanned<String>>,
    pub initrd: Option<Spanned<String>>,
    pub append: Option<Spanned<String>>,
    pub memory: Option<Spanned<String>>,
    pub cpus: Option<Spanned<u32>>,
    pub accel: Option<Spanned<String>>,
    pub qemu: Option<Spanned<String>>,
    pub args: Option<Spanned<Vec<String>>>,
    pub console: Option<Spanned<String>>,
}

/// The field `nic` of a model host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicFields {
    pub response_ns: Option<u64>,
    pub buffer_bytes: Option<u32>,
    pub drain: Option<Spanned<String>>,
    pub pfc: Option<Vec<Spanned<u8>>>,
}

/// An entry of `links`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkFields {
    pub name: Option<Spanned<String>>,
    pub endpoints: Spanned<Vec<Spanned<Endpoint>>>,
    pub speed: Option<Spanned<String>>,
    pub delay: Option<Spanned<String>>,
    pub mtu: Option<Spanned<u32>>,
}

/// The field `workload`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadFields {
    pub duration: Option<Spanned<String>>,
    pub drain: Option<Spanned<String>>,
    #[serde(default)]
    pub flows: Vec<Spanned<FlowFields>>,
    #[serde(default)]
    pub jobs: Vec<Spanned<JobFields>>,
}

/// An entry of `workload.flows`, a group of open-loop flows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowFields {
    pub name: Spanned<String>,
    pub from: Spanned<OneOrMore>,
    pub to: Spanned<String>,
    pub rate: Option<Spanned<String>>,
    pub dscp: Option<Spanned<u8>>,
    pub ecn: Option<bool>,
    pub class: Option<Spanned<u8>>,
    pub lossless: Option<bool>,
    pub frame: Option<Spanned<u32>>,
    pub message_bytes: Option<Spanned<u32>>,
    pub ip: Option<Spanned<u8>>,
    pub ttl: Option<Spanned<u8>>,
    pub start: Option<Spanned<String>>,
}

/// One end of a link: an interface of a node, such as `"h1:eth0"`, or an existing network device, such as
/// `external: eth1` or `"external:eth1"`.
#[derive(Clone, Debug)]
pub enum Endpoint {
    Node { node: String, interface: String },
    External { device: String },
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
    Path(String),
    Inline(serde_json::Map<String, Value>),
    Preset(String),
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
