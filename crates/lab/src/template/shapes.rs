//! Builds the topology of each fabric template.

use super::TopologyBuilder;

/// The numbers of a fabric with leaves and spines.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafSpineParameters {
    /// Number of leaves.
    pub(super) leaves: u32,
    /// Number of spines.
    pub(super) spines: u32,
    /// Number of hosts of each leaf.
    pub(super) hosts: u32,
    /// Number of links from each leaf to each spine.
    pub(super) uplinks: u32,
}

/// The numbers of a rail fabric.
#[derive(Clone, Copy, Debug)]
pub(super) struct RailParameters {
    /// Number of nodes, at least 1.
    pub(super) nodes: u32,
    /// Number of GPUs of each node, and number of leaves of each group.
    pub(super) gpus: u32,
    /// Number of spines: of each group if there are cores, of the fabric otherwise.
    pub(super) spines: u32,
    /// Number of links from each leaf to each of its spines.
    pub(super) uplinks: u32,
    /// Number of nodes of each group, at least 1. The last group can be smaller.
    pub(super) group_nodes: u32,
    /// Number of cores, a multiple of `spines`. 0: the spines connect the groups.
    pub(super) cores: u32,
    /// Number of links from each spine to each of its cores.
    pub(super) core_uplinks: u32,
}

impl RailParameters {
    /// Returns the number of groups.
    pub(super) fn group_count(self) -> u32 {
        self.nodes.div_ceil(self.group_nodes.max(1))
    }

    /// Returns the number of cores of each spine. Spine *s* of every group has the same cores.
    pub(super) fn cores_of_spine(self) -> u32 {
        self.cores.checked_div(self.spines).unwrap_or(0)
    }
}

/// Builds the template `leaf-spine`. The switches are `leaf1`, `leaf2` and so on, and `spine1`, `spine2` and
/// so on. The hosts `h1`, `h2` and so on are at the leaves: first those of `leaf1`, then those of `leaf2`.
///
/// The first ports of a spine are connected to `leaf1`, the next ports to `leaf2`, and so on.
pub(super) fn build_leaf_spine(builder: &mut TopologyBuilder<'_>, numbers: LeafSpineParameters) {
    let leaves = builder.add_switches("leaf", numbers.leaves);
    let spines = builder.add_switches("spine", numbers.spines);
    let mut host = 0;
    for &leaf in &leaves {
        for _ in 0..numbers.hosts {
            host += 1;
            builder.add_host(format!("h{host}"), leaf);
        }
    }
    add_mesh(builder, &leaves, &spines, numbers.uplinks);
}

/// Builds the template `rail`. Host `n1-g2` is GPU 2 of node 1.
///
/// Each group of nodes has as many leaves as a node has GPUs: GPU *g* of every node of the group is connected to leaf
/// *g*. The switches of a single group are `leaf1`, `leaf2` and so on, and `spine1`, `spine2` and so on. With several
/// groups, the switches of the first group are `group1-leaf1` and so on.
///
/// Without cores, the fabric has one set of spines, and every leaf is connected to every spine. With cores, each group
/// has a set of its own. Spine 1 of every group is connected to the first cores, spine 2 to the next cores, and so on.
pub(super) fn build_rail(builder: &mut TopologyBuilder<'_>, numbers: RailParameters) {
    let groups = numbers.group_count();
    let prefix = |group: u32| match groups {
        1 => String::new(),
        _ => format!("group{group}-"),
    };
    let leaves: Vec<Vec<usize>> = (1..=groups)
        .map(|group| builder.add_switches(&format!("{}leaf", prefix(group)), numbers.gpus))
        .collect();
    let spines: Vec<Vec<usize>> = match numbers.cores {
        0 => vec![builder.add_switches("spine", numbers.spines)],
        _ => (1..=groups)
            .map(|group| builder.add_switches(&format!("{}spine", prefix(group)), numbers.spines))
            .collect(),
    };
    let cores = builder.add_switches("core", numbers.cores);
    for node in 0..numbers.nodes {
        for (gpu, &leaf) in leaves[(node / numbers.group_nodes.max(1)) as usize]
            .iter()
            .enumerate()
        {
            builder.add_host(format!("n{}-g{}", node + 1, gpu + 1), leaf);
        }
    }
    for (group, leaves) in leaves.iter().enumerate() {
        add_mesh(builder, leaves, &spines[group % spines.len()], numbers.uplinks);
    }
    let cores_of_spine = numbers.cores_of_spine().max(1) as usize;
    for spines in &spines {
        for (&spine, cores) in spines.iter().zip(cores.chunks(cores_of_spine)) {
            add_mesh(builder, &[spine], cores, numbers.core_uplinks);
        }
    }
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
