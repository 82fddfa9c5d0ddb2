//! Timers of the switch. A deadline is requested only if no earlier deadline of the same timer is
//! already requested.

use crate::ids::{PortId, TimerId};
use crate::outputs::{Deadline, Outputs};
use xoff_units::Picos;

/// The timers of a port, except its transmit timer (see [`transmit_timer`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerKind {
    /// The time at which a received pause takes effect or ends.
    PauseExpiry = 1,
    /// The time at which the port repeats XOFF.
    PauseRefresh = 2,
}

/// The owner of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerOwner {
    /// A port.
    Port(PortId, TimerKind),
    /// The neighbour table.
    Neighbours,
    /// The next poll of the watchdog.
    Watchdog,
    /// The next link quality message.
    LinkQuality,
    /// The CPU behind the CPU port.
    Cpu,
}

/// Number of timer ids of each port. The number is a power of two, which avoids a division. The first id of a
/// port is its transmit timer.
const IDS_PER_PORT: u32 = 4;

/// Returns the transmit timer of a port. This timer expires when the link becomes free or when a shaper
/// permits a frame. The requested time is stored in [`Port::transmit_due`](super::port::Port::transmit_due),
/// in a cache line that every transmission reads.
#[inline(always)]
pub(crate) fn transmit_timer(port: PortId) -> TimerId {
    TimerId(u32::from(port.0) * IDS_PER_PORT)
}

/// Returns the port index if `timer` is a transmit timer, and `None` otherwise. The index can be too large
/// for this switch.
#[inline(always)]
pub(crate) fn port_of_transmit_timer(timer: TimerId) -> Option<usize> {
    timer
        .0
        .is_multiple_of(IDS_PER_PORT)
        .then_some((timer.0 / IDS_PER_PORT) as usize)
}

/// Number of timers that belong to no port. The ids of these timers follow the ids of the port timers.
const SWITCH_TIMERS: usize = 4;

/// The earliest requested deadline of each timer. A deadline cannot be cancelled. If a deadline is no longer
/// needed, its expiry does nothing or requests a later deadline.
#[derive(Debug)]
pub(crate) struct Timers {
    /// The earliest requested time of each timer, or [`Picos::NEVER`]. The timers of the ports come first,
    /// then neighbours, watchdog, link quality and CPU.
    requested_at: Vec<Picos>,
}

impl Timers {
    pub(crate) fn new(ports: usize) -> Timers {
        Timers {
            requested_at: vec![Picos::NEVER; ports * IDS_PER_PORT as usize + SWITCH_TIMERS],
        }
    }

    /// Requests a deadline at `at`, unless an earlier or equal deadline is already requested.
    #[inline(always)]
    pub(crate) fn arm(&mut self, port: PortId, kind: TimerKind, at: Picos, outputs: &mut Outputs) {
        self.request_deadline(u32::from(port.0) * IDS_PER_PORT + kind as u32, at, outputs);
    }

    /// Like [`Timers::arm`], but for the neighbour table.
    pub(crate) fn arm_neighbours(&mut self, at: Picos, outputs: &mut Outputs) {
        self.request_deadline(self.first_switch_timer(), at, outputs);
    }

    /// Like [`Timers::arm`], but for the next poll of the watchdog.
    pub(crate) fn arm_watchdog(&mut self, at: Picos, outputs: &mut Outputs) {
        self.request_deadline(self.first_switch_timer() + 1, at, outputs);
    }

    /// Like [`Timers::arm`], but for link quality messages.
    pub(crate) fn arm_link_quality(&mut self, at: Picos, outputs: &mut Outputs) {
        self.request_deadline(self.first_switch_timer() + 2, at, outputs);
    }

    /// Like [`Timers::arm`], but for the CPU.
    pub(crate) fn arm_cpu(&mut self, at: Picos, outputs: &mut Outputs) {
        self.request_deadline(self.first_switch_timer() + 3, at, outputs);
    }

    fn first_switch_timer(&self) -> u32 {
        (self.requested_at.len() - SWITCH_TIMERS) as u32
    }

    #[inline(always)]
    fn request_deadline(&mut self, id: u32, at: Picos, outputs: &mut Outputs) {
        let requested_at = &mut self.requested_at[id as usize];
        if at < *requested_at {
            *requested_at = at;
            outputs.deadlines.push(Deadline {
                at,
                timer: TimerId(id),
            });
        }
    }

    /// Handles an expired deadline and returns the owner of its timer. Returns `None` if the timer has no
    /// request that is due at `now`. For example, an earlier call may already have handled the deadline.
    pub(crate) fn take_expired(&mut self, now: Picos, timer: TimerId) -> Option<TimerOwner> {
        let requested_at = self.requested_at.get_mut(timer.0 as usize)?;
        if *requested_at > now {
            return None;
        }
        *requested_at = Picos::NEVER;
        Some(self.timer_owner(timer))
    }

    fn timer_owner(&self, timer: TimerId) -> TimerOwner {
        match timer.0.checked_sub(self.first_switch_timer()) {
            None => {}
            Some(0) => return TimerOwner::Neighbours,
            Some(1) => return TimerOwner::Watchdog,
            Some(2) => return TimerOwner::LinkQuality,
            Some(_) => return TimerOwner::Cpu,
        }
        let kind = match timer.0 % IDS_PER_PORT {
            1 => TimerKind::PauseExpiry,
            _ => TimerKind::PauseRefresh,
        };
        TimerOwner::Port(PortId((timer.0 / IDS_PER_PORT) as u16), kind)
    }
}
