//! Priority flow control of a switch's ports, as `show pfc` has it.

use serde::{Deserialize, Serialize};
use xoff_dataplane::ids::PRIORITIES;

use xoff_telemetry::{PauseHistoryReport, PortReport, SwitchReport, SwitchSnapshot};

/// Priority flow control of a port. In arrays of eight the index is the priority.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct PfcPort {
    /// Name of the port.
    pub name: String,
    /// Priorities with PFC (`pfc_enable`).
    pub priorities: Vec<u8>,
    /// Pauses of every priority are obeyed (`pfc_asym`).
    pub asymmetric: bool,
    /// PFC frames received with the priority's bit set, XON included, since the last clear.
    pub rx: [u64; PRIORITIES],
    /// PFC frames sent with the priority's bit set, XON included, since the last clear.
    pub tx: [u64; PRIORITIES],
    /// Pauses received, of each priority; null unless `PFC_WD` has `pfc_stat_history` for the port. Transitions and total
    /// times are since the last clear.
    pub history: Option<[PauseHistoryReport; PRIORITIES]>,
}

/// What has been counted up to now, as a base for [`pfc_ports`]: with the history of every port.
pub(super) fn pfc_base(snapshot: &SwitchSnapshot) -> Vec<PfcPort> {
    SwitchReport::new(snapshot).ports.iter().map(counted).collect()
}

/// The ports of a switch, less what `base` has counted.
pub(super) fn pfc_ports(snapshot: &SwitchSnapshot, base: &[PfcPort]) -> Vec<PfcPort> {
    let report = SwitchReport::new(snapshot);
    let watched = report.pfc_watchdog.iter().flat_map(|watchdog| &watchdog.ports);
    let with_history: Vec<&str> = watched
        .filter(|port| port.pfc_stat_history)
        .map(|port| port.port.as_str())
        .collect();
    let of_port = |port: &PortReport| {
        let now = counted(port);
        let mut shown = match base.iter().find(|base| base.name == now.name) {
            Some(base) => since(now, base),
            None => now,
        };
        shown.history = shown
            .history
            .filter(|_| with_history.contains(&port.name.as_str()));
        shown
    };
    report.ports.iter().map(of_port).collect()
}

fn counted(port: &PortReport) -> PfcPort {
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

fn since(now: PfcPort, base: &PfcPort) -> PfcPort {
    let less = |now: [u64; PRIORITIES], base: [u64; PRIORITIES]| {
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
        rx: less(now.rx, base.rx),
        tx: less(now.tx, base.tx),
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
    fn what_is_shown_is_counted_since_the_base() {
        let mut then = sample_snapshot();
        then.ports[0].pause_history[3].transitions = 2;
        then.ports[0].pause_history[3].total_pause_ps = 5_000_000;
        let base = pfc_base(&then);
        let mut now = then.clone();
        now.ports[0].counters.pfc_rx[3] += 10;
        now.ports[0].pause_history[3].transitions += 1;
        now.ports[0].pause_history[3].recent_pause_ps = 7_000;
        now.watchdog = Some(WatchdogReport {
            ports: vec![WatchdogPort {
                port: "Ethernet0".to_owned(),
                pfc_stat_history: true,
                ..WatchdogPort::default()
            }],
            ..WatchdogReport::default()
        });
        let [shown, other] = pfc_ports(&now, &base).try_into().expect("two ports");
        assert_eq!((shown.rx[3], shown.tx[3], shown.priorities), (10, 0, vec![3]));
        let history = shown.history.expect("the port keeps one")[3];
        assert_eq!(
            (
                history.transitions,
                history.total_pause_ns,
                history.recent_pause_ns
            ),
            (1, 0, 7)
        );
        assert_eq!(other.history, None);
        assert_eq!(pfc_ports(&now, &[])[0].rx[3], 15);
    }
}
