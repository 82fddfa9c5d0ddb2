//! Fields of a lab file with their new values, as in the option `--set PATH=V1,V2,...`.

use std::str::FromStr;

/// A field of the lab file with one or more values, as in `--set PATH=V1,V2`. Parsed from this text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSetting {
    /// Path of the field in the lab file: keys, list indices (from 0) and names of list elements, separated
    /// by dots, such as `workload.jobs.0.bytes`.
    pub path: String,
    /// The values as texts: at least one, no duplicates, no empty texts.
    pub values: Vec<String>,
}

impl FromStr for FieldSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<FieldSetting, String> {
        const SYNTAX_HINT: &str = "write PATH=VALUE or PATH=V1,V2, such as workload.jobs.0.bytes=1m,4m";
        let Some((path, values)) = text.split_once('=') else {
            return Err(format!("no '=' in '{text}'; {SYNTAX_HINT}"));
        };
        let path = path.trim().to_owned();
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if path.is_empty() || values.iter().any(String::is_empty) {
            return Err(format!("'{text}' has an empty path or value; {SYNTAX_HINT}"));
        }
        if let Some(twice) = (1..values.len()).find(|at| values[..*at].contains(&values[*at])) {
            return Err(format!("'{text}' has the value {} twice", values[twice]));
        }
        Ok(FieldSetting { path, values })
    }
}

/// A field of the lab file with one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldValue {
    /// Path of the field in the lab file, as in [`FieldSetting::path`].
    pub path: String,
    /// The value of the field in a run, as text.
    pub value: String,
    /// The option of the command line that sets the field.
    pub option: FieldOption,
}

/// An option of the command line that sets fields of a lab file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldOption {
    /// `--set PATH=VALUE`.
    #[default]
    Set,
    /// `--by PATH=VALUES` of a comparison.
    By,
    /// `--lb SCHEME`, which sets `topology.defaults.load_balancing`.
    LoadBalancing,
}

impl FieldValue {
    /// Returns the option of the command line with the field, such as `--set a=1` or `--lb ecmp`.
    pub fn to_option(&self) -> String {
        match self.option {
            FieldOption::Set => format!("--set {}={}", self.path, self.value),
            FieldOption::By => format!("--by {}={}", self.path, self.value),
            FieldOption::LoadBalancing => format!("--lb {}", self.value),
        }
    }
}

/// Formats field values as command-line options, for example `--set a=1 --set b=2`.
pub(crate) fn format_field_options(values: &[FieldValue]) -> String {
    let words: Vec<String> = values.iter().map(FieldValue::to_option).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_has_a_path_and_values() {
        let setting: FieldSetting = "workload.jobs.0.bytes=1m, 4m".parse().unwrap();
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
            let error = text.parse::<FieldSetting>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
