//! The congestion controls and send windows of the HPCC model of ns-3, with the same arithmetic as in its
//! source `rdma-hw.cc`. Rates are whole bits per second, rounded down. Telemetry values are rounded like the
//! fields of the model's header (`int-header.h`).
//!
//! The congestion controls of `xoff-rdma` follow the papers on HPCC, TIMELY and DCTCP. The controls in this
//! module follow the model, which differs from the papers in three points:
//!
//! - The send window is proportional to the rate.
//! - The rate that is measured over a round trip is compared with the flow's own rate.
//! - Telemetry counts in units of 128 and 80 bytes.

use xoff_units::Picos;

use xoff_lab::ns3::{CongestionMode, Ns3ModelParameters};
use xoff_rdma::congestion::{Ack, CongestionControl};
use xoff_rdma::{HopTelemetry, TelemetryFormat};

/// Largest number of hops in the telemetry header.
const HOPS_MAX: usize = 5;
const TIME_BITS: u32 = 24;
const BYTES_BITS: u32 = 20;
const BYTES_UNIT: u64 = 128;
const QUEUE_UNIT: u64 = 80;
/// Speed that the telemetry header states for a link if the header has no code for its speed.
const RATE_UNKNOWN_BPS: u64 = 25_000_000_000;
/// Settings of TIMELY that no configuration changes (`TimelyAlpha` and the following attributes).
const TIMELY_ALPHA: f64 = 0.875;
const TIMELY_BETA: f64 = 0.8;
const TIMELY_LOW_NS: u64 = 50_000;
const TIMELY_HIGH_NS: u64 = 500_000;
const TIMELY_MIN_RTT_NS: f64 = 20_000.0;

/// The send window and the base round-trip time of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowWindow {
    /// Send window in bytes at the full rate, or `None` for no window.
    pub(super) bytes: Option<u32>,
    /// True if the window is proportional to the rate.
    pub(super) follows_rate: bool,
    pub(super) base_rtt_ns: u64,
    /// Speed of the sender's link in bit/s.
    pub(super) rate_bps_max: u64,
}

impl FlowWindow {
    fn bytes_at_rate(&self, rate_bps: u64) -> Option<u64> {
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

/// A congestion control with the send window of the model as an additional limit.
#[derive(Debug)]
pub(super) struct WindowLimitedControl {
    pub(super) control: Box<dyn CongestionControl>,
    pub(super) window: FlowWindow,
}

impl CongestionControl for WindowLimitedControl {
    fn name(&self) -> &'static str {
        self.control.name()
    }

    fn rate_bps(&self) -> u64 {
        self.control.rate_bps()
    }

    fn window_bytes(&self) -> Option<u64> {
        self.window.bytes_at_rate(self.control.rate_bps())
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

/// Telemetry of one hop, rounded to the units of the model's header.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct HopTelemetryRecord {
    time: u64,
    bytes: u64,
    queue: u64,
    rate_bps: u64,
}

impl HopTelemetryRecord {
    /// Rounds the telemetry of a hop as the model's header does. The byte counter is reduced by
    /// `packet_bytes`, because the model counts a packet after it has written the header.
    fn from_telemetry(hop: &HopTelemetry, packet_bytes: u64, multiple: u64) -> HopTelemetryRecord {
        let sent = hop.tx_bytes.saturating_sub(packet_bytes);
        let rate_bps = u64::from(hop.speed_mbps) * 1_000_000;
        HopTelemetryRecord {
            time: hop.at.as_nanos() % (1 << TIME_BITS),
            bytes: sent / (BYTES_UNIT * multiple) % (1 << BYTES_BITS),
            queue: hop.queue_bytes / (QUEUE_UNIT * multiple) % (1 << 17) * QUEUE_UNIT * multiple,
            rate_bps: match hop.speed_mbps {
                25_000 | 50_000 | 100_000 | 200_000 | 400_000 => rate_bps,
                _ => RATE_UNKNOWN_BPS,
            },
        }
    }

    fn delta_since(&self, old: &HopTelemetryRecord, multiple: u64) -> (u64, u64) {
        let time = self.time.wrapping_sub(old.time) % (1 << TIME_BITS);
        let bytes = self.bytes.wrapping_sub(old.bytes) % (1 << BYTES_BITS);
        (time, bytes * BYTES_UNIT * multiple)
    }
}

/// Rate state of a flow or of one of its hops (`hp.m_curRate`, `hp.hopState`).
#[derive(Clone, Copy, Debug)]
struct RateState {
    rate_bps: u64,
    utilisation: f64,
    stage: u64,
}

/// HPCC, TIMELY, DCTCP or HPCC-PINT in the arithmetic of the model.
#[derive(Debug)]
pub(super) struct Ns3CongestionControl {
    mode: CongestionMode,
    parameters: Ns3ModelParameters,
    window: FlowWindow,
    rate_bps: u64,
    /// A round trip ends when more bytes than this are acknowledged (`m_lastUpdateSeq`).
    round_end: u64,
    hops: [HopTelemetryRecord; HOPS_MAX],
    flow_state: RateState,
    hop_states: [RateState; HOPS_MAX],
    timely: TimelyState,
    dctcp: DctcpState,
    random: u64,
}

#[derive(Debug, Default)]
struct TimelyState {
    rtt_ns: u64,
    difference_ns: f64,
}

#[derive(Debug)]
struct DctcpState {
    alpha: f64,
    marks: u64,
    batch: u64,
    /// The rate is not reduced again until more bytes than this are acknowledged. `None` if the rate can be
    /// reduced now.
    reduced_until: Option<u64>,
}

impl Ns3CongestionControl {
    pub(super) fn new(
        parameters: &Ns3ModelParameters,
        window: FlowWindow,
        seed: u64,
    ) -> Ns3CongestionControl {
        let state = RateState {
            rate_bps: window.rate_bps_max,
            utilisation: 1.0,
            stage: 0,
        };
        Ns3CongestionControl {
            mode: parameters.mode,
            parameters: parameters.clone(),
            window,
            rate_bps: window.rate_bps_max,
            round_end: 0,
            hops: [HopTelemetryRecord::default(); HOPS_MAX],
            flow_state: state,
            hop_states: [state; HOPS_MAX],
            timely: TimelyState::default(),
            dctcp: DctcpState {
                alpha: 1.0,
                marks: 0,
                batch: 0,
                reduced_until: None,
            },
            random: seed | 1,
        }
    }

    fn clamp_rate(&self, rate_bps: u64) -> u64 {
        // The model applies the upper bound last.
        rate_bps
            .max(self.parameters.dcqcn.min_rate_bps)
            .min(self.window.rate_bps_max)
    }

    /// Returns the next rate and the next stage for the utilisation in `state`.
    fn next_rate_and_stage(&self, state: &RateState) -> (u64, u64) {
        let load = state.utilisation / self.parameters.hpcc.target_utilisation;
        let increase = self.parameters.dcqcn.rate_ai_bps;
        let (kept, stage) = match load >= 1.0 || state.stage >= self.parameters.hpcc.stages_max {
            true => ((state.rate_bps as f64 / load) as u64, 0),
            false => (state.rate_bps, state.stage + 1),
        };
        (self.clamp_rate(kept.saturating_add(increase)), stage)
    }

    /// Updates the rate for HPCC (`UpdateRateHp`).
    fn update_hpcc(&mut self, ack: &Ack<'_>) {
        let Some(telemetry) = ack.telemetry else { return };
        let settings = self.parameters.hpcc;
        let is_round_end = ack.acked_total > self.round_end;
        if !is_round_end && !settings.fast_react {
            return;
        }
        let packet_bytes = ack.acked_bytes + u64::from(self.parameters.header_bytes());
        let count = telemetry.hops().len().min(HOPS_MAX);
        let mut new_hops = [HopTelemetryRecord::default(); HOPS_MAX];
        for (new, hop) in new_hops.iter_mut().zip(telemetry.hops()) {
            *new = HopTelemetryRecord::from_telemetry(hop, packet_bytes, settings.unit_multiple);
        }
        if self.round_end == 0 {
            self.round_end = ack.sent_total;
            self.hops = new_hops;
            return;
        }
        let mut updated = [false; HOPS_MAX];
        let mut busiest = (0.0, 0);
        for at in 0..count {
            if settings.skips_empty_queues && new_hops[at].queue == 0 && !is_round_end {
                continue;
            }
            updated[at] = true;
            let (utilisation, time) = self.link_utilisation(&new_hops[at], &self.hops[at]);
            if utilisation > busiest.0 {
                busiest = (utilisation, time);
            }
            if settings.rate_per_hop {
                self.hop_states[at].utilisation =
                    self.average_utilisation(self.hop_states[at].utilisation, utilisation, time);
            }
            self.hops[at] = new_hops[at];
        }
        if updated.contains(&true) {
            match settings.rate_per_hop {
                true => self.update_rate_from_slowest_hop(&updated[..count], is_round_end),
                false => self.update_rate_from_busiest_hop(busiest, is_round_end),
            }
        }
        if is_round_end {
            self.round_end = self.round_end.max(ack.sent_total);
        }
    }

    fn link_utilisation(&self, new: &HopTelemetryRecord, old: &HopTelemetryRecord) -> (f64, u64) {
        let (time, bytes) = new.delta_since(old, self.parameters.hpcc.unit_multiple);
        let rate = bytes as f64 * 8.0 / (time as f64 * 1e-9);
        let queue = new.queue.min(old.queue) as f64;
        let window = f64::from(self.window.bytes.unwrap_or(0));
        let line = new.rate_bps as f64;
        (
            rate / line + queue * self.window.rate_bps_max as f64 / line / window,
            time,
        )
    }

    fn average_utilisation(&self, old: f64, new: f64, elapsed_ns: u64) -> f64 {
        let span = self.window.base_rtt_ns;
        let elapsed_ns = elapsed_ns.min(span);
        (old * (span - elapsed_ns) as f64 + new * elapsed_ns as f64) / span as f64
    }

    fn update_rate_from_busiest_hop(&mut self, (utilisation, time): (f64, u64), is_round_end: bool) {
        self.flow_state.utilisation =
            self.average_utilisation(self.flow_state.utilisation, utilisation, time);
        let (rate_bps, stage) = self.next_rate_and_stage(&self.flow_state);
        self.rate_bps = rate_bps;
        if is_round_end {
            (self.flow_state.rate_bps, self.flow_state.stage) = (rate_bps, stage);
        }
    }

    fn update_rate_from_slowest_hop(&mut self, updated: &[bool], is_round_end: bool) {
        let mut lowest = self.window.rate_bps_max;
        for (at, updated) in updated.iter().enumerate() {
            let state = self.hop_states[at];
            let (rate_bps, stage) = match updated {
                true => self.next_rate_and_stage(&state),
                false => (state.rate_bps, state.stage),
            };
            lowest = lowest.min(rate_bps);
            if is_round_end {
                (self.hop_states[at].rate_bps, self.hop_states[at].stage) = (rate_bps, stage);
            }
        }
        self.rate_bps = lowest;
    }

    /// Updates the rate for HPCC-PINT (`UpdateRateHpPint`). In the model, each port averages over all its
    /// packets. Here, each flow averages over its own packets.
    fn update_hpcc_pint(&mut self, ack: &Ack<'_>) {
        let Some(telemetry) = ack.telemetry else { return };
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let drawn = (self.random >> 48) as f64;
        if drawn >= 65_536.0 * self.parameters.hpcc.sampled_share {
            return;
        }
        let is_round_end = ack.acked_total > self.round_end;
        let first = self.round_end == 0;
        let packet_bytes = ack.acked_bytes + u64::from(self.parameters.header_bytes());
        let mut busiest: f64 = 0.0;
        for (at, hop) in telemetry.hops().iter().take(HOPS_MAX).enumerate() {
            let new = HopTelemetryRecord::from_telemetry(hop, packet_bytes, 1);
            if !first {
                let (utilisation, time) = self.link_utilisation(&new, &self.hops[at]);
                self.hop_states[at].utilisation =
                    self.average_utilisation(self.hop_states[at].utilisation, utilisation, time);
                busiest = busiest.max(self.hop_states[at].utilisation);
            }
            self.hops[at] = new;
        }
        if !first {
            self.flow_state.utilisation = busiest;
            let (rate_bps, stage) = self.next_rate_and_stage(&self.flow_state);
            self.rate_bps = rate_bps;
            if is_round_end {
                (self.flow_state.rate_bps, self.flow_state.stage) = (rate_bps, stage);
            }
        }
        if is_round_end {
            self.round_end = self.round_end.max(ack.sent_total);
        }
    }

    /// Updates the rate for TIMELY once per round trip (`UpdateRateTimely`).
    fn update_timely(&mut self, ack: &Ack<'_>) {
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
            let rate_bps = self.flow_state.rate_bps;
            self.rate_bps = match factor {
                None if self.flow_state.stage < 5 => rate_bps
                    .saturating_add(rates.rate_ai_bps)
                    .min(self.window.rate_bps_max),
                None => rate_bps
                    .saturating_add(rates.rate_hai_bps)
                    .min(self.window.rate_bps_max),
                Some(factor) => rates.min_rate_bps.max((rate_bps as f64 * factor) as u64),
            };
            self.flow_state.stage = if factor.is_none() {
                self.flow_state.stage + 1
            } else {
                0
            };
            self.flow_state.rate_bps = self.rate_bps;
            self.timely.difference_ns = difference;
        }
        if ack.sent_total > self.round_end {
            self.round_end = ack.sent_total;
            self.timely.rtt_ns = rtt_ns;
        }
    }

    /// Updates the rate for DCTCP (`HandleAckDctcp`).
    fn update_dctcp(&mut self, ack: &Ack<'_>) {
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

impl CongestionControl for Ns3CongestionControl {
    fn name(&self) -> &'static str {
        "hpcc-model"
    }

    fn rate_bps(&self) -> u64 {
        self.rate_bps.max(1)
    }

    fn window_bytes(&self) -> Option<u64> {
        self.window.bytes_at_rate(self.rate_bps)
    }

    /// Returns a telemetry format of five hops. The format adds no bytes to frames, because the fixed frame
    /// lengths of the model already include them.
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
            CongestionMode::Hpcc => self.update_hpcc(ack),
            CongestionMode::Timely => self.update_timely(ack),
            CongestionMode::Dctcp => self.update_dctcp(ack),
            CongestionMode::HpccPint => self.update_hpcc_pint(ack),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_counters_are_rounded_and_wrap() {
        let telemetry = |at_ns: u64, tx_bytes: u64| HopTelemetry {
            at: Picos::from_nanos(at_ns),
            tx_bytes,
            queue_bytes: 1_000,
            speed_mbps: 100_000,
        };
        let old =
            HopTelemetryRecord::from_telemetry(&telemetry((1 << 24) - 10, (1 << 27) + 1_090 - 200), 1_090, 1);
        let new =
            HopTelemetryRecord::from_telemetry(&telemetry((1 << 24) + 5, (1 << 27) + 1_090 + 300), 1_090, 1);
        assert_eq!(
            new.delta_since(&old, 1),
            (15, 4 * 128),
            "-2 and 2 units of 128 bytes"
        );
        assert_eq!((new.queue, new.rate_bps), (960, 100_000_000_000));
    }

    #[test]
    fn a_window_is_proportional_to_the_rate_if_configured() {
        let window = FlowWindow {
            bytes: Some(100_000),
            follows_rate: true,
            base_rtt_ns: 8_000,
            rate_bps_max: 100_000_000_000,
        };
        assert_eq!(window.bytes_at_rate(25_000_000_000), Some(25_000));
        assert_eq!(window.bytes_at_rate(1), Some(1));
        assert_eq!(
            FlowWindow {
                bytes: None,
                ..window
            }
            .bytes_at_rate(1),
            None
        );
        assert_eq!(
            FlowWindow {
                follows_rate: false,
                ..window
            }
            .bytes_at_rate(1),
            Some(100_000)
        );
    }
}
