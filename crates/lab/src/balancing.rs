//! Converts `load_balancing` of a lab file into configuration layers of the switches.
//!
//! A switch merges its configuration from layers, and a higher layer overrides the lower layers. The scheme
//! in `topology.defaults` is a layer below the `config` of each switch. The scheme of a single node is a
//! layer above the `config` of this node.

use serde_json::json;

use super::plan::{ConfigLayer, SwitchPlan};
use xoff_config::ConfigDb;
use xoff_config::balancing::{BUILT_IN_SCHEMES, built_in_scheme};

/// Returns a layer that sets the load-balancing scheme of a switch.
pub(super) fn scheme_config_layer(scheme: &str, source: String) -> ConfigLayer {
    let tables = json!({ "XOFF_LB": { "global": { "scheme": scheme } } });
    ConfigLayer::Text {
        source,
        text: tables.to_string(),
    }
}

const SCHEMES_TABLE: &str = "XOFF_LB_SCHEME";

/// Returns whether a load-balancing scheme exists: either the scheme is built in, or the configuration of the
/// switch defines it.
pub(super) fn has_scheme(switch: &SwitchPlan, scheme: &str) -> bool {
    built_in_scheme(scheme).is_some()
        || merged_config(switch)
            .keys(SCHEMES_TABLE)
            .any(|name| name == scheme)
}

/// Returns the merged configuration of a switch without presets and computed routes, which define no schemes.
///
/// Errors are ignored here and reported later, when the configuration is loaded.
fn merged_config(switch: &SwitchPlan) -> ConfigDb {
    let texts = switch.config.iter().filter_map(|layer| match layer {
        ConfigLayer::Text { source, text } => Some((source.as_str(), text.as_str())),
        ConfigLayer::Preset { .. } | ConfigLayer::Computed(_) => None,
    });
    xoff_config::parse_valid_entries(&texts.collect::<Vec<_>>(), switch.asic.as_deref())
}

/// Returns the name of the built-in scheme on which a scheme of the switch is based. Returns `None` if the
/// scheme does not exist.
pub(super) fn built_in_base_scheme(switch: &SwitchPlan, scheme: &str) -> Option<&'static str> {
    let base = merged_config(switch).get(SCHEMES_TABLE, scheme, "scheme");
    built_in_scheme(base.as_deref().unwrap_or(scheme)).map(|scheme| scheme.name)
}

/// Returns the names of all schemes of a switch, for messages.
pub(super) fn scheme_names(switch: &SwitchPlan) -> Vec<String> {
    let mut names: Vec<String> = BUILT_IN_SCHEMES
        .iter()
        .map(|scheme| scheme.name.to_owned())
        .collect();
    for name in merged_config(switch).keys(SCHEMES_TABLE) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Enables link quality messages on all switches if the load-balancing scheme of at least one switch needs
/// these messages.
///
/// The load of a path is known only if every switch on the path sends link quality messages.
pub(super) fn enable_link_quality_messages(switches: &mut [SwitchPlan], source: &str) {
    let uses_remote_load = |switch: &SwitchPlan| {
        let scheme = configured_scheme(switch);
        let base = scheme.and_then(|scheme| built_in_base_scheme(switch, &scheme));
        base.and_then(built_in_scheme)
            .is_some_and(|scheme| scheme.uses_remote_load)
    };
    if !switches.iter().any(uses_remote_load) {
        return;
    }
    let tables = json!({ "XOFF_LB": { "global": { "advertise": "on" } } });
    for switch in switches {
        let layer = ConfigLayer::Text {
            source: source.to_owned(),
            text: tables.to_string(),
        };
        // The lowest layer, so that `off` in a configuration takes effect.
        switch.config.insert(0, layer);
    }
}

/// Returns the field `scheme` in `XOFF_LB|global` of a switch. Returns `None` if the field is missing.
pub(super) fn configured_scheme(switch: &SwitchPlan) -> Option<String> {
    merged_config(switch).get("XOFF_LB", "global", "scheme")
}
