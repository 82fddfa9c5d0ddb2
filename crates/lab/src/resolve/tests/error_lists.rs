//! Tests of lists of errors: independent errors appear together, consequences do not appear, and each message has the
//! value, the permitted range and the unit, or the name that is probably meant.

use super::*;

/// Returns the errors of a lab file, one line each.
fn errors_of(text: &str) -> Vec<String> {
    match parse_lab(text, "e.yml", Path::new("/nowhere"), TimeMode::Virtual) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

/// A lab of two hosts with this workload and these lines after `topology`.
fn lab(links: &str, workload: &str) -> String {
    format!(
        "name: e\ntopology:\n  nodes:\n    s: {{kind: switch}}\n    h1: {{kind: model}}\n    h2: {{kind: model}}\n  \
         links:\n    - {{endpoints: [h1:eth0, s:Ethernet0]{links}}}\n    - {{endpoints: [h2:eth0, s:Ethernet4]}}\n\
         workload:\n{workload}"
    )
}

fn assert_errors(text: &str, parts: &[&str]) {
    let errors = errors_of(text);
    let all = errors.join("\n");
    for part in parts {
        assert!(
            errors.iter().any(|error| error.contains(part)),
            "{part:?} in\n{all}"
        );
    }
    assert_eq!(errors.len(), parts.len(), "{text}\n{all}");
}

#[test]
fn times_before_the_start_and_after_the_end_are_reported() {
    let flow =
        |start: &str| format!("  duration: 1ms\n  flows: [{{name: f, from: h1, to: h2, start: {start}}}]\n");
    assert_errors(&lab("", &flow("999us")), &[]);
    assert_errors(
        &lab("", &flow("1ms")),
        &["f starts after 1ms, and flows end after 1ms"],
    );
    assert_errors(
        &lab("", &flow("-1us")),
        &["-1us is out of range; write a duration from 0"],
    );
    let job = "  jobs: [{name: j, kind: permutation, hosts: all, bytes: 1k, start: -2us}]\n";
    assert_errors(&lab("", job), &["-2us is out of range; write a duration from 0"]);
    let script = "  duration: 1ms\nscript:\n  - {at: -1us, clear: counters}\n";
    assert_errors(
        &lab("", script),
        &["-1us is out of range; write a duration from 0"],
    );
}

#[test]
fn a_wrong_host_or_template_is_one_error() {
    let script = "script:\n  - {at: 1ms, start: j}\n  - {expect: job.j.jct_us < 1ms}\n";
    let start = "  duration: 1ms\n";
    for job in [
        "{name: j, kind: incast, from: [h1], to: h9, bytes: 1k}",
        "{name: j, kind: ring-allreduce, hosts: [h1, h9], bytes: 1k}",
        "{name: j, kind: permutation, hosts: h1..h2, bytes: 1zz}",
        "{name: j, kind: flows, flows: [{from: h1, to: h9, bytes: 1k}]}",
    ] {
        assert_errors(
            &lab("", &format!("  jobs:\n    - {job}\n{script}")),
            &[if job.contains("zz") {
                "\"1zz\""
            } else {
                "no host is called \"h9\""
            }],
        );
    }
    let script = "script:\n  - {stop: f}\n  - {expect: flow.f.received_packets > 0}\n  \
                  - {expect: sum(flow.*.received_packets) > 0}\n";
    let flow = format!("{start}  flows: [{{name: f, from: h9, to: h2}}]\n{script}");
    assert_errors(&lab("", &flow), &["no host is called \"h9\""]);
    let script = "script:\n  - {send: {from: h1, to: h9}}\n  - {expect: flow.send1.received_packets == 1}\n";
    assert_errors(
        &lab("", &format!("{start}{script}")),
        &["no host is called \"h9\""],
    );
    let range = "  jobs:\n    - {name: j, kind: ring-allreduce, hosts: h2..h3, bytes: 1k}\n";
    assert_errors(
        &lab("", range),
        &["\"h2..h3\" names 1 host that the lab does not have: h3"],
    );
    let job = "workload:\n  jobs:\n    - {name: j, kind: ring-allreduce, hosts: all, bytes: 1k}\n";
    assert_errors(
        &format!("name: e\ntopology:\n  fabric: {{star: 4}}\n{job}"),
        &["4 is not allowed here"],
    );
    assert_errors(
        &format!("name: e\ntopology:\n  fabric: {{}}\n{job}"),
        &["a fabric is one template"],
    );
}

#[test]
fn a_missing_duration_and_a_flow_to_itself_are_reported_with_all_other_errors() {
    let (missing, itself) = ("the workload has no `duration`", "h1 sends to itself");
    let flow = "  flows:\n    - {name: a, from: h1, to: h1}\n";
    assert_errors(&lab("", flow), &[missing, itself]);
    for (links, workload, other) in [
        (", colour: red", flow, "unknown field `colour`"),
        (", mtu: [1]", flow, "a list is not allowed here"),
        (
            "",
            "  flows:\n    - {name: a, from: h1, to: h1}\n    - {name: b, to: h1}\n",
            "the field `from` is missing",
        ),
    ] {
        assert_errors(&lab(links, workload), &[missing, itself, other]);
    }
    // A host with an error of its own.
    let wrong_host = lab("", flow).replace("h1: {kind: model}", "h1: plain");
    assert_errors(&wrong_host, &[missing, itself, "write a mapping with the fields"]);
    // A wrong or misspelt `duration` is not missing.
    for (line, error) in [("  duration: [1]\n", "a list"), ("  duraton: 1s\n", "duraton")] {
        assert_errors(&lab("", &format!("{line}{flow}")), &[itself, error]);
    }
}

#[test]
fn errors_within_a_job_are_reported_together() {
    let job =
        "  jobs:\n    - {name: j, kind: incast, to: [h1], iterations: 0, qps: 0, verb: sendd, hosts: all}\n";
    assert_errors(
        &lab("", job),
        &[
            "has no `from`",
            "has no `bytes`",
            "has no `hosts`",
            "iterations from 1 to",
            "queue pairs from 1 to 4096",
            "did you mean `send`?",
        ],
    );
    let job =
        "  jobs:\n    - {name: j, kind: ring-allreduce, hosts: al, bytes: [1k, xk], gpus_per_node: -1}\n";
    assert_errors(
        &lab("", job),
        &["did you mean `all`?", "\"xk\"", "GPUs from 1 to 65536"],
    );
    // The field is there, but its value is wrong.
    let job = "  jobs:\n    - {name: j, kind: permutation, hosts: all, bytes: {a: b}}\n";
    assert_errors(&lab("", job), &["a mapping is not allowed here"]);
}

#[test]
fn an_error_of_a_template_hides_no_other_errors_and_causes_none() {
    let text = |template: &str| {
        format!(
            "name: e\ntopology:\n  fabric:\n    {template}\n  nodes:\n    n1-g1: {{nic: {{pfc: [3]}}}}\n\
             workload:\n  flows:\n    - {{name: a, from: [n1-g1, n1-g2], to: n1-g1}}\n  jobs:\n    \
             - {{name: j, kind: ring-allreduce, hosts: all, bytes: 1k, qps: 0}}\n    \
             - {{name: i, kind: incast, from: 'n1-*', to: n1-g1, bytes: 1k}}\n    \
             - {{name: r, kind: permutation, hosts: n1-g1..n1-g4, bytes: 1k}}\n"
        )
    };
    let others = [
        "has no `duration`",
        "n1-g1 sends to itself",
        "queue pairs from 1 to 4096",
    ];
    for (template, error) in [
        (
            "rail: {nodes: 0, gpus: 2, spines: 1}",
            "`nodes` is 0, which is out of range",
        ),
        ("rail: {nodes: -1, gpus: 2, spines: 1}", "-1 is out of range"),
        (
            "rail: {nodes: many, gpus: 2, spines: 1}",
            "\"many\" is not allowed",
        ),
        ("rail: {ndoes: 2, gpus: 2, spines: 1}", "did you mean `nodes`?"),
        ("rial: {nodes: 2, gpus: 2, spines: 1}", "did you mean `rail`?"),
        ("star: {hosts: 100000}", "hosts from 1 to 65536"),
        ("rail: {nodes: 2, gpus: 2}", "has no `spines`"),
    ] {
        let [a, b, c] = others;
        assert_errors(&text(template), &[error, a, b, c]);
    }
    let both = text("rail: {nodes: 0, gpus: 2, spines: 1, speed: -1, mtu: 7}");
    let [a, b, c] = others;
    assert_errors(
        &both,
        &["`nodes` is 0", "-1 is out of range", "7 is out of range", a, b, c],
    );
}

/// A number with a valid unit is out of range. Other texts have a wrong form. Each message has the permitted range and
/// the unit, both for numbers that their types can hold and for others.
#[test]
fn values_out_of_range_report_the_range_and_the_unit() {
    let job =
        |field: &str| format!("  jobs:\n    - {{name: j, kind: alltoall, hosts: all, bytes: 1k, {field}}}\n");
    for (field, parts) in [
        ("gpus_per_node: 0", ["0 is out of range", "GPUs from 1 to 65536"]),
        (
            "gpus_per_node: -3",
            ["-3 is out of range", "GPUs from 1 to 65536"],
        ),
        (
            "qps: 5000",
            ["5000 is out of range", "queue pairs from 1 to 4096"],
        ),
        (
            "qps: 70000",
            ["70000 is out of range", "queue pairs from 1 to 4096"],
        ),
        (
            "warmup: -1",
            ["-1 is out of range", "iterations from 0 to 1048576"],
        ),
        (
            "nvlink: 11t",
            ["11t is out of range", "bits per second from 1k to 10t"],
        ),
        ("nvlink: fast", ["\"fast\" is not allowed here", "from 1k to 10t"]),
        ("compute_gap: -1us", ["-1us is out of range", "from 0 to 5000h"]),
        (
            "compute_gap: 20",
            ["\"20\" is not allowed here", "from 0 to 5000h"],
        ),
    ] {
        let errors = errors_of(&lab("", &job(field)));
        let [error] = errors.as_slice() else {
            panic!("{field}: {errors:?}")
        };
        assert!(parts.iter().all(|part| error.contains(part)), "{field}: {error}");
    }
    for (field, parts) in [
        ("speed: -1", ["-1 is out of range", "a speed from 10m to 1.6t"]),
        ("speed: 2t", ["2t is out of range", "a speed from 10m to 1.6t"]),
        (
            "mtu: 100000",
            ["100000 is out of range", "bytes from 68 to 65535"],
        ),
        ("mtu: -5", ["-5 is out of range", "bytes from 68 to 65535"]),
    ] {
        let errors = errors_of(&lab(&format!(", {field}"), "  duration: 1s\n"));
        let [error] = errors.as_slice() else {
            panic!("{field}: {errors:?}")
        };
        assert!(parts.iter().all(|part| error.contains(part)), "{field}: {error}");
    }
}

#[test]
fn misspelt_names_of_hosts_and_fields_get_a_proposal() {
    let flow = |from: &str, to: &str| {
        format!("  duration: 1s\n  flows:\n    - {{name: a, from: {from}, to: {to}}}\n")
    };
    assert_errors(&lab("", &flow("hh1", "h2")), &["did you mean `h1`?"]);
    assert_errors(&lab("", &flow("h1", "H2")), &["did you mean `h2`?"]);
    let job =
        |hosts: &str| format!("  jobs:\n    - {{name: j, kind: alltoall, hosts: {hosts}, bytes: 1k}}\n");
    for (hosts, proposal) in [("al", "`all`"), ("[h1, hh2]", "`h2`"), ("[all, '!hh1']", "`h1`")] {
        assert_errors(&lab("", &job(hosts)), &[&format!("did you mean {proposal}?")]);
    }
    let field = lab("", "  duration: 1s\n").replace("h1: {kind: model}", "h1: {kind: model, ipv: 6}");
    assert_errors(&field, &["did you mean `ipv4` or `ipv6`?"]);
}
