//! `xoff completions`: prints the completion script of a shell.

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
    generate(shell, &mut command::build_command(), "xoff", &mut script);
    String::from_utf8_lossy(&script).into_owned()
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
}
