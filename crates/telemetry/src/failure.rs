//! The end of a command: its exit code and its error message.

use std::fmt;

/// The exit code of a command. The numbers stay the same in all versions, because scripts depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The command did everything, and no check failed.
    Ok = 0,
    /// A check failed in a clean run. For example, frames of a lossless flow were lost, reordered or damaged.
    CheckFailed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The environment lacks a privilege, a device, a kernel feature or a running switch.
    Environment = 3,
    /// A configuration or a lab file is not valid.
    Configuration = 4,
    /// The results prove nothing, for example because the machine disturbed the run (a tainted run) or
    /// because the run has too few samples.
    Inconclusive = 5,
    /// A signal interrupted the command before its end (128 + SIGINT).
    Interrupted = 130,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        std::process::ExitCode::from(exit as u8)
    }
}

/// The error message of a command. `xoff` prints the `Display` form on standard error:
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
    /// The problem, without a full stop at the end.
    pub what: String,
    /// The file, option, device or field that has the problem. `None` if no such place is known.
    pub location: Option<String>,
    /// The reason, such as the error of the kernel. `None` if no reason is known, or if `what` already
    /// explains the problem.
    pub why: Option<String>,
    /// The action that solves the problem, with a command if possible. `None` if no action is known.
    pub fix: Option<String>,
    /// All errors of a configuration, one text for each error. JSON output contains all errors, and `why` may
    /// contain only the first errors. Empty if the failure is not an invalid configuration.
    pub errors: Box<[String]>,
}

impl Failure {
    /// Makes an error that ends the command with the exit code `exit`.
    pub fn new(exit: Exit, what: impl Into<String>) -> Failure {
        Failure {
            exit,
            what: what.into(),
            location: None,
            why: None,
            fix: None,
            errors: Box::default(),
        }
    }

    /// Makes an error for a wrong command line ([`Exit::Usage`]).
    pub fn usage(what: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, what)
    }

    /// Makes an error for an environment that lacks something, such as a device or a
    /// privilege ([`Exit::Environment`]).
    pub fn environment(what: impl Into<String>) -> Failure {
        Failure::new(Exit::Environment, what)
    }

    /// Makes an error for an invalid configuration or lab file ([`Exit::Configuration`]).
    pub fn configuration(what: impl Into<String>) -> Failure {
        Failure::new(Exit::Configuration, what)
    }

    /// Sets the file, option, device or field that has the problem (`location`).
    #[must_use]
    pub fn at(mut self, location: impl Into<String>) -> Failure {
        self.location = Some(location.into());
        self
    }

    /// Sets the reason (`why`).
    #[must_use]
    pub fn because(mut self, why: impl fmt::Display) -> Failure {
        self.why = Some(why.to_string());
        self
    }

    /// Sets the errors of a configuration as the reason. `summary` becomes `why`, which is printed and may
    /// leave out errors. `problems` contains all errors, for JSON output (`errors`).
    #[must_use]
    pub fn because_of_errors<P: fmt::Display>(self, summary: impl fmt::Display, problems: &[P]) -> Failure {
        Failure {
            why: Some(summary.to_string()),
            errors: problems.iter().map(ToString::to_string).collect(),
            ..self
        }
    }

    /// Sets the action that solves the problem.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Failure {
        self.fix = Some(fix.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", indent(&self.what))?;
        for (label, text) in [("where", &self.location), ("why", &self.why), ("fix", &self.fix)] {
            if let Some(text) = text {
                write!(f, "\n  {label}: {}", indent(text))?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// Indents all lines of a text except the first.
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
