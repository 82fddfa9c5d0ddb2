//! The taint ledger. A taint is a fact outside the model that can have changed the result of a run, such as
//! frames that the kernel lost.

use std::sync::{Arc, Mutex, PoisonError};

use xoff_telemetry::Taint;

/// Largest number of causes that are kept.
const TAINTS_MAX: usize = 64;

/// The taints of a run, shared by all its threads. A run is clean as long as the ledger is empty.
#[derive(Clone, Debug, Default)]
pub struct TaintLedger {
    taints: Arc<Mutex<Vec<Taint>>>,
}

impl TaintLedger {
    /// Creates an empty ledger.
    pub fn new() -> TaintLedger {
        TaintLedger::default()
    }

    /// Adds a cause with its model time in nanoseconds. Two causes are equal if their texts before the first
    /// parenthesis are equal. If an equal cause exists, the ledger keeps the earlier time.
    pub fn add_taint(&self, since_ns: u64, cause: String) {
        let mut taints = self.lock();
        let kind = |text: &str| text.split('(').next().unwrap_or_default().to_owned();
        if taints.len() < TAINTS_MAX && !taints.iter().any(|t| kind(&t.cause) == kind(&cause)) {
            taints.push(Taint { since_ns, cause });
        }
    }

    /// Returns the causes in the order in which they were added.
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
        let ledger = TaintLedger::new();
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
