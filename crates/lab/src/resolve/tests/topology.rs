//! Tests of labs with several switches, templates and routes.

use super::*;

const TWO_SWITCHES: &str = r#"
name: two
topology:
  nodes:
    a: {kind: switch}
    b: {kind: switch}
    h1: {kind: model}
    h2: {kind: model}
  links:
    - {endpoints: ["h1:eth0", "a:Ethernet0"], speed: 100g, delay: 1us}
    - {endpoints: ["h2:eth0", "b:Ethernet0"], speed: 100g}
    - {name: trunk, endpoints: ["b:Ethernet4", "a:Ethernet4"], speed: 400g, delay: 250ns}
"#;

fn parse_virtual_lab(text: &str) -> Result<LabPlan, Problems> {
    parse_lab(text, "v.xoff.yml", Path::new("/nowhere"), TimeMode::Virtual)
}

fn parse_valid_lab(text: &str) -> LabPlan {
    parse_virtual_lab(text).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn links_between_switches_have_names_and_delays() {
    let plan = parse_valid_lab(TWO_SWITCHES);
    let [h1, _, trunk] = plan.links.as_slice() else {
        panic!("three links")
    };
    assert_eq!((h1.name.as_str(), h1.delay_ns), ("h1:eth0--a:Ethernet0", 1000));
    let far = FarEnd::Switch {
        switch: 0,
        port: "Ethernet4".into(),
    };
    assert_eq!(
        (trunk.name.as_str(), trunk.switch, &trunk.far),
        ("trunk", 1, &far)
    );
    assert_eq!((trunk.delay_ns, trunk.speed_mbps), (250, Some(400_000)));
    assert_eq!(
        (
            trunk.port_at_switch(0),
            trunk.port_at_switch(1),
            trunk.port_at_switch(2)
        ),
        (Some("Ethernet4"), Some("Ethernet4"), None)
    );
    assert!(
        plan.hosts.iter().all(|host| host.gateways.is_empty()),
        "no routes unless asked for"
    );
}

#[test]
fn plan_is_the_same_in_both_time_modes_and_plain_hosts_need_real_time() {
    let real = parse_lab(
        TWO_SWITCHES,
        "v.xoff.yml",
        Path::new("/nowhere"),
        TimeMode::RealTime,
    );
    let real = real.unwrap_or_else(|problems| panic!("{problems}"));
    let virtual_time = parse_virtual_lab(TWO_SWITCHES).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(real, virtual_time, "one file, one plan");
    let kinds = TWO_SWITCHES.replace("h2: {kind: model}", "h2: {kind: plain}");
    let text = parse_virtual_lab(&kinds)
        .expect_err("a kernel's host")
        .to_string();
    assert!(
        text.contains("h2 is of kind plain") && text.contains("kind model"),
        "{text}"
    );
}

#[test]
fn fields_of_a_node_override_the_template() {
    let plan = parse_valid_lab(
        r#"
name: t
topology:
  fabric:
    leaf-spine: {leaves: 2, spines: 1, hosts: 2, speed: 100g, config: {preset: roce-lossless}, host: {nic: {response_ns: 7}}}
  nodes:
    leaf2: {config: {QUEUE: {}}}
    h3: {nic: {response_ns: 9}, ipv4: 192.168.7.4/24}
    extra: {kind: model}
  links:
    - {endpoints: ["extra:eth0", "leaf2:Ethernet100"], speed: 25g}
"#,
    );
    let response: Vec<_> = plan
        .hosts
        .iter()
        .map(|host| (host.name.as_str(), host.nic.response_ns))
        .collect();
    assert_eq!(
        response,
        [
            ("h1", Some(7)),
            ("h2", Some(7)),
            ("h3", Some(9)),
            ("h4", Some(7)),
            ("extra", None)
        ]
    );
    assert_eq!(
        plan.switches[0].config.len(),
        2,
        "routes below the template's preset"
    );
    assert_eq!(plan.switches[1].config.len(), 3, "and leaf2's own layer above");
    let address = |host: usize| format!("{}/{}", plan.hosts[host].ipv4, plan.hosts[host].ipv4_prefix);
    assert_eq!(address(2), "192.168.7.4/24", "an address of the file stays");
    assert_eq!(
        plan.hosts[2].gateways,
        ["192.168.7.1".parse::<std::net::IpAddr>().expect("an address")]
    );
    assert_eq!(
        (address(0), address(4)),
        ("10.0.0.1/31".into(), "10.0.1.3/31".into())
    );
}

#[test]
fn errors_of_topologies_name_the_line_and_the_fix() {
    let fabric = |fabric: &str, more: &str| format!("name: t\ntopology:\n  fabric: {{{fabric}}}\n{more}");
    let cases: [(String, &[&str]); 18] = [
        (
            fabric("torus: {hosts: 2}", ""),
            &["v.xoff.yml:3:12", "no template \"torus\"", "leaf-spine, fat-tree"],
        ),
        (
            fabric("star: {hosts: 2}, fat-tree: {k: 4}", ""),
            &["v.xoff.yml:3", "one template, this one has 2"],
        ),
        (fabric("star: {}", ""), &["the template star has no `hosts`"]),
        (
            fabric("star: {hosts: 2, k: 4}", ""),
            &["v.xoff.yml:3", "the template star has no `k`", "hosts"],
        ),
        (fabric("star: {hosts: 0}", ""), &["`hosts` is 0", "from 1"]),
        (fabric("fat-tree: {k: 5}", ""), &["`k` is 5", "even"]),
        (
            fabric("fat-tree: {k: 66}", ""),
            &["makes 71874 hosts", "at most 65536"],
        ),
        (
            fabric("fat-tree: {k: 65536}", ""),
            &["hosts", "switches", "links"],
        ),
        (
            fabric("star: {hosts: 2000}", ""),
            &["makes 2000 ports on one switch", "1024"],
        ),
        (
            fabric("star: {hosts: 2, host: {ipv4: 10.0.0.1}}", ""),
            &["`ipv4` of `host` would be that of every host"],
        ),
        (fabric("star: {hosts: 2, hots: 2}", ""), &["v.xoff.yml:3", "hots"]),
        (
            fabric("star: {hosts: 2}", "  nodes: {h1: {kind: switch}}\n"),
            &["v.xoff.yml:4", "h1 is of kind model in the fabric's template"],
        ),
        (
            fabric("star: {hosts: 2}", "  routes: some\n"),
            &["v.xoff.yml:4", "\"some\"", "`auto`, `none`"],
        ),
        (
            fabric(
                "star: {hosts: 2}",
                "  routes: [{switch: sw2, to: h3, via: sw1}]\n",
            ),
            &[
                "no switch is called \"sw2\"",
                "sw1",
                "\"h3\" is neither a host nor an IPv4 prefix",
            ],
        ),
        (
            fabric(
                "star: {hosts: 2}",
                "  routes: [{switch: sw1, to: 10.0.0.1/24, via: Ethernet4}]\n",
            ),
            &["10.0.0.1/24", "10.0.1.0/24"],
        ),
        (
            fabric(
                "star: {hosts: 2}",
                "  routes: [{switch: sw1, to: h1, via: [Ethernet9]}]\n",
            ),
            &[
                "sw1 has no port or neighbour \"Ethernet9\"",
                "Ethernet0, Ethernet4",
            ],
        ),
        (
            fabric(
                "star: {hosts: 2}",
                "  nodes: {h1: {ipv4: 10.9.0.1/24}, h2: {ipv4: 10.9.0.2/24}}\n",
            ),
            &["h1 and h2 are in one network, 10.9.0.0/24", "leave `ipv4`"],
        ),
        (
            TWO_SWITCHES
                .replace("b:Ethernet4", "c:Ethernet4")
                .replace("trunk", "t k"),
            &[
                "v.xoff.yml:12",
                "\"t k\" cannot be the name of a link",
                "no node is called \"c\"",
            ],
        ),
    ];
    for (text, expected) in cases {
        let problems = parse_virtual_lab(&text).expect_err(&text).to_string();
        for part in expected {
            assert!(
                problems.contains(part),
                "{part:?} is not in:\n{problems}\nof\n{text}"
            );
        }
    }
}

#[test]
fn flow_between_hosts_without_a_path_is_an_error() {
    let text = TWO_SWITCHES.replace(
        "    - {name: trunk, endpoints: [\"b:Ethernet4\", \"a:Ethernet4\"], speed: 400g, delay: 250ns}\n",
        "  routes: auto\n",
    );
    let text = format!("{text}workload: {{duration: 1ms, flows: [{{name: f, from: h1, to: h2}}]}}\n");
    let problems = parse_virtual_lab(&text).expect_err("an island").to_string();
    assert!(
        problems.contains("no path of links leads from h1 to h2"),
        "{problems}"
    );
}
