use super::counters::{self, CounterTable};
use super::directory::{CounterOwner, NameDirectory};

/// Returns the names of a small lab.
fn new_directory() -> NameDirectory {
    let ports = |count: usize| {
        (0..count)
            .map(|port| format!("Ethernet{}", 4 * port))
            .collect::<Vec<_>>()
    };
    NameDirectory::new(
        vec![("leaf1".into(), ports(3)), ("pod1-edge2".into(), ports(2))],
        vec!["h1".into(), "h2".into(), "h10".into()],
        vec![("f1".into(), vec![0, 2])],
        vec![("train".into(), vec![]), ("storage".into(), vec![1])],
    )
}

#[test]
fn counter_names_are_found() {
    for (path, owner, counter, divisor) in [
        ("now_ns", CounterOwner::Run, "now_ns", 1.0),
        ("now_us", CounterOwner::Run, "now_ns", 1000.0),
        (
            "leaf1.dropped_packets",
            CounterOwner::Switch(0),
            "dropped_packets",
            1.0,
        ),
        ("pod1-edge2.Ethernet4.up", CounterOwner::Port(1, 1), "up", 1.0),
        (
            "leaf1.Ethernet0.pg3.headroom_watermark_cells",
            CounterOwner::PriorityGroup(0, 0, 3),
            "headroom_watermark_cells",
            1.0,
        ),
        (
            "leaf1.Ethernet8.queue7.packets",
            CounterOwner::Queue(0, 2, 7),
            "packets",
            1.0,
        ),
        (
            "leaf1.Ethernet0.pfc3.paused_s",
            CounterOwner::PortPfc(0, 0, 3),
            "paused_ns",
            1e9,
        ),
        ("leaf1.Ethernet0.drops.TTL", CounterOwner::Drops(0, 0), "TTL", 1.0),
        (
            "h10.out_of_sequence",
            CounterOwner::Host(2),
            "out_of_sequence",
            1.0,
        ),
        ("h1.pfc0.rx", CounterOwner::HostPfc(0, 0), "rx", 1.0),
        (
            "flow.f1.lost_frames",
            CounterOwner::Flow(0, None),
            "lost_frames",
            1.0,
        ),
        (
            "flow.f1.h10.goodput_bps",
            CounterOwner::Flow(0, Some(2)),
            "goodput_bps",
            1.0,
        ),
        ("job.train.jct_us", CounterOwner::Job(0, None), "jct_ns", 1000.0),
        ("job.train.jct_ps", CounterOwner::Job(0, None), "jct_ns", 0.001),
        (
            "job.storage.h2.throughput_bps",
            CounterOwner::Job(1, Some(1)),
            "throughput_bps",
            1.0,
        ),
    ] {
        let reference = new_directory()
            .find_counter(path)
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(
            (reference.owner, reference.counter, reference.divisor),
            (owner, counter, divisor),
            "{path}"
        );
    }
}

#[test]
fn unknown_names_are_reported_with_known_names() {
    for (path, words) in [
        ("leaf2.Ethernet0.up", "the lab has no \"leaf2\"; it has leaf1, "),
        ("leaf1.Ethernet12.up", "leaf1 has no \"Ethernet12\"; it has "),
        (
            "leaf1.Ethernet0.pg8.packets",
            "leaf1.Ethernet0 has no \"pg8\"; it has ",
        ),
        (
            "leaf1.Ethernet0.pg3.cells",
            "leaf1.Ethernet0.pg3 has no \"cells\"; it has packets",
        ),
        (
            "leaf1.Ethernet0.pg3.packets.x",
            "leaf1.Ethernet0.pg3 has no parts below",
        ),
        ("flow.f2.lost_frames", "flow has no \"f2\"; it has f1"),
        ("leaf1.Ethernet0.tx_byte", "did you mean tx_bytes?"),
        ("flow.f1.h2.lost_frames", "flow.f1 has no \"h2\"; it has h1"),
        ("job.train.h1.received_bytes", "job.train has no parts"),
        ("flow", "the lab has no \"flow\""),
        ("job.train.jct_bytes", "jct_ns"),
        ("", "the lab has no \"\""),
    ] {
        let error = new_directory().find_counter(path).expect_err(path).to_string();
        assert!(error.contains(words), "{path}: {error}");
    }
}

#[test]
fn a_star_matches_within_one_part() {
    let directory = new_directory();
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
        assert_eq!(
            directory.matching_names(pattern).expect(pattern),
            names,
            "{pattern}"
        );
    }
    let count = |pattern: &str| directory.matching_names(pattern).map_or(0, |names| names.len());
    assert_eq!(
        (count("*.*.pfc*.tx"), count("leaf1.*.queue*.packets")),
        (5 * 8, 3 * 8)
    );
    for pattern in ["x*.rx_bytes", "h*.rx_byte", "*.f1.lost_frames", "h*.*.rx_cells"] {
        assert!(directory.matching_names(pattern).is_err(), "{pattern}");
    }
}

#[test]
fn event_names_are_found() {
    let directory = new_directory();
    let find = |path: &str| directory.find_event(path).map(|event| (event.owner, event.event));
    assert_eq!(find("ce"), Ok((CounterOwner::Run, "ce")));
    assert_eq!(
        find("leaf1.Ethernet4.xoff"),
        Ok((CounterOwner::Port(0, 1), "xoff"))
    );
    assert_eq!(find("h2.cnp"), Ok((CounterOwner::Host(1), "cnp")));
    for (path, words) in [
        ("cf", "did you mean ce?"),
        ("leaf3.ce", "the lab has no \"leaf3\"; it has leaf1, "),
        ("laef1.ce", "did you mean leaf1?"),
        ("leaf1.Ethernet0.pg3.ce", "events happen in the whole lab"),
    ] {
        let error = directory.find_event(path).expect_err(path).to_string();
        assert!(error.contains(words), "{path}: {error}");
    }
}

/// The tables of `docs/script.md` contain the same names and meanings as the code.
#[test]
fn every_counter_is_documented() {
    const TABLES: [(&str, CounterTable); 15] = [
        ("The run", counters::RUN_COUNTERS),
        ("Switch", counters::SWITCH_COUNTERS),
        ("Pool", counters::POOL_COUNTERS),
        ("Link", counters::LINK_COUNTERS),
        ("Port", counters::PORT_COUNTERS),
        ("Priority group", counters::PRIORITY_GROUP_COUNTERS),
        ("Queue", counters::QUEUE_COUNTERS),
        ("Flow control of a class", counters::PORT_PFC_COUNTERS),
        ("Host", counters::HOST_COUNTERS),
        ("Flow control at a host", counters::HOST_PFC_COUNTERS),
        ("Arrivals at a host", counters::ARRIVAL_COUNTERS),
        ("Flow", counters::FLOW_COUNTERS),
        ("Job", counters::JOB_COUNTERS),
        ("Sender of a job", counters::JOB_SENDER_COUNTERS),
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
