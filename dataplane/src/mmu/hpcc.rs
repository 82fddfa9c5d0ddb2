//! The buffer rules of the HPCC simulator (alibaba-edu/High-Precision-Congestion-Control, `switch-mmu` of its
//! ns-3 tree). Runs that are compared with this simulator use these rules.
//!
//! The rules differ from those of chips as follows:
//!
//! - A frame uses either only headroom, or only reserved and shared space. The size of the shared space is
//!   the buffer size minus the headroom and the reserve of one group per port.
//! - A frame is refused under two conditions, which must both hold: it does not fit into the headroom, and it
//!   would exceed the limit. The test for refusal adds the whole frame to the shared use. The test that
//!   selects the region adds only the part of the frame beyond the reserve.
//! - A priority group enters the XOFF state, in which it pauses its peer, if it uses headroom or if the
//!   shared space that it uses has reached the limit. The use of its reserve has no influence.
//! - A group in the XOFF state can resume its peer only when one of its own frames leaves. Its headroom must
//!   then be empty. In addition, the group must use no shared space, or its shared use must be below the
//!   limit by at least the resume offset.
//!
//! All arithmetic uses unsigned 32-bit numbers, as in the simulator. If the buffer is smaller than the space
//! in use, the limit wraps around to a huge number, and no group pauses its peer (XOFF). This module
//! reproduces that behaviour.

use super::admission_result::{BufferLimit, BufferRefusal, IngressPlan};
use super::limits::CellSize;
use super::priority_group::PriorityGroup;
use super::threshold::shared_limit;
use crate::config::{BufferThreshold, SwitchConfig};

/// Computes which buffer regions take the `cells` cells of an arriving frame.
/// `free` is the number of free shared cells of the pool, and `shift` is the shift
/// of [`LimitRule::Hpcc`](super::threshold::LimitRule::Hpcc).
pub(super) fn plan_charge(
    group: &PriorityGroup,
    free: i64,
    shift: u8,
    cells: u32,
) -> Result<IngressPlan, BufferRefusal> {
    let limit = shared_limit(free, shift);
    let reserve = group.limits.reserved;
    let fits_headroom = group.headroom.saturating_add(cells) <= group.limits.headroom;
    if !fits_headroom && group.shared.saturating_add(cells) > limit {
        return Err(BufferRefusal {
            limit: BufferLimit::Headroom,
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

/// Returns true if a group that pauses its peer (XOFF) may let it resume after one of the group's own frames
/// has left.
pub(super) fn can_resume(group: &PriorityGroup, free: i64, shift: u8) -> bool {
    let below =
        u64::from(group.shared) + u64::from(group.limits.xon_offset) <= u64::from(shared_limit(free, shift));
    group.headroom == 0 && (group.shared == 0 || below)
}

/// Returns the number of cells of a pool that are reserved in advance. The number is a sum over all ports:
/// each port contributes the headroom and the reserve of one group with the HPCC rule.
pub(super) fn hpcc_set_aside_cell_count(config: &SwitchConfig, pool: usize, cell: CellSize) -> i64 {
    let port_cells = |pgs: &[u16]| {
        let mut profiles = pgs
            .iter()
            .filter_map(|&index| config.profiles.get(usize::from(index)));
        profiles
            .find(|profile| {
                usize::from(profile.pool) == pool && matches!(profile.threshold, BufferThreshold::Hpcc { .. })
            })
            .map_or(0, |profile| {
                i64::from(cell.bytes_to_cells(profile.size_bytes))
                    + i64::from(cell.bytes_to_cells(profile.xoff_bytes))
            })
    };
    config.ports.iter().map(|port| port_cells(&port.pgs)).sum()
}
