//! The taint ledger of a run. A taint is a fact outside the model that can have changed the result of the
//! run, such as frames that the kernel lost.

use std::sync::{Arc, Mutex, PoisonError};

use xoff_telemetry::Taint;

/// Largest number of taints that a ledger keeps.
const TAINTS_MAX: usize = 64;

/// The taints of a run. All threads of the run share the ledger: clones have the same content. A run is clean
/// if its ledger is empty.
#[derive(Clone, Debug, Default)]
pub struct TaintLog {
    taints: Arc<Mutex<Vec<Taint>>>,
}

impl TaintLog {
    /// Creates an empty ledger.
    pub fn new() -> TaintLog {
        TaintLog::default()
    }

    /// Adds a taint with the model time `since_ns` in nanoseconds. The text `cause` may have details in
    /// parentheses, which are ignored in comparisons. If the ledger already has the same cause, it keeps the
    /// first entry. After 64 taints, the call does nothing.
    pub fn add_taint(&self, since_ns: u64, cause: String) {
        let mut taints = self.lock();
        let kind = |text: &str| text.split('(').next().unwrap_or_default().to_owned();
        if taints.len() < TAINTS_MAX && !taints.iter().any(|t| kind(&t.cause) == kind(&cause)) {
            taints.push(Taint { since_ns, cause });
        }
    }

    /// Returns the taints in the order in which they were added.
    pub fn taints(&self) -> Vec<Taint> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Taint>> {
        // A push is the only change, so the list is valid even if a thread died while it held the lock.
        self.taints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_causes_are_kept_once_with_the_first_time() {
        let ledger = TaintLog::new();
        ledger.add_taint(5, "stall (21 ms)".into());
        ledger.add_taint(9, "stall (35 ms)".into());
        ledger.add_taint(9, "frames lost (3)".into());
        let taints = ledger.taints();
        assert_eq!(taints.len(), 2);
        assert_eq!(
            (taints[0].since_ns, taints[0].cause.as_str()),
            (5, "stall (21 ms)")
        );
    }
}
