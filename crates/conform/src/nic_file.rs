//! NIC files (`testbeds/nics/*.yml`): the expected deviations of a NIC.

use std::path::Path;

use serde::Deserialize;
use xoff_telemetry::failure::Failure;
use xoff_telemetry::{InputLimit, read_input_text};

use crate::checks::{CHECKS, find_check};
use crate::step::fails_only_with;

/// Limit of a NIC file.
const NIC_FILE_LIMIT: InputLimit = InputLimit {
    kind: "a NIC file",
    bytes_max: 1 << 20,
};

/// The expected deviations of a NIC.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicFile {
    /// Name of the NIC and its driver.
    pub nic: String,
    /// Checks that the NIC is known to fail.
    #[serde(default)]
    pub xfail: Vec<ExpectedDeviation>,
}

/// A check that a NIC is known to fail.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedDeviation {
    /// Identifier of the check.
    pub check: String,
    /// The reason.
    pub why: String,
    /// Forms of the frame, see [`Check`](crate::Check), with which the check fails. A failure with another
    /// form is not expected. Empty: any failure of the check is expected.
    #[serde(default)]
    pub forms: Vec<String>,
}

/// Returns the correction for an identifier that names no check.
pub fn suggest_check(id: &str) -> String {
    let names = CHECKS.iter().map(|check| check.id);
    let correction = xoff_units::suggest(id, names, "checks");
    format!("{correction}; `xoff conform list` describes all of them")
}

impl NicFile {
    /// Reads a NIC file.
    ///
    /// # Errors
    /// The file cannot be read, is no valid NIC file, has an entry without a reason, or names a check that does not
    /// exist, that is informational, or that it names twice.
    pub fn read(path: &Path) -> Result<NicFile, Failure> {
        let location = path.display().to_string();
        let text = read_input_text(path, NIC_FILE_LIMIT).map_err(|error| {
            Failure::configuration("the NIC file cannot be read")
                .at(&location)
                .because(error)
                .fix("give a file such as testbeds/nics/example.yml")
        })?;
        NicFile::parse(&text, &location)
    }

    /// Reads the text of a NIC file. `name` is the name of the file in errors.
    ///
    /// # Errors
    /// The errors of [`NicFile::read`] without those of the file system.
    pub fn parse(text: &str, name: &str) -> Result<NicFile, Failure> {
        let file: NicFile = serde_saphyr::from_str(text).map_err(|error| {
            let line = error.location().map(|location| format!(":{}", location.line()));
            Failure::configuration("the NIC file is not valid")
                .at(format!("{name}{}", line.unwrap_or_default()))
                .because(error.without_snippet())
                .fix(
                    "write `nic: NAME`, and for each known failure an entry `{check: A1, why: REASON}` in the list \
                     `xfail`: docs/conform.md",
                )
        })?;
        file.check_deviations().map_err(|failure| failure.at(name))?;
        Ok(file)
    }

    /// Checks that each deviation has a reason and names a check that can fail, and that no two deviations name the
    /// same check.
    fn check_deviations(&self) -> Result<(), Failure> {
        for (at, deviation) in self.xfail.iter().enumerate() {
            let id = &deviation.check;
            let problem = |what: String, fix: String| Err(Failure::configuration(what).fix(fix));
            let Some(check) = find_check(id) else {
                return problem(
                    format!("the NIC file names the check `{id}`, which does not exist"),
                    suggest_check(id),
                );
            };
            if deviation.why.trim().is_empty() {
                let fix = "write why the NIC fails the check".to_owned();
                return problem(format!("the entry of the check {id} has no reason"), fix);
            }
            if let Some(form) = deviation
                .forms
                .iter()
                .find(|form| !check.forms.contains(&form.as_str()))
            {
                let fix = match check.forms {
                    [] => format!("remove `forms`: {id} has no forms"),
                    forms => xoff_units::suggest(form, forms.iter().copied(), "forms"),
                };
                return problem(format!("{id} has no form `{form}`"), fix);
            }
            if check.is_informational {
                let fix = "remove the entry".to_owned();
                return problem(format!("{id} is informational and cannot fail"), fix);
            }
            if self.xfail[..at]
                .iter()
                .any(|other| other.check.eq_ignore_ascii_case(id))
            {
                let fix = "write one entry with both reasons".to_owned();
                return problem(format!("the NIC file names the check {id} twice"), fix);
            }
        }
        Ok(())
    }

    /// Returns the expected deviation of a check.
    pub fn deviation(&self, id: &str) -> Option<&ExpectedDeviation> {
        let is_named = |deviation: &&ExpectedDeviation| deviation.check.eq_ignore_ascii_case(id);
        self.xfail.iter().find(is_named)
    }
}

impl ExpectedDeviation {
    /// Returns whether the deviation explains a failure with this reason.
    pub(crate) fn explains(&self, reason: &str) -> bool {
        self.forms.is_empty() || fails_only_with(reason, &self.forms)
    }
}
