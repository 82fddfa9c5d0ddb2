//! The buffer rules of the HPCC simulator (alibaba-edu/High-Precision-Congestion-Control, `switch-mmu` of its ns-3 tree), for
//! runs that are held against it.
//!
//! They differ from a chip's where a chip divides frames and looks at others:
//!
//! - A frame goes whole to headroom or whole to reserve and shared; headroom and reserve of each *port* are taken off
//!   the buffer beforehand, as if one group of it were in use.
//! - It is refused only if neither headroom nor the limit has room for it. That test adds the whole frame to the shared use,
//!   the one that chooses the region only what exceeds the reserve.
//! - XOFF: headroom is in use, or shared use has reached the limit, whatever the reserve holds.
//! - XON: looked for only when a frame of the group itself leaves; headroom is empty, and shared use is zero or at least the
//!   resume offset below the limit. What others release resumes nobody.
//!
//! All of it is in unsigned numbers of 32 bits, as there: with a buffer smaller than what is set aside, or lower than what
//! is in use, the limit wraps around, becomes huge, and no group ever pauses. That is reproduced, since it is what such a
//! run of the simulator does.

use super::plan::{IngressPlan, Limit, Refusal};
use super::resolve::CellSize;
use super::user::Group;
use crate::config::{SwitchConfig, Threshold};

/// The limit of a group's shared use while `free` cells of the buffer are neither set aside nor in shared use.
#[inline]
pub(super) fn limit(free: i64, shift: u8) -> u32 {
    // Modulo 2^32: the simulator subtracts without looking.
    (free as u32) >> shift
}

/// Where a frame would be charged.
pub(super) fn plan(group: &Group, free: i64, shift: u8, cells: u32) -> Result<IngressPlan, Refusal> {
    let limit = limit(free, shift);
    let reserve = group.limits.reserved;
    let fits_headroom = group.headroom.saturating_add(cells) <= group.limits.headroom;
    if !fits_headroom && group.shared.saturating_add(cells) > limit {
        return Err(Refusal {
            limit: Limit::Headroom,
            limit_cells: group.limits.headroom,
            used_cells: group.headroom,
            wanted_cells: cells,
        });
    }
    let beside_headroom = group.reserved + group.shared + cells;
    let beyond_reserve = beside_headroom.saturating_sub(reserve);
    if beyond_reserve > limit {
        return Ok(IngressPlan {
            reserved: 0,
            shared: 0,
            headroom: cells,
        });
    }
    let shared = beyond_reserve.min(cells);
    Ok(IngressPlan {
        reserved: cells - shared,
        shared,
        headroom: 0,
    })
}

/// Whether a group in XOFF resumes, asked when a frame of its own has left.
pub(super) fn may_resume(group: &Group, free: i64, shift: u8) -> bool {
    let below = u64::from(group.shared) + u64::from(group.limits.xon_offset) <= u64::from(limit(free, shift));
    group.headroom == 0 && (group.shared == 0 || below)
}

/// Cells of a pool that are headroom and reserve of its ports: those of one group of each port that follows these rules.
pub(super) fn set_aside(config: &SwitchConfig, pool: usize, cell: CellSize) -> i64 {
    let of_port = |pgs: &[u16]| {
        let mut profiles = pgs
            .iter()
            .filter_map(|&index| config.profiles.get(usize::from(index)));
        profiles
            .find(|profile| {
                usize::from(profile.pool) == pool && matches!(profile.threshold, Threshold::Hpcc { .. })
            })
            .map_or(0, |profile| {
                i64::from(cell.whole(profile.size_bytes)) + i64::from(cell.whole(profile.xoff_bytes))
            })
    };
    config.ports.iter().map(|port| of_port(&port.pgs)).sum()
}
