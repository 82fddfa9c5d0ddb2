//! The labs of the bench.

/// A lab: its name, fabric, congestion control, jobs and script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BenchLab {
    pub(crate) name: &'static str,
    pub(crate) fabric: &'static str,
    pub(crate) congestion: &'static str,
    pub(crate) jobs: &'static [&'static str],
    /// Steps of a script. Without steps, the lab runs to its end.
    pub(crate) script: &'static [&'static str],
}

const LEAF_SPINE: &str = "leaf-spine: {leaves: 4, spines: 4, hosts: 4, uplinks: 1, speed: 100g, delay: 500ns, config: {preset: roce-lossless}}";
const FAT_TREE_4: &str = "fat-tree: {k: 4, speed: 100g, delay: 500ns, config: {preset: roce-lossless}}";
const FAT_TREE_6: &str = "fat-tree: {k: 6, speed: 100g, delay: 500ns, config: {preset: roce-lossless}}";
const FAT_TREE_8: &str = "fat-tree: {k: 8, speed: 400g, delay: 500ns, config: {preset: roce-lossless}}";
const RAIL: &str = "rail: {nodes: 16, gpus: 8, spines: 2, uplinks: 2, speed: 100g, delay: 500ns, config: {preset: roce-lossless}}";
const STAR_512: &str = "star: {hosts: 512, speed: 100g, delay: 500ns, config: {preset: roce-lossless}}";

const fn lab(
    name: &'static str,
    fabric: &'static str,
    congestion: &'static str,
    jobs: &'static [&'static str],
) -> BenchLab {
    BenchLab {
        name,
        fabric,
        congestion,
        jobs,
        script: &[],
    }
}

/// Rings, AllToAll, incasts, mixed jobs and a link that fails, without congestion control, with DCQCN and with HPCC.
pub(crate) const LABS: [BenchLab; 22] = [
    lab(
        "ring-1022-steps",
        STAR_512,
        "none",
        &["{name: r, kind: ring-allreduce, hosts: all, gpus_per_node: 1, bytes: 2M}"],
    ),
    lab(
        "ring-1022-steps-dcqcn",
        STAR_512,
        "dcqcn-nic",
        &["{name: r, kind: ring-allreduce, hosts: all, gpus_per_node: 1, bytes: 8M}"],
    ),
    lab(
        "ring-fat-tree-8",
        FAT_TREE_8,
        "dcqcn-nic",
        &["{name: r, kind: ring-allreduce, hosts: all, gpus_per_node: 1, bytes: 32M}"],
    ),
    lab(
        "ring-fat-tree-6",
        FAT_TREE_6,
        "none",
        &["{name: r, kind: ring-allreduce, hosts: all, gpus_per_node: 1, bytes: 64M}"],
    ),
    lab(
        "ring-hpcc",
        FAT_TREE_6,
        "hpcc",
        &["{name: r, kind: ring-allreduce, hosts: all, gpus_per_node: 1, bytes: 64M}"],
    ),
    lab(
        "ring-4-queue-pairs",
        FAT_TREE_6,
        "dcqcn-nic",
        &["{name: r, kind: ring-allreduce, hosts: all, gpus_per_node: 1, bytes: 64M, qps: 4}"],
    ),
    lab(
        "ring-slices",
        LEAF_SPINE,
        "dcqcn-nic",
        &[
            "{name: r, kind: ring-allreduce, hosts: all, gpus_per_node: 1, bytes: 16M, slice: 256K, iterations: 24}",
        ],
    ),
    lab(
        "ring-rail",
        RAIL,
        "dcqcn-nic",
        &["{name: r, kind: ring-allreduce, hosts: all, gpus_per_node: 8, bytes: 256M, nvlink: 3600g}"],
    ),
    lab(
        "allgather-odd-bytes",
        FAT_TREE_4,
        "none",
        &["{name: r, kind: allgather, hosts: all, gpus_per_node: 1, bytes: 20000001, iterations: 20}"],
    ),
    lab(
        "sizes",
        LEAF_SPINE,
        "none",
        &[
            "{name: r, kind: ring-allreduce, hosts: all, gpus_per_node: 1, bytes: [1M, 4M, 16M], iterations: 12, warmup: 2}",
        ],
    ),
    lab(
        "tree",
        FAT_TREE_4,
        "dcqcn-nic",
        &[
            "{name: r, kind: tree-allreduce, hosts: all, gpus_per_node: 1, bytes: 4M, slice: 128K, iterations: 40}",
        ],
    ),
    lab(
        "alltoall",
        LEAF_SPINE,
        "none",
        &["{name: r, kind: alltoall, hosts: all, gpus_per_node: 1, bytes: 1M, iterations: 40}"],
    ),
    lab(
        "alltoall-dcqcn",
        FAT_TREE_4,
        "dcqcn-nic",
        &["{name: r, kind: alltoall, hosts: all, gpus_per_node: 1, bytes: 4M, iterations: 40}"],
    ),
    lab(
        "alltoall-gap",
        LEAF_SPINE,
        "dcqcn-nic",
        &[
            "{name: r, kind: alltoall, hosts: all, gpus_per_node: 1, bytes: 1M, iterations: 40, compute_gap: 300us}",
        ],
    ),
    lab(
        "alltoall-rail",
        RAIL,
        "dcqcn-nic",
        &[
            "{name: r, kind: alltoall, hosts: all, gpus_per_node: 8, rail_aligned: true, bytes: 8M, iterations: 16, nvlink: 3600g}",
        ],
    ),
    lab(
        "incast",
        LEAF_SPINE,
        "none",
        &[
            "{name: r, kind: incast, from: [h1, h2, h5, h6, h7, h8, h9], to: h13, bytes: 512K, iterations: 60}",
        ],
    ),
    lab(
        "incast-dcqcn",
        LEAF_SPINE,
        "dcqcn-nic",
        &["{name: r, kind: incast, from: [h1, h2, h5, h6], to: h13, bytes: 1M, iterations: 60}"],
    ),
    lab(
        "incast-hpcc",
        LEAF_SPINE,
        "hpcc",
        &["{name: r, kind: incast, from: [h1, h2, h5, h6], to: h13, bytes: 1M, iterations: 60}"],
    ),
    lab(
        "permutation",
        FAT_TREE_4,
        "none",
        &["{name: r, kind: permutation, hosts: all, bytes: 2M, iterations: 100}"],
    ),
    lab(
        "mixed-rings",
        LEAF_SPINE,
        "dcqcn-nic",
        &[
            "{name: a, kind: ring-allreduce, hosts: [h1, h5, h9, h13], gpus_per_node: 1, bytes: 4M, iterations: 60}",
            "{name: b, kind: alltoall, hosts: [h2, h6, h10, h14], gpus_per_node: 1, bytes: 1M, iterations: 200}",
        ],
    ),
    lab(
        "mixed-with-flow",
        LEAF_SPINE,
        "dcqcn-nic",
        &[
            "{name: a, kind: ring-allreduce, hosts: [h1, h5, h9, h13], gpus_per_node: 1, bytes: 4M, iterations: 60}",
            "{name: f, kind: flows, start: 9ms, flows: [{from: h2, to: h6, bytes: 8M}]}",
        ],
    ),
    BenchLab {
        script: &[
            "{at: 15ms, link: {on: \"leaf1:Ethernet16\", up: false}}",
            "{at: 15ms, link: {on: \"leaf1:Ethernet20\", up: false}}",
            "{at: 300ms, expect: job.a.done == 1}",
        ],
        ..lab(
            "link-failure",
            LEAF_SPINE,
            "none",
            &[
                "{name: a, kind: ring-allreduce, hosts: [h1, h2, h5, h6], gpus_per_node: 1, bytes: 4M, iterations: 100}",
            ],
        )
    },
];

impl BenchLab {
    /// Returns the text of the lab file.
    pub(crate) fn text(&self) -> String {
        let lines =
            |items: &[&str]| -> String { items.iter().map(|item| format!("    - {item}\n")).collect() };
        let script = match self.script {
            [] => String::new(),
            steps => format!("script:\n{}", lines(steps)),
        };
        format!(
            "name: {}\ntopology:\n  fabric:\n    {}\ntransports:\n  default: {{mtu: 4096, congestion: {}, ack_every: \
             16}}\nworkload:\n  jobs:\n{}{script}",
            self.name,
            self.fabric,
            self.congestion,
            lines(self.jobs)
        )
    }
}
