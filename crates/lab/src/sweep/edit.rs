//! One value of a lab file replaced by another, in its text: what is around it, comments and line numbers, stays.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use crate::file::from_yaml;
use xoff_telemetry::failure::Exit;

/// Why a value was not replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EditError {
    /// The command line is wrong, or the file is.
    pub(super) exit: Exit,
    /// What is wrong.
    pub(super) what: String,
    /// Line of the file, 0 if none is meant.
    pub(super) line: u64,
    /// What to do.
    pub(super) fix: String,
}

/// A YAML document with places.
#[derive(Clone, Debug)]
enum Node {
    Scalar(String),
    Map(Vec<(String, Spanned<Node>)>),
    List(Vec<Spanned<Node>>),
}

/// The text with the scalar at `path` replaced by `value`. Segments of the path are keys, or positions in lists from 0 (or
/// the `name` of an element); a key that has dots in it may be written as it is.
pub(super) fn replace(text: &str, path: &str, value: &str) -> Result<String, EditError> {
    let root = tree(text)?;
    let Some(found) = find(&root, path) else {
        return Err(unknown(&root, path));
    };
    let usage = |what: String, fix: String| EditError {
        exit: Exit::Usage,
        what,
        line: found.referenced.line(),
        fix,
    };
    if let Some(inside) = found.value.first_inside() {
        return Err(usage(
            format!("\"{path}\" is no single value"),
            format!("name one of the values in it, such as {path}.{inside}"),
        ));
    }
    let place = range(&found.referenced)
        .filter(|place| text.get(place.clone()).is_some_and(|old| !old.contains('\n')));
    let Some(place) = place else {
        return Err(usage(
            format!("the value of \"{path}\" cannot be replaced: it is written over several lines"),
            "write it in one line".to_owned(),
        ));
    };
    Ok(format!(
        "{}{}{}",
        &text[..place.start],
        written(value),
        &text[place.end..]
    ))
}

/// The text with the scalar at `path` replaced by `value`, or added where there is none: to the innermost mapping on the path
/// that is there. Lines behind it may move by one.
pub(super) fn put(text: &str, path: &str, value: &str) -> Result<String, EditError> {
    let root = tree(text)?;
    if find(&root, path).is_some() {
        return replace(text, path, value);
    }
    let ends = path.match_indices('.').map(|(at, _)| at).rev();
    let inner = ends.filter_map(|at| Some((find(&root, &path[..at])?, &path[at + 1..])));
    let (mapping, rest) = inner.into_iter().next().unwrap_or((&root, path));
    let place = usize::try_from(mapping.referenced.span().byte_offset().unwrap_or(u64::MAX)).ok();
    let (Node::Map(entries), Some(place)) = (&mapping.value, place.filter(|at| *at <= text.len())) else {
        return Err(unknown(&root, path));
    };
    let keys: Vec<&str> = rest.split('.').collect();
    let (first, deeper) = (keys[0], &keys[1..]);
    let entry = match deeper.is_empty() {
        true => format!("{first}: {}", written(value)),
        false => format!(
            "{first}: {{{}: {}{}",
            deeper.join(": {"),
            written(value),
            "}".repeat(deeper.len())
        ),
    };
    let (before, behind) = text.split_at(place);
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
    // Whatever forms YAML has: what comes out is read again.
    let there = tree(&added).ok().is_some_and(|root| {
        find(&root, path).is_some_and(|found| matches!(&found.value, Node::Scalar(is) if is == value))
    });
    match there {
        true => Ok(added),
        false => Err(unknown(&root, path)),
    }
}

/// The document with its places.
fn tree(text: &str) -> Result<Spanned<Node>, EditError> {
    from_yaml(text).map_err(|error| EditError {
        exit: Exit::Configuration,
        what: error
            .without_snippet()
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned(),
        line: error.location().map_or(0, |at| at.line()),
        fix: "the file is no YAML: correct it first".to_owned(),
    })
}

/// Where a value is in the text, in bytes.
fn range(at: &Location) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(at.span().byte_offset()?).ok()?;
    let len = usize::try_from(at.span().byte_len()?).ok()?;
    (len > 0).then(|| start..start + len)
}

/// A value as YAML reads it back: in quotes if it has characters that mean something.
fn written(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '%' | '+' | '-');
    let begins = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/');
    let negative = value
        .strip_prefix('-')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit()));
    match negative || (value.chars().all(plain) && value.starts_with(begins)) {
        true => value.to_owned(),
        // JSON's strings are YAML's.
        false => serde_json::Value::from(value).to_string(),
    }
}

fn find<'a>(node: &'a Spanned<Node>, path: &str) -> Option<&'a Spanned<Node>> {
    if path.is_empty() {
        return Some(node);
    }
    match &node.value {
        Node::Scalar(_) => None,
        Node::Map(entries) => {
            // Of keys that begin the path the longest: keys may have dots in them.
            let begins = |key: &str| {
                let rest = path.strip_prefix(key)?;
                rest.strip_prefix('.').or(rest.is_empty().then_some(""))
            };
            let found = entries
                .iter()
                .filter_map(|(key, value)| Some((key.len(), value, begins(key)?)));
            let (_, value, rest) = found.max_by_key(|(len, ..)| *len)?;
            find(value, rest)
        }
        Node::List(items) => {
            let (segment, rest) = path.split_once('.').unwrap_or((path, ""));
            let named = |item: &&Spanned<Node>| item.value.name() == Some(segment);
            let by_position = segment.parse::<usize>().ok().and_then(|at| items.get(at));
            find(by_position.or_else(|| items.iter().find(named))?, rest)
        }
    }
}

/// Says which value that exists is written most like a path.
fn unknown(root: &Spanned<Node>, path: &str) -> EditError {
    let mut paths = Vec::new();
    collect(root, "", &mut paths);
    // The first of equals, so that messages do not change from run to run.
    let nearest = paths
        .iter()
        .min_by_key(|(other, _)| strsim::damerau_levenshtein(other, path));
    let (fix, line) = match nearest {
        Some((nearest, line)) => (format!("the nearest value that is there is {nearest}"), *line),
        None => ("the file has no values".to_owned(), 0),
    };
    EditError {
        exit: Exit::Usage,
        what: format!("there is nothing at \"{path}\" in the lab file"),
        line,
        fix,
    }
}

/// Paths and lines of all scalars.
fn collect(node: &Spanned<Node>, path: &str, into: &mut Vec<(String, u64)>) {
    let join = |segment: &str| match path {
        "" => segment.to_owned(),
        _ => format!("{path}.{segment}"),
    };
    match &node.value {
        Node::Scalar(_) => into.push((path.to_owned(), node.referenced.line())),
        Node::Map(entries) => entries
            .iter()
            .for_each(|(key, value)| collect(value, &join(key), into)),
        Node::List(items) => items
            .iter()
            .enumerate()
            .for_each(|(at, value)| collect(value, &join(&at.to_string()), into)),
    }
}

impl Node {
    /// The first thing inside, if it is no scalar.
    fn first_inside(&self) -> Option<String> {
        match self {
            Node::Scalar(_) => None,
            Node::Map(entries) => Some(entries.first().map_or("KEY".to_owned(), |(key, _)| key.clone())),
            Node::List(_) => Some("0".to_owned()),
        }
    }

    /// What it calls itself.
    fn name(&self) -> Option<&str> {
        let Node::Map(entries) = self else { return None };
        entries.iter().find_map(|(key, value)| match &value.value {
            Node::Scalar(name) if key == "name" => Some(name.as_str()),
            _ => None,
        })
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Node;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("YAML")
            }
            fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
                Ok(Node::Scalar(value.to_string()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
                Ok(Node::Scalar(value.to_string()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
                Ok(Node::Scalar(value.to_string()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
                Ok(Node::Scalar(value.to_string()))
            }
            fn visit_str<E>(self, value: &str) -> Result<Node, E> {
                Ok(Node::Scalar(value.to_owned()))
            }
            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Scalar(String::new()))
            }
            fn visit_none<E>(self) -> Result<Node, E> {
                Ok(Node::Scalar(String::new()))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Node::Map(entries))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(Node::List(items))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
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

    fn with(path: &str, value: &str) -> String {
        replace(TEXT, path, value).unwrap_or_else(|error| panic!("{error:?}"))
    }

    #[test]
    fn a_value_is_replaced_and_nothing_else() {
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
            assert_eq!(with(path, value), TEXT.replacen(old, new, 1), "{path}");
        }
    }

    #[test]
    fn what_is_not_there_is_put_there() {
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
            assert_eq!(put(text, "topology.defaults.lb", "x").as_deref(), Ok(expected));
        }
        assert!(put("topology: 7\n", "topology.defaults.lb", "x").is_err());
        assert!(put("topology: [7]\n", "topology.defaults.lb", "x").is_err());
    }

    #[test]
    fn what_is_not_there_names_what_is() {
        for (path, nearest, line) in [
            ("transports.t1.congestoin", "transports.t1.congestion", 3),
            ("workload.jobs.2.bytes", "workload.jobs.0.bytes", 6),
            ("nmae", "name", 1),
            ("name.x", "name", 1),
        ] {
            let error = replace(TEXT, path, "1").unwrap_err();
            assert_eq!((error.exit, error.line), (Exit::Usage, line), "{path}: {error:?}");
            assert!(error.fix.ends_with(&format!(" {nearest}")), "{path}: {error:?}");
        }
    }

    #[test]
    fn a_mapping_and_a_text_of_many_lines_are_left_alone() {
        let error = replace(TEXT, "transports.t1", "1").unwrap_err();
        assert!(error.fix.ends_with("transports.t1.congestion"), "{error:?}");
        let error = replace(TEXT, "workload.jobs", "1").unwrap_err();
        assert!(error.fix.ends_with("workload.jobs.0"), "{error:?}");
        let error = replace("a: |\n  b\n  c\nd: 1\n", "a", "1").unwrap_err();
        assert!(error.what.contains("several lines"), "{error:?}");
        let error = replace("a: [", "a", "1").unwrap_err();
        assert_eq!(error.exit, Exit::Configuration);
    }

    #[test]
    fn an_alias_is_replaced_where_it_stands() {
        let text = "a: &x 5\nb: *x\n";
        let changed = replace(text, "b", "7").unwrap();
        let read: std::collections::BTreeMap<String, u32> = serde_saphyr::from_str(&changed).unwrap();
        assert_eq!((read["a"], read["b"]), (5, 7), "{changed}");
    }
}
