//! Deadlines: which are out, so that each is asked for once.

use crate::ids::{PortId, TimerId};
use crate::outputs::{Deadline, Outputs};
use xoff_units::Picos;

/// What a deadline of a port is about, beside those about its departures ([`transmit`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerKind {
    /// A received pause ends by itself.
    PauseExpiry = 1,
    /// XOFF must be repeated.
    PauseRefresh = 2,
}

/// Whose a deadline is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A port's.
    Port(PortId, TimerKind),
    /// The switch's one deadline about neighbours.
    Neighbours,
    /// The watchdog's next poll.
    Watchdog,
    /// Neighbours are to be told of loads.
    LinkQuality,
}

/// Ids per port: a power of two, so that an id is taken apart without a division. The first is about departures.
const IDS_PER_PORT: u32 = 4;

/// The deadline of a port about its departures: the link becomes free, or a shaper opens, while something waits. When it is due lies
/// with the port ([`Port::transmit_due`](super::port::Port::transmit_due)), beside all else that a departure looks at.
#[inline(always)]
pub(crate) fn transmit(port: PortId) -> TimerId {
    TimerId(u32::from(port.0) * IDS_PER_PORT)
}

/// The index of the port whose departures a deadline is about, if there is such a port; `None` for what ports have beside.
#[inline(always)]
pub(crate) fn transmitter(timer: TimerId) -> Option<usize> {
    timer
        .0
        .is_multiple_of(IDS_PER_PORT)
        .then_some((timer.0 / IDS_PER_PORT) as usize)
}

/// Deadlines of the switch itself, behind those of its ports.
const OF_SWITCH: usize = 3;

/// The earliest deadline that is out per timer. A deadline cannot be taken back: one that has been overtaken by
/// events fires, finds nothing due and asks again.
#[derive(Debug)]
pub(crate) struct Timers {
    /// Those of the ports, then the one about neighbours, the watchdog's, and that of link quality messages.
    out_at: Vec<Picos>,
}

impl Timers {
    pub(crate) fn new(ports: usize) -> Timers {
        Timers {
            out_at: vec![Picos::NEVER; ports * IDS_PER_PORT as usize + OF_SWITCH],
        }
    }

    /// Asks for a call at `at`, unless one at or before `at` is already out.
    #[inline(always)]
    pub(crate) fn arm(&mut self, port: PortId, kind: TimerKind, at: Picos, outputs: &mut Outputs) {
        self.arm_id(u32::from(port.0) * IDS_PER_PORT + kind as u32, at, outputs);
    }

    /// As [`Timers::arm`], for the deadline about neighbours.
    pub(crate) fn arm_neighbours(&mut self, at: Picos, outputs: &mut Outputs) {
        self.arm_id(self.neighbours(), at, outputs);
    }

    /// As [`Timers::arm`], for the watchdog's next poll.
    pub(crate) fn arm_watchdog(&mut self, at: Picos, outputs: &mut Outputs) {
        self.arm_id(self.neighbours() + 1, at, outputs);
    }

    /// As [`Timers::arm`], for link quality messages.
    pub(crate) fn arm_link_quality(&mut self, at: Picos, outputs: &mut Outputs) {
        self.arm_id(self.neighbours() + 2, at, outputs);
    }

    fn neighbours(&self) -> u32 {
        (self.out_at.len() - OF_SWITCH) as u32
    }

    #[inline(always)]
    fn arm_id(&mut self, id: u32, at: Picos, outputs: &mut Outputs) {
        let out_at = &mut self.out_at[id as usize];
        if at < *out_at {
            *out_at = at;
            outputs.deadlines.push(Deadline {
                at,
                timer: TimerId(id),
            });
        }
    }

    /// A deadline has come back: whose it is; `None` if it was overtaken.
    pub(crate) fn fire(&mut self, now: Picos, timer: TimerId) -> Option<Owner> {
        let out_at = self.out_at.get_mut(timer.0 as usize)?;
        if *out_at > now {
            return None;
        }
        *out_at = Picos::NEVER;
        Some(self.owner(timer))
    }

    fn owner(&self, timer: TimerId) -> Owner {
        match timer.0.checked_sub(self.neighbours()) {
            None => {}
            Some(0) => return Owner::Neighbours,
            Some(1) => return Owner::Watchdog,
            Some(_) => return Owner::LinkQuality,
        }
        let kind = match timer.0 % IDS_PER_PORT {
            1 => TimerKind::PauseExpiry,
            _ => TimerKind::PauseRefresh,
        };
        Owner::Port(PortId((timer.0 / IDS_PER_PORT) as u16), kind)
    }
}
