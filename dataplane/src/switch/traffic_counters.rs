//! The counters of a port that nearly every frame changes. A frame changes counters in one cache line.
//!
//! The counters of a report overlap: an accepted frame is counted for the port, for its traffic class and for
//! its priority group. A frame on the fast path is therefore counted once, for its traffic class, and the
//! other counters are computed when they are read.

use crate::config::ClassMaps;
use crate::counters::PortCounters;
use crate::ids::{PRIORITIES, ROCE_CLASS, TRAFFIC_CLASSES};
use xoff_units::prefetch;

/// Number of traffic classes in a record.
const CLASSES_PER_RECORD: usize = TRAFFIC_CLASSES / PRIORITIES;

/// A number of frames and of their bytes (`mac_len`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameCount {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl FrameCount {
    #[inline(always)]
    fn add(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }
}

/// The counters of queue *n* and of the traffic classes *n* and *n + 8*. Nearly all configurations map class
/// *n* to queue *n*, so a frame uses the same record at ingress and at egress.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct TrafficRecord {
    /// Frames that were received and accepted on the fast path, for each traffic class.
    received: [FrameCount; CLASSES_PER_RECORD],
    /// Sent frames of the queue.
    sent: FrameCount,
    /// Number of sent frames of each traffic class.
    sent_of_class: [u64; CLASSES_PER_RECORD],
}

const _: () = assert!(size_of::<TrafficRecord>() == 64);

/// Counters of the frames that a port has received on the fast path, and of the frames that it has sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrafficCounters([TrafficRecord; PRIORITIES]);

impl TrafficCounters {
    /// Fetches the record that most frames use, without waiting for it.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        prefetch(&self.0[ROCE_CLASS]);
    }

    /// Counts a frame that was received and accepted on the fast path.
    #[inline(always)]
    pub(super) fn count_received(&mut self, tc: u8, bytes: u64) {
        let tc = usize::from(tc);
        self.0[tc % PRIORITIES].received[tc / PRIORITIES % CLASSES_PER_RECORD].add(bytes);
    }

    /// Counts a frame of class `tc` that leaves through `queue`.
    #[inline(always)]
    pub(super) fn count_sent(&mut self, queue: usize, tc: u8, bytes: u64) {
        let tc = usize::from(tc);
        self.0[queue % PRIORITIES].sent.add(bytes);
        self.0[tc % PRIORITIES].sent_of_class[tc / PRIORITIES % CLASSES_PER_RECORD] += 1;
    }

    /// Returns the sent frames of a queue.
    pub(super) fn sent(&self, queue: usize) -> FrameCount {
        self.0[queue].sent
    }

    fn received(&self, tc: usize) -> FrameCount {
        self.0[tc % PRIORITIES].received[tc / PRIORITIES]
    }

    /// Returns the number of received frames of a priority group. `maps` has been the map of the port since
    /// the last [`TrafficCounters::move_received_to`].
    pub(super) fn received_packets_of_group(&self, maps: &ClassMaps, group: usize) -> u64 {
        let of_group = |tc: &usize| usize::from(maps.priority_group(*tc as u8)) == group;
        let classes = (0..TRAFFIC_CLASSES).filter(of_group);
        classes.map(|tc| self.received(tc).packets).sum()
    }

    /// Adds the received frames to the counters of a port, its traffic classes and its priority groups.
    pub(super) fn add_received_to(&self, maps: &ClassMaps, counters: &mut PortCounters) {
        for tc in 0..TRAFFIC_CLASSES {
            let FrameCount { packets, bytes } = self.received(tc);
            counters.rx_packets += packets;
            counters.rx_bytes += bytes;
            counters.rx_class_packets[tc] += packets;
            let group = &mut counters.pgs[usize::from(maps.priority_group(tc as u8))];
            group.packets += packets;
            group.bytes += bytes;
        }
    }

    /// Like [`TrafficCounters::add_received_to`], and clears the counters of received frames. The caller calls
    /// this before `maps` changes.
    pub(super) fn move_received_to(&mut self, maps: &ClassMaps, counters: &mut PortCounters) {
        self.add_received_to(maps, counters);
        for record in &mut self.0 {
            record.received = Default::default();
        }
    }

    /// Adds the sent frames to the counters of the queues and of the traffic classes.
    pub(super) fn add_sent_to(&self, counters: &mut PortCounters) {
        for (record, queue) in self.0.iter().zip(&mut counters.queues) {
            counters.tx_packets += record.sent.packets;
            queue.packets += record.sent.packets;
            queue.bytes += record.sent.bytes;
        }
        for (tc, sent) in counters.tx_class_packets.iter_mut().enumerate() {
            *sent += self.0[tc % PRIORITIES].sent_of_class[tc / PRIORITIES];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TrustMode;

    fn maps(tc_to_pg: [u8; TRAFFIC_CLASSES]) -> ClassMaps {
        ClassMaps {
            trust: TrustMode::Dscp,
            tc_to_queue: [0; TRAFFIC_CLASSES],
            tc_to_pg,
            dot1p_to_tc: [0; PRIORITIES],
            dscp_to_tc: [0; 64],
        }
    }

    #[test]
    fn a_received_frame_is_counted_for_port_class_and_group() {
        let mut traffic = TrafficCounters::default();
        traffic.count_received(3, 100);
        traffic.count_received(11, 1_000);
        traffic.count_received(15, 64);
        let mut by_class = [0; TRAFFIC_CLASSES];
        (by_class[3], by_class[11], by_class[15]) = (5, 5, 2);
        let maps = maps(by_class);
        let mut counters = PortCounters::default();
        traffic.add_received_to(&maps, &mut counters);
        assert_eq!((counters.rx_packets, counters.rx_bytes), (3, 1_164));
        assert_eq!(
            [3, 11, 15, 7].map(|tc| counters.rx_class_packets[tc]),
            [1, 1, 1, 0]
        );
        assert_eq!((counters.pgs[5].packets, counters.pgs[5].bytes), (2, 1_100));
        assert_eq!((counters.pgs[2].packets, counters.pgs[2].bytes), (1, 64));
        assert_eq!(
            [5, 2, 0].map(|pg| traffic.received_packets_of_group(&maps, pg)),
            [2, 1, 0]
        );
    }

    #[test]
    fn received_frames_stay_in_their_group_after_the_map_changes() {
        let mut traffic = TrafficCounters::default();
        let mut counters = PortCounters::default();
        traffic.count_received(3, 100);
        traffic.move_received_to(&maps([1; TRAFFIC_CLASSES]), &mut counters);
        traffic.count_received(3, 200);
        traffic.add_received_to(&maps([6; TRAFFIC_CLASSES]), &mut counters);
        assert_eq!((counters.pgs[1].bytes, counters.pgs[6].bytes), (100, 200));
        assert_eq!((counters.rx_packets, counters.rx_class_packets[3]), (2, 2));
    }

    #[test]
    fn a_sent_frame_is_counted_for_port_class_and_queue() {
        let mut traffic = TrafficCounters::default();
        traffic.count_sent(4, 12, 100);
        traffic.count_sent(6, 4, 200);
        traffic.count_sent(6, 4, 300);
        let mut counters = PortCounters::default();
        traffic.add_sent_to(&mut counters);
        assert_eq!(counters.tx_packets, 3);
        assert_eq!([4, 12, 6].map(|tc| counters.tx_class_packets[tc]), [2, 1, 0]);
        assert_eq!([4, 6].map(|n| counters.queues[n].packets), [1, 2]);
        assert_eq!([4, 6].map(|n| counters.queues[n].bytes), [100, 500]);
        assert_eq!(
            traffic.sent(6),
            FrameCount {
                packets: 2,
                bytes: 500
            }
        );
    }
}
