//! Records the events of a time window and passes them to an observer in their total order.
//!
//! Partitions process a window one after the other, or on several threads. Each shard records the events that the
//! observer wants to see. At the end of the window, the records of all shards are sorted.

use xoff_dataplane::{ForwardingResult, Picos, PortId, SwitchEvent};
use xoff_rdma::Completion;

use super::observer::{FrameView, HostEventCounts, ObservedEvents, Observer};
use super::plan::LinkEnd;

/// Recorded events of a window.
#[derive(Debug, Default)]
pub(super) struct EventRecords {
    records: Vec<EventRecord>,
    /// First bytes of the recorded frames.
    prefixes: Vec<u8>,
    /// Key that orders the next records: see [`EventRecords::begin_event`].
    key: u128,
}

#[derive(Clone, Copy, Debug)]
struct EventRecord {
    key: u128,
    kind: EventRecordKind,
}

/// A recorded call of a method of [`Observer`].
#[derive(Clone, Copy, Debug)]
enum EventRecordKind {
    FrameDeparted {
        at: Picos,
        until: Picos,
        from: LinkEnd,
        frame: RecordedFrame,
    },
    FrameArrived {
        at: Picos,
        to: LinkEnd,
        frame: RecordedFrame,
    },
    AdmissionDecided {
        at: Picos,
        switch: u32,
        port: PortId,
        verdict: ForwardingResult,
    },
    FaultApplied {
        at: Picos,
        from: LinkEnd,
        frame: RecordedFrame,
        lost: bool,
    },
    FrameMarked {
        at: Picos,
        port: LinkEnd,
    },
    HostCountersChanged {
        at: Picos,
        host: u32,
        counts: HostEventCounts,
    },
    RequestCompleted {
        host: u32,
        completion: Completion,
    },
    SwitchReported {
        switch: u32,
        event: SwitchEvent,
    },
}

/// A recorded frame. Its first bytes are in [`EventRecords::prefixes`].
#[derive(Clone, Copy, Debug)]
struct RecordedFrame {
    start: usize,
    prefix_len: u32,
    frame_len: u32,
    damaged: bool,
}

impl EventRecords {
    /// Begins the records of a partition. Its events can be earlier than those of the previous partition.
    pub(super) fn begin_partition(&mut self) {
        self.key = 0;
    }

    /// Sets the key of the event whose effects are recorded next.
    ///
    /// An event can cause another event at the same time with a smaller key, which is processed later. Records are
    /// therefore ordered by the largest key of the partition up to now. The largest keys of two partitions are never
    /// equal, because the keys contain the source of the event.
    #[inline]
    pub(super) fn begin_event(&mut self, key: u128) {
        self.key = self.key.max(key);
    }

    fn push(&mut self, kind: EventRecordKind) {
        self.records.push(EventRecord { key: self.key, kind });
    }

    fn record_frame(&mut self, frame: FrameView<'_>) -> RecordedFrame {
        let start = self.prefixes.len();
        self.prefixes.extend_from_slice(frame.prefix);
        RecordedFrame {
            start,
            prefix_len: frame.prefix.len() as u32,
            frame_len: frame.frame_len,
            damaged: frame.damaged,
        }
    }

    fn frame(&self, frame: RecordedFrame) -> FrameView<'_> {
        FrameView {
            prefix: &self.prefixes[frame.start..frame.start + frame.prefix_len as usize],
            frame_len: frame.frame_len,
            damaged: frame.damaged,
        }
    }

    fn pass_on(&self, index: usize, observer: &mut dyn Observer) {
        match self.records[index].kind {
            EventRecordKind::FrameDeparted {
                at,
                until,
                from,
                frame,
            } => observer.frame_departed(at, until, from, self.frame(frame)),
            EventRecordKind::FrameArrived { at, to, frame } => {
                observer.frame_arrived(at, to, self.frame(frame))
            }
            EventRecordKind::AdmissionDecided {
                at,
                switch,
                port,
                verdict,
            } => observer.admission_decided(at, switch, port, &verdict),
            EventRecordKind::FaultApplied {
                at,
                from,
                frame,
                lost,
            } => observer.fault_applied(at, from, self.frame(frame), lost),
            EventRecordKind::FrameMarked { at, port } => observer.frame_marked(at, port),
            EventRecordKind::HostCountersChanged { at, host, counts } => {
                observer.host_counters_changed(at, host, counts)
            }
            EventRecordKind::RequestCompleted { host, completion } => {
                observer.request_completed(host as usize, &completion)
            }
            EventRecordKind::SwitchReported { switch, event } => observer.switch_event(switch, &event),
        }
    }

    /// Returns whether no event is recorded.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn clear(&mut self) {
        self.records.clear();
        self.prefixes.clear();
    }
}

impl Observer for EventRecords {
    fn observed_events(&self) -> ObservedEvents {
        ObservedEvents::ALL
    }

    fn frame_departed(&mut self, at: Picos, until: Picos, from: LinkEnd, frame: FrameView<'_>) {
        let frame = self.record_frame(frame);
        self.push(EventRecordKind::FrameDeparted {
            at,
            until,
            from,
            frame,
        });
    }

    fn frame_arrived(&mut self, at: Picos, to: LinkEnd, frame: FrameView<'_>) {
        let frame = self.record_frame(frame);
        self.push(EventRecordKind::FrameArrived { at, to, frame });
    }

    fn admission_decided(&mut self, at: Picos, switch: u32, port: PortId, verdict: &ForwardingResult) {
        self.push(EventRecordKind::AdmissionDecided {
            at,
            switch,
            port,
            verdict: *verdict,
        });
    }

    fn fault_applied(&mut self, at: Picos, from: LinkEnd, frame: FrameView<'_>, lost: bool) {
        let frame = self.record_frame(frame);
        self.push(EventRecordKind::FaultApplied {
            at,
            from,
            frame,
            lost,
        });
    }

    fn frame_marked(&mut self, at: Picos, port: LinkEnd) {
        self.push(EventRecordKind::FrameMarked { at, port });
    }

    fn host_counters_changed(&mut self, at: Picos, host: u32, counts: HostEventCounts) {
        self.push(EventRecordKind::HostCountersChanged { at, host, counts });
    }

    fn request_completed(&mut self, host: usize, completion: &Completion) {
        self.push(EventRecordKind::RequestCompleted {
            host: host as u32,
            completion: *completion,
        });
    }

    fn switch_event(&mut self, switch: u32, event: &SwitchEvent) {
        self.push(EventRecordKind::SwitchReported {
            switch,
            event: *event,
        });
    }
}

/// Passes the records of all shards to the observer in the total order of events, and removes them. `order` is a
/// buffer.
pub(super) fn pass_records_to(
    observer: &mut dyn Observer,
    shards: &mut [&mut EventRecords],
    order: &mut Vec<(u128, u32, u32)>,
) {
    order.clear();
    for (shard, records) in shards.iter().enumerate() {
        let keys = records.records.iter().enumerate();
        order.extend(keys.map(|(index, record)| (record.key, shard as u32, index as u32)));
    }
    order.sort_unstable();
    for (_, shard, index) in order.iter() {
        shards[*shard as usize].pass_on(*index as usize, observer);
    }
    shards.iter_mut().for_each(|records| records.clear());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Times(Vec<(u64, Vec<u8>)>);

    impl Observer for Times {
        fn frame_arrived(&mut self, at: Picos, _: LinkEnd, frame: FrameView<'_>) {
            self.0.push((at.0, frame.prefix.to_vec()));
        }
    }

    /// The order is that of a queue with the events of all partitions: an event with a smaller key that was caused by
    /// another event of the same partition stays behind that event.
    #[test]
    fn records_leave_in_the_order_of_one_queue() {
        let mut shards = [EventRecords::default(), EventRecords::default()];
        let mut add = |shard: usize, key: u128, name: u8| {
            shards[shard].begin_event(key);
            let frame = FrameView {
                prefix: &[name; 3],
                frame_len: 64,
                damaged: false,
            };
            shards[shard].frame_arrived(Picos(key as u64), LinkEnd::Host(0), frame);
        };
        add(0, 5, 0);
        add(0, 3, 1);
        add(0, 8, 2);
        add(1, 4, 3);
        add(1, 6, 4);
        shards[1].begin_partition();
        let mut add = |key: u128, name: u8| {
            shards[1].begin_event(key);
            shards[1].frame_arrived(
                Picos(key as u64),
                LinkEnd::Host(0),
                FrameView {
                    prefix: &[name],
                    frame_len: 64,
                    damaged: false,
                },
            );
        };
        add(1, 5);
        add(7, 6);
        let mut times = Times::default();
        let [one, other] = &mut shards;
        pass_records_to(&mut times, &mut [one, other], &mut Vec::new());
        let names: Vec<u8> = times.0.iter().map(|(_, prefix)| prefix[0]).collect();
        assert_eq!(names, [5, 3, 0, 1, 4, 6, 2]);
        assert!(
            shards
                .iter()
                .all(|shard| shard.records.is_empty() && shard.prefixes.is_empty())
        );
    }
}
