//! `xoff config`: the configuration of a running switch.

mod check;

use std::path::Path;

use serde_json::Value;

use super::{ConfigCommand, output, show::connect};
use xoff_runtime::control::ConfigApplyReply;
use xoff_telemetry::failure::{Exit, Failure};

/// Largest length of a configuration file in bytes. The control socket refuses longer requests.
const FILE_BYTES_MAX: u64 = xoff_runtime::control::REQUEST_BYTES_MAX as u64 - 1024;

/// Runs `xoff config`.
pub(super) fn run(command: ConfigCommand) -> Result<Exit, Failure> {
    match command {
        ConfigCommand::Check(arguments) => return check::run(&arguments),
        ConfigCommand::Get { target, .. } => output::print_json(&connect(&target)?.config()?)?,
        ConfigCommand::Apply {
            file,
            dry_run,
            force,
            json,
            target,
        } => {
            // The file is checked first, so an invalid file is reported even if no switch runs.
            let config = read_config_file(&file)?;
            let add_file_name = |failure: Failure| match failure.exit {
                Exit::Configuration => Failure {
                    location: Some(match failure.location {
                        Some(place) => format!("{}: {place}", file.display()),
                        None => file.display().to_string(),
                    }),
                    ..failure
                },
                _ => failure,
            };
            let applied = connect(&target)?
                .apply_config(config, dry_run, force)
                .map_err(add_file_name)?;
            for warning in &applied.warnings {
                output::print_note(&format!("warning: {warning}"));
            }
            for loss in &applied.losses {
                output::print_note(&format!("warning: {loss}"));
            }
            for moved in &applied.moves {
                output::print_note(&format!("note: {moved}"));
            }
            match json {
                true => output::print_json(&applied)?,
                false => output::print(&format_changes(&applied, dry_run))?,
            }
        }
    }
    Ok(Exit::Ok)
}

/// Returns one line for each change, followed by a summary line.
fn format_changes(applied: &ConfigApplyReply, dry_run: bool) -> String {
    let mut text: String = applied
        .changes
        .iter()
        .map(|change| format!("{change}\n"))
        .collect();
    text.push_str(&match (applied.changes.len(), dry_run) {
        (0, _) => "nothing changes\n".to_owned(),
        (count, true) => format!("{count} changes, none made (--dry-run)\n"),
        (count, false) => format!("{count} changes made\n"),
    });
    text
}

/// Reads a configuration file.
///
/// # Errors
/// The file cannot be read, is too long, or is not a JSON object. The switch checks the content later.
fn read_config_file(path: &Path) -> Result<Value, Failure> {
    let failure = |what: &str| Failure::configuration(what).at(path.display().to_string());
    let metadata = std::fs::metadata(path)
        .map_err(|error| failure("the configuration cannot be read").because(error))?;
    if metadata.len() > FILE_BYTES_MAX {
        return Err(failure("the configuration is too long")
            .because(format!("at most {FILE_BYTES_MAX} bytes are read")));
    }
    let text =
        std::fs::read(path).map_err(|error| failure("the configuration cannot be read").because(error))?;
    let value: Value = serde_json::from_slice(&text).map_err(|error| {
        failure("the configuration is not JSON")
            .because(error)
            .fix("check it with `python3 -m json.tool FILE`")
    })?;
    if !value.is_object() {
        return Err(failure("the configuration is not a JSON object")
            .fix("write tables, as in {\"PORT\": {\"Ethernet0\": {\"speed\": \"10000\"}}}"));
    }
    Ok(value)
}
