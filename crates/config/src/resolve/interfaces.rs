//! Router interfaces: their addresses, MTU and MAC address, and contradictions between them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use xoff_dataplane::config::{BridgingConfig, InterfaceAttachment, InterfaceConfig, LagConfig, PortConfig};
use xoff_dataplane::ids::InterfaceId;

use super::addresses::{
    address_family, explain_invalid_host_address, explain_invalid_host_of_network, link_local_network,
};
use super::context::{LAG_TABLE, ResolveContext};
use crate::db::ConfigDb;
use crate::natural::{NaturalName, NaturalSortKey};
use crate::problem::Problem;
use crate::schema;

/// Table of interfaces without a link.
const LOOPBACK_TABLE: &str = "LOOPBACK_INTERFACE";

/// The tables of interfaces of ports, LAGs and VLANs, and of loopback interfaces.
pub(super) const TABLES: [&str; 4] = [
    "INTERFACE",
    "PORTCHANNEL_INTERFACE",
    "VLAN_INTERFACE",
    LOOPBACK_TABLE,
];

/// MTU in bytes of loopback interfaces, and of LAGs and VLANs without members.
const MTU_MAX: u32 = 9_216;
/// Smallest MTU of a link with IPv6, in bytes (RFC 8200, section 5).
const IPV6_MTU_MIN: u32 = 1_280;
/// Smallest MTU of a network device in Linux, in bytes.
pub(super) const MTU_MIN: u64 = 68;

/// An incomplete interface, and the table that defines it.
struct InterfaceDraft<'a> {
    table: &'static str,
    config: InterfaceConfig,
    /// The key of each address in the table, in the order of the addresses.
    keys: Vec<&'a str>,
}

/// All router interfaces. The position in the list is the number of the interface.
pub(super) struct Interfaces {
    pub(super) list: Vec<InterfaceConfig>,
    by_name: BTreeMap<NaturalSortKey, InterfaceId>,
}

impl Interfaces {
    /// Returns an interface by its name. Returns `None` if no interface has this name.
    pub(super) fn find(&self, name: &str) -> Option<(InterfaceId, &InterfaceConfig)> {
        let id = *self.by_name.get(&name as &dyn NaturalName)?;
        Some((id, &self.list[id.index()]))
    }

    /// Returns the longest network that contains an address, and its interface. Returns `None` if no network
    /// contains the address.
    pub(super) fn find_by_network(&self, address: IpAddr) -> Option<(InterfaceId, IpNet)> {
        let networks = self.list.iter().enumerate().flat_map(|(index, interface)| {
            interface
                .addresses
                .iter()
                .map(move |net| (InterfaceId(index as u16), *net))
        });
        networks
            .filter(|(_, network)| network.contains(&address))
            .max_by_key(|(_, network)| network.prefix_len())
    }

    /// Returns the interface that has this address. Returns `None` if no interface has it.
    pub(super) fn find_by_address(&self, address: IpAddr) -> Option<&InterfaceConfig> {
        let has = |interface: &&InterfaceConfig| interface.addresses.iter().any(|net| net.addr() == address);
        self.list.iter().find(has)
    }
}

/// The ports, LAGs and VLANs to which interfaces belong, and the MAC address of the switch.
pub(super) struct InterfaceParents<'a> {
    pub(super) mac: [u8; 6],
    pub(super) ports: &'a [PortConfig],
    pub(super) lags: &'a [LagConfig],
    pub(super) bridging: &'a BridgingConfig,
}

/// Returns whether a table defines an interface of a port or LAG. Old files have only keys with the name and
/// an address, and no key with the name alone.
pub(super) fn is_interface(db: &ConfigDb, table: &str, name: &str) -> bool {
    let mut keys = db.keys(table);
    keys.any(|key| key == name || key.split_once('|').is_some_and(|(owner, _)| owner == name))
}

/// Resolves all interfaces.
pub(super) fn resolve_interfaces(
    context: &mut ResolveContext<'_>,
    parents: &InterfaceParents<'_>,
) -> Interfaces {
    let db = context.db;
    let mut drafts: BTreeMap<NaturalSortKey, InterfaceDraft<'_>> = BTreeMap::new();
    for table in TABLES {
        for (key, _) in db.entries(table) {
            let owner = key.split_once('|').map_or(key, |(owner, _)| owner);
            // SONiC's interface manager creates a loopback interface with its first address.
            if owner != key && table != LOOPBACK_TABLE && db.entry(table, owner).is_none() {
                let why = format!("{table}|{owner} is missing; SONiC adds it when it migrates an old file");
                context.warn_entry(table, key, why);
            }
            if !drafts.contains_key(&owner as &dyn NaturalName)
                && let Some(config) = create_interface(context, parents, table, owner)
            {
                drafts.insert(
                    owner.into(),
                    InterfaceDraft {
                        table,
                        config,
                        keys: Vec::new(),
                    },
                );
            }
        }
    }
    let mut drafts: Vec<InterfaceDraft<'_>> = drafts.into_values().collect();
    for draft in &mut drafts {
        add_addresses(context, draft);
    }
    check_networks_are_disjoint(context, &drafts);
    for draft in &mut drafts {
        add_link_local_address(context, draft);
    }
    let list = order_by_number(
        drafts.into_iter().map(|draft| draft.config),
        &context.options.interfaces,
    );
    let by_name = list
        .iter()
        .enumerate()
        .map(|(index, interface)| {
            (
                NaturalSortKey::from(interface.name.as_str()),
                InterfaceId(index as u16),
            )
        })
        .collect();
    Interfaces { list, by_name }
}

/// Orders interfaces by their numbers. `sorted` contains the interfaces in the order of their names.
/// `running` contains the names of the interfaces of the running switch, in the order of their numbers.
///
/// Interfaces of the running switch keep their numbers, so that neighbours and flows stay valid. New
/// interfaces get the free numbers, in the order of their names. If lower numbers are still free after that,
/// the interfaces with the highest numbers move to the free numbers.
fn order_by_number(
    sorted: impl Iterator<Item = InterfaceConfig>,
    running: &[String],
) -> Vec<InterfaceConfig> {
    let (mut kept, new): (Vec<_>, Vec<_>) = sorted
        .map(|config| (running.iter().position(|name| *name == config.name), config))
        .partition(|(number, _)| number.is_some());
    kept.sort_by_key(|(number, _)| *number);
    let count = kept.len() + new.len();
    let stays = kept.partition_point(|(number, _)| number.is_some_and(|number| number < count));
    let mut moved = new
        .into_iter()
        .chain(kept.split_off(stays))
        .map(|(_, config)| config);
    let mut kept = kept.into_iter().peekable();
    (0..count)
        .filter_map(|number| match kept.next_if(|(at, _)| *at == Some(number)) {
            Some((_, config)) => Some(config),
            None => moved.next(),
        })
        .collect()
}

/// Creates an interface without addresses. Returns `None` if its port, LAG or VLAN does not exist.
fn create_interface(
    context: &mut ResolveContext<'_>,
    parents: &InterfaceParents<'_>,
    table: &'static str,
    name: &str,
) -> Option<InterfaceConfig> {
    let (attachment, mtu) = match table {
        "INTERFACE" => {
            let port = context.port_index(name)?;
            (InterfaceAttachment::Port(port as u16), parents.ports[port].mtu)
        }
        "PORTCHANNEL_INTERFACE" => {
            let lag = context.lag_index(name)?;
            (
                InterfaceAttachment::Lag(lag as u16),
                smallest_member_mtu(parents, lag),
            )
        }
        "VLAN_INTERFACE" => {
            context.db.entry("VLAN", name)?;
            let id = schema::parse_vlan_id(name)?;
            (
                InterfaceAttachment::Vlan(id),
                vlan_mtu(context, parents, name, id),
            )
        }
        _ => (InterfaceAttachment::Loopback, MTU_MAX),
    };
    if let Some(vrf) = context
        .text(table, name, "vrf_name")
        .filter(|vrf| *vrf != "default")
    {
        let why = format!(
            "vrf_name {vrf} has no effect: VRFs are not implemented, and the interface is in the default VRF"
        );
        context.warn_entry(table, name, why);
    }
    let mac = context.text(table, name, "mac_addr").and_then(schema::parse_mac);
    Some(InterfaceConfig {
        name: name.to_owned(),
        attachment,
        mac: mac.unwrap_or(parents.mac),
        mtu,
        addresses: Vec::new(),
    })
}

/// Returns the smallest MTU of the members of a LAG, in bytes.
fn smallest_member_mtu(parents: &InterfaceParents<'_>, lag: usize) -> u32 {
    let members = parents.lags[lag].members.iter();
    let mtus = members.map(|port| parents.ports[usize::from(*port)].mtu);
    mtus.min().unwrap_or(MTU_MAX)
}

/// Returns `VLAN.mtu` in bytes. If the field is missing or below 68, returns the smallest MTU of the members.
fn vlan_mtu(context: &mut ResolveContext<'_>, parents: &InterfaceParents<'_>, name: &str, id: u16) -> u32 {
    let BridgingConfig::Vlans(vlans) = parents.bridging else {
        return MTU_MAX;
    };
    let members = vlans
        .iter()
        .filter(|vlan| vlan.id == id)
        .flat_map(|vlan| &vlan.members);
    let smallest = members
        .map(|member| {
            let port = usize::from(member.port);
            match port.checked_sub(parents.ports.len()) {
                None => (parents.ports[port].mtu, parents.ports[port].name.as_str()),
                Some(lag) => (smallest_member_mtu(parents, lag), parents.lags[lag].name.as_str()),
            }
        })
        .min_by_key(|(mtu, _)| *mtu);
    let written = context.number("VLAN", name, "mtu");
    if let Some(mtu) = written.filter(|mtu| *mtu < MTU_MIN) {
        let why = format!("mtu {mtu} has no effect: Linux does not support an MTU below {MTU_MIN} bytes");
        context.warn_entry("VLAN", name, why);
    }
    let Some(mtu) = written.filter(|mtu| *mtu >= MTU_MIN) else {
        return smallest.map_or(MTU_MAX, |(mtu, _)| mtu);
    };
    if let Some((carried, member)) = smallest
        && u64::from(carried) < mtu
    {
        let why =
            format!("mtu {mtu} is more than the {carried} of {member}: larger packets are dropped there");
        context.warn_entry("VLAN", name, why);
    }
    mtu as u32
}

/// Adds the addresses in the keys of the table, and checks each address by itself.
fn add_addresses<'a>(context: &mut ResolveContext<'a>, draft: &mut InterfaceDraft<'a>) {
    let (db, table) = (context.db, draft.table);
    for (key, _) in db.entries(table) {
        let Some((owner, prefix)) = key.split_once('|') else {
            continue;
        };
        if owner != draft.config.name {
            continue;
        }
        let Some(prefix) = schema::parse_prefix(prefix) else {
            continue;
        };
        let address = prefix.addr();
        let mut problem = |field: &str, why: String| {
            context.report_error_within_entry(
                Problem::at_field(table, key, field, why).with_fix("use the address of a host"),
            );
        };
        if let Some(why) = explain_invalid_host_address(address) {
            problem(
                "",
                format!("{address} cannot be the address of an interface: {why}"),
            );
        } else if prefix.prefix_len() == 0 {
            problem(
                "",
                "a network with prefix length 0 contains all addresses".to_owned(),
            );
        } else if let Some(why) = explain_invalid_host_of_network(address, prefix) {
            problem(
                "",
                format!("{address} cannot be the address of an interface: {why}"),
            );
        } else if draft.config.addresses.iter().any(|known| known.addr() == address) {
            let why = format!("{} has {address} already", draft.config.name);
            context.report_entry_contradiction(
                Problem::at_field(table, key, "", why).with_fix("remove one of the two"),
            );
        } else {
            draft.config.addresses.push(prefix);
            draft.keys.push(key);
        }
        if let Some(said) = context
            .text(table, key, "family")
            .filter(|said| *said != address_family(address))
        {
            let why = format!("the address is of family {}", address_family(address));
            context.report_error_within_entry(Problem::at_field(table, key, "family", why).with_value(said));
        }
    }
}

/// Checks that networks of different interfaces do not overlap. Otherwise, a destination could belong to
/// two interfaces.
fn check_networks_are_disjoint(context: &mut ResolveContext<'_>, drafts: &[InterfaceDraft<'_>]) {
    let mut all: Vec<(IpNet, &str, &InterfaceDraft<'_>)> = Vec::new();
    for draft in drafts {
        let networks = draft.config.addresses.iter().zip(&draft.keys);
        all.extend(networks.map(|(network, key)| (*network, *key, draft)));
    }
    // Two networks are disjoint, or one network contains the other. After sorting, each network follows all
    // networks that contain it.
    all.retain(|(network, ..)| !super::addresses::is_link_local(network.addr()));
    all.sort_by_key(|(network, _, draft)| {
        (
            network.trunc(),
            draft.config.attachment == InterfaceAttachment::Loopback,
        )
    });
    let mut around: Vec<(IpNet, &InterfaceDraft<'_>)> = Vec::new();
    for (network, key, draft) in all {
        while around
            .last()
            .is_some_and(|(outer, _)| !outer.contains(&network.trunc()))
        {
            around.pop();
        }
        let other = around
            .iter()
            .rev()
            .find(|(_, other)| other.config.name != draft.config.name);
        if let Some((outer, other)) = other {
            let name = &other.config.name;
            let problem = if outer.addr() == network.addr() {
                let why = format!("{name} has the address {} already", network.addr());
                Problem::at_field(draft.table, key, "", why)
                    .with_fix("give each interface an address of its own")
            } else {
                let why = format!(
                    "the network {} overlaps {} of {name}",
                    network.trunc(),
                    outer.trunc()
                );
                Problem::at_field(draft.table, key, "", why)
                    .with_fix("give each interface a network of its own")
            };
            context.report_entry_contradiction(problem);
        }
        around.push((network, draft));
    }
}

/// Adds the link-local address of an interface with IPv6 (RFC 4291, section 2.1), and checks that the MTU of
/// the interface is sufficient for IPv6.
fn add_link_local_address(context: &mut ResolveContext<'_>, draft: &mut InterfaceDraft<'_>) {
    let (table, config) = (draft.table, &mut draft.config);
    if config.attachment == InterfaceAttachment::Loopback {
        return;
    }
    let asked = context.text(table, &config.name, "ipv6_use_link_local_only") == Some("enable");
    if !asked && !config.addresses.iter().any(|network| network.addr().is_ipv6()) {
        return;
    }
    if config.mtu < IPV6_MTU_MIN {
        let place = match config.attachment {
            InterfaceAttachment::Vlan(_) => "VLAN",
            InterfaceAttachment::Lag(_) => LAG_TABLE,
            _ => "PORT",
        };
        let why = format!(
            "IPv6 needs an MTU of {IPV6_MTU_MIN} bytes, {} has {}",
            config.name, config.mtu
        );
        let fix = format!("raise mtu in {place}, or remove the IPv6 addresses");
        context.report_entry_contradiction(Problem::at_field(table, &config.name, "", why).with_fix(fix));
    }
    let own = link_local_network(config.mac);
    if !config
        .addresses
        .iter()
        .any(|network| network.addr() == own.addr())
    {
        config.addresses.push(own);
    }
}

/// Warns about interfaces without an address, and about `VLAN.mtu` without an effect.
pub(super) fn warn_unusable_interfaces(context: &mut ResolveContext<'_>, interfaces: &Interfaces) {
    for table in TABLES {
        for (key, _) in context.db.entries(table) {
            if let Some((_, interface)) = interfaces.find(key)
                && interface.addresses.is_empty()
            {
                context.warn_entry(
                    table,
                    key,
                    "the interface has no address and cannot route packets",
                );
            }
        }
    }
    for name in context.db.keys("VLAN").collect::<Vec<_>>() {
        let written = context.text("VLAN", name, "mtu").is_some();
        if written && interfaces.find(name).is_none() {
            let why = "mtu has no effect: the MTU of the ports limits bridged frames";
            context.warn_entry("VLAN", name, why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of interfaces in the order of their numbers.
    fn interface_order(sorted: &[&str], running: &[&str]) -> Vec<String> {
        let config = |name: &&str| InterfaceConfig {
            name: (*name).to_owned(),
            attachment: InterfaceAttachment::Loopback,
            mac: [0; 6],
            mtu: MTU_MAX,
            addresses: Vec::new(),
        };
        let running: Vec<String> = running.iter().map(|name| (*name).to_owned()).collect();
        let all = order_by_number(sorted.iter().map(config), &running);
        all.into_iter().map(|interface| interface.name).collect()
    }

    #[test]
    fn remaining_interfaces_keep_their_numbers() {
        assert_eq!(interface_order(&["a", "b", "c"], &[]), ["a", "b", "c"]);
        assert_eq!(interface_order(&["a", "b", "c"], &["b", "c"]), ["b", "c", "a"]);
        assert_eq!(
            interface_order(&["a", "c", "d"], &["a", "b", "c"]),
            ["a", "d", "c"]
        );
        assert_eq!(
            interface_order(&["a", "c"], &["a", "b", "c"]),
            ["a", "c"],
            "the last one moves"
        );
        assert_eq!(interface_order(&["c"], &["a", "b", "c"]), ["c"]);
        assert_eq!(interface_order(&[], &["a"]), [""; 0]);
    }
}
