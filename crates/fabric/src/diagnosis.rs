//! Why nothing moves any more: circles of ports that pause each other.

use std::collections::HashMap;
use std::fmt;

use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{PortId, QueueId};

use super::engine::Fabric;
use super::plan::End;

/// A queue that its peer has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Stopped {
    switch: u32,
    port: u16,
    queue: u8,
}

/// Ports that pause each other in a circle: each has frames that wait for the next to let it go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The ports, as `switch:port`, each paused by the peer of its link, which waits for the next in the list; the last waits
    /// for the first.
    pub ports: Vec<String>,
    /// The queue that stands still on the first of them.
    pub queue: u8,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.ports.len();
        write!(
            f,
            "deadlock: these {count} ports pause each other in a circle: {}",
            self.ports.join(", ")
        )
    }
}

/// Looks for a circle of pauses; the first one in the order of switches and ports.
pub fn diagnose(fabric: &Fabric) -> Option<Deadlock> {
    let mut waits: Vec<(Stopped, Vec<Stopped>)> = Vec::new();
    for switch in 0..fabric.switch_count() as u32 {
        for port in 0..fabric.switch(switch as usize).port_count() as u16 {
            // Most ports are never paused, and this is asked often.
            if fabric.switch(switch as usize).paused(PortId(port)) == 0 {
                continue;
            }
            for queue in 0..PRIORITIES as u8 {
                let at = Stopped { switch, port, queue };
                if is_stopped(fabric, at) {
                    waits.push((at, waits_for(fabric, at)));
                }
            }
        }
    }
    let circle = circle(&waits)?;
    let name = |at: &Stopped| {
        let config = fabric.switch_config(at.switch as usize);
        format!("{}:{}", config.name, config.ports[usize::from(at.port)].name)
    };
    Some(Deadlock {
        ports: circle.iter().map(name).collect(),
        queue: circle[0].queue,
    })
}

/// Whether frames wait in a queue that a pause holds.
fn is_stopped(fabric: &Fabric, at: Stopped) -> bool {
    let switch = fabric.switch(at.switch as usize);
    let port = PortId(at.port);
    let (_, stops) = switch.pause_maps(port, 0, at.queue);
    switch.paused(port) & stops != 0 && !switch.groups_in(QueueId::new(port, at.queue)).is_empty()
}

/// The stopped queues for which a stopped queue waits: those of its peer that hold frames of the groups that pause it.
fn waits_for(fabric: &Fabric, at: Stopped) -> Vec<Stopped> {
    let from = End::Switch {
        switch: at.switch,
        port: at.port,
    };
    let Some(End::Switch { switch, port }) = fabric.peer(from) else {
        return Vec::new();
    };
    let paused = fabric.switch(at.switch as usize).paused(PortId(at.port));
    let peer = fabric.switch(switch as usize);
    let pauses = |pg: u8| {
        let (signals, _) = peer.pause_maps(PortId(port), pg, 0);
        peer.xoff(PortId(port)) & 1 << pg != 0 && signals & paused != 0
    };
    let mut found = Vec::new();
    for out in 0..peer.port_count() as u16 {
        for queue in 0..PRIORITIES as u8 {
            let behind = Stopped {
                switch,
                port: out,
                queue,
            };
            let holds = |pg: &xoff_dataplane::PgId| pg.port() == PortId(port) && pauses(pg.number());
            if is_stopped(fabric, behind)
                && peer.groups_in(QueueId::new(PortId(out), queue)).iter().any(holds)
            {
                found.push(behind);
            }
        }
    }
    found
}

/// A circle in a graph of who waits for whom.
fn circle(waits: &[(Stopped, Vec<Stopped>)]) -> Option<Vec<Stopped>> {
    let index: HashMap<Stopped, usize> = waits.iter().enumerate().map(|(n, (at, _))| (*at, n)).collect();
    // 0: not seen, 1: on the way, 2: leads to no circle.
    let mut state = vec![0_u8; waits.len()];
    for start in 0..waits.len() {
        let mut way = vec![(start, 0)];
        while let Some((node, edge)) = way.last_mut() {
            state[*node] = state[*node].max(1);
            let Some(next) = waits[*node].1.get(*edge) else {
                state[*node] = 2;
                way.pop();
                continue;
            };
            *edge += 1;
            let Some(&next) = index.get(next) else { continue };
            match state[next] {
                0 => way.push((next, 0)),
                1 => {
                    let from = way.iter().position(|(node, _)| *node == next)?;
                    return Some(way[from..].iter().map(|(node, _)| waits[*node].0).collect());
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

    fn at(switch: u32) -> Stopped {
        Stopped {
            switch,
            port: 0,
            queue: 3,
        }
    }

    #[test]
    fn finds_a_circle_behind_a_tail_and_none_in_a_tree() {
        let waits = |edges: &[(u32, &[u32])]| -> Vec<(Stopped, Vec<Stopped>)> {
            edges
                .iter()
                .map(|(a, to)| (at(*a), to.iter().map(|b| at(*b)).collect()))
                .collect()
        };
        let tree = waits(&[(0, &[1, 2]), (1, &[3]), (2, &[3]), (3, &[])]);
        assert_eq!(circle(&tree), None);
        let tail = waits(&[(0, &[1]), (1, &[2]), (2, &[3]), (3, &[1])]);
        assert_eq!(circle(&tail), Some(vec![at(1), at(2), at(3)]));
        assert_eq!(circle(&waits(&[(0, &[0])])), Some(vec![at(0)]));
    }
}
