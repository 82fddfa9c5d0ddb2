//! Builds the topology of each fabric template.

use super::TopologyBuilder;

/// The numbers of a fabric with leaves and spines.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafSpineParameters {
    /// Number of leaves. For `rail`: number of nodes.
    pub(super) leaves: u32,
    /// Number of spines.
    pub(super) spines: u32,
    /// Number of hosts of each leaf. For `rail`: number of GPUs of each node.
    pub(super) hosts: u32,
    /// Number of links from each leaf to each spine.
    pub(super) uplinks: u32,
}

/// Builds the template `leaf-spine`. The switches are `leaf1`, `leaf2` and so on, and `spine1`, `spine2` and
/// so on. The hosts `h1`, `h2` and so on are at the leaves: first those of `leaf1`, then those of `leaf2`.
///
/// The first ports of a spine are connected to `leaf1`, the next ports to `leaf2`, and so on.
pub(super) fn build_leaf_spine(builder: &mut TopologyBuilder<'_>, numbers: LeafSpineParameters) {
    let (leaves, spines) = add_leaves_and_spines(builder, "leaf", numbers.leaves, numbers.spines);
    let mut host = 0;
    for &leaf in &leaves {
        for _ in 0..numbers.hosts {
            host += 1;
            builder.add_host(format!("h{host}"), leaf);
        }
    }
    add_mesh(builder, &leaves, &spines, numbers.uplinks);
}

/// Builds the template `rail`. The switches are `leaf1`, `leaf2` and so on, and `spine1`, `spine2` and so on.
/// Host `n1-g2` is GPU 2 of node 1.
///
/// The fabric has as many leaves as a node has GPUs. GPU *g* of every node is connected to leaf *g*.
pub(super) fn build_rail(builder: &mut TopologyBuilder<'_>, numbers: LeafSpineParameters) {
    let (nodes, gpus) = (numbers.leaves, numbers.hosts);
    let (leaves, spines) = add_leaves_and_spines(builder, "leaf", gpus, numbers.spines);
    for node in 1..=nodes {
        for (gpu, &leaf) in leaves.iter().enumerate() {
            builder.add_host(format!("n{node}-g{}", gpu + 1), leaf);
        }
    }
    add_mesh(builder, &leaves, &spines, numbers.uplinks);
}

/// Adds leaves with the name prefix `leaf_prefix` and spines, and returns their indices.
fn add_leaves_and_spines(
    builder: &mut TopologyBuilder<'_>,
    leaf_prefix: &str,
    leaves: u32,
    spines: u32,
) -> (Vec<usize>, Vec<usize>) {
    let leaves = (1..=leaves)
        .map(|leaf| builder.add_switch(format!("{leaf_prefix}{leaf}")))
        .collect();
    let spines = (1..=spines)
        .map(|spine| builder.add_switch(format!("spine{spine}")))
        .collect();
    (leaves, spines)
}

/// Adds `uplinks` links between each leaf and each spine.
fn add_mesh(builder: &mut TopologyBuilder<'_>, leaves: &[usize], spines: &[usize], uplinks: u32) {
    for &leaf in leaves {
        for &spine in spines {
            for _ in 0..uplinks {
                builder.add_uplink(leaf, spine);
            }
        }
    }
}

/// Builds the template `fat-tree`: the fat tree of k-port switches by Al-Fares et al. (SIGCOMM 2008).
///
/// The tree has (k/2)^2 core switches and k pods. A pod has k/2 edge switches and k/2 aggregation switches.
/// Each edge switch has k/2 hosts. In each pod, aggregation switch 1 is connected to the first k/2 core
/// switches, aggregation switch 2 to the next k/2, and so on.
pub(super) fn build_fat_tree(builder: &mut TopologyBuilder<'_>, k: u32) {
    let half = k / 2;
    let cores: Vec<usize> = (1..=half * half)
        .map(|core| builder.add_switch(format!("core{core}")))
        .collect();
    let mut host = 0;
    for pod in 1..=k {
        let edges: Vec<usize> = (1..=half)
            .map(|edge| builder.add_switch(format!("pod{pod}-edge{edge}")))
            .collect();
        let aggs: Vec<usize> = (1..=half)
            .map(|agg| builder.add_switch(format!("pod{pod}-agg{agg}")))
            .collect();
        for &edge in &edges {
            for _ in 0..half {
                host += 1;
                builder.add_host(format!("h{host}"), edge);
            }
        }
        add_mesh(builder, &edges, &aggs, 1);
        for (group, &agg) in cores.chunks(half as usize).zip(&aggs) {
            group.iter().for_each(|&core| builder.add_uplink(agg, core));
        }
    }
}

/// Builds the template `star`: switch `sw1` with the hosts `h1`, `h2` and so on.
pub(super) fn build_star(builder: &mut TopologyBuilder<'_>, hosts: u32) {
    let switch = builder.add_switch("sw1".to_owned());
    (1..=hosts).for_each(|host| builder.add_host(format!("h{host}"), switch));
}

/// Builds the template `dumbbell`: switches `sw1` and `sw2`, each with hosts.
///
/// Switch `sw1` has the hosts with the numbers 1 to `left`, such as `h1`. The hosts at `sw2` have the
/// next numbers.
pub(super) fn build_dumbbell(builder: &mut TopologyBuilder<'_>, left: u32, right: u32, uplinks: u32) {
    let (sw1, sw2) = (
        builder.add_switch("sw1".to_owned()),
        builder.add_switch("sw2".to_owned()),
    );
    (1..=left).for_each(|host| builder.add_host(format!("h{host}"), sw1));
    (left + 1..=left + right).for_each(|host| builder.add_host(format!("h{host}"), sw2));
    (0..uplinks).for_each(|_| builder.add_uplink(sw1, sw2));
}
