//! How two hosts are connected: the switches between them, their configurations, and the hosts' addresses.
//!
//! This kernel may have no 802.1Q devices, so hosts sit on access ports, and trunks are cables between two switches:
//!
//! ```text
//! access   h0 - Ethernet0 [switch] Ethernet4 - h1
//! trunk    h0 - Ethernet0 [first] Ethernet8 = t0 ==== t1 = Ethernet0 [second] Ethernet4 - h1      bridged
//!          h0 - Ethernet0 [first] Ethernet8 = t0 ==== t1 = Ethernet0 [second], a router on a stick
//!          h1 - Ethernet4 [first]
//! ```

use libtest_mimic::Failed;
use serde_json::{Value, json};

use crate::host::{Host, Place, trunk};
use crate::switch::Plan;

/// How packets get from one host to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Bridged,
    Routed,
}

/// What the frames between the hosts are like on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    /// Untagged all the way.
    Access,
    /// Tagged between two switches.
    Trunk,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) way: Way,
    pub(crate) edge: Edge,
    pub(crate) mtu: u32,
}

/// Addresses of the router, by host.
pub(crate) const ROUTER: [[&str; 2]; 2] = [["10.0.10.1", "2001:db8:10::1"], ["10.0.20.1", "2001:db8:20::1"]];

impl Layout {
    /// What the switches are told, in the order they are to be started.
    pub(crate) fn plans(&self) -> Vec<Plan> {
        let Layout { way, edge, .. } = *self;
        match (edge, way) {
            (Edge::Access, Way::Bridged) => vec![self.plan(
                &[("Ethernet0", "v0"), ("Ethernet4", "v1")],
                &[(10, "Ethernet0", "untagged"), (10, "Ethernet4", "untagged")],
                json!({}),
            )],
            (Edge::Access, Way::Routed) => vec![self.plan(
                &[("Ethernet0", "v0"), ("Ethernet4", "v1")],
                &[],
                json!({"INTERFACE": interfaces(["Ethernet0", "Ethernet4"])}),
            )],
            (Edge::Trunk, Way::Bridged) => vec![
                self.plan(
                    &[("Ethernet0", "v0"), ("Ethernet8", "t0")],
                    &[(10, "Ethernet0", "untagged"), (10, "Ethernet8", "tagged")],
                    json!({}),
                ),
                self.plan(
                    &[("Ethernet0", "t1"), ("Ethernet4", "v1")],
                    &[(10, "Ethernet0", "tagged"), (10, "Ethernet4", "untagged")],
                    json!({}),
                ),
            ],
            (Edge::Trunk, Way::Routed) => vec![
                self.plan(
                    &[("Ethernet0", "v0"), ("Ethernet4", "v1"), ("Ethernet8", "t0")],
                    &[
                        (10, "Ethernet0", "untagged"),
                        (20, "Ethernet4", "untagged"),
                        (10, "Ethernet8", "tagged"),
                        (20, "Ethernet8", "tagged"),
                    ],
                    json!({}),
                ),
                self.plan(
                    &[("Ethernet0", "t1")],
                    &[(10, "Ethernet0", "tagged"), (20, "Ethernet0", "tagged")],
                    json!({"VLAN_INTERFACE": interfaces(["Vlan10", "Vlan20"])}),
                ),
            ],
        }
    }

    fn plan(
        &self,
        ports: &[(&'static str, &'static str)],
        members: &[(u16, &str, &str)],
        mut config: Value,
    ) -> Plan {
        let mtu = self.mtu.to_string();
        for (port, _) in ports {
            config["PORT"][port] = json!({"mtu": mtu, "speed": "1000"});
        }
        for (vlan, port, mode) in members {
            config["VLAN"][format!("Vlan{vlan}")] = json!({"mtu": mtu});
            config["VLAN_MEMBER"][format!("Vlan{vlan}|{port}")] = json!({"tagging_mode": mode});
        }
        Plan {
            config,
            ports: ports.to_vec(),
        }
    }

    /// The hosts with their cables, and the trunk.
    pub(crate) fn hosts(&self, reachable: bool) -> Result<[Host; 2], Failed> {
        if self.edge == Edge::Trunk {
            trunk("t0", "t1", self.mtu)?;
        }
        let host = |n: usize, name| Host::new(name, self.mtu, &self.places(n)?, reachable);
        Ok([host(0, "v0")?, host(1, "v1")?])
    }

    /// The addresses of host `n`: bridged ones are neighbours.
    pub(crate) fn places(&self, n: usize) -> Result<[Place; 2], Failed> {
        let (net, id) = match self.way {
            Way::Bridged => (10, 2 + n),
            Way::Routed => (10 + 10 * n, 2),
        };
        let router = |family: usize| match self.way {
            Way::Bridged => Ok(None),
            Way::Routed => ROUTER[n][family].parse().map(Some),
        };
        let v4 = Place {
            address: format!("10.0.{net}.{id}/24").parse()?,
            router: router(0)?,
        };
        let v6 = Place {
            address: format!("2001:db8:{net}::{id}/64").parse()?,
            router: router(1)?,
        };
        Ok([v4, v6])
    }
}

/// A table of router interfaces with the addresses of [`ROUTER`].
fn interfaces(names: [&str; 2]) -> Value {
    let mut table = json!({});
    for (name, [v4, v6]) in names.into_iter().zip(ROUTER) {
        table[name] = json!({});
        table[format!("{name}|{v4}/24")] = json!({});
        table[format!("{name}|{v6}/64")] = json!({});
    }
    table
}
