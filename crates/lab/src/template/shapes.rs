//! The shapes themselves: who is connected to whom.

use super::Builder;

/// Numbers of a fabric of two stages.
#[derive(Clone, Copy, Debug)]
pub(super) struct TwoStages {
    /// Leaves; of `rail`, nodes.
    pub(super) leaves: u32,
    pub(super) spines: u32,
    /// Hosts of each leaf; of `rail`, GPUs of each node.
    pub(super) hosts: u32,
    /// Links from each leaf to each spine.
    pub(super) uplinks: u32,
}

/// `leaf1`.., `spine1`.., and `h1`.. leaf by leaf. Leaf *l* is in the ports of a spine that count up with *l*.
pub(super) fn leaf_spine(builder: &mut Builder<'_>, numbers: TwoStages) {
    let (leaves, spines) = stages(builder, "leaf", numbers.leaves, numbers.spines);
    let mut host = 0;
    for &leaf in &leaves {
        for _ in 0..numbers.hosts {
            host += 1;
            builder.host(format!("h{host}"), leaf);
        }
    }
    mesh(builder, &leaves, &spines, numbers.uplinks);
}

/// `leaf1`.., one for each GPU of a node, `spine1`.., and `n1-g1`, `n1-g2`.. node by node: GPU *g* of each node is at leaf *g*.
pub(super) fn rail(builder: &mut Builder<'_>, numbers: TwoStages) {
    let (nodes, gpus) = (numbers.leaves, numbers.hosts);
    let (leaves, spines) = stages(builder, "leaf", gpus, numbers.spines);
    for node in 1..=nodes {
        for (gpu, &leaf) in leaves.iter().enumerate() {
            builder.host(format!("n{node}-g{}", gpu + 1), leaf);
        }
    }
    mesh(builder, &leaves, &spines, numbers.uplinks);
}

fn stages(builder: &mut Builder<'_>, lower: &str, leaves: u32, spines: u32) -> (Vec<usize>, Vec<usize>) {
    let leaves = (1..=leaves)
        .map(|leaf| builder.switch(format!("{lower}{leaf}")))
        .collect();
    let spines = (1..=spines)
        .map(|spine| builder.switch(format!("spine{spine}")))
        .collect();
    (leaves, spines)
}

fn mesh(builder: &mut Builder<'_>, leaves: &[usize], spines: &[usize], uplinks: u32) {
    for &leaf in leaves {
        for &spine in spines {
            for _ in 0..uplinks {
                builder.uplink(leaf, spine);
            }
        }
    }
}

/// The fat tree of k-port switches of Al-Fares et al. (SIGCOMM 2008): k pods of k/2 edge and k/2 aggregation switches,
/// (k/2)^2 cores, k/2 hosts at each edge. Aggregation switch *a* of each pod is at cores (a-1) k/2 + 1 to a k/2.
pub(super) fn fat_tree(builder: &mut Builder<'_>, k: u32) {
    let half = k / 2;
    let cores: Vec<usize> = (1..=half * half)
        .map(|core| builder.switch(format!("core{core}")))
        .collect();
    let mut host = 0;
    for pod in 1..=k {
        let edges: Vec<usize> = (1..=half)
            .map(|edge| builder.switch(format!("pod{pod}-edge{edge}")))
            .collect();
        let aggs: Vec<usize> = (1..=half)
            .map(|agg| builder.switch(format!("pod{pod}-agg{agg}")))
            .collect();
        for &edge in &edges {
            for _ in 0..half {
                host += 1;
                builder.host(format!("h{host}"), edge);
            }
        }
        mesh(builder, &edges, &aggs, 1);
        for (group, &agg) in cores.chunks(half as usize).zip(&aggs) {
            group.iter().for_each(|&core| builder.uplink(agg, core));
        }
    }
}

/// `sw1` and `h1`..
pub(super) fn star(builder: &mut Builder<'_>, hosts: u32) {
    let switch = builder.switch("sw1".to_owned());
    (1..=hosts).for_each(|host| builder.host(format!("h{host}"), switch));
}

/// `sw1` with the hosts on the left, `h1`.., `sw2` with those on the right, which count on.
pub(super) fn dumbbell(builder: &mut Builder<'_>, left: u32, right: u32, uplinks: u32) {
    let (sw1, sw2) = (builder.switch("sw1".to_owned()), builder.switch("sw2".to_owned()));
    (1..=left).for_each(|host| builder.host(format!("h{host}"), sw1));
    (left + 1..=left + right).for_each(|host| builder.host(format!("h{host}"), sw2));
    (0..uplinks).for_each(|_| builder.uplink(sw1, sw2));
}
