//! Finds all errors in the structure of a lab file: wrong types, unknown, missing and repeated fields.
//!
//! A serde deserializer stops at its first error. This module reads a value from a tree in several attempts.
//! Each attempt that fails reports one error and removes the wrong part from a copy of the tree. A later
//! attempt therefore finds the next error. Elements of lists and mappings have attempts of their own, so the
//! cost grows with the size of the file and not with the number of errors times this size.

mod deserialize;
mod number_ranges;
mod rejection;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use crate::tree::YamlTree;
use deserialize::TreeDeserializer;
use rejection::Rejection;

/// The struct name with which [`AttemptsSeed`] asks for several attempts.
pub(crate) const ATTEMPTS: &str = "__xoff_attempts";
/// The largest number of attempts to read one element. The element is left out after this number.
const ATTEMPTS_MAX: usize = 64;

/// An error in the structure of a lab file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormError {
    /// The description of the error, without its location.
    pub what: String,
    /// The suggested correction. Empty if no correction is known.
    pub fix: String,
    /// The location of the wrong value or key in the file. [`Location::UNKNOWN`] if no location is known.
    pub at: Location,
}

impl fmt::Display for FormError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match self.fix.is_empty() {
            true => Ok(()),
            false => write!(f, "; {}", self.fix),
        }
    }
}

impl std::error::Error for FormError {}

/// The parts that a value does not have because they have a wrong structure.
///
/// Checks of the other parts use this to report no consequences of these errors.
#[derive(Clone, Debug, Default)]
pub struct LeftOut {
    /// The keys of mappings whose values were left out, such as the names of nodes.
    pub keys: HashSet<String>,
    /// Whether an element of a list was left out.
    pub has_list_elements: bool,
    /// The keys of the lists of which an element was left out, such as `flows`.
    pub lists: HashSet<String>,
    /// The names of the fields that were left out, and of the fields that misspelt keys probably mean.
    pub fields: HashSet<String>,
}

impl LeftOut {
    /// Returns whether no part was left out.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && !self.has_list_elements
    }
}

/// A value that was read from a tree with all errors of its structure.
#[derive(Debug)]
pub struct CheckedForm<T> {
    /// The value without the wrong parts. `None` if too little is left for a value.
    pub value: Option<T>,
    /// The errors, in the order in which they were found.
    pub errors: Vec<FormError>,
    /// The parts that `value` does not have.
    pub left_out: LeftOut,
    /// The number of attempts to read the value and its elements, as a measure of the work.
    #[cfg(test)]
    attempts: usize,
}

/// Reads a value from a tree and collects all errors.
pub(crate) fn check_form<T: de::DeserializeOwned>(tree: &Spanned<YamlTree>) -> CheckedForm<T> {
    let collector = Collector::default();
    let mut attempts = Attempts::new(tree, (None, None), &collector);
    let value = read_with_attempts(&mut attempts);
    let Findings {
        errors,
        left_out,
        attempts: _attempts,
        ..
    } = collector.0.into_inner();
    CheckedForm {
        value,
        errors,
        left_out,
        #[cfg(test)]
        attempts: _attempts,
    }
}

/// The errors and the left-out parts of a value that is being read.
#[derive(Debug, Default)]
pub(crate) struct Collector(RefCell<Findings>);

#[derive(Debug, Default)]
struct Findings {
    errors: Vec<FormError>,
    left_out: LeftOut,
    /// The number of attempts to read the value and its elements.
    attempts: usize,
    /// The positions and texts of the errors. An attempt finds the errors of earlier attempts again.
    known: HashSet<(u64, u64, String)>,
    /// The mappings, by location, and their fields that were removed or that have a similar unknown key. The error
    /// that such a field is missing would be a consequence.
    excused: HashSet<(u64, u64, String)>,
}

impl Collector {
    pub(crate) fn report(&self, at: Location, what: String, fix: String) {
        let findings = &mut *self.0.borrow_mut();
        if findings.known.insert((at.line(), at.column(), what.clone())) {
            findings.errors.push(FormError { what, fix, at });
        }
    }

    /// Records that the mapping at `at` does not have `field` because of another error.
    pub(crate) fn excuse_missing_field(&self, at: Location, field: &str) {
        let findings = &mut *self.0.borrow_mut();
        findings.left_out.fields.insert(field.to_owned());
        findings
            .excused
            .insert((at.line(), at.column(), field.to_owned()));
    }

    fn is_excused(&self, at: Location, field: &str) -> bool {
        let excused = &self.0.borrow().excused;
        excused.contains(&(at.line(), at.column(), field.to_owned()))
    }

    fn leave_out(&self, key: Option<&str>, list_key: Option<&str>) {
        let left_out = &mut self.0.borrow_mut().left_out;
        left_out.lists.extend(list_key.map(str::to_owned));
        match key {
            Some(key) => drop(left_out.keys.insert(key.to_owned())),
            None => left_out.has_list_elements = true,
        }
    }
}

/// The attempts to read one value. As a [`SeqAccess`], each element is an attempt. The sequence ends when no
/// further attempt can succeed.
pub(crate) struct Attempts<'a> {
    /// The tree without the parts that earlier attempts have removed.
    tree: Cow<'a, Spanned<YamlTree>>,
    /// The key of the value in its mapping. `None` in lists.
    key: Option<&'a str>,
    /// The key of the list that contains the value. `None` in mappings.
    list_key: Option<&'a str>,
    collector: &'a Collector,
    attempts_left: usize,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(
        tree: &'a Spanned<YamlTree>,
        (key, list_key): (Option<&'a str>, Option<&'a str>),
        collector: &'a Collector,
    ) -> Attempts<'a> {
        Attempts {
            tree: Cow::Borrowed(tree),
            key,
            list_key,
            collector,
            attempts_left: ATTEMPTS_MAX,
        }
    }

    /// Records the error of an attempt and removes the wrong part. Returns false if the whole value is wrong.
    fn remove_wrong_part(&mut self, rejection: Rejection) -> bool {
        let is_consequence = rejection
            .missing_field
            .is_some_and(|field| self.collector.is_excused(rejection.at, field));
        if !is_consequence {
            self.collector.report(rejection.at, rejection.what, rejection.fix);
        }
        let Some((&last, parents)) = rejection.path.split_first() else {
            return false;
        };
        let mut node = self.tree.to_mut();
        for &index in parents.iter().rev() {
            let child = match &mut node.value {
                YamlTree::List(items) => items.get_mut(index),
                YamlTree::Map(entries) => entries.get_mut(index).map(|(_, value)| value),
                _ => None,
            };
            let Some(child) = child else { return false };
            node = child;
        }
        let at = node.referenced;
        match &mut node.value {
            YamlTree::List(items) if last < items.len() => {
                items.remove(last);
                self.collector.leave_out(None, None);
                true
            }
            YamlTree::Map(entries) if last < entries.len() => {
                let (key, _) = entries.remove(last);
                self.collector.excuse_missing_field(at, &key.value);
                true
            }
            _ => false,
        }
    }
}

impl<'de> SeqAccess<'de> for Attempts<'_> {
    type Error = Rejection;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Rejection> {
        let is_last = self.attempts_left <= 1;
        let result = match self.attempts_left {
            0 => return Ok(None),
            _ => seed.deserialize(TreeDeserializer::new(&self.tree, self.collector)),
        };
        self.attempts_left -= 1;
        self.collector.0.borrow_mut().attempts += 1;
        match result {
            Ok(value) => {
                self.attempts_left = 0;
                Ok(Some(value))
            }
            Err(rejection) => {
                let has_rest = self.remove_wrong_part(rejection.clone()) && !is_last;
                if !has_rest {
                    self.attempts_left = 0;
                    self.collector.leave_out(self.key, self.list_key);
                }
                Err(rejection)
            }
        }
    }
}

/// Reads a value with all attempts. `None` if every attempt fails.
fn read_with_attempts<'de, T: de::Deserialize<'de>, A: SeqAccess<'de>>(attempts: &mut A) -> Option<T> {
    loop {
        match attempts.next_element::<T>() {
            Ok(value) => return value,
            // The next attempt reads the tree without the wrong part.
            Err(_) => continue,
        }
    }
}

/// Reads an element of a list or mapping. From a tree, the seed uses several attempts and returns `None` if
/// every attempt fails. From other deserializers, the seed uses a single attempt.
pub(crate) struct AttemptsSeed<T>(PhantomData<T>);

impl<T> AttemptsSeed<T> {
    pub(crate) fn new() -> AttemptsSeed<T> {
        AttemptsSeed(PhantomData)
    }
}

impl<'de, T: de::Deserialize<'de>> DeserializeSeed<'de> for AttemptsSeed<T> {
    type Value = Option<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        deserializer.deserialize_newtype_struct(ATTEMPTS, self)
    }
}

impl<'de, T: de::Deserialize<'de>> Visitor<'de> for AttemptsSeed<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        T::deserialize(deserializer).map(Some)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut attempts: A) -> Result<Option<T>, A::Error> {
        Ok(read_with_attempts(&mut attempts))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::check_lab;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct TestFields {
        name: Option<Spanned<String>>,
        count: Spanned<u8>,
        list: Option<Vec<Spanned<u8>>>,
    }

    fn check(text: &str) -> CheckedForm<TestFields> {
        check_form(&serde_saphyr::from_str(text).expect("YAML"))
    }

    #[test]
    fn locations_are_preserved() {
        let fields = check("name: 17\ncount: 3\nlist:\n  - 4\n  - 5\n")
            .value
            .expect("well formed");
        let name = fields.name.expect("there");
        assert_eq!((name.value.as_str(), name.referenced.line()), ("17", 1));
        assert_eq!((fields.count.value, fields.count.referenced.line()), (3, 2));
        let list = fields.list.expect("there");
        assert_eq!((list[1].value, list[1].referenced.line()), (5, 5));
    }

    #[test]
    fn errors_contain_their_location() {
        for (text, line, part) in [
            ("count: 1\nnaem: x\n", 2, "naem"),
            ("name: x\ncount: 300\n", 2, "300"),
            ("name: x\ncount: many\n", 2, "many"),
            ("name: x\n", 1, "count"),
        ] {
            let errors = check(text).errors;
            let [error] = errors.as_slice() else {
                panic!("{text}: {errors:?}")
            };
            assert!(error.what.contains(part), "{error}");
            assert_eq!(error.at.line(), line, "{error}");
        }
    }

    #[test]
    fn the_rest_of_a_value_with_errors_is_read() {
        let checked = check("name: [x]\ncount: 3\nlist: [1, 2, many, 4]\ncuont: 5\n");
        let lines: Vec<u64> = checked.errors.iter().map(|error| error.at.line()).collect();
        assert_eq!(lines.len(), 3, "{:?}", checked.errors);
        let fields = checked.value.expect("enough is left");
        assert!(fields.name.is_none() && fields.count.value == 3);
        assert_eq!(fields.list.expect("there").len(), 3);
        assert!(checked.left_out.has_list_elements);
    }

    /// A lab file with one error of each kind in each of its sections.
    #[test]
    fn each_independent_error_of_a_lab_file_is_found_once() {
        let text = "
name: [small]
topology:
  defaults: {load_blancing: ecmp}
  nodes:
    sw1: {kind: switch, colour: red}
    h1: {kind: model, cpus: many}
    h2: plain
    h3: {kind: model, nic: {pfc: [3, x]}}
  links:
    - {endpoints: ['sw1:Ethernet0', 'h1:eth0'], mtu: -1}
    - {speed: 10g}
    - {endpoints: ['sw1:Ethernet0', nowhere]}
    - {endpoints: ['sw1:Ethernet0', 'h3:eth0'], mtu: 1500, mtu: 9000}
transports:
  a: {ecn: maybe}
workload:
  duration: {seconds: 1}
  jobs:
    - {kind: incast}
    - {name: b, kind: incast, qps: 70000}
";
        let checked = check_lab(text).expect("YAML");
        let mut lines: Vec<u64> = checked.errors.iter().map(|error| error.at.line()).collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [2, 4, 6, 7, 8, 9, 11, 12, 13, 14, 16, 18, 20, 21],
            "{:#?}",
            checked.errors
        );
        assert!(checked.value.is_none(), "the name is required");
        let valid_name = check_lab(&text.replace("[small]", "small")).expect("YAML");
        assert_eq!(valid_name.errors.len(), 13);
        let lab = valid_name.value.expect("the rest");
        assert_eq!(lab.topology.nodes.0.len(), 3);
        assert!(valid_name.left_out.keys.contains("h2"));
        assert_eq!(lab.workload.expect("the rest").jobs.len(), 1);
    }

    /// A number that its type cannot hold is out of the range of its field, not of another form.
    #[test]
    fn numbers_beyond_their_type_report_the_range_of_the_field_and_its_unit() {
        let errors = |lines: &str| -> Vec<String> {
            let text = format!("name: x\ntopology: {{nodes: {{}}}}\n{lines}");
            let checked = check_lab(&text).expect("YAML");
            checked.errors.iter().map(ToString::to_string).collect()
        };
        for (lines, error) in [
            (
                "transports: {a: {mtu: -1}}",
                "-1 is out of range; write a whole number of bytes from 64 to 8192",
            ),
            (
                "transports: {a: {dscp: 300}}",
                "300 is out of range; write a whole number from 0 to 63",
            ),
            (
                "workload: {jobs: [{name: a, kind: b, gpus_per_node: -2}]}",
                "-2 is out of range; write a whole number of GPUs from 1 to 65536",
            ),
            (
                "workload: {jobs: [{name: a, kind: b, qps: 100000}]}",
                "100000 is out of range; write a whole number of queue pairs from 1 to 4096",
            ),
            (
                "workload: {jobs: [{name: a, kind: b, qps: many}]}",
                "\"many\" is not allowed here; write a whole number of queue pairs from 1 to 4096",
            ),
        ] {
            assert_eq!(errors(lines), [error], "{lines}");
        }
    }

    #[test]
    fn left_out_fields_and_elements_of_lists_are_named() {
        let text = "name: x\ntopology: {nodes: {}}\nworkload: {duration: [1], flows: [{name: a}], jbos: []}";
        let left_out = check_lab(text).expect("YAML").left_out;
        for field in ["duration", "jobs"] {
            assert!(left_out.fields.contains(field), "{left_out:?}");
        }
        assert!(left_out.lists.contains("flows"), "{left_out:?}");
    }

    /// The work of a file with many errors grows with the number of elements: each element has its own attempts.
    #[test]
    fn many_errors_cost_no_more_than_their_elements() {
        let attempts = |elements: usize| {
            let links =
                "    - {endpoints: ['a:b', 'c:d'], mtu: x, speed: [1], delay: {a: b}}\n".repeat(elements);
            let text = format!("name: a\ntopology:\n  links:\n{links}");
            let checked = check_lab(&text).expect("YAML");
            assert_eq!(checked.errors.len(), 3 * elements);
            checked.attempts
        };
        assert_eq!(attempts(8), 1 + 8 * 4);
        assert_eq!(attempts(64), 1 + 64 * 4);
    }
}
