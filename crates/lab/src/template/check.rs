//! Checks the fields of a fabric template and the size of the resulting topology.

use std::collections::HashSet;

use serde_saphyr::{Location, Spanned};

use super::super::plan::HOSTS_MAX;
use super::super::problem::Problems;
use super::TEMPLATES;
use super::shapes::LeafSpineParameters;
use xoff_config::PORTS_MAX;
use xoff_lab_file::TemplateFields;

/// Largest number of switches of a template.
const SWITCHES_MAX: u64 = 4096;
/// Largest number of links of a template.
const LINKS_MAX: u64 = 65_536;
/// Largest value of a field of a template. This limit only prevents overflows in
/// [`TopologyTemplateParameters::size`]. The lab itself has lower limits, for the numbers of switches, hosts
/// and links.
const FIELD_VALUE_MAX: u32 = 65_536;

/// The checked numbers of a template.
#[derive(Clone, Copy, Debug)]
pub(super) enum TopologyTemplateParameters {
    LeafSpine(LeafSpineParameters),
    FatTree { k: u32 },
    Rail(LeafSpineParameters),
    Star { hosts: u32 },
    Dumbbell { left: u32, right: u32, uplinks: u32 },
}

/// The size of the topology of a template.
struct TemplateSize {
    hosts: u64,
    switches: u64,
    links: u64,
    /// Largest number of ports of one switch.
    ports: u64,
}

impl TopologyTemplateParameters {
    /// Returns the size of the topology. The computation does not overflow if all fields are
    /// at most [`FIELD_VALUE_MAX`].
    fn size(self) -> TemplateSize {
        let two_stages = |leaves: u32, hosts: u32, spines: u32, uplinks: u32| {
            let [leaves, hosts, spines, uplinks] = [leaves, hosts, spines, uplinks].map(u64::from);
            TemplateSize {
                hosts: leaves * hosts,
                switches: leaves + spines,
                links: (leaves * hosts).saturating_add(leaves * spines * uplinks),
                ports: (hosts + spines * uplinks).max(leaves * uplinks),
            }
        };
        match self {
            TopologyTemplateParameters::LeafSpine(n) => two_stages(n.leaves, n.hosts, n.spines, n.uplinks),
            TopologyTemplateParameters::Rail(n) => two_stages(n.hosts, n.leaves, n.spines, n.uplinks),
            TopologyTemplateParameters::FatTree { k } => {
                let k = u64::from(k);
                TemplateSize {
                    hosts: k * k * k / 4,
                    switches: k * k * 5 / 4,
                    links: k * k * k * 3 / 4,
                    ports: k,
                }
            }
            TopologyTemplateParameters::Star { hosts } => two_stages(1, hosts, 0, 0),
            TopologyTemplateParameters::Dumbbell { left, right, uplinks } => {
                let [left, right, uplinks] = [left, right, uplinks].map(u64::from);
                TemplateSize {
                    hosts: left + right,
                    switches: 2,
                    links: left + right + uplinks,
                    ports: left.max(right) + uplinks,
                }
            }
        }
    }
}

/// Checks a template and returns its numbers. Adds all errors to `problems` and then returns `None`.
pub(super) fn check_template(
    (name, template): (&Spanned<String>, &TemplateFields),
    left_out: &HashSet<String>,
    file: &str,
    problems: &mut Problems,
) -> Option<TopologyTemplateParameters> {
    let Some(&(shape, required, optional)) = TEMPLATES.iter().find(|(shape, ..)| *shape == name.value) else {
        let what = format!("there is no template \"{}\"", name.value);
        let names = TEMPLATES.iter().map(|(name, ..)| *name);
        let fix = xoff_lab_file::suggest(&name.value, names, "templates");
        problems.push(file, name.referenced, what, fix);
        return None;
    };
    let problems_before = problems.len();
    let fields = numeric_template_fields(template);
    for (field, value) in &fields {
        let location = value.map_or(name.referenced, |value| value.referenced);
        if value.is_some() && !required.contains(field) && !optional.contains(field) {
            let has = [required, optional].concat().join(", ");
            let fix = format!("its numbers are {has}");
            problems.push(
                file,
                location,
                format!("the template {shape} has no `{field}`"),
                fix,
            );
        } else if value.is_none() && required.contains(field) && !left_out.contains(*field) {
            let what = format!("the template {shape} has no `{field}`");
            problems.push(
                file,
                location,
                what,
                format!("add `{field}`: it needs {}", required.join(", ")),
            );
        }
        // `spines` can be 0. The leaves are then not connected with each other.
        let least = u32::from(*field != "spines");
        if let Some(value) = value.filter(|value| !(least..=FIELD_VALUE_MAX).contains(&value.value)) {
            let fix = format!(
                "write a whole number of {} from {least} to {FIELD_VALUE_MAX}",
                unit_of_field(field)
            );
            let what = format!("`{field}` is {}, which is out of range", value.value);
            problems.push(file, location, what, fix);
        }
    }
    if let Some(k) = template.k.as_ref().filter(|k| !k.value.is_multiple_of(2)) {
        let fix =
            "`k` is the number of ports of a switch, and half of them are uplinks: write an even number";
        problems.push(file, k.referenced, format!("`k` is {}", k.value), fix);
    }
    check_shared_addresses(template, file, problems);
    let has_all_fields = fields
        .iter()
        .all(|(field, value)| value.is_some() || !required.contains(field));
    if problems.len() > problems_before || !has_all_fields {
        return None;
    }
    let numbers = template_parameters_of_shape(shape, &fields)?;
    check_size(numbers, name.referenced, file, problems).then_some(numbers)
}

/// Returns the plural of the things that a field of a template counts.
fn unit_of_field(field: &str) -> &'static str {
    match field {
        "leaves" | "spines" => "switches",
        "k" => "ports",
        "nodes" => "nodes",
        "gpus" => "GPUs",
        "uplinks" => "links",
        _ => "hosts",
    }
}

/// Returns all number fields of a template.
fn numeric_template_fields(template: &TemplateFields) -> [(&'static str, Option<&Spanned<u32>>); 9] {
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

/// Returns the numbers of a template. Missing fields have their defaults.
fn template_parameters_of_shape(
    shape: &str,
    fields: &[(&str, Option<&Spanned<u32>>)],
) -> Option<TopologyTemplateParameters> {
    let number = |field: &str, default: u32| {
        let field = fields.iter().find(|(name, _)| *name == field);
        field
            .and_then(|(_, value)| *value)
            .map_or(default, |value| value.value)
    };
    let two_stages = |leaves, hosts| LeafSpineParameters {
        leaves: number(leaves, 0),
        spines: number("spines", 0),
        hosts: number(hosts, 0),
        uplinks: number("uplinks", 1),
    };
    Some(match shape {
        "leaf-spine" => TopologyTemplateParameters::LeafSpine(two_stages("leaves", "hosts")),
        "fat-tree" => TopologyTemplateParameters::FatTree { k: number("k", 0) },
        "rail" => TopologyTemplateParameters::Rail(two_stages("nodes", "gpus")),
        "star" => TopologyTemplateParameters::Star {
            hosts: number("hosts", 0),
        },
        "dumbbell" => TopologyTemplateParameters::Dumbbell {
            left: number("left", 0),
            right: number("right", 0),
            uplinks: number("uplinks", 1),
        },
        _ => return None,
    })
}

/// Reports an error if the field `host` contains an address. All hosts of the template would have
/// this address.
fn check_shared_addresses(template: &TemplateFields, file: &str, problems: &mut Problems) {
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

/// Returns whether the topology is within the size limits. Reports each exceeded limit.
fn check_size(
    numbers: TopologyTemplateParameters,
    location: Location,
    file: &str,
    problems: &mut Problems,
) -> bool {
    let size = numbers.size();
    let limits = [
        ("hosts", size.hosts, HOSTS_MAX as u64),
        ("switches", size.switches, SWITCHES_MAX),
        ("links", size.links, LINKS_MAX),
        ("ports on one switch", size.ports, PORTS_MAX as u64),
    ];
    let mut is_within_limits = true;
    for (what, count, max) in limits {
        if count > max {
            let what = format!("the template makes {count} {what}");
            problems.push(
                file,
                location,
                what,
                format!("at most {max} are possible: make its numbers smaller"),
            );
            is_within_limits = false;
        }
    }
    is_within_limits
}
