//! The two sides: programs, configurations and labs, which are run, and saved results, which are read.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use serde_json::Value;

use crate::bench::child;
use crate::bench::result::{BenchResult, RESULT_SCHEMA};
use crate::failure::{Exit, Failure};

/// One side.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A program and what it is asked for; it prints a result as JSON.
    Run {
        /// As the user has named it.
        name: String,
        /// Program and arguments.
        command: Vec<String>,
    },
    /// A result that was saved.
    Saved {
        /// As the user has named it.
        name: String,
        /// What it says.
        result: Box<BenchResult>,
    },
}

/// What programs are asked for: the words behind `xoff bench`.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Of a program.
    pub of_programs: Vec<String>,
    /// Of this program, for a configuration or a lab, whose option and path come behind.
    pub of_files: Vec<String>,
}

impl Subject {
    /// What stands on the command line as `side` (`A`, `B`).
    ///
    /// # Errors
    /// There is no such file, or it is none of the four.
    pub fn of(side: &str, path: &Path, asked: &Asked) -> Result<Subject, Failure> {
        let name = path.display().to_string();
        let place = format!("{side}: {name}");
        let file = std::fs::metadata(path).map_err(|error| {
            Failure::usage("a side of the comparison cannot be read")
                .at(&place)
                .because(error)
                .fix("give a xoff program, a config_db.json, a lab file (.yml) or a saved result")
        })?;
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("");
        match ending {
            "yml" | "yaml" => Ok(of_file(name, path, "--lab", asked)),
            "json" => of_json(name, path, &place, asked),
            _ if file.is_file() && file.permissions().mode() & 0o111 != 0 => {
                let mut command = vec![absolute(path), "bench".to_owned()];
                command.extend(asked.of_programs.iter().cloned());
                command.push("--json".to_owned());
                Ok(Subject::Run { name, command })
            }
            _ => Err(Failure::usage("nothing that can be compared")
                .at(place)
                .because("it is no program that can be run, and its name ends in neither .json nor .yml")
                .fix("give a xoff program, a config_db.json, a lab file (.yml) or a saved result")),
        }
    }

    /// As the user has named it.
    pub fn name(&self) -> &str {
        match self {
            Subject::Run { name, .. } | Subject::Saved { name, .. } => name,
        }
    }
}

fn of_json(name: String, path: &Path, place: &str, asked: &Asked) -> Result<Subject, Failure> {
    let wrong = |why: String| {
        Failure::configuration("a side of the comparison is neither a result nor a configuration")
            .at(place)
            .because(why)
            .fix("give what `xoff bench ... --save FILE` has written, or a config_db.json")
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    match value.get("schema") {
        None => Ok(of_file(name, path, "--config", asked)),
        Some(Value::String(schema)) if schema == RESULT_SCHEMA => {
            let result: BenchResult =
                serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
            match result.figures.iter().find(|figure| figure.samples.is_empty()) {
                Some(empty) => Err(wrong(format!("its figure {} has no sample", empty.name))),
                None => Ok(Subject::Saved {
                    name,
                    result: Box::new(result),
                }),
            }
        }
        Some(other) => Err(wrong(format!("its schema is {other}, not \"{RESULT_SCHEMA}\""))),
    }
}

/// This very program measures a file.
fn of_file(name: String, path: &Path, option: &str, asked: &Asked) -> Subject {
    let mut command = vec!["/proc/self/exe".to_owned(), "bench".to_owned()];
    command.extend(asked.of_files.iter().cloned());
    command.extend([option.to_owned(), absolute(path), "--json".to_owned()]);
    Subject::Run { name, command }
}

/// So that a name without a slash is a file, not a word to be looked up.
fn absolute(path: &Path) -> String {
    let whole = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
    whole.display().to_string()
}

/// Runs a side once, and reads the result it prints.
///
/// # Errors
/// It cannot be run, fails, or prints no result of this schema; an interruption.
pub(super) fn result_of(name: &str, command: &[String], stop: &AtomicBool) -> Result<BenchResult, Failure> {
    let printed = child::run(Command::new(&command[0]).args(&command[1..]), stop)?;
    let line = command[1..].join(" ");
    let failed = |what: &str, why: &str| {
        Failure::new(Exit::Environment, what)
            .at(format!("{name} {line}"))
            .because(why.trim().to_owned())
    };
    // 5 comes with a result: whether the machine was quiet is judged over the whole comparison.
    if !matches!(printed.status.code(), Some(0 | 5)) {
        // What a configuration or a lab lacks is said by its own exit code.
        let own = [
            (Some(2), Exit::Usage),
            (Some(4), Exit::Configuration),
            (Some(1), Exit::CheckFailed),
        ];
        let of_program = own.iter().find(|(code, _)| *code == printed.status.code());
        let mut failure = failed(
            &format!("a side of the comparison failed ({})", printed.status),
            &printed.stderr,
        );
        if command[0] == "/proc/self/exe" {
            failure.exit = of_program.map_or(Exit::Environment, |(_, exit)| *exit);
        }
        return Err(failure);
    }
    let value: Value = serde_json::from_str(&printed.stdout)
        .map_err(|error| failed("a side of the comparison prints no result", &error.to_string()))?;
    match value.get("schema").and_then(Value::as_str) {
        Some(RESULT_SCHEMA) => {}
        other => {
            let why = format!("its schema is {other:?}, not \"{RESULT_SCHEMA}\"");
            return Err(failed(
                "a side of the comparison prints another kind of result",
                &why,
            ));
        }
    }
    serde_json::from_value(value)
        .map_err(|error| failed("a side of the comparison prints no result", &error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Asked {
        Asked {
            of_programs: vec!["core".to_owned()],
            of_files: vec!["core".to_owned()],
        }
    }

    fn of(name: &str, text: &str) -> Result<Subject, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        Subject::of("A", &path, &asked())
    }

    #[test]
    fn files_are_told_apart() {
        assert!(
            matches!(of("lab.yml", ""), Ok(Subject::Run { command, .. }) if command.contains(&"--lab".to_owned()))
        );
        assert!(
            matches!(of("c.json", "{}"), Ok(Subject::Run { command, .. }) if command.contains(&"--config".to_owned()))
        );
        let saved = serde_json::to_string(&BenchResult::new("core", "x", 1)).unwrap();
        assert!(matches!(of("r.json", &saved), Ok(Subject::Saved { .. })));
    }

    #[test]
    fn what_is_none_of_them_is_refused_by_name() {
        let other = of("r.json", r#"{"schema": "xoff-bench/9"}"#).unwrap_err();
        assert_eq!(other.exit, Exit::Configuration);
        assert!(other.to_string().contains("xoff-bench/9"), "{other}");
        assert_eq!(of("r.json", "{").unwrap_err().exit, Exit::Configuration);
        assert_eq!(of("notes.txt", "").unwrap_err().exit, Exit::Usage);
        let missing = Subject::of("A", Path::new("/does/not/exist"), &asked()).unwrap_err();
        assert_eq!(missing.exit, Exit::Usage);
    }
}
