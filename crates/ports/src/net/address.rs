//! Adds IP addresses and routes to links, for hosts that use the network stack of this machine.

use std::fs;
use std::io;
use std::net::IpAddr;

use rtnetlink::RouteMessageBuilder;

use super::link::{check_name, link_index};
use super::netlink::run_request;
use super::{Error, Result};

/// Adds an IP address to the link `name` of the calling thread's namespace. `prefix` is the prefix length of
/// the subnet: 0 to 32 for IPv4, 0 to 128 for IPv6.
///
/// # Errors
/// Returns [`Error::NoSuchLink`] if the link does not exist, [`Error::Exists`] if the link already has the
/// address, or another [`Error`] if the kernel refuses the address.
pub fn add_address(name: &str, address: IpAddr, prefix: u8) -> Result<()> {
    let index = link_index(name)?;
    let action = format!("give interface '{name}' the address {address}/{prefix}");
    run_request(&action, name, async |handle| {
        handle.address().add(index, address, prefix).execute().await
    })
}

/// Adds a route to the network `destination/prefix` through `gateway`, in the calling thread's namespace.
/// `prefix` is 0 to 32 for IPv4, and 0 to 128 for IPv6.
///
/// # Errors
/// Returns an error if the gateway is unreachable, the two addresses are of different families, or a route to
/// this network exists.
pub fn add_route(destination: IpAddr, prefix: u8, gateway: IpAddr) -> Result<()> {
    let action = format!("make the route to {destination}/{prefix} via {gateway}");
    let message = match (destination, gateway) {
        (IpAddr::V4(destination), IpAddr::V4(gateway)) => RouteMessageBuilder::<std::net::Ipv4Addr>::new()
            .destination_prefix(destination, prefix)
            .gateway(gateway)
            .build(),
        (IpAddr::V6(destination), IpAddr::V6(gateway)) => RouteMessageBuilder::<std::net::Ipv6Addr>::new()
            .destination_prefix(destination, prefix)
            .gateway(gateway)
            .build(),
        _ => return Err(Error::from_errno(&action, "", libc::EAFNOSUPPORT)),
    };
    run_request(&action, "", async |handle| {
        handle.route().add(message).execute().await
    })
}

/// Turns on IPv6 of the kernel on the link `name` of the calling thread's namespace. Duplicate address
/// detection is turned off, so addresses are usable at once. Router solicitations are also turned off.
///
/// # Errors
/// Returns an error if the name is not valid, the link does not exist, `/proc/sys` is read-only, or the
/// kernel has no IPv6.
pub fn enable_ipv6(name: &str) -> Result<()> {
    check_name(name)?;
    for (file, value) in [
        ("accept_dad", "0"),
        ("router_solicitations", "0"),
        ("disable_ipv6", "0"),
    ] {
        let path = format!("/proc/sys/net/ipv6/conf/{name}/{file}");
        let write =
            |error: io::Error| Error::from_io(&format!("turn IPv6 on by writing {path}"), name, &error);
        fs::write(&path, value).map_err(write)?;
    }
    Ok(())
}
