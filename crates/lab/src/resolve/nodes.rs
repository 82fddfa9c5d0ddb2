//! Resolves the nodes of a lab file: the configurations of switches and the addresses of hosts.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde_saphyr::{Location, Spanned};

use super::super::plan::{
    ConfigLayer, HOSTS_MAX, HOSTS_MAX_REAL_TIME, HostKind, HostPlan, PgProfilesPlan, SwitchPlan, TimeMode,
};
use super::super::units;
use super::{LabResolver, NodeIndex};
use xoff_lab_file::{ConfigSource, NodeFields};
use xoff_telemetry::{InputLimit, read_input_text};
use xoff_wire::DisplayMac;

/// The kinds of nodes, for messages.
const NODE_KINDS: &str = "switch (a switch of xoff), model (an RDMA host of xoff), plain (a host of this machine's kernel) \
                     and vm (a guest in QEMU)";
/// Kinds of nodes that a later version may have.
const PLANNED_NODE_KINDS: [&str; 1] = ["shim"];
/// Prefix length of an IPv4 address without a prefix length in the lab file.
const IPV4_PREFIX: u8 = 16;
/// Prefix length of an IPv6 address without a prefix length in the lab file.
const IPV6_PREFIX: u8 = 64;
/// Largest number of configuration layers in one `config` field. All layers of a switch are in memory at the same time.
const CONFIG_LAYERS_MAX: usize = 100;

impl LabResolver<'_> {
    /// Resolves all nodes and records their names and indices.
    pub(super) fn resolve_nodes(
        &mut self,
        nodes: &[(Spanned<String>, NodeFields)],
    ) -> (Vec<SwitchPlan>, Vec<HostPlan>) {
        let mut switches = Vec::new();
        let mut hosts: Vec<HostPlan> = Vec::new();
        for (name, node) in nodes {
            self.check_name(name, "node");
            if name.value == "external" {
                self.report_problem(
                    name.referenced,
                    "the name \"external\" is taken",
                    "it means a device of this machine: use another one",
                );
            }
            let Some(kind) = &node.kind else {
                let what = format!("the node {} has no `kind`", name.value);
                self.report_problem(name.referenced, what, format!("the kinds are {NODE_KINDS}"));
                self.left_out.keys.insert(name.value.clone());
                continue;
            };
            match kind.value.as_str() {
                kind @ "switch" => {
                    self.check_node_fields(kind, node);
                    self.nodes
                        .insert(name.value.clone(), NodeIndex::Switch(switches.len()));
                    self.switches.push(name.value.clone());
                    switches.push(SwitchPlan {
                        name: name.value.clone(),
                        config: self.config_layers(node.config.as_ref()),
                        asic: node.asic.as_ref().map(|asic| asic.value.clone()),
                        pg_profiles: self.read_pg_profiles(node.pg_profiles.as_ref()),
                    });
                }
                kind @ ("model" | "plain" | "vm") => {
                    self.check_node_fields(kind, node);
                    self.nodes
                        .insert(name.value.clone(), NodeIndex::Host(hosts.len()));
                    self.hosts.push(name.value.clone());
                    let host = self.resolve_host(name, node, kind, self.hosts.len());
                    self.is_model.push(host.is_model());
                    if host.is_model() {
                        self.models.push(name.value.clone());
                    }
                    hosts.push(host);
                }
                other => {
                    self.report_unknown_kind(other, kind.referenced);
                    self.left_out.keys.insert(name.value.clone());
                }
            }
        }
        self.check_node_counts(&switches, &hosts, nodes);
        (switches, hosts)
    }

    /// Reports a node kind that this version does not have.
    fn report_unknown_kind(&mut self, kind: &str, location: Location) {
        let what = match PLANNED_NODE_KINDS.contains(&kind) {
            true => format!("this version has no kind \"{kind}\""),
            false => format!("there is no kind \"{kind}\""),
        };
        let fix = match xoff_units::nearest_name(kind, ["switch", "model", "plain", "vm"]) {
            Some(nearest) => format!("did you mean `{nearest}`? (the kinds are {NODE_KINDS})"),
            None => format!("the kinds are {NODE_KINDS}"),
        };
        self.report_problem(location, what, fix);
    }

    /// Reports a lab without a switch and a lab with too many hosts.
    fn check_node_counts(
        &mut self,
        switches: &[SwitchPlan],
        hosts: &[HostPlan],
        nodes: &[(Spanned<String>, NodeFields)],
    ) {
        let lost = |field| self.left_out.fields.contains(field);
        let has_all_nodes =
            self.left_out.keys.is_empty() && !["nodes", "fabric", "kind"].into_iter().any(lost);
        if switches.is_empty() && has_all_nodes {
            let location = nodes
                .first()
                .map_or(Location::UNKNOWN, |(name, _)| name.referenced);
            self.report_problem(
                location,
                "the lab has no switch",
                "add a node such as `sw1: {kind: switch, config: {preset: roce-lossless}}`",
            );
        }
        let (hosts_max, fix) = match self.time {
            TimeMode::Virtual => (HOSTS_MAX, ""),
            TimeMode::RealTime => (HOSTS_MAX_REAL_TIME, ", or run the lab with `--virtual`"),
        };
        if hosts.len() > hosts_max {
            self.report_problem(
                Location::UNKNOWN,
                format!("the lab has {} hosts", hosts.len()),
                format!("at most {hosts_max} are possible: remove hosts{fix}"),
            );
        }
    }

    /// Resolves a host. `number` is the position of the host in the file, from 1.
    ///
    /// The default MAC, IPv4 and IPv6 addresses of a host contain `number`. These addresses depend only on
    /// the order of the hosts in the file.
    fn resolve_host(
        &mut self,
        name: &Spanned<String>,
        node: &NodeFields,
        kind: &str,
        number: usize,
    ) -> HostPlan {
        let number = number.min(HOSTS_MAX) as u32;
        // A locally administered address. Bytes 1 to 3 are "XOF" in ASCII, or "XOG" from host 65 536 on.
        let [_, third, high, low] = (0x0046_0000 + number).to_be_bytes();
        let mac = [0x02, 0x58, 0x4f, third, high, low];
        let ipv4 = Ipv4Addr::from(0x0a00_0000 + number);
        let [upper, lower] = [(number >> 16) as u16, number as u16];
        let ipv6 = Ipv6Addr::new(0xfd58, 0x4f46, 0, 0, 0, 0, upper, lower);
        let (ipv4, ipv4_prefix) = self.parse_quantity(
            node.ipv4.as_ref(),
            (ipv4, IPV4_PREFIX),
            |text| parse_address_and_prefix(text, 32, IPV4_PREFIX, parse_unicast_ipv4),
            "a unicast IPv4 address and the length of its prefix, such as 10.0.0.1/16",
        );
        let (ipv6, ipv6_prefix) = self.parse_quantity(
            node.ipv6.as_ref(),
            (ipv6, IPV6_PREFIX),
            |text| parse_address_and_prefix(text, 128, IPV6_PREFIX, parse_unicast_ipv6),
            "a unicast IPv6 address and the length of its prefix, such as fd00::1/64",
        );
        let mut host = HostPlan {
            name: name.value.clone(),
            interface: "eth0".to_owned(),
            mac: self.parse_quantity(node.mac.as_ref(), mac, units::parse_mac, units::MAC),
            ipv4,
            ipv6,
            ipv4_prefix,
            ipv6_prefix,
            kind: HostKind::Model,
            gateways: Vec::new(),
            gateway_mac: None,
            nic: node
                .nic
                .as_ref()
                .map(|nic| self.resolve_nic(nic))
                .unwrap_or_default(),
        };
        if self.time == TimeMode::Virtual && kind != "model" {
            let fix =
                "in virtual time all hosts are of kind model: run the lab in real time, or change the kind";
            self.report_problem(name.referenced, format!("{} is of kind {kind}", name.value), fix);
        }
        match kind {
            "plain" => host.kind = HostKind::Plain(self.resolve_plain_host(&host, node)),
            "vm" => host.kind = HostKind::Vm(self.resolve_vm(name, node)),
            _ => {
                let defaults = self.resolve_default_routes(&host, node);
                host.gateways = defaults.iter().map(|route| route.gateway).collect();
            }
        }
        host
    }

    /// Reports two hosts with the same MAC, IPv4 or IPv6 address.
    pub(super) fn check_unique_addresses(
        &mut self,
        hosts: &[HostPlan],
        nodes: &[(Spanned<String>, NodeFields)],
    ) {
        let mut owners: HashMap<String, &str> = HashMap::new();
        let locations = node_locations(nodes);
        for host in hosts {
            let mac = DisplayMac(host.mac).to_string();
            for address in [mac, host.ipv4.to_string(), host.ipv6.to_string()] {
                let Some(other) = owners.insert(address.clone(), &host.name) else {
                    continue;
                };
                let location = locations.get(host.name.as_str()).copied();
                self.report_problem(
                    location.unwrap_or(Location::UNKNOWN),
                    format!("{other} and {} both have the address {address}", host.name),
                    "give each its own",
                );
            }
        }
    }

    /// Returns the configuration layers of a switch, in the order of the lab file.
    pub(super) fn config_layers(&mut self, source: Option<&Spanned<ConfigSource>>) -> Vec<ConfigLayer> {
        let mut layers = Vec::new();
        if let Some(source) = source {
            self.add_config_layers(source, &mut layers);
            if layers.len() > CONFIG_LAYERS_MAX {
                self.report_problem(
                    source.referenced,
                    format!("the configuration has more than {CONFIG_LAYERS_MAX} layers"),
                    "merge layers into one file",
                );
            }
        }
        layers
    }

    /// Reads the `pg_profile_lookup.ini` file of a switch.
    ///
    /// The rows of the file are checked later, with the switch configuration.
    fn read_pg_profiles(&mut self, path: Option<&Spanned<String>>) -> Option<PgProfilesPlan> {
        let path = path?;
        let file = self.resolve_path(&path.value);
        match read_input_text(&file, InputLimit::LOOKUP_FILE) {
            Ok(text) => Some(PgProfilesPlan {
                source: file.display().to_string(),
                text,
            }),
            Err(error) => {
                self.report_problem(
                    path.referenced,
                    format!("cannot read the lookup file {}: {error}", file.display()),
                    "paths are relative to the lab file",
                );
                None
            }
        }
    }

    /// Reports a preset that does not exist.
    fn check_preset_name(&mut self, name: &str, location: Location) {
        let names = xoff_config::PRESETS.iter().map(|(name, _)| *name);
        if !names.clone().any(|known| known == name) {
            let fix = self.suggest(name, names, "presets");
            self.report_problem(location, format!("there is no preset \"{name}\""), fix);
        }
    }

    /// Adds the layers of a `config` field to `layers`. For a list, adds the layers of all elements.
    fn add_config_layers(&mut self, source: &Spanned<ConfigSource>, layers: &mut Vec<ConfigLayer>) {
        // Each further layer would be read although the lab is refused.
        if layers.len() > CONFIG_LAYERS_MAX {
            return;
        }
        let location = source.referenced;
        match &source.value {
            ConfigSource::Layers(list) => list
                .iter()
                .for_each(|layer| self.add_config_layers(layer, layers)),
            ConfigSource::Preset(name) => {
                self.check_preset_name(name, location);
                layers.push(ConfigLayer::Preset {
                    name: name.clone(),
                    source: self.file_and_line(location),
                });
            }
            ConfigSource::Inline(tables) => {
                let text = serde_json::Value::Object(tables.clone()).to_string();
                layers.push(ConfigLayer::Text {
                    source: self.file_and_line(location),
                    text,
                });
            }
            ConfigSource::Path(path) => {
                let path = self.resolve_path(path);
                match read_input_text(&path, InputLimit::CONFIGURATION) {
                    Ok(text) => layers.push(ConfigLayer::Text {
                        source: path.display().to_string(),
                        text,
                    }),
                    Err(error) => self.report_problem(
                        location,
                        format!("cannot read the configuration {}: {error}", path.display()),
                        "paths are relative to the lab file",
                    ),
                }
            }
        }
    }
}

/// Returns the location of each node by its name.
pub(super) fn node_locations(nodes: &[(Spanned<String>, NodeFields)]) -> HashMap<&str, Location> {
    nodes
        .iter()
        .map(|(name, _)| (name.value.as_str(), name.referenced))
        .collect()
}

/// Parses an address with an optional prefix length, such as `10.0.0.1` or `10.0.0.1/16`.
///
/// `parse_address` parses the address without the prefix length. A missing prefix length has the value
/// `default`. The largest valid prefix length is `longest`.
fn parse_address_and_prefix<T>(
    text: &str,
    longest: u8,
    default: u8,
    parse_address: fn(&str) -> Option<T>,
) -> Option<(T, u8)> {
    let Some((text, prefix)) = text.split_once('/') else {
        return Some((parse_address(text)?, default));
    };
    let prefix = prefix
        .parse()
        .ok()
        .filter(|prefix| (1..=longest).contains(prefix))?;
    Some((parse_address(text)?, prefix))
}

fn parse_unicast_ipv4(text: &str) -> Option<Ipv4Addr> {
    let address: Ipv4Addr = text.parse().ok()?;
    let special =
        address.is_unspecified() || address.is_multicast() || address.is_broadcast() || address.is_loopback();
    (!special).then_some(address)
}

fn parse_unicast_ipv6(text: &str) -> Option<Ipv6Addr> {
    let address: Ipv6Addr = text.parse().ok()?;
    (!address.is_unspecified() && !address.is_multicast() && !address.is_loopback()).then_some(address)
}
