//! The search against arithmetic.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use xoff_dataplane::config::SwitchConfig;

use super::*;
use xoff_lab::plan::TimeMode;
use xoff_lab::{parse_lab, switch_configuration};

/// The preset on four ports, as a lab has it, with layers above.
fn switch(speed: &str, delay_ns: u64, layer: &str) -> SwitchConfig {
    let text = format!(
        "name: tune\ntopology:\n  fabric:\n    star: {{hosts: 4, speed: {speed}, delay: {delay_ns}ns, config: [{{preset: roce-lossless}}{layer}]}}\n"
    );
    let plan = parse_lab(&text, "tune", Path::new(""), TimeMode::Virtual).unwrap();
    switch_configuration(&plan, 0, 0).unwrap()
}

fn plan(speed: &str, cable_m: u32, frame_bytes: u32) -> Plan {
    let delay = Traffic::cable(cable_m);
    let subject = Subject::new(&switch(speed, delay.as_nanos() + 1, ""), None).unwrap();
    let traffic = Traffic {
        frame_bytes,
        own_frame_bytes: subject.frame_max(),
        delay,
        response_ns: Traffic::response_ns(&subject.link()),
    };
    Plan {
        subject,
        traffic,
        patterns: vec![Pattern::Standstill(2)],
        seeds: Vec::new(),
        jobs: 1,
    }
}

fn found(plan: &Plan) -> Found {
    search(plan, &AtomicBool::new(false), |_| ()).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn the_search_finds_what_arithmetic_says() {
    for (speed, cable_m, frame) in [
        ("100g", 5, 4_202),
        ("100g", 300, 4_202),
        ("400g", 5, 4_202),
        ("400g", 300, 1_086),
    ] {
        let plan = plan(speed, cable_m, frame);
        let found = found(&plan);
        let (cells, expected) = (found.smallest.candidate.headroom, found.closed_form_cells);
        assert!(
            cells.abs_diff(expected) <= 2,
            "{speed} {cable_m} m {frame}: {cells} cells, by arithmetic {expected}"
        );
        assert_eq!(found.smallest.dropped(), 0);
        assert!(found.below.dropped() > 0, "a cell less is too little");
        let limit = found.below.worst().unwrap().1.refusal.unwrap().limit.name();
        assert_eq!(limit, "headroom of the priority group");
    }
}

#[test]
fn frames_of_4200_bytes_save_a_third_of_the_preset() {
    let mut plan = plan("100g", 40, Traffic::possible_frame(4_200, false).unwrap());
    plan.patterns = vec![Pattern::Standstill(3), Pattern::Incast(3)];
    plan.seeds = vec![1, 2, 3, 4];
    let found = found(&plan);
    assert_eq!(found.given.dropped(), 0, "the preset is lossless");
    let (before, after) = (
        plan.subject.memory(&found.given.candidate),
        plan.subject.memory(&found.smallest.candidate),
    );
    assert!(after.group * 3 <= before.group * 2, "{before:?} {after:?}");
    assert!(after.headroom * 3 <= before.headroom * 2, "{before:?} {after:?}");
    assert!(after.total < before.total);
    let result = result("preset", &plan, &found, &[]);
    assert!(result.figure("group_headroom/saved_percent").unwrap().samples[0] >= 33.4);
    assert!(
        result.notes.iter().any(|note| note.contains("one cell less")),
        "{:?}",
        result.notes
    );
}

#[test]
fn an_own_frame_in_the_way_costs_what_it_takes() {
    let with = plan("100g", 40, 1_086);
    let without = Plan {
        traffic: Traffic {
            own_frame_bytes: 0,
            ..with.traffic
        },
        ..with.clone()
    };
    let frames = |plan: &Plan| frames_after_xoff(&plan.subject.link(), &plan.traffic);
    assert!(
        frames(&with) > frames(&without) + 7,
        "9118 bytes are more than eight frames of 1086"
    );
    for plan in [with, without] {
        let found = found(&plan);
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
fn what_is_written_makes_the_switch_that_was_found() {
    let plan = plan("100g", 40, 4_202);
    let smaller = Candidate {
        headroom: 200,
        ..plan.subject.given()
    };
    let layer = format!(", {}", plan.subject.fragment(&smaller));
    let config = switch("100g", plan.traffic.delay.as_nanos() + 1, &layer);
    let read = Subject::new(&config, None).unwrap();
    assert_eq!(read.given(), smaller);
    assert_eq!(read.config.pools, plan.subject.with(&smaller, 0).pools);
    assert_eq!(read.config.profiles, plan.subject.with(&smaller, 0).profiles);
}

#[test]
fn a_configuration_that_loses_is_told_from_one_that_does_not() {
    let mut plan = plan("100g", 40, 4_202);
    let smaller = Candidate {
        headroom: 20,
        ..plan.subject.given()
    };
    plan.subject.config = plan.subject.with(&smaller, 0);
    let found = found(&plan);
    assert!(found.given.dropped() > 0);
    assert!(found.smallest.candidate.headroom > 20);
    let result = result("small", &plan, &found, &[]);
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
fn a_reserve_is_given_up_and_the_search_is_as_sharp_without_it() {
    let plan = plan("100g", 40, 1_086);
    let plain = found(&plan).smallest.candidate;
    for private in [false, true] {
        let mut reserving = plan.clone();
        let subject = &mut reserving.subject;
        let (profile, pool) = (subject.profile, subject.pool);
        subject.config.profiles[profile].size_bytes = 20 * 256;
        if private {
            subject.config.pools[pool].xoff_bytes = 0;
            subject.config.profiles[profile].size_bytes += subject.config.profiles[profile].xoff_bytes;
        }
        assert_eq!(subject.given().reserved, 20);
        let found = found(&reserving);
        assert_eq!(found.smallest.candidate, plain, "private: {private}");
        assert_eq!(found.given.dropped(), 0);
    }
}

#[test]
fn a_switch_without_a_lossless_class_is_refused() {
    let text =
        "name: x\ntopology:\n  fabric:\n    star: {hosts: 3, speed: 100g, config: {preset: roce-lossy}}\n";
    let plan = parse_lab(text, "x", Path::new(""), TimeMode::Virtual).unwrap();
    let config = switch_configuration(&plan, 0, 0).unwrap();
    let failure = Subject::new(&config, None).unwrap_err();
    assert_eq!(failure.exit, xoff_telemetry::failure::Exit::Configuration);
}
