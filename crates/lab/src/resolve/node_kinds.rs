//! Checks the fields of each node kind, and resolves plain hosts and virtual machines.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde_saphyr::{Location, Spanned};

use super::super::plan::{HostPlan, PlainHostPlan, RoutePlan, VmAttachment, VmPlan};
use super::super::units;
use super::LabResolver;
use xoff_lab_file::NodeFields;

/// Default memory of a guest in MiB.
const MEMORY_MIB_DEFAULT: u32 = 512;
/// Default program name of the emulator.
pub(crate) const QEMU: &str = "qemu-system-x86_64";
/// Largest number of CPUs of a virtual machine, as for the PC machine type of QEMU.
const CPUS_MAX: u32 = 255;
/// The format of a route, for messages.
const ROUTE_FORMAT: &str = "\"PREFIX via GATEWAY\", such as \"10.1.0.0/16 via 10.0.0.254\"";

impl LabResolver<'_> {
    /// Reports fields that nodes of `kind` do not have.
    pub(super) fn check_node_fields(&mut self, kind: &str, node: &NodeFields) {
        const HOSTS: &[&str] = &["model", "plain", "vm"];
        const PLAIN: &[&str] = &["plain"];
        const VM: &[&str] = &["vm"];
        let fields = [
            ("config", field_location(&node.config), &["switch"][..]),
            ("asic", field_location(&node.asic), &["switch"]),
            ("pg_profiles", field_location(&node.pg_profiles), &["switch"]),
            (
                "load_balancing",
                field_location(&node.load_balancing),
                &["switch"],
            ),
            ("mac", field_location(&node.mac), HOSTS),
            ("ipv4", field_location(&node.ipv4), HOSTS),
            ("ipv6", field_location(&node.ipv6), HOSTS),
            ("nic", field_location(&node.nic), &["model"]),
            ("gateway", field_location(&node.gateway), &["model", "plain"]),
            ("routes", field_location(&node.routes), PLAIN),
            ("exec", field_location(&node.exec), PLAIN),
            ("kernel", field_location(&node.kernel), VM),
            ("initrd", field_location(&node.initrd), VM),
            ("append", field_location(&node.append), VM),
            ("memory", field_location(&node.memory), VM),
            ("cpus", field_location(&node.cpus), VM),
            ("accel", field_location(&node.accel), VM),
            ("qemu", field_location(&node.qemu), VM),
            ("args", field_location(&node.args), VM),
            ("attach", field_location(&node.attach), VM),
            ("console", field_location(&node.console), VM),
        ];
        for (field, location, kinds) in fields {
            let Some(location) = location.filter(|_| !kinds.contains(&kind)) else {
                continue;
            };
            let fix = format!("only nodes of kind {} have one", kinds.join(", "));
            self.report_problem(location, format!("a node of kind {kind} has no `{field}`"), fix);
        }
    }

    /// Returns the default routes of a host: one for each entry of `gateway`.
    pub(super) fn resolve_default_routes(&mut self, host: &HostPlan, node: &NodeFields) -> Vec<RoutePlan> {
        let mut routes = Vec::new();
        if let Some(gateways) = &node.gateway {
            for gateway in &gateways.value.0 {
                let location = entry_location(gateway.referenced, gateways.referenced);
                match gateway.value.parse::<IpAddr>() {
                    Ok(address) => {
                        let any_address: IpAddr = match address {
                            IpAddr::V4(_) => [0; 4].into(),
                            IpAddr::V6(_) => [0; 16].into(),
                        };
                        let route = RoutePlan {
                            destination: any_address,
                            prefix: 0,
                            gateway: address,
                        };
                        self.add_route(host, route, location, &mut routes);
                    }
                    Err(_) => self.report_problem(
                        location,
                        format!("\"{}\" is no gateway", gateway.value),
                        "write an address in the network of the host, such as 10.0.0.254",
                    ),
                }
            }
        }
        routes
    }

    /// Resolves the routes and commands of a plain host.
    pub(super) fn resolve_plain_host(&mut self, host: &HostPlan, node: &NodeFields) -> PlainHostPlan {
        let mut routes = self.resolve_default_routes(host, node);
        for text in node.routes.iter().flat_map(|routes| &routes.value) {
            match parse_route(&text.value) {
                Some(route) => self.add_route(host, route, text.referenced, &mut routes),
                None => self.report_problem(
                    text.referenced,
                    format!("\"{}\" is no route", text.value),
                    format!("write {ROUTE_FORMAT}"),
                ),
            }
        }
        let commands = node.exec.iter().flat_map(|exec| &exec.value);
        PlainHostPlan {
            routes,
            exec: commands.map(|command| command.value.clone()).collect(),
        }
    }

    /// Adds a route of a host. Reports an error if the gateway is outside the network of the host, or if the
    /// host already has a route to the prefix.
    ///
    /// The kernel would also reject such a route, but the error of the kernel would not contain the line of
    /// the lab file.
    fn add_route(
        &mut self,
        host: &HostPlan,
        route: RoutePlan,
        location: Location,
        routes: &mut Vec<RoutePlan>,
    ) {
        let (own, length): (IpAddr, u8) = match route.gateway {
            IpAddr::V4(_) => (host.ipv4.into(), host.ipv4_prefix),
            IpAddr::V6(_) => (host.ipv6.into(), host.ipv6_prefix),
        };
        if network_prefix_to_u128(own, length) != network_prefix_to_u128(route.gateway, length)
            || own == route.gateway
        {
            let what = format!("{} cannot reach the gateway {}", host.name, route.gateway);
            let fix = format!("a gateway is another address in the network of the host, {own}/{length}");
            self.report_problem(location, what, fix);
        } else if routes
            .iter()
            .any(|other| (other.destination, other.prefix) == (route.destination, route.prefix))
        {
            let what = format!(
                "{} has two routes to {}/{}",
                host.name, route.destination, route.prefix
            );
            self.report_problem(location, what, "write one of them");
        } else {
            routes.push(route);
        }
    }

    /// Resolves the fields of a node of kind `vm`.
    pub(super) fn resolve_vm(&mut self, name: &Spanned<String>, node: &NodeFields) -> VmPlan {
        let kernel = match &node.kernel {
            Some(kernel) => self.check_readable_file(kernel, "kernel"),
            None => {
                let fix = "add the path of its kernel, such as `kernel: ../out/softroce/vmlinuz`, which \
                           `testbeds/softroce/build` makes";
                self.report_problem(
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
            self.report_problem(
                accel.referenced,
                format!("there is no accelerator \"{}\"", accel.value),
                "write kvm (the machine's processor) or tcg (an emulated one)",
            );
        }
        let attach = self.resolve_attachment(node.attach.as_ref());
        let text = |field: &Option<Spanned<String>>| field.as_ref().map(|text| text.value.clone());
        VmPlan {
            // A program name is looked up in PATH. A path is relative to the lab file.
            qemu: match text(&node.qemu) {
                Some(path) if path.contains('/') => self.absolute_path(&path).display().to_string(),
                Some(program) => program,
                None => QEMU.to_owned(),
            },
            kernel,
            initrd: node
                .initrd
                .as_ref()
                .map(|initrd| self.check_readable_file(initrd, "initrd")),
            append: text(&node.append).unwrap_or_default(),
            memory_mib: self.parse_quantity(
                node.memory.as_ref(),
                MEMORY_MIB_DEFAULT,
                units::parse_memory_mib,
                units::MEMORY,
            ),
            cpus: self.number_in_range(node.cpus.as_ref(), 1, 1..=CPUS_MAX, "CPUs"),
            accel: text(&node.accel),
            attach,
            args: node
                .args
                .as_ref()
                .map(|args| args.value.clone())
                .unwrap_or_default(),
            console: node
                .console
                .as_ref()
                .and_then(|console| self.check_console_path(console)),
            source: self.file_and_line(name.referenced),
        }
    }

    fn resolve_attachment(&mut self, attach: Option<&Spanned<String>>) -> VmAttachment {
        match attach.map(|attach| (attach.value.as_str(), attach.referenced)) {
            None | Some(("tap", _)) => VmAttachment::Tap,
            Some(("stream", _)) => VmAttachment::Stream,
            Some((other, location)) => {
                self.report_problem(
                    location,
                    format!("a guest cannot be attached by \"{other}\""),
                    "write tap, or stream (a socket with back-pressure, without /dev/net/tun)",
                );
                VmAttachment::Tap
            }
        }
    }

    /// Returns the absolute path of a file for QEMU. Reports an error with the reason if the file cannot
    /// be read.
    ///
    /// QEMU itself would not report the reason.
    fn check_readable_file(&mut self, path: &Spanned<String>, field: &str) -> PathBuf {
        let file = self.absolute_path(&path.value);
        // Only a regular file is opened: opening a pipe would wait for its writer.
        let why = match file.metadata() {
            Ok(metadata) if metadata.is_file() => match std::fs::File::open(&file) {
                Ok(_) => return file,
                Err(error) => error.to_string(),
            },
            Ok(_) => "it is not a file".to_owned(),
            Err(error) => error.to_string(),
        };
        self.report_problem(
            path.referenced,
            format!("cannot read the {field} {}: {why}", file.display()),
            "paths are relative to the lab file; `testbeds/softroce/build` makes a kernel and an initrd",
        );
        file
    }

    /// Returns the absolute path of a console file. Reports an error if the file cannot be created.
    fn check_console_path(&mut self, path: &Spanned<String>) -> Option<PathBuf> {
        let file = self.absolute_path(&path.value);
        if file.parent().is_some_and(Path::is_dir) && !file.is_dir() {
            return Some(file);
        }
        self.report_problem(
            path.referenced,
            format!("cannot write a console to {}", file.display()),
            "write a file in an existing folder; paths are relative to the lab file",
        );
        None
    }

    /// Returns an absolute path, because the processes of a lab do not share a working directory.
    fn absolute_path(&self, path: &str) -> PathBuf {
        let path = self.resolve_path(path);
        std::path::absolute(&path).unwrap_or(path)
    }
}

/// Returns the location of a field that is set.
fn field_location<T>(field: &Option<Spanned<T>>) -> Option<Location> {
    field.as_ref().map(|field| field.referenced)
}

/// Returns the location of a list entry. If the field has a single value instead of a list, returns the
/// location of the field.
pub(super) fn entry_location(entry: Location, field: Location) -> Location {
    if entry == Location::UNKNOWN { field } else { entry }
}

/// Parses a route such as `10.1.0.0/16 via 10.0.0.254`. The word `default` means a prefix of length 0.
fn parse_route(text: &str) -> Option<RoutePlan> {
    let (destination, gateway) = text.split_once(" via ")?;
    let gateway: IpAddr = gateway.trim().parse().ok()?;
    let (address, prefix) = match destination.trim() {
        "default" => {
            return parse_route(&format!(
                "{}/0 via {gateway}",
                if gateway.is_ipv4() { "0.0.0.0" } else { "::" }
            ));
        }
        prefix => prefix.split_once('/')?,
    };
    let (address, prefix): (IpAddr, u8) = (address.parse().ok()?, prefix.parse().ok()?);
    let length_max = if address.is_ipv4() { 32 } else { 128 };
    let is_valid = prefix <= length_max
        && network_prefix_to_u128(address, prefix) == address_bits(address)
        && address.is_ipv4() == gateway.is_ipv4();
    is_valid.then_some(RoutePlan {
        destination: address,
        prefix,
        gateway,
    })
}

/// Returns an address as a 128-bit number. An IPv4 address occupies the upper 32 bits.
fn address_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Returns the network part of an address as a number.
fn network_prefix_to_u128(address: IpAddr, prefix: u8) -> u128 {
    match prefix {
        0 => 0,
        prefix => address_bits(address) & (u128::MAX << (128 - u32::from(prefix.min(128)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_parsed() {
        let parse = |text: &str| {
            parse_route(text).map(|r| (r.destination.to_string(), r.prefix, r.gateway.to_string()))
        };
        let expected = |a: &str, prefix, b: &str| Some((a.to_owned(), prefix, b.to_owned()));
        assert_eq!(
            parse("10.1.0.0/16 via 10.0.0.254"),
            expected("10.1.0.0", 16, "10.0.0.254")
        );
        assert_eq!(parse("fd01::/64 via fd00::1"), expected("fd01::", 64, "fd00::1"));
        assert_eq!(parse("default via fd00::1"), expected("::", 0, "fd00::1"));
        for invalid in [
            "10.1.0.0 via 10.0.0.1",
            "10.1.0.1/16 via 10.0.0.1",
            "10.0.0.0/33 via 10.0.0.1",
            "::/0 via 10.0.0.1",
            "",
        ] {
            assert_eq!(parse(invalid), None, "{invalid}");
        }
    }
}
