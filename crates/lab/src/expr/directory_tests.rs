use super::counters::{self, Counters};
use super::directory::{Directory, Subject};

fn directory() -> Directory {
    let ports = |count: usize| {
        (0..count)
            .map(|port| format!("Ethernet{}", 4 * port))
            .collect::<Vec<_>>()
    };
    Directory::new(
        vec![("leaf1".into(), ports(3)), ("pod1-edge2".into(), ports(2))],
        vec!["h1".into(), "h2".into(), "h10".into()],
        vec![("f1".into(), vec![0, 2])],
        vec![("train".into(), vec![]), ("storage".into(), vec![1])],
    )
}

#[test]
fn names_are_found() {
    for (path, subject, counter, divisor) in [
        ("now_ns", Subject::Run, "now_ns", 1.0),
        ("now_us", Subject::Run, "now_ns", 1000.0),
        (
            "leaf1.dropped_packets",
            Subject::Switch(0),
            "dropped_packets",
            1.0,
        ),
        ("pod1-edge2.Ethernet4.up", Subject::Port(1, 1), "up", 1.0),
        (
            "leaf1.Ethernet0.pg3.headroom_watermark_cells",
            Subject::Group(0, 0, 3),
            "headroom_watermark_cells",
            1.0,
        ),
        (
            "leaf1.Ethernet8.queue7.packets",
            Subject::Queue(0, 2, 7),
            "packets",
            1.0,
        ),
        (
            "leaf1.Ethernet0.pfc3.paused_s",
            Subject::Pfc(0, 0, 3),
            "paused_ns",
            1e9,
        ),
        ("leaf1.Ethernet0.drops.TTL", Subject::Drops(0, 0), "TTL", 1.0),
        ("h10.out_of_sequence", Subject::Host(2), "out_of_sequence", 1.0),
        ("h1.pfc0.rx", Subject::HostPfc(0, 0), "rx", 1.0),
        ("flow.f1.lost_frames", Subject::Flow(0, None), "lost_frames", 1.0),
        (
            "flow.f1.h10.goodput_bps",
            Subject::Flow(0, Some(2)),
            "goodput_bps",
            1.0,
        ),
        ("job.train.jct_us", Subject::Job(0, None), "jct_ns", 1000.0),
        ("job.train.jct_ps", Subject::Job(0, None), "jct_ns", 0.001),
        (
            "job.storage.h2.throughput_bps",
            Subject::Job(1, Some(1)),
            "throughput_bps",
            1.0,
        ),
    ] {
        let place = directory()
            .find(path)
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(
            (place.subject, place.counter, place.divisor),
            (subject, counter, divisor),
            "{path}"
        );
    }
}

#[test]
fn what_is_unknown_comes_with_what_is_known() {
    for (path, words) in [
        (
            "leaf2.Ethernet0.up",
            "the lab has no \"leaf2\"; did you mean leaf1?",
        ),
        (
            "leaf1.Ethernet12.up",
            "leaf1 has no \"Ethernet12\"; did you mean Ethernet",
        ),
        (
            "leaf1.Ethernet0.pg8.packets",
            "leaf1.Ethernet0 has no \"pg8\"; did you mean pg0?",
        ),
        (
            "leaf1.Ethernet0.pg3.cells",
            "leaf1.Ethernet0.pg3 has no \"cells\"; it has packets",
        ),
        (
            "leaf1.Ethernet0.pg3.packets.x",
            "leaf1.Ethernet0.pg3 has no parts below",
        ),
        ("flow.f2.lost_frames", "did you mean f1?"),
        (
            "flow.f1.h2.lost_frames",
            "flow.f1 has no \"h2\"; did you mean h1?",
        ),
        ("job.train.h1.received_bytes", "job.train has no parts"),
        ("flow", "the lab has no \"flow\""),
        ("job.train.jct_bytes", "jct_ns"),
        ("", "the lab has no \"\""),
    ] {
        let error = directory().find(path).expect_err(path).to_string();
        assert!(error.contains(words), "{path}: {error}");
    }
}

#[test]
fn a_star_reaches_over_one_part() {
    let directory = directory();
    for (pattern, names) in [
        ("h*.rx_bytes", vec!["h1.rx_bytes", "h2.rx_bytes", "h10.rx_bytes"]),
        ("h1*.rx_bytes", vec!["h1.rx_bytes", "h10.rx_bytes"]),
        (
            "*.rx_bytes",
            vec![
                "leaf1.rx_bytes",
                "pod1-edge2.rx_bytes",
                "h1.rx_bytes",
                "h2.rx_bytes",
                "h10.rx_bytes",
            ],
        ),
        (
            "pod*.*.up",
            vec!["pod1-edge2.Ethernet0.up", "pod1-edge2.Ethernet4.up"],
        ),
        (
            "leaf1.Ethernet0.pg3.*shared*k_cells",
            vec!["leaf1.Ethernet0.pg3.shared_watermark_cells"],
        ),
        (
            "flow.f1.*.lost_frames",
            vec!["flow.f1.h1.lost_frames", "flow.f1.h10.lost_frames"],
        ),
        ("job.*.jct_us", vec!["job.train.jct_us", "job.storage.jct_us"]),
    ] {
        assert_eq!(directory.matching(pattern).expect(pattern), names, "{pattern}");
    }
    let count = |pattern: &str| directory.matching(pattern).map_or(0, |names| names.len());
    assert_eq!(
        (count("*.*.pfc*.tx"), count("leaf1.*.queue*.packets")),
        (5 * 8, 3 * 8)
    );
    for pattern in ["x*.rx_bytes", "h*.rx_byte", "*.f1.lost_frames", "h*.*.rx_cells"] {
        assert!(directory.matching(pattern).is_err(), "{pattern}");
    }
}

#[test]
fn events_happen_to_some_things() {
    let directory = directory();
    let place = |path: &str| {
        directory
            .find_event(path)
            .map(|place| (place.subject, place.event))
    };
    assert_eq!(place("ce"), Ok((Subject::Run, "ce")));
    assert_eq!(place("leaf1.Ethernet4.xoff"), Ok((Subject::Port(0, 1), "xoff")));
    assert_eq!(place("h2.cnp"), Ok((Subject::Host(1), "cnp")));
    for (path, words) in [
        ("cf", "did you mean ce?"),
        ("leaf3.ce", "did you mean leaf1?"),
        ("leaf1.Ethernet0.pg3.ce", "events happen in the whole lab"),
    ] {
        let error = directory.find_event(path).expect_err(path).to_string();
        assert!(error.contains(words), "{path}: {error}");
    }
}

/// The tables are what users read: a counter that is missing there does not exist for them.
#[test]
fn every_counter_is_documented() {
    const TABLES: [(&str, Counters); 15] = [
        ("The run", counters::RUN),
        ("Switch", counters::SWITCH),
        ("Pool", counters::POOL),
        ("Link", counters::LINK),
        ("Port", counters::PORT),
        ("Priority group", counters::GROUP),
        ("Queue", counters::QUEUE),
        ("Flow control of a class", counters::PFC),
        ("Host", counters::HOST),
        ("Flow control at a host", counters::HOST_PFC),
        ("Arrivals at a host", counters::ARRIVALS),
        ("Flow", counters::FLOW),
        ("Job", counters::JOB),
        ("Sender of a job", counters::JOB_SENDER),
        ("Events", counters::EVENTS),
    ];
    let text = include_str!("../../../../docs/script.md");
    for (title, counters) in TABLES {
        let section = text.split(&format!("\n### {title}\n")).nth(1).expect(title);
        let section = section.split("\n### ").next().unwrap_or_default();
        for counter in counters {
            let row = format!("| `{}` | {} |", counter.name, counter.meaning);
            assert!(section.contains(&row), "{title}: {row}");
        }
    }
}
