//! Measures the load of ports as averages over sampling intervals. No timer ends an interval. The first
//! access after the end of an interval updates the averages.

use super::config::{BalancerSetup, LoadConfig, LoadMeasure};
use xoff_units::Picos;

/// Number of quality bands (classes of path quality). Band 7 is the best, and band 0 is the worst.
pub const BANDS: u8 = 8;

/// Full load, in permille.
const FULL_LOAD: u32 = 1_000;

/// Number of fraction bits of averages. Their unit is 2^-16 permille.
const FRACTION_BITS: u32 = 16;

/// Per-packet schemes count each quality band (class of path quality) below the best band as a wait. This
/// wait is the sampling interval divided by this number ([`PortLoads::wait_per_quality_band_ps`]).
const BAND_COST_PART: u64 = 128;

/// Value of one flow that has just been placed, in the counter of recent placements.
pub(super) const PLACEMENT_UNIT: u32 = 1 << 8;

/// After this number of intervals without traffic, every average is nearly zero, even with the
/// largest exponent.
const INTERVALS_MAX: u64 = 1 << 9;

/// Quality of a path or of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quality {
    /// Quality band: 7 (best) to 0 (worst).
    pub band: u8,
    /// Load that determines the band, from 0 (idle) to 1000.
    pub load: u16,
}

impl Quality {
    /// Returns the quality that corresponds to a load of 0 to 1000. A higher load is treated as 1000.
    #[inline]
    pub const fn from_load(load: u32) -> Quality {
        let load = if load > FULL_LOAD { FULL_LOAD } else { load };
        Quality {
            band: BANDS - 1 - (load * BANDS as u32 / (FULL_LOAD + 1)) as u8,
            load: load as u16,
        }
    }
}

/// Loads of all ports of a switch. The loads are measured only if a load balancing group needs them.
#[derive(Clone, Debug)]
pub struct PortLoads {
    interval: Picos,
    exponent: u32,
    instant_drop: bool,
    past: MeasureScale,
    future: MeasureScale,
    current: MeasureScale,
    /// Wait in picoseconds that counts as much as one quality band ([`PortLoads::wait_per_quality_band_ps`]).
    band_cost_ps: u64,
    meters: Vec<PortMeter>,
    /// Timing of each port.
    port_timings: Vec<PortTiming>,
    /// Bit *n* is set if the peer of at least one port pauses traffic class *n*.
    paused_tcs: u16,
}

/// Times of a port that are needed to select the member for a packet. These times are stored apart from the
/// averages, so that one cache line holds the times of many ports.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortTiming {
    /// End of the current transmission on the link.
    free_at: Picos,
    /// Transmission time of a byte, in units of 2^-8 ps.
    byte_time: u32,
    /// Bit *n* is set while the peer pauses the queue of traffic class *n*.
    paused_tcs: u16,
}

impl PortTiming {
    /// Returns the transmission time of a number of bytes in picoseconds.
    #[inline]
    fn transmission_ps(&self, bytes: u64) -> u64 {
        (bytes * u64::from(self.byte_time)) >> BYTE_TIME_BITS
    }

    /// Returns the wait of [`PortLoads::port_wait_ps`].
    #[inline]
    fn port_wait_ps(&self, now: Picos, queued_bytes: u64) -> u64 {
        self.free_at.since(now).0 + self.transmission_ps(queued_bytes)
    }

    /// Returns the wait of [`PortLoads::wait_ps`].
    #[inline]
    pub(super) fn wait_ps(&self, now: Picos, queued_bytes: u64) -> u64 {
        self.port_wait_ps(now, queued_bytes).min(WAIT_MAX_PS)
    }
}

/// Number of fraction bits of the transmission time of a byte.
const BYTE_TIME_BITS: u32 = 8;

/// Longest wait in picoseconds, about a quarter of a second. Longer waits count as this wait.
pub(super) const WAIT_MAX_PS: u64 = 1 << 38;

/// Limits and weight of a measure, prepared for a calculation without divisions.
#[derive(Clone, Copy, Debug, Default)]
struct MeasureScale {
    /// Weight relative to the sum of all weights, in units of 2^-16.
    weight: u64,
    min: u32,
    /// 1000 / (max - min), in units of 2^-16.
    slope: u64,
}

impl MeasureScale {
    fn new(measure: &LoadMeasure, weight_sum: u64) -> MeasureScale {
        let span = measure.max_permille.saturating_sub(measure.min_permille).max(1);
        MeasureScale {
            weight: (u64::from(measure.weight) << 16) / weight_sum.max(1),
            min: measure.min_permille,
            slope: (u64::from(FULL_LOAD) << 16) / u64::from(span),
        }
    }

    /// Maps a value to its position between the limits and multiplies it by the weight. The unit
    /// is 2^-16 permille.
    #[inline]
    fn weighted_value(&self, permille: u32) -> u64 {
        let above = u64::from(permille.saturating_sub(self.min));
        let position = ((above * self.slope) >> 16).min(u64::from(FULL_LOAD));
        position * self.weight
    }
}

/// Measurements of a port.
#[derive(Clone, Debug)]
struct PortMeter {
    /// End of the present interval.
    until: Picos,
    /// Bytes sent since the start of the interval.
    sent: u64,
    /// Permille of an interval that a byte occupies, in units of 2^-32.
    per_byte: u64,
    /// Averages of the sent bytes (`past`) and of the queued bytes (`future`), in units of 2^-16 permille.
    past: u32,
    future: u32,
    /// Part of the load that comes from these two averages, in units of 2^-16 permille.
    averaged: u64,
    /// Number of flows that were recently placed on the port, in units of 1/[`PLACEMENT_UNIT`]. The number
    /// decays as fast as the averages adapt.
    placed: u32,
}

impl PortMeter {
    /// Returns the transmission time of a number of bytes, in permille of an interval.
    #[inline]
    fn interval_permille(&self, bytes: u64) -> u32 {
        // A queue longer than 60 intervals counts as 60 intervals.
        ((u128::from(bytes) * u128::from(self.per_byte)) >> 32).min(60 * u128::from(FULL_LOAD)) as u32
    }
}

impl PortLoads {
    /// Creates the loads of a switch. All ports are idle.
    pub(crate) fn new(setup: &BalancerSetup<'_>) -> PortLoads {
        let mut loads = PortLoads {
            interval: Picos(1),
            exponent: 0,
            instant_drop: false,
            past: MeasureScale::default(),
            future: MeasureScale::default(),
            current: MeasureScale::default(),
            band_cost_ps: 0,
            meters: Vec::new(),
            port_timings: Vec::new(),
            paused_tcs: 0,
        };
        loads.configure(setup);
        loads
    }

    /// Applies a new configuration. Averages are kept.
    pub(crate) fn configure(&mut self, setup: &BalancerSetup<'_>) {
        let LoadConfig {
            interval,
            exponent,
            instant_drop,
            past,
            future,
            current,
        } = setup.balancing.load;
        self.interval = interval.max(Picos::from_nanos(1));
        self.band_cost_ps = self.interval.0 / BAND_COST_PART;
        self.exponent = u32::from(exponent.min(15));
        self.instant_drop = instant_drop;
        let weight_sum = [past, future, current]
            .iter()
            .map(|measure| u64::from(measure.weight))
            .sum();
        self.past = MeasureScale::new(&past, weight_sum);
        self.future = MeasureScale::new(&future, weight_sum);
        self.current = MeasureScale::new(&current, weight_sum);
        for (index, link) in setup.links.iter().enumerate() {
            let scale = setup.balancing.ports.get(index).map_or(0, |port| port.scale_mbps);
            let mbps = if scale == 0 { link.speed_mbps } else { scale }.max(1);
            // An interval transmits mbps * interval / 8e6 bytes (interval in ps). The quotient is the
            // permille of one byte.
            let per_byte = ((8_000_000 * u128::from(FULL_LOAD)) << 32)
                / (u128::from(mbps) * u128::from(self.interval.0));
            let per_byte = per_byte.min(u128::from(u64::MAX)) as u64;
            let byte_time = (8_000_000 << BYTE_TIME_BITS) / mbps;
            match self.port_timings.get_mut(index) {
                Some(timing) => timing.byte_time = byte_time,
                None => self.port_timings.push(PortTiming {
                    free_at: Picos::ZERO,
                    byte_time,
                    paused_tcs: 0,
                }),
            }
            match self.meters.get_mut(index) {
                Some(meter) => meter.per_byte = per_byte,
                None => self.meters.push(PortMeter {
                    until: self.interval,
                    sent: 0,
                    per_byte,
                    past: 0,
                    future: 0,
                    averaged: 0,
                    placed: 0,
                }),
            }
        }
    }

    /// Records that a port starts to send a frame. `bytes` is the length of the frame on the link, with
    /// preamble and gap. `queued_bytes` is the number of bytes that remain in the queues of the port.
    #[inline]
    pub(crate) fn record_departure(&mut self, now: Picos, port: usize, bytes: u32, queued_bytes: u64) {
        self.close_ended_intervals(now, port, queued_bytes);
        self.meters[port].sent += u64::from(bytes);
        let timing = &mut self.port_timings[port];
        timing.free_at = now.saturating_add(Picos(timing.transmission_ps(u64::from(bytes))));
    }

    /// Sets the mask of traffic classes that the peer of a port pauses.
    pub(crate) fn set_paused_tcs(&mut self, port: usize, tcs: u16) {
        self.port_timings[port].paused_tcs = tcs;
        self.paused_tcs = self
            .port_timings
            .iter()
            .fold(0, |all, timing| all | timing.paused_tcs);
    }

    /// Returns true if the peer of a port pauses this traffic class.
    #[inline]
    pub(crate) fn is_paused(&self, port: usize, tc: u8) -> bool {
        self.port_timings[port].paused_tcs >> (tc % 16) & 1 != 0
    }

    /// Returns true if the peer of any port pauses this traffic class.
    #[inline]
    pub(super) fn is_any_port_paused(&self, tc: u8) -> bool {
        self.paused_tcs >> (tc % 16) & 1 != 0
    }

    /// Returns the time in picoseconds until a frame that is queued now starts to leave. The time includes
    /// the rest of the current transmission and `queued_bytes`, but no pauses. A switch queues less than 2^32
    /// bytes, so the result is below 2^56.
    #[inline]
    pub(super) fn port_wait_ps(&self, now: Picos, port: usize, queued_bytes: u64) -> u64 {
        self.port_timings[port].port_wait_ps(now, queued_bytes)
    }

    /// Returns the timing of all ports.
    #[inline]
    pub(super) fn port_timings(&self) -> &[PortTiming] {
        &self.port_timings
    }

    /// Returns the wait of [`PortLoads::port_wait_ps`], limited to [`WAIT_MAX_PS`].
    #[inline]
    pub(crate) fn wait_ps(&self, now: Picos, port: usize, queued_bytes: u64) -> u64 {
        self.port_timings[port].wait_ps(now, queued_bytes)
    }

    /// Returns the time at which the averages of a port change next. `queued_bytes` is the number of bytes in
    /// the queues of the port. If the load includes the present queue length, the load changes with every
    /// packet, and the result is zero.
    pub(super) fn averages_valid_until(&mut self, now: Picos, port: usize, queued_bytes: u64) -> Picos {
        self.close_ended_intervals(now, port, queued_bytes);
        match self.current.weight {
            0 => self.meters[port].until,
            _ => Picos::ZERO,
        }
    }

    /// Returns the wait in picoseconds that counts as much as one quality band of averaged load. Per-packet
    /// schemes add this wait and the queue wait. The value is 1/128 of the sampling interval. An interval of
    /// 16 us gives 125 ns, which is the wait for 1.5 KB at 100 Gb/s.
    ///
    /// The averages have a small weight. They change only once per sampling interval, so if packets followed
    /// only the averages, all packets would use the same member until the next sample. The averages therefore
    /// matter only between queues of nearly equal length.
    #[inline]
    pub(crate) fn wait_per_quality_band_ps(&self) -> u64 {
        self.band_cost_ps
    }

    /// Returns the quality of a port that has `queued_bytes` bytes in its queues.
    #[inline]
    pub(crate) fn quality(&mut self, now: Picos, port: usize, queued_bytes: u64) -> Quality {
        self.close_ended_intervals(now, port, queued_bytes);
        let meter = &self.meters[port];
        let mut load = meter.averaged;
        if self.current.weight > 0 {
            load += self.current.weighted_value(meter.interval_permille(queued_bytes));
        }
        Quality::from_load((load >> 16) as u32)
    }

    /// Records that a flow was placed on a port. `placement_units` is [`PLACEMENT_UNIT`], or a part of it if
    /// the flow uses several ports.
    pub(super) fn record_placement(
        &mut self,
        now: Picos,
        port: usize,
        queued_bytes: u64,
        placement_units: u32,
    ) {
        self.close_ended_intervals(now, port, queued_bytes);
        let placed = &mut self.meters[port].placed;
        *placed = placed.saturating_add(placement_units);
    }

    /// Returns the number of recent placements on a port, in units of 1/[`PLACEMENT_UNIT`].
    pub(super) fn recent_placements(&mut self, now: Picos, port: usize, queued_bytes: u64) -> u32 {
        self.close_ended_intervals(now, port, queued_bytes);
        self.meters[port].placed
    }

    /// Returns the average transmission rate of a port over sampling intervals, in permille of its speed.
    #[inline]
    pub(crate) fn utilisation_permille(&mut self, now: Picos, port: usize, queued_bytes: u64) -> u32 {
        self.close_ended_intervals(now, port, queued_bytes);
        self.meters[port].past >> FRACTION_BITS
    }

    /// Returns the transmission time of `queued_bytes` at a port, in permille of a sampling interval.
    #[inline]
    pub(crate) fn backlog_permille(&self, port: usize, queued_bytes: u64) -> u32 {
        self.meters[port].interval_permille(queued_bytes)
    }

    /// Closes the sampling intervals of a port that have ended.
    #[inline]
    fn close_ended_intervals(&mut self, now: Picos, port: usize, queued_bytes: u64) {
        if now >= self.meters[port].until {
            self.sample_and_close(now, port, queued_bytes);
        }
    }

    /// Updates the averages for all sampling intervals that have ended. Every departure calls this function
    /// before it adds its bytes. All bytes sent since the last update therefore belong to the oldest of
    /// these intervals.
    #[cold]
    fn sample_and_close(&mut self, now: Picos, port: usize, queued_bytes: u64) {
        let (exponent, instant_drop) = (self.exponent, self.instant_drop);
        let average = |average: u32, sample: u32| {
            let sample = sample << FRACTION_BITS;
            if instant_drop && sample < average {
                return sample;
            }
            let change = (i64::from(sample) - i64::from(average)) >> exponent;
            (i64::from(average) + change) as u32
        };
        let meter = &mut self.meters[port];
        let intervals = now.since(meter.until).0 / self.interval.0 + 1;
        let queued_permille = meter.interval_permille(queued_bytes);
        let sent = meter.interval_permille(meter.sent).min(2 * FULL_LOAD);
        meter.past = average(meter.past, sent);
        meter.future = average(meter.future, queued_permille);
        for _ in 1..intervals.min(INTERVALS_MAX) {
            meter.past = average(meter.past, 0);
            meter.future = average(meter.future, queued_permille);
        }
        for _ in 0..intervals.min(INTERVALS_MAX) {
            // The same decay as that of the averages towards a sample of zero.
            meter.placed -= meter.placed.div_ceil(1 << exponent);
        }
        meter.sent = 0;
        meter.until = Picos(meter.until.0 + intervals * self.interval.0);
        meter.averaged = self.past.weighted_value(meter.past >> FRACTION_BITS)
            + self.future.weighted_value(meter.future >> FRACTION_BITS);
    }
}
