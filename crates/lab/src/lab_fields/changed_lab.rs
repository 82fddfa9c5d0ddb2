//! Changes fields in the text of a lab file and reads the changed lab.

use std::path::Path;

use super::super::load_options::LoadOptions;
use super::super::plan::LabPlan;
use super::super::resolve::{LabText, load_lab, parse_lab_text, read_lab_text};
use super::setting::{FieldValue, format_field_options};
use super::yaml_edit::{self, EditError, replace_value};
use xoff_telemetry::failure::{Exit, Failure};

/// The field with the load-balancing scheme of all switches.
const LOAD_BALANCING: &str = "topology.defaults.load_balancing";

/// Reads a lab file, changes the given fields (`--set PATH=VALUE`) and checks the result. `options` selects real
/// time or virtual time and the memory that the lab may need, as for [`load_lab`].
///
/// # Errors
/// Fails if the file cannot be read, if the lab is invalid, or if the file does not contain a field of
/// `values`. A missing field is reported as an error of the command line. Only
/// `topology.defaults.load_balancing` may be missing. This field is then added.
pub fn load_with_values(
    file: &Path,
    values: &[FieldValue],
    options: impl Into<LoadOptions>,
) -> Result<LabPlan, Failure> {
    if values.is_empty() {
        return load_lab(file, options).map_err(|problems| Failure::configuration(problems.to_string()));
    }
    let text = read_lab_file(file)?;
    let changed = apply_values(file, &text.text, values)?;
    parse_changed_lab(file, &text.with_text(changed), values, options)
}

/// Returns the text of a lab file.
pub(crate) fn read_lab_file(file: &Path) -> Result<LabText, Failure> {
    read_lab_text(file).map_err(|error| {
        Failure::configuration("cannot read the lab file")
            .at(file.display().to_string())
            .because(error)
            .fix("give the path of a lab file, such as testbeds/incast.xoff.yml")
    })
}

/// Changes fields in the text of a lab file. Line numbers stay the same, unless a load-balancing scheme
/// is added.
pub(crate) fn apply_values(file: &Path, text: &str, values: &[FieldValue]) -> Result<String, Failure> {
    let mut text = text.to_owned();
    for field in values {
        // Every lab has a load-balancing scheme, also if the lab file does not set it.
        let change = match field.path == LOAD_BALANCING {
            true => yaml_edit::replace_or_add_value,
            false => replace_value,
        };
        text = change(&text, &field.path, &field.value)
            .map_err(|error| edit_failure(error, &field.to_option(), file))?;
    }
    Ok(text)
}

fn edit_failure(error: EditError, option: &str, file: &Path) -> Failure {
    Failure::new(error.exit, error.what)
        .at(match error.line {
            0 => format!("{option}, {}", file.display()),
            line => format!("{option}, {}:{line}", file.display()),
        })
        .fix(error.fix)
}

/// Parses the changed text of a lab file. Errors name the changed fields. A load-balancing scheme that does not
/// exist is an error of the command line.
pub(crate) fn parse_changed_lab(
    file: &Path,
    text: &LabText,
    values: &[FieldValue],
    options: impl Into<LoadOptions>,
) -> Result<LabPlan, Failure> {
    let folder = file.parent().unwrap_or(Path::new(""));
    parse_lab_text(text, &file.display().to_string(), folder, &options.into()).map_err(|problems| {
        let scheme = values.iter().rev().find(|field| field.path == LOAD_BALANCING);
        match (scheme, values) {
            (None, []) => Failure::configuration(problems.to_string()),
            (None, _) => Failure::configuration(problems.to_string()).at(format_field_options(values)),
            (Some(field), _) => {
                let failure = problems.into_failure_of_scheme("--lb", &field.value);
                // A wrong scheme is an error of its option, and all other errors of all options.
                match failure.exit {
                    Exit::Usage => failure.at(field.to_option()),
                    _ => failure.at(format_field_options(values)),
                }
            }
        }
    })
}
