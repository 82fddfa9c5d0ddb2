//! Checks the fields of a fabric template and the size of the resulting topology.

use std::collections::HashSet;

use serde_saphyr::{Location, Spanned};

use super::super::plan::HOSTS_MAX;
use super::super::problem::Problems;
use super::TEMPLATES;
use super::shapes::{LeafSpineParameters, RailParameters};
use xoff_config::PORTS_MAX;
use xoff_lab_file::TemplateFields;

/// Largest number of switches of a template. A fat tree of 65 536 hosts has 5120 switches.
const SWITCHES_MAX: u64 = 16_384;
/// Largest number of links of a template. A fat tree of 65 536 hosts has 196 608 links.
const LINKS_MAX: u64 = 262_144;
/// Largest value of a field of a template. This limit only prevents overflows in
/// [`TopologyTemplateParameters::size`]. The lab itself has lower limits, for the numbers of switches, hosts
/// and links.
const FIELD_VALUE_MAX: u32 = 65_536;

/// The checked numbers of a template.
#[derive(Clone, Copy, Debug)]
pub(super) enum TopologyTemplateParameters {
    LeafSpine(LeafSpineParameters),
    FatTree { k: u32 },
    Rail(RailParameters),
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

impl TemplateSize {
    fn of_rail(numbers: RailParameters) -> TemplateSize {
        let groups = u64::from(numbers.group_count());
        let cores_of_spine = u64::from(numbers.cores_of_spine());
        let [nodes, gpus, spines, uplinks, group_nodes, cores, core_uplinks] = [
            numbers.nodes,
            numbers.gpus,
            numbers.spines,
            numbers.uplinks,
            numbers.group_nodes.min(numbers.nodes),
            numbers.cores,
            numbers.core_uplinks,
        ]
        .map(u64::from);
        let product = |factors: &[u64]| {
            factors
                .iter()
                .fold(1_u64, |all, factor| all.saturating_mul(*factor))
        };
        let (spines_in_all, leaves_of_spine) = match cores {
            0 => (spines, product(&[groups, gpus])),
            _ => (product(&[groups, spines]), gpus),
        };
        let leaf_links = product(&[groups, gpus, spines, uplinks]);
        let core_links = product(&[spines_in_all, cores_of_spine, core_uplinks]);
        let leaf_ports = group_nodes.saturating_add(product(&[spines, uplinks]));
        let spine_ports = product(&[leaves_of_spine, uplinks]).saturating_add(cores_of_spine * core_uplinks);
        let core_ports = if cores > 0 {
            product(&[groups, core_uplinks])
        } else {
            0
        };
        TemplateSize {
            hosts: nodes * gpus,
            switches: product(&[groups, gpus])
                .saturating_add(spines_in_all)
                .saturating_add(cores),
            links: (nodes * gpus)
                .saturating_add(leaf_links)
                .saturating_add(core_links),
            ports: leaf_ports.max(spine_ports).max(core_ports),
        }
    }
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
            TopologyTemplateParameters::Rail(numbers) => TemplateSize::of_rail(numbers),
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
        let fix = xoff_units::suggest(&name.value, names, "templates");
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
        let least = u32::from(!matches!(*field, "spines" | "cores"));
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
    if let (Some(cores), Some(spines)) = (&template.cores, &template.spines)
        && !cores.value.is_multiple_of(spines.value.max(1))
    {
        let fix = "each spine of a group has the same number of cores: write a multiple of `spines`";
        let what = format!("`cores` is {}, and `spines` is {}", cores.value, spines.value);
        problems.push(file, cores.referenced, what, fix);
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
        "leaves" | "spines" | "cores" => "switches",
        "k" => "ports",
        "nodes" | "group_nodes" => "nodes",
        "gpus" => "GPUs",
        "uplinks" | "core_uplinks" => "links",
        _ => "hosts",
    }
}

/// Returns all number fields of a template.
fn numeric_template_fields(template: &TemplateFields) -> [(&'static str, Option<&Spanned<u32>>); 12] {
    [
        ("leaves", template.leaves.as_ref()),
        ("spines", template.spines.as_ref()),
        ("hosts", template.hosts.as_ref()),
        ("k", template.k.as_ref()),
        ("nodes", template.nodes.as_ref()),
        ("gpus", template.gpus.as_ref()),
        ("group_nodes", template.group_nodes.as_ref()),
        ("cores", template.cores.as_ref()),
        ("core_uplinks", template.core_uplinks.as_ref()),
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
    Some(match shape {
        "leaf-spine" => TopologyTemplateParameters::LeafSpine(LeafSpineParameters {
            leaves: number("leaves", 0),
            spines: number("spines", 0),
            hosts: number("hosts", 0),
            uplinks: number("uplinks", 1),
        }),
        "fat-tree" => TopologyTemplateParameters::FatTree { k: number("k", 0) },
        "rail" => TopologyTemplateParameters::Rail(RailParameters {
            nodes: number("nodes", 1),
            gpus: number("gpus", 0),
            spines: number("spines", 0),
            uplinks: number("uplinks", 1),
            group_nodes: number("group_nodes", number("nodes", 1)),
            cores: number("cores", 0),
            core_uplinks: number("core_uplinks", 1),
        }),
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

#[cfg(test)]
mod tests {
    use super::*;

    use std::path::Path;

    use crate::plan::TimeMode;

    /// The size that is compared with the limits is the size of the topology.
    #[test]
    fn the_size_of_a_rail_fabric_is_known_before_it_is_built() {
        let shape = |group_nodes, cores, core_uplinks| RailParameters {
            nodes: 5,
            gpus: 2,
            spines: 3,
            uplinks: 2,
            group_nodes,
            cores,
            core_uplinks,
        };
        for numbers in [shape(5, 0, 1), shape(2, 0, 1), shape(2, 6, 5), shape(9, 3, 1)] {
            let text = format!(
                "name: t\ntopology:\n  fabric:\n    rail: {{nodes: 5, gpus: 2, spines: 3, uplinks: 2, group_nodes: {}, \
                 cores: {}, core_uplinks: {}}}\n",
                numbers.group_nodes, numbers.cores, numbers.core_uplinks
            );
            let plan = crate::parse_lab(&text, "t.xoff.yml", Path::new(""), TimeMode::Virtual)
                .unwrap_or_else(|problems| panic!("{problems}"));
            let ports = |switch: usize| {
                let links = plan.links.iter();
                links.filter(|link| link.port_at_switch(switch).is_some()).count()
            };
            let ports_max = (0..plan.switches.len()).map(ports).max().unwrap_or(0);
            let size = TopologyTemplateParameters::Rail(numbers).size();
            let built = [plan.hosts.len(), plan.switches.len(), plan.links.len(), ports_max];
            let computed = [size.hosts, size.switches, size.links, size.ports];
            assert_eq!(built.map(|count| count as u64), computed, "{numbers:?}");
        }
    }

    /// The largest numbers of all fields cause an error, and no overflow.
    #[test]
    fn the_size_of_the_largest_fields_does_not_overflow() {
        let numbers = RailParameters {
            nodes: FIELD_VALUE_MAX,
            gpus: FIELD_VALUE_MAX,
            spines: FIELD_VALUE_MAX,
            uplinks: FIELD_VALUE_MAX,
            group_nodes: 1,
            cores: FIELD_VALUE_MAX,
            core_uplinks: FIELD_VALUE_MAX,
        };
        let size = TopologyTemplateParameters::Rail(numbers).size();
        assert!(size.links > LINKS_MAX && size.switches > SWITCHES_MAX);
    }
}
