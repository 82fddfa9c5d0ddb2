//! PFC deadlocks that a check has found.

use std::fmt;

use xoff_units::Picos;

/// A PFC deadlock: a cycle of paused ports. Each port has frames that cannot leave before the frames at the
/// next port leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The ports of the cycle as `SWITCH:PORT`. Each port is paused by its peer, and the peer waits for the
    /// next port in the list. The peer of the last port waits for the first port.
    pub ports: Vec<String>,
    /// Number of the blocked egress queue at the first port, 0 to 7.
    pub queue: u8,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.ports.len();
        write!(
            f,
            "deadlock: these {count} ports pause each other in a cycle: {}",
            self.ports.join(", ")
        )
    }
}

/// A deadlock that lasted for at least 10 ms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastingDeadlock {
    /// Model time of the first check that found the deadlock. Checks run every millisecond.
    pub since: Picos,
    /// Model time of the first check that did not find the deadlock again. `None` if the last check still
    /// found it.
    pub until: Option<Picos>,
    /// The ports and the queue of the deadlock.
    pub deadlock: Deadlock,
}
