//! Tests of loops within one bridge or VLAN.

use super::*;

/// Returns a lab of two leaves and two spines with one host at each leaf. `more` contains further lines under
/// `topology`, and `config` is the configuration of all switches.
fn leaf_spine(config: &str, more: &str) -> String {
    let mut text = format!("name: loop\ntopology:\n{more}  nodes:\n");
    for switch in ["leaf1", "leaf2", "spine1", "spine2"] {
        text += &format!("    {switch}: {{kind: switch, config: {config}}}\n");
    }
    text += "    h1: {kind: model}\n    h2: {kind: model}\n  links:\n";
    text += "    - {endpoints: [\"h1:eth0\", \"leaf1:Ethernet0\"]}\n";
    text += "    - {endpoints: [\"h2:eth0\", \"leaf2:Ethernet0\"]}\n";
    for (leaf, spine) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        text += &format!(
            "    - {{endpoints: [\"leaf{leaf}:Ethernet{}\", \"spine{spine}:Ethernet{}\"]}}\n",
            4 * spine,
            4 * leaf
        );
    }
    text
}

/// Returns a lab of two switches with two links between them.
fn parallel_links(config: &str, more: &str) -> String {
    format!(
        "name: loop\ntopology:\n{more}  nodes:\n    a: {{kind: switch, config: {config}}}\n    \
         b: {{kind: switch, config: {config}}}\n    h1: {{kind: model}}\n    h2: {{kind: model}}\n  links:\n    \
         - {{endpoints: [\"h1:eth0\", \"a:Ethernet0\"]}}\n    - {{endpoints: [\"h2:eth0\", \"b:Ethernet0\"]}}\n    \
         - {{name: first, endpoints: [\"a:Ethernet4\", \"b:Ethernet4\"]}}\n    \
         - {{name: second, endpoints: [\"a:Ethernet8\", \"b:Ethernet8\"]}}\n"
    )
}

fn parse(text: &str) -> Result<LabPlan, Problems> {
    parse_lab(text, "v.xoff.yml", Path::new("/nowhere"), TimeMode::Virtual)
}

/// Returns whether the switches have computed routes, and the notes.
#[track_caller]
fn routes_and_notes(text: &str) -> (bool, Vec<String>) {
    let plan = parse(text).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    let routed = |switch: &SwitchPlan| switch.config.iter().any(ConfigLayer::is_computed);
    (plan.switches.iter().all(routed), plan.notes)
}

#[track_caller]
fn only_error(text: &str) -> String {
    let problems = parse(text).expect_err("the loop is refused");
    assert_eq!(problems.len(), 1, "{problems}");
    problems.to_string()
}

const VLAN_10: &str = r#"{VLAN: {Vlan10: {}}, VLAN_MEMBER: {"Vlan10|Ethernet0": {tagging_mode: untagged}, "Vlan10|Ethernet4": {tagging_mode: tagged}, "Vlan10|Ethernet8": {tagging_mode: tagged}}}"#;

#[test]
fn a_loop_without_routes_gets_routes_and_one_note() {
    let (routed, notes) = routes_and_notes(&leaf_spine("{}", ""));
    assert!(routed);
    let [note] = notes.as_slice() else {
        panic!("{notes:?}")
    };
    let parts = [
        "leaf1",
        "leaf2",
        "spine1",
        "spine2",
        "within one bridge",
        "`routes: auto`",
    ];
    for part in parts {
        assert!(note.contains(part), "{part} in {note}");
    }
    for link in [
        "leaf1:Ethernet4--spine1:Ethernet4",
        "leaf2:Ethernet8--spine2:Ethernet8",
    ] {
        assert!(note.contains(link), "{link} in {note}");
    }
    let (routed, notes) = routes_and_notes(&parallel_links("{}", ""));
    assert!(
        routed && notes.len() == 1 && notes[0].contains("a - b - a over first, second"),
        "{notes:?}"
    );
    let (routed, notes) = routes_and_notes(&leaf_spine("{}", "  routes: auto\n"));
    assert!(routed && notes.is_empty(), "{notes:?}");
}

#[test]
fn links_that_form_no_loop_keep_their_bridges() {
    let lag = r#"{PORTCHANNEL: {PortChannel1: {admin_status: up, static: "true"}}, PORTCHANNEL_MEMBER: {"PortChannel1|Ethernet4": {}, "PortChannel1|Ethernet8": {}}}"#;
    let vlans = r#"{VLAN: {Vlan10: {}, Vlan20: {}}, VLAN_MEMBER: {"Vlan10|Ethernet4": {tagging_mode: untagged}, "Vlan20|Ethernet8": {tagging_mode: untagged}, "Vlan20|Ethernet0": {tagging_mode: untagged}}}"#;
    let down = r#"{PORT: {Ethernet8: {admin_status: down}}}"#;
    let routed = r#"{INTERFACE: {Ethernet8: {}, "Ethernet8|10.1.0.1/31": {}}, VLAN: {Vlan10: {}}, VLAN_MEMBER: {"Vlan10|Ethernet4": {tagging_mode: untagged}}}"#;
    for config in [lag, vlans, down, routed] {
        let (routed, notes) = routes_and_notes(&parallel_links(config, ""));
        assert!(!routed, "{config}");
        assert!(
            !notes.iter().any(|note| note.contains("loop")),
            "{config}: {notes:?}"
        );
    }
    // A VLAN that a bridge without VLANs carries over two links is a loop; two VLANs are none.
    let mixed = |members: &str| {
        parallel_links("{}", "").replace(
            "a: {kind: switch, config: {}}",
            &format!("a: {{kind: switch, config: {{VLAN: {{Vlan10: {{}}, Vlan20: {{}}}}, VLAN_MEMBER: {members}}}}}"),
        )
    };
    let two =
        mixed(r#"{"Vlan10|Ethernet4": {tagging_mode: tagged}, "Vlan20|Ethernet8": {tagging_mode: tagged}}"#);
    assert!(!routes_and_notes(&two).0);
    let one =
        mixed(r#"{"Vlan10|Ethernet4": {tagging_mode: tagged}, "Vlan10|Ethernet8": {tagging_mode: tagged}}"#);
    assert!(only_error(&one).contains("a - b - a over first, second"));
}

#[test]
fn a_loop_is_refused_if_routes_are_not_possible() {
    let vlan = only_error(&parallel_links(VLAN_10, ""));
    for part in [
        "v.xoff.yml:12",
        "within Vlan10",
        "a - b - a over first, second",
        "`routes: auto` is not possible",
    ] {
        assert!(vlan.contains(part), "{part} in {vlan}");
    }
    let one_network = leaf_spine("{}", "")
        .replace("h1: {kind: model}", "h1: {kind: model, ipv4: 10.0.0.1/24}")
        .replace("h2: {kind: model}", "h2: {kind: model, ipv4: 10.0.0.2/24}");
    let addresses = only_error(&one_network);
    for part in [
        "loop within one bridge",
        "leaf1",
        "spine2",
        "h1 and h2 are in one network",
    ] {
        assert!(addresses.contains(part), "{part} in {addresses}");
    }
}

#[test]
fn routes_none_with_a_loop_needs_a_permission() {
    for text in [leaf_spine as fn(&str, &str) -> String, parallel_links] {
        let refused = only_error(&text("{}", "  routes: none\n"));
        for part in ["v.xoff.yml:3", "`routes: none`", "allow_loop: true"] {
            assert!(refused.contains(part), "{part} in {refused}");
        }
        for more in ["  routes: none\n  allow_loop: true\n", "  allow_loop: true\n"] {
            let (routed, notes) = routes_and_notes(&text("{}", more));
            assert!(!routed && notes.is_empty(), "{notes:?}");
        }
    }
    let template =
        "name: x\ntopology:\n  routes: none\n  fabric:\n    dumbbell: {left: 1, right: 1, uplinks: 2}\n";
    assert!(only_error(template).contains("sw1 - sw2 - sw1"));
}
