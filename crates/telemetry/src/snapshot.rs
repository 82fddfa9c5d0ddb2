//! Snapshots of a switch: counters, states and events at one model time.

use xoff_dataplane::SwitchEvent;

use super::{BalancingSnapshot, LoadBalancingReport, SwitchReport};

/// The counters, states and events of a switch at one model time.
///
/// The switch thread takes the snapshot. The reading thread then calls [`SwitchSnapshot::into_report`], which
/// adds load balancing to the report. The reading thread does this step, because the step reads all routes
/// and would delay the switch thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SwitchSnapshot {
    /// The report without load balancing. [`SwitchReport::load_balancing`] is `None`.
    pub report: SwitchReport,
    /// The first 8192 events of the switch, oldest first. Later events are not recorded.
    pub events: Vec<SwitchEvent>,
    /// The state of the load balancing groups, and the latest flow moves.
    pub balancing: BalancingSnapshot,
}

impl SwitchSnapshot {
    /// Returns the report with load balancing. The events are dropped.
    pub fn into_report(self) -> SwitchReport {
        SwitchReport {
            load_balancing: LoadBalancingReport::new(&self.balancing),
            ..self.report
        }
    }
}
