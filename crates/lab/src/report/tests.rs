use xoff_telemetry::samples::sample_snapshot;
use xoff_telemetry::*;

use super::*;

fn flow_report(class: u8, lossless: bool, lost_frames: u64) -> FlowReport {
    FlowReport {
        src: "h1".to_owned(),
        dst: "h5".to_owned(),
        class,
        lossless,
        sent_frames: 1_000,
        received_frames: 1_000 - lost_frames,
        lost_frames,
        goodput_bps: 800_000_000,
        latency_ns: LatencyReport {
            p50: 12_000,
            p99: 900_000,
            p999: 1_100_000,
            max: 1_200_000,
        },
        ..FlowReport::default()
    }
}

fn worker_stall_taint() -> Taint {
    Taint {
        since_ns: 5_000_000,
        cause: "the switch worker stood still for 31.0 ms".to_owned(),
    }
}

fn build_sample_report(flows: Vec<FlowReport>, taints: Vec<Taint>) -> Report {
    build_report(
        Environment::default(),
        7,
        vec![sample_snapshot().into_report()],
        flows,
        taints,
    )
}

#[test]
fn loss_of_a_lossless_flow_fails_the_run_and_names_port_and_reason() {
    let report = build_sample_report(
        vec![flow_report(0, true, 200), flow_report(1, false, 900)],
        vec![],
    );
    assert_eq!(report.exit(), Exit::CheckFailed);
    assert_eq!(
        report.failures,
        [
            "h1 to h5, class 0: 200 lost of 1,000 frames; the class was dropped at tor0 \
             Ethernet0 (200) by QUEUE_DROPPED_PACKETS: The egress queue is at its limit"
        ]
    );
}

#[test]
fn loss_without_a_switch_drop_is_reported_as_lost_on_a_host_or_link() {
    let report = build_sample_report(vec![flow_report(3, true, 1)], vec![]);
    assert!(
        report.failures[0].contains("no switch dropped a frame of the class"),
        "{}",
        report.failures[0]
    );
}

#[test]
fn tainted_run_is_inconclusive_also_with_failures() {
    let tainted = build_sample_report(vec![flow_report(0, true, 200)], vec![worker_stall_taint()]);
    assert_eq!(
        (tainted.exit(), tainted.verdict),
        (Exit::Inconclusive, Verdict::Tainted)
    );
    assert_eq!(
        build_sample_report(vec![], vec![worker_stall_taint()]).exit(),
        Exit::Inconclusive
    );
}

#[test]
fn loss_of_a_lossy_flow_is_no_failure() {
    let clean = build_sample_report(vec![flow_report(3, true, 0), flow_report(0, false, 500)], vec![]);
    assert_eq!((clean.exit(), clean.verdict), (Exit::Ok, Verdict::Clean));
    assert!(clean.failures.is_empty());
}

#[test]
fn reordered_or_damaged_lossless_frames_fail_the_run() {
    for (reordered, icrc) in [(1, 0), (0, 1)] {
        let flow = FlowReport {
            reordered_frames: reordered,
            icrc_errors: icrc,
            ..flow_report(3, true, 0)
        };
        assert_eq!(build_sample_report(vec![flow], vec![]).exit(), Exit::CheckFailed);
    }
}

#[test]
fn totals_are_sums_over_flows_and_ports() {
    let totals =
        build_sample_report(vec![flow_report(3, true, 0), flow_report(0, false, 200)], vec![]).totals;
    let expected = Totals {
        sent_frames: 2_000,
        received_frames: 1_800,
        lost_frames: 200,
        pfc_tx_frames: 7,
        dropped_frames: 200,
        data_packets: 1_800,
        ..Totals::default()
    };
    assert_eq!(totals, expected);
}

#[test]
fn equal_traffic_of_ports_with_different_spans_has_equal_utilisation() {
    let mut switches = [sample_snapshot().into_report(), sample_snapshot().into_report()];
    // Both ports send for 0.36 ms. The first port sends a burst, and the second port sends for 1 ms.
    for (switch, (first, last)) in switches.iter_mut().zip([(600, 960), (0, 1_000)]) {
        switch.ports[0].tx_times = TxTimes {
            first_and_last: Some([first * 1_000_000, last * 1_000_000]),
            busy: 360_000_000,
        };
    }
    set_common_tx_span(&mut switches);
    for switch in &switches {
        let [port, unused] = switch.ports.as_slice() else {
            panic!("two ports")
        };
        assert_eq!((port.tx_utilisation, port.tx_span_ns), (Some(0.36), 1_000_000));
        assert_eq!((unused.tx_utilisation, unused.tx_span_ns), (None, 0));
    }
}

#[test]
fn utilisation_covers_first_to_last_departure_and_is_null_without_frames() {
    let report = build_sample_report(vec![], vec![]);
    let [port, unused] = report.switches[0].ports.as_slice() else {
        panic!("two ports")
    };
    assert_eq!((port.tx_utilisation, port.tx_span_ns), (Some(0.995), 1_000_000));
    assert_eq!(port.tx_utilisation_with_deficit(), Some(0.999));
    assert_eq!((unused.tx_utilisation, unused.tx_span_ns), (None, 0));
}

#[test]
fn watermarks_are_in_bytes_and_zero_drop_reasons_are_omitted() {
    let report = build_sample_report(vec![], vec![]);
    let switch = &report.switches[0];
    assert_eq!(switch.ports[0].queues[3].shared_watermark_bytes, 2_560);
    assert_eq!(switch.pools[0].watermark_bytes, 2_816);
    assert_eq!(switch.ports[0].drops.len(), 1);
    assert_eq!(switch.ports[0].paused_ns[3], 2_000);
    assert!(switch.ports[0].paused_now[3] && !switch.ports[0].paused_now[2]);
}

#[test]
fn json_round_trip_keeps_all_values_and_documented_keys() {
    let report = build_sample_report(vec![flow_report(3, true, 0)], vec![worker_stall_taint()]);
    let text = report.to_json();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);

    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["schema"], "xoff.report/1");
    assert_eq!(json["verdict"], "tainted");
    assert_eq!(json["flows"][0]["latency_ns"]["p999"], 1_100_000);
    let port = &json["switches"][0]["ports"][0];
    assert_eq!(port["pfc_tx"].as_array().unwrap().len(), 8);
    assert_eq!(port["drops"]["QUEUE_DROPPED_PACKETS"], 200);
    assert_eq!(port["queues"][3]["SAI_QUEUE_STAT_PACKETS"], 1_000);
}

#[test]
fn taints_are_sorted_by_time() {
    let earlier = Taint {
        since_ns: 1,
        cause: "first".to_owned(),
    };
    let report = build_sample_report(vec![], vec![worker_stall_taint(), earlier.clone()]);
    assert_eq!(report.taints[0], earlier);
}

#[test]
fn tables_of_a_clean_run_match_the_expected_text() {
    let text = render_report(&build_sample_report(
        vec![flow_report(3, true, 0), flow_report(0, false, 200)],
        vec![],
    ));
    let expected = include_str!("tables.txt");
    assert!(
        text == expected,
        "the tables changed; the new text of src/report/tables.txt is:\n{text}"
    );
}

#[test]
fn verdict_line_differs_for_success_failure_and_taint() {
    let last = |flows, taints| render_report(&build_sample_report(flows, taints));
    assert!(last(vec![flow_report(0, true, 200)], vec![]).contains("verdict: failed\n  h1 to h5"));
    let tainted = last(vec![flow_report(0, true, 200)], vec![worker_stall_taint()]);
    // The taints come first, because they can be the cause of the failures.
    let (verdict, reasons) = tainted.split_once("verdict: tainted").expect("a verdict");
    assert!(
        !verdict.contains("h1 to h5 lost") && reasons.contains("\n  h1 to h5"),
        "{tainted}"
    );
    assert!(last(vec![], vec![]).ends_with("verdict: clean\n"));
}

/// The report of a run with this traffic and without flows.
fn judged_report(traffic: Traffic, expectations: Vec<ExpectationResult>, protected: bool) -> Report {
    let mut report = build_sample_report(vec![], vec![]);
    let mut classes = [0; 16];
    classes[0] = 5;
    let port = &mut report.switches[0].ports[0];
    port.drops_by_class.insert("EXCEEDS_L2_MTU".to_owned(), classes);
    let mut owners = ProtectedClasses::default();
    if protected {
        owners.protect("tor0", "Ethernet0", 0, "job train");
    }
    report.judge(traffic, expectations, &owners);
    report
}

#[test]
fn a_run_without_the_traffic_that_it_needs_is_never_clean() {
    let traffic = |offered_frames, arrived_frames| Traffic {
        offered_frames,
        arrived_frames,
        notes: Vec::new(),
    };
    for (traffic, text) in [
        (
            traffic(Some(0), Some(0)),
            "verdict: no traffic: no frame was offered",
        ),
        (traffic(None, Some(0)), "verdict: no traffic: no frame arrived"),
        (
            traffic(Some(3), Some(0)),
            "verdict: no traffic: none of 3 offered frames arrived",
        ),
    ] {
        let report = judged_report(traffic, vec![], false);
        assert_eq!(
            (report.exit(), report.verdict),
            (Exit::Inconclusive, Verdict::NoTraffic)
        );
        let rendered = render_report(&report);
        assert!(
            rendered.contains(text) && !rendered.contains("clean"),
            "{rendered}"
        );
    }
    let expected: xoff_telemetry::verdict::Expectation = "frames>=1".parse().expect("an expectation");
    let report = judged_report(
        traffic(None, Some(0)),
        vec![expected.compare("eth1", 0, 0)],
        false,
    );
    assert_eq!(
        (report.exit(), report.verdict),
        (Exit::CheckFailed, Verdict::Failed),
        "expected and not arrived"
    );
    let rendered = render_report(&report);
    assert!(
        rendered.contains(
            "verdict: failed\n  eth1: expected frames>=1, and 0 arrived\n  no traffic: no frame arrived"
        ),
        "{rendered}"
    );
}

#[test]
fn drops_at_an_mtu_fail_protected_frames_and_are_named_otherwise() {
    let lossy = judged_report(Traffic::default(), vec![], false);
    assert_eq!(lossy.exit(), Exit::Ok);
    let rendered = render_report(&lossy);
    assert!(
        rendered.contains("verdict: clean\n  tor0 Ethernet0 dropped 5 frames of class 0 longer than the MTU"),
        "{rendered}"
    );
    let job = judged_report(Traffic::default(), vec![], true);
    assert_eq!(job.exit(), Exit::CheckFailed);
    assert!(render_report(&job).contains("dropped 5 frames of job train longer than the MTU"));
}

/// The verdict in the JSON report agrees with the exit code, also for a failure that is known last.
#[test]
fn a_failure_changes_the_verdict_whenever_it_is_added() {
    let mut report = judged_report(Traffic::default(), vec![], false);
    report.add_failures([]);
    assert_eq!((report.exit(), report.verdict), (Exit::Ok, Verdict::Clean));
    report.add_failures(["the time limit was reached".to_owned()]);
    assert_eq!(
        (report.exit(), report.verdict),
        (Exit::CheckFailed, Verdict::Failed)
    );
    report.taints.push(worker_stall_taint());
    report.add_failures(["lost".to_owned()]);
    assert_eq!(
        (report.exit(), report.verdict),
        (Exit::Inconclusive, Verdict::Tainted)
    );
    let of_flow = build_sample_report(vec![flow_report(0, true, 200)], vec![]);
    assert_eq!(
        (of_flow.exit(), of_flow.verdict),
        (Exit::CheckFailed, Verdict::Failed)
    );
}

#[test]
fn a_run_that_needs_no_traffic_says_that_there_was_none() {
    let mut idle = build_sample_report(vec![], vec![]);
    idle.switches[0].ports[0].rx_packets = 0;
    idle.judge(Traffic::default(), vec![], &ProtectedClasses::default());
    assert_eq!(idle.exit(), Exit::Ok);
    assert!(render_report(&idle).ends_with("verdict: clean; no traffic\n"));
}

#[test]
fn a_host_shows_its_pauses_and_a_sender_only_what_it_knows() {
    let sent = FlowReport {
        end: FlowEnd::Sender,
        ..flow_report(3, false, 0)
    };
    let received = FlowReport {
        end: FlowEnd::Receiver,
        ..flow_report(3, true, 0)
    };
    let mut nic = xoff_host::NicCounters::default();
    (nic.pfc_rx[3], nic.paused_ns[3]) = (12, 4_000);
    let host = HostReport::new("eth1", &Counters::default(), &nic);
    let mut report = Report {
        host: Some(host.clone()),
        ..build_sample_report(vec![sent], vec![])
    };
    let text = render_report(&report);
    let flows = text.split("switch tor0").next().unwrap_or_default();
    assert!(flows.contains("Sent flow") && flows.contains("1,000"), "{flows}");
    for word in ["Received", "Goodput", "p50", "lossy"] {
        assert!(!flows.contains(word), "{word} in\n{flows}");
    }
    assert!(
        flows.contains("Paused priority") && flows.contains("12") && flows.contains("4.00 us"),
        "{flows}"
    );
    report.flows.push(received);
    let text = render_report(&report);
    assert!(
        text.contains("Received flow") && text.contains("Expected"),
        "{text}"
    );
    report.host = Some(HostReport::new(
        "eth1",
        &Counters::default(),
        &xoff_host::NicCounters::default(),
    ));
    assert!(render_report(&report).contains("no pauses received"));
}

#[test]
fn stops_and_failures_of_a_stream_are_shown() {
    let mut report = build_sample_report(vec![], vec![]);
    report.switches[0].ports[0].device = Some("stream:/tmp/vm1.sock".to_owned());
    report.switches[0].ports[0].backend = Some("stream".to_owned());
    report.switches[0].ports[0].stream = Some(StreamReport {
        stops: 3,
        stopped_ns: 2_000_000,
        wrong_lengths: 1,
        ..StreamReport::default()
    });
    let text = render_report(&report);
    for expected in [
        "stream:/tmp/vm1.sock  ",
        "Ethernet0: stopped its stream 3 times, for 2.00 ms in total; a stopped stream holds all classes of its sender\n",
        "Ethernet0: a connection was closed because of a wrong frame length (1 time)\n",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in:\n{text}");
    }
    assert!(!text.contains("ended inside a frame"), "{text}");
}
