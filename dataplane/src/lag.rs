//! Link aggregation groups (LAG) with static members: member selection and the state of a LAG.

use crate::config::{LagConfig, SwitchConfig};
use crate::ids::{LogicalPort, PortId};
use crate::route::seeded_hash;

/// Seed that makes the LAG hash different from the hash of equal-cost routes. If both hashes were the same,
/// all flows that select one next hop would also select the same member of its LAG.
const LAG_SEED: u64 = 0x6c61_672d_6d65_6d62;

/// State of a LAG.
#[derive(Debug)]
struct LagState {
    admin_up: bool,
    min_links: usize,
    members: Vec<PortId>,
    /// Members whose link is up, sorted by port number. Empty while the LAG is down.
    active: Vec<PortId>,
}

/// All LAGs of a switch, and the logical port of every port. If a port is a member of a LAG, its logical port
/// is the LAG.
#[derive(Debug)]
pub(crate) struct LagTable {
    logical: Vec<LogicalPort>,
    lags: Vec<LagState>,
    seed: u64,
}

impl LagTable {
    /// Creates the table with all LAGs down.
    pub(crate) fn new(config: &SwitchConfig) -> LagTable {
        let ports = config.ports.len();
        let mut logical: Vec<_> = (0..ports as u16).map(LogicalPort).collect();
        for (index, lag) in config.lags.iter().enumerate() {
            for &member in &lag.members {
                logical[usize::from(member)] = LogicalPort((ports + index) as u16);
            }
        }
        let group = |lag: &LagConfig| {
            let mut members: Vec<_> = lag.members.iter().map(|&port| PortId(port)).collect();
            members.sort_unstable();
            LagState {
                admin_up: lag.admin_up,
                min_links: usize::from(lag.min_links.max(1)),
                active: Vec::with_capacity(members.len()),
                members,
            }
        };
        LagTable {
            logical,
            lags: config.lags.iter().map(group).collect(),
            seed: config.routing.hash_seed ^ LAG_SEED,
        }
    }

    /// Returns the logical port of a port: its LAG, or the port itself.
    #[inline]
    pub(crate) fn logical_port(&self, port: PortId) -> LogicalPort {
        self.logical[port.index()]
    }

    /// Returns the logical port of a LAG.
    pub(crate) fn logical_port_of_lag(&self, lag: u16) -> LogicalPort {
        LogicalPort(self.logical.len() as u16 + lag)
    }

    /// Returns the egress port of a flow that leaves through a logical port. If the logical port is a single
    /// port, the result is this port, even if it is down. Returns `None` if the LAG is down.
    #[inline]
    pub(crate) fn select_member(&self, logical: LogicalPort, flow_hash: u32) -> Option<PortId> {
        match logical.index().checked_sub(self.logical.len()) {
            None => Some(PortId(logical.0)),
            Some(lag) => {
                let active = &self.lags[lag].active;
                let choice = (u64::from(seeded_hash(flow_hash, self.seed)) * active.len() as u64) >> 32;
                active.get(choice as usize).copied()
            }
        }
    }

    /// Returns all members of a LAG, sorted by number.
    pub(crate) fn members(&self, lag: usize) -> &[PortId] {
        &self.lags[lag].members
    }

    /// Returns true if the LAG and this member of the LAG are up.
    pub(crate) fn is_active(&self, lag: usize, member: PortId) -> bool {
        self.lags[lag].active.contains(&member)
    }

    /// Returns the index of the LAG, or `None` if the logical port is a port.
    #[inline]
    pub(crate) fn lag_index(&self, logical: LogicalPort) -> Option<usize> {
        logical.index().checked_sub(self.logical.len())
    }

    /// Returns true if a LAG is up.
    pub(crate) fn is_lag_up(&self, lag: usize) -> bool {
        !self.lags[lag].active.is_empty()
    }

    /// Returns true if `config` has the same LAGs with the same members.
    pub(crate) fn has_same_members(&self, config: &SwitchConfig) -> bool {
        let other = LagTable::new(config);
        self.logical == other.logical && self.lags.len() == other.lags.len()
    }

    /// Returns the number of LAGs.
    pub(crate) fn count(&self) -> usize {
        self.lags.len()
    }

    /// Updates the active members. `is_up` returns true if a port is up.
    pub(crate) fn update_active_members(&mut self, is_up: impl Fn(PortId) -> bool) {
        for lag in &mut self.lags {
            lag.active.clear();
            let alive = lag.members.iter().copied().filter(|&port| is_up(port));
            lag.active.extend(alive);
            if !lag.admin_up || lag.active.len() < lag.min_links {
                lag.active.clear();
            }
        }
    }
}
