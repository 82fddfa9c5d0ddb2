//! Changes single values in the text of a lab file. The rest of the text stays the same, including comments
//! and line numbers.

use xoff_lab_file::{Location, Spanned, YamlTree};
use xoff_telemetry::failure::Exit;
use xoff_units::{list_names, nearest_name};

/// The reason why a value could not be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EditError {
    /// The exit code: `Usage` for a wrong command line, `Configuration` for an invalid file.
    pub(super) exit: Exit,
    /// Description of the error.
    pub(super) what: String,
    /// Line of the file, counted from 1. The value 0 means no line.
    pub(super) line: u64,
    /// Advice for the user.
    pub(super) fix: String,
}

/// Replaces the scalar at `path` and returns the new text. Dots separate the segments of the path. A segment
/// is a key of a mapping, the index of a list element (from 0) or the `name` of a list element. A key can
/// also contain dots.
pub(super) fn replace_value(text: &str, path: &str, value: &str) -> Result<String, EditError> {
    let root = parse_yaml(text)?;
    let Some(found) = find_node(&root, path) else {
        return Err(unknown_path_error(&root, path));
    };
    let usage_error = |what: String, fix: String| EditError {
        exit: Exit::Usage,
        what,
        line: found.referenced.line(),
        fix,
    };
    if let Some(inside) = first_child(&found.value) {
        return Err(usage_error(
            format!("\"{path}\" is not a single value"),
            format!("name one of its values, such as {path}.{inside}"),
        ));
    }
    let range = byte_range(&found.referenced)
        .filter(|range| text.get(range.clone()).is_some_and(|old| !old.contains('\n')));
    let Some(range) = range else {
        return Err(usage_error(
            format!("the value of \"{path}\" cannot be replaced: it has several lines"),
            "write it in one line".to_owned(),
        ));
    };
    Ok(format!(
        "{}{}{}",
        &text[..range.start],
        yaml_scalar(value),
        &text[range.end..]
    ))
}

/// Replaces or adds the scalar at `path` and returns the new text. If the value is missing, it is added to
/// the deepest existing mapping on the path. This can add one line to the text.
pub(super) fn replace_or_add_value(text: &str, path: &str, value: &str) -> Result<String, EditError> {
    let root = parse_yaml(text)?;
    if find_node(&root, path).is_some() {
        return replace_value(text, path, value);
    }
    let ends = path.match_indices('.').map(|(at, _)| at).rev();
    let parents = ends.filter_map(|at| Some((find_node(&root, &path[..at])?, &path[at + 1..])));
    let (mapping, rest) = parents.into_iter().next().unwrap_or((&root, path));
    let offset = usize::try_from(mapping.referenced.span().byte_offset().unwrap_or(u64::MAX)).ok();
    let (YamlTree::Map(entries), Some(offset)) = (&mapping.value, offset.filter(|at| *at <= text.len()))
    else {
        return Err(unknown_path_error(&root, path));
    };
    let keys: Vec<&str> = rest.split('.').collect();
    let (first, deeper) = (keys[0], &keys[1..]);
    let entry = match deeper.is_empty() {
        true => format!("{first}: {}", yaml_scalar(value)),
        false => format!(
            "{first}: {{{}: {}{}",
            deeper.join(": {"),
            yaml_scalar(value),
            "}".repeat(deeper.len())
        ),
    };
    let (before, behind) = text.split_at(offset);
    let added = match behind.strip_prefix('{') {
        Some(behind) => {
            let comma = if entries.is_empty() { "" } else { ", " };
            format!("{before}{{{entry}{comma}{behind}")
        }
        None => {
            let line = before.rfind('\n').map_or(before, |at| &before[at + 1..]);
            let indent = " ".repeat(line.chars().count());
            format!("{before}{entry}\n{indent}{behind}")
        }
    };
    // The new text is parsed again, because the code above does not handle all forms of YAML.
    let is_added = parse_yaml(&added).ok().is_some_and(|root| {
        find_node(&root, path).is_some_and(|found| found.value.scalar_text().as_deref() == Some(value))
    });
    match is_added {
        true => Ok(added),
        false => Err(unknown_path_error(&root, path)),
    }
}

/// Parses a YAML document into nodes with positions.
fn parse_yaml(text: &str) -> Result<Spanned<YamlTree>, EditError> {
    xoff_lab_file::parse_tree(text).map_err(|error| EditError {
        exit: Exit::Configuration,
        what: error
            .without_snippet()
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned(),
        line: error.location().map_or(0, |at| at.line()),
        fix: "the file is not valid YAML: correct it first".to_owned(),
    })
}

/// Returns the byte range that a value occupies in the text. Returns `None` if the range is empty or unknown.
fn byte_range(location: &Location) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(location.span().byte_offset()?).ok()?;
    let len = usize::try_from(location.span().byte_len()?).ok()?;
    (len > 0).then(|| start..start + len)
}

/// Formats a value as a YAML scalar. A value with special characters is quoted.
fn yaml_scalar(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '%' | '+' | '-');
    let begins = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/');
    let negative = value
        .strip_prefix('-')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit()));
    match negative || (value.chars().all(plain) && value.starts_with(begins)) {
        true => value.to_owned(),
        // A JSON string is a valid YAML string.
        false => serde_json::Value::from(value).to_string(),
    }
}

/// Returns the node at a path.
fn find_node<'a>(node: &'a Spanned<YamlTree>, path: &str) -> Option<&'a Spanned<YamlTree>> {
    if path.is_empty() {
        return Some(node);
    }
    match &node.value {
        YamlTree::Map(entries) => {
            // A key can contain dots. If several keys are a prefix of the path, the longest key matches.
            let begins = |key: &str| {
                let rest = path.strip_prefix(key)?;
                rest.strip_prefix('.').or(rest.is_empty().then_some(""))
            };
            let found = entries
                .iter()
                .filter_map(|(key, value)| Some((key.value.len(), value, begins(&key.value)?)));
            let (_, value, rest) = found.max_by_key(|(len, ..)| *len)?;
            find_node(value, rest)
        }
        YamlTree::List(items) => {
            let (segment, rest) = path.split_once('.').unwrap_or((path, ""));
            let named = |item: &&Spanned<YamlTree>| element_name(item).as_deref() == Some(segment);
            let by_position = segment.parse::<usize>().ok().and_then(|at| items.get(at));
            find_node(by_position.or_else(|| items.iter().find(named))?, rest)
        }
        _ => None,
    }
}

/// Builds the error for a path that does not exist. The error proposes the path with corrected names, or a field of the
/// same name at another place of the file, or lists the fields that the path could name.
fn unknown_path_error(root: &Spanned<YamlTree>, path: &str) -> EditError {
    let proposed = correct_path(root, path).or_else(|| find_field_elsewhere(root, path));
    let (node, fix) = match &proposed {
        Some(proposed) => (
            find_node(root, proposed).unwrap_or(root),
            format!("did you mean {proposed}?"),
        ),
        None => {
            let (parent, parent_path, _) = deepest_node(root, path);
            (parent, describe_fields(&parent.value, parent_path))
        }
    };
    EditError {
        exit: Exit::Usage,
        what: format!("the lab file has no value at \"{path}\""),
        line: node.referenced.line(),
        fix,
    }
}

/// Returns the deepest existing node of a path, the path of this node, and the rest of the path.
fn deepest_node<'a, 'p>(
    root: &'a Spanned<YamlTree>,
    path: &'p str,
) -> (&'a Spanned<YamlTree>, &'p str, &'p str) {
    path.rmatch_indices('.')
        .find_map(|(at, _)| Some((find_node(root, &path[..at])?, &path[..at], &path[at + 1..])))
        .unwrap_or((root, "", path))
}

/// Replaces each unknown name of a path by the similar name of the file. Returns `None` if a name is similar to no name
/// of its mapping or list.
fn correct_path(root: &Spanned<YamlTree>, path: &str) -> Option<String> {
    let mut corrected = path.to_owned();
    // Each pass corrects one name.
    for _ in path.split('.') {
        let (parent, parent_path, rest) = deepest_node(root, &corrected);
        let (name, behind) = rest.split_once('.').unwrap_or((rest, ""));
        let names = child_names(&parent.value);
        let similar = nearest_name(name, names.iter().map(String::as_str))?;
        corrected = join_path(&join_path(parent_path, similar), behind);
        if let Some(node) = find_node(root, &corrected) {
            return Some(with_first_scalar(node, corrected));
        }
    }
    None
}

/// Returns the first path of the file whose last name is the last name of `path`.
fn find_field_elsewhere(root: &Spanned<YamlTree>, path: &str) -> Option<String> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let name = last(path);
    // An index says nothing about a field.
    if name.parse::<usize>().is_ok() {
        return None;
    }
    let mut paths = Vec::new();
    collect_scalar_paths(root, "", &mut paths);
    paths.into_iter().find(|other| last(other) == name)
}

/// Extends the path of a mapping or list to its first single value.
fn with_first_scalar(node: &Spanned<YamlTree>, path: String) -> String {
    let first = match &node.value {
        YamlTree::Map(entries) => entries.first().map(|(key, value)| (key.value.clone(), value)),
        YamlTree::List(items) => items.first().map(|item| ("0".to_owned(), item)),
        _ => None,
    };
    match first {
        Some((name, child)) => with_first_scalar(child, join_path(&path, &name)),
        None => path,
    }
}

/// Returns the names that a path can have below a node: the keys of a mapping, or the names of the elements of a list.
fn child_names(node: &YamlTree) -> Vec<String> {
    match node {
        YamlTree::Map(entries) => entries.iter().map(|(key, _)| key.value.clone()).collect(),
        YamlTree::List(items) => items.iter().filter_map(element_name).collect(),
        _ => Vec::new(),
    }
}

/// Returns the `name` of an element of a list.
fn element_name(item: &Spanned<YamlTree>) -> Option<String> {
    item.value.get("name").and_then(|name| name.value.scalar_text())
}

/// Describes the fields below a node, as advice for a path with an unknown name.
fn describe_fields(node: &YamlTree, path: &str) -> String {
    let names = child_names(node);
    let listed = list_names(names.iter().map(String::as_str));
    let owner = match path {
        "" => "the file",
        _ => path,
    };
    match node {
        YamlTree::Map(entries) if !entries.is_empty() => {
            format!("{owner} has {listed}; to set another field, add it to the file first")
        }
        YamlTree::List(items) if !items.is_empty() => {
            let names = match names.is_empty() {
                true => String::new(),
                false => format!(", or the names {listed}"),
            };
            format!(
                "the elements of {owner} have the indices 0 to {}{names}",
                items.len() - 1
            )
        }
        YamlTree::Map(_) | YamlTree::List(_) => format!("{owner} is empty; add the field to the file first"),
        _ => format!("{owner} is a single value; leave out the names after it"),
    }
}

fn join_path(parent: &str, name: &str) -> String {
    match (parent, name) {
        ("", _) => name.to_owned(),
        (_, "") => parent.to_owned(),
        _ => format!("{parent}.{name}"),
    }
}

/// Appends the path of each scalar under a node to `paths`.
fn collect_scalar_paths(node: &Spanned<YamlTree>, path: &str, paths: &mut Vec<String>) {
    match &node.value {
        YamlTree::Map(entries) => entries
            .iter()
            .for_each(|(key, value)| collect_scalar_paths(value, &join_path(path, &key.value), paths)),
        YamlTree::List(items) => items
            .iter()
            .enumerate()
            .for_each(|(at, value)| collect_scalar_paths(value, &join_path(path, &at.to_string()), paths)),
        _ => paths.push(path.to_owned()),
    }
}

/// Returns the path segment of the first child. Returns `None` for a scalar.
fn first_child(node: &YamlTree) -> Option<String> {
    match node {
        YamlTree::Map(entries) => Some(match entries.first() {
            Some((key, _)) => key.value.clone(),
            None => "KEY".to_owned(),
        }),
        YamlTree::List(_) => Some("0".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAB_FILE: &str = "\
name: a # the lab
transports:
  t1: {congestion: dcqcn, mtu: 1024}
workload:
  jobs:
    - {name: reduce, bytes: 1m, ranks: [h1, h2]}
    - name: \"µ\"
      bytes: '64'
config: {BUFFER_PROFILE: {pg.lossless: {xoff: \"9\"}, \"a|b\": {size: 0}}}
";

    fn lab_file_with(path: &str, value: &str) -> String {
        replace_value(LAB_FILE, path, value).unwrap_or_else(|error| panic!("{error:?}"))
    }

    #[test]
    fn one_value_is_replaced_and_the_rest_of_the_text_stays() {
        for (path, value, old, new) in [
            ("name", "b", "name: a #", "name: b #"),
            (
                "transports.t1.congestion",
                "none",
                "congestion: dcqcn,",
                "congestion: none,",
            ),
            ("transports.t1.mtu", "4096", "mtu: 1024}", "mtu: 4096}"),
            ("workload.jobs.0.bytes", "4m", "bytes: 1m", "bytes: 4m"),
            ("workload.jobs.reduce.bytes", "4m", "bytes: 1m", "bytes: 4m"),
            ("workload.jobs.0.ranks.1", "h9", "[h1, h2]", "[h1, h9]"),
            ("workload.jobs.1.bytes", "65", "bytes: '64'", "bytes: 65"),
            ("workload.jobs.1.bytes", "-1", "bytes: '64'", "bytes: -1"),
            (
                "workload.jobs.1.bytes",
                "a: #b",
                "bytes: '64'",
                "bytes: \"a: #b\"",
            ),
            (
                "config.BUFFER_PROFILE.pg.lossless.xoff",
                "7",
                "xoff: \"9\"",
                "xoff: 7",
            ),
            ("config.BUFFER_PROFILE.a|b.size", "7", "size: 0", "size: 7"),
        ] {
            assert_eq!(
                lab_file_with(path, value),
                LAB_FILE.replacen(old, new, 1),
                "{path}"
            );
        }
    }

    #[test]
    fn a_missing_value_is_added() {
        for (text, expected) in [
            (
                "topology:\n  # a\n  fabric: {}\nz: 1\n",
                "topology:\n  # a\n  defaults: {lb: x}\n  fabric: {}\nz: 1\n",
            ),
            (
                "topology: {fabric: {}}\n",
                "topology: {defaults: {lb: x}, fabric: {}}\n",
            ),
            (
                "topology:\n  defaults:\n    a: 1\n",
                "topology:\n  defaults:\n    lb: x\n    a: 1\n",
            ),
            ("topology:\n  defaults: {}\n", "topology:\n  defaults: {lb: x}\n"),
            (
                "topology: {defaults: {lb: y}}\n",
                "topology: {defaults: {lb: x}}\n",
            ),
            ("a: 1\n", "topology: {defaults: {lb: x}}\na: 1\n"),
        ] {
            assert_eq!(
                replace_or_add_value(text, "topology.defaults.lb", "x").as_deref(),
                Ok(expected)
            );
        }
        assert!(replace_or_add_value("topology: 7\n", "topology.defaults.lb", "x").is_err());
        assert!(replace_or_add_value("topology: [7]\n", "topology.defaults.lb", "x").is_err());
    }

    #[test]
    fn the_error_for_a_missing_path_proposes_only_related_fields() {
        for (path, fix, line) in [
            (
                "transports.t1.congestoin",
                "did you mean transports.t1.congestion?",
                3,
            ),
            ("transport.t1.mtus", "did you mean transports.t1.mtu?", 3),
            (
                "workload.jobs.reduze.bytes",
                "did you mean workload.jobs.reduce.bytes?",
                6,
            ),
            ("workload.job", "did you mean workload.jobs.0.name?", 6),
            ("nmae", "did you mean name?", 1),
            ("congestion", "did you mean transports.t1.congestion?", 3),
            ("transports.t2.mtu", "did you mean transports.t1.mtu?", 3),
            (
                "transports.t1.rto",
                "transports.t1 has congestion, mtu; to set another field, add it to the file first",
                3,
            ),
            (
                "topology.defaults.speed",
                "the file has name, transports, workload, config; to set another field, add it to the file first",
                1,
            ),
            (
                "workload.jobs.2.start",
                "the elements of workload.jobs have the indices 0 to 1, or the names reduce, µ",
                6,
            ),
            (
                "name.x",
                "name is a single value; leave out the names after it",
                1,
            ),
        ] {
            let error = replace_value(LAB_FILE, path, "1").unwrap_err();
            assert_eq!((error.exit, error.line), (Exit::Usage, line), "{path}: {error:?}");
            assert_eq!(error.fix, fix, "{path}");
        }
    }

    #[test]
    fn a_mapping_and_a_value_of_several_lines_are_not_replaced() {
        let error = replace_value(LAB_FILE, "transports.t1", "1").unwrap_err();
        assert!(error.fix.ends_with("transports.t1.congestion"), "{error:?}");
        let error = replace_value(LAB_FILE, "workload.jobs", "1").unwrap_err();
        assert!(error.fix.ends_with("workload.jobs.0"), "{error:?}");
        let error = replace_value("a: |\n  b\n  c\nd: 1\n", "a", "1").unwrap_err();
        assert!(error.what.contains("several lines"), "{error:?}");
        let error = replace_value("a: [", "a", "1").unwrap_err();
        assert_eq!(error.exit, Exit::Configuration);
    }

    #[test]
    fn an_alias_is_replaced_and_its_anchor_stays() {
        let text = "a: &x 5\nb: *x\n";
        let changed = replace_value(text, "b", "7").unwrap();
        let read: std::collections::BTreeMap<String, u32> = serde_saphyr::from_str(&changed).unwrap();
        assert_eq!((read["a"], read["b"]), (5, 7), "{changed}");
    }
}
