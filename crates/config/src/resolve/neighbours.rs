//! Static neighbours of the table `NEIGH`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use xoff_dataplane::config::{InterfaceAttachment, StaticNeighbour};

use super::addresses::{address_family, explain_invalid_host_address, explain_invalid_host_of_network};
use super::context::ResolveContext;
use super::interfaces::Interfaces;
use crate::problem::Problem;
use crate::schema;
use xoff_units::nearest_name;

const TABLE: &str = "NEIGH";

/// Resolves all static neighbours. Entries without a MAC address (`neigh`) have no effect.
pub(super) fn resolve_neighbours(
    context: &mut ResolveContext<'_>,
    interfaces: &Interfaces,
) -> Vec<StaticNeighbour> {
    let db = context.db;
    let (mut neighbours, mut known) = (Vec::new(), BTreeSet::new());
    for (key, _) in db.entries(TABLE) {
        let Some((name, address)) = key.split_once('|') else {
            continue;
        };
        let Ok(address) = address.parse::<IpAddr>() else {
            continue;
        };
        if let Some(said) = context
            .text(TABLE, key, "family")
            .filter(|said| !said.eq_ignore_ascii_case(address_family(address)))
        {
            let why = format!("the address is of family {}", address_family(address));
            context.report_error_within_entry(Problem::at_field(TABLE, key, "family", why).with_value(said));
        }
        let Some((interface, config)) = interfaces.find(name) else {
            let names = interfaces.list.iter().map(|interface| interface.name.as_str());
            let fix = match nearest_name(name, names) {
                Some(meant) => format!("did you mean {meant}?"),
                None => format!("add {name} to the table of its kind, such as INTERFACE"),
            };
            context.report_entry_contradiction(
                Problem::at_field(TABLE, key, "", format!("there is no interface {name}")).with_fix(fix),
            );
            continue;
        };
        if let Some(why) = explain_invalid_neighbour(address, config, interfaces) {
            let why = format!("{address} cannot be a neighbour of {name}: {why}");
            context.report_entry_contradiction(
                Problem::at_field(TABLE, key, "", why).with_fix("name a host in a network of the interface"),
            );
            continue;
        }
        if !known.insert((interface, address)) {
            let why = format!("{name} has the neighbour {address} already");
            context.report_entry_contradiction(
                Problem::at_field(TABLE, key, "", why).with_fix("remove one of them"),
            );
            continue;
        }
        match context.text(TABLE, key, "neigh").and_then(schema::parse_mac) {
            Some(mac) => neighbours.push(StaticNeighbour {
                interface,
                address,
                mac,
            }),
            None => {
                let why = "no effect without neigh: the switch resolves a neighbour when a packet needs its address";
                context.warn_entry(TABLE, key, why);
            }
        }
    }
    neighbours
}

/// Returns the reason why an address cannot belong to a neighbour on an interface. Returns `None` if the
/// address can belong to such a neighbour.
fn explain_invalid_neighbour(
    address: IpAddr,
    config: &xoff_dataplane::config::InterfaceConfig,
    interfaces: &Interfaces,
) -> Option<String> {
    if let Some(why) = explain_invalid_host_address(address) {
        return Some(why.to_owned());
    }
    if config.attachment == InterfaceAttachment::Loopback {
        return Some("no host is reachable through a loopback interface".to_owned());
    }
    if let Some(owner) = interfaces.find_by_address(address) {
        return Some(format!("{} has this address itself", owner.name));
    }
    let Some(network) = config.addresses.iter().find(|network| network.contains(&address)) else {
        return Some("it is in no network of the interface".to_owned());
    };
    explain_invalid_host_of_network(address, *network)
}
