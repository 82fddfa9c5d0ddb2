//! Snapshots of a switch: its counters and states at one model time.

use xoff_dataplane::SwitchEvent;

use super::{BalancingSnapshot, LoadBalancingReport, SwitchReport};

/// The counters and states of a switch at one model time.
///
/// The thread of the switch takes the snapshot. [`SwitchSnapshot::into_report`] completes the report in the
/// thread that reads it, because the names of load balancing groups need a pass over all routes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SwitchSnapshot {
    /// The report without load balancing: [`SwitchReport::load_balancing`] is `None`.
    pub report: SwitchReport,
    /// The first events of the switch in the order of their times, up to 8192 events.
    pub events: Vec<SwitchEvent>,
    /// Load balancing groups and flow moves.
    pub balancing: BalancingSnapshot,
}

impl SwitchSnapshot {
    /// Returns the report with load balancing.
    pub fn into_report(self) -> SwitchReport {
        SwitchReport {
            load_balancing: LoadBalancingReport::new(&self.balancing),
            ..self.report
        }
    }
}
