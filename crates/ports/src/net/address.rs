//! Addresses and routes of links, for hosts that use the kernel of this machine.

use std::fs;
use std::io;
use std::net::IpAddr;

use rtnetlink::RouteMessageBuilder;

use super::link::{check_name, link_index};
use super::netlink::run_request;
use super::{Error, Result};

/// Adds an address to a link of the calling thread's namespace. `prefix` is the prefix length of the subnet.
///
/// # Errors
/// Returns [`Error::NoSuchLink`] if the link does not exist, [`Error::Exists`] if the link already has the
/// address, or another error of the kernel.
pub fn add_address(name: &str, address: IpAddr, prefix: u8) -> Result<()> {
    let index = link_index(name)?;
    let action = format!("give interface '{name}' the address {address}/{prefix}");
    run_request(&action, name, async |handle| {
        handle.address().add(index, address, prefix).execute().await
    })
}

/// Adds a route in the calling thread's namespace: to a prefix through a gateway.
///
/// # Errors
/// Returns an error if the gateway is unreachable or the two addresses are of different families.
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

/// Turns on IPv6 of the kernel on a link of the calling thread's namespace. Duplicate address detection is
/// off, so addresses are usable at once. Router solicitations are off too.
///
/// # Errors
/// Returns an error if `/proc/sys` is read-only or the kernel has no IPv6.
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
