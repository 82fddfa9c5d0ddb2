//! Templates of fabrics: the nodes and links that a few numbers stand for.
//!
//! What comes out is what could have been written into the lab file, so it is checked and resolved like everything else
//! there. Ports are numbered as SONiC does with four lanes each, `Ethernet0`, `Ethernet4` and so on: those to hosts
//! first, then those to other switches.

mod check;
mod shapes;
#[cfg(test)]
mod tests;

use serde_saphyr::{Location, Spanned};

use super::file::{Endpoint, Link, Node, Ordered, Template};
use super::problem::Problems;

/// The templates there are, with the fields that each must have and those that it may have.
const SHAPES: [(&str, &[&str], &[&str]); 5] = [
    ("leaf-spine", &["leaves", "spines", "hosts"], &["uplinks"]),
    ("fat-tree", &["k"], &[]),
    ("rail", &["nodes", "gpus", "spines"], &["uplinks"]),
    ("star", &["hosts"], &[]),
    ("dumbbell", &["left", "right"], &["uplinks"]),
];

/// Nodes and links, in their order.
#[derive(Debug, Default)]
pub(super) struct Expansion {
    pub(super) nodes: Vec<(Spanned<String>, Node)>,
    pub(super) links: Vec<Spanned<Link>>,
}

/// What a template stands for; `None` where something is wrong with it, which is said in `problems`.
pub(super) fn expand(
    fabric: &Spanned<Ordered<Template>>,
    file: &str,
    problems: &mut Problems,
) -> Option<Expansion> {
    let [(name, template)] = fabric.value.0.as_slice() else {
        let what = format!("a fabric is one template, this one has {}", fabric.value.0.len());
        problems.push(
            file,
            fabric.referenced,
            what,
            format!("write one of {}", shape_names()),
        );
        return None;
    };
    let numbers = check::numbers(name, template, file, problems)?;
    let mut builder = Builder::new(name.referenced, template);
    match numbers {
        check::Numbers::LeafSpine(numbers) => shapes::leaf_spine(&mut builder, numbers),
        check::Numbers::FatTree { k } => shapes::fat_tree(&mut builder, k),
        check::Numbers::Rail(numbers) => shapes::rail(&mut builder, numbers),
        check::Numbers::Star { hosts } => shapes::star(&mut builder, hosts),
        check::Numbers::Dumbbell { left, right, uplinks } => {
            shapes::dumbbell(&mut builder, left, right, uplinks);
        }
    }
    Some(builder.expansion)
}

fn shape_names() -> String {
    SHAPES.map(|(name, ..)| name).join(", ")
}

/// A switch under construction: its name, and how many of its ports are in use.
struct Switch {
    name: String,
    ports: u32,
}

impl Switch {
    /// The next free port.
    fn port(&mut self) -> Endpoint {
        let interface = format!("Ethernet{}", 4 * self.ports);
        self.ports += 1;
        Endpoint::Node {
            node: self.name.clone(),
            interface,
        }
    }
}

struct Builder<'a> {
    at: Location,
    template: &'a Template,
    switches: Vec<Switch>,
    expansion: Expansion,
}

impl<'a> Builder<'a> {
    fn new(at: Location, template: &'a Template) -> Builder<'a> {
        Builder {
            at,
            template,
            switches: Vec::new(),
            expansion: Expansion::default(),
        }
    }

    fn here<T>(&self, value: T) -> Spanned<T> {
        Spanned::new(value, self.at, self.at)
    }

    /// Adds a switch; what comes back is its number, for the links.
    fn switch(&mut self, name: String) -> usize {
        let node = Node {
            kind: Some(self.here("switch".to_owned())),
            config: self.template.config.clone(),
            ..Node::default()
        };
        self.expansion.nodes.push((self.here(name.clone()), node));
        self.switches.push(Switch { name, ports: 0 });
        self.switches.len() - 1
    }

    /// Adds a host in the next free port of a switch.
    fn host(&mut self, name: String, switch: usize) {
        let mut node = self
            .template
            .host
            .as_ref()
            .map(|host| host.value.clone())
            .unwrap_or_default();
        let model = self.here("model".to_owned());
        node.kind.get_or_insert(model);
        self.expansion.nodes.push((self.here(name.clone()), node));
        let host = Endpoint::Node {
            node: name,
            interface: "eth0".to_owned(),
        };
        let port = self.switches[switch].port();
        let (speed, delay) = (self.template.speed.clone(), self.template.delay.clone());
        self.link([host, port], speed, delay);
    }

    /// Adds a link between the next free ports of two switches.
    fn uplink(&mut self, lower: usize, upper: usize) {
        let ends = [self.switches[lower].port(), self.switches[upper].port()];
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
        self.link(ends, speed, delay);
    }

    fn link(&mut self, ends: [Endpoint; 2], speed: Option<Spanned<String>>, delay: Option<Spanned<String>>) {
        let ends = ends.map(|end| self.here(end)).into();
        let link = Link {
            name: None,
            endpoints: self.here(ends),
            speed,
            delay,
            mtu: self.template.mtu.clone(),
        };
        self.expansion.links.push(self.here(link));
    }
}
