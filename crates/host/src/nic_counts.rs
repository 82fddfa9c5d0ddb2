//! Arithmetic with the counters of a NIC.

use crate::nic::NicCounters;

impl NicCounters {
    /// Calls `change` with each counter, and with the same counter of `other`. The pattern names all fields, so a new
    /// counter cannot be forgotten.
    fn zip_counts(&mut self, other: &NicCounters, change: impl Fn(&mut u64, u64)) {
        let NicCounters {
            tx_frames,
            tx_bytes,
            tx_other_frames,
            tx_other_bytes,
            tx_dropped_frames,
            pfc_rx,
            pfc_rx_frames,
            pfc_on2off_rx,
            paused_ns,
            pause_rx_frames,
            global_paused_ns,
            pfc_tx,
            pause_tx_frames,
            tx_control_frames,
            rx_dropped_frames,
            tx_deficit_ns,
        } = self;
        let arrays = [
            (tx_frames, &other.tx_frames),
            (tx_bytes, &other.tx_bytes),
            (pfc_rx, &other.pfc_rx),
            (pfc_on2off_rx, &other.pfc_on2off_rx),
            (paused_ns, &other.paused_ns),
            (pfc_tx, &other.pfc_tx),
            (rx_dropped_frames, &other.rx_dropped_frames),
        ];
        for (own, other) in arrays {
            own.iter_mut()
                .zip(other)
                .for_each(|(own, other)| change(own, *other));
        }
        let counts = [
            (tx_other_frames, other.tx_other_frames),
            (tx_other_bytes, other.tx_other_bytes),
            (tx_dropped_frames, other.tx_dropped_frames),
            (pfc_rx_frames, other.pfc_rx_frames),
            (pause_rx_frames, other.pause_rx_frames),
            (global_paused_ns, other.global_paused_ns),
            (pause_tx_frames, other.pause_tx_frames),
            (tx_control_frames, other.tx_control_frames),
            (tx_deficit_ns, other.tx_deficit_ns),
        ];
        counts.into_iter().for_each(|(own, other)| change(own, other));
    }

    /// Adds all counts of `other`.
    pub fn add(&mut self, other: &NicCounters) {
        self.zip_counts(other, |own, other| *own += other);
    }

    /// Returns the counts since `earlier`, an older state of these counters, multiplied by `times` and rounded.
    #[must_use]
    pub fn repeated_since(&self, earlier: &NicCounters, times: f64) -> NicCounters {
        let mut counts = self.clone();
        counts.zip_counts(earlier, |own, earlier| {
            *own = (own.saturating_sub(earlier) as f64 * times).round() as u64;
        });
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_counts_are_differences_times_a_factor() {
        let earlier = NicCounters {
            tx_frames: [4; 8],
            tx_control_frames: 1,
            ..NicCounters::default()
        };
        let mut later = NicCounters {
            tx_frames: [6; 8],
            tx_control_frames: 2,
            ..NicCounters::default()
        };
        later.add(&later.repeated_since(&earlier, 3.0));
        assert_eq!((later.tx_frames, later.tx_control_frames), ([12; 8], 5));
    }
}
