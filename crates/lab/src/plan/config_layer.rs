//! The configuration layers of a switch.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xoff_config::ComputedRoutes;

/// Source name of the layer with the computed routes, in messages.
pub(crate) const COMPUTED_ROUTES: &str = "routes: auto";

/// Adds the layers of a `configure` step on top of the layers of a switch. The first `count_of_file` layers belong to
/// the lab file. Returns false, and changes nothing, if the last step has added the same layers.
pub(crate) fn add_layers_of_step(
    config: &mut Vec<ConfigLayer>,
    count_of_file: usize,
    layers: &[ConfigLayer],
) -> bool {
    let added = &config[count_of_file..];
    let highest = &added[added.len().saturating_sub(layers.len())..];
    if highest.len() == layers.len() && highest.iter().zip(layers).all(|(a, b)| a.has_same_content(b)) {
        return false;
    }
    config.extend_from_slice(layers);
    true
}

/// One configuration layer of a switch. Layers are merged field by field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "WrittenLayer", from = "WrittenLayer")]
pub enum ConfigLayer {
    /// The text of a `config_db.json`.
    Text {
        /// The source for messages: a path, or `FILE:LINE` of an inline mapping.
        source: String,
        /// The JSON text.
        text: String,
    },
    /// A built-in preset, which is built for the linked ports of the switch.
    Preset {
        /// The name of the preset, such as `roce-lossless`.
        name: String,
        /// The position of the preset in the lab file, `FILE:LINE`.
        source: String,
    },
    /// The addresses and routes that are computed from the topology. The serialised form is `Text`.
    Computed(Arc<ComputedLayer>),
}

/// The computed addresses and routes of one switch.
#[derive(Clone, Debug, PartialEq)]
pub struct ComputedLayer {
    /// The tables without the routes, as JSON text: the addresses, the neighbours and the MTUs of the ports.
    pub tables: String,
    /// The routes to the hosts of other switches, and the sites.
    pub routes: Arc<ComputedRoutes>,
}

impl ComputedLayer {
    /// Returns all tables as the text of a `config_db.json`, with the tables of the routes.
    pub fn to_text(&self) -> String {
        let mut tables: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&self.tables).unwrap_or_default();
        tables.extend(self.routes.to_tables());
        serde_json::Value::Object(tables).to_string()
    }
}

impl ConfigLayer {
    /// Returns whether two layers have the same content. Their positions in the lab file can differ.
    fn has_same_content(&self, other: &ConfigLayer) -> bool {
        match (self, other) {
            (ConfigLayer::Text { text: a, .. }, ConfigLayer::Text { text: b, .. })
            | (ConfigLayer::Preset { name: a, .. }, ConfigLayer::Preset { name: b, .. }) => a == b,
            _ => self == other,
        }
    }

    /// Returns whether the layer has the addresses and routes that are computed from the topology.
    pub fn is_computed(&self) -> bool {
        match self {
            ConfigLayer::Computed(_) => true,
            ConfigLayer::Text { source, .. } => source == COMPUTED_ROUTES,
            ConfigLayer::Preset { .. } => false,
        }
    }
}

/// The serialised form of a [`ConfigLayer`].
#[derive(Serialize, Deserialize)]
#[serde(rename = "ConfigLayer")]
enum WrittenLayer {
    Text { source: String, text: String },
    Preset { name: String, source: String },
}

impl From<ConfigLayer> for WrittenLayer {
    fn from(layer: ConfigLayer) -> WrittenLayer {
        match layer {
            ConfigLayer::Text { source, text } => WrittenLayer::Text { source, text },
            ConfigLayer::Preset { name, source } => WrittenLayer::Preset { name, source },
            ConfigLayer::Computed(layer) => WrittenLayer::Text {
                source: COMPUTED_ROUTES.to_owned(),
                text: layer.to_text(),
            },
        }
    }
}

impl From<WrittenLayer> for ConfigLayer {
    fn from(layer: WrittenLayer) -> ConfigLayer {
        match layer {
            WrittenLayer::Text { source, text } => ConfigLayer::Text { source, text },
            WrittenLayer::Preset { name, source } => ConfigLayer::Preset { name, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_layer_is_added_once() {
        let layer = |line: usize, alpha: &str| ConfigLayer::Text {
            source: format!("x.yml:{line}"),
            text: format!(r#"{{"BUFFER_PROFILE": {{"p": {{"dynamic_th": "{alpha}"}}}}}}"#),
        };
        let mut config = vec![layer(1, "0")];
        // A layer of the lab file does not count as a layer of a step.
        assert!(add_layers_of_step(&mut config, 1, &[layer(2, "0")]));
        assert!(!add_layers_of_step(&mut config, 1, &[layer(3, "0")]));
        assert!(add_layers_of_step(
            &mut config,
            1,
            &[layer(4, "1"), layer(4, "2")]
        ));
        assert!(!add_layers_of_step(
            &mut config,
            1,
            &[layer(5, "1"), layer(5, "2")]
        ));
        assert!(!add_layers_of_step(&mut config, 1, &[layer(6, "2")]));
        // Another layer is between, so the same layer has an effect again.
        assert!(add_layers_of_step(&mut config, 1, &[layer(7, "0")]));
        assert_eq!(config.len(), 5, "{config:?}");
    }

    #[test]
    fn a_repeated_preset_is_one_layer() {
        let preset = |line: usize| ConfigLayer::Preset {
            name: "roce-lossless".to_owned(),
            source: format!("x.yml:{line}"),
        };
        let mut config = vec![preset(1)];
        for line in 2..100 {
            let is_added = add_layers_of_step(&mut config, 1, &[preset(line)]);
            assert_eq!(is_added, line == 2);
        }
        assert_eq!(config.len(), 2, "{config:?}");
    }
}
