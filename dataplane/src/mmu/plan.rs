//! What admission answers: where cells go, or which limit refused them.

use std::fmt;

/// Where an arriving frame's cells are charged: the answer of [`Mmu::plan_ingress`](super::Mmu::plan_ingress).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "planned cells are charged by commit_ingress"]
pub struct IngressPlan {
    /// Cells of the group's reserve.
    pub reserved: u32,
    /// Shared cells of the pool.
    pub shared: u32,
    /// Cells of headroom.
    pub headroom: u32,
}

/// Where a queued frame's cells are charged: the answer of [`Mmu::plan_egress`](super::Mmu::plan_egress).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "planned cells are charged by commit_egress"]
pub struct EgressPlan {
    /// Cells of the queue's reserve.
    pub reserved: u32,
    /// Shared cells of the pool.
    pub shared: u32,
}

/// A limit that a frame did not fit under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Shared cells of one priority group or queue: its threshold.
    Shared,
    /// Shared cells of the port in the pool: the port's own threshold.
    Port,
    /// Shared cells of the pool: its size.
    Pool,
    /// Headroom of the priority group.
    Headroom,
    /// The shared headroom pool.
    HeadroomPool,
}

impl Limit {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Limit::Shared => "shared threshold",
            Limit::Port => "threshold of the port",
            Limit::Pool => "pool size",
            Limit::Headroom => "headroom of the priority group",
            Limit::HeadroomPool => "shared headroom pool",
        }
    }
}

/// Why a frame was refused: the limit that decided. `used_cells + wanted_cells > limit_cells` always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which limit.
    pub limit: Limit,
    /// Its value as the frame's last cell met it (a dynamic threshold falls with each cell).
    pub limit_cells: u32,
    /// What was in use under it before the frame.
    pub used_cells: u32,
    /// Cells of the frame that had no other place than under it.
    pub wanted_cells: u32,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refusal {
            limit,
            limit_cells,
            used_cells,
            wanted_cells,
        } = self;
        write!(
            f,
            "{}: {used_cells} of {limit_cells} cells in use, {wanted_cells} wanted",
            limit.name()
        )
    }
}
