//! The state of a fabric that shows whether it is steady.

use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{PgId, PortId, QueueId};
use xoff_rdma::QpIndex;

use crate::engine::Fabric;

/// Sums over all queues, pauses and queue pairs of a fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct FabricState {
    /// Largest number of cells of each queue and priority group since the last clear, summed.
    pub(super) watermark_cells: u64,
    /// Bytes in the queues of all ports.
    pub(super) queued_bytes: u64,
    /// Number of priority groups in XOFF.
    pub(super) paused_groups: u64,
    /// Sum of the rates of all queue pairs that have sent, in bits per second.
    pub(super) rates_bps: f64,
    /// Sum of the windows of these queue pairs, in bytes.
    pub(super) window_bytes: f64,
}

impl FabricState {
    /// Reads the state at the current time.
    pub(super) fn read(fabric: &Fabric) -> FabricState {
        let mut state = FabricState::default();
        for index in 0..fabric.switch_count() {
            let switch = fabric.switch(index);
            for port in (0..switch.port_count() as u16).map(PortId) {
                state.queued_bytes += switch.port_load(port).queued_bytes;
                for number in 0..PRIORITIES as u8 {
                    let group = switch.pg_buffers(PgId::new(port, number));
                    let queue = switch.queue_buffers(QueueId::new(port, number));
                    state.watermark_cells += u64::from(group.total.peak_cells);
                    state.watermark_cells += u64::from(queue.total.peak_cells);
                    state.paused_groups += u64::from(group.xoff);
                }
            }
        }
        for index in 0..fabric.host_count() {
            let endpoint = fabric.host(index).endpoint();
            for qp in (0..endpoint.len() as u32).map(QpIndex) {
                let has_sent = endpoint
                    .qp_counters(qp)
                    .is_some_and(|counters| counters.tx_bytes > 0);
                let Some(congestion) = endpoint.congestion(qp).filter(|_| has_sent) else {
                    continue;
                };
                state.rates_bps += congestion.rate_bps() as f64;
                state.window_bytes += congestion.window_bytes().unwrap_or(0) as f64;
            }
        }
        state
    }

    /// Returns the reason why the fabric is not steady between `earlier` and this state, which are one window apart.
    /// Returns `None` if it is steady.
    pub(super) fn change_since(&self, earlier: &FabricState) -> Option<&'static str> {
        let grown = self.watermark_cells as f64 / earlier.watermark_cells.max(1) as f64 - 1.0;
        if grown > WATERMARK_GROWTH_MAX {
            return Some("queues grow");
        }
        if !is_close(self.rates_bps, earlier.rates_bps, RATE_TOLERANCE)
            || !is_close(self.window_bytes, earlier.window_bytes, RATE_TOLERANCE)
        {
            return Some("rates change");
        }
        let paused = self.paused_groups.abs_diff(earlier.paused_groups);
        let paused_max = (earlier.paused_groups as f64 * PAUSE_TOLERANCE).max(PAUSED_GROUPS_TOLERANCE);
        (paused as f64 > paused_max).then_some("pauses change")
    }
}

/// Largest growth of the sum of all watermarks within a window.
const WATERMARK_GROWTH_MAX: f64 = 0.005;
/// Largest relative change of the sum of all rates within a window.
const RATE_TOLERANCE: f64 = 0.01;
/// Largest relative change of the number of paused priority groups within a window.
const PAUSE_TOLERANCE: f64 = 0.05;
/// Change of the number of paused priority groups that is always tolerated.
const PAUSED_GROUPS_TOLERANCE: f64 = 2.0;

/// Returns whether two values differ by at most `tolerance`, relative to the larger one.
pub(super) fn is_close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * a.abs().max(b.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_queues_and_changing_rates_are_not_steady() {
        let state = FabricState {
            watermark_cells: 10_000,
            queued_bytes: 70_000,
            paused_groups: 3,
            rates_bps: 4e12,
            window_bytes: 0.0,
        };
        assert_eq!(state.change_since(&state), None);
        let drained = FabricState {
            queued_bytes: 0,
            paused_groups: 5,
            rates_bps: 4.03e12,
            ..state
        };
        assert_eq!(drained.change_since(&state), None);
        let grown = FabricState {
            watermark_cells: 10_051,
            ..state
        };
        assert_eq!(grown.change_since(&state), Some("queues grow"));
        let slower = FabricState {
            rates_bps: 3.9e12,
            ..state
        };
        assert_eq!(slower.change_since(&state), Some("rates change"));
        let paused = FabricState {
            paused_groups: 6,
            ..state
        };
        assert_eq!(paused.change_since(&state), Some("pauses change"));
    }
}
