//! Resolves the configuration of the switches of a lab.
//!
//! A configuration is merged from layers, and a higher layer overrides the lower layers. The lowest layer
//! sets the link speeds of the lab. The layers of the lab file are above it.

mod similar_switches;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};
use xoff_units::Picos;

use super::plan::{
    COMPUTED_ROUTES, ComputedLayer, ConfigLayer, FarEnd, LabPlan, LinkPlan, SPEED_MBPS_DEFAULT, SwitchPlan,
    TimeMode,
};
use super::switch_errors::{SwitchError, SwitchErrors};
pub(super) use similar_switches::SimilarSwitches;
use xoff_config::{DeviceDefaults, DeviceMtu, LoadedConfig, PgProfileLookup, ResolveOptions};
use xoff_dataplane::config::SwitchConfig;
use xoff_runtime::session::reaction_budget_in_model_time;
use xoff_runtime::workers::WorkerOptions;
use xoff_telemetry::failure::Failure;

/// The name of the lowest layer of a configuration, which sets the speeds of the links.
const SPEEDS_OF_LINKS: &str = "the lab";
/// The names of the layers whose entries are generated from the links: the speeds, the computed routes and the presets.
static GENERATED_LAYERS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let presets = xoff_config::PRESETS
        .iter()
        .map(|(name, _)| preset_layer_name(name));
    let own = [SPEEDS_OF_LINKS, COMPUTED_ROUTES].map(str::to_owned);
    own.into_iter().chain(presets).collect()
});

/// Returns the name of the layer of a preset.
fn preset_layer_name(preset: &str) -> String {
    format!("preset {preset}")
}

/// The resolved configuration of one switch.
#[derive(Clone, Debug)]
pub struct SwitchSetup {
    /// The configuration, both as tables and in the resolved form for the data plane.
    pub loaded: LoadedConfig,
    /// The options of the resolution. Later versions (generations) of the configuration are resolved with the
    /// same options.
    pub resolve: ResolveOptions,
    /// Speed of each link of this switch in Mb/s, by the index of the link in [`LabPlan::links`].
    pub speeds_mbps: BTreeMap<usize, u32>,
}

/// What the plan of a fabric needs of a switch: its configuration and [`SwitchSetup::speeds_mbps`].
pub(super) type FabricSwitch = (Arc<SwitchConfig>, BTreeMap<usize, u32>);

impl SwitchSetup {
    /// Returns the switch for the plan of a fabric, and drops everything else.
    pub(super) fn into_fabric_switch(self) -> FabricSwitch {
        (Arc::new(self.loaded.resolved.config), self.speeds_mbps)
    }

    /// Returns a copy of the switch for the plan of a fabric.
    pub(super) fn to_fabric_switch(&self) -> FabricSwitch {
        (
            Arc::new(self.loaded.resolved.config.clone()),
            self.speeds_mbps.clone(),
        )
    }
}

/// Resolves the configurations of all switches for a run in real time, in the order of [`LabPlan::switches`].
/// `driver` contains the options of the worker threads.
///
/// # Errors
/// Returns the same errors as [`resolve_switch_setup`].
pub(super) fn resolve_switch_setups(
    plan: &LabPlan,
    seed: u64,
    driver: &WorkerOptions,
) -> Result<Vec<SwitchSetup>, Failure> {
    // The reaction budget covers stalls of the machine and twice the delay of the longest link.
    let longest_delay_ns = plan.links.iter().map(|link| link.delay_ns).max().unwrap_or(0);
    let budget = reaction_budget_in_model_time(driver)
        .saturating_add(Picos::from_nanos(longest_delay_ns.saturating_mul(2)));
    resolve_all(plan, seed, &mut |switch: &SwitchPlan,
                                  index: usize,
                                  links: LinksOfSwitch<'_>,
                                  seed: u64| {
        resolve_with_route_tables(switch, index, links, seed, budget, TimeMode::RealTime)
    })
}

/// Resolves the configurations of all switches for a run in virtual time, in the order of [`LabPlan::switches`]. `seed`
/// is the seed of the run. The results have no tables.
///
/// # Errors
/// Returns the same errors as [`resolve_switch_setup`].
pub(super) fn resolve_all_switch_setups(
    plan: &LabPlan,
    seed: u64,
    reaction_budget: Picos,
) -> Result<Vec<SwitchSetup>, Failure> {
    let mut similar = SimilarSwitches::default();
    resolve_all(plan, seed, &mut |switch: &SwitchPlan,
                                  index: usize,
                                  links: LinksOfSwitch<'_>,
                                  seed: u64| {
        similar.resolve(switch, index, links, seed, reaction_budget)
    })
}

/// Sets [`LinkPlan::host_mtu`] of all links. `setups` contains the switches in the order of [`LabPlan::switches`].
pub(super) fn limit_host_mtus(plan: &mut LabPlan, setups: &[SwitchSetup]) {
    let port_mtus: Vec<BTreeMap<&str, u32>> = setups
        .iter()
        .map(|setup| {
            let ports = setup.loaded.resolved.config.ports.iter();
            ports.map(|port| (port.name.as_str(), port.mtu)).collect()
        })
        .collect();
    for link in &mut plan.links {
        let port_mtu = port_mtus[link.switch].get(link.port.as_str());
        link.host_mtu = port_mtu.map_or(link.mtu, |port_mtu| link.mtu.min(*port_mtu));
    }
}

/// The links of a lab, and the indices of the links of one switch.
type LinksOfSwitch<'a> = (&'a [LinkPlan], &'a [usize]);

/// A function that resolves one switch. Its arguments are the plan, the index, the links and the seed of the switch.
type SwitchResolver<'a> =
    dyn FnMut(&SwitchPlan, usize, LinksOfSwitch<'_>, u64) -> Result<SwitchSetup, SwitchError> + 'a;

/// Resolves all switches with `resolve`.
fn resolve_all(
    plan: &LabPlan,
    seed: u64,
    resolve: &mut SwitchResolver<'_>,
) -> Result<Vec<SwitchSetup>, Failure> {
    let mut setups = Vec::with_capacity(plan.switches.len());
    let mut errors = SwitchErrors::default();
    let own_links = links_of_switches(plan.switches.len(), &plan.links);
    for (index, (switch, own_links)) in plan.switches.iter().zip(&own_links).enumerate() {
        let links = (&plan.links[..], &own_links[..]);
        match resolve(switch, index, links, switch_seed(seed, index)) {
            Ok(setup) => setups.push(setup),
            Err(error) => errors.add(&switch.name, error),
        }
    }
    errors.into_result().map(|()| setups)
}

/// Returns the seed of one switch. `seed` is the seed of the run, and `switch` is an index of
/// [`LabPlan::switches`]. The switches get different seeds, so they have different hash functions and mark
/// different packets.
pub fn switch_seed(seed: u64, switch: usize) -> u64 {
    seed.wrapping_add((switch as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Resolves the configuration of one switch for virtual time. `switch` is an index of [`LabPlan::switches`].
///
/// Each link of the switch creates a port. The lab file can set the speed of a link. Otherwise the switch
/// configuration sets the speed, and the default is 1 Gb/s. `reaction_budget` is the longest response of a neighbour
/// to a pause. A preset adds headroom for this time.
///
/// # Errors
/// Returns all errors of the configuration. It is also an error if the lab file and the configuration set
/// different speeds for a port.
///
/// # Panics
/// Panics if the plan has no switch with this index.
pub fn resolve_switch_setup(
    plan: &LabPlan,
    switch: usize,
    seed: u64,
    reaction_budget: Picos,
) -> Result<SwitchSetup, Failure> {
    resolve_changed_switch(plan, switch, &plan.switches[switch], seed, reaction_budget)
}

/// Resolves the configuration of one switch like [`resolve_switch_setup`], but with `changed` instead of its plan.
pub(super) fn resolve_changed_switch(
    plan: &LabPlan,
    switch: usize,
    changed: &SwitchPlan,
    seed: u64,
    reaction_budget: Picos,
) -> Result<SwitchSetup, Failure> {
    let own_links: Vec<usize> = (0..plan.links.len())
        .filter(|link| plan.links[*link].port_at_switch(switch).is_some())
        .collect();
    let setup = resolve_switch_with_links(changed, switch, (&plan.links, &own_links), seed, reaction_budget);
    setup.map_err(|error| error.into_failure(&changed.name))
}

/// Returns the indices of the links of each switch.
pub(super) fn links_of_switches(switch_count: usize, links: &[LinkPlan]) -> Vec<Vec<usize>> {
    let mut links_of_switches = vec![Vec::new(); switch_count];
    for (index, link) in links.iter().enumerate() {
        links_of_switches[link.switch].push(index);
        if let FarEnd::Switch { switch, .. } = link.far {
            links_of_switches[switch].push(index);
        }
    }
    links_of_switches
}

/// Resolves the configuration of one switch like [`resolve_switch_setup`], for a lab whose plan is not complete.
/// `index` is the index of the switch. The first element of `links` contains all links of the lab, and the second
/// the indices of the links of this switch.
///
/// The tables of the result do not contain computed routes if no other layer depends on them.
pub(super) fn resolve_switch_with_links(
    plan: &SwitchPlan,
    index: usize,
    links: LinksOfSwitch<'_>,
    seed: u64,
    reaction_budget: Picos,
) -> Result<SwitchSetup, SwitchError> {
    if let Some(computed) = untouched_computed_layer(plan)
        && let Ok(setup) = resolve_layers(
            plan,
            index,
            links,
            seed,
            reaction_budget,
            Some(computed),
            TimeMode::Virtual,
        )
    {
        return Ok(setup);
    }
    // Errors refer to tables, so all of them must exist.
    resolve_with_route_tables(plan, index, links, seed, reaction_budget, TimeMode::Virtual)
}

/// Resolves the configuration of one switch. The tables of the result contain the computed routes.
fn resolve_with_route_tables(
    plan: &SwitchPlan,
    index: usize,
    links: LinksOfSwitch<'_>,
    seed: u64,
    reaction_budget: Picos,
    time: TimeMode,
) -> Result<SwitchSetup, SwitchError> {
    resolve_layers(plan, index, links, seed, reaction_budget, None, time)
}

/// Resolves the merged layers of one switch. `computed` contains computed routes that are resolved without tables.
fn resolve_layers(
    plan: &SwitchPlan,
    index: usize,
    (links, own_indices): LinksOfSwitch<'_>,
    seed: u64,
    reaction_budget: Picos,
    computed: Option<&ComputedLayer>,
    time: TimeMode,
) -> Result<SwitchSetup, SwitchError> {
    let own_links = ports_with_links(index, (links, own_indices));
    let mut layers = vec![(
        SPEEDS_OF_LINKS.to_owned(),
        link_speed_layer(&own_links).to_string(),
    )];
    let ports = port_speeds(&own_links);
    let devices = external_device_defaults(&own_links);
    let mut preset_notes = Vec::new();
    for layer in &plan.config {
        layers.push(match layer {
            ConfigLayer::Text { source, text } => (source.clone(), text.clone()),
            ConfigLayer::Computed(layer) => {
                let text = match computed {
                    Some(_) => layer.tables.clone(),
                    None => layer.to_text(),
                };
                (COMPUTED_ROUTES.to_owned(), text)
            }
            ConfigLayer::Preset { name, source } => {
                let mut preset = xoff_config::build_preset(name, &ports, reaction_budget)
                    .map_err(|unknown| Failure::configuration(unknown.to_string()).at(source))?;
                preset_notes.extend(devices.replace_mtus_of_preset(&mut preset));
                (preset_layer_name(name), preset.to_json())
            }
        });
    }
    let layers: Vec<(&str, &str)> = layers
        .iter()
        .map(|(source, text)| (source.as_str(), text.as_str()))
        .collect();
    let resolve = resolve_options(plan, &own_links, seed, reaction_budget, computed, time)?;
    let mut loaded = xoff_config::load(&layers, &resolve).map_err(SwitchError::Invalid)?;
    loaded.resolved.warnings.extend(preset_notes);
    let speeds_mbps = link_speeds_mbps(&loaded.resolved.config, own_indices, &own_links)?;
    Ok(SwitchSetup {
        loaded,
        resolve,
        speeds_mbps,
    })
}

/// Returns the name of each port of a switch with a link, and the link. `switch` is the index of the switch.
fn ports_with_links<'a>(
    switch: usize,
    (links, own_indices): LinksOfSwitch<'a>,
) -> Vec<(&'a str, &'a LinkPlan)> {
    let port = |link: &usize| Some((links[*link].port_at_switch(switch)?, &links[*link]));
    own_indices.iter().filter_map(port).collect()
}

/// Returns the name and the speed in Mb/s of each port with a link.
fn port_speeds(links: &[(&str, &LinkPlan)]) -> Vec<(String, u32)> {
    let speed = |(port, link): &(&str, &LinkPlan)| {
        let speed_mbps = link.speed_mbps.unwrap_or(SPEED_MBPS_DEFAULT);
        ((*port).to_owned(), speed_mbps)
    };
    links.iter().map(speed).collect()
}

/// Returns the options of the resolution of a switch.
fn resolve_options(
    plan: &SwitchPlan,
    own_links: &[(&str, &LinkPlan)],
    seed: u64,
    reaction_budget: Picos,
    computed: Option<&ComputedLayer>,
    time: TimeMode,
) -> Result<ResolveOptions, Failure> {
    let pg_profiles = plan.pg_profiles.as_ref().map(|lookup| {
        PgProfileLookup::parse(&lookup.text, &lookup.source).map_err(|problems| {
            Failure::configuration("the lookup file is invalid")
                .at(format!("switch {}", plan.name))
                .because(problems)
        })
    });
    // Two links at one port are an error of the lab file, which is reported with both links.
    let mut seen = BTreeSet::new();
    let ports = own_links.iter().map(|(port, _)| *port);
    let ports = ports.filter(|port| seen.insert(*port)).map(str::to_owned);
    let link_mtus = own_links
        .iter()
        .map(|(port, link)| ((*port).to_owned(), link.mtu));
    Ok(ResolveOptions {
        ports: ports.collect(),
        hostname: Some(plan.name.clone()),
        seed,
        reaction_budget,
        is_virtual: time == TimeMode::Virtual,
        link_mtus: link_mtus.collect(),
        generated_layers: &GENERATED_LAYERS,
        link_locations: own_links
            .iter()
            .map(|(port, link)| ((*port).to_owned(), link.source.clone()))
            .collect(),
        devices: external_device_defaults(own_links),
        asic: plan.asic.clone(),
        pg_profiles: pg_profiles.transpose()?.map(Arc::new),
        attachment: xoff_config::PortAttachment::Lab,
        port_source: Some(xoff_config::PORT_LINK),
        computed_routes: computed.map(|layer| Arc::clone(&layer.routes)),
        ..ResolveOptions::default()
    })
}

/// Returns the speeds of the links of a switch in Mb/s, by the index of the link.
fn link_speeds_mbps(
    config: &SwitchConfig,
    own_indices: &[usize],
    own_links: &[(&str, &LinkPlan)],
) -> Result<BTreeMap<usize, u32>, Failure> {
    let links = own_indices.iter().zip(own_links);
    let speed = |(link, (port, plan)): (&usize, &(&str, &LinkPlan))| {
        Ok((*link, link_speed_mbps(config, port, plan)?))
    };
    links.map(speed).collect()
}

/// Returns the layer with the computed routes, if the routes can be resolved without their tables: no other layer
/// of the switch names a table on which routes depend.
///
/// The tables of a large fabric need a thousand times the memory of the routes.
fn untouched_computed_layer(plan: &SwitchPlan) -> Option<&ComputedLayer> {
    let mut computed = None;
    for layer in &plan.config {
        match layer {
            ConfigLayer::Computed(layer) => computed = Some(&**layer),
            ConfigLayer::Text { text, .. } if may_touch_routes(text) => return None,
            // Presets have neither addresses nor routes.
            ConfigLayer::Text { .. } | ConfigLayer::Preset { .. } => {}
        }
    }
    computed
}

/// Returns whether a configuration text may have a table on which routes depend. The text of such a table has its
/// name, unless the name is written with JSON escapes.
fn may_touch_routes(text: &str) -> bool {
    let parts = [
        "ROUTE",
        "INTERFACE",
        "NEIGH",
        "XOFF_LB_SITE",
        "XOFF_LB_GROUP",
        "\\u",
    ];
    parts.iter().any(|part| text.contains(part))
}

/// Returns the MTUs of the external devices of a switch. As in `xoff switch run`, the MTU of such a device is
/// the default MTU of its port.
fn external_device_defaults(links: &[(&str, &LinkPlan)]) -> DeviceDefaults {
    let with_device = links.iter().filter_map(|(port, link)| match &link.far {
        FarEnd::External(device) => {
            let (device, mtu) = (device.clone(), link.device_mtu?);
            Some(((*port).to_owned(), DeviceMtu::new(device, mtu)))
        }
        FarEnd::Host(_) | FarEnd::Switch { .. } => None,
    });
    DeviceDefaults {
        mtu_by_port: with_device.collect(),
        ..DeviceDefaults::default()
    }
}

/// Returns the lowest layer of a configuration, which sets the link speeds in the `PORT` table.
fn link_speed_layer(links: &[(&str, &LinkPlan)]) -> Value {
    let with_speed = links.iter().filter_map(|(port, link)| {
        Some((
            (*port).to_owned(),
            json!({ "speed": link.speed_mbps?.to_string() }),
        ))
    });
    let ports: Map<String, Value> = with_speed.collect();
    match ports.is_empty() {
        true => json!({}),
        false => json!({ "PORT": ports }),
    }
}

/// Returns the speed of a link in Mb/s. Returns an error if the lab file and the switch configuration set
/// different speeds.
fn link_speed_mbps(config: &SwitchConfig, name: &str, link: &LinkPlan) -> Result<u32, Failure> {
    let mut ports = config.ports.iter();
    let configured = ports
        .find(|port| port.name == name)
        .map_or(SPEED_MBPS_DEFAULT, |port| port.link.speed_mbps);
    match link.speed_mbps {
        Some(speed) if speed != configured => {
            let what = format!("the link of {name} has {speed} Mb/s, its port {configured} Mb/s");
            Err(Failure::configuration(what)
                .at(&link.source)
                .because("the PORT table of the switch contains another speed")
                .fix("make them equal, or leave the speed out of the lab file"))
        }
        _ => Ok(configured),
    }
}

#[cfg(test)]
mod tests;
