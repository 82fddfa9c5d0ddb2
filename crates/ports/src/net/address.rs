//! Addresses and routes of a link, for hosts that are this machine's own kernel.

use std::fs;
use std::io;
use std::net::IpAddr;

use rtnetlink::RouteMessageBuilder;

use super::link::{check_name, index_of};
use super::netlink::talk;
use super::{Error, Result};

/// Gives a link of the calling thread's namespace an address; `prefix` is how much of it all on the link share.
///
/// # Errors
/// [`Error::NoSuchLink`]; [`Error::Exists`] where it has the address already; the kernel's refusal.
pub fn add_address(name: &str, address: IpAddr, prefix: u8) -> Result<()> {
    let index = index_of(name)?;
    let action = format!("give interface '{name}' the address {address}/{prefix}");
    talk(&action, name, async |handle| {
        handle.address().add(index, address, prefix).execute().await
    })
}

/// Makes a route in the calling thread's namespace: to a prefix, by way of a neighbour.
///
/// # Errors
/// Where the gateway cannot be reached, or the two are of different families.
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
    talk(&action, "", async |handle| {
        handle.route().add(message).execute().await
    })
}

/// Lets the kernel have IPv6 on a link of the calling thread's namespace. It asks nobody whether an address is free, so
/// that addresses can be used at once, and for no router.
///
/// # Errors
/// Where `/proc/sys` is read-only, or the kernel has no IPv6.
pub fn enable_ipv6(name: &str) -> Result<()> {
    check_name(name)?;
    for (file, value) in [
        ("accept_dad", "0"),
        ("router_solicitations", "0"),
        ("disable_ipv6", "0"),
    ] {
        let path = format!("/proc/sys/net/ipv6/conf/{name}/{file}");
        let write =
            |error: io::Error| Error::from_io(&format!("switch IPv6 on by writing {path}"), name, &error);
        fs::write(&path, value).map_err(write)?;
    }
    Ok(())
}
