//! The hosts' namespaces, and the cables between them and the switch.

use std::path::Path;

use super::child::HostAttachment;
use super::options::LabOptions;
use super::plan::{FarEnd, HostPlan, LabPlan, LinkPlan};
use xoff_ports::net::{self, LinkChange, Netns, ethtool};
use xoff_telemetry::failure::{Exit, Failure};

/// Makes a namespace per host, and, unless the lab uses taps, the veth pairs into them. The switch's ends stay
/// in the calling thread's namespace, under the names of [`device_name`].
pub(super) fn build(plan: &LabPlan, options: &LabOptions) -> Result<Vec<Netns>, Failure> {
    let mut namespaces = Vec::with_capacity(plan.hosts.len());
    for host in &plan.hosts {
        let netns = Netns::create().map_err(|error| failure(&format!("host {}", host.name), &error))?;
        namespaces.push(netns);
    }
    if options.uses_taps() {
        return Ok(namespaces);
    }
    for (index, link) in plan.links.iter().enumerate() {
        let FarEnd::Host(number) = link.far else { continue };
        let (host, netns) = (&plan.hosts[number], &namespaces[number]);
        // A guest hangs on a tap, which is made with its port.
        if host.vm().is_some() {
            continue;
        }
        let made = net::add_veth(&device_name(plan, index), &host.interface, Some(netns), link.mtu)
            .and_then(|()| netns.run(|| net::set_link(&host.interface, &host_end(host)))?)
            .and_then(|()| netns.run(|| configure(host))?);
        made.map_err(|error| failure(&link.source, &error))?;
    }
    Ok(namespaces)
}

/// Moves a tap of the switch to the host at its other end: under the host's interface name, with the host's
/// address and the link's MTU, quiet and up. To be called before the host opens its end.
///
/// # Errors
/// Where the tap is not in the calling thread's namespace, or the kernel refuses.
pub fn hand_over_tap(device: &str, link: &LinkPlan, host: &HostPlan, to: &HostAttachment) -> net::Result<()> {
    net::move_link(device, &to.netns, &to.interface)?;
    to.netns.run(|| {
        net::disable_ipv6(&to.interface)?;
        ethtool::set_offloads(&to.interface, &ethtool::Offloads::OFF)?;
        net::set_link(
            &to.interface,
            &LinkChange {
                mtu: Some(link.mtu),
                ..host_end(host)
            },
        )?;
        net::set_link(
            &to.interface,
            &LinkChange {
                up: Some(true),
                ..LinkChange::default()
            },
        )?;
        configure(host)
    })?
}

/// What a plain host is, in its namespace: addresses and routes, usable at once. Its interface is up, without offloads:
/// each frame leaves it with its checksum finished and no longer than its MTU.
fn configure(host: &HostPlan) -> net::Result<()> {
    let Some(plain) = host.plain() else { return Ok(()) };
    let up = LinkChange {
        up: Some(true),
        ..LinkChange::default()
    };
    net::set_link("lo", &up)?;
    let name = &host.interface;
    net::add_address(name, host.ipv4.into(), host.ipv4_prefix)?;
    // A kernel without IPv6 has IPv4 hosts.
    if Path::new("/proc/sys/net/ipv6").exists() {
        net::enable_ipv6(name)?;
        net::add_address(name, host.ipv6.into(), host.ipv6_prefix)?;
    }
    let mut routes = plain.routes.iter();
    routes.try_for_each(|route| net::add_route(route.destination, route.prefix, route.gateway))
}

fn host_end(host: &HostPlan) -> LinkChange {
    LinkChange {
        mac: Some(host.mac),
        ..LinkChange::default()
    }
}

/// The name of the switch's end of a link in the lab's own namespace: that of the port, where it can be one
/// and the lab has one switch.
pub(super) fn device_name(plan: &LabPlan, link: usize) -> String {
    let port = &plan.links[link].port;
    if plan.switches.len() == 1 && net::check_name(port).is_ok() {
        port.clone()
    } else {
        format!("p{link}")
    }
}

/// The name under which the namespace of a host is handed to the switch.
pub(super) fn descriptor_name(host: usize) -> String {
    format!("host{host}")
}

fn failure(place: &str, error: &net::Error) -> Failure {
    let exit = if error.is_environment() {
        Exit::Environment
    } else {
        Exit::Configuration
    };
    Failure::new(exit, "cannot build the lab")
        .at(place)
        .because(error)
}
