//! Ports that the configuration sets down.

use xoff_fabric::FabricPlan;
use xoff_telemetry::count_noun;

/// Number of ports that a message names.
const NAMED_PORTS_MAX: usize = 8;

/// Returns the ports that `PORT.admin_status` sets down, as `switch port`.
pub(super) fn ports_configured_down(fabric: &FabricPlan) -> Vec<String> {
    let mut names = Vec::new();
    for switch in &fabric.switches {
        let down = switch.ports.iter().filter(|port| !port.admin_up);
        names.extend(down.map(|port| format!("{} {}", switch.name, port.name)));
    }
    names
}

/// Describes ports that the configuration sets down, as the cause of a failure.
pub(super) fn describe_ports_configured_down(ports: &[String]) -> String {
    let named = &ports[..ports.len().min(NAMED_PORTS_MAX)];
    let more = match ports.len() - named.len() {
        0 => String::new(),
        count => format!(" and {}", count_noun(count as u64, "more port")),
    };
    format!("the configuration sets {}{more} down", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_ports_are_counted() {
        let ports: Vec<String> = (0..10).map(|n| format!("sw1 Ethernet{n}")).collect();
        assert_eq!(
            describe_ports_configured_down(&ports[..1]),
            "the configuration sets sw1 Ethernet0 down"
        );
        let text = describe_ports_configured_down(&ports);
        assert!(text.ends_with("sw1 Ethernet7 and 2 more ports down"), "{text}");
    }
}
