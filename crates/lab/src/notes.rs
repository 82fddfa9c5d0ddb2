//! Creates the notes that are printed before a run. Each note names a setting without effect, in the lab file
//! or in a switch configuration.

use super::config::SwitchSetup;
use super::plan::LabPlan;
use super::switch_names::format_switch_names;

/// Returns the notes about a lab file and the configurations of its switches, one line each. A note that
/// applies to several switches appears once, with the names of these switches.
pub(super) fn lab_notes(plan: &LabPlan, setups: &[SwitchSetup]) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut group_indices = std::collections::HashMap::new();
    for (setup, switch) in setups.iter().zip(&plan.switches) {
        for note in &setup.loaded.resolved.warnings {
            let index = *group_indices.entry(note.as_str()).or_insert_with(|| {
                groups.push((note, Vec::new()));
                groups.len() - 1
            });
            groups[index].1.push(&switch.name);
        }
    }
    let switch_notes = groups
        .into_iter()
        .map(|(note, switches)| format!("{}: {note}", format_switch_names(&switches)));
    plan.notes.iter().cloned().chain(switch_notes).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::plan::TimeMode;
    use super::super::{LabOptions, VirtualLab, parse_lab};

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
    fn a_note_names_the_switches_with_the_setting() {
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
}
