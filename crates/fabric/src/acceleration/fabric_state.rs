//! The state of a fabric that shows whether it is steady.

use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{PgId, PortId, QueueId};
use xoff_rdma::{QpIndex, ReceiveQueue};

use crate::engine::Fabric;

/// Returns the reason why a fabric can change without a sign after a long time. Returns `None` if there is no such
/// state.
pub(super) fn find_slow_state(fabric: &Fabric) -> Option<&'static str> {
    for switch in 0..fabric.switch_count() {
        for port in &fabric.switch_config(switch).ports {
            if port.shaper.is_some() || port.queues.iter().any(|queue| queue.shaper.is_some()) {
                return Some("a shaper has a bucket that empties");
            }
        }
    }
    for host in 0..fabric.host_count() {
        let host = fabric.host(host);
        if !host.config().flows.is_empty() {
            return Some("open-loop flows have no steps");
        }
        if host.config().nic.receive_buffer.is_some() {
            return Some("a host has a receive buffer that fills");
        }
        let endpoint = host.endpoint();
        let configs = (0..endpoint.len() as u32).filter_map(|qp| endpoint.config(QpIndex(qp)));
        if configs
            .into_iter()
            .any(|config| config.receive_queue != ReceiveQueue::Unlimited)
        {
            return Some("receive entries of a host run out");
        }
    }
    fabric.has_faults().then_some("a link has a fault")
}

/// Sums over all queues, pauses and queue pairs of a fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct FabricState {
    /// Largest number of cells of each queue and priority group since the last clear, summed.
    pub(super) watermark_cells: u64,
    /// Number of priority groups in XOFF.
    pub(super) paused_groups: u64,
    /// Number of queue pairs that have sent and whose rate is below the speed of their link. They can recover at any
    /// time, also after many equal steps.
    pub(super) slow_queue_pairs: u64,
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
            let line_rate_bps = u64::from(fabric.host(index).link().speed_mbps) * 1_000_000;
            for qp in (0..endpoint.len() as u32).map(QpIndex) {
                let has_sent = endpoint
                    .qp_counters(qp)
                    .is_some_and(|counters| counters.tx_bytes > 0);
                let Some(congestion) = endpoint.congestion(qp).filter(|_| has_sent) else {
                    continue;
                };
                state.slow_queue_pairs += u64::from(congestion.rate_bps() < line_rate_bps);
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
        if self.slow_queue_pairs > 0 {
            return Some("queue pairs recover from congestion");
        }
        // A rate that recovers slowly changes no step for a long time.
        if (self.rates_bps, self.window_bytes) != (earlier.rates_bps, earlier.window_bytes) {
            return Some("rates change");
        }
        let paused = self.paused_groups.abs_diff(earlier.paused_groups);
        let paused_max = (earlier.paused_groups as f64 * PAUSE_TOLERANCE).max(PAUSED_GROUPS_TOLERANCE);
        (paused as f64 > paused_max).then_some("pauses change")
    }
}

/// Largest growth of the sum of all watermarks within a window.
const WATERMARK_GROWTH_MAX: f64 = 0.005;
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
            paused_groups: 3,
            slow_queue_pairs: 0,
            rates_bps: 4e12,
            window_bytes: 0.0,
        };
        assert_eq!(state.change_since(&state), None);
        let drained = FabricState {
            paused_groups: 5,
            ..state
        };
        assert_eq!(drained.change_since(&state), None);
        let grown = FabricState {
            watermark_cells: 10_051,
            ..state
        };
        assert_eq!(grown.change_since(&state), Some("queues grow"));
        let slower = FabricState {
            rates_bps: 3.9999e12,
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
