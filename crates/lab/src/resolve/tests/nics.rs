//! NICs of model hosts: DCBX and ETS.

use super::*;
use crate::plan::{DcbxPlan, EtsPlan, NicPlan};

/// Returns the lab with these fields of the NIC of `h1`.
fn lab(nic: &str) -> String {
    INCAST.replace("{response_ns: 500, pfc: [3, 4]}", &format!("{{{nic}}}"))
}

fn nic(fields: &str) -> NicPlan {
    let plan = parse_incast_lab(&lab(fields)).unwrap_or_else(|problems| panic!("{fields}: {problems}"));
    plan.hosts[1].nic.clone()
}

#[test]
fn one_word_and_the_fields_of_xoff_dcbx_describe_dcbx() {
    let dcbx = |fields: &str| nic(fields).dcbx;
    let both = |is_willing, ets_recommendation| {
        Some(DcbxPlan {
            pfc_willing: is_willing,
            pfc_capability: 8,
            ets_willing: is_willing,
            ets_capability: 8,
            ets_recommendation,
        })
    };
    for off in [
        "",
        "dcbx: off",
        "ets: {classes: [0, 0, 0, 0, 0, 0, 0, 0], shares: [100]}",
    ] {
        assert_eq!(dcbx(off), None, "{off}");
    }
    assert_eq!(dcbx("dcbx: willing"), both(true, false));
    assert_eq!(dcbx("dcbx: {}"), both(false, false));
    // A host with its own ETS configuration recommends it.
    let ets = ", ets: {classes: [0, 0, 0, 1, 0, 0, 0, 0], shares: [20, 80]}";
    assert_eq!(dcbx(&format!("dcbx: not-willing{ets}")), both(false, true));
    let fields = "dcbx: {pfc_willing: true, pfc_capability: 2, ets_capability: 3, ets_recommendation: false}";
    assert_eq!(
        dcbx(&format!("{fields}{ets}")),
        Some(DcbxPlan {
            pfc_willing: true,
            pfc_capability: 2,
            ets_willing: false,
            ets_capability: 3,
            ets_recommendation: false,
        })
    );
}

#[test]
fn shares_of_traffic_classes_are_percentages_or_strict_priority() {
    let ets = |fields: &str| nic(fields).ets;
    let classes = "ets: {classes: [0, 0, 0, 1, 0, 0, 2, 0], shares: [20, 80%, strict]}";
    let mut plan = EtsPlan {
        traffic_class: [0, 0, 0, 1, 0, 0, 2, 0],
        shares: [None; 8],
    };
    plan.shares[..2].copy_from_slice(&[Some(20), Some(80)]);
    assert_eq!((ets(classes), plan.traffic_classes()), (Some(plan), 3));
    let every = ets("ets: {shares: [0, 0, 0, 100, 0, 0, strict, strict]}").expect("ETS");
    assert_eq!(every.traffic_class, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(every.shares[2..5], [Some(0), Some(100), Some(0)]);
    assert_eq!(ets(""), None);
}

#[test]
fn errors_of_nics_name_the_line_the_value_and_the_fix() {
    let eight = "classes: [0, 0, 0, 1, 0, 0, 2, 0]";
    let cases: [(String, &[&str]); 15] = [
        (
            "dcbx: maybe".into(),
            &["`dcbx` is maybe", "write off, willing or not-willing"],
        ),
        (
            "dcbx: [willing]".into(),
            &["a list is not allowed here", "willing or not-willing"],
        ),
        ("dcbx: {willing: true}".into(), &["willing", "pfc_willing"]),
        (
            "dcbx: {ets_capability: 9}".into(),
            &["9 is out of range", "traffic classes from 1 to 8"],
        ),
        (
            "dcbx: {pfc_capability: 300}".into(),
            &["300 is out of range", "from 0 to"],
        ),
        (
            "dcbx: {pfc_capability: 1}, pfc: [3, 4]".into(),
            &[
                "PFC on 2 priorities, and `pfc_capability` is 1",
                "set `pfc` to fewer",
            ],
        ),
        (
            format!("dcbx: {{ets_capability: 2}}, ets: {{{eight}, shares: [20, 80, strict]}}"),
            &["3 traffic classes, and `ets_capability` is 2", "fewer classes"],
        ),
        (
            format!("ets: {{{eight}, shares: [20, 70, strict]}}"),
            &["the sum of the shares is 90 %", "sum is 100"],
        ),
        (
            format!("ets: {{{eight}, shares: [20, 80]}}"),
            &[
                "`shares` has 2 entries",
                "traffic classes 0 to 2",
                "write 3 entries",
            ],
        ),
        (
            "ets: {shares: [20, 80]}".into(),
            &["traffic classes 0 to 7", "write 8 entries"],
        ),
        (
            "ets: {classes: [0, 1], shares: [20, 80]}".into(),
            &["`classes` has 2 entries", "each of the 8 priorities"],
        ),
        (
            "ets: {classes: [0, 0, 0, 8, 0, 0, 0, 0], shares: [100]}".into(),
            &["8 is out of range", "from 0 to 7"],
        ),
        (
            format!("ets: {{{eight}, shares: [20, 180, strict]}}"),
            &["180 is out of range", "a percentage from 0 to 100, or strict"],
        ),
        (
            format!("ets: {{{eight}, shares: [20, 80, high]}}"),
            &["\"high\" is not allowed here", "or strict"],
        ),
        (format!("ets: {{{eight}}}"), &["shares"]),
    ];
    for (fields, wanted) in cases {
        let problems = parse_incast_lab(&lab(&fields))
            .map(|_| ())
            .unwrap_err()
            .to_string();
        for text in ["a.xoff.yml:11"].iter().chain(wanted) {
            assert!(
                problems.contains(text),
                "{fields}: {text} is missing in\n{problems}"
            );
        }
    }
}
