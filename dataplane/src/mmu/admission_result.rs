//! Results of admission: the buffer regions (reserved, shared, headroom) that take the cells of a frame, or
//! the limit that refused the frame.

use std::fmt;

use super::limits::ProfileLimits;
use super::pool::BufferPool;
use super::port::PortLimit;

/// The number of cells of an arriving frame in each buffer region. Returned by
/// [`Mmu::plan_ingress`](super::Mmu::plan_ingress).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "planned cells are charged by commit_ingress"]
pub struct IngressPlan {
    /// Cells charged to the reserved space of the priority group.
    pub reserved: u32,
    /// Cells charged to the shared space of the pool.
    pub shared: u32,
    /// Cells charged to the headroom of the priority group.
    pub headroom: u32,
}

/// The number of cells of a queued frame in each buffer region. Returned by
/// [`Mmu::plan_egress`](super::Mmu::plan_egress).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "planned cells are charged by commit_egress"]
pub struct EgressPlan {
    /// Cells charged to the reserved space of the queue.
    pub reserved: u32,
    /// Cells charged to the shared space of the pool.
    pub shared: u32,
}

/// A buffer limit that can refuse a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferLimit {
    /// The shared limit of one priority group or one queue, from its buffer profile.
    Shared,
    /// The limit of the whole port for its shared cells in the pool
    /// (`BUFFER_PORT_INGRESS_PROFILE_LIST`, `BUFFER_PORT_EGRESS_PROFILE_LIST`).
    Port,
    /// The size of the shared space of the pool.
    Pool,
    /// The headroom of the priority group (`xoff`).
    Headroom,
    /// The size of the shared headroom pool (the `xoff` of the pool).
    HeadroomPool,
}

impl BufferLimit {
    /// Returns the name of the limit in reports, such as `pool size`.
    pub const fn name(self) -> &'static str {
        match self {
            BufferLimit::Shared => "shared threshold",
            BufferLimit::Port => "threshold of the port",
            BufferLimit::Pool => "pool size",
            BufferLimit::Headroom => "headroom of the priority group",
            BufferLimit::HeadroomPool => "shared headroom pool",
        }
    }
}

/// The limit that refused a frame, with its use. Always `used_cells + wanted_cells > limit_cells`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferRefusal {
    /// The limit that refused the frame.
    pub limit: BufferLimit,
    /// Size of the limit in cells. A dynamic limit falls with each cell that is added. The value is the limit
    /// at the moment when the last cell of the frame would be added.
    pub limit_cells: u32,
    /// Cells in use under the limit before the frame arrived.
    pub used_cells: u32,
    /// Number of cells of the frame that would count under this limit, but did not fit together. Cells that
    /// would go to a different buffer region are not included.
    pub wanted_cells: u32,
}

impl fmt::Display for BufferRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BufferRefusal {
            limit,
            limit_cells,
            used_cells,
            wanted_cells,
        } = self;
        write!(
            f,
            "{}: cells in use: {used_cells} of {limit_cells}, {wanted_cells} wanted",
            limit.name()
        )
    }
}

/// Returns the reason for which `wanted` shared cells did not fit: the pool, the port limit, or the limit of
/// the group or queue.
#[cold]
pub(super) fn describe_refusal(
    limits: &ProfileLimits,
    used: u32,
    pool: &BufferPool,
    port_limit: Option<PortLimit>,
    wanted: u32,
) -> BufferRefusal {
    let cells = |n: i64| n.clamp(0, i64::from(u32::MAX)) as u32;
    if i64::from(wanted) > pool.free {
        return BufferRefusal {
            limit: BufferLimit::Pool,
            limit_cells: cells(pool.limits.size),
            used_cells: cells(pool.shared()),
            wanted_cells: wanted,
        };
    }
    let before = i64::from(wanted) - 1;
    if let Some((port_limit, limit)) =
        port_limit.and_then(|port_limit| Some((port_limit, port_limit.limit_if_refusing(pool.free, wanted)?)))
    {
        return BufferRefusal {
            limit: BufferLimit::Port,
            limit_cells: cells(limit),
            used_cells: cells(port_limit.used),
            wanted_cells: wanted,
        };
    }
    let limit = match port_limit {
        Some(port_limit) => port_limit
            .after_charging(before)
            .profile_limit(limits.rule, pool.free - before),
        None => limits.rule.limit(pool.free - before),
    };
    BufferRefusal {
        limit: BufferLimit::Shared,
        limit_cells: limit.min(u64::from(u32::MAX)) as u32,
        used_cells: used,
        wanted_cells: wanted,
    }
}
