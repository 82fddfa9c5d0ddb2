//! Merges the nodes and links of a fabric template, such as a leaf-spine fabric, with those that the lab
//! file lists.
//!
//! The result contains the unresolved fields of the lab file.

use serde_saphyr::{Location, Spanned};

use super::super::{template, units};
use super::LabResolver;
use xoff_lab_file::{
    ConfigSource, LinkFields, NodeFields, RouteOverride, RouteSource, TemplateFields,
    TopologyFields as TopologySection,
};

/// All nodes and links of a lab. The nodes and links from the template come before those in the lab file.
pub(super) struct MergedTopology {
    pub(super) nodes: Vec<(Spanned<String>, NodeFields)>,
    pub(super) links: Vec<Spanned<LinkFields>>,
    /// Routes that replace computed routes. `None` if the lab has no computed routes.
    pub(super) routes: Option<Vec<Spanned<RouteOverride>>>,
    /// The location of `routes: none` in the lab file. `None` if the lab file does not contain it.
    pub(super) no_routes: Option<Location>,
    /// Whether links may form a loop within one bridge or VLAN.
    pub(super) allows_loop: bool,
}

impl LabResolver<'_> {
    /// Expands the template and merges the nodes of the lab file into it.
    ///
    /// Returns `None` if the template is invalid. In this case, checks of the nodes would only
    /// repeat the error.
    pub(super) fn merge_template(&mut self, section: &TopologySection) -> Option<MergedTopology> {
        let expansion = match &section.fabric {
            Some(fabric) => template::expand_template(fabric, &self.left_out, self.file, &mut self.problems)?,
            None => template::ExpandedTemplate::default(),
        };
        let mut nodes = expansion.nodes;
        let template_nodes: std::collections::HashMap<String, usize> = nodes
            .iter()
            .enumerate()
            .map(|(index, (name, _))| (name.value.clone(), index))
            .collect();
        for (name, node) in &section.nodes.0 {
            match template_nodes.get(&name.value) {
                Some(&index) => {
                    let (merged_name, merged_node) = &mut nodes[index];
                    self.check_same_kind(name, node, merged_node);
                    // Errors of the node refer to its lines in the lab file, not to the line of the template.
                    *merged_name = name.clone();
                    *merged_node = merge_node(merged_node, node);
                }
                None => nodes.push((name.clone(), node.clone())),
            }
        }
        let mut links = expansion.links;
        links.extend(section.links.iter().cloned());
        let routes = match section.routes.as_ref().map(|routes| &routes.value) {
            Some(RouteSource::Auto(overrides)) => Some(overrides.clone()),
            Some(RouteSource::None) => None,
            None => section.fabric.is_some().then(Vec::new),
        };
        let none = section.routes.as_ref();
        let none = none.filter(|routes| matches!(routes.value, RouteSource::None));
        Some(MergedTopology {
            nodes,
            links,
            routes,
            no_routes: none.map(|routes| routes.referenced),
            allows_loop: section.allow_loop.as_ref().is_some_and(|allow| allow.value),
        })
    }

    /// Reports the invalid quantities of a template that is not expanded.
    pub(super) fn check_template_quantities(&mut self, template: &TemplateFields) {
        for speed in [&template.speed, &template.uplink_speed] {
            self.parse_quantity(speed.as_ref(), 0, units::parse_speed_mbps, units::SPEED);
        }
        for delay in [&template.delay, &template.uplink_delay] {
            self.parse_quantity(delay.as_ref(), 0, units::parse_duration_ns, units::DURATION);
        }
        self.resolve_link_mtu(template.mtu.as_ref());
    }

    /// Reports an error if a node is a switch in the template and a host in the lab file, or vice versa.
    fn check_same_kind(&mut self, name: &Spanned<String>, node: &NodeFields, template_node: &NodeFields) {
        let is_switch = |node: &NodeFields| node.kind.as_ref().map(|kind| kind.value == "switch");
        if let (Some(kind), true) = (&node.kind, is_switch(node) != is_switch(template_node)) {
            let template_kind = template_node.kind.as_ref().map_or("", |kind| &kind.value);
            let what = format!(
                "{} is of kind {template_kind} in the fabric's template, and here {}",
                name.value, kind.value
            );
            self.report_problem(kind.referenced, what, "leave `kind` out, or use another name");
        }
    }
}

/// Returns a node of the template with the changes of the lab file.
///
/// The configuration in the lab file overrides fields of the configuration in the template.
fn merge_node(template_node: &NodeFields, file_node: &NodeFields) -> NodeFields {
    macro_rules! either {
        ($($field:ident),*) => {
            NodeFields {
                config: layer_config_sources(template_node.config.as_ref(), file_node.config.as_ref()),
                $($field: file_node.$field.clone().or_else(|| template_node.$field.clone())),*
            }
        };
    }
    either!(
        kind,
        asic,
        pg_profiles,
        load_balancing,
        mac,
        ipv4,
        ipv6,
        nic,
        gateway,
        routes,
        exec,
        kernel,
        initrd,
        append,
        memory,
        cpus,
        accel,
        qemu,
        args,
        attach,
        console
    )
}

/// Returns a configuration with two layers, or the only layer that is present.
fn layer_config_sources(
    lower: Option<&Spanned<ConfigSource>>,
    upper: Option<&Spanned<ConfigSource>>,
) -> Option<Spanned<ConfigSource>> {
    match (lower, upper) {
        (Some(lower), Some(upper)) => {
            let both = ConfigSource::Layers(vec![lower.clone(), upper.clone()]);
            Some(Spanned::new(both, upper.referenced, upper.defined))
        }
        (lower, upper) => upper.or(lower).cloned(),
    }
}
