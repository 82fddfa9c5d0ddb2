//! What the topology is before anything in it is resolved: the template's nodes and links, with those of the file.

use serde_saphyr::Spanned;

use super::super::file::{ConfigSource, Link, Node, RouteOverride, Routes, Topology as Written};
use super::super::template;
use super::Resolver;

/// All nodes and links: those of the template first.
pub(super) struct Topology {
    pub(super) nodes: Vec<(Spanned<String>, Node)>,
    pub(super) links: Vec<Spanned<Link>>,
    /// Routes are made, but for these; `None`: none are.
    pub(super) routes: Option<Vec<Spanned<RouteOverride>>>,
}

impl Resolver<'_> {
    /// `None` if the template is wrong: whatever else is said of its nodes would only repeat that.
    pub(super) fn topology(&mut self, written: &Written) -> Option<Topology> {
        let expansion = match &written.fabric {
            Some(fabric) => template::expand(fabric, self.file, &mut self.problems)?,
            None => template::Expansion::default(),
        };
        let mut nodes = expansion.nodes;
        let made: std::collections::HashMap<String, usize> = nodes
            .iter()
            .enumerate()
            .map(|(at, (name, _))| (name.value.clone(), at))
            .collect();
        for (name, node) in &written.nodes.0 {
            match made.get(&name.value) {
                Some(&at) => {
                    let (whole, whole_node) = &mut nodes[at];
                    self.same_kind(name, node, whole_node);
                    // Its own lines are where its mistakes are.
                    *whole = name.clone();
                    *whole_node = over(whole_node, node);
                }
                None => nodes.push((name.clone(), node.clone())),
            }
        }
        let mut links = expansion.links;
        links.extend(written.links.iter().cloned());
        let routes = match written.routes.as_ref().map(|routes| &routes.value) {
            Some(Routes::Auto(overrides)) => Some(overrides.clone()),
            Some(Routes::None) => None,
            None => written.fabric.is_some().then(Vec::new),
        };
        Some(Topology { nodes, links, routes })
    }

    /// What is in the middle of a template's links stays a switch, and their ends stay hosts.
    fn same_kind(&mut self, name: &Spanned<String>, node: &Node, made: &Node) {
        let is_switch = |node: &Node| node.kind.as_ref().map(|kind| kind.value == "switch");
        if let (Some(kind), true) = (&node.kind, is_switch(node) != is_switch(made)) {
            let made = made.kind.as_ref().map_or("", |kind| &kind.value);
            let what = format!(
                "{} is of kind {made} in the fabric's template, and here {}",
                name.value, kind.value
            );
            self.wrong(kind.referenced, what, "leave `kind` out, or use another name");
        }
    }
}

/// A template's node with what the file says of it: field by field, and the configuration as a further layer.
fn over(made: &Node, said: &Node) -> Node {
    macro_rules! either {
        ($($field:ident),*) => {
            Node {
                config: layers(made.config.as_ref(), said.config.as_ref()),
                $($field: said.$field.clone().or_else(|| made.$field.clone())),*
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
        console
    )
}

fn layers(
    below: Option<&Spanned<ConfigSource>>,
    above: Option<&Spanned<ConfigSource>>,
) -> Option<Spanned<ConfigSource>> {
    match (below, above) {
        (Some(below), Some(above)) => {
            let both = ConfigSource::Layers(vec![below.clone(), above.clone()]);
            Some(Spanned::new(both, above.referenced, above.defined))
        }
        (below, above) => above.or(below).cloned(),
    }
}
