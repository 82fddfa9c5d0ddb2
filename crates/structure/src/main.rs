//! Checks the structure of the workspace.
//!
//! `cargo run -p structure -- lines` counts the production lines of every member.
//! `cargo run -p structure -- cycles` prints the import cycles between modules and between files.
//! `cargo run -p structure -- words` prints terms, documentation comments and lines that break the rules.
//! `cargo run -p structure -- check` runs every check and prints the number of findings of each.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for developers")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use structure::check::{self, Check};
use structure::cycles::{self, ImportCycle};
use structure::finding::Finding;
use structure::lines;
use structure::workspace::Workspace;

/// Checks the structure of the workspace.
#[derive(Debug, Parser)]
#[command(name = "structure")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
enum Command {
    /// Count the production lines of every member, without comments, blank lines and tests.
    Lines(LineCountArguments),
    /// Print the import cycles between top-level modules and between files.
    Cycles(ImportCycleArguments),
    /// Print the terms, documentation comments and lines that break the rules.
    Words(WorkspaceArguments),
    /// Run every check and print the number of findings of each.
    Check(CheckArguments),
}

/// The workspace to read.
#[derive(Debug, Args)]
struct WorkspaceArguments {
    /// Folder of the workspace. Default: this repository.
    root: Option<PathBuf>,
}

/// Arguments of `lines`.
#[derive(Debug, Args)]
struct LineCountArguments {
    #[command(flatten)]
    root: WorkspaceArguments,
    /// Print the lines of every file too.
    #[arg(long)]
    files: bool,
}

/// Arguments of `cycles`.
#[derive(Debug, Args)]
struct ImportCycleArguments {
    #[command(flatten)]
    root: WorkspaceArguments,
    /// Print every import inside a cycle, not only the imports of a shortest cycle.
    #[arg(long)]
    imports: bool,
    /// Print the cycles of this package only.
    #[arg(long, value_name = "NAME")]
    package: Option<String>,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
struct CheckArguments {
    #[command(flatten)]
    root: WorkspaceArguments,
    /// Print the findings of this check only. Default: only the numbers of findings.
    #[arg(long, value_name = "CHECK")]
    only: Option<Check>,
}

impl WorkspaceArguments {
    fn path(&self) -> PathBuf {
        self.root.clone().unwrap_or_else(check::repository_root)
    }
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Lines(arguments) => print_lines(&arguments),
        Command::Cycles(arguments) => print_cycles(&arguments),
        Command::Words(root) => print_text_findings(&root.path()),
        Command::Check(arguments) => print_checks(&arguments),
    };
    result.unwrap_or_else(|message| {
        eprintln!("structure: {message}");
        ExitCode::from(3)
    })
}

fn print_lines(arguments: &LineCountArguments) -> Result<ExitCode, String> {
    let members = lines::count_lines(&Workspace::open(&arguments.root.path())?)?;
    for member in &members {
        let kind = if member.is_tool { "  tool" } else { "" };
        println!("{:>8}  {}{kind}", member.total(), member.name);
        for (path, count) in member.files.iter().filter(|_| arguments.files) {
            println!("{count:>8}    {}", path.display());
        }
    }
    let without_tools = members
        .iter()
        .filter(|member| !member.is_tool)
        .map(lines::PackageLineCount::total);
    println!("{:>8}  total without tools", without_tools.sum::<usize>());
    println!(
        "{:>8}  total",
        members.iter().map(lines::PackageLineCount::total).sum::<usize>()
    );
    Ok(ExitCode::SUCCESS)
}

fn print_cycles(arguments: &ImportCycleArguments) -> Result<ExitCode, String> {
    let crates = cycles::find_cycles(&Workspace::open(&arguments.root.path())?)?;
    let selected = |name: &str| arguments.package.as_ref().is_none_or(|package| package == name);
    for own in crates.iter().filter(|own| selected(&own.name)) {
        let (modules, files) = (own.modules.len(), own.files.len());
        println!(
            "{}: {modules} between top-level modules, {files} between files",
            own.name
        );
        for cycle in &own.modules {
            print_cycle("modules", cycle, arguments.imports);
        }
        for cycle in &own.files {
            print_cycle("files", cycle, arguments.imports);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print_cycle(kind: &str, cycle: &ImportCycle, all: bool) {
    println!("  {kind} ({}): {}", cycle.members.len(), cycle.members.join(", "));
    for import in if all { &cycle.imports } else { &cycle.steps } {
        println!("    {import}");
    }
}

fn print_text_findings(root: &Path) -> Result<ExitCode, String> {
    let workspace = Workspace::open(root)?;
    let mut clean = true;
    for check in [Check::Terms, Check::Docs, Check::Lines] {
        let findings = check.findings(&workspace)?;
        print_findings(&findings);
        println!("{check}: {} findings", findings.len());
        clean &= findings.is_empty();
    }
    Ok(exit_code(clean))
}

fn print_checks(arguments: &CheckArguments) -> Result<ExitCode, String> {
    let workspace = Workspace::open(&arguments.root.path())?;
    let mut clean = true;
    for check in Check::ALL {
        if arguments.only.is_some_and(|only| only != check) {
            continue;
        }
        let findings = check.findings(&workspace)?;
        if arguments.only.is_some() {
            print_findings(&findings);
        }
        let state = if findings.is_empty() { "ok" } else { "FAILED" };
        println!("{state:<6}  {:>5}  {check}: {}", findings.len(), check.rule());
        clean &= findings.is_empty();
    }
    Ok(exit_code(clean))
}

fn print_findings(findings: &[Finding]) {
    for finding in findings {
        println!("{finding}");
    }
}

fn exit_code(clean: bool) -> ExitCode {
    if clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
