//! Tests of the output formats.

use super::*;

fn report_of_four_results() -> RunReport {
    let nic = "nic: test NIC\nxfail:\n  - check: A8\n    why: R&D <sample>\n";
    run_checks(&RunOptions {
        mutant: Some(mutant("ignores-vector")),
        nic: Some(NicFile::parse(nic, "nic.yml").expect("a NIC file")),
        scale: MATRIX_SCALE,
        ..options(&["A8", "A9", "A15"])
    })
    .expect("a report")
}

#[test]
fn the_table_states_device_scale_and_counts() {
    let text = report::format_run(&report_of_four_results());
    let first = text.lines().next().unwrap_or_default();
    assert_eq!(
        first,
        "device: mutant ignores-vector, 1000 Mb/s, timing exact, counts and durations scaled by 0.1, \
         expected deviations of test NIC"
    );
    assert!(
        text.contains("A8     XFAIL") && text.ends_with("1 pass, 1 xfail, 1 info\n"),
        "{text}"
    );
}

#[test]
fn ktap_has_one_line_for_each_check() {
    let text = report::format_ktap(&report_of_four_results());
    let results: Vec<&str> = text.lines().filter(|line| line.contains("ok ")).collect();
    assert_eq!(results.len(), 3);
    assert!(
        text.starts_with("KTAP version 1\n#") && text.contains("\n1..3\n"),
        "{text}"
    );
    assert!(
        results[0].starts_with("ok 1 A8 a clear enable bit means no pause # XFAIL class 3"),
        "{text}"
    );
    assert_eq!(results[1], "ok 2 A9 time 0 does not pause a running class");
    assert!(
        text.ends_with("# Totals: pass:2 fail:0 xfail:1 xpass:0 skip:0 error:0\n"),
        "{text}"
    );
}

#[test]
fn junit_escapes_texts_and_counts_failures() {
    let report = report_of_four_results();
    let text = report::format_junit(&report);
    assert!(
        text.contains("tests=\"3\" failures=\"0\" errors=\"0\" skipped=\"0\""),
        "{text}"
    );
    assert!(text.contains("R&amp;D &lt;sample&gt;"), "{text}");
    let failing = run_checks(&RunOptions {
        mutant: Some(mutant("ignores-vector")),
        ..options(&["A8"])
    });
    let text = report::format_junit(&failing.expect("a report"));
    assert!(
        text.contains("failures=\"1\"") && text.contains("<failure message=\"class 3 has"),
        "{text}"
    );
}

#[test]
fn json_has_the_description_and_the_result_of_each_check() {
    let json = serde_json::to_value(report_of_four_results()).expect("JSON");
    assert_eq!(
        (&json["schema"], &json["scale"], &json["long"]),
        (&"xoff.conform/1".into(), &0.1.into(), &false.into())
    );
    let check = &json["checks"][0];
    assert_eq!((&check["id"], &check["outcome"]), (&"A8".into(), &"xfail".into()));
    assert!(
        check["clause"]
            .as_str()
            .is_some_and(|clause| clause.starts_with("IEEE 802.1Q"))
    );
    assert_eq!(json["preflight"]["to_device"], "passes");
}

#[test]
fn a_check_is_explained_with_its_mutants() {
    let text = report::explain_check(find_check("a6").expect("a check"));
    for part in [
        "A6: a new time",
        "stimulus     bit 3",
        "clause       IEEE",
        "needs        A5",
        "adds-timers (",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(report::list_checks(CHECKS).lines().count(), 45);
}

#[test]
fn the_page_has_a_picture_with_frames_and_pauses_of_each_check() {
    let options = RunOptions {
        records_frames: true,
        mutant: Some(mutant("adds-timers")),
        ..options(&["A6", "B1"])
    };
    let report = run_checks(&options).expect("a report");
    let page = report::format_html(&report);
    assert_eq!(page.matches("<svg").count(), 2);
    for text in [
        "A6: a new time replaces the timer",
        "class=\"fail\">FAIL",
        "device, class 3",
        "instrument, MAC control",
        "device, MAC control",
        "vector 0x08, quanta [0, 0, 0, 8000, 0, 0, 0, 0]",
        "class=\"pause\"",
        "class=\"frames\"",
    ] {
        assert!(page.contains(text), "{text}");
    }
    // The page needs no other file.
    assert!(!page.contains("http"), "no link to another file");
}
