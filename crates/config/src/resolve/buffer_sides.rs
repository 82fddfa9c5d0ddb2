//! The ingress side and the egress side of buffers, and the largest number of entries in buffer tables.

use xoff_dataplane::config::PoolSide;

use super::context::ResolveContext;
use crate::problem::Problem;

/// Largest number of entries in a buffer table. Indices have 16 bits, and a pool of type `both` needs
/// two indices.
const TABLE_ENTRIES_MAX: usize = 4_096;

/// The indices of a pool or profile on the ingress side and on the egress side. An index is `None` if the
/// object does not exist on this side.
///
/// A pool of type `both` (`SAI_BUFFER_POOL_TYPE_BOTH`) is an ingress pool and an egress pool. It has an index
/// in each of the two lists. A frame occupies the memory of the pool only once. However, the frame counts for
/// a priority group at ingress and for a queue at egress. The ingress pool and the egress pool therefore both
/// count all frames.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BufferSideIndices {
    pub(super) ingress: Option<u16>,
    pub(super) egress: Option<u16>,
}

impl BufferSideIndices {
    /// Returns the index on one side. Returns `None` if the object does not exist on this side.
    pub(super) fn get(self, side: PoolSide) -> Option<u16> {
        match side {
            PoolSide::Ingress => self.ingress,
            PoolSide::Egress => self.egress,
        }
    }

    /// Sets the index on one side.
    pub(super) fn set(&mut self, side: PoolSide, index: u16) {
        match side {
            PoolSide::Ingress => self.ingress = Some(index),
            PoolSide::Egress => self.egress = Some(index),
        }
    }
}

pub(super) const SIDES: [PoolSide; 2] = [PoolSide::Ingress, PoolSide::Egress];

/// Reports an error if a table has more than [`TABLE_ENTRIES_MAX`] entries.
pub(super) fn check_entry_count(context: &mut ResolveContext<'_>, table: &str, entries: usize) {
    if entries > TABLE_ENTRIES_MAX {
        let why = format!("{entries} entries, at most {TABLE_ENTRIES_MAX} are possible");
        context.report_entry_contradiction(Problem::at_field(table, "", "", why));
    }
}
