//! `--set PATH=V1,V2,...`: fields of the lab file with other values.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use super::super::plan::{LabPlan, TimeMode};
use super::super::resolve::{load_lab, parse_lab};
use super::edit::{self, EditError, replace};
use xoff_telemetry::failure::Failure;

/// The field that is the scheme of all switches.
const LOAD_BALANCING: &str = "topology.defaults.load_balancing";

/// A field and the values that it takes, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Where it is in the lab file: keys and positions with dots between them.
    pub path: String,
    /// At least one, all different.
    pub values: Vec<String>,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Setting, String> {
        const FORM: &str = "write PATH=VALUE or PATH=V1,V2, such as workload.jobs.0.bytes=1m,4m";
        let Some((path, values)) = text.split_once('=') else {
            return Err(format!("no '=' in '{text}'; {FORM}"));
        };
        let path = path.trim().to_owned();
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if path.is_empty() || values.iter().any(String::is_empty) {
            return Err(format!("'{text}' has an empty path or value; {FORM}"));
        }
        if let Some(twice) = (1..values.len()).find(|at| values[..*at].contains(&values[*at])) {
            return Err(format!("'{text}' has the value {} twice", values[twice]));
        }
        Ok(Setting { path, values })
    }
}

/// A field and one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Where it is in the lab file.
    pub path: String,
    /// What is there instead.
    pub value: String,
}

/// Reads a lab file with some fields changed, and checks all of it.
///
/// # Errors
/// A file that cannot be read, a path that is not in it (a wrong command line), and everything that is wrong with the lab.
pub fn load_with(file: &Path, chosen: &[Chosen], time: TimeMode) -> Result<LabPlan, Failure> {
    if chosen.is_empty() {
        return load_lab(file, time).map_err(|problems| Failure::configuration(problems.to_string()));
    }
    let text = changed(file, &read(file)?, chosen)?;
    plan(file, &text, chosen, time)
}

/// The text of a lab file.
pub(crate) fn read(file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|error| {
        Failure::configuration("cannot read the lab file")
            .at(file.display().to_string())
            .because(error)
            .fix("give the path of a lab file, such as testbeds/incast.xoff.yml")
    })
}

/// The text with other values in it; lines stay where they are, but for a scheme that is added.
pub(crate) fn changed(file: &Path, text: &str, chosen: &[Chosen]) -> Result<String, Failure> {
    let mut text = text.to_owned();
    for chosen in chosen {
        // Of schemes every lab has one, written or not.
        let change = match chosen.path == LOAD_BALANCING {
            true => edit::put,
            false => replace,
        };
        text = change(&text, &chosen.path, &chosen.value)
            .map_err(|error| misplaced(error, &format!("--set {}", chosen.path), file))?;
    }
    Ok(text)
}

/// The text with a value in it that need not be there yet.
pub(crate) fn put(file: &Path, text: &str, option: &str, chosen: &Chosen) -> Result<String, Failure> {
    edit::put(text, &chosen.path, &chosen.value).map_err(|error| misplaced(error, option, file))
}

fn misplaced(error: EditError, option: &str, file: &Path) -> Failure {
    Failure::new(error.exit, error.what)
        .at(match error.line {
            0 => format!("{option}, {}", file.display()),
            line => format!("{option}, {}:{line}", file.display()),
        })
        .fix(error.fix)
}

/// The plan of a changed text.
pub(crate) fn plan(file: &Path, text: &str, chosen: &[Chosen], time: TimeMode) -> Result<LabPlan, Failure> {
    let folder = file.parent().unwrap_or(Path::new(""));
    parse_lab(text, &file.display().to_string(), folder, time).map_err(|problems| {
        let failure = Failure::configuration(problems.to_string());
        match chosen {
            [] => failure,
            _ => failure.at(described(chosen)),
        }
    })
}

/// `--set a=1 --set b=2`
pub(super) fn described(chosen: &[Chosen]) -> String {
    let words: Vec<String> = chosen
        .iter()
        .map(|chosen| format!("--set {}={}", chosen.path, chosen.value))
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_a_path_and_its_values() {
        let setting: Setting = "workload.jobs.0.bytes=1m, 4m".parse().unwrap();
        assert_eq!(
            (setting.path.as_str(), setting.values),
            ("workload.jobs.0.bytes", vec!["1m".to_owned(), "4m".to_owned()])
        );
        for (text, why) in [
            ("a.b", "no '='"),
            ("=1", "empty"),
            ("a=", "empty"),
            ("a=1,,2", "empty"),
            ("a=1,2,1", "1 twice"),
        ] {
            let error = text.parse::<Setting>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
