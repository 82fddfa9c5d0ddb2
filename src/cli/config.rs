//! `xoff config`: the configuration of a running switch.

mod check;

use std::path::Path;
use std::str::FromStr;

use serde_json::{Map, Value, json};

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
        ConfigCommand::Get { target, .. } => output::print_json(&connect(&target)?.config()?),
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

/// The name of an entry of the configuration: `TABLE|KEY`. A key may contain further bars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryName {
    table: String,
    key: String,
}

impl FromStr for EntryName {
    type Err = String;

    fn from_str(text: &str) -> Result<EntryName, String> {
        match text.split_once('|') {
            Some((table, key)) if !table.is_empty() && !key.is_empty() => Ok(EntryName {
                table: table.to_owned(),
                key: key.to_owned(),
            }),
            _ => Err(
                "write the table and the key with a bar between them, such as 'PORT|Ethernet4'".to_owned(),
            ),
        }
    }
}

impl EntryName {
    /// Returns the merge patch that sets fields of this entry. A field with a list in `current` gets a list.
    fn patch(&self, fields: &[FieldValue], current: &Value) -> Value {
        let entry = &current[&self.table][&self.key];
        let value = |field: &FieldValue| match entry[&field.name] {
            Value::Array(_) => field.value.split(',').filter(|item| !item.is_empty()).collect(),
            _ => Value::from(field.value.as_str()),
        };
        let fields: Map<String, Value> = fields
            .iter()
            .map(|field| (field.name.clone(), value(field)))
            .collect();
        json!({ &self.table: { &self.key: fields } })
    }
}

/// A field and its new value: `FIELD=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldValue {
    name: String,
    value: String,
}

impl FromStr for FieldValue {
    type Err = String;

    fn from_str(text: &str) -> Result<FieldValue, String> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok(FieldValue {
                name: name.to_owned(),
                value: value.to_owned(),
            }),
            _ => Err("write the field and its value with an equals sign, such as speed=10000".to_owned()),
        }
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
    let text = read_input(path, FILE_LIMIT)
        .map_err(|error| failure("the configuration cannot be read").because(error))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_makes_a_merge_patch_of_one_entry() {
        let current = json!({"ACL_TABLE": {"A": {"ports": ["Ethernet0"], "stage": "ingress"}}});
        let patch = |entry: &str, fields: &[&str]| {
            let fields: Vec<FieldValue> = fields.iter().map(|field| field.parse().unwrap()).collect();
            entry.parse::<EntryName>().unwrap().patch(&fields, &current)
        };
        assert_eq!(
            patch("BUFFER_PG|Ethernet0|3-4", &["profile=p", "x=a=b", "y="]),
            json!({"BUFFER_PG": {"Ethernet0|3-4": {"profile": "p", "x": "a=b", "y": ""}}})
        );
        assert_eq!(
            patch("ACL_TABLE|A", &["ports=Ethernet0,Ethernet4", "stage=egress"]),
            json!({"ACL_TABLE": {"A": {"ports": ["Ethernet0", "Ethernet4"], "stage": "egress"}}})
        );
        assert!("PORT".parse::<EntryName>().is_err() && "|x".parse::<EntryName>().is_err());
        assert!("speed".parse::<FieldValue>().is_err() && "=1".parse::<FieldValue>().is_err());
    }
}
