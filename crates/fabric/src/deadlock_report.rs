//! A PFC deadlock that was found.

use std::fmt;

use xoff_units::Picos;

/// A PFC deadlock: a cycle of ports, each of which has frames that wait for the next port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// Ports as `switch:port`. The peer of each port pauses it and waits for the next port in the list. The
    /// last port waits for the first one.
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
    /// Time of the first check that no longer found the deadlock. `None` if the last check still found it.
    pub until: Option<Picos>,
    /// Ports and priorities of the deadlock.
    pub deadlock: Deadlock,
}
