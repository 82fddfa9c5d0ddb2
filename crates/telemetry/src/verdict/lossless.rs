//! Frames of lossless classes that a switch dropped because its buffer was full.

use std::collections::BTreeMap;

use xoff_dataplane::DropReason;

use crate::{SwitchReport, count_noun, group_thousands};

/// Number of ports that a text names.
const NAMED_PORTS_MAX: usize = 8;

/// Describes the frames of lossless classes that found no free cells in their priority group, one text for each class.
/// Such a loss fails a run: PFC must stop the sender before the headroom is full.
///
/// `described_classes` are classes whose losses the run already describes.
pub fn lossless_drops(switches: &[SwitchReport], described_classes: &[u8]) -> Vec<String> {
    let reason = DropReason::PriorityGroupDropped.name();
    let mut ports_of_classes: BTreeMap<u8, Vec<(String, u64)>> = BTreeMap::new();
    for switch in switches {
        for port in &switch.ports {
            let classes = port.drops_by_class.get(reason).into_iter().flatten();
            for (class, frames) in (0_u8..).zip(classes) {
                if *frames > 0 && port.lossless_classes[usize::from(class)] {
                    let ports = ports_of_classes.entry(class).or_default();
                    ports.push((format!("{} {}", switch.name, port.name), *frames));
                }
            }
        }
    }
    ports_of_classes.retain(|class, _| !described_classes.contains(class));
    let describe = |(class, ports): (u8, Vec<(String, u64)>)| describe_class(class, ports, reason);
    ports_of_classes.into_iter().map(describe).collect()
}

/// Describes the drops of one class. The ports with the most drops come first.
fn describe_class(class: u8, mut ports: Vec<(String, u64)>, reason: &str) -> String {
    ports.sort_by_key(|(_, frames)| std::cmp::Reverse(*frames));
    let total = ports.iter().map(|(_, frames)| frames).sum();
    let named = ports.iter().take(NAMED_PORTS_MAX);
    let mut named: Vec<String> = named
        .map(|(port, frames)| format!("{port} ({})", group_thousands(*frames)))
        .collect();
    if ports.len() > NAMED_PORTS_MAX {
        named.push(count_noun((ports.len() - NAMED_PORTS_MAX) as u64, "more port"));
    }
    format!(
        "{} of the lossless class {class} dropped at {}: the priority groups had no free cells, headroom included \
         ({reason}); raise the headroom (BUFFER_PROFILE xoff), or check that the senders stop when they are paused",
        count_noun(total, "frame"),
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PortReport;
    use xoff_dataplane::ids::TRAFFIC_CLASSES;

    fn switch(reason: DropReason, is_lossless: bool) -> Vec<SwitchReport> {
        let mut port = PortReport {
            name: "Ethernet4".to_owned(),
            ..PortReport::default()
        };
        port.lossless_classes[3] = is_lossless;
        let mut classes = [0; TRAFFIC_CLASSES];
        classes[3] = 2_334;
        classes[0] = 9;
        port.drops_by_class.insert(reason.name().to_owned(), classes);
        vec![SwitchReport {
            name: "sw1".to_owned(),
            ports: vec![port],
            ..SwitchReport::default()
        }]
    }

    #[test]
    fn a_full_buffer_fails_only_lossless_classes() {
        let drops = lossless_drops(&switch(DropReason::PriorityGroupDropped, true), &[]);
        assert_eq!(drops.len(), 1);
        assert!(
            drops[0].starts_with("2,334 frames of the lossless class 3 dropped at sw1 Ethernet4 (2,334): "),
            "{}",
            drops[0]
        );
        let described = lossless_drops(&switch(DropReason::PriorityGroupDropped, true), &[3]);
        assert!(described.is_empty());
        assert!(lossless_drops(&switch(DropReason::PriorityGroupDropped, false), &[]).is_empty());
        assert!(lossless_drops(&switch(DropReason::WatchdogIngress, true), &[]).is_empty());
    }
}
