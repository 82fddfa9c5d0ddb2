//! The ledger: what happened on the host that can have changed the result.

use std::sync::{Arc, Mutex, PoisonError};

use xoff_telemetry::Taint;

/// Causes kept; a run with more is no more tainted.
const TAINTS_MAX: usize = 64;

/// A run is clean until something is entered here. Shared by all threads of a run; entries are rare.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    taints: Arc<Mutex<Vec<Taint>>>,
}

impl Ledger {
    /// A clean ledger.
    pub fn new() -> Ledger {
        Ledger::default()
    }

    /// Enters a cause, at a model time. A cause that is there already (the same words before any figure in
    /// parentheses) keeps its first time.
    pub fn taint(&self, since_ns: u64, cause: String) {
        let mut taints = self.lock();
        let kind = |text: &str| text.split('(').next().unwrap_or_default().to_owned();
        if taints.len() < TAINTS_MAX && !taints.iter().any(|t| kind(&t.cause) == kind(&cause)) {
            taints.push(Taint { since_ns, cause });
        }
    }

    /// The causes so far, in the order they were entered.
    pub fn taints(&self) -> Vec<Taint> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Taint>> {
        // A thread that died while it entered a cause leaves the list whole: push is the only change.
        self.taints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_entered_once_with_its_first_time() {
        let ledger = Ledger::new();
        ledger.taint(5, "stall (21 ms)".into());
        ledger.taint(9, "stall (35 ms)".into());
        ledger.taint(9, "frames lost (3)".into());
        let taints = ledger.taints();
        assert_eq!(taints.len(), 2);
        assert_eq!(
            (taints[0].since_ns, taints[0].cause.as_str()),
            (5, "stall (21 ms)")
        );
    }
}
