//! Resolves `load_balancing` of the lab and of its switches.

use std::collections::HashMap;

use serde_saphyr::Spanned;

use super::super::balancing;
use super::super::plan::SwitchPlan;
use super::super::problem::UnknownScheme;
use super::super::switch_names::format_switch_names;
use super::LabResolver;
use xoff_lab_file::{LoadBalancingFields, NodeDefaults, NodeFields};

impl LabResolver<'_> {
    /// Adds the load-balancing schemes of the lab file to the configurations of the switches.
    ///
    /// A switch configuration is merged from layers, and a higher layer overrides the lower layers. The
    /// scheme in `topology.defaults` becomes the lowest layer. The scheme of a node becomes the highest layer
    /// of this node.
    pub(super) fn apply_load_balancing(
        &mut self,
        defaults: Option<&NodeDefaults>,
        nodes: &[(Spanned<String>, NodeFields)],
        switches: &mut [SwitchPlan],
    ) {
        let nodes: HashMap<&str, &NodeFields> = nodes
            .iter()
            .map(|(name, node)| (name.value.as_str(), node))
            .collect();
        let default = defaults.and_then(|defaults| defaults.load_balancing.as_ref());
        let default = default.filter(|scheme| self.check_default_scheme(switches, scheme));
        for switch in switches.iter_mut() {
            let node = nodes.get(switch.name.as_str());
            let own = node.and_then(|node| node.load_balancing.as_ref());
            if let Some(scheme) = default {
                let layer =
                    balancing::scheme_config_layer(&scheme.value, self.file_and_line(scheme.referenced));
                switch.config.insert(0, layer);
            }
            if let Some(scheme) = own
                && self.check_scheme(switch, scheme)
            {
                let layer =
                    balancing::scheme_config_layer(&scheme.value, self.file_and_line(scheme.referenced));
                switch.config.push(layer);
            }
        }
        balancing::enable_link_quality_messages(switches, "load_balancing");
    }

    /// Returns whether the lab announces the queue pairs of its jobs to the switches.
    pub(super) fn announces_queue_pairs(&mut self, options: Option<&LoadBalancingFields>) -> bool {
        let Some(announce) = options.and_then(|options| options.announce.as_ref()) else {
            return false;
        };
        if announce.value {
            self.require_virtual_time(
                announce.referenced,
                "load_balancing.announce announces queue pairs of jobs",
            );
        }
        announce.value
    }

    /// Returns whether the default scheme exists at all switches. Reports an unknown scheme once for all switches.
    fn check_default_scheme(&mut self, switches: &[SwitchPlan], scheme: &Spanned<String>) -> bool {
        let without_scheme: Vec<&SwitchPlan> = switches
            .iter()
            .filter(|switch| !balancing::has_scheme(switch, &scheme.value))
            .collect();
        let Some(first) = without_scheme.first() else {
            return true;
        };
        let what = match without_scheme.len() == switches.len() {
            true => format!("there is no load-balancing scheme \"{}\"", scheme.value),
            false => {
                let names: Vec<&str> = without_scheme.iter().map(|switch| switch.name.as_str()).collect();
                format!(
                    "there is no load-balancing scheme \"{}\" at {}",
                    scheme.value,
                    format_switch_names(&names)
                )
            }
        };
        let names = balancing::scheme_names(first);
        let fix = self.suggest(&scheme.value, names.iter().map(String::as_str), "schemes");
        self.problems.set_unknown_scheme(UnknownScheme {
            name: scheme.value.clone(),
            what: what.clone(),
            fix: fix.clone(),
        });
        self.report_problem(scheme.referenced, what, fix);
        false
    }

    /// Returns whether a load-balancing scheme exists at a switch. Reports an unknown scheme.
    fn check_scheme(&mut self, switch: &SwitchPlan, scheme: &Spanned<String>) -> bool {
        let is_known = balancing::has_scheme(switch, &scheme.value);
        if !is_known {
            let what = format!(
                "switch {} has no load-balancing scheme \"{}\"",
                switch.name, scheme.value
            );
            let names = balancing::scheme_names(switch);
            let fix = self.suggest(&scheme.value, names.iter().map(String::as_str), "schemes");
            self.report_problem(scheme.referenced, what, fix);
        }
        is_known
    }
}
