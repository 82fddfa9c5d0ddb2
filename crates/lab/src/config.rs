//! Resolves the configuration of the switches of a lab.
//!
//! A configuration is merged from layers, and a higher layer overrides the lower layers. The lowest layer
//! sets the link speeds of the lab. The layers of the lab file are above it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use xoff_units::Picos;

use super::plan::{ConfigLayer, FarEnd, LabPlan, LinkPlan, SPEED_MBPS_DEFAULT, SwitchPlan};
use super::switch_errors::{SwitchError, SwitchErrors};
use xoff_config::{DeviceDefaults, DeviceMtu, LoadedConfig, PgProfileLookup, ResolveOptions};
use xoff_runtime::session::reaction_budget_in_model_time;
use xoff_runtime::workers::WorkerOptions;
use xoff_telemetry::failure::Failure;

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
    resolve_all_switch_setups(plan, seed, budget)
}

/// Resolves the configurations of all switches, in the order of [`LabPlan::switches`]. `seed` is the seed of
/// the run.
///
/// # Errors
/// Returns the same errors as [`resolve_switch_setup`].
pub(super) fn resolve_all_switch_setups(
    plan: &LabPlan,
    seed: u64,
    reaction_budget: Picos,
) -> Result<Vec<SwitchSetup>, Failure> {
    let mut setups = Vec::with_capacity(plan.switches.len());
    let mut errors = SwitchErrors::default();
    let own_links = links_of_switches(plan.switches.len(), &plan.links);
    for (index, (switch, own_links)) in plan.switches.iter().zip(&own_links).enumerate() {
        let links = (&plan.links[..], &own_links[..]);
        let seed = switch_seed(seed, index);
        match resolve_switch_with_links(switch, index, links, seed, reaction_budget) {
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

/// Resolves the configuration of one switch. `switch` is an index of [`LabPlan::switches`].
///
/// Each link of the switch creates a port. The lab file can set the speed of a link. Otherwise the switch
/// configuration sets the speed, and the default is 1 Gb/s. `reaction_budget_in_model_time` is the longest
/// time for which the machine may stall xoff, as model time. A preset adds headroom for this time.
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
    let own_links: Vec<usize> = (0..plan.links.len())
        .filter(|link| plan.links[*link].port_at_switch(switch).is_some())
        .collect();
    let setup = resolve_switch_with_links(
        &plan.switches[switch],
        switch,
        (&plan.links, &own_links),
        seed,
        reaction_budget,
    );
    setup.map_err(|error| error.into_failure(&plan.switches[switch].name))
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
pub(super) fn resolve_switch_with_links(
    plan: &SwitchPlan,
    index: usize,
    (links, own_indices): (&[LinkPlan], &[usize]),
    seed: u64,
    reaction_budget: Picos,
) -> Result<SwitchSetup, SwitchError> {
    let own_links: Vec<(&str, &LinkPlan)> = own_indices
        .iter()
        .filter_map(|link| Some((links[*link].port_at_switch(index)?, &links[*link])))
        .collect();
    let name = &plan.name;
    let mut layers = vec![("the lab".to_owned(), link_speed_layer(&own_links).to_string())];
    let ports: Vec<(String, u32)> = own_links
        .iter()
        .map(|(port, link)| ((*port).to_owned(), link.speed_mbps.unwrap_or(SPEED_MBPS_DEFAULT)))
        .collect();
    let devices = external_device_defaults(&own_links);
    let mut preset_notes = Vec::new();
    for layer in &plan.config {
        layers.push(match layer {
            ConfigLayer::Text { source, text } => (source.clone(), text.clone()),
            ConfigLayer::Preset { name, source } => {
                let mut preset = xoff_config::build_preset(name, &ports, reaction_budget)
                    .map_err(|unknown| Failure::configuration(unknown.to_string()).at(source))?;
                preset_notes.extend(devices.replace_mtus_of_preset(&mut preset));
                (format!("preset {name}"), preset.to_json())
            }
        });
    }
    let link_mtus = own_links
        .iter()
        .map(|(port, link)| ((*port).to_owned(), link.mtu));
    let layers: Vec<(&str, &str)> = layers
        .iter()
        .map(|(source, text)| (source.as_str(), text.as_str()))
        .collect();
    let pg_profiles = plan.pg_profiles.as_ref().map(|lookup| {
        PgProfileLookup::parse(&lookup.text, &lookup.source).map_err(|problems| {
            Failure::configuration("the lookup file is invalid")
                .at(format!("switch {name}"))
                .because(problems)
        })
    });
    let resolve = ResolveOptions {
        ports: ports.into_iter().map(|(port, _)| port).collect(),
        hostname: Some(name.clone()),
        seed,
        reaction_budget,
        link_mtus: link_mtus.collect(),
        devices,
        asic: plan.asic.clone(),
        pg_profiles: pg_profiles.transpose()?.map(Arc::new),
        attachment: xoff_config::PortAttachment::Lab,
        port_source: Some(xoff_config::PORT_LINK),
        ..ResolveOptions::default()
    };
    let mut loaded = xoff_config::load(&layers, &resolve).map_err(SwitchError::Invalid)?;
    loaded.resolved.warnings.extend(preset_notes);
    let mut speeds_mbps = BTreeMap::new();
    for (link, (port, plan)) in own_indices.iter().zip(&own_links) {
        speeds_mbps.insert(*link, link_speed_mbps(&loaded, port, plan)?);
    }
    Ok(SwitchSetup {
        loaded,
        resolve,
        speeds_mbps,
    })
}

/// Returns the MTUs of the external devices of a switch. As in `xoff switch run`, the MTU of such a device is
/// the default MTU of its port.
fn external_device_defaults(links: &[(&str, &LinkPlan)]) -> DeviceDefaults {
    let with_device = links.iter().filter_map(|(port, link)| match &link.far {
        FarEnd::External(device) => {
            let (device, mtu) = (device.clone(), link.device_mtu?);
            Some(((*port).to_owned(), DeviceMtu { device, mtu }))
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
fn link_speed_mbps(loaded: &LoadedConfig, name: &str, link: &LinkPlan) -> Result<u32, Failure> {
    let mut ports = loaded.resolved.config.ports.iter();
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
mod tests {
    use std::path::Path;

    use super::super::parse_lab;
    use super::super::plan::TimeMode;
    use super::*;

    const BUDGET: Picos = Picos::from_millis(20);

    fn parse_and_resolve(config: &str, speed: &str) -> Result<SwitchSetup, Failure> {
        let text = format!(
            "name: x\ntopology:\n  nodes:\n    sw9: {{kind: switch, config: {config}}}\n    h1: {{kind: model}}\n  links:\n    - {{endpoints: [\"h1:eth0\", \"sw9:Ethernet4\"]{speed}}}\n"
        );
        let plan = parse_lab(&text, "x.xoff.yml", Path::new(""), TimeMode::RealTime)
            .map_err(|problems| Failure::configuration(problems.to_string()))?;
        resolve_switch_setup(&plan, 0, 7, BUDGET)
    }

    /// In SONiC's traditional buffer model, a switch takes its lossless profiles from the lookup
    /// file (`pg_profiles`).
    #[test]
    fn lossless_profiles_are_read_from_the_lookup_file() {
        let lab = |key: &str| {
            let text = format!(
                r#"
name: x
topology:
  nodes:
    sw9:
      kind: switch
      config:
        CABLE_LENGTH: {{AZURE: {{Ethernet4: 5m}}}}
        PORT_QOS_MAP: {{Ethernet4: {{pfc_enable: "3"}}}}
        BUFFER_POOL: {{ingress_lossless_pool: {{type: ingress, mode: dynamic, size: "1048576"}}}}
{key}
    h1: {{kind: model}}
  links:
    - {{endpoints: ["h1:eth0", "sw9:Ethernet4"], speed: 10g}}
"#
            );
            let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/pg_profiles"));
            let plan = parse_lab(&text, "x.xoff.yml", folder, TimeMode::RealTime)?;
            let setup = resolve_switch_setup(&plan, 0, 7, BUDGET).expect("the configuration is good");
            let config = setup.loaded.resolved.config;
            let profile = usize::from(config.ports[0].pgs[3]);
            Ok::<u64, super::super::Problems>(config.profiles[profile].xoff_bytes)
        };
        let xoff_bytes = |key: &str| lab(key).expect("the lab file is good");
        assert_eq!(xoff_bytes("      pg_profiles: pg_profile_lookup.ini"), 33_280);
        assert_eq!(xoff_bytes(""), 0, "without the file there is no headroom");
        let missing = lab("      pg_profiles: none.ini").expect_err("there is no such file");
        assert!(
            missing.to_string().contains("cannot read the lookup file"),
            "{missing}"
        );
    }

    #[test]
    fn lab_sets_port_speeds_and_switch_name() {
        let setup = parse_and_resolve("{preset: roce-lossless}", ", speed: 10g").expect("good");
        let config = &setup.loaded.resolved.config;
        assert_eq!((config.name.as_str(), config.seed), ("sw9", 7));
        assert_eq!(
            config
                .ports
                .iter()
                .map(|port| port.name.as_str())
                .collect::<Vec<_>>(),
            ["Ethernet4"]
        );
        assert_eq!(
            (setup.speeds_mbps[&0], config.ports[0].link.speed_mbps),
            (10_000, 10_000)
        );
        assert!(config.ports[0].admin_up);
    }

    #[test]
    fn configuration_sets_the_speed_if_the_lab_has_none() {
        let setup = parse_and_resolve("{PORT: {Ethernet4: {speed: 25000}}}", "").expect("good");
        assert_eq!(setup.speeds_mbps[&0], 25_000);
    }

    /// YAML has three forms of null: `null`, `~` and an empty value. A null value deletes a field or table
    /// that a lower layer has set.
    #[test]
    fn null_removes_fields_and_tables_of_lower_layers() {
        let base = "{PORT: {Ethernet4: {speed: 25000, mtu: 9100}}, VLAN: {Vlan10: {}}}";
        for (layer, mtu, vlan) in [
            ("{}", 9_100, true),
            ("{PORT: {Ethernet4: {mtu: null}}}", 1_500, true),
            ("{PORT: {Ethernet4: {mtu: ~}}, VLAN: {Vlan10: }}", 1_500, false),
            ("{PORT: , VLAN: null}", 1_500, false),
            (
                r#"{PORT: {Ethernet4: null}, VLAN: {Vlan11: null}, QUEUE: null}"#,
                1_500,
                true,
            ),
        ] {
            let setup = parse_and_resolve(&format!("[{base}, {layer}]"), "")
                .unwrap_or_else(|failure| panic!("{layer}: {failure}"));
            let config = &setup.loaded.resolved.config;
            assert_eq!(config.ports[0].mtu, mtu, "{layer}");
            assert_eq!(setup.loaded.db.keys("VLAN").next().is_some(), vlan, "{layer}");
        }
        let failure = parse_and_resolve("[{}, {VLANS: null}]", "").expect_err("no such table");
        assert!(failure.to_string().contains("did you mean VLAN?"), "{failure}");
    }

    #[test]
    fn configuration_errors_name_the_value_and_the_line() {
        for (config, speed, parts) in [
            (
                "{PORT: {Ethernet4: {speed: 25000}}}",
                ", speed: 10g",
                ["25000", "x.xoff.yml:7"],
            ),
            ("{preset: roce-lossles}", "", ["roce-lossles", "x.xoff.yml:4"]),
            (
                "{PORT_QOS_MAP: {Ethernet4: {pfc_enable: 9}}}",
                "",
                ["pfc_enable", "9"],
            ),
        ] {
            let failure = parse_and_resolve(config, speed).expect_err(config);
            let text = failure.to_string();
            assert!(
                parts.iter().all(|part| text.contains(part)),
                "{parts:?} in {text}"
            );
            assert_eq!(
                failure.exit,
                xoff_telemetry::failure::Exit::Configuration,
                "{text}"
            );
        }
    }

    #[test]
    fn lab_files_of_the_repository_are_valid() {
        for (file, enabled) in [("incast", 1 << 3), ("incast-nopfc", 0)] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testbeds/{file}.xoff.yml"));
            let plan = super::super::load_lab(&path, TimeMode::RealTime)
                .unwrap_or_else(|problems| panic!("{problems}"));
            let setup =
                resolve_switch_setup(&plan, 0, 1, BUDGET).unwrap_or_else(|failure| panic!("{failure}"));
            assert_eq!(
                setup.speeds_mbps.into_values().collect::<Vec<_>>(),
                [1000; 5],
                "{file}"
            );
            let ports = &setup.loaded.resolved.config.ports;
            assert!(ports.iter().all(|port| port.pfc.enabled == enabled), "{file}");
            assert_eq!(plan.workload.flows.len(), 8, "{file}");
        }
    }
}
