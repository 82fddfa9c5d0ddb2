mod balancing;
mod error_lists;
mod jobs;
mod loops;
mod nics;
mod replay;
mod script;
mod topology;

use std::path::Path;

use super::super::plan::{ConfigLayer, FarEnd, OfferedRate, SwitchPlan, TimeMode, VmAttachment};
use super::*;

const INCAST: &str = r#"
name: small
topology:
  nodes:
    sw1:
      kind: switch
      config:
        - preset: roce-lossless
        - {PORT_QOS_MAP: {Ethernet0: {pfc_enable: "", number: 3}}}
    h2: {kind: model, mac: "02:00:00:00:00:22"}
    h1: {kind: model, nic: {response_ns: 500, pfc: [3, 4]}}
  links:
    - endpoints: ["h1:eth0", "sw1:Ethernet0"]
      speed: 10g
      mtu: 4200
    - {endpoints: ["sw1:Ethernet4", "h2:eth1"]}
    - endpoints: ["sw1:Ethernet8", external: eth7]
workload:
  duration: 20s
  flows:
    - {name: all, from: h1, to: h2, lossless: true}
    - {name: some, from: [h1], to: h2, rate: 40%, dscp: 8, frame: 1082}
"#;

fn parse_incast_lab(text: &str) -> Result<LabPlan, Problems> {
    parse_lab(text, "a.xoff.yml", Path::new("/nowhere"), TimeMode::RealTime)
}

#[test]
fn missing_fields_of_a_lab_file_get_defaults() {
    let plan = parse_incast_lab(INCAST).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(
        plan.hosts
            .iter()
            .map(|host| host.name.as_str())
            .collect::<Vec<_>>(),
        ["h2", "h1"],
        "in the file's order"
    );
    let [h2, h1] = plan.hosts.as_slice() else {
        panic!("two hosts")
    };
    assert_eq!((h2.mac, h2.interface.as_str()), ([2, 0, 0, 0, 0, 0x22], "eth1"));
    assert_eq!(
        (h1.mac, h1.ipv4.to_string().as_str()),
        ([2, 0x58, 0x4f, 0x46, 0, 2], "10.0.0.2")
    );
    assert_eq!(
        (h1.nic.response_ns, h1.nic.pfc_honoured),
        (Some(500), Some(0b1_1000))
    );
    let [a, b, c] = plan.links.as_slice() else {
        panic!("three links")
    };
    assert_eq!(
        (a.port.as_str(), a.speed_mbps, a.mtu, &a.far),
        ("Ethernet0", Some(10_000), 4200, &FarEnd::Host(1))
    );
    assert_eq!((b.speed_mbps, b.mtu, &b.far), (None, 9216, &FarEnd::Host(0)));
    assert_eq!(
        (&c.far, c.source.as_str()),
        (&FarEnd::External("eth7".into()), "a.xoff.yml:17")
    );
    let [all, some] = plan.workload.flows.as_slice() else {
        panic!("two flows")
    };
    assert_eq!(
        (all.from, all.to, all.dscp, all.class, all.frame_len),
        (1, 0, 26, 3, 1082)
    );
    assert_eq!(
        (all.rate, all.ecn_capable, all.message_bytes),
        (OfferedRate::LinkShare(1_000_000), true, 1 << 20)
    );
    assert_eq!(
        (some.rate, some.class, some.lossless),
        (OfferedRate::LinkShare(400_000), 1, false)
    );
    let [
        ConfigLayer::Preset { name, .. },
        ConfigLayer::Text { source, text },
    ] = plan.switches[0].config.as_slice()
    else {
        panic!("two layers")
    };
    assert_eq!(
        (name.as_str(), source.as_str()),
        ("roce-lossless", "a.xoff.yml:9")
    );
    assert_eq!(
        text, r#"{"PORT_QOS_MAP":{"Ethernet0":{"pfc_enable":"","number":"3"}}}"#,
        "scalars are strings"
    );
}

/// Each case changes one value in a valid file. The error message must contain the line, the value
/// and the fix.
#[test]
fn errors_name_the_line_the_value_and_the_fix() {
    let cases: [(&str, &str, &[&str]); 27] = [
        (
            "name: small",
            "name: a b",
            &["a.xoff.yml:2:7", "\"a b\"", "letters"],
        ),
        ("name: small", "nam: small", &["a.xoff.yml:2", "nam"]),
        (
            "kind: switch",
            "kind: swich",
            &["a.xoff.yml:6", "\"swich\"", "switch (", "model ("],
        ),
        (
            "kind: switch",
            "kind: shim",
            &["this version has no kind \"shim\"", "plain (", "vm ("],
        ),
        ("    h2: {kind", "    sw1: {kind", &["a.xoff.yml:10", "sw1"]),
        (
            "mac: \"02:00:00:00:00:22\"",
            "mac: \"03:00:00:00:00:22\"",
            &["a.xoff.yml:10", "unicast"],
        ),
        (
            "mac: \"02:00:00:00:00:22\"",
            "mac: \"02:58:4f:46:00:02\"",
            &["h2 and h1", "02:58:4f:46:00:02"],
        ),
        (
            "mac: \"02:00:00:00:00:22\"",
            "ipv4: 10.0.0.256",
            &["a.xoff.yml:10", "10.0.0.256", "10.0.0.1"],
        ),
        (
            "mac: \"02:00:00:00:00:22\"",
            "config: {}",
            &["a.xoff.yml:10", "a node of kind model has no `config`", "switch"],
        ),
        ("pfc: [3, 4]", "pfc: [8]", &["a.xoff.yml:11", "8", "0 to 7"]),
        (
            "response_ns: 500",
            "response: 500",
            &["a.xoff.yml:11", "response"],
        ),
        ("response_ns: 500", "buffer_bytes: 500", &["drain"]),
        (
            "- preset: roce-lossless",
            "- none.json",
            &["a.xoff.yml:8", "/nowhere/none.json", "relative"],
        ),
        (
            "\"h1:eth0\", ",
            "\"h3:eth0\", ",
            &["a.xoff.yml:13", "\"h3\"", "sw1, h2, h1"],
        ),
        (
            "\"h1:eth0\", ",
            "\"h1\", ",
            &["a.xoff.yml:13", "\"h1\"", "NODE:INTERFACE"],
        ),
        ("\"h1:eth0\", ", "", &["two endpoints", "has 1"]),
        (
            "Ethernet4",
            "Ethernet0",
            &["a.xoff.yml:16", "sw1:Ethernet0 is used by more than one"],
        ),
        ("external: eth7", "\"h1:eth1\"", &["a.xoff.yml:17", "second link"]),
        ("external: eth7", "other: eth7", &["a.xoff.yml:17", "external"]),
        (
            "external: eth7",
            "external: averylonginterface",
            &["a.xoff.yml:17", "averylonginterface"],
        ),
        (
            "speed: 10g",
            "speed: 2t",
            &["a.xoff.yml:14:14", "2t is out of range", "1.6t"],
        ),
        ("mtu: 4200", "mtu: 1000", &["1082 bytes", "MTU of 1000", "1068"]),
        (
            "duration: 20s",
            "duration: 20",
            &["a.xoff.yml:19", "\"20\"", "20s"],
        ),
        (
            "to: h2, lossless: true",
            "to: sw1",
            &["a.xoff.yml:21", "\"sw1\"", "h2, h1"],
        ),
        ("to: h2, lossless: true", "to: h1", &["sends to itself"]),
        (
            "rate: 40%",
            "rate: 140%",
            &["a.xoff.yml:22", "140% is out of range", "100%"],
        ),
        ("frame: 1082", "frame: 1083", &["1083", "multiple of 4"]),
    ];
    for (from, to, expected) in cases {
        let text = INCAST.replacen(from, to, 1);
        assert_ne!(text, INCAST, "{from} is in the file");
        let problems = parse_incast_lab(&text).expect_err(to).to_string();
        for part in expected {
            assert!(problems.contains(part), "{to}: {part:?} is not in:\n{problems}");
        }
    }
}

const LAB_OF_ALL_KINDS: &str = r#"
name: kinds
topology:
  nodes:
    sw1: {kind: switch}
    p1: {kind: plain, ipv4: 10.0.0.1/24, gateway: [10.0.0.9, "fd58:4f46::9"], routes: [10.1.0.0/16 via 10.0.0.8], exec: [ls]}
    g1: {kind: vm, kernel: Cargo.toml, append: quiet, memory: 2G, cpus: 2, accel: tcg, args: [-snapshot], attach: stream, console: c}
    m1: {kind: model}
  links:
    - endpoints: ["p1:eth0", "sw1:Ethernet0"]
    - endpoints: ["g1:eth0", "sw1:Ethernet4"]
    - endpoints: ["m1:eth0", "sw1:Ethernet8"]
workload: {duration: 1s}
"#;

fn parse_lab_of_all_kinds(text: &str) -> Result<LabPlan, Problems> {
    parse_lab(
        text,
        "k.xoff.yml",
        Path::new(env!("CARGO_MANIFEST_DIR")),
        TimeMode::RealTime,
    )
}

#[test]
fn hosts_of_all_kinds_are_resolved() {
    let plan = parse_lab_of_all_kinds(LAB_OF_ALL_KINDS).unwrap_or_else(|problems| panic!("{problems}"));
    let [p1, g1, m1] = plan.hosts.as_slice() else {
        panic!("three hosts")
    };
    let plain = p1.as_plain().expect("a plain host");
    let routes: Vec<String> = plain
        .routes
        .iter()
        .map(|route| format!("{}/{} via {}", route.destination, route.prefix, route.gateway))
        .collect();
    assert_eq!(
        routes,
        [
            "0.0.0.0/0 via 10.0.0.9",
            "::/0 via fd58:4f46::9",
            "10.1.0.0/16 via 10.0.0.8"
        ]
    );
    assert_eq!(
        (p1.ipv4_prefix, p1.ipv6_prefix, plain.exec.as_slice()),
        (24, 64, ["ls".to_owned()].as_slice())
    );
    let vm = g1.as_vm().expect("a guest");
    assert_eq!((g1.ipv4.to_string().as_str(), g1.ipv4_prefix), ("10.0.0.2", 16));
    assert_eq!(
        (vm.memory_mib, vm.cpus, vm.append.as_str(), vm.qemu.as_str()),
        (2048, 2, "quiet", "qemu-system-x86_64")
    );
    assert_eq!(
        (vm.source.as_str(), vm.attach),
        ("k.xoff.yml:7", VmAttachment::Stream)
    );
    assert!(
        vm.kernel.is_absolute() && vm.console.as_ref().is_some_and(|path| path.is_absolute()),
        "{vm:?}"
    );
    assert!(m1.is_model() && plan.model_host_count() == 1);
}

#[test]
fn errors_of_plain_hosts_and_guests_name_the_fix() {
    let cases: [(&str, &str, &[&str]); 17] = [
        (
            "10.0.0.1/24",
            "10.0.0.1/33",
            &["k.xoff.yml:6", "10.0.0.1/33", "length of its prefix"],
        ),
        (
            "[10.0.0.9,",
            "[10.0.1.9,",
            &[
                "k.xoff.yml:6",
                "p1 cannot reach the gateway 10.0.1.9",
                "10.0.0.1/24",
            ],
        ),
        ("[10.0.0.9,", "[10.0.0.8, 10.0.0.9,", &["two routes to 0.0.0.0/0"]),
        ("[10.0.0.9,", "[there,", &["\"there\" is no gateway"]),
        (
            "10.1.0.0/16 via",
            "10.1.0.1/16 via",
            &["\"10.1.0.1/16 via 10.0.0.8\" is no route", "PREFIX via GATEWAY"],
        ),
        (
            "exec: [ls]",
            "memory: 1G",
            &["a node of kind plain has no `memory`", "vm"],
        ),
        (
            "exec: [ls]",
            "nic: {}",
            &["a node of kind plain has no `nic`", "model"],
        ),
        (
            "kernel: Cargo.toml, ",
            "",
            &[
                "k.xoff.yml:7",
                "the guest g1 has no `kernel`",
                "testbeds/softroce/build",
            ],
        ),
        (
            "kernel: Cargo.toml",
            "kernel: none",
            &["k.xoff.yml:7", "cannot read the kernel", "/none", "relative"],
        ),
        ("kernel: Cargo.toml", "kernel: src", &["it is not a file"]),
        ("memory: 2G", "memory: 2x", &["\"2x\"", "384M"]),
        ("cpus: 2", "cpus: 0", &["0 is out of range", "1 to 255"]),
        ("accel: tcg", "accel: hvf", &["\"hvf\"", "kvm", "tcg"]),
        (
            "attach: stream",
            "attach: vhost",
            &["k.xoff.yml:7", "attached by \"vhost\"", "write tap, or stream"],
        ),
        (
            "console: c",
            "console: no/c",
            &["cannot write a console to", "no/c"],
        ),
        (
            "append: quiet",
            "exec: [ls]",
            &["a node of kind vm has no `exec`", "plain"],
        ),
        (
            "duration: 1s",
            "duration: 1s, flows: [{name: f, from: m1, to: p1}]",
            &["\"p1\" is not a model host", "the model hosts are m1"],
        ),
    ];
    for (from, to, expected) in cases {
        let text = LAB_OF_ALL_KINDS.replacen(from, to, 1);
        assert_ne!(text, LAB_OF_ALL_KINDS, "{from} is in the file");
        let problems = parse_lab_of_all_kinds(&text).expect_err(to).to_string();
        for part in expected {
            assert!(problems.contains(part), "{to}: {part:?} is not in:\n{problems}");
        }
    }
}

#[test]
fn all_errors_of_a_lab_file_are_reported_together() {
    let text = INCAST
        .replace("speed: 10g", "speed: fast")
        .replace("rate: 40%", "rate: much");
    let problems = parse_incast_lab(&text).expect_err("three mistakes");
    assert_eq!(problems.len(), 3, "{problems}");
    // The configuration of the switch has a mistake too. The invalid speed is no mistake of the configuration.
    let text = problems.to_string();
    assert!(
        text.contains("configuration of sw1: PORT_QOS_MAP|Ethernet0 number"),
        "{text}"
    );
}

#[test]
fn the_number_of_configuration_layers_is_limited() {
    let text = |layers: usize| {
        let config = vec!["{}"; layers].join(", ");
        format!(
            "name: x\ntopology:\n  nodes:\n    sw1: {{kind: switch, config: [{config}]}}\n    h1: {{kind: model}}\n  links:\n    - endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"]\n"
        )
    };
    let parse = |text: &str| parse_lab(text, "x.yml", Path::new(""), TimeMode::Virtual).map(drop);
    assert!(parse(&text(100)).is_ok());
    let problems = parse(&text(101)).expect_err("too many").to_string();
    assert!(
        problems.contains("x.yml:4") && problems.contains("more than 100 layers"),
        "{problems}"
    );
}

#[test]
fn text_that_is_not_a_lab_file_is_refused() {
    for text in [
        "",
        "[]",
        "name: x",
        "\u{0}",
        "a: [",
        "name: x\ntopology: {nodes: {}}",
    ] {
        assert!(parse_incast_lab(text).is_err(), "{text:?}");
    }
}

#[test]
fn error_of_a_missing_lab_file_names_its_path() {
    let problems = load_lab(Path::new("no/such.xoff.yml"), TimeMode::RealTime)
        .expect_err("it is missing")
        .to_string();
    assert!(
        problems.contains("no/such.xoff.yml") && problems.contains("testbeds/incast.xoff.yml"),
        "{problems}"
    );
}

/// Mistakes of all sections and of both passes: the structure of the file, and the values.
const FIVE_MISTAKES: &str = "
name: mistakes
topology:
  nodes:
    sw1: {kind: swich, config: {preset: roce-lossless}}
    sw2: {kind: switch, config: {preset: roce-losless}}
    h1: {kind: model, colour: red}
    h2: {kind: model}
  links:
    - {endpoints: ['h1:eth0', 'sw1:Ethernet0'], mtu: large}
    - {endpoints: ['h2:eth0', 'sw2:Ethernet0'], speed: fast}
transports:
  t1: {congestion: dcqnc}
workload:
  duration: 1ms
  flows:
    - {name: f, from: h1, to: g2, dcsp: 3}
";

#[test]
fn independent_mistakes_are_reported_together_in_the_order_of_their_lines() {
    let problems = parse_lab(FIVE_MISTAKES, "m.yml", Path::new(""), TimeMode::Virtual).expect_err("mistakes");
    let lines: Vec<u64> = problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [5, 6, 7, 10, 11, 13, 17, 17], "{problems}");
    assert!(problems.iter().all(|problem| problem.column > 0), "{problems}");
    let text = problems.to_string();
    for suggestion in ["`switch`", "`roce-lossless`", "`dscp`", "`h2`", "`dcqcn`"] {
        assert!(
            text.contains(&format!("did you mean {suggestion}?")),
            "{suggestion}: {text}"
        );
    }
}

#[test]
fn an_error_has_no_consequences_in_other_places() {
    for (mistake, line) in [
        (
            "    h3: {kind: modle}\n  links:\n    - {endpoints: ['h3:eth0', 'sw2:Ethernet4']}\n",
            9,
        ),
        (
            "    h3: model\n  links:\n    - {endpoints: ['h3:eth0', 'sw2:Ethernet4']}\n",
            9,
        ),
        (
            "    h3: {kind: model}\n  links:\n    - {endpoints: ['h3:eth0', sw2]}\n",
            11,
        ),
        ("    h3: {kind: model}\n  links:\n    - {speed: 10g}\n", 11),
    ] {
        let text = "
name: a
topology:
  nodes:
    sw1: {kind: switch}
    sw2: {kind: switch}
    h1: {kind: model}
    h2: {kind: model}
MISTAKE    - {endpoints: ['h1:eth0', 'sw1:Ethernet0']}
    - {endpoints: ['h2:eth0', 'sw2:Ethernet0']}
workload:
  duration: 1ms
  flows: [{name: f, from: h3, to: h2}]
"
        .replace("MISTAKE", mistake);
        let problems = parse_lab(&text, "m.yml", Path::new(""), TimeMode::Virtual).expect_err(mistake);
        let lines: Vec<u64> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [line], "{mistake}: {problems}");
    }
}

#[test]
fn the_number_of_printed_errors_is_limited() {
    let links = "    - {endpoints: ['h9:eth0', 'sw9:Ethernet0'], mtu: 1}\n".repeat(3000);
    let text = format!("name: a\ntopology:\n  nodes: {{sw1: {{kind: switch}}}}\n  links:\n{links}");
    let problems = parse_lab(&text, "m.yml", Path::new(""), TimeMode::Virtual).expect_err("errors");
    let text = problems.to_string();
    assert_eq!(text.lines().count(), 51);
    assert!(problems.len() > 6000, "{}", problems.len());
    assert!(
        text.ends_with(&format!("and {} more errors", problems.len() - 50)),
        "{text}"
    );
}
