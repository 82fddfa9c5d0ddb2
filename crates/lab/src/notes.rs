//! Notes about a lab before it runs: settings of the lab file and of its switches' configurations that have no effect.

use super::config::SwitchSetup;
use super::plan::LabPlan;

/// Most switches that a note names.
const NAMED_MAX: usize = 3;

/// The notes of a lab file and of the configurations of its switches, one line each. A note that several switches have appears once.
pub(super) fn notes(plan: &LabPlan, setups: &[SwitchSetup]) -> Vec<String> {
    let mut grouped: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for (setup, switch) in setups.iter().zip(&plan.switches) {
        for note in &setup.loaded.resolved.warnings {
            let place = *places.entry(note.as_str()).or_insert_with(|| {
                grouped.push((note, Vec::new()));
                grouped.len() - 1
            });
            grouped[place].1.push(&switch.name);
        }
    }
    let of_switches = grouped
        .into_iter()
        .map(|(note, switches)| format!("{}: {note}", names(&switches)));
    plan.notes.iter().cloned().chain(of_switches).collect()
}

/// `a`, `a, b and c`, `a, b, c and 77 more switches`.
fn names(switches: &[&str]) -> String {
    match switches {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] if switches.len() <= NAMED_MAX => format!("{} and {last}", first.join(", ")),
        _ => match switches.len() - NAMED_MAX {
            1 => format!("{} and 1 more switch", switches[..NAMED_MAX].join(", ")),
            more => format!("{} and {more} more switches", switches[..NAMED_MAX].join(", ")),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::plan::TimeMode;
    use super::super::{LabOptions, VirtualLab, parse_lab};
    use super::*;

    fn notes_of(nodes: &str) -> Vec<String> {
        let text = format!(
            "name: x\ntopology:\n  nodes:\n{nodes}    h1: {{kind: model}}\n    h2: {{kind: model}}\n  links:\n    \
             - {{endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"]}}\n    - {{endpoints: [\"sw1:Ethernet4\", \"sw2:Ethernet4\"]}}\n    \
             - {{endpoints: [\"sw2:Ethernet0\", \"h2:eth0\"]}}\n"
        );
        let plan =
            parse_lab(&text, "x.xoff.yml", Path::new(""), TimeMode::Virtual).expect("the lab file is good");
        let lab = VirtualLab::new(plan, LabOptions::default()).expect("the lab is good");
        lab.notes
    }

    #[test]
    fn a_note_names_the_switches_that_have_it() {
        let ignored = "config: [{preset: roce-lossless}, {SYSLOG_SERVER: {\"10.0.0.1\": {}}}]";
        let plain = "config: {preset: roce-lossless}";
        let switch = |name: &str, config: &str| format!("    {name}: {{kind: switch, {config}}}\n");
        let nodes = |first: &str, second: &str| switch("sw1", first) + &switch("sw2", second);
        assert_eq!(notes_of(&nodes(plain, plain)), [""; 0]);
        let [note] = &notes_of(&nodes(plain, ignored))[..] else {
            panic!("one note")
        };
        assert!(
            note.starts_with("sw2: ") && note.contains("SYSLOG_SERVER"),
            "{note}"
        );
        let [note] = &notes_of(&nodes(ignored, ignored))[..] else {
            panic!("one note")
        };
        assert!(note.starts_with("sw1 and sw2: "), "{note}");
    }

    #[test]
    fn few_switches_are_named_and_many_are_counted() {
        assert_eq!(names(&["a"]), "a");
        assert_eq!(names(&["a", "b", "c"]), "a, b and c");
        assert_eq!(names(&["a", "b", "c", "d"]), "a, b, c and 1 more switch");
        assert_eq!(names(&["a", "b", "c", "d", "e"]), "a, b, c and 2 more switches");
    }
}
