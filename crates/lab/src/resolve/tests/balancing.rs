//! Tests of `load_balancing` of the lab and of its switches.

use serde_json::Value;

use super::*;

fn lab_text(defaults: &str, fabric: &str, nodes: &str) -> String {
    format!(
        "name: f\ntopology:\n  defaults: {{{defaults}}}\n  fabric:\n    leaf-spine: {{leaves: 2, spines: 2, hosts: 1{fabric}}}\n  nodes:\n    leaf1: {{{nodes}}}\n"
    )
}

fn parse_valid_lab(text: &str) -> LabPlan {
    parse_lab(text, "f.xoff.yml", Path::new("/nowhere"), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"))
}

/// Returns a field of `XOFF_LB|global` from the highest layer of a switch that contains it.
fn configured_lb_field(plan: &LabPlan, switch: usize, field: &str) -> Option<String> {
    let layers = plan.switches[switch].config.iter().rev();
    layers
        .filter_map(|layer| match layer {
            ConfigLayer::Text { text, .. } => serde_json::from_str::<Value>(text).ok(),
            ConfigLayer::Computed(layer) => serde_json::from_str(&layer.tables).ok(),
            ConfigLayer::Preset { .. } => None,
        })
        .find_map(|tables| {
            Some(
                tables
                    .get("XOFF_LB")?
                    .get("global")?
                    .get(field)?
                    .as_str()?
                    .to_owned(),
            )
        })
}

fn configured_schemes(plan: &LabPlan) -> Vec<String> {
    let all = 0..plan.switches.len();
    all.map(|switch| configured_lb_field(plan, switch, "scheme").unwrap_or_default())
        .collect()
}

#[test]
fn scheme_of_a_node_overrides_its_configuration_and_configuration_overrides_the_default() {
    let plan = parse_valid_lab(&lab_text("load_balancing: drill", "", ""));
    assert_eq!(configured_schemes(&plan), ["drill"; 4]);
    let config = "config: {XOFF_LB: {global: {scheme: random}}}";
    let plan = parse_valid_lab(&lab_text("load_balancing: drill", &format!(", {config}"), ""));
    assert_eq!(configured_schemes(&plan), ["random"; 4]);
    let plan = parse_valid_lab(&lab_text(
        "load_balancing: drill",
        &format!(", {config}"),
        "load_balancing: ecmp-qp",
    ));
    assert_eq!(
        configured_schemes(&plan),
        ["ecmp-qp", "random", "random", "random"]
    );
    let plan = parse_valid_lab(&lab_text("", "", ""));
    assert_eq!(configured_schemes(&plan), [""; 4]);
}

#[test]
fn all_switches_advertise_link_quality_if_one_scheme_uses_it() {
    let advertise = |plan: &LabPlan| {
        let all = (0..plan.switches.len()).map(|switch| configured_lb_field(plan, switch, "advertise"));
        all.collect::<Vec<_>>()
    };
    let on = Some("on".to_owned());
    assert_eq!(
        advertise(&parse_valid_lab(&lab_text("load_balancing: flowlet", "", ""))),
        [None, None, None, None]
    );
    let plan = parse_valid_lab(&lab_text("load_balancing: ecmp", "", "load_balancing: conga"));
    assert_eq!(advertise(&plan), [on.clone(), on.clone(), on.clone(), on.clone()]);
    assert_eq!(
        configured_lb_field(&plan, 0, "advertise_ports").as_deref(),
        Some("Ethernet4,Ethernet8")
    );
    assert_eq!(
        configured_lb_field(&plan, 3, "advertise_ports").as_deref(),
        Some("Ethernet0,Ethernet4")
    );
    // The same holds for a scheme that the lab defines.
    let own = ", config: {XOFF_LB_SCHEME: {mine: {scheme: global, idle_time: 20}}}";
    assert_eq!(
        advertise(&parse_valid_lab(&lab_text("load_balancing: mine", own, ""))),
        [on.clone(), on.clone(), on.clone(), on]
    );
}

#[test]
fn site_number_of_a_network_is_the_number_of_its_switch() {
    let plan = parse_valid_lab(&lab_text("", "", ""));
    let ConfigLayer::Computed(layer) = &plan.switches[2].config[0] else {
        panic!("no layer of computed routes")
    };
    let tables: Value = serde_json::from_str(&layer.to_text()).unwrap();
    let sites = serde_json::json!({"10.0.0.0/24": {"site": "1"}, "10.0.1.0/24": {"site": "2"}});
    assert_eq!(tables["XOFF_LB_SITE"], sites);
}

#[test]
fn error_of_an_unknown_scheme_names_the_line() {
    let text = lab_text("load_balancing: flowlets", "", "load_balancing: x");
    let problems =
        parse_lab(&text, "f.xoff.yml", Path::new("/nowhere"), TimeMode::Virtual).expect_err("unknown");
    let text = problems.to_string();
    for part in [
        "f.xoff.yml:3:",
        "there is no load-balancing scheme \"flowlets\"; did you mean `flowlet`?",
        "f.xoff.yml:7:",
        "switch leaf1 has no load-balancing scheme \"x\"; the schemes are ecmp, ecmp-qp,",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert_eq!(problems.len(), 2, "the default scheme is reported once\n{text}");
    let text = "name: f\ntopology: {nodes: {h: {kind: model, load_balancing: drill}}}\n";
    let problems =
        parse_lab(text, "f.xoff.yml", Path::new("/nowhere"), TimeMode::Virtual).expect_err("a host");
    assert!(
        problems
            .to_string()
            .contains("a node of kind model has no `load_balancing`")
    );
}

#[test]
fn an_unknown_scheme_of_an_option_is_a_usage_error_unless_the_file_has_other_errors() {
    use xoff_telemetry::failure::Exit;
    let failure = |text: &str, scheme: &str| {
        let problems =
            parse_lab(text, "f.xoff.yml", Path::new("/nowhere"), TimeMode::Virtual).expect_err("unknown");
        problems.into_failure_of_scheme("--lb", scheme)
    };
    let text = lab_text("load_balancing: flowlets", "", "");
    let of_option = failure(&text, "flowlets");
    assert_eq!(
        (of_option.exit, of_option.location.as_deref()),
        (Exit::Usage, Some("--lb flowlets"))
    );
    assert!(
        of_option.to_string().contains("did you mean `flowlet`?"),
        "{of_option}"
    );
    assert_eq!(failure(&text, "ecmp").exit, Exit::Configuration);
    let with_other_error = lab_text("load_balancing: flowlets", "", "load_balancing: x");
    assert_eq!(failure(&with_other_error, "flowlets").exit, Exit::Configuration);
}
