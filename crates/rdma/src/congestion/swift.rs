//! Swift: a window that keeps the round trip at a target (Kumar et al., SIGCOMM 2020, algorithm 1).

use xoff_units::Picos;

use super::parameters::{Field, ParameterError, ParameterSet, Preset, Slot};
use super::rate::{Bounds, bytes_in, rate_of, whole_bytes};
use super::{Ack, CongestionControl, Context, Signal};

/// Parameters of [`Swift`]; in brackets the paper's names.
#[derive(Clone, Debug, PartialEq)]
pub struct SwiftParameters {
    /// Round trip that is aimed at, 100 ns to 1 s (base target delay). The paper's term for the hops of the way is part of
    /// it, for an acknowledgement does not tell their number. It must leave room for some packets per flow.
    pub base_target_ns: u64,
    /// What the window grows by in a round trip, in packets, 0.001 to 1000 (ai).
    pub increase_packets: f64,
    /// How hard the window is cut, 0.001 to 1 (beta).
    pub beta: f64,
    /// The largest cut, as a share, 0.01 to 0.99 (max_mdf).
    pub max_decrease: f64,
    /// What the target grows by at most as the window gets small, 0 to 1 s (fs_range).
    pub scaling_range_ns: u64,
    /// Window in packets at which that is reached, 0.001 to 1000 (fs_min_cwnd).
    pub scaling_min_packets: f64,
    /// Window in packets from which on nothing is added, 0.001 to 100 000 (fs_max_cwnd); above `scaling_min_packets`.
    pub scaling_max_packets: f64,
    /// Timeouts in a row after which the window becomes the smallest, 1 to 100 (RETX_RESET_THRESHOLD).
    pub timeouts_to_reset: u64,
    /// Smallest window in packets, 0.0001 to 1 (min_cwnd).
    pub min_window_packets: f64,
    /// Lowest rate, bits per second, 1 kb/s to 1 Tb/s.
    pub min_rate_bps: u64,
}

impl SwiftParameters {
    /// As in htsim (Broadcom/csg-htsim, `swift.cpp`): a target of 20 us. The smallest window is 10 of 1500 bytes there.
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

    /// As in htsim, with a target that suits the link: twice the round trip of an empty network and 16 packets more.
    pub fn scaled(context: &Context) -> SwiftParameters {
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
    const FIELDS: &'static [Field<Self>] = &[
        Field::new("base_target_ns", 100.0, 1e9, |p| {
            Slot::Whole(&mut p.base_target_ns)
        }),
        Field::new("increase_packets", 1e-3, 1e3, |p| {
            Slot::Real(&mut p.increase_packets)
        }),
        Field::new("beta", 1e-3, 1.0, |p| Slot::Real(&mut p.beta)),
        Field::new("max_decrease", 0.01, 0.99, |p| Slot::Real(&mut p.max_decrease)),
        Field::new("scaling_range_ns", 0.0, 1e9, |p| {
            Slot::Whole(&mut p.scaling_range_ns)
        }),
        Field::new("scaling_min_packets", 1e-3, 1e3, |p| {
            Slot::Real(&mut p.scaling_min_packets)
        }),
        Field::new("scaling_max_packets", 1e-3, 1e5, |p| {
            Slot::Real(&mut p.scaling_max_packets)
        }),
        Field::new("timeouts_to_reset", 1.0, 100.0, |p| {
            Slot::Whole(&mut p.timeouts_to_reset)
        }),
        Field::new("min_window_packets", 1e-4, 1.0, |p| {
            Slot::Real(&mut p.min_window_packets)
        }),
        Field::new("min_rate_bps", 1e3, 1e12, |p| Slot::Whole(&mut p.min_rate_bps)),
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

    fn relations(&self) -> Result<(), ParameterError> {
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

/// A window that keeps the round trip at a target, which is higher for flows of small windows, so that many flows find
/// room; below one packet per round trip packets are spaced.
#[derive(Clone, Debug)]
pub struct Swift {
    parameters: SwiftParameters,
    bounds: Bounds,
    packet_bytes: f64,
    /// In packets.
    window: f64,
    max_window: f64,
    /// The flow scaling curve: `scale / sqrt(window) - offset`, in picoseconds.
    scale: f64,
    offset: f64,
    rtt: Picos,
    /// The window may be cut again from here on.
    cut_allowed: Picos,
    /// Timeouts in a row.
    timeouts: u64,
}

impl Swift {
    /// Starts at line rate. Values out of range are taken at the nearest end of it.
    pub fn new(parameters: SwiftParameters, context: &Context) -> Swift {
        let parameters = parameters.clamped();
        let bounds = Bounds::new(parameters.min_rate_bps, context);
        let packet_bytes = f64::from(context.packet_bytes.max(1));
        let at_most = 1.0 / parameters.scaling_max_packets.sqrt();
        // Limits in the wrong order, which `check` refuses, switch the scaling off.
        let slope = 1.0 / parameters.scaling_min_packets.sqrt() - at_most;
        let scale = if slope > 0.0 {
            Picos::from_nanos(parameters.scaling_range_ns).0 as f64 / slope
        } else {
            0.0
        };
        // As long as the round trip is below its target, no more than this is under way even at line rate.
        let target = Picos::from_nanos(parameters.base_target_ns);
        let max_window = (bytes_in(bounds.line_bps, target) / packet_bytes).max(1.0);
        let rtt = context.base_rtt.max(Picos(1));
        let window = (bytes_in(bounds.line_bps, rtt) / packet_bytes)
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

    /// The round trip aimed at with the present window.
    fn target(&self) -> Picos {
        let range = Picos::from_nanos(self.parameters.scaling_range_ns).0 as f64;
        let scaling = (self.scale / self.window.sqrt() - self.offset)
            .min(range)
            .max(0.0);
        Picos::from_nanos(self.parameters.base_target_ns).saturating_add(Picos(scaling as u64))
    }

    /// Multiplies the window, unless that happened less than a round trip ago.
    fn cut(&mut self, now: Picos, factor: f64) {
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

    fn signals(&self) -> &'static [Signal] {
        &[Signal::RoundTrip]
    }

    fn rate_bps(&self) -> u64 {
        if self.window >= 1.0 {
            return self.bounds.line_bps;
        }
        self.bounds
            .clamp(rate_of(self.window * self.packet_bytes, self.rtt))
    }

    fn window_bytes(&self) -> Option<u64> {
        // Below one packet the rate alone holds back.
        Some(whole_bytes(self.window.max(1.0) * self.packet_bytes))
    }

    fn acknowledged(&mut self, now: Picos, ack: &Ack<'_>) {
        self.timeouts = 0;
        let Some(rtt) = ack.rtt else { return };
        self.rtt = rtt.max(Picos(1));
        let target = self.target();
        if rtt < target {
            let acked = ack.acked_bytes as f64 / self.packet_bytes;
            let growth = self.parameters.increase_packets * acked / self.window.max(1.0);
            self.set_window(self.window + growth);
        } else {
            let excess = (rtt - target).0 as f64 / rtt.0.max(1) as f64;
            let factor = (1.0 - self.parameters.beta * excess).max(1.0 - self.parameters.max_decrease);
            self.cut(now, factor);
        }
    }

    fn missed(&mut self, now: Picos) {
        self.cut(now, 1.0 - self.parameters.max_decrease);
    }

    fn timed_out(&mut self, now: Picos) {
        self.timeouts += 1;
        if self.timeouts >= self.parameters.timeouts_to_reset {
            self.set_window(0.0);
        } else {
            self.cut(now, 1.0 - self.parameters.max_decrease);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ack, context};
    use super::*;

    const LINE: u64 = 100_000_000_000;

    /// 100 Gb/s, 10 us, a target of 20 us without scaling; the window set to so many packets of 1000 bytes.
    fn swift(window: f64) -> Swift {
        let parameters = SwiftParameters {
            scaling_range_ns: 0,
            ..SwiftParameters::htsim()
        };
        let mut swift = Swift::new(parameters, &context(LINE));
        swift.window = window;
        swift
    }

    fn tell(swift: &mut Swift, now_us: u64, rtt_us: u64) {
        let mut ack = ack(1000, 1000, 1000);
        ack.rtt = Some(Picos::from_micros(rtt_us));
        swift.acknowledged(Picos::from_micros(now_us), &ack);
    }

    #[test]
    fn below_the_target_it_adds_a_packet_per_window() {
        let mut swift = swift(10.0);
        tell(&mut swift, 1, 19);
        assert_eq!(swift.window, 10.1);
        swift.window = 0.5;
        tell(&mut swift, 1, 19);
        assert_eq!(swift.window, 1.5);
    }

    #[test]
    fn above_the_target_it_cuts_by_the_excess_once_per_round_trip() {
        let mut swift = swift(10.0);
        tell(&mut swift, 100, 25);
        assert_eq!(swift.window, 10.0 * (1.0 - 0.8 * 0.2));
        tell(&mut swift, 110, 40);
        assert_eq!(swift.window, 8.4, "a round trip has not passed");
        tell(&mut swift, 125, 400);
        assert_eq!(swift.window, 4.2, "half at most");
    }

    #[test]
    fn below_one_packet_it_spaces_packets() {
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
            swift.target().as_nanos() as f64 / 1e3
        };
        assert_eq!(target_us(100.0), 20.0);
        assert!((target_us(0.1) - 120.0).abs() < 0.01);
        assert_eq!(target_us(0.01), 120.0);
        let one = 20.0 + 100.0 * (1.0 - 0.1) / (10.0_f64.sqrt() - 0.1);
        assert!((target_us(1.0) - one).abs() < 0.01);
    }

    #[test]
    fn timeouts_cut_and_at_last_reset() {
        let mut swift = swift(64.0);
        for i in 1..=4 {
            swift.timed_out(Picos::from_millis(i));
        }
        assert_eq!(swift.window, 4.0);
        swift.missed(Picos::from_millis(9));
        assert_eq!(swift.window, 2.0);
        swift.timed_out(Picos::from_millis(10));
        assert_eq!(swift.window, 0.0067);
    }
}
