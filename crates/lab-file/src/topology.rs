//! The field `topology` of a lab file: nodes, links, templates and routes.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::nic::{DcbxFields, EtsFields};
use super::values::deserialize_list;
use super::{ConfigSource, Endpoint, OneOrMore, OrderedMap};

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
    #[serde(default, deserialize_with = "deserialize_list")]
    pub links: Vec<Spanned<LinkFields>>,
    /// The routes of the switches. Default: `auto` with a template, `none` without a template.
    pub routes: Option<Spanned<RouteSource>>,
    /// Whether links may form a loop within one bridge or VLAN. Flooded frames circulate in such a loop for
    /// ever. Default false.
    pub allow_loop: Option<Spanned<bool>>,
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
    /// `rail`: the number of nodes of a group, 1 to 65 536. Each group has leaves of its own, one for each GPU of
    /// a node, so a leaf has at most this number of hosts. Default: all nodes are one group. An error in
    /// other templates.
    pub group_nodes: Option<Spanned<u32>>,
    /// `rail`: the number of core switches, a multiple of `spines`, 0 to 65 536. With cores, each group has
    /// `spines` spines of its own, and the cores connect the groups. Default 0: the spines connect all leaves. An
    /// error in other templates.
    pub cores: Option<Spanned<u32>>,
    /// `rail`: the number of links between a spine and each of its cores, 1 to 65 536. Default 1. An error in
    /// other templates.
    pub core_uplinks: Option<Spanned<u32>>,
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
    /// Guest: the device between the guest and its switch port, `tap` or `stream` (a socket with back-pressure, without
    /// `/dev/net/tun`). Default `tap`.
    pub attach: Option<Spanned<String>>,
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
    /// LLDP and DCBX of the host. A willing host uses the PFC configuration and the ETS recommendation of its switch
    /// port. Until then, `pfc` applies, by default no priority, and `ets`. Default: `off`.
    pub dcbx: Option<Spanned<DcbxFields>>,
    /// The traffic classes of the NIC (ETS). Default: the priorities share the link equally.
    pub ets: Option<Spanned<EtsFields>>,
}

/// An entry of `links`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkFields {
    /// The name of the link in recordings, scripts and messages, unique in the lab. The characters are those
    /// of [`LabFile::name`](super::LabFile::name). Default: both endpoints, such as
    /// `h1:eth0--sw1:Ethernet0`.
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
