//! `show` and `clear` for `priority-group`, `queue`, `buffer_pool` and `headroom-pool`. The layouts are those
//! of SONiC's `watermarkstat` and `pg-drop`.

use super::buffer_args::{
    ClearPoolCommand, ClearPriorityGroupCommand, ClearQueueCommand, ClearWatermarkCommand,
    PriorityGroupBufferPart, QueueKind, ShowPoolCommand, ShowPriorityGroupCommand, ShowQueueCommand,
    ShowWatermark,
};
use super::tabulate::{TextAlignment, tabulate};
use super::{connect, print};
use xoff_control::{CountersReply, WatermarkKind, WatermarkPart};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{PortReport, SwitchReport};

/// Message of SONiC for switches without multicast queues.
const NO_MULTICAST_QUEUES: &str = "Object map from the COUNTERS_DB is empty because the multicast queues are not configured in the \
                            CONFIG_DB!\n";

impl ShowWatermark {
    /// Returns `kind`, which is the kind of watermark of the command, or the periodic watermark if
    /// `--periodic` is set.
    fn kind_or_periodic(&self, kind: WatermarkKind) -> WatermarkKind {
        if self.periodic {
            WatermarkKind::Periodic
        } else {
            kind
        }
    }
}

/// Runs `show priority-group`.
pub(super) fn show_priority_groups(command: &ShowPriorityGroupCommand) -> Result<Exit, Failure> {
    let (part, options, kind) = match command {
        ShowPriorityGroupCommand::Watermark(watermark) => {
            (watermark.part, &watermark.options, WatermarkKind::User)
        }
        ShowPriorityGroupCommand::PersistentWatermark(watermark) => {
            (watermark.part, &watermark.options, WatermarkKind::Persistent)
        }
        ShowPriorityGroupCommand::Drop(drops) => {
            let table = drops.table_options();
            let counters = connect(&table.target)?.counters()?;
            return print(table.json, &counters, |counters| {
                group_drops_table(&counters.switch)
            });
        }
    };
    show_watermarks(options, kind, |switch| groups_table(switch, part))
}

/// Runs `show queue`.
pub(super) fn show_queues(command: &ShowQueueCommand) -> Result<Exit, Failure> {
    let (watermark, kind) = match command {
        ShowQueueCommand::Counters(options) => return super::queues::show_counters(options),
        ShowQueueCommand::Watermark(watermark) => (watermark, WatermarkKind::User),
        ShowQueueCommand::PersistentWatermark(watermark) => (watermark, WatermarkKind::Persistent),
    };
    show_watermarks(&watermark.options, kind, |switch| {
        queues_table(switch, watermark.part)
    })
}

/// Runs `show buffer_pool`, or `show headroom-pool` with `headroom`.
pub(super) fn show_pools(command: &ShowPoolCommand, headroom: bool) -> Result<Exit, Failure> {
    let (options, kind) = match command {
        ShowPoolCommand::Watermark(options) => (options, WatermarkKind::User),
        ShowPoolCommand::PersistentWatermark(options) => (options, WatermarkKind::Persistent),
    };
    show_watermarks(options, kind, |switch| {
        if headroom && !switch.pools.iter().any(|pool| pool.has_headroom()) {
            super::output::print_note(
                "note: no pool has shared headroom: no entry of BUFFER_POOL in the configuration has the field `xoff`",
            );
        }
        pools_table(switch, headroom)
    })
}

fn show_watermarks(
    options: &ShowWatermark,
    kind: WatermarkKind,
    table: impl FnOnce(&SwitchReport) -> String,
) -> Result<Exit, Failure> {
    let counters: CountersReply =
        connect(&options.table.target)?.watermarks(options.kind_or_periodic(kind))?;
    print(options.table.json, &counters, |counters| table(&counters.switch))
}

/// Runs a command of `xoff clear` for watermarks.
pub(super) fn clear_watermarks(command: &ClearWatermarkCommand) -> Result<Exit, Failure> {
    let group = |part: PriorityGroupBufferPart| match part {
        PriorityGroupBufferPart::Shared => WatermarkPart::PriorityGroupShared,
        PriorityGroupBufferPart::Headroom => WatermarkPart::PriorityGroupHeadroom,
    };
    let pool = |clear: &ClearPoolCommand, part: WatermarkPart| match clear {
        ClearPoolCommand::Watermark(target) => (WatermarkKind::User, part, target.clone()),
        ClearPoolCommand::PersistentWatermark(target) => (WatermarkKind::Persistent, part, target.clone()),
    };
    let (kind, part, target) = match command {
        ClearWatermarkCommand::PriorityGroup(ClearPriorityGroupCommand::Watermark(clear)) => {
            (WatermarkKind::User, group(clear.part), clear.target.clone())
        }
        ClearWatermarkCommand::PriorityGroup(ClearPriorityGroupCommand::PersistentWatermark(clear)) => {
            (WatermarkKind::Persistent, group(clear.part), clear.target.clone())
        }
        ClearWatermarkCommand::Queue(ClearQueueCommand::Watermark(clear)) => {
            (WatermarkKind::User, WatermarkPart::Queue, clear.target.clone())
        }
        ClearWatermarkCommand::Queue(ClearQueueCommand::PersistentWatermark(clear)) => (
            WatermarkKind::Persistent,
            WatermarkPart::Queue,
            clear.target.clone(),
        ),
        ClearWatermarkCommand::BufferPool(clear) => pool(clear, WatermarkPart::Pool),
        ClearWatermarkCommand::HeadroomPool(clear) => pool(clear, WatermarkPart::HeadroomPool),
    };
    connect(&target)?.clear_watermarks(kind, part)?;
    Ok(Exit::Ok)
}

/// Returns a table with a row for each port and a column for each of eight priority groups or queues.
fn eight_column_table(
    ports: &[PortReport],
    title_prefix: &str,
    value: impl Fn(&PortReport, usize) -> Option<u64>,
) -> String {
    let columns: Vec<String> = (0..8).map(|number| format!("{title_prefix}{number}")).collect();
    let header: Vec<&str> = std::iter::once("Port")
        .chain(columns.iter().map(String::as_str))
        .collect();
    let row = |port: &PortReport| {
        let cell = |number| value(port, number).map_or_else(|| "N/A".to_owned(), |value| value.to_string());
        std::iter::once(port.name.clone())
            .chain((0..8).map(cell))
            .collect()
    };
    let rows: Vec<Vec<String>> = ports.iter().map(row).collect();
    tabulate(&header, &rows, TextAlignment::Right)
}

fn groups_table(switch: &SwitchReport, part: PriorityGroupBufferPart) -> String {
    let (title, table) = match part {
        PriorityGroupBufferPart::Shared => (
            "Ingress shared pool occupancy per PG:",
            eight_column_table(&switch.ports, "PG", |port, n| {
                Some(port.priority_groups.get(n)?.shared_watermark_bytes)
            }),
        ),
        PriorityGroupBufferPart::Headroom => (
            "Ingress headroom per PG:",
            eight_column_table(&switch.ports, "PG", |port, n| {
                Some(port.priority_groups.get(n)?.headroom_watermark_bytes)
            }),
        ),
    };
    format!("{title}\n{table}")
}

fn group_drops_table(switch: &SwitchReport) -> String {
    let table = eight_column_table(&switch.ports, "PG", |port, n| {
        Some(port.priority_groups.get(n)?.dropped_packets)
    });
    format!("Ingress PG dropped packets:\n{table}")
}

fn queues_table(switch: &SwitchReport, part: QueueKind) -> String {
    let (title, prefix) = match part {
        QueueKind::Unicast => ("unicast queue", "UC"),
        QueueKind::All => ("all queues", "ALL"),
        // Copies of a flooded frame use the queues of their class, as on chips without multicast queues.
        QueueKind::Multicast => return NO_MULTICAST_QUEUES.to_owned(),
    };
    let table = eight_column_table(&switch.ports, prefix, |port, n| {
        Some(port.queues.get(n)?.shared_watermark_bytes)
    });
    format!("Egress shared pool occupancy per {title}:\n{table}")
}

fn pools_table(switch: &SwitchReport, headroom: bool) -> String {
    let title = if headroom {
        "Headroom pool maximum occupancy:"
    } else {
        "Shared pool maximum occupancy:"
    };
    let rows: Vec<Vec<String>> = switch
        .pools
        .iter()
        .filter(|pool| !headroom || pool.has_headroom())
        .map(|pool| {
            let bytes = if headroom {
                pool.headroom_watermark_bytes
            } else {
                pool.watermark_bytes
            };
            vec![pool.name.clone(), bytes.to_string()]
        })
        .collect();
    format!(
        "{title}\n{}",
        tabulate(&["Pool", "Bytes"], &rows, TextAlignment::Right)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_telemetry::samples::sample_snapshot;

    #[test]
    fn tables_have_the_layout_of_watermarkstat() {
        let mut switch = sample_snapshot().into_report();
        let groups = &mut switch.ports[0].priority_groups;
        groups[3].shared_watermark_bytes = 3_072;
        groups[4].headroom_watermark_bytes = 768;
        groups[3].dropped_packets = 7;
        let expected = "\
Ingress shared pool occupancy per PG:
     Port    PG0    PG1    PG2    PG3    PG4    PG5    PG6    PG7
---------  -----  -----  -----  -----  -----  -----  -----  -----
Ethernet0      0      0      0   3072      0      0      0      0
Ethernet4      0      0      0      0      0      0      0      0
";
        assert_eq!(groups_table(&switch, PriorityGroupBufferPart::Shared), expected);
        let headroom = groups_table(&switch, PriorityGroupBufferPart::Headroom);
        assert!(headroom.starts_with("Ingress headroom per PG:\n"), "{headroom}");
        assert!(headroom.contains("    768"), "{headroom}");
        assert!(group_drops_table(&switch).starts_with("Ingress PG dropped packets:\n     Port    PG0"));
        let queues = queues_table(&switch, QueueKind::Unicast);
        assert!(
            queues.starts_with("Egress shared pool occupancy per unicast queue:\n     Port    UC0"),
            "{queues}"
        );
        assert!(queues.contains("2560"), "{queues}");
        let expected = "\
Shared pool maximum occupancy:
       Pool    Bytes
-----------  -------
egress_pool     2816
";
        assert_eq!(pools_table(&switch, false), expected);
    }
}
