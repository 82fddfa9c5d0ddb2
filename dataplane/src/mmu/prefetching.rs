//! Fetches the state of a port before it is used.

use xoff_units::prefetch;

use super::Mmu;
use crate::ids::{PgId, PortId};

/// The priority group and the queue of RoCE frames in most configurations.
const DEFAULT_GROUP: u8 = 3;

impl Mmu {
    /// Fetches the state of a priority group and of a queue of a port, without waiting for it.
    #[inline]
    pub(crate) fn prefetch(&self, port: PortId) {
        let index = PgId::new(port, DEFAULT_GROUP).index();
        if let (Some(group), Some(queue)) = (self.groups.get(index), self.queues.get(index)) {
            prefetch(group);
            prefetch(queue);
        }
    }
}
