//! Fetches the state of a port before it is used.

use xoff_units::prefetch;

use super::Mmu;
use crate::ids::{PgId, PortId, QueueId, ROCE_CLASS};

impl Mmu {
    /// Fetches the state of a priority group of a port, without waiting for it.
    #[inline]
    pub(crate) fn prefetch_group(&self, port: PortId) {
        if let Some(group) = self.groups.get(PgId::new(port, ROCE_CLASS as u8).index()) {
            prefetch(group);
        }
    }

    /// Fetches the state of an egress queue of a port, without waiting for it.
    #[inline]
    pub(crate) fn prefetch_queue(&self, port: PortId) {
        if let Some(queue) = self.queues.get(QueueId::new(port, ROCE_CLASS as u8).index()) {
            prefetch(queue);
        }
    }
}
