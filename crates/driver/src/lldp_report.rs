//! The LLDP part of the report of a switch.

use xoff_dataplane::Picos;
use xoff_dataplane::config::SwitchConfig;
use xoff_telemetry::{LldpPortReport, LldpReport, SwitchSnapshot};

use crate::cpu::LldpAgent;

/// Adds the state of the LLDP agent at the model time `now` to a snapshot. `None`: LLDP is off, and the snapshot does
/// not change.
pub fn with_lldp_report(
    mut snapshot: SwitchSnapshot,
    agent: Option<&LldpAgent>,
    config: &SwitchConfig,
    now: Picos,
) -> SwitchSnapshot {
    snapshot.report.lldp = agent.map(|agent| {
        let ports = agent.ports().filter_map(|(id, port)| {
            let name = &config.ports.get(id.index())?.name;
            Some(LldpPortReport::new(name, port, now.as_nanos()))
        });
        LldpReport {
            ports: ports.collect(),
        }
    });
    snapshot
}
