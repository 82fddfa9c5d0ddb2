//! `xoff completions`: prints the completion script of a shell.

use clap::{ArgGroup, Command};
use clap_complete::{Shell, generate};

use super::{CompletionsArguments, command, output};
use xoff_telemetry::failure::{Exit, Failure};

/// Runs `xoff completions`.
pub(super) fn run(arguments: &CompletionsArguments) -> Result<Exit, Failure> {
    output::print(&completion_script(arguments.shell));
    Ok(Exit::Ok)
}

/// Returns the completion script of a shell.
fn completion_script(shell: Shell) -> String {
    let mut script = Vec::new();
    let mut visible = without_hidden_parts(&command::build_command());
    generate(shell, &mut visible, "xoff", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Returns the command tree without hidden commands and options. `clap_complete` does not leave them out itself, and
/// clap cannot remove a subcommand. The tree has only the parts that a completion script needs.
fn without_hidden_parts(command: &Command) -> Command {
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
    // Conditions of arguments, such as conflicts, can name groups.
    let groups = command.get_groups().map(|group| {
        let members = group.get_args().filter(|member| {
            let mut arguments = command.get_arguments();
            arguments.any(|argument| argument.get_id() == *member && !argument.is_hide_set())
        });
        ArgGroup::new(group.get_id().clone())
            .args(members.cloned())
            .multiple(true)
    });
    let subcommands = command.get_subcommands().filter(|command| !command.is_hide_set());
    // clap takes constant names. The command line builds this tree once, so that the copies may stay in memory.
    let keep = |text: &str| -> &'static str { text.to_owned().leak() };
    let mut visible = Command::new(keep(command.get_name()))
        .visible_aliases(command.get_visible_aliases().map(keep).collect::<Vec<_>>())
        .disable_help_subcommand(command.is_disable_help_subcommand_set())
        .args(arguments.cloned())
        .groups(groups)
        .subcommands(subcommands.map(without_hidden_parts));
    if let Some(about) = command.get_about() {
        visible = visible.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        visible = visible.version(keep(version));
    }
    visible
}

#[cfg(test)]
mod tests {
    use super::super::command::visible_commands;
    use super::*;

    #[test]
    fn completions_contain_all_commands() {
        let commands = visible_commands(&command::build_command());
        assert!(commands.len() > 50, "{} commands", commands.len());
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = completion_script(shell);
            for path in &commands {
                let name = path.split(' ').next_back().unwrap_or_default();
                let is_known = match shell {
                    // The script has a case for the last word of each command.
                    Shell::Bash => script.contains(&format!(",{name})\n")),
                    Shell::Zsh => script.contains(&format!("({name})\n")),
                    _ => script.contains(&format!("-a \"{name}\"")),
                };
                assert!(is_known, "{shell}: {path}\n{script}");
            }
            assert!(
                script.contains("--format") || script.contains("-l format"),
                "{shell}"
            );
        }
    }

    #[test]
    fn completions_contain_no_hidden_commands_and_options() {
        /// Adds the names of hidden commands and options, and of visible options.
        fn collect(command: &Command, hidden: &mut Vec<String>, visible: &mut Vec<String>) {
            for argument in command.get_arguments() {
                let names = argument.get_long().map(|name| format!("--{name}"));
                match argument.is_hide_set() {
                    true => hidden.extend(names),
                    false => visible.extend(names),
                }
            }
            for subcommand in command.get_subcommands() {
                match subcommand.is_hide_set() {
                    true => hidden.push(subcommand.get_name().to_owned()),
                    false => collect(subcommand, hidden, visible),
                }
            }
        }
        let (mut hidden, mut visible) = (Vec::new(), Vec::new());
        collect(&command::build_command(), &mut hidden, &mut visible);
        // An option can be hidden at one command and visible at another.
        hidden.retain(|name| !visible.contains(name));
        assert!(hidden.contains(&"__probe".to_owned()), "{hidden:?}");
        for shell in [
            Shell::Bash,
            Shell::Zsh,
            Shell::Fish,
            Shell::Elvish,
            Shell::PowerShell,
        ] {
            let script = completion_script(shell);
            for name in &hidden {
                let mut words =
                    script.split(|letter: char| !letter.is_alphanumeric() && !"_-".contains(letter));
                assert!(!words.any(|word| word == name), "{shell}: {name}");
                let of_fish = name.strip_prefix("--").map(|name| format!("-l {name} "));
                let is_in_fish = of_fish.is_some_and(|option| script.contains(&option));
                assert!(!is_in_fish, "{shell}: {name}");
            }
            // The script of fish has no options of commands below the second level.
            for name in visible.iter().filter(|_| shell != Shell::Fish) {
                assert!(script.contains(name.as_str()), "{shell}: no {name}");
            }
        }
    }
}
