//! What the kinds of nodes have, and what is particular to plain hosts and guests.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde_saphyr::{Location, Spanned};

use super::super::file::Node;
use super::super::plan::{HostPlan, PlainPlan, RoutePlan, VmPlan};
use super::super::units;
use super::Resolver;

/// Memory of a guest that does not say, in MiB.
const MEMORY_MIB: u32 = 512;
/// The emulator, unless a node names another.
pub(crate) const QEMU: &str = "qemu-system-x86_64";
/// Most processors of a guest: QEMU's own limit for a PC.
const CPUS_MAX: u32 = 255;
/// A route, for messages.
const ROUTE: &str = "\"PREFIX via GATEWAY\", such as \"10.1.0.0/16 via 10.0.0.254\"";

impl Resolver<'_> {
    /// Refuses fields that the kind of this node does not have.
    pub(super) fn only_fields_of(&mut self, kind: &str, node: &Node) {
        const HOSTS: &[&str] = &["model", "plain", "vm"];
        const PLAIN: &[&str] = &["plain"];
        const VM: &[&str] = &["vm"];
        let fields = [
            ("config", at(&node.config), &["switch"][..]),
            ("asic", at(&node.asic), &["switch"]),
            ("pg_profiles", at(&node.pg_profiles), &["switch"]),
            ("load_balancing", at(&node.load_balancing), &["switch"]),
            ("mac", at(&node.mac), HOSTS),
            ("ipv4", at(&node.ipv4), HOSTS),
            ("ipv6", at(&node.ipv6), HOSTS),
            ("nic", at(&node.nic), &["model"]),
            ("gateway", at(&node.gateway), &["model", "plain"]),
            ("routes", at(&node.routes), PLAIN),
            ("exec", at(&node.exec), PLAIN),
            ("kernel", at(&node.kernel), VM),
            ("initrd", at(&node.initrd), VM),
            ("append", at(&node.append), VM),
            ("memory", at(&node.memory), VM),
            ("cpus", at(&node.cpus), VM),
            ("accel", at(&node.accel), VM),
            ("qemu", at(&node.qemu), VM),
            ("args", at(&node.args), VM),
            ("console", at(&node.console), VM),
        ];
        for (field, at, kinds) in fields {
            let Some(at) = at.filter(|_| !kinds.contains(&kind)) else {
                continue;
            };
            let fix = format!("only nodes of kind {} have one", kinds.join(", "));
            self.wrong(at, format!("a node of kind {kind} has no `{field}`"), fix);
        }
    }

    /// The routes to everything that a node's gateways are, one for each family.
    pub(super) fn default_routes(&mut self, host: &HostPlan, node: &Node) -> Vec<RoutePlan> {
        let mut routes = Vec::new();
        if let Some(gateways) = &node.gateway {
            for gateway in &gateways.value.0 {
                let at = known(gateway.referenced, gateways.referenced);
                match gateway.value.parse::<IpAddr>() {
                    Ok(address) => {
                        let everything: IpAddr = match address {
                            IpAddr::V4(_) => [0; 4].into(),
                            IpAddr::V6(_) => [0; 16].into(),
                        };
                        let route = RoutePlan {
                            destination: everything,
                            prefix: 0,
                            gateway: address,
                        };
                        self.route(host, route, at, &mut routes);
                    }
                    Err(_) => self.wrong(
                        at,
                        format!("\"{}\" is no gateway", gateway.value),
                        "write an address of the host's own network, such as 10.0.0.254",
                    ),
                }
            }
        }
        routes
    }

    pub(super) fn plain(&mut self, host: &HostPlan, node: &Node) -> PlainPlan {
        let mut routes = self.default_routes(host, node);
        for text in node.routes.iter().flat_map(|routes| &routes.value) {
            match route(&text.value) {
                Some(route) => self.route(host, route, text.referenced, &mut routes),
                None => self.wrong(
                    text.referenced,
                    format!("\"{}\" is no route", text.value),
                    format!("write {ROUTE}"),
                ),
            }
        }
        let commands = node.exec.iter().flat_map(|exec| &exec.value);
        PlainPlan {
            routes,
            exec: commands.map(|command| command.value.clone()).collect(),
        }
    }

    /// The kernel would refuse it without saying which line it was.
    fn route(&mut self, host: &HostPlan, route: RoutePlan, at: Location, routes: &mut Vec<RoutePlan>) {
        let (own, length): (IpAddr, u8) = match route.gateway {
            IpAddr::V4(_) => (host.ipv4.into(), host.ipv4_prefix),
            IpAddr::V6(_) => (host.ipv6.into(), host.ipv6_prefix),
        };
        if network(own, length) != network(route.gateway, length) || own == route.gateway {
            let what = format!("{} cannot reach the gateway {}", host.name, route.gateway);
            let fix = format!("a gateway is another address of its own network, {own}/{length}");
            self.wrong(at, what, fix);
        } else if routes
            .iter()
            .any(|other| (other.destination, other.prefix) == (route.destination, route.prefix))
        {
            let what = format!(
                "{} has two routes to {}/{}",
                host.name, route.destination, route.prefix
            );
            self.wrong(at, what, "write one of them");
        } else {
            routes.push(route);
        }
    }

    pub(super) fn vm(&mut self, name: &Spanned<String>, node: &Node) -> VmPlan {
        let kernel = match &node.kernel {
            Some(kernel) => self.readable(kernel, "kernel"),
            None => {
                let fix = "add the path of its kernel, such as `kernel: ../out/softroce/vmlinuz`, which \
                           `testbeds/softroce/build` makes";
                self.wrong(
                    name.referenced,
                    format!("the guest {} has no `kernel`", name.value),
                    fix,
                );
                PathBuf::new()
            }
        };
        if let Some(accel) = node
            .accel
            .as_ref()
            .filter(|accel| !["kvm", "tcg"].contains(&accel.value.as_str()))
        {
            self.wrong(
                accel.referenced,
                format!("there is no accelerator \"{}\"", accel.value),
                "write kvm (the machine's processor) or tcg (an emulated one)",
            );
        }
        let text = |field: &Option<Spanned<String>>| field.as_ref().map(|text| text.value.clone());
        VmPlan {
            // A name is looked for in PATH, a path is relative to the lab file as all others are.
            qemu: match text(&node.qemu) {
                Some(path) if path.contains('/') => self.absolute(&path).display().to_string(),
                Some(program) => program,
                None => QEMU.to_owned(),
            },
            kernel,
            initrd: node.initrd.as_ref().map(|initrd| self.readable(initrd, "initrd")),
            append: text(&node.append).unwrap_or_default(),
            memory_mib: self.quantity(node.memory.as_ref(), MEMORY_MIB, units::memory_mib, units::MEMORY),
            cpus: self.number(node.cpus.as_ref(), 1, 1..=CPUS_MAX),
            accel: text(&node.accel),
            args: node
                .args
                .as_ref()
                .map(|args| args.value.clone())
                .unwrap_or_default(),
            console: node.console.as_ref().and_then(|console| self.writable(console)),
            source: self.source(name.referenced),
        }
    }

    /// A file that a guest is made of. QEMU would only say that it could not load it.
    fn readable(&mut self, path: &Spanned<String>, field: &str) -> PathBuf {
        let file = self.absolute(&path.value);
        let opened = std::fs::File::open(&file).and_then(|file| file.metadata());
        let why = match opened {
            Ok(facts) if facts.is_file() => return file,
            Ok(_) => "it is no file".to_owned(),
            Err(error) => error.to_string(),
        };
        self.wrong(
            path.referenced,
            format!("cannot read the {field} {}: {why}", file.display()),
            "paths are relative to the lab file; `testbeds/softroce/build` makes a kernel and an initrd",
        );
        file
    }

    fn writable(&mut self, path: &Spanned<String>) -> Option<PathBuf> {
        let file = self.absolute(&path.value);
        if file.parent().is_some_and(Path::is_dir) && !file.is_dir() {
            return Some(file);
        }
        self.wrong(
            path.referenced,
            format!("cannot write a console to {}", file.display()),
            "give a file in a folder that exists; paths are relative to the lab file",
        );
        None
    }

    /// The lab's processes have no folder to be relative to.
    fn absolute(&self, path: &str) -> PathBuf {
        let path = self.path(path);
        std::path::absolute(&path).unwrap_or(path)
    }
}

fn at<T>(field: &Option<Spanned<T>>) -> Option<Location> {
    field.as_ref().map(|field| field.referenced)
}

/// The place of an entry; a lone one has that of its field.
pub(super) fn known(entry: Location, field: Location) -> Location {
    if entry == Location::UNKNOWN { field } else { entry }
}

fn route(text: &str) -> Option<RoutePlan> {
    let (destination, gateway) = text.split_once(" via ")?;
    let gateway: IpAddr = gateway.trim().parse().ok()?;
    let (address, prefix) = match destination.trim() {
        "default" => {
            return route(&format!(
                "{}/0 via {gateway}",
                if gateway.is_ipv4() { "0.0.0.0" } else { "::" }
            ));
        }
        prefix => prefix.split_once('/')?,
    };
    let (address, prefix): (IpAddr, u8) = (address.parse().ok()?, prefix.parse().ok()?);
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let fits = prefix <= longest
        && network(address, prefix) == bits(address)
        && address.is_ipv4() == gateway.is_ipv4();
    fits.then_some(RoutePlan {
        destination: address,
        prefix,
        gateway,
    })
}

/// An address as a number, IPv4 in the upper 32 bits.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The network of an address, as a number.
fn network(address: IpAddr, prefix: u8) -> u128 {
    match prefix {
        0 => 0,
        prefix => bits(address) & (u128::MAX << (128 - u32::from(prefix.min(128)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_read() {
        let plan =
            |text: &str| route(text).map(|r| (r.destination.to_string(), r.prefix, r.gateway.to_string()));
        let of = |a: &str, prefix, b: &str| Some((a.to_owned(), prefix, b.to_owned()));
        assert_eq!(
            plan("10.1.0.0/16 via 10.0.0.254"),
            of("10.1.0.0", 16, "10.0.0.254")
        );
        assert_eq!(plan("fd01::/64 via fd00::1"), of("fd01::", 64, "fd00::1"));
        assert_eq!(plan("default via fd00::1"), of("::", 0, "fd00::1"));
        for wrong in [
            "10.1.0.0 via 10.0.0.1",
            "10.1.0.1/16 via 10.0.0.1",
            "10.0.0.0/33 via 10.0.0.1",
            "::/0 via 10.0.0.1",
            "",
        ] {
            assert_eq!(plan(wrong), None, "{wrong}");
        }
    }
}
