//! Computes the buffer thresholds that a configuration should give. The calculation assumes that only frames
//! of one traffic class pass the switch.
//!
//! `xoff bench probe` compares these thresholds with measured thresholds, to check the memory management unit
//! (MMU) of the switch. An independent check must not share code with the MMU, so this module computes the
//! thresholds on its own. The cells of a frame are assigned one by one. A cell uses reserved space first,
//! then shared space up to the shared limit, then headroom. If one cell does not fit, the frame is dropped. A
//! priority group pauses its peer (XOFF) in two cases: it uses headroom, or its reserved space is full and
//! its shared cells have reached the limit.

use xoff_dataplane::config::{BufferThreshold, PortProfile, SwitchConfig};

use super::measured_thresholds::MeasuredThresholds;

/// The expected thresholds in frames, with the definitions of [`MeasuredThresholds`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpectedThresholds {
    /// Number of the frame that causes XOFF ([`MeasuredThresholds::xoff`]).
    pub xoff: Option<u32>,
    /// Number of frames that must leave before XON ([`MeasuredThresholds::xon`]).
    pub xon: Option<u32>,
    /// Number of the first dropped frame ([`MeasuredThresholds::drop`]).
    pub drop: Option<u32>,
}

/// A priority group or queue that is the only user of its pool. All sizes are in cells.
#[derive(Clone, Copy, Debug)]
struct PoolOccupancyModel {
    pool: i64,
    threshold: SharedLimit,
    /// The shared limit of the port, if the port has one. The tested priority group or queue is the only user
    /// of the pool at this port.
    port: Option<SharedLimit>,
    reserved_max: i64,
    headroom_max: i64,
    reserved: i64,
    shared: i64,
    headroom: i64,
    xoff: bool,
}

#[derive(Clone, Copy, Debug)]
enum SharedLimit {
    /// 2^n times the number of free cells in the pool.
    Alpha(i8),
    Cells(i64),
}

impl SharedLimit {
    fn of(threshold: BufferThreshold, cell_bytes: u32) -> Option<SharedLimit> {
        Some(match threshold {
            BufferThreshold::Dynamic(n) => SharedLimit::Alpha(n),
            BufferThreshold::Static(0) => SharedLimit::Cells(i64::MAX),
            BufferThreshold::Static(bytes) => SharedLimit::Cells((bytes / u64::from(cell_bytes)) as i64),
            BufferThreshold::Hpcc { .. } => return None,
        })
    }

    /// Returns the limit in cells while `free_cells` cells of the pool are free.
    fn cells(self, free_cells: i64) -> i64 {
        match self {
            SharedLimit::Alpha(n) if n >= 0 => free_cells.max(0) << n,
            SharedLimit::Alpha(n) => free_cells.max(0) >> -n,
            SharedLimit::Cells(cells) => cells,
        }
    }
}

impl PoolOccupancyModel {
    /// Creates a priority group or queue with the buffer profile at the index `profile`. `port` is the index
    /// of the port of the group or queue. The port may have a limit for the pool of the profile. Returns
    /// `None` if the profile or the pool does not exist, or if the profile has a limit rule that exists only
    /// in simulators.
    fn new(config: &SwitchConfig, port: usize, profile: u16) -> Option<PoolOccupancyModel> {
        let profile = config.profiles.get(usize::from(profile))?;
        let of_pool = |listed: &&PortProfile| {
            let same_pool = config.profiles.get(usize::from(listed.profile)).map(|p| p.pool);
            usize::from(listed.port) == port && same_pool == Some(profile.pool)
        };
        let listed = config.port_profiles.iter().find(of_pool);
        let listed = listed.and_then(|listed| config.profiles.get(usize::from(listed.profile)));
        let pool = config.pools.get(usize::from(profile.pool))?;
        let cells = |bytes: u64| (bytes / u64::from(config.cell_bytes)) as i64;
        let private = pool.xoff_bytes == 0;
        let reserved = match private && profile.size_bytes >= profile.xoff_bytes {
            true => profile.size_bytes - profile.xoff_bytes,
            false => profile.size_bytes,
        };
        let headroom = cells(profile.xoff_bytes);
        Some(PoolOccupancyModel {
            pool: cells(pool.size_bytes),
            threshold: SharedLimit::of(profile.threshold, config.cell_bytes)?,
            // A port profile with a factor of 2^6 or more sets no limit.
            port: listed
                .filter(|listed| !matches!(listed.threshold, BufferThreshold::Dynamic(6..)))
                .and_then(|listed| SharedLimit::of(listed.threshold, config.cell_bytes)),
            reserved_max: cells(reserved),
            headroom_max: match private {
                true => headroom,
                false => headroom.min(cells(pool.xoff_bytes)),
            },
            reserved: 0,
            shared: 0,
            headroom: 0,
            xoff: false,
        })
    }

    fn shared_limit_cells(&self, shared_cells: i64) -> i64 {
        let free = self.pool - shared_cells;
        let Some(port) = self.port else {
            return self.threshold.cells(free);
        };
        let of_port = port.cells(free);
        match (self.threshold, port) {
            // The limit of the group or queue is a fraction of the space that the port has left.
            (SharedLimit::Alpha(_), SharedLimit::Alpha(_)) => {
                of_port.min(self.threshold.cells(of_port - shared_cells))
            }
            _ => of_port.min(self.threshold.cells(free)),
        }
    }

    /// Charges a frame. Returns false and charges nothing if a cell does not fit.
    fn charge_frame(&mut self, cells: i64, is_unlimited: bool) -> bool {
        let mut next = *self;
        for cell in 0..cells {
            let free = next.shared < next.pool;
            // A cell of the shared pool causes XOFF. If the shared limit is 0, the first cell of the frame
            // does this.
            let declares = cell == 0 && next.headroom_max > 0 && !next.xoff;
            if next.reserved < next.reserved_max {
                next.reserved += 1;
            } else if is_unlimited
                || (free && (next.shared < next.shared_limit_cells(next.shared) || declares))
            {
                next.shared += 1;
            } else if next.headroom < next.headroom_max {
                next.headroom += 1;
            } else {
                return false;
            }
        }
        *self = next;
        let full = self.reserved == self.reserved_max && self.shared >= self.shared_limit_cells(self.shared);
        self.xoff |= full || self.headroom > 0;
        true
    }

    /// Returns the XON level in cells. A paused priority group resumes its peer when its use is at or below
    /// this level. `xon` and `offset` are in cells.
    fn xon_level_cells(&self, xon: i64, offset: i64) -> i64 {
        if offset == 0 {
            return xon;
        }
        let point = match (self.threshold, self.port) {
            (SharedLimit::Cells(cells), None) => cells,
            (SharedLimit::Cells(cells), Some(SharedLimit::Cells(of_port))) => cells.min(of_port),
            // The dynamic limit falls as the pool fills.
            _ => (0..=self.pool)
                .find(|shared| *shared >= self.shared_limit_cells(*shared))
                .unwrap_or(self.pool),
        };
        xon.max(point.saturating_add(self.reserved_max - offset))
    }
}

/// Computes the thresholds for frames of the traffic class `tc` from port `ingress` to port `egress`,
/// which are indices in [`SwitchConfig::ports`]. `frame_bytes` is the frame length with FCS. `frames_max`
/// is the largest number of frames. Returns `None` if a port does not exist, or if a threshold rule exists
/// only in simulators.
pub fn expected_thresholds(
    config: &SwitchConfig,
    ingress: usize,
    egress: usize,
    tc: u8,
    frame_bytes: u32,
    frames_max: u32,
) -> Option<ExpectedThresholds> {
    let (from, to) = (config.ports.get(ingress)?, config.ports.get(egress)?);
    let pg = from.classify.tc_to_pg[usize::from(tc)];
    let profile = from.pgs[usize::from(pg)];
    let mut group = PoolOccupancyModel::new(config, ingress, profile)?;
    let queue = to.classify.tc_to_queue[usize::from(tc)];
    let mut queue = PoolOccupancyModel::new(config, egress, to.queues[usize::from(queue)].profile)?;
    // A queue never refuses a lossless frame.
    let lossless = group.headroom_max > 0;
    let signals = from.pfc.signals_priority_group(pg);
    let cells = i64::from(frame_bytes.div_ceil(config.cell_bytes));
    let mut found = ExpectedThresholds::default();
    for frame in 1..=frames_max {
        if !(group.charge_frame(cells, false) && queue.charge_frame(cells, lossless)) {
            found.drop = Some(frame);
            break;
        }
        if signals && group.xoff && found.xoff.is_none() {
            found.xoff = Some(frame);
            found.xon = frames_until_xon(config, profile, &group, frame, cells);
        }
    }
    Some(found)
}

/// Returns how many of `frames` frames must leave before the group sends XON. Returns `None` if the group
/// does not send XON.
fn frames_until_xon(
    config: &SwitchConfig,
    profile: u16,
    group: &PoolOccupancyModel,
    frames: u32,
    cells: i64,
) -> Option<u32> {
    let profile = config.profiles.get(usize::from(profile))?;
    let whole = |bytes: u64| (bytes / u64::from(config.cell_bytes)) as i64;
    let level = group.xon_level_cells(whole(profile.xon_bytes), whole(profile.xon_offset_bytes));
    let total = i64::from(frames) * cells;
    (1..=frames).find(|left| {
        let gone = i64::from(*left) * cells;
        gone >= group.headroom && total - gone <= level
    })
}

impl ExpectedThresholds {
    /// Returns the headroom in frames: the number of frames between XOFF and the first drop. Returns `None`
    /// if one of these events does not occur.
    pub fn headroom(&self) -> Option<u32> {
        Some(self.drop? - self.xoff? - 1)
    }
}

impl From<MeasuredThresholds> for ExpectedThresholds {
    fn from(measured: MeasuredThresholds) -> ExpectedThresholds {
        ExpectedThresholds {
            xoff: measured.xoff,
            xon: measured.xon,
            drop: measured.drop,
        }
    }
}
