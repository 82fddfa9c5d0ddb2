//! Creates the network namespaces of the hosts and the cables between hosts and switches.

use std::path::Path;

use super::attached_lab::HostAttachment;
use super::options::LabOptions;
use super::plan::{FarEnd, HostPlan, LabPlan, LinkPlan};
use xoff_ports::net::{self, LinkChange, Netns, ethtool};
use xoff_telemetry::failure::{Exit, Failure};

/// Smallest MTU of a link with IPv6, in bytes (RFC 8200 clause 5).
const IPV6_MTU_MIN: u32 = 1280;

/// Creates a network namespace for each host, in the order of the hosts. Unless the lab uses taps, this
/// function also creates a veth pair for each link to a model or plain host. The switch end of a veth pair
/// stays in the namespace of the calling thread, with the name from [`device_name`].
///
/// # Errors
/// Fails if the kernel rejects a namespace or a device.
pub(super) fn build_cabling(plan: &LabPlan, options: &LabOptions) -> Result<Vec<Netns>, Failure> {
    let mut namespaces = Vec::with_capacity(plan.hosts.len());
    for host in &plan.hosts {
        let netns =
            Netns::create().map_err(|error| cabling_failure(&format!("host {}", host.name), &error))?;
        namespaces.push(netns);
    }
    if options.uses_taps() {
        return Ok(namespaces);
    }
    for (index, link) in plan.links.iter().enumerate() {
        let FarEnd::Host(number) = link.far else { continue };
        let (host, netns) = (&plan.hosts[number], &namespaces[number]);
        // A virtual machine uses a tap, which is created with the switch port.
        if host.as_vm().is_some() {
            continue;
        }
        let result = net::add_veth(&device_name(plan, index), &host.interface, Some(netns), link.mtu)
            .and_then(|()| netns.run(|| net::set_link(&host.interface, &host_link_settings(host, link)))?)
            .and_then(|()| netns.run(|| configure_plain_host(host, link))?);
        result.map_err(|error| cabling_failure(&link.source, &error))?;
    }
    Ok(namespaces)
}

/// Moves the network device of a tap into the namespace of its host. The device gets the interface name, the MAC
/// address and the MTU of the host. The offloads of the device are disabled. For a plain host, the device also gets
/// the addresses and routes of the host. For all remaining kinds of hosts, IPv6 is disabled. The switch calls this
/// function before the host opens the device.
///
/// # Errors
/// Fails if the tap is not in the namespace of the calling thread, or if the kernel rejects a setting.
pub fn move_tap_to_host(
    device: &str,
    link: &LinkPlan,
    host: &HostPlan,
    attachment: &HostAttachment,
) -> net::Result<()> {
    net::move_link(device, &attachment.netns, &attachment.interface)?;
    attachment.netns.run(|| {
        net::disable_ipv6(&attachment.interface)?;
        ethtool::set_offloads(&attachment.interface, &ethtool::Offloads::OFF)?;
        net::set_link(&attachment.interface, &host_link_settings(host, link))?;
        net::set_link(
            &attachment.interface,
            &LinkChange {
                up: Some(true),
                ..LinkChange::default()
            },
        )?;
        configure_plain_host(host, link)
    })?
}

/// Configures the loopback interface, the addresses and the routes of a plain host in its namespace. The
/// interface of the host is already up. Its offloads are disabled, so the kernel sends frames with complete
/// checksums, and no frame is longer than the MTU.
fn configure_plain_host(host: &HostPlan, link: &LinkPlan) -> net::Result<()> {
    let Some(plain) = host.as_plain() else {
        return Ok(());
    };
    let up = LinkChange {
        up: Some(true),
        ..LinkChange::default()
    };
    net::set_link("lo", &up)?;
    let name = &host.interface;
    net::add_address(name, host.ipv4.into(), host.ipv4_prefix)?;
    // On a kernel without IPv6, or below the smallest MTU of IPv6, hosts have only IPv4 addresses.
    if Path::new("/proc/sys/net/ipv6").exists() && interface_mtu(host, link) >= IPV6_MTU_MIN {
        net::enable_ipv6(name)?;
        net::add_address(name, host.ipv6.into(), host.ipv6_prefix)?;
    }
    let mut routes = plain.routes.iter();
    routes.try_for_each(|route| net::add_route(route.destination, route.prefix, route.gateway))
}

fn host_link_settings(host: &HostPlan, link: &LinkPlan) -> LinkChange {
    LinkChange {
        mac: Some(host.mac),
        mtu: Some(interface_mtu(host, link)),
        ..LinkChange::default()
    }
}

/// Returns the MTU of the interface of a host in bytes. A model host limits its own frames, so its interface has the
/// MTU of the link.
fn interface_mtu(host: &HostPlan, link: &LinkPlan) -> u32 {
    match host.as_plain() {
        Some(_) => link.host_mtu,
        None => link.mtu,
    }
}

/// Returns the device name of the switch end of a link. `link` is an index of [`LabPlan::links`]. In a lab
/// with one switch, the device has the name of its port if the kernel accepts this name. Otherwise the name
/// is `p` and the link index, such as `p3`.
pub(super) fn device_name(plan: &LabPlan, link: usize) -> String {
    let port = &plan.links[link].port;
    if plan.switches.len() == 1 && net::check_name(port).is_ok() {
        port.clone()
    } else {
        format!("p{link}")
    }
}

/// Returns the name under which processes inherit the file descriptor of a host's namespace.
pub(super) fn netns_fd_name(host: usize) -> String {
    format!("host{host}")
}

fn cabling_failure(source: &str, error: &net::Error) -> Failure {
    let exit = if error.is_environment_error() {
        Exit::Environment
    } else {
        Exit::Configuration
    };
    Failure::new(exit, "cannot build the lab")
        .at(source)
        .because(error)
}
