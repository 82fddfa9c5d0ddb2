//! Resolves the switches of a large fabric. Switches with the same layers and the same ports are resolved from a
//! template.

use std::collections::{BTreeMap, HashMap};

use xoff_config::{ConfigDb, LoadedConfig, ResolveOptions, ResolvedConfig, SwitchTemplate};
use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::route::Rib;
use xoff_units::Picos;

use super::super::plan::{ComputedLayer, ConfigLayer, FarEnd, LinkPlan, SwitchPlan, TimeMode};
use super::super::switch_errors::SwitchError;
use super::{
    LinksOfSwitch, SwitchSetup, link_speeds_mbps, ports_with_links, resolve_options,
    resolve_switch_with_links, untouched_computed_layer,
};

/// Parts of a text that names a field in which similar switches differ.
const OWN_FIELD_NAMES: [&str; 2] = ["DEVICE_METADATA", "advertise_ports"];

/// The templates of all kinds of switches that have been resolved.
#[derive(Default)]
pub(crate) struct SimilarSwitches {
    templates: HashMap<String, SwitchTemplate>,
}

impl SimilarSwitches {
    /// Resolves one switch like [`resolve_switch_with_links`]. The result has no tables, because a switch in
    /// virtual time does not need them, and the tables of a large fabric need much more memory than its switches.
    pub(crate) fn resolve(
        &mut self,
        plan: &SwitchPlan,
        index: usize,
        links: LinksOfSwitch<'_>,
        seed: u64,
        reaction_budget: Picos,
    ) -> Result<SwitchSetup, SwitchError> {
        let own_links = ports_with_links(index, links);
        let computed = untouched_computed_layer(plan);
        let Some((computed, key)) =
            computed.and_then(|layer| Some((layer, similarity_key(plan, &own_links)?)))
        else {
            let setup = resolve_switch_with_links(plan, index, links, seed, reaction_budget)?;
            return Ok(without_tables(setup));
        };
        if let Some(template) = self.templates.get_mut(&key)
            && let Some(setup) = resolve_similar(
                template,
                plan,
                computed,
                (links.1, &own_links),
                seed,
                reaction_budget,
            )
        {
            return Ok(setup);
        }
        let setup = resolve_switch_with_links(plan, index, links, seed, reaction_budget)?;
        if let Some(template) = SwitchTemplate::new(&setup.loaded) {
            self.templates.entry(key).or_insert(template);
        }
        Ok(without_tables(setup))
    }
}

/// Resolves a switch from the template of a similar switch. Returns `None` if the switch must be resolved completely.
fn resolve_similar(
    template: &mut SwitchTemplate,
    plan: &SwitchPlan,
    computed: &ComputedLayer,
    (own_indices, own_links): (&[usize], &[(&str, &LinkPlan)]),
    seed: u64,
    reaction_budget: Picos,
) -> Option<SwitchSetup> {
    let options = resolve_options(
        plan,
        own_links,
        seed,
        reaction_budget,
        Some(computed),
        TimeMode::Virtual,
    )
    .ok()?;
    let config = template.resolve(&computed.tables, &options)?;
    let speeds_mbps = link_speeds_mbps(&config, own_indices, own_links).ok()?;
    Some(setup_without_tables(config, Vec::new(), speeds_mbps))
}

/// Returns a text that is equal for similar switches: their layers without the computed layer, and their ports. Returns
/// `None` if a layer names a field in which similar switches differ, or if the switch has an external device.
fn similarity_key(plan: &SwitchPlan, own_links: &[(&str, &LinkPlan)]) -> Option<String> {
    let is_external = |(_, link): &(&str, &LinkPlan)| matches!(link.far, FarEnd::External(_));
    if own_links.iter().any(is_external) {
        return None;
    }
    let mut layers = Vec::with_capacity(plan.config.len());
    for layer in &plan.config {
        match layer {
            ConfigLayer::Text { text, .. } if OWN_FIELD_NAMES.iter().any(|name| text.contains(name)) => {
                return None;
            }
            // The position of the computed layer matters: the layers above it override its fields.
            ConfigLayer::Computed(_) => layers.push(None),
            layer => layers.push(Some(layer)),
        }
    }
    let ports: Vec<_> = own_links
        .iter()
        .map(|(port, link)| (port, link.speed_mbps, link.mtu))
        .collect();
    serde_json::to_string(&(layers, ports, &plan.asic, &plan.pg_profiles)).ok()
}

/// Returns a setup with only what a switch in virtual time needs.
fn setup_without_tables(
    config: SwitchConfig,
    warnings: Vec<String>,
    speeds_mbps: BTreeMap<usize, u32>,
) -> SwitchSetup {
    let resolved = ResolvedConfig {
        config,
        rib: Rib::new(),
        static_routes: Vec::new(),
        generated: ConfigDb::default(),
        warnings,
    };
    SwitchSetup {
        loaded: LoadedConfig {
            db: ConfigDb::default(),
            resolved,
        },
        resolve: ResolveOptions::default(),
        speeds_mbps,
    }
}

/// Removes everything that a switch in virtual time does not need.
fn without_tables(setup: SwitchSetup) -> SwitchSetup {
    let resolved = setup.loaded.resolved;
    setup_without_tables(resolved.config, resolved.warnings, setup.speeds_mbps)
}
