//! Runs mutants of the input files of this repository through a build of xoff.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for developers: its result is the text that it prints"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;
use mutator::{Corpus, MutantLimits, MutantRunner, create_mutant};

/// Changes input files of xoff at random and reports every command that panics, ends by a signal, or needs too much
/// processor time or memory
#[derive(Debug, Parser)]
struct Arguments {
    /// The program to test
    #[arg(long, default_value = "target/release/xoff")]
    program: PathBuf,
    /// Number of mutants
    #[arg(long, default_value_t = 1_000)]
    mutants: u64,
    /// Number of the first mutant
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Seed of the mutants
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of mutants that run in parallel
    #[arg(long, default_value_t = 1)]
    jobs: u64,
    /// Folder for the mutants that fail
    #[arg(long, default_value = "mutants")]
    save: PathBuf,
    /// The repository with the input files
    #[arg(long, default_value = ".")]
    repository: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.jobs {
        0 | 1 => run_mutants(&arguments),
        _ => run_parallel(&arguments),
    };
    match result {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(3)
        }
    }
}

/// Runs the mutants one after the other. Returns the number of mutants that failed.
fn run_mutants(arguments: &Arguments) -> std::io::Result<u64> {
    let corpus = Corpus::of_repository(&arguments.repository)?;
    let mut runner = MutantRunner::new(&arguments.program, MutantLimits::default())?;
    println!("seed {}, {} files", arguments.seed, corpus.files().len());
    let mut failed = 0;
    for number in arguments.first..arguments.first.saturating_add(arguments.mutants) {
        let mutant = create_mutant(&corpus, arguments.seed, number);
        let findings = runner.run(&mutant)?;
        if findings.is_empty() {
            continue;
        }
        failed += 1;
        let path = save(&arguments.save, arguments.seed, number, &mutant)?;
        println!(
            "mutant {number} of {}: {}",
            mutant.file.path.display(),
            mutant.mutations.join(", ")
        );
        for finding in findings {
            println!(
                "  {}: xoff {}\n  {}",
                finding.what, finding.command, finding.stderr
            );
        }
        println!("  saved as {}", path.display());
    }
    let counts = &runner.counts;
    println!(
        "{failed} of {} mutants failed; exit codes {:?}; at most {} MiB and {:.1?} of processor time, {:.0?} in total",
        arguments.mutants,
        counts.exit_codes,
        counts.rss_bytes_max >> 20,
        counts.cpu_time_max,
        counts.cpu_time
    );
    Ok(failed)
}

/// Writes a mutant to the folder for failures.
fn save(folder: &Path, seed: u64, number: u64, mutant: &mutator::Mutant<'_>) -> std::io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let path = folder.join(format!("{seed}-{number}.{}", mutant.file.kind.extension()));
    fs::write(&path, &mutant.bytes)?;
    Ok(path)
}

/// Divides the mutants among processes. Returns the number of processes that found failures.
fn run_parallel(arguments: &Arguments) -> std::io::Result<u64> {
    let program = std::env::current_exe()?;
    let share = arguments.mutants.div_ceil(arguments.jobs);
    let mut children = Vec::new();
    for job in 0..arguments.jobs {
        let first = job * share;
        let count = share.min(arguments.mutants.saturating_sub(first));
        let numbers = [arguments.first + first, count, arguments.seed].map(|number| number.to_string());
        let child = Command::new(&program)
            .args([
                "--first",
                &numbers[0],
                "--mutants",
                &numbers[1],
                "--seed",
                &numbers[2],
            ])
            .arg("--program")
            .arg(&arguments.program)
            .arg("--save")
            .arg(&arguments.save)
            .arg("--repository")
            .arg(&arguments.repository)
            .spawn()?;
        children.push(child);
    }
    let mut failed = 0;
    for mut child in children {
        failed += u64::from(!child.wait()?.success());
    }
    Ok(failed)
}
