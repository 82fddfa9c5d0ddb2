//! Jobs of flows, and several jobs at the same time.

use super::*;
use crate::{
    Algorithm, Collective, Endpoints, FlowSpec, Incast, Permutation, Poisson, Repeat, SizeDistribution,
};

fn flow(src: u32, dst: u32, bytes: u64, repeat: Repeat) -> FlowSpec {
    FlowSpec {
        src,
        dst,
        bytes,
        start: Picos::from_nanos(100),
        repeat,
    }
}

#[test]
fn flows_begin_at_their_time_and_share_connections() {
    let list = vec![
        FlowSpec::once(3, 4, 5_000, Picos::from_nanos(70_000)),
        FlowSpec::once(1, 2, 0, Picos::ZERO),
        FlowSpec::once(3, 4, 1_000, Picos::ZERO),
    ];
    let mut network = Ideal::new(&one(JobKind::Flows(list)), 0);
    network.run();
    assert_eq!(network.workload.connections().len(), 2);
    let results = network.results();
    let starts: Vec<_> = results
        .flows
        .iter()
        .map(|flow| (flow.src, flow.bytes, flow.start_ns))
        .collect();
    assert_eq!(starts, [(1, 0, 0), (3, 1_000, 0), (3, 5_000, 70_000)]);
    for flow in &results.flows {
        assert_eq!(flow.completion_ns, Some(alone(flow.bytes).as_nanos()));
        assert_eq!(
            flow.sender_completion_ns,
            Some((alone(flow.bytes) + LATENCY).as_nanos())
        );
        assert_eq!(flow.slowdown, Some(1.0));
    }
    let job = &results.jobs[0];
    assert_eq!(job.jct_ns, Some(70_000 + alone(5_000).as_nanos()));
    assert_eq!(
        job.roofline_ns,
        70_000 + transmission_time(5_000, RATE_BPS).as_nanos()
    );
    let bins = &job.flows.as_ref().unwrap().bins;
    let ranges: Vec<_> = bins
        .iter()
        .map(|bin| (bin.above_bytes, bin.up_to_bytes, bin.completion_ns.count))
        .collect();
    assert_eq!(ranges, [(None, Some(1_000), 2), (Some(1_000), Some(10_000), 1)]);
}

#[test]
fn open_loop_keeps_its_interval_and_closed_loop_waits() {
    let interval = Picos::from_nanos(10);
    let open = flow(1, 2, 5_000, Repeat::Every { interval, count: 4 });
    let gap = Picos::from_nanos(7);
    let closed = flow(3, 4, 5_000, Repeat::AfterCompletion { gap, count: 3 });
    let (posts, results) = run(JobKind::Flows(vec![open, closed]));
    let of = |src: u32| results.flows.iter().filter(move |flow| flow.src == src);
    let starts: Vec<u64> = of(1).map(|flow| flow.start_ns).collect();
    assert_eq!(starts, [100, 110, 120, 130]);
    let last = of(1).next_back().unwrap();
    // Each message takes 100 ns on the link. The fourth one waits for three others and came 30 ns later.
    assert_eq!(last.completion_ns, Some(alone(5_000).as_nanos() + 270));
    assert!(last.slowdown.unwrap() > 1.2);
    let round = alone(5_000).as_nanos() + LATENCY.as_nanos() + 7;
    let starts: Vec<u64> = of(3).map(|flow| flow.start_ns).collect();
    assert_eq!(starts, [100, 100 + round, 100 + 2 * round]);
    assert_eq!(posts.len(), 7);
}

#[test]
fn permutation_sends_and_receives_once_per_host() {
    let hosts: Vec<u32> = (10..30).collect();
    let kind = |hosts: Vec<u32>| {
        JobKind::Permutation(Permutation {
            hosts,
            bytes: 10_000,
            iterations: 3,
            gap: Picos::from_nanos(5),
        })
    };
    let mut network = Ideal::new(&one(kind(hosts.clone())), 4);
    network.run();
    let connections = network.workload.connections();
    for ends in [|at: &Connection| at.src, |at: &Connection| at.dst] {
        let mut all: Vec<u32> = connections.iter().map(ends).collect();
        all.sort_unstable();
        assert_eq!(all, hosts);
    }
    assert!(connections.iter().all(|at| at.src != at.dst));
    let results = network.results();
    let job = &results.jobs[0];
    assert_eq!(job.jct_ns, Some(3 * alone(10_000).as_nanos() + 2 * 5));
    assert_eq!(
        job.roofline_ns,
        3 * transmission_time(10_000, RATE_BPS).as_nanos() + 2 * 5
    );
    let flows = job.flows.as_ref().unwrap();
    assert_eq!(
        (flows.count, flows.completed, flows.max_mean_throughput_ratio),
        (60, 60, Some(1.0))
    );
    assert!((flows.jain_index.unwrap() - 1.0).abs() < 1e-12);
    assert!(job.collective.is_none());
    let same = Workload::new(&one(kind(hosts.clone())), 4, &rate).unwrap();
    assert_eq!(same.connections(), connections);
    let other = Workload::new(&one(kind(hosts)), 5, &rate).unwrap();
    assert_ne!(other.connections(), connections);
}

#[test]
fn incast_is_limited_by_the_link_of_its_receiver() {
    let (posts, results) = run(JobKind::Incast(Incast {
        senders: (1..=30).collect(),
        receiver: 0,
        bytes: 64_000,
        iterations: 2,
        gap: Picos::from_micros(3),
    }));
    assert_eq!(posts.len(), 60);
    let all = transmission_time(30 * 64_000, RATE_BPS);
    let job = &results.jobs[0];
    assert!(
        job.iterations
            .iter()
            .all(|iteration| iteration.time_ns == (all + LATENCY).as_nanos())
    );
    assert_eq!(job.roofline_ns, 2 * all.as_nanos() + 3_000);
    let flows = job.flows.as_ref().unwrap();
    assert!(
        flows.jain_index.unwrap() < 0.7,
        "first come, first served is not fair"
    );
    assert_eq!(flows.slowdown.unwrap().min, 1.0);
}

fn poisson(load: f64, until: Option<Picos>, flows_max: Option<u32>) -> Poisson {
    Poisson {
        endpoints: Endpoints::Sets {
            sources: (0..16).collect(),
            destinations: (0..16).collect(),
        },
        sizes: SizeDistribution::parse("0 0\n10000 50\n100000 100\n").unwrap(),
        load,
        until,
        flows_max,
        seed: 0,
    }
}

#[test]
fn poisson_arrivals_offer_their_load() {
    let until = Picos::from_millis(5);
    let (_, results) = run(JobKind::Poisson(poisson(0.4, Some(until), None)));
    let offered: u64 = results.flows.iter().map(|flow| flow.bytes).sum();
    // 16 hosts, 50 GB/s, 5 ms and a mean size of 30 kB give 53333 flows. The standard deviation is 0.43 % of
    // their number and 0.62 % of their sum.
    let expected = 0.4 * 16.0 * 50e9 * 0.005;
    assert!(
        (offered as f64 / expected - 1.0).abs() < 0.025,
        "{offered} {expected}"
    );
    assert!(
        (results.flows.len() as f64 / 53_333.0 - 1.0).abs() < 0.017,
        "{}",
        results.flows.len()
    );
    assert!(
        results
            .flows
            .iter()
            .all(|flow| flow.src != flow.dst && flow.start_ns <= 5_000_000)
    );
    // Every destination is equally likely: 15 other hosts, each with a fifteenth of about 3333 flows.
    for dst in 1..16 {
        let count = results
            .flows
            .iter()
            .filter(|flow| flow.src == 0 && flow.dst == dst)
            .count();
        assert!((165..285).contains(&count), "{dst}: {count}");
    }
    let job = &results.jobs[0];
    assert!(job.jct_ratio.unwrap() >= 1.0);
    assert!(
        job.flows.as_ref().unwrap().slowdown.unwrap().p50 > 1.0,
        "a load of 0.4 queues"
    );
}

#[test]
fn poisson_arrivals_end_by_number_and_follow_the_seed() {
    let arrivals = |seed| {
        let kind = JobKind::Poisson(poisson(0.1, None, Some(500)));
        let mut network = Ideal::new(&one(kind), seed);
        network.run();
        network.results().flows
    };
    let first = arrivals(1);
    assert_eq!(first.len(), 500);
    assert_eq!(first, arrivals(1));
    assert_ne!(first, arrivals(2));
}

#[test]
fn background_job_stops_when_the_collective_is_over() {
    let forever = Repeat::AfterCompletion {
        gap: Picos::ZERO,
        count: u32::MAX,
    };
    let mut storage = JobSpec::new("storage", JobKind::Flows(vec![flow(40, 41, 4_096, forever)]));
    storage.background = true;
    let mut ring = Collective::new(Algorithm::RingAllReduce, (0..8).collect(), 8_000_000);
    ring.iterations = 3;
    let mut training = JobSpec::new("training", JobKind::Collective(ring));
    training.start = Picos::from_micros(10);
    let mut network = Ideal::new(
        &WorkloadSpec {
            jobs: vec![storage, training],
        },
        0,
    );
    let end = network.run();
    let results = network.results();
    let [storage, training] = &results.jobs[..] else {
        panic!("two jobs")
    };
    assert_eq!(training.jct_ns, Some(3 * 14 * alone(1_000_000).as_nanos()));
    assert!(!storage.finished && storage.jct_ns.is_none());
    assert!(storage.posted_messages > 100);
    assert_eq!(
        storage.posted_messages, storage.received_messages,
        "what was posted still arrives"
    );
    assert!(end.as_nanos() < 10_000 + training.jct_ns.unwrap() + 4_000);
}

#[test]
fn held_jobs_wait_and_stopped_jobs_post_no_more() {
    let job = |name: &str, src: u32| {
        let every = Repeat::Every {
            interval: Picos::from_micros(1),
            count: 10,
        };
        let flow = FlowSpec {
            start: Picos::ZERO,
            ..flow(src, src + 1, 100, every)
        };
        JobSpec::new(name, JobKind::Flows(vec![flow]))
    };
    let spec = WorkloadSpec {
        jobs: vec![job("own", 0), job("held", 2)],
    };
    let mut workload = Workload::new(&spec, 0, &rate).unwrap();
    workload.hold_job(1);
    let (us, mut out) = (Picos::from_micros, Vec::new());
    let jobs = |workload: &Workload, out: &mut Vec<MessagePost>| -> Vec<usize> {
        let job = |post: MessagePost| workload.connections()[post.connection as usize].job;
        out.drain(..).map(job).collect()
    };
    workload.start(us(0), &mut out);
    workload.advance(us(2), &mut out);
    assert_eq!(jobs(&workload, &mut out), [0, 0, 0]);
    workload.hold_job(0);
    workload.start_job(us(2), 1, &mut out);
    workload.start_job(us(2), 1, &mut out);
    assert_eq!(
        jobs(&workload, &mut out),
        [1],
        "one start, and too late to hold the other"
    );
    workload.stop_job(0);
    workload.advance(us(5), &mut out);
    assert_eq!(jobs(&workload, &mut out), [1, 1, 1]);
    assert!(!workload.is_finished() && !workload.is_over(0));
    workload.stop_job(1);
    assert_eq!(workload.next_start(), Picos::NEVER);
    let results = workload.results(&ideal);
    assert_eq!(results.jobs[1].start_ns, 2_000);
    assert_eq!(
        (results.jobs[0].posted_messages, results.jobs[1].posted_messages),
        (3, 4)
    );
}

#[test]
fn repeated_or_unknown_reports_have_no_effect() {
    let kind = JobKind::Flows(vec![FlowSpec::once(1, 2, 10, Picos::ZERO)]);
    let mut workload = Workload::new(&one(kind), 0, &rate).unwrap();
    let mut out = Vec::new();
    workload.received(Picos(1), MessageId(0), &mut out);
    workload.start(Picos(5), &mut out);
    workload.start(Picos(6), &mut out);
    let [post] = out[..] else {
        panic!("one message, not {out:?}")
    };
    assert!(!workload.is_finished());
    assert_eq!(
        workload.pending_description(|host| ["a", "b", "c"][host as usize]),
        "job `job`: 0 of 1 message complete; 1 message outstanding\n  b to c: 10 bytes, posted 0 ns after the start \
         of the workload, not received\n"
    );
    // The acknowledgement may be reported before the reception.
    workload.acknowledged(Picos(10), post.message, &mut out);
    workload.acknowledged(Picos(11), post.message, &mut out);
    assert!(!workload.is_finished());
    workload.received(Picos(20), post.message, &mut out);
    assert!(workload.is_finished());
    workload.received(Picos(30), post.message, &mut out);
    workload.received(Picos(30), MessageId(u64::MAX), &mut out);
    assert_eq!(out.len(), 1);
    let results = workload.results(&|_, _| Some(Picos(15)));
    assert_eq!(results.flows[0].slowdown, Some(1.0), "from 5 to 20");
    assert_eq!(results.jobs[0].received_messages, 1);
}

#[test]
fn a_divided_message_is_complete_after_all_of_its_requests() {
    let kind = JobKind::Flows(vec![FlowSpec::once(1, 2, 10, Picos::ZERO)]);
    let mut workload = Workload::new(&one(kind), 0, &rate).unwrap();
    let mut out = Vec::new();
    workload.start(Picos(5), &mut out);
    let message = out[0].message;
    workload.divide_message(message, 3);
    for at in [10, 11, 12] {
        assert!(workload.pending_description(|_| "host").contains("not received"));
        workload.received(Picos(at), message, &mut out);
    }
    assert!(
        workload
            .pending_description(|_| "host")
            .contains("not acknowledged")
    );
    for at in [13, 14, 15] {
        assert!(!workload.is_finished());
        workload.acknowledged(Picos(at), message, &mut out);
    }
    assert!(workload.is_finished());
    let results = workload.results(&|_, _| Some(Picos(7)));
    assert_eq!(results.flows[0].slowdown, Some(1.0), "from 5 to 12");
    assert_eq!(results.jobs[0].received_messages, 1);
}

#[test]
fn same_jobs_and_seed_give_the_same_run() {
    let mut ring = Collective::new(Algorithm::TreeAllReduce, (20..33).collect(), 100_000);
    (ring.iterations, ring.slice_bytes) = (3, Some(4_096));
    let permutation = Permutation {
        hosts: (0..20).collect(),
        bytes: 30_000,
        iterations: 4,
        gap: Picos(1),
    };
    let spec = WorkloadSpec {
        jobs: vec![
            JobSpec::new("tree", JobKind::Collective(ring)),
            JobSpec::new("permutation", JobKind::Permutation(permutation)),
            JobSpec::new("rpc", JobKind::Poisson(poisson(0.3, None, Some(400)))),
        ],
    };
    let run = |seed| {
        let mut network = Ideal::new(&spec, seed);
        let end = network.run();
        let results = network.results();
        (end, network.posts, results)
    };
    let (first, again) = (run(7), run(7));
    assert!(first == again);
    assert!(first.1 != run(8).1);
    // The JSON output can be read back. Floats may differ in the last digit.
    let read: WorkloadResults = serde_json::from_str(&serde_json::to_string(&first.2).unwrap()).unwrap();
    let spans = |results: &WorkloadResults| {
        results
            .flows
            .iter()
            .map(|flow| flow.completion_ns)
            .collect::<Vec<_>>()
    };
    assert!(spans(&read) == spans(&first.2) && read.flows.len() == 480);
    assert!(read.jobs[0].iterations == first.2.jobs[0].iterations);
}

#[test]
fn huge_sizes_saturate_the_counters() {
    let list = (0..3).map(|n| FlowSpec::once(1, 2, u64::MAX, Picos(n))).collect();
    let ring = Collective::new(Algorithm::RingAllReduce, vec![3, 4, 5], u64::MAX);
    let tree = Collective::new(Algorithm::TreeAllReduce, vec![3, 4, 5], u64::MAX);
    let kinds = [
        JobKind::Flows(list),
        JobKind::Collective(ring),
        JobKind::Collective(tree),
    ];
    let jobs = kinds.map(|kind| JobSpec::new("huge", kind)).into();
    let mut workload = Workload::new(&WorkloadSpec { jobs }, 0, &rate).unwrap();
    let mut out = Vec::new();
    workload.start(Picos::ZERO, &mut out);
    workload.advance(Picos(5), &mut out);
    let mut at = 0;
    while let Some(post) = out.get(at).copied() {
        at += 1;
        workload.received(Picos(10), post.message, &mut out);
        workload.acknowledged(Picos(10), post.message, &mut out);
    }
    assert!(workload.is_finished());
    let results = workload.results(&|_, _| Some(Picos::NEVER));
    assert!(
        results
            .jobs
            .iter()
            .all(|job| job.received_bytes == u64::MAX && job.finished)
    );
}

#[test]
fn the_posting_times_of_outstanding_messages_count_from_the_start_of_the_workload() {
    let kind = JobKind::Flows(vec![FlowSpec::once(1, 2, 1, Picos::from_micros(3))]);
    let mut workload = Workload::new(&one(kind), 0, &rate).unwrap();
    let mut out = Vec::new();
    workload.start(Picos::from_micros(140), &mut out);
    workload.advance(Picos::from_micros(143), &mut out);
    let text = workload.pending_description(|_| "a");
    assert!(
        text.contains("1 byte, posted 3000 ns after the start of the workload"),
        "{text}"
    );
}

/// The named messages do not depend on their slots. A message that is posted late has the slot of a completed one.
#[test]
fn a_pending_job_names_the_messages_that_it_posted_first() {
    let flow = |src, bytes, start_us| FlowSpec::once(src, 9, bytes, Picos::from_micros(start_us));
    let early = (1..8).map(|src| flow(src, u64::from(src), 0));
    let late = (1..3).map(|src| flow(src, 100 + u64::from(src), 5));
    let mut workload = Workload::new(&one(JobKind::Flows(early.chain(late).collect())), 0, &rate).unwrap();
    let mut out = Vec::new();
    workload.start(Picos::ZERO, &mut out);
    for post in out.clone().into_iter().take(2) {
        workload.received(Picos(10), post.message, &mut out);
        workload.acknowledged(Picos(10), post.message, &mut out);
    }
    workload.advance(Picos::from_micros(5), &mut out);
    let text = workload.pending_description(|_| "a host");
    assert!(text.contains("7 messages outstanding"), "{text}");
    let bytes = text
        .lines()
        .skip(1)
        .map(|line| line.split_once(": ").unwrap().1.split_once(' ').unwrap().0);
    assert_eq!(bytes.collect::<Vec<_>>(), ["3", "4", "5", "6", "7"], "{text}");
}
