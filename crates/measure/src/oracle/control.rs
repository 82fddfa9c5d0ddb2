//! The model's own congestion controls and windows, in its arithmetic (`rdma-hw.cc`): rates are whole bits per second, cut off, and
//! telemetry is rounded as its header is (`int-header.h`).
//!
//! xoff's HPCC, TIMELY and DCTCP follow the papers. These follow the model: the window is in proportion to the rate, the rate of a
//! round trip is measured against its own rate, and units of telemetry are 128 and 80 bytes.

use xoff_units::Picos;

use xoff_lab::ns3::{CongestionMode, Parameters};
use xoff_rdma::congestion::{Ack, CongestionControl};
use xoff_rdma::{HopTelemetry, TelemetryFormat};

/// Hops that the header has room for.
const HOPS_MAX: usize = 5;
const TIME_BITS: u32 = 24;
const BYTES_BITS: u32 = 20;
const BYTES_UNIT: u64 = 128;
const QUEUE_UNIT: u64 = 80;
/// What a header says of a link whose speed has no code.
const RATE_UNKNOWN_BPS: u64 = 25_000_000_000;
/// TIMELY's settings, which no configuration changes (`TimelyAlpha` and its neighbours).
const TIMELY_ALPHA: f64 = 0.875;
const TIMELY_BETA: f64 = 0.8;
const TIMELY_LOW_NS: u64 = 50_000;
const TIMELY_HIGH_NS: u64 = 500_000;
const TIMELY_MIN_RTT_NS: f64 = 20_000.0;

/// Window and base round trip of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// `None`: no window.
    pub(super) bytes: Option<u32>,
    /// It shrinks as the rate does.
    pub(super) follows_rate: bool,
    pub(super) base_rtt_ns: u64,
    /// Speed of the sender's link.
    pub(super) rate_bps_max: u64,
}

impl Window {
    fn at_rate(&self, rate_bps: u64) -> Option<u64> {
        let bytes = u64::from(self.bytes?);
        match self.follows_rate {
            true => Some(
                (u128::from(bytes) * u128::from(rate_bps) / u128::from(self.rate_bps_max.max(1))).max(1)
                    as u64,
            ),
            false => Some(bytes.max(1)),
        }
    }
}

/// Another control with the model's window.
#[derive(Debug)]
pub(super) struct Windowed {
    pub(super) control: Box<dyn CongestionControl>,
    pub(super) window: Window,
}

impl CongestionControl for Windowed {
    fn name(&self) -> &'static str {
        self.control.name()
    }

    fn rate_bps(&self) -> u64 {
        self.control.rate_bps()
    }

    fn window_bytes(&self) -> Option<u64> {
        self.window.at_rate(self.control.rate_bps())
    }

    fn on_ack(&mut self, now: Picos, ack: &Ack<'_>) {
        self.control.on_ack(now, ack);
    }

    fn on_cnp(&mut self, now: Picos) {
        self.control.on_cnp(now);
    }

    fn next_deadline(&self) -> Picos {
        self.control.next_deadline()
    }

    fn on_deadline(&mut self, now: Picos) {
        self.control.on_deadline(now);
    }
}

/// One hop as the header carries it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Hop {
    time: u64,
    bytes: u64,
    queue: u64,
    rate_bps: u64,
}

impl Hop {
    /// `packet_bytes` is the packet itself, which the model counts after it has written the header.
    fn of(hop: &HopTelemetry, packet_bytes: u64, multiple: u64) -> Hop {
        let sent = hop.tx_bytes.saturating_sub(packet_bytes);
        let rate_bps = u64::from(hop.speed_mbps) * 1_000_000;
        Hop {
            time: hop.at.as_nanos() % (1 << TIME_BITS),
            bytes: sent / (BYTES_UNIT * multiple) % (1 << BYTES_BITS),
            queue: hop.queue_bytes / (QUEUE_UNIT * multiple) % (1 << 17) * QUEUE_UNIT * multiple,
            rate_bps: match hop.speed_mbps {
                25_000 | 50_000 | 100_000 | 200_000 | 400_000 => rate_bps,
                _ => RATE_UNKNOWN_BPS,
            },
        }
    }

    fn since(&self, old: &Hop, multiple: u64) -> (u64, u64) {
        let time = self.time.wrapping_sub(old.time) % (1 << TIME_BITS);
        let bytes = self.bytes.wrapping_sub(old.bytes) % (1 << BYTES_BITS);
        (time, bytes * BYTES_UNIT * multiple)
    }
}

/// The rate of a flow or of one of its hops (`hp.m_curRate`, `hp.hopState`).
#[derive(Clone, Copy, Debug)]
struct RateState {
    rate_bps: u64,
    utilisation: f64,
    stage: u64,
}

/// HPCC, TIMELY, DCTCP or HPCC-PINT of the model.
#[derive(Debug)]
pub(super) struct ModelControl {
    mode: CongestionMode,
    parameters: Parameters,
    window: Window,
    rate_bps: u64,
    /// A full exchange ends once more than this is acknowledged (`m_lastUpdateSeq`).
    round_end: u64,
    hops: [Hop; HOPS_MAX],
    of_flow: RateState,
    of_hops: [RateState; HOPS_MAX],
    timely: Timely,
    dctcp: Dctcp,
    random: u64,
}

#[derive(Debug, Default)]
struct Timely {
    rtt_ns: u64,
    difference_ns: f64,
}

#[derive(Debug)]
struct Dctcp {
    alpha: f64,
    marks: u64,
    batch: u64,
    /// Until more than this is acknowledged the rate is not reduced again.
    reduced_until: Option<u64>,
}

impl ModelControl {
    pub(super) fn new(parameters: &Parameters, window: Window, seed: u64) -> ModelControl {
        let state = RateState {
            rate_bps: window.rate_bps_max,
            utilisation: 1.0,
            stage: 0,
        };
        ModelControl {
            mode: parameters.mode,
            parameters: parameters.clone(),
            window,
            rate_bps: window.rate_bps_max,
            round_end: 0,
            hops: [Hop::default(); HOPS_MAX],
            of_flow: state,
            of_hops: [state; HOPS_MAX],
            timely: Timely::default(),
            dctcp: Dctcp {
                alpha: 1.0,
                marks: 0,
                batch: 0,
                reduced_until: None,
            },
            random: seed | 1,
        }
    }

    fn clamp(&self, rate_bps: u64) -> u64 {
        // The upper bound is applied last.
        rate_bps
            .max(self.parameters.dcqcn.min_rate_bps)
            .min(self.window.rate_bps_max)
    }

    /// Rate and stage that follow from a utilisation.
    fn next(&self, state: &RateState) -> (u64, u64) {
        let load = state.utilisation / self.parameters.hpcc.target_utilisation;
        let increase = self.parameters.dcqcn.rate_ai_bps;
        let (kept, stage) = match load >= 1.0 || state.stage >= self.parameters.hpcc.stages_max {
            true => ((state.rate_bps as f64 / load) as u64, 0),
            false => (state.rate_bps, state.stage + 1),
        };
        (self.clamp(kept.saturating_add(increase)), stage)
    }

    /// `UpdateRateHp`.
    fn hpcc(&mut self, ack: &Ack<'_>) {
        let Some(telemetry) = ack.telemetry else { return };
        let settings = self.parameters.hpcc;
        let full = ack.acked_total > self.round_end;
        if !full && !settings.fast_react {
            return;
        }
        let packet_bytes = ack.acked_bytes + u64::from(self.parameters.header_bytes());
        let count = telemetry.hops().len().min(HOPS_MAX);
        let mut news = [Hop::default(); HOPS_MAX];
        for (new, hop) in news.iter_mut().zip(telemetry.hops()) {
            *new = Hop::of(hop, packet_bytes, settings.unit_multiple);
        }
        if self.round_end == 0 {
            self.round_end = ack.sent_total;
            self.hops = news;
            return;
        }
        let mut updated = [false; HOPS_MAX];
        let mut busiest = (0.0, 0);
        for at in 0..count {
            if settings.skips_empty_queues && news[at].queue == 0 && !full {
                continue;
            }
            updated[at] = true;
            let (utilisation, time) = self.utilisation(&news[at], &self.hops[at]);
            if utilisation > busiest.0 {
                busiest = (utilisation, time);
            }
            if settings.rate_per_hop {
                self.of_hops[at].utilisation = self.averaged(self.of_hops[at].utilisation, utilisation, time);
            }
            self.hops[at] = news[at];
        }
        if updated.contains(&true) {
            match settings.rate_per_hop {
                true => self.lowest_of_hops(&updated[..count], full),
                false => self.of_busiest(busiest, full),
            }
        }
        if full {
            self.round_end = self.round_end.max(ack.sent_total);
        }
    }

    fn utilisation(&self, new: &Hop, old: &Hop) -> (f64, u64) {
        let (time, bytes) = new.since(old, self.parameters.hpcc.unit_multiple);
        let rate = bytes as f64 * 8.0 / (time as f64 * 1e-9);
        let queue = new.queue.min(old.queue) as f64;
        let window = f64::from(self.window.bytes.unwrap_or(0));
        let line = new.rate_bps as f64;
        (
            rate / line + queue * self.window.rate_bps_max as f64 / line / window,
            time,
        )
    }

    fn averaged(&self, old: f64, new: f64, time: u64) -> f64 {
        let span = self.window.base_rtt_ns;
        let time = time.min(span);
        (old * (span - time) as f64 + new * time as f64) / span as f64
    }

    fn of_busiest(&mut self, (utilisation, time): (f64, u64), full: bool) {
        self.of_flow.utilisation = self.averaged(self.of_flow.utilisation, utilisation, time);
        let (rate_bps, stage) = self.next(&self.of_flow);
        self.rate_bps = rate_bps;
        if full {
            (self.of_flow.rate_bps, self.of_flow.stage) = (rate_bps, stage);
        }
    }

    fn lowest_of_hops(&mut self, updated: &[bool], full: bool) {
        let mut lowest = self.window.rate_bps_max;
        for (at, updated) in updated.iter().enumerate() {
            let state = self.of_hops[at];
            let (rate_bps, stage) = match updated {
                true => self.next(&state),
                false => (state.rate_bps, state.stage),
            };
            lowest = lowest.min(rate_bps);
            if full {
                (self.of_hops[at].rate_bps, self.of_hops[at].stage) = (rate_bps, stage);
            }
        }
        self.rate_bps = lowest;
    }

    /// `UpdateRateHpPint`. Each port averages over all of its packets there; here each flow does, over its own.
    fn pint(&mut self, ack: &Ack<'_>) {
        let Some(telemetry) = ack.telemetry else { return };
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let drawn = (self.random >> 48) as f64;
        if drawn >= 65_536.0 * self.parameters.hpcc.sampled_share {
            return;
        }
        let full = ack.acked_total > self.round_end;
        let first = self.round_end == 0;
        let packet_bytes = ack.acked_bytes + u64::from(self.parameters.header_bytes());
        let mut busiest: f64 = 0.0;
        for (at, hop) in telemetry.hops().iter().take(HOPS_MAX).enumerate() {
            let new = Hop::of(hop, packet_bytes, 1);
            if !first {
                let (utilisation, time) = self.utilisation(&new, &self.hops[at]);
                self.of_hops[at].utilisation = self.averaged(self.of_hops[at].utilisation, utilisation, time);
                busiest = busiest.max(self.of_hops[at].utilisation);
            }
            self.hops[at] = new;
        }
        if !first {
            self.of_flow.utilisation = busiest;
            let (rate_bps, stage) = self.next(&self.of_flow);
            self.rate_bps = rate_bps;
            if full {
                (self.of_flow.rate_bps, self.of_flow.stage) = (rate_bps, stage);
            }
        }
        if full {
            self.round_end = self.round_end.max(ack.sent_total);
        }
    }

    /// `UpdateRateTimely`; within a round trip nothing changes.
    fn timely(&mut self, ack: &Ack<'_>) {
        let Some(rtt) = ack.rtt else { return };
        if ack.acked_total <= self.round_end {
            return;
        }
        let rtt_ns = rtt.as_nanos();
        if self.round_end != 0 {
            let newest = rtt_ns as f64 - self.timely.rtt_ns as f64;
            let difference = (1.0 - TIMELY_ALPHA) * self.timely.difference_ns + TIMELY_ALPHA * newest;
            let gradient = difference / TIMELY_MIN_RTT_NS;
            let factor = match rtt_ns {
                rtt if rtt < TIMELY_LOW_NS => None,
                rtt if rtt > TIMELY_HIGH_NS => {
                    Some(1.0 - TIMELY_BETA * (1.0 - TIMELY_HIGH_NS as f64 / rtt as f64))
                }
                _ if gradient <= 0.0 => None,
                _ => Some((1.0 - TIMELY_BETA * gradient).max(0.0)),
            };
            let rates = &self.parameters.dcqcn;
            let rate_bps = self.of_flow.rate_bps;
            self.rate_bps = match factor {
                None if self.of_flow.stage < 5 => rate_bps
                    .saturating_add(rates.rate_ai_bps)
                    .min(self.window.rate_bps_max),
                None => rate_bps
                    .saturating_add(rates.rate_hai_bps)
                    .min(self.window.rate_bps_max),
                Some(factor) => rates.min_rate_bps.max((rate_bps as f64 * factor) as u64),
            };
            self.of_flow.stage = if factor.is_none() {
                self.of_flow.stage + 1
            } else {
                0
            };
            self.of_flow.rate_bps = self.rate_bps;
            self.timely.difference_ns = difference;
        }
        if ack.sent_total > self.round_end {
            self.round_end = ack.sent_total;
            self.timely.rtt_ns = rtt_ns;
        }
    }

    /// `HandleAckDctcp`.
    fn dctcp(&mut self, ack: &Ack<'_>) {
        let mtu = u64::from(self.parameters.payload_bytes);
        self.dctcp.marks += u64::from(ack.marked);
        let new_batch = ack.acked_total > self.round_end;
        if new_batch {
            if self.round_end == 0 {
                self.dctcp.batch = ack.sent_total / mtu + 1;
            } else {
                let gain = self.parameters.dcqcn.gain;
                let share = (self.dctcp.marks as f64 / self.dctcp.batch as f64).min(1.0);
                self.dctcp.alpha = (1.0 - gain) * self.dctcp.alpha + gain * share;
                self.dctcp.marks = 0;
                self.dctcp.batch = ack.sent_total.saturating_sub(ack.acked_total) / mtu + 1;
            }
            self.round_end = ack.sent_total;
        }
        if self
            .dctcp
            .reduced_until
            .is_some_and(|until| ack.acked_total > until)
        {
            self.dctcp.reduced_until = None;
        }
        if ack.marked && self.dctcp.reduced_until.is_none() {
            let reduced = (self.rate_bps as f64 * (1.0 - self.dctcp.alpha / 2.0)) as u64;
            self.rate_bps = reduced.max(self.parameters.dcqcn.min_rate_bps);
            self.dctcp.reduced_until = Some(ack.sent_total);
        }
        if self.dctcp.reduced_until.is_none() && new_batch {
            let increased = self.rate_bps.saturating_add(self.parameters.dctcp_rate_ai_bps);
            self.rate_bps = increased.min(self.window.rate_bps_max);
        }
    }
}

impl CongestionControl for ModelControl {
    fn name(&self) -> &'static str {
        "hpcc-model"
    }

    fn rate_bps(&self) -> u64 {
        self.rate_bps.max(1)
    }

    fn window_bytes(&self) -> Option<u64> {
        self.window.at_rate(self.rate_bps)
    }

    /// Five hops. Their bytes are among the fixed lengths of the model's frames.
    fn telemetry_format(&self) -> Option<TelemetryFormat> {
        let collects = matches!(self.mode, CongestionMode::Hpcc | CongestionMode::HpccPint);
        collects.then_some(TelemetryFormat {
            hops_max: HOPS_MAX as u8,
            bytes: 0,
        })
    }

    fn on_ack(&mut self, _now: Picos, ack: &Ack<'_>) {
        match self.mode {
            CongestionMode::Dcqcn => {}
            CongestionMode::Hpcc => self.hpcc(ack),
            CongestionMode::Timely => self.timely(ack),
            CongestionMode::Dctcp => self.dctcp(ack),
            CongestionMode::HpccPint => self.pint(ack),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_rounds_and_wraps() {
        let telemetry = |at_ns: u64, tx_bytes: u64| HopTelemetry {
            at: Picos::from_nanos(at_ns),
            tx_bytes,
            queue_bytes: 1_000,
            speed_mbps: 100_000,
        };
        let old = Hop::of(&telemetry((1 << 24) - 10, (1 << 27) + 1_090 - 200), 1_090, 1);
        let new = Hop::of(&telemetry((1 << 24) + 5, (1 << 27) + 1_090 + 300), 1_090, 1);
        assert_eq!(new.since(&old, 1), (15, 4 * 128), "-2 and 2 units of 128 bytes");
        assert_eq!((new.queue, new.rate_bps), (960, 100_000_000_000));
    }

    #[test]
    fn a_window_may_follow_the_rate() {
        let window = Window {
            bytes: Some(100_000),
            follows_rate: true,
            base_rtt_ns: 8_000,
            rate_bps_max: 100_000_000_000,
        };
        assert_eq!(window.at_rate(25_000_000_000), Some(25_000));
        assert_eq!(window.at_rate(1), Some(1));
        assert_eq!(
            Window {
                bytes: None,
                ..window
            }
            .at_rate(1),
            None
        );
        assert_eq!(
            Window {
                follows_rate: false,
                ..window
            }
            .at_rate(1),
            Some(100_000)
        );
    }
}
