//! `xoff config check`: checks configuration files without a switch or its devices.

use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Value, json};

use super::super::{ConfigCheck, ConfigCheckFormat, args, output};
use xoff_config::{PORT_OPTION, Problem, Problems, ResolveOptions, load};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{InputLimit, count_noun, read_input_text};

/// The result of one file.
#[derive(Debug, Serialize)]
struct CheckedFile {
    file: String,
    valid: bool,
    /// Number of ports of the file and of `--port` together. `None` (JSON `null`) if the file is not valid.
    ports: Option<usize>,
    /// All errors, each in the form of [`error_object`].
    errors: Vec<Value>,
    notes: Vec<String>,
    /// The errors as text, at most 20 of them.
    #[serde(skip)]
    error_text: String,
}

/// Runs `xoff config check`.
pub(super) fn run(arguments: &ConfigCheck) -> Result<Exit, Failure> {
    let options = arguments.configuration.apply_to(ResolveOptions {
        ports: arguments.ports.clone(),
        port_source: Some(PORT_OPTION),
        ..ResolveOptions::default()
    })?;
    let files: Vec<CheckedFile> = match arguments.layers {
        true => vec![check_layers(&arguments.files, &options, &arguments.configuration)],
        false => arguments
            .files
            .chunks(1)
            .map(|file| check_layers(file, &options, &arguments.configuration))
            .collect(),
    };
    let all_valid = files.iter().all(|file| file.valid);
    match arguments.format {
        ConfigCheckFormat::Text => output::print(&format_results(&files)),
        ConfigCheckFormat::Json => output::print_json(&json!({ "valid": all_valid, "files": files })),
    }
    Ok(if all_valid { Exit::Ok } else { Exit::Configuration })
}

/// Checks files as layers of one configuration.
fn check_layers(
    paths: &[PathBuf],
    options: &ResolveOptions,
    input: &args::ConfigurationInput,
) -> CheckedFile {
    let read = |path: &PathBuf| {
        let file = path.display().to_string();
        match read_input_text(path, InputLimit::CONFIGURATION) {
            Ok(text) => Ok((file, text)),
            Err(error) => Err(Problems::for_text(
                &file,
                format!("the file cannot be read: {error}"),
            )),
        }
    };
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let file = names.join(" + ");
    let layers: Result<Vec<_>, Problems> = paths.iter().map(read).collect();
    let layers = layers.and_then(|layers| {
        input
            .check_memory(layers.iter().map(|(_, text)| text.as_str()))
            .map_err(|failure| Problems::for_text(&file, describe_refusal(&failure)))?;
        Ok(layers)
    });
    match layers.and_then(|layers| load(&args::borrow_layers(&layers), options)) {
        Ok(loaded) => CheckedFile {
            file,
            valid: true,
            ports: Some(loaded.resolved.config.ports.len()),
            errors: Vec::new(),
            notes: loaded.resolved.warnings,
            error_text: String::new(),
        },
        Err(problems) => CheckedFile {
            file,
            valid: false,
            ports: None,
            errors: problems.as_slice().iter().map(error_object).collect(),
            notes: Vec::new(),
            error_text: problems.to_string(),
        },
    }
}

/// Describes a refusal in one line.
fn describe_refusal(failure: &Failure) -> String {
    let fix = failure.fix.as_deref().unwrap_or_default();
    format!("{}; {fix}", failure.what)
}

/// Returns an error as a JSON object. Fields of [`Problem`] without a value are omitted.
fn error_object(problem: &Problem) -> Value {
    let mut object = serde_json::Map::new();
    for (name, text) in [
        ("source", &problem.source),
        ("table", &problem.table),
        ("key", &problem.key),
        ("field", &problem.field),
    ] {
        if !text.is_empty() {
            object.insert(name.to_owned(), Value::from(text.as_str()));
        }
    }
    for (name, text) in [("value", &problem.value), ("fix", &problem.fix)] {
        if let Some(text) = text {
            object.insert(name.to_owned(), Value::from(text.as_str()));
        }
    }
    object.insert("why".to_owned(), Value::from(problem.why.as_str()));
    object.insert("text".to_owned(), Value::from(problem.to_string()));
    Value::Object(object)
}

/// Returns the results as text.
fn format_results(files: &[CheckedFile]) -> String {
    let mut text = String::new();
    for file in files {
        // Writing to a string cannot fail.
        let _ = match file.ports {
            Some(ports) => writeln!(
                text,
                "{}: valid; {}, {}",
                file.file,
                count_noun(ports as u64, "port"),
                count_noun(file.notes.len() as u64, "note")
            ),
            None => writeln!(
                text,
                "{}: not valid; {}",
                file.file,
                count_noun(file.errors.len() as u64, "error")
            ),
        };
        for line in file.error_text.lines() {
            let _ = writeln!(text, "  error: {line}");
        }
        for note in &file.notes {
            let _ = writeln!(text, "  note: {note}");
        }
    }
    text
}
