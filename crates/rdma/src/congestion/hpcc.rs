//! HPCC: a window that is computed from in-band telemetry of the switches (Li et al., SIGCOMM 2019,
//! algorithm 1).

use xoff_units::Picos;

use super::super::telemetry::{HOPS_MAX, HopTelemetry, Telemetry, TelemetryFormat};
use super::parameters::{FieldRef, ParameterField, ParameterSet, Preset};
use super::rate::{RateBounds, bytes_at_rate, rate_for_bytes, window_to_bytes};
use super::{Ack, CongestionControl, CongestionSignal, ControllerContext};

/// Parameters of [`Hpcc`]. Names in parentheses are those of the paper (Li et al., SIGCOMM 2019).
#[derive(Clone, Debug, PartialEq)]
pub struct HpccParameters {
    /// Target utilisation of a link, 0.5 to 1 (eta).
    pub eta: f64,
    /// Largest number of consecutive round trips with additive increase only, 0 to 1000 (maxStage).
    pub max_stage: u64,
    /// Additive increase of the window per round trip in bytes, 0 to 10^9 (W_AI). The sum over all flows
    /// should stay below `(1 - eta) * line rate * T`. Otherwise queues do not drain.
    pub w_ai_bytes: f64,
    /// Round-trip time of an idle network in nanoseconds, 100 ns to 1 s (T). `None`, the default,
    /// means [`ControllerContext::base_rtt`].
    pub base_rtt_ns: Option<u64>,
    /// Lowest rate in bits per second, 1 kb/s to 1 Tb/s.
    pub min_rate_bps: u64,
    /// Number of hop records for which a packet has space, 1 to [`HOPS_MAX`]. Each record adds 8 bytes to a
    /// data packet and to its acknowledgement. If a path has more hops, HPCC ignores the queues of the
    /// later hops.
    pub telemetry_hops: u64,
}

impl HpccParameters {
    /// Returns the preset `sigcomm2019`: the values of the paper for 100 Gb/s and T = 13 us.
    pub fn sigcomm2019() -> HpccParameters {
        HpccParameters {
            eta: 0.95,
            max_stage: 5,
            w_ai_bytes: 80.0,
            base_rtt_ns: None,
            min_rate_bps: 1_000_000,
            telemetry_hops: u64::from(TelemetryFormat::default().hops_max),
        }
    }

    /// Returns the preset `hpcc-ns3`, the default: the values of the HPCC model for ns-3 (`run.py --cc hp`).
    /// The additive increase is 1/2500 of the line rate. The parameter maxStage is 0, so the window can be
    /// changed by multiplication in each round trip.
    pub fn hpcc_ns3(context: &ControllerContext) -> HpccParameters {
        HpccParameters {
            max_stage: 0,
            w_ai_bytes: bytes_at_rate(context.line_rate_bps, context.base_rtt) / 2_500.0,
            min_rate_bps: (context.line_rate_bps / 25).clamp(1_000, 1_000_000_000),
            ..HpccParameters::sigcomm2019()
        }
    }
}

impl ParameterSet for HpccParameters {
    const ALGORITHM: &'static str = "hpcc";
    const FIELDS: &'static [ParameterField<Self>] = &[
        ParameterField::new("eta", 0.5, 1.0, |p| FieldRef::Real(&mut p.eta)),
        ParameterField::new("max_stage", 0.0, 1000.0, |p| FieldRef::Whole(&mut p.max_stage)),
        ParameterField::new("w_ai_bytes", 0.0, 1e9, |p| FieldRef::Real(&mut p.w_ai_bytes)),
        ParameterField::new("base_rtt_ns", 100.0, 1e9, |p| {
            FieldRef::Optional(&mut p.base_rtt_ns)
        }),
        ParameterField::new("min_rate_bps", 1e3, 1e12, |p| {
            FieldRef::Whole(&mut p.min_rate_bps)
        }),
        ParameterField::new("telemetry_hops", 1.0, HOPS_MAX as f64, |p| {
            FieldRef::Whole(&mut p.telemetry_hops)
        }),
    ];
    const PRESETS: &'static [Preset<Self>] = &[
        Preset {
            name: "hpcc-ns3",
            make: HpccParameters::hpcc_ns3,
        },
        Preset {
            name: "sigcomm2019",
            make: |_| HpccParameters::sigcomm2019(),
        },
    ];
}

/// HPCC (Li et al., SIGCOMM 2019, algorithm 1): a window that keeps the utilisation of the busiest link at a
/// target. Each acknowledgement computes the window from a reference window. The reference window changes
/// once per round trip.
///
/// HPCC needs switches that write telemetry. Without telemetry, the controller stays at line rate.
#[derive(Clone, Debug)]
pub struct Hpcc {
    parameters: HpccParameters,
    bounds: RateBounds,
    base_rtt: Picos,
    window: f64,
    reference: f64,
    /// Averaged utilisation of the busiest link: `rate / speed + queue / (speed * T)`.
    utilisation: f64,
    /// Number of consecutive round trips with additive increase only.
    stage: u64,
    /// Telemetry of the previous acknowledgement. `None` at the start.
    last: Option<Telemetry>,
    /// Byte position in the sent data. When it is acknowledged, the reference window changes.
    round_end: u64,
}

impl Hpcc {
    /// Creates a controller that starts at line rate. Parameters outside their ranges are replaced by the
    /// nearest limit.
    pub fn new(parameters: HpccParameters, context: &ControllerContext) -> Hpcc {
        let parameters = parameters.clamped();
        let bounds = RateBounds::new(parameters.min_rate_bps, context);
        let base_rtt = parameters
            .base_rtt_ns
            .map_or(context.base_rtt, Picos::from_nanos)
            .max(Picos(1));
        let window = bytes_at_rate(bounds.line_bps, base_rtt);
        Hpcc {
            parameters,
            bounds,
            base_rtt,
            window,
            reference: window,
            utilisation: 0.0,
            stage: 0,
            last: None,
            round_end: 0,
        }
    }

    /// Computes the utilisation of the busiest hop since the previous acknowledgement and adds it to the
    /// average. Returns `false` if the packets of the two acknowledgements used different paths.
    fn update_utilisation(&mut self, last: &Telemetry, telemetry: &Telemetry) -> bool {
        let is_same_path = last.hops().len() == telemetry.hops().len()
            && last
                .hops()
                .iter()
                .zip(telemetry.hops())
                .all(|(a, b)| a.speed_mbps == b.speed_mbps);
        if !is_same_path {
            return false;
        }
        let mut busiest = (0.0, Picos::ZERO);
        for (old, new) in last.hops().iter().zip(telemetry.hops()) {
            if let Some(hop) = hop_utilisation(old, new, self.base_rtt)
                && hop.0 > busiest.0
            {
                busiest = hop;
            }
        }
        let (utilisation, span) = busiest;
        let weight = span.min(self.base_rtt).0 as f64 / self.base_rtt.0 as f64;
        self.utilisation = (1.0 - weight) * self.utilisation + weight * utilisation;
        true
    }

    /// Computes the window from the utilisation. If `update_reference` is true, also sets the reference
    /// window to the new window.
    fn update_window(&mut self, update_reference: bool) {
        let load = self.utilisation / self.parameters.eta;
        let multiply = load >= 1.0 || self.stage >= self.parameters.max_stage;
        let kept = if multiply {
            // The load of an idle link can be zero. The division then gives infinity, which the bounds limit.
            self.reference / load
        } else {
            self.reference
        };
        let lowest = bytes_at_rate(self.bounds.min_bps, self.base_rtt);
        let highest = bytes_at_rate(self.bounds.line_bps, self.base_rtt);
        self.window = (kept + self.parameters.w_ai_bytes).max(lowest).min(highest);
        if update_reference {
            self.stage = if multiply { 0 } else { self.stage + 1 };
            self.reference = self.window;
        }
    }
}

/// Returns the utilisation of one hop between two records, and the time between the records. Returns `None`
/// if the records have the same time or if the speed is 0.
fn hop_utilisation(old: &HopTelemetry, new: &HopTelemetry, base_rtt: Picos) -> Option<(f64, Picos)> {
    let span = new.at.since(old.at);
    if span == Picos::ZERO || new.speed_mbps == 0 {
        return None;
    }
    let speed_bps = u64::from(new.speed_mbps) * 1_000_000;
    let sent = rate_for_bytes(new.tx_bytes.saturating_sub(old.tx_bytes) as f64, span) / speed_bps as f64;
    let queued = new.queue_bytes.min(old.queue_bytes) as f64 / bytes_at_rate(speed_bps, base_rtt);
    Some((sent + queued, span))
}

impl CongestionControl for Hpcc {
    fn name(&self) -> &'static str {
        HpccParameters::ALGORITHM
    }

    fn signals(&self) -> &'static [CongestionSignal] {
        &[CongestionSignal::Telemetry]
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

    fn telemetry_format(&self) -> Option<TelemetryFormat> {
        Some(TelemetryFormat::hpcc(self.parameters.telemetry_hops as u8))
    }

    fn on_ack(&mut self, _now: Picos, ack: &Ack<'_>) {
        let Some(telemetry) = ack.telemetry else { return };
        let update_reference = ack.acked_total > self.round_end;
        match self.last.replace(*telemetry) {
            // The first telemetry is only stored for later comparisons.
            None => self.round_end = ack.sent_total,
            Some(last) => {
                if self.update_utilisation(&last, telemetry) {
                    self.update_window(update_reference);
                    if update_reference {
                        self.round_end = ack.sent_total;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ack, context};
    use super::*;

    /// Creates a controller at 100 Gb/s with a round trip of 10 us. Its window starts at 125 000 bytes and
    /// grows by 80 bytes per round trip.
    fn hpcc(max_stage: u64) -> Hpcc {
        let parameters = HpccParameters {
            max_stage,
            ..HpccParameters::sigcomm2019()
        };
        Hpcc::new(parameters, &context(100_000_000_000))
    }

    fn hop_telemetry(at_us: u64, tx_bytes: u64, queue_bytes: u64) -> Telemetry {
        let mut telemetry = Telemetry::default();
        telemetry.push(HopTelemetry {
            at: Picos::from_micros(at_us),
            tx_bytes,
            queue_bytes,
            speed_mbps: 100_000,
        });
        telemetry
    }

    fn acknowledge(hpcc: &mut Hpcc, acked_total: u64, sent_total: u64, telemetry: &Telemetry) {
        let mut ack = ack(1000, acked_total, sent_total);
        ack.telemetry = Some(telemetry);
        hpcc.on_ack(Picos::ZERO, &ack);
    }

    #[test]
    fn a_round_trip_divides_the_window_by_the_load_and_adds_w_ai() {
        let mut hpcc = hpcc(0);
        acknowledge(&mut hpcc, 1000, 100_000, &hop_telemetry(0, 0, 50_000));
        assert_eq!(hpcc.window_bytes(), Some(125_000), "nothing to compare with yet");
        // A full link for a whole round trip, with 25 000 of 125 000 bytes queued: utilisation 1.2.
        acknowledge(&mut hpcc, 101_000, 200_000, &hop_telemetry(10, 125_000, 25_000));
        let expected = 125_000.0 / (1.2 / 0.95) + 80.0;
        assert!(
            (hpcc.window - expected).abs() < 1e-6,
            "{} {expected}",
            hpcc.window
        );
        assert_eq!(hpcc.reference, hpcc.window);
        let rate = hpcc.rate_bps() as f64;
        assert!((rate - expected * 8.0 / 10e-6).abs() < 10.0, "{rate}");
    }

    #[test]
    fn acknowledgements_of_one_round_trip_use_the_same_reference() {
        let mut hpcc = hpcc(0);
        acknowledge(&mut hpcc, 1000, 100_000, &hop_telemetry(0, 0, 0));
        acknowledge(&mut hpcc, 101_000, 200_000, &hop_telemetry(10, 118_750, 0));
        let reference = hpcc.reference;
        assert!(
            (reference - 125_000.0).abs() < 1e-6,
            "at 95 % only the addition, up to line rate: {reference}"
        );
        // Two reports of a queue in one round trip: the second one starts from the same reference window.
        acknowledge(&mut hpcc, 102_000, 201_000, &hop_telemetry(20, 243_750, 125_000));
        assert!((hpcc.window - (reference / (1.0 / 0.95) + 80.0)).abs() < 1e-6);
        acknowledge(&mut hpcc, 103_000, 202_000, &hop_telemetry(30, 368_750, 125_000));
        assert!((hpcc.window - (reference / (2.0 / 0.95) + 80.0)).abs() < 1e-6);
        assert_eq!(hpcc.reference, reference);
    }

    #[test]
    fn below_the_target_the_window_grows_additively_for_max_stage_round_trips() {
        let mut hpcc = hpcc(2);
        acknowledge(&mut hpcc, 1000, 2000, &hop_telemetry(0, 0, 0));
        hpcc.reference = 50_000.0;
        hpcc.window = 50_000.0;
        let windows: Vec<f64> = (1..=4)
            .map(|i| {
                // Half of the link, for a whole round trip each.
                acknowledge(
                    &mut hpcc,
                    i * 2000 + 1,
                    (i + 1) * 2000,
                    &hop_telemetry(i * 10, i * 62_500, 0),
                );
                hpcc.window
            })
            .collect();
        assert_eq!(windows[0], 50_080.0);
        assert_eq!(windows[1], 50_160.0);
        assert!((windows[2] - (50_160.0 * 1.9 + 80.0)).abs() < 1e-6, "{windows:?}");
        assert!((windows[3] - (windows[2] + 80.0)).abs() < 1e-6, "{windows:?}");
    }

    #[test]
    fn the_busiest_hop_counts_and_another_path_is_not_compared() {
        let mut hpcc = hpcc(0);
        let two = |tx: u64, at: u64| {
            let mut telemetry = hop_telemetry(at, tx / 2, 0);
            telemetry.push(hop_telemetry(at, tx, 0).hops()[0]);
            telemetry
        };
        acknowledge(&mut hpcc, 1000, 1000, &two(0, 0));
        acknowledge(&mut hpcc, 2000, 2000, &two(125_000, 10));
        assert!((hpcc.utilisation - 1.0).abs() < 1e-9);
        let before = hpcc.window;
        acknowledge(&mut hpcc, 3000, 3000, &hop_telemetry(20, 1_000_000, 900_000));
        assert_eq!(hpcc.window, before);
        // A second identical record of a hop does not change the utilisation.
        acknowledge(&mut hpcc, 4000, 4000, &hop_telemetry(20, 1_000_000, 900_000));
        assert!((hpcc.utilisation - 1.0).abs() < 1e-9);
    }
}
