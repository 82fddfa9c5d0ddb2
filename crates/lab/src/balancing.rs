//! `load_balancing`: a scheme's name in a lab file, as layers of the switches' configuration.
//!
//! `topology.defaults.load_balancing` lies below the configuration of each switch, which may say otherwise; a node's own
//! `load_balancing` lies above it.

use serde_json::json;

use super::plan::{ConfigLayer, SwitchPlan};
use xoff_config::ConfigDb;
use xoff_config::balancing::{BUILT_IN_SCHEMES, built_in_scheme};

/// A layer that says which scheme a switch has.
pub(super) fn layer(scheme: &str, source: String) -> ConfigLayer {
    let tables = json!({ "XOFF_LB": { "global": { "scheme": scheme } } });
    ConfigLayer::Text {
        source,
        text: tables.to_string(),
    }
}

const SCHEMES_TABLE: &str = "XOFF_LB_SCHEME";

/// Whether a switch knows a scheme of this name: a built-in one, or one that its configuration defines.
pub(super) fn knows(switch: &SwitchPlan, scheme: &str) -> bool {
    built_in_scheme(scheme).is_some() || merged(switch).keys(SCHEMES_TABLE).any(|name| name == scheme)
}

/// The configuration of a switch without its presets, which have no schemes. Its errors are reported when the switch is configured.
fn merged(switch: &SwitchPlan) -> ConfigDb {
    let texts = switch.config.iter().filter_map(|layer| match layer {
        ConfigLayer::Text { source, text } => Some((source.as_str(), text.as_str())),
        ConfigLayer::Preset { .. } => None,
    });
    xoff_config::parse_valid_entries(&texts.collect::<Vec<_>>(), switch.asic.as_deref())
}

/// The built-in scheme that a name means to a switch.
pub(super) fn base_of(switch: &SwitchPlan, scheme: &str) -> Option<&'static str> {
    let base = merged(switch).get(SCHEMES_TABLE, scheme, "scheme");
    built_in_scheme(base.as_deref().unwrap_or(scheme)).map(|scheme| scheme.name)
}

/// The names that a switch knows, for messages.
pub(super) fn names(switch: &SwitchPlan) -> Vec<String> {
    let mut names: Vec<String> = BUILT_IN_SCHEMES
        .iter()
        .map(|scheme| scheme.name.to_owned())
        .collect();
    for name in merged(switch).keys(SCHEMES_TABLE) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
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
        base.and_then(built_in_scheme)
            .is_some_and(|scheme| scheme.uses_remote_load)
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
    merged(switch).get("XOFF_LB", "global", "scheme")
}
