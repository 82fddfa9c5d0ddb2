//! How busy ports are: averages over sampling intervals, closed by whoever looks first.

use crate::config::{LoadConfig, Measure, SwitchConfig};
use xoff_units::Picos;

/// Quality bands: 7 is the best, 0 the worst.
pub const BANDS: u8 = 8;

/// What a load is measured in: 1 000 is all.
const FULL: u32 = 1_000;

/// Averages are kept in units of 2^-16 permille.
const FRACTION_BITS: u32 = 16;

/// Part of a sampling interval that a band is worth where packets choose; see [`Loads::band_cost`].
const BAND_COST_PART: u64 = 128;

/// A flow that was placed just now.
pub(super) const PLACED: u32 = 1 << 8;

/// Empty intervals after which an average with the largest exponent is as good as zero.
const INTERVALS_MAX: u64 = 1 << 9;

/// How good a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quality {
    /// 7 (best) to 0.
    pub band: u8,
    /// What the band follows from: 0 (idle) to 1 000.
    pub load: u16,
}

impl Quality {
    /// The quality of a load of 0 to 1 000.
    #[inline]
    pub const fn of(load: u32) -> Quality {
        let load = if load > FULL { FULL } else { load };
        Quality {
            band: BANDS - 1 - (load * BANDS as u32 / (FULL + 1)) as u8,
            load: load as u16,
        }
    }
}

/// The load of all ports of a switch. Nothing is measured while no group asks for it.
#[derive(Clone, Debug)]
pub struct Loads {
    interval: Picos,
    exponent: u32,
    instant_drop: bool,
    past: Place,
    future: Place,
    current: Place,
    /// What a band costs a packet that has the choice; see [`Loads::band_cost`].
    band_cost: u64,
    meters: Vec<Meter>,
    /// Of each port.
    paces: Vec<Pace>,
    /// Traffic classes that some peer holds.
    held_tcs: u16,
}

/// What a packet looks at of a port: apart from the rest, so that those of many ports are side by side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// When what is on the link has passed.
    free_at: Picos,
    /// Picoseconds that a byte takes, in units of 2^-8.
    byte_time: u32,
    /// Bit *n*: the peer holds the queue of traffic class *n*.
    held_tcs: u16,
}

impl Pace {
    /// Picoseconds that bytes take.
    #[inline]
    fn time_of(&self, bytes: u64) -> u64 {
        (bytes * u64::from(self.byte_time)) >> BYTE_TIME_BITS
    }

    /// As [`Loads::port_wait_ps`].
    #[inline]
    fn port_wait_ps(&self, now: Picos, queued: u64) -> u64 {
        self.free_at.since(now).0 + self.time_of(queued)
    }

    /// As [`Loads::wait_ps`].
    #[inline]
    pub(super) fn wait_ps(&self, now: Picos, queued: u64) -> u64 {
        self.port_wait_ps(now, queued).min(WAIT_MAX_PS)
    }
}

/// Fraction of a picosecond in which the time of a byte is kept.
const BYTE_TIME_BITS: u32 = 8;

/// The longest wait that is told from a longer one: a quarter of a second.
pub(super) const WAIT_MAX_PS: u64 = 1 << 38;

/// A measure's limits and weight, ready to be multiplied.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Part of all weights, in units of 2^-16.
    weight: u64,
    min: u32,
    /// 1 000 / (max - min), in units of 2^-16.
    slope: u64,
}

impl Place {
    fn new(measure: &Measure, weights: u64) -> Place {
        let span = measure.max_permille.saturating_sub(measure.min_permille).max(1);
        Place {
            weight: (u64::from(measure.weight) << 16) / weights.max(1),
            min: measure.min_permille,
            slope: (u64::from(FULL) << 16) / u64::from(span),
        }
    }

    /// Where a value lies between the limits, weighed, in units of 2^-16.
    #[inline]
    fn weighed(&self, permille: u32) -> u64 {
        let above = u64::from(permille.saturating_sub(self.min));
        let place = ((above * self.slope) >> 16).min(u64::from(FULL));
        place * self.weight
    }
}

#[derive(Clone, Debug)]
struct Meter {
    /// The end of the interval that is open.
    until: Picos,
    /// Bytes sent since its start.
    sent: u64,
    /// Permille of an interval that a byte fills, in units of 2^-32.
    per_byte: u64,
    /// Averages of what was sent and queued.
    past: u32,
    future: u32,
    /// What these two make of the load.
    averaged: u64,
    /// Flows that were placed here of late; they count for less as the averages come to show them.
    placed: u32,
}

impl Meter {
    #[inline]
    fn permille(&self, bytes: u64) -> u32 {
        // A queue of many intervals' length is as bad as one of 60.
        ((u128::from(bytes) * u128::from(self.per_byte)) >> 32).min(60 * u128::from(FULL)) as u32
    }
}

impl Loads {
    /// All ports idle.
    pub(crate) fn new(config: &SwitchConfig) -> Loads {
        let mut loads = Loads {
            interval: Picos(1),
            exponent: 0,
            instant_drop: false,
            past: Place::default(),
            future: Place::default(),
            current: Place::default(),
            band_cost: 0,
            meters: Vec::new(),
            paces: Vec::new(),
            held_tcs: 0,
        };
        loads.configure(config);
        loads
    }

    /// Takes a new configuration; averages are kept.
    pub(crate) fn configure(&mut self, config: &SwitchConfig) {
        let LoadConfig {
            interval,
            exponent,
            instant_drop,
            past,
            future,
            current,
        } = config.balancing.load;
        self.interval = interval.max(Picos::from_nanos(1));
        self.band_cost = self.interval.0 / BAND_COST_PART;
        self.exponent = u32::from(exponent.min(15));
        self.instant_drop = instant_drop;
        let weights = [past, future, current]
            .iter()
            .map(|measure| u64::from(measure.weight))
            .sum();
        self.past = Place::new(&past, weights);
        self.future = Place::new(&future, weights);
        self.current = Place::new(&current, weights);
        for (index, port) in config.ports.iter().enumerate() {
            let scale = config
                .balancing
                .ports
                .get(index)
                .map_or(0, |port| port.scale_mbps);
            let mbps = if scale == 0 { port.link.speed_mbps } else { scale }.max(1);
            // Bytes of an interval are mbps * interval / 8e6 (in ps); a byte's part of them, in permille.
            let per_byte =
                ((8_000_000 * u128::from(FULL)) << 32) / (u128::from(mbps) * u128::from(self.interval.0));
            let per_byte = per_byte.min(u128::from(u64::MAX)) as u64;
            let byte_time = (8_000_000 << BYTE_TIME_BITS) / mbps;
            match self.paces.get_mut(index) {
                Some(pace) => pace.byte_time = byte_time,
                None => self.paces.push(Pace {
                    free_at: Picos::ZERO,
                    byte_time,
                    held_tcs: 0,
                }),
            }
            match self.meters.get_mut(index) {
                Some(meter) => meter.per_byte = per_byte,
                None => self.meters.push(Meter {
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

    /// A port begins to send a frame: `bytes` of its wire length; `queued`: what is left behind it.
    #[inline]
    pub(crate) fn departed(&mut self, now: Picos, port: usize, bytes: u32, queued: u64) {
        self.close(now, port, queued);
        self.meters[port].sent += u64::from(bytes);
        let pace = &mut self.paces[port];
        pace.free_at = now.saturating_add(Picos(pace.time_of(u64::from(bytes))));
    }

    /// The peer of a port holds the queues of these traffic classes.
    pub(crate) fn held(&mut self, port: usize, tcs: u16) {
        self.paces[port].held_tcs = tcs;
        self.held_tcs = self.paces.iter().fold(0, |all, pace| all | pace.held_tcs);
    }

    /// Whether a frame of this class would stand still at a port.
    #[inline]
    pub(crate) fn holds(&self, port: usize, tc: u8) -> bool {
        self.paces[port].held_tcs >> (tc % 16) & 1 != 0
    }

    /// Whether it would at any.
    #[inline]
    pub(super) fn holds_anywhere(&self, tc: u8) -> bool {
        self.held_tcs >> (tc % 16) & 1 != 0
    }

    /// Picoseconds until a frame that is queued now would begin to leave if nothing held the port back: what is on the link, and
    /// `queued` bytes, of which a switch has less than 2^32: so it is less than 2^56.
    #[inline]
    pub(super) fn port_wait_ps(&self, now: Picos, port: usize, queued: u64) -> u64 {
        self.paces[port].port_wait_ps(now, queued)
    }

    /// What is known of each port to say how long a frame would wait.
    #[inline]
    pub(super) fn paces(&self) -> &[Pace] {
        &self.paces
    }

    /// The same, at most [`WAIT_MAX_PS`].
    #[inline]
    pub(crate) fn wait_ps(&self, now: Picos, port: usize, queued: u64) -> u64 {
        self.paces[port].wait_ps(now, queued)
    }

    /// Until when the averages of a port stay as they are; `queued` bytes are in its queues. A load that weighs the queue of now never does.
    pub(super) fn fresh_until(&mut self, now: Picos, port: usize, queued: u64) -> Picos {
        self.close(now, port, queued);
        match self.current.weight {
            0 => self.meters[port].until,
            _ => Picos::ZERO,
        }
    }

    /// Picoseconds of waiting that one band of averaged load is worth to schemes that choose for every packet: 1/128 of the sampling
    /// interval (125 ns of 16 us, 1.5 KB at 100 Gb/s). So little because averages are old and all packets read the same
    /// ones: who followed them would send everything one way until the next sample. They break ties; the queue of now
    /// decides.
    #[inline]
    pub(crate) fn band_cost(&self) -> u64 {
        self.band_cost
    }

    /// The quality of a port, with `queued` bytes in its queues.
    #[inline]
    pub(crate) fn quality(&mut self, now: Picos, port: usize, queued: u64) -> Quality {
        self.close(now, port, queued);
        let meter = &self.meters[port];
        let mut load = meter.averaged;
        if self.current.weight > 0 {
            load += self.current.weighed(meter.permille(queued));
        }
        Quality::of((load >> 16) as u32)
    }

    /// A flow was placed on a port, or a part of one.
    pub(super) fn place(&mut self, now: Picos, port: usize, queued: u64, part: u32) {
        self.close(now, port, queued);
        let placed = &mut self.meters[port].placed;
        *placed = placed.saturating_add(part);
    }

    /// Flows that were placed on a port of late, in units of 1/[`PLACED`].
    pub(super) fn placed(&mut self, now: Picos, port: usize, queued: u64) -> u32 {
        self.close(now, port, queued);
        self.meters[port].placed
    }

    /// What a port sends, on average, in permille of its speed.
    #[inline]
    pub(crate) fn utilisation(&mut self, now: Picos, port: usize, queued: u64) -> u32 {
        self.close(now, port, queued);
        self.meters[port].past >> FRACTION_BITS
    }

    /// How long `queued` bytes take on a port, in permille of an interval.
    #[inline]
    pub(crate) fn backlog(&self, port: usize, queued: u64) -> u32 {
        self.meters[port].permille(queued)
    }

    /// Closes the intervals that have ended.
    #[inline]
    fn close(&mut self, now: Picos, port: usize, queued: u64) {
        if now >= self.meters[port].until {
            self.close_ended(now, port, queued);
        }
    }

    /// What was sent belongs to the oldest of them; since every departure looks here, the others were silent.
    #[cold]
    fn close_ended(&mut self, now: Picos, port: usize, queued: u64) {
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
        let queued = meter.permille(queued);
        let sent = meter.permille(meter.sent).min(2 * FULL);
        meter.past = average(meter.past, sent);
        meter.future = average(meter.future, queued);
        for _ in 1..intervals.min(INTERVALS_MAX) {
            meter.past = average(meter.past, 0);
            meter.future = average(meter.future, queued);
        }
        for _ in 0..intervals.min(INTERVALS_MAX) {
            // What an average moves by towards its sample.
            meter.placed -= meter.placed.div_ceil(1 << exponent);
        }
        meter.sent = 0;
        meter.until = Picos(meter.until.0 + intervals * self.interval.0);
        meter.averaged = self.past.weighed(meter.past >> FRACTION_BITS)
            + self.future.weighed(meter.future >> FRACTION_BITS);
    }
}
