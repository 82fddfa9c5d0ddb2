//! `show load-balancing`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::tabulate::{TextAlignment, tabulate};
use super::{LoadBalancingPart, ShowLoadBalancing, connect, print, print_with_reason};
use xoff_lab::report::Report;
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{
    FlowMoveReport, GroupReport, LoadBalancingReport, MemberReport, ReorderedStream, ReorderingReport,
    count_noun,
};

/// Text for a value that is not counted or measured.
const NONE: &str = "-";

/// Runs `show load-balancing`.
pub(super) fn show_load_balancing(options: &ShowLoadBalancing) -> Result<Exit, Failure> {
    if let Some(path) = &options.report {
        return print_switches_of_report(options, path);
    }
    let report = connect(&options.table.target)?
        .load_balancing()?
        .unwrap_or_default();
    match options.part {
        LoadBalancingPart::Groups => print(options.table.json, &report.groups, |groups| groups_table(groups)),
        LoadBalancingPart::Reordering => print(options.table.json, &report.reordering, |reordering| {
            reordering_text(reordering.as_ref())
        }),
        LoadBalancingPart::Moves => {
            let empty = report
                .moves
                .is_empty()
                .then_some("no flow has moved to another path");
            print_with_reason(options.table.json, &report.moves, empty, |moves| {
                moves_table(moves)
            })
        }
    }
}

/// Prints the switches of a report, each with its name.
fn print_switches_of_report(options: &ShowLoadBalancing, path: &Path) -> Result<Exit, Failure> {
    let wrong = |what: String| Failure::usage(what).at(format!("--report {}", path.display()));
    let text =
        xoff_telemetry::read_input_text(path, xoff_telemetry::InputLimit::RESULT).map_err(|error| {
            wrong(format!("cannot read the report: {error}"))
                .fix("write a report with `xoff lab run --report FILE`")
        })?;
    let report: Report = serde_json::from_str(&text).map_err(|error| {
        wrong(format!("the file is no report of a run: {error}"))
            .fix("write one with `xoff lab run --report FILE`")
    })?;
    let chosen = |name: &str| {
        options
            .table
            .target
            .switch
            .as_ref()
            .is_none_or(|switch| switch == name)
    };
    let switches: BTreeMap<&str, LoadBalancingReport> = report
        .switches
        .iter()
        .filter(|switch| chosen(&switch.name))
        .map(|switch| {
            (
                switch.name.as_str(),
                switch.load_balancing.clone().unwrap_or_default(),
            )
        })
        .collect();
    if let (Some(switch), true) = (&options.table.target.switch, switches.is_empty()) {
        let names: Vec<&str> = report
            .switches
            .iter()
            .map(|switch| switch.name.as_str())
            .collect();
        return Err(wrong(format!("the report has no switch {switch}"))
            .fix(format!("name one of: {}", names.join(", "))));
    }
    let json = options.table.json;
    match options.part {
        LoadBalancingPart::Groups => print_for_each_switch(
            json,
            &switches,
            |report| &report.groups,
            |groups| groups_table(groups),
        ),
        LoadBalancingPart::Reordering => print_for_each_switch(
            json,
            &switches,
            |report| &report.reordering,
            |reordering| reordering_text(reordering.as_ref()),
        ),
        LoadBalancingPart::Moves => print_for_each_switch(
            json,
            &switches,
            |report| &report.moves,
            |moves| moves_table(moves),
        ),
    }
}

/// Prints a part of the report of each switch, either as JSON with the names of the switches as keys, or as
/// tables with the names as titles.
fn print_for_each_switch<T: serde::Serialize>(
    json: bool,
    switches: &BTreeMap<&str, LoadBalancingReport>,
    part: impl Fn(&LoadBalancingReport) -> &T,
    table: impl Fn(&T) -> String,
) -> Result<Exit, Failure> {
    let parts: BTreeMap<&str, &T> = switches
        .iter()
        .map(|(name, report)| (*name, part(report)))
        .collect();
    print(json, &parts, |parts| {
        let tables = parts
            .iter()
            .map(|(name, part)| format!("{name}\n\n{}", table(part)));
        tables.collect::<Vec<_>>().join("\n")
    })
}

/// Returns a headline and a table of members for each group.
fn groups_table(groups: &[GroupReport]) -> String {
    let mut text = String::new();
    for (index, group) in groups.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        text.push_str(&group_headline(group));
        let packets = group.packets();
        let row = |member| member_row(member, packets);
        let rows: Vec<Vec<String>> = group.members.iter().map(row).collect();
        let header = [
            "Member", "Next hop", "State", "Weight", "Mb/s", "Band", "Load", "Packets", "Share", "TX bytes",
        ];
        text.push_str(&tabulate(&header, &rows, TextAlignment::Left));
    }
    if groups.is_empty() {
        text.push_str(
            "The switch has no load balancing groups: no route has several next hops, and no LAG has several members.\n",
        );
    }
    text
}

/// Returns a line with the settings of a group. If the switch has placed or moved flows of the group, a
/// second line contains their numbers by reason.
fn group_headline(group: &GroupReport) -> String {
    let mut text = group.name.clone();
    if group.routes > 1 {
        let _ = write!(text, " and {} more", group.routes - 1);
    }
    let _ = write!(text, ": {}", group.scheme);
    if let Some(site) = group.site {
        let _ = write!(text, ", site {site}");
    }
    if let Some(table) = group.table {
        let _ = write!(
            text,
            ", {} of {}",
            table.flows,
            count_noun(table.flows_max as u64, "flow")
        );
        if table.overflow_packets > 0 {
            let _ = write!(
                text,
                " ({} found the table full)",
                count_noun(table.overflow_packets, "packet")
            );
        }
    }
    if let (Some(ratio), Some(index)) = (group.max_mean_ratio, group.jain_index) {
        let _ = write!(text, ", max/mean {ratio:.3}, Jain {index:.3}");
    }
    text.push('\n');
    if !group.moves.is_empty() {
        let moves = group
            .moves
            .iter()
            .map(|(reason, count)| format!("{reason} {count}"));
        let _ = writeln!(
            text,
            "flows placed or moved: {}",
            moves.collect::<Vec<_>>().join(", ")
        );
    }
    text
}

fn member_row(member: &MemberReport, group_packets: Option<u64>) -> Vec<String> {
    let number = |number: Option<u64>| number.map_or_else(|| NONE.to_owned(), |number| number.to_string());
    let share = match (member.packets, group_packets) {
        (Some(packets), Some(total)) if total > 0 => {
            format!("{:.1}%", packets as f64 * 100.0 / total as f64)
        }
        _ => NONE.to_owned(),
    };
    let state = match (member.usable, member.alternate) {
        (false, _) => "unused",
        (true, false) => "used",
        (true, true) => "alternate",
    };
    vec![
        if member.ports.is_empty() {
            NONE.to_owned()
        } else {
            member.ports.join(",")
        },
        member.next_hop.clone().unwrap_or_else(|| NONE.to_owned()),
        state.to_owned(),
        member.weight.to_string(),
        member.speed_mbps.to_string(),
        number(member.band.map(u64::from)),
        member.load.map_or_else(
            || NONE.to_owned(),
            |load| format!("{:.1}%", f64::from(load) / 10.0),
        ),
        number(member.packets),
        share,
        member.tx_bytes.to_string(),
    ]
}

/// Returns a line with totals and a table of the streams with packets out of order.
fn reordering_text(reordering: Option<&ReorderingReport>) -> String {
    let Some(totals) = reordering else {
        return "Reordering is not counted. Set `reordering_flows` of XOFF_LB|global to the number of queue pairs to track.\n"
            .to_owned();
    };
    let mut text = format!(
        "{} of {} out of order, by {} at most; {} repeated; {} known",
        totals.out_of_order_packets,
        count_noun(totals.packets, "packet"),
        totals.extent_max,
        totals.repeated_packets,
        count_noun(totals.streams as u64, "stream")
    );
    if totals.untracked_packets > 0 {
        let _ = write!(
            text,
            " ({} found the table full)",
            count_noun(totals.untracked_packets, "packet")
        );
    }
    text.push('\n');
    let row = |stream: &ReorderedStream| {
        vec![
            stream.source.clone(),
            stream.destination.clone(),
            format!("{:#08x}", stream.destination_qp),
            if stream.responses { "responses" } else { "requests" }.to_owned(),
            stream.packets.to_string(),
            stream.out_of_order_packets.to_string(),
            stream.extent_max.to_string(),
            stream.repeated_packets.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = totals.reordered.iter().map(row).collect();
    if !rows.is_empty() {
        let header = [
            "Source",
            "Destination",
            "QP",
            "Packet kind",
            "Packets",
            "Out of order",
            "By at most",
            "Repeated",
        ];
        text.push_str(&tabulate(&header, &rows, TextAlignment::Left));
    }
    text
}

fn moves_table(moves: &[FlowMoveReport]) -> String {
    let row = |moved: &FlowMoveReport| {
        vec![
            format!("{:.6}", moved.at_ns as f64 / 1e9),
            moved.group.clone(),
            moved.flow.clone(),
            moved.reason.clone(),
            moved.from.clone().unwrap_or_else(|| NONE.to_owned()),
            moved.to.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = moves.iter().map(row).collect();
    tabulate(
        &["Time (s)", "Group", "Flow", "Reason", "From", "To"],
        &rows,
        TextAlignment::Left,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_telemetry::FlowTableReport;

    fn member(port: &str, packets: Option<u64>) -> MemberReport {
        MemberReport {
            ports: vec![port.to_owned()],
            next_hop: Some("172.16.0.1".to_owned()),
            usable: port != "Ethernet8",
            weight: 1,
            speed_mbps: 100_000,
            band: packets.map(|_| 7),
            load: packets.map(|_| 25),
            packets,
            bytes: packets.map(|packets| packets * 100),
            tx_bytes: 1000,
            ..MemberReport::default()
        }
    }

    #[test]
    fn tables_of_a_group_with_counters_and_of_a_hashed_group() {
        let flowlets = GroupReport {
            name: "10.0.1.0/24".to_owned(),
            scheme: "flowlet".to_owned(),
            site: Some(2),
            routes: 3,
            members: [member("Ethernet4", Some(3)), member("Ethernet8", Some(1))].into(),
            moves: [("idle".to_owned(), 4), ("new".to_owned(), 12)].into(),
            table: Some(FlowTableReport {
                flows: 12,
                flows_max: 4096,
                overflow_packets: 7,
            }),
            max_mean_ratio: Some(1.0),
            jain_index: Some(1.0),
            ..GroupReport::default()
        };
        let hashed = GroupReport {
            name: "PortChannel1".to_owned(),
            scheme: "ecmp".to_owned(),
            members: [member("Ethernet0", None)].into(),
            ..GroupReport::default()
        };
        assert_eq!(
            groups_table(&[flowlets, hashed]),
            "\
10.0.1.0/24 and 2 more: flowlet, site 2, 12 of 4,096 flows (7 packets found the table full), max/mean 1.000, Jain 1.000
flows placed or moved: idle 4, new 12
Member     Next hop    State      Weight    Mb/s    Band  Load      Packets  Share      TX bytes
---------  ----------  -------  --------  ------  ------  ------  ---------  -------  ----------
Ethernet4  172.16.0.1  used            1  100000       7  2.5%            3  75.0%          1000
Ethernet8  172.16.0.1  unused          1  100000       7  2.5%            1  25.0%          1000

PortChannel1: ecmp
Member     Next hop    State      Weight    Mb/s  Band    Load    Packets    Share      TX bytes
---------  ----------  -------  --------  ------  ------  ------  ---------  -------  ----------
Ethernet0  172.16.0.1  used            1  100000  -       -       -          -              1000
"
        );
        assert!(groups_table(&[]).starts_with("The switch has no load balancing groups"));
    }

    #[test]
    fn flow_moves_are_listed_with_time_and_reason() {
        let moved = FlowMoveReport {
            at_ns: 1_500_000,
            group: "10.0.1.0/24".to_owned(),
            flow: "0badcafe".to_owned(),
            reason: "link-down".to_owned(),
            from: Some("Ethernet4".to_owned()),
            to: "Ethernet8".to_owned(),
        };
        assert_eq!(
            moves_table(&[moved]),
            "  Time (s)  Group        Flow      Reason     From       To
----------  -----------  --------  ---------  ---------  ---------
  0.001500  10.0.1.0/24  0badcafe  link-down  Ethernet4  Ethernet8
"
        );
    }
}
