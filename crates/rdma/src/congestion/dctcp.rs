//! DCTCP, applied to the window of a queue pair (Alizadeh et al., SIGCOMM 2010; RFC 8257).

use xoff_units::Picos;

use super::parameters::{FieldRef, ParameterField, ParameterSet, Preset};
use super::rate::{RateBounds, bytes_at_rate, rate_for_bytes, window_to_bytes};
use super::{Ack, CongestionControl, CongestionSignal, ControllerContext};

/// Parameters of [`Dctcp`]. In the docs of the fields, marks are ECN marks (CE).
#[derive(Clone, Debug, PartialEq)]
pub struct DctcpParameters {
    /// Weight of the newest sample in the average alpha, 0.0001 to 1. A sample is the share of marked bytes
    /// in one round trip. RFC 8257 section 4.2 uses 1/16.
    pub g: f64,
    /// Initial alpha, 0 to 1. RFC 8257 section 3.3 uses 1.
    pub initial_alpha: f64,
    /// Growth of the window in a round trip without ECN marks, in packets, 0.001 to 1000. RFC 8257 uses 1.
    pub increase_packets: f64,
    /// Initial window in payload bytes, 1 to 2^40. `None`, the default, means line rate times round-trip time
    /// of an idle network. A flow then starts at line rate, as in RDMA.
    pub initial_window_bytes: Option<u64>,
    /// Lowest rate in bits per second, 1 kb/s to 1 Tb/s. The smallest window is this rate times the
    /// round-trip time of an idle network.
    pub min_rate_bps: u64,
}

impl DctcpParameters {
    /// Returns the preset `rfc8257`, the default: the values of RFC 8257, with a start at line rate.
    pub fn rfc8257() -> DctcpParameters {
        DctcpParameters {
            g: 1.0 / 16.0,
            initial_alpha: 1.0,
            increase_packets: 1.0,
            initial_window_bytes: None,
            min_rate_bps: 1_000_000,
        }
    }
}

impl ParameterSet for DctcpParameters {
    const ALGORITHM: &'static str = "dctcp";
    const FIELDS: &'static [ParameterField<Self>] = &[
        ParameterField::new("g", 1e-4, 1.0, |p| FieldRef::Real(&mut p.g)),
        ParameterField::new("initial_alpha", 0.0, 1.0, |p| {
            FieldRef::Real(&mut p.initial_alpha)
        }),
        ParameterField::new("increase_packets", 1e-3, 1e3, |p| {
            FieldRef::Real(&mut p.increase_packets)
        }),
        ParameterField::new("initial_window_bytes", 1.0, 1_099_511_627_776.0, |p| {
            FieldRef::Optional(&mut p.initial_window_bytes)
        }),
        ParameterField::new("min_rate_bps", 1e3, 1e12, |p| {
            FieldRef::Whole(&mut p.min_rate_bps)
        }),
    ];
    const PRESETS: &'static [Preset<Self>] = &[Preset {
        name: "rfc8257",
        make: |_| DctcpParameters::rfc8257(),
    }];
}

/// DCTCP (RFC 8257), applied to the window of a queue pair. The window shrinks in proportion to the share of
/// bytes with ECN marks. At most once per round trip, the window is multiplied by `1 - alpha / 2`. Alpha is
/// the average share of marked bytes.
///
/// DCTCP expects switches that set ECN marks above one queue length, and acknowledgements that report each
/// mark. The rate is `window / base_rtt`, limited to the line rate. If the window is smaller than one packet,
/// the rate leaves gaps between packets.
#[derive(Clone, Debug)]
pub struct Dctcp {
    parameters: DctcpParameters,
    bounds: RateBounds,
    base_rtt: Picos,
    packet_bytes: f64,
    window: f64,
    min_window: f64,
    alpha: f64,
    /// Bytes acknowledged in the current round trip.
    acked_bytes: u64,
    /// Bytes acknowledged with a mark in the current round trip.
    marked_bytes: u64,
    /// Byte position in the sent data. When it is acknowledged, the round trip ends.
    round_end: u64,
    /// Byte position in the sent data. Marks up to this position have already caused a cut.
    cut_end: u64,
}

impl Dctcp {
    /// Creates a controller. Parameters outside their ranges are replaced by the nearest limit.
    pub fn new(parameters: DctcpParameters, context: &ControllerContext) -> Dctcp {
        let parameters = parameters.clamped();
        let bounds = RateBounds::new(parameters.min_rate_bps, context);
        let base_rtt = context.base_rtt.max(Picos(1));
        let packet_bytes = f64::from(context.packet_bytes.max(1));
        let line_window = bytes_at_rate(bounds.line_bps, base_rtt).max(packet_bytes);
        Dctcp {
            bounds,
            base_rtt,
            packet_bytes,
            window: parameters
                .initial_window_bytes
                .map_or(line_window, |bytes| bytes as f64),
            min_window: bytes_at_rate(bounds.min_bps, base_rtt),
            alpha: parameters.initial_alpha,
            acked_bytes: 0,
            marked_bytes: 0,
            round_end: 0,
            cut_end: 0,
            parameters,
        }
    }

    fn scale_window(&mut self, factor: f64) {
        self.window = (self.window * factor).max(self.min_window);
    }

    /// Ends a round trip: updates alpha with its share of marked bytes.
    fn end_round_trip(&mut self, sent_total: u64) {
        if self.acked_bytes > 0 {
            let marked = self.marked_bytes as f64 / self.acked_bytes as f64;
            self.alpha = (1.0 - self.parameters.g) * self.alpha + self.parameters.g * marked;
        }
        self.acked_bytes = 0;
        self.marked_bytes = 0;
        self.round_end = sent_total;
    }
}

impl CongestionControl for Dctcp {
    fn name(&self) -> &'static str {
        DctcpParameters::ALGORITHM
    }

    fn signals(&self) -> &'static [CongestionSignal] {
        &[CongestionSignal::MarkEcho]
    }

    fn prefetch(&self) {
        xoff_units::prefetch(self);
    }

    fn rate_bps(&self) -> u64 {
        self.bounds.clamp(rate_for_bytes(self.window, self.base_rtt))
    }

    fn window_bytes(&self) -> Option<u64> {
        Some(window_to_bytes(self.window))
    }

    fn on_ack(&mut self, _now: Picos, ack: &Ack<'_>) {
        self.acked_bytes = self.acked_bytes.saturating_add(ack.acked_bytes);
        if ack.marked {
            self.marked_bytes = self.marked_bytes.saturating_add(ack.acked_bytes);
        }
        if ack.acked_total > self.round_end {
            self.end_round_trip(ack.sent_total);
        }
        if ack.marked {
            if ack.acked_total > self.cut_end {
                self.cut_end = ack.sent_total;
                self.scale_window(1.0 - self.alpha / 2.0);
            }
            return;
        }
        // If the window is not full, it is not known whether the network could carry a larger window.
        let used = ack.inflight_bytes as f64 + ack.acked_bytes as f64 + self.packet_bytes;
        if used >= self.window {
            let growth = self.parameters.increase_packets * self.packet_bytes * ack.acked_bytes as f64;
            self.window += growth / self.window.max(ack.acked_bytes as f64).max(1.0);
        }
    }

    fn on_timeout(&mut self, _now: Picos) {
        self.window = self.window.min(self.packet_bytes).max(self.min_window);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ack, context};
    use super::*;

    /// Creates a controller at 10 Gb/s with a round trip of 10 us. Its window starts at 12 500 bytes.
    fn dctcp() -> Dctcp {
        Dctcp::new(DctcpParameters::rfc8257(), &context(10_000_000_000))
    }

    #[test]
    fn a_mark_halves_the_initial_window_once_per_round_trip() {
        let mut dctcp = dctcp();
        assert_eq!(
            (dctcp.rate_bps(), dctcp.window_bytes()),
            (10_000_000_000, Some(12_500))
        );
        dctcp.on_ack(Picos(1), &ack(1000, 1000, 13_000).marked());
        assert_eq!(dctcp.window_bytes(), Some(6_250), "alpha is 1");
        dctcp.on_ack(Picos(2), &ack(1000, 2000, 14_000).marked());
        assert_eq!(dctcp.window_bytes(), Some(6_250), "sent before the cut");
        assert_eq!(dctcp.rate_bps(), 5_000_000_000);
    }

    #[test]
    fn alpha_follows_the_share_of_marked_bytes() {
        let mut dctcp = dctcp();
        // The first acknowledgement, without a mark, is the first round trip.
        dctcp.on_ack(Picos(1), &ack(1000, 1000, 11_000));
        assert_eq!(dctcp.alpha, 15.0 / 16.0);
        for i in 2..=11 {
            let plain = ack(1000, i * 1000, (i + 10) * 1000);
            dctcp.on_ack(Picos(i), &if i == 5 { plain.marked() } else { plain });
        }
        assert_eq!(dctcp.alpha, 15.0 / 16.0, "the round ends with the next byte");
        dctcp.on_ack(Picos(12), &ack(1000, 12_000, 22_000));
        assert_eq!(dctcp.alpha, 225.0 / 256.0 + 1.0 / 16.0 / 11.0);
    }

    #[test]
    fn only_a_full_window_grows() {
        let mut dctcp = dctcp();
        let packet = dctcp.packet_bytes;
        let before = dctcp.window;
        for i in 1..=25 {
            let mut ack = ack(500, i * 500, i * 500 + 12_000);
            ack.inflight_bytes = 12_000;
            dctcp.on_ack(Picos(i), &ack);
        }
        let grown = (dctcp.window - before) / packet;
        assert!((0.9..=1.0).contains(&grown), "{grown}");
        let before = dctcp.window;
        dctcp.on_ack(Picos(30), &ack(500, 13_000, 14_000));
        assert_eq!(dctcp.window, before);
    }

    #[test]
    fn a_timeout_reduces_the_window_to_one_packet() {
        let mut dctcp = dctcp();
        dctcp.on_timeout(Picos(5));
        assert_eq!(dctcp.window, dctcp.packet_bytes);
    }
}
