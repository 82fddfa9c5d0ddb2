//! Tests of the share of uplink capacity that ECMP uses. The tests compare placements by the hash of the
//! switch with random placements and the published table, and frames with PFC with arithmetic. `xoff bench
//! placement` does the same for thousands of seeds.

use std::sync::atomic::AtomicBool;

use xoff_lab::switch_configuration;
use xoff_measure::placement::{
    FrameRunParameters, LeafSwitch, PlacementLab, PlacementParameters, PlacementRow, QueuePairNumbering,
    SeedInput, mean_utilisation_at_random, mean_utilisation_by_hash, run_placements_with_frames,
};
use xoff_units::Picos;

/// Three standard errors of the figure that varies most over 400 placements: the slowest host with
/// one queue pair.
const TOLERANCE: f64 = 0.035;

fn placement_setting(shape: &str, queue_pairs: u16) -> PlacementParameters {
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

fn placement_row(setting: &PlacementParameters) -> PlacementRow {
    let seeds: Vec<u64> = (1..=400).collect();
    let hash = mean_utilisation_by_hash(setting, &seeds, &AtomicBool::new(false))
        .unwrap_or_else(|error| panic!("{error}"));
    PlacementRow::new(
        setting.shape,
        setting.queue_pairs,
        hash,
        mean_utilisation_at_random(setting, 4_000, 1),
        TOLERANCE,
    )
}

#[test]
fn hash_placements_use_the_same_capacity_as_random_placements() {
    for (shape, queue_pairs) in [("4/4", 1), ("8/8", 1), ("8/8", 4), ("4/8", 2), ("16/8", 1)] {
        let row = placement_row(&placement_setting(shape, queue_pairs));
        assert!(row.holds, "{row:?}");
    }
}

/// All placements use one hash seed. Other addresses or other queue pairs give other placements, even if all
/// hosts number their queue pairs alike.
#[test]
fn hash_placements_match_random_ones_for_every_varied_input() {
    for vary in [SeedInput::HashSeed, SeedInput::Addresses, SeedInput::QueuePairs] {
        for numbering in [QueuePairNumbering::Lab, QueuePairNumbering::Host] {
            let row = placement_row(&PlacementParameters {
                vary,
                numbering,
                ..placement_setting("8/8", 2)
            });
            assert!(row.holds, "{vary:?}, {numbering:?}: {row:?}");
        }
    }
}

/// With one source port for all queue pairs, the queue pairs of a host have one five-tuple and use one path.
#[test]
fn queue_pairs_with_one_source_port_use_one_path() {
    let fixed = PlacementParameters {
        source_port: Some(0xc000),
        ..placement_setting("8/8", 8)
    };
    let (many, one) = (
        placement_row(&fixed).hash,
        mean_utilisation_at_random(&placement_setting("8/8", 1), 4_000, 1),
    );
    assert!(many.difference(&one) <= TOLERANCE, "{many:?} {one:?}");
}

/// The configuration of a seed equals the configuration of a run with that seed.
#[test]
fn placements_equal_those_of_a_run_with_the_seed() {
    let lab =
        PlacementLab::new(&placement_setting("4/4", 1), "none").unwrap_or_else(|error| panic!("{error}"));
    for seed in [0, 1, 77, u64::MAX] {
        let run =
            switch_configuration(&lab.plan, lab.leaf_index(), seed).unwrap_or_else(|error| panic!("{error}"));
        let config = lab.leaf_config(seed).unwrap_or_else(|error| panic!("{error}"));
        assert!(config == run, "seed {seed}");
    }
    let mut leaf = LeafSwitch::new(&lab, 3).unwrap_or_else(|error| panic!("{error}"));
    let placed: Vec<_> = (0..2)
        .map(|_| {
            leaf.place_queue_pairs(&lab, 3)
                .unwrap_or_else(|error| panic!("{error}"))
        })
        .collect();
    assert_eq!(placed[0], placed[1], "a flow keeps its way");
}

#[test]
fn frames_with_pfc_share_uplinks_as_calculated() {
    let settings = FrameRunParameters {
        congestion: "none".to_owned(),
        settle: Picos::from_micros(500),
        measure: Picos::from_millis(1),
    };
    for (shape, last) in [("4/4", 6), ("8/8", 2), ("4/2", 2), ("2/4", 2)] {
        let seeds: Vec<u64> = (1..=last).collect();
        let placed = run_placements_with_frames(
            &placement_setting(shape, 1),
            &seeds,
            &settings,
            &AtomicBool::new(false),
        );
        for one in placed.unwrap_or_else(|error| panic!("{error}")) {
            assert_eq!(one.astray, 0, "{shape}");
            assert!(one.deviation <= 0.02, "{shape} {one:?}");
        }
    }
}
