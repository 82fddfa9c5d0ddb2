use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;

fn setting(shape: &str, queue_pairs: u16) -> Setting {
    Setting {
        shape: shape.parse().unwrap(),
        queue_pairs,
        vary: Vary::default(),
        numbering: Numbering::default(),
        source_port: None,
        load_balancing: None,
        config: None,
    }
}

#[test]
fn shares_that_are_known_by_hand() {
    // One flow crosses both links, one each crosses one of them; two links are wide.
    let wide = f64::INFINITY;
    let flows = [[0, 1], [0, 2], [1, 3]];
    assert_eq!(max_min(&[1.0, 4.0, wide, wide], &flows), [0.5, 0.5, 3.5]);
    assert_eq!(max_min(&[4.0, 1.0, wide, wide], &flows), [0.5, 3.5, 0.5]);
    assert_eq!(max_min::<1>(&[1.0], &[]), [0.0; 0]);
}

/// Rates are max-min fair just when each flow crosses a full link on which none has more.
#[test]
fn every_flow_has_a_bottleneck() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut below = |bound: u64| (random.next_u64() % bound) as usize;
    for _ in 0..300 {
        let capacities: Vec<f64> = (0..1 + below(9)).map(|_| 1.0 + below(5) as f64).collect();
        let links = capacities.len() as u64;
        let flows: Vec<[usize; 3]> = (0..1 + below(20))
            .map(|_| {
                let first = below(links);
                // Each link once: the others are the next ones, or the same flow on fewer links.
                [
                    first,
                    (first + 1) % capacities.len(),
                    (first + 2) % capacities.len(),
                ]
            })
            .filter(|[a, b, c]| a != b && b != c && a != c)
            .collect();
        let rates = max_min(&capacities, &flows);
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
fn a_placement_in_figures() {
    // Two hosts share an uplink, one has its own, one uplink is idle.
    let (rates, outcome) = outcome(&setting("3/3", 1), &[0, 0, 2]);
    assert_eq!(rates, [0.5, 0.5, 1.0]);
    assert_eq!((outcome.utilisation, outcome.slowest), (2.0 / 3.0, 0.5));
    // Uplinks of twice the speed, and two queue pairs a host: h1 alone on uplink 0, h2 on both.
    let (rates, outcome) = super::outcome(&setting("2/1", 2), &[0, 0, 0, 0]);
    assert_eq!(rates, [0.5; 4]);
    assert_eq!((outcome.utilisation, outcome.slowest), (1.0, 1.0));
}

#[test]
fn leaves_are_written_as_hosts_and_uplinks() {
    let shape: Shape = "8/4".parse().unwrap();
    assert_eq!((shape.host_mbps(), shape.uplink_mbps()), (100_000, 200_000));
    assert_eq!(shape.to_string(), "8/4");
    let steep: Shape = "128/1".parse().unwrap();
    assert_eq!((steep.host_mbps(), steep.uplink_mbps()), (10_000, 1_280_000));
    for wrong in ["8", "0/4", "4/0", "129/4", "a/b", "4/4/4"] {
        assert!(wrong.parse::<Shape>().unwrap_err().contains("8/4"), "{wrong}");
    }
}
