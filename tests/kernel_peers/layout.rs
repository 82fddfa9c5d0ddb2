//! Topologies of two hosts: the switches between the hosts, the configurations and the addresses.
//!
//! The kernel may have no 802.1Q devices. Hosts therefore use access ports, and trunks are cables
//! between two switches:
//!
//! ```text
//! access   h0 - Ethernet0 [switch] Ethernet4 - h1
//! trunk    h0 - Ethernet0 [first] Ethernet8 = t0 ==== t1 = Ethernet0 [second] Ethernet4 - h1      bridged
//!          h0 - Ethernet0 [first] Ethernet8 = t0 ==== t1 = Ethernet0 [second], a router on a stick
//!          h1 - Ethernet4 [first]
//! ```

use libtest_mimic::Failed;
use serde_json::{Value, json};

use crate::host::{Host, HostAddress, add_trunk};
use crate::switch::SwitchSpec;

/// Forwarding of packets between the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forwarding {
    Bridged,
    Routed,
}

/// VLAN tags of the frames between the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkTagging {
    /// All frames are untagged.
    Access,
    /// Frames are tagged between two switches.
    Trunk,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) forwarding: Forwarding,
    pub(crate) tagging: LinkTagging,
    pub(crate) mtu: u32,
}

/// Addresses of the router, by host.
pub(crate) const ROUTER_ADDRESSES: [[&str; 2]; 2] =
    [["10.0.10.1", "2001:db8:10::1"], ["10.0.20.1", "2001:db8:20::1"]];

impl Layout {
    /// Returns the specifications of the switches in their start order.
    pub(crate) fn switch_specs(&self) -> Vec<SwitchSpec> {
        let Layout {
            forwarding, tagging, ..
        } = *self;
        match (tagging, forwarding) {
            (LinkTagging::Access, Forwarding::Bridged) => vec![self.switch_spec(
                &[("Ethernet0", "v0"), ("Ethernet4", "v1")],
                &[(10, "Ethernet0", "untagged"), (10, "Ethernet4", "untagged")],
                json!({}),
            )],
            (LinkTagging::Access, Forwarding::Routed) => vec![self.switch_spec(
                &[("Ethernet0", "v0"), ("Ethernet4", "v1")],
                &[],
                json!({"INTERFACE": interface_table(["Ethernet0", "Ethernet4"])}),
            )],
            (LinkTagging::Trunk, Forwarding::Bridged) => vec![
                self.switch_spec(
                    &[("Ethernet0", "v0"), ("Ethernet8", "t0")],
                    &[(10, "Ethernet0", "untagged"), (10, "Ethernet8", "tagged")],
                    json!({}),
                ),
                self.switch_spec(
                    &[("Ethernet0", "t1"), ("Ethernet4", "v1")],
                    &[(10, "Ethernet0", "tagged"), (10, "Ethernet4", "untagged")],
                    json!({}),
                ),
            ],
            (LinkTagging::Trunk, Forwarding::Routed) => vec![
                self.switch_spec(
                    &[("Ethernet0", "v0"), ("Ethernet4", "v1"), ("Ethernet8", "t0")],
                    &[
                        (10, "Ethernet0", "untagged"),
                        (20, "Ethernet4", "untagged"),
                        (10, "Ethernet8", "tagged"),
                        (20, "Ethernet8", "tagged"),
                    ],
                    json!({}),
                ),
                self.switch_spec(
                    &[("Ethernet0", "t1")],
                    &[(10, "Ethernet0", "tagged"), (20, "Ethernet0", "tagged")],
                    json!({"VLAN_INTERFACE": interface_table(["Vlan10", "Vlan20"])}),
                ),
            ],
        }
    }

    fn switch_spec(
        &self,
        ports: &[(&'static str, &'static str)],
        members: &[(u16, &str, &str)],
        mut config: Value,
    ) -> SwitchSpec {
        let mtu = self.mtu.to_string();
        for (port, _) in ports {
            config["PORT"][port] = json!({"mtu": mtu, "speed": "1000"});
        }
        for (vlan, port, mode) in members {
            config["VLAN"][format!("Vlan{vlan}")] = json!({"mtu": mtu});
            config["VLAN_MEMBER"][format!("Vlan{vlan}|{port}")] = json!({"tagging_mode": mode});
        }
        SwitchSpec {
            config,
            ports: ports.to_vec(),
        }
    }

    /// Creates the hosts with their cables, and the trunk.
    pub(crate) fn hosts(&self, reachable: bool) -> Result<[Host; 2], Failed> {
        if self.tagging == LinkTagging::Trunk {
            add_trunk("t0", "t1", self.mtu)?;
        }
        let host = |n: usize, name| Host::new(name, self.mtu, &self.addresses(n)?, reachable);
        Ok([host(0, "v0")?, host(1, "v1")?])
    }

    /// Returns the addresses of host `n`. Bridged hosts are in one subnet.
    pub(crate) fn addresses(&self, n: usize) -> Result<[HostAddress; 2], Failed> {
        let (net, id) = match self.forwarding {
            Forwarding::Bridged => (10, 2 + n),
            Forwarding::Routed => (10 + 10 * n, 2),
        };
        let router = |family: usize| match self.forwarding {
            Forwarding::Bridged => Ok(None),
            Forwarding::Routed => ROUTER_ADDRESSES[n][family].parse().map(Some),
        };
        let v4 = HostAddress {
            address: format!("10.0.{net}.{id}/24").parse()?,
            router: router(0)?,
        };
        let v6 = HostAddress {
            address: format!("2001:db8:{net}::{id}/64").parse()?,
            router: router(1)?,
        };
        Ok([v4, v6])
    }
}

/// Returns a table of router interfaces with the addresses of [`ROUTER_ADDRESSES`].
fn interface_table(names: [&str; 2]) -> Value {
    let mut table = json!({});
    for (name, [v4, v6]) in names.into_iter().zip(ROUTER_ADDRESSES) {
        table[name] = json!({});
        table[format!("{name}|{v4}/24")] = json!({});
        table[format!("{name}|{v6}/64")] = json!({});
    }
    table
}
