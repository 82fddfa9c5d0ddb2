//! `xoff man`: manual pages of xoff and its commands.

use std::io;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::{ManArguments, command, output};
use xoff_lab::plot::create_folder;
use xoff_telemetry::failure::{Exit, Failure};

/// Runs `xoff man`.
pub(super) fn run(arguments: &ManArguments) -> Result<Exit, Failure> {
    let root = built_command();
    let Some(folder) = &arguments.dir else {
        output::print(&render_all_commands(&root));
        return Ok(Exit::Ok);
    };
    create_folder("--dir", folder)?;
    let mut written = Ok(());
    visit_commands(&root, &mut |command| {
        if written.is_ok() {
            let path = folder.join(format!("{}.1", page_name(command)));
            written = xoff_telemetry::write_result_file("--dir", &path, &render_page(command));
        }
    });
    written?;
    Ok(Exit::Ok)
}

/// Returns the command tree with the full names of all commands.
fn built_command() -> Command {
    let mut root = command::build_command().disable_help_subcommand(true);
    root.build();
    root
}

/// Returns the name of the page of a command, such as `xoff-lab-run`.
fn page_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or(command.get_name())
}

/// Calls `visit` for a command and for all its subcommands that the help shows.
fn visit_commands(command: &Command, visit: &mut dyn FnMut(&Command)) {
    visit(command);
    for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        visit_commands(subcommand, visit);
    }
}

/// Returns the page of one command.
fn render_page(command: &Command) -> String {
    let mut page = Vec::new();
    // Writing to memory does not fail.
    let _ = Man::new(command.clone()).render(&mut page);
    String::from_utf8_lossy(&page).into_owned()
}

/// Returns one page with the main command and a section for each subcommand.
fn render_all_commands(root: &Command) -> String {
    let mut page = Vec::new();
    // Writing to memory does not fail.
    let _ = write_all_commands(root, &mut page);
    String::from_utf8_lossy(&page).into_owned()
}

fn write_all_commands(root: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let main = Man::new(root.clone());
    main.render_title(page)?;
    main.render_name_section(page)?;
    main.render_synopsis_section(page)?;
    main.render_description_section(page)?;
    main.render_options_section(page)?;
    main.render_extra_section(page)?;
    let mut sections = Ok(());
    visit_commands(root, &mut |command| {
        if command.get_name() != root.get_name() && sections.is_ok() {
            sections = write_command_section(command, page);
        }
    });
    sections?;
    main.render_version_section(page)
}

/// Writes the section of a subcommand. The sections of its own page become subsections.
fn write_command_section(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut heading = Roff::default();
    heading.control("SH", [name]);
    heading.text([roman(about)]);
    heading.to_writer(page)?;
    let man = Man::new(command.clone());
    let mut sections = Vec::new();
    man.render_synopsis_section(&mut sections)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut sections)?;
    }
    man.render_extra_section(&mut sections)?;
    let text = String::from_utf8_lossy(&sections);
    page.extend_from_slice(text.replace("\n.SH ", "\n.SS ").as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::{Command as Process, Stdio};

    use super::super::command::visible_commands;
    use super::*;

    /// Formats pages with `mandoc` or `man`. Returns `None` if both are missing.
    fn format_page(page: &str) -> Option<String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("page.1");
        std::fs::write(&path, page).expect("a file");
        let programs: [(&str, &[&str]); 2] = [
            ("mandoc", &["-T", "ascii", "-W", "error"]),
            ("man", &["--warnings", "-l"]),
        ];
        programs.iter().find_map(|(program, arguments)| {
            let output = Process::new(program)
                .args(*arguments)
                .arg(&path)
                .env("MANPAGER", "cat")
                .env("MANWIDTH", "100")
                .stdin(Stdio::null())
                .output()
                .ok()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                output.status.success() && errors.is_empty(),
                "{program}: {errors}"
            );
            // A terminal shows a letter, a backspace and the same letter as bold.
            let mut plain = String::new();
            for c in text.chars() {
                match c {
                    '\u{8}' => drop(plain.pop()),
                    c => plain.push(c),
                }
            }
            Some(plain)
        })
    }

    #[test]
    fn the_page_has_a_section_for_each_command() {
        let page = render_all_commands(&built_command());
        for path in visible_commands(&command::build_command()) {
            assert!(page.contains(&format!(".SH \"xoff {path}\"\n")), "{path}: {page}");
        }
    }

    #[test]
    fn each_command_has_a_page_of_its_own() {
        let mut names = Vec::new();
        visit_commands(&built_command(), &mut |command| {
            assert!(
                render_page(command).contains(".SH SYNOPSIS"),
                "{}",
                page_name(command)
            );
            names.push(page_name(command).to_owned());
        });
        let expected = visible_commands(&command::build_command());
        let expected = expected
            .iter()
            .map(|path| format!("xoff-{}", path.replace(' ', "-")));
        assert_eq!(names, [vec!["xoff".to_owned()], expected.collect()].concat());
    }

    #[test]
    fn man_renders_the_pages() {
        let root = built_command();
        let Some(text) = format_page(&render_all_commands(&root)) else {
            println!("skipped: neither mandoc nor man is installed");
            return;
        };
        for part in ["xoff lab run", "--virtual", "Exit codes:"] {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
        visit_commands(&root, &mut |command| {
            let text = format_page(&render_page(command)).expect("formatted before");
            assert!(text.contains("SYNOPSIS"), "{}: {text}", page_name(command));
        });
    }
}
