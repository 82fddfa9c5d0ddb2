//! What a capture at a host would show: packets by DSCP, MAC control frames.

use xoff_units::Picos;
use xoff_wire::parse::{Payload, parse_prefix};
use xoff_wire::{ETHERTYPE_MAC_CONTROL, MacControl};

use super::events::Span;
use xoff_fabric::FrameView;

/// Code points of DSCP.
const DSCPS: usize = 64;
/// Length of a MAC control frame without FCS (IEEE 802.3 clause 31: the minimum).
const CONTROL_LEN: u32 = 60;

/// Packets of one DSCP, or of all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    frames: u64,
    bytes: u64,
    ce_frames: u64,
    /// Smallest and largest of hop limits and of lengths.
    ttl: (u8, u8),
    len: (u32, u32),
    pub(super) rx: Span,
    pub(super) ce: Span,
}

impl Default for Arrived {
    fn default() -> Arrived {
        Arrived {
            frames: 0,
            bytes: 0,
            ce_frames: 0,
            ttl: (u8::MAX, 0),
            len: (u32::MAX, 0),
            rx: Span::default(),
            ce: Span::default(),
        }
    }
}

impl Arrived {
    fn note(&mut self, at: Picos, len: u32, ttl: u8, is_marked: bool) {
        self.frames += 1;
        self.bytes += u64::from(len);
        self.ttl = (self.ttl.0.min(ttl), self.ttl.1.max(ttl));
        self.len = (self.len.0.min(len), self.len.1.max(len));
        self.rx.note(at);
        if is_marked {
            self.ce_frames += 1;
            self.ce.note(at);
        }
    }

    /// The value of a counter of [`ARRIVALS`](super::super::expr::counters::ARRIVAL_COUNTERS).
    pub(super) fn value(&self, counter: &str) -> Option<f64> {
        let seen = |value: u32| (self.frames > 0).then_some(f64::from(value));
        match counter {
            "rx_frames" => Some(self.frames as f64),
            "rx_bytes" => Some(self.bytes as f64),
            "ce_frames" => Some(self.ce_frames as f64),
            "ttl_min" => seen(self.ttl.0.into()),
            "ttl_max" => seen(self.ttl.1.into()),
            "len_min_bytes" => seen(self.len.0),
            "len_max_bytes" => seen(self.len.1),
            _ => None,
        }
    }
}

/// What has arrived at one host.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    by_dscp: Box<[Arrived; DSCPS]>,
    control_frames: u64,
    irregular_control_frames: u64,
    /// Address of the port that is at the other end of the host's link.
    port: [u8; 6],
}

impl Arrivals {
    /// Nothing has arrived at the host behind the port of this address.
    pub(super) fn new(port: [u8; 6]) -> Arrivals {
        Arrivals {
            by_dscp: Box::new([Arrived::default(); DSCPS]),
            control_frames: 0,
            irregular_control_frames: 0,
            port,
        }
    }

    /// Forgets all that has arrived.
    pub(super) fn clear(&mut self) {
        *self = Arrivals::new(self.port);
    }

    /// Packets of one DSCP.
    pub(super) fn of(&self, dscp: u8) -> Option<&Arrived> {
        self.by_dscp.get(usize::from(dscp))
    }

    /// The value of a counter of the host as a whole.
    pub(super) fn value(&self, counter: &str) -> Option<f64> {
        match counter {
            "rx_control_frames" => Some(self.control_frames as f64),
            "rx_irregular_control_frames" => Some(self.irregular_control_frames as f64),
            _ => None,
        }
    }

    /// Enters a frame; true if it is an IP packet.
    pub(super) fn note(&mut self, at: Picos, frame: &FrameView<'_>) -> bool {
        let parsed = parse_prefix(frame.prefix, frame.frame_len as usize);
        let l3 = usize::from(parsed.l3_offset);
        let ttl_at = match parsed.payload {
            Payload::Ipv4 => l3 + 8,
            Payload::Ipv6 => l3 + 7,
            _ => {
                if frame.prefix.get(12..14) == Some(&ETHERTYPE_MAC_CONTROL.to_be_bytes()) {
                    self.control_frames += 1;
                    self.irregular_control_frames += u64::from(!self.is_regular(frame));
                }
                return false;
            }
        };
        let ttl = frame.prefix.get(ttl_at).copied().unwrap_or_default();
        if let Some(arrived) = self.by_dscp.get_mut(usize::from(parsed.tos >> 2)) {
            arrived.note(at, frame.frame_len, ttl, parsed.tos & 3 == 3);
        }
        true
    }

    /// Whether a MAC control frame is as the standard has it: to the group address, from the port's own, PAUSE or PFC, of the
    /// minimal length, with no times for classes that it does not enable and nothing in its padding.
    fn is_regular(&self, frame: &FrameView<'_>) -> bool {
        let Ok(control) = MacControl::parse(frame.prefix) else {
            return false;
        };
        // Written anew, it is the same to the last byte, but for what nobody has said.
        let expected = control.to_frame(self.port);
        let no_times = match control {
            MacControl::Pfc(pfc) => {
                pfc.enable != 0 && (0..8).all(|n| pfc.enable >> n & 1 == 1 || pfc.quanta[n] == 0)
            }
            MacControl::Pause { .. } => true,
        };
        let stored = frame.prefix.len().min(expected.len());
        no_times && frame.frame_len == CONTROL_LEN && frame.prefix[..stored] == expected[..stored]
    }
}

#[cfg(test)]
mod tests {
    use xoff_wire::Pfc;

    use super::*;

    const PORT: [u8; 6] = [2, 0, 0, 0, 0, 9];

    fn control(change: impl FnOnce(&mut [u8; 60])) -> Arrivals {
        let mut quanta = [0; 8];
        quanta[3] = 65_535;
        let mut bytes = MacControl::Pfc(Pfc { enable: 8, quanta }).to_frame(PORT);
        change(&mut bytes);
        let mut arrivals = Arrivals::new(PORT);
        let view = FrameView {
            prefix: &bytes,
            frame_len: 60,
            damaged: false,
        };
        assert!(!arrivals.note(Picos(1), &view));
        arrivals
    }

    #[test]
    fn control_frames_are_looked_at_closely() {
        let irregular = |arrivals: Arrivals| arrivals.value("rx_irregular_control_frames");
        assert_eq!(control(|_| ()).value("rx_control_frames"), Some(1.0));
        assert_eq!(irregular(control(|_| ())), Some(0.0));
        for (at, value) in [(11, 8), (5, 2), (15, 2), (19, 1), (17, 0), (16, 1), (59, 1)] {
            assert_eq!(
                irregular(control(|bytes| bytes[at] = value)),
                Some(1.0),
                "octet {at}"
            );
        }
    }

    #[test]
    fn packets_are_counted_by_dscp() {
        let mut packet = [0; 60];
        packet[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 26 << 2 | 3]);
        packet[16..18].copy_from_slice(&46_u16.to_be_bytes());
        let mut arrivals = Arrivals::new(PORT);
        for (at, ttl) in [(5, 63), (7, 60)] {
            packet[22] = ttl;
            let view = FrameView {
                prefix: &packet,
                frame_len: 60,
                damaged: false,
            };
            assert!(arrivals.note(Picos(at), &view));
        }
        let arrived = arrivals.of(26).expect("a code point");
        let values: Vec<Option<f64>> = [
            "rx_frames",
            "rx_bytes",
            "ce_frames",
            "ttl_min",
            "ttl_max",
            "len_max_bytes",
        ]
        .map(|counter| arrived.value(counter))
        .to_vec();
        assert_eq!(values, [2.0, 120.0, 2.0, 60.0, 63.0, 60.0].map(Some));
        assert_eq!(arrivals.of(25).and_then(|none| none.value("ttl_min")), None);
    }
}
