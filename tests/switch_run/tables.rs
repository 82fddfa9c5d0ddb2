//! Tests of the tables that a running switch shows.

use super::*;

pub(crate) fn empty_tables_say_what_is_empty_and_why() -> Result<(), Failed> {
    let switch = RunningSwitch::start()?;
    for (words, text) in [
        (&["buffer", "configuration"][..], "BUFFER_POOL"),
        (&["buffer", "information"], "BUFFER_PROFILE"),
        (&["interfaces", "portchannel"], "the switch has no LAGs"),
        (&["ip", "interfaces"], "no interface has an IPv4 address"),
        (&["ipv6", "interfaces"], "no interface has an IPv6 address"),
        (&["ip", "route"], "no route of IPv4"),
        (&["ipv6", "route"], "no route of IPv6"),
        (&["headroom-pool", "watermark"], "no pool has shared headroom"),
        (&["pfcwd", "config"], "no port has a PFC watchdog"),
        (&["pfcwd", "stats"], "no queue is watched"),
        (&["pfc", "counters", "--history"], "no port records pauses"),
        (&["mac", "--vlan", "7"], "no learned MAC address"),
        (&["arp"], "no neighbour is known"),
        (&["ndp"], "no neighbour is known"),
        (&["lldp", "table"], "LLDP is off"),
        (&["lldp", "neighbors"], "LLDP is off"),
        (&["load-balancing", "moves"], "no flow has moved"),
    ] {
        let output = switch.run_command(&[&["show"], words].concat())?;
        let printed = [&output.stdout[..], &output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed).into_owned();
        check(output.status.success() && printed.contains(text), || {
            format!("{words:?}: no {text:?} in {printed}")
        })?;
        let json = switch.run_command(&[&["show"], words, &["--json"]].concat())?;
        check(json.stderr.is_empty(), || format!("{json:?}"))?;
    }
    Ok(())
}

const ROUTER_CONFIG: &str = r#"{
    "INTERFACE": {"Ethernet0": {}, "Ethernet0|10.0.0.0/31": {}, "Ethernet4": {}, "Ethernet4|10.0.0.2/31": {},
                  "Ethernet4|2001:db8::1/64": {}},
    "NEIGH": {"Ethernet0|10.0.0.1": {"neigh": "02:00:00:00:00:01"}, "Ethernet4|2001:db8::2": {"neigh": "02:00:00:00:00:02"}},
    "STATIC_ROUTE": {"0.0.0.0/0": {"nexthop": "10.0.0.1,10.0.0.3"}}}"#;

pub(crate) fn router_tables_are_shown_and_follow_the_configuration() -> Result<(), Failed> {
    let switch = RunningSwitch::start_with(ROUTER_CONFIG)?;
    let shown = |words: &[&str]| -> Result<String, Failed> {
        let output = switch.run_command(words)?;
        check_equal(output.status.code(), Some(0), "exit code")?;
        Ok(String::from_utf8(output.stdout)?)
    };
    let has = |text: &str, line: &str| check(text.contains(line), || format!("no {line:?} in:\n{text}"));
    wait_for("both interfaces up", || {
        let up = shown(&["show", "ip", "interfaces"])?.matches("up/up").count();
        Ok((up == 2).then_some(()))
    })?;
    has(
        &shown(&["show", "ip", "interfaces"])?,
        "Ethernet4              10.0.0.2/31          up/up",
    )?;
    has(&shown(&["show", "ipv6", "interfaces"])?, "2001:db8::1/64")?;
    has(
        &shown(&["show", "arp"])?,
        "10.0.0.1   02:00:00:00:00:01  Ethernet0  -\nTotal number of entries 1",
    )?;
    has(&shown(&["show", "ndp"])?, "PERMANENT")?;
    has(&shown(&["show", "mac"])?, "Total number of entries 0")?;
    let routes = shown(&["show", "ip", "route"])?;
    has(
        &routes,
        "\nS>* 0.0.0.0/0 [1/0] via 10.0.0.1, Ethernet0, weight 1, 00:00:",
    )?;
    has(
        &routes,
        "\n  *                 via 10.0.0.3, Ethernet4, weight 1, 00:00:",
    )?;
    has(
        &routes,
        "\nC>* 10.0.0.2/31 is directly connected, Ethernet4, weight 1, 00:00:",
    )?;
    has(
        &shown(&["show", "interfaces", "status"])?,
        "Ethernet0      N/A       1G   1500    N/A      N/A  routed      up       up",
    )?;
    has(&shown(&["show", "interfaces", "portchannel"])?, "Team Dev")?;
    let counters = switch.run_json_command(&["show", "interfaces", "counters", "--json"])?;
    check_equal(counters[1]["state"].as_str(), Some("U"), "state")?;

    fs::write(switch.path("less.json"), ROUTER_CONFIG.replace(",10.0.0.3", ""))?;
    check_equal(
        switch
            .run_command(&["config", "apply", "less.json"])?
            .status
            .code(),
        Some(0),
        "exit code",
    )?;
    let routes = switch.run_json_command(&["show", "ip", "route", "--json"])?;
    check_equal(routes[0]["prefix"].as_str(), Some("0.0.0.0/0"), "prefix")?;
    check_equal(
        routes[0]["next_hops"].as_array().map(Vec::len),
        Some(1),
        "next hops",
    )?;

    fs::write(
        switch.path("bad.json"),
        ROUTER_CONFIG.replace("10.0.0.3", "10.0.5.3"),
    )?;
    let refused = switch.run_command(&["config", "apply", "bad.json"])?;
    check_equal(refused.status.code(), Some(4), "exit code")?;
    has(
        &String::from_utf8(refused.stderr)?,
        "STATIC_ROUTE|0.0.0.0/0 nexthop \"10.0.5.3\": off-link",
    )?;
    switch.stop().map(|_| ())
}
