//! Arithmetic with counters: differences, and counts that repeat.

use crate::counters::{DropCounters, PgCounters, PortCounters, QueueCounters};

/// Calls a function with each counter of `self`, and with the same counter of another object.
trait ZipCounts {
    fn zip_counts(&mut self, other: &Self, change: &mut impl FnMut(&mut u64, u64));
}

impl ZipCounts for u64 {
    fn zip_counts(&mut self, other: &Self, change: &mut impl FnMut(&mut u64, u64)) {
        change(self, *other);
    }
}

impl<T: ZipCounts, const N: usize> ZipCounts for [T; N] {
    fn zip_counts(&mut self, other: &Self, change: &mut impl FnMut(&mut u64, u64)) {
        let pairs = self.iter_mut().zip(other);
        pairs.for_each(|(own, other)| own.zip_counts(other, change));
    }
}

/// Implements [`ZipCounts`]. The pattern names all fields, so a new counter cannot be forgotten.
macro_rules! zip_counts {
    ($name:ident { $($count:ident)* } ignored { $($ignored:ident)* }) => {
        impl ZipCounts for $name {
            fn zip_counts(&mut self, other: &Self, change: &mut impl FnMut(&mut u64, u64)) {
                let $name { $($count,)* $($ignored: _,)* } = self;
                $($count.zip_counts(&other.$count, change);)*
            }
        }
    };
}

zip_counts! {
    PgCounters { packets bytes dropped_packets watchdog_dropped_packets xoff_transitions } ignored {}
}
zip_counts! {
    QueueCounters {
        packets bytes dropped_packets dropped_bytes watchdog_dropped_packets trim_packets tx_trim_packets
        dropped_trim_packets wred_dropped_packets wred_ecn_marked_packets wred_ecn_marked_bytes
    } ignored {}
}
zip_counts! {
    PortCounters {
        rx_packets rx_bytes tx_packets tx_bytes tx_busy_ps ecn_marked rx_own_packets rx_non_unicast_packets
        pfc_tx_frames pfc_rx_frames pause_rx pause_tx injected_control_frames rx_global_pause_ps
        tx_global_pause_ps link_quality_tx link_quality_rx rx_class_packets tx_class_packets pfc_rx pfc_tx
        pfc_on2off_rx rx_pause_ps tx_pause_ps pgs queues drops
    } ignored { tx_first_ps tx_last_ps }
}

impl ZipCounts for DropCounters {
    fn zip_counts(&mut self, other: &Self, change: &mut impl FnMut(&mut u64, u64)) {
        for (reason, others) in other.iter().enumerate() {
            // The first access allocates the counters of a port.
            if self[reason] != [0; _] || *others != [0; _] {
                self[reason].zip_counts(others, change);
            }
        }
    }
}

impl PortCounters {
    /// Adds all counts of `other`. [`PortCounters::tx_first_ps`] and [`PortCounters::tx_last_ps`] are times and stay.
    pub fn add(&mut self, other: &PortCounters) {
        self.zip_counts(other, &mut |own, other| *own += other);
    }

    /// Returns the counts since `earlier`, an older state of these counters, multiplied by `times` and rounded. The two
    /// times are not changed.
    #[must_use]
    pub fn repeated_since(&self, earlier: &PortCounters, times: f64) -> PortCounters {
        let mut counts = self.clone();
        counts.zip_counts(earlier, &mut |own, earlier| {
            *own = ((own.saturating_sub(earlier)) as f64 * times).round() as u64;
        });
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_counts_are_differences_times_a_factor() {
        let mut earlier = PortCounters {
            rx_packets: 10,
            ..PortCounters::default()
        };
        earlier.drops[2][3] = 1;
        let mut later = earlier.clone();
        later.rx_packets = 14;
        later.pgs[3].bytes = 7;
        later.queues[7].wred_ecn_marked_bytes = 3;
        later.pfc_tx[5] = 2;
        later.drops[2][3] = 5;
        later.tx_last_ps = 99;
        let repeated = later.repeated_since(&earlier, 2.5);
        later.add(&repeated);
        assert_eq!(later.rx_packets, 24);
        assert_eq!(
            (later.pgs[3].bytes, later.queues[7].wred_ecn_marked_bytes),
            (7 + 18, 3 + 8)
        );
        assert_eq!((later.pfc_tx[5], later.drops[2][3]), (7, 15));
        assert_eq!(later.tx_last_ps, 99, "a time is no count");
    }
}
