//! LLDP: the settings of the LLDP agent of each port.

use std::net::IpAddr;

use xoff_dataplane::config::{BridgingConfig, InterfaceAttachment, LldpConfig, PortConfig, RoutingConfig};
use xoff_wire::lldp::{
    ChassisId, Lldpdu, ManagementAddress, NetworkAddress, PortId, SystemCapabilities, capability,
};
use xoff_wire::lldp_port::LldpPortSettings;

use super::context::ResolveContext;
use super::dcbx::{self, DCBX_TABLE};
use super::lldp_switches::{PORT_TABLE, TABLE, is_lldp_on, is_port_on};
use super::ports;
use crate::schema::GLOBAL;

/// Defaults of SONiC and of IEEE 802.1AB.
const HELLO_TIME_S: u64 = 30;
const MULTIPLIER: u64 = 4;
/// Longest text of a TLV in bytes.
const TEXT_LEN_MAX: usize = 255;

/// The parts of the switch that its LLDP frames describe.
pub(super) struct LldpParents<'a> {
    pub(super) ports: &'a [PortConfig],
    pub(super) bridging: &'a BridgingConfig,
    pub(super) routing: &'a RoutingConfig,
}

/// Resolves LLDP. Returns `None` if `LLDP|GLOBAL` is missing or disables LLDP.
pub(super) fn resolve_lldp(
    context: &mut ResolveContext<'_>,
    parents: &LldpParents<'_>,
) -> Option<LldpConfig> {
    if !is_lldp_on(context) {
        for table in [PORT_TABLE, DCBX_TABLE] {
            let keys: Vec<&str> = context.db.keys(table).collect();
            for key in keys {
                context.warn_entry(
                    table,
                    key,
                    "no effect, because LLDP is off; add LLDP|GLOBAL with enabled true",
                );
            }
        }
        return None;
    }
    let information = describe_system(context, parents);
    let settings = parents
        .ports
        .iter()
        .map(|port| resolve_port(context, port, &information));
    Some(LldpConfig {
        ports: settings.collect(),
    })
}

/// Returns the TLVs that are the same at all ports.
fn describe_system(context: &ResolveContext<'_>, parents: &LldpParents<'_>) -> Lldpdu {
    let global = |field| context.text(TABLE, GLOBAL, field);
    let mut information = Lldpdu::new(ChassisId::mac(ports::base_mac(context)), PortId::local("0"), 0);
    let name = global("system_name").unwrap_or(context.hostname());
    information.system_name = Some(shorten(name));
    let description =
        global("system_description").map_or_else(|| format!("xoff {}", env!("CARGO_PKG_VERSION")), shorten);
    information.system_description = Some(description);
    if global("supp_system_capabilities_tlv") != Some("true") {
        information.capabilities = Some(describe_capabilities(parents));
    }
    if global("supp_mgmt_address_tlv") != Some("true") {
        information.management_addresses = management_addresses(parents.routing);
    }
    information
}

/// Returns the text with at most 255 bytes, the longest text of a TLV.
fn shorten(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_LEN_MAX)].to_owned()
}

fn describe_capabilities(parents: &LldpParents<'_>) -> SystemCapabilities {
    let is_bridge = match parents.bridging {
        BridgingConfig::Transparent => true,
        BridgingConfig::Vlans(vlans) => !vlans.is_empty(),
    };
    let bridge = if is_bridge { capability::BRIDGE } else { 0 };
    let router = match parents.routing.interfaces.is_empty() {
        true => 0,
        false => capability::ROUTER,
    };
    SystemCapabilities {
        supported: capability::BRIDGE | capability::ROUTER,
        enabled: bridge | router,
    }
}

/// Returns the first IPv4 and the first IPv6 address of the loopback interfaces.
fn management_addresses(routing: &RoutingConfig) -> Vec<ManagementAddress> {
    let loopbacks = routing.interfaces.iter();
    let loopbacks = loopbacks.filter(|interface| interface.attachment == InterfaceAttachment::Loopback);
    let addresses: Vec<IpAddr> = loopbacks
        .flat_map(|interface| &interface.addresses)
        .map(|network| network.addr())
        .collect();
    let first = |is_ipv4: bool| addresses.iter().find(|address| address.is_ipv4() == is_ipv4);
    let both = [first(true), first(false)].into_iter().flatten();
    both.map(|address| {
        ManagementAddress::new(match *address {
            IpAddr::V4(address) => NetworkAddress::Ipv4(address),
            IpAddr::V6(address) => NetworkAddress::Ipv6(address),
        })
    })
    .collect()
}

/// Resolves the settings of a port. Returns `None` if LLDP is off at the port.
fn resolve_port(
    context: &mut ResolveContext<'_>,
    port: &PortConfig,
    information: &Lldpdu,
) -> Option<LldpPortSettings> {
    let name = port.name.as_str();
    if !is_port_on(context, name) {
        if context.db.entry(DCBX_TABLE, name).is_some() {
            context.warn_entry(
                DCBX_TABLE,
                name,
                "no effect, because LLDP_PORT turns LLDP off at this port",
            );
        }
        return None;
    }
    let mode = context
        .text(PORT_TABLE, name, "mode")
        .or_else(|| context.text(TABLE, GLOBAL, "mode"));
    let mut information = information.clone();
    information.port_id = PortId::local(context.text("PORT", name, "alias").unwrap_or(name));
    let description = context.text("PORT", name, "description").unwrap_or(name);
    information.port_description = Some(shorten(description));
    let global = |field, default| context.number(TABLE, GLOBAL, field).unwrap_or(default) as u16;
    let (interval_s, hold) = (
        global("hello_time", HELLO_TIME_S),
        global("multiplier", MULTIPLIER),
    );
    let dcbx = context
        .db
        .entry(DCBX_TABLE, name)
        .is_some()
        .then(|| dcbx::resolve_dcbx(context, port));
    Some(LldpPortSettings {
        mac: port.mac,
        information,
        transmits: mode != Some("RECEIVE"),
        receives: mode != Some("TRANSMIT"),
        interval_s,
        hold,
        dcbx,
    })
}
