//! HPCC: a window computed from what the links on the way say of themselves (Li et al., SIGCOMM 2019, algorithm 1).

use xoff_units::Picos;

use super::super::telemetry::{HOPS_MAX, HopTelemetry, Telemetry, TelemetryFormat};
use super::parameters::{Field, ParameterSet, Preset, Slot};
use super::rate::{Bounds, bytes_in, rate_of, whole_bytes};
use super::{Ack, CongestionControl, Context, Signal};

/// Parameters of [`Hpcc`]; in brackets the paper's names.
#[derive(Clone, Debug, PartialEq)]
pub struct HpccParameters {
    /// Utilisation that is aimed at, 0.5 to 1 (eta).
    pub eta: f64,
    /// How many round trips in a row may be additive increase only, 0 to 1000 (maxStage).
    pub max_stage: u64,
    /// What each round trip adds to the window, in bytes, 0 to 1 GB (W_AI). The sum over all flows should stay below
    /// `(1 - eta) * line rate * T`, or queues will stand.
    pub w_ai_bytes: f64,
    /// Round trip of an empty network, 100 ns to 1 s (T). Default: what the host knows of it.
    pub base_rtt_ns: Option<u64>,
    /// Lowest rate, bits per second, 1 kb/s to 1 Tb/s.
    pub min_rate_bps: u64,
    /// Hops that a packet has room for, 1 to [`HOPS_MAX`]; each takes 8 bytes of every data packet and its acknowledgement. Queues
    /// behind the last of them are not seen.
    pub telemetry_hops: u64,
}

impl HpccParameters {
    /// The paper's values, for 100 Gb/s and T = 13 us.
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

    /// The HPCC model's `run.py --cc hp`: an increase of 1/2500 of the line rate, no stage without a multiplicative one.
    pub fn hpcc_ns3(context: &Context) -> HpccParameters {
        HpccParameters {
            max_stage: 0,
            w_ai_bytes: bytes_in(context.line_rate_bps, context.base_rtt) / 2_500.0,
            min_rate_bps: (context.line_rate_bps / 25).clamp(1_000, 1_000_000_000),
            ..HpccParameters::sigcomm2019()
        }
    }
}

impl ParameterSet for HpccParameters {
    const ALGORITHM: &'static str = "hpcc";
    const FIELDS: &'static [Field<Self>] = &[
        Field::new("eta", 0.5, 1.0, |p| Slot::Real(&mut p.eta)),
        Field::new("max_stage", 0.0, 1000.0, |p| Slot::Whole(&mut p.max_stage)),
        Field::new("w_ai_bytes", 0.0, 1e9, |p| Slot::Real(&mut p.w_ai_bytes)),
        Field::new("base_rtt_ns", 100.0, 1e9, |p| Slot::Optional(&mut p.base_rtt_ns)),
        Field::new("min_rate_bps", 1e3, 1e12, |p| Slot::Whole(&mut p.min_rate_bps)),
        Field::new("telemetry_hops", 1.0, HOPS_MAX as f64, |p| {
            Slot::Whole(&mut p.telemetry_hops)
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

/// A window from in-band telemetry: each acknowledgement sets it from a reference window, which itself moves once per
/// round trip.
///
/// Needs switches that write telemetry; where none comes, it stays at line rate.
#[derive(Clone, Debug)]
pub struct Hpcc {
    parameters: HpccParameters,
    bounds: Bounds,
    base_rtt: Picos,
    window: f64,
    reference: f64,
    /// Averaged utilisation of the busiest link: rate and queue over what it could have under way.
    utilisation: f64,
    /// Round trips of additive increase in a row.
    stage: u64,
    /// Telemetry of the acknowledgement before.
    last: Option<Telemetry>,
    /// The reference window moves once this position is acknowledged.
    round_end: u64,
}

impl Hpcc {
    /// Starts at line rate. Values out of range are taken at the nearest end of it.
    pub fn new(parameters: HpccParameters, context: &Context) -> Hpcc {
        let parameters = parameters.clamped();
        let bounds = Bounds::new(parameters.min_rate_bps, context);
        let base_rtt = parameters
            .base_rtt_ns
            .map_or(context.base_rtt, Picos::from_nanos)
            .max(Picos(1));
        let window = bytes_in(bounds.line_bps, base_rtt);
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

    /// Takes the busiest hop since the acknowledgement before into the average. `false` if the two cannot be compared,
    /// because packets took another way.
    fn measure(&mut self, last: &Telemetry, telemetry: &Telemetry) -> bool {
        let same_way = last.hops().len() == telemetry.hops().len()
            && last
                .hops()
                .iter()
                .zip(telemetry.hops())
                .all(|(a, b)| a.speed_mbps == b.speed_mbps);
        if !same_way {
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

    /// The window that the utilisation asks for; with `update` the reference window moves there.
    fn compute(&mut self, update: bool) {
        let load = self.utilisation / self.parameters.eta;
        let multiply = load >= 1.0 || self.stage >= self.parameters.max_stage;
        let kept = if multiply {
            // An idle link may leave a load of zero: infinity, and the bounds say the rest.
            self.reference / load
        } else {
            self.reference
        };
        let lowest = bytes_in(self.bounds.min_bps, self.base_rtt);
        let highest = bytes_in(self.bounds.line_bps, self.base_rtt);
        self.window = (kept + self.parameters.w_ai_bytes).max(lowest).min(highest);
        if update {
            self.stage = if multiply { 0 } else { self.stage + 1 };
            self.reference = self.window;
        }
    }
}

/// Utilisation of one hop between two looks at it, and the time between them; `None` if no time passed.
fn hop_utilisation(old: &HopTelemetry, new: &HopTelemetry, base_rtt: Picos) -> Option<(f64, Picos)> {
    let span = new.at.since(old.at);
    if span == Picos::ZERO || new.speed_mbps == 0 {
        return None;
    }
    let speed_bps = u64::from(new.speed_mbps) * 1_000_000;
    let sent = rate_of(new.tx_bytes.saturating_sub(old.tx_bytes) as f64, span) / speed_bps as f64;
    let queued = new.queue_bytes.min(old.queue_bytes) as f64 / bytes_in(speed_bps, base_rtt);
    Some((sent + queued, span))
}

impl CongestionControl for Hpcc {
    fn name(&self) -> &'static str {
        HpccParameters::ALGORITHM
    }

    fn signals(&self) -> &'static [Signal] {
        &[Signal::Telemetry]
    }

    fn rate_bps(&self) -> u64 {
        self.bounds.clamp(rate_of(self.window, self.base_rtt))
    }

    fn window_bytes(&self) -> Option<u64> {
        Some(whole_bytes(self.window))
    }

    fn telemetry_format(&self) -> Option<TelemetryFormat> {
        Some(TelemetryFormat::hpcc(self.parameters.telemetry_hops as u8))
    }

    fn acknowledged(&mut self, _now: Picos, ack: &Ack<'_>) {
        let Some(telemetry) = ack.telemetry else { return };
        let update = ack.acked_total > self.round_end;
        match self.last.replace(*telemetry) {
            // The first one is only something to compare with.
            None => self.round_end = ack.sent_total,
            Some(last) => {
                if self.measure(&last, telemetry) {
                    self.compute(update);
                    if update {
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

    /// 100 Gb/s and 10 us: 125 000 bytes, to which a round trip adds 80.
    fn hpcc(max_stage: u64) -> Hpcc {
        let parameters = HpccParameters {
            max_stage,
            ..HpccParameters::sigcomm2019()
        };
        Hpcc::new(parameters, &context(100_000_000_000))
    }

    fn hop(at_us: u64, tx_bytes: u64, queue_bytes: u64) -> Telemetry {
        let mut telemetry = Telemetry::default();
        telemetry.push(HopTelemetry {
            at: Picos::from_micros(at_us),
            tx_bytes,
            queue_bytes,
            speed_mbps: 100_000,
        });
        telemetry
    }

    fn tell(hpcc: &mut Hpcc, acked_total: u64, sent_total: u64, telemetry: &Telemetry) {
        let mut ack = ack(1000, acked_total, sent_total);
        ack.telemetry = Some(telemetry);
        hpcc.acknowledged(Picos::ZERO, &ack);
    }

    #[test]
    fn a_round_trip_divides_the_window_by_the_load_and_adds() {
        let mut hpcc = hpcc(0);
        tell(&mut hpcc, 1000, 100_000, &hop(0, 0, 50_000));
        assert_eq!(hpcc.window_bytes(), Some(125_000), "nothing to compare with yet");
        // A full link for a whole round trip, 25 000 of 125 000 bytes queued: utilisation 1.2.
        tell(&mut hpcc, 101_000, 200_000, &hop(10, 125_000, 25_000));
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
    fn acknowledgements_within_a_round_trip_start_from_the_same_reference() {
        let mut hpcc = hpcc(0);
        tell(&mut hpcc, 1000, 100_000, &hop(0, 0, 0));
        tell(&mut hpcc, 101_000, 200_000, &hop(10, 118_750, 0));
        let reference = hpcc.reference;
        assert!(
            (reference - 125_000.0).abs() < 1e-6,
            "at 95 % only the addition, up to line rate: {reference}"
        );
        // Two reports of a queue within the round trip: the second does not multiply what the first did.
        tell(&mut hpcc, 102_000, 201_000, &hop(20, 243_750, 125_000));
        assert!((hpcc.window - (reference / (1.0 / 0.95) + 80.0)).abs() < 1e-6);
        tell(&mut hpcc, 103_000, 202_000, &hop(30, 368_750, 125_000));
        assert!((hpcc.window - (reference / (2.0 / 0.95) + 80.0)).abs() < 1e-6);
        assert_eq!(hpcc.reference, reference);
    }

    #[test]
    fn below_the_aim_it_adds_for_max_stage_round_trips_and_then_jumps() {
        let mut hpcc = hpcc(2);
        tell(&mut hpcc, 1000, 2000, &hop(0, 0, 0));
        hpcc.reference = 50_000.0;
        hpcc.window = 50_000.0;
        let windows: Vec<f64> = (1..=4)
            .map(|i| {
                // Half of the link, for a whole round trip each.
                tell(
                    &mut hpcc,
                    i * 2000 + 1,
                    (i + 1) * 2000,
                    &hop(i * 10, i * 62_500, 0),
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
    fn the_busiest_hop_counts_and_another_way_is_not_compared() {
        let mut hpcc = hpcc(0);
        let two = |tx: u64, at: u64| {
            let mut telemetry = hop(at, tx / 2, 0);
            telemetry.push(hop(at, tx, 0).hops()[0]);
            telemetry
        };
        tell(&mut hpcc, 1000, 1000, &two(0, 0));
        tell(&mut hpcc, 2000, 2000, &two(125_000, 10));
        assert!((hpcc.utilisation - 1.0).abs() < 1e-9);
        let before = hpcc.window;
        tell(&mut hpcc, 3000, 3000, &hop(20, 1_000_000, 900_000));
        assert_eq!(hpcc.window, before);
        // Twice the same look at a hop says nothing new.
        tell(&mut hpcc, 4000, 4000, &hop(20, 1_000_000, 900_000));
        assert!((hpcc.utilisation - 1.0).abs() < 1e-9);
    }
}
