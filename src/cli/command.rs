//! The command tree of xoff: the derived arguments, the options for the output format, and the version.

use clap::builder::PossibleValue;
use clap::{Arg, ArgAction, Command, CommandFactory};

use super::Arguments;

/// The version of xoff with the commit of its source, such as `0.1.0 (abcdef123456)`. Without a Git repository
/// at build time, this is the version alone.
const VERSION: &str = env!("XOFF_VERSION");

/// Returns the complete command tree. Each command that prints a result has `--format` and `--json`.
pub(super) fn build_command() -> Command {
    let command = add_format_options(Arguments::command());
    // Without a name, usage texts would show the name of the executable file. `bench compare` starts xoff as
    // `/proc/self/exe`.
    command.bin_name("xoff").version(VERSION)
}

/// Adds the missing option of the pair `--format` and `--json` to each command that has one of them.
///
/// Commands declare either the flag `json`, if they print text or JSON, or the option `format`, if they have
/// more formats. The option that a command does not declare sets the declared option.
fn add_format_options(command: Command) -> Command {
    let command = command.mut_subcommands(add_format_options);
    let has_flag = command
        .get_arguments()
        .any(|arg| arg.get_id() == "json" && matches!(arg.get_action(), ArgAction::SetTrue));
    let has_other_json = !has_flag && command.get_arguments().any(|arg| arg.get_id() == "json");
    let format = command.get_arguments().find(|arg| arg.get_id() == "format");
    let has_format = format.is_some();
    let has_json_format = format.is_some_and(|format| {
        let values = format.get_possible_values();
        values.iter().any(|value| value.get_name() == "json")
    });
    match (has_flag, has_format) {
        (true, false) => command
            .mut_arg("json", |json| {
                json.default_value_if("format", "json", "true")
                    .help("The same as --format json")
            })
            .arg(text_or_json_option()),
        (false, true) if has_json_format && !has_other_json => command
            .mut_arg("format", |format| format.default_value_if("json", "true", "json"))
            .arg(json_flag()),
        _ => command,
    }
}

/// Returns the option `--format` of commands that print text or JSON.
fn text_or_json_option() -> Arg {
    let values = [
        PossibleValue::new("table").alias("text").help("Text for people"),
        PossibleValue::new("json").help("JSON for programs"),
    ];
    Arg::new("format")
        .long("format")
        .value_name("FORM")
        .value_parser(values)
        .default_value("table")
        .conflicts_with("json")
        .help("Output format")
}

/// Returns the flag `--json` of commands with several output formats.
fn json_flag() -> Arg {
    Arg::new("json")
        .long("json")
        .action(ArgAction::SetTrue)
        .conflicts_with("format")
        .help("The same as --format json")
}

/// Returns the paths of all commands that the help shows, in the order of the help, such as `lab run`.
#[cfg(test)]
pub(super) fn visible_commands(command: &Command) -> Vec<String> {
    let mut paths = Vec::new();
    for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = subcommand.get_name();
        paths.push(name.to_owned());
        paths.extend(
            visible_commands(subcommand)
                .iter()
                .map(|path| format!("{name} {path}")),
        );
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands without JSON output, with the reason.
    const WITHOUT_JSON: &[(&str, &str)] = &[
        ("lab exec", "the output is that of the executed command"),
        (
            "conform device",
            "the output is the replies to the instrument, in JSON",
        ),
        ("clear", "these commands print nothing"),
        ("completions", "the output is a shell script"),
        ("man", "the output is a manual page"),
    ];

    /// Calls `visit` with the path of each command without subcommands, such as `lab run`.
    fn visit_leaves(command: &Command, path: &str, visit: &mut dyn FnMut(&str, &Command)) {
        for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            let path = format!("{path} {}", subcommand.get_name());
            if !subcommand.has_subcommands() {
                visit(path.trim_start(), subcommand);
            }
            visit_leaves(subcommand, &path, visit);
        }
    }

    #[test]
    fn each_command_that_prints_a_result_has_json_output() {
        let mut leaves = 0;
        let mut unused: Vec<&str> = WITHOUT_JSON.iter().map(|(path, _)| *path).collect();
        visit_leaves(&build_command(), "", &mut |path, command| {
            leaves += 1;
            let is_exception = |name: &str| path == name || path.starts_with(&format!("{name} "));
            if WITHOUT_JSON.iter().any(|(name, _)| is_exception(name)) {
                unused.retain(|name| !is_exception(name));
                return;
            }
            let find = |id: &str| command.get_arguments().find(|arg| arg.get_id() == id);
            let format = find("format").unwrap_or_else(|| panic!("{path} has no --format"));
            let values = format.get_possible_values();
            assert!(values.iter().any(|value| value.get_name() == "json"), "{path}");
            assert!(find("json").is_some(), "{path} has no --json");
        });
        assert!(leaves > 50, "{leaves} commands");
        assert!(unused.is_empty(), "no such command: {unused:?}");
    }

    #[test]
    fn both_options_select_json() {
        // A command with the flag, a command with the option, a command with both, and the optional file.
        for words in [
            "doctor",
            "show interfaces status --lab x",
            "lab check a.yml",
            "lab run a.yml",
            "config check a.json",
            "config get --lab x",
            "bench ndr a.json",
            "bench probe a.json",
            "lab compare a.yml --lb ecmp",
        ] {
            for option in ["", " --json", " --format json", " --format=json"] {
                let line = format!("xoff {words}{option}");
                let matches = build_command()
                    .try_get_matches_from(line.split(' '))
                    .unwrap_or_else(|error| panic!("{line}: {error}"));
                let is_json = !option.is_empty();
                assert_eq!(super::super::prints_json_result(&matches), is_json, "{line}");
                if line.contains("doctor") {
                    let leaf = matches.subcommand_matches("doctor").expect("doctor");
                    assert_eq!(leaf.get_flag("json"), is_json, "{line}");
                }
            }
            let both = format!("xoff {words} --json --format json");
            assert_eq!(
                build_command().try_get_matches_from(both.split(' ')).is_err(),
                !words.starts_with("lab compare"),
                "{both}"
            );
        }
    }

    #[test]
    fn the_version_has_the_commit_of_a_checkout() {
        let (number, commit) = VERSION.split_once(' ').unwrap_or((VERSION, ""));
        assert_eq!(number, env!("CARGO_PKG_VERSION"));
        if !std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(".git")
            .exists()
        {
            assert_eq!(commit, "", "a source archive has no commit");
            return;
        }
        let digits = commit.trim_matches(['(', ')']);
        assert_eq!(commit, format!("({digits})"));
        assert!(
            digits.len() == 12 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{VERSION}"
        );
    }

    #[test]
    fn the_command_tree_is_consistent() {
        build_command().debug_assert();
    }
}
