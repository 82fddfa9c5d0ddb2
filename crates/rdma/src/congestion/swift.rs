//! Swift: a window that keeps the round-trip time at a target (Kumar et al., SIGCOMM 2020, algorithm 1).

use xoff_units::Picos;

use super::parameters::{FieldRef, ParameterError, ParameterField, ParameterSet, Preset};
use super::rate::{RateBounds, bytes_at_rate, rate_for_bytes, window_to_bytes};
use super::{Ack, CongestionControl, CongestionSignal, ControllerContext};

/// Parameters of [`Swift`]. Names in parentheses are those of the paper (Kumar et al., SIGCOMM 2020).
#[derive(Clone, Debug, PartialEq)]
pub struct SwiftParameters {
    /// Target round-trip time in nanoseconds, 100 ns to 1 s (base target delay). The paper adds a term for
    /// the number of hops. This target includes the term, because an acknowledgement does not contain the
    /// number of hops. The target must leave space for some packets of each flow.
    pub base_target_ns: u64,
    /// Growth of the window per round trip in packets, 0.001 to 1000 (ai).
    pub increase_packets: f64,
    /// Factor that determines how strongly the window decreases above the target, 0.001 to 1 (beta).
    pub beta: f64,
    /// Largest decrease of the window in one step, as a share of the window, 0.01 to 0.99 (max_mdf).
    pub max_decrease: f64,
    /// Largest addition to the target for small windows, in nanoseconds, 0 to 1 s (fs_range).
    pub scaling_range_ns: u64,
    /// Window in packets, 0.001 to 1000 (fs_min_cwnd). At this window, the largest addition applies.
    pub scaling_min_packets: f64,
    /// Window in packets, 0.001 to 100 000 (fs_max_cwnd). If the window is larger, the target round-trip time
    /// is `base_target_ns`, without an addition. The value must be above `scaling_min_packets`.
    pub scaling_max_packets: f64,
    /// Number of consecutive timeouts after which the window is reset to its minimum, 1 to
    /// 100 (RETX_RESET_THRESHOLD).
    pub timeouts_to_reset: u64,
    /// Smallest window in packets, 0.0001 to 1 (min_cwnd).
    pub min_window_packets: f64,
    /// Lowest rate in bits per second, 1 kb/s to 1 Tb/s.
    pub min_rate_bps: u64,
}

impl SwiftParameters {
    /// Returns the preset `htsim`: the values of htsim (Broadcom/csg-htsim, `swift.cpp`) with a target of 20
    /// us. In htsim, the smallest window is 10 bytes with packets of 1500 bytes.
    pub fn htsim() -> SwiftParameters {
        SwiftParameters {
            base_target_ns: 20_000,
            increase_packets: 1.0,
            beta: 0.8,
            max_decrease: 0.5,
            scaling_range_ns: 100_000,
            scaling_min_packets: 0.1,
            scaling_max_packets: 100.0,
            timeouts_to_reset: 5,
            min_window_packets: 0.0067,
            min_rate_bps: 1_000_000,
        }
    }

    /// Returns the preset `scaled`, the default: the values of htsim with a target for the link. The target
    /// is twice the round-trip time of an idle network plus the time of 16 packets.
    pub fn scaled(context: &ControllerContext) -> SwiftParameters {
        let line_rate_bps = context.line_rate_bps.max(1) as f64;
        let packet_ns = f64::from(context.packet_bytes) * 8e9 / line_rate_bps;
        let base_target_ns =
            (2.0 * context.base_rtt.as_nanos() as f64 + 16.0 * packet_ns).clamp(1e3, 1e8) as u64;
        SwiftParameters {
            base_target_ns,
            scaling_range_ns: 5 * base_target_ns,
            ..SwiftParameters::htsim()
        }
    }
}

impl ParameterSet for SwiftParameters {
    const ALGORITHM: &'static str = "swift";
    const FIELDS: &'static [ParameterField<Self>] = &[
        ParameterField::new("base_target_ns", 100.0, 1e9, |p| {
            FieldRef::Whole(&mut p.base_target_ns)
        }),
        ParameterField::new("increase_packets", 1e-3, 1e3, |p| {
            FieldRef::Real(&mut p.increase_packets)
        }),
        ParameterField::new("beta", 1e-3, 1.0, |p| FieldRef::Real(&mut p.beta)),
        ParameterField::new("max_decrease", 0.01, 0.99, |p| {
            FieldRef::Real(&mut p.max_decrease)
        }),
        ParameterField::new("scaling_range_ns", 0.0, 1e9, |p| {
            FieldRef::Whole(&mut p.scaling_range_ns)
        }),
        ParameterField::new("scaling_min_packets", 1e-3, 1e3, |p| {
            FieldRef::Real(&mut p.scaling_min_packets)
        }),
        ParameterField::new("scaling_max_packets", 1e-3, 1e5, |p| {
            FieldRef::Real(&mut p.scaling_max_packets)
        }),
        ParameterField::new("timeouts_to_reset", 1.0, 100.0, |p| {
            FieldRef::Whole(&mut p.timeouts_to_reset)
        }),
        ParameterField::new("min_window_packets", 1e-4, 1.0, |p| {
            FieldRef::Real(&mut p.min_window_packets)
        }),
        ParameterField::new("min_rate_bps", 1e3, 1e12, |p| {
            FieldRef::Whole(&mut p.min_rate_bps)
        }),
    ];
    const PRESETS: &'static [Preset<Self>] = &[
        Preset {
            name: "scaled",
            make: SwiftParameters::scaled,
        },
        Preset {
            name: "htsim",
            make: |_| SwiftParameters::htsim(),
        },
    ];

    fn check_relations(&self) -> Result<(), ParameterError> {
        if self.scaling_min_packets < self.scaling_max_packets {
            return Ok(());
        }
        Err(ParameterError::NotBelow {
            field: "scaling_min_packets",
            value: self.scaling_min_packets,
            other: "scaling_max_packets",
            bound: self.scaling_max_packets,
        })
    }
}

/// Swift (Kumar et al., SIGCOMM 2020, algorithm 1): a window that keeps the round-trip time at a target.
///
/// Flows with small windows have a higher target, so that many flows can share a link. If the window is
/// smaller than one packet, the queue pair leaves gaps between packets.
#[derive(Clone, Debug)]
pub struct Swift {
    parameters: SwiftParameters,
    bounds: RateBounds,
    packet_bytes: f64,
    /// Window in packets.
    window: f64,
    max_window: f64,
    /// Factor of the curve `scale / sqrt(window) - offset`, in picoseconds. The curve gives the addition to
    /// the target for small windows.
    scale: f64,
    /// Offset of this curve, in picoseconds.
    offset: f64,
    /// Latest round-trip time.
    rtt: Picos,
    /// Earliest time of the next window decrease.
    cut_allowed: Picos,
    /// Number of consecutive timeouts.
    timeouts: u64,
}

impl Swift {
    /// Creates a controller that starts at line rate. Parameters outside their ranges are replaced by the
    /// nearest limit.
    pub fn new(parameters: SwiftParameters, context: &ControllerContext) -> Swift {
        let parameters = parameters.clamped();
        let bounds = RateBounds::new(parameters.min_rate_bps, context);
        let packet_bytes = f64::from(context.packet_bytes.max(1));
        let at_most = 1.0 / parameters.scaling_max_packets.sqrt();
        // `check` rejects limits in the wrong order. If they occur nevertheless, the target is not scaled.
        let window_range = 1.0 / parameters.scaling_min_packets.sqrt() - at_most;
        let scale = if window_range > 0.0 {
            Picos::from_nanos(parameters.scaling_range_ns).0 as f64 / window_range
        } else {
            0.0
        };
        // While the round-trip time is below the target, the flow has at most this number of bytes in flight,
        // even at line rate.
        let target = Picos::from_nanos(parameters.base_target_ns);
        let max_window = (bytes_at_rate(bounds.line_bps, target) / packet_bytes).max(1.0);
        let rtt = context.base_rtt.max(Picos(1));
        let window = (bytes_at_rate(bounds.line_bps, rtt) / packet_bytes)
            .max(1.0)
            .min(max_window);
        Swift {
            parameters,
            bounds,
            packet_bytes,
            window,
            max_window,
            scale,
            offset: scale * at_most,
            rtt,
            cut_allowed: Picos::ZERO,
            timeouts: 0,
        }
    }

    /// Returns the target round-trip time for the current window.
    fn target_rtt(&self) -> Picos {
        let range = Picos::from_nanos(self.parameters.scaling_range_ns).0 as f64;
        let scaling = (self.scale / self.window.sqrt() - self.offset)
            .min(range)
            .max(0.0);
        Picos::from_nanos(self.parameters.base_target_ns).saturating_add(Picos(scaling as u64))
    }

    /// Multiplies the window by a factor, at most once per round trip.
    fn cut_window(&mut self, now: Picos, factor: f64) {
        if now < self.cut_allowed {
            return;
        }
        self.set_window(self.window * factor);
        self.cut_allowed = now.saturating_add(self.rtt);
    }

    fn set_window(&mut self, packets: f64) {
        self.window = packets
            .max(self.parameters.min_window_packets)
            .min(self.max_window);
    }
}

impl CongestionControl for Swift {
    fn name(&self) -> &'static str {
        SwiftParameters::ALGORITHM
    }

    fn signals(&self) -> &'static [CongestionSignal] {
        &[CongestionSignal::RoundTrip]
    }

    fn prefetch(&self) {
        xoff_units::prefetch(self);
    }

    fn rate_bps(&self) -> u64 {
        if self.window >= 1.0 {
            return self.bounds.line_bps;
        }
        self.bounds
            .clamp(rate_for_bytes(self.window * self.packet_bytes, self.rtt))
    }

    fn window_bytes(&self) -> Option<u64> {
        // With a window below one packet, the rate limits the flow.
        Some(window_to_bytes(self.window.max(1.0) * self.packet_bytes))
    }

    fn on_ack(&mut self, now: Picos, ack: &Ack<'_>) {
        self.timeouts = 0;
        let Some(rtt) = ack.rtt else { return };
        self.rtt = rtt.max(Picos(1));
        let target = self.target_rtt();
        if rtt < target {
            let acked = ack.acked_bytes as f64 / self.packet_bytes;
            let growth = self.parameters.increase_packets * acked / self.window.max(1.0);
            self.set_window(self.window + growth);
        } else {
            let excess = (rtt - target).0 as f64 / rtt.0.max(1) as f64;
            let factor = (1.0 - self.parameters.beta * excess).max(1.0 - self.parameters.max_decrease);
            self.cut_window(now, factor);
        }
    }

    fn on_nak(&mut self, now: Picos) {
        self.cut_window(now, 1.0 - self.parameters.max_decrease);
    }

    fn on_timeout(&mut self, now: Picos) {
        self.timeouts += 1;
        if self.timeouts >= self.parameters.timeouts_to_reset {
            self.set_window(0.0);
        } else {
            self.cut_window(now, 1.0 - self.parameters.max_decrease);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ack, context};
    use super::*;

    const LINE: u64 = 100_000_000_000;

    /// Creates a controller at 100 Gb/s with a round trip of 10 us, a target of 20 us and no scaling.
    /// `window` is the window in packets of 1000 bytes.
    fn swift(window: f64) -> Swift {
        let parameters = SwiftParameters {
            scaling_range_ns: 0,
            ..SwiftParameters::htsim()
        };
        let mut swift = Swift::new(parameters, &context(LINE));
        swift.window = window;
        swift
    }

    fn acknowledge(swift: &mut Swift, now_us: u64, rtt_us: u64) {
        let mut ack = ack(1000, 1000, 1000);
        ack.rtt = Some(Picos::from_micros(rtt_us));
        swift.on_ack(Picos::from_micros(now_us), &ack);
    }

    #[test]
    fn below_the_target_the_window_grows_by_a_packet_per_round_trip() {
        let mut swift = swift(10.0);
        acknowledge(&mut swift, 1, 19);
        assert_eq!(swift.window, 10.1);
        swift.window = 0.5;
        acknowledge(&mut swift, 1, 19);
        assert_eq!(swift.window, 1.5);
    }

    #[test]
    fn above_the_target_the_window_shrinks_once_per_round_trip() {
        let mut swift = swift(10.0);
        acknowledge(&mut swift, 100, 25);
        assert_eq!(swift.window, 10.0 * (1.0 - 0.8 * 0.2));
        acknowledge(&mut swift, 110, 40);
        assert_eq!(swift.window, 8.4, "a round trip has not passed");
        acknowledge(&mut swift, 125, 400);
        assert_eq!(swift.window, 4.2, "half at most");
    }

    #[test]
    fn a_window_below_one_packet_limits_the_rate() {
        let mut swift = swift(0.25);
        assert_eq!(swift.window_bytes(), Some(1000));
        swift.rtt = Picos::from_micros(20);
        assert_eq!(swift.rate_bps(), 100_000_000, "1000 bytes in 80 us");
        swift.window = 1.0;
        assert_eq!(swift.rate_bps(), LINE);
    }

    #[test]
    fn small_windows_have_a_higher_target() {
        let mut swift = Swift::new(SwiftParameters::htsim(), &context(LINE));
        let mut target_us = |window: f64| {
            swift.window = window;
            swift.target_rtt().as_nanos() as f64 / 1e3
        };
        assert_eq!(target_us(100.0), 20.0);
        assert!((target_us(0.1) - 120.0).abs() < 0.01);
        assert_eq!(target_us(0.01), 120.0);
        let one = 20.0 + 100.0 * (1.0 - 0.1) / (10.0_f64.sqrt() - 0.1);
        assert!((target_us(1.0) - one).abs() < 0.01);
    }

    #[test]
    fn timeouts_shrink_and_finally_reset_the_window() {
        let mut swift = swift(64.0);
        for i in 1..=4 {
            swift.on_timeout(Picos::from_millis(i));
        }
        assert_eq!(swift.window, 4.0);
        swift.on_nak(Picos::from_millis(9));
        assert_eq!(swift.window, 2.0);
        swift.on_timeout(Picos::from_millis(10));
        assert_eq!(swift.window, 0.0067);
    }
}
