//! Loads the buffer and QoS configuration of every SKU of sonic-buildimage, and the examples of SONiC's documentation.
//!
//! `render.py` renders the templates of each SKU; `xoff` then loads each result with the SKU's lookup file. The table has
//! the counts, and every kind of error with one example.

mod document;
mod load;
mod python;
mod table;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;

use self::load::Loader;

/// Options of the sweep.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Bare git directory of sonic-net/sonic-buildimage
    git_dir: PathBuf,
    /// Write the table here, as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Use this xoff program instead of building one
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// A configuration and what became of it.
pub(crate) struct Case {
    /// Where it is from: a folder of the repository, or a line of a document.
    pub(crate) path: String,
    /// The folder that its template is in once symbolic links are followed; empty for an example.
    pub(crate) real: String,
    /// `traditional`, `dynamic`, or the name of a document.
    pub(crate) group: String,
    pub(crate) result: CaseResult,
}

/// What became of a configuration.
pub(crate) enum CaseResult {
    Loaded,
    /// The lines of the error.
    Refused(Vec<String>),
    /// The repository's own text is at fault.
    NotRendered(String),
}

/// Runs the sweep. Exit code 1: a configuration was refused.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => crate::program::build()?,
    };
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    python::render(&arguments.git_dir, folder.path())?;
    let index = read_json(&folder.path().join("index.json"))?;
    let loader = Loader::new(program, folder.path())?;
    let mut cases = Vec::new();
    for unit in index["units"].as_array().into_iter().flatten() {
        cases.push(sku_case(&loader, unit)?);
    }
    let configuration = index["documents"]["configuration"].as_str().unwrap_or("");
    for example in document::examples(configuration) {
        let result = match example.tables {
            Ok(tables) => loader.load_value(&tables)?,
            Err(why) => CaseResult::NotRendered(why),
        };
        cases.push(document_case("Configuration.md", example.line, result));
    }
    let sample = index["documents"]["sample"].as_str().unwrap_or("{}");
    let sample: Value =
        serde_json::from_str(sample).map_err(|error| format!("the sample is not JSON: {error}"))?;
    let result = loader.load_value(&sample["SAMPLE_CONFIG_DB_JSON"])?;
    cases.push(document_case("sample_config_db.json", 1, result));
    let text = table::markdown(&index, &cases);
    match &arguments.markdown {
        Some(file) => fs::write(file, &text).map_err(|error| format!("{}: {error}", file.display()))?,
        None => print!("{text}"),
    }
    let refused = cases
        .iter()
        .any(|case| matches!(case.result, CaseResult::Refused(_)));
    Ok(ExitCode::from(u8::from(refused)))
}

fn sku_case(loader: &Loader, unit: &Value) -> Result<Case, String> {
    let text = |field: &str| unit[field].as_str().unwrap_or("").to_owned();
    let result = match unit["config"].as_str() {
        Some(config) => loader.load_file(config, unit["lookup"].as_str())?,
        None => CaseResult::NotRendered(text("error")),
    };
    Ok(Case {
        path: text("path"),
        real: text("real"),
        group: text("model"),
        result,
    })
}

fn document_case(document: &str, line: usize, result: CaseResult) -> Case {
    Case {
        path: format!("{document}:{line}"),
        real: String::new(),
        group: document.to_owned(),
        result,
    }
}

fn read_json(file: &std::path::Path) -> Result<Value, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))
}
