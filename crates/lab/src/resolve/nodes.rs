//! The nodes of a lab file: switches with their configuration, hosts with their addresses.

use std::collections::HashMap;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde_saphyr::{Location, Spanned};

use super::super::file::{ConfigSource, Nic, Node};
use super::super::plan::{ConfigLayer, HostKind, HostPlan, NicPlan, PgProfilesPlan, SwitchPlan, TimeMode};
use super::super::units;
use super::{NodeIndex, Resolver};

/// Most hosts of one lab: their addresses count up in 16 bits.
pub(crate) const HOSTS_MAX: usize = 4096;
/// Kinds of nodes that there are.
const KINDS: &str = "switch (a switch of xoff), model (an RDMA host of xoff), plain (a host of this machine's kernel) \
                     and vm (a guest in QEMU)";
/// Kinds of nodes that are planned.
const KINDS_LATER: [&str; 1] = ["shim"];
/// Prefix of addresses that have none in the file: the default ones count up in 16 bits.
const IPV4_PREFIX: u8 = 16;
const IPV6_PREFIX: u8 = 64;

impl Resolver<'_> {
    pub(super) fn nodes(&mut self, nodes: &[(Spanned<String>, Node)]) -> (Vec<SwitchPlan>, Vec<HostPlan>) {
        let mut switches = Vec::new();
        let mut hosts: Vec<HostPlan> = Vec::new();
        for (name, node) in nodes {
            self.name(name, "node");
            if name.value == "external" {
                self.wrong(
                    name.referenced,
                    "the name \"external\" is taken",
                    "it means a device of this machine: use another one",
                );
            }
            let Some(kind) = &node.kind else {
                let what = format!("the node {} has no `kind`", name.value);
                self.wrong(name.referenced, what, format!("the kinds are {KINDS}"));
                continue;
            };
            match kind.value.as_str() {
                kind @ "switch" => {
                    self.only_fields_of(kind, node);
                    self.nodes
                        .insert(name.value.clone(), NodeIndex::Switch(switches.len()));
                    self.switches.push(name.value.clone());
                    switches.push(SwitchPlan {
                        name: name.value.clone(),
                        config: self.config(node.config.as_ref()),
                        asic: node.asic.as_ref().map(|asic| asic.value.clone()),
                        pg_profiles: self.pg_profiles(node.pg_profiles.as_ref()),
                    });
                }
                kind @ ("model" | "plain" | "vm") => {
                    self.only_fields_of(kind, node);
                    self.nodes
                        .insert(name.value.clone(), NodeIndex::Host(hosts.len()));
                    self.hosts.push(name.value.clone());
                    let host = self.host(name, node, kind, self.hosts.len());
                    if host.is_model() {
                        self.models.push(name.value.clone());
                    }
                    hosts.push(host);
                }
                other => self.no_kind(other, kind.referenced),
            }
        }
        self.counts(&switches, &hosts, nodes);
        (switches, hosts)
    }

    fn no_kind(&mut self, kind: &str, at: Location) {
        let what = match KINDS_LATER.contains(&kind) {
            true => format!("this version has no kind \"{kind}\""),
            false => format!("there is no kind \"{kind}\""),
        };
        self.wrong(at, what, format!("the kinds are {KINDS}"));
    }

    fn counts(&mut self, switches: &[SwitchPlan], hosts: &[HostPlan], nodes: &[(Spanned<String>, Node)]) {
        if switches.is_empty() {
            let at = nodes
                .first()
                .map_or(Location::UNKNOWN, |(name, _)| name.referenced);
            self.wrong(
                at,
                "the lab has no switch",
                "add a node such as `sw1: {kind: switch, config: {preset: roce-lossless}}`",
            );
        }
        if hosts.len() > HOSTS_MAX {
            self.wrong(
                Location::UNKNOWN,
                format!("the lab has {} hosts", hosts.len()),
                format!("at most {HOSTS_MAX} are possible"),
            );
        }
    }

    /// A host; `number` counts from 1 and makes the default addresses, so that they stay the same as long as
    /// the order of the file does.
    fn host(&mut self, name: &Spanned<String>, node: &Node, kind: &str, number: usize) -> HostPlan {
        let number = number.min(usize::from(u16::MAX)) as u16;
        let [high, low] = number.to_be_bytes();
        // Locally administered, and "XOF" in the middle.
        let mac = [0x02, 0x58, 0x4f, 0x46, high, low];
        let ipv4 = Ipv4Addr::from(0x0a00_0000 + u32::from(number));
        let ipv6 = Ipv6Addr::new(0xfd58, 0x4f46, 0, 0, 0, 0, 0, number);
        let (ipv4, ipv4_prefix) = self.quantity(
            node.ipv4.as_ref(),
            (ipv4, IPV4_PREFIX),
            |text| with_prefix(text, 32, IPV4_PREFIX, unicast_v4),
            "a unicast IPv4 address and the length of its prefix, such as 10.0.0.1/16",
        );
        let (ipv6, ipv6_prefix) = self.quantity(
            node.ipv6.as_ref(),
            (ipv6, IPV6_PREFIX),
            |text| with_prefix(text, 128, IPV6_PREFIX, unicast_v6),
            "a unicast IPv6 address and the length of its prefix, such as fd00::1/64",
        );
        let mut host = HostPlan {
            name: name.value.clone(),
            interface: "eth0".to_owned(),
            mac: self.quantity(node.mac.as_ref(), mac, units::mac, units::MAC),
            ipv4,
            ipv6,
            ipv4_prefix,
            ipv6_prefix,
            kind: HostKind::Model,
            gateways: Vec::new(),
            gateway_mac: None,
            nic: node.nic.as_ref().map(|nic| self.nic(nic)).unwrap_or_default(),
        };
        if self.time == TimeMode::Virtual && kind != "model" {
            let fix = "in virtual time all hosts are of kind model: leave out --virtual, or change the kind";
            self.wrong(name.referenced, format!("{} is of kind {kind}", name.value), fix);
        }
        match kind {
            "plain" => host.kind = HostKind::Plain(self.plain(&host, node)),
            "vm" => host.kind = HostKind::Vm(self.vm(name, node)),
            _ => {
                let defaults = self.default_routes(&host, node);
                host.gateways = defaults.iter().map(|route| route.gateway).collect();
            }
        }
        host
    }

    fn nic(&mut self, nic: &Spanned<Nic>) -> NicPlan {
        let at = nic.referenced;
        let nic = &nic.value;
        let drain = nic
            .drain
            .as_ref()
            .map(|text| u64::from(self.quantity(Some(text), 0, units::speed_mbps, units::SPEED)) * 1_000_000);
        if nic.buffer_bytes.is_some() != drain.is_some() {
            let fix = "a slow receiver needs both: the size of its buffer and the speed at which it empties";
            self.wrong(at, "`buffer_bytes` and `drain` go together", fix);
        }
        if nic.buffer_bytes == Some(0) {
            self.wrong(
                at,
                "`buffer_bytes` is 0",
                "write 1 or more, or leave it out for a receiver that keeps up",
            );
        }
        let pfc_honoured = nic.pfc.as_ref().map(|priorities| {
            let mut bits = 0_u8;
            for priority in priorities {
                bits |= 1 << self.number(Some(priority), 0, 0..=7);
            }
            bits
        });
        NicPlan {
            response_ns: nic.response_ns,
            buffer_bytes: nic.buffer_bytes,
            drain_bps: drain,
            pfc_honoured,
        }
    }

    pub(super) fn unique_addresses(&mut self, hosts: &[HostPlan], nodes: &[(Spanned<String>, Node)]) {
        let mut owners: HashMap<String, &str> = HashMap::new();
        for host in hosts {
            let mac = host.mac.map(|byte| format!("{byte:02x}")).join(":");
            for address in [mac, host.ipv4.to_string(), host.ipv6.to_string()] {
                let Some(other) = owners.insert(address.clone(), &host.name) else {
                    continue;
                };
                let at = nodes.iter().find(|(name, _)| name.value == host.name);
                let at = at.map_or(Location::UNKNOWN, |(name, _)| name.referenced);
                self.wrong(
                    at,
                    format!("{other} and {} both have the address {address}", host.name),
                    "give each its own",
                );
            }
        }
    }

    pub(super) fn config(&mut self, source: Option<&Spanned<ConfigSource>>) -> Vec<ConfigLayer> {
        let mut layers = Vec::new();
        if let Some(source) = source {
            self.layer(source, &mut layers);
        }
        layers
    }

    /// The lookup file of a switch; a wrong row is refused with the switch's configuration.
    fn pg_profiles(&mut self, path: Option<&Spanned<String>>) -> Option<PgProfilesPlan> {
        let path = path?;
        let file = self.path(&path.value);
        match fs::read_to_string(&file) {
            Ok(text) => Some(PgProfilesPlan {
                source: file.display().to_string(),
                text,
            }),
            Err(error) => {
                self.wrong(
                    path.referenced,
                    format!("cannot read the lookup file {}: {error}", file.display()),
                    "paths are relative to the lab file",
                );
                None
            }
        }
    }

    fn layer(&mut self, source: &Spanned<ConfigSource>, layers: &mut Vec<ConfigLayer>) {
        let at = source.referenced;
        match &source.value {
            ConfigSource::Layers(list) => list.iter().for_each(|layer| self.layer(layer, layers)),
            ConfigSource::Preset(name) => {
                layers.push(ConfigLayer::Preset {
                    name: name.clone(),
                    source: self.source(at),
                });
            }
            ConfigSource::Inline(tables) => {
                let text = serde_json::Value::Object(tables.clone()).to_string();
                layers.push(ConfigLayer::Text {
                    source: self.source(at),
                    text,
                });
            }
            ConfigSource::Path(path) => {
                let path = self.path(path);
                match fs::read_to_string(&path) {
                    Ok(text) => layers.push(ConfigLayer::Text {
                        source: path.display().to_string(),
                        text,
                    }),
                    Err(error) => self.wrong(
                        at,
                        format!("cannot read the configuration {}: {error}", path.display()),
                        "paths are relative to the lab file",
                    ),
                }
            }
        }
    }
}

/// An address with or without the length of a prefix.
fn with_prefix<T>(text: &str, longest: u8, default: u8, address: fn(&str) -> Option<T>) -> Option<(T, u8)> {
    let Some((text, prefix)) = text.split_once('/') else {
        return Some((address(text)?, default));
    };
    let prefix = prefix
        .parse()
        .ok()
        .filter(|prefix| (1..=longest).contains(prefix))?;
    Some((address(text)?, prefix))
}

fn unicast_v4(text: &str) -> Option<Ipv4Addr> {
    let address: Ipv4Addr = text.parse().ok()?;
    let special =
        address.is_unspecified() || address.is_multicast() || address.is_broadcast() || address.is_loopback();
    (!special).then_some(address)
}

fn unicast_v6(text: &str) -> Option<Ipv6Addr> {
    let address: Ipv6Addr = text.parse().ok()?;
    (!address.is_unspecified() && !address.is_multicast() && !address.is_loopback()).then_some(address)
}
