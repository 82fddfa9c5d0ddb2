//! Fuzz tests: no text causes a panic, and each accepted configuration is valid for the data plane.

use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{Picos, Switch};

use crate::invariants::find_violation;
use crate::schema::{KeyPart, TableFields, ValueKind, all_tables};
use crate::{ConfigDb, ResolveOptions, diff_configs, load, merge_layers, parse};

/// Checks a text, and returns whether it is accepted.
fn is_accepted(text: &str) -> bool {
    let how = ResolveOptions {
        ports: vec!["Ethernet0".to_owned(), "Ethernet4".to_owned()],
        seed: 1,
        reaction_budget: Picos::from_millis(20),
        ..ResolveOptions::default()
    };
    match load(&[("fuzz", text)], &how) {
        Ok(loaded) => {
            assert_eq!(find_violation(&loaded.resolved.config), None, "{text}");
            // Other tests cover large tables. Small tables make this test faster.
            let small = SwitchConfig {
                frames_max: 64,
                fdb_entries_max: 64,
                ..loaded.resolved.config
            };
            Switch::new(&small);
            let again = parse(&loaded.db.to_json(), "again").expect("the canonical form is valid");
            assert_eq!(again, loaded.db);
            assert!(diff_configs(&loaded.db, &again).is_empty());
            assert_eq!(
                merge_layers(&[ConfigDb::default(), again.clone(), again]),
                loaded.db
            );
            true
        }
        Err(problems) => {
            assert!(!problems.as_slice().is_empty());
            let lines = problems.to_string().lines().count();
            let most = problems.as_slice().len().min(21);
            assert!(
                (1..=most).contains(&lines),
                "at most a line each, and one for all behind the first 20"
            );
            false
        }
    }
}

#[test]
fn arbitrary_text_never_panics() {
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        is_accepted(&String::from_utf8_lossy(bytes));
    });
}

/// Words of the configuration language, so that random files pass the first checks.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "Ethernet0", "Ethernet4", "Ethernet0,Ethernet4", "global", "localhost", "Vlan10", "Vlan4094", "a",
    "b", "NULL", "", "0", "1", "3", "7", "8", "3-4", "0-7", "9", "15", "63", "100", "1500", "65535",
    "-8", "1000000", "1600000", "4294967295", "18446744073709551615", "3,4", "\\n", "[BUFFER_POOL|a]",
    "[BUFFER_PROFILE|a]", "02:00:00:00:00:01", "PortChannel1", "Loopback0", "default", "GLOBAL", "Vrf1", "10.0.0.1",
    "10.0.0.1/31", "10.0.0.0/31", "10.9.0.0/16", "0.0.0.0/0", "10.0.0.0,10.0.0.1", "2001:db8::1/64", "2001:db8::2",
    "fe80::1", "::/0", "enable", "true,false", "1,2", ",", "IPv4",
];

/// Plausible words for a part of a key.
fn key_words(part: KeyPart) -> &'static [&'static str] {
    match part {
        KeyPart::Port | KeyPart::PortOrGlobal => &["Ethernet0", "Ethernet4"],
        KeyPart::PortOrLag | KeyPart::Interface => {
            &["Ethernet0", "Ethernet4", "PortChannel1", "Vlan10", "Loopback0"]
        }
        KeyPart::Only(word) => match word {
            "GLOBAL" => &["GLOBAL"],
            _ => &["localhost"],
        },
        KeyPart::Object => &["a", "b", "Ethernet0"],
        KeyPart::Numbers => &["0", "3", "3-4"],
        KeyPart::Queues => &["0", "3", "3-4", "8", "0-9"],
        KeyPart::Vlan | KeyPart::VlanReference => &["Vlan10", "Vlan20"],
        KeyPart::Lag | KeyPart::LagReference => &["PortChannel1", "PortChannel02"],
        KeyPart::Loopback => &["Loopback0"],
        KeyPart::Address => &["10.0.0.0", "10.0.0.2", "2001:db8::2", "fe80::1"],
        KeyPart::Prefix => &[
            "10.0.0.1/31",
            "10.0.0.1/24",
            "10.0.1.1/24",
            "2001:db8::1/64",
            "10.9.0.0/16",
            "0.0.0.0/0",
            "::/0",
            "2001:db8:9::/48",
            "10.1.0.1/32",
        ],
        KeyPart::Vrf => &["default", "Vrf1"],
    }
}

/// Generates a mostly plausible configuration from the schema. The bytes select between alternatives.
fn generate_config(choices: &[u8]) -> String {
    let mut choices = choices.iter().map(|byte| usize::from(*byte));
    let mut next = move |below: usize| choices.next().map_or(0, |choice| choice % below.max(1));
    let all: Vec<_> = all_tables().collect();
    let mut text = String::from("{");
    for t in 0..next(8) {
        let table = all[next(all.len())];
        let _ = write!(text, "{}\"{}\": {{", if t > 0 { ", " } else { "" }, table.name);
        for e in 0..next(3) {
            let word = |part: &KeyPart| {
                let words = if next(8) > 0 { key_words(*part) } else { WORDS };
                words[next(words.len())]
            };
            let key: Vec<&str> = table.key.iter().map(word).collect();
            let _ = write!(text, "{}\"{}\": {{", if e > 0 { ", " } else { "" }, key.join("|"));
            for f in 0..next(6) {
                let (field, value) = match table.fields {
                    TableFields::ByPort(_) => ("Ethernet0", WORDS[next(WORDS.len())]),
                    TableFields::Map { .. } => (WORDS[next(WORDS.len())], WORDS[next(WORDS.len())]),
                    TableFields::Named([]) => ("a", "b"),
                    TableFields::Named(fields) => {
                        let field = &fields[next(fields.len())];
                        let value = match field.kind {
                            ValueKind::Choice(words) if next(8) > 0 => words[next(words.len())],
                            ValueKind::Reference(_) | ValueKind::ReferenceOrNull(_) if next(4) > 0 => "a",
                            _ => WORDS[next(WORDS.len())],
                        };
                        (field.name, value)
                    }
                };
                let _ = write!(text, "{}\"{field}\": \"{value}\"", if f > 0 { ", " } else { "" });
            }
            text.push('}');
        }
        text.push('}');
    }
    text.push('}');
    text
}

#[test]
fn plausible_configurations_never_panic_and_resolve_to_valid_ones() {
    let accepted = AtomicUsize::new(0);
    bolero::check!()
        .with_iterations(20_000)
        .for_each(|choices: &[u8]| {
            accepted.fetch_add(
                usize::from(is_accepted(&generate_config(choices))),
                Ordering::Relaxed,
            );
        });
    assert!(
        accepted.into_inner() > 100,
        "the generator must get past the first checks"
    );
}

/// Sets each field of a complete file to each word, so that more files pass the first checks.
#[test]
fn every_single_change_of_a_valid_file_is_accepted_or_refused() {
    let base: serde_json::Value =
        serde_json::from_str(include_str!("../../../../testbeds/incast.config_db.json")).expect("JSON");
    let mut accepted = 0;
    for (name, entries) in base.as_object().expect("tables") {
        let Some((key, entry)) = entries.as_object().and_then(|entries| entries.iter().next()) else {
            continue;
        };
        for field in entry.as_object().expect("fields").keys() {
            for word in WORDS {
                let mut changed = base.clone();
                changed[name][key][field] = (*word).into();
                accepted += usize::from(is_accepted(&changed.to_string()));
            }
        }
    }
    assert!(accepted > 100, "{accepted}");
}
