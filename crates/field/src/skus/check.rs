//! Checks configurations with `xoff config check`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The result of `config check` for one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CheckResult {
    /// The file is valid. Contains the notes about the file.
    Valid(Vec<String>),
    /// The file is invalid. Contains the errors without the file name.
    Invalid(Vec<String>),
}

/// Checks the configuration file `config` of a folder. `lookup` is the lookup file of lossless profiles in
/// the same folder, if any.
///
/// # Errors
/// The program cannot be started, or its output is not a result of `config check`.
pub(super) fn check_config(
    program: &Path,
    folder: &Path,
    config: &str,
    lookup: Option<&str>,
) -> Result<CheckResult, String> {
    let mut command = Command::new(program);
    command.current_dir(folder);
    command.args(["config", "check", config, "--format", "json"]);
    if let Some(lookup) = lookup {
        command.args(["--pg-profiles", lookup]);
    }
    let output = command
        .output()
        .map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
    let answer = serde_json::from_slice(&output.stdout).map_err(|error| {
        let message = String::from_utf8_lossy(&output.stderr);
        format!(
            "config check {config}: {error}; {}: {}",
            output.status,
            message.trim()
        )
    })?;
    match (parse_answer(&answer), output.status.code()) {
        (Some(valid @ CheckResult::Valid(_)), Some(0)) => Ok(valid),
        (Some(invalid @ CheckResult::Invalid(_)), Some(4)) => Ok(invalid),
        _ => Err(format!(
            "config check {config}: {} contradicts {answer}",
            output.status
        )),
    }
}

fn parse_answer(answer: &Value) -> Option<CheckResult> {
    let file = answer["files"].get(0)?;
    let name = file["file"].as_str()?;
    if file["valid"] == true {
        let notes = file["notes"].as_array()?.iter().filter_map(Value::as_str);
        return Some(CheckResult::Valid(notes.map(str::to_owned).collect()));
    }
    let errors = file["errors"]
        .as_array()?
        .iter()
        .filter_map(|error| error["text"].as_str());
    let prefix = format!("{name}: ");
    let texts = errors.map(|text| text.strip_prefix(&prefix).unwrap_or(text).to_owned());
    Some(CheckResult::Invalid(texts.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn errors_are_returned_without_file_name() {
        let invalid = json!({"files": [{"file": "a.json", "valid": false, "errors": [{"text": "a.json: FIPS: no such table"}, {"text": "other"}]}]});
        let errors = vec!["FIPS: no such table".to_owned(), "other".to_owned()];
        assert_eq!(parse_answer(&invalid), Some(CheckResult::Invalid(errors)));
        let valid = json!({"files": [{"file": "a.json", "valid": true, "errors": [], "notes": ["n"]}]});
        assert_eq!(
            parse_answer(&valid),
            Some(CheckResult::Valid(vec!["n".to_owned()]))
        );
        assert_eq!(parse_answer(&json!({})), None);
    }
}
