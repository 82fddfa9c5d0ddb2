//! Compares the search with the formula.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use xoff_dataplane::config::SwitchConfig;

use super::*;
use xoff_lab::plan::TimeMode;
use xoff_lab::{parse_lab, switch_configuration};

/// Returns the configuration of the preset with four ports, with layers above.
fn preset_config(speed: &str, delay_ns: u64, layer: &str) -> SwitchConfig {
    let text = format!(
        "name: tune\ntopology:\n  fabric:\n    star: {{hosts: 4, speed: {speed}, delay: {delay_ns}ns, config: [{{preset: roce-lossless}}{layer}]}}\n"
    );
    let plan = parse_lab(&text, "tune", Path::new(""), TimeMode::Virtual).unwrap();
    switch_configuration(&plan, 0, 0).unwrap()
}

fn tuning_plan(speed: &str, cable_m: u32, frame_bytes: u32) -> TuningPlan {
    let delay = TrafficParameters::cable_delay(cable_m);
    let subject = TuningTarget::new(&preset_config(speed, delay.as_nanos() + 1, ""), None).unwrap();
    let traffic = TrafficParameters {
        frame_bytes,
        own_frame_bytes: subject.frame_bytes_max(),
        delay,
        response_ns: TrafficParameters::response_ns(&subject.link_timing()),
    };
    TuningPlan {
        subject,
        traffic,
        patterns: vec![TrafficPattern::Standstill(2)],
        seeds: Vec::new(),
        jobs: 1,
    }
}

fn search_plan(plan: &TuningPlan) -> TuningResult {
    search_headroom(plan, &AtomicBool::new(false), |_| ()).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn search_agrees_with_the_closed_form() {
    for (speed, cable_m, frame) in [
        ("100g", 5, 4_202),
        ("100g", 300, 4_202),
        ("400g", 5, 4_202),
        ("400g", 300, 1_086),
    ] {
        let plan = tuning_plan(speed, cable_m, frame);
        let found = search_plan(&plan);
        let (cells, expected) = (found.smallest.candidate.headroom, found.closed_form_cells);
        assert!(
            cells.abs_diff(expected) <= 2,
            "{speed} {cable_m} m {frame}: {cells} cells, by arithmetic {expected}"
        );
        assert_eq!(found.smallest.dropped(), 0);
        assert!(found.below.dropped() > 0, "a cell less is too little");
        let limit = found.below.worst_phase().unwrap().1.refusal.unwrap().limit.name();
        assert_eq!(limit, "headroom of the priority group");
    }
}

#[test]
fn frames_of_4200_bytes_need_two_thirds_of_the_preset() {
    let mut plan = tuning_plan(
        "100g",
        40,
        TrafficParameters::valid_frame_bytes(4_200, false).unwrap(),
    );
    plan.patterns = vec![TrafficPattern::Standstill(3), TrafficPattern::Incast(3)];
    plan.seeds = vec![1, 2, 3, 4];
    let found = search_plan(&plan);
    assert_eq!(found.given.dropped(), 0, "the preset is lossless");
    let (before, after) = (
        plan.subject.memory_of(&found.given.candidate),
        plan.subject.memory_of(&found.smallest.candidate),
    );
    assert!(after.group * 3 <= before.group * 2, "{before:?} {after:?}");
    assert!(after.headroom * 3 <= before.headroom * 2, "{before:?} {after:?}");
    assert!(after.total < before.total);
    let result = build_result("preset", &plan, &found, &[]);
    let value = |name: &str| result.figure(name).unwrap().spread().median;
    assert!(value("group_headroom/saved_percent") >= 33.4);
    // Only some phases lose frames with one cell less, so a median over the phases would be 0.
    let losing = found.below.seen.iter().filter(|seen| seen.dropped > 0).count();
    assert!(losing > 0 && losing * 2 < found.phases.len(), "{losing} phases");
    assert_eq!(value("cell_less/phases_with_loss"), losing as f64);
    assert!(value("cell_less/dropped_worst") >= 1.0);
    for name in ["phases_with_loss", "dropped_worst"] {
        assert_eq!(value(&format!("found/{name}")), 0.0);
        assert_eq!(value(&format!("given/{name}")), 0.0);
    }
    assert!(
        result.notes.iter().any(|note| note.contains("one cell less")),
        "{:?}",
        result.notes
    );
}

#[test]
fn own_frame_before_xoff_increases_headroom() {
    let with = tuning_plan("100g", 40, 1_086);
    let without = TuningPlan {
        traffic: TrafficParameters {
            own_frame_bytes: 0,
            ..with.traffic
        },
        ..with.clone()
    };
    let frames = |plan: &TuningPlan| frames_after_xoff(&plan.subject.link_timing(), &plan.traffic);
    assert!(
        frames(&with) > frames(&without) + 7,
        "9118 bytes are more than eight frames of 1086"
    );
    for plan in [with, without] {
        let found = search_plan(&plan);
        assert!(
            found
                .smallest
                .candidate
                .headroom
                .abs_diff(found.closed_form_cells)
                <= 2
        );
    }
}

#[test]
fn written_layer_gives_the_found_configuration() {
    let plan = tuning_plan("100g", 40, 4_202);
    let smaller = BufferCandidate {
        headroom: 200,
        ..plan.subject.configured_candidate()
    };
    let layer = format!(", {}", plan.subject.config_layer(&smaller));
    let config = preset_config("100g", plan.traffic.delay.as_nanos() + 1, &layer);
    let read = TuningTarget::new(&config, None).unwrap();
    assert_eq!(read.configured_candidate(), smaller);
    assert_eq!(read.config.pools, plan.subject.config_with(&smaller, 0).pools);
    assert_eq!(
        read.config.profiles,
        plan.subject.config_with(&smaller, 0).profiles
    );
}

#[test]
fn losing_configuration_is_reported() {
    let mut plan = tuning_plan("100g", 40, 4_202);
    let smaller = BufferCandidate {
        headroom: 20,
        ..plan.subject.configured_candidate()
    };
    plan.subject.config = plan.subject.config_with(&smaller, 0);
    let found = search_plan(&plan);
    assert!(found.given.dropped() > 0);
    assert!(found.smallest.candidate.headroom > 20);
    let result = build_result("small", &plan, &found, &[]);
    assert!(
        result
            .notes
            .iter()
            .any(|note| note.contains("the given configuration")
                && note.contains("headroom of the priority group")),
        "{:?}",
        result.notes
    );
}

#[test]
fn found_profile_reserves_nothing() {
    let plan = tuning_plan("100g", 40, 1_086);
    let plain = search_plan(&plan).smallest.candidate;
    for private in [false, true] {
        let mut reserving = plan.clone();
        let subject = &mut reserving.subject;
        let (profile, pool) = (subject.profile, subject.pool);
        subject.config.profiles[profile].size_bytes = 20 * 256;
        if private {
            subject.config.pools[pool].xoff_bytes = 0;
            subject.config.profiles[profile].size_bytes += subject.config.profiles[profile].xoff_bytes;
        }
        assert_eq!(subject.configured_candidate().reserved, 20);
        let found = search_plan(&reserving);
        assert_eq!(found.smallest.candidate, plain, "private: {private}");
        assert_eq!(found.given.dropped(), 0);
    }
}

#[test]
fn switch_without_lossless_class_is_an_error() {
    let text =
        "name: x\ntopology:\n  fabric:\n    star: {hosts: 3, speed: 100g, config: {preset: roce-lossy}}\n";
    let plan = parse_lab(text, "x", Path::new(""), TimeMode::Virtual).unwrap();
    let config = switch_configuration(&plan, 0, 0).unwrap();
    let failure = TuningTarget::new(&config, None).unwrap_err();
    assert_eq!(failure.exit, xoff_telemetry::failure::Exit::Configuration);
}

#[test]
fn utilisation_of_a_link_is_at_most_one() {
    let mut plan = tuning_plan("100g", 40, 4_202);
    plan.patterns = vec![TrafficPattern::Incast(3)];
    plan.seeds = vec![1, 2];
    let phases = build_phases(&plan.subject, &plan.traffic, &plan.patterns, &plan.seeds);
    let candidate = plan.subject.configured_candidate();
    for phase in &phases {
        let seen = run_phase(&plan.subject, &plan.traffic, &candidate, phase).unwrap();
        assert!(
            seen.utilisation > 0.9 && seen.utilisation <= 1.0,
            "phase {}: {}",
            phase.number,
            seen.utilisation
        );
    }
}
