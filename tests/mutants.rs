//! Random changes of the input files of this repository: no command panics, hangs or needs too much memory.
//!
//! `cargo run --release -p mutator` runs more mutants and saves those that fail.
#![allow(
    clippy::print_stdout,
    reason = "the output of a test shows its seed and its figures"
)]

use std::path::Path;

use mutator::{Corpus, MutantLimits, MutantRunner, create_mutant};

/// The seed of the mutants of this test.
const SEED: u64 = 32;
/// The number of mutants of this test.
const MUTANTS: u64 = 200;

#[test]
fn mutants_of_the_input_files_end_as_documented() {
    let corpus = Corpus::of_repository(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("the repository");
    // Fewer events than the command, so that the test is short.
    let limits = MutantLimits {
        until: "50us",
        events_max: 20_000,
    };
    let mut runner = MutantRunner::new(Path::new(env!("CARGO_BIN_EXE_xoff")), limits).expect("a folder");
    println!("seed {SEED}, {MUTANTS} mutants of {} files", corpus.files().len());
    let mut failures = Vec::new();
    for number in 0..MUTANTS {
        let mutant = create_mutant(&corpus, SEED, number);
        for finding in runner.run(&mutant).expect("the program starts") {
            failures.push(format!(
                "mutant {number} of {} ({}): {}: xoff {}\n{}",
                mutant.file.path.display(),
                mutant.mutations.join(", "),
                finding.what,
                finding.command,
                finding.stderr
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let codes = &runner.counts.exit_codes;
    assert!(codes.contains_key(&0) && codes.contains_key(&4), "{codes:?}");
}
