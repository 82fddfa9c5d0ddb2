//! Consistency checks of the buffer accounting, for tests and debug builds.

use super::Mmu;
use super::resolve::Limits;
use super::user::{BEHIND_PORT, Group};

impl Mmu {
    /// Checks that the sums of each pool equal the use of its groups and queues. Also checks that every group
    /// in XOFF is in the list of its pool with the free cells it needs, and that no group needs less than the
    /// lower bound.
    ///
    /// This method visits every group and queue. It is meant for tests and debug builds.
    ///
    /// # Panics
    /// Panics with the values that differ.
    pub fn check(&self) {
        for (index, pool) in self.pools.iter().enumerate() {
            let of_pool = |limits: &Limits| usize::from(limits.pool) == index;
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
                pool.bound_holds(),
                "pool {index}: a waiter needs less than the bound: {pool:?}"
            );
        }
        self.check_levels();
        for (index, group) in self
            .groups
            .iter()
            .enumerate()
            .filter(|(_, group)| group.waits_in_pool())
        {
            let waiter = self.pools[usize::from(group.limits.pool)].waiters()[group.place as usize];
            assert_eq!(usize::from(waiter.group), index, "place of group {index}");
            assert_eq!(waiter.needed, group.needed(), "need of group {index}");
        }
    }

    fn check_levels(&self) {
        for (index, level) in self.levels.iter().enumerate() {
            let of_level = |limits: &Limits| usize::from(limits.level) == index;
            let groups = self.groups.iter().filter(|group| of_level(&group.limits));
            let queues = self.queues.iter().filter(|queue| of_level(&queue.limits));
            let held: i64 = groups.map(|group| i64::from(group.shared)).sum::<i64>()
                + queues.map(|queue| i64::from(queue.shared)).sum::<i64>();
            assert_eq!(
                level.used, held,
                "second level {index}: use and the sum of its users"
            );
        }
        for (index, pool) in self.pools.iter().enumerate() {
            let behind =
                |group: &&Group| group.place == BEHIND_PORT && usize::from(group.limits.pool) == index;
            assert_eq!(
                pool.behind_ports.len(),
                self.groups.iter().filter(behind).count(),
                "pool {index}: waiters behind ports"
            );
        }
    }
}
