//! DCBX: the configuration of PFC, ETS and application priorities that a port negotiates with its neighbour.

use xoff_dataplane::config::{PortConfig, SchedulingMode};
use xoff_dataplane::ids::PRIORITIES;
use xoff_wire::dcbx::DcbxConfiguration;
use xoff_wire::lldp::{
    ApplicationEntry, ApplicationSelector, EtsConfiguration, EtsTables, PfcConfiguration, SelectionAlgorithm,
};

use super::context::ResolveContext;
use super::lldp_switches::has_lldp;
use crate::merge::parse_range_key;
use crate::problem::Problem;
use crate::schema;

pub(super) const DCBX_TABLE: &str = "XOFF_DCBX";
/// Largest number of application priorities of a port. More do not fit into one TLV.
const APPLICATIONS_MAX: usize = 64;

/// Sets the schedulers of `ets_default` at the ports that negotiate ETS.
pub(super) fn apply_ets_defaults(context: &mut ResolveContext<'_>, ports: &mut [PortConfig]) {
    for port in ports {
        let Some(text) = context.text(DCBX_TABLE, &port.name, "ets_default") else {
            continue;
        };
        if !has_lldp(context, &port.name) {
            continue;
        }
        if !accepts_ets(context, &port.name) {
            let text =
                "ets_default has no effect, because the port is not willing; QUEUE scheduler configures ETS";
            context.warn_entry(DCBX_TABLE, &port.name, text);
            continue;
        }
        match parse_ets_default(text) {
            Some(schedules) => {
                for (queue, schedule) in schedules {
                    port.queues[queue].schedule = schedule;
                }
            }
            None => {
                let why = "expected queue:weight or queue:strict for each queue, separated by commas, such as \
                           0:20,3:80,6:strict. The queues are 0 to 7, each at most once, and the weights 1 to 100";
                report_dcbx(context, &port.name, "ets_default", text, why);
            }
        }
    }
}

/// Parses a list such as `0:20,3:80,6:strict`.
fn parse_ets_default(text: &str) -> Option<Vec<(usize, SchedulingMode)>> {
    let mut schedules: Vec<(usize, SchedulingMode)> = Vec::new();
    for item in text.split(',') {
        let (queue, schedule) = item.trim().split_once(':')?;
        let queue = queue.parse().ok().filter(|queue| *queue < PRIORITIES)?;
        let schedule = match schedule {
            "strict" => SchedulingMode::Strict,
            weight => SchedulingMode::Dwrr {
                weight: weight.parse().ok().filter(|weight| (1..=100).contains(weight))?,
            },
        };
        if schedules.iter().any(|(other, _)| *other == queue) {
            return None;
        }
        schedules.push((queue, schedule));
    }
    Some(schedules)
}

/// Returns whether a port accepts the ETS recommendation of its neighbour.
fn accepts_ets(context: &ResolveContext<'_>, port: &str) -> bool {
    context.text(DCBX_TABLE, port, "ets_willing") == Some("true") && configured_queue(context, port).is_none()
}

/// Returns the key of an entry of `QUEUE` that configures a scheduler of a port.
fn configured_queue<'a>(context: &ResolveContext<'a>, port: &str) -> Option<&'a str> {
    let mut keys = context.db.keys("QUEUE");
    keys.find(|key| {
        let is_of_port = parse_range_key(key).is_some_and(|(of, ..)| of == port);
        is_of_port && context.text("QUEUE", key, "scheduler").is_some()
    })
}

/// Returns whether a port accepts the ETS recommendation of its neighbour, and warns if its schedulers prevent this.
fn resolve_ets_willing(context: &mut ResolveContext<'_>, port: &str) -> bool {
    if context.text(DCBX_TABLE, port, "ets_willing") != Some("true") {
        return false;
    }
    let Some(key) = configured_queue(context, port) else {
        return true;
    };
    let text = format!(
        "ets_willing has no effect, because QUEUE|{key} scheduler configures ETS; remove the schedulers of the port to \
         negotiate it, and set ets_default for the time without a neighbour"
    );
    context.warn_entry(DCBX_TABLE, port, text);
    false
}

/// Resolves an entry of `XOFF_DCBX`.
pub(super) fn resolve_dcbx(context: &mut ResolveContext<'_>, port: &PortConfig) -> DcbxConfiguration {
    let name = port.name.as_str();
    let is_true = |field| context.text(DCBX_TABLE, name, field) == Some("true");
    let pfc_willing = is_true("pfc_willing");
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
    let ets_willing = resolve_ets_willing(context, name);
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
        queue_of_priority: tables.traffic_class,
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
