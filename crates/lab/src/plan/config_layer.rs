//! The configuration layers of a switch.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xoff_config::ComputedRoutes;

/// Source name of the layer with the computed routes, in messages.
pub(crate) const COMPUTED_ROUTES: &str = "routes: auto";

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
