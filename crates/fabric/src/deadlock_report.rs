//! A PFC deadlock that was found.

use std::fmt;

use xoff_units::Picos;

/// A PFC deadlock: a cycle of ports. Each port in the cycle has frames that wait for the next port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The ports of the cycle as `switch:port`. Each port is paused by its peer, and the peer waits for the
    /// next port in the list. The peer of the last port waits for the first port.
    pub ports: Vec<String>,
    /// Blocked queue of the first port.
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

/// A deadlock that lasted at least 10 ms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastingDeadlock {
    /// Time of the first check that found the deadlock.
    pub since: Picos,
    /// Time of the first check that did not find the deadlock again. The value is `None` if the last check
    /// still found the deadlock.
    pub until: Option<Picos>,
    /// Ports and priorities of the deadlock.
    pub deadlock: Deadlock,
}
