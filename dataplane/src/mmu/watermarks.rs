//! Buffer use and watermarks, for reports.

use super::Mmu;
use super::pool::BufferPool;
use super::priority_group::NOT_WAITING;
use crate::counters::{BufferOccupancy, PgBuffers, PoolBuffers, QueueBuffers};
use crate::ids::{PgId, QueueId};

impl Mmu {
    /// Returns the use and the watermarks of a priority group, in cells.
    pub fn pg_buffers(&self, pg: PgId) -> PgBuffers {
        let group = &self.groups[pg.index()];
        PgBuffers {
            total: BufferOccupancy {
                current_cells: group.total(),
                peak_cells: group.total_peak,
            },
            shared: BufferOccupancy {
                current_cells: group.shared,
                peak_cells: group.shared_peak,
            },
            headroom: BufferOccupancy {
                current_cells: group.headroom,
                peak_cells: group.headroom_peak,
            },
            xoff: group.waiter_index != NOT_WAITING,
        }
    }

    /// Returns the use and the watermarks of a queue, in cells.
    pub fn queue_buffers(&self, queue: QueueId) -> QueueBuffers {
        let queue = &self.queues[queue.index()];
        QueueBuffers {
            total: BufferOccupancy {
                current_cells: queue.reserved + queue.shared,
                peak_cells: queue.total_peak,
            },
            shared: BufferOccupancy {
                current_cells: queue.shared,
                peak_cells: queue.shared_peak,
            },
        }
    }

    /// Returns the use and the watermarks of a pool, in cells. `pool` is the index
    /// in [`SwitchConfig::pools`](crate::config::SwitchConfig::pools).
    pub fn pool_buffers(&self, pool: usize) -> PoolBuffers {
        self.pools[pool].buffers()
    }

    /// Resets all watermarks to the current use.
    pub fn clear_watermarks(&mut self) {
        for group in &mut self.groups {
            (group.total_peak, group.shared_peak, group.headroom_peak) = (0, 0, 0);
            group.record_watermarks();
        }
        for queue in &mut self.queues {
            queue.total_peak = queue.reserved + queue.shared;
            queue.shared_peak = queue.shared;
        }
        self.pools.iter_mut().for_each(BufferPool::clear_watermarks);
    }
}
