//! `load_balancing`: a scheme's name in a lab file, as layers of the switches' configuration.
//!
//! `topology.defaults.load_balancing` lies below the configuration of each switch, which may say otherwise; a node's own
//! `load_balancing` lies above it.

use serde_json::{Value, json};

use super::plan::{ConfigLayer, SwitchPlan};
use crate::config::balancing::{SCHEMES, built_in};

/// A layer that says which scheme a switch has.
pub(super) fn layer(scheme: &str, source: String) -> ConfigLayer {
    let tables = json!({ "XOFF_LB": { "global": { "scheme": scheme } } });
    ConfigLayer::Text {
        source,
        text: tables.to_string(),
    }
}

/// Whether a switch knows a scheme of this name: a built-in one, or one that its configuration defines.
pub(super) fn knows(switch: &SwitchPlan, scheme: &str) -> bool {
    built_in(scheme).is_some() || switch.config.iter().any(|layer| defines(layer, scheme))
}

fn defines(layer: &ConfigLayer, scheme: &str) -> bool {
    entry(layer, scheme).is_some()
}

/// The entry of a scheme in a layer.
fn entry(layer: &ConfigLayer, scheme: &str) -> Option<Value> {
    // A layer that is no JSON is told when the switch is configured.
    let ConfigLayer::Text { text, .. } = layer else {
        return None;
    };
    let tables: Value = serde_json::from_str(text).ok()?;
    tables.get("XOFF_LB_SCHEME")?.get(scheme).cloned()
}

/// The built-in scheme that a name means to a switch.
pub(super) fn base_of(switch: &SwitchPlan, scheme: &str) -> Option<&'static str> {
    let said = switch.config.iter().rev().find_map(|layer| {
        let entry = entry(layer, scheme)?;
        Some(entry.get("scheme")?.as_str()?.to_owned())
    });
    built_in(said.as_deref().unwrap_or(scheme)).map(|scheme| scheme.name)
}

/// The names that a switch knows, for messages.
pub(super) fn names(switch: &SwitchPlan) -> Vec<String> {
    let mut names: Vec<String> = SCHEMES.iter().map(|scheme| scheme.name.to_owned()).collect();
    for layer in &switch.config {
        let ConfigLayer::Text { text, .. } = layer else {
            continue;
        };
        let tables: Option<Value> = serde_json::from_str(text).ok();
        let entries = tables
            .as_ref()
            .and_then(|tables| tables.get("XOFF_LB_SCHEME")?.as_object());
        for name in entries.into_iter().flat_map(|entries| entries.keys()) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    names
}

/// Lets all switches of a lab advertise their links, if a scheme that one of them has listens to that: what they all tell is of
/// use only together. The ports towards other switches are known where routes are made.
pub(super) fn advertise_where_heard(switches: &mut [SwitchPlan], source: &str) {
    let listens = |switch: &SwitchPlan| {
        let scheme = scheme_of(switch);
        let base = scheme.and_then(|scheme| base_of(switch, &scheme));
        base.and_then(built_in).is_some_and(|scheme| scheme.listens)
    };
    if !switches.iter().any(listens) {
        return;
    }
    let tables = json!({ "XOFF_LB": { "global": { "advertise": "on" } } });
    for switch in switches {
        let layer = ConfigLayer::Text {
            source: source.to_owned(),
            text: tables.to_string(),
        };
        // Below everything: who writes `off` wins.
        switch.config.insert(0, layer);
    }
}

/// What the layers of a switch say in `XOFF_LB|global scheme`.
pub(super) fn scheme_of(switch: &SwitchPlan) -> Option<String> {
    switch.config.iter().rev().find_map(|layer| {
        let ConfigLayer::Text { text, .. } = layer else {
            return None;
        };
        let tables: Value = serde_json::from_str(text).ok()?;
        let scheme = tables.get("XOFF_LB")?.get("global")?.get("scheme")?;
        scheme.as_str().map(str::to_owned)
    })
}
