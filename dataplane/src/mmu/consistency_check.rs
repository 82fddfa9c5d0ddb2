//! Consistency checks of the buffer accounting, for tests and debug builds.

use super::Mmu;
use super::limits::ProfileLimits;
use super::priority_group::{PriorityGroup, WAITS_AT_PORT_LIMIT};

impl Mmu {
    /// Checks that the sums of the buffer accounting agree:
    /// - The shared and headroom cells of each pool equal the use of its groups and queues.
    /// - The shared cells of each port limit equal the use of its port.
    /// - The list of waiting groups in each pool contains exactly the priority groups that pause their peer
    ///   (XOFF). For each of them, the stored number of free cells that it needs to resume is correct.
    ///
    /// This method visits every group and queue, so it is meant for tests and debug builds.
    ///
    /// # Panics
    /// Panics with a message that states the differing values.
    pub fn assert_consistent(&self) {
        for (index, pool) in self.pools.iter().enumerate() {
            let of_pool = |limits: &ProfileLimits| usize::from(limits.pool) == index;
            let groups = || self.groups.iter().filter(|group| of_pool(&group.limits));
            let queues = self.queues.iter().filter(|queue| of_pool(&queue.limits));
            let headroom: i64 = groups().map(|group| i64::from(group.headroom)).sum();
            let shared: i64 = groups().map(|group| i64::from(group.shared)).sum::<i64>()
                + queues.map(|queue| i64::from(queue.shared)).sum::<i64>();
            assert_eq!(
                pool.shared(),
                shared,
                "pool {index}: shared cells and the sum of its users"
            );
            assert_eq!(
                pool.headroom, headroom,
                "pool {index}: headroom cells and the sum of its groups"
            );
            let waiting = groups().filter(|group| group.waits_in_pool()).count();
            assert_eq!(
                pool.waiters().len(),
                waiting,
                "pool {index}: waiters and groups in XOFF"
            );
            assert!(
                pool.is_resume_bound_valid(),
                "pool {index}: a waiter needs less than the lower bound: {pool:?}"
            );
        }
        self.assert_port_limits();
        for (index, group) in self
            .groups
            .iter()
            .enumerate()
            .filter(|(_, group)| group.waits_in_pool())
        {
            let waiter = self.pools[usize::from(group.limits.pool)].waiters()[group.waiter_index as usize];
            assert_eq!(
                usize::from(waiter.group),
                index,
                "position of the waiter of group {index}"
            );
            assert_eq!(
                waiter.needed,
                group.needed_free_cells(),
                "needed free cells of group {index}"
            );
        }
    }

    fn assert_port_limits(&self) {
        for (index, port_limit) in self.port_limits.iter().enumerate() {
            let has_port_limit = |limits: &ProfileLimits| usize::from(limits.port_limit) == index;
            let groups = self.groups.iter().filter(|group| has_port_limit(&group.limits));
            let queues = self.queues.iter().filter(|queue| has_port_limit(&queue.limits));
            let held: i64 = groups.map(|group| i64::from(group.shared)).sum::<i64>()
                + queues.map(|queue| i64::from(queue.shared)).sum::<i64>();
            assert_eq!(
                port_limit.used, held,
                "port limit {index}: use and the sum of its users"
            );
        }
        for (index, pool) in self.pools.iter().enumerate() {
            let waits_at_port_limit = |group: &&PriorityGroup| {
                group.waiter_index == WAITS_AT_PORT_LIMIT && usize::from(group.limits.pool) == index
            };
            assert_eq!(
                pool.waiting_at_port_limit.len(),
                self.groups.iter().filter(waits_at_port_limit).count(),
                "pool {index}: groups that wait at a port limit"
            );
        }
    }
}
