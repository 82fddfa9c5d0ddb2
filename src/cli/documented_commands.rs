//! Tests that the commands of README, docs and help texts fit the labs that they name.

use std::path::{Path, PathBuf};

use clap::{Command, FromArgMatches};
use xoff_lab::{FieldOption, FieldSetting, FieldValue, load_with_values, plan::TimeMode};

use super::command::build_command;
use super::{Arguments, LabCommand};

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns all documents with commands: their names and texts.
fn documents() -> Vec<(String, String)> {
    let docs = std::fs::read_dir(repository().join("docs")).expect("the folder of the documents");
    let mut files: Vec<PathBuf> = docs.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|ext| ext == "md"));
    files.extend(["README.md", "testbeds/published/README.md"].map(|name| repository().join(name)));
    files.sort();
    let mut documents: Vec<(String, String)> = files
        .iter()
        .map(|file| {
            let text =
                std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            (file.display().to_string(), text)
        })
        .collect();
    collect_help(&build_command(), &mut documents);
    documents
}

/// Adds the text below the options of each command.
fn collect_help(command: &Command, documents: &mut Vec<(String, String)>) {
    if let Some(text) = command.get_after_help() {
        documents.push((format!("help of {}", command.get_name()), text.to_string()));
    }
    command
        .get_subcommands()
        .for_each(|subcommand| collect_help(subcommand, documents));
}

/// Returns the command of a line from the word `lab` on, without the explanation at its end.
fn lab_command(line: &str) -> Option<&str> {
    let starts = ["xoff lab ", "-- lab "].iter().filter_map(|start| {
        let at = line.find(start)?;
        Some(&line[at + start.len() - 4..])
    });
    let command = starts.min_by_key(|command| std::cmp::Reverse(command.len()))?;
    let ends = ["   ", "`", " |", " >", " &&", " #"];
    let end = ends.iter().filter_map(|end| command.find(end)).min();
    Some(command[..end.unwrap_or(command.len())].trim_end())
}

/// Returns the lab files and the changed fields of a command that names existing lab files. Returns `None` for
/// other commands, such as those with a placeholder for the file.
fn labs_and_settings(command: &str) -> Option<(Vec<PathBuf>, Vec<FieldSetting>, bool)> {
    let names_a_lab = |word: &str| word.ends_with(".xoff.yml") && repository().join(word).is_file();
    if !command.split_whitespace().any(names_a_lab) {
        return None;
    }
    let words = ["xoff"].into_iter().chain(command.split_whitespace());
    let matches = build_command()
        .try_get_matches_from(words)
        .unwrap_or_else(|error| panic!("{command}: {error}"));
    let arguments = Arguments::from_arg_matches(&matches).expect("the same parser");
    let super::Command::Lab(lab) = arguments.command else {
        panic!("{command} is no command of xoff lab");
    };
    Some(match lab {
        LabCommand::Run(run) => (vec![run.file], run.in_virtual_time.sweep.set, run.virtual_time),
        LabCommand::Compare(compare) => {
            let settings = compare
                .set
                .into_iter()
                .chain(compare.by)
                .chain(compare.lb)
                .collect();
            (vec![compare.file], settings, compare.virtual_time)
        }
        LabCommand::Up(up) => (vec![up.file], Vec::new(), false),
        LabCommand::Check(check) => (check.files, Vec::new(), true),
        _ => return None,
    })
}

#[test]
fn documented_lab_commands_fit_their_labs() {
    let mut with_settings = 0;
    for (document, text) in documents() {
        for command in text.lines().filter_map(lab_command) {
            let Some((files, settings, is_virtual)) = labs_and_settings(command) else {
                continue;
            };
            let time = if is_virtual {
                TimeMode::Virtual
            } else {
                TimeMode::RealTime
            };
            with_settings += usize::from(!settings.is_empty());
            for file in files.iter().map(|file| repository().join(file)) {
                // Each value of each field must fit the lab.
                let values = settings.iter().flat_map(|setting| {
                    setting.values.iter().map(|value| FieldValue {
                        path: setting.path.clone(),
                        value: value.clone(),
                        option: FieldOption::Set,
                    })
                });
                let values: Vec<FieldValue> = values.collect();
                for value in values.iter().map(std::slice::from_ref).chain([&[][..]]) {
                    load_with_values(Path::new(&file), value, time)
                        .unwrap_or_else(|failure| panic!("{document}: {command}: {failure}"));
                }
            }
        }
    }
    assert!(with_settings >= 4, "only {with_settings} commands change a field");
}

#[test]
fn commands_are_found_in_lines() {
    for (line, expected) in [
        (
            "    xoff lab run a.yml --virtual --format nccl      the table",
            Some("lab run a.yml --virtual --format nccl"),
        ),
        ("    cargo run --release -- lab run a.yml", Some("lab run a.yml")),
        (
            "`xoff lab check a.yml --virtual` runs it",
            Some("lab check a.yml --virtual"),
        ),
        ("xoff lab check a.yml > b", Some("lab check a.yml")),
        ("xoff doctor", None),
    ] {
        assert_eq!(lab_command(line), expected);
    }
}
