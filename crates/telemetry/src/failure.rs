//! How a command ends: its exit code, and an error that says what, where, why and how to fix it.

use std::fmt;

/// How a command ended. The numbers are a promise to scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything asked for was done, and every check held.
    Ok = 0,
    /// A check failed in a clean run: a lossless flow lost, reordered or damaged frames.
    CheckFailed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// This environment cannot: a privilege, a device, a kernel feature, a running switch is missing.
    Environment = 3,
    /// A configuration or lab file is invalid.
    Configuration = 4,
    /// The run is tainted, so nothing can be claimed, whatever else was found.
    Inconclusive = 5,
    /// Interrupted before it was done.
    Interrupted = 130,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        std::process::ExitCode::from(exit as u8)
    }
}

/// An error as a user meets it. `Display` is what `xoff` prints on standard error:
///
/// ```text
/// error: no network device "eth9"
///   where: --port Ethernet4=eth9
///   why: ...
///   fix: list the devices with `ip link`
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code of the command.
    pub exit: Exit,
    /// What went wrong, without a final stop.
    pub what: String,
    /// The file, option, device or field it concerns.
    pub place: Option<String>,
    /// The reason behind it, such as the kernel's answer.
    pub why: Option<String>,
    /// What to do about it, with the command where there is one.
    pub fix: Option<String>,
    /// All mistakes of a configuration, one line each, where `why` has the first ones. JSON output has these.
    pub errors: Box<[String]>,
}

impl Failure {
    /// An error that ends the command with `exit`.
    pub fn new(exit: Exit, what: impl Into<String>) -> Failure {
        Failure {
            exit,
            what: what.into(),
            place: None,
            why: None,
            fix: None,
            errors: Box::default(),
        }
    }

    /// A wrong command line.
    pub fn usage(what: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, what)
    }

    /// An environment that cannot do what was asked.
    pub fn environment(what: impl Into<String>) -> Failure {
        Failure::new(Exit::Environment, what)
    }

    /// An invalid configuration or lab file.
    pub fn configuration(what: impl Into<String>) -> Failure {
        Failure::new(Exit::Configuration, what)
    }

    /// Adds the place it concerns.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Failure {
        self.place = Some(place.into());
        self
    }

    /// Adds the reason.
    #[must_use]
    pub fn because(mut self, why: impl fmt::Display) -> Failure {
        self.why = Some(why.to_string());
        self
    }

    /// Adds the mistakes of a configuration as the reason: `summary` as text, and each of `problems` by itself.
    #[must_use]
    pub fn because_of<P: fmt::Display>(self, summary: impl fmt::Display, problems: &[P]) -> Failure {
        Failure {
            why: Some(summary.to_string()),
            errors: problems.iter().map(ToString::to_string).collect(),
            ..self
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Failure {
        self.fix = Some(fix.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", indent(&self.what))?;
        for (label, text) in [("where", &self.place), ("why", &self.why), ("fix", &self.fix)] {
            if let Some(text) = text {
                write!(f, "\n  {label}: {}", indent(text))?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// Keeps the further lines of a text under its first one.
fn indent(text: &str) -> String {
    text.trim_end().replace('\n', "\n    ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_what_where_why_and_fix_in_that_order() {
        let failure = Failure::environment("no network device \"eth9\"")
            .fix("list the devices with `ip link`")
            .at("--port Ethernet4=eth9")
            .because("first\nsecond");
        assert_eq!(
            failure.to_string(),
            "error: no network device \"eth9\"\n  where: --port Ethernet4=eth9\n  why: first\n    second\n  \
             fix: list the devices with `ip link`"
        );
        assert_eq!(failure.exit as u8, 3);
    }
}
