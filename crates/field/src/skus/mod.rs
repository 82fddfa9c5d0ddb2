//! Loads the buffer and QoS configurations of all SKUs of sonic-buildimage, and the examples of
//! SONiC's documentation.
//!
//! The sweep has three steps:
//!
//! 1. `render.py` renders the templates of each SKU.
//! 2. `xoff config check` loads each rendered configuration with the lookup file of the SKU.
//! 3. A lossless incast (two senders, one receiver) runs in virtual time for each combination of speed and
//!    cable length with headroom.
//!
//! The result is a page with tables of counts, and with the reason for each input that does not load or
//! loses frames.

mod check;
mod document;
mod headroom;
mod incast;
mod known_errors;
mod lossless;
mod python;
mod result_table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::Value;

use self::check::{CheckResult, check_config};
use self::incast::{IncastResult, IncastRunner};
use self::lossless::{HeadroomSource, LosslessPorts};

/// Number of SKUs that are checked at the same time.
const WORKERS: usize = 2;
/// Number of attempts to add missing objects to an example. Several attempts can be necessary, because an
/// added object can refer to further objects.
const COMPLETIONS_MAX: usize = 4;

/// Options of the sweep.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Needs git, python3 and Jinja2. Without Jinja2 in the system's Python (pip install jinja2) \
                        the sweep installs it in a temporary virtual environment.\n\n\
                        Get the input:\n  git clone --bare --depth 1 https://github.com/sonic-net/sonic-buildimage GITDIR\n\n\
                        Exit codes: 0 whatever does not load or loses frames is explained, 1 something is not, 3 a program is missing."
)]
pub(crate) struct Arguments {
    /// Bare git directory of sonic-net/sonic-buildimage
    git_dir: PathBuf,
    /// Write the table here, as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Use this xoff program instead of a new build
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Render into this folder and keep the folder. Nothing is rendered if the folder already
    /// contains index.json
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
}

/// A configuration and its results.
struct ConfigCase {
    /// Origin of the configuration: the path of a folder in the repository, or a line of a document.
    path: String,
    /// Folder of the template, with symbolic links resolved. Empty for an example of a document.
    real: String,
    /// Buffer model (`traditional`, `dynamic`) or name of a document.
    group: String,
    result: LoadResult,
    /// Results for each group of lossless ports. Empty if the configuration does not load.
    links: Vec<LinkCase>,
}

/// The result of loading a configuration.
enum LoadResult {
    /// The configuration loads. If an example had to be corrected or completed, the text describes
    /// the changes.
    Loaded(Option<String>),
    /// The input itself is wrong. `error` is the first error, and `why` explains it.
    TrueError { error: String, why: String },
    /// The configuration does not load because of an error that is not known. Contains all errors.
    Refused(Vec<String>),
}

/// A group of lossless ports and the result for this group.
struct LinkCase {
    ports: LosslessPorts,
    result: LinkResult,
}

enum LinkResult {
    Incast(IncastResult),
    /// SONiC creates no lossless profile. `is_noted` is true if a note of `config check` reports this.
    NoProfile {
        is_noted: bool,
    },
    /// A port without a cable has no lossless priority groups.
    NoCable,
}

impl ConfigCase {
    fn is_failure(&self) -> bool {
        let link_fails = |link: &LinkCase| {
            matches!(
                link.result,
                LinkResult::Incast(IncastResult::Failed(_)) | LinkResult::NoProfile { is_noted: false }
            )
        };
        matches!(self.result, LoadResult::Refused(_)) || self.links.iter().any(link_fails)
    }
}

/// Loads all configurations and tests the lossless ones. The exit code is 1 if at least one result is
/// not explained.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let program = match &arguments.program {
        Some(program) => {
            fs::canonicalize(program).map_err(|error| format!("{}: {error}", program.display()))?
        }
        None => crate::program::build_xoff()?,
    };
    let temporary = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let folder = arguments.work.as_deref().unwrap_or(temporary.path());
    if !folder.join("index.json").is_file() {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        python::render_skus(&arguments.git_dir, folder)?;
    }
    let index = read_json(&folder.join("index.json"))?;
    let sweep = SkuSweep {
        program: &program,
        folder,
    };
    let mut cases = sweep.run_skus(index["units"].as_array().map_or(&[], Vec::as_slice))?;
    cases.extend(sweep.load_documents(&index["documents"])?);
    let text = result_table::render_markdown(&index, &cases);
    match &arguments.markdown {
        Some(file) => fs::write(file, &text).map_err(|error| format!("{}: {error}", file.display()))?,
        None => print!("{text}"),
    }
    let failures = result_table::failure_lines(&cases);
    eprint!("{failures}");
    Ok(ExitCode::from(u8::from(!failures.is_empty())))
}

struct SkuSweep<'a> {
    program: &'a Path,
    folder: &'a Path,
}

impl SkuSweep<'_> {
    /// Runs all SKUs and returns their results in the order of the index.
    fn run_skus(&self, units: &[Value]) -> Result<Vec<ConfigCase>, String> {
        let next = AtomicUsize::new(0);
        let done = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| {
                    while let Some((number, unit)) = {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        units.get(number).map(|unit| (number, unit))
                    } {
                        let case = self.run_sku(unit);
                        done.lock()
                            .unwrap_or_else(|poisoned| poisoned.into_inner())
                            .push((number, case));
                    }
                });
            }
        });
        let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        done.sort_by_key(|(number, _)| *number);
        done.into_iter().map(|(_, case)| case).collect()
    }

    fn run_sku(&self, unit: &Value) -> Result<ConfigCase, String> {
        let text = |field: &str| unit[field].as_str().unwrap_or("").to_owned();
        let mut case = ConfigCase {
            path: text("path"),
            real: text("real"),
            group: text("model"),
            result: LoadResult::Loaded(None),
            links: Vec::new(),
        };
        let Some(config_file) = unit["config"].as_str() else {
            case.result = classify_load_errors(&case.path, vec![text("error")]);
            return Ok(case);
        };
        let lookup = unit["lookup"].as_str();
        match check_config(self.program, self.folder, config_file, lookup)? {
            CheckResult::Valid(notes) => {
                case.links = self.run_incasts_of_links(config_file, lookup, &notes)?
            }
            CheckResult::Invalid(errors) => case.result = classify_load_errors(&case.path, errors),
        }
        Ok(case)
    }

    fn run_incasts_of_links(
        &self,
        config_file: &str,
        lookup: Option<&str>,
        notes: &[String],
    ) -> Result<Vec<LinkCase>, String> {
        let config = read_json(&self.folder.join(config_file))?;
        let rows = match lookup {
            Some(lookup) => {
                let file = self.folder.join(lookup);
                let text =
                    fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
                Some(lossless::parse_lookup_rows(&text))
            }
            None => None,
        };
        let runner = IncastRunner {
            program: self.program,
            folder: self.folder,
        };
        let mut links = Vec::new();
        for ports in lossless::lossless_ports(&config, rows.as_ref()) {
            let result = match &ports.headroom {
                HeadroomSource::NoCable => LinkResult::NoCable,
                HeadroomSource::NoRow | HeadroomSource::NoPool => LinkResult::NoProfile {
                    is_noted: notes
                        .iter()
                        .any(|note| names_missing_profile(note, &ports, lookup.is_some())),
                },
                _ => LinkResult::Incast(runner.run(config_file, lookup, &config, &ports)?),
            };
            links.push(LinkCase { ports, result });
        }
        Ok(links)
    }

    /// Loads the examples of `Configuration.md` and the sample configuration of the YANG model tests.
    fn load_documents(&self, documents: &Value) -> Result<Vec<ConfigCase>, String> {
        let mut cases = Vec::new();
        let examples = document::parse_examples(documents["configuration"].as_str().unwrap_or(""));
        for example in &examples {
            let result = match &example.tables {
                Ok(tables) => {
                    self.load_example("Configuration.md", tables, &examples, example.repair.as_deref())?
                }
                Err(error) => LoadResult::TrueError {
                    error: error.clone(),
                    why: "not JSON".to_owned(),
                },
            };
            cases.push(document_case("Configuration.md", Some(example.line), result));
        }
        let sample = documents["sample"].as_str().unwrap_or("{}");
        let sample: Value =
            serde_json::from_str(sample).map_err(|error| format!("the sample is not JSON: {error}"))?;
        let name = "sample_config_db.json";
        let result = self.load_example(name, &sample["SAMPLE_CONFIG_DB_JSON"], &[], None)?;
        cases.push(document_case(name, None, result));
        Ok(cases)
    }

    /// Loads an example. If the example refers to missing objects, adds these objects and tries again.
    fn load_example(
        &self,
        name: &str,
        tables: &Value,
        document: &[document::DocumentExample],
        repair: Option<&str>,
    ) -> Result<LoadResult, String> {
        let mut tables = tables.clone();
        let mut added = Vec::new();
        let file = self.folder.join("example.json");
        for round in 0.. {
            fs::write(&file, tables.to_string()).map_err(|error| format!("{}: {error}", file.display()))?;
            let errors = match check_config(self.program, self.folder, "example.json", None)? {
                CheckResult::Valid(_) => {
                    let added = (!added.is_empty())
                        .then(|| format!("with {} from elsewhere", result_table::join_limited(&added)));
                    let changes: Vec<&str> = repair.into_iter().chain(added.as_deref()).collect();
                    return Ok(LoadResult::Loaded(
                        (!changes.is_empty()).then(|| changes.join("; ")),
                    ));
                }
                CheckResult::Invalid(errors) => errors,
            };
            let more = document::missing_objects(&errors, document);
            if name != "Configuration.md"
                || round == COMPLETIONS_MAX
                || more.as_object().is_none_or(serde_json::Map::is_empty)
            {
                return Ok(classify_load_errors(name, errors));
            }
            for (table, entries) in more.as_object().into_iter().flatten() {
                for entry in entries.as_object().into_iter().flatten() {
                    added.push(format!("{table}|{}", entry.0));
                }
            }
            document::add_missing_objects(&mut tables, &more);
        }
        unreachable!("the last round returns")
    }
}

/// Returns whether a note reports that SONiC creates no profile for these ports.
fn names_missing_profile(note: &str, ports: &LosslessPorts, has_lookup: bool) -> bool {
    if ports.headroom == HeadroomSource::NoPool {
        return note.contains("ingress_lossless_pool: the pool is missing, so SONiC creates no profile");
    }
    let (speed, cable) = (ports.speed_mbps, &ports.cable);
    let reason = match has_lookup {
        true => format!("has no row for {speed} Mb/s and a cable of {cable}, so SONiC creates no profile"),
        false => format!("would create pg_lossless_{speed}_{cable}_profile"),
    };
    note.contains("PFC without headroom") && note.contains(&reason)
}

fn classify_load_errors(place: &str, errors: Vec<String>) -> LoadResult {
    match known_errors::explain_errors(place, &errors) {
        Some(why) => LoadResult::TrueError {
            error: errors.into_iter().next().unwrap_or_default(),
            why,
        },
        None => LoadResult::Refused(errors),
    }
}

fn document_case(document: &str, line: Option<usize>, result: LoadResult) -> ConfigCase {
    ConfigCase {
        path: line.map_or(document.to_owned(), |line| format!("{document}:{line}")),
        real: String::new(),
        group: document.to_owned(),
        result,
        links: Vec::new(),
    }
}

fn read_json(file: &Path) -> Result<Value, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))
}
