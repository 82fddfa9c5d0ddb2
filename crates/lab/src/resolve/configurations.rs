//! Errors of switch configurations in a lab file that has other errors too. They are reported together with the
//! other errors, so that a user can correct all of them at once.

use serde_saphyr::{Location, Spanned};
use xoff_units::Picos;

use super::super::config::{SimilarSwitches, links_of_switches};
use super::super::plan::{ConfigLayer, LinkPlan, SwitchPlan};
use super::super::switch_errors::SwitchError;
use super::super::switch_names::format_switch_names;
use super::LabResolver;
use super::nodes::node_locations;
use xoff_lab_file::NodeFields;

/// Largest number of errors of a lab file, and of switches with errors, that are searched for. More errors are not
/// printed.
const ERRORS_MAX: usize = 50;

impl LabResolver<'_> {
    /// Reports the errors of the configurations of all switches. If `has_all_ports` is false, links are missing
    /// because of other errors. Errors about missing ports are then left out.
    pub(super) fn report_configurations(
        &mut self,
        nodes: &[(Spanned<String>, NodeFields)],
        switches: &[SwitchPlan],
        links: &[LinkPlan],
        has_all_ports: bool,
    ) {
        let mut errors: Vec<ConfigurationError> = Vec::new();
        let places = config_locations(nodes);
        // A link with an invalid speed has the speed 0.
        let links: Vec<LinkPlan> = links.iter().cloned().map(without_invalid_speed).collect();
        let own_links = links_of_switches(switches.len(), &links);
        let (mut similar, mut invalid_switches) = (SimilarSwitches::default(), 0);
        for (index, (switch, own_links)) in switches.iter().zip(&own_links).enumerate() {
            // The rest would not be printed.
            if self.problems.len() + errors.len() >= ERRORS_MAX || invalid_switches >= ERRORS_MAX {
                break;
            }
            let known_layers = SwitchPlan {
                config: known_layers(&switch.config),
                ..switch.clone()
            };
            let result = similar.resolve(&known_layers, index, (&links, own_links), 0, Picos::ZERO);
            let Err(error) = result else { continue };
            invalid_switches += 1;
            let location = places.get(switch.name.as_str()).copied();
            for (what, fix) in describe_errors(error, has_all_ports) {
                let location = location.unwrap_or(Location::UNKNOWN);
                let place = (location.line(), location.column());
                let known = errors.iter_mut().find(|known| {
                    (known.location.line(), known.location.column()) == place && known.what == what
                });
                match known {
                    Some(known) if known.switches.last() == Some(&switch.name.as_str()) => {}
                    Some(known) => known.switches.push(&switch.name),
                    None => errors.push(ConfigurationError {
                        location,
                        what,
                        fix,
                        switches: vec![&switch.name],
                    }),
                }
            }
        }
        for error in errors {
            let switches = format_switch_names(&error.switches);
            let what = format!("configuration of {switches}: {}", error.what);
            self.report_problem(error.location, what, error.fix);
        }
    }

    /// Reports the errors of the configurations of a lab file whose topology template is invalid.
    pub(super) fn report_configurations_without_links(&mut self, nodes: &[(Spanned<String>, NodeFields)]) {
        let mut switches = Vec::new();
        for (name, node) in nodes {
            if node.config.is_some() {
                switches.push(SwitchPlan {
                    name: name.value.clone(),
                    config: self.config_layers(node.config.as_ref()),
                    asic: node.asic.as_ref().map(|asic| asic.value.clone()),
                    pg_profiles: None,
                });
            }
        }
        self.report_configurations(nodes, &switches, &[], false);
    }
}

/// An error of one or more switches with the same configuration, such as the switches of a template.
struct ConfigurationError<'a> {
    location: Location,
    what: String,
    fix: String,
    switches: Vec<&'a str>,
}

/// Returns the errors of a configuration, each with its correction. Errors about missing ports are left out if
/// `has_all_ports` is false.
fn describe_errors(error: SwitchError, has_all_ports: bool) -> Vec<(String, String)> {
    match error {
        SwitchError::Invalid(problems) => {
            let relevant = problems.as_slice().iter();
            relevant
                .filter(|problem| has_all_ports || problem.missing_port.is_none())
                .map(|problem| {
                    let text = xoff_config::Problem {
                        source: String::new(),
                        fix: None,
                        ..problem.clone()
                    };
                    (text.to_string(), problem.fix.clone().unwrap_or_default())
                })
                .collect()
        }
        SwitchError::Other(failure) => {
            let why = failure.why.map(|why| format!(": {why}")).unwrap_or_default();
            vec![(format!("{}{why}", failure.what), failure.fix.unwrap_or_default())]
        }
    }
}

fn without_invalid_speed(link: LinkPlan) -> LinkPlan {
    LinkPlan {
        speed_mbps: link.speed_mbps.filter(|speed| *speed > 0),
        ..link
    }
}

/// Returns the layers without presets that do not exist. Such presets are reported when they are read.
fn known_layers(layers: &[ConfigLayer]) -> Vec<ConfigLayer> {
    let is_known = |layer: &&ConfigLayer| match layer {
        ConfigLayer::Text { .. } | ConfigLayer::Computed(_) => true,
        ConfigLayer::Preset { name, .. } => xoff_config::PRESETS.iter().any(|(known, _)| known == name),
    };
    layers.iter().filter(is_known).cloned().collect()
}

/// Returns the location of the configuration of each node. A node without a configuration has its own location.
fn config_locations(nodes: &[(Spanned<String>, NodeFields)]) -> std::collections::HashMap<&str, Location> {
    let mut places = node_locations(nodes);
    for (name, node) in nodes {
        if let Some(config) = &node.config {
            places.insert(name.value.as_str(), config.referenced);
        }
    }
    places
}
