//! What a template's fields may say.

use serde_saphyr::{Location, Spanned};

use super::super::file::Template;
use super::super::problem::Problems;
use super::super::resolve::HOSTS_MAX;
use super::shapes::TwoStages;
use super::{SHAPES, shape_names};
use xoff_config::PORTS_MAX;

/// Most switches that a template makes.
const SWITCHES_MAX: u64 = 4096;
/// Most links that a template makes.
const LINKS_MAX: u64 = 65_536;
/// Largest number in a template; what it makes is bounded below that.
const NUMBER_MAX: u32 = 65_536;

/// A template with its numbers, none of which makes too much.
#[derive(Clone, Copy, Debug)]
pub(super) enum Numbers {
    LeafSpine(TwoStages),
    FatTree { k: u32 },
    Rail(TwoStages),
    Star { hosts: u32 },
    Dumbbell { left: u32, right: u32, uplinks: u32 },
}

/// What a template makes, to be compared with what is possible.
struct Size {
    hosts: u64,
    switches: u64,
    links: u64,
    /// Of the switch that has most.
    ports: u64,
}

impl Numbers {
    fn size(self) -> Size {
        let two_stages = |leaves: u32, hosts: u32, spines: u32, uplinks: u32| {
            let [leaves, hosts, spines, uplinks] = [leaves, hosts, spines, uplinks].map(u64::from);
            Size {
                hosts: leaves * hosts,
                switches: leaves + spines,
                links: (leaves * hosts).saturating_add(leaves * spines * uplinks),
                ports: (hosts + spines * uplinks).max(leaves * uplinks),
            }
        };
        match self {
            Numbers::LeafSpine(n) => two_stages(n.leaves, n.hosts, n.spines, n.uplinks),
            Numbers::Rail(n) => two_stages(n.hosts, n.leaves, n.spines, n.uplinks),
            Numbers::FatTree { k } => {
                let k = u64::from(k);
                Size {
                    hosts: k * k * k / 4,
                    switches: k * k * 5 / 4,
                    links: k * k * k * 3 / 4,
                    ports: k,
                }
            }
            Numbers::Star { hosts } => two_stages(1, hosts, 0, 0),
            Numbers::Dumbbell { left, right, uplinks } => {
                let [left, right, uplinks] = [left, right, uplinks].map(u64::from);
                Size {
                    hosts: left + right,
                    switches: 2,
                    links: left + right + uplinks,
                    ports: left.max(right) + uplinks,
                }
            }
        }
    }
}

/// The numbers of a template; `None` if something is wrong with it, which is said in `problems`.
pub(super) fn numbers(
    name: &Spanned<String>,
    template: &Template,
    file: &str,
    problems: &mut Problems,
) -> Option<Numbers> {
    let Some(&(shape, required, optional)) = SHAPES.iter().find(|(shape, ..)| *shape == name.value) else {
        let what = format!("there is no template \"{}\"", name.value);
        problems.push(
            file,
            name.referenced,
            what,
            format!("the templates are {}", shape_names()),
        );
        return None;
    };
    let before = problems.0.len();
    let fields = fields(template);
    for (field, value) in &fields {
        let at = value.map_or(name.referenced, |value| value.referenced);
        if value.is_some() && !required.contains(field) && !optional.contains(field) {
            let has = [required, optional].concat().join(", ");
            let fix = format!("its numbers are {has}");
            problems.push(file, at, format!("the template {shape} has no `{field}`"), fix);
        } else if value.is_none() && required.contains(field) {
            let what = format!("the template {shape} has no `{field}`");
            problems.push(
                file,
                at,
                what,
                format!("add `{field}`: it needs {}", required.join(", ")),
            );
        }
        // A rail without spines is rails that do not meet.
        let least = u32::from(*field != "spines");
        if let Some(value) = value.filter(|value| !(least..=NUMBER_MAX).contains(&value.value)) {
            let fix = format!("write a number from {least} to {NUMBER_MAX}");
            problems.push(file, at, format!("`{field}` is {}", value.value), fix);
        }
    }
    if let Some(k) = template.k.as_ref().filter(|k| !k.value.is_multiple_of(2)) {
        let fix = "it is the number of ports of a switch, half of them to either side: write an even number";
        problems.push(file, k.referenced, format!("`k` is {}", k.value), fix);
    }
    shared_address(template, file, problems);
    if problems.0.len() > before {
        return None;
    }
    let numbers = of(shape, &fields)?;
    fits(numbers, name.referenced, file, problems).then_some(numbers)
}

fn fields(template: &Template) -> [(&'static str, Option<&Spanned<u32>>); 9] {
    [
        ("leaves", template.leaves.as_ref()),
        ("spines", template.spines.as_ref()),
        ("hosts", template.hosts.as_ref()),
        ("k", template.k.as_ref()),
        ("nodes", template.nodes.as_ref()),
        ("gpus", template.gpus.as_ref()),
        ("left", template.left.as_ref()),
        ("right", template.right.as_ref()),
        ("uplinks", template.uplinks.as_ref()),
    ]
}

fn of(shape: &str, fields: &[(&str, Option<&Spanned<u32>>)]) -> Option<Numbers> {
    let number = |field: &str, default: u32| {
        let said = fields.iter().find(|(name, _)| *name == field);
        said.and_then(|(_, value)| *value)
            .map_or(default, |value| value.value)
    };
    let two_stages = |leaves, hosts| TwoStages {
        leaves: number(leaves, 0),
        spines: number("spines", 0),
        hosts: number(hosts, 0),
        uplinks: number("uplinks", 1),
    };
    Some(match shape {
        "leaf-spine" => Numbers::LeafSpine(two_stages("leaves", "hosts")),
        "fat-tree" => Numbers::FatTree { k: number("k", 0) },
        "rail" => Numbers::Rail(two_stages("nodes", "gpus")),
        "star" => Numbers::Star {
            hosts: number("hosts", 0),
        },
        "dumbbell" => Numbers::Dumbbell {
            left: number("left", 0),
            right: number("right", 0),
            uplinks: number("uplinks", 1),
        },
        _ => return None,
    })
}

/// An address in `host` would be that of every host.
fn shared_address(template: &Template, file: &str, problems: &mut Problems) {
    let Some(host) = &template.host else { return };
    let addresses = [
        ("mac", &host.value.mac),
        ("ipv4", &host.value.ipv4),
        ("ipv6", &host.value.ipv6),
    ];
    for (field, address) in addresses {
        if let Some(address) = address {
            let what = format!("`{field}` of `host` would be that of every host of the template");
            let fix = "give a host an address of its own under `nodes`, by its name";
            problems.push(file, address.referenced, what, fix);
        }
    }
}

fn fits(numbers: Numbers, at: Location, file: &str, problems: &mut Problems) -> bool {
    let size = numbers.size();
    let limits = [
        ("hosts", size.hosts, HOSTS_MAX as u64),
        ("switches", size.switches, SWITCHES_MAX),
        ("links", size.links, LINKS_MAX),
        ("ports on one switch", size.ports, PORTS_MAX as u64),
    ];
    let mut whole = true;
    for (what, count, max) in limits {
        if count > max {
            let what = format!("the template makes {count} {what}");
            problems.push(
                file,
                at,
                what,
                format!("at most {max} are possible: make its numbers smaller"),
            );
            whole = false;
        }
    }
    whole
}
