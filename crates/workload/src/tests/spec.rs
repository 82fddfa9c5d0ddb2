//! Invalid specifications are refused with the right problem.

use super::*;
use crate::{
    Algorithm, Collective, Endpoints, FlowSpec, Incast, Permutation, Poisson, Repeat, SizeDistribution, Verb,
};

fn refusal(kind: JobKind) -> String {
    Workload::new(&one(kind), 0, &rate).unwrap_err().to_string()
}

fn ring(ranks: Vec<u32>) -> Collective {
    Collective::new(Algorithm::RingAllReduce, ranks, 100)
}

#[test]
fn collectives_need_two_or_more_different_ranks() {
    for (ranks, reason) in [
        (vec![], "job `job`: 0 ranks or hosts; expected 2 to 65536"),
        (vec![1], "job `job`: 1 ranks or hosts; expected 2 to 65536"),
        (vec![1, 2, 1], "job `job`: host 1 is listed twice"),
        (
            vec![1, HOSTS],
            "job `job`: there is no host 4096, or it has no link",
        ),
    ] {
        assert_eq!(refusal(JobKind::Collective(ring(ranks.clone()))), reason);
        let permutation = Permutation {
            hosts: ranks,
            bytes: 1,
            iterations: 1,
            gap: Picos::ZERO,
        };
        assert_eq!(refusal(JobKind::Permutation(permutation)), reason);
    }
}

#[test]
fn collectives_need_full_nodes_and_positive_numbers() {
    type Change = fn(&mut Collective);
    let cases: [(Change, &str); 9] = [
        (
            |spec| spec.gpus_per_node = 3,
            "4 ranks at 3 per node are not two or more full nodes",
        ),
        (
            |spec| spec.gpus_per_node = 4,
            "4 ranks at 4 per node are not two or more full nodes",
        ),
        (|spec| spec.gpus_per_node = 0, "`gpus_per_node` must be positive"),
        (|spec| spec.iterations = 0, "`iterations` must be positive"),
        (
            |spec| spec.slice_bytes = Some(0),
            "`slice_bytes` must be positive",
        ),
        (|spec| spec.nvlink_bps = Some(0), "`nvlink_bps` must be positive"),
        (|spec| spec.bytes.clear(), "the list `sizes` is empty"),
        (
            |spec| (spec.bytes, spec.slice_bytes) = (vec![1 << 40], Some(1)),
            "slices with a size of 1 divide the largest size into more than 1048576",
        ),
        (
            |spec| {
                spec.ranks = (0..4096).collect();
                spec.gpus_per_node = 2048;
                spec.algorithm = Algorithm::TreeAllReduce;
            },
            "33554432 connections between its ranks are more than 16777216",
        ),
    ];
    for (change, reason) in cases {
        let mut spec = ring(vec![0, 1, 2, 3]);
        change(&mut spec);
        assert_eq!(refusal(JobKind::Collective(spec)), format!("job `job`: {reason}"));
    }
}

#[test]
fn flows_need_two_different_known_hosts() {
    let once = |src, dst| JobKind::Flows(vec![FlowSpec::once(src, dst, 1, Picos::ZERO)]);
    assert_eq!(refusal(once(3, 3)), "job `job`: host 3 sends to itself");
    assert_eq!(
        refusal(once(3, HOSTS)),
        "job `job`: there is no host 4096, or it has no link"
    );
    assert_eq!(
        refusal(JobKind::Replay(Vec::new())),
        "job `job`: the list `flows` is empty"
    );
    let every = |interval, count| {
        let mut flow = FlowSpec::once(1, 2, 1, Picos::ZERO);
        flow.repeat = Repeat::Every {
            interval: Picos(interval),
            count,
        };
        JobKind::Flows(vec![flow])
    };
    assert_eq!(refusal(every(1, 0)), "job `job`: `count` must be positive");
    assert_eq!(refusal(every(1, u32::MAX)), "job `job`: more than 16777216 flows");
    assert_eq!(refusal(every(0, 2)), "job `job`: `interval` must be positive");
    let incast = |senders: Vec<u32>| {
        JobKind::Incast(Incast {
            senders,
            receiver: 7,
            bytes: 1,
            iterations: 1,
            gap: Picos::ZERO,
        })
    };
    assert_eq!(refusal(incast(vec![1, 7])), "job `job`: host 7 sends to itself");
    assert_eq!(
        refusal(incast(vec![])),
        "job `job`: 0 ranks or hosts; expected 1 to 65536"
    );
}

#[test]
fn arrivals_need_a_load_and_an_end() {
    let poisson = |load, flows_max, destinations: Vec<u32>| {
        JobKind::Poisson(Poisson {
            endpoints: Endpoints::Sets {
                sources: vec![1, 2],
                destinations,
            },
            sizes: SizeDistribution::constant(1_000),
            load,
            until: None,
            flows_max,
            seed: 0,
        })
    };
    for load in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(
            refusal(poisson(load, Some(1), vec![3])),
            "job `job`: the load is not a positive number"
        );
    }
    assert_eq!(
        refusal(poisson(0.5, None, vec![3])),
        "job `job`: neither `until` nor `flows_max` ends the arrivals"
    );
    assert_eq!(
        refusal(poisson(0.5, Some(1), vec![2])),
        "job `job`: host 2 sends to itself"
    );
    assert_eq!(
        refusal(poisson(0.5, Some(u32::MAX), vec![3])),
        "job `job`: more than 16777216 flows"
    );
}

#[test]
fn options_of_a_job_reach_connections_and_posts() {
    let mut spec = one(JobKind::Collective(ring(vec![5, 6])));
    spec.jobs[0].qps_per_connection = 0;
    let error = Workload::new(&spec, 0, &rate).unwrap_err();
    assert_eq!(
        error.to_string(),
        "job `job`: `qps_per_connection` must be positive"
    );
    let job = &mut spec.jobs[0];
    (job.qps_per_connection, job.transport, job.verb) = (4, 9, Verb::Read);
    let mut network = Ideal::new(&spec, 0);
    network.run();
    let connections = network.workload.connections();
    let ends: Vec<_> = connections
        .iter()
        .map(|at| (at.src, at.dst, at.qps, at.transport))
        .collect();
    assert_eq!(ends, [(5, 6, 4, 9), (6, 5, 4, 9)]);
    assert!(network.posts.iter().all(|(_, post)| post.verb == Verb::Read));
}

#[test]
fn fixed_pairs_equal_the_connections_of_the_workload() {
    let pairs = |kind: JobKind| JobSpec::new("job", kind).fixed_pairs(&rate).unwrap();
    let mut ring = ring(vec![0, 1, 2, 3]);
    ring.gpus_per_node = 2;
    let specs = [
        JobKind::Collective(ring.clone()),
        JobKind::Collective(Collective {
            algorithm: Algorithm::AllToAll { rail_aligned: true },
            ..ring.clone()
        }),
        JobKind::Flows(vec![FlowSpec::once(3, 1, 5, Picos::ZERO); 2]),
        JobKind::Incast(Incast {
            senders: vec![1, 2],
            receiver: 0,
            bytes: 1,
            iterations: 1,
            gap: Picos::ZERO,
        }),
    ];
    for kind in specs {
        let workload = Workload::new(&one(kind.clone()), 0, &rate).unwrap();
        let connected = workload.connections().iter().map(|c| (c.src, c.dst));
        assert_eq!(pairs(kind), Some(connected.collect()));
    }
    let rail = [(1, 3), (3, 1), (0, 2), (2, 0)];
    let of_ring = pairs(JobKind::Collective(ring)).unwrap();
    assert!(of_ring.iter().all(|pair| rail.contains(pair)), "{of_ring:?}");
    let permutation = Permutation {
        hosts: vec![0, 1, 2],
        bytes: 1,
        iterations: 1,
        gap: Picos::ZERO,
    };
    assert_eq!(pairs(JobKind::Permutation(permutation)), None);
    let unknown = JobKind::Flows(vec![FlowSpec::once(HOSTS, 1, 5, Picos::ZERO)]);
    assert!(JobSpec::new("job", unknown).fixed_pairs(&rate).is_err());
}
