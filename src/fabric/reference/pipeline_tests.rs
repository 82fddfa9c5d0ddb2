//! The closed form and the repetition against packets one by one.

use super::*;

fn hop(speed_mbps: u32, latency_ns: u64) -> Hop {
    Hop {
        timing: LinkTiming::ethernet(speed_mbps),
        tag_bytes: 0,
        latency: Picos::from_nanos(latency_ns),
    }
}

fn run(frame_len: u32, count: u64) -> Run {
    Run { frame_len, count }
}

/// Packets one by one over links in a row.
fn one_by_one(path: &[Hop], train: &[Run]) -> Picos {
    let mut free = vec![0; path.len()];
    let mut last = 0;
    for run in train {
        for _ in 0..run.count {
            let mut at = 0_u64;
            for (hop, free) in path.iter().zip(&mut free) {
                *free = at.max(*free) + hop.occupied(run.frame_len);
                at = hop.arrival(*free);
            }
            last = at;
        }
    }
    Picos(last)
}

fn draws(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |bound| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    }
}

#[test]
fn the_closed_form_is_that_of_packets_one_by_one() {
    let mut below = draws(1);
    for _ in 0..500 {
        let path: Vec<Hop> = (0..1 + below(7))
            .map(|_| {
                hop(
                    [7, 1_000, 10_000, 25_000, 100_000, 400_000][below(6) as usize],
                    below(5_000),
                )
            })
            .collect();
        let train: Vec<Run> = (0..1 + below(4))
            .map(|_| run(40 + below(4_200) as u32, below(40)))
            .collect();
        let expected = one_by_one(&path, &train);
        if train.iter().any(|run| run.count > 0) {
            assert_eq!(
                over_path(&path, &train, Picos::ZERO),
                expected,
                "{path:?} {train:?}"
            );
        }
    }
}

#[test]
fn stages_of_one_link_are_a_path() {
    let mut below = draws(2);
    for _ in 0..200 {
        let path: Vec<Hop> = (0..1 + below(6))
            .map(|_| hop([1_000, 10_000, 25_000, 100_000][below(4) as usize], below(5_000)))
            .collect();
        let train = [
            run(1_074, 1),
            run(1_058, 1 + below(5_000)),
            run(62 + below(996) as u32, 1),
        ];
        let stages: Vec<Stage> = path
            .iter()
            .map(|hop| Stage {
                links: vec![(*hop, 1)],
            })
            .collect();
        let released = Picos(below(1_000_000));
        assert_eq!(
            over_stages(&stages, &train, released),
            over_path(&path, &train, released),
            "{path:?} {train:?}"
        );
    }
}

#[test]
fn skipped_packets_change_nothing() {
    let mut below = draws(3);
    for _ in 0..200 {
        let stage = |_| {
            let hop = hop([10_000, 25_000, 40_000, 100_000][below(4) as usize], below(3_000));
            Stage {
                links: vec![(hop, 1 + below(6) as usize)],
            }
        };
        let stages: Vec<Stage> = (0..5).map(stage).collect();
        let train = [run(1_074, 1), run(1_058, 3_000), run(62 + below(996) as u32, 1)];
        let mut pipeline = Pipeline::new(&stages, 0);
        for run in &train {
            for links in pipeline.stages.iter_mut().flat_map(|stage| &mut stage.kinds) {
                links.occupied = links.hop.occupied(run.frame_len);
            }
            pipeline.send_packets(run.count);
        }
        assert_eq!(
            over_stages(&stages, &train, Picos::ZERO),
            Picos(pipeline.last_arrival),
            "{stages:?} {train:?}"
        );
    }
}

#[test]
fn four_links_of_a_quarter_of_the_speed_are_as_fast_as_one() {
    let train = [run(1_058, 1_000)];
    let (host, uplink) = (hop(100_000, 0), hop(25_000, 0));
    let stages = [(host, 1), (uplink, 4), (uplink, 4), (host, 1)].map(|links| Stage { links: vec![links] });
    // 1000 packets of 1082 bytes, and the last one over three more links; less the gaps that no arrival waits for.
    let byte = 80;
    let expected = 1_082 * byte * 1_000 + 1_082 * byte * (4 + 4 + 1) - 12 * byte * (1 + 4 + 4 + 1);
    assert_eq!(over_stages(&stages, &train, Picos::ZERO), Picos(expected));
}

#[test]
fn a_million_million_packets_take_no_time_to_count() {
    let train = [run(1_058, 1_000_000_000_000)];
    let path = [hop(400_000, 0), hop(100_000, 0)];
    let expected = 1_000_000_000_000 * 1_082 * 80 + 1_082 * 20 - 12 * (20 + 80);
    assert_eq!(over_path(&path, &train, Picos::ZERO), Picos(expected));
    let stages = path.map(|hop| Stage {
        links: vec![(hop, 2)],
    });
    let spread = over_stages(&stages, &train, Picos::ZERO);
    assert!(
        spread.0 > expected / 2 - 100_000 && spread.0 < expected / 2 + 1_000_000,
        "{spread:?}"
    );
}
