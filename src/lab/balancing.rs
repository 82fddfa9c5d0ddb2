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
    built_in(scheme).is_some() || merged_table(switch, "XOFF_LB_SCHEME").get(scheme).is_some()
}

/// A table of the layers of a switch, merged. A layer that is not JSON is reported when the switch is configured.
fn merged_table(switch: &SwitchPlan, table: &str) -> Value {
    let mut merged = json!({});
    for layer in &switch.config {
        let ConfigLayer::Text { text, .. } = layer else {
            continue;
        };
        let mut tables: Value = serde_json::from_str(text).unwrap_or_default();
        if let Some(patch) = tables.get_mut(table) {
            merge_patch(&mut merged, patch.take());
        }
    }
    merged
}

/// Applies a JSON merge patch (RFC 7386).
fn merge_patch(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Some(target) = target.as_object_mut() else {
        return;
    };
    for (name, value) in patch {
        match value {
            Value::Null => {
                target.remove(&name);
            }
            value => merge_patch(target.entry(name).or_insert(Value::Null), value),
        }
    }
}

/// The built-in scheme that a name means to a switch.
pub(super) fn base_of(switch: &SwitchPlan, scheme: &str) -> Option<&'static str> {
    let schemes = merged_table(switch, "XOFF_LB_SCHEME");
    let base = schemes
        .get(scheme)
        .and_then(|entry| entry.get("scheme")?.as_str());
    built_in(base.unwrap_or(scheme)).map(|scheme| scheme.name)
}

/// The names that a switch knows, for messages.
pub(super) fn names(switch: &SwitchPlan) -> Vec<String> {
    let mut names: Vec<String> = SCHEMES.iter().map(|scheme| scheme.name.to_owned()).collect();
    let schemes = merged_table(switch, "XOFF_LB_SCHEME");
    for name in schemes.as_object().into_iter().flat_map(|schemes| schemes.keys()) {
        if !names.contains(name) {
            names.push(name.clone());
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

/// `XOFF_LB|global scheme` of a switch.
pub(super) fn scheme_of(switch: &SwitchPlan) -> Option<String> {
    let table = merged_table(switch, "XOFF_LB");
    let scheme = table.get("global")?.get("scheme")?;
    scheme.as_str().map(str::to_owned)
}
