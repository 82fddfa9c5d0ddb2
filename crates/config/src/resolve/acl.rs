//! `ACL_TABLE` and `ACL_RULE`: rules that exempt packets from trimming, or from adaptive routing and
//! switching (ARS). ACL tables without such a rule have no effect.

use ipnet::IpNet;
use xoff_dataplane::config::{AclRule, AclTable};

use super::context::ResolveContext;
use crate::db::ConfigEntry;
use crate::problem::Problem;
use crate::schema;

const TABLE: &str = "ACL_TABLE";
const RULE: &str = "ACL_RULE";
const TYPE: &str = "ACL_TABLE_TYPE";
const ACTION: &str = "PACKET_ACTION";
const PRIORITY_MAX: u64 = 999_999;
/// Built-in table types that match IP packets. `ACL_TABLE_TYPE` defines further types.
const IP_TYPES: [&str; 3] = ["L3", "L3V6", "L3V4V6"];

/// The feature from which a rule exempts packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AclExemption {
    /// Packet trimming.
    Trim,
    /// Adaptive routing and switching. A static hash selects the path of exempt packets.
    Ars,
}

impl AclExemption {
    const ALL: [AclExemption; 2] = [AclExemption::Trim, AclExemption::Ars];

    /// Returns the `PACKET_ACTION` of rules that exempt packets. `DISABLE_ARS_FORWARDING` is a field in
    /// SONiC's ARS design, and an action in SONiC's ARS test plan. Both forms are accepted.
    const fn action(self) -> &'static str {
        match self {
            AclExemption::Trim => "DISABLE_TRIM",
            AclExemption::Ars => "DISABLE_ARS_FORWARDING",
        }
    }

    /// Returns the values of `ACTIONS` in `ACL_TABLE_TYPE` that allow rules with this exemption.
    const fn table_type_actions(self) -> &'static [&'static str] {
        match self {
            AclExemption::Trim => &["DISABLE_TRIM_ACTION"],
            AclExemption::Ars => &["DISABLE_ARS_FORWARDING_ACTION", "ARS_ACTION"],
        }
    }

    /// Returns whether a rule exempts packets from this feature.
    fn matches_rule(self, context: &ResolveContext<'_>, rule: &str) -> bool {
        let flag = self == AclExemption::Ars && context.text(RULE, rule, self.action()) == Some("true");
        flag || context.text(RULE, rule, ACTION) == Some(self.action())
    }
}

/// Returns whether an entry of `ACL_TABLE`, `ACL_RULE` or `ACL_TABLE_TYPE` has an effect. The result is false
/// for all other tables.
pub(super) fn has_effect(context: &ResolveContext<'_>, table: &str, key: &str) -> bool {
    let decides = |table: &str| {
        AclExemption::ALL
            .into_iter()
            .any(|exemption| has_exempting_rule(context, exemption, table))
    };
    match table {
        TABLE => decides(key),
        RULE => key.split_once('|').is_some_and(|(of, _)| decides(of)),
        TYPE => context
            .db
            .keys(TABLE)
            .any(|name| context.text(TABLE, name, "type") == Some(key) && decides(name)),
        _ => false,
    }
}

/// Returns whether `table` is a table of ACLs and at least one ACL table has an effect. In this case, the
/// note about settings without an effect must name single entries instead of the whole table.
pub(super) fn has_mixed_effect(context: &ResolveContext<'_>, table: &str) -> bool {
    let mut lists = context.db.keys(TABLE);
    matches!(table, TABLE | RULE | TYPE) && lists.any(|list| has_effect(context, TABLE, list))
}

/// Returns whether an ACL table has a rule that exempts packets from this feature.
fn has_exempting_rule(context: &ResolveContext<'_>, exemption: AclExemption, table: &str) -> bool {
    let mut rules = rules_of_table(context, table).into_iter();
    rules.any(|key| exemption.matches_rule(context, key))
}

/// Returns the keys of all rules of an ACL table.
fn rules_of_table<'a>(context: &ResolveContext<'a>, table: &str) -> Vec<&'a str> {
    let of_table = |key: &&str| key.split_once('|').is_some_and(|(of, _)| of == table);
    context.db.keys(RULE).filter(of_table).collect()
}

/// Resolves all ACL tables with a rule that exempts packets from this feature.
pub(super) fn resolve_exemptions(context: &mut ResolveContext<'_>, exemption: AclExemption) -> Vec<AclTable> {
    let mut tables = Vec::new();
    for key in context.db.keys(RULE) {
        let of = key.split_once('|').map_or(key, |(of, _)| of);
        if exemption.matches_rule(context, key) && context.db.entry(TABLE, of).is_none() {
            let problem = Problem::at_field(RULE, key, "", format!("{TABLE} has no entry {of}"));
            context.report_entry_contradiction(problem.with_fix(format!("add {of} to {TABLE}")));
        }
    }
    for name in context.db.keys(TABLE) {
        if !has_exempting_rule(context, exemption, name) || !check_table_type(context, exemption, name) {
            continue;
        }
        let ports = ports_of_table(context, name);
        let keys = rules_of_table(context, name).into_iter();
        let mut rules: Vec<(u64, AclRule)> = keys
            .filter_map(|key| resolve_rule(context, exemption, key))
            .collect();
        // The rule with the highest priority is first. Rules with equal priorities keep the order of
        // their names.
        rules.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
        let rules = rules.into_iter().map(|(_, rule)| rule).collect();
        tables.push(AclTable { ports, rules });
    }
    tables
}

/// Checks that the type and the stage of an ACL table allow rules that exempt packets. Otherwise reports an
/// error and returns false.
fn check_table_type(context: &mut ResolveContext<'_>, exemption: AclExemption, name: &str) -> bool {
    let kind = context.text(TABLE, name, "type").unwrap_or("L3");
    let action = exemption.action();
    let own_type = || {
        let actions = context.db.get(TYPE, kind, "ACTIONS");
        let allows = |item: &str| {
            exemption
                .table_type_actions()
                .iter()
                .any(|action| item.eq_ignore_ascii_case(action))
        };
        actions.is_some_and(|list| schema::split_list(&list).any(allows))
    };
    if !IP_TYPES.contains(&kind) && !own_type() {
        let why = format!(
            "a rule of this table has the action {action}, expected L3, L3V6, L3V4V6 or an entry of ACL_TABLE_TYPE with {} among \
             its ACTIONS",
            exemption.table_type_actions()[0]
        );
        context.report_entry_contradiction(Problem::at_field(TABLE, name, "type", why).with_value(kind));
        return false;
    }
    match context.text(TABLE, name, "stage") {
        Some(stage) if !stage.eq_ignore_ascii_case("ingress") => {
            let why = format!("a rule of this table has the action {action}, expected ingress");
            context
                .report_entry_contradiction(Problem::at_field(TABLE, name, "stage", why).with_value(stage));
            false
        }
        _ => true,
    }
}

/// Returns the indices of the ports of an ACL table, including the member ports of its LAGs.
fn ports_of_table(context: &mut ResolveContext<'_>, table: &str) -> Vec<u16> {
    let list = context.db.get(TABLE, table, "ports").unwrap_or_default();
    let mut ports = Vec::new();
    for name in schema::split_list(&list) {
        if let Some(port) = context.port_index(name) {
            ports.push(port as u16);
        } else if context.lag_index(name).is_some() {
            let members = context.db.keys("PORTCHANNEL_MEMBER");
            let of_lag = members.filter_map(|key| key.split_once('|').filter(|(lag, _)| *lag == name));
            ports.extend(of_lag.filter_map(|(_, port)| context.port_index(port).map(|port| port as u16)));
        } else {
            let why = format!("there is no port or LAG {name}");
            context.report_entry_contradiction(
                Problem::at_field(TABLE, table, "ports", why).with_value(list.clone()),
            );
        }
    }
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// Resolves a rule and returns its priority and the rule. Returns `None` if the rule has no effect or has
/// an error.
fn resolve_rule(
    context: &mut ResolveContext<'_>,
    exemption: AclExemption,
    key: &str,
) -> Option<(u64, AclRule)> {
    let entry = context.db.entry(RULE, key)?;
    let exempts = exemption.matches_rule(context, key);
    let other = AclExemption::ALL
        .into_iter()
        .any(|exemption| exemption.matches_rule(context, key));
    match context.text(RULE, key, ACTION) {
        _ if exempts || other => {}
        Some("FORWARD") => {}
        action => {
            let why = format!(
                "no effect: the action is {}, and only DISABLE_TRIM, DISABLE_ARS_FORWARDING and FORWARD are implemented",
                action.unwrap_or("missing")
            );
            context.warn_entry(RULE, key, why);
            return None;
        }
    }
    let mut rule = AclRule {
        exempts,
        ..AclRule::default()
    };
    let mut priority = None;
    let mut sound = true;
    for (field, value) in entry {
        let (field, value) = (field.as_str(), value.text());
        match apply_field(&mut rule, &mut priority, field, &value) {
            Ok(()) => {}
            Err(AclFieldError::Unknown) => {
                let why = format!("no effect: the condition {field} is not implemented");
                context.warn_entry(RULE, key, why);
                sound = false;
            }
            Err(AclFieldError::Value(expected)) => {
                let why = format!("expected {expected}");
                context.report_error_within_entry(Problem::at_field(RULE, key, field, why).with_value(value));
                sound = false;
            }
        }
    }
    if priority.is_none() && lacks_field(entry, "PRIORITY") {
        context.report_error_within_entry(Problem::at_field(RULE, key, "PRIORITY", "the field is missing"));
    }
    Some((priority?, rule)).filter(|_| sound)
}

/// Returns whether an entry does not have a field.
fn lacks_field(entry: &ConfigEntry, field: &str) -> bool {
    !entry.keys().any(|name| name.as_str() == field)
}

/// The reason for which a field of a rule was refused.
enum AclFieldError {
    /// The switch does not support this match condition.
    Unknown,
    /// The value is not valid. The text describes the expected values.
    Value(&'static str),
}

/// Applies one field of a rule.
fn apply_field(
    rule: &mut AclRule,
    priority: &mut Option<u64>,
    field: &str,
    value: &str,
) -> Result<(), AclFieldError> {
    match field {
        ACTION => {}
        "DISABLE_ARS_FORWARDING" if matches!(value, "true" | "false") => {}
        "DISABLE_ARS_FORWARDING" => return Err(AclFieldError::Value("true or false")),
        "PRIORITY" => {
            *priority = Some(parse_number_up_to(
                value,
                PRIORITY_MAX,
                "a whole number from 0 to 999999",
            )?);
        }
        "SRC_IP" => rule.source = Some(parse_network(value, false)?),
        "SRC_IPV6" => rule.source = Some(parse_network(value, true)?),
        "DST_IP" => rule.destination = Some(parse_network(value, false)?),
        "DST_IPV6" => rule.destination = Some(parse_network(value, true)?),
        "IP_PROTOCOL" | "NEXT_HEADER" => {
            rule.protocol = Some(parse_number_up_to(value, 255, "a whole number from 0 to 255")? as u8);
        }
        "DSCP" => rule.dscp = Some(parse_number_up_to(value, 63, "a whole number from 0 to 63")? as u8),
        "L4_SRC_PORT" => rule.source_ports = Some(parse_single_port(value)?),
        "L4_DST_PORT" => rule.destination_ports = Some(parse_single_port(value)?),
        "L4_SRC_PORT_RANGE" => rule.source_ports = Some(parse_port_range(value)?),
        "L4_DST_PORT_RANGE" => rule.destination_ports = Some(parse_port_range(value)?),
        "IP_TYPE" if matches!(value, "ANY" | "IP") => {}
        _ => return Err(AclFieldError::Unknown),
    }
    Ok(())
}

/// Parses a whole number from 0 to `max`.
fn parse_number_up_to(value: &str, max: u64, expected: &'static str) -> Result<u64, AclFieldError> {
    let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    let number = value.parse().ok().filter(|n| digits && *n <= max);
    number.ok_or(AclFieldError::Value(expected))
}

/// Parses one layer-4 port as a range of one port.
fn parse_single_port(value: &str) -> Result<(u16, u16), AclFieldError> {
    let port = parse_number_up_to(value, 65_535, "a port from 0 to 65535")? as u16;
    Ok((port, port))
}

/// Parses a range of layer-4 ports such as `4791-4799`.
fn parse_port_range(value: &str) -> Result<(u16, u16), AclFieldError> {
    const EXPECTED: &str = "two ports from 0 to 65535, the smaller first, such as 4791-4799";
    let (first, last) = value.split_once('-').ok_or(AclFieldError::Value(EXPECTED))?;
    let (first, last) = (
        parse_number_up_to(first, 65_535, EXPECTED)? as u16,
        parse_number_up_to(last, 65_535, EXPECTED)? as u16,
    );
    if first > last {
        return Err(AclFieldError::Value(EXPECTED));
    }
    Ok((first, last))
}

/// Parses a network. An address without a length is a network of one host. Returns an error if the address
/// does not belong to the expected address family.
fn parse_network(value: &str, is_ipv6: bool) -> Result<IpNet, AclFieldError> {
    let net = schema::parse_prefix(value)
        .or_else(|| value.parse().ok().map(|address: std::net::IpAddr| address.into()));
    let expected = match is_ipv6 {
        true => "an IPv6 network such as 2001:db8::/64",
        false => "an IPv4 network such as 10.0.0.0/24",
    };
    let fits = |net: &IpNet| matches!(net, IpNet::V6(_)) == is_ipv6;
    net.filter(fits).ok_or(AclFieldError::Value(expected))
}
