//! Counts the frames that arrive at a host: IP packets for each DSCP, and MAC control frames.

use xoff_units::Picos;
use xoff_wire::parse::{Payload, parse_prefix};
use xoff_wire::{ETHERTYPE_MAC_CONTROL, MacControl};

use super::event_span::FirstAndLastEventTimes;
use xoff_fabric::FrameView;

/// The number of DSCP values.
const DSCPS: usize = 64;
/// The length of a MAC control frame without FCS, in bytes (IEEE 802.3 clause 31).
const CONTROL_FRAME_LEN: u32 = 60;

/// The IP packets with one DSCP that have arrived at a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct DscpArrivalCounters {
    frames: u64,
    bytes: u64,
    ce_frames: u64,
    /// The smallest and the largest TTL or hop limit.
    ttl_range: (u8, u8),
    /// The smallest and the largest length without FCS, in bytes.
    len_range: (u32, u32),
    pub(super) rx: FirstAndLastEventTimes,
    pub(super) ce: FirstAndLastEventTimes,
}

impl Default for DscpArrivalCounters {
    fn default() -> DscpArrivalCounters {
        DscpArrivalCounters {
            frames: 0,
            bytes: 0,
            ce_frames: 0,
            ttl_range: (u8::MAX, 0),
            len_range: (u32::MAX, 0),
            rx: FirstAndLastEventTimes::default(),
            ce: FirstAndLastEventTimes::default(),
        }
    }
}

impl DscpArrivalCounters {
    fn record(&mut self, at: Picos, len: u32, ttl: u8, is_marked: bool) {
        self.frames += 1;
        self.bytes += u64::from(len);
        self.ttl_range = (self.ttl_range.0.min(ttl), self.ttl_range.1.max(ttl));
        self.len_range = (self.len_range.0.min(len), self.len_range.1.max(len));
        self.rx.record(at);
        if is_marked {
            self.ce_frames += 1;
            self.ce.record(at);
        }
    }

    /// Returns the value of a counter in
    /// [`ARRIVAL_COUNTERS`](super::super::expr::counters::ARRIVAL_COUNTERS). Returns `None` if the value
    /// needs a packet and no packet has arrived.
    pub(super) fn counter_value(&self, counter: &str) -> Option<f64> {
        let if_any = |value: u32| (self.frames > 0).then_some(f64::from(value));
        match counter {
            "rx_frames" => Some(self.frames as f64),
            "rx_bytes" => Some(self.bytes as f64),
            "ce_frames" => Some(self.ce_frames as f64),
            "ttl_min" => if_any(self.ttl_range.0.into()),
            "ttl_max" => if_any(self.ttl_range.1.into()),
            "len_min_bytes" => if_any(self.len_range.0),
            "len_max_bytes" => if_any(self.len_range.1),
            _ => None,
        }
    }
}

/// The counters of the frames that have arrived at one host.
#[derive(Clone, Debug)]
pub(super) struct HostArrivals {
    by_dscp: Box<[DscpArrivalCounters; DSCPS]>,
    control_frames: u64,
    irregular_control_frames: u64,
    /// The MAC address of the switch port at the other end of the link.
    port_mac: [u8; 6],
}

impl HostArrivals {
    /// Creates the counters of a host. `port_mac` is the MAC address of the switch port at the other end of
    /// the link.
    pub(super) fn new(port_mac: [u8; 6]) -> HostArrivals {
        HostArrivals {
            by_dscp: Box::new([DscpArrivalCounters::default(); DSCPS]),
            control_frames: 0,
            irregular_control_frames: 0,
            port_mac,
        }
    }

    /// Sets all counters to zero.
    pub(super) fn clear(&mut self) {
        *self = HostArrivals::new(self.port_mac);
    }

    /// Returns the packets of one DSCP. Returns `None` for a DSCP above 63.
    pub(super) fn of_dscp(&self, dscp: u8) -> Option<&DscpArrivalCounters> {
        self.by_dscp.get(usize::from(dscp))
    }

    /// Returns whether a counter of a host is counted from its observed frames.
    pub(super) fn has_counter(counter: &str) -> bool {
        matches!(counter, "rx_control_frames" | "rx_irregular_control_frames")
    }

    /// Returns the value of a counter of MAC control frames. Returns `None` for other counters.
    pub(super) fn counter_value(&self, counter: &str) -> Option<f64> {
        match counter {
            "rx_control_frames" => Some(self.control_frames as f64),
            "rx_irregular_control_frames" => Some(self.irregular_control_frames as f64),
            _ => None,
        }
    }

    /// Counts a frame. Returns whether the frame is an IP packet.
    pub(super) fn record(&mut self, at: Picos, frame: &FrameView<'_>) -> bool {
        let parsed = parse_prefix(frame.prefix, frame.frame_len as usize);
        let l3 = usize::from(parsed.l3_offset);
        let ttl_offset = match parsed.payload {
            Payload::Ipv4 => l3 + 8,
            Payload::Ipv6 => l3 + 7,
            _ => {
                if frame.prefix.get(12..14) == Some(&ETHERTYPE_MAC_CONTROL.to_be_bytes()) {
                    self.control_frames += 1;
                    self.irregular_control_frames += u64::from(!self.is_regular_control_frame(frame));
                }
                return false;
            }
        };
        let ttl = frame.prefix.get(ttl_offset).copied().unwrap_or_default();
        if let Some(arrived) = self.by_dscp.get_mut(usize::from(parsed.tos >> 2)) {
            arrived.record(at, frame.frame_len, ttl, parsed.tos & 3 == 3);
        }
        true
    }

    /// Returns whether a MAC control frame conforms to IEEE 802.3 annexes 31B and 31D.
    ///
    /// The frame must be a PAUSE or PFC frame of minimum length, from the address of the port to the standard
    /// address. The padding and the pause times of disabled classes must be zero.
    fn is_regular_control_frame(&self, frame: &FrameView<'_>) -> bool {
        let Ok(control) = MacControl::parse(frame.prefix) else {
            return false;
        };
        // A regular frame is equal to the frame that is built from the parsed fields.
        let expected = control.to_frame(self.port_mac);
        let has_regular_times = match control {
            MacControl::Pfc(pfc) => {
                pfc.enable != 0 && (0..8).all(|n| pfc.enable >> n & 1 == 1 || pfc.quanta[n] == 0)
            }
            MacControl::Pause { .. } => true,
        };
        let stored = frame.prefix.len().min(expected.len());
        has_regular_times
            && frame.frame_len == CONTROL_FRAME_LEN
            && frame.prefix[..stored] == expected[..stored]
    }
}

#[cfg(test)]
mod tests {
    use xoff_wire::Pfc;

    use super::*;

    const PORT: [u8; 6] = [2, 0, 0, 0, 0, 9];

    /// Returns the counters after one PFC frame. `change` modifies the frame.
    fn arrivals_of_pfc_frame(change: impl FnOnce(&mut [u8; 60])) -> HostArrivals {
        let mut quanta = [0; 8];
        quanta[3] = 65_535;
        let mut bytes = MacControl::Pfc(Pfc { enable: 8, quanta }).to_frame(PORT);
        change(&mut bytes);
        let mut arrivals = HostArrivals::new(PORT);
        let view = FrameView {
            prefix: &bytes,
            frame_len: 60,
            damaged: false,
        };
        assert!(!arrivals.record(Picos(1), &view));
        arrivals
    }

    #[test]
    fn irregular_control_frames_are_counted() {
        let irregular = |arrivals: HostArrivals| arrivals.counter_value("rx_irregular_control_frames");
        assert_eq!(
            arrivals_of_pfc_frame(|_| ()).counter_value("rx_control_frames"),
            Some(1.0)
        );
        assert_eq!(irregular(arrivals_of_pfc_frame(|_| ())), Some(0.0));
        for (offset, value) in [(11, 8), (5, 2), (15, 2), (19, 1), (17, 0), (16, 1), (59, 1)] {
            assert_eq!(
                irregular(arrivals_of_pfc_frame(|bytes| bytes[offset] = value)),
                Some(1.0),
                "byte {offset}"
            );
        }
    }

    #[test]
    fn ip_packets_are_counted_by_dscp() {
        let mut packet = [0; 60];
        packet[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 26 << 2 | 3]);
        packet[16..18].copy_from_slice(&46_u16.to_be_bytes());
        let mut arrivals = HostArrivals::new(PORT);
        for (at, ttl) in [(5, 63), (7, 60)] {
            packet[22] = ttl;
            let view = FrameView {
                prefix: &packet,
                frame_len: 60,
                damaged: false,
            };
            assert!(arrivals.record(Picos(at), &view));
        }
        let arrived = arrivals.of_dscp(26).expect("a DSCP value");
        let values: Vec<Option<f64>> = [
            "rx_frames",
            "rx_bytes",
            "ce_frames",
            "ttl_min",
            "ttl_max",
            "len_max_bytes",
        ]
        .map(|counter| arrived.counter_value(counter))
        .to_vec();
        assert_eq!(values, [2.0, 120.0, 2.0, 60.0, 63.0, 60.0].map(Some));
        assert_eq!(
            arrivals
                .of_dscp(25)
                .and_then(|none| none.counter_value("ttl_min")),
            None
        );
    }
}
