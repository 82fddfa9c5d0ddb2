//! LLDP and DCBX in labs.

use super::*;

/// Returns a lab in which two hosts overload a third one. The NICs have PFC on priority 3. `hosts` is the field `dcbx`
/// of all hosts, and `ports` the table of the switch with the PFC configuration of a port.
fn dcbx_lab(hosts: &str, ports: &str) -> String {
    let (mut nodes, mut links, mut tables, mut flows) =
        (String::new(), String::new(), String::new(), String::new());
    for host in 1..=3 {
        let port = format!("Ethernet{}", 4 * host);
        nodes += &format!("    h{host}: {{kind: model, nic: {{dcbx: {hosts}, pfc: [3]}}}}\n");
        links +=
            &format!("    - {{endpoints: [\"h{host}:eth0\", \"sw1:{port}\"], speed: 100g, delay: 500ns}}\n");
        tables += &format!("{port}: {{pfc_enable: {ports}}}, ");
        if host < 3 {
            flows += &format!("    - {{name: f{host}, from: h{host}, to: h3, dscp: 26, rate: 90%}}\n");
        }
    }
    let dcbx =
        ["Ethernet4", "Ethernet8", "Ethernet12"].map(|port| format!("{port}: {{pfc_willing: \"true\"}}"));
    format!(
        "name: dcbx\ntopology:\n  nodes:\n    sw1:\n      kind: switch\n      config:\n        - {{preset: roce-lossless}}\n        \
         - {{PORT_QOS_MAP: {{{tables}}}, LLDP: {{GLOBAL: {{enabled: \"true\"}}}}, XOFF_DCBX: {{{}}}}}\n{nodes}  links:\n{links}\
         workload:\n  duration: 2ms\n  drain: 2ms\n  flows:\n{flows}",
        dcbx.join(", ")
    )
}

#[test]
fn negotiated_pfc_prevents_losses_and_a_mismatch_is_a_warning() {
    let folder = temporary_folder();
    let options = ["--report", "report.json", "--events", "events.jsonl"];
    // No port has `pfc_enable`, and the NICs configure PFC.
    run_lab(folder.path(), &dcbx_lab("not-willing", "null"), &options, 0);
    let report = read_json(folder.path().join("report.json"));
    let ports = report["switches"][0]["ports"].as_array().expect("ports");
    assert!(
        ports.iter().any(|port| port["pfc_tx"][3].as_u64() > Some(0)),
        "{ports:?}"
    );
    assert!(
        ports.iter().all(|port| port["pfc_enabled"][3] == true),
        "{ports:?}"
    );
    assert_eq!(
        report["totals"]["sent_frames"],
        report["totals"]["received_frames"]
    );
    let neighbours = &report["switches"][0]["lldp"]["ports"][0]["neighbours"];
    assert_eq!(neighbours[0]["system_name"], "h1");
    assert!(
        read_file(folder.path().join("events.jsonl"))
            .contains("\"event\":\"dcbx-pfc\",\"at\":\"sw1:Ethernet4\"")
    );

    // The switch has PFC on priority 4, and no end is willing. No class is lossless at both ends, so drops are no
    // failure.
    run_lab(folder.path(), &dcbx_lab("not-willing", "\"4\""), &options, 0);
    let report = read_json(folder.path().join("report.json"));
    let warning = report["warnings"][0].as_str().unwrap_or_default();
    assert!(
        warning
            .starts_with("sw1 Ethernet4: DCBX: PFC: this port has PFC on priority 4, the peer on priority 3"),
        "{report}"
    );

    // Willing hosts use the configuration of the switch.
    run_lab(folder.path(), &dcbx_lab("willing", "\"3\""), &options, 0);
    let report = read_json(folder.path().join("report.json"));
    let mismatches = &report["switches"][0]["lldp"]["ports"][0]["dcbx"]["mismatches"];
    assert!(!mismatches.to_string().contains("PFC"), "{mismatches}");
}

/// A lab in which two hosts overload a third one, with priorities 0 and 3. The third host recommends 20 % and 80 % to
/// its switch port.
const ETS_LAB: &str = r#"
name: ets
topology:
  nodes:
    sw1:
      kind: switch
      config:
        LLDP: {GLOBAL: {enabled: "true"}}
        XOFF_DCBX: {Ethernet12: {ets_willing: "WILLING"}}
        DSCP_TO_TC_MAP: {D: {"0": "0", "26": "3"}}
        TC_TO_QUEUE_MAP: {Q: {"0": "0", "3": "3"}}
        PORT_QOS_MAP: {"Ethernet4,Ethernet8,Ethernet12": {dscp_to_tc_map: D, tc_to_queue_map: Q}}
    h1: {kind: model}
    h2: {kind: model}
    h3: {kind: model, nic: {dcbx: not-willing, pfc: [], ets: {classes: [0, 0, 0, 1, 0, 0, 0, 0], shares: [20, 80]}}}
  links:
    - {endpoints: ["h1:eth0", "sw1:Ethernet4"], speed: 10g}
    - {endpoints: ["h2:eth0", "sw1:Ethernet8"], speed: 10g}
    - {endpoints: ["h3:eth0", "sw1:Ethernet12"], speed: 10g}
workload:
  duration: 10ms
  flows:
    - {name: rest, from: h1, to: h3, dscp: 0, rate: 95%, lossless: false}
    - {name: share, from: h2, to: h3, dscp: 26, rate: 95%, lossless: false}
"#;

#[test]
fn a_host_recommends_the_shares_of_its_switch_port() {
    let folder = temporary_folder();
    let percent_of_share = |is_willing: bool| {
        let lab = ETS_LAB.replace("WILLING", &is_willing.to_string());
        // At this time, both classes still overload the port.
        let options = [
            "--until",
            "5ms",
            "--report",
            "report.json",
            "--events",
            "events.jsonl",
        ];
        run_lab(folder.path(), &lab, &options, 0);
        let report = read_json(folder.path().join("report.json"));
        let received =
            [0, 1].map(|flow: usize| report["flows"][flow]["received_frames"].as_u64().unwrap_or(0));
        let dcbx = &report["switches"][0]["lldp"]["ports"][2]["dcbx"];
        (
            received[1] * 100 / received.iter().sum::<u64>().max(1),
            dcbx["ets_source"].clone(),
            report,
        )
    };
    let (percent, source, report) = percent_of_share(true);
    assert!((78..=81).contains(&percent), "{percent}");
    assert_eq!(source, "peer");
    assert!(report["warnings"].is_null(), "{report}");
    let events = read_file(folder.path().join("events.jsonl"));
    assert!(
        events.contains("\"event\":\"dcbx-ets\",\"at\":\"sw1:Ethernet12\""),
        "{events}"
    );

    // No end is willing, so both keep their configuration and differ.
    let (percent, source, report) = percent_of_share(false);
    assert!((48..=51).contains(&percent), "{percent}");
    assert_eq!(source, "local");
    let warning = report["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.starts_with("sw1 Ethernet12: DCBX: ETS:"), "{report}");
}
