//! Link aggregation groups with static members: which port a frame takes, and when a group is up.

use crate::config::{LagConfig, SwitchConfig};
use crate::ids::{LogicalPort, PortId};
use crate::route::seeded;

/// Apart from the seed of equal-cost routes: a switch that chose a next hop by the same hash would use one member only.
const LAG_SEED: u64 = 0x6c61_672d_6d65_6d62;

#[derive(Debug)]
struct Lag {
    admin_up: bool,
    min_links: usize,
    members: Vec<PortId>,
    /// Members whose link is up, in the order of their numbers; none while the group is down.
    active: Vec<PortId>,
}

/// All groups, and for every port the logical port that it is or belongs to.
#[derive(Debug)]
pub(crate) struct Lags {
    logical: Vec<LogicalPort>,
    groups: Vec<Lag>,
    seed: u64,
}

impl Lags {
    /// All groups down.
    pub(crate) fn new(config: &SwitchConfig) -> Lags {
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
            Lag {
                admin_up: lag.admin_up,
                min_links: usize::from(lag.min_links.max(1)),
                active: Vec::with_capacity(members.len()),
                members,
            }
        };
        Lags {
            logical,
            groups: config.lags.iter().map(group).collect(),
            seed: config.routing.hash_seed ^ LAG_SEED,
        }
    }

    /// What a port is to bridging and routing.
    #[inline]
    pub(crate) fn logical(&self, port: PortId) -> LogicalPort {
        self.logical[port.index()]
    }

    /// A group as a logical port.
    pub(crate) fn group(&self, lag: u16) -> LogicalPort {
        LogicalPort(self.logical.len() as u16 + lag)
    }

    /// The port by which a flow leaves a logical port; `None` if a group is down. A port is itself, up or not.
    #[inline]
    pub(crate) fn select(&self, logical: LogicalPort, flow_hash: u32) -> Option<PortId> {
        match logical.index().checked_sub(self.logical.len()) {
            None => Some(PortId(logical.0)),
            Some(group) => {
                let active = &self.groups[group].active;
                let choice = (u64::from(seeded(flow_hash, self.seed)) * active.len() as u64) >> 32;
                active.get(choice as usize).copied()
            }
        }
    }

    /// The members of a group, up or not, in the order of their numbers.
    pub(crate) fn members(&self, group: usize) -> &[PortId] {
        &self.groups[group].members
    }

    /// Whether a group can send by a member.
    pub(crate) fn is_active(&self, group: usize, member: PortId) -> bool {
        self.groups[group].active.contains(&member)
    }

    /// The index of a group that is a logical port; `None`: it is a port.
    #[inline]
    pub(crate) fn index_of(&self, logical: LogicalPort) -> Option<usize> {
        logical.index().checked_sub(self.logical.len())
    }

    /// Whether a group is up.
    pub(crate) fn group_up(&self, group: usize) -> bool {
        !self.groups[group].active.is_empty()
    }

    /// Whether `config` has the same members in the same groups.
    pub(crate) fn same_groups(&self, config: &SwitchConfig) -> bool {
        let other = Lags::new(config);
        self.logical == other.logical && self.groups.len() == other.groups.len()
    }

    /// How many groups there are.
    pub(crate) fn count(&self) -> usize {
        self.groups.len()
    }

    /// Looks again which members are up.
    pub(crate) fn refresh(&mut self, up: impl Fn(PortId) -> bool) {
        for lag in &mut self.groups {
            lag.active.clear();
            let alive = lag.members.iter().copied().filter(|&port| up(port));
            lag.active.extend(alive);
            if !lag.admin_up || lag.active.len() < lag.min_links {
                lag.active.clear();
            }
        }
    }
}
