//! PFC state and counters of a switch for `show pfc`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use xoff_dataplane::ids::PRIORITIES;

use xoff_telemetry::{PauseHistoryReport, PortReport, SwitchReport};

/// PFC state and counters of a port. Arrays of eight values are indexed by priority.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct PfcPort {
    /// Name of the port.
    pub name: String,
    /// Priorities with PFC (`pfc_enable`).
    pub priorities: Vec<u8>,
    /// Whether the port honours pauses of every priority (`pfc_asym`).
    pub asymmetric: bool,
    /// Number of received PFC frames in which the enable bit of the priority is set, since the last clear.
    /// XON frames are included.
    pub rx: [u64; PRIORITIES],
    /// Number of sent PFC frames in which the enable bit of the priority is set, since the last clear. XON
    /// frames are included.
    pub tx: [u64; PRIORITIES],
    /// History of received pauses of each priority. Null if `PFC_WD` does not set `pfc_stat_history` for the
    /// port. Transitions and total times are counted from the last clear.
    pub history: Option<[PauseHistoryReport; PRIORITIES]>,
}

/// Returns the present PFC counters and pause histories of all ports. [`pfc_ports_since`] subtracts these
/// values from later counters.
pub(crate) fn read_pfc_ports(report: &SwitchReport) -> Vec<PfcPort> {
    report.ports.iter().map(pfc_of_port).collect()
}

/// Returns the PFC counters of all ports since a baseline.
pub(crate) fn pfc_ports_since(report: &SwitchReport, base: &[PfcPort]) -> Vec<PfcPort> {
    let watched = report.pfc_watchdog.iter().flat_map(|watchdog| &watchdog.ports);
    let with_history: Vec<&str> = watched
        .filter(|port| port.pfc_stat_history)
        .map(|port| port.port.as_str())
        .collect();
    let port_since = |port: &PortReport| {
        let now = pfc_of_port(port);
        let mut shown = match base.iter().find(|base| base.name == now.name) {
            Some(base) => subtract_baseline(now, base),
            None => now,
        };
        shown.history = shown
            .history
            .filter(|_| with_history.contains(&port.name.as_str()));
        shown
    };
    report.ports.iter().map(port_since).collect()
}

/// Converts the report of a port.
fn pfc_of_port(port: &PortReport) -> PfcPort {
    let enabled = |n: &u8| port.pfc_enabled[usize::from(*n)];
    PfcPort {
        name: port.name.clone(),
        priorities: (0..PRIORITIES as u8).filter(enabled).collect(),
        asymmetric: port.pfc_asymmetric,
        rx: port.pfc_rx,
        tx: port.pfc_tx,
        history: Some(port.pause_history),
    }
}

/// Subtracts the counters of a baseline.
fn subtract_baseline(now: PfcPort, base: &PfcPort) -> PfcPort {
    let difference = |now: [u64; PRIORITIES], base: [u64; PRIORITIES]| {
        std::array::from_fn(|n| now[n].saturating_sub(base[n]))
    };
    let history = now.history.map(|history| {
        let base = base.history.unwrap_or_default();
        std::array::from_fn(|n| PauseHistoryReport {
            transitions: history[n].transitions.saturating_sub(base[n].transitions),
            total_pause_ns: history[n].total_pause_ns.saturating_sub(base[n].total_pause_ns),
            ..history[n]
        })
    });
    PfcPort {
        rx: difference(now.rx, base.rx),
        tx: difference(now.tx, base.tx),
        history,
        ..now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_telemetry::samples::sample_snapshot;
    use xoff_telemetry::{WatchdogPort, WatchdogReport};

    #[test]
    fn pfc_counters_are_relative_to_the_baseline() {
        let mut earlier = sample_snapshot().report;
        earlier.ports[0].pause_history[3].transitions = 2;
        earlier.ports[0].pause_history[3].total_pause_ns = 5_000;
        let base = read_pfc_ports(&earlier);
        let mut now = earlier.clone();
        now.ports[0].pfc_rx[3] += 10;
        now.ports[0].pause_history[3].transitions += 1;
        now.ports[0].pause_history[3].recent_pause_ns = 7;
        now.pfc_watchdog = Some(WatchdogReport {
            ports: vec![WatchdogPort {
                port: "Ethernet0".to_owned(),
                pfc_stat_history: true,
                ..WatchdogPort::default()
            }],
            ..WatchdogReport::default()
        });
        let [shown, other] = pfc_ports_since(&now, &base).try_into().expect("two ports");
        assert_eq!((shown.rx[3], shown.tx[3], shown.priorities), (10, 0, vec![3]));
        let history = shown.history.expect("the port has a history")[3];
        assert_eq!(
            (
                history.transitions,
                history.total_pause_ns,
                history.recent_pause_ns
            ),
            (1, 0, 7)
        );
        assert_eq!(other.history, None);
        assert_eq!(pfc_ports_since(&now, &[])[0].rx[3], 15);
    }
}
