//! Suggestions for misspelt names.
//!
//! All messages about misspelt names use this rule: those about configurations, lab files, fields, hosts and options
//! of the tools.

/// The largest number of names that a suggestion lists.
const LISTED_NAMES_MAX: usize = 24;
/// The largest number of names that differ only in their digits and that a suggestion proposes.
const PROPOSED_NAMES_MAX: usize = 3;

/// Returns the name that is most similar to a misspelt word. Returns `None` if no name is similar.
///
/// The similarity ignores the case of letters, and `-`, `_` and `.` are equal. A name is similar if at most a third of
/// the letters of the word differ, at least one letter. Names that differ only in their digits are not similar, because
/// `h7` is no misspelt `h8`. A word without digits can be a name whose digits were left out. Of several equally similar
/// names, the first applies.
///
/// # Examples
///
/// ```
/// use xoff_units::nearest_name;
///
/// let kinds = ["switch", "model", "plain", "vm"];
/// assert_eq!(nearest_name("swich", kinds), Some("switch"));
/// assert_eq!(nearest_name("router", kinds), None);
/// ```
pub fn nearest_name<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    similar_names(word, names)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns the names that are similar to a word, each with the number of different letters.
fn similar_names<'a>(
    word: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> impl Iterator<Item = (usize, &'a str)> {
    let word = normalize(word);
    let letters = word.chars().count();
    let distance_max = (letters / 3).max(1);
    let word_without_digits = without_digits(&word);
    let has_digits = word_without_digits != word;
    let length = word.len();
    names
        .into_iter()
        // The distance is at least the difference of the lengths.
        .filter(move |name| name.len().abs_diff(length) <= 4 * distance_max)
        .map(move |name| (strsim::damerau_levenshtein(&word, &normalize(name)), name))
        .filter(move |(distance, name)| *distance <= distance_max && *distance < name.chars().count())
        .filter(move |(distance, name)| {
            *distance == 0 || !has_digits || without_digits(&normalize(name)) != word_without_digits
        })
}

/// Returns the correction for a misspelt word: the most similar name, and a list of the names. If a few names differ
/// from the word only in digits that the word does not have, all of them are proposed. `what` is the plural of the
/// named things, such as `fields`.
pub fn suggest<'a>(word: &str, names: impl IntoIterator<Item = &'a str> + Clone, what: &str) -> String {
    let Some(nearest) = nearest_name(word, names.clone()) else {
        return format!("the {what} are {}", list_names(names));
    };
    let numbered: Vec<String> = names
        .clone()
        .into_iter()
        .filter(|name| without_digits(&normalize(name)) == normalize(word))
        .map(|name| format!("`{name}`"))
        .take(PROPOSED_NAMES_MAX + 1)
        .collect();
    let proposed = match numbered.len() {
        2..=PROPOSED_NAMES_MAX => numbered.join(" or "),
        _ => format!("`{nearest}`"),
    };
    format!("did you mean {proposed}? (the {what} are {})", list_names(names))
}

/// Joins names for a message. Further names beyond a limit are counted, not listed.
pub fn list_names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter();
    let listed: Vec<&str> = names.by_ref().take(LISTED_NAMES_MAX).collect();
    match names.count() {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}

fn without_digits(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

fn normalize(name: &str) -> String {
    name.chars()
        .map(|letter| match letter {
            '_' | '.' => '-',
            letter => letter.to_ascii_lowercase(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_gets_the_nearest_name() {
        let names = ["ecmp", "flowlet", "per-packet", "spray"];
        for (word, nearest) in [
            ("ecpm", Some("ecmp")),
            ("ECMP", Some("ecmp")),
            ("flowlets", Some("flowlet")),
            ("per_packet", Some("per-packet")),
            ("", None),
            ("x", None),
            ("adaptive", None),
        ] {
            assert_eq!(nearest_name(word, names), nearest, "{word}");
        }
        assert_eq!(
            suggest("spry", names, "schemes"),
            "did you mean `spray`? (the schemes are ecmp, flowlet, per-packet, spray)"
        );
        let ports = ["Ethernet4", "Ethernet8", "swp1"];
        for (word, nearest) in [
            ("Ethernt4", Some("Ethernet4")),
            ("ethernet8", Some("Ethernet8")),
            ("Etherent8", Some("Ethernet8")),
            ("swq1", Some("swp1")),
            ("Ethernet12", None),
            ("swp2", None),
            ("eth4", None),
            ("PortChannel4", None),
        ] {
            assert_eq!(nearest_name(word, ports), nearest, "{word}");
        }
        assert_eq!(nearest_name("up0", ["dn0"]), None);
        assert_eq!(nearest_name("h7", ["h1", "h8"]), None);
        assert_eq!(nearest_name("leaf01", ["leaf1", "leaf2"]), None);
        assert_eq!(nearest_name("leaf", ["leaf1", "leaf2"]), Some("leaf1"));
        assert_eq!(
            suggest("ipv", ["ip", "ipv4", "ipv6"], "fields"),
            "did you mean `ipv4` or `ipv6`? (the fields are ip, ipv4, ipv6)"
        );
        assert_eq!(nearest_name("laef1", ["leaf1", "leaf2"]), Some("leaf1"));
        assert_eq!(
            suggest("xyz", names, "schemes"),
            "the schemes are ecmp, flowlet, per-packet, spray"
        );
    }
}
