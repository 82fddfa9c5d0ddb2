//! DCTCP's window (Alizadeh et al., SIGCOMM 2010; RFC 8257) on a queue pair.

use xoff_units::Picos;

use super::parameters::{Field, ParameterSet, Preset, Slot};
use super::rate::{Bounds, bytes_in, rate_of, whole_bytes};
use super::{Ack, CongestionControl, Context, Signal};

/// Parameters of [`Dctcp`].
#[derive(Clone, Debug, PartialEq)]
pub struct DctcpParameters {
    /// Weight of one window's share of marks in alpha, 0.0001 to 1. RFC 8257, 4.2: 1/16.
    pub g: f64,
    /// Alpha at the start, 0 to 1. RFC 8257, 3.3: 1.
    pub initial_alpha: f64,
    /// What the window grows by in a round trip without marks, in packets, 0.001 to 1000. RFC 8257: 1.
    pub increase_packets: f64,
    /// Window at the start in payload bytes, 1 to 2^40. Default: what the line sends in a round trip of an empty network,
    /// so that a flow starts at line rate, as RDMA does.
    pub initial_window_bytes: Option<u64>,
    /// Lowest rate, bits per second, 1 kb/s to 1 Tb/s; the window does not fall below what it sends in a round trip.
    pub min_rate_bps: u64,
}

impl DctcpParameters {
    /// RFC 8257's values, and the start at line rate.
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
    const FIELDS: &'static [Field<Self>] = &[
        Field::new("g", 1e-4, 1.0, |p| Slot::Real(&mut p.g)),
        Field::new("initial_alpha", 0.0, 1.0, |p| Slot::Real(&mut p.initial_alpha)),
        Field::new("increase_packets", 1e-3, 1e3, |p| {
            Slot::Real(&mut p.increase_packets)
        }),
        Field::new("initial_window_bytes", 1.0, 1_099_511_627_776.0, |p| {
            Slot::Optional(&mut p.initial_window_bytes)
        }),
        Field::new("min_rate_bps", 1e3, 1e12, |p| Slot::Whole(&mut p.min_rate_bps)),
    ];
    const PRESETS: &'static [Preset<Self>] = &[Preset {
        name: "rfc8257",
        make: |_| DctcpParameters::rfc8257(),
    }];
}

/// A window that falls by half of the share of marked bytes, at most once per round trip.
///
/// Made for switches that mark from one queue length on, and for acknowledgements that echo each mark. The window is sent
/// out at `window / base_rtt`, at most at line rate: a window below one packet means a pause between packets.
#[derive(Clone, Debug)]
pub struct Dctcp {
    parameters: DctcpParameters,
    bounds: Bounds,
    base_rtt: Picos,
    packet_bytes: f64,
    window: f64,
    min_window: f64,
    alpha: f64,
    /// Acknowledged in the current round trip, and marked of that.
    acked_bytes: u64,
    marked_bytes: u64,
    /// The round trip ends when this position is acknowledged.
    round_end: u64,
    /// Marks up to this position belong to a cut that was made.
    cut_end: u64,
}

impl Dctcp {
    /// Values out of range are taken at the nearest end of it.
    pub fn new(parameters: DctcpParameters, context: &Context) -> Dctcp {
        let parameters = parameters.clamped();
        let bounds = Bounds::new(parameters.min_rate_bps, context);
        let base_rtt = context.base_rtt.max(Picos(1));
        let packet_bytes = f64::from(context.packet_bytes.max(1));
        let line_window = bytes_in(bounds.line_bps, base_rtt).max(packet_bytes);
        Dctcp {
            bounds,
            base_rtt,
            packet_bytes,
            window: parameters
                .initial_window_bytes
                .map_or(line_window, |bytes| bytes as f64),
            min_window: bytes_in(bounds.min_bps, base_rtt),
            alpha: parameters.initial_alpha,
            acked_bytes: 0,
            marked_bytes: 0,
            round_end: 0,
            cut_end: 0,
            parameters,
        }
    }

    fn multiply(&mut self, factor: f64) {
        self.window = (self.window * factor).max(self.min_window);
    }

    /// One round trip's share of marks goes into alpha.
    fn end_round(&mut self, sent_total: u64) {
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

    fn signals(&self) -> &'static [Signal] {
        &[Signal::MarkEcho]
    }

    fn rate_bps(&self) -> u64 {
        self.bounds.clamp(rate_of(self.window, self.base_rtt))
    }

    fn window_bytes(&self) -> Option<u64> {
        Some(whole_bytes(self.window))
    }

    fn acknowledged(&mut self, _now: Picos, ack: &Ack<'_>) {
        self.acked_bytes = self.acked_bytes.saturating_add(ack.acked_bytes);
        if ack.marked {
            self.marked_bytes = self.marked_bytes.saturating_add(ack.acked_bytes);
        }
        if ack.acked_total > self.round_end {
            self.end_round(ack.sent_total);
        }
        if ack.marked {
            if ack.acked_total > self.cut_end {
                self.cut_end = ack.sent_total;
                self.multiply(1.0 - self.alpha / 2.0);
            }
            return;
        }
        // A window that was not used up says nothing of whether the network would carry a larger one.
        let used = ack.inflight_bytes as f64 + ack.acked_bytes as f64 + self.packet_bytes;
        if used >= self.window {
            let growth = self.parameters.increase_packets * self.packet_bytes * ack.acked_bytes as f64;
            self.window += growth / self.window.max(ack.acked_bytes as f64).max(1.0);
        }
    }

    fn timed_out(&mut self, _now: Picos) {
        self.window = self.window.min(self.packet_bytes).max(self.min_window);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ack, context};
    use super::*;

    /// 10 Gb/s and 10 us: 12 500 bytes.
    fn dctcp() -> Dctcp {
        Dctcp::new(DctcpParameters::rfc8257(), &context(10_000_000_000))
    }

    #[test]
    fn it_starts_at_line_rate_and_a_mark_halves_it_once_per_round_trip() {
        let mut dctcp = dctcp();
        assert_eq!(
            (dctcp.rate_bps(), dctcp.window_bytes()),
            (10_000_000_000, Some(12_500))
        );
        dctcp.acknowledged(Picos(1), &ack(1000, 1000, 13_000).marked());
        assert_eq!(dctcp.window_bytes(), Some(6_250), "alpha is 1");
        dctcp.acknowledged(Picos(2), &ack(1000, 2000, 14_000).marked());
        assert_eq!(dctcp.window_bytes(), Some(6_250), "sent before the cut");
        assert_eq!(dctcp.rate_bps(), 5_000_000_000);
    }

    #[test]
    fn alpha_follows_the_share_of_marked_bytes() {
        let mut dctcp = dctcp();
        // The first acknowledgement, unmarked, is the first round.
        dctcp.acknowledged(Picos(1), &ack(1000, 1000, 11_000));
        assert_eq!(dctcp.alpha, 15.0 / 16.0);
        for i in 2..=11 {
            let plain = ack(1000, i * 1000, (i + 10) * 1000);
            dctcp.acknowledged(Picos(i), &if i == 5 { plain.marked() } else { plain });
        }
        assert_eq!(dctcp.alpha, 15.0 / 16.0, "the round ends with the next byte");
        dctcp.acknowledged(Picos(12), &ack(1000, 12_000, 22_000));
        assert_eq!(dctcp.alpha, 225.0 / 256.0 + 1.0 / 16.0 / 11.0);
    }

    #[test]
    fn a_full_window_grows_by_a_packet_per_round_trip_an_unused_one_does_not() {
        let mut dctcp = dctcp();
        let packet = dctcp.packet_bytes;
        let before = dctcp.window;
        for i in 1..=25 {
            let mut ack = ack(500, i * 500, i * 500 + 12_000);
            ack.inflight_bytes = 12_000;
            dctcp.acknowledged(Picos(i), &ack);
        }
        let grown = (dctcp.window - before) / packet;
        assert!((0.9..=1.0).contains(&grown), "{grown}");
        let before = dctcp.window;
        dctcp.acknowledged(Picos(30), &ack(500, 13_000, 14_000));
        assert_eq!(dctcp.window, before);
    }

    #[test]
    fn a_timeout_leaves_one_packet() {
        let mut dctcp = dctcp();
        dctcp.timed_out(Picos(5));
        assert_eq!(dctcp.window, dctcp.packet_bytes);
    }
}
