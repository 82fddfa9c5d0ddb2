//! `xoff config`: the configuration of a running switch.

mod check;

use std::path::Path;

use serde_json::{Value, json};

use super::{ConfigChange, ConfigCommand, ConfigInterface, InterfaceChange, output, show::connect};
use xoff_control::ConfigApplyReply;
use xoff_telemetry::count_noun;
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{InputLimit, read_input};

/// The limit of a configuration file. The control API refuses longer requests.
const FILE_LIMIT: InputLimit = InputLimit {
    kind: "a configuration for a running switch",
    bytes_max: xoff_control::REQUEST_BYTES_MAX as u64,
};

/// Runs `xoff config`.
pub(super) fn run(command: ConfigCommand) -> Result<Exit, Failure> {
    match command {
        ConfigCommand::Check(arguments) => return check::run(&arguments),
        ConfigCommand::Get { target, written, .. } => {
            let mut client = connect(&target)?;
            output::print_json(&match written {
                true => client.written_config()?,
                false => client.config()?,
            });
        }
        ConfigCommand::Apply { file, change } => {
            // The file is checked first, so an invalid file is reported even if no switch runs.
            let config = read_config_file(&file)?;
            let applied = connect(&change.target)?.apply_config(config, change.dry_run, change.force);
            print_applied(
                &applied.map_err(|failure| add_file_name(failure, &file))?,
                &change,
            );
        }
        ConfigCommand::Patch { file, change } => {
            let patch = read_config_file(&file)?;
            let applied = connect(&change.target)?.patch_config(&patch, change.dry_run, change.force);
            print_applied(
                &applied.map_err(|failure| add_file_name(failure, &file))?,
                &change,
            );
        }
        ConfigCommand::Set {
            entry,
            fields,
            change,
        } => {
            let mut client = connect(&change.target)?;
            let patch = entry.patch(&fields, &client.config()?);
            print_applied(
                &client.patch_config(&patch, change.dry_run, change.force)?,
                &change,
            );
        }
        ConfigCommand::Interface(ConfigInterface::Shutdown(interface)) => {
            set_admin_status(&interface, "down")?
        }
        ConfigCommand::Interface(ConfigInterface::Startup(interface)) => set_admin_status(&interface, "up")?,
    }
    Ok(Exit::Ok)
}

/// Sets the administrative state of a port or LAG.
fn set_admin_status(interface: &InterfaceChange, status: &str) -> Result<(), Failure> {
    let InterfaceChange { name, change } = interface;
    let mut client = connect(&change.target)?;
    let interfaces = client.interfaces()?;
    let ports: Vec<&str> = interfaces.ports.iter().map(|port| port.name.as_str()).collect();
    let lags: Vec<&str> = interfaces.lags.iter().map(|lag| lag.name.as_str()).collect();
    let table = match (ports.contains(&name.as_str()), lags.contains(&name.as_str())) {
        (true, _) => "PORT",
        (false, true) => "PORTCHANNEL",
        (false, false) => {
            return Err(
                Failure::usage(format!("the switch has no port or LAG {name:?}")).fix(format!(
                    "its ports and LAGs are {}",
                    [ports, lags].concat().join(", ")
                )),
            );
        }
    };
    let patch = json!({ table: { name: { "admin_status": status } } });
    print_applied(
        &client.patch_config(&patch, change.dry_run, change.force)?,
        change,
    );
    Ok(())
}

/// Adds the name of the file to the location of an error of a configuration.
fn add_file_name(failure: Failure, file: &Path) -> Failure {
    match failure.exit {
        Exit::Configuration => Failure {
            location: Some(match failure.location {
                Some(location) => format!("{}: {location}", file.display()),
                None => file.display().to_string(),
            }),
            ..failure
        },
        _ => failure,
    }
}

/// Prints the result of a change.
fn print_applied(applied: &ConfigApplyReply, change: &ConfigChange) {
    for warning in &applied.warnings {
        output::print_note(&format!("warning: {warning}"));
    }
    for loss in &applied.losses {
        output::print_note(&format!("warning: {loss}"));
    }
    for moved in &applied.moves {
        output::print_note(&format!("note: {moved}"));
    }
    match change.json {
        true => output::print_json(applied),
        false => output::print(&format_changes(applied, change.dry_run)),
    }
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
        (count, true) => format!("{}, none made (--dry-run)\n", count_noun(count as u64, "change")),
        (count, false) => format!("{} made\n", count_noun(count as u64, "change")),
    });
    text
}

/// Reads a configuration file.
///
/// # Errors
/// The file cannot be read, is too long, or is not a JSON object. The switch checks the content later.
fn read_config_file(path: &Path) -> Result<Value, Failure> {
    let failure = |what: &str| Failure::configuration(what).at(path.display().to_string());
    let text = read_input(path, FILE_LIMIT).map_err(|error| {
        failure("the configuration cannot be read")
            .because(error)
            .fix("give the path of a JSON file with tables of the configuration, or `-` for standard input")
    })?;
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
