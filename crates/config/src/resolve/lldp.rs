//! LLDP and DCBX: the settings of the LLDP agent of each port.

use std::net::IpAddr;

use xoff_dataplane::config::{
    BridgingConfig, InterfaceAttachment, LldpConfig, PortConfig, RoutingConfig, SchedulingMode,
};
use xoff_dataplane::ids::PRIORITIES;
use xoff_wire::dcbx::DcbxConfiguration;
use xoff_wire::lldp::{
    ApplicationEntry, ApplicationSelector, ChassisId, EtsConfiguration, EtsTables, Lldpdu, ManagementAddress,
    NetworkAddress, PfcConfiguration, PortId, SelectionAlgorithm, SystemCapabilities, capability,
};
use xoff_wire::lldp_port::LldpPortSettings;

use super::context::ResolveContext;
use super::ports;
use crate::problem::Problem;
use crate::schema::{self, GLOBAL};

const TABLE: &str = "LLDP";
const PORT_TABLE: &str = "LLDP_PORT";
const DCBX_TABLE: &str = "XOFF_DCBX";
/// Defaults of SONiC and of IEEE 802.1AB.
const HELLO_TIME_S: u64 = 30;
const MULTIPLIER: u64 = 4;
/// Largest number of application priorities of a port. More do not fit into one TLV.
const APPLICATIONS_MAX: usize = 64;
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
    let is_enabled =
        context.db.entry(TABLE, GLOBAL).is_some() && context.text(TABLE, GLOBAL, "enabled") != Some("false");
    if !is_enabled {
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
    if context.text(PORT_TABLE, name, "enabled") == Some("false") {
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
        .then(|| resolve_dcbx(context, port));
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

fn resolve_dcbx(context: &mut ResolveContext<'_>, port: &PortConfig) -> DcbxConfiguration {
    let name = port.name.as_str();
    let is_true = |field| context.text(DCBX_TABLE, name, field) == Some("true");
    let (pfc_willing, ets_willing) = (is_true("pfc_willing"), is_true("ets_willing"));
    let number = |field, default| context.number(DCBX_TABLE, name, field).unwrap_or(default) as u8;
    let (pfc_capability, ets_capability) = (number("pfc_capability", 8), number("ets_capability", 8));
    let recommends = context.text(DCBX_TABLE, name, "ets_recommendation") != Some("false");
    let is_configured = context.text("PORT_QOS_MAP", name, "pfc_enable").is_some();
    if pfc_willing && is_configured {
        let text = "pfc_willing has no effect, because PORT_QOS_MAP pfc_enable configures PFC; remove pfc_enable to \
                    negotiate it";
        context.warn_entry(DCBX_TABLE, name, text);
    }
    let default = context.text(DCBX_TABLE, name, "pfc_default");
    let is_willing = pfc_willing && !is_configured;
    if default.is_some() && !is_willing {
        let text = "pfc_default has no effect, because the port is not willing; PORT_QOS_MAP pfc_enable configures PFC";
        context.warn_entry(DCBX_TABLE, name, text);
    }
    let enabled = match default.and_then(schema::parse_priorities) {
        Some(priorities) if is_willing => priorities,
        _ => port.pfc.enabled,
    };
    if enabled.count_ones() > u32::from(pfc_capability) {
        let count = enabled.count_ones();
        let why = format!("the number of priorities with PFC is {count}, which exceeds this capability");
        report_dcbx(context, name, "pfc_capability", &pfc_capability.to_string(), why);
    }
    let tables = ets_tables(port);
    if tables.traffic_classes() > ets_capability {
        let highest = tables.traffic_classes() - 1;
        let why =
            format!("the priorities of the port use queues up to {highest}, which exceeds this capability");
        report_dcbx(context, name, "ets_capability", &ets_capability.to_string(), why);
    }
    DcbxConfiguration {
        pfc: PfcConfiguration {
            is_willing,
            can_bypass_macsec: false,
            capability: pfc_capability,
            enabled,
        },
        ets: EtsConfiguration {
            is_willing: ets_willing,
            supports_credit_based_shaper: false,
            capability: ets_capability,
            tables,
        },
        ets_recommendation: recommends.then_some(tables),
        applications: resolve_applications(context, name),
    }
}

fn report_dcbx(
    context: &mut ResolveContext<'_>,
    port: &str,
    field: &str,
    value: &str,
    why: impl Into<String>,
) {
    let problem = Problem::at_field(DCBX_TABLE, port, field, why).with_value(value);
    context.report_error_within_entry(problem);
}

/// Returns the ETS configuration of a port: the queue of each priority is its traffic class. The shares of the DWRR
/// queues with a priority are in proportion to their weights, in whole percent.
fn ets_tables(port: &PortConfig) -> EtsTables {
    let mut tables = EtsTables {
        traffic_class: port.pfc.priority_to_queue.map(|queue| queue % PRIORITIES as u8),
        ..EtsTables::default()
    };
    let mut weights = [0_u32; PRIORITIES];
    for &class in &tables.traffic_class {
        if let SchedulingMode::Dwrr { weight } = port.queues[usize::from(class)].schedule {
            weights[usize::from(class)] = u32::from(weight.max(1));
            tables.algorithm[usize::from(class)] = SelectionAlgorithm::Ets;
        }
    }
    let sum: u32 = weights.iter().sum();
    if sum == 0 {
        return tables;
    }
    let shares = weights.map(|weight| weight * 100 / sum);
    tables.bandwidth_percent = shares.map(|share| share as u8);
    // The largest remainders get the rest, so that the sum is 100.
    let mut by_remainder: Vec<usize> = (0..PRIORITIES).collect();
    by_remainder.sort_by_key(|&class| std::cmp::Reverse(weights[class] * 100 % sum));
    let rest = 100 - shares.iter().sum::<u32>() as usize;
    for &class in &by_remainder[..rest] {
        tables.bandwidth_percent[class] += 1;
    }
    tables
}

/// Reads the list of application priorities.
fn resolve_applications(context: &mut ResolveContext<'_>, port: &str) -> Vec<ApplicationEntry> {
    let Some(text) = context
        .text(DCBX_TABLE, port, "applications")
        .filter(|text| !text.is_empty())
    else {
        return Vec::new();
    };
    let mut entries: Vec<ApplicationEntry> = Vec::new();
    for item in text.split(',') {
        let Some(entry) = parse_application(item) else {
            let why = "expected selector:protocol:priority, such as udp:4791:3. The selectors are ethertype, tcp, udp, \
                       any and dscp. The priority is 0 to 7";
            report_dcbx(context, port, "applications", item, why);
            return Vec::new();
        };
        let is_repeated =
            |other: &ApplicationEntry| (other.selector, other.protocol) == (entry.selector, entry.protocol);
        if entries.iter().any(is_repeated) {
            report_dcbx(
                context,
                port,
                "applications",
                item,
                "an earlier item has the same selector and protocol",
            );
            return Vec::new();
        }
        entries.push(entry);
    }
    if entries.len() > APPLICATIONS_MAX {
        let why = format!("{} items, at most {APPLICATIONS_MAX} are possible", entries.len());
        report_dcbx(context, port, "applications", text, why);
        entries.truncate(APPLICATIONS_MAX);
    }
    entries
}

/// Parses an item such as `udp:4791:3` or `ethertype:0x8906:3`.
fn parse_application(item: &str) -> Option<ApplicationEntry> {
    let mut parts = item.trim().split(':');
    let (selector, protocol, priority) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let protocol = match protocol.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok()?,
        None => protocol.parse().ok()?,
    };
    let (selector, is_valid) = match selector {
        "ethertype" => (ApplicationSelector::EtherType, protocol >= 0x600),
        "tcp" => (ApplicationSelector::TcpPort, true),
        "udp" => (ApplicationSelector::UdpPort, true),
        "any" => (ApplicationSelector::AnyPort, true),
        "dscp" => (ApplicationSelector::Dscp, protocol < 64),
        _ => return None,
    };
    let priority = priority.parse().ok().filter(|priority| *priority < 8)?;
    is_valid.then_some(ApplicationEntry {
        priority,
        selector,
        protocol,
    })
}
