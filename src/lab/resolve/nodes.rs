//! The nodes of a lab file: switches with their configuration, hosts with their addresses.

use std::collections::HashMap;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde_saphyr::{Location, Spanned};

use super::super::file::{ConfigSource, Nic, Node, Ordered};
use super::super::plan::{ConfigLayer, HostPlan, NicPlan, SwitchPlan};
use super::super::units;
use super::Resolver;

/// Most hosts of one lab: their addresses count up in 16 bits.
const HOSTS_MAX: usize = 4096;
/// Kinds of nodes that there are.
const KINDS: &str = "switch (a switch of xoff) and model (an RDMA host of xoff)";
/// Kinds of nodes that are planned.
const KINDS_LATER: [&str; 3] = ["plain", "shim", "vm"];

impl Resolver<'_> {
    pub(super) fn nodes(&mut self, nodes: &Ordered<Node>) -> (Vec<SwitchPlan>, Vec<HostPlan>) {
        let mut switches = Vec::new();
        let mut hosts: Vec<HostPlan> = Vec::new();
        for (name, node) in &nodes.0 {
            self.name(name, "node");
            if name.value == "external" {
                self.wrong(
                    name.referenced,
                    "the name \"external\" is taken",
                    "it means a device of this machine: use another one",
                );
            }
            match node.kind.value.as_str() {
                "switch" => {
                    self.only_for_hosts(node);
                    self.switches.push(name.value.clone());
                    switches.push(SwitchPlan {
                        name: name.value.clone(),
                        config: self.config(node.config.as_ref()),
                    });
                    if switches.len() == 2 {
                        let fix = "this version runs one switch per lab; several come in a later one";
                        self.wrong(name.referenced, format!("{} is a second switch", name.value), fix);
                    }
                }
                "model" => {
                    if let Some(config) = &node.config {
                        self.wrong(
                            config.referenced,
                            "a host has no `config`",
                            "only nodes of kind switch have one",
                        );
                    }
                    self.hosts.push(name.value.clone());
                    let host = self.host(&name.value, node, self.hosts.len());
                    hosts.push(host);
                }
                other => {
                    let later = KINDS_LATER.contains(&other);
                    let what = format!(
                        "{} \"{other}\"",
                        if later {
                            "this version has no kind"
                        } else {
                            "there is no kind"
                        }
                    );
                    self.wrong(node.kind.referenced, what, format!("the kinds are {KINDS}"));
                }
            }
        }
        if switches.is_empty() {
            let at = nodes
                .0
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
        self.unique_addresses(&hosts, nodes);
        (switches, hosts)
    }

    fn only_for_hosts(&mut self, node: &Node) {
        let fields = [("mac", &node.mac), ("ipv4", &node.ipv4), ("ipv6", &node.ipv6)];
        let texts = fields
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?.referenced)));
        let nic = node.nic.as_ref().map(|nic| ("nic", nic.referenced));
        for (field, at) in texts.chain(nic).collect::<Vec<_>>() {
            self.wrong(at, format!("a switch has no `{field}`"), "only hosts have one");
        }
    }

    /// A host; `number` counts from 1 and makes the default addresses, so that they stay the same as long as
    /// the order of the file does.
    fn host(&mut self, name: &str, node: &Node, number: usize) -> HostPlan {
        let number = number.min(usize::from(u16::MAX)) as u16;
        let [high, low] = number.to_be_bytes();
        // Locally administered, and "XOF" in the middle.
        let mac = [0x02, 0x58, 0x4f, 0x46, high, low];
        let ipv4 = Ipv4Addr::from(0x0a00_0000 + u32::from(number));
        let ipv6 = Ipv6Addr::new(0xfd58, 0x4f46, 0, 0, 0, 0, 0, number);
        HostPlan {
            name: name.to_owned(),
            interface: "eth0".to_owned(),
            mac: self.quantity(node.mac.as_ref(), mac, units::mac, units::MAC),
            ipv4: self.quantity(
                node.ipv4.as_ref(),
                ipv4,
                unicast_v4,
                "a unicast IPv4 address such as 10.0.0.1",
            ),
            ipv6: self.quantity(
                node.ipv6.as_ref(),
                ipv6,
                unicast_v6,
                "a unicast IPv6 address such as fd00::1",
            ),
            nic: node.nic.as_ref().map(|nic| self.nic(nic)).unwrap_or_default(),
        }
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

    fn unique_addresses(&mut self, hosts: &[HostPlan], nodes: &Ordered<Node>) {
        let mut owners: HashMap<String, &str> = HashMap::new();
        for host in hosts {
            let mac = host.mac.map(|byte| format!("{byte:02x}")).join(":");
            for address in [mac, host.ipv4.to_string(), host.ipv6.to_string()] {
                let Some(other) = owners.insert(address.clone(), &host.name) else {
                    continue;
                };
                let at = nodes.0.iter().find(|(name, _)| name.value == host.name);
                let at = at.map_or(Location::UNKNOWN, |(name, _)| name.referenced);
                self.wrong(
                    at,
                    format!("{other} and {} both have the address {address}", host.name),
                    "give each its own",
                );
            }
        }
    }

    fn config(&mut self, source: Option<&Spanned<ConfigSource>>) -> Vec<ConfigLayer> {
        let mut layers = Vec::new();
        if let Some(source) = source {
            self.layer(source, &mut layers);
        }
        layers
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
