//! What a configuration says the thresholds are: the rules of the field, cell by cell, with nothing else in the switch.
//!
//! This does not use the memory management unit that it is held against. Cells of a frame go one after the other to the
//! reserve, to the shared pool while use is under the limit of that moment, to headroom; a frame one of whose cells finds no
//! place is dropped. XOFF is declared once the reserve is full and shared use has reached its limit, or headroom is in use.

use xoff_dataplane::config::{BufferThreshold, PortProfile, SwitchConfig};

use super::measure::Measured;

/// Thresholds in frames, as [`Measured`], and the cells of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// As [`Measured::xoff`].
    pub xoff: Option<u32>,
    /// As [`Measured::xon`].
    pub xon: Option<u32>,
    /// As [`Measured::drop`].
    pub drop: Option<u32>,
}

/// A user of a pool that has the pool to itself.
#[derive(Clone, Copy, Debug)]
struct User {
    pool: i64,
    threshold: Limit,
    /// Of the port as a whole, which holds nothing else.
    port: Option<Limit>,
    reserved_max: i64,
    headroom_max: i64,
    reserved: i64,
    shared: i64,
    headroom: i64,
    xoff: bool,
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    /// 2^n times what is free.
    Alpha(i8),
    Cells(i64),
}

impl Limit {
    fn of(threshold: BufferThreshold, cell_bytes: u32) -> Option<Limit> {
        Some(match threshold {
            BufferThreshold::Dynamic(n) => Limit::Alpha(n),
            BufferThreshold::Static(0) => Limit::Cells(i64::MAX),
            BufferThreshold::Static(bytes) => Limit::Cells((bytes / u64::from(cell_bytes)) as i64),
            BufferThreshold::Hpcc { .. } => return None,
        })
    }

    /// While so many cells are free.
    fn at(self, free: i64) -> i64 {
        match self {
            Limit::Alpha(n) if n >= 0 => free.max(0) << n,
            Limit::Alpha(n) => free.max(0) >> -n,
            Limit::Cells(cells) => cells,
        }
    }
}

impl User {
    /// A group or queue of this profile on a port, which may have a limit of its own for the profile's pool.
    fn new(config: &SwitchConfig, port: usize, profile: u16) -> Option<User> {
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
        Some(User {
            pool: cells(pool.size_bytes),
            threshold: Limit::of(profile.threshold, config.cell_bytes)?,
            // The largest factors stand for no limit at this level.
            port: listed
                .filter(|listed| !matches!(listed.threshold, BufferThreshold::Dynamic(6..)))
                .and_then(|listed| Limit::of(listed.threshold, config.cell_bytes)),
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

    fn limit(&self, shared: i64) -> i64 {
        let free = self.pool - shared;
        let Some(port) = self.port else {
            return self.threshold.at(free);
        };
        let of_port = port.at(free);
        match (self.threshold, port) {
            // A part of what the port still has.
            (Limit::Alpha(_), Limit::Alpha(_)) => of_port.min(self.threshold.at(of_port - shared)),
            _ => of_port.min(self.threshold.at(free)),
        }
    }

    /// Charges a frame; false, and nothing is charged, if a cell finds no place.
    fn charge(&mut self, cells: i64, without_limit: bool) -> bool {
        let mut next = *self;
        for cell in 0..cells {
            let free = next.shared < next.pool;
            // XOFF is declared by a cell of the pool, the first of its frame if the limit allows none.
            let declares = cell == 0 && next.headroom_max > 0 && !next.xoff;
            if next.reserved < next.reserved_max {
                next.reserved += 1;
            } else if without_limit || (free && (next.shared < next.limit(next.shared) || declares)) {
                next.shared += 1;
            } else if next.headroom < next.headroom_max {
                next.headroom += 1;
            } else {
                return false;
            }
        }
        *self = next;
        let full = self.reserved == self.reserved_max && self.shared >= self.limit(self.shared);
        self.xoff |= full || self.headroom > 0;
        true
    }

    /// Cells in use at or under which it resumes, with `xon` and `xon_offset` of its profile in cells.
    fn resume_level(&self, xon: i64, offset: i64) -> i64 {
        if offset == 0 {
            return xon;
        }
        let point = match (self.threshold, self.port) {
            (Limit::Cells(cells), None) => cells,
            (Limit::Cells(cells), Some(Limit::Cells(of_port))) => cells.min(of_port),
            // It falls to nothing as the pool fills.
            _ => (0..=self.pool)
                .find(|shared| *shared >= self.limit(*shared))
                .unwrap_or(self.pool),
        };
        xon.max(point.saturating_add(self.reserved_max - offset))
    }
}

/// The thresholds of frames of `frame_bytes` (FCS included) and traffic class `tc` that come in on one port and leave by
/// another (their indices), at most `frames_max` of them; `None` for rules of simulators.
pub fn expected(
    config: &SwitchConfig,
    ingress: usize,
    egress: usize,
    tc: u8,
    frame_bytes: u32,
    frames_max: u32,
) -> Option<Expected> {
    let (from, to) = (config.ports.get(ingress)?, config.ports.get(egress)?);
    let pg = from.classify.tc_to_pg[usize::from(tc)];
    let profile = from.pgs[usize::from(pg)];
    let mut group = User::new(config, ingress, profile)?;
    let queue = to.classify.tc_to_queue[usize::from(tc)];
    let mut queue = User::new(config, egress, to.queues[usize::from(queue)].profile)?;
    // A lossless frame is never refused by a queue.
    let lossless = group.headroom_max > 0;
    let signals = from.pfc.signals_priority_group(pg);
    let cells = i64::from(frame_bytes.div_ceil(config.cell_bytes));
    let mut found = Expected::default();
    for frame in 1..=frames_max {
        if !(group.charge(cells, false) && queue.charge(cells, lossless)) {
            found.drop = Some(frame);
            break;
        }
        if signals && group.xoff && found.xoff.is_none() {
            found.xoff = Some(frame);
            found.xon = resumes_after(config, profile, &group, frame, cells);
        }
    }
    Some(found)
}

/// How many of `frames` must leave before the group resumes.
fn resumes_after(config: &SwitchConfig, profile: u16, group: &User, frames: u32, cells: i64) -> Option<u32> {
    let profile = config.profiles.get(usize::from(profile))?;
    let whole = |bytes: u64| (bytes / u64::from(config.cell_bytes)) as i64;
    let level = group.resume_level(whole(profile.xon_bytes), whole(profile.xon_offset_bytes));
    let total = i64::from(frames) * cells;
    (1..=frames).find(|left| {
        let gone = i64::from(*left) * cells;
        gone >= group.headroom && total - gone <= level
    })
}

impl Expected {
    /// As [`Measured::headroom`].
    pub fn headroom(&self) -> Option<u32> {
        Some(self.drop? - self.xoff? - 1)
    }
}

impl From<Measured> for Expected {
    fn from(measured: Measured) -> Expected {
        Expected {
            xoff: measured.xoff,
            xon: measured.xon,
            drop: measured.drop,
        }
    }
}
