//! The two sides: programs, configurations and labs, which are run, and saved results, which are read.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::child::{self, ProgramOutput};
use crate::result::{BenchResult, RESULT_SCHEMA};
use xoff_telemetry::failure::{Exit, Failure};

/// This very program, also if a build puts another one in its place meanwhile.
const OWN: &str = "/proc/self/exe";

/// What a program has to be.
const WANTED: &str = "a program that prints a result of schema \"xoff-bench/1\", as xoff and core-bench do";

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

/// Arguments with which the sides of a comparison are run. `--json` is added to them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubjectCommands {
    /// Arguments for a side that is a program. `None` refuses programs.
    pub of_programs: Option<Vec<String>>,
    /// Arguments behind `xoff bench` for a side that is a configuration or a lab. The path of the file is inserted where
    /// the benchmark expects it. `None` refuses such files.
    pub of_files: Option<Vec<String>>,
}

impl SubjectCommands {
    /// Names the kinds of sides that are accepted, for error messages.
    fn accepted_sides(&self) -> &'static str {
        match (&self.of_programs, &self.of_files) {
            (Some(_), _) => {
                "give a program or a saved result; `xoff bench compare` compares configurations and labs"
            }
            _ => {
                "give a config_db.json, a lab file (.yml) or a saved result; `core-bench compare` compares programs"
            }
        }
    }
}

impl Subject {
    /// Opens the file `path` that the command line gives as `side` (`A` or `B`).
    ///
    /// # Errors
    /// The file does not exist, or `commands` does not accept its kind.
    pub fn open(side: &str, path: &Path, commands: &SubjectCommands) -> Result<Subject, Failure> {
        let name = path.display().to_string();
        let place = format!("{side}: {name}");
        let file = std::fs::metadata(path).map_err(|error| {
            Failure::usage("a side of the comparison cannot be read")
                .at(&place)
                .because(error)
                .fix(commands.accepted_sides())
        })?;
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("");
        match ending {
            "yml" | "yaml" => of_file(name, path, &place, FileKind::Lab, commands),
            "json" => of_json(name, path, &place, commands),
            _ if file.is_file() && file.permissions().mode() & 0o111 != 0 => match &commands.of_programs {
                Some(arguments) => {
                    let mut command = vec![absolute(path)];
                    command.extend(arguments.iter().cloned());
                    command.push("--json".to_owned());
                    Ok(Subject::Run { name, command })
                }
                None => Err(Failure::usage("programs are compared by `core-bench compare`")
                    .at(place)
                    .because("`xoff bench compare` compares configurations, labs and saved results")
                    .fix("cargo run --release -p core-bench -- compare A B")),
            },
            _ => Err(Failure::usage("the file cannot be compared")
                .at(place)
                .because("it is not an executable program, and its name ends in neither .json nor .yml")
                .fix(commands.accepted_sides())),
        }
    }

    /// As the user has named it.
    pub fn name(&self) -> &str {
        match self {
            Subject::Run { name, .. } | Subject::Saved { name, .. } => name,
        }
    }
}

fn of_json(name: String, path: &Path, place: &str, commands: &SubjectCommands) -> Result<Subject, Failure> {
    let wrong = |why: String| {
        Failure::configuration("a side of the comparison is neither a result nor a configuration")
            .at(place)
            .because(why)
            .fix("give what `xoff bench ... --save FILE` has written, or a config_db.json")
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    match value.get("schema") {
        None => of_file(name, path, place, FileKind::Configuration, commands),
        Some(Value::String(schema)) if schema == RESULT_SCHEMA => {
            let result: BenchResult =
                serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
            match damage(&result) {
                Some(damage) => Err(wrong(damage)),
                None => Ok(Subject::Saved {
                    name,
                    result: Box::new(result),
                }),
            }
        }
        Some(other) => Err(wrong(format!("its schema is {other}, not \"{RESULT_SCHEMA}\""))),
    }
}

/// What makes a result none, of what its types allow.
fn damage(result: &BenchResult) -> Option<String> {
    let mut names = HashSet::new();
    result.figures.iter().find_map(|figure| {
        if figure.samples.is_empty() {
            return Some(format!("its figure {} has no sample", figure.name));
        }
        // Which of the two is meant is not to be known.
        let twice = !names.insert(&figure.name);
        twice.then(|| format!("its figure {} is there twice", figure.name))
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Configuration,
    Lab,
}

/// Benches that take a configuration or a lab as their first argument, and print a result that can be compared.
const OF_FILES: [&str; 6] = ["ndr", "latency", "rfc2544", "rfc2889", "rfc8239", "tune-buffers"];

/// This very program measures a file.
fn of_file(
    name: String,
    path: &Path,
    place: &str,
    kind: FileKind,
    commands: &SubjectCommands,
) -> Result<Subject, Failure> {
    let Some(mut words) = commands.of_files.clone() else {
        return Err(
            Failure::usage("configurations and labs are compared by `xoff bench compare`")
                .at(place)
                .fix(commands.accepted_sides()),
        );
    };
    let bench = words.first().cloned().unwrap_or_default();
    match (bench.as_str(), kind) {
        ("core", FileKind::Configuration) => words.extend(["--config".to_owned(), absolute(path)]),
        ("core", FileKind::Lab) => words.extend(["--lab".to_owned(), absolute(path)]),
        ("ai", FileKind::Lab) => words.insert(1, absolute(path)),
        ("ai", FileKind::Configuration) => {
            return Err(
                Failure::usage("`xoff bench ai` measures labs, not configurations")
                    .at(place)
                    .fix("give a lab file (.yml), or another bench behind `--`"),
            );
        }
        (bench, _) if OF_FILES.contains(&bench) => words.insert(1, absolute(path)),
        _ => {
            return Err(
                Failure::usage(format!("`xoff bench {bench}` measures no configuration or lab"))
                    .at(place)
                    .because("it takes none, or prints no result that can be compared")
                    .fix(format!(
                        "give two programs, or one of these benches behind `--`: core, ai (labs), {}",
                        OF_FILES.join(", ")
                    )),
            );
        }
    }
    let mut command = vec![OWN.to_owned(), "bench".to_owned()];
    command.extend(words);
    command.push("--json".to_owned());
    Ok(Subject::Run { name, command })
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
    let program = if command[0] == OWN { "xoff" } else { &command[0] };
    let place = format!("{name}: {program} {}", command[1..].join(" "));
    let printed = match child::run_program(Command::new(&command[0]).args(&command[1..]), stop) {
        Ok(printed) => printed,
        Err(failure) if failure.exit == Exit::Interrupted => return Err(failure),
        Err(failure) => return Err(failure.at(place).fix(format!("give {WANTED}"))),
    };
    // 5 comes with a result: whether the machine was quiet is judged over the whole comparison.
    if !matches!(printed.status.code(), Some(0 | 5)) {
        return Err(failed(&printed, stop).at(place));
    }
    let no_result = |why: String| {
        Failure::environment("a side of the comparison prints no result that can be compared")
            .at(&place)
            .because(why)
            .fix(format!("give {WANTED}"))
    };
    if printed.stdout.trim().is_empty() {
        return Err(no_result(said(&printed)));
    }
    let value: Value = serde_json::from_str(&printed.stdout).map_err(|error| no_result(error.to_string()))?;
    match value.get("schema").and_then(Value::as_str) {
        Some(RESULT_SCHEMA) => {}
        Some(other) => {
            return Err(no_result(format!(
                "its schema is \"{other}\", not \"{RESULT_SCHEMA}\""
            )));
        }
        None => {
            return Err(no_result(format!(
                "it names no schema, such as \"{RESULT_SCHEMA}\""
            )));
        }
    }
    let result: BenchResult = serde_json::from_value(value).map_err(|error| no_result(error.to_string()))?;
    match damage(&result) {
        Some(damage) => Err(no_result(damage)),
        None => Ok(result),
    }
}

/// Wrong words and wrong files are the user's to mend, and keep their exit codes. Nothing else is: a side that failed a check of its own
/// (1) has not been found worse.
fn failed(printed: &ProgramOutput, stop: &AtomicBool) -> Failure {
    let exit = match printed.status.code() {
        // The same Ctrl-C has met both.
        _ if stop.load(Ordering::Relaxed) => Exit::Interrupted,
        Some(2) => Exit::Usage,
        Some(4) => Exit::Configuration,
        _ => Exit::Environment,
    };
    let failure = Failure::new(
        exit,
        format!("a side of the comparison failed ({})", printed.status),
    )
    .because(said(printed));
    match exit {
        Exit::Environment => failure.fix(format!("run it by itself to see why, or give {WANTED}")),
        _ => failure,
    }
}

/// What a program had to say of its failure.
fn said(printed: &ProgramOutput) -> String {
    match (printed.stderr.trim(), printed.stdout.trim()) {
        ("", "") => "it printed nothing".to_owned(),
        ("", output) => {
            let last = output.lines().last().unwrap_or_default();
            format!("it printed no error; the last line of its output is: {last}")
        }
        (error, _) => error.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{BenchFigure, BetterWhen};

    fn commands(words: &[&str]) -> SubjectCommands {
        SubjectCommands {
            of_programs: None,
            of_files: Some(words.iter().map(|word| (*word).to_owned()).collect()),
        }
    }

    fn of(name: &str, text: &str) -> Result<Subject, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        Subject::open("A", &path, &commands(&["core"]))
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
    fn a_file_is_put_where_the_bench_takes_it() {
        let words = |path: &str, words: &str| {
            let commands = commands(&words.split(' ').collect::<Vec<_>>());
            let kind = match path.ends_with(".yml") {
                true => FileKind::Lab,
                false => FileKind::Configuration,
            };
            match of_file(path.to_owned(), Path::new(path), path, kind, &commands) {
                Ok(Subject::Run { command, .. }) => command[1..].join(" "),
                other => panic!("{other:?}"),
            }
        };
        for (path, asked, command) in [
            (
                "/c.json",
                "core --rounds 3",
                "bench core --rounds 3 --config /c.json --json",
            ),
            (
                "/l.yml",
                "core --rounds 3",
                "bench core --rounds 3 --lab /l.yml --json",
            ),
            ("/c.json", "ndr --sizes 64", "bench ndr /c.json --sizes 64 --json"),
            ("/l.yml", "rfc2544 b2b", "bench rfc2544 /l.yml b2b --json"),
            ("/c.json", "tune-buffers", "bench tune-buffers /c.json --json"),
            ("/l.yml", "ai --lb ecmp", "bench ai /l.yml --lb ecmp --json"),
        ] {
            assert_eq!(words(path, asked), command);
        }
    }

    #[test]
    fn a_bench_that_measures_no_file_is_refused() {
        for bench in ["placement", "probe", "ai", "nope"] {
            let path = Path::new("c.json");
            let refused = of_file(
                "c.json".to_owned(),
                path,
                "A: c.json",
                FileKind::Configuration,
                &commands(&[bench]),
            );
            let failure = refused.unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            assert!(failure.to_string().contains(bench), "{failure}");
        }
    }

    #[test]
    fn a_side_that_fails_is_no_side_that_is_worse() {
        let run = |script: &str| {
            let command = ["sh", "-c", script].map(str::to_owned);
            result_of("a", &command, &AtomicBool::new(false)).unwrap_err()
        };
        for (script, exit, words) in [
            ("exit 1", Exit::Environment, "it printed nothing"),
            ("exit 0", Exit::Environment, "it printed nothing"),
            ("echo tried; exit 3", Exit::Environment, "tried"),
            ("echo no option --x >&2; exit 2", Exit::Usage, "no option --x"),
            (
                "echo a speed of -5 >&2; exit 4",
                Exit::Configuration,
                "a speed of -5",
            ),
            ("echo '[]'", Exit::Environment, "names no schema"),
        ] {
            let failure = run(script);
            assert_eq!(failure.exit, exit, "{script}");
            assert!(failure.to_string().contains(words), "{failure}");
            assert_eq!(failure.fix.is_some(), exit == Exit::Environment, "{failure}");
        }
        let missing = ["/does/not/exist".to_owned()];
        let failure = result_of("a", &missing, &AtomicBool::new(false)).unwrap_err();
        assert!(failure.fix.is_some(), "{failure}");
    }

    #[test]
    fn a_figure_that_is_there_twice_is_refused_by_name() {
        let mut result = BenchResult::new("core", "x", 1);
        let figure = BenchFigure::new("ecmp/time", "ns", BetterWhen::Smaller, vec![1.0]);
        result.figures = vec![figure.clone(), figure];
        let failure = of("r.json", &serde_json::to_string(&result).unwrap()).unwrap_err();
        assert_eq!(failure.exit, Exit::Configuration);
        assert!(
            failure.to_string().contains("ecmp/time is there twice"),
            "{failure}"
        );
    }

    #[test]
    fn what_is_none_of_them_is_refused_by_name() {
        let other = of("r.json", r#"{"schema": "xoff-bench/9"}"#).unwrap_err();
        assert_eq!(other.exit, Exit::Configuration);
        assert!(other.to_string().contains("xoff-bench/9"), "{other}");
        assert_eq!(of("r.json", "{").unwrap_err().exit, Exit::Configuration);
        assert_eq!(of("notes.txt", "").unwrap_err().exit, Exit::Usage);
        let missing = Subject::open("A", Path::new("/does/not/exist"), &commands(&["core"])).unwrap_err();
        assert_eq!(missing.exit, Exit::Usage);
    }
}
