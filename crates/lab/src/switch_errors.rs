//! Errors in the configurations of the switches of a lab. The errors of all switches are reported together.

use std::fmt::Write as _;

use super::switch_names::format_switch_names;
use xoff_telemetry::count_noun;
use xoff_telemetry::failure::Failure;

/// The reason for which the configuration of a switch cannot be used.
#[derive(Clone, Debug)]
pub(super) enum SwitchError {
    /// The configuration is invalid.
    Invalid(xoff_config::Problems),
    /// Another error, such as a lookup file that is invalid or a link with two speeds.
    Other(Failure),
}

impl From<Failure> for SwitchError {
    fn from(failure: Failure) -> SwitchError {
        SwitchError::Other(failure)
    }
}

impl SwitchError {
    /// Returns the failure of a command because of this error of the switch `name`.
    pub(super) fn into_failure(self, name: &str) -> Failure {
        match self {
            SwitchError::Invalid(problems) => Failure::configuration("the configuration is invalid")
                .at(format!("switch {name}"))
                .because_of_errors(&problems, problems.as_slice()),
            SwitchError::Other(failure) => failure,
        }
    }
}

/// The errors of all switches of a lab. Switches with the same errors, such as those of a template, form a group.
#[derive(Debug, Default)]
pub(super) struct SwitchErrors {
    groups: Vec<(Failure, Vec<String>)>,
}

impl SwitchErrors {
    /// Adds the error of the switch `name`.
    pub(super) fn add(&mut self, name: &str, error: SwitchError) {
        let failure = Failure {
            location: match &error {
                SwitchError::Invalid(_) => None,
                SwitchError::Other(failure) => failure.location.clone(),
            },
            ..error.into_failure(name)
        };
        match self.groups.iter_mut().find(|(known, _)| *known == failure) {
            Some((_, switches)) => switches.push(name.to_owned()),
            None => self.groups.push((failure, vec![name.to_owned()])),
        }
    }

    /// Returns the errors as one failure.
    ///
    /// # Errors
    /// Fails if there is an error.
    pub(super) fn into_result(self) -> Result<(), Failure> {
        let place = |switches: &[String]| {
            let noun = if switches.len() == 1 { "switch" } else { "switches" };
            let names: Vec<&str> = switches.iter().map(String::as_str).collect();
            format!("{noun} {}", format_switch_names(&names))
        };
        match &self.groups[..] {
            [] => Ok(()),
            [(failure, switches)] => Err(match &failure.location {
                Some(_) => failure.clone(),
                None => failure.clone().at(place(switches)),
            }),
            groups => {
                let (mut text, mut errors) = (String::new(), Vec::new());
                let mut switch_count = 0;
                for (failure, switches) in groups {
                    switch_count += switches.len();
                    let place = place(switches);
                    let reason = failure.why.as_deref().unwrap_or(&failure.what);
                    let _ = writeln!(text, "{place}:\n  {}", reason.replace('\n', "\n  "));
                    match &failure.errors[..] {
                        [] => errors.push(format!("{place}: {}", failure.what)),
                        some => errors.extend(some.iter().map(|error| format!("{place}: {error}"))),
                    }
                }
                let switches = count_noun(switch_count as u64, "switch");
                Err(
                    Failure::configuration(format!("the configurations of {switches} are invalid"))
                        .because_of_errors(text.trim_end(), &errors),
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::config::resolve_all_switch_setups;
    use super::super::parse_lab;
    use super::super::plan::TimeMode;
    use xoff_units::Picos;

    #[test]
    fn errors_of_all_switches_are_reported_together() {
        let failure_of = |configs: [&str; 3]| {
            let nodes: String = configs
                .iter()
                .enumerate()
                .map(|(n, config)| format!("    sw{n}: {{kind: switch, config: {config}}}\n"))
                .collect();
            let text = format!("name: x\ntopology:\n  nodes:\n{nodes}");
            let plan = parse_lab(&text, "x.yml", Path::new(""), TimeMode::Virtual)
                .unwrap_or_else(|problems| panic!("{problems}"));
            resolve_all_switch_setups(&plan, 0, Picos::ZERO).expect_err("a configuration is invalid")
        };
        let (good, bad_mtu, bad_table) = ("{}", "{PORT: {Ethernet0: {mtu: 1}}}", "{PORTS: {}}");
        let one = failure_of([good, bad_mtu, good]);
        assert_eq!(one.location.as_deref(), Some("switch sw1"));
        assert_eq!(one.errors.len(), 1);
        let two = failure_of([bad_mtu, good, bad_table]).to_string();
        for part in ["of 2 switches", "switch sw0:", "mtu", "switch sw2:", "PORTS"] {
            assert!(two.contains(part), "{part} in {two}");
        }
    }

    #[test]
    fn switches_with_the_same_errors_are_named_together() {
        let lookup = super::Failure::configuration("the lookup file is invalid");
        let mut errors = super::SwitchErrors::default();
        for name in ["a", "b"] {
            errors.add(name, super::SwitchError::Other(lookup.clone()));
        }
        let failure = errors.into_result().expect_err("two errors");
        assert_eq!(failure.location.as_deref(), Some("switches a and b"));
    }
}
