//! The two sides of a comparison. A side is a program, a configuration or a lab that is run, or a
//! saved result.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::child::{self, ProgramOutput};
use crate::result::{BenchResult, RESULT_SCHEMA};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{InputLimit, read_input_text, reopenable_path};

/// Path of the running program. The path stays valid if a build replaces the program file.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Description of the programs that can be compared, for error messages.
const COMPARABLE_PROGRAM: &str =
    "a program that prints a result with schema \"xoff-bench/1\", such as xoff or core-bench";

/// One side of a comparison: a command that is run, or a saved result.
#[derive(Clone, Debug, PartialEq)]
pub enum ComparedSide {
    /// A command that prints a [`BenchResult`] as JSON.
    Run {
        /// Name of the side, as the user gave it.
        name: String,
        /// The program and its arguments, including `--json`.
        command: Vec<String>,
    },
    /// A saved result.
    Saved {
        /// Name of the side, as the user gave it.
        name: String,
        /// The result.
        result: Box<BenchResult>,
    },
}

/// Arguments that both sides of a comparison use. They must not contain `--json`, because
/// [`ComparedSide::open`] adds this option.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComparisonSideArguments {
    /// Arguments for a side that is a program. `None` means that programs are refused.
    pub program_arguments: Option<Vec<String>>,
    /// Arguments after `xoff bench` for a side that is a configuration or a lab, such as `["ndr", "--sizes",
    /// "64"]`. The path of the configuration or lab is inserted at the position where the benchmark expects
    /// it. `None` means that configurations and labs are refused.
    pub bench_arguments: Option<Vec<String>>,
}

impl ComparisonSideArguments {
    /// Returns a text that names the accepted kinds of sides, for error messages.
    fn accepted_sides(&self) -> &'static str {
        match (&self.program_arguments, &self.bench_arguments) {
            (Some(_), _) => {
                "give a program or a saved result; `xoff bench compare` compares configurations and labs"
            }
            _ => {
                "give a config_db.json, a lab file (.yml) or a saved result; `core-bench compare` compares programs"
            }
        }
    }
}

impl ComparedSide {
    /// Opens one side of a comparison. `side` is `A` or `B` and appears in error messages. `path` is a
    /// program, a configuration, a lab (`.yml`, `.yaml`) or a saved result.
    ///
    /// # Errors
    /// The file cannot be read or has an unknown form, or `commands` does not accept its kind.
    pub fn open(
        side: &str,
        path: &Path,
        commands: &ComparisonSideArguments,
    ) -> Result<ComparedSide, Failure> {
        let name = path.display().to_string();
        let location = format!("{side}: {name}");
        let file = std::fs::metadata(path).map_err(|error| {
            Failure::usage("a side of the comparison cannot be read")
                .at(&location)
                .because(error)
                .fix(commands.accepted_sides())
        })?;
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension.unwrap_or("") {
            "yml" | "yaml" => bench_file_side(name, path, &location, FileKind::Lab, commands),
            "json" => open_json_file(name, path, &location, commands),
            _ if file.is_file() && file.permissions().mode() & 0o111 != 0 => {
                match &commands.program_arguments {
                    Some(arguments) => {
                        let mut command = vec![absolute_path(path)];
                        command.extend(arguments.iter().cloned());
                        command.push("--json".to_owned());
                        Ok(ComparedSide::Run { name, command })
                    }
                    None => Err(Failure::usage("programs are compared by `core-bench compare`")
                        .at(location)
                        .because("`xoff bench compare` compares configurations, labs and saved results")
                        .fix("cargo run --release -p core-bench -- compare A B")),
                }
            }
            // The content decides, so the name of a saved result is free.
            _ => open_json_file(name, path, &location, commands),
        }
    }

    /// Returns the name of the side: its path, as the user gave it.
    pub fn name(&self) -> &str {
        match self {
            ComparedSide::Run { name, .. } | ComparedSide::Saved { name, .. } => name,
        }
    }
}

/// Opens a JSON file, which is a saved result or a configuration.
fn open_json_file(
    name: String,
    path: &Path,
    location: &str,
    commands: &ComparisonSideArguments,
) -> Result<ComparedSide, Failure> {
    let invalid = |why: String| {
        Failure::configuration("a side of the comparison is neither a result nor a configuration")
            .at(location)
            .because(why)
            .fix(
                "give a file that `xoff bench ... --save FILE` has written, or a config_db.json; the name of a lab file \
                 ends in .yml",
            )
    };
    let text = read_input_text(path, InputLimit::RESULT).map_err(|error| invalid(error.to_string()))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
    match value.get("schema") {
        None => bench_file_side(name, path, location, FileKind::Configuration, commands),
        Some(Value::String(schema)) if schema == RESULT_SCHEMA => {
            let result: BenchResult =
                serde_json::from_value(value).map_err(|error| invalid(error.to_string()))?;
            match find_defect(&result) {
                Some(defect) => Err(invalid(defect)),
                None => Ok(ComparedSide::Saved {
                    name,
                    result: Box::new(result),
                }),
            }
        }
        Some(other) => Err(invalid(format!("its schema is {other}, not \"{RESULT_SCHEMA}\""))),
    }
}

/// Returns a description of the defect that makes a result unusable: a figure (a measured quantity) has no
/// samples, or two figures have the same name. Returns `None` for a usable result.
fn find_defect(result: &BenchResult) -> Option<String> {
    let mut names = HashSet::new();
    result.figures.iter().find_map(|figure| {
        if figure.samples.is_empty() {
            return Some(format!("its figure {} has no sample", figure.name));
        }
        let is_duplicate = !names.insert(&figure.name);
        is_duplicate.then(|| format!("its figure {} occurs twice", figure.name))
    })
}

/// Kind of a file that a benchmark measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Configuration,
    Lab,
}

/// Names of the benchmarks that can be compared and that accept a configuration or a lab as the
/// first argument.
const FILE_BENCHES: [&str; 6] = ["ndr", "latency", "rfc2544", "rfc2889", "rfc8239", "tune-buffers"];

/// Returns a side that measures a configuration or a lab with the running program.
fn bench_file_side(
    name: String,
    path: &Path,
    location: &str,
    kind: FileKind,
    commands: &ComparisonSideArguments,
) -> Result<ComparedSide, Failure> {
    let Some(mut words) = commands.bench_arguments.clone() else {
        return Err(
            Failure::usage("configurations and labs are compared by `xoff bench compare`")
                .at(location)
                .fix(commands.accepted_sides()),
        );
    };
    let bench = words.first().cloned().unwrap_or_default();
    // Each sample is a process that reads the file. The content of a pipe is therefore stored.
    let stored = match path.is_file() {
        true => path.to_owned(),
        false => reopenable_path(path, InputLimit::LAB).map_err(|error| {
            Failure::configuration("a side of the comparison cannot be read")
                .at(location)
                .because(error)
        })?,
    };
    let path = stored.as_path();
    match (bench.as_str(), kind) {
        ("core", FileKind::Configuration) => words.extend(["--config".to_owned(), absolute_path(path)]),
        ("core", FileKind::Lab) => words.extend(["--lab".to_owned(), absolute_path(path)]),
        ("ai", FileKind::Lab) => words.insert(1, absolute_path(path)),
        ("ai", FileKind::Configuration) => {
            return Err(
                Failure::usage("`xoff bench ai` measures labs, not configurations")
                    .at(location)
                    .fix("give a lab file (.yml), or another benchmark after `--`"),
            );
        }
        (bench, _) if FILE_BENCHES.contains(&bench) => words.insert(1, absolute_path(path)),
        _ => {
            return Err(Failure::usage(format!(
                "`xoff bench {bench}` cannot compare configurations or labs"
            ))
            .at(location)
            .because("it does not take such a file, or prints no result that can be compared")
            .fix(format!(
                "give one of these benchmarks after `--`: core, ai (labs), {}",
                FILE_BENCHES.join(", ")
            )));
        }
    }
    let mut command = vec![OWN_PROGRAM.to_owned(), "bench".to_owned()];
    command.extend(words);
    command.push("--json".to_owned());
    Ok(ComparedSide::Run { name, command })
}

/// Returns the absolute path, because a program name without a slash would be searched in `PATH`.
fn absolute_path(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
    absolute.display().to_string()
}

/// Runs a side once and reads the result that it prints.
///
/// # Errors
/// The command cannot be run, the command fails, its output is not a result with the schema
/// [`RESULT_SCHEMA`], or `stop` is set.
pub(super) fn run_side(name: &str, command: &[String], stop: &AtomicBool) -> Result<BenchResult, Failure> {
    let program = if command[0] == OWN_PROGRAM {
        "xoff"
    } else {
        &command[0]
    };
    let location = format!("{name}: {program} {}", command[1..].join(" "));
    let printed = match child::run_program(Command::new(&command[0]).args(&command[1..]), stop) {
        Ok(printed) => printed,
        Err(failure) if failure.exit == Exit::Interrupted => return Err(failure),
        Err(failure) => return Err(failure.at(location).fix(format!("give {COMPARABLE_PROGRAM}"))),
    };
    // A program that exits with 5 prints a tainted result, which is accepted here. Disturbances are judged
    // later, over the whole comparison.
    if !matches!(printed.status.code(), Some(0 | 5)) {
        return Err(side_failure(&printed, stop).at(location));
    }
    let no_result = |why: String| {
        Failure::environment("a side of the comparison prints no result that can be compared")
            .at(&location)
            .because(why)
            .fix(format!("give {COMPARABLE_PROGRAM}"))
    };
    if printed.stdout.trim().is_empty() {
        return Err(no_result(last_message(&printed)));
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
    match find_defect(&result) {
        Some(defect) => Err(no_result(defect)),
        None => Ok(result),
    }
}

/// Returns the failure for a side that ended with an error.
///
/// The exit codes for usage errors (2) and invalid files (4) are kept. All other exit codes become an
/// environment failure. For example, exit code 1 of a side does not mean that B is worse than A.
fn side_failure(printed: &ProgramOutput, stop: &AtomicBool) -> Failure {
    let exit = match printed.status.code() {
        // Ctrl-C interrupts both processes.
        _ if stop.load(Ordering::Relaxed) => Exit::Interrupted,
        Some(2) => Exit::Usage,
        Some(4) => Exit::Configuration,
        _ => Exit::Environment,
    };
    let failure = Failure::new(
        exit,
        format!("a side of the comparison failed ({})", printed.status),
    )
    .because(last_message(printed));
    match exit {
        Exit::Environment => failure.fix(format!(
            "run the command by itself to find the cause, or give {COMPARABLE_PROGRAM}"
        )),
        _ => failure,
    }
}

/// Returns the error that a program printed, or the last line of its output.
fn last_message(printed: &ProgramOutput) -> String {
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
    use crate::result::{BenchFigure, ImprovementDirection};

    fn bench_commands(words: &[&str]) -> ComparisonSideArguments {
        ComparisonSideArguments {
            program_arguments: None,
            bench_arguments: Some(words.iter().map(|word| (*word).to_owned()).collect()),
        }
    }

    fn open_file(name: &str, text: &str) -> Result<ComparedSide, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        ComparedSide::open("A", &path, &bench_commands(&["core"]))
    }

    #[test]
    fn labs_configurations_and_results_are_distinguished() {
        assert!(
            matches!(open_file("lab.yml", ""), Ok(ComparedSide::Run { command, .. }) if command.contains(&"--lab".to_owned()))
        );
        assert!(
            matches!(open_file("c.json", "{}"), Ok(ComparedSide::Run { command, .. }) if command.contains(&"--config".to_owned()))
        );
        let saved = serde_json::to_string(&BenchResult::new("core", "x", 1)).unwrap();
        // The name of a saved result is free.
        for name in ["r.json", "r.ndr", "r"] {
            assert!(
                matches!(open_file(name, &saved), Ok(ComparedSide::Saved { .. })),
                "{name}"
            );
        }
    }

    #[test]
    fn the_fix_of_a_refused_benchmark_names_no_programs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.json");
        std::fs::write(&path, "{}").unwrap();
        let failure = ComparedSide::open("A", &path, &bench_commands(&["probe"])).unwrap_err();
        let fix = failure.fix.unwrap_or_default();
        assert!(fix.contains("rfc2544") && !fix.contains("program"), "{fix}");
    }

    #[test]
    fn the_file_is_inserted_where_the_benchmark_expects_it() {
        let folder = tempfile::tempdir().unwrap();
        let folder_name = folder.path().to_str().unwrap().to_owned();
        let command_for = |name: &str, words: &str| {
            let path = &format!("{folder_name}{name}");
            std::fs::write(path, "{}").unwrap();
            let commands = bench_commands(&words.split(' ').collect::<Vec<_>>());
            let kind = match path.ends_with(".yml") {
                true => FileKind::Lab,
                false => FileKind::Configuration,
            };
            match bench_file_side(path.to_owned(), Path::new(path), path, kind, &commands) {
                Ok(ComparedSide::Run { command, .. }) => command[1..].join(" ").replace(&folder_name, ""),
                other => panic!("{other:?}"),
            }
        };
        for (path, arguments, command) in [
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
            assert_eq!(command_for(path, arguments), command);
        }
    }

    #[test]
    fn a_benchmark_that_takes_no_file_is_refused() {
        for bench in ["placement", "probe", "ai", "nope"] {
            let file = tempfile::NamedTempFile::new().unwrap();
            let refused = bench_file_side(
                "c.json".to_owned(),
                file.path(),
                "A: c.json",
                FileKind::Configuration,
                &bench_commands(&[bench]),
            );
            let failure = refused.unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            assert!(failure.to_string().contains(bench), "{failure}");
        }
    }

    #[test]
    fn a_side_that_fails_is_an_error_and_not_a_worse_side() {
        let run = |script: &str| {
            let command = ["sh", "-c", script].map(str::to_owned);
            run_side("a", &command, &AtomicBool::new(false)).unwrap_err()
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
        let failure = run_side("a", &missing, &AtomicBool::new(false)).unwrap_err();
        assert!(failure.fix.is_some(), "{failure}");
    }

    #[test]
    fn a_result_with_two_figures_of_one_name_is_refused() {
        let mut result = BenchResult::new("core", "x", 1);
        let figure = BenchFigure::new("ecmp/time", "ns", ImprovementDirection::Smaller, vec![1.0]);
        result.figures = vec![figure.clone(), figure];
        let failure = open_file("r.json", &serde_json::to_string(&result).unwrap()).unwrap_err();
        assert_eq!(failure.exit, Exit::Configuration);
        assert!(
            failure.to_string().contains("ecmp/time occurs twice"),
            "{failure}"
        );
    }

    #[test]
    fn a_file_that_is_neither_a_result_nor_an_input_is_refused() {
        let other = open_file("r.json", r#"{"schema": "xoff-bench/9"}"#).unwrap_err();
        assert_eq!(other.exit, Exit::Configuration);
        assert!(other.to_string().contains("xoff-bench/9"), "{other}");
        assert_eq!(open_file("r.json", "{").unwrap_err().exit, Exit::Configuration);
        assert_eq!(open_file("notes.txt", "").unwrap_err().exit, Exit::Configuration);
        let missing =
            ComparedSide::open("A", Path::new("/does/not/exist"), &bench_commands(&["core"])).unwrap_err();
        assert_eq!(missing.exit, Exit::Usage);
    }
}
