//! `show priority-group | queue | buffer_pool | headroom-pool` and `clear` of the same, in the layouts of SONiC's
//! `watermarkstat` and `pg-drop`.

use super::buffer_args::{
    ClearGroups, ClearPool, ClearQueues, ClearWatermarks, GroupPart, QueuePart, ShowGroups, ShowPool,
    ShowQueues, ShowWatermark,
};
use super::tabulate::{Text, tabulate};
use super::{connect, print};
use xoff_runtime::control::{CountersReply, WatermarkKind, WatermarkPart};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{PortReport, SwitchReport};

/// Message of SONiC for a missing kind of queues.
const NO_MULTICAST: &str = "Object map from the COUNTERS_DB is empty because the multicast queues are not configured in the \
                            CONFIG_DB!\n";

impl ShowWatermark {
    fn kind(&self, asked: WatermarkKind) -> WatermarkKind {
        if self.periodic {
            WatermarkKind::Periodic
        } else {
            asked
        }
    }
}

pub(super) fn groups(command: &ShowGroups) -> Result<Exit, Failure> {
    let (part, options, kind) = match command {
        ShowGroups::Watermark(watermark) => (watermark.part, &watermark.options, WatermarkKind::User),
        ShowGroups::PersistentWatermark(watermark) => {
            (watermark.part, &watermark.options, WatermarkKind::Persistent)
        }
        ShowGroups::Drop(drops) => {
            let table = drops.table();
            let counters = connect(&table.target)?.counters()?;
            return print(table.json, &counters, |counters| drops_table(&counters.switch));
        }
    };
    show(options, kind, |switch| groups_table(switch, part))
}

pub(super) fn queues(command: &ShowQueues) -> Result<Exit, Failure> {
    let (watermark, kind) = match command {
        ShowQueues::Counters(options) => return super::queues::counters(options),
        ShowQueues::Watermark(watermark) => (watermark, WatermarkKind::User),
        ShowQueues::PersistentWatermark(watermark) => (watermark, WatermarkKind::Persistent),
    };
    show(&watermark.options, kind, |switch| {
        queues_table(switch, watermark.part)
    })
}

pub(super) fn pools(command: &ShowPool, headroom: bool) -> Result<Exit, Failure> {
    let (options, kind) = match command {
        ShowPool::Watermark(options) => (options, WatermarkKind::User),
        ShowPool::PersistentWatermark(options) => (options, WatermarkKind::Persistent),
    };
    show(options, kind, |switch| pools_table(switch, headroom))
}

fn show(
    options: &ShowWatermark,
    kind: WatermarkKind,
    table: impl FnOnce(&SwitchReport) -> String,
) -> Result<Exit, Failure> {
    let counters: CountersReply = connect(&options.table.target)?.watermarks(options.kind(kind))?;
    print(options.table.json, &counters, |counters| table(&counters.switch))
}

/// Clears the named watermarks.
pub(super) fn clear(command: &ClearWatermarks) -> Result<Exit, Failure> {
    let group = |part: GroupPart| match part {
        GroupPart::Shared => WatermarkPart::PriorityGroupShared,
        GroupPart::Headroom => WatermarkPart::PriorityGroupHeadroom,
    };
    let pool = |clear: &ClearPool, part: WatermarkPart| match clear {
        ClearPool::Watermark(target) => (WatermarkKind::User, part, target.clone()),
        ClearPool::PersistentWatermark(target) => (WatermarkKind::Persistent, part, target.clone()),
    };
    let (kind, part, target) = match command {
        ClearWatermarks::PriorityGroup(ClearGroups::Watermark(it)) => {
            (WatermarkKind::User, group(it.part), it.target.clone())
        }
        ClearWatermarks::PriorityGroup(ClearGroups::PersistentWatermark(it)) => {
            (WatermarkKind::Persistent, group(it.part), it.target.clone())
        }
        ClearWatermarks::Queue(ClearQueues::Watermark(it)) => {
            (WatermarkKind::User, WatermarkPart::Queue, it.target.clone())
        }
        ClearWatermarks::Queue(ClearQueues::PersistentWatermark(it)) => {
            (WatermarkKind::Persistent, WatermarkPart::Queue, it.target.clone())
        }
        ClearWatermarks::BufferPool(it) => pool(it, WatermarkPart::Pool),
        ClearWatermarks::HeadroomPool(it) => pool(it, WatermarkPart::HeadroomPool),
    };
    connect(&target)?.clear_watermarks(kind, part)?;
    Ok(Exit::Ok)
}

/// Returns a table with a row for each port and eight columns.
fn by_eight(ports: &[PortReport], prefix: &str, value: impl Fn(&PortReport, usize) -> Option<u64>) -> String {
    let columns: Vec<String> = (0..8).map(|number| format!("{prefix}{number}")).collect();
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
    tabulate(&header, &rows, Text::Right)
}

fn groups_table(switch: &SwitchReport, part: GroupPart) -> String {
    let (title, table) = match part {
        GroupPart::Shared => (
            "Ingress shared pool occupancy per PG:",
            by_eight(&switch.ports, "PG", |port, n| {
                Some(port.priority_groups.get(n)?.shared_watermark_bytes)
            }),
        ),
        GroupPart::Headroom => (
            "Ingress headroom per PG:",
            by_eight(&switch.ports, "PG", |port, n| {
                Some(port.priority_groups.get(n)?.headroom_watermark_bytes)
            }),
        ),
    };
    format!("{title}\n{table}")
}

fn drops_table(switch: &SwitchReport) -> String {
    let table = by_eight(&switch.ports, "PG", |port, n| {
        Some(port.priority_groups.get(n)?.dropped_packets)
    });
    format!("Ingress PG dropped packets:\n{table}")
}

fn queues_table(switch: &SwitchReport, part: QueuePart) -> String {
    let (title, prefix) = match part {
        QueuePart::Unicast => ("unicast queue", "UC"),
        QueuePart::All => ("all queues", "ALL"),
        // Copies of a flooded frame use the queues of their class, as on chips without multicast queues.
        QueuePart::Multicast => return NO_MULTICAST.to_owned(),
    };
    let table = by_eight(&switch.ports, prefix, |port, n| {
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
    format!("{title}\n{}", tabulate(&["Pool", "Bytes"], &rows, Text::Right))
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_telemetry::samples::sample_snapshot;

    #[test]
    fn layouts_are_sonics() {
        let mut snapshot = sample_snapshot();
        snapshot.ports[0].pgs[3].shared.peak_cells = 12;
        snapshot.ports[0].pgs[4].headroom.peak_cells = 3;
        snapshot.ports[0].counters.pgs[3].dropped_packets = 7;
        let switch = SwitchReport::new(&snapshot);
        let expected = "\
Ingress shared pool occupancy per PG:
     Port    PG0    PG1    PG2    PG3    PG4    PG5    PG6    PG7
---------  -----  -----  -----  -----  -----  -----  -----  -----
Ethernet0      0      0      0   3072      0      0      0      0
Ethernet4      0      0      0      0      0      0      0      0
";
        assert_eq!(groups_table(&switch, GroupPart::Shared), expected);
        let headroom = groups_table(&switch, GroupPart::Headroom);
        assert!(headroom.starts_with("Ingress headroom per PG:\n"), "{headroom}");
        assert!(headroom.contains("    768"), "{headroom}");
        assert!(drops_table(&switch).starts_with("Ingress PG dropped packets:\n     Port    PG0"));
        let queues = queues_table(&switch, QueuePart::Unicast);
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
