//! Events of a switch with the names and messages of SONiC.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use xoff_dataplane::config::WatchdogAction;
use xoff_dataplane::{PortId, QueueId, SwitchEvent, SwitchEventKind};
use xoff_wire::dcbx::ConfigurationSource;
use xoff_wire::lldp_port::LldpEvent;

/// SAI object type of a port in the upper 16 bits of an object identifier.
const SAI_PORT: u64 = 0x01 << 48;
/// SAI object type of a queue in the upper 16 bits of an object identifier.
const SAI_QUEUE: u64 = 0x15 << 48;

/// Returns the SAI object identifier of a port: the object type 0x1, and the index of the port plus 1.
pub fn port_oid(port: PortId) -> u64 {
    SAI_PORT | (port.index() as u64 + 1)
}

/// Returns the SAI object identifier of a queue: the object type 0x15, and the index of the queue among all
/// queues of the switch plus 1.
pub fn queue_oid(queue: QueueId) -> u64 {
    SAI_QUEUE | (queue.index() as u64 + 1)
}

/// An event of a switch in JSON. Events of the big red switch have only the field `on`. Storm events have the
/// fields of their queue. The fields `action` and `paused_ns` exist only in the event `pfc-storm`. The event
/// `mac-moves` has the fields `ifname`, `previous_ifname`, `mac` and `vlan`. Events of LLDP and DCBX have the fields
/// `ifname` and `detail`. Fields without a value are omitted.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct EventReport {
    /// Model time of the event in nanoseconds.
    pub at_ns: u64,
    /// Name of the event, such as `pfc-storm` ([`event_name`]).
    pub event: String,
    /// Name of the port. `None` if the event has no port. In the event `mac-moves`, the port after the latest
    /// move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ifname: Option<String>,
    /// Number of the queue at its port, 0 to 7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_index: Option<u8>,
    /// SAI object identifier of the queue ([`queue_oid`]) in hexadecimal, such as `0x1500000000000c`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_id: Option<String>,
    /// SAI object identifier of the port ([`port_oid`]) in hexadecimal, such as `0x1000000000002`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port_id: Option<String>,
    /// The watchdog action of the storm: `drop`, `forward` or `alert`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Time for which the queue was paused before the detection of the storm, in nanoseconds. If the queue
    /// sent frames during the pause, only the time after these frames is included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_ns: Option<u64>,
    /// Whether the big red switch is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<bool>,
    /// The MAC address that moves between ports, such as `02:00:00:00:00:01`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// The VLAN of this MAC address. 0 if the switch has no VLANs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// Name of the port before the latest move of this MAC address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_ifname: Option<String>,
    /// Description of an LLDP or DCBX event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Returns the SONiC name of a watchdog action.
pub fn action_name(action: WatchdogAction) -> &'static str {
    match action {
        WatchdogAction::Drop => "drop",
        WatchdogAction::Forward => "forward",
        WatchdogAction::Alert => "alert",
    }
}

/// Returns the name of an event: `pfc-storm`, `pfc-storm-restored`, `big-red-switch`, `mac-moves`,
/// `lldp-neighbour-added`, `lldp-neighbour-removed`, `lldp-rejected`, `dcbx-pfc`, `dcbx-ets`, `dcbx-mismatch` or
/// `dcbx-mismatches-ended`.
pub fn event_name(kind: &SwitchEventKind) -> &'static str {
    match kind {
        SwitchEventKind::StormDetected { .. } => "pfc-storm",
        SwitchEventKind::StormRestored { .. } => "pfc-storm-restored",
        SwitchEventKind::BigRedSwitch { .. } => "big-red-switch",
        SwitchEventKind::MacMoves { .. } => "mac-moves",
        SwitchEventKind::Lldp { event, .. } => match event {
            LldpEvent::NeighbourAdded => "lldp-neighbour-added",
            LldpEvent::NeighbourRemoved => "lldp-neighbour-removed",
            LldpEvent::Rejected(_) => "lldp-rejected",
            LldpEvent::PfcChanged(_) => "dcbx-pfc",
            LldpEvent::EtsChanged(_) => "dcbx-ets",
            LldpEvent::Mismatch(_) => "dcbx-mismatch",
            LldpEvent::MismatchesEnded => "dcbx-mismatches-ended",
        },
    }
}

/// Describes an event of LLDP or DCBX.
pub fn describe_lldp_event(event: LldpEvent) -> String {
    match event {
        LldpEvent::NeighbourAdded => "new neighbour".to_owned(),
        LldpEvent::NeighbourRemoved => "the information of a neighbour has ended".to_owned(),
        LldpEvent::Rejected(tlv) => format!("received TLV rejected: {tlv}"),
        LldpEvent::PfcChanged(0) => "PFC in operation on no priority".to_owned(),
        LldpEvent::PfcChanged(mask) => {
            let numbers: Vec<String> = (0..8)
                .filter(|bit| mask & 1 << bit != 0)
                .map(|bit| bit.to_string())
                .collect();
            format!("PFC in operation on priority {}", numbers.join(" "))
        }
        LldpEvent::EtsChanged(ConfigurationSource::Peer) => {
            "ETS in operation as the peer recommends".to_owned()
        }
        LldpEvent::EtsChanged(ConfigurationSource::Local) => "ETS in operation as configured".to_owned(),
        LldpEvent::Mismatch(mismatch) => mismatch.to_string(),
        LldpEvent::MismatchesEnded => "both ends agree".to_owned(),
    }
}

impl EventReport {
    /// Converts an event of a switch. `ports` contains the names of all ports of the switch, in the order of
    /// their indices.
    pub fn new(event: &SwitchEvent, ports: &[String]) -> EventReport {
        let mut report = EventReport {
            at_ns: event.at.as_nanos(),
            event: event_name(&event.kind).to_owned(),
            ..EventReport::default()
        };
        match event.kind {
            SwitchEventKind::StormDetected {
                queue,
                action,
                paused,
            } => {
                report.set_queue(queue, ports);
                report.action = Some(action_name(action).to_owned());
                report.paused_ns = Some(paused.as_nanos());
            }
            SwitchEventKind::StormRestored { queue } => report.set_queue(queue, ports),
            SwitchEventKind::BigRedSwitch { on } => report.on = Some(on),
            SwitchEventKind::MacMoves {
                address,
                vlan,
                ports: [previous, present],
            } => {
                report.mac = Some(format_mac(address));
                report.vlan = Some(vlan);
                report.previous_ifname = ports.get(previous.index()).cloned();
                report.ifname = ports.get(present.index()).cloned();
            }
            SwitchEventKind::Lldp { port, event } => {
                report.ifname = ports.get(port.index()).cloned();
                report.port_id = Some(format!("{:#x}", port_oid(port)));
                report.detail = Some(describe_lldp_event(event));
            }
        }
        report
    }

    fn set_queue(&mut self, queue: QueueId, ports: &[String]) {
        self.ifname = ports.get(queue.port().index()).cloned();
        self.queue_index = Some(queue.number());
        self.queue_id = Some(format!("{:#x}", queue_oid(queue)));
        self.port_id = Some(format!("{:#x}", port_oid(queue.port())));
    }

    /// Formats the event as a log line: the model time in seconds, the severity, the name `switch` and the
    /// message. The message has the same text as in SONiC, so that tests for SONiC, which search the log for
    /// this text, also work with xoff.
    pub fn log_line(&self, switch: &str) -> String {
        let (seconds, nanos) = (self.at_ns / 1_000_000_000, self.at_ns % 1_000_000_000);
        format!("[{seconds}.{nanos:09}] NOTICE {switch}: {}", self.log_message())
    }

    fn log_message(&self) -> String {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let place = format!(
            "on port {}, queue index {}, queue id {} and port id {}",
            text(&self.ifname),
            self.queue_index.unwrap_or_default(),
            text(&self.queue_id),
            text(&self.port_id)
        );
        match self.event.as_str() {
            "pfc-storm" => format!(
                "PFC Watchdog detected PFC storm {place}, additional info: action:{}|paused_us:{}.",
                text(&self.action),
                self.paused_ns.unwrap_or_default() / 1_000
            ),
            "pfc-storm-restored" => format!("PFC Watchdog storm restored {place}."),
            "mac-moves" => {
                let vlan = match self.vlan {
                    None | Some(0) => String::new(),
                    Some(vlan) => format!(" of Vlan{vlan}"),
                };
                format!(
                    "MAC address {}{vlan} moves between ports {} and {} more than 100 times a second: look for a loop, \
                     or for a second station with this address.",
                    text(&self.mac),
                    text(&self.previous_ifname),
                    text(&self.ifname)
                )
            }
            name if name.starts_with("lldp-") => {
                format!("LLDP on port {}: {}.", text(&self.ifname), text(&self.detail))
            }
            name if name.starts_with("dcbx-") => {
                format!("DCBX on port {}: {}.", text(&self.ifname), text(&self.detail))
            }
            _ if self.on == Some(true) => {
                "PFC Watchdog BIG_RED_SWITCH mode enabled: every watched queue drops.".to_owned()
            }
            _ => "PFC Watchdog BIG_RED_SWITCH mode disabled.".to_owned(),
        }
    }
}

/// Formats a MAC address, such as `02:00:00:00:00:01`.
fn format_mac(address: [u8; 6]) -> String {
    let bytes: Vec<String> = address.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_units::Picos;

    fn line(at: u64, kind: SwitchEventKind) -> String {
        let event = SwitchEvent { at: Picos(at), kind };
        let ports = ["Ethernet0".to_owned(), "Ethernet4".to_owned()];
        EventReport::new(&event, &ports).log_line("tor0")
    }

    #[test]
    fn log_lines_have_the_messages_of_sonic() {
        let queue = QueueId::new(PortId(1), 3);
        assert_eq!(
            line(
                2_600_000_001_999,
                SwitchEventKind::StormDetected {
                    queue,
                    action: WatchdogAction::Drop,
                    paused: Picos::from_micros(400_123),
                }
            ),
            "[2.600000001] NOTICE tor0: PFC Watchdog detected PFC storm on port Ethernet4, queue index 3, queue id \
             0x1500000000000c and port id 0x1000000000002, additional info: action:drop|paused_us:400123."
        );
        assert_eq!(
            line(999_000, SwitchEventKind::StormRestored { queue }),
            "[0.000000999] NOTICE tor0: PFC Watchdog storm restored on port Ethernet4, queue index 3, queue id \
             0x1500000000000c and port id 0x1000000000002."
        );
        assert_eq!(
            line(0, SwitchEventKind::BigRedSwitch { on: true }),
            "[0.000000000] NOTICE tor0: PFC Watchdog BIG_RED_SWITCH mode enabled: every watched queue drops."
        );
    }

    #[test]
    fn a_moving_address_is_reported_with_both_ports() {
        let moves = |vlan| SwitchEventKind::MacMoves {
            address: [2, 0, 0, 0, 0, 0xab],
            vlan,
            ports: [PortId(1), PortId(0)],
        };
        assert_eq!(
            line(1_500_000_000_000, moves(10)),
            "[1.500000000] NOTICE tor0: MAC address 02:00:00:00:00:ab of Vlan10 moves between ports Ethernet4 and \
             Ethernet0 more than 100 times a second: look for a loop, or for a second station with this address."
        );
        assert!(line(0, moves(0)).contains("02:00:00:00:00:ab moves between"));
    }

    #[test]
    fn missing_fields_are_omitted() {
        let event = SwitchEvent {
            at: Picos(7_000),
            kind: SwitchEventKind::BigRedSwitch { on: false },
        };
        let json = serde_json::to_value(EventReport::new(&event, &[])).expect("plain fields");
        assert_eq!(
            json,
            serde_json::json!({"at_ns": 7, "event": "big-red-switch", "on": false})
        );
    }
}
