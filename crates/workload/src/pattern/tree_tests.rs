//! The trees have the shape of NCCL's trees, and AllReduce over them computes correct sums.

use super::*;
use crate::random::RandomStream;
use crate::split::part_start;

fn shapes() -> Vec<RankLayout> {
    let pairs = [
        (2, 1),
        (3, 1),
        (4, 1),
        (5, 1),
        (8, 1),
        (13, 1),
        (14, 1),
        (4, 2),
        (6, 2),
        (12, 4),
    ];
    pairs.map(|(ranks, gpus)| RankLayout { ranks, gpus }).into()
}

fn range(tree: &TreePattern, transfer: Transfer) -> std::ops::Range<usize> {
    let trees = u64::from(2 * tree.shape.gpus);
    let number = u64::from(tree.tree_of(transfer.edge));
    let start = part_start(tree.bytes, trees, number);
    let start = start
        + part_start(
            part_len(tree.bytes, trees, number),
            tree.slices,
            transfer.sequence,
        );
    start as usize..(start + transfer.bytes) as usize
}

fn run(shape: RankLayout, slice_bytes: Option<u64>, bytes: u64, seed: u64) -> Vec<Vec<u64>> {
    let mut tree = TreePattern::new(shape, slice_bytes);
    let array = |rank: u64| (0..bytes).map(|at| (rank + 1) * 1_000 + at).collect::<Vec<u64>>();
    let mut data: Vec<Vec<u64>> = (0..u64::from(shape.ranks)).map(array).collect();
    let mut draws = RandomStream::new(seed, 0);
    let mut released = Vec::new();
    let mut under_way: Vec<(Transfer, Vec<u64>)> = Vec::new();
    let mut carried = vec![0; tree.edges.len()];
    tree.begin(bytes, &mut released);
    loop {
        for transfer in released.drain(..) {
            let from = tree.edges[transfer.edge as usize].from;
            under_way.push((transfer, data[from as usize][range(&tree, transfer)].to_vec()));
        }
        if under_way.is_empty() {
            break;
        }
        let (transfer, content) = under_way.swap_remove(draws.integer_below(under_way.len() as u64) as usize);
        let to = tree.edges[transfer.edge as usize].to;
        let into = &mut data[to as usize][range(&tree, transfer)];
        let up = transfer.edge.is_multiple_of(2);
        for (have, got) in into.iter_mut().zip(content) {
            *have = if up { *have + got } else { got };
        }
        carried[transfer.edge as usize] += transfer.bytes;
        tree.handle_arrival(transfer.edge, transfer.sequence, &mut released);
    }
    for (edge, carried) in carried.into_iter().enumerate() {
        assert_eq!(carried, tree.bytes_on_edge(edge as u32, bytes), "edge {edge}");
    }
    data
}

#[test]
fn all_reduce_gives_the_sum_to_every_rank() {
    for shape in shapes() {
        for bytes in [0, 1, 3, 48, 97] {
            for (seed, slice_bytes) in [None, Some(1), Some(5), Some(1_000)].into_iter().enumerate() {
                let ranks = u64::from(shape.ranks);
                let sum = |at| (1..=ranks).map(|rank| rank * 1_000 + at).sum::<u64>();
                let sums: Vec<u64> = (0..bytes).map(sum).collect();
                for (rank, array) in run(shape, slice_bytes, bytes, seed as u64).iter().enumerate() {
                    assert_eq!(*array, sums, "{shape:?} {bytes} {slice_bytes:?} rank {rank}");
                }
            }
        }
    }
}

#[test]
fn trees_are_those_of_nccl() {
    // The figures in `src/graph/trees.cc` of NCCL: 14 nodes, 12 nodes mirrored, 13 nodes shifted.
    let parents = |nodes, which| {
        (0..nodes)
            .map(|node| node_parent(nodes, which, node))
            .collect::<Vec<_>>()
    };
    let of = |list: &[i32]| list.iter().map(|at| u32::try_from(*at).ok()).collect::<Vec<_>>();
    assert_eq!(
        parents(14, 0),
        of(&[-1, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12])
    );
    assert_eq!(parents(12, 1), of(&[1, 3, 1, 11, 5, 7, 5, 3, 9, 7, 9, -1]));
    assert_eq!(parents(13, 1)[1], None);
    assert_eq!(parents(13, 1)[9], Some(1));
}

#[test]
fn a_node_with_children_in_one_tree_is_a_leaf_in_the_other() {
    for nodes in 2..70 {
        let mut children = vec![[0_u32; 2]; nodes as usize];
        for which in 0..2 {
            let mut roots = 0;
            for node in 0..nodes {
                match node_parent(nodes, which, node) {
                    Some(parent) => children[parent as usize][which as usize] += 1,
                    None => roots += 1,
                }
            }
            assert_eq!(roots, 1, "{nodes} nodes");
        }
        assert!(
            children.iter().flatten().all(|count| *count <= 2),
            "{nodes} nodes"
        );
        // With an odd number of nodes, the shift maps one node to itself.
        let both = children
            .iter()
            .filter(|[first, second]| *first > 0 && *second > 0)
            .count();
        assert!(both <= (nodes % 2) as usize, "{nodes} nodes: {children:?}");
    }
}
