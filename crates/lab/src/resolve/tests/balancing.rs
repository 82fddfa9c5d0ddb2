//! `load_balancing`: of the lab and of its switches.

use serde_json::Value;

use super::*;

fn lab(defaults: &str, fabric: &str, nodes: &str) -> String {
    format!(
        "name: f\ntopology:\n  defaults: {{{defaults}}}\n  fabric:\n    leaf-spine: {{leaves: 2, spines: 2, hosts: 1{fabric}}}\n  nodes:\n    leaf1: {{{nodes}}}\n"
    )
}

fn planned(text: &str) -> LabPlan {
    parse(text, "f.xoff.yml", Path::new("/nowhere"), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"))
}

/// What a switch's layers come to in `XOFF_LB|global`.
fn said(plan: &LabPlan, switch: usize, field: &str) -> Option<String> {
    let layers = plan.switches[switch].config.iter().rev();
    layers
        .filter_map(|layer| match layer {
            ConfigLayer::Text { text, .. } => serde_json::from_str::<Value>(text).ok(),
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

fn schemes(plan: &LabPlan) -> Vec<String> {
    let all = 0..plan.switches.len();
    all.map(|switch| said(plan, switch, "scheme").unwrap_or_default())
        .collect()
}

#[test]
fn the_default_is_below_a_switch_s_configuration_and_its_own_word_above() {
    let plan = planned(&lab("load_balancing: drill", "", ""));
    assert_eq!(schemes(&plan), ["drill"; 4]);
    let config = "config: {XOFF_LB: {global: {scheme: random}}}";
    let plan = planned(&lab("load_balancing: drill", &format!(", {config}"), ""));
    assert_eq!(schemes(&plan), ["random"; 4]);
    let plan = planned(&lab(
        "load_balancing: drill",
        &format!(", {config}"),
        "load_balancing: ecmp-qp",
    ));
    assert_eq!(schemes(&plan), ["ecmp-qp", "random", "random", "random"]);
    let plan = planned(&lab("", "", ""));
    assert_eq!(schemes(&plan), [""; 4]);
}

#[test]
fn all_switches_advertise_where_one_listens() {
    let advertise = |plan: &LabPlan| {
        let all = (0..plan.switches.len()).map(|switch| said(plan, switch, "advertise"));
        all.collect::<Vec<_>>()
    };
    let on = Some("on".to_owned());
    assert_eq!(
        advertise(&planned(&lab("load_balancing: flowlet", "", ""))),
        [None, None, None, None]
    );
    let plan = planned(&lab("load_balancing: ecmp", "", "load_balancing: conga"));
    assert_eq!(advertise(&plan), [on.clone(), on.clone(), on.clone(), on.clone()]);
    assert_eq!(
        said(&plan, 0, "advertise_ports").as_deref(),
        Some("Ethernet4,Ethernet8")
    );
    assert_eq!(
        said(&plan, 3, "advertise_ports").as_deref(),
        Some("Ethernet0,Ethernet4")
    );
    // By a name of the lab's own too.
    let own = ", config: {XOFF_LB_SCHEME: {mine: {scheme: global, idle_time: 20}}}";
    assert_eq!(
        advertise(&planned(&lab("load_balancing: mine", own, ""))),
        [on.clone(), on.clone(), on.clone(), on]
    );
}

#[test]
fn networks_have_the_number_of_their_switch() {
    let plan = planned(&lab("", "", ""));
    let ConfigLayer::Text { text, .. } = &plan.switches[2].config[0] else {
        panic!("the layer of the routes")
    };
    let tables: Value = serde_json::from_str(text).unwrap();
    let sites = serde_json::json!({"10.0.0.0/24": {"site": "1"}, "10.0.1.0/24": {"site": "2"}});
    assert_eq!(tables["XOFF_LB_SITE"], sites);
}

#[test]
fn unknown_names_are_told_with_their_line() {
    let text = lab("load_balancing: flowlets", "", "load_balancing: x");
    let problems = parse(&text, "f.xoff.yml", Path::new("/nowhere"), TimeMode::Virtual).expect_err("unknown");
    let text = problems.to_string();
    for part in [
        "f.xoff.yml:3:",
        "switch leaf1 has no load-balancing scheme \"flowlets\"",
        "f.xoff.yml:7:",
        "switch leaf1 has no load-balancing scheme \"x\"; there are ecmp, ecmp-qp,",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let text = "name: f\ntopology: {nodes: {h: {kind: model, load_balancing: drill}}}\n";
    let problems = parse(text, "f.xoff.yml", Path::new("/nowhere"), TimeMode::Virtual).expect_err("a host");
    assert!(
        problems
            .to_string()
            .contains("a node of kind model has no `load_balancing`")
    );
}
