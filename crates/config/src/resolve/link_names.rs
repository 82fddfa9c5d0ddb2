//! Links of a lab whose port name is probably misspelt.
//!
//! Each link of a lab creates a port of the switch, also without an entry in `PORT`. A misspelt name would
//! therefore create a further port, and the settings of the correct name would have no effect.

use std::collections::BTreeSet;

use super::ResolveOptions;
use crate::Problem;
use crate::db::ConfigDb;

/// Returns an error for each link of a lab whose port has no entry in `PORT`, if `PORT` has a similar name that no
/// link uses. `layers` are the layers of which `db` consists.
pub(super) fn find_misspelt_links(
    layers: &[ConfigDb],
    db: &ConfigDb,
    options: &ResolveOptions,
) -> Vec<Problem> {
    if options.link_locations.is_empty() {
        return Vec::new();
    }
    let mut configured = BTreeSet::new();
    for layer in layers
        .iter()
        .filter(|layer| !options.generated_layers.iter().any(|name| name == layer.source()))
    {
        // A higher layer can remove an entry.
        configured.extend(layer.keys("PORT").filter(|port| db.entry("PORT", port).is_some()));
    }
    let unused: Vec<&str> = configured
        .iter()
        .copied()
        .filter(|port| !options.link_locations.contains_key(*port))
        .collect();
    let mut problems = Vec::new();
    if unused.is_empty() {
        return problems;
    }
    for (port, location) in &options.link_locations {
        if configured.contains(port.as_str()) {
            continue;
        }
        let Some(similar) = find_misspelt_name(port, unused.iter().copied()) else {
            continue;
        };
        let why = format!(
            "the link of {location} ends at {port}, but PORT has no {port}, and no link uses {similar} of PORT"
        );
        let fix = format!("did you mean {similar}? Otherwise add {port} to PORT");
        problems.push(Problem::at_field("PORT", port, "", why).with_fix(fix));
    }
    problems
}

/// Returns the known name of which `name` is probably a misspelling: at most a third of the letters differ. Names
/// that differ only in their digits are names of different ports.
fn find_misspelt_name<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_ascii_lowercase();
    let letters = without_digits(&lower);
    known
        .filter_map(|candidate| {
            let other = candidate.to_ascii_lowercase();
            let distance = strsim::damerau_levenshtein(&lower, &other);
            let is_similar = distance == 0
                || 3 * distance <= letters.chars().count().max(3) && without_digits(&other) != letters;
            is_similar.then_some((distance, candidate))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

fn without_digits(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

#[cfg(test)]
mod tests {
    use super::find_misspelt_name;

    #[test]
    fn a_misspelt_port_is_found_and_another_port_is_not_misspelt() {
        let ports = ["Ethernet4", "Ethernet8", "swp1"];
        for (name, similar) in [
            ("Ethernt4", Some("Ethernet4")),
            ("ethernet8", Some("Ethernet8")),
            ("Etherent8", Some("Ethernet8")),
            ("EEthernet4", Some("Ethernet4")),
            ("swq1", Some("swp1")),
            ("Ethernet12", None),
            ("swp2", None),
            ("eth4", None),
            ("PortChannel4", None),
        ] {
            assert_eq!(find_misspelt_name(name, ports.into_iter()), similar, "{name}");
        }
        assert_eq!(find_misspelt_name("up0", ["dn0"].into_iter()), None);
    }
}
