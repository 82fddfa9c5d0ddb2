//! Counters of dropped and lost frames.

use xoff_dataplane::DropReason;
use xoff_wire::parse::{ParsedHeaders, parse};

/// Numbers of frames that a port dropped or lost since the previous call
/// of [`Port::take_drops`](crate::Port::take_drops).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortDrops {
    /// Number of frames that the backend dropped, by reason. Reasons without frames are not listed.
    pub by_reason: Vec<(DropReason, u64)>,
    /// The frames of [`DropReason::Oversized`] in `by_reason` by the priority in their headers. The sum can be
    /// less than the count in `by_reason`. The headers of the remaining frames are unknown.
    pub oversized: Vec<(FramePriority, u64)>,
    /// Number of frames that the kernel lost, in both directions together. Such a loss taints the run, which
    /// means that the run proves nothing.
    pub lost: u64,
    /// Messages for the user. Each message contains a problem, its cause, and a command that solves
    /// the problem.
    pub notes: Vec<String>,
    /// Connections and stops of a stream port. All other ports leave it empty.
    pub stream: StreamCounts,
}

/// Counts of a stream port since the previous call of [`Port::take_drops`](crate::Port::take_drops).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Number of accepted connections.
    pub connections: u64,
    /// Number of connections that were refused because the port had a peer.
    pub refused_connections: u64,
    /// Number of connections that the port closed because of a wrong length: 0, or more than 69 632.
    pub wrong_lengths: u64,
    /// Number of connections that ended inside a frame. The frame is lost with its sender.
    pub truncated_frames: u64,
    /// Number of times that the port stopped reading because of a pause.
    pub stops: u64,
    /// Time for which the port did not read because of a pause, in nanoseconds of wall time.
    pub stopped_ns: u64,
}

/// The header fields of a frame that select its traffic class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FramePriority {
    /// DSCP of the IP header, 0 to 63. `None` for a frame without IP.
    pub dscp: Option<u8>,
    /// 802.1p priority of the outer VLAN tag, 0 to 7. `None` for a frame without a tag.
    pub pcp: Option<u8>,
}

/// Number of values of [`FramePriority::dscp`].
const DSCP_VALUES: usize = 65;
/// Number of values of [`FramePriority::pcp`].
const PCP_VALUES: usize = 9;

impl FramePriority {
    /// Reads the priority of a frame from its first bytes. `tag_pcp` is the priority of a tag that the kernel has
    /// removed from the frame.
    pub(super) fn of_frame(start: &[u8], tag_pcp: Option<u8>) -> FramePriority {
        FramePriority::of_headers(&parse(start), tag_pcp)
    }

    fn of_headers(parsed: &ParsedHeaders, tag_pcp: Option<u8>) -> FramePriority {
        FramePriority {
            dscp: parsed.dscp().map(|dscp| dscp & 63),
            pcp: tag_pcp.or(parsed.tag.map(|tag| tag.pcp() & 7)),
        }
    }

    fn index(self) -> usize {
        let dscp = self.dscp.map_or(DSCP_VALUES - 1, usize::from);
        let pcp = self.pcp.map_or(PCP_VALUES - 1, usize::from);
        dscp * PCP_VALUES + pcp
    }

    fn at_index(index: usize) -> FramePriority {
        let (dscp, pcp) = (index / PCP_VALUES, index % PCP_VALUES);
        FramePriority {
            dscp: (dscp < DSCP_VALUES - 1).then_some(dscp as u8),
            pcp: (pcp < PCP_VALUES - 1).then_some(pcp as u8),
        }
    }
}

/// Counts of dropped frames, by reason. The counts have a fixed size, so a flood of such frames allocates no
/// memory.
#[derive(Debug)]
pub(super) struct DropCounts {
    by_reason: [u64; DropReason::COUNT],
    oversized: Box<[u64; DSCP_VALUES * PCP_VALUES]>,
}

impl DropCounts {
    pub(super) fn new() -> DropCounts {
        DropCounts {
            by_reason: [0; DropReason::COUNT],
            oversized: Box::new([0; DSCP_VALUES * PCP_VALUES]),
        }
    }

    /// Counts a frame of which no header is known.
    pub(super) fn add(&mut self, reason: DropReason) {
        self.by_reason[reason as usize] += 1;
    }

    /// Counts a received frame with the priority in its headers.
    pub(super) fn add_received(&mut self, reason: DropReason, priority: FramePriority) {
        self.add(reason);
        if reason == DropReason::Oversized {
            self.oversized[priority.index()] += 1;
        }
    }

    /// Moves the counts since the last call to `drops`.
    pub(super) fn take_counts(&mut self, drops: &mut PortDrops) {
        let counts = std::mem::replace(&mut self.by_reason, [0; DropReason::COUNT]);
        let all = DropReason::ALL.iter().copied().zip(counts);
        drops.by_reason.extend(all.filter(|(_, count)| *count != 0));
        if counts[DropReason::Oversized as usize] > 0 {
            let counts = self.oversized.iter_mut().map(std::mem::take).enumerate();
            let counts = counts.filter(|(_, count)| *count != 0);
            drops
                .oversized
                .extend(counts.map(|(index, count)| (FramePriority::at_index(index), count)));
        }
    }
}

/// A counter of the kernel that never decreases. The field is the last value that was read, or `None` before
/// the first reading.
#[derive(Debug)]
pub(super) struct KernelCounter(Option<u64>);

impl KernelCounter {
    /// Creates a counter with the current value of the kernel. `value` is `None` if the counter cannot
    /// be read.
    pub(super) fn new(value: Option<u64>) -> KernelCounter {
        KernelCounter(value)
    }
    /// Stores the current value and returns its increase since the last reading. Returns 0 if `value` is
    /// `None` or if this is the first reading.
    ///
    /// If the value has decreased, the device was replaced, and the counter of the new device started at 0.
    /// The function then returns the whole new value.
    pub(super) fn update(&mut self, value: Option<u64>) -> u64 {
        let Some(value) = value else { return 0 };
        let previous = self.0.replace(value).unwrap_or(value);
        value.checked_sub(previous).unwrap_or(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_reported_once_and_by_reason() {
        let mut counts = DropCounts::new();
        counts.add(DropReason::Oversized);
        counts.add(DropReason::BackendRefused);
        counts.add(DropReason::Oversized);
        let mut take = || {
            let mut drops = PortDrops::default();
            counts.take_counts(&mut drops);
            drops.by_reason
        };
        assert_eq!(
            take(),
            [(DropReason::Oversized, 2), (DropReason::BackendRefused, 1)]
        );
        assert_eq!(take(), []);
    }

    #[test]
    fn oversized_frames_keep_the_priority_of_their_headers() {
        let mut frame = [0; 40];
        frame[12..18].copy_from_slice(&[8, 0, 0x45, 26 << 2, 0, 26]);
        let ip = FramePriority::of_frame(&frame, None);
        assert_eq!((ip.dscp, ip.pcp), (Some(26), None));
        assert_eq!(FramePriority::of_frame(&frame, Some(3)).pcp, Some(3));
        frame[12..16].copy_from_slice(&[0x81, 0, 5 << 5, 7]);
        frame[16..18].copy_from_slice(&[0x88, 0xb5]);
        let tagged = FramePriority::of_frame(&frame, None);
        assert_eq!((tagged.dscp, tagged.pcp), (None, Some(5)));
        let mut counts = DropCounts::new();
        for priority in [ip, tagged, ip, FramePriority::default()] {
            counts.add_received(DropReason::Oversized, priority);
        }
        counts.add_received(DropReason::ChecksumUnfinished, ip);
        let mut drops = PortDrops::default();
        counts.take_counts(&mut drops);
        assert_eq!(
            drops.oversized,
            [(ip, 2), (tagged, 1), (FramePriority::default(), 1)]
        );
        assert_eq!(drops.by_reason.iter().map(|(_, count)| count).sum::<u64>(), 5);
        let mut later = PortDrops::default();
        counts.take_counts(&mut later);
        assert_eq!(later, PortDrops::default());
    }

    #[test]
    fn every_priority_has_its_own_counter() {
        for index in 0..DSCP_VALUES * PCP_VALUES {
            assert_eq!(FramePriority::at_index(index).index(), index);
        }
    }

    #[test]
    fn counter_increases_start_at_the_first_reading_and_survive_a_reset() {
        let mut counter = KernelCounter::new(Some(10));
        assert_eq!(counter.update(Some(13)), 3);
        assert_eq!(counter.update(None), 0);
        assert_eq!(counter.update(Some(13)), 0);
        assert_eq!(counter.update(Some(2)), 2);
        let mut unknown = KernelCounter::new(None);
        assert_eq!(unknown.update(Some(100)), 0);
        assert_eq!(unknown.update(Some(101)), 1);
    }
}
