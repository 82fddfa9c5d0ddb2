//! Detection of PFC deadlocks: cycles of ports that pause each other.

use std::collections::HashMap;

use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{PortId, QueueId};

use super::deadlock_report::Deadlock;
use super::engine::Fabric;
use super::plan::LinkEnd;

/// A queue that is paused by its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct PausedQueue {
    switch: u32,
    port: u16,
    queue: u8,
}

/// Searches for a PFC deadlock: a cycle of paused queues in which each queue waits for the next queue.
/// Returns the first deadlock in the order of switches and ports. Returns `None` if no deadlock exists at
/// this moment.
pub fn find_deadlock(fabric: &Fabric) -> Option<Deadlock> {
    let mut waits: Vec<(PausedQueue, Vec<PausedQueue>)> = Vec::new();
    for switch in 0..fabric.switch_count() as u32 {
        for port in 0..fabric.switch(switch as usize).port_count() as u16 {
            // Most ports are never paused, and this function is called often.
            if fabric.switch(switch as usize).paused_priorities(PortId(port)) == 0 {
                continue;
            }
            for queue in 0..PRIORITIES as u8 {
                let at = PausedQueue { switch, port, queue };
                if is_blocked(fabric, at) {
                    waits.push((at, queues_waited_for(fabric, at)));
                }
            }
        }
    }
    let cycle = find_cycle(&waits)?;
    let name = |at: &PausedQueue| {
        let config = fabric.switch_config(at.switch as usize);
        format!("{}:{}", config.name, config.ports[usize::from(at.port)].name)
    };
    Some(Deadlock {
        ports: cycle.iter().map(name).collect(),
        queue: cycle[0].queue,
    })
}

/// Returns whether frames wait in a paused queue.
fn is_blocked(fabric: &Fabric, at: PausedQueue) -> bool {
    let switch = fabric.switch(at.switch as usize);
    let port = PortId(at.port);
    let (_, stops) = switch.pause_priority_masks(port, 0, at.queue);
    switch.paused_priorities(port) & stops != 0
        && !switch.priority_groups_in(QueueId::new(port, at.queue)).is_empty()
}

/// Returns the queues of the peer for which the paused queue `at` waits. These queues are also paused. They
/// hold frames of the priority groups for which the peer has sent XOFF.
fn queues_waited_for(fabric: &Fabric, at: PausedQueue) -> Vec<PausedQueue> {
    let from = LinkEnd::Switch {
        switch: at.switch,
        port: at.port,
    };
    let Some(LinkEnd::Switch { switch, port }) = fabric.peer(from) else {
        return Vec::new();
    };
    let paused = fabric
        .switch(at.switch as usize)
        .paused_priorities(PortId(at.port));
    let peer = fabric.switch(switch as usize);
    let pauses = |pg: u8| {
        let (signals, _) = peer.pause_priority_masks(PortId(port), pg, 0);
        peer.xoff_groups(PortId(port)) & 1 << pg != 0 && signals & paused != 0
    };
    let mut found = Vec::new();
    for out in 0..peer.port_count() as u16 {
        for queue in 0..PRIORITIES as u8 {
            let behind = PausedQueue {
                switch,
                port: out,
                queue,
            };
            let holds = |pg: &xoff_dataplane::PgId| pg.port() == PortId(port) && pauses(pg.number());
            if is_blocked(fabric, behind)
                && peer
                    .priority_groups_in(QueueId::new(PortId(out), queue))
                    .iter()
                    .any(holds)
            {
                found.push(behind);
            }
        }
    }
    found
}

/// Searches for a cycle in a wait-for graph. `waits` contains each paused queue and the queues for which
/// it waits.
fn find_cycle(waits: &[(PausedQueue, Vec<PausedQueue>)]) -> Option<Vec<PausedQueue>> {
    let index: HashMap<PausedQueue, usize> = waits.iter().enumerate().map(|(n, (at, _))| (*at, n)).collect();
    // 0: not visited, 1: on the current path, 2: leads to no cycle.
    let mut state = vec![0_u8; waits.len()];
    for start in 0..waits.len() {
        let mut path = vec![(start, 0)];
        while let Some((node, edge)) = path.last_mut() {
            state[*node] = state[*node].max(1);
            let Some(next) = waits[*node].1.get(*edge) else {
                state[*node] = 2;
                path.pop();
                continue;
            };
            *edge += 1;
            let Some(&next) = index.get(next) else { continue };
            match state[next] {
                0 => path.push((next, 0)),
                1 => {
                    let from = path.iter().position(|(node, _)| *node == next)?;
                    return Some(path[from..].iter().map(|(node, _)| waits[*node].0).collect());
                }
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paused_queue(switch: u32) -> PausedQueue {
        PausedQueue {
            switch,
            port: 0,
            queue: 3,
        }
    }

    #[test]
    fn a_cycle_after_a_tail_is_found_and_a_tree_has_none() {
        let waits = |edges: &[(u32, &[u32])]| -> Vec<(PausedQueue, Vec<PausedQueue>)> {
            edges
                .iter()
                .map(|(a, to)| (paused_queue(*a), to.iter().map(|b| paused_queue(*b)).collect()))
                .collect()
        };
        let tree = waits(&[(0, &[1, 2]), (1, &[3]), (2, &[3]), (3, &[])]);
        assert_eq!(find_cycle(&tree), None);
        let tail = waits(&[(0, &[1]), (1, &[2]), (2, &[3]), (3, &[1])]);
        assert_eq!(
            find_cycle(&tail),
            Some(vec![paused_queue(1), paused_queue(2), paused_queue(3)])
        );
        assert_eq!(find_cycle(&waits(&[(0, &[0])])), Some(vec![paused_queue(0)]));
    }
}
