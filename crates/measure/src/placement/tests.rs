use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;

fn parameters(shape: &str, queue_pairs: u16) -> PlacementParameters {
    PlacementParameters {
        shape: shape.parse().unwrap(),
        queue_pairs,
        vary: SeedInput::default(),
        numbering: QueuePairNumbering::default(),
        source_port: None,
        load_balancing: None,
        config: None,
    }
}

#[test]
fn max_min_rates_match_hand_calculated_values() {
    // One flow uses both links. Each link also has one flow of its own. The other two links have
    // unlimited capacity.
    let wide = f64::INFINITY;
    let flows = [[0, 1], [0, 2], [1, 3]];
    assert_eq!(max_min_rates(&[1.0, 4.0, wide, wide], &flows), [0.5, 0.5, 3.5]);
    assert_eq!(max_min_rates(&[4.0, 1.0, wide, wide], &flows), [0.5, 3.5, 0.5]);
    assert_eq!(max_min_rates::<1>(&[1.0], &[]), [0.0; 0]);
}

/// Checks that rates are max-min fair: each flow uses a full link on which no other flow has a higher rate.
#[test]
fn max_min_rates_give_every_flow_a_bottleneck() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut below = |bound: u64| (random.next_u64() % bound) as usize;
    for _ in 0..300 {
        let capacities: Vec<f64> = (0..1 + below(9)).map(|_| 1.0 + below(5) as f64).collect();
        let links = capacities.len() as u64;
        let flows: Vec<[usize; 3]> = (0..1 + below(20))
            .map(|_| {
                let first = below(links);
                // A flow uses each link once: a random link and the next two links.
                [
                    first,
                    (first + 1) % capacities.len(),
                    (first + 2) % capacities.len(),
                ]
            })
            .filter(|[a, b, c]| a != b && b != c && a != c)
            .collect();
        let rates = max_min_rates(&capacities, &flows);
        let load = |link: usize| -> f64 {
            let on = flows.iter().zip(&rates).filter(|(flow, _)| flow.contains(&link));
            on.map(|(_, rate)| rate).sum()
        };
        let most = |link: usize| {
            let on = flows.iter().zip(&rates).filter(|(flow, _)| flow.contains(&link));
            on.map(|(_, rate)| *rate).fold(0.0, f64::max)
        };
        for (link, capacity) in capacities.iter().enumerate() {
            assert!(load(link) <= capacity + 1e-9);
        }
        for (flow, rate) in flows.iter().zip(&rates) {
            assert!(
                flow.iter()
                    .any(|&link| load(link) >= capacities[link] - 1e-9 && *rate >= most(link) - 1e-9),
                "{flow:?} has {rate} of {capacities:?}"
            );
        }
    }
}

#[test]
fn utilisation_of_hand_calculated_placements() {
    // Two hosts share an uplink, one host has its own uplink, and one uplink is idle.
    let (rates, outcome) = compute_rates(&parameters("3/3", 1), &[0, 0, 2]);
    assert_eq!(rates, [0.5, 0.5, 1.0]);
    assert_eq!((outcome.utilisation, outcome.slowest), (2.0 / 3.0, 0.5));
    // The uplink is twice as fast as a host link, and each host has two queue pairs.
    let (rates, outcome) = super::compute_rates(&parameters("2/1", 2), &[0, 0, 0, 0]);
    assert_eq!(rates, [0.5; 4]);
    assert_eq!((outcome.utilisation, outcome.slowest), (1.0, 1.0));
}

#[test]
fn leaf_shape_parses_hosts_and_uplinks() {
    let shape: LeafShape = "8/4".parse().unwrap();
    assert_eq!((shape.host_mbps(), shape.uplink_mbps()), (100_000, 200_000));
    assert_eq!(shape.to_string(), "8/4");
    let steep: LeafShape = "128/1".parse().unwrap();
    assert_eq!((steep.host_mbps(), steep.uplink_mbps()), (10_000, 1_280_000));
    for wrong in ["8", "0/4", "4/0", "129/4", "a/b", "4/4/4"] {
        assert!(wrong.parse::<LeafShape>().unwrap_err().contains("8/4"), "{wrong}");
    }
}
