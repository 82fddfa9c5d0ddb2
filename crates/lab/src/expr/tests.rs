use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A source of fixed values and event times.
#[derive(Default)]
struct FixedValues {
    values: BTreeMap<&'static str, Option<f64>>,
    events: BTreeMap<&'static str, (f64, f64)>,
}

impl ValueSource for FixedValues {
    fn value(&self, path: &str) -> Result<Option<f64>, UnknownName> {
        self.values
            .get(path)
            .copied()
            .ok_or_else(|| self.unknown_name(path))
    }

    fn matching_names(&self, pattern: &str) -> Result<Vec<String>, UnknownName> {
        let (head, tail) = pattern.split_once('*').expect("a star");
        let names = self
            .values
            .keys()
            .filter(|name| name.starts_with(head) && name.ends_with(tail));
        let names: Vec<String> = names.map(|name| (*name).to_owned()).collect();
        if names.is_empty() {
            Err(self.unknown_name(pattern))
        } else {
            Ok(names)
        }
    }

    fn event_time_ps(&self, path: &str, occurrence: Occurrence) -> Result<Option<f64>, UnknownName> {
        if path == "never" {
            return Ok(None);
        }
        let (first, last) = self
            .events
            .get(path)
            .copied()
            .ok_or_else(|| self.unknown_name(path))?;
        Ok(Some(if occurrence == Occurrence::First {
            first
        } else {
            last
        }))
    }
}

impl FixedValues {
    fn unknown_name(&self, name: &str) -> UnknownName {
        UnknownName {
            name: name.to_owned(),
            hint: format!("there are {:?}", self.values.keys()),
        }
    }
}

fn fixed_values() -> FixedValues {
    FixedValues {
        values: BTreeMap::from([
            ("sw1.Ethernet0.pfc3.tx", Some(7.0)),
            ("sw1.Ethernet0.pg3.headroom_watermark_cells", Some(24.0)),
            ("pod1-edge1.Ethernet0.queue3.packets", Some(100.0)),
            ("h1.lost", Some(0.0)),
            ("h2.lost", Some(3.0)),
            ("h10.lost", Some(4.0)),
            ("h1.sent", Some(10.0)),
            ("h2.sent", Some(20.0)),
            ("h10.sent", Some(5.0)),
            ("h1.latency_p99_ns", None),
            ("h2.latency_p99_ns", Some(1500.0)),
            ("job.train.jct_us", Some(1310.5)),
            ("flow.f1.received_bytes", Some(125_000.0)),
            ("flow.f1.rate_bps", Some(1e10)),
            ("link.h1:eth0--sw1:Ethernet0.utilisation_percent", Some(98.0)),
        ]),
        events: BTreeMap::from([
            ("ce", (5e6, 9e6)),
            ("xoff", (7e6, 8e6)),
            ("sw1.Ethernet0.ce", (6e6, 6e6)),
        ]),
    }
}

fn parse_valid(text: &str) -> Expression {
    Expression::parse(text).unwrap_or_else(|error| panic!("{text}: {error}; {}", error.fix))
}

fn evaluate(text: &str) -> Option<bool> {
    parse_valid(text)
        .holds(&fixed_values())
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn comparisons_of_numbers_hold_or_fail() {
    for (text, expected) in [
        ("1 < 2", true),
        ("2 < 2", false),
        ("2 <= 2 and 2 >= 2 and 2 == 2 and 2 = 2", true),
        ("2 != 2", false),
        ("1 < 2 < 3", true),
        ("1 < 3 < 2", false),
        ("1 + 2 * 3 == 7", true),
        ("(1 + 2) * 3 == 9", true),
        ("7 - 2 - 1 == 4", true),
        ("8 / 2 / 2 == 2", true),
        ("-2 - -3 == 1", true),
        ("1.5e3 == 1500 and .5 == 0.5 and 2e-1 == 0.2", true),
        ("0.1 + 0.2 == 0.3", true),
        ("1 / 3 * 3 >= 1", true),
        ("10000000000001 == 10000000000000", false),
        ("not 1 > 2 or 1 > 3", true),
        ("1 > 2 and 1 > 2 or 1 < 2", true),
        ("1 > 2 and (1 > 2 or 1 < 2)", false),
        ("sw1.Ethernet0.pfc3.tx == 7", true),
        ("pod1-edge1.Ethernet0.queue3.packets == 100", true),
        ("sw1.Ethernet0.pfc3.tx - 6 == 1", true),
        ("link.'h1:eth0--sw1:Ethernet0'.utilisation_percent > 97 %", true),
        ("1 / 0 > 1000", true),
    ] {
        assert_eq!(evaluate(text), Some(expected), "{text}");
    }
}

#[test]
fn units_of_numbers_and_names_are_converted() {
    for (text, expected) in [
        ("1ms == 1000 us", true),
        ("job.train.jct_us < 1.3105ms", false),
        ("job.train.jct_us == 1.3105ms", true),
        ("1K == 1024B and 1kB == 1000 B and 2MiB == 2M", true),
        ("10Gbps == 10 Gb/s", true),
        ("flow.f1.rate_bps == 10Gbps", true),
        ("flow.f1.received_bytes / 100us == 10Gbps", true),
        ("10Gbps * 1us == 1250B", true),
        ("50 % == 0.5", true),
        ("first(ce) == 5us", true),
        ("1min == 60s", true),
    ] {
        assert_eq!(evaluate(text), Some(expected), "{text}");
    }
}

#[test]
fn within_accepts_a_share_of_the_right_side_or_an_amount() {
    for (text, expected) in [
        ("95 == 100 within 5 %", true),
        ("94.9 == 100 within 5%", false),
        ("95 within 5 % of 100", true),
        ("100 within 5 % of 95", false),
        ("job.train.jct_us == 1.3ms within 11us", true),
        ("job.train.jct_us == 1.3ms within 10us", false),
        ("7 within 1 of 6 and 0 == 0 within 0", true),
        ("first(never) == first(never) within 5 %", true),
        ("1 + 1 within 0 of 2", true),
    ] {
        assert_eq!(evaluate(text), Some(expected), "{text}");
    }
}

#[test]
fn an_event_that_has_not_happened_is_later_than_all_others() {
    for (text, expected) in [
        ("first(ce) < first(xoff)", true),
        ("first(ce) < first(never)", true),
        ("first(never) < first(ce)", false),
        ("first(never) < first(never)", false),
        ("last(xoff) < last(ce)", true),
        ("first(xoff, sw1.Ethernet0.ce) == 6us", true),
        ("last(ce, xoff) - first(ce, xoff) == 4us", true),
        ("first(never) > 1s", true),
    ] {
        assert_eq!(evaluate(text), Some(expected), "{text}");
    }
}

#[test]
fn functions_reduce_the_values_of_a_pattern_to_one() {
    for (text, expected) in [
        ("sum(h*.lost) == 7", true),
        ("max(h*.lost) == 4 and min(h*.lost) == 0", true),
        ("mean(h*.lost) within 1 % of 2.333", true),
        ("max(h*.lost, 9, h1.sent) == 10", true),
        ("count(h*.lost) == 3", true),
        ("count(h*.lost > 0) == 2", true),
        ("all(h*.lost < 5)", true),
        ("any(h*.lost == 3) and not any(h*.lost == 5)", true),
        ("all(h*.lost < h*.sent)", true),
        ("all(0 <= h*.lost < 4)", false),
        ("sum(abs(h*.lost - 3)) == 4", true),
        ("sum(h*.lost * 2) == 14", true),
        ("abs(h1.lost - 3) == 3", true),
        ("sum(floor(h*.lost / 2)) == 3 and ceil(h2.lost / 2) == 2", true),
        ("all(not h*.lost > 4 and h*.sent > 0)", true),
        ("count(*.lost) == 3", true),
        ("sum(h1*.lost) == 4", true),
    ] {
        assert_eq!(evaluate(text), Some(expected), "{text}");
    }
}

#[test]
fn conditions_on_missing_values_are_undecided() {
    for (text, expected) in [
        ("h1.latency_p99_ns < 1s", None),
        ("not h1.latency_p99_ns < 1s", None),
        ("h1.latency_p99_ns < 1s or 1 < 2", Some(true)),
        ("h1.latency_p99_ns < 1s and 1 > 2", Some(false)),
        ("h1.latency_p99_ns < 1s and 1 < 2", None),
        ("h1.latency_p99_ns + 1us < 1s", None),
        ("max(h*.latency_p99_ns) == 1.5us", Some(true)),
        ("count(h*.latency_p99_ns) == 1", Some(true)),
        ("all(h*.latency_p99_ns < 2us)", None),
        ("any(h*.latency_p99_ns < 2us)", Some(true)),
        ("max(h1.latency_p99_ns) < 1s", None),
        ("0 / 0 == 0", None),
    ] {
        assert_eq!(evaluate(text), expected, "{text}");
    }
}

#[test]
fn unknown_names_are_errors() {
    for text in [
        "h3.lost == 0",
        "sum(x*.lost) == 0",
        "first(cee) < 1us",
        "1 > 2 and h3.lost == 0",
    ] {
        let error = parse_valid(text)
            .holds(&fixed_values())
            .expect_err(text)
            .to_string();
        assert!(
            error.contains("there are") && error.contains("h1.lost"),
            "{error}"
        );
    }
}

#[test]
fn invalid_expressions_are_reported_with_their_offset() {
    for (text, offset, words) in [
        ("", 0, "missing at the end"),
        ("1", 0, "a condition is needed, and this is a plain number"),
        ("h1.lost", 0, "a condition is needed"),
        ("first(ce)", 0, "a condition is needed, and this is a time"),
        ("h1.lost ==", 10, "missing at the end"),
        ("h1.lost == 0 0", 13, "ends here"),
        ("(1 < 2", 6, "not closed"),
        ("1 < 2)", 5, "ends here"),
        (
            "1 < 2us",
            4,
            "a plain number and a time cannot be compared or added",
        ),
        ("h1.sent_bytes < 2us", 16, "an amount of data and a time"),
        ("1us + 1 > 0s", 6, "a time and a plain number"),
        ("1us * 1us > 1us", 12, "time^2 data^0 and a time"),
        (
            "1 + (1 < 2) > 0",
            4,
            "a number is needed, and this is a condition",
        ),
        ("not 5", 4, "a condition is needed"),
        ("1 and 2 < 3", 0, "a condition is needed"),
        ("5 parsecs < 6", 0, "no unit \"parsecs\""),
        ("1 < 2 within 5 %", 6, "`within` needs =="),
        ("1 == 2 within h1.lost", 14, "takes a number"),
        ("1 == 2 within 5us", 14, "a plain number and a time"),
        ("1 within 5 % 2", 13, "A within 5 % of B"),
        ("h*.lost == 0", 0, "several conditions"),
        ("avg(h*.lost) == 0", 0, "no function \"avg\""),
        ("abs(1, 2) == 0", 0, "abs takes one"),
        ("count(1, 1 < 2) == 0", 6, "numbers and conditions"),
        ("all(1) ", 4, "a condition is needed"),
        ("max(1, 1us) == 0", 7, "a plain number and a time"),
        ("first(5) < 1us", 6, "the name of an event"),
        ("first() < 1us", 6, "the name of an event"),
        ("1 < 2 & 1 < 3", 6, "unexpected character '&'"),
        ("h1..lost == 0", 3, "a part of a name is missing"),
        ("h1.'lost == 0", 3, "no end"),
        ("1.2.3 == 0", 3, "ends here"),
        (". == 0", 0, "not a number"),
        ("1e999 == 0", 0, "not a number"),
        ("and < 1", 0, "was not expected"),
        ("h1.lost // 2 == 0", 8, "`//` is an operator of $(...) only"),
        ("h1.lost % 2 == 0", 8, "`%` is an operator of $(...) only"),
        ("floor(1us) == 0", 6, "a plain number and a time"),
    ] {
        let error = Expression::parse(text).expect_err(text);
        assert!(error.to_string().contains(words), "{text}: {error}");
        assert_eq!(error.offset, offset, "{text}: {error}");
        assert!(!error.fix.is_empty(), "{text}");
    }
}

#[test]
fn a_negative_bound_of_a_value_that_is_never_negative_is_an_error() {
    for (text, offset) in [
        ("h1.lost >= -3", 11),
        ("-5us < job.train.jct_us", 0),
        ("sum(h*.lost) * 2 + 1 == -1", 24),
        ("0us <= first(ce) <= -1us", 20),
    ] {
        let error = Expression::parse(text).expect_err(text);
        assert_eq!(
            (error.offset, error.what.as_str()),
            (offset, "the other side is never negative"),
            "{text}"
        );
        assert!(error.fix.contains("0 or more"), "{}", error.fix);
    }
    for text in [
        "first(ce) - first(xoff) > -5us",
        "-h1.lost > -3",
        "1 > -1",
        "h1.lost >= 0",
    ] {
        assert!(Expression::parse(text).is_ok(), "{text}");
    }
}

#[test]
fn nesting_depth_and_length_are_limited() {
    let deep = |n: usize| format!("{}1{} == 1", "(".repeat(n), ")".repeat(n));
    assert_eq!(evaluate(&deep(60)), Some(true));
    assert!(Expression::parse(&deep(65)).is_err());
    for sign in ["-", "not ", "abs("] {
        assert!(Expression::parse(&sign.repeat(1000)).is_err(), "{sign}");
    }
    let long = format!("1 == 1{}", " and 1 == 1".repeat(500));
    assert!(
        Expression::parse(&long)
            .expect_err("too long")
            .what
            .contains("too long")
    );
}

#[test]
fn names_and_their_values_are_listed() {
    let expression = parse_valid("sum(h*.lost) == 0 and first(ce, xoff) < job.train.jct_us and h1.lost == 0");
    let names: Vec<(&str, bool)> = expression
        .name_references()
        .iter()
        .map(|name| (name.path, name.is_event))
        .collect();
    assert_eq!(
        names,
        [
            ("h*.lost", false),
            ("ce", true),
            ("xoff", true),
            ("job.train.jct_us", false),
            ("h1.lost", false)
        ]
    );
    let values = expression.values_of_names(&fixed_values()).expect("all known");
    let values: Vec<(&str, Option<f64>)> = values
        .iter()
        .map(|(name, value)| (name.as_str(), *value))
        .collect();
    assert_eq!(
        values,
        [
            ("h1.lost", Some(0.0)),
            ("h10.lost", Some(4.0)),
            ("h2.lost", Some(3.0)),
            ("first(ce)", Some(5e6)),
            ("first(xoff)", Some(7e6)),
            ("job.train.jct_us", Some(1310.5)),
        ]
    );
}

#[test]
fn expressions_are_serialised_as_their_text() {
    let expression = parse_valid("first(ce) < first(xoff)");
    let text = serde_json::to_string(&expression).expect("JSON");
    assert_eq!(text, "\"first(ce) < first(xoff)\"");
    assert_eq!(
        serde_json::from_str::<Expression>(&text).expect("the same"),
        expression
    );
    assert!(serde_json::from_str::<Expression>("\"1 <\"").is_err());
}

proptest! {
    /// Parsing and evaluation of any text do not panic.
    #[test]
    fn no_text_causes_a_panic(text in "[-a-z0-9.*'()<>=+/, %_\u{b5}&]{0,40}") {
        if let Ok(expression) = Expression::parse(&text) {
            let _ = expression.holds(&fixed_values());
            let _ = expression.values_of_names(&fixed_values());
        }
    }

    /// Arithmetic has the same results as the arithmetic of doubles in Rust.
    #[test]
    fn arithmetic_equals_that_of_doubles(a in 0u32..1000, b in 1u32..1000, c in 0u32..1000) {
        let (x, y, z) = (f64::from(a), f64::from(b), f64::from(c));
        let value = x + y * z - (x - z) / y;
        let text = format!("{a} + {b} * {c} - ({a} - {c}) / {b} == {value}");
        prop_assert_eq!(evaluate(&text.replace("== -", "== 0 - ")), Some(true), "{}", text);
    }

    /// `not`, `and` and `or` obey the laws of De Morgan.
    #[test]
    fn conditions_obey_de_morgan(a in any::<bool>(), b in any::<bool>()) {
        let word = |holds: bool| if holds { "0 < 1" } else { "1 < 0" };
        let (left, right) = (word(a), word(b));
        let text = format!("{left} and {right}");
        prop_assert_eq!(evaluate(&text), Some(a && b));
        prop_assert_eq!(evaluate(&format!("not (not {left} or not {right})")), Some(a && b));
    }
}
