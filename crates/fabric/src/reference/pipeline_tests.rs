//! Compares the closed formula, and the method that skips periods, with a simulation of single packets.

use super::*;
use xoff_testing::random_generator;

fn hop(speed_mbps: u32, latency_ns: u64) -> LinkHop {
    LinkHop {
        timing: LinkTiming::ethernet(speed_mbps),
        tag_bytes: 0,
        latency: Picos::from_nanos(latency_ns),
    }
}

fn run(frame_len: u32, count: u64) -> EqualLengthPackets {
    EqualLengthPackets { frame_len, count }
}

/// Sends single packets over links in series.
fn one_by_one(path: &[LinkHop], train: &[EqualLengthPackets]) -> Picos {
    let mut free = vec![0; path.len()];
    let mut last = 0;
    for run in train {
        for _ in 0..run.count {
            let mut at = 0_u64;
            for (hop, free) in path.iter().zip(&mut free) {
                *free = at.max(*free) + hop.transmission_ps(run.frame_len);
                at = hop.arrival_ps(*free);
            }
            last = at;
        }
    }
    Picos(last)
}

#[test]
fn the_closed_form_equals_a_simulation_of_single_packets() {
    let mut below = random_generator(1);
    for _ in 0..500 {
        let path: Vec<LinkHop> = (0..1 + below(7))
            .map(|_| {
                hop(
                    [7, 1_000, 10_000, 25_000, 100_000, 400_000][below(6) as usize],
                    below(5_000),
                )
            })
            .collect();
        let train: Vec<EqualLengthPackets> = (0..1 + below(4))
            .map(|_| run(40 + below(4_200) as u32, below(40)))
            .collect();
        let expected = one_by_one(&path, &train);
        if train.iter().any(|run| run.count > 0) {
            assert_eq!(
                last_arrival_over_path(&path, &train, Picos::ZERO),
                expected,
                "{path:?} {train:?}"
            );
        }
    }
}

#[test]
fn stages_of_one_link_equal_a_path() {
    let mut below = random_generator(2);
    for _ in 0..200 {
        let path: Vec<LinkHop> = (0..1 + below(6))
            .map(|_| hop([1_000, 10_000, 25_000, 100_000][below(4) as usize], below(5_000)))
            .collect();
        let train = [
            run(1_074, 1),
            run(1_058, 1 + below(5_000)),
            run(62 + below(996) as u32, 1),
        ];
        let stages: Vec<Stage> = path.iter().map(|hop| Stage::single_link(*hop)).collect();
        let released = Picos(below(1_000_000));
        assert_eq!(
            last_arrival_over_stages(&stages, &train, released),
            last_arrival_over_path(&path, &train, released),
            "{path:?} {train:?}"
        );
    }
}

#[test]
fn skipped_periods_do_not_change_the_result() {
    let mut below = random_generator(3);
    for _ in 0..200 {
        let order = [QueueOrder::AsSent, QueueOrder::AsArrived, QueueOrder::Unknown][below(3) as usize];
        let stage = |_| {
            let hop = hop([10_000, 25_000, 40_000, 100_000][below(4) as usize], below(3_000));
            Stage {
                links: vec![(hop, 1 + below(6) as usize)],
                order,
            }
        };
        let mut stages: Vec<Stage> = (0..5).map(stage).collect();
        stages[0].links[0].1 = 1;
        let last = 62 + below(996) as u32;
        let train = [run(1_058, 3_000), run(last, 1)];
        let mut pipeline = Pipeline::new(&stages, 0);
        // All packets are computed stage by stage.
        let frame_lens: Vec<u32> = [1_058; 3_000].into_iter().chain([last]).collect();
        pipeline.send_last_packets(&frame_lens);
        let expected = Picos(pipeline.last_arrival);
        if order != QueueOrder::Unknown {
            assert_eq!(
                last_arrival_over_stages(&stages, &train, Picos::ZERO),
                expected,
                "{stages:?} {train:?}"
            );
        }
        let mut pipeline = Pipeline::new(&stages, 0);
        for run in &train {
            pipeline
                .stages
                .iter_mut()
                .for_each(|stage| stage.set_frame_len(run.frame_len));
            pipeline.send_packets(run.count);
        }
        let one_by_one = pipeline.last_arrival;
        let mut pipeline = Pipeline::new(&stages, 0);
        train
            .iter()
            .for_each(|run| pipeline.send_equal_length_packets(run));
        assert_eq!(pipeline.last_arrival, one_by_one, "{stages:?} {train:?}");
    }
}

/// Links of a network, each with its own queue.
struct LinkQueues {
    hops: Vec<LinkHop>,
    free: Vec<u64>,
}

impl LinkQueues {
    fn new(hops: &[LinkHop]) -> LinkQueues {
        LinkQueues {
            hops: hops.to_vec(),
            free: vec![0; hops.len()],
        }
    }

    /// Sends packets over their links in the order of their arrival at each link. Returns the time of the
    /// last arrival.
    fn send_packets_over_links(&mut self, packets: &[(u32, Vec<usize>)]) -> u64 {
        let mut events: BinaryHeap<Reverse<(u64, usize, usize)>> = BinaryHeap::new();
        (0..packets.len()).for_each(|packet| events.push(Reverse((0, packet, 0))));
        let mut last = 0;
        while let Some(Reverse((at, packet, step))) = events.pop() {
            let (frame_len, links) = &packets[packet];
            let Some(link) = links.get(step) else {
                last = last.max(at);
                continue;
            };
            let free = at.max(self.free[*link]) + self.hops[*link].transmission_ps(*frame_len);
            self.free[*link] = free;
            events.push(Reverse((self.hops[*link].arrival_ps(free), packet, step + 1)));
        }
        last
    }
}

/// A message whose last packet is shorter than the others.
fn short_ending(below: &mut impl FnMut(u64) -> u64) -> Vec<EqualLengthPackets> {
    let (full, short, count) = (300 + below(4_000) as u32, 62 + below(238) as u32, below(60));
    vec![run(full + 16, 1), run(full, count), run(short, 1)]
}

/// Compares the result for `stages` with a simulation in which each link has its own queue. `path_of` returns
/// the links of the packet with a given index.
#[track_caller]
fn assert_equals_separate_queues(
    stages: &[Stage],
    hops: &[LinkHop],
    train: &[EqualLengthPackets],
    path_of: impl Fn(usize) -> Vec<usize>,
) {
    let frame_lens = train.iter().flat_map(|run| (0..run.count).map(|_| run.frame_len));
    let packets = frame_lens
        .enumerate()
        .map(|(packet, frame_len)| (frame_len, path_of(packet)));
    let packets: Vec<_> = packets.collect();
    assert_eq!(
        last_arrival_over_stages(stages, train, Picos::ZERO),
        Picos(LinkQueues::new(hops).send_packets_over_links(&packets)),
        "{stages:?} {train:?}"
    );
}

#[test]
fn spraying_over_spines_equals_separate_queues() {
    let mut below = random_generator(5);
    for _ in 0..500 {
        let spines = 1 + below(8) as usize;
        let speed = |below: &mut dyn FnMut(u64) -> u64| [25_000, 40_000, 100_000, 200_000][below(4) as usize];
        let (host, uplink) = (
            hop(speed(&mut below), below(1_000)),
            hop(speed(&mut below), below(1_000)),
        );
        let train = short_ending(&mut below);
        let stage = |order| Stage {
            links: vec![(uplink, spines)],
            order,
        };
        let stages = [
            Stage::single_link(host),
            stage(QueueOrder::AsSent),
            stage(QueueOrder::AsArrived),
            Stage::single_link(host),
        ];
        let mut hops = vec![host, host];
        hops.extend(vec![uplink; 2 * spines]);
        assert_equals_separate_queues(&stages, &hops, &train, |packet| {
            let spine = packet % spines;
            vec![0, 2 + spine, 2 + spines + spine, 1]
        });
    }
}

/// A fat tree with two aggregation switches in each pod and `cores` core switches for
/// each aggregation switch.
#[test]
fn spraying_over_a_fat_tree_equals_separate_queues() {
    let mut below = random_generator(6);
    for _ in 0..500 {
        let cores = 1 + below(4) as usize;
        let speed = |below: &mut dyn FnMut(u64) -> u64| [25_000, 50_000, 100_000][below(3) as usize];
        let (host, edge, core) = (
            hop(speed(&mut below), 500),
            hop(speed(&mut below), 500),
            hop(speed(&mut below), 500),
        );
        let train = short_ending(&mut below);
        let stage = |hop, links, order| Stage {
            links: vec![(hop, links)],
            order,
        };
        let stages = [
            Stage::single_link(host),
            stage(edge, 2, QueueOrder::AsSent),
            stage(core, 2 * cores, QueueOrder::AsSent),
            stage(core, 2 * cores, QueueOrder::AsArrived),
            stage(edge, 2, QueueOrder::AsArrived),
            Stage::single_link(host),
        ];
        let mut hops = vec![host, host, edge, edge, edge, edge];
        hops.extend(vec![core; 4 * cores]);
        assert_equals_separate_queues(&stages, &hops, &train, |packet| {
            let (side, place) = (packet % 2, packet % (2 * cores));
            vec![0, 2 + side, 6 + place, 6 + 2 * cores + place, 4 + side, 1]
        });
    }
}

#[test]
fn four_links_of_a_quarter_of_the_speed_are_as_fast_as_one() {
    let train = [run(1_058, 1_000)];
    let (host, uplink) = (hop(100_000, 0), hop(25_000, 0));
    let stages = [(host, 1), (uplink, 4), (uplink, 4), (host, 1)].map(|links| Stage {
        links: vec![links],
        order: QueueOrder::AsArrived,
    });
    // 1000 packets of 1082 bytes, and the last one over three more links, without the gaps that do not
    // delay arrivals.
    let byte = 80;
    let expected = 1_082 * byte * 1_000 + 1_082 * byte * (4 + 4 + 1) - 12 * byte * (1 + 4 + 4 + 1);
    assert_eq!(
        last_arrival_over_stages(&stages, &train, Picos::ZERO),
        Picos(expected)
    );
}

#[test]
fn a_long_message_needs_no_long_computation() {
    let train = [run(1_058, 1_000_000_000_000)];
    let path = [hop(400_000, 0), hop(100_000, 0)];
    let expected = 1_000_000_000_000 * 1_082 * 80 + 1_082 * 20 - 12 * (20 + 80);
    assert_eq!(
        last_arrival_over_path(&path, &train, Picos::ZERO),
        Picos(expected)
    );
    let stages = path.map(|hop| Stage {
        links: vec![(hop, 2)],
        order: QueueOrder::AsSent,
    });
    let spread = last_arrival_over_stages(&stages, &train, Picos::ZERO);
    assert!(
        spread.0 > expected / 2 - 100_000 && spread.0 < expected / 2 + 1_000_000,
        "{spread:?}"
    );
}
