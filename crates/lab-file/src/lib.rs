//! The fields of lab files (`*.xoff.yml`), read from YAML with their locations.
//!
//! [`parse_lab`] checks the structure of the file: the names and types of the fields, and the presence of
//! fields that every file needs. The resolver of the crate `xoff-lab` checks the values. Values that can be
//! invalid have the type [`Spanned`], so that messages can contain the line. The page `docs/lab.md` describes
//! the fields, with the same names as here. Quantities with a unit, such as `10us`, are texts.
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
fn parse_yaml<T: DeserializeOwned>(text: &str) -> Result<T, YamlError> {
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

/// Parses any YAML document into a tree with locations.
///
/// # Errors
/// Returns the error of the YAML parser, with its location, if the text is not YAML.
pub fn parse_tree(text: &str) -> Result<Spanned<YamlTree>, YamlError> {
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
    /// The name of the lab: 1 to 48 letters, digits, `-` and `_`. The first character is a letter or digit.
    /// Running labs of one user have different names.
    pub name: Spanned<String>,
    /// The nodes of the lab and the links between them.
    pub topology: TopologyFields,
    /// Load-balancing options of the whole lab. `None` means the default of each option.
    pub load_balancing: Option<LoadBalancingFields>,
    /// The transports: named sets of options for the queue pairs of jobs. A job without a transport uses the
    /// name `default`, which exists even if the file does not define it.
    #[serde(default)]
    pub transports: OrderedMap<TransportFields>,
    /// The traffic of the hosts. `None` means no traffic.
    pub workload: Option<WorkloadFields>,
    /// The steps as trees. They are parsed after the expansion of `repeat`.
    #[serde(default)]
    pub script: Vec<Spanned<YamlTree>>,
}

/// The field `topology`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologyFields {
    /// Default values for all switches. `None` means no such defaults.
    pub defaults: Option<NodeDefaults>,
    /// One template, such as a leaf-spine fabric, with its name. The template adds nodes and links to the
    /// fields `nodes` and `links`.
    pub fabric: Option<Spanned<OrderedMap<TemplateFields>>>,
    /// The switches and hosts by name. A node with the name of a template node changes this node. The list
    /// may be empty.
    #[serde(default)]
    pub nodes: OrderedMap<NodeFields>,
    /// The links, in addition to the links of the template. May be empty.
    #[serde(default)]
    pub links: Vec<Spanned<LinkFields>>,
    /// The routes of the switches. Default: `auto` with a template, `none` without a template.
    pub routes: Option<Spanned<RouteSource>>,
}

/// The field `load_balancing` of the lab.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadBalancingFields {
    /// Whether the switches get a path for each queue pair of the jobs before its first packet. Only in
    /// virtual time. Default false.
    pub announce: Option<Spanned<bool>>,
}

/// The default values of nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeDefaults {
    /// The load-balancing scheme of all switches, such as `ecmp`. The configuration of a switch and the field
    /// `load_balancing` of the switch override it. `None` sets no scheme.
    pub load_balancing: Option<Spanned<String>>,
}

/// The fields of all templates. The expansion checks which fields a template can have.
///
/// A template creates at most 4096 hosts, 4096 switches and 65 536 links. A switch has at most 1024 ports.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TemplateFields {
    /// `leaf-spine`: the number of leaf switches, 1 to 65 536. Required there, an error in other templates.
    pub leaves: Option<Spanned<u32>>,
    /// `leaf-spine` and `rail`: the number of spine switches, 0 to 65 536. Required there, an error in
    /// other templates.
    pub spines: Option<Spanned<u32>>,
    /// `leaf-spine`: the number of hosts of each leaf. `star`: the number of all hosts. 1 to 65 536. Required
    /// there, an error in other templates.
    pub hosts: Option<Spanned<u32>>,
    /// `fat-tree`: the number of ports of each switch, an even number. Required there, an error in other
    /// templates. The tree has k³/4 hosts.
    pub k: Option<Spanned<u32>>,
    /// `rail`: the number of nodes (servers), 1 to 65 536. Required there, an error in other templates.
    pub nodes: Option<Spanned<u32>>,
    /// `rail`: the number of GPUs of each node, 1 to 65 536. Each GPU is a host, and GPU *g* of each node is
    /// at leaf *g*. Required there, an error in other templates.
    pub gpus: Option<Spanned<u32>>,
    /// `dumbbell`: the number of hosts at switch `sw1`, 1 to 65 536. Required there, an error in
    /// other templates.
    pub left: Option<Spanned<u32>>,
    /// `dumbbell`: the number of hosts at switch `sw2`, 1 to 65 536. Required there, an error in
    /// other templates.
    pub right: Option<Spanned<u32>>,
    /// `leaf-spine`, `rail` and `dumbbell`: the number of links between two neighbouring switches, 1 to
    /// 65 536. Default 1. An error in other templates.
    pub uplinks: Option<Spanned<u32>>,
    /// The speed of all links, as in [`LinkFields::speed`].
    pub speed: Option<Spanned<String>>,
    /// The speed of the links between switches, as in [`LinkFields::speed`]. Default: `speed`.
    pub uplink_speed: Option<Spanned<String>>,
    /// The propagation delay of all links, as in [`LinkFields::delay`].
    pub delay: Option<Spanned<String>>,
    /// The propagation delay of the links between switches, as in [`LinkFields::delay`]. Default: `delay`.
    pub uplink_delay: Option<Spanned<String>>,
    /// The MTU of all links in bytes, as in [`LinkFields::mtu`].
    pub mtu: Option<Spanned<u32>>,
    /// The configuration of all switches. With `None`, all ports of a switch form one bridge, unless `routes`
    /// or other fields of the lab add a configuration.
    pub config: Option<Spanned<ConfigSource>>,
    /// The fields of all hosts. The fields `mac`, `ipv4` and `ipv6` are errors here, because all hosts would
    /// have the same address. The default kind is `model`.
    pub host: Option<Spanned<NodeFields>>,
}

/// The field `routes`: `auto`, `none`, or a list of routes that override `auto`.
#[derive(Clone, Debug)]
pub enum RouteSource {
    /// Each switch is an IPv4 router with computed routes along the shortest paths. The listed routes
    /// override computed routes. The list is empty for `auto`.
    Auto(Vec<Spanned<RouteOverride>>),
    /// No computed routes: the switches use bridging and ARP, or the routes of their configuration.
    None,
}

/// A route of a switch that overrides the route of `auto`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteOverride {
    /// The name of the switch that gets the route.
    pub switch: Spanned<String>,
    /// The destination: an IPv4 prefix such as `10.0.1.0/24`, or the name of a host. The route replaces the
    /// computed route for exactly this prefix.
    pub to: Spanned<String>,
    /// The next hops: ports of the switch, or names of neighbouring switches or hosts. A neighbour stands for
    /// all links to it. Several next hops have equal cost. An empty list drops the packets.
    pub via: Spanned<OneOrMore>,
}

/// The fields of a node. This type has the fields of all kinds of nodes. The resolver reports a field that
/// the kind of the node does not have.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeFields {
    /// The kind of the node: `switch`, or a host of kind `model`, `plain` or `vm`. Required, except for
    /// changes of a template node. In virtual time, all hosts must be `model`.
    pub kind: Option<Spanned<String>>,
    /// Switch: its configuration. With `None`, all ports of the switch form one bridge, unless other fields
    /// of the lab add a configuration.
    pub config: Option<Spanned<ConfigSource>>,
    /// Switch: the key of one ASIC in configuration files for several ASICs, such as `asic0`. With `None`,
    /// such a file is an error. Files for a single ASIC ignore this field.
    pub asic: Option<Spanned<String>>,
    /// Switch: the path of a lookup file of lossless profiles (SONiC's `pg_profile_lookup.ini`), relative to
    /// the lab file. `None` means no lookup file.
    pub pg_profiles: Option<Spanned<String>>,
    /// Switch: the load-balancing scheme, built in or defined in `config`. It overrides the scheme in
    /// `config`. With `None`, the scheme in `config` applies, or else the scheme in `topology.defaults`.
    pub load_balancing: Option<Spanned<String>>,
    /// Host: the unicast MAC address, unique in the lab. Default: `02:58:4f:46:` and the number of the host,
    /// counted from 1, in two bytes.
    pub mac: Option<Spanned<String>>,
    /// Host: the unicast IPv4 address, unique in the lab, with an optional prefix length of 1 to 32 (default
    /// 16). Default: 10.0.0.0 plus the number of the host. With computed routes, the default is an address of
    /// the block of its switch.
    pub ipv4: Option<Spanned<String>>,
    /// Host: the unicast IPv6 address, unique in the lab, with an optional prefix length of 1 to 128 (default
    /// 64). Default: `fd58:4f46::` plus the number of the host.
    pub ipv6: Option<Spanned<String>>,
    /// Model host: options of the NIC. `None` means the default of each option.
    pub nic: Option<Spanned<NicFields>>,
    /// Model or plain host: the next hop to other networks, at most one for IPv4 and one for IPv6. Each is
    /// another address in the network of the host. With computed routes, the default is the IPv4 address
    /// of the switch port. Otherwise, `None` means no default route, and a model host treats all addresses
    /// as on-link.
    pub gateway: Option<Spanned<OneOrMore>>,
    /// Plain host: further routes, such as `10.1.0.0/16 via 10.0.0.254` or `default via fd00::1`. `None`
    /// means no further routes.
    pub routes: Option<Spanned<Vec<Spanned<String>>>>,
    /// Plain host: commands that `/bin/sh -c` runs one after the other when the lab is up. `None` means
    /// no commands.
    pub exec: Option<Spanned<Vec<Spanned<String>>>>,
    /// Guest: the path of the kernel image, relative to the lab file. Required for nodes of kind `vm`.
    pub kernel: Option<Spanned<String>>,
    /// Guest: the path of the initial file system, relative to the lab file. `None` starts the guest
    /// without one.
    pub initrd: Option<Spanned<String>>,
    /// Guest: text that xoff adds at the end of the kernel command line. `None` adds nothing.
    pub append: Option<Spanned<String>>,
    /// Guest: the memory size as in the option `-m` of QEMU, 16M to 1T in whole MiB. A number without a unit
    /// is in MiB. Default 512 MiB.
    pub memory: Option<Spanned<String>>,
    /// Guest: the number of virtual CPUs, 1 to 255. Default 1.
    pub cpus: Option<Spanned<u32>>,
    /// Guest: the accelerator of QEMU, `kvm` or `tcg` (an emulated processor). Default: `kvm` if the machine
    /// supports it, otherwise `tcg`.
    pub accel: Option<Spanned<String>>,
    /// Guest: the emulator. A text with `/` is a path relative to the lab file, and any other text is a
    /// program in `PATH`. Default `qemu-system-x86_64`.
    pub qemu: Option<Spanned<String>>,
    /// Guest: further arguments at the end of the QEMU command line. `None` adds none.
    pub args: Option<Spanned<Vec<String>>>,
    /// Guest: the path of a file for the output of the first serial port, relative to the lab file. Its
    /// folder must exist. `None` writes no file.
    pub console: Option<Spanned<String>>,
}

/// The field `nic` of a model host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicFields {
    /// The time from the arrival of a pause frame to its effect, in nanoseconds of model time. Default: 2
    /// quanta (1024 bit times) of the link.
    pub response_ns: Option<u64>,
    /// The receive buffer of a host that receives more slowly than its link, in bytes. At least one byte. Set
    /// it together with `drain`. With `None`, the host receives at link speed.
    pub buffer_bytes: Option<u32>,
    /// The speed at which the host empties its receive buffer, 10m to 1.6t (bits per second) in whole Mb/s.
    /// Set it together with `buffer_bytes`. With `None`, the host receives at link speed.
    pub drain: Option<Spanned<String>>,
    /// The priorities, 0 to 7, for which the NIC honours PFC pauses. With an empty list, the NIC honours
    /// 802.3x PAUSE frames instead. Default: all priorities. If the switch port has no PFC, the default also
    /// includes 802.3x PAUSE.
    pub pfc: Option<Vec<Spanned<u8>>>,
}

/// An entry of `links`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkFields {
    /// The name of the link in recordings, scripts and messages, unique in the lab. The characters are those
    /// of [`LabFile::name`]. Default: both endpoints, such as `h1:eth0--sw1:Ethernet0`.
    pub name: Option<Spanned<String>>,
    /// The two ends of the link. One end is a switch port. The other end is a host, a port of another
    /// switch, or a network device of this machine. An interface belongs to one link only, and each host has
    /// one link.
    pub endpoints: Spanned<Vec<Spanned<Endpoint>>>,
    /// The link speed, 10m to 1.6t bits per second of model time, in whole Mb/s. Default: the speed of the
    /// switch port in its configuration, or else 1 Gb/s.
    pub speed: Option<Spanned<String>>,
    /// The propagation delay of each direction in model time, such as `500ns`. Default 0.
    pub delay: Option<Spanned<String>>,
    /// The MTU of both interfaces in bytes, 68 to 65 535. Default 9216.
    pub mtu: Option<Spanned<u32>>,
}

/// The field `workload`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadFields {
    /// The time during which open-loop flows send, in model time, above 0. Optional if the workload has jobs
    /// and no flows, and required otherwise.
    pub duration: Option<Spanned<String>>,
    /// The time after `duration` in which frames in flight can arrive, in model time. Default 500 ms.
    pub drain: Option<Spanned<String>>,
    /// The groups of open-loop flows, which send at a constant rate without acknowledgements. May be empty.
    #[serde(default)]
    pub flows: Vec<Spanned<FlowFields>>,
    /// The jobs, which send RDMA messages over queue pairs until they are done. May be empty.
    #[serde(default)]
    pub jobs: Vec<Spanned<JobFields>>,
}

/// An entry of `workload.flows`, a group of open-loop flows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowFields {
    /// The name of the group, which no other group has. The characters are those of [`LabFile::name`].
    pub name: Spanned<String>,
    /// The senders: one or more model hosts, all different. Each sender is one flow.
    pub from: Spanned<OneOrMore>,
    /// The receiver: a model host that is not a sender of this group.
    pub to: Spanned<String>,
    /// The rate of each sender, with preamble and interframe gap: a share of its link from 0.0001 % to 100 %,
    /// such as `40%`, or bits per second up to 1.6t, such as `250m`. Default 100 %.
    pub rate: Option<Spanned<String>>,
    /// The DSCP of the frames, 0 to 63. Default 26 for lossless flows, else 0.
    pub dscp: Option<Spanned<u8>>,
    /// Whether switches may mark the frames (ECT(0)). Default: the value of `lossless`.
    pub ecn: Option<bool>,
    /// The transmit queue of the NIC, 0 to 7. PFC pauses of the same priority stop this queue. Default:
    /// `dscp` divided by 8, rounded down.
    pub class: Option<Spanned<u8>>,
    /// Whether the run fails if frames are lost, reordered or damaged. The configuration of the switches does
    /// not depend on it. Default false.
    pub lossless: Option<bool>,
    /// The length of a full frame in bytes, without FCS. 58 bytes (IPv4) or 78 bytes (IPv6) are headers and
    /// ICRC. The rest is payload: 40 to 8192 bytes, a multiple of 4. Default 1082 (IPv4) or 1102 (IPv6).
    pub frame: Option<Spanned<u32>>,
    /// The payload of an RDMA message in bytes, 40 to 2^31. Its last frame must carry at least 40 bytes of
    /// payload. Default 2^20, rounded down to full frames where this rule requires it.
    pub message_bytes: Option<Spanned<u32>>,
    /// The IP version of the frames, 4 or 6. Default 4. Computed routes do not support 6.
    pub ip: Option<Spanned<u8>>,
    /// The TTL (IPv4) or hop limit (IPv6) of the frames, 1 to 255. Default 64.
    pub ttl: Option<Spanned<u8>>,
    /// The delay from the start of the workload, or from the `start` step of a script, to the first frame. In
    /// model time, such as `10us`. Default 0.
    pub start: Option<Spanned<String>>,
}

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
