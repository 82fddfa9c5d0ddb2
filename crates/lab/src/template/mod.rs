//! Expands fabric templates, such as `leaf-spine` and `fat-tree`, into nodes and links.
//!
//! The result has the same types as the nodes and links of a lab file, so the resolver handles both in the
//! same way. Ports have the names `Ethernet0`, `Ethernet4` and so on, like SONiC ports with four lanes. Ports
//! to hosts have lower numbers than ports to other switches.

mod check;
mod shapes;
#[cfg(test)]
mod tests;

use serde_saphyr::{Location, Spanned};

use super::problem::Problems;
use xoff_lab_file::{Endpoint, LeftOut, LinkFields, NodeFields, OrderedMap, TemplateFields};

/// The templates, each with its required and its optional fields.
const TEMPLATES: [(&str, &[&str], &[&str]); 5] = [
    ("leaf-spine", &["leaves", "spines", "hosts"], &["uplinks"]),
    ("fat-tree", &["k"], &[]),
    (
        "rail",
        &["nodes", "gpus", "spines"],
        &["uplinks", "group_nodes", "cores", "core_uplinks"],
    ),
    ("star", &["hosts"], &[]),
    ("dumbbell", &["left", "right"], &["uplinks"]),
];

/// The nodes and links of a template.
#[derive(Debug, Default)]
pub(super) struct ExpandedTemplate {
    pub(super) nodes: Vec<(Spanned<String>, NodeFields)>,
    pub(super) links: Vec<Spanned<LinkFields>>,
}

/// Returns the nodes and links of a template. Adds all errors to `problems` and then returns `None`. `left_out` are
/// the parts of the file that were left out because of their errors.
pub(super) fn expand_template(
    fabric: &Spanned<OrderedMap<TemplateFields>>,
    left_out: &LeftOut,
    file: &str,
    problems: &mut Problems,
) -> Option<ExpandedTemplate> {
    let [(name, template)] = fabric.value.0.as_slice() else {
        // Otherwise the template is missing because of its own error.
        if !fabric.value.0.is_empty() || left_out.keys.is_empty() {
            let what = format!("a fabric is one template, this one has {}", fabric.value.0.len());
            problems.push(
                file,
                fabric.referenced,
                what,
                format!("write one of {}", template_names()),
            );
        }
        return None;
    };
    let numbers = check::check_template((name, template), &left_out.fields, file, problems)?;
    let mut builder = TopologyBuilder::new(name.referenced, template);
    match numbers {
        check::TopologyTemplateParameters::LeafSpine(numbers) => {
            shapes::build_leaf_spine(&mut builder, numbers)
        }
        check::TopologyTemplateParameters::FatTree { k } => shapes::build_fat_tree(&mut builder, k),
        check::TopologyTemplateParameters::Rail(numbers) => shapes::build_rail(&mut builder, numbers),
        check::TopologyTemplateParameters::Star { hosts } => shapes::build_star(&mut builder, hosts),
        check::TopologyTemplateParameters::Dumbbell { left, right, uplinks } => {
            shapes::build_dumbbell(&mut builder, left, right, uplinks);
        }
    }
    Some(builder.expansion)
}

/// Returns the names of all templates, for messages.
fn template_names() -> String {
    TEMPLATES.map(|(name, ..)| name).join(", ")
}

/// A switch of the template, with the number of ports that have a link.
struct TemplateSwitch {
    name: String,
    used_ports: u32,
}

impl TemplateSwitch {
    /// Returns the next free port and marks it as used.
    fn take_port(&mut self) -> Endpoint {
        let interface = format!("Ethernet{}", 4 * self.used_ports);
        self.used_ports += 1;
        Endpoint::Node {
            node: self.name.clone(),
            interface,
        }
    }
}

/// Collects the nodes and links of a template.
struct TopologyBuilder<'a> {
    location: Location,
    template: &'a TemplateFields,
    switches: Vec<TemplateSwitch>,
    expansion: ExpandedTemplate,
}

impl<'a> TopologyBuilder<'a> {
    fn new(location: Location, template: &'a TemplateFields) -> TopologyBuilder<'a> {
        TopologyBuilder {
            location,
            template,
            switches: Vec::new(),
            expansion: ExpandedTemplate::default(),
        }
    }

    /// Returns a value with the location of the template in the lab file.
    fn spanned<T>(&self, value: T) -> Spanned<T> {
        Spanned::new(value, self.location, self.location)
    }

    /// Adds a switch and returns its index for [`Self::add_host`] and [`Self::add_uplink`].
    fn add_switch(&mut self, name: String) -> usize {
        let node = NodeFields {
            kind: Some(self.spanned("switch".to_owned())),
            config: self.template.config.clone(),
            ..NodeFields::default()
        };
        self.expansion.nodes.push((self.spanned(name.clone()), node));
        self.switches.push(TemplateSwitch { name, used_ports: 0 });
        self.switches.len() - 1
    }

    /// Adds `count` switches with the names `prefix1`, `prefix2` and so on. Returns their indices.
    fn add_switches(&mut self, prefix: &str, count: u32) -> Vec<usize> {
        (1..=count)
            .map(|number| self.add_switch(format!("{prefix}{number}")))
            .collect()
    }

    /// Adds a host with a link to the next free port of a switch.
    fn add_host(&mut self, name: String, switch: usize) {
        let mut node = self
            .template
            .host
            .as_ref()
            .map(|host| host.value.clone())
            .unwrap_or_default();
        let model = self.spanned("model".to_owned());
        node.kind.get_or_insert(model);
        self.expansion.nodes.push((self.spanned(name.clone()), node));
        let host = Endpoint::Node {
            node: name,
            interface: "eth0".to_owned(),
        };
        let port = self.switches[switch].take_port();
        let (speed, delay) = (self.template.speed.clone(), self.template.delay.clone());
        self.add_link([host, port], speed, delay);
    }

    /// Adds a link between the next free ports of two switches.
    fn add_uplink(&mut self, lower: usize, upper: usize) {
        let ends = [self.switches[lower].take_port(), self.switches[upper].take_port()];
        let template = self.template;
        let speed = template
            .uplink_speed
            .as_ref()
            .or(template.speed.as_ref())
            .cloned();
        let delay = template
            .uplink_delay
            .as_ref()
            .or(template.delay.as_ref())
            .cloned();
        self.add_link(ends, speed, delay);
    }

    /// Adds a link.
    fn add_link(
        &mut self,
        ends: [Endpoint; 2],
        speed: Option<Spanned<String>>,
        delay: Option<Spanned<String>>,
    ) {
        let ends = ends.map(|end| self.spanned(end)).into();
        let link = LinkFields {
            name: None,
            endpoints: self.spanned(ends),
            speed,
            delay,
            mtu: self.template.mtu.clone(),
        };
        self.expansion.links.push(self.spanned(link));
    }
}
