//! The rules of a port that are the same for all frames. Most ports of a switch have equal rules and share
//! them, so that the caches hold one copy instead of one copy for each port.

use std::sync::Arc;

use crate::config::{ClassMaps, PortConfig, WredProfile};
use crate::ids::PRIORITIES;

/// Maps and WRED profiles of a port.
#[derive(Debug, PartialEq)]
pub(crate) struct PortRules {
    pub(crate) classify: ClassMaps,
    /// WRED profile of each queue.
    pub(crate) wred: [Option<WredProfile>; PRIORITIES],
}

/// The distinct rules of the ports of a switch.
#[derive(Debug, Default)]
pub(crate) struct DistinctPortRules(Vec<Arc<PortRules>>);

impl DistinctPortRules {
    /// Returns the rules of a port. Ports with equal rules receive the same object.
    pub(crate) fn rules_of(&mut self, port: &PortConfig) -> Arc<PortRules> {
        let rules = PortRules {
            classify: port.classify,
            wred: core::array::from_fn(|n| port.queues[n].wred),
        };
        if let Some(known) = self.0.iter().find(|known| ***known == rules) {
            return Arc::clone(known);
        }
        let rules = Arc::new(rules);
        self.0.push(Arc::clone(&rules));
        rules
    }
}
