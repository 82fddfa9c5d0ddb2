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
